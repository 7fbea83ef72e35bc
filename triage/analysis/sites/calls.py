"""Calls: which functions they enter, with what, and what comes back.

A function is entered when it takes the args object (or a view, or a container of it), is a method of the args class, or is a
helper in a file of the validation code. Any other call is a named fact of what is known about its arguments.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from triage.analysis.conditions import MODEL_WORDS, dotted, environment_name
from triage.analysis.sites.expressions import Expressions
from triage.analysis.sites.frames import Frame, Node, Step
from triage.analysis.sites.index import ClassInfo, FunctionInfo, Index
from triage.analysis.sites.names import is_model_config
from triage.analysis.sites.registries import Member, find_members
from triage.analysis.sites.values import (
    ANY_FIELD,
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
    Record,
    Registry,
    Source,
    Thing,
    Val,
    container,
    element,
    holds_record,
    is_record,
    literals,
    named,
    opaque,
    plain,
    union,
)

MAX_NODES = 6_000  # functions walked, each set of arguments counted; a large release has some 700
MAX_DEPTH = 60  # calls inside one another
_COPIES = {"copy.copy", "copy.deepcopy", "dataclasses.replace", "deepcopy", "replace", "msgspec.structs.replace"}
_PASSING = {"list", "tuple", "set", "frozenset", "sorted", "reversed", "dict", "iter", "next", "enumerate", "zip", "filter"}
_ELEMENTS = {"get", "pop", "setdefault", "popitem", "popleft"}
_SILENT = {"logging.getLogger", "isinstance", "len", "str", "int", "float", "bool", "repr", "max", "min", "sum", "any", "all"}
_PLAIN = {"abs", "hash", "ord", "chr", "round", "range", "id", "map", "slice", "format", "divmod", "pow", "issubclass", "print"}
_OF_TYPES = {"isinstance", "issubclass", "is_dataclass", "type", "callable", "id", "fields"}

Key = tuple[FunctionInfo, tuple[tuple[str, Val], ...], Frame | None]


def is_expression(info: FunctionInfo) -> bool:
    """Whether a function only returns an expression."""
    if isinstance(info.node, ast.Lambda):
        return True
    body = [s for s in info.node.body if not isinstance(s, ast.Import | ast.ImportFrom)]
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    return len(body) == 1 and isinstance(body[0], ast.Return)


class Calls(Expressions):
    def __init__(self, index: Index, args_class: str, declares: Iterable[str]) -> None:
        super().__init__(index, args_class)
        self.declares = frozenset(declares)
        self.nodes: dict[Key, Node] = {}
        self.files: set[str] = {self.args_file} if self.args_file else set()  # where functions that take the args object raise
        self.depth = 0
        self.quiet = 0  # above 0: values are asked again, and what is called was noted before
        self.lost: list[tuple[str, int, str]] = []  # calls that take the args object and were not resolved
        self.handed: list[tuple[frozenset[str], Node, Func]] = []
        self.members: dict[Registry, tuple[Member, ...]] = {}

    # ------------------------------------------------------------ the call expression
    def called(self, node: ast.expr, f: Frame) -> Val:
        assert isinstance(node, ast.Call)
        variable = environment_name(node)
        if variable is not None:
            return named("environment", variable)
        func = node.func
        target = self.value(func, f)
        args: list[Val] = []
        rest: list[Val] = []
        for a in node.args:
            value = self.value(a, f)
            if isinstance(a, ast.Starred):
                rest.append(value)
            else:
                args.append(value)
        named_args: dict[str, Val] = {}
        for k in node.keywords:
            if k.arg is None:
                rest.append(element(self.value(k.value, f)))
            else:
                named_args[k.arg] = self.value(k.value, f)
        if Ext("getattr") in target.things or Ext("hasattr") in target.things or Ext("object.__getattribute__") in target.things:
            return self.read_by_name(node, args, f)
        if Ext("setattr") in target.things or Ext("object.__setattr__") in target.things:
            if len(args) == 3 and is_record(args[0]):
                for name in literals(args[1]):
                    self.write(name, args[2])
            return NOTHING
        made = self.apply(target, args, named_args, rest, f, self.written_name(func))
        path = dotted(node)
        if path is not None and any(f"get_{w}" in path or f"{w}_of" in path for w in MODEL_WORDS):
            made = Val(made.reads | {Source("model", path)}, made.things, "" if not target.why else made.why)
        return made

    @staticmethod
    def written_name(func: ast.expr) -> str:
        path = dotted(func)
        return path if path is not None else func.attr if isinstance(func, ast.Attribute) else "a call"

    def read_by_name(self, node: ast.Call, args: list[Val], f: Frame) -> Val:
        """`getattr(x, "name", default)`."""
        if len(args) < 2:
            return union(args)
        base, name, *default = args
        names = literals(name)
        if is_record(base):
            if not names:
                return union([*default, Val(name.reads | {Source(ANY_FIELD, "")}, frozenset(), name.why)])
            return union([*(self.record_attribute(n, f) for n in names), *default])
        parts = [plain(base), plain(name), *default]
        path = dotted(node.args[0]) or ""
        for n in names:
            parts.append(self.attribute_of(base, n, f))
            if n in MODEL_WORDS or any(w in path.split(".") for w in MODEL_WORDS):
                parts.append(named("model", f"{path}.{n}" if path else n))
        return union(parts)

    def apply(self, target: Val, args: list[Val], named_args: dict[str, Val], rest: list[Val], f: Frame, name: str) -> Val:
        """What calling a value gives."""
        given = union([plain(v) for v in (*args, *named_args.values(), *rest)])
        own = {Source("constant", t.name) for t in target.things if isinstance(t, Imported)}
        target = Val(target.reads - own, target.things, target.why) if own else target
        out: list[Val] = []
        for thing in sorted(target.things, key=lambda t: type(t).__name__):
            out.append(self.apply_thing(thing, target, args, named_args, rest, given, f, name))
        if not out:
            self.hand_on(target, [*args, *named_args.values()], given, f)
            if any(is_record(v) for v in (*args, *named_args.values())) and f.statement is not None:
                self.lost.append((f.module.file, f.statement.lineno, name))
                return Val(
                    target.reads | given.reads, frozenset(), f"`{name}` takes the args object, and its source was not found"
                )
            if target.why:
                return Val(target.reads | given.reads, frozenset(), target.why)
            method = named("fact", f"{name}()") if not target.reads else NOTHING
            return union([plain(target), given, method])
        return union([plain(target), *out])

    def apply_thing(
        self,
        thing: Thing,
        target: Val,
        args: list[Val],
        named_args: dict[str, Val],
        rest: list[Val],
        given: Val,
        f: Frame,
        name: str,
    ) -> Val:
        has_record = any(holds_record(v) for v in (*args, *named_args.values(), *rest))
        if isinstance(thing, Imported):
            if not (has_record or thing.file in self.files):
                base = self.unentered(thing, name, given)
                inner = self.substituted(thing, args, named_args, rest, f) if "." not in thing.name else NOTHING
                return base if inner.why else Val(base.reads | inner.reads, base.things, base.why)
            return self.apply(self.resolve(thing, f), args, named_args, rest, f, name)
        if isinstance(thing, Made):
            if not has_record:
                return given
            made = self.made(thing, plain(target), f)
            return self.apply(made, args, named_args, rest, f, name)
        if isinstance(thing, Func):
            full = [thing.bound, *args] if thing.bound is not None else args
            if not self.enters(thing.info, [*full, *named_args.values(), *rest]) and thing.closure is None:
                return self.unentered(thing, name, given)
            made = self.invoke(thing.info, full, named_args, f, union(rest) if rest else NOTHING, thing.closure, bool(rest))
            return named("fact", f"{name}()", given) if made.why and not given.why and not has_record else made
        if isinstance(thing, Cls):
            return self.construct(thing.info, args, named_args, rest, given, has_record, f)
        if isinstance(thing, Registry):
            return self.dispatch(thing, args, named_args, given, f)
        if isinstance(thing, Method):
            own = Val(things=frozenset({thing.of}))
            return union([element(own) if thing.name in _ELEMENTS else own, given, *(args[1:2] if thing.name == "get" else [])])
        if isinstance(thing, Ext):
            return self.outside(thing.name, args, named_args, given, f)
        return given

    def substituted(self, thing: Imported, args: list[Val], named_args: dict[str, Val], rest: list[Val], f: Frame) -> Val:
        """What a predicate reads that is one expression."""
        out: list[Val] = []
        for one in self.resolve(thing, f).things:
            if isinstance(one, Func) and is_expression(one.info):
                spread = union(rest) if rest else NOTHING
                out.append(plain(self.invoke(one.info, args, named_args, f, spread, None, bool(rest))))
        return union(out)

    @staticmethod
    def unentered(thing: Func | Imported, name: str, given: Val) -> Val:
        made = named("fact", f"{name}()", given)
        return Val(made.reads, frozenset({Made(thing)}), made.why)

    def made(self, thing: Made, known: Val, f: Frame) -> Val:
        """What a function that was not entered gave: an object of the class that its annotation, or its body, names."""
        by = self.resolve(thing.by, f) if isinstance(thing.by, Imported) else Val(things=frozenset({thing.by}))
        out: list[Val] = []
        for one in by.things:
            if isinstance(one, Cls):
                out.append(Val(known.reads, frozenset({Inst(one.info)}), known.why))
            if not isinstance(one, Func) or isinstance(one.info.node, ast.Lambda):
                continue
            inner = Frame(Node(one.info), one.info.module, {})
            note = one.info.node.returns
            names = [n for n in ast.walk(note) if isinstance(n, ast.Name)] if note is not None else []
            if isinstance(note, ast.Constant) and isinstance(note.value, str) and note.value.isidentifier():
                names = [ast.Name(note.value, ast.Load())]
            for found in [self.solid(self.name(n, inner)) for n in names]:
                out += [Val(known.reads, frozenset({Inst(t.info)}), known.why) for t in found.things if isinstance(t, Cls)]
        whole = union(out)
        for name in filter(None, thing.attribute.split(".")):
            whole = self.attribute_of(whole, name, f)
        return whole

    def enters(self, info: FunctionInfo, values: list[Val]) -> bool:
        inside = info.module.file in self.files or info.owner is self.args_class is not None
        return inside or any(holds_record(v) for v in values)

    def construct(
        self,
        info: ClassInfo,
        args: list[Val],
        named_args: dict[str, Val],
        rest: list[Val],
        given: Val,
        has_record: bool,
        f: Frame,
    ) -> Val:
        own = info is self.args_class
        wraps = has_record and self.member(info, "__getattr__", NOTHING, f) is not None
        made = RECORD if own or wraps else Val(given.reads, frozenset({Inst(info)}), given.why)
        if is_model_config(info) and not given.why:
            made = Val(frozenset({Source("model", info.name)}), made.things)  # it tells of the model, whatever it was made from
        for name in ("__init__", "__post_init__"):
            method = info.members.get(name)
            if isinstance(method, FunctionInfo) and (own or has_record or info.module.file in self.files):
                passed = args if name == "__init__" else []
                by_name = named_args if name == "__init__" else {}
                self.invoke(method, [made, *passed], by_name, f, union(rest) if rest else NOTHING, None, bool(rest))
        return made

    def outside(self, name: str, args: list[Val], named_args: dict[str, Val], given: Val, f: Frame) -> Val:
        """A call of something outside the package, a builtin included. Functions that it gets may be called back."""
        every = [*args, *named_args.values()]
        if name == "type" and len(args) == 1 and is_record(args[0]) and self.args_class is not None:
            return Val(things=frozenset({Cls(self.args_class)}))
        if name == f"{RECORD_DICT}.get" and args:
            return union([*(self.record_attribute(n, f) for n in literals(args[0])), *args[1:]])
        if name in _COPIES and args and is_record(args[0]):
            return RECORD
        if name in ("functools.partial", "partial") and args:
            return Val(given.reads, args[0].things, given.why)
        for value in every:
            for thing in value.things:
                if isinstance(thing, Func) and (thing.closure is not None or self.enters(thing.info, [thing.bound or NOTHING])):
                    full = [thing.bound] if thing.bound is not None else []
                    self.invoke(thing.info, full, {}, f, element(union(args)) if args else NOTHING, thing.closure, True)
        if name in _PASSING:
            args = [self.solid(a) for a in args]
            things = [t for v in args for t in v.things if isinstance(t, Coll | Registry)]
            if name in ("zip", "enumerate"):
                inner = [*([NOTHING] if name == "enumerate" else []), *(element(v) for v in args)]
                return Val(given.reads, container([Val(things=container(inner))], False), given.why)
            if name == "next" and args:
                return union([given, element(args[0])])
            keep = frozenset(
                Coll(t.items, t.exact and name in ("list", "tuple"), t.size) if isinstance(t, Coll) else t for t in things
            )
            return Val(given.reads, keep, given.why)
        if name.rpartition(".")[2] in _OF_TYPES and any(isinstance(t, Record | Cls) for v in args[:1] for t in v.things):
            return given  # the source alone decides what class it is of
        if any(is_record(v) for v in every):
            return union([given, Val(frozenset({Source(ANY_FIELD, ""), Source("fact", f"{name}()")}))])
        if name in _SILENT or (name in _PLAIN and given.reads):
            return given
        return union([given, named("fact", f"{name}()")])

    def hand_on(self, target: Val, every: list[Val], given: Val, f: Frame) -> None:
        """Functions and classes with `__call__` that an object from outside is given may be called by its later methods."""
        key = frozenset(s.name for s in target.reads if s.kind == "fact")
        for value in every:
            for thing in value.things:
                info = thing.info if isinstance(thing, Func) else None
                if isinstance(thing, Cls):
                    method = thing.info.members.get("__call__")
                    info = method if isinstance(method, FunctionInfo) else None
                if info is not None and info.module.file in self.files:
                    own = Val(given.reads, frozenset({Inst(thing.info)})) if isinstance(thing, Cls) else None
                    self.handed.append((key, f.node, Func(info, own)))
        known = union([given, plain(target)])
        for names, node, func in self.handed:
            if node is not f.node and names & key:
                self.invoke(func.info, [func.bound] if func.bound is not None else [], {}, f, known, func.closure, True)

    # ------------------------------------------------------------ registries
    def dispatch(self, registry: Registry, args: list[Val], named_args: dict[str, Val], given: Val, f: Frame) -> Val:
        """A call of an element of a container that decorators fill: each function that they were put on."""
        if registry not in self.members:
            self.members[registry] = find_members(self.index, registry.file, registry.name)
        out = [given, named("constant", registry.name)]
        for member in self.members[registry]:
            before = f.path
            f.path = Step(before, member.guard, ((member.part, named("constant", registry.name)),))
            out.append(self.invoke(member.info, args, named_args, f))
            f.path = before
        return union(out)

    # ------------------------------------------------------------ entering a function
    def invoke(
        self,
        info: FunctionInfo,
        args: list[Val],
        named_args: dict[str, Val],
        f: Frame,
        rest: Val = NOTHING,
        closure: object = None,
        has_rest: bool = False,
    ) -> Val:
        if info.name.rpartition(".")[2] in self.declares:
            for name, value in named_args.items():
                self.write(name, value)
            args, named_args, rest = [RECORD], {}, NOTHING  # what is decided does not change what the function does
            has_rest = True
        bound = self.parameters(info, args, named_args, rest, has_rest, f)
        parent = closure if isinstance(closure, Frame) else None
        key: Key = (info, tuple(bound.items()), parent)
        node = self.nodes.get(key)
        if node is None:
            if len(self.nodes) >= MAX_NODES or self.depth >= MAX_DEPTH:
                return Val(union(bound.values()).reads, frozenset(), "the calls to it are too many or too deep")
            node = self.nodes[key] = Node(info)
            self.depth += 1
            try:
                self.enter(node, bound, parent)
            except RecursionError:
                node.result = opaque("its source is nested too deeply")
            finally:
                self.depth -= 1
        if not self.quiet and f.statement is not None and not any(c is node and s is f.statement for c, s, _ in f.node.calls):
            f.node.calls.append((node, f.statement, f.path))
        if node.result is None:
            return plain(union(bound.values()))  # it is being walked: a recursion
        return node.result

    def parameters(
        self, info: FunctionInfo, args: list[Val], named_args: dict[str, Val], rest: Val, has_rest: bool, f: Frame
    ) -> dict[str, Val]:
        a = info.node.args
        order = [*a.posonlyargs, *a.args]
        out: dict[str, Val] = {}
        for p, v in zip(order, args, strict=False):
            out[p.arg] = v
        if a.vararg:
            extra = args[len(order) :]
            out[a.vararg.arg] = Val(union([plain(v) for v in (*extra, rest)]).reads, container(extra))
        known = {p.arg for p in (*order, *a.kwonlyargs)}
        spare = [v for k, v in named_args.items() if k not in known]
        out.update({k: v for k, v in named_args.items() if k in known})
        if a.kwarg:
            out[a.kwarg.arg] = Val(union([plain(v) for v in (*spare, rest)]).reads, container(spare, False))
        defaults = dict(zip([p.arg for p in order[len(order) - len(a.defaults) :]], a.defaults, strict=True))
        defaults.update({p.arg: d for p, d in zip(a.kwonlyargs, a.kw_defaults, strict=True) if d is not None})
        for p in (*order, *a.kwonlyargs):
            if p.arg in out:
                continue
            made = [rest] if has_rest else []
            if p.arg in defaults:
                inner = Frame(Node(info), info.module, {}, None)
                made.append(self.value(defaults[p.arg], inner))
            out[p.arg] = union(made) if made else opaque(f"nothing was found that gives `{p.arg}` of {info.name}")
        return out

    def enter(self, node: Node, bound: dict[str, Val], parent: Frame | None) -> None:
        raise NotImplementedError
