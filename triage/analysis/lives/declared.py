"""Where a field is declared, with its flags."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from triage.analysis.flags import Options
from triage.analysis.lives.reach import walk_in_order
from triage.analysis.lives.sources import Source, Sources
from triage.analysis.source import statement_text
from triage.model import Declaration, Flag, Location
from triage.protocols import EngineProfile

MAX_TEXT = 400  # characters


def find_declaration(sources: Sources, profile: EngineProfile, options: Options, name: str) -> Declaration:
    """The annotated field of the args class, of one of its bases, or of a class that a module beside it imports; else the
    call that declares its flag."""
    flags = tuple(option.flag for option in options.by_field.get(name, ()))
    module, _, class_name = profile.args_class.rpartition(".")
    home = sources.get(module)
    if home is None:
        return Declaration(None, "", flags)
    if class_name in home.classes:
        found = _field_in(home.classes[class_name], name)
        if found is not None:
            return _declaration(home, found, flags)
    for source in _near(sources, home, name):
        for owner in source.classes.values():
            found = _field_in(owner, name)
            if found is not None:
                return _declaration(source, found, flags)
    spellings = {n for flag in flags for n in flag.names}
    for node in walk_in_order(home.module.tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            given = {a.value for a in node.value.args if isinstance(a, ast.Constant)}
            if given & spellings:
                return _declaration(home, node, flags)
    return Declaration(None, "", flags)


def _near(sources: Sources, home: Source, name: str) -> Iterator[Source]:
    """Modules that the home of the args class imports, and packages among them with theirs, whose text names the field."""
    wanted = name.encode()
    seen: set[str] = set()
    todo = list(sources.imported(home.name))
    while todo:
        module = todo.pop(0)
        found = sources.find(module) if module not in seen else None
        seen.add(module)
        if found is None:
            continue
        if found[2]:
            todo += list(sources.imported(module))
        if wanted in found[1] and b"class " in found[1]:
            source = sources.get(module)
            if source is not None:
                yield source


def _field_in(owner: ast.ClassDef, name: str) -> ast.AnnAssign | None:
    for node in owner.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            return node
    return None


def _declaration(source: Source, node: ast.stmt, flags: tuple[Flag, ...]) -> Declaration:
    module = source.module
    text = statement_text(module.original, node, module.lines)
    return Declaration(Location(module.file, node.lineno, node.end_lineno), text[:MAX_TEXT], flags)
