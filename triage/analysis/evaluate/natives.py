"""Builtins of Python as the evaluator offers them. Each gets (world, args, kwargs)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from triage.analysis.evaluate.calls import NeedsUnknown
from triage.analysis.evaluate.operations import OURS
from triage.analysis.evaluate.values import (
    ABSENT,
    Bound,
    Class,
    External,
    Func,
    Instance,
    Maybe,
    Module,
    Native,
    TargetRaise,
    Unknown,
    Value,
    Wrapped,
    first_unknown,
    has_unknown,
    join,
    show,
)

if TYPE_CHECKING:
    from triage.analysis.evaluate.machine import Machine

Args = list[Value]
Named = dict[str, Value]


def _unknown(name: str, args: Args) -> Unknown:
    one = first_unknown(args)
    return Unknown(f"{name}({', '.join(show(a) for a in args)})", one.why)


def _len(w: Machine, args: Args, named: Named) -> Value:
    value = args[0]
    if isinstance(value, Instance):
        method = value.cls.lookup("__len__") if isinstance(value.cls, Class) else ABSENT
        if method is not ABSENT:
            return w.call(method, [value])
        return (
            _len(w, [value.attrs["__items__"]], named)
            if "__items__" in value.attrs
            else Unknown(f"len({show(value)})", "not known")
        )
    if isinstance(value, Class) and value.kind == "enum":
        return len(value.options.get("members", []))
    if isinstance(value, Unknown):
        return w.over_options("len", value, lambda o: _len(w, [o], {}))
    if isinstance(value, (list, dict)) and any(
        isinstance(v, Maybe) for v in (value.values() if isinstance(value, dict) else value)
    ):
        return _unknown("len", args)
    return w.native(len, value)


def _isinstance(w: Machine, args: Args, named: Named) -> Value:
    value, kinds = args
    if isinstance(value, Unknown):
        return w.over_options("isinstance", value, lambda o: _isinstance(w, [o, kinds], {}), show(kinds))
    if isinstance(kinds, Instance) and "args" in kinds.attrs:
        kinds = kinds.attrs["args"]
    if isinstance(kinds, tuple):
        return w.any_of([_isinstance(w, [value, k], {}) for k in kinds])
    if isinstance(value, Instance):
        if value.opaque is not None and not isinstance(value.cls, Class):
            if isinstance(kinds, Class):
                return False
            if isinstance(kinds, type):
                return kinds in value.attrs.get("__types__", ())
            if isinstance(kinds, External) and kinds is value.cls:
                return True
            return Unknown(f"isinstance({show(value)}, {show(kinds)})", f"{show(value)} is outside the package")
        if isinstance(value.cls, Class):
            return kinds in value.cls.mro or kinds is object
        return kinds is value.cls or kinds is object
    if isinstance(value, TargetRaise):
        return w.matches_handler(value, kinds)
    if isinstance(kinds, type):
        if kinds is type:
            return isinstance(value, (Class, type, External))
        return isinstance(value, kinds) and not isinstance(value, OURS)
    if isinstance(kinds, External):
        if kinds.path in ("typing.Callable", "collections.abc.Callable"):
            return isinstance(value, (Func, Bound, Native, Class))
        if kinds.path.endswith((".Mapping", ".MutableMapping")):
            return isinstance(value, dict)
        if kinds.path.endswith((".Sequence", ".Iterable")):
            return isinstance(value, (list, tuple, str))
        if kinds.path.endswith((".Number", ".Integral", ".Real")):
            return isinstance(value, (int, float))
        if isinstance(value, External):
            return Unknown(f"isinstance({show(value)}, {show(kinds)})", f"{show(value)} is outside the package")
        return False
    if isinstance(kinds, Class):
        return False
    return Unknown(f"isinstance({show(value)}, {show(kinds)})", "not known")


def _issubclass(w: Machine, args: Args, named: Named) -> Value:
    one, kinds = args
    if isinstance(kinds, tuple):
        return w.any_of([_issubclass(w, [one, k], {}) for k in kinds])
    if isinstance(one, Class):
        return kinds in one.mro or kinds is object
    if isinstance(one, type) and isinstance(kinds, type):
        return issubclass(one, kinds)
    if isinstance(one, type) or isinstance(one, External):
        return one is kinds
    return Unknown(f"issubclass({show(one)}, {show(kinds)})", "not known")


def _getattr(w: Machine, args: Args, named: Named) -> Value:
    obj, name = args[0], args[1]
    if not isinstance(name, str):
        return _unknown("getattr", args) if has_unknown(args) else w.get_attribute(obj, str(name))
    if isinstance(obj, Unknown) and obj.options is None and len(args) > 2:
        return Unknown(f"getattr({obj.key}, {name})", obj.why)
    try:
        value = w.find_softly(obj, name) if len(args) > 2 else w.find_attribute(obj, name)
    except TargetRaise as exc:
        if len(args) > 2 and exc.cls is AttributeError:
            return args[2]
        raise
    held = obj.attrs.get(name) if isinstance(obj, Instance) else None
    if value is ABSENT:
        if len(args) > 2:
            return args[2]
        return w.get_attribute(obj, name)
    if isinstance(held, Maybe) and len(args) > 2:
        return join(value, args[2], held.why)
    return value


def _hasattr(w: Machine, args: Args, named: Named) -> Value:
    obj, name = args
    if isinstance(obj, Unknown) and obj.options is None:
        return Unknown(f"hasattr({obj.key}, {name})", obj.why)
    if isinstance(obj, Instance) and isinstance(obj.attrs.get(name), Maybe):
        return Unknown(f"hasattr({show(obj)}, {name})", obj.attrs[name].why)
    if isinstance(obj, External):
        return w.has_external(obj, name)
    try:
        value = w.find_softly(obj, str(name))
    except TargetRaise as exc:
        if exc.cls is AttributeError:
            return False
        raise
    if isinstance(value, Unknown) and isinstance(obj, Instance) and obj.opaque is not None and name not in obj.attrs:
        return Unknown(f"hasattr({obj.opaque}, {name})", value.why)
    return value is not ABSENT


def _setattr(w: Machine, args: Args, named: Named) -> Value:
    if isinstance(args[1], str):
        w.set_attribute(args[0], args[1], args[2])
    return None


def _any(w: Machine, args: Args, named: Named) -> Value:
    items = w.iterate(args[0])
    if items is None:
        return _unknown("any", args)
    return w.any_of(
        [
            Unknown(f"?{show(i.value)}", i.why) if isinstance(i, Maybe) and w.truth(i.value) is not False else w.bare(i)
            for i in items
        ]
    )


def _all(w: Machine, args: Args, named: Named) -> Value:
    items = w.iterate(args[0])
    if items is None:
        return _unknown("all", args)
    unknown: Value = None
    for item in items:
        truth = w.truth(w.bare(item))
        if isinstance(item, Maybe) and truth is not True:
            truth = None
        if truth is False:
            return False
        if truth is None and unknown is None:
            unknown = w.bare(item)
    return (
        True
        if unknown is None
        else Unknown(f"all({show(unknown)})", unknown.why if isinstance(unknown, Unknown) else "not known")
    )


def _collect(make: Callable[[list[Value]], Value], name: str) -> Callable[[Machine, Args, Named], Value]:
    def run(w: Machine, args: Args, named: Named) -> Value:
        items = w.iterate(args[0]) if args else []
        if items is None:
            return _unknown(name, args)
        return w.native(make, items)

    return run


def _extreme(pick: Callable[..., Any], name: str) -> Callable[[Machine, Args, Named], Value]:
    def run(w: Machine, args: Args, named: Named) -> Value:
        items = list(args) if len(args) > 1 else w.iterate(args[0])
        if items is None or has_unknown(items, 1):
            unknown = [a for a in (items or args) if isinstance(a, Unknown)]
            if len(unknown) == 1 and unknown[0].options and items is not None:
                fill = unknown[0]
                return w.over_options(name, fill, lambda o: run(w, [o if a is fill else a for a in items], named))
            return _unknown(name, args)
        items = [w.plain_of(i) for i in items]
        if "key" in named:
            return w.run_plain(lambda: pick(items, key=w.as_plain_callable(named["key"])), [], {})
        extra = {"default": named["default"]} if "default" in named else {}
        return w.native(pick, items, **extra)

    return run


def _sorted(w: Machine, args: Args, named: Named) -> Value:
    items = w.iterate(args[0])
    if items is None or has_unknown(items):
        return _unknown("sorted", args)
    key = w.as_plain_callable(named["key"]) if named.get("key") is not None else None
    reverse = bool(named.get("reverse", False))
    return w.run_plain(lambda: sorted(items, key=key or w.plain_of, reverse=reverse), [], {})


def _sum(w: Machine, args: Args, named: Named) -> Value:
    items = w.iterate(args[0])
    if items is None or has_unknown(items):
        return _unknown("sum", args)
    return w.native(sum, items, *args[1:])


def _zip(w: Machine, args: Args, named: Named) -> Value:
    rows = [w.iterate(a) for a in args]
    if any(r is None for r in rows):
        return _unknown("zip", args)
    return [tuple(w.bare(x) for x in row) for row in zip(*(r for r in rows if r is not None), strict=False)]


def _enumerate(w: Machine, args: Args, named: Named) -> Value:
    items = w.iterate(args[0])
    if items is None:
        return _unknown("enumerate", args)
    return [(i, w.bare(x)) for i, x in enumerate(items, int(named.get("start", args[1] if len(args) > 1 else 0)))]


def _map(w: Machine, args: Args, named: Named) -> Value:
    items = w.iterate(args[1])
    if items is None:
        return _unknown("map", args)
    return [w.call(args[0], [w.bare(i)]) for i in items]


def _filter(w: Machine, args: Args, named: Named) -> Value:
    items = w.iterate(args[1])
    if items is None:
        return _unknown("filter", args)
    out: list[Value] = []
    for item in items:
        truth = w.truth(w.bare(item) if args[0] is None else w.call(args[0], [w.bare(item)]))
        if truth is not False:
            out.append(item if truth is True else Maybe(w.bare(item), "depends on an unknown value"))
    return out


def _reversed(w: Machine, args: Args, named: Named) -> Value:
    items = w.iterate(args[0])
    return _unknown("reversed", args) if items is None else items[::-1]


def _range(w: Machine, args: Args, named: Named) -> Value:
    if has_unknown(args):
        return _unknown("range", args)
    made = w.native(range, *(w.plain_of(a) for a in args))
    return made if isinstance(made, Unknown) or len(made) <= 1_000_000 else Unknown("?range", "too long to evaluate")


def _next(w: Machine, args: Args, named: Named) -> Value:
    items = w.iterate(args[0])
    if items is None:
        return _unknown("next", args)
    if not items:
        if len(args) > 1:
            return args[1]
        raise TargetRaise(StopIteration, ())
    if isinstance(items[0], Maybe):
        merged: Value = args[1] if len(args) > 1 else Unknown("?next", items[0].why)
        for item in reversed(items):
            merged = join(w.bare(item), merged, items[0].why) if isinstance(item, Maybe) else item
        return merged
    return items[0]


def _type(w: Machine, args: Args, named: Named) -> Value:
    if len(args) == 3:
        bases = tuple(b for b in args[1] if isinstance(b, (Class, External)))
        cls = Class(str(args[0]), str(args[0]), bases, dict(args[2]), w.stack[-1].module)
        w.adopt(cls)
        return cls
    value = args[0]
    if isinstance(value, Instance):
        return value.cls
    if isinstance(value, Unknown):
        return Unknown(f"type({value.key})", value.why)
    if isinstance(value, TargetRaise):
        return value.cls
    if isinstance(value, OURS):
        return External(f"types.{type(value).__name__}")
    return type(value)


def _vars(w: Machine, args: Args, named: Named) -> Value:
    value = args[0] if args else None
    if isinstance(value, Instance):
        return value.attrs
    if isinstance(value, (Class, Module)):
        return value.ns
    return vars(value) if hasattr(value, "__dict__") and not isinstance(value, OURS) else Unknown("vars()", "not evaluated")


def _print(w: Machine, args: Args, named: Named) -> Value:
    return None


def _callable(w: Machine, args: Args, named: Named) -> Value:
    if isinstance(args[0], Unknown):
        return Unknown(f"callable({args[0].key})", args[0].why)
    if isinstance(args[0], Instance):
        return isinstance(args[0].cls, Class) and args[0].cls.lookup("__call__") is not ABSENT
    return isinstance(args[0], (Func, Bound, Native, Class, External, type))


def _plain(fn: Callable[..., Any], name: str) -> Callable[[Machine, Args, Named], Value]:
    def run(w: Machine, args: Args, named: Named) -> Value:
        if len(args) == 1 and isinstance(args[0], Unknown):
            return w.over_options(name, args[0], lambda o: run(w, [o], named))
        if has_unknown(args):
            return _unknown(name, args)
        return w.native(fn, *(w.plain_of(a) for a in args), **named)

    return run


def _repr(w: Machine, args: Args, named: Named) -> Value:
    return w.to_text(args[0], True)


def _property(w: Machine, args: Args, named: Named) -> Value:
    return Wrapped("property", args[0] if args else named.get("fget"), args[1] if len(args) > 1 else None)


def _super(w: Machine, args: Args, named: Named) -> Value:
    return w.make_super(w.stack[-1]) if len(args) < 2 else Unknown("?super()", "super with arguments")


def _iter(w: Machine, args: Args, named: Named) -> Value:
    items = w.iterate(args[0])
    return _unknown("iter", args) if items is None else items


def _hash(w: Machine, args: Args, named: Named) -> Value:
    if not isinstance(args[0], (*OURS, Unknown)):
        w.native(hash, args[0])
    return Unknown(f"?hash({show(args[0])[:40]})", "hashes are not known")


def _id(w: Machine, args: Args, named: Named) -> Value:
    return Unknown(f"?id({show(args[0])[:40]})", "identities are not known")


_TABLE: dict[str, Callable[[Any, Args, Named], Value]] = {
    "len": _len, "isinstance": _isinstance, "issubclass": _issubclass, "getattr": _getattr, "hasattr": _hasattr,
    "setattr": _setattr, "any": _any, "all": _all, "min": _extreme(min, "min"), "max": _extreme(max, "max"),
    "sorted": _sorted, "sum": _sum, "zip": _zip, "enumerate": _enumerate, "map": _map, "filter": _filter,
    "reversed": _reversed, "range": _range, "next": _next, "iter": _iter, "vars": _vars, "print": _print,
    "callable": _callable, "abs": _plain(abs, "abs"), "round": _plain(round, "round"), "repr": _repr,
    "divmod": _plain(divmod, "divmod"), "ord": _plain(ord, "ord"), "chr": _plain(chr, "chr"), "hex": _plain(hex, "hex"),
    "pow": _plain(pow, "pow"), "hash": _hash, "id": _id, "super": _super, "format": _plain(format, "format"),
}  # fmt: skip


def make_builtins() -> dict[str, Value]:
    """The names that are visible everywhere."""
    table: dict[str, Value] = {name: Native(name, fn) for name, fn in _TABLE.items()}
    for kind in (
        int,
        str,
        float,
        bool,
        list,
        tuple,
        dict,
        set,
        frozenset,
        bytes,
        object,
        type,
        property,
        staticmethod,
        classmethod,
    ):
        table[kind.__name__] = kind
    table.update(
        {"True": True, "False": False, "None": None, "NotImplemented": NotImplemented, "Ellipsis": Ellipsis, "__debug__": True}
    )
    return table


def construct(w: Machine, cls: type, args: Args, named: Named) -> Value:
    """Call of a builtin type."""
    if issubclass(cls, BaseException):
        return TargetRaise(cls, tuple(args))
    if cls is type:
        return _type(w, args, named)
    if cls is property:
        return _property(w, args, named)
    if cls in (staticmethod, classmethod):
        return Wrapped(cls.__name__, args[0])
    if cls is object:
        return Instance(object)
    if cls is str:
        return w.to_text(args[0], False) if len(args) == 1 else ("" if not args else w.native(str, *args))
    if cls is bool:
        truth = w.truth(args[0]) if args else False
        return Unknown(f"bool({show(args[0])})", first_unknown(args).why) if truth is None else truth
    if cls is dict:
        return _dict(w, args, named)
    if cls in (list, tuple, set, frozenset):
        return _collect(cls, cls.__name__)(w, args, named)
    if args and isinstance(args[0], Unknown):
        return w.over_options(cls.__name__, args[0], lambda o: construct(w, cls, [o, *args[1:]], named))
    if cls in (int, float, bytes):
        if args and isinstance(args[0], str) and len(args[0]) > 4000:
            return Unknown("?int", "too long to convert")
        plain = [w.plain_of(a) for a in args]
        if any(isinstance(p, OURS) for p in plain):
            return Unknown(f"{cls.__name__}({show(args[0])})", "not evaluated")
        return w.native(cls, *plain, **named)
    return Unknown(f"{cls.__name__}()", f"{cls.__name__} is not evaluated")


def _dict(w: Machine, args: Args, named: Named) -> Value:
    out: dict[Value, Value] = {}
    if args:
        if isinstance(args[0], dict):
            out.update(args[0])
        else:
            items = w.iterate(args[0])
            if items is None:
                return _unknown("dict", args)
            for item in items:
                maybe = isinstance(item, Maybe)
                pair = w.bare(item)
                if not isinstance(pair, (tuple, list)) or len(pair) != 2 or isinstance(pair[0], Unknown):
                    return Unknown("?dict", "unknown keys")
                out[pair[0]] = Maybe(pair[1], item.why) if maybe else pair[1]
    out.update(named)
    return out


__all__ = ["NeedsUnknown", "construct", "functools", "make_builtins"]
