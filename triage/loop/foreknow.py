"""What a launch would do, as evaluation foresees it, held against the validation that is installed on the host."""

from __future__ import annotations

from dataclasses import replace

from triage.analysis.failure import find_failure
from triage.analysis.foresee import foresee
from triage.analysis.log import read_log
from triage.loop.edits import is_same_patch
from triage.loop.settle import NOTED, Rehearse, Settled, capture_rehearsed, make_diagnose, settle_patches
from triage.model import Cause, Diagnosis, Failure, Foreseen, Foresight, Rehearsed, Unknown
from triage.protocols import Capture, EngineProfile


def foresee_on_host(capture: Capture, profile: EngineProfile, rehearse: Rehearse) -> Foresight:
    """The foresight of a launch, its patches and its end confirmed by the host's own validation where that can be asked.

    What the host says stands: a launch that it lets pass passes, one that it refuses fails as it says, and of the patches
    those are proposed that it lets pass. Where it cannot be asked, the reason is an Unknown beside what was foreseen.
    """
    return _Prophet(capture, profile, rehearse).tell()


class _Prophet:
    def __init__(self, capture: Capture, profile: EngineProfile, rehearse: Rehearse) -> None:
        self.capture = capture
        self.profile = profile
        self.rehearse = rehearse
        self.diagnose = make_diagnose(profile)

    def tell(self) -> Foresight:
        foresight = foresee(self.capture, self.profile)
        first = foresight.failures[0] if foresight.failures else None
        expected = Diagnosis(foresight.outcome, None, None, first.cause if first is not None else None, foresight.patches)
        settled = settle_patches(self.capture, expected, self.diagnose, self.rehearse)
        typed = settled.as_typed
        if typed is None or typed.outcome not in ("passes", "fails", "usage"):
            return replace(foresight, unknowns=(*settled.diagnosis.unknowns, *foresight.unknowns))
        if typed.outcome == "passes":
            return self.let_pass(foresight, settled)
        ran = capture_rehearsed(self.capture, typed)
        met = find_failure(read_log(ran.log), typed.exit, self.profile.package, "failed", self.profile.fatal_marks)
        if foresight.patches and first is not None and met is not None and _is_same(first, met):
            return self.with_patches(foresight, settled)
        return self.refuse(foresight, ran, typed)

    def let_pass(self, foresight: Foresight, settled: Settled) -> Foresight:
        unknowns = [u for u in settled.diagnosis.unknowns if u.what == NOTED]
        if foresight.failures:
            failure = foresight.failures[0].failure
            where = f" at {failure.site.file}:{failure.site.line}" if failure.site is not None else ""
            why = (
                f"evaluating the source expected {failure.exception}{where}, and the host's own validation lets this launch pass"
            )
            unknowns.append(Unknown("why evaluation and the host differ", why))
        end = replace(foresight, outcome="passes", failures=(), patches=(), unknowns=tuple(unknowns))
        return replace(end, rehearsed="passes", assumed=False)

    def with_patches(self, foresight: Foresight, settled: Settled) -> Foresight:
        """The chain of failures goes along the first patch: where the host chose another one, it is foreseen anew."""
        found = settled.diagnosis
        if found.patches and not is_same_patch(found.patches[0], foresight.patches[0]):
            foresight = foresee(self.capture, self.profile, patches=found.patches)
        told = replace(foresight, outcome=found.outcome, patches=found.patches, rehearsed="fails", assumed=False)
        return replace(told, unknowns=(*found.unknowns, *foresight.unknowns))

    def refuse(self, foresight: Foresight, ran: Capture, typed: Rehearsed) -> Foresight:
        """The host refuses what was not foreseen so: what it printed is diagnosed as the log of a start."""
        diagnosis = self.diagnose(ran, (), ())
        if diagnosis.patches:
            diagnosis = settle_patches(ran, diagnosis, self.diagnose, self.rehearse).diagnosis
        failure = diagnosis.failure or Failure("exit", None, typed.why)
        cause = diagnosis.cause or Cause("unknown", typed.why)
        step = diagnosis.patches[0] if diagnosis.patches else None
        met = Foreseen(failure, diagnosis.path, cause, foresight.args, {}, step, diagnosis.settings)
        outcome = diagnosis.outcome if diagnosis.patches else "no_patch"
        told = replace(foresight, outcome=outcome, failures=(met,), patches=diagnosis.patches, unknowns=diagnosis.unknowns)
        return replace(told, rehearsed="fails", assumed=False)


def _is_same(foreseen: Foreseen, met: Failure) -> bool:
    """Whether the host refuses the launch at the statement that was foreseen."""
    if foreseen.failure.kind == "usage" or met.kind == "usage":
        return foreseen.failure.kind == met.kind
    span = foreseen.path.sites[-1].location if foreseen.path is not None and foreseen.path.sites else None
    site = met.site
    if span is None or site is None:
        return False
    return site.file == span.file and span.line <= site.line <= (span.end_line or span.line)


__all__ = ["foresee_on_host"]
