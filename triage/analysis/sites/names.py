"""Names and attributes -> what they stand for: locals, constants of modules, members of classes, settings of the args object."""

from __future__ import annotations

import ast
import builtins

from triage.analysis.conditions import MODEL_WORDS, dotted
from triage.analysis.reading import Module
from triage.analysis.sites.frames import PLACE, Frame, Node
from triage.analysis.sites.index import ClassInfo, FunctionInfo, Import, Index, ModuleIndex, Symbol
from triage.analysis.sites.values import (
    ATTRIBUTE,
    NOTHING,
    RECORD,
    RECORD_DICT,
    Cls,
    Coll,
    Ext,
    Func,
    Imported,
    Inst,
    Made,
    Method,
    Mod,
    Record,
    Registry,
    Source,
    Val,
    element,
    is_empty_display,
    is_record,
    literals,
    named,
    opaque,
    plain,
    union,
)

_BUILTINS = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__"}
_MAX_LISTED = 300  # characters of a named list that are shown
_NO_MODULE = Module("", (), ast.Module([], []))


def is_model_config(info: ClassInfo) -> bool:
    """Whether objects of a class tell of the model, by the name of the class."""
    return info.name.lower().endswith("modelconfig")


class Names:
    """What one walk knows of the package's names; expressions are left to `value`, calls to `invoke`."""

    def __init__(self, index: Index, args_class: str) -> None:
        self.index = index
        module, _, self.args_name = args_class.rpartition(".")
        self.args_file = index.module_file(module)
        self.writes: dict[str, list[Val]] = {}  # the args object's own bookkeeping -> what is assigned to it
        self.constants: dict[tuple[str, str], Val] = {}
        found = index.find(self.args_file, self.args_name) if self.args_file else None
        self.args_class: ClassInfo | None = None
        if isinstance(found, tuple) and isinstance(found[1], ClassInfo):  # perhaps in a file that the module imports it from
            self.args_file, self.args_class = found[0].file, found[1]

    # ------------------------------------------------------------ names
    def name(self, node: ast.expr, f: Frame) -> Val:
        assert isinstance(node, ast.Name)
        found = f.find(node.id)
        if found is not None:
            return found
        return self.global_name(f.module, node.id)

    def global_name(self, module: ModuleIndex, name: str) -> Val:
        symbol = module.symbols.get(name)
        if symbol is None and not module.stars:
            if name in _BUILTINS:
                return Val(things=frozenset({Ext(name)}))
            return opaque(f"`{name}` is not bound on every way, or by nothing that was read")
        if isinstance(symbol, Import):
            return self.imported(symbol)
        found = self.index.find(module.file, name) if symbol is None else (module, symbol)
        if found is None:
            return Val(things=frozenset({Ext(name)})) if name in _BUILTINS else opaque(f"`{name}` is not bound by what was read")
        return self.defined(found, name)

    def imported(self, symbol: Import) -> Val:
        """A name that an import binds; the module that defines it is read only where that is needed."""
        if symbol.attr is None:
            file = self.index.module_file(symbol.module)
            return Val(things=frozenset({Mod(file) if file else Ext(symbol.module)}))
        whole = self.index.module_file(f"{symbol.module}.{symbol.attr}")
        if whole is not None:
            return Val(things=frozenset({Mod(whole)}))
        file = self.index.module_file(symbol.module)
        return Val(things=frozenset({Imported(file, symbol.attr) if file else Ext(f"{symbol.module}.{symbol.attr}")}))

    def resolve(self, thing: Imported, f: Frame) -> Val:
        head, *rest = thing.name.split(".")
        found = self.index.find(thing.file, head)
        made = named("constant", head) if found is None else self.defined(found, head)
        for name in rest:
            made = self.attribute_of(made, name, f)
        return made

    def solid(self, value: Val) -> Val:
        """A value with the constants of other modules looked up that it may be."""
        names = [t for t in value.things if isinstance(t, Imported) and "." not in t.name]
        if not names:
            return value
        f = Frame(Node(FunctionInfo(ModuleIndex("", _NO_MODULE), PLACE, "")), ModuleIndex("", _NO_MODULE), {})
        rest = frozenset(t for t in value.things if t not in names)
        return union([Val(value.reads, rest, value.why), *(self.resolve(t, f) for t in names)])

    def defined(self, found: tuple[ModuleIndex, Symbol] | str, name: str) -> Val:
        """The value of what a name was found to mean."""
        if isinstance(found, str):
            file = self.index.module_file(found)
            return Val(things=frozenset({Mod(file) if file else Ext(found)}))
        module, symbol = found
        if isinstance(symbol, FunctionInfo):
            return Val(things=frozenset({Func(symbol)}))
        if isinstance(symbol, ClassInfo):
            return Val(things=frozenset({Cls(symbol)}))
        if isinstance(symbol, ast.Assign | ast.AnnAssign):
            known = module.classes.get(name)
            if known is not None:
                return Val(things=frozenset({Cls(known)}))
            return self.global_value(module, name, symbol)
        return named("constant", name)

    def global_value(self, module: ModuleIndex, name: str, node: ast.Assign | ast.AnnAssign) -> Val:
        """A constant of a module: what its expression reads, under its own name and with its text."""
        key = (module.file, name)
        if key not in self.constants:
            self.constants[key] = named("constant", name)  # while it is being evaluated
            inner = Frame(Node(FunctionInfo(module, PLACE, "<module>")), module, {})
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if node.value is None:
                made = NOTHING
            elif is_empty_display(node.value):
                made = Val(things=frozenset({Registry(module.file, name)}))
            else:
                self.bind(target, self.value(node.value, inner), inner)
                made = inner.locals.get(name, NOTHING)
            text = ast.unparse(node.value) if node.value is not None else ""
            own = Source("constant", name, text if len(text) <= _MAX_LISTED else text[: _MAX_LISTED - 4] + " ...")
            self.constants[key] = Val(made.reads | {own}, made.things, made.why)
        return self.constants[key]

    # ------------------------------------------------------------ attributes
    def attribute(self, node: ast.expr, f: Frame) -> Val:
        assert isinstance(node, ast.Attribute)
        base = self.value(node.value, f)
        made = self.attribute_of(base, node.attr, f)
        path = dotted(node)
        if path is None or is_record(base):
            return made
        if any(w in path.split(".") for w in MODEL_WORDS):
            return Val(made.reads | {Source("model", path)}, made.things, made.why)
        if path.startswith(("self.", "cls.")) or "()" not in path or not all(isinstance(t, Made) for t in base.things):
            return made
        return Val(made.reads | {Source("fact", path)}, made.things, made.why)  # of what a call gave

    def attribute_of(self, base: Val, name: str, f: Frame) -> Val:
        of_model = any(isinstance(t, Inst) and is_model_config(t.info) for t in base.things)
        parts = [] if of_model else [plain(base)]  # the model is what it is, however its object was come by
        for thing in base.things:
            if isinstance(thing, Imported):
                dotted_name = f"{thing.name}.{name}"
                parts.append(Val(frozenset({Source("constant", dotted_name)}), frozenset({Imported(thing.file, dotted_name)})))
            elif isinstance(thing, Made):
                parts.append(Val(things=frozenset({Made(thing.by, f"{thing.attribute}.{name}".lstrip("."))})))
            elif isinstance(thing, Record):
                parts.append(self.record_attribute(name, f))
            elif isinstance(thing, Mod):
                parts.append(self.module_attribute(thing.file, name))
            elif isinstance(thing, Cls):
                parts.append(self.member(thing.info, name, base, f) or named("constant", f"{thing.info.name}.{name}"))
            elif isinstance(thing, Inst):
                kind = "model" if is_model_config(thing.info) else "fact"
                found = self.member(thing.info, name, Val(base.reads, frozenset({thing}), base.why), f)
                parts.append(found if found is not None else named(kind, f"{thing.info.name}.{name}"))
            elif isinstance(thing, Ext):
                parts.append(Val(things=frozenset({Ext(f"{thing.name}.{name}")})))
            elif isinstance(thing, Coll | Registry):
                parts.append(Val(things=frozenset({Method(thing, name)})))
        return union(parts)

    def module_attribute(self, file: str, name: str) -> Val:
        found = self.index.find(file, name)
        if found is not None:
            return self.defined(found, name)
        folder = file.rpartition("/")[0].replace("/", ".")
        below = self.index.module_file(f"{folder}.{name}") if file.endswith("/__init__.py") else None
        return Val(things=frozenset({Mod(below)})) if below else named("constant", name)

    def record_attribute(self, name: str, f: Frame) -> Val:
        """A setting, a property or method of the args class, or its bookkeeping."""
        if name.strip("_") == "server_args":
            return RECORD
        if name == "__dict__":
            return Val(things=frozenset({Ext(RECORD_DICT)}))
        found = self.member(self.args_class, name, RECORD, f) if self.args_class is not None else None
        if found is not None:
            return found
        if name in MODEL_WORDS:
            return named("model", name)
        if name.startswith("_"):
            return named(ATTRIBUTE, name)
        return named("setting", name)

    def member(self, cls: ClassInfo | None, name: str, owner: Val, f: Frame, depth: int = 6) -> Val | None:
        """A method, property or constant of a class or its bases; None for a field, or where there is none."""
        symbol = cls.members.get(name) if cls is not None else None
        if isinstance(symbol, FunctionInfo):
            if symbol.has_decorator("property", "cached_property"):
                return self.invoke(symbol, [owner], {}, f, owner)
            if symbol.has_decorator("staticmethod"):
                return Val(things=frozenset({Func(symbol)}))
            if symbol.has_decorator("classmethod"):
                return Val(things=frozenset({Func(symbol, Val(things=frozenset({Cls(cls)})))})) if cls is not None else None
            bound = None if any(isinstance(t, Cls) for t in owner.things) else owner
            return Val(things=frozenset({Func(symbol, bound)}))
        if isinstance(symbol, ClassInfo):
            return Val(things=frozenset({Cls(symbol)}))
        if isinstance(symbol, ast.Assign) and cls is not None:
            inner = Frame(Node(FunctionInfo(cls.module, PLACE, cls.name)), cls.module, {})
            for n in ast.walk(symbol.value) if depth > 0 else ():
                if isinstance(n, ast.Name) and n.id != name and n.id in cls.members and n.id not in inner.locals:
                    inner.locals[n.id] = self.member(cls, n.id, owner, f, depth - 1) or named("constant", f"{cls.name}.{n.id}")
            made = self.value(symbol.value, inner)
            text = ast.unparse(symbol.value)
            return Val(made.reads | {Source("constant", f"{cls.name}.{name}", text[:_MAX_LISTED])}, made.things, made.why)
        if symbol is not None or cls is None or depth <= 0:
            return None
        for base in cls.node.bases:
            inner = Frame(Node(FunctionInfo(cls.module, PLACE, cls.name)), cls.module, {})
            for thing in self.value(base, inner).things:
                target = self.resolve(thing, f) if isinstance(thing, Imported) else Val(things=frozenset({thing}))
                for one in target.things:
                    found = self.member(one.info, name, owner, f, depth - 1) if isinstance(one, Cls) else None
                    if found is not None:
                        return found
        return None

    # ------------------------------------------------------------ binding
    def bind(self, target: ast.expr, value: Val, f: Frame) -> None:
        """Assign to a name, an unpacked tuple, or an attribute of the args object."""
        if isinstance(target, ast.Name):
            f.locals[target.id] = value
        elif isinstance(target, ast.Starred):
            self.bind(target.value, value, f)
        elif isinstance(target, ast.Tuple | ast.List):
            for i, t in enumerate(target.elts):
                self.bind(t, element(value, i), f)
        elif isinstance(target, ast.Attribute):
            base = self.value(target.value, f)
            if is_record(base):
                self.write(target.attr, value)
            else:
                self.widen(target.value, value, f)
        elif isinstance(target, ast.Subscript):
            if Ext(RECORD_DICT) in self.value(target.value, f).things:
                for name in literals(self.value(target.slice, f)):
                    self.write(name, value)
            self.widen(target.value, value, f)

    def write(self, name: str, value: Val) -> None:
        if name.startswith("_"):
            self.writes.setdefault(name, []).append(plain(value))

    def widen(self, node: ast.expr, value: Val, f: Frame) -> None:
        """Something was put into what a local names: it now depends on that as well."""
        if isinstance(node, ast.Name) and node.id in f.locals:
            before = f.locals[node.id]
            if not is_record(before):
                f.locals[node.id] = union([before, plain(value)])

    # ------------------------------------------------------------ what the later layers add
    def value(self, node: ast.expr, f: Frame) -> Val:
        raise NotImplementedError

    def invoke(self, info: FunctionInfo, args: list[Val], named_args: dict[str, Val], f: Frame, owner: Val = NOTHING) -> Val:
        raise NotImplementedError
