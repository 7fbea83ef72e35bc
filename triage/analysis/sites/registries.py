"""Containers at module level that decorators fill: which functions are in them.

Functions of the container's module that put something into it are registrars, and so are those that call one; every
function in the files below that module's folder that a registrar decorates is a member.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from triage.analysis.conditions import Part
from triage.analysis.sites.index import FunctionInfo, Index, Symbol
from triage.analysis.source import called_name
from triage.model import Guard, Location

MAX_FILES = 400  # files below the folder that are searched for the registrars' names
_PUTTING = {"append", "add", "insert", "setdefault", "update", "register", "extend"}


@dataclass(frozen=True, eq=False)
class Member:
    """A function in a registry, and the decorator that put it there as a guard."""

    info: FunctionInfo
    guard: Guard
    part: Part


def find_members(index: Index, file: str, name: str) -> tuple[Member, ...]:
    """The functions that decorators put into the container `name` of a module, in the order of files and lines."""
    module = index.read(file)
    if module is None:
        return ()
    functions = {n: s.node for n, s in module.symbols.items() if isinstance(s, FunctionInfo)}
    registrars = {n for n, node in functions.items() if _puts(node, name)}
    while True:
        more = {n for n, node in functions.items() if n not in registrars and _calls(node, registrars) and _decorates(node)}
        if not more:
            break
        registrars |= more
    if not registrars:
        return ()
    out: list[Member] = []
    for path in _files_below(index, file.rpartition("/")[0]):
        data = index.tree.read(path) or b""
        if not any(f"@{r}".encode() in data or f".{r}".encode() in data for r in registrars):
            continue
        found = index.read(path)
        for symbol in found.symbols.values() if found is not None else ():
            out += _member(symbol, registrars)
    return tuple(out)


def _member(symbol: Symbol, registrars: set[str]) -> list[Member]:
    if not isinstance(symbol, FunctionInfo):
        return []
    for decorator in symbol.decorators:
        if called_name(decorator) in registrars:
            text = ast.unparse(decorator)
            location = Location(symbol.module.file, decorator.lineno, decorator.end_lineno)
            return [Member(symbol, Guard(location, text, True, "for"), Part(text, "call", True, ()))]
    return []


def _puts(node: ast.AST, name: str) -> bool:
    for n in ast.walk(node):
        putting = isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in _PUTTING
        if putting and any(isinstance(m, ast.Name) and m.id == name for m in ast.walk(n.func.value)):  # type: ignore[attr-defined]
            return True
        if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) and isinstance(n.value, ast.Name) and n.value.id == name:
            return True
    return False


def _calls(node: ast.AST, names: set[str]) -> bool:
    return any(isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in names for n in ast.walk(node))


def _decorates(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> bool:
    """Whether a function returns one that it makes."""
    return not isinstance(node, ast.Lambda) and any(isinstance(s, ast.FunctionDef) for s in node.body)


def _files_below(index: Index, folder: str) -> list[str]:
    out: list[str] = []
    todo = [folder]
    while todo and len(out) < MAX_FILES:
        here = todo.pop(0)
        for name in index.tree.list_dir(here):
            path = f"{here}/{name}"
            if name.endswith(".py"):
                out.append(path)
            elif "." not in name and not name.startswith("__") and index.tree.is_package(path):
                todo.append(path)
    return out
