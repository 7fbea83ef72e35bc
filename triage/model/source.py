"""Places in source, and the conditions on the way to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Location:
    file: str
    line: int
    end_line: int | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Guard:
    """A test that had to come out one way for control to reach a site."""

    location: Location
    text: str  # the test's source, on one line
    came_out: bool
    kind: Literal["if", "elif", "while", "early_exit", "assert", "for", "except", "with", "match", "ternary", "boolop"]
    leaves: str = ""  # of an early exit: how the way not taken leaves: "raise", "return", "continue", "break", "exit", "mixed"


@dataclass(frozen=True)
class Site:
    """The smallest statement that holds a frame's line, with its source and its guards (outermost first)."""

    location: Location
    function: str
    kind: str  # "assert", "raise", "if", "assign", "call", ...
    text: str  # the statement's source, dedented
    guards: tuple[Guard, ...] = ()
    matches: bool = True  # False: the traceback's printed text is not what stands at that line
    at: int | None = None  # the line inside the statement that the frame (or the text found in its place) points at


ReadKind = Literal["setting", "environment", "fact", "model", "constant", "local", "parameter", "literal"]
AtomKind = Literal["compare", "truth", "isinstance", "membership", "call", "quantifier", "opaque"]


@dataclass(frozen=True)
class Read:
    """One thing that a condition reads. `through` names the locals on the way from the condition to it, nearest first."""

    kind: ReadKind
    name: str  # field, variable, dotted callee or attribute chain, local name, repr of a literal
    text: str  # as it stands in the source
    through: tuple[str, ...] = ()


@dataclass(frozen=True)
class Atom:
    """A test without and/or/not. `holds` False: it stands under an odd number of `not`. `why` says what makes it opaque."""

    text: str
    kind: AtomKind
    holds: bool = True
    reads: tuple[Read, ...] = ()
    operator: str = ""  # of compare and membership: "is not", ">", "in", ...
    operands: tuple[str, ...] = ()  # of compare and membership: left, right
    why: str = ""


@dataclass(frozen=True)
class PathCondition:
    """The sites of the failing path, outermost first; the last one raised."""

    sites: tuple[Site, ...]
