"""A log without its framing, and the failure in it."""

from __future__ import annotations

from dataclasses import dataclass

from triage.model.base import FailureKind


@dataclass(frozen=True)
class LogRecord:
    """One message without its framing. `first`/`last` are raw line numbers in log.txt, from 1."""

    text: str
    first: int
    last: int
    rank: str | None = None  # "TP0", "DP0 TP1", ...
    level: str | None = None
    stamp: str | None = None  # the logger's clock (or level) as printed in front; None for a bare line
    lines: tuple[int, ...] = ()  # the raw line of each line of `text`, where they do not simply follow one another


@dataclass(frozen=True)
class Log:
    """The records in the order of the file; `notes` says what was cut, suppressed or unreadable."""

    records: tuple[LogRecord, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LogGap:
    """Where part of a log was left out: what follows the first `kept` lines of the rest is raw line `line`."""

    kept: int
    line: int
    note: str


@dataclass(frozen=True)
class Frame:
    """One frame of a traceback as printed, outermost first in a list."""

    path: str  # as printed
    line: int
    function: str
    text: str  # the source line as printed, stripped; "" when absent
    file: str | None = None  # relative to the folder that holds the engine's package; None outside it


@dataclass(frozen=True)
class Raised:
    """One exception of a traceback chain."""

    exception: str  # "AssertionError", "torch.OutOfMemoryError"
    message: str
    frames: tuple[Frame, ...]
    first: int  # raw log lines
    last: int
    rank: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SetAside:
    """A failure in the log that is not the cause, and why."""

    what: str
    why: str
    line: int


@dataclass(frozen=True)
class PhaseSpan:
    """One phase of a start: the raw log line that shows its beginning, and how long it took where the log's clock tells."""

    name: str
    line: int
    seconds: float | None = None


@dataclass(frozen=True)
class Failure:
    """The one failure that matters. For kind "usage", `message` is the parser's error text."""

    kind: FailureKind
    exception: str | None
    message: str
    frames: tuple[Frame, ...] = ()
    chain: tuple[Raised, ...] = ()  # what it was raised from, innermost cause last
    ranks: tuple[str, ...] = ()
    first: int | None = None  # raw log lines
    last: int | None = None
    signal: int | None = None
    set_aside: tuple[SetAside, ...] = ()
    phases: tuple[PhaseSpan, ...] = ()  # that the start went through, the last one reached at the end
    run: tuple[int, int] | None = None  # the raw lines of the run that failed, in a log of several

    @property
    def site(self) -> Frame | None:
        """The innermost frame inside the engine's package, else the innermost frame."""
        inside = [f for f in self.frames if f.file]
        return inside[-1] if inside else (self.frames[-1] if self.frames else None)

    @property
    def origin(self) -> Raised | None:
        """The exception of the chain that this one only passes on, its message inside its own; None where it says more."""
        message, found = self.message, None
        for raised in self.chain:
            head = raised.message.strip().split("\n", 1)[0][:40].strip()
            if len(head) < 8 or head not in message:
                break
            message, found = raised.message, raised
        return found
