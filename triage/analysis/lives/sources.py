"""The modules of one package as they are asked for: their functions, classes and imports, parsed once each."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from triage.analysis.reading import Module, read_module
from triage.analysis.source import FunctionNode, flat_block, imported_module
from triage.model import Unknown
from triage.protocols import SourceTree

MAX_MODULES = 600  # parsed for one question
_HOPS = 6  # re-exports followed for one name
_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+([\w., \t]+))", re.MULTILINE)


@dataclass(frozen=True, eq=False)
class Source:
    """One parsed module; `imports` maps a local name to (module, name in it or None for the module itself)."""

    name: str
    module: Module = field(repr=False)
    functions: Mapping[str, ast.FunctionDef | ast.AsyncFunctionDef] = field(repr=False)
    classes: Mapping[str, ast.ClassDef] = field(repr=False)
    imports: Mapping[str, tuple[str, str | None]] = field(repr=False)
    constants: Mapping[str, ast.expr] = field(repr=False)

    @property
    def file(self) -> str:
        return self.module.file


@dataclass(frozen=True, eq=False)
class Definition:
    """A function of a module, or a method with its class."""

    source: Source
    node: ast.FunctionDef | ast.AsyncFunctionDef
    owner: ast.ClassDef | None = None

    @property
    def name(self) -> str:
        return f"{self.owner.name}.{self.node.name}" if self.owner is not None else self.node.name

    @property
    def is_bound(self) -> bool:
        """Whether the first parameter is filled by the call itself."""
        return self.owner is not None and not any(last_name(d) == "staticmethod" for d in self.node.decorator_list)


class Sources:
    """Finds and parses modules of one package; what cannot be read is in `unread`, once."""

    def __init__(self, tree: SourceTree, package: str) -> None:
        self.tree = tree
        self.package = package
        self.loaded: dict[str, Source | None] = {}
        self.texts: dict[str, tuple[str, bytes, bool] | None] = {}
        self.unread: list[Unknown] = []

    def find(self, name: str) -> tuple[str, bytes, bool] | None:
        """(file, content, is a package) of a module, unparsed; None where there is none, or outside the package."""
        if name != self.package and not name.startswith(self.package + "."):
            return None
        if name not in self.texts:
            self.texts[name] = None
            path = name.replace(".", "/")
            for file, is_package in ((f"{path}.py", False), (f"{path}/__init__.py", True)):
                data = self.tree.read(file)
                if data is not None:
                    self.texts[name] = (file, data, is_package)
                    break
        return self.texts[name]

    def get(self, name: str) -> Source | None:
        """A module, parsed; None where it cannot be."""
        if name not in self.loaded:
            self.loaded[name] = None
            found = self.find(name)
            if found is not None and len(self.loaded) <= MAX_MODULES:
                module = read_module(self.tree, found[0])
                if isinstance(module, Unknown):
                    self.unread.append(module)
                else:
                    self.loaded[name] = _index(name, module)
        return self.loaded[name]

    def all(self) -> Iterator[Source]:
        """The modules parsed so far."""
        return (s for s in list(self.loaded.values()) if s is not None)

    def resolve(self, source: Source, name: str, local: Mapping[str, tuple[str, str | None]]) -> tuple[Source, str] | None:
        """The module that defines a name which `source` uses, and its name there ("" for the module itself)."""
        imports: Mapping[str, tuple[str, str | None]] = local
        for _ in range(_HOPS):
            where = imports.get(name) or source.imports.get(name)
            if where is None:
                known = name in source.functions or name in source.classes or name in source.constants
                return (source, name) if known else None
            module, inner = where
            if inner is None:
                found = self.get(module)
                return (found, "") if found is not None else None
            below = self.get(f"{module}.{inner}") if self.find(f"{module}.{inner}") is not None else None
            if below is not None:
                return below, ""
            parent = self.get(module)
            if parent is None:
                return None
            source, name, imports = parent, inner, {}
        return None

    def define(
        self, source: Source, node: ast.expr, local: Mapping[str, tuple[str, str | None]]
    ) -> Definition | tuple[Source, ast.ClassDef] | None:
        """The function, or the class, that a name or a dotted name stands for."""
        if isinstance(node, ast.Name):
            return _in_module(self.resolve(source, node.id, local))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            base = self.resolve(source, node.value.id, local)
            if base is not None and not base[1]:
                return _in_module(self.resolve(base[0], node.attr, {}))
            owner = _in_module(base)
            if isinstance(owner, tuple):
                return self.method(*owner, node.attr)
        return None

    def method(self, source: Source, owner: ast.ClassDef, name: str, hops: int = _HOPS) -> Definition | None:
        """A method of a class or of one of its bases."""
        for child in owner.body:
            if isinstance(child, FunctionNode) and child.name == name:
                return Definition(source, child, owner)
        for base in owner.bases if hops else ():
            found = self.define(source, base, {})
            if isinstance(found, tuple) and found[1] is not owner:
                inherited = self.method(*found, name, hops - 1)
                if inherited is not None:
                    return inherited
        return None

    def imported(self, name: str) -> Iterator[str]:
        """The modules of the package that a module's text imports anywhere, unparsed; submodules too."""
        found = self.find(name)
        if found is None:
            return
        file, data, _is_package = found
        for match in _IMPORT.finditer(data.decode("utf-8", "replace")):
            if match[3] is not None:
                yield from (part.split()[0] for part in match[3].split(",") if part.split())
                continue
            level = len(match[1]) - len(match[1].lstrip("."))
            base = imported_module(file, match[1][level:], level)
            yield base
            for part in match[2].strip("()").split(","):
                word = part.split("#")[0].split()
                if word and self.find(f"{base}.{word[0]}") is not None:
                    yield f"{base}.{word[0]}"


def _in_module(where: tuple[Source, str] | None) -> Definition | tuple[Source, ast.ClassDef] | None:
    if where is None:
        return None
    source, name = where
    if name in source.functions:
        return Definition(source, source.functions[name])
    return (source, source.classes[name]) if name in source.classes else None


def _index(name: str, module: Module) -> Source:
    functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
    classes: dict[str, ast.ClassDef] = {}
    imports: dict[str, tuple[str, str | None]] = {}
    constants: dict[str, ast.expr] = {}
    for node in flat_block(module.tree.body):
        if isinstance(node, FunctionNode):
            functions[node.name] = node
        elif isinstance(node, ast.ClassDef):
            classes[node.name] = node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imports.update(imports_of(node, module.file))
        elif isinstance(node, ast.Assign):
            constants.update({t.id: node.value for t in node.targets if isinstance(t, ast.Name)})
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            constants[node.target.id] = node.value
    return Source(name, module, functions, classes, imports, constants)


def imports_of(node: ast.Import | ast.ImportFrom, file: str) -> dict[str, tuple[str, str | None]]:
    """What an import statement binds: local name -> (module, name in it)."""
    if isinstance(node, ast.Import):
        return {
            alias.asname or alias.name.partition(".")[0]: (alias.name if alias.asname else alias.name.partition(".")[0], None)
            for alias in node.names
        }
    base = imported_module(file, node.module, node.level)
    return {alias.asname or alias.name: (base, alias.name) for alias in node.names if alias.name != "*"}


def last_name(node: ast.expr) -> str:
    """`a.b(c)` and `a.b` give "b"; "" for what has no name."""
    while isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
