"""Signatures of failures that are no argument logic, as data from knowledge/, and what one of them matched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from triage.model.base import FailureKind

HoleKind = Literal["text", "word", "int", "float", "bytes"]
RemedyKind = Literal["flag", "environment", "advice", "none"]


@dataclass(frozen=True)
class Gap:
    """A hole of a phrase. "text": within one line; "word": without blanks; "bytes": a number with its unit."""

    name: str  # "_" is not kept
    kind: HoleKind = "text"


@dataclass(frozen=True)
class Phrase:
    """A message template: literal texts and gaps, never two gaps side by side, at least one text."""

    text: str  # as written in the data
    parts: tuple[str | Gap, ...]

    @property
    def gaps(self) -> frozenset[str]:
        return frozenset(part.name for part in self.parts if isinstance(part, Gap) and part.name != "_")

    @property
    def weight(self) -> int:
        """Characters of literal text."""
        return sum(len(part) for part in self.parts if isinstance(part, str))


@dataclass(frozen=True)
class Holding:
    """A folder of the installed source of which a file holds a text; the text may have gaps that the phrases fill."""

    folder: str
    text: str


@dataclass(frozen=True)
class Where:
    """How a failure is known. Every key that is given must hold; of `log` all phrases, of the others any one."""

    exceptions: tuple[str, ...] = ()  # patterns of the last part of the name
    messages: tuple[Phrase, ...] = ()  # in the message of the same exception
    files: tuple[str, ...] = ()  # patterns of a frame's path: of its end, "/" in front
    functions: tuple[str, ...] = ()  # patterns of a frame's function
    sites: tuple[str, ...] = ()  # patterns as in `files`, of the innermost frame inside the engine
    lines: tuple[Phrase, ...] = ()  # in the source line of a frame, as printed
    log: tuple[Phrase, ...] = ()  # in records of the same run
    absent: tuple[Phrase, ...] = ()  # in no record of the same run
    phases: tuple[str, ...] = ()  # the last one reached
    kinds: tuple[FailureKind, ...] = ()
    signals: tuple[int, ...] = ()
    seconds: int | None = None  # at least so long in the last phase
    ranks: tuple[str, ...] = ()  # patterns: a failing rank
    source: Holding | None = None  # only where the source is at hand
    more: tuple[tuple[str, str], ...] = ()  # pairs of gaps: what stands in the first is a larger number


@dataclass(frozen=True)
class Try:
    """One change that may solve a failure: of the first of `fields` that the release declares, or of a variable.

    The value is given, or computed from the run's own figures; neither: a switch.
    """

    fields: tuple[str, ...] = ()
    variable: str | None = None
    value: str | None = None
    compute: str | None = None  # the name of a computation
    joins: bool = False  # a value that the variable has already is kept, this one comes behind a comma
    costs: str = ""  # what the change takes from the user


@dataclass(frozen=True)
class Remedy:
    kind: RemedyKind
    text: str
    tries: tuple[Try, ...] = ()


@dataclass(frozen=True)
class Signature:
    """One known kind of failure. Texts may hold {gaps} of its phrases: what is in brackets, or else the
    sentence, is left out where a gap in it was not filled."""

    id: str
    category: str
    rank: int  # of several that fit, the one with the highest is meant
    means: str
    where: tuple[Where, ...]  # any of them
    remedy: Remedy
    gather: tuple[str, ...] = ()


@dataclass(frozen=True)
class FigureLine:
    """A log line that tells numbers. `take`: which of a rank's lines counts; `over`: which of the ranks' values."""

    phrases: tuple[Phrase, ...]
    take: Literal["first", "last"] = "last"
    over: Literal["min", "max"] = "min"


@dataclass(frozen=True)
class SaidLine:
    """A log line that a match rests on."""

    text: str
    line: int


@dataclass(frozen=True)
class SignatureMatch:
    """A signature that fits a failure. `holes`: what stood in its gaps, as printed."""

    signature: Signature
    holes: Mapping[str, str] = field(default_factory=dict)
    said: tuple[SaidLine, ...] = ()
