"""The patterns of `match`: each compiles to a test of a value that binds names where it holds."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from triage.analysis.evaluate.expressions import compile_expression
from triage.analysis.evaluate.values import ABSENT, Class, Instance, Maybe, TargetRaise, Unknown, Value, show

if TYPE_CHECKING:
    from triage.analysis.evaluate.frames import Frame
    from triage.analysis.evaluate.machine import Machine

# Whether the value matches: True, False or an Unknown; names are bound on the way, as Python does it.
Test = Callable[[Any, "Frame", Value], Value]
_SELF_MATCHING = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


def compile_pattern(pattern: ast.pattern) -> Test:
    maker = _MAKERS[type(pattern)]
    return maker(pattern)


def _both(w: Machine, first: Value, rest: Callable[[], Value]) -> Value:
    """`first and rest()`, where an unknown first still lets the rest bind its names."""
    truth = w.truth(first)
    if truth is False:
        return False
    second = rest()
    return first if truth is None and w.truth(second) is not False else second


def _value(pattern: ast.MatchValue) -> Test:
    wanted = compile_expression(pattern.value)

    def run(w: Machine, f: Frame, value: Value) -> Value:
        return w.compare("==", value, wanted(w, f))

    return run


def _singleton(pattern: ast.MatchSingleton) -> Test:
    def run(w: Machine, f: Frame, value: Value) -> Value:
        return w.compare("is", value, pattern.value)

    return run


def _or(pattern: ast.MatchOr) -> Test:
    tests = [compile_pattern(p) for p in pattern.patterns]

    def run(w: Machine, f: Frame, value: Value) -> Value:
        unknown: Value = False
        for test in tests:
            result = test(w, f, value)
            truth = w.truth(result)
            if truth:
                return True if unknown is False else unknown
            if truth is None and unknown is False:
                unknown = result
        return unknown

    return run


def _as(pattern: ast.MatchAs) -> Test:
    inner = compile_pattern(pattern.pattern) if pattern.pattern is not None else None

    def run(w: Machine, f: Frame, value: Value) -> Value:
        result = True if inner is None else inner(w, f, value)
        if pattern.name is not None and w.truth(result) is not False:
            f.assign(w, pattern.name, value)
        return result

    return run


def _sequence(pattern: ast.MatchSequence) -> Test:
    star = next((i for i, p in enumerate(pattern.patterns) if isinstance(p, ast.MatchStar)), None)
    rest = pattern.patterns[star] if star is not None else None
    rest_name = rest.name if isinstance(rest, ast.MatchStar) else None
    tests = [compile_pattern(p) for p in pattern.patterns if not isinstance(p, ast.MatchStar)]

    def run(w: Machine, f: Frame, value: Value) -> Value:
        if isinstance(value, Unknown):
            for test in tests:
                test(w, f, Unknown(f"item of {value.key}", value.why))
            return Unknown(f"match {value.key}", value.why)
        if not isinstance(value, (list, tuple)):
            return False
        if any(isinstance(v, Maybe) for v in value):
            return Unknown(f"match {show(value)}", "its length is not known")
        if len(value) < len(tests) or (star is None and len(value) != len(tests)):
            return False
        items = list(value)
        if star is not None:
            after = len(tests) - star
            if rest_name is not None:
                f.assign(w, rest_name, items[star : len(items) - after])
            items = items[:star] + items[len(items) - after :]
        result: Value = True
        for test, item in zip(tests, items, strict=True):
            result = _both(w, result, partial(test, w, f, item))
        return result

    return run


def _mapping(pattern: ast.MatchMapping) -> Test:
    keys = [compile_expression(k) for k in pattern.keys]
    tests = [compile_pattern(p) for p in pattern.patterns]

    def run(w: Machine, f: Frame, value: Value) -> Value:
        if isinstance(value, Unknown):
            for test in tests:
                test(w, f, Unknown(f"item of {value.key}", value.why))
            return Unknown(f"match {value.key}", value.why)
        if not isinstance(value, dict):
            return False
        result: Value = True
        seen: list[Value] = []
        for key, test in zip(keys, tests, strict=True):
            name = key(w, f)
            seen.append(name)
            held = value.get(name, ABSENT)
            if held is ABSENT:
                return False
            if isinstance(held, Maybe):
                perhaps = Unknown(f"?match {held.why}", held.why)
                result, held = (perhaps if w.truth(result) is True else result), held.value
            result = _both(w, result, partial(test, w, f, held))
        if pattern.rest is not None:
            f.assign(w, pattern.rest, {k: v for k, v in value.items() if k not in seen})
        return result

    return run


def _class(pattern: ast.MatchClass) -> Test:
    wanted = compile_expression(pattern.cls)
    positional = [compile_pattern(p) for p in pattern.patterns]
    named = [(n, compile_pattern(p)) for n, p in zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True)]

    def run(w: Machine, f: Frame, value: Value) -> Value:
        cls = wanted(w, f)
        result = w.call(w.builtins["isinstance"], [value, cls])
        if w.truth(result) is False:
            return False
        parts: list[tuple[Test, Value]] = []
        if positional and cls in _SELF_MATCHING:
            parts.append((positional[0], value))
        elif positional:
            names = _match_args(w, cls)
            if names is None or len(names) < len(positional):
                why = f"what {show(cls)} matches by position is not known"
                parts += [(t, Unknown(f"?match {show(value)}", why)) for t in positional]
                result = Unknown(f"?match {show(value)}", why)
            else:
                parts += [(t, _attribute(w, value, n)) for t, n in zip(positional, names, strict=False)]
        parts += [(t, _attribute(w, value, n)) for n, t in named]
        for test, item in parts:
            if item is ABSENT:
                return False
            result = _both(w, result, partial(test, w, f, item))
        return result

    return run


def _attribute(w: Machine, value: Value, name: str) -> Value:
    try:
        return w.find_attribute(value, name)
    except TargetRaise as exc:
        if exc.cls is AttributeError:
            return ABSENT
        raise


def _match_args(w: Machine, cls: Value) -> list[str] | None:
    if not isinstance(cls, Class):
        return None
    given = cls.lookup("__match_args__")
    if isinstance(given, tuple):
        return list(given)
    if cls.kind in ("dataclass", "namedtuple", "struct"):
        return [f.attrs["name"] for f in w.fields_of(cls) if isinstance(f, Instance)]
    return None


_MAKERS: dict[type[ast.pattern], Callable[..., Test]] = {
    ast.MatchValue: _value,
    ast.MatchSingleton: _singleton,
    ast.MatchOr: _or,
    ast.MatchAs: _as,
    ast.MatchSequence: _sequence,
    ast.MatchMapping: _mapping,
    ast.MatchClass: _class,
}
