"""Operations on values: plain Python ones run natively under guards, unknown operands give an Unknown, objects of the
target use their own methods. A native exception becomes a `TargetRaise` here and nowhere else."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

from triage.analysis.evaluate.values import (
    ABSENT,
    MAX_OPTIONS,
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
    same,
    show,
)
from triage.analysis.evaluate.world import Frame, World

OURS = (Func, Native, Bound, Class, Instance, External, Module, Wrapped)
MAX_SIZE = 1_000_000

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "<<": operator.lshift, ">>": operator.rshift, "|": operator.or_,
    "&": operator.and_, "^": operator.xor,
}  # fmt: skip
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_DUNDER = {
    "+": "__add__", "-": "__sub__", "*": "__mul__", "/": "__truediv__", "//": "__floordiv__", "%": "__mod__", "|": "__or__",
    "&": "__and__", "==": "__eq__", "!=": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__",
}  # fmt: skip
MUTATORS = {
    "append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "update", "setdefault", "add", "discard",
    "popitem", "difference_update", "intersection_update", "appendleft", "popleft", "__setitem__", "__delitem__",
}  # fmt: skip


class Operations(World):
    """What expressions do with values."""

    def native(self, fn: Callable[..., Value], *args: Value, **named: Value) -> Value:
        """Run one native operation on plain values; what it raises is the target's exception."""
        try:
            return fn(*args, **named)
        except TargetRaise:
            raise
        except RecursionError:
            return Unknown("?recursion", "nested too deeply")
        except Exception as exc:  # the one place where any exception of a plain operation is the target's own
            raised = TargetRaise(type(exc), exc.args)
            raised.reads = frozenset(self.reads)
            raise raised from None

    # ------------------------------------------------ truth and comparison
    def truth(self, value: Value) -> bool | None:
        kind = type(value)
        if kind is bool:
            return bool(value)
        if kind is Unknown:
            known = self.assumptions.get(value.key)
            if known is True or known is False:
                return bool(known)
            if value.key.startswith("not "):
                inner = self.assumptions.get(value.key[4:])
                if inner is True or inner is False:
                    return not inner
            if value.options is not None:
                answers = {self.truth(o) for o in value.options}
                return answers.pop() if len(answers) == 1 else None
            return None
        if kind is Maybe:
            return None
        if kind in (list, tuple, dict, set, frozenset):
            if value and all(isinstance(v, Maybe) for v in (value.values() if kind is dict else value)):
                return None
            return bool(value)
        if kind is Instance:
            for name in ("__bool__", "__len__"):
                method = value.cls.lookup(name) if isinstance(value.cls, Class) else ABSENT
                if method is not ABSENT:
                    return self.truth(self.call(method, [value]))
            return None if value.opaque else True
        if isinstance(value, (*OURS, TargetRaise)):
            return None if kind is External else True
        return bool(self.native(bool, value))

    def any_of(self, results: Iterable[Value]) -> Value:
        unknown: Value = None
        for result in results:
            truth = self.truth(result)
            if truth is True:
                return True
            if truth is None and unknown is None:
                unknown = result
        return False if unknown is None else unknown

    def compare(self, symbol: str, a: Value, b: Value) -> Value:
        """One comparison. Unknown operands with few options are tried one by one."""
        if isinstance(a, Maybe) or isinstance(b, Maybe):
            return Unknown(f"({show(a)} {symbol} {show(b)})", (a if isinstance(a, Maybe) else b).why)
        if symbol in ("is", "is not"):
            return self.compare_identity(symbol, a, b)
        if symbol in ("in", "not in"):
            return self.compare_membership(symbol, a, b)
        for one, other, flip in ((a, b, False), (b, a, True)):
            if isinstance(one, Unknown):
                if one.options is not None:
                    tried = [self.compare(symbol, *((other, o) if flip else (o, other))) for o in self.fitting(one, symbol)]
                    return self.from_options(tried, f"({show(a)} {symbol} {show(b)})", one.why)
                if isinstance(other, Unknown) and other.key == one.key and symbol in ("==", "!="):
                    return symbol == "=="
                return Unknown(f"({show(a)} {symbol} {show(b)})", one.why)
        if isinstance(a, OURS) or isinstance(b, OURS):
            return self.compare_objects(symbol, a, b)
        if has_unknown(a) or has_unknown(b):
            if symbol in ("==", "!=") and isinstance(a, (list, tuple)) and type(a) is type(b) and len(a) != len(b):
                return symbol == "!="
            return Unknown(f"({show(a)} {symbol} {show(b)})", first_unknown([a, b]).why)
        return self.native(_COMPARE[symbol], a, b)

    def fitting(self, value: Unknown, symbol: str) -> tuple[Value, ...]:
        """The options; for an ordering, None is left out when others remain (it would have raised)."""
        assert value.options is not None
        return value.options

    def from_options(self, results: list[Value], key: str, why: str) -> Value:
        first = results[0]
        if all(same(first, r) for r in results[1:]):
            return first
        distinct: list[Value] = []
        for result in results:
            if isinstance(result, Unknown):
                return Unknown(key, why)
            if not any(same(result, d) for d in distinct):
                distinct.append(result)
        return Unknown(key, why, tuple(distinct) if len(distinct) <= MAX_OPTIONS else None)

    def compare_identity(self, symbol: str, a: Value, b: Value) -> Value:
        for one, other in ((a, b), (b, a)):
            if isinstance(one, Unknown):
                if one.options is not None and not isinstance(other, Unknown):
                    tried = [self.compare_identity(symbol, o, other) for o in one.options]
                    return self.from_options(tried, f"({show(a)} {symbol} {show(b)})", one.why)
                if symbol == "is not":
                    return Unknown(f"not ({show(a)} is {show(b)})", one.why)
                return Unknown(f"({show(a)} is {show(b)})", one.why)
        if isinstance(a, External) and isinstance(b, External):
            result = a.path == b.path
        elif isinstance(a, Instance) and b is None and a.cls is External:
            return Unknown(f"({show(a)} {symbol} None)", f"{show(a)} is outside the package")
        else:
            result = a is b or (isinstance(a, (int, str)) and type(a) is type(b) and a == b)
        return result if symbol == "is" else not result

    def compare_membership(self, symbol: str, a: Value, b: Value) -> Value:
        result = self.contains(b, a)
        truth = self.truth(result)
        if symbol == "in":
            return result
        if truth is not None:
            return not truth
        key = result.key if isinstance(result, Unknown) else show(result)
        return Unknown(f"not {key}", result.why if isinstance(result, Unknown) else "not known")

    def contains(self, box: Value, item: Value) -> Value:
        if isinstance(box, Unknown):
            return Unknown(f"({show(item)} in {show(box)})", box.why)
        if isinstance(box, Instance):
            method = box.cls.lookup("__contains__") if isinstance(box.cls, Class) else ABSENT
            if method is not ABSENT:
                return self.call(method, [box, item])
            return Unknown(f"({show(item)} in {show(box)})", f"{show(box)} cannot be searched")
        if isinstance(box, str) and isinstance(item, str):
            return item in box
        if isinstance(box, dict):
            if isinstance(item, Unknown):
                return self.any_of([self.compare("==", k, item) for k in box])
            held = self.native(box.get, item, ABSENT)
            return Unknown(f"({show(item)} in ...)", held.why) if isinstance(held, Maybe) else held is not ABSENT
        if isinstance(box, (list, tuple, set, frozenset)):
            if (
                type(item) in (str, int, bool, type(None))
                and not has_unknown(box, 1)
                and not any(isinstance(x, OURS) for x in box)
            ):
                return item in box
            key = f"({show(item)} in {show(box)})"
            result = self.any_of([self.compare("==", x, item) for x in box])
            return Unknown(key, result.why) if isinstance(result, Unknown) else result
        items = self.iterate(box)
        if items is None:
            return Unknown(f"({show(item)} in {show(box)})", f"{show(box)} is not known")
        return self.any_of([self.compare("==", x, item) for x in items])

    def compare_objects(self, symbol: str, a: Value, b: Value) -> Value:
        for one, other, name in ((a, b, _DUNDER.get(symbol, "")), (b, a, _DUNDER.get(symbol, ""))):
            if isinstance(one, Instance) and isinstance(one.cls, Class):
                method = one.cls.lookup(name)
                if method is not ABSENT:
                    return self.call(method, [one, other])
                if symbol == "!=" and one.cls.lookup("__eq__") is not ABSENT:
                    answer = self.truth(self.call(one.cls.lookup("__eq__"), [one, other]))
                    return Unknown(f"({show(a)} != {show(b)})", "not known") if answer is None else not answer
        left, right = self.plain_of(a), self.plain_of(b)
        if left is not a or right is not b:
            return self.compare(symbol, left, right)
        if isinstance(a, External) or isinstance(b, External):
            if symbol in ("==", "!=") and ((isinstance(a, External) and isinstance(b, External)) or is_marker(a) or is_marker(b)):
                return (a is b) is (symbol == "==")
            return Unknown(
                f"({show(a)} {symbol} {show(b)})", f"{show(a if isinstance(a, External) else b)} is outside the package"
            )
        if symbol in ("==", "!="):
            if isinstance(a, Instance) and isinstance(b, Instance) and self.is_record(a) and a.cls is b.cls:
                both = [self.truth(self.compare("==", v, b.attrs.get(k))) for k, v in a.attrs.items()]
                equal = False if False in both else (None if None in both else True)
                return Unknown(f"({show(a)} {symbol} {show(b)})", "not known") if equal is None else equal is (symbol == "==")
            equal = (a.fn is b.fn and a.self is b.self) if isinstance(a, Bound) and isinstance(b, Bound) else a is b
            return equal is (symbol == "==")
        text = f"'{symbol}' not supported between instances of '{self.type_name(a)}' and '{self.type_name(b)}'"
        exc = TargetRaise(TypeError, (text,))
        exc.reads = frozenset(self.reads)
        raise exc

    def plain_of(self, value: Value) -> Value:
        """The plain value of an enum member whose class is also an int or str."""
        if isinstance(value, Instance) and isinstance(value.cls, Class) and value.cls.kind == "enum":
            base = value.cls.native_base()
            if base in (int, str):
                return value.attrs.get("_value_")
        if isinstance(value, Instance) and "__plain__" in value.attrs:
            return value.attrs["__plain__"]
        return value

    def is_record(self, value: Instance) -> bool:
        return isinstance(value.cls, Class) and value.cls.kind in ("dataclass", "struct", "namedtuple")

    def type_name(self, value: Value) -> str:
        if isinstance(value, Instance):
            return value.cls.name if isinstance(value.cls, Class) else show(value.cls)
        if isinstance(value, Class):
            return "type"
        if isinstance(value, (Func, Native, Bound)):
            return "function"
        return type(value).__name__

    def narrow(
        self,
        f: Frame,
        read: Callable[..., Value],
        store: Callable[..., None],
        test: Callable[[Value], Value],
        symbol: str,
        other: Callable[..., Value] | None,
        truth: bool,
    ) -> None:
        """Write what a test's outcome says about the unknown value it read."""
        reads, self.reads = self.reads, set()
        try:
            value = read(self, f)
            if not isinstance(value, Unknown):
                return
            if value.options is not None:
                kept = tuple(o for o in value.options if self.truth(test(o)) is not (not truth))
                if kept and len(kept) < len(value.options):
                    self.reads = set()
                    store(self, f, kept[0] if len(kept) == 1 else Unknown(value.key + "'", value.why, kept))
            elif other is not None and ((symbol in ("is", "==") and truth) or (symbol in ("is not", "!=") and not truth)):
                target = other(self, f)
                if not isinstance(target, Unknown) and not isinstance(target, OURS):
                    store(self, f, target)
            elif other is not None and symbol == "in" and truth:
                target = other(self, f)
                if (
                    isinstance(target, (list, tuple, set, frozenset))
                    and 0 < len(target) <= MAX_OPTIONS
                    and not has_unknown(target)
                ):
                    store(self, f, Unknown(value.key + "'", value.why, tuple(target)))
        except TargetRaise:
            return
        finally:
            self.reads = reads

    # ------------------------------------------------ arithmetic
    def binary(self, symbol: str, a: Value, b: Value) -> Value:
        if isinstance(a, Unknown) or isinstance(b, Unknown):
            one = a if isinstance(a, Unknown) else b
            if one.options is not None:
                if one is a:
                    tried = [self.try_option(lambda o=o: self.binary(symbol, o, b)) for o in one.options]
                else:
                    tried = [self.try_option(lambda o=o: self.binary(symbol, a, o)) for o in one.options]
                good = [t for t in tried if t is not ABSENT]
                if good:
                    return self.from_options(good, f"({show(a)} {symbol} {show(b)})", one.why)
            return Unknown(f"({show(a)} {symbol} {show(b)})", one.why)
        a, b = self.plain_of(a), self.plain_of(b)
        if isinstance(a, (Class, External)) or isinstance(b, (Class, External)):
            return self.union(symbol, a, b)
        if isinstance(a, OURS):
            method = a.cls.lookup(_DUNDER.get(symbol, "")) if isinstance(a, Instance) and isinstance(a.cls, Class) else ABSENT
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

    def try_option(self, run: Callable[[], Value]) -> Value:
        try:
            return run()
        except TargetRaise:
            return ABSENT

    def union(self, symbol: str, a: Value, b: Value) -> Value:
        return External(f"({show(a)} {symbol} {show(b)})")

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

    def percent(self, text: str, value: Value) -> Value:
        values = value if isinstance(value, tuple) else (value,)
        if has_unknown(values):
            return Unknown(f"text({text})", first_unknown(values).why)
        if isinstance(value, dict):
            return self.native(operator.mod, text, {k: self.printable(v) for k, v in value.items()})
        return self.native(operator.mod, text, tuple(self.printable(v) for v in values))

    def in_place(self, symbol: str, a: Value, b: Value) -> Value:
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

    def unary(self, symbol: str, value: Value) -> Value:
        value = self.plain_of(value)
        if isinstance(value, Unknown) or isinstance(value, OURS):
            return Unknown(f"{symbol}{show(value)}", value.why if isinstance(value, Unknown) else "not evaluated")
        return self.native({"-": operator.neg, "+": operator.pos, "~": operator.invert}[symbol], value)

    # ------------------------------------------------ items
    def get_item(self, box: Value, index: Value) -> Value:
        if isinstance(box, Unknown) or isinstance(index, (Unknown, Maybe)):
            if isinstance(index, Unknown) and index.options and isinstance(box, (dict, list, tuple)):
                tried = [self.try_option(lambda o=o: self.get_item(box, o)) for o in index.options]
                good = [t for t in tried if t is not ABSENT]
                if good:
                    result = good[0]
                    for one in good[1:]:
                        result = join(result, one, index.why)
                    return result
            one = box if isinstance(box, Unknown) else index
            return Unknown(f"{show(box)}[{show(index)}]", one.why)
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
        return value.value if isinstance(value, Maybe) else value

    def subscript_type(self, box: Value, index: Value) -> Value:
        """`Optional[int]` and the like: the type itself is never needed here, except enum members by name."""
        if isinstance(box, Class) and box.kind == "enum" and isinstance(index, str):
            member = box.ns.get(index, ABSENT)
            if member is ABSENT:
                raise TargetRaise(KeyError, (index,))
            return member
        return Instance(External("typing.generic"), {"origin": box, "args": index})

    def set_item(self, box: Value, index: Value, value: Value) -> None:
        if isinstance(box, (list, dict)):
            index = self.plain_of(index)
            if isinstance(index, (Unknown, Maybe)):
                self.heap.touch(box)
                if isinstance(box, dict):
                    box[Unknown(f"?key {show(index)}", "unknown key")] = Maybe(value, show(index))
                return
            self.heap.touch(box)
            self.native(box.__setitem__, index, value)
        elif isinstance(box, Instance):
            method = box.cls.lookup("__setitem__") if isinstance(box.cls, Class) else ABSENT
            if method is not ABSENT:
                self.call(method, [box, index, value])
            elif "__items__" in box.attrs:
                self.set_item(box.attrs["__items__"], index, value)

    def delete_item(self, box: Value, index: Value) -> None:
        if isinstance(box, Instance) and "__items__" in box.attrs:
            box = box.attrs["__items__"]
        if isinstance(box, (list, dict)) and not isinstance(index, Unknown):
            self.heap.touch(box)
            self.native(operator.delitem, box, index)

    def iterate(self, value: Value) -> list[Value] | None:
        """The items of a value, or None when they cannot be known. Maybe items stay wrapped."""
        if isinstance(value, (list, tuple)):
            return list(value)
        if isinstance(value, Unknown):
            if value.options is not None and len(value.options) == 1:
                return self.iterate(value.options[0])
            return None
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

    # ------------------------------------------------ text
    def printable(self, value: Value) -> Value:
        """What native formatting may be given: plain values; objects become their text."""
        plain = self.plain_of(value)
        if isinstance(plain, (*OURS, TargetRaise)):
            text = self.to_text(plain, False)
            return text if isinstance(text, str) else show(text)
        return plain

    def to_text(self, value: Value, as_repr: bool) -> Value:
        if isinstance(value, Unknown):
            return Unknown(f"str({value.key})", value.why)
        if isinstance(value, Maybe) or has_unknown(value):
            return Unknown(f"str({show(value)})", first_unknown([value]).why)
        if isinstance(value, TargetRaise):
            return value.message if isinstance(value.message, (str, Unknown)) else str(value.message)
        if isinstance(value, Instance):
            for name in ("__repr__",) if as_repr else ("__str__", "__repr__"):
                method = value.cls.lookup(name) if isinstance(value.cls, Class) else ABSENT
                if method is not ABSENT:
                    return self.call(method, [value])
            if isinstance(value.cls, Class) and value.cls.kind == "enum":
                name = value.attrs.get("_name_")
                if value.cls.native_base() is str and not as_repr and value.cls.options.get("str_enum"):
                    return value.attrs.get("_value_")
                return f"<{value.cls.name}.{name}: {value.attrs.get('_value_')!r}>" if as_repr else f"{value.cls.name}.{name}"
            if value.cls is not None and value.opaque:
                return Unknown(f"str({show(value)})", f"{show(value)} is not known")
            return repr(value)
        if isinstance(value, (list, tuple, dict, set, frozenset)):
            return self.native(repr, self.deep_printable(value))
        if isinstance(value, Class):
            return f"<class '{value.module.name}.{value.qualname}'>"
        return self.native(repr if as_repr else str, value)

    def deep_printable(self, value: Value) -> Value:
        if isinstance(value, list):
            return [self.deep_printable(v) for v in value]
        if isinstance(value, tuple):
            return tuple(self.deep_printable(v) for v in value)
        if isinstance(value, dict):
            return {self.deep_printable(k): self.deep_printable(v) for k, v in value.items()}
        return _Text(self.to_text(value, True)) if isinstance(value, OURS) else value

    def format(self, value: Value, conversion: int, spec: Value) -> Value:
        if isinstance(spec, Unknown):
            return spec
        if conversion == ord("r"):
            value = self.to_text(value, True)
        elif conversion in (ord("s"), ord("a")):
            value = self.to_text(value, False)
        if isinstance(value, (Unknown, Maybe)) or has_unknown(value):
            return first_unknown([value])
        if not spec and isinstance(value, (*OURS, TargetRaise, list, tuple, dict, set, frozenset)):
            return self.to_text(value, False)
        return self.native(format, self.printable(value), spec)


def is_marker(value: Value) -> bool:
    """A name outside the package that is surely equal to nothing but itself: a sentinel, a torch dtype."""
    return isinstance(value, External) and (
        value.path in _MARKERS or (value.path.startswith("torch.") and value.path.count(".") == 1)
    )


_MARKERS = {
    "dataclasses.MISSING",
    "msgspec.NODEFAULT",
    "inspect.Parameter.empty",
    "inspect._empty",
    "typing.Any",
    "msgspec.UNSET",
}


class _Text(str):
    """A text whose repr is itself, for the repr of containers that hold objects of the target."""

    def __repr__(self) -> str:
        return str(self)
