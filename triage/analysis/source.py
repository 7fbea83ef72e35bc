"""Failure + SourceTree -> Sites: the smallest statement that holds each frame's line.

Only the files on the path are parsed, with the standard library's `ast` (see reading).
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from triage.analysis.decoding import decode_source
from triage.analysis.outline import fill_all
from triage.analysis.reading import MAX_SOURCE, Module, isolate_function, parse_text, read_module
from triage.model import MASK, Failure, Frame, Location, Site, Unknown
from triage.protocols import SourceTree

MAX_TEXT = 20_000  # characters of one statement that are kept
MAX_FRAMES = 400  # frames of one failure that are located; a recursion prints no more than it takes to see it

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_DEFS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Function:
    """Where a function stands. `name` is qualified as Python does it (`C.f`, `f.<locals>.g`)."""

    name: str
    location: Location
    class_name: str | None
    parameters: tuple[str, ...]


# ---------------------------------------------------------------- statements
def first_line(node: ast.stmt) -> int:
    """The first line of a statement, decorators included."""
    decorators = node.decorator_list if isinstance(node, _DEFS) else []
    return min([node.lineno, *(d.lineno for d in decorators)])


def child_blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The statement lists directly inside a node, in source order."""
    for name in ("body", "handlers", "orelse", "finalbody", "cases"):
        value = getattr(node, name, None)
        if not isinstance(value, list):
            continue
        if name in ("handlers", "cases"):
            for item in value:
                yield item.body
        else:
            yield value


def statement_chain(tree: ast.Module, line: int) -> list[ast.stmt]:
    """The statements that hold `line`, outermost first; where several stand on that line, the first of them."""
    chain: list[ast.stmt] = []
    node: ast.AST = tree
    while True:
        found = next((s for s in _children(node) if first_line(s) <= line <= (s.end_lineno or s.lineno)), None)
        if found is None:
            return chain
        chain.append(found)
        node = found


def _children(node: ast.AST) -> Iterator[ast.stmt]:
    for block in child_blocks(node):
        yield from block


def qualified_name(chain: list[ast.stmt]) -> str:
    """The name of the innermost function (or class) in a chain of enclosing statements; "<module>" outside all."""
    name = ""
    inside_function = False
    for node in chain:
        if isinstance(node, _DEFS):
            name += ("" if not name else ".<locals>." if inside_function else ".") + node.name
            inside_function = not isinstance(node, ast.ClassDef)
    return name or "<module>"


def _holders(tree: ast.Module, line: int) -> list[list[ast.stmt]]:
    """Chains to every statement of the smallest size that holds the line: more than one for `a; b` and `if a: b`."""
    chain = statement_chain(tree, line)
    if not chain:
        return []
    size = _span(chain[-1])
    parent: ast.AST = chain[-2] if len(chain) > 1 else tree
    beside = [s for s in _children(parent) if s is not chain[-1] and s.lineno == line == s.end_lineno] if size == 0 else []
    chains = [chain, *([*chain[:-1], s] for s in beside)]
    while len(chain) > 1 and _span(chain[-2]) == size:
        chain = chain[:-1]
        chains.append(chain)
    return chains


def _span(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno


def _choose(chains: list[list[ast.stmt]], exception: str | None, callee: str | None) -> list[ast.stmt]:
    """Of several statements on one line the one that can have failed: the raise, the assert, the call of the next frame."""
    for chain in chains if len(chains) > 1 else []:
        node = chain[-1]
        if callee is not None:
            own = [n for n in ast.iter_child_nodes(node) if not isinstance(n, ast.stmt)]
            if any(isinstance(n, ast.Call) and called_name(n) == callee for o in own for n in ast.walk(o)):
                return chain
        elif isinstance(node, ast.Assert) and exception == "AssertionError":
            return chain
        elif isinstance(node, ast.Raise) and exception is not None and node.exc is not None:
            exc = node.exc
            if called_name(exc) == exception.rpartition(".")[2]:
                return chain
    return chains[0]


def called_name(node: ast.AST) -> str | None:
    """The last name of what is called (or of the expression itself): `a.b(c)` and `a.b` give "b"."""
    target = node.func if isinstance(node, ast.Call) else node
    return target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else None


_KINDS = {"asyncfunctiondef": "functiondef", "trystar": "try", "asyncfor": "for", "asyncwith": "with"}


def statement_kind(node: ast.stmt) -> str:
    """ "assert", "raise", "if", "assign", "return", ...; an expression statement that calls is "call"."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await):
        return "call"
    kind = type(node).__name__.lower()
    return _KINDS.get(kind, kind)


def statement_text(lines: tuple[str, ...], node: ast.stmt, parsed: tuple[str, ...] = ()) -> str:
    """The statement's own lines, dedented; of a compound statement only what stands before its first block.

    `parsed` are the lines that the node's columns count in, where they are not `lines`.
    """
    start, end = node.lineno, node.end_lineno or node.lineno
    body = next((b for b in child_blocks(node) if b), None)
    if body and first_line(body[0]) > start:
        end = first_line(body[0]) - 1
        while end > start and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
            end -= 1
    part = list(lines[start - 1 : end])
    if body and first_line(body[0]) == body[0].lineno and body[0].lineno <= len(lines):
        beside = (parsed or lines)[body[0].lineno - 1].encode()[: body[0].col_offset].decode("utf-8", "replace")
        if beside.strip():  # `if a: b`, or a header whose last line the block begins on
            part = [*lines[start - 1 : body[0].lineno - 1], beside.rstrip()]
    text = textwrap.dedent("\n".join(part)).strip("\n")
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + " ..."


# ---------------------------------------------------------------- sites
def find_sites(failure: Failure, tree: SourceTree) -> tuple[tuple[Site, ...], tuple[Unknown, ...]]:
    """The site of each frame inside the package, outermost first, without guards; and what could not be read, with reasons.

    A frame whose file cannot be read or whose line lies past its end gives an Unknown and no site.
    """
    frames = [f for f in failure.frames if f.file]
    unknowns: list[Unknown] = []
    if len(frames) > MAX_FRAMES:
        unknowns.append(Unknown("the outer part of the call path", f"the traceback has {len(frames)} frames"))
        frames = frames[-MAX_FRAMES:]
    sites: list[Site] = []
    for i, frame in enumerate(frames):
        last = i + 1 == len(frames) and frame == failure.frames[-1]
        callee = None if i + 1 == len(frames) else frames[i + 1].function
        found = _find_site(frame, tree, failure.exception if last else None, callee)
        if found[0] is not None:
            sites.append(found[0])
        unknowns += [u for u in found[1] if u not in unknowns]
    return tuple(sites), tuple(unknowns)


def _find_site(
    frame: Frame, tree: SourceTree, exception: str | None, callee: str | None
) -> tuple[Site | None, tuple[Unknown, ...]]:
    assert frame.file is not None
    module = read_module(tree, frame.file, frame.line)
    if isinstance(module, Unknown):
        return None, (module,)
    notes: list[Unknown] = []
    if module.partial:
        notes.append(Unknown(f"the rest of {frame.file}", f"{module.partial}; only the functions on the path were read"))
    if module.rewritten:
        notes.append(Unknown(f"the exact syntax of {frame.file}", module.rewritten))
    chains = _holders(module.tree, frame.line)
    here = module.original[frame.line - 1].strip() if 1 <= frame.line <= len(module.original) else ""
    if chains and _agrees(frame, here, chains[0]):
        return _site(module, _choose(chains, exception, callee), frame.line, True), tuple(notes)
    where = f"{frame.file}:{frame.line}"
    moved = _find_moved(module, frame) if frame.text else []
    if len(moved) == 1:
        why = f"the text of the traceback stands at line {moved[0]} now: the source has changed since"
        notes.append(Unknown(f"the statement at {where}", why, "capture again after a fresh start"))
        return _site(module, _choose(_holders(module.tree, moved[0]), exception, callee), moved[0], False), tuple(notes)
    if not chains:
        why = "no statement stands at that line" if not moved else f"its text stands at {len(moved)} places"
        return None, (*notes, Unknown(f"the statement at {where}", f"{why}: the source does not match the traceback"))
    why = f"the traceback prints {frame.text[:120]!r} there, which " + (
        f"stands at {len(moved)} places of that function" if moved else "is not in that function"
    )
    notes.append(Unknown(f"the statement at {where}", f"{why}: the source does not match the traceback"))
    return _site(module, _choose(chains, exception, callee), frame.line, False), tuple(notes)


def _agrees(frame: Frame, here: str, chain: list[ast.stmt]) -> bool:
    if frame.text and frame.text.strip() != here and MASK not in frame.text:
        return False
    name = frame.function.rpartition(".")[2]
    if not frame.text or not name or name.startswith("<"):
        return True
    # The frame of a decorator or of a `def` line belongs to the function around it.
    names = {node.name for node in chain if isinstance(node, _DEFS)}
    return name in names


def _find_moved(module: Module, frame: Frame) -> list[int]:
    """Lines of the frame's function on which the printed text stands."""
    fill_all(module.tree)
    name = frame.function.rpartition(".")[2]
    spans = [(first_line(n), n.end_lineno or n.lineno) for n in ast.walk(module.tree) if isinstance(n, _DEFS) and n.name == name]
    if name.startswith("<"):
        spans = [(1, len(module.lines))]
    wanted = frame.text.strip()
    lines = {i for a, b in spans for i in range(a, b + 1) if module.original[i - 1].strip() == wanted}
    return sorted(i for i in lines if statement_chain(module.tree, i))


def _site(module: Module, chain: list[ast.stmt], line: int, matches: bool) -> Site:
    node = chain[-1]
    location = Location(module.file, node.lineno, node.end_lineno)
    name = qualified_name(chain[:-1])
    return Site(location, name, statement_kind(node), statement_text(module.original, node, module.lines), (), matches, line)


# ---------------------------------------------------------------- helpers for others
def excerpt(tree: SourceTree, location: Location, context: int = 3) -> tuple[tuple[int, str], ...]:
    """Numbered source lines of a location with `context` lines on both sides; () when the file cannot be read."""
    data = tree.read(location.file)
    if data is None or len(data) > MAX_SOURCE:
        return ()
    lines = decode_source(data).split("\n")
    first, last = max(1, location.line - context), min(len(lines), (location.end_line or location.line) + context)
    return tuple((i, lines[i - 1]) for i in range(first, last + 1))


def function_chain(tree: ast.Module, line: int) -> list[ast.stmt]:
    """The enclosing statements down to the innermost function around `line`, that function last; [] at module level."""
    chain = statement_chain(tree, line)
    for i in range(len(chain) - 1, -1, -1):
        node = chain[i]
        if isinstance(node, FunctionNode) and line >= node.lineno:
            return chain[: i + 1]
    return []


def flat_block(block: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements of a block and of the ifs, tries and withs in it, in source order."""
    out: list[ast.stmt] = []
    todo = list(reversed(block))
    while todo:
        node = todo.pop()
        out.append(node)
        if isinstance(node, ast.If | ast.Try | ast.With):
            inner = [*node.body, *(s for h in getattr(node, "handlers", []) for s in h.body), *getattr(node, "orelse", [])]
            todo += reversed(inner)
    return out


def imported_module(file: str, module: str | None, level: int) -> str:
    """The dotted name of what `from ..module import` in a file imports from; `level` counts the dots."""
    folders = file.split("/")[:-level] if level else []
    return ".".join([*folders, *([module] if module else [])])


def find_function(tree: SourceTree, file: str, line: int) -> Function | None:
    """The innermost function around a line; None at module level or when the file cannot be read."""
    module = read_module(tree, file, line)
    chain = [] if isinstance(module, Unknown) else function_chain(module.tree, line)
    if not chain:
        return None
    node = chain[-1]
    assert isinstance(node, FunctionNode)
    owner = next((n for n in reversed(chain[:-1]) if isinstance(n, _DEFS)), None)
    a = node.args
    every = [*a.posonlyargs, *a.args, *([a.vararg] if a.vararg else []), *a.kwonlyargs, *([a.kwarg] if a.kwarg else [])]
    class_name = owner.name if isinstance(owner, ast.ClassDef) else None
    return Function(qualified_name(chain), Location(file, node.lineno, node.end_lineno), class_name, tuple(p.arg for p in every))


__all__ = [
    "MAX_SOURCE",
    "Function",
    "FunctionNode",
    "Module",
    "called_name",
    "child_blocks",
    "decode_source",
    "excerpt",
    "find_function",
    "find_sites",
    "first_line",
    "flat_block",
    "function_chain",
    "imported_module",
    "isolate_function",
    "parse_text",
    "qualified_name",
    "read_module",
    "statement_chain",
    "statement_kind",
    "statement_text",
]
