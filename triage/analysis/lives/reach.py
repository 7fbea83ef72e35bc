"""The functions that validation hands the args object, in the order in which it first reaches them.

Calls are followed by name: methods of the args class, functions and classes that are given the args object (or a view of
it), functions that stand beside it in a call, and functions that a decorator registers. Code that never sees the args
object is not entered.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from triage.analysis.conditions import ARGS_NAMES
from triage.analysis.lives.sources import Definition, Source, Sources, imports_of, last_name
from triage.analysis.source import FunctionNode
from triage.protocols import EngineProfile

MAX_FUNCTIONS = 4_000
MAX_DEPTH = 40  # calls
_WRAPPERS = ("view", "server_args", "serverargs", "resolv")  # in names of functions that wrap the args object
_COPIES = frozenset({"replace", "copy", "deepcopy"})
_REGISTERED = re.compile(r"^@.*(?:\n[^\n]*){0,40}?\n(?:async )?def ", re.MULTILINE)

Key = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class CallSite:
    """A call that leads to a function, in the function that makes it."""

    caller: Reached
    line: int


@dataclass(eq=False)
class Reached:
    """A function with the names under which it holds the args object. `key` orders; None where the moment is unknown."""

    definition: Definition
    args: frozenset[str]
    key: Key | None
    local: Mapping[str, tuple[str, str | None]]  # imports inside it
    nodes: tuple[ast.AST, ...] = field(repr=False)  # everything inside, in source order
    calls: list[CallSite] = field(default_factory=list, repr=False)

    @property
    def source(self) -> Source:
        return self.definition.source

    @property
    def node(self) -> ast.FunctionDef | ast.AsyncFunctionDef:
        return self.definition.node


class Reach:
    """All functions on the way of the validation stages that a profile names."""

    def __init__(self, sources: Sources, profile: EngineProfile) -> None:
        self.sources = sources
        self.profile = profile
        self.reached: dict[int, Reached] = {}  # by id of the node
        self.complete = True
        self.args_class: tuple[Source, ast.ClassDef] | None = None
        module, _, self.class_name = profile.args_class.rpartition(".")
        home = sources.get(module)
        held = sources.resolve(home, self.class_name, {}) if home is not None else None
        if held is not None and self.class_name in held[0].classes:  # perhaps in a file that the module imports it from
            self.args_class = (held[0], held[0].classes[self.class_name])
        self.views = frozenset(self.view_methods())
        for number, stage in enumerate(profile.stages):
            self.enter_stage(stage.call, ((number, 0),))

    def view_methods(self) -> Iterator[str]:
        """Methods of the args class that only hand out a view of it, as `is_args` looks them up."""
        for node in self.args_class[1].body if self.args_class is not None else ():
            if isinstance(node, FunctionNode) and len(node.args.args) == 1:
                returns = [n.value for n in ast.walk(node) if isinstance(n, ast.Return)]
                if returns and all(v is not None and is_args(v, {"self"}) for v in returns):
                    yield f".{node.name}()"

    def enter_stage(self, call: str, key: Key) -> None:
        found: Definition | None = None
        if call.startswith("."):
            if self.args_class is not None:
                found = self.sources.method(*self.args_class, call[1:])
        else:
            module, _, name = call.rpartition(".")
            source = self.sources.get(module)
            held = self.sources.resolve(source, name, {}) if source is not None else None
            if held is not None and held[1] in held[0].functions:
                found = Definition(held[0], held[0].functions[held[1]])
        if found is not None:
            self.visit(found, frozenset(), key, None, 0)

    def functions(self) -> list[Reached]:
        """In the order in which they are reached; those without a known moment last."""
        return sorted(self.reached.values(), key=lambda r: (r.key is None, r.key or (), r.source.file, r.node.lineno))

    # ------------------------------------------------------------ one function
    def visit(self, found: Definition, given: frozenset[str], key: Key | None, site: CallSite | None, depth: int) -> None:
        """Enter a function whose parameters `given` hold the args object."""
        known = self.reached.get(id(found.node))
        if known is not None:
            if site is not None:
                known.calls.append(site)
            return
        if len(self.reached) >= MAX_FUNCTIONS or depth > MAX_DEPTH:
            self.complete = False
            return
        nodes = tuple(walk_in_order(found.node))
        source = found.source
        local: dict[str, tuple[str, str | None]] = {}
        for node in nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                local.update(imports_of(node, source.file))
        args = self.args_names(found, given, nodes)
        entered = Reached(found, args, key, local, nodes, [site] if site is not None else [])
        self.reached[id(found.node)] = entered
        for node in nodes:
            if isinstance(node, ast.Call):
                self.follow_call(entered, node, depth)
            elif isinstance(node, ast.Attribute) and is_args(node.value, args):
                self.follow_method(entered, node, depth)

    def args_names(self, found: Definition, given: frozenset[str], nodes: tuple[ast.AST, ...]) -> frozenset[str]:
        names = set(given) | {"server_args"} | self.views
        a = found.node.args
        for i, p in enumerate([*a.posonlyargs, *a.args, *a.kwonlyargs]):
            note = ast.unparse(p.annotation) if p.annotation is not None else ""
            is_self = i == 0 and p.arg == "self" and self.is_args_class(found)
            if p.arg in ARGS_NAMES or is_self or self.class_name in note:
                names.add(p.arg)
            if "Namespace" in note:  # what the parser made, not yet the settings
                names.discard(p.arg)
        for node in nodes:
            if isinstance(node, ast.Assign) and is_args(node.value, names):
                names |= {t.id for t in node.targets if isinstance(t, ast.Name)}
            elif isinstance(node, ast.NamedExpr) and is_args(node.value, names):
                names.add(node.target.id)
            elif isinstance(node, ast.Call) and any(is_args(a, names) for a in node.args):
                names |= {p.arg for a in node.args if isinstance(a, ast.Lambda) for p in a.args.args}
        return frozenset(names)

    def is_args_class(self, found: Definition) -> bool:
        owner = found.owner
        if owner is None or self.args_class is None:
            return False
        if owner.name == self.class_name:
            return True
        return any(last_name(b) == owner.name for b in self.args_class[1].bases)

    # ------------------------------------------------------------ calls
    def follow_call(self, f: Reached, node: ast.Call, depth: int) -> None:
        positions = [i for i, a in enumerate(node.args) if is_args(a, f.args)]
        keywords = [k.arg for k in node.keywords if k.arg is not None and is_args(k.value, f.args)]
        func = node.func
        if isinstance(func, ast.Attribute) and is_args(func.value, f.args):
            self.follow_method(f, func, depth, (positions, keywords))
        if not positions and not keywords and not self.names_class(func):
            return
        target = self.sources.define(f.source, func, f.local) if isinstance(func, ast.Name | ast.Attribute) else None
        if self.makes_args(f, func, target):
            assert self.args_class is not None
            for name in ("__init__", "__post_init__"):
                made = self.sources.method(*self.args_class, name)
                if made is not None:
                    self.enter(f, node, made, frozenset({"self"}), depth)
        if isinstance(target, Definition) and target.owner is not None and self.is_args_class(target):
            self.enter(f, node, target, frozenset(), depth)
        if not positions and not keywords:
            return
        if target is None and isinstance(func, ast.Attribute) and not func.attr.startswith("__"):
            for found in self.unbound_methods(f, func):
                self.enter(f, node, found, parameters_at(found, positions, keywords), depth)
        elif isinstance(target, tuple):
            made = self.sources.method(*target, "__init__")
            if made is not None:
                self.enter(f, node, made, parameters_at(made, positions, keywords), depth)
        elif target is not None:
            self.enter(f, node, target, parameters_at(target, positions, keywords), depth)
        for beside in [*node.args, *(k.value for k in node.keywords)]:
            if isinstance(beside, ast.Name | ast.Attribute) and not is_args(beside, f.args):
                found_beside = self.sources.define(f.source, beside, f.local)
                methods = [found_beside] if isinstance(found_beside, Definition) else []
                unbound = found_beside is None and isinstance(beside, ast.Attribute) and beside.attr.islower()
                if unbound and isinstance(beside, ast.Attribute) and not is_args(beside.value, f.args):
                    methods = list(self.unbound_methods(f, beside))
                for method in methods:
                    self.enter(f, node, method, parameters_at(method, [0], []), depth)

    def names_class(self, func: ast.expr) -> bool:
        """Whether a call can make the args object, or be of one of its class methods, by the names in it."""
        root = func.value if isinstance(func, ast.Attribute) else func
        return isinstance(root, ast.Name) and root.id in ("cls", self.class_name)

    def makes_args(self, f: Reached, func: ast.expr, target: Definition | tuple[Source, ast.ClassDef] | None) -> bool:
        if self.args_class is None:
            return False
        if isinstance(target, tuple):
            return target[1] is self.args_class[1]
        return isinstance(func, ast.Name) and func.id == "cls" and self.is_args_class(f.definition)

    def follow_method(
        self, f: Reached, node: ast.Attribute, depth: int, given: tuple[list[int], list[str]] | None = None
    ) -> None:
        """A method of the args class: called with the args object in the `given` places, or (None) a property that is read."""
        if self.args_class is None:
            return
        found = self.sources.method(*self.args_class, node.attr)
        if found is None:
            return
        if given is not None:
            self.enter(f, node, found, frozenset({"self"}) | parameters_at(found, *given), depth)
        elif any("property" in last_name(d) for d in found.node.decorator_list):
            self.enter(f, node, found, frozenset({"self"}), depth)

    def unbound_methods(self, f: Reached, func: ast.Attribute) -> Iterator[Definition]:
        """Methods of this name that the object can have: of the function's own class, else of the package it came from."""
        if isinstance(func.value, ast.Name) and func.value.id in ("self", "cls") and f.definition.owner is not None:
            own = self.sources.method(f.source, f.definition.owner, func.attr)
            if own is not None:
                yield own
            return
        root: ast.expr = func.value
        while isinstance(root, ast.Attribute | ast.Call | ast.Subscript):
            root = root.func if isinstance(root, ast.Call) else root.value
        where = (f.local.get(root.id) or f.source.imports.get(root.id)) if isinstance(root, ast.Name) else None
        names = list(self.beside(where[0])) if where is not None else list(self.in_sight(f))
        wanted = f"def {func.attr}(".encode()
        for name in names:
            text = self.sources.find(name)
            source = self.sources.get(name) if text is not None and wanted in text[1] else None
            for owner in source.classes.values() if source is not None else ():
                for child in owner.body:
                    if source is not None and isinstance(child, FunctionNode) and child.name == func.attr:
                        yield Definition(source, child, owner)

    def in_sight(self, f: Reached) -> Iterator[str]:
        """The modules that a function's own module imports, or it itself: where the class of a local of it can come from."""
        seen: set[str] = {f.source.name}
        yield f.source.name
        for module, inner in (*f.local.values(), *f.source.imports.values()):
            for name in (module, f"{module}.{inner}"):
                if name not in seen:
                    seen.add(name)
                    yield name

    def beside(self, module: str) -> Iterator[str]:
        """A module, and where it is a package, the modules directly in it."""
        yield module
        found = self.sources.find(module)
        if found is not None and found[2]:
            for name in self.sources.tree.list_dir(found[0].rpartition("/")[0]):
                if name.endswith(".py") and name != "__init__.py":
                    yield f"{module}.{name[:-3]}"

    def enter(self, f: Reached, node: ast.expr, found: Definition, given: frozenset[str], depth: int) -> None:
        key = (*f.key, (node.lineno, node.col_offset)) if f.key is not None else None
        self.visit(found, given, key, CallSite(f, node.lineno), depth + 1)

    # ------------------------------------------------------------ registries
    def enter_registered(self, word: str) -> None:
        """Functions that a decorator hands to a registry, in modules that those on the way import and that hold `word`."""
        todo = [s.name for s in {id(r.source): r.source for r in self.reached.values()}.values()]
        seen = set(todo)
        spread = set(todo)
        wanted = word.encode()
        while todo:
            name = todo.pop()
            found = self.sources.find(name)
            if found is None:
                continue
            if name in spread or found[2]:
                for imported in self.sources.imported(name):
                    if imported not in seen:
                        seen.add(imported)
                        todo.append(imported)
            if wanted not in found[1] or not _REGISTERED.search(found[1].decode("utf-8", "replace")):
                continue
            source = self.sources.get(name)
            for node in source.functions.values() if source is not None else ():
                if source is not None and node.decorator_list and self.takes_args(node):
                    self.visit(Definition(source, node), frozenset(), None, None, 0)

    def takes_args(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        for p in [*node.args.posonlyargs, *node.args.args]:
            note = ast.unparse(p.annotation) if p.annotation is not None else ""
            if p.arg in ARGS_NAMES or p.arg in ("cfg", "view") or self.class_name in note or "View" in note:
                return True
        return False


def parameters_at(found: Definition, positions: list[int], keywords: list[str]) -> frozenset[str]:
    """The parameters that the arguments at these positions and keywords fill."""
    a = found.node.args
    every = [p.arg for p in [*a.posonlyargs, *a.args]]
    shift = 1 if found.is_bound else 0
    out = {every[i + shift] for i in positions if i + shift < len(every)}
    return frozenset(out | (set(keywords) & {*every, *(p.arg for p in a.kwonlyargs)}))


def is_args(node: ast.expr, names: frozenset[str] | set[str]) -> bool:
    """Whether an expression is the args object, a view or a copy of it."""
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.Attribute):
        return node.attr == "server_args"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and f".{node.func.attr}()" in names:
        return is_args(node.func.value, names)
    if isinstance(node, ast.Call) and node.args:
        name = last_name(node.func).lower()
        return (any(w in name for w in _WRAPPERS) or name in _COPIES) and is_args(node.args[0], names)
    return False


def walk_in_order(root: ast.AST) -> Iterator[ast.AST]:
    """All nodes inside, each before its children, in source order."""
    stack = list(ast.iter_child_nodes(root))[::-1]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(list(ast.iter_child_nodes(node))[::-1])
