"""What the log says of settings: a printed args object, and the values that the failing exception's message was made with."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from triage.analysis.evaluate.values import Unknown as NotKnown
from triage.analysis.evaluate.values import Value, has_unknown, show
from triage.analysis.records import Printed
from triage.analysis.templates import Hole, template_of, text_parts
from triage.model import MASK, LogRecord

MAX_TEXT = 300_000  # characters of a printed object
MAX_FIELDS = 3000
MAX_VALUE = 20_000
_NAME = re.compile(r"\s*(?:(?P<word>[A-Za-z_]\w{0,100})=|(?P<quote>['\"])(?P<key>[A-Za-z_]\w{0,100})(?P=quote):)\s*")
_STEP = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[()\[\]{}<>,\"']", re.S)
_CLOSES = {")": "(", "]": "[", "}": "{", ">": "<"}
_PLAIN = (str, int, float, bool, type(None))


@dataclass(frozen=True)
class PrintedValue:
    """A field as printed. `value` is set where `literal`: the text is a plain Python value."""

    text: str
    literal: bool
    value: Value = None


@dataclass(frozen=True)
class PrintedArgs:
    """An args object as the log holds it; not `complete` where the line was cut."""

    fields: Mapping[str, PrintedValue]
    log_line: int
    complete: bool


def read_args(text: str) -> tuple[dict[str, PrintedValue], bool]:
    """The fields of a printed object, from the character after its opening bracket: `a=1, b='x')` or `'a': 1}`.

    A value that the end of the text cuts is left out, and the second result is False. Nothing is run; work is bounded by
    the length of the text.
    """
    out: dict[str, PrintedValue] = {}
    at = 0
    text = text[:MAX_TEXT]
    while len(out) < MAX_FIELDS:
        name = _NAME.match(text, at)
        if name is None:
            return out, text[at:].lstrip()[:1] in (")", "}")
        end, closing = _value_end(text, name.end())
        if end is None:
            return out, False
        out[name["word"] or name["key"]] = _read_value(text[name.end() : end].strip())
        if closing:
            return out, True
        at = end + 1
    return out, False


def _value_end(text: str, start: int) -> tuple[int | None, bool]:
    """Where a value ends (at its comma or at the bracket that closes the object), and whether it was the last one."""
    depth: list[str] = []
    for step in _STEP.finditer(text, start):
        mark = step[0]
        if len(mark) > 1:
            continue
        if mark in ("'", '"'):
            return None, False  # a string without an end
        if mark in "([{<":
            depth.append(mark)
        elif mark == ",":
            if not depth:
                return step.start(), False
        elif depth and depth[-1] == _CLOSES[mark]:
            depth.pop()
        elif mark != ">":
            if "<" in depth:  # a comparison in some text of its own
                while depth and depth[-1] == "<":
                    depth.pop()
                if depth and depth[-1] == _CLOSES[mark]:
                    depth.pop()
                    continue
            return (step.start(), True) if not depth else (None, False)
    return None, False


def _read_value(text: str) -> PrintedValue:
    if len(text) > MAX_VALUE:
        return PrintedValue(text[:MAX_VALUE], False)
    try:
        return PrintedValue(text, True, ast.literal_eval(text))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return PrintedValue(text, False)


def find_printed_args(records: Sequence[LogRecord], class_name: str) -> PrintedArgs | None:
    """The last printed args object of the records; None where they hold none."""
    variable = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", class_name).lower()
    marks = (f"{class_name}(", f"{variable}={{")
    for record in reversed(records):
        for mark in marks:
            at = record.text.find(mark)
            if at < 0:
                continue
            fields, complete = read_args(record.text[at + len(mark) :])
            if fields:
                return PrintedArgs(fields, record.first + record.text.count("\n", 0, at), complete)
    return None


def compare_settings(settings: Mapping[str, Value], printed: PrintedArgs) -> tuple[dict[str, str], tuple[str, ...]]:
    """(what the log tells of fields that the evaluation does not know, as repr; contradictions with both values named)."""
    found: dict[str, str] = {}
    against: list[str] = []
    for name, held in settings.items():
        shown = printed.fields.get(name)
        if shown is None or MASK in shown.text:
            continue
        if isinstance(held, NotKnown) or has_unknown(held):
            found[name] = shown.text
        elif shown.literal and _is_plain(held) and not _same(held, shown.value):
            against.append(f"{name} is {show(held)} by the evaluation, {shown.text[:120]} in the log (line {printed.log_line})")
    return found, tuple(against)


def _is_plain(value: Value, depth: int = 4) -> bool:
    if isinstance(value, (list, tuple)):
        return depth > 0 and all(_is_plain(v, depth - 1) for v in value)
    if isinstance(value, dict):
        return depth > 0 and all(_is_plain(k) and _is_plain(v, depth - 1) for k, v in value.items())
    return type(value) in _PLAIN


def _same(ours: Value, theirs: Value) -> bool:
    if isinstance(ours, (list, tuple)) and isinstance(theirs, (list, tuple)):
        return len(ours) == len(theirs) and all(_same(a, b) for a, b in zip(ours, theirs, strict=True))
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(_same(v, theirs[k]) for k, v in ours.items())
    if isinstance(ours, float) and isinstance(theirs, (int, float)):
        return abs(ours - theirs) <= 1e-9 * max(1.0, abs(ours))
    return bool(ours == theirs)


def find_message_values(statement: str, message: str) -> tuple[Printed, ...]:
    """The values in an exception's message, by the `raise` or `assert` statement that made it; () where it is another one's
    or has none. Values whose text cannot be told from their surroundings are left out."""
    try:
        node = ast.parse(statement).body[0]
    except (SyntaxError, ValueError, IndexError, RecursionError, MemoryError):
        return ()
    texts: list[ast.expr] = []
    if isinstance(node, ast.Assert) and node.msg is not None:
        texts = [node.msg]
    elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        texts = list(node.exc.args)
    message = message.strip()
    for text in texts:
        for parts in text_parts(text, []):
            template = template_of(parts)
            holes = [p for p in template.parts if isinstance(p, Hole)]
            for start, end, values in template.find(message, 0):
                if start == 0 and end == len(message) and holes and template.weight >= 4:
                    pairs = zip(holes, values, strict=True)
                    return tuple(Printed(h.expression, v, h.literal) for h, v in pairs if v is not None)
    return ()


def name_fields(values: Sequence[Printed], fields: Mapping[str, object]) -> dict[str, str]:
    """Field -> repr, of printed values that are an attribute of some object with a field's name (`self.x`, `cfg.x`)."""
    out: dict[str, str] = {}
    for value in values:
        owner, dot, name = value.expression.rpartition(".")
        if not dot or not owner.isidentifier() or name not in fields or value.text is None or MASK in value.text:
            continue
        read = _read_value(value.text)
        out[name] = value.text if read.literal and (value.literal or not isinstance(read.value, str)) else repr(value.text)
    return out
