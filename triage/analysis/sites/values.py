"""What the walk knows of a value: which named things it depends on, and what it may be.

A `Val` is never a concrete result: `reads` are the settings, facts, model attributes, variables and constants that decide it,
`things` what it may be where that matters (the args object, a function, a literal), `why` the reason for which nobody can
tell what decides it ("" where it is known).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from triage.analysis.sites.index import ClassInfo, FunctionInfo

MAX_ITEMS = 64  # elements of a literal that are kept apart
MAX_SIZE = 400  # of a container, all that is nested in it counted
ATTRIBUTE = "attribute"  # kind of a read of the args object's own bookkeeping, until its assignments are known
ANY_FIELD = "any field"  # kind of a read of a field whose name is computed
INDEXED = "by its name"  # text of a read of one field out of a container of fields
RECORD_DICT = "vars(args)"


class Source(NamedTuple):
    """One named thing that a value depends on: as `Read`, or ATTRIBUTE."""

    kind: str
    name: str
    text: str = ""


@dataclass(frozen=True)
class Val:
    reads: frozenset[Source] = frozenset()
    things: frozenset[Thing] = frozenset()
    why: str = ""


@dataclass(frozen=True)
class Record:
    """The args object, or a view of it."""


@dataclass(frozen=True)
class Func:
    info: FunctionInfo
    bound: Val | None = None
    closure: object = field(default=None, compare=False)  # the frame in which a nested function was made


@dataclass(frozen=True)
class Cls:
    info: ClassInfo


@dataclass(frozen=True)
class Inst:
    info: ClassInfo


@dataclass(frozen=True)
class Mod:
    file: str


@dataclass(frozen=True)
class Imported:
    """A (dotted) name of a module of the package that was not looked at so far."""

    file: str
    name: str


@dataclass(frozen=True)
class Ext:
    """A dotted name outside the package; builtins have no dot."""

    name: str


@dataclass(frozen=True)
class Lit:
    value: str | int | bool | None


@dataclass(frozen=True)
class Coll:
    """A container whose elements were written down."""

    items: tuple[Val, ...]
    exact: bool = True  # a tuple or list: the position of each element is known
    size: int = field(default=1, compare=False)  # containers and values in it, at all depths


@dataclass(frozen=True)
class Registry:
    """A container at module level that decorators fill."""

    file: str
    name: str


@dataclass(frozen=True)
class Method:
    """A method of a container or registry."""

    of: Coll | Registry
    name: str


@dataclass(frozen=True)
class Made:
    """What a function returned that was not entered, or an attribute of it."""

    by: Func | Imported
    attribute: str = ""


Thing = Record | Method | Made | Func | Cls | Inst | Mod | Imported | Ext | Lit | Coll | Registry

NOTHING = Val()
RECORD = Val(things=frozenset({Record()}))


def named(kind: str, name: str, *sources: Val, text: str = "") -> Val:
    """A value that one named thing decides, together with other values."""
    whole = union(sources)
    return Val(whole.reads | {Source(kind, name, text)}, frozenset(), whole.why)


def opaque(why: str) -> Val:
    return Val(why=why)


def union(values: Iterable[Val]) -> Val:
    """A value that may be any of these."""
    found = list(values)
    if len(found) == 1:
        return found[0]
    if not found:
        return NOTHING
    return Val(
        frozenset().union(*(v.reads for v in found)),
        frozenset().union(*(v.things for v in found)),
        next((v.why for v in found if v.why), ""),
    )


def container(items: Iterable[Val], exact: bool = True) -> frozenset[Thing]:
    """The container of these elements as the only thing of a value; nothing where it would hold too much."""
    kept = tuple(items)
    size = 1 + sum(1 + sum(t.size for t in v.things if isinstance(t, Coll)) for v in kept)
    return frozenset({Coll(kept, exact, size)}) if size <= MAX_SIZE else frozenset()


def plain(value: Val) -> Val:
    """What decides a value, without what it may be."""
    return Val(value.reads, frozenset(), value.why) if value.things else value


def is_record(value: Val) -> bool:
    return Record() in value.things


def holds_record(value: Val) -> bool:
    """Whether it is the args object or a container or bound method of it."""
    for thing in value.things:
        if isinstance(thing, Record):
            return True
        if isinstance(thing, Coll) and any(is_record(v) for v in thing.items):
            return True
    return False


def literals(value: Val) -> list[str]:
    return sorted(t.value for t in value.things if isinstance(t, Lit) and isinstance(t.value, str))


def element(value: Val, index: object = None) -> Val:
    """An element of a value: of a written container the one at `index`, else any of them."""
    parts = [plain(value)]
    for thing in value.things:
        if isinstance(thing, Coll):
            exact = thing.exact and isinstance(index, int) and not isinstance(index, bool)
            if exact and isinstance(index, int) and -len(thing.items) <= index < len(thing.items):
                parts.append(thing.items[index])
            else:
                parts += thing.items
        elif isinstance(thing, Registry):
            parts.append(Val(things=frozenset({thing})))
    return union(parts)


def indexed(base: Val, index: Val) -> Val:
    """The fields that are taken by their names out of a bookkeeping container of the args object."""
    if not any(s.kind == ATTRIBUTE for s in base.reads):
        return NOTHING
    return Val(frozenset(Source("setting", name, INDEXED) for name in literals(index) if name.isidentifier()))


def is_empty_display(node: ast.expr) -> bool:
    """`{}`, `[]`, `dict()`, `defaultdict(list)`: what a registry begins as."""
    if isinstance(node, ast.Dict):
        return not node.keys
    if isinstance(node, ast.List | ast.Set):
        return not node.elts
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("dict", "list", "defaultdict")
