"""The texts that a printing call can make: literal parts with holes for values, from %-format, str.format and f-strings."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from triage.analysis.framing import clean_text

MAX_PARTS = 60
_PERCENT = re.compile(r"%(?:\((?P<name>\w+)\))?[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?[hlL]?(?P<kind>[diouxXeEfFgGcrsa%])")
_WORD = re.compile(r"\w")
_NUMBER = re.compile(r"[-+]?\d[\d_,]*(?:\.\d+)?(?:[eE][-+]?\d+)?%?|[-+]?(?:nan|inf)|0x[0-9a-fA-F]+")


@dataclass(frozen=True)
class Hole:
    """A value in the text. `literal` where it is printed by `repr`, `number` where its format takes numbers only."""

    expression: str
    literal: bool = False
    number: bool = False


Part = str | Hole


@dataclass(frozen=True)
class Template:
    """Literal texts and holes; no two holes and no two texts stand side by side, except two holes without text between."""

    parts: tuple[Part, ...]

    @cached_property
    def weight(self) -> int:
        """Letters and digits of the literal text."""
        return sum(len(_WORD.findall(p)) for p in self.parts if isinstance(p, str))

    @cached_property
    def anchor(self) -> str:
        """The longest line of literal text."""
        lines = [line for p in self.parts if isinstance(p, str) for line in p.split("\n")]
        return max(lines, key=len, default="")

    def find(self, text: str, near: int, whole: bool = True) -> Iterator[tuple[int, int, tuple[str | None, ...]]]:
        """Where it matches whole lines of `text` around an offset: start, end, and each hole's text (None: not to be told).
        `whole`: the text is one message, not lines of several."""
        parts = self.parts
        spread = sum(p.count("\n") for p in parts if isinstance(p, str))
        start = text.rfind("\n", 0, near) + 1
        for _ in range(spread + 1):
            found = self._match(text, start, whole and start == 0)
            if found is not None:
                yield (start, *found)
                return
            if start == 0:
                return
            start = text.rfind("\n", 0, start - 1) + 1

    def _match(self, text: str, start: int, whole: bool) -> tuple[int, tuple[str | None, ...]] | None:
        first = self.parts[0]
        body = self.parts[1:] if isinstance(first, str) else self.parts
        if isinstance(first, str):
            if not text.startswith(first, start):
                return None
            start += len(first)
        spread = sum(p.count("\n") for p in body if isinstance(p, str))
        limit = start - 1
        for _ in range(spread + 1):
            limit = text.find("\n", limit + 1)
            if limit < 0:
                break
        ends = (len(text) if limit < 0 else limit, len(text))  # a value may hold newlines
        for end in dict.fromkeys(reversed(ends) if whole else ends):
            values = self._cut(text, start, end, body)
            if values is not None:
                return end, values
        return None

    def _cut(self, text: str, start: int, end: int, body: tuple[Part, ...]) -> tuple[str | None, ...] | None:
        """The holes' texts, each as short as can be from the left, compared with the same from the right."""
        left = _from_left(text, start, end, body)
        if left is None:
            return None
        right = _from_right(text, start, end, body)
        holes = [p for p in body if isinstance(p, Hole)]
        out: list[str | None] = []
        for hole, a, b in zip(holes, left, right or left, strict=True):
            if a == b and hole.number and not _NUMBER.fullmatch(text[a[0] : a[1]].strip()):
                return None
            out.append(text[a[0] : a[1]] if a == b else None)
        return tuple(out)


Span = tuple[int, int]


def _from_left(text: str, start: int, end: int, body: tuple[Part, ...]) -> list[Span] | None:
    spans: list[Span] = []
    at = start
    tail = body[-1] if body and isinstance(body[-1], str) else ""
    stop = end
    if tail:
        stripped = tail.rstrip()
        if not text[start:end].rstrip().endswith(stripped):
            return None
        stop = start + len(text[start:end].rstrip()) - len(stripped)
        body = body[:-1]
    opened: int | None = None
    for part in body:
        if isinstance(part, Hole):
            if opened is not None:
                spans.append((opened, opened))
            opened = at
            continue
        found = text.find(part, at, stop)
        if found < 0 or (opened is None and found != at):
            return None
        if opened is not None:
            spans.append((opened, found))
            opened = None
        at = found + len(part)
    if opened is not None:
        spans.append((opened, stop))
    elif at != stop and text[at:stop].strip():
        return None
    return spans if at <= stop else None


def _from_right(text: str, start: int, end: int, body: tuple[Part, ...]) -> list[Span] | None:
    spans: list[Span] = []
    at = end
    if body and isinstance(body[-1], str):
        stripped = body[-1].rstrip()
        at = start + len(text[start:end].rstrip()) - len(stripped)
        body = body[:-1]
    closed: int | None = None
    for part in reversed(body):
        if isinstance(part, Hole):
            if closed is not None:
                spans.append((closed, closed))
            closed = at
            continue
        found = text.rfind(part, start, at)
        if found < 0:
            return None
        if closed is not None:
            spans.append((found + len(part), closed))
            closed = None
        at = found
    if closed is not None:
        spans.append((start, closed))
    return spans[::-1]


# ---------------------------------------------------------------- from syntax
def make_templates(call: ast.Call) -> list[Template]:
    """The texts that a printing call makes of its first argument that holds literal text."""
    for at, argument in enumerate(call.args):
        values = call.args[at + 1 :]
        for parts in text_parts(argument, values):
            return [template_of(parts)]
    for keyword in call.keywords:
        for parts in text_parts(keyword.value, []):
            return [template_of(parts)]
    return []


def template_of(parts: list[Part]) -> Template:
    """Texts put together and brought to the form in which a log shows them."""
    out: list[Part] = []
    for part in parts[:MAX_PARTS]:
        if isinstance(part, str) and out and isinstance(out[-1], str):
            out[-1] += part
        elif part != "":
            out.append(part)
    cleaned: list[Part] = []
    for at, part in enumerate(out):
        if isinstance(part, str):
            part = "\n".join(clean_text(line) for line in part.split("\n"))
            part = part.lstrip() if at == 0 else part
            if not part:
                continue
        cleaned.append(part)
    return Template(tuple(cleaned))


def text_parts(node: ast.expr, values: list[ast.expr]) -> Iterator[list[Part]]:
    """The parts of the text that an expression makes; nothing where it has no literal text. `values` are what a logger
    puts into a text by `%`."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield _percent(node.value, values) if values else [node.value]
    elif isinstance(node, ast.JoinedStr):
        yield [_joined(v) for v in node.values]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        right = list(node.right.elts) if isinstance(node.right, ast.Tuple) else [node.right]
        if isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
            yield _percent(node.left.value, right)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right_parts = next(text_parts(node.left, []), None), next(text_parts(node.right, []), None)
        if left is not None or right_parts is not None:
            yield [*(left or [_hole(node.left)]), *(right_parts or [_hole(node.right)])]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        held = node.func.value
        if isinstance(held, ast.Constant) and isinstance(held.value, str):
            yield _format(held.value, node)


def _hole(node: ast.expr, conversion: int = -1, spec: str = "") -> Hole:
    return Hole(ast.unparse(node), conversion in (ord("r"), ord("a")), spec[-1:] in tuple("deEfFgG%") and spec != "")


def _joined(node: ast.expr) -> Part:
    if isinstance(node, ast.Constant):
        return str(node.value)
    assert isinstance(node, ast.FormattedValue)
    spec = ""
    if isinstance(node.format_spec, ast.JoinedStr):
        spec = "".join(str(v.value) for v in node.format_spec.values if isinstance(v, ast.Constant))
    return _hole(node.value, node.conversion, spec)


def _percent(text: str, values: list[ast.expr]) -> list[Part]:
    parts: list[Part] = []
    at, used = 0, 0
    for found in _PERCENT.finditer(text):
        parts.append(text[at : found.start()])
        at = found.end()
        kind = found["kind"]
        if kind == "%":
            parts.append("%")
            continue
        node = values[used] if used < len(values) and found["name"] is None else None
        used += 1
        expression = ast.unparse(node) if node is not None else (found["name"] or "?")
        parts.append(Hole(expression, kind in "ra", kind in "diufFeEgG"))
    return [*parts, text[at:]]


def _format(text: str, call: ast.Call) -> list[Part]:
    parts: list[Part] = []
    named = {k.arg: k.value for k in call.keywords}
    count = 0
    try:
        pieces = list(string.Formatter().parse(text))
    except ValueError:
        return [text]
    for literal, name, spec, conversion in pieces:
        parts.append(literal)
        if name is None:
            continue
        key = re.split(r"[.\[]", name, maxsplit=1)[0]
        index = int(key) if key.isdigit() else count
        count += key == ""
        node = named.get(key) if key and not key.isdigit() else (call.args[index] if index < len(call.args) else None)
        expression = ast.unparse(node) + name[len(key) :] if node is not None else name or "?"
        parts.append(Hole(expression, conversion in ("r", "a"), (spec or "")[-1:] in tuple("deEfFgG%") and bool(spec)))
    return parts
