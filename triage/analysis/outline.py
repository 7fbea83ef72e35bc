"""Parses a file without the bodies of its functions; each body is parsed when it is needed.

A file of a few thousand lines holds hundreds of functions, of which a launch runs a handful: leaving the rest out saves
most of the time and memory of parsing. The bodies are found by indentation; wherever that could go wrong (text in several
lines that is not plain, tabs, syntax that does not fit) the whole file is parsed instead.
"""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

_DEF = re.compile(r"^( *)(?:async +)?def ", re.MULTILINE)
_TRIPLE = re.compile(r'"""|\'\'\'')
_SHORTEST = 3  # lines of a body that is left out
_SIGNATURE = 60  # lines of a signature at most
_LATER, _YIELDS = "_triage_later", "_triage_yields"


@dataclass(frozen=True)
class _Later:
    """Where the text of a function stands whose body was left out: lines from `first` to before `end`, from 0."""

    lines: tuple[str, ...]
    first: int
    end: int
    otherwise: Callable[[], ast.Module | None]


def parse_outline(text: str, otherwise: Callable[[], ast.Module | None] = lambda: None) -> ast.Module:
    """The syntax tree of a file, in which `fill_body` has to be called on a function before its body is read.

    Raises what `ast.parse` raises for the file as a whole, except for faults inside bodies that were left out: for these
    `otherwise` gives a tree of the whole file, or None.
    """
    cut = _cut(text)
    if cut is None:
        return _parse(text)
    lines, bodies = cut
    shown = list(lines)
    for _first, start, end in bodies:
        shown[start:end] = [" " * (_indent(lines[start])) + "...", *[""] * (end - start - 1)]
    try:
        tree = _parse("\n".join(shown))
    except SyntaxError:
        return _parse(text)
    at = {first + 1: _Later(lines, first, end, otherwise) for first, _start, end in bodies}
    _mark(tree, at)
    return tree if not at else _parse(text)  # what was left out was no function


def _mark(node: ast.AST, at: dict[int, _Later]) -> int:
    """Note at each function what was left out of it, and let what holds it end where it ends: the last line inside."""
    last = getattr(node, "end_lineno", None) or 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, FunctionNode):
            later = at.pop(child.lineno, None)
            if later is not None:
                child.end_lineno = later.end
                setattr(child, _LATER, later)
            last = max(last, child.end_lineno or 0)
        elif isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            last = max(last, _mark(child, at))
    if isinstance(node, ast.stmt | ast.ExceptHandler):
        node.end_lineno = last
    return last


def fill_body(node: ast.AST) -> bool:
    """Put the body that was left out in its place; nothing for any other node. False where it cannot be read."""
    later = node.__dict__.pop(_LATER, None)
    if later is None or not isinstance(node, FunctionNode):
        return True
    made = _read_function(later) or _find_function(later.otherwise(), node)
    if made is None or made.name != node.name:
        return False
    node.body, node.end_lineno, node.end_col_offset = made.body, made.end_lineno, made.end_col_offset
    setattr(node, _YIELDS, any("yield" in line for line in later.lines[later.first : later.end]))
    return True


def fill_around(tree: ast.AST, line: int) -> None:
    """Put the body of the outermost function around a line in its place."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, FunctionNode):
            if node.lineno <= line <= (node.end_lineno or node.lineno):
                fill_body(node)
        elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            fill_around(node, line)


def may_yield(node: ast.AST) -> bool:
    """Whether the text of a function holds the word yield; True also where its text is not known."""
    return bool(node.__dict__.get(_YIELDS, True))


def _read_function(later: _Later) -> FunctionNode | None:
    text = "\n".join(later.lines[later.first : later.end])
    try:
        if _indent(text):
            tree = _parse("\n" * (later.first - 1) + "if 1:\n" + text)
            block = tree.body[0].body if isinstance(tree.body[0], ast.If) else []
        else:
            block = _parse("\n" * later.first + text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return block[0] if len(block) == 1 and isinstance(block[0], FunctionNode) else None


def _find_function(tree: ast.Module | None, node: FunctionNode) -> FunctionNode | None:
    for found in ast.walk(tree) if tree is not None else ():
        if isinstance(found, FunctionNode) and found.name == node.name and found.lineno == node.lineno:
            return found
    return None


def fill_all(tree: ast.AST) -> None:
    """Put every body of an outline in its place."""
    for node in ast.walk(tree):  # a body that is filled is whole
        fill_body(node)


def _parse(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _cut(text: str) -> tuple[tuple[str, ...], list[tuple[int, int, int]]] | None:
    """The file's lines, and of each outermost function the line of its `def`, the first of its body, and the one behind it."""
    if "\r" in text or "\f" in text or "\n\t" in text or "\0" in text:
        return None
    spans = _texts(text)
    if spans is None:
        return None
    lines = tuple(text.split("\n"))
    starts = list(accumulate(map(len, lines), lambda at, size: at + size + 1, initial=0))
    inside: set[int] = set()  # lines that begin within a text of several lines
    for begin, end in spans:
        first, last = bisect_right(starts, begin) - 1, bisect_right(starts, end - 1) - 1
        inside.update(range(first + 1, last + 1))
    bodies: list[tuple[int, int, int]] = []
    done = 0
    for found in _DEF.finditer(text):
        number = bisect_right(starts, found.start()) - 1
        if number < done or number in inside:
            continue
        depth = len(found[1])
        start = _body_start(lines, number)
        if start is None:
            continue
        end = _next_code(text, starts, start, depth, inside)
        last = end - 1
        while last > start and last not in inside and (not lines[last].strip() or lines[last].lstrip(" ")[0] == "#"):
            last -= 1
        if last - start + 1 >= _SHORTEST and start not in inside and _indent(lines[start]) > depth:
            bodies.append((number, start, last + 1))
            done = last + 1
    return lines, bodies


@lru_cache(maxsize=64)
def _code_within(depth: int) -> re.Pattern[str]:
    return re.compile(rf"^ {{0,{depth}}}[^ \n#]", re.MULTILINE)


def _next_code(text: str, starts: Sequence[int], start: int, depth: int, inside: set[int]) -> int:
    """The first line from `start` on that holds code and is not indented by more than `depth`; else the one behind the last."""
    for found in _code_within(depth).finditer(text, starts[start]):
        line = bisect_right(starts, found.start()) - 1
        if line not in inside:
            return line
    return len(starts) - 1


def _body_start(lines: tuple[str, ...], number: int) -> int | None:
    """The first line behind a signature: behind the first line that ends in a colon."""
    depth = _indent(lines[number])
    for i in range(number, min(len(lines) - 1, number + _SIGNATURE)):
        bare = lines[i].lstrip(" ")
        if i > number and bare and len(lines[i]) - len(bare) <= depth and bare[0] not in ")]":
            return None  # the next statement: the body stands beside the signature
        if lines[i].partition("#")[0].rstrip().endswith(":"):
            start = i + 1
            while start < len(lines) - 1 and not lines[start].strip():
                start += 1
            return start
    return None


def _texts(text: str) -> list[tuple[int, int]] | None:
    """Begin and end of each triple-quoted text; None where one is not surely seen."""
    out: list[tuple[int, int]] = []
    opened: tuple[int, str] | None = None
    for found in _TRIPLE.finditer(text):
        at, quote = found.start(), found[0]
        if opened is None:
            before = text[text.rfind("\n", 0, at) + 1 : at]
            if out and out[-1][1] > at - len(before):
                before = text[out[-1][1] : at]
            if "#" in before or before.count('"') % 2 or before.count("'") % 2:
                return None
            opened = (at, quote)
        elif quote == opened[1]:
            if text[at - 1] == "\\":
                return None
            out.append((opened[0], found.end()))
            opened = None
    return out if opened is None else None


__all__ = ["fill_all", "fill_around", "fill_body", "may_yield", "parse_outline"]
