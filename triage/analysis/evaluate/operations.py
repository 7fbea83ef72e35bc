"""Arithmetic, items and iteration: plain values run natively under guards, unknown operands give an Unknown, objects of the
target use their own methods."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from triage.analysis.evaluate.comparing import DUNDER, OURS, key_in
from triage.analysis.evaluate.texts import Texts
from triage.analysis.evaluate.values import (
    ABSENT,
    Class,
    External,
    Instance,
    LazyImport,
    Maybe,
    Native,
    TargetRaise,
    Unknown,
    Value,
    first_unknown,
    has_unknown,
    join,
    same,
    show,
)

MAX_SIZE = 1_000_000
_CONTAINERS = (list, tuple, dict, set, frozenset)

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "<<": operator.lshift, ">>": operator.rshift, "|": operator.or_,
    "&": operator.and_, "^": operator.xor,
}  # fmt: skip

MUTATORS = {
    "append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "update", "setdefault", "add", "discard",
    "popitem", "difference_update", "intersection_update", "appendleft", "popleft", "__setitem__", "__delitem__",
}  # fmt: skip


def _is_generic(value: Value) -> bool:
    """`list[int]` and the like."""
    return type(value) is Instance and type(value.cls) is External and value.cls.path == "typing.generic"


def merge_dicts(options: tuple[Value, ...], why: str) -> dict[Value, Value]:
    """The mapping that is one of several, to be read: keys that some of them lack are there on some paths only."""
    out: dict[Value, Value] = dict(options[0])
    for one in options[1:]:
        out = {k: join(out.get(k, ABSENT), one.get(k, ABSENT), why) for k in [*out, *(k for k in one if k not in out)]}
    return out


def merge_rows(rows: Sequence[list[Value]], why: str) -> list[Value]:
    """The items of a sequence that is one of several, in order: those that some of them lack are there on some paths only."""
    out = rows[0]
    for row in rows[1:]:
        common = next((i for i, (a, b) in enumerate(zip(out, row, strict=False)) if not same(a, b)), min(len(out), len(row)))
        left, right = out[common:], row[common:]
        if len(left) == len(right):
            out = out[:common] + [join(a, b, why) for a, b in zip(left, right, strict=True)]
        else:
            out = out[:common] + [x if isinstance(x, Maybe) else Maybe(x, why) for x in [*left, *right]]
    return out


class Operations(Texts):
    """What expressions do with values."""

    def binary(self, symbol: str, a: Value, b: Value) -> Value:
        if isinstance(a, Unknown) or isinstance(b, Unknown):
            one = a if isinstance(a, Unknown) else b
            if one.options is not None:
                run = (lambda o: self.binary(symbol, o, b)) if one is a else (lambda o: self.binary(symbol, a, o))
                good = self.each_option(one.options, run, one.key)
                return self.from_options(good, f"({show(a)} {symbol} {show(b)})", one.why)
            return Unknown(f"({show(a)} {symbol} {show(b)})", one.why)
        a, b = self.plain_of(a), self.plain_of(b)
        if isinstance(a, (Class, External)) or isinstance(b, (Class, External)) or _is_generic(a) or _is_generic(b):
            return self.union(symbol, a, b)
        if isinstance(a, OURS):
            method = a.cls.lookup(DUNDER.get(symbol, "")) if isinstance(a, Instance) and isinstance(a.cls, Class) else ABSENT
            if method is not ABSENT:
                return self.call(method, [a, b])
            return Unknown(f"({show(a)} {symbol} {show(b)})", f"{show(a)} has no such operation here")
        if symbol == "%" and isinstance(a, str):
            return self.percent(a, b)
        if (
            symbol in ("-", "&")
            and isinstance(a, (set, frozenset))
            and isinstance(b, (set, frozenset))
            and has_unknown([a, b], 2)
        ):
            plain = {x for x in b if not isinstance(x, Maybe)}
            inside = [x for x in a if (x.value if isinstance(x, Maybe) else x) in plain]
            return set(inside) if symbol == "&" else {x for x in a if x not in inside}
        if symbol in ("+", "*", "<<", "**") and not self.small(symbol, a, b):
            return Unknown(f"?{symbol}", "too large to evaluate")
        if symbol == "@" or symbol not in _BINARY:
            return Unknown(f"?{symbol}", "not evaluated")
        return self.native(_BINARY[symbol], a, b)

    def each_option(self, options: Sequence[Value], run: Callable[[Value], Value], why: str) -> list[Value]:
        """The results for the options of an unknown value. What some of them raise may be raised; what all raise is."""
        results: list[Value] = []
        raised: list[TargetRaise] = []
        for option in options:
            try:
                results.append(run(option))
            except TargetRaise as exc:
                raised.append(exc)
        if raised and not results:
            raise raised[0]
        if raised:
            raised[0].reads = raised[0].reads or frozenset(self.reads)
            self.maybe(raised[0], why)
        return results

    def on_each(self, value: Unknown, run: Callable[[Value], Value]) -> Value:
        """The joined result of an action on the one object that the value is: what it changes is changed on its path only."""
        options = value.options or ()
        if len(options) < 2 or self.optimistic:
            return run(options[-1]) if options else Unknown(f"?{value.key}", value.why)
        rest = Unknown(value.key, value.why, options[1:])
        which = Unknown(f"?{value.key} is the first", value.why)
        return self.fork_value(self.stack[-1], which, lambda: run(options[0]), lambda: self.on_each(rest, run))

    def union(self, symbol: str, a: Value, b: Value) -> Value:
        if symbol != "|":
            return External(f"({show(a)} {symbol} {show(b)})")
        parts = tuple(type(None) if x is None else x for x in (a, b))
        return Instance(External("typing.generic"), {"origin": External("types.UnionType"), "args": parts})

    def small(self, symbol: str, a: Value, b: Value) -> bool:
        if symbol == "*":
            size = next((len(x) for x in (a, b) if isinstance(x, (str, bytes, list, tuple))), None)
            times = next((x for x in (a, b) if isinstance(x, int)), 0)
            return size is None or size * max(times, 0) <= MAX_SIZE
        if symbol in ("<<", "**"):
            return (
                isinstance(b, (int, float))
                and abs(b) <= 4096
                and (not isinstance(a, int) or a.bit_length() * max(int(b), 1) <= 65536)
            )
        return not (isinstance(a, (str, list)) and isinstance(b, (str, list)) and len(a) + len(b) > MAX_SIZE)

    def in_place(self, symbol: str, a: Value, b: Value) -> Value:
        if isinstance(a, Unknown) and a.options and any(isinstance(o, (list, set, dict)) for o in a.options):
            return self.on_each(a, lambda o: self.in_place(symbol, o, b))
        if isinstance(a, list) and symbol == "+" and not isinstance(b, Unknown):
            items = self.iterate(b)
            if items is not None:
                self.heap.touch(a)
                a.extend(items)
                return a
        if isinstance(a, (set, dict)) and symbol == "|" and type(b) is type(a):
            self.heap.touch(a)
            a.update(b)
            return a
        return self.binary(symbol, a, b)

    def resolve(self, lazy: LazyImport, home: dict[Value, Value], name: Value) -> Value:
        raise NotImplementedError

    def unary(self, symbol: str, value: Value) -> Value:
        value = self.plain_of(value)
        if isinstance(value, (Unknown, *OURS)):
            return Unknown(f"{symbol}{show(value)}", value.why if isinstance(value, Unknown) else "not evaluated")
        run: Any = {"-": operator.neg, "+": operator.pos, "~": operator.invert}[symbol]
        return self.native(run, value)

    def get_item(self, box: Value, index: Value) -> Value:
        if isinstance(box, Unknown) or isinstance(index, (Unknown, Maybe)):
            if isinstance(box, Unknown) and box.options:
                good = self.each_option(box.options, lambda o: self.get_item(o, index), box.key)
                return self.join_all(good, box.why)
            if isinstance(index, Unknown) and index.options and isinstance(box, (dict, list, tuple)):
                good = self.each_option(index.options, lambda o: self.get_item(box, o), index.key)
                return self.join_all(good, index.why)
            one = box if isinstance(box, Unknown) else index
            return self.told(Unknown(f"{show(box)}[{show(index)}]", one.why))
        if isinstance(box, (Class, External, Native)):
            return self.subscript_type(box, index)
        if isinstance(box, Instance):
            method = box.cls.lookup("__getitem__") if isinstance(box.cls, Class) else ABSENT
            if method is not ABSENT:
                return self.call(method, [box, index])
            if "__items__" in box.attrs:
                return self.get_item(box.attrs["__items__"], index)
            return Unknown(f"{show(box)}[{show(index)}]", f"{show(box)} is not known item by item")
        if isinstance(box, list) and any(isinstance(x, Maybe) for x in box):
            return Unknown(f"?item of {show(box)[:60]}", first_unknown([box]).why)
        if isinstance(box, type) or (isinstance(index, slice) and has_unknown((index.start, index.stop, index.step))):
            return (
                self.subscript_type(box, index) if isinstance(box, type) else Unknown(f"{show(box)[:60]}[...]", "unknown slice")
            )
        value = self.native(operator.getitem, box, self.plain_of(index))
        if type(value) is LazyImport:
            return self.resolve(value, box, index)
        if not isinstance(value, Maybe):
            return value
        if isinstance(box, dict) and self.assumptions.get(key_in(box, index)) is True:
            return value.value
        missing = TargetRaise(KeyError, (index,))
        missing.reads = frozenset(self.reads)
        self.maybe(missing, f"not {value.why}")
        return value.value

    def or_else(self, value: Value, other: Value) -> Value | None:
        """`value or other` where the value's truth is not known; None where it is neither. A container that may be empty is
        as good as an empty one."""
        options = value.options if isinstance(value, Unknown) else (value,)
        picked: list[Value] = []
        for one in options or ():
            truth = self.truth(one)
            if truth is None and not isinstance(one, _CONTAINERS):
                return None
            if truth is not False:
                picked.append(one)
            if truth is False or (truth is None and not (isinstance(other, _CONTAINERS) and not other)):
                picked.append(other)
        if not picked:
            return None
        return picked[0] if len(picked) == 1 else self.from_options(picked, f"({show(value)} or {show(other)})", "not known")

    def join_all(self, values: Sequence[Value], why: str) -> Value:
        result = values[0]
        for one in values[1:]:
            result = join(result, one, why)
        return result

    def subscript_type(self, box: Value, index: Value) -> Value:
        """`Optional[int]` and the like: the type itself is never needed here, except enum members by name."""
        if isinstance(box, Class) and box.kind == "enum" and isinstance(index, str):
            member = box.ns.get(index, ABSENT)
            if member is ABSENT:
                raise TargetRaise(KeyError, (index,))
            return member
        return Instance(External("typing.generic"), {"origin": box, "args": index})

    def set_item(self, box: Value, index: Value, value: Value) -> None:
        if isinstance(box, Unknown) and box.options:
            self.on_each(box, lambda o: self.set_item(o, index, value))
            return
        if isinstance(box, (list, dict)):
            index = self.plain_of(index)
            if isinstance(index, (Unknown, Maybe)):
                self.heap.touch(box)
                for key in list(box) if isinstance(box, dict) else range(len(box)):
                    if self.truth(self.compare("==", key, index)) is not False:
                        box[key] = join(box[key], value, show(index))
                if isinstance(box, dict):
                    box[Unknown(f"?key {show(index)}", "unknown key")] = Maybe(value, show(index))
                return
            if isinstance(box, list) and any(isinstance(x, Maybe) for x in box):
                self.loosen(box, f"one of {len(box)} is replaced")
                self.scatter(box, Maybe(value, show(index)))
                return
            self.heap.touch(box)
            self.native(box.__setitem__, index, value)
        elif isinstance(box, Instance):
            method = box.cls.lookup("__setitem__") if isinstance(box.cls, Class) else ABSENT
            if method is not ABSENT:
                self.call(method, [box, index, value])
            elif "__items__" in box.attrs:
                self.set_item(box.attrs["__items__"], index, value)

    def loosen(self, box: Value, why: str) -> None:
        """Each item of a container may be gone, or stand elsewhere."""
        self.heap.touch(box)
        if isinstance(box, dict):
            for key, held in box.items():
                box[key] = held if isinstance(held, Maybe) else Maybe(held, why)
            return
        items = [x if isinstance(x, Maybe) else Maybe(x, why) for x in box]
        box.clear()
        box.extend(items) if isinstance(box, list) else box.update(items)

    def scatter(self, box: list[Value], item: Maybe) -> None:
        """An item that stands somewhere among others."""
        self.heap.touch(box)
        box[:] = [item, *(x for held in box for x in (held, item))]

    def delete_item(self, box: Value, index: Value) -> None:
        if isinstance(box, Unknown) and box.options:
            self.on_each(box, lambda o: self.delete_item(o, index))
            return
        if isinstance(box, Instance) and "__items__" in box.attrs:
            box = box.attrs["__items__"]
        if isinstance(box, (list, dict)) and (
            isinstance(index, Unknown) or (isinstance(box, list) and any(isinstance(x, Maybe) for x in box))
        ):
            self.loosen(box, f"{show(index)} is deleted")
            return
        if isinstance(box, (list, dict)) and not isinstance(index, Unknown):
            self.heap.touch(box)
            self.native(operator.delitem, box, index)

    def to_read(self, value: Value) -> Value:
        """A value as a mapping to be read, where it is one of several; else the value."""
        if isinstance(value, Unknown) and value.options and all(type(o) is dict for o in value.options):
            return merge_dicts(value.options, value.why)
        return value

    def iterate(self, value: Value) -> list[Value] | None:
        """The items of a value, or None when they cannot be known. Maybe items stay wrapped."""
        if isinstance(value, (list, tuple)):
            return list(value)
        if isinstance(value, Unknown):
            if value.options is not None and len(value.options) == 1:
                return self.iterate(value.options[0])
            if value.options and all(isinstance(o, (list, tuple)) for o in value.options):
                return merge_rows([list(o) for o in value.options], value.why)
            merged = self.to_read(value)
            return self.iterate(merged) if merged is not value else None
        if isinstance(value, dict):
            return [Maybe(k, v.why) if isinstance(v, Maybe) else k for k, v in value.items()]
        if isinstance(value, (set, frozenset)):
            return sorted(value, key=lambda v: (type(v).__name__, str(v)))
        if isinstance(value, (str, bytes, range, type({}.items()), type({}.keys()), type({}.values()))):
            return list(value)
        if isinstance(value, Class) and value.kind == "enum":
            return list(value.options.get("members", []))
        if isinstance(value, Instance):
            if "__items__" in value.attrs:
                return self.iterate(value.attrs["__items__"])
            method = value.cls.lookup("__iter__") if isinstance(value.cls, Class) else ABSENT
            if method is not ABSENT:
                return self.iterate(self.call(method, [value]))
            return None
        if isinstance(value, OURS):
            return None
        if isinstance(value, (int, float, bool, type(None))):
            exc = TargetRaise(TypeError, (f"'{type(value).__name__}' object is not iterable",))
            exc.reads = frozenset(self.reads)
            raise exc
        return None

    def unpack(self, value: Value, count: int, star: int | None) -> list[Value]:
        items = self.iterate(value) if not isinstance(value, Unknown) or value.options is None else None
        if items is None and isinstance(value, Unknown) and value.options:
            rows = [self.iterate(o) for o in value.options]
            if star is None and all(r is not None and len(r) == count for r in rows):
                out: list[Value] = []
                for column in zip(*(r for r in rows if r is not None), strict=True):
                    merged = column[0]
                    for one in column[1:]:
                        merged = join(merged, one, value.why)
                    out.append(merged)
                return out
        if items is None:
            why = value.why if isinstance(value, Unknown) else f"{show(value)} is not known item by item"
            return [Unknown(f"{show(value)}[{i}]", why) for i in range(count)]
        items = [Unknown(f"?{show(i.value)}", i.why) if isinstance(i, Maybe) else i for i in items]
        if star is not None:
            after = count - star - 1
            return [*items[:star], items[star : len(items) - after], *items[len(items) - after :]]
        if len(items) != count:
            few = "not enough values to unpack" if len(items) < count else "too many values to unpack"
            raise TargetRaise(ValueError, (f"{few} (expected {count}, got {len(items)})",))
        return items


__all__ = ["MUTATORS", "OURS", "Operations"]
