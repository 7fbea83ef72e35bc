"""Truth and comparison of values, and what the outcome of a test says about an unknown one. A native exception becomes a
`TargetRaise` here and nowhere else."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

from triage.analysis.evaluate.frames import Frame
from triage.analysis.evaluate.values import (
    ABSENT,
    MAX_OPTIONS,
    PLAIN,
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
    same,
    show,
)
from triage.analysis.evaluate.world import World

_MEMBERSHIP = ("in", "not in")
OURS = (Func, Native, Bound, Class, Instance, External, Module, Wrapped)

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip

DUNDER = {
    "+": "__add__", "-": "__sub__", "*": "__mul__", "/": "__truediv__", "//": "__floordiv__", "%": "__mod__", "|": "__or__",
    "&": "__and__", "==": "__eq__", "!=": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__",
}  # fmt: skip


_MARKERS = {
    "dataclasses.MISSING",
    "msgspec.NODEFAULT",
    "inspect.Parameter.empty",
    "inspect._empty",
    "typing.Any",
    "msgspec.UNSET",
}


def key_in(box: dict[Value, Value], item: Value) -> str:
    """The name of the test whether a key that is there on some paths only is there."""
    return f"({show(item)} in mapping @{id(box)})"


class Comparing(World):
    """Truth, comparison, membership, narrowing."""

    def native(self, fn: Callable[..., Value], *args: Value, **named: Value) -> Value:
        """Run one native operation on plain values; what it raises is the target's exception."""
        try:
            return fn(*args, **named)
        except TargetRaise:
            raise
        except RecursionError:
            return Unknown("?recursion", "nested too deeply")
        except MemoryError:
            return Unknown("?memory", "too large to evaluate")
        except Exception as exc:  # the one place where any exception of a plain operation is the target's own
            raised = TargetRaise(type(exc), exc.args)
            raised.reads = frozenset(self.reads)
            raise raised from None

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
        if type(a) in PLAIN and type(b) in PLAIN and symbol not in _MEMBERSHIP:
            if symbol in ("is", "is not"):
                return self.compare_identity(symbol, a, b)
            return self.native(_COMPARE[symbol], a, b)
        if isinstance(a, Maybe) or isinstance(b, Maybe):
            return Unknown(f"({show(a)} {symbol} {show(b)})", (a if isinstance(a, Maybe) else b).why)
        if symbol in ("is", "is not"):
            return self.compare_identity(symbol, a, b)
        if symbol in ("in", "not in"):
            return self.compare_membership(symbol, a, b)
        for one, other, flip in ((a, b, False), (b, a, True)):
            if isinstance(one, Unknown):
                if one.options is not None:
                    key = f"({show(a)} {symbol} {show(b)})"
                    pair = (
                        (lambda o, x=other: self.compare(symbol, x, o))
                        if flip
                        else (lambda o, x=other: self.compare(symbol, o, x))
                    )
                    return self.from_options(self.each_option(one.options, pair, one.key), key, one.why)
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
            if box.options:
                tried = self.each_option(box.options, lambda o: self.contains(o, item), box.key)
                return self.from_options(tried, f"({show(item)} in {show(box)})", box.why)
            return Unknown(f"({show(item)} in {show(box)})", box.why)
        if isinstance(item, Unknown) and item.options and isinstance(box, (dict, list, tuple, set, frozenset)):
            tried = self.each_option(item.options, lambda o: self.contains(box, o), item.key)
            return self.from_options(tried, f"({show(item)} in {show(box)})", item.why)
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
            return Unknown(key_in(box, item), held.why) if isinstance(held, Maybe) else held is not ABSENT
        if isinstance(box, (list, tuple, set, frozenset)):
            if type(item) in PLAIN and PLAIN.issuperset(map(type, box)):
                return item in box
            key = f"({show(item)} in {show(box)})"
            result = self.any_of([self.compare("==", x, item) for x in box])
            return Unknown(key, result.why) if isinstance(result, Unknown) else result
        items = self.iterate(box)
        if items is None:
            return Unknown(f"({show(item)} in {show(box)})", f"{show(box)} is not known")
        return self.any_of([self.compare("==", x, item) for x in items])

    def compare_objects(self, symbol: str, a: Value, b: Value) -> Value:
        for one, other, name in ((a, b, DUNDER.get(symbol, "")), (b, a, DUNDER.get(symbol, ""))):
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
                    store(self, f, kept[0] if len(kept) == 1 else Unknown(value.key, value.why, kept))
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
                    store(self, f, Unknown(value.key, value.why, tuple(target)))
        except TargetRaise:
            return
        finally:
            self.reads = reads


def is_marker(value: Value) -> bool:
    """A name outside the package that is surely equal to nothing but itself: a sentinel, a torch dtype."""
    return isinstance(value, External) and (
        value.path in _MARKERS or (value.path.startswith("torch.") and value.path.count(".") == 1)
    )
