"""PathCondition -> where the helpers and constants that the failing condition uses are defined, as evidence.

Syntax answers first (`names.find_definition`). What needs inference, a method of a local's class, is asked of jedi where
nothing nearer was found, in a folder that holds only what was read through the source tree: the answer is the same for a
saved capture.
"""

from __future__ import annotations

import ast
import builtins
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from triage.analysis.conditions import Scope, dotted, environment_name, read_scope, setting_name
from triage.analysis.flow import one_line
from triage.analysis.names import find_definition, goto
from triage.analysis.reading import Module, read_module
from triage.analysis.source import FunctionNode, child_blocks, excerpt, function_chain, statement_chain
from triage.analysis.trees import is_safe_name
from triage.errors import CaptureError
from triage.model import Evidence, Guard, Location, PathCondition, Unknown
from triage.protocols import SourceTree

MAX_NAMES = 3
MAX_GUARDS = 3  # guards next to the failing statement that are looked at
MAX_FILES = 30  # files that are read to follow imports
MAX_GOTOS = 2  # questions to jedi, which has no limit of its own
MAX_INFERRED = 100_000  # characters that jedi reads for one question
MAX_TEXT = 200  # characters of a definition's line

_BUILTINS = frozenset(dir(builtins))


class _Package:
    """The files of one package, of which no more than MAX_FILES are read: names from elsewhere are nobody's finding."""

    def __init__(self, tree: SourceTree, package: str) -> None:
        self.tree = tree
        self.package = package
        self.files: dict[str, bytes | None] = {}
        self.left = MAX_FILES

    def read(self, file: str) -> bytes | None:
        if file not in self.files:
            inside = file.startswith(f"{self.package}/") and self.left > 0
            self.files[file] = self.tree.read(file) if inside else None
            self.left -= self.files[file] is not None
        return self.files[file]

    def is_package(self, file: str) -> bool:
        return self.tree.is_package(file)

    def list_dir(self, file: str) -> tuple[str, ...]:
        return self.tree.list_dir(file)


@dataclass(frozen=True)
class Use:
    """A name that a condition uses. `line` (from 1) and `column` (from 0, in characters) are where its last part stands."""

    name: str
    line: int
    column: int
    inferred: bool = False  # only the class of a local tells what it is


def find_definitions(path: PathCondition, tree: SourceTree) -> tuple[Evidence, ...]:
    """One line of source for up to three names, nearest to the failing statement first; neither builtins nor settings."""
    if not path.sites:
        return ()
    site = path.sites[-1]
    line = site.at or site.location.line
    tree = _Package(tree, site.location.file.partition("/")[0])
    module = read_module(tree, site.location.file, line)
    if isinstance(module, Unknown):
        return ()
    found: dict[Location, Evidence] = {}
    names: set[str] = set()
    asked = 0
    for use in _uses(module, path, line):
        if len(found) >= MAX_NAMES:
            break
        if use.name in names:
            continue
        names.add(use.name)
        where = None if use.inferred else find_definition(tree, module.file, use.name, line)
        if use.inferred and not found and asked < MAX_GOTOS:
            asked += 1
            where = _infer(module, tree, use, line)
        if where is None or (site.location.file == where.file and where.line <= line <= (where.end_line or where.line)):
            continue
        text = _first_line(tree, where)
        if text:
            found.setdefault(where, Evidence("source", text, where))
    return tuple(found.values())


def _first_line(tree: SourceTree, where: Location) -> str:
    """The first line of a definition that says what it is: decorators are passed over."""
    if where.line == 1 and where.end_line is None:
        return ""  # a module, not a line of it
    lines = [text.strip() for _, text in excerpt(tree, Location(where.file, where.line), 0)]
    return " ".join(lines)[:MAX_TEXT]


# ---------------------------------------------------------------- names in use
def _uses(module: Module, path: PathCondition, line: int) -> Iterator[Use]:
    """The names that the failing statement and the guards before it use, nearest first."""
    site = path.sites[-1]
    scope = read_scope("\n".join(module.original), line)
    owner = _owner(module.tree, line)
    chain = statement_chain(module.tree, line)
    for node in _own_expressions(chain[-1]) if chain and not isinstance(chain[-1], ast.Raise) else ():
        yield from _read(node, scope, owner, module.lines)
    for guard in reversed(site.guards[-MAX_GUARDS:]):
        for node in _expressions_at(module, guard):
            yield from _read(node, scope, owner, module.lines)


def _own_expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement that are not in its blocks; of an assert only the test."""
    if isinstance(statement, ast.Assert):
        yield statement.test
        return
    inner = {id(s) for block in child_blocks(statement) for s in block}
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.expr) and id(child) not in inner:
            yield child


def _expressions_at(module: Module, guard: Guard) -> Iterator[ast.expr]:
    """The expressions on a guard's lines that its text is made of, outermost only."""
    for statement in reversed(statement_chain(module.tree, guard.location.line)):
        for node in _own_expressions(statement):
            near = node.lineno <= guard.location.line <= (node.end_lineno or node.lineno)
            if near and one_line(module.lines, node) in guard.text:
                yield node
        if statement.lineno < guard.location.line:
            return


def _owner(tree: ast.Module, line: int) -> str | None:
    """The class whose method holds a line."""
    chain = function_chain(tree, line)
    classes = [node.name for node in chain if isinstance(node, ast.ClassDef)]
    return ".".join(classes) or None


def _read(
    node: ast.expr, scope: Scope, owner: str | None, lines: Sequence[str], traced: frozenset[str] = frozenset()
) -> Iterator[Use]:
    """The names of an expression in source order; a local's value is read in its place, once."""
    if isinstance(node, ast.Call):
        yield from _called(node, scope, owner, lines, traced)
    elif isinstance(node, ast.Attribute):
        if setting_name(node, scope) is None:
            yield from _chain(node, scope, owner, lines, traced, False)
    elif isinstance(node, ast.Name):
        yield from _name(node, scope, owner, lines, traced)
    elif isinstance(node, ast.Subscript) and environment_name(node) is not None:
        return
    else:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                yield from _read(child, scope, owner, lines, traced)
            elif isinstance(child, ast.comprehension):
                for part in (child.iter, *child.ifs):
                    yield from _read(part, scope, owner, lines, traced)


def _called(node: ast.Call, scope: Scope, owner: str | None, lines: Sequence[str], traced: frozenset[str]) -> Iterator[Use]:
    if environment_name(node) is not None or setting_name(node, scope) is not None:
        return
    if isinstance(node.func, ast.Attribute):
        yield from _chain(node.func, scope, owner, lines, traced, True)
    else:
        yield from _read(node.func, scope, owner, lines, traced)
    for argument in (*node.args, *(k.value for k in node.keywords)):
        yield from _read(argument, scope, owner, lines, traced)


def _chain(
    node: ast.Attribute, scope: Scope, owner: str | None, lines: Sequence[str], traced: frozenset[str], called: bool
) -> Iterator[Use]:
    """`a.b.c`: from a module or a class by syntax; a method of a local by inference; fields of objects not at all."""
    path = dotted(node)
    head = path.partition(".")[0] if path is not None else None
    if path is None or head is None or "(" in path or "[" in path:
        yield from _read(node.value, scope, owner, lines, traced)
        if called:
            yield _use(node, node.attr, lines, True)
    elif head in ("self", "cls") and owner is not None:
        if called and path.count(".") == 1:
            yield _use(node, f"{owner}.{node.attr}", lines)
    elif _is_local(head, scope):
        if called and setting_name(node.value, scope) is None:
            yield _use(node, path, lines, True)
    elif head not in _BUILTINS:
        yield _use(node, path, lines)


def _name(node: ast.Name, scope: Scope, owner: str | None, lines: Sequence[str], traced: frozenset[str]) -> Iterator[Use]:
    if node.id in scope.values and node.id not in traced and not traced:
        for value in scope.values[node.id][-1:]:
            yield from _read(value, scope, owner, lines, frozenset({node.id}))
    elif not _is_local(node.id, scope) and node.id not in _BUILTINS:
        yield _use(node, node.id, lines)


def _is_local(name: str, scope: Scope) -> bool:
    return name in scope.values or name in scope.parameters or name in scope.unknown or name in scope.args_names


def _use(node: ast.Name | ast.Attribute, name: str, lines: Sequence[str], inferred: bool = False) -> Use:
    line, end = node.end_lineno or node.lineno, node.end_col_offset or 0
    column = len(lines[line - 1].encode()[:end].decode("utf-8", "replace")) - 1 if line <= len(lines) else 0
    return Use(name, line, max(0, column), inferred)


# ---------------------------------------------------------------- inference
def _infer(module: Module, tree: SourceTree, use: Use, line: int) -> Location | None:
    """Where jedi sees the definition, given the function and the files that define what it names. Nothing else is read."""
    files = {module.file: _reduced(module, line)}
    size = len(files[module.file])
    for name in _function_names(module, line):
        where = find_definition(tree, module.file, name, line)
        if where is None or where.file in files:
            continue
        other = read_module(tree, where.file, where.line)
        if isinstance(other, Unknown):
            continue
        text = "\n".join(other.lines)
        size += len(text)
        if size > MAX_INFERRED:
            break
        files[where.file] = text
    if size > MAX_INFERRED or not all(is_safe_name(file) for file in files):
        return None
    try:
        with tempfile.TemporaryDirectory(prefix="triage-") as folder:
            root = Path(folder, "root")
            for file, text in files.items():
                target = root / file
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8", errors="replace")
            found = goto(files[module.file], module.file, use.line, use.column, root, Path(folder, "cache"))
    except (CaptureError, OSError):
        return None
    return found if found is not None and tree.read(found.file) is not None else None


def _function_names(module: Module, line: int) -> tuple[str, ...]:
    """The names that the function around a line reads, in source order."""
    chain = function_chain(module.tree, line)
    nodes = ast.walk(chain[-1]) if chain else ()
    return tuple(dict.fromkeys(n.id for n in nodes if isinstance(n, ast.Name) and n.id not in _BUILTINS))


def _reduced(module: Module, line: int) -> str:
    """The module with all but its imports, the function around a line and what that names blanked; lines are kept."""
    named = set(_function_names(module, line))
    keep: set[int] = set()
    for node in module.tree.body:
        whole = isinstance(node, ast.Import | ast.ImportFrom)
        whole |= isinstance(node, FunctionNode) and (node.name in named or node.lineno <= line <= (node.end_lineno or 0))
        whole |= isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id in named for t in node.targets)
        if isinstance(node, ast.ClassDef):
            inside = node.lineno <= line <= (node.end_lineno or 0)
            whole |= node.name in named and not inside
            if inside and node.body:
                keep.update(range(node.lineno, node.body[0].lineno))
                for member in node.body:
                    if isinstance(member, FunctionNode) and member.lineno <= line <= (member.end_lineno or 0):
                        keep.update(range(member.lineno, (member.end_lineno or 0) + 1))
        if whole:
            keep.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return "\n".join(text if i in keep else "" for i, text in enumerate(module.lines, 1))
