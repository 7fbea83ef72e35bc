"""Whether the source is the one that the log speaks of, by the line that failed."""

from __future__ import annotations

from dataclasses import dataclass

from triage.model import Diagnosis, Location


@dataclass(frozen=True)
class Mismatch:
    """The place that the traceback names, and whether its text stands elsewhere in that function of the source."""

    location: Location
    moved: bool

    @property
    def text(self) -> str:
        return f"{self.location.file}:{self.location.line} does not hold the line that failed"


def find_mismatch(diagnosis: Diagnosis) -> Mismatch | None:
    """None where the source holds the failing line as the traceback prints it, or where there is nothing to compare.

    Outside the validation of arguments too: nothing is concluded from the source there.
    """
    if diagnosis.failure is None or diagnosis.path is None or diagnosis.cause is None or diagnosis.cause.category != "argument":
        return None
    frame = next((f for f in reversed(diagnosis.failure.frames) if f.file), None)
    if frame is None or frame.file is None:
        return None
    site = diagnosis.path.sites[-1] if diagnosis.path.sites else None
    names = [n.rpartition(".")[2] for n in (frame.function, site.function if site else "")]
    own = site is not None and site.location.file == frame.file and names[0] == names[1]
    if site is None or not own:
        return Mismatch(Location(frame.file, frame.line), False)
    return None if site.matches else Mismatch(Location(frame.file, frame.line), site.at != frame.line)
