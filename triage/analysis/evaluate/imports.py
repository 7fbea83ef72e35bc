"""Modules of the package: found in the source tree, executed once when first needed, names resolved lazily."""

from __future__ import annotations

import ast
import builtins

from triage.analysis.decoding import decode_source
from triage.analysis.downlevel import rewrite
from triage.analysis.evaluate.classes import Classes
from triage.analysis.evaluate.frames import Frame
from triage.analysis.evaluate.missing import has_no_source, lose_module
from triage.analysis.evaluate.statements import compile_statement
from triage.analysis.evaluate.values import (
    ABSENT,
    External,
    Instance,
    LazyImport,
    Maybe,
    Module,
    TargetRaise,
    Unknown,
    Value,
    show,
)
from triage.analysis.outline import parse_outline
from triage.protocols import SourceTree

MAX_SOURCE = 8 * 1024 * 1024


class Program:
    """The parsed files of one source tree; shared by all evaluations of it."""

    def __init__(self, tree: SourceTree, package: str) -> None:
        self.tree = tree
        self.package = package
        self.found: dict[str, tuple[str, bytes, bool] | None] = {}
        self.failures: dict[str, str] = {}
        self.rewritten: dict[str, str] = {}  # files in syntax newer than the local Python -> what was replaced
        self.newer: dict[str, ast.Module | None] = {}  # their trees

    def find(self, name: str) -> tuple[str, bytes, bool] | None:
        """(file, content, is a package) of a module; None when there is none."""
        if name not in self.found:
            self.found[name] = self._find(name)
        return self.found[name]

    def _find(self, name: str) -> tuple[str, bytes, bool] | None:
        path = name.replace(".", "/")
        for file, is_package in ((f"{path}/__init__.py", True), (f"{path}.py", False)):
            data = self.tree.read(file)
            if data is not None:
                return file, data, is_package
        if self.tree.is_package(path):
            return path, b"", True
        return None

    def parse(self, file: str, data: bytes) -> ast.Module | None:
        """The outline of a file (see `outline`): the body of a function is read when it is called."""
        if len(data) > MAX_SOURCE:
            self.failures[file] = "too large to parse"
            return None
        try:
            return parse_outline(decode_source(data), lambda: self.parse_newer(file, data, "cannot be parsed by this Python"))
        except SyntaxError as exc:
            return self.parse_newer(file, data, f"cannot be parsed by this Python (line {exc.lineno}: {exc.msg})")
        except ValueError as exc:
            self.failures[file] = f"cannot be parsed by this Python: {exc}"
        except (RecursionError, MemoryError):
            self.failures[file] = "nested too deeply to parse"
        return None

    def parse_newer(self, file: str, data: bytes, why: str) -> ast.Module | None:
        """A file in syntax newer than the local Python, rewritten; what was replaced is kept in `rewritten`."""
        if file not in self.newer:
            older = rewrite(decode_source(data))
            if older.text is None:
                self.failures[file] = f"{why}, nor rewritten ({older.why})"
            else:
                self.rewritten[file] = older.note
            self.newer[file] = ast.parse(older.text, file) if older.text is not None else None
        return self.newer[file]


class Imports(Classes):
    """Import statements and names of modules."""

    def __init__(self, program: Program, budget: int) -> None:
        super().__init__(budget)
        self.program = program
        self.modules: dict[str, Module | External] = {}
        self.imported: set[str] = set()  # top-level names outside the package that its modules import unconditionally
        self.builtins: dict[str, Value] = {}
        self.env: dict[str, Value] = {}

    def has_package(self, name: str) -> bool | None:
        raise NotImplementedError

    def inside(self, name: str) -> bool:
        package = self.program.package
        return name == package or name.startswith(package + ".")

    def import_module(self, name: str) -> Module | External:
        """The module object, not yet executed."""
        found = self.modules.get(name)
        if found is None:
            found = self.load(name)
            self.modules[name] = found
        return found

    def load(self, name: str) -> Module | External:
        if not self.inside(name):
            return External(name)
        spec = self.program.find(name)
        if spec is None:
            return External(name)
        file, _data, is_package = spec
        module = Module(name, file, is_package)
        module.ns.update(
            {
                "__name__": name,
                "__file__": f"/{file}",
                "__doc__": None,
                **({"__path__": ["/" + file.removesuffix("/__init__.py")]} if is_package else {}),
                "__package__": name if is_package else name.rpartition(".")[0],
            }
        )
        return module

    def require(self, name: str, f: Frame) -> None:
        """An import statement was reached: raise ImportError where the package is known to be missing."""
        top = name.split(".")[0]
        if not f.is_function and not self.collectors:
            self.imported.add(top)
            return  # the launch got past the top level of its modules
        if self.inside(name):
            if self.program.find(name) is None and not self.program.tree.read(name.rpartition(".")[0].replace(".", "/") + ".py"):
                if has_no_source(self.program, name):
                    return
                absent = TargetRaise(ModuleNotFoundError, (f"No module named '{name}'",))
                if self.collectors:
                    raise absent
                self.maybe(absent, lose_module(self.program, name))  # a source that is not whole looks like this as well
            return
        present = self.has_package(top) if top not in self.imported else True
        if present is False:
            raise TargetRaise(ModuleNotFoundError, (f"No module named '{top}'",))
        if present is None and self.collectors:
            missing = Unknown(f"import {top} fails", f"whether the package {top} is installed is not known")

            def fail() -> None:
                raise TargetRaise(ModuleNotFoundError, (f"No module named '{top}'",))

            self.fork(f, missing, fail, lambda: None)

    def preload(self, base: str, name: str) -> None:
        """`from package import submodule` imports the submodule for its effects (registrations)."""
        if self.inside(base):
            parent = self.program.find(base)
            if parent is not None and parent[2] and self.program.find(f"{base}.{name}") is not None:
                module = self.import_module(base)
                if not (isinstance(module, Module) and module.executed and name in module.ns):
                    child = self.import_module(f"{base}.{name}")
                    if isinstance(child, Module) and self.stack and self.stack[-1].module.name == base:
                        self.execute(child)

    def import_star(self, f: Frame, base: str) -> None:
        module = self.import_module(base)
        if isinstance(module, Module):
            self.execute(module)
            names = module.ns.get("__all__")
            for name, value in list(module.ns.items()):
                if (isinstance(names, (list, tuple)) and name in names) or (names is None and not name.startswith("_")):
                    f.assign(self, name, value)

    def absolute_name(self, module: Module, name: str, level: int) -> str:
        if not level:
            return name
        parts = module.name.split(".")
        parts = parts[: len(parts) - (level - (1 if module.is_package else 0))]
        return ".".join([*parts, name] if name else parts)

    def execute(self, module: Module) -> None:
        """Run a module's top level once. What it does to its own names is not journaled: it does not depend on the launch."""
        if module.executed:
            return
        module.executed = True
        spec = self.program.find(module.name)
        tree = self.program.parse(module.file, spec[1]) if spec is not None else None
        if tree is None:
            self.note(f"{module.file} {self.program.failures.get(module.file, 'cannot be parsed')}")
            module.unreadable = True
            return
        frame = Frame(module, "<module>", module.ns)
        saved = (self.heap.depth, self.reads, self.control, self.guards, self.collectors, self.heap.journal)
        self.heap.depth, self.reads, self.control, self.guards, self.collectors = 0, set(), frozenset(), (), []
        self.heap.journal = []
        saved_trail, self.trail = self.trail, ()
        saved_maybes, self.maybes = self.maybes, []
        saved_assumptions, self.assumptions = self.assumptions, dict(self.assumptions)
        self.stack.append(frame)
        try:
            for node in tree.body:
                try:
                    compile_statement(node)(self, frame)
                except TargetRaise as exc:
                    self.lose(frame, node, exc)
        finally:
            self.stack.pop()
            self.heap.depth, self.reads, self.control, self.guards, self.collectors, self.heap.journal = saved
            self.trail, self.maybes, self.assumptions = saved_trail, saved_maybes, saved_assumptions

    def lose(self, frame: Frame, node: ast.stmt, exc: TargetRaise) -> None:
        """A top-level statement seems to raise although the launch got past it: its names are unknown."""
        why = f"{frame.module.file}:{node.lineno} could not be evaluated ({exc.name}: {show(exc.message)})"
        self.note(why)
        for child in ast.walk(node):
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store) and child.id not in frame.module.ns:
                frame.module.ns[child.id] = Unknown(f"{frame.module.name}.{child.id}", why)
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            frame.module.ns.setdefault(node.name, Unknown(f"{frame.module.name}.{node.name}", why))

    def module_attribute(self, module: Module, name: str) -> Value:
        self.execute(module)
        value = module.ns.get(name, ABSENT)
        if type(value) is LazyImport:
            return self.resolve(value, module.ns, name)
        if type(value) is Maybe:
            return value.value
        if value is not ABSENT:
            return value
        if name == "__dict__":
            return module.ns
        if module.unreadable:
            return External(f"{module.name}.{name}")
        if module.is_package and self.program.find(f"{module.name}.{name}") is not None:
            return self.import_module(f"{module.name}.{name}")
        getter = module.ns.get("__getattr__")
        if getter is not None and not name.startswith("__"):
            return self.call(getter, [name])
        return ABSENT

    def resolve(self, lazy: LazyImport, home: dict[Value, Value], name: Value) -> Value:
        """The value of a name bound by `from m import n`; replaces the binding."""
        module = self.import_module(lazy.module)
        if isinstance(module, External):
            value: Value = self.external_attribute(module, lazy.name) if lazy.name else module
        else:
            value = self.module_attribute(module, lazy.name) if lazy.name else module
            if value is ABSENT:
                if isinstance(module, Module) and self.stack and self.stack[0].module is module:
                    return Unknown(f"{lazy.module}.{lazy.name}", "circular import")
                value = Unknown(f"{lazy.module}.{lazy.name}", f"{lazy.module} has no name {lazy.name}")
                if isinstance(module, Module) and module.is_package and lazy.name:
                    value = External(f"{lazy.module}.{lazy.name}")  # a module that the tree lacks
        home[name] = value
        return value

    def lookup(self, f: Frame, name: str) -> Value:
        """A name that is no local: enclosing functions, then the module, then builtins."""
        for scope in f.closure:
            value = scope.get(name, ABSENT)
            if value is not ABSENT:
                if type(value) is LazyImport:
                    return self.resolve(value, scope, name)
                return value.value if type(value) is Maybe else value
        value = f.module.ns.get(name, ABSENT)
        if value is ABSENT and name in self.builtins:
            return self.builtins[name]
        if type(value) is LazyImport:
            return self.resolve(value, f.module.ns, name)
        if type(value) is Maybe:
            return value.value
        if value is not ABSENT:
            return value
        if hasattr(builtins, name):
            kind = getattr(builtins, name)
            if isinstance(kind, type) and issubclass(kind, BaseException):
                return kind
            return Unknown(f"builtins.{name}", f"the builtin {name} is not evaluated")
        if name in _SCOPE_NAMES and f.class_annotations is not None:
            return f.qualname if name == "__qualname__" else f.module.name
        exc = TargetRaise(NameError, (f"name '{name}' is not defined",))
        exc.reads = frozenset(self.reads)
        raise exc

    def annotation_value(self, cls: Value, annotation: Value) -> Value:
        """Evaluate an annotation in the module that declares the class."""
        node = annotation
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                node = ast.parse(node.value, mode="eval").body
            except SyntaxError:
                return Unknown("?annotation", "the annotation cannot be parsed")
        if not isinstance(node, ast.expr):
            return annotation
        frame = Frame(cls.module, cls.name, {}, (cls.ns,))
        self.stack.append(frame)
        try:
            from triage.analysis.evaluate.expressions import compile_expression

            return compile_expression(node)(self, frame)
        except TargetRaise as exc:
            return Unknown("?annotation", f"the annotation cannot be evaluated: {show(exc.message)}")
        finally:
            self.stack.pop()

    def resolve_local(self, f: Frame, name: str, value: LazyImport) -> Value:
        """A name bound by an import inside the running function. The binding may lie in an open fork: it is journaled."""
        found: dict[str, Value] = {}
        result = self.resolve(value, found, name)
        self.heap.set(f.locals, name, result)
        return result


_SCOPE_NAMES = {"__qualname__", "__module__"}
__all__ = ["Imports", "Instance", "Program"]
