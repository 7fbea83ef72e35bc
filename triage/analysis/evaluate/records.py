"""dataclasses, msgspec, typing, functools, copy and collections, for classes and functions of the target.

Source: the Python and msgspec documentation.
"""

from __future__ import annotations

import collections
import types
from collections.abc import Callable
from typing import TYPE_CHECKING

from triage.analysis.evaluate.classes import AUTO, FIELD
from triage.analysis.evaluate.values import (
    ABSENT,
    Bound,
    Class,
    External,
    Func,
    Instance,
    Native,
    TargetRaise,
    Unknown,
    Value,
    Wrapped,
    show,
)

if TYPE_CHECKING:
    from triage.analysis.evaluate.machine import Machine

Args = list[Value]
Named = dict[str, Value]
Handler = Callable[["Machine", Args, Named], Value]


def _partial(w: Machine, args: Args, named: Named) -> Value:
    fn, bound, extra = args[0], list(args[1:]), dict(named)
    return Native("partial", lambda w, a, n: w.call(fn, [*bound, *a], {**extra, **n}))


def _wraps(fn: Value, of: Value) -> Value:
    if isinstance(fn, Func) and isinstance(of, Func):
        fn.attrs.update({"__name__": of.name, "__qualname__": of.qualname, "__wrapped__": of})
    return fn


def _cached(w: Machine, args: Args, named: Named) -> Value:
    """`functools.cache` and `lru_cache`, with and without arguments."""
    if args and isinstance(args[0], (Func, Native, Bound, Class)):
        return w.memoize(args[0])
    return Native("lru_cache", lambda w, a, n: w.memoize(a[0]) if a else None)


def _reduce(w: Machine, args: Args, named: Named) -> Value:
    items = w.iterate(args[1])
    if items is None:
        return Unknown("functools.reduce()", "its items are not known")
    if len(args) > 2:
        items = [args[2], *items]
    value = items[0]
    for item in items[1:]:
        value = w.call(args[0], [value, w.bare(item)])
    return value


def _dataclass(w: Machine, args: Args, named: Named) -> Value:
    def make(w: Machine, a: Args, n: Named) -> Value:
        if isinstance(a[0], Class):
            a[0].kind = "dataclass"
            w.fields_of(a[0])
        return a[0]

    return make(w, args, {}) if args else Native("dataclass", make)


def _field(w: Machine, args: Args, named: Named) -> Value:
    return Instance(FIELD, dict(named))


def _fields(w: Machine, args: Args, named: Named) -> Value:
    cls = args[0].cls if isinstance(args[0], Instance) else args[0]
    if not isinstance(cls, Class) or cls.kind not in ("dataclass", "struct"):
        raise TargetRaise(TypeError, ("must be called with a dataclass type or instance",))
    return list(w.fields_of(cls))


def _is_dataclass(w: Machine, args: Args, named: Named) -> Value:
    cls = args[0].cls if isinstance(args[0], Instance) else args[0]
    return isinstance(cls, Class) and cls.kind == "dataclass"


def _replace(w: Machine, args: Args, named: Named) -> Value:
    obj = args[0]
    if not isinstance(obj, Instance) or not isinstance(obj.cls, Class):
        return Unknown(f"?replace({show(obj)})", "not evaluated")
    names = [f.attrs["name"] for f in w.fields_of(obj.cls)]
    return w.instantiate(obj.cls, [], {**{k: v for k, v in obj.attrs.items() if k in names}, **named})


def _asdict(w: Machine, args: Args, named: Named) -> Value:
    obj = args[0]
    return (
        {f.attrs["name"]: obj.attrs.get(f.attrs["name"]) for f in w.fields_of(obj.cls)}
        if isinstance(obj, Instance)
        else Unknown("asdict()", "")
    )


def _defstruct(w: Machine, args: Args, named: Named) -> Value:
    """msgspec.defstruct(name, fields, namespace=...): a struct class made at run time."""
    name, fields = args[0], w.iterate(args[1])
    ns = named.get("namespace")
    if fields is None or not isinstance(name, str):
        return Unknown("msgspec.defstruct()", "its fields are not known")
    cls = Class(name, name, (External("msgspec.Struct"),), dict(ns) if isinstance(ns, dict) else {}, w.stack[-1].module)
    cls.kind = "struct"
    made: list[Instance] = []
    for item in fields:
        parts = item if isinstance(item, tuple) else (item,)
        annotation = parts[1] if len(parts) > 1 else External("typing.Any")
        cls.annotations[parts[0]] = annotation
        made.append(w.make_field(cls, parts[0], parts[2] if len(parts) > 2 else ABSENT, annotation))
    cls.options["fields"] = made
    for value in cls.ns.values():
        inner = value.fn if isinstance(value, Wrapped) else value
        if isinstance(inner, Func):
            inner.owner = cls
    return cls


def _type_hints(w: Machine, args: Args, named: Named) -> Value:
    cls = args[0]
    if not isinstance(cls, Class):
        return Unknown("typing.get_type_hints()", "not a class of the package")
    out: dict[str, Value] = {}
    for base in reversed(cls.mro):
        if isinstance(base, Class):
            for name, annotation in base.annotations.items():
                out[name] = w.annotation_value(base, annotation)
    return out


def _is_union(value: Value) -> bool:
    return isinstance(value, Instance) and value.attrs.get("origin") is External("types.UnionType")


# What typing.get_origin gives for the capitalized names (typing documentation).
_ORIGINS: dict[str, Value] = {
    "typing.Optional": External("typing.Union"),
    "typing.List": list,
    "typing.Dict": dict,
    "typing.Tuple": tuple,
    "typing.Set": set,
    "typing.FrozenSet": frozenset,
    "typing.Type": type,
}


def _get_origin(w: Machine, args: Args, named: Named) -> Value:
    value = args[0]
    if isinstance(value, types.UnionType):
        return External("types.UnionType")
    if isinstance(value, Instance) and "origin" in value.attrs:
        origin = value.attrs["origin"]
        return _ORIGINS.get(origin.path, origin) if isinstance(origin, External) else origin
    return None


def _get_args(w: Machine, args: Args, named: Named) -> Value:
    value = args[0]
    if isinstance(value, types.UnionType):
        return value.__args__
    if isinstance(value, Instance) and value.attrs.get("origin") is External("types.UnionType"):
        return tuple(x for part in value.attrs["args"] for x in (_get_args(w, [part], {}) if _is_union(part) else (part,)))
    if isinstance(value, Instance) and "args" in value.attrs:
        inner = value.attrs["args"]
        parts = inner if isinstance(inner, tuple) else (inner,)
        return (
            (*parts, type(None))
            if value.attrs.get("origin") is External("typing.Optional")
            else tuple(None if p is None else p for p in parts)
        )
    return ()


def _copy(w: Machine, args: Args, named: Named) -> Value:
    value = args[0]
    if isinstance(value, (list, dict, set)):
        return value.copy()
    if isinstance(value, Instance):
        return Instance(value.cls, dict(value.attrs), value.opaque)
    return value


def _deepcopy(w: Machine, args: Args, named: Named) -> Value:
    def copy(value: Value, depth: int) -> Value:
        if depth > 12:
            return value
        if isinstance(value, list):
            return [copy(v, depth + 1) for v in value]
        if isinstance(value, dict):
            return {k: copy(v, depth + 1) for k, v in value.items()}
        if isinstance(value, tuple):
            return tuple(copy(v, depth + 1) for v in value)
        if isinstance(value, Instance) and isinstance(value.cls, Class) and value.cls.kind != "enum":
            return Instance(value.cls, {k: copy(v, depth + 1) for k, v in value.attrs.items()}, value.opaque)
        if isinstance(value, Instance) and value.opaque:
            return Instance(value.cls, {k: copy(v, depth + 1) for k, v in value.attrs.items()}, value.opaque)
        return value

    return copy(args[0], 0)


def _defaultdict(w: Machine, args: Args, named: Named) -> Value:
    return collections.defaultdict(list) if args and args[0] is list else {}


def _namedtuple(w: Machine, args: Args, named: Named) -> Value:
    names = args[1].replace(",", " ").split() if isinstance(args[1], str) else w.iterate(args[1])
    cls = Class(str(args[0]), str(args[0]), (), {}, w.stack[-1].module)
    cls.kind = "namedtuple"
    cls.options["fields"] = [w.make_field(cls, n, ABSENT, External("typing.Any")) for n in names or []]
    return cls


def _namespace(w: Machine, args: Args, named: Named) -> Value:
    return Instance(External("types.SimpleNamespace"), dict(named))


HANDLERS: dict[str, Handler] = {
    "functools.wraps": lambda w, a, n: Native("wraps", lambda w2, b, m: _wraps(b[0], a[0])),
    "functools.update_wrapper": lambda w, a, n: _wraps(a[0], a[1]),
    "functools.cache": _cached,
    "functools.lru_cache": _cached,
    "functools.partial": _partial,
    "functools.reduce": _reduce,
    "dataclasses.dataclass": _dataclass,
    "dataclasses.field": _field,
    "dataclasses.fields": _fields,
    "dataclasses.is_dataclass": _is_dataclass,
    "dataclasses.replace": _replace,
    "dataclasses.asdict": _asdict,
    "msgspec.field": _field,
    "msgspec.structs.fields": _fields,
    "msgspec.structs.asdict": _asdict,
    "msgspec.structs.replace": _replace,
    "msgspec.defstruct": _defstruct,
    "typing.get_type_hints": _type_hints,
    "typing.get_origin": _get_origin,
    "typing.get_args": _get_args,
    "copy.copy": _copy,
    "copy.deepcopy": _deepcopy,
    "collections.defaultdict": _defaultdict,
    "collections.namedtuple": _namedtuple,
    "types.SimpleNamespace": _namespace,
    "types.MappingProxyType": lambda w, a, n: a[0],
    "collections.deque": lambda w, a, n: w.iterate(a[0]) or [] if a else [],
    "msgspec.Struct.__setattr__": lambda w, a, n: w.type_method(object, "__setattr__", a, n),
    "enum.auto": lambda w, a, n: Instance(AUTO),
    "functools.cached_property": lambda w, a, n: Wrapped("cached_property", a[0]),
    "typing.cast": lambda w, a, n: a[1],
    "typing.NewType": lambda w, a, n: a[1],
    "typing.TypeVar": lambda w, a, n: External("typing.Any"),
    "itertools.chain": lambda w, a, n: [x for part in a for x in (w.iterate(part) or [])],
    "itertools.count": lambda w, a, n: Unknown("itertools.count()", "endless"),
}
