"""The names of modules, by syntax: read when a walk first comes to a module, and kept."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from triage.analysis.reading import Module, read_module
from triage.analysis.source import flat_block, imported_module
from triage.model import Unknown
from triage.protocols import SourceTree

MAX_FILES = 400  # modules of one walk that are read
_MAX_HOPS = 12


@dataclass(eq=False)
class FunctionInfo:
    """A function, method or lambda as it stands in the source."""

    module: ModuleIndex
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    name: str  # qualified
    owner: ClassInfo | None = None

    @property
    def decorators(self) -> list[ast.expr]:
        return [] if isinstance(self.node, ast.Lambda) else self.node.decorator_list

    def has_decorator(self, *names: str) -> bool:
        return any(
            isinstance(d, ast.Name | ast.Attribute) and ast.unparse(d).rpartition(".")[2] in names for d in self.decorators
        )


@dataclass(eq=False)
class ClassInfo:
    module: ModuleIndex
    node: ast.ClassDef
    name: str
    members: dict[str, FunctionInfo | ClassInfo | ast.stmt] = field(default_factory=dict)


@dataclass(frozen=True)
class Import:
    """`import a.b as c` (attr None) or `from a.b import attr`; `module` is absolute."""

    module: str
    attr: str | None = None


Symbol = FunctionInfo | ClassInfo | ast.stmt | Import


@dataclass(eq=False)
class ModuleIndex:
    file: str
    module: Module
    symbols: dict[str, Symbol] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)  # modules of `from x import *`
    classes: dict[str, ClassInfo] = field(default_factory=dict)


class Index:
    """The modules of one package in a tree."""

    def __init__(self, tree: SourceTree, package: str) -> None:
        self.tree = tree
        self.package = package
        self.modules: dict[str, ModuleIndex | None] = {}
        self.files: dict[str, str | None] = {}

    def module_file(self, dotted: str) -> str | None:
        """The file of a module of the package; None when it is not there."""
        if dotted not in self.files:
            base = dotted.replace(".", "/")
            inside = dotted == self.package or dotted.startswith(self.package + ".")
            found = None
            if inside:
                folder, _, name = base.rpartition("/")
                listed = self.tree.list_dir(folder) if folder else ()
                if not listed or f"{name}.py" in listed:
                    found = f"{base}.py" if self.tree.read(f"{base}.py") is not None else None
                if found is None and (not listed or name in listed):
                    found = f"{base}/__init__.py" if self.tree.read(f"{base}/__init__.py") is not None else None
            self.files[dotted] = found
        return self.files[dotted]

    def read(self, file: str) -> ModuleIndex | None:
        """The names of a module; None when it cannot be read, or too many were."""
        if file not in self.modules:
            made = None
            if sum(m is not None for m in self.modules.values()) < MAX_FILES:
                module = read_module(self.tree, file)
                if not isinstance(module, Unknown):
                    made = ModuleIndex(file, module)
                    made.symbols = index_block(made, module.tree.body, "", None)
            self.modules[file] = made
        return self.modules[file]

    def find(self, file: str, name: str, hops: int = _MAX_HOPS) -> tuple[ModuleIndex, Symbol] | str | None:
        """What `name` means in a module: its definition; a dotted name where that lies outside the package or is a module;
        None when it is not defined there."""
        index = self.read(file)
        if index is None or hops <= 0:
            return None
        symbol = index.symbols.get(name)
        if symbol is None:
            for star in index.stars:
                target = self.module_file(star)
                found = self.find(target, name, hops - 1) if target and not name.startswith("_") else None
                if found is not None:
                    return found
            return None
        return self.follow(symbol, hops - 1) if isinstance(symbol, Import) else (index, symbol)

    def follow(self, symbol: Import, hops: int = _MAX_HOPS) -> tuple[ModuleIndex, Symbol] | str | None:
        if symbol.attr is None:
            return symbol.module
        target = self.module_file(symbol.module)
        if target is None:
            return f"{symbol.module}.{symbol.attr}"
        found = self.find(target, symbol.attr, hops)
        return found if found is not None else f"{symbol.module}.{symbol.attr}"


def index_block(index: ModuleIndex, block: list[ast.stmt], prefix: str, owner: ClassInfo | None) -> dict[str, Symbol]:
    """The names that a block of statements binds, those in its ifs, tries and withs included."""
    out: dict[str, Symbol] = {}
    for node in flat_block(block):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            out[node.name] = FunctionInfo(index, node, prefix + node.name, owner)
        elif isinstance(node, ast.ClassDef):
            made = ClassInfo(index, node, prefix + node.name)
            members = index_block(index, node.body, f"{prefix}{node.name}.", made)
            made.members = {k: v for k, v in members.items() if not isinstance(v, Import)}
            out[node.name] = index.classes[made.name] = made
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for name, symbol in imports_of(index.file, node):
                if name == "*":
                    index.stars.append(symbol.module)
                else:
                    out[name] = symbol
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for n in ast.walk(target):
                    if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and not isinstance(out.get(n.id), ClassInfo):
                        out[n.id] = node
    return out


def imports_of(file: str, node: ast.Import | ast.ImportFrom) -> list[tuple[str, Import]]:
    """The names that an import statement binds."""
    if isinstance(node, ast.Import):
        return [
            (a.asname, Import(a.name)) if a.asname else (a.name.partition(".")[0], Import(a.name.partition(".")[0]))
            for a in node.names
        ]
    base = imported_module(file, node.module, node.level)
    return [(a.asname or a.name, Import(base) if a.name == "*" else Import(base, a.name)) for a in node.names]
