"""Text of a Python file -> its syntax tree, in whatever way it can be read: as it stands, rewritten, or one function alone.

A file in syntax newer than the local Python is rewritten first. One that cannot be parsed so either is an Unknown with
its reason; where the trouble lies in another function, the function of the frame is still read alone.
"""

from __future__ import annotations

import ast
import re
import sys
import warnings
from dataclasses import dataclass, field
from functools import lru_cache

from triage.analysis.decoding import decode_source
from triage.analysis.downlevel import rewrite
from triage.analysis.outline import fill_around, parse_outline
from triage.analysis.trees import compiled_form
from triage.model import Unknown
from triage.protocols import SourceTree

MAX_SOURCE = 4 * 1024 * 1024  # bytes of one file that are parsed; sglang's largest has 0.4 MB

_HEADER = re.compile(r"^(?P<indent>[ \t]*)(?P<kind>class|(?:async[ \t]+)?def)[ \t]+(?P<name>\w+)")


@dataclass(frozen=True, eq=False)
class Module:
    """A parsed file. `lines`, without their ends, are what the columns of `tree` count in; `original` are those of the
    file, with the same numbers. `partial` names why only one function of it could be read, `rewritten` that newer syntax
    was replaced."""

    file: str
    lines: tuple[str, ...] = field(repr=False)
    tree: ast.Module = field(repr=False)
    partial: str | None = None
    rewritten: str | None = None
    original: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "original", self.original or self.lines)


@dataclass(frozen=True, eq=False)
class Parsed:
    """The syntax tree of a text and the lines that its columns count in; `note` tells what was rewritten."""

    tree: ast.Module = field(repr=False)
    lines: tuple[str, ...] = field(repr=False)
    note: str | None = None


class _Unreadable(Exception):
    """Carries the reason for which a text has no syntax tree."""


@lru_cache(maxsize=16)
def _parse(text: str, rewriting: bool) -> Parsed:
    try:
        return Parsed(_parse_here(text), tuple(text.split("\n")))
    except SyntaxError as e:
        here = ".".join(map(str, sys.version_info[:2]))
        why = f"it does not parse with Python {here} (line {e.lineno}: {e.msg})"
        if not rewriting:
            raise _Unreadable(why) from e
    except ValueError as e:
        raise _Unreadable(f"it is not Python source ({e})") from e
    except (RecursionError, MemoryError) as e:
        raise _Unreadable("it is nested too deeply to parse") from e
    older = rewrite(text)
    if older.text is None:
        raise _Unreadable(f"{why}, nor rewritten ({older.why})")
    return Parsed(_parse_here(older.text), tuple(older.text.split("\n")), older.note)


@lru_cache(maxsize=32)
def _parse_parts(text: str) -> Parsed:
    """As `_parse`, without the bodies of functions (see `outline`); in syntax newer than the local Python, with them."""
    try:
        return Parsed(parse_outline(text, lambda: _parse(text, True).tree), tuple(text.split("\n")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _parse(text, True)


def _parse_here(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def parse_lines(text: str, rewriting: bool = True) -> Parsed | None:
    """A text's syntax tree with its lines (kept for the last few texts); None where it does not parse. `rewriting`: also
    in syntax that is newer than the local Python."""
    try:
        return _parse(text, rewriting)
    except _Unreadable:
        return None


def parse_text(text: str) -> ast.Module | None:
    """The syntax tree of a text (kept for the last few texts), or None where it does not parse."""
    parsed = parse_lines(text)
    return parsed.tree if parsed is not None else None


def read_module(tree: SourceTree, file: str, line: int | None = None) -> Module | Unknown:
    """Read and parse `file`. With `line`, only the function around that line has its body in the tree; that is also read
    where the file does not parse as a whole."""
    data = tree.read(file)
    if data is None:
        compiled = compiled_form(tree, file)
        why = f"only {compiled} is there" if compiled is not None else "it is not in the source tree"
        return Unknown(f"the source of {file}", why, "capture it, or give --source")
    if len(data) > MAX_SOURCE:
        return Unknown(f"the source of {file}", f"it has {len(data)} bytes, more than the {MAX_SOURCE} that are read")
    text = decode_source(data)
    try:
        parsed = _parse(text, True) if line is None else _parse_parts(text)
        if line is not None:
            fill_around(parsed.tree, line)
        return Module(file, parsed.lines, parsed.tree, None, parsed.note, tuple(text.split("\n")) if parsed.note else ())
    except _Unreadable as e:
        why = str(e)
    alone = isolate_function(text, line) if line is not None else None
    part = parse_lines(alone) if alone is not None else None
    if part is not None:
        return Module(file, part.lines, part.tree, why, part.note, tuple(text.split("\n")))
    return Unknown(f"the source of {file}", why, "run triage with the Python version that the server runs on")


def isolate_function(text: str, line: int) -> str | None:
    """`text` with all but the function around `line` blanked, line numbers kept; None when no function is seen there.

    Goes by indentation alone, so it works where the file does not parse.
    """
    lines = text.split("\n")
    if not 1 <= line <= len(lines):
        return None
    headers: list[tuple[int, re.Match[str]]] = []
    limit: int | None = None
    for i in range(line - 1, -1, -1):
        if not lines[i].strip() or lines[i].lstrip().startswith(("#", ")", "]", "}")):
            continue
        indent = _width(lines[i])
        header = _HEADER.match(lines[i])
        if limit is None or indent < limit:
            if header:
                headers.append((i, header))
                limit = indent
            elif limit is None:
                limit = indent
            if limit == 0:
                break
    inner = next((k for k, (_, h) in enumerate(headers) if h["kind"] != "class"), None)
    if inner is None:
        return None
    start, first = headers[inner]
    indent = _width(first["indent"])
    end = start + 1
    while end < len(lines):
        rest = lines[end].strip()
        if rest and not rest.startswith(("#", ")", "]", "}")) and _width(lines[end]) <= indent:
            break
        end += 1
    out = [""] * start + lines[start:end] + [""] * (len(lines) - end)
    for i, header in headers[inner + 1 :]:
        out[i] = f"{header['indent']}{header['kind']} {header['name']}{':' if header['kind'] == 'class' else '():'}"
    return "\n".join(out)


def _width(line: str) -> int:
    expanded = line.expandtabs()
    return len(expanded) - len(expanded.lstrip())
