"""The values of the evaluator: plain Python values, `Unknown`, and stand-ins for what the target defines.

Nothing of the target is ever imported or run: a function of the target is a `Func` (compiled by `compile.py` into
closures over our own operations), a class a `Class`, an instance an `Instance` whose attributes live in a plain dict.
"""

from __future__ import annotations

import ast
import itertools
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

Value = Any  # a plain Python value, Unknown, or one of the stand-ins below

Implied = tuple[tuple[bool, "Unknown", bool], ...]

MAX_KEY = 200


class Unknown:
    """A value that cannot be known here. `key` names it the same way whenever it is the same value, so that what is
    assumed of it once holds again; `why` is for a person; `options` are the only values that it can have, if known. Of a
    test made of others, `implied` says how they came out: (when it comes out so, this part, came out so)."""

    __slots__ = ("implied", "key", "options", "why")

    def __init__(self, key: str, why: str, options: tuple[Value, ...] | None = None, implied: Implied = ()) -> None:
        self.key = key if len(key) <= MAX_KEY else f"{key[:MAX_KEY]}#{zlib.crc32(key.encode('utf-8', 'replace')):08x}"
        self.why = why[:300]
        self.options = options
        self.implied = implied

    @property
    def named(self) -> bool:
        """Whether the key names this very value, so that what is assumed of it holds wherever the key comes up."""
        return "?" not in self.key

    @property
    def text(self) -> str:
        """For a person: what it depends on."""
        return self.key if len(self.key) <= 100 and "@" not in self.key and "?" not in self.key else self.why

    def __repr__(self) -> str:
        return f"<unknown {self.key}>"


class Maybe:
    """An element of a list or a value of a dict that is there on some paths only."""

    __slots__ = ("value", "why")

    def __init__(self, value: Value, why: str) -> None:
        self.value = value
        self.why = why


class Absent:
    """The one marker for "no such key"."""


ABSENT = Absent()


class Module:
    """A module of the package. `ns` fills when its top level is executed."""

    __slots__ = ("executed", "file", "is_package", "name", "ns", "unreadable")

    def __init__(self, name: str, file: str, is_package: bool) -> None:
        self.name = name
        self.file = file
        self.unreadable = False
        self.is_package = is_package
        self.ns: dict[str, Value] = {}
        self.executed = False


class External:
    """A name outside the package: `torch.cuda.is_available`; one object for each path. Calls of it go to `externals.py`."""

    __slots__ = ("path",)
    path: str
    _pool: ClassVar[dict[str, External]] = {}

    def __new__(cls, path: str) -> External:
        found = cls._pool.get(path)
        if found is None:
            found = super().__new__(cls)
            found.path = path
            cls._pool[path] = found
        return found

    def __repr__(self) -> str:
        return self.path


class LazyImport:
    """A name bound by `from m import n`, resolved when it is first read."""

    __slots__ = ("module", "name")

    def __init__(self, module: str, name: str | None) -> None:
        self.module = module
        self.name = name


class Func:
    """A function or lambda of the target."""

    __slots__ = ("attrs", "closure", "code", "defaults", "kw_defaults", "module", "name", "owner", "qualname")

    def __init__(
        self,
        name: str,
        qualname: str,
        code: Any,
        module: Module,
        closure: tuple[dict[str, Value], ...],
        defaults: tuple[Value, ...],
        kw_defaults: Mapping[str, Value],
    ) -> None:
        self.name = name
        self.qualname = qualname
        self.code = code
        self.module = module
        self.closure = closure
        self.defaults = defaults
        self.kw_defaults = kw_defaults
        self.owner: Class | None = None
        self.attrs: dict[str, Value] = {}

    def __repr__(self) -> str:
        return f"<function {self.qualname}>"


class Native:
    """A function of ours that stands for a builtin or library function; gets (world, args, kwargs)."""

    __slots__ = ("fn", "fn_of", "name")

    def __init__(self, name: str, fn: Callable[..., Value]) -> None:
        self.name = name
        self.fn_of: Func | None = None  # the function of the target behind it
        self.fn = fn

    def __repr__(self) -> str:
        return f"<builtin {self.name}>"


class Bound:
    """A method bound to its object."""

    __slots__ = ("fn", "self")

    def __init__(self, fn: Value, self_: Value) -> None:
        self.fn = fn
        self.self = self_


class Wrapped:
    """property, classmethod, staticmethod or cached_property around a function."""

    __slots__ = ("fn", "kind", "setter")

    def __init__(self, kind: str, fn: Value, setter: Value = None) -> None:
        self.kind = kind
        self.fn = fn
        self.setter = setter


class Class:
    """A class of the target. `kind`: plain, dataclass, struct, enum, namedtuple, exception or action."""

    __slots__ = ("annotations", "bases", "kind", "module", "mro", "name", "node", "ns", "options", "qualname")

    def __init__(self, name: str, qualname: str, bases: tuple[Value, ...], ns: dict[str, Value], module: Module) -> None:
        self.name = name
        self.qualname = qualname
        self.bases = bases
        self.ns = ns
        self.module = module
        self.kind = "plain"
        self.options: dict[str, Value] = {}
        self.annotations: dict[str, Value] = {}
        self.node: ast.ClassDef | None = None
        self.mro: tuple[Value, ...] = linearize(self)

    def lookup(self, name: str) -> Value:
        for cls in self.mro:
            if isinstance(cls, Class) and name in cls.ns:
                return cls.ns[name]
        return ABSENT

    def external_bases(self) -> list[External]:
        return [c for c in self.mro if isinstance(c, External)]

    def native_base(self) -> type | None:
        for cls in self.mro:
            if isinstance(cls, type) and cls is not object:
                return cls
        return None

    def __repr__(self) -> str:
        return f"<class {self.module.name}.{self.qualname}>"


def linearize(cls: Class) -> tuple[Value, ...]:
    """Depth first, each class at its last place: equal to C3 for the hierarchies of argument code."""
    order: list[Value] = [cls]
    for base in cls.bases:
        order.extend(base.mro if isinstance(base, Class) else [base])
    seen: set[int] = set()
    out: list[Value] = []
    for item in reversed(order):
        if id(item) not in seen:
            seen.add(id(item))
            out.append(item)
    return tuple(reversed(out))


class Instance:
    """An object of a `Class` (or, with cls External, an opaque object with known attributes)."""

    __slots__ = ("attrs", "cls", "opaque")

    def __init__(self, cls: Value, attrs: dict[str, Value] | None = None, opaque: str | None = None) -> None:
        self.cls = cls
        self.attrs: dict[str, Value] = {} if attrs is None else attrs
        self.opaque = opaque  # where its attributes are not all known: a key prefix for the unknown ones

    def __repr__(self) -> str:
        name = self.cls.name if isinstance(self.cls, Class) else str(self.cls)
        return f"<{name} object>"


class TargetRaise(Exception):
    """An exception of the target on its way up. `cls` is a real exception type, a Class or an Unknown."""

    def __init__(self, cls: Value, args: tuple[Value, ...] = (), instance: Value = None) -> None:
        super().__init__()
        self.cls = cls
        self.values = args
        self.instance = instance if instance is not None else self
        self.trail: list[tuple[str, int, str]] = []  # (file, line, function) innermost first
        self.reads: frozenset[str] = frozenset()  # settings and facts that the raising expression read
        self.mentions: frozenset[str] = frozenset()  # ... that only the message read
        self.guards: tuple[frozenset[str], ...] = ()  # ... that each guard on the way read, innermost first
        self.places: tuple[Any, ...] = ()  # of a possible exception: where, outermost first
        self.depends = ""
        self.blamed = False  # whether `guards` and `nesting` are set
        self.nesting = 0
        self.at: int | None = None  # the line, where it was raised in the frame that forked
        self.assumed = False  # raised only because the log says so
        self.attrs: dict[str, Value] = {}
        self.calls: list[tuple[Func, list[Value], dict[str, Value], int, int]] = []  # function, arguments, journal mark, steps

    @property
    def name(self) -> str:
        if isinstance(self.cls, type):
            return self.cls.__name__ if self.cls.__module__ == "builtins" else f"{self.cls.__module__}.{self.cls.__name__}"
        if isinstance(self.cls, Class):
            return f"{self.cls.module.name}.{self.cls.name}"
        return str(getattr(self.cls, "path", self.cls))

    @property
    def message(self) -> Value:
        if not self.values:
            return ""
        if len(self.values) == 1:
            value = self.values[0]
            if isinstance(self.cls, type) and issubclass(self.cls, KeyError) and isinstance(value, str):
                return repr(value)
            return value
        return tuple(self.values)


class OutOfBudget(Exception):
    """The evaluation took more steps than it may."""


def has_unknown(value: Value, depth: int = 4) -> bool:
    """Whether an Unknown stands in the value or, down to `depth`, inside its containers."""
    kind = type(value)
    if kind in PLAIN:
        return False
    if kind is Unknown or kind is Maybe:
        return True
    if depth:
        if kind in (list, tuple, set, frozenset):
            return any(has_unknown(v, depth - 1) for v in value)
        if kind is dict:
            return any(has_unknown(k, depth - 1) or has_unknown(v, depth - 1) for k, v in value.items())
    return False


PLAIN = {int, str, bool, float, type(None), bytes}


def first_unknown(values: Iterable[Value]) -> Unknown:
    """The first Unknown in the values or their containers (there must be one)."""
    for value in values:
        if isinstance(value, Unknown):
            return value
        if isinstance(value, Maybe):
            return Unknown(f"maybe({value.why})", value.why)
        if isinstance(value, (list, tuple, set, frozenset)) and has_unknown(value):
            return first_unknown(value)
        if isinstance(value, dict) and has_unknown(value):
            return first_unknown([*value.keys(), *value.values()])
    return Unknown("?", "not known")


def show(value: Value) -> str:
    """A short text of a value for keys and reports."""
    if isinstance(value, Unknown):
        return value.key
    if isinstance(value, Maybe):
        return f"maybe {show(value.value)}"
    if isinstance(value, (list, tuple)) and len(value) <= 6:
        inner = ", ".join(show(v) for v in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."


def same(a: Value, b: Value) -> bool:
    """Whether two values are surely the same: identity, or equality of plain values of one type."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if type(a) in PLAIN:
        return bool(a == b)
    if type(a) in (tuple, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if type(a) is dict:
        return a.keys() == b.keys() and all(same(v, b[k]) for k, v in a.items())
    if type(a) in (set, frozenset):
        return not has_unknown(a) and bool(a == b)
    if type(a) is Unknown:
        return bool(a.key == b.key and a.named and same(a.options, b.options))
    if type(a) is Bound:
        return a.fn is b.fn and a.self is b.self
    return False  # an External is one object for each path


def snapshot(value: Value, depth: int = 6) -> Value:
    """A copy of the containers of a value, which undoing the evaluation does not empty."""
    if type(value) in (list, tuple) and depth:
        return type(value)(snapshot(v, depth - 1) for v in value)
    if type(value) is dict and depth:
        return {k: snapshot(v, depth - 1) for k, v in value.items()}
    if type(value) is set:
        return set(value)
    if type(value) is Maybe:
        return Maybe(snapshot(value.value, depth), value.why)
    if type(value) is Unknown and value.options is not None and depth:
        return Unknown(value.key, value.why, tuple(snapshot(o, depth - 1) for o in value.options))
    return value


MAX_OPTIONS = 8
_joins = itertools.count()  # each joined value is a value of its own


def options_of(value: Value) -> tuple[Value, ...] | None:
    if isinstance(value, Unknown):
        return value.options
    return (value,)


def join(a: Value, b: Value, why: str) -> Value:
    """The value of a place that is `a` on one path and `b` on the other."""
    if same(a, b):
        return a
    if type(a) is LazyImport or type(b) is LazyImport:  # the same name, resolved on one path only
        return b if type(a) is LazyImport else a
    if a is ABSENT or b is ABSENT:
        present = b if a is ABSENT else a
        return present if isinstance(present, Maybe) else Maybe(present, why)
    if isinstance(a, Maybe) or isinstance(b, Maybe):
        inner = join(a.value if isinstance(a, Maybe) else a, b.value if isinstance(b, Maybe) else b, why)
        return Maybe(inner, why)
    if type(a) is tuple and type(b) is tuple and len(a) == len(b):
        return tuple(join(x, y, why) for x, y in zip(a, b, strict=True))
    left, right = options_of(a), options_of(b)
    options: tuple[Value, ...] | None = None
    if left is not None and right is not None:
        merged = list(left)
        for item in right:
            if not any(same(item, x) for x in merged):
                merged.append(item)
        if len(merged) <= MAX_OPTIONS:
            options = tuple(merged)
    if type(a) is Unknown and type(b) is Unknown and a.key == b.key and a.named:
        return Unknown(a.key, a.why, options)  # one value, of which one path knows more
    return Unknown(f"@{next(_joins)}", why, options)
