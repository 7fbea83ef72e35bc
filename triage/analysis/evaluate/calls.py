"""Calls of what is not a function of the target: classes, builtins, plain methods, names outside the package."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, cast

from triage.analysis.evaluate import limits
from triage.analysis.evaluate.imports import Imports
from triage.analysis.evaluate.operations import MUTATORS, OURS
from triage.analysis.evaluate.values import (
    ABSENT,
    Bound,
    Class,
    External,
    Func,
    Instance,
    LazyImport,
    Maybe,
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


class NeedsUnknown(Exception):
    """A plain operation asked the target for a value that turned out unknown."""

    def __init__(self, value: Unknown) -> None:
        super().__init__()
        self.value = value


class Calls(Imports):
    """`call_object` and the methods of plain values."""

    def call_external(self, external: External, args: list[Value], named: dict[str, Value]) -> Value:
        raise NotImplementedError

    def construct(self, cls: type, args: list[Value], named: dict[str, Value]) -> Value:
        raise NotImplementedError

    def call_object(self, target: Value, args: list[Value], named: dict[str, Value]) -> Value:
        kind = type(target)
        if kind is Native:
            return target.fn(self, args, named)
        if kind is Class:
            return self.instantiate(target, args, named)
        if kind is External:
            return self.call_external(target, args, named)
        if kind is Unknown:
            if target.options and all(isinstance(o, (Func, Native, Bound, Class)) for o in target.options):
                if any(not isinstance(o, Native) or o.name in MUTATORS for o in target.options):
                    return self.on_each(target, lambda o: self.call(o, list(args), dict(named)))
                good = self.each_option(target.options, lambda o: self.call(o, list(args), dict(named)), target.key)
                value = good[0]
                for one in good[1:]:
                    value = join(value, one, target.why)
                return value
            return Unknown(f"{target.key}({', '.join(show(a) for a in args)})", target.why)
        if isinstance(target, type):
            return self.construct(target, args, named)
        if kind is Wrapped:
            return self.call(target.fn, args, named)
        if kind is Instance:
            method = target.cls.lookup("__call__") if isinstance(target.cls, Class) else ABSENT
            if method is not ABSENT:
                return self.call(method, [target, *args], named)
            if "__call__" in target.attrs:
                return self.call(target.attrs["__call__"], args, named)
            return Unknown(f"{show(target)}()", f"{show(target)} is outside the package")
        exc = TargetRaise(TypeError, (f"'{self.type_name(target)}' object is not callable",))
        exc.reads = frozenset(self.reads)
        raise exc

    def decorate(self, decorator: Value, value: Value) -> Value:
        """Apply a decorator; one that is outside the package is taken to keep the function."""
        if decorator in (property, staticmethod, classmethod):
            return Wrapped(decorator.__name__, value)
        result = self.call(decorator, [value])
        if isinstance(result, Unknown) and isinstance(value, (Func, Class)):
            return value
        return result

    def as_plain_callable(self, fn: Value) -> Callable[..., Any]:
        """A callable that native code (sort keys, argparse types) may call."""

        def call(*args: Value, **named: Value) -> Value:
            value = self.call(fn, list(args), named)
            if isinstance(value, Unknown):
                raise NeedsUnknown(value)
            return self.plain_of(value)

        call.__name__ = str(getattr(fn, "name", "function"))
        return call

    # ------------------------------------------------ methods of plain values
    def plain_method(self, value: Value, name: str) -> Value:
        if isinstance(value, argparse.Namespace):
            held = vars(value).get(name, ABSENT)
            return held.value if isinstance(held, Maybe) else (vars(value) if name == "__dict__" else held)
        if name == "__class__":
            return type(value)
        if name == "move_to_end" and isinstance(value, dict):
            return Native(name, lambda w, a, n: None)
        if name.startswith("_") and name not in ("__len__", "__contains__", "__getitem__", "__setitem__"):
            return ABSENT
        try:
            held = getattr(value, name)
        except AttributeError:
            return ABSENT
        if not callable(held):
            return held
        return Native(name, lambda w, a, n: self.call_plain(value, name, a, n))

    def call_plain(self, value: Value, name: str, args: list[Value], named: dict[str, Value]) -> Value:
        if isinstance(value, dict):
            special = self.call_dict(value, name, args, named)
            if special is not ABSENT:
                return special
        if isinstance(value, (list, dict, set)) and name in MUTATORS:
            self.heap.touch(value)
            vague = self.change_vaguely(value, name, args)
            if vague is not ABSENT:
                return vague
            if name in ("extend", "update", "difference_update", "intersection_update") and args:
                items = args[0] if isinstance(args[0], dict) else self.iterate(args[0])
                if items is None:
                    unknown = first_unknown(args)
                    if name.endswith("_update"):
                        self.loosen(value, unknown.why)
                    else:
                        item = Maybe(Unknown(f"item of {unknown.key}", unknown.why), unknown.why)
                        (value.append if isinstance(value, list) else cast("set[Value]", value).add)(item)
                    return None
                args = [items, *args[1:]]
            args = [self.as_plain_callable(a) if isinstance(a, (Func, Native, Bound)) and name == "sort" else a for a in args]
            named = {k: self.as_plain_callable(v) if isinstance(v, (Func, Native, Bound)) else v for k, v in named.items()}
            return self.run_plain(getattr(value, name), args, named)
        if has_unknown(args) or has_unknown(named) or (has_unknown(value) and name != "copy"):
            unknown = first_unknown([value, *args, *named.values()])
            if isinstance(value, str) and name == "format":
                return Unknown(f"text({value})", unknown.why)
            options = self.plain_options(value, name, args)
            return options if options is not None else Unknown(f"{show(value)}.{name}({', '.join(map(show, args))})", unknown.why)
        if not limits.affordable(value, name, args):
            return Unknown(f"?{name}", "too large or too much work to evaluate")
        return self.run_plain(
            getattr(value, name), [self.as_argument(a) for a in args], {k: self.as_argument(v) for k, v in named.items()}
        )

    def change_vaguely(self, value: Value, name: str, args: list[Value]) -> Value:
        """A method that changes a list or set whose items are not all known, or by something unknown; ABSENT where it is
        to be run as it is."""
        if isinstance(value, dict) or name not in ("sort", "remove", "discard", "pop", "insert"):
            return ABSENT
        loose = any(isinstance(x, Maybe) for x in value)
        unsure = loose or has_unknown(args, 1) or (name in ("sort", "remove", "discard") and has_unknown(value))
        if not unsure:
            return ABSENT
        one = first_unknown([value, *args])
        if name == "sort":
            items = [Unknown(f"?item {i}", one.why) for i in range(len(value))]
            value[:] = [Maybe(x, one.why) for x in items] if loose else items
            return None
        if name == "insert":
            if loose or isinstance(args[0], Unknown):
                self.scatter(value, Maybe(args[-1], one.why))
                return None
            return ABSENT
        if name != "discard":
            sure = name == "remove" and any(self.truth(self.compare("==", x, args[0])) is True for x in value)
            sure = sure or (name == "pop" and any(not isinstance(x, Maybe) for x in value) and not has_unknown(args))
            if not sure:
                self.maybe(TargetRaise(IndexError if name == "pop" and isinstance(value, list) else ValueError, ()), one.why)
        self.loosen(value, one.why)
        return Unknown(f"?{name}", one.why) if name == "pop" else None

    def plain_options(self, value: Value, name: str, args: list[Value]) -> Value | None:
        if len(args) == 1 and isinstance(args[0], Unknown) and args[0].options and not has_unknown(value):
            good = self.each_option(args[0].options, lambda o: self.call_plain(value, name, [o], {}), args[0].key)
            return self.from_options(good, f"{show(value)}.{name}({show(args[0])})", args[0].why)
        return None

    def as_argument(self, value: Value) -> Value:
        if isinstance(value, (Func, Bound, Native)):
            return self.as_plain_callable(value)
        if isinstance(value, (tuple, list)) and any(isinstance(v, OURS) for v in value):
            return type(value)(self.printable(v) for v in value)
        return self.printable(value) if isinstance(value, OURS) else value

    def run_plain(self, fn: Callable[..., Any], args: list[Value], named: dict[str, Value]) -> Value:
        try:
            result = self.native(fn, *args, **named)
        except TargetRaise as exc:
            if exc.cls is NeedsUnknown:
                return Unknown("?callback", "depends on an unknown value")
            raise
        return list(result) if type(result).__name__ in ("dict_keys", "dict_values", "dict_items", "generator", "map") else result

    def call_dict(self, value: dict[Value, Value], name: str, args: list[Value], named: dict[str, Value]) -> Value:
        if name in ("get", "pop", "setdefault") and args:
            key = self.plain_of(args[0])
            default = args[1] if len(args) > 1 else None
            if isinstance(key, Unknown):
                if name != "get":
                    self.loosen(value, f"{name} of an unknown key")
                if name == "setdefault":
                    value[Unknown(f"?key {show(key)}", "unknown key")] = Maybe(default, show(key))
                if name == "pop" and len(args) == 1:
                    self.maybe(TargetRaise(KeyError, (key,)), key.why)
                if key.options:
                    results = [self.call_dict(value, "get", [o, default], {}) for o in key.options]
                    merged = results[0]
                    for one in results[1:]:
                        merged = join(merged, one, key.why)
                    return merged
                return Unknown(f"{show(value)[:60]}.{name}({key.key})", key.why)
            held = self.native(value.get, key, ABSENT)
            if type(held) is LazyImport:
                held = self.resolve(held, value, key)
            if name == "pop" and held is not ABSENT:
                self.heap.touch(value)
                value.pop(key)
            if held is ABSENT:
                if name == "setdefault":
                    self.heap.touch(value)
                    value[key] = default
                if name == "pop" and len(args) == 1:
                    raise TargetRaise(KeyError, (key,))
                if any(isinstance(k, Unknown) for k in value):
                    return join(default, Unknown(f"?value of {show(key)}", "unknown key"), "unknown key")
                return default
            return join(held.value, default, held.why) if isinstance(held, Maybe) else held
        if name in ("items", "values"):
            for lazy in [k for k, v in value.items() if type(v) is LazyImport]:
                self.resolve(value[lazy], value, lazy)
        if name == "items":
            return [Maybe((k, v.value), v.why) if isinstance(v, Maybe) else (k, v) for k, v in value.items()]
        if name == "values":
            return list(value.values())
        if name == "keys":
            return self.iterate(value)
        if name == "update":
            self.heap.touch(value)
            for source in map(self.to_read, [*args, named]):
                if isinstance(source, dict):
                    for k, v in source.items():
                        value[k] = join(value.get(k, ABSENT), v.value, v.why) if isinstance(v, Maybe) else v
                else:
                    pairs = self.iterate(source)
                    if pairs is None:
                        unknown = first_unknown([source])
                        for k, v in value.items():
                            value[k] = join(v, Unknown(f"?value of {show(k)}", unknown.why), unknown.why)
                        value[Unknown("?key", unknown.why)] = Maybe(Unknown("?value", unknown.why), unknown.why)
                    for pair in pairs or []:
                        if isinstance(pair, (tuple, list)) and len(pair) == 2:
                            value[pair[0]] = pair[1]
            return None
        if name == "copy":
            return dict(value)
        return ABSENT
