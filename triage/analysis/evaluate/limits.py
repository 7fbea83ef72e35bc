"""What plain operations on the target's values may cost, decided before they run: sizes of texts, work of patterns, and
fields of `str.format` that would reach into our own objects."""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import Formatter

from triage.analysis.evaluate.values import Value

MAX_TEXT = 1_000_000
MAX_MATCH = 10_000_000  # steps of a pattern on a text, at worst
_WIDE = re.compile(r"\d{6}")


def affordable(value: Value, name: str, args: Sequence[Value]) -> bool:
    """Whether the method `name` of a text, of bytes or of a compiled pattern may run with these arguments."""
    if isinstance(value, re.Pattern):
        return pattern_affordable(value.pattern, args)
    if not isinstance(value, (str, bytes)):
        return True
    if name in ("format", "format_map"):
        return format_affordable(value) if isinstance(value, str) else True
    if name in ("ljust", "rjust", "center", "zfill", "expandtabs"):
        return all(not isinstance(a, int) or a <= MAX_TEXT for a in args)
    if name == "replace" and len(args) > 1 and isinstance(args[1], (str, bytes)):
        return (len(value) + 1) * (len(args[1]) + 1) <= MAX_TEXT
    if name == "join" and args and isinstance(args[0], (list, tuple, str, bytes)):
        longest = sum(len(a) for a in args[0] if isinstance(a, (str, bytes))) if not isinstance(args[0], str) else len(args[0])
        return (len(value) + 1) * (len(args[0]) + 1) + longest <= MAX_TEXT
    return True


def format_affordable(text: str) -> bool:
    """Whether a template for `str.format` names no attribute or item of its arguments and no huge width."""
    try:
        parts = list(Formatter().parse(text))
    except ValueError:
        return True  # raises for the target too
    for _literal, field, spec, _conversion in parts:
        if field is not None and ("." in field or "[" in field):
            return False
        if spec and (not spec_affordable(spec) or "{" in spec):
            return False
    return True


def spec_affordable(spec: Value) -> bool:
    """Whether a format spec or a %-template has no number of six digits or more."""
    return not isinstance(spec, (str, bytes)) or _WIDE.search(spec if isinstance(spec, str) else spec.decode("latin-1")) is None


def pattern_affordable(pattern: Value, args: Sequence[Value]) -> bool:
    """Whether matching cannot take long: no repeat of unknown length inside another, and few beside each other for
    the length of the text."""
    if not isinstance(pattern, (str, bytes)):
        return True
    repeats = _repeats(pattern if isinstance(pattern, str) else pattern.decode("latin-1"))
    longest = max((len(a) for a in args if isinstance(a, (str, bytes))), default=0)
    return repeats is not None and (max(longest, 2) ** (repeats + 1) <= MAX_MATCH or repeats <= 1)


def _repeats(pattern: str) -> int | None:
    """The number of repeats in a pattern; None where one holds another, or a group of alternatives is repeated."""
    count = 0
    groups: list[bool] = [False]  # whether the open groups hold a repeat or alternatives
    closed = False  # whether the group that just ended did
    i = 0
    while i < len(pattern):
        c = pattern[i]
        ended = False
        if c == "\\":
            i += 1
        elif c == "[":
            i = _class_end(pattern, i)
        elif c == "(":
            groups.append(False)
            if pattern.startswith("(?", i):
                i += 1
        elif c == ")":
            ended = groups.pop() if len(groups) > 1 else False
            groups[-1] = groups[-1] or ended
        elif c == "|":
            groups[-1] = True
        elif c in "*+" or (c == "{" and re.match(r"\{\d*,?\d*\}", pattern[i:])):
            if closed:
                return None
            count += 1
            groups[-1] = True
            if i + 1 < len(pattern) and pattern[i + 1] in "?+":
                i += 1
        closed = ended
        i += 1
    return count


def _class_end(pattern: str, start: int) -> int:
    i = start + 1
    if pattern.startswith("^", i):
        i += 1
    i += 1  # a first ] stands for itself
    while i < len(pattern) and pattern[i] != "]":
        i += 2 if pattern[i] == "\\" else 1
    return i
