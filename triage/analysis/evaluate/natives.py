"""Builtins of Python as the evaluator offers them. Each gets (world, args, kwargs)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from triage.analysis.evaluate import iteration
from triage.analysis.evaluate.iteration import unknown_of
from triage.analysis.evaluate.operations import OURS
from triage.analysis.evaluate.parser import is_action
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
        if isinstance(value.cls, External) and value.cls.path.startswith("argparse.") and isinstance(kinds, External):
            return is_action(value.cls, kinds)
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
    if isinstance(one, (type, External)):
        return one is kinds
    return Unknown(f"issubclass({show(one)}, {show(kinds)})", "not known")


def _getattr(w: Machine, args: Args, named: Named) -> Value:
    obj, name = args[0], args[1]
    if not isinstance(name, str):
        return unknown_of("getattr", args) if has_unknown(args) else w.get_attribute(obj, str(name))
    if isinstance(obj, Unknown) and obj.options is None and len(args) > 2:
        return Unknown(f"getattr({obj.key}, {name})", obj.why)
    if isinstance(obj, External) and not name.isidentifier():  # no path of names: nothing is called so
        if len(args) > 2:
            return args[2]
        exc = TargetRaise(AttributeError, (f"module '{obj.path}' has no attribute '{name}'",))
        exc.reads = frozenset(w.reads)
        raise exc
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
            return unknown_of(name, args)
        return w.native(fn, *(w.plain_of(a) for a in args), **named)

    return run


def _format(w: Machine, args: Args, named: Named) -> Value:
    return w.format(args[0], -1, args[1] if len(args) > 1 else "")


def _repr(w: Machine, args: Args, named: Named) -> Value:
    return w.to_text(args[0], True)


def _property(w: Machine, args: Args, named: Named) -> Value:
    return Wrapped("property", args[0] if args else named.get("fget"), args[1] if len(args) > 1 else None)


def _super(w: Machine, args: Args, named: Named) -> Value:
    if len(args) < 2:
        return w.make_super(w.stack[-1])
    owner, this = args
    cls = this if isinstance(this, Class) else getattr(this, "cls", None)
    if not isinstance(cls, Class) or owner not in cls.mro:
        return Unknown("?super()", "super with arguments that are not evaluated")
    return Instance(External("super"), {"__super__": (cls.mro[cls.mro.index(owner) + 1 :], this, cls)}, opaque="super()")


def _hash(w: Machine, args: Args, named: Named) -> Value:
    if not isinstance(args[0], (*OURS, Unknown)):
        w.native(hash, args[0])
    return Unknown(f"?hash({show(args[0])[:40]})", "hashes are not known")


def _id(w: Machine, args: Args, named: Named) -> Value:
    return Unknown(f"?id({show(args[0])[:40]})", "identities are not known")


_TABLE: dict[str, Callable[[Any, Args, Named], Value]] = {
    "len": iteration.run_len,
    "isinstance": _isinstance,
    "issubclass": _issubclass,
    "getattr": _getattr,
    "hasattr": _hasattr,
    "setattr": _setattr,
    "any": iteration.run_any,
    "all": iteration.run_all,
    "min": iteration.extreme(min, "min"),
    "max": iteration.extreme(max, "max"),
    "sorted": iteration.run_sorted,
    "sum": iteration.run_sum,
    "zip": iteration.run_zip,
    "enumerate": iteration.run_enumerate,
    "map": iteration.run_map,
    "filter": iteration.run_filter,
    "reversed": iteration.run_reversed,
    "range": iteration.run_range,
    "next": iteration.run_next,
    "iter": iteration.run_iter,
    "vars": _vars,
    "print": _print,
    "callable": _callable,
    "abs": _plain(abs, "abs"),
    "round": _plain(round, "round"),
    "repr": _repr,
    "divmod": _plain(divmod, "divmod"),
    "ord": _plain(ord, "ord"),
    "chr": _plain(chr, "chr"),
    "hex": _plain(hex, "hex"),
    "pow": _plain(pow, "pow"),
    "hash": _hash,
    "id": _id,
    "super": _super,
    "format": _format,
}


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
        return iteration.collect(cls, cls.__name__)(w, args, named)
    if args and isinstance(args[0], Unknown):
        return w.over_options(cls.__name__, args[0], lambda o: construct(w, cls, [o, *args[1:]], named))
    if cls in (int, float, bytes):
        if args and isinstance(args[0], str) and len(args[0]) > 4000:
            return Unknown("?int", "too long to convert")
        plain = [w.plain_of(a) for a in args]
        if cls is bytes and plain and isinstance(plain[0], int) and plain[0] > 1_000_000:
            return Unknown("?bytes", "too large to evaluate")
        if any(isinstance(p, OURS) for p in plain):
            return Unknown(f"{cls.__name__}({show(args[0])})", "not evaluated")
        return w.native(cls, *plain, **named)
    return Unknown(f"{cls.__name__}()", f"{cls.__name__} is not evaluated")


def _dict(w: Machine, args: Args, named: Named) -> Value:
    out: dict[Value, Value] = {}
    if args:
        source = w.to_read(args[0])
        if isinstance(source, dict):
            out.update(source)
        else:
            items = w.iterate(args[0])
            if items is None:
                return unknown_of("dict", args)
            for item in items:
                maybe = isinstance(item, Maybe)
                pair = w.bare(item)
                if not isinstance(pair, (tuple, list)) or len(pair) != 2 or isinstance(pair[0], Unknown):
                    return Unknown("?dict", "unknown keys")
                out[pair[0]] = Maybe(pair[1], item.why) if maybe else pair[1]
    out.update(named)
    return out
