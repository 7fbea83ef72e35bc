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


@dataclass(frozen=True)
class ResolvedGuard:
    """A guard with the atoms of its test, every local and parameter resolved to the named things that decide it."""

    guard: Guard
    atoms: tuple[Atom, ...]


@dataclass(frozen=True)
class Leg:
    """One function on a way: the place in it that is reached (a call of the next leg's function, or the site), and the
    tests from the function's start to that place."""

    location: Location
    function: str
    guards: tuple[ResolvedGuard, ...]


@dataclass(frozen=True)
class Way:
    """One call path from the entry of validation to a site, outermost function first."""

    legs: tuple[Leg, ...]

    @property
    def atoms(self) -> tuple[Atom, ...]:
        return tuple(a for leg in self.legs for g in leg.guards for a in g.atoms)


@dataclass(frozen=True)
class SiteCondition:
    """When a statement of the validation is reached (an assert: and fails): along any of `ways`, all tests of that way."""

    site: Site
    ways: tuple[Way, ...]  # shortest first; () where no call path from the entry was found
    cut: bool = False  # there are more ways

    @property
    def opaque(self) -> tuple[Atom, ...]:
        """The atoms, of any way, of which nobody can tell what decides them."""
        return tuple(dict.fromkeys(a for way in self.ways for a in way.atoms if a.kind == "opaque"))

    def names(self, *kinds: ReadKind) -> frozenset[str]:
        """The names of these kinds (settings, facts, ...) that the condition depends on, over all ways."""
        return frozenset(r.name for way in self.ways for a in way.atoms for r in a.reads if r.kind in kinds)
