"""f-strings and t-strings that the local Python does not read, written in forms that it does, line for line.

An f-string is written with other quotes, else as `"...".format(...)`, which has the same value. A t-string becomes the
call that makes its template.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import libcst as cst

_QUOTES = ('"', "'", '"""', "'''")
_TEMPLATES = '__import__("string.templatelib").templatelib'
_WRITER = cst.Module([])


class CannotRewrite(Exception):
    """Carries why a construct has no equivalent that is known to be right."""


@dataclass(frozen=True)
class _Field:
    value: cst.BaseExpression
    conversion: str | None
    spec: tuple[str | _Field, ...]
    text: str  # the source of the expression


@dataclass
class _Pieces:
    """A string as texts, fields, and line ends (None) in the order of the source."""

    items: list[str | _Field | None] = field(default_factory=list)


def code_of(node: cst.CSTNode) -> str:
    return _WRITER.code_for_node(node)


def parses(expression: str) -> bool:
    """Whether the local Python reads this expression."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(f"({expression}\n)", mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def old_string(
    original: cst.FormattedString | cst.ConcatenatedString, updated: cst.FormattedString | cst.ConcatenatedString
) -> cst.BaseExpression:
    """`updated` (its expressions are rewritten already) without what the local Python cannot read. Raises CannotRewrite."""
    pieces = _Pieces()
    _collect(original, updated, pieces)
    bare = updated.with_changes(lpar=(), rpar=())
    lines = code_of(bare).count("\n")
    for write in (_requoted, _formatted):
        try:
            text = _pad(write(pieces.items), lines)
        except CannotRewrite:
            continue
        if text.count("\n") == lines and parses(text):
            return _expression(text, updated)
    raise CannotRewrite("an f-string has no older form that is known to be equal")


def old_template(original: cst.TemplatedString, updated: cst.TemplatedString) -> cst.BaseExpression:
    """The call that makes the same template. Raises CannotRewrite."""
    items = _Pieces()
    _parts(original, updated, items)
    lines = code_of(updated.with_changes(lpar=(), rpar=())).count("\n")
    out: list[str] = []
    for item in items.items:
        if isinstance(item, str):
            out.append(ascii(item) + ", ")
        elif item is None:
            _advance(out, out_lines(out) + 1)
        else:
            spec = _formatted(item.spec) if item.spec else '""'
            value = f"({code_of(item.value)})"
            out.append(f"{_TEMPLATES}.Interpolation({value}, {item.text!a}, {item.conversion!r}, {spec}), ")
    return _expression(_pad(f"{_TEMPLATES}.Template({''.join(out)})", lines), updated)


def _expression(text: str, like: cst.BaseExpression) -> cst.BaseExpression:
    made = cst.parse_expression(text)
    return made.with_changes(lpar=[*like.lpar, *made.lpar], rpar=[*made.rpar, *like.rpar])


def _pad(text: str, lines: int) -> str:
    missing = lines - text.count("\n")
    if missing < 0:
        raise CannotRewrite("the older form has more lines")
    return f"({text}" + "\n" * missing + ")" if lines else text


def out_lines(out: Sequence[str]) -> int:
    return sum(part.count("\n") for part in out)


def _advance(out: list[str], line: int) -> None:
    out.append("\n" * max(0, line - out_lines(out)))


# ---------------------------------------------------------------- reading
def _collect(original: cst.BaseExpression, updated: cst.BaseExpression, pieces: _Pieces) -> None:
    if isinstance(updated, cst.ConcatenatedString) and isinstance(original, cst.ConcatenatedString):
        _collect(original.left, updated.left, pieces)
        pieces.items += [None] * code_of(updated.whitespace_between).count("\n")
        _collect(original.right, updated.right, pieces)
    elif isinstance(updated, cst.FormattedString) and isinstance(original, cst.FormattedString):
        _parts(original, updated, pieces)
    elif isinstance(updated, cst.SimpleString):
        value = ast.literal_eval(updated.value)
        if not isinstance(value, str):
            raise CannotRewrite("bytes stand beside an f-string")
        pieces.items.append(value)
        pieces.items += [None] * updated.value.count("\n")
    else:
        raise CannotRewrite("a string of an unknown kind")


def _parts(
    original: cst.FormattedString | cst.TemplatedString, updated: cst.FormattedString | cst.TemplatedString, pieces: _Pieces
) -> None:
    raw = "r" in updated.start.lower()
    if code_of(original).count("\n") != code_of(updated).count("\n"):
        raise CannotRewrite("the lines of a string have moved")
    for old, new in zip(original.parts, updated.parts, strict=True):
        if isinstance(new, cst.FormattedStringText | cst.TemplatedStringText):
            first, *others = new.value.replace("{{", "{").replace("}}", "}").split("\n")
            for i, text in enumerate([first, *others]):
                pieces.items.append(_literal(text + "\n" * (i < len(others)), raw, updated.quote))
                pieces.items += [None] * (i < len(others))
            continue
        assert isinstance(old, cst.FormattedStringExpression | cst.TemplatedStringExpression)
        assert isinstance(new, cst.FormattedStringExpression | cst.TemplatedStringExpression)
        before = len(pieces.items)
        made = _field(old, new, raw, updated.quote)
        if new.equal is not None:
            ahead = code_of(old.whitespace_before_expression)
            after = code_of(old.whitespace_after_expression) + (code_of(old.equal) if old.equal is not None else "")
            pieces.items.insert(before, ahead + code_of(old.expression) + after)
        pieces.items += [None] * code_of(new.whitespace_before_expression).count("\n")
        pieces.items.append(made)
        lines = code_of(new).count("\n") - code_of(new.whitespace_before_expression).count("\n")
        pieces.items += [None] * (lines - code_of(new.expression).count("\n"))


def _field(
    old: cst.FormattedStringExpression | cst.TemplatedStringExpression,
    new: cst.FormattedStringExpression | cst.TemplatedStringExpression,
    raw: bool,
    quote: str,
) -> _Field:
    spec: list[str | _Field] = []
    for before, part in zip(old.format_spec or (), new.format_spec or (), strict=True):
        if isinstance(part, cst.FormattedStringText | cst.TemplatedStringText):
            text = _literal(part.value, raw, quote)
            if "{" in text or "}" in text:
                raise CannotRewrite("braces in a format specification")
            spec.append(text)
        else:
            assert isinstance(before, cst.FormattedStringExpression | cst.TemplatedStringExpression)
            assert isinstance(part, cst.FormattedStringExpression | cst.TemplatedStringExpression)
            if part.equal is not None:
                raise CannotRewrite("`=` inside a format specification")
            spec.append(_field(before, part, raw, quote))
    conversion = new.conversion
    if new.equal is not None and conversion is None and new.format_spec is None:
        conversion = "r"
    return _Field(new.expression, conversion, tuple(spec), code_of(old.expression))


def _literal(text: str, raw: bool, quote: str) -> str:
    """The value of a piece of an f-string's text. A brace behind it keeps a last backslash from escaping the quote."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = ast.literal_eval(f"{'r' if raw else ''}{quote[0] * 3}{text}{{{quote[0] * 3}")
    except (SyntaxError, ValueError) as e:
        raise CannotRewrite("an escape that is not known") from e
    assert isinstance(value, str)
    return value[:-1]


# ---------------------------------------------------------------- writing
def _requoted(items: Sequence[str | _Field | None]) -> str:
    """One f-string for each line. Raises CannotRewrite where no choice of quotes is free of conflicts."""
    for quote in _QUOTES:
        try:
            text = _one_quote(items, quote)
        except CannotRewrite:
            continue
        if parses(text):
            return text
    raise CannotRewrite("no quotes are left")


def _one_quote(items: Sequence[str | _Field | None], quote: str) -> str:
    lines: list[list[str]] = [[]]
    for item in items:
        if item is None:
            lines.append([])
        elif isinstance(item, str):
            lines[-1].append(_escape(item, quote))
        else:
            lines[-1].append(_old_field(item, quote))
    made = [f"f{quote}{''.join(line)}{quote}" if line else "" for line in lines]
    if not any(made):
        made[0] = f"f{quote}{quote}"
    text = "\n".join(made)
    return f"({text})" if len(made) > 1 else text


def _escape(text: str, quote: str) -> str:
    out = text.replace("\\", "\\\\").replace("{", "{{").replace("}", "}}").replace(quote[0], "\\" + quote[0])
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in out)


def _old_field(item: _Field, quote: str) -> str:
    free = tuple(q for q in _QUOTES if (q[0] != quote[0] if len(quote) == 1 else quote not in q))
    value = item.value.visit(_Requote(free))
    assert isinstance(value, cst.BaseExpression)
    text = code_of(value)
    if "\\" in text or "\n" in text or "#" in text:
        raise CannotRewrite("what an expression of an old f-string cannot hold")
    if not isinstance(value, cst.Name | cst.Attribute | cst.Subscript | cst.Call):
        text = f"({text})"
    spec = "".join(_escape(s, quote) if isinstance(s, str) else _old_field(s, quote) for s in item.spec)
    return "{" + text + (f"!{item.conversion}" if item.conversion else "") + (f":{spec}" if item.spec else "") + "}"


class _Requote(cst.CSTTransformer):
    """Strings of an expression in the quotes that are free."""

    def __init__(self, free: Sequence[str]) -> None:
        super().__init__()
        self.free = free

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.BaseExpression:
        value = ast.literal_eval(updated_node.value)
        text = value.decode("latin-1") if isinstance(value, bytes) else value
        prefix = "b" if isinstance(value, bytes) else ""
        for quote in self.free:
            if text.isprintable() and quote[0] not in text and "\\" not in text and (text.isascii() or not prefix):
                return updated_node.with_changes(value=f"{prefix}{quote}{text}{quote}")
        raise CannotRewrite("no quotes are left")

    def visit_FormattedString(self, node: cst.FormattedString) -> bool:
        return False

    def leave_FormattedString(self, original_node: cst.FormattedString, updated_node: cst.FormattedString) -> cst.BaseExpression:
        pieces = _Pieces()
        _collect(original_node, original_node, pieces)
        for quote in self.free:
            try:
                text = _one_quote(pieces.items, quote)
            except CannotRewrite:
                continue
            if "\\" not in text and "\n" not in text and parses(text):
                return _expression(text, updated_node)
        raise CannotRewrite("no quotes are left")


def _formatted(items: Sequence[str | _Field | None]) -> str:
    """`"...".format(...)`, each argument on its own line of the source."""
    pattern: list[str] = []
    out: list[str] = []
    line = 0
    for item in items:
        if item is None:
            line += 1
        elif isinstance(item, str):
            pattern.append(item.replace("{", "{{").replace("}", "}}"))
        else:
            _advance(out, line)
            pattern.append(_take(item, out.append))
            line += code_of(item.value).count("\n")
    return f"{''.join(pattern)!a}.format({''.join(out)})"


def _take(item: _Field, add: Callable[[str], None]) -> str:
    """The field of a format pattern; what it needs is added to the arguments."""
    add(f"({code_of(item.value)}), ")
    spec = "".join(_spec(item.spec, add))
    return "{" + (f"!{item.conversion}" if item.conversion else "") + (f":{spec}" if spec else "") + "}"


def _spec(spec: tuple[str | _Field, ...], add: Callable[[str], None]) -> Iterator[str]:
    for part in spec:
        if isinstance(part, str):
            yield part
        elif part.spec:
            add(f"{_formatted((part,))}, ")
            yield "{}"
        else:
            add(f"({code_of(part.value)}), ")
            yield "{" + (f"!{part.conversion}" if part.conversion else "") + "}"
