"""What a test reads: split into atoms, each read classified as setting, environment, fact, model config, local, ...

A Scope holds what one function says about its names: which are the args object, which local comes from which
expression. Without a scope, names that are the args object by custom are still recognised.
"""

from __future__ import annotations

import ast
import builtins
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from triage.analysis.flow import one_line
from triage.analysis.source import FunctionNode, called_name, function_chain, isolate_function, parse_text
from triage.model import Atom, AtomKind, Read, ReadKind

ARGS_NAMES = frozenset({"server_args", "args"})  # what functions call the args object where no annotation says more
_VIEW_WORDS = ("view", "server_args", "serverargs", "resolv")  # in names of views and helpers that wrap the args object
_VIEW_NAMES = frozenset({"cfg", "view"})  # parameters that are views by custom
_ENV_READERS = ("environ.get", "getenv", "get_bool_env_var", "get_int_env_var", "get_float_env_var", "get_str_env_var")
MODEL_WORDS = ("model_config", "hf_config", "hf_text_config", "hf_transformers_config", "text_config")
_MAX_TRACE = 8  # locals followed from one condition
_BUILTINS = frozenset(dir(builtins))

_OPERATORS: Mapping[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}


@dataclass(frozen=True, eq=False)
class Scope:
    """What a function says about names up to one line of it."""

    args_names: frozenset[str] = ARGS_NAMES
    parameters: frozenset[str] = frozenset()
    values: Mapping[str, tuple[ast.expr, ...]] = field(default_factory=dict)  # local -> what it was bound to, or taken from
    unknown: frozenset[str] = frozenset()  # locals bound by something else (an exception, an import of a module)


def read_scope(source: str, line: int, args_class: str = "ServerArgs") -> Scope:
    """The scope of the function around `line` in the text of a whole file; an empty one at module level."""
    tree = parse_text(source)
    if tree is None:
        alone = isolate_function(source, line)
        tree = parse_text(alone) if alone is not None else None
    chain = function_chain(tree, line) if tree is not None else []
    functions = [n for n in chain if isinstance(n, FunctionNode)]
    args: set[str] = set()
    parameters: set[str] = set()
    values: dict[str, tuple[ast.expr, ...]] = {}
    unknown: set[str] = set()
    for node in functions:
        owner = chain[chain.index(node) - 1] if chain.index(node) else None
        in_class = isinstance(owner, ast.ClassDef) and owner.name == args_class.rpartition(".")[2]
        a = node.args
        every = [*a.posonlyargs, *a.args, *([a.vararg] if a.vararg else []), *a.kwonlyargs, *([a.kwarg] if a.kwarg else [])]
        for i, p in enumerate(every):
            note = ast.unparse(p.annotation).lower() if p.annotation is not None else ""
            typed = args_class.rpartition(".")[2].lower() in note or "view" in note
            custom = p.arg in ARGS_NAMES or (p.arg in _VIEW_NAMES and not note)
            if typed or custom or (i == 0 and p.arg == "self" and in_class):
                args.add(p.arg)
            else:
                parameters.add(p.arg)
        for name, value in _bindings(node, line):
            if value is None:
                unknown.add(name)
            elif _is_args(value, args):
                args.add(name)
            else:
                values[name] = (*values.get(name, ()), value)
    return Scope(frozenset(args), frozenset(parameters), values, frozenset(unknown))


def _is_args(node: ast.expr, args: set[str] | frozenset[str]) -> bool:
    """Whether an expression is the args object or a view of it."""
    if isinstance(node, ast.Name):
        return node.id in args
    if isinstance(node, ast.Attribute):
        return node.attr == "server_args"
    if isinstance(node, ast.Call) and node.args:
        name = (called_name(node) or "").lower()
        return any(w in name for w in _VIEW_WORDS) and _is_args(node.args[0], args)
    return False


def _bindings(function: ast.AST, line: int) -> Iterator[tuple[str, ast.expr | None]]:
    """Names bound before `line` in a function, in source order, with what they are bound to or taken from."""
    found: list[tuple[int, str, ast.expr | None]] = []
    todo = list(ast.iter_child_nodes(function))
    while todo:
        node = todo.pop()
        if getattr(node, "lineno", 0) > line:
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        todo += ast.iter_child_nodes(node)
        pairs: list[tuple[ast.expr, ast.expr | None]] = []
        if isinstance(node, ast.Assign):
            pairs = [(t, node.value) for t in node.targets]
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and node.value is not None:
            pairs = [(node.target, node.value)]
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            pairs = [(node.target, node.iter)]
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            pairs = [(node.optional_vars, node.context_expr)]
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found.append((node.lineno, node.name, None))
        for target, value in pairs:
            found += [(target.lineno, name, v) for name, v in _spread(target, value)]
    return ((name, value) for _, name, value in sorted(found, key=lambda f: f[0]))


def _spread(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Starred):
        yield from _spread(target.value, value)
    elif isinstance(target, ast.Tuple | ast.List):
        parts = value.elts if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts) else None
        for i, t in enumerate(target.elts):
            yield from _spread(t, parts[i] if parts else value)


# ---------------------------------------------------------------- atoms
def parse_test(test_source: str) -> ast.expr | None:
    """The expression of a test's text; None where it is not an expression (`except X`, `with y`)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(f"({test_source}\n)", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def atoms(test_source: str, scope: Scope | None = None) -> tuple[Atom, ...]:
    """The atoms of a test in source order; one opaque atom for a text that is not an expression."""
    node = parse_test(test_source)
    if node is None:
        return (Atom(test_source, "opaque", why="it is not an expression"),)
    try:
        return tuple(_atoms(node, True, scope or Scope(ARGS_NAMES | {"self", "cfg"}), tuple(f"({test_source}\n)".split("\n"))))
    except RecursionError:
        return (Atom(test_source, "opaque", why="it is nested too deeply"),)


def _atoms(node: ast.expr, holds: bool, scope: Scope, lines: tuple[str, ...]) -> Iterator[Atom]:
    for part in split_test(node, holds, lines):
        reader = _Reader(scope, lines)
        for one in part.nodes:
            reader.read(one, ())
        yield part.atom(tuple(dict.fromkeys(reader.reads)), reader.why)


class Part(NamedTuple):
    """A test without and/or/not: the atom's text and form, and the expressions that it reads."""

    text: str
    kind: AtomKind
    holds: bool
    nodes: tuple[ast.expr, ...]
    operator: str = ""
    operands: tuple[str, ...] = ()

    def atom(self, reads: tuple[Read, ...], why: str) -> Atom:
        return Atom(self.text, "opaque" if why else self.kind, self.holds, reads, self.operator, self.operands, why)


def split_test(node: ast.expr, holds: bool, lines: Sequence[str]) -> Iterator[Part]:
    """The parts of a test in source order; `lines` are those that its columns count in."""
    if isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from split_test(value, holds, lines)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield from split_test(node.operand, not holds, lines)
    elif isinstance(node, ast.IfExp):
        for value in (node.test, node.body, node.orelse):
            yield from split_test(value, holds, lines)
    elif isinstance(node, ast.Compare):
        left = node.left
        for op, right in zip(node.ops, node.comparators, strict=True):
            operator = _OPERATORS[type(op)]
            kind: AtomKind = "membership" if operator in ("in", "not in") else "compare"
            sides = (one_line(lines, left), one_line(lines, right))
            text = one_line(lines, node) if len(node.ops) == 1 else f"{sides[0]} {operator} {sides[1]}"
            yield Part(text, kind, holds, (left, right), operator, sides)
            left = right
    else:
        yield Part(one_line(lines, node), _kind(node), holds, (node,))


def _kind(node: ast.expr) -> AtomKind:
    if isinstance(node, ast.NamedExpr):
        return _kind(node.value)
    if not isinstance(node, ast.Call):
        return "truth"
    name = called_name(node)
    if name == "isinstance":
        return "isinstance"
    if name in ("any", "all"):
        return "quantifier"
    return "truth" if name in ("getattr", "bool") else "call"


class _Reader:
    def __init__(self, scope: Scope, lines: tuple[str, ...]) -> None:
        self.scope = scope
        self.lines = lines
        self.reads: list[Read] = []
        self.why = ""

    def add(self, kind: str, name: str, node: ast.expr, through: tuple[str, ...]) -> None:
        text = one_line(self.lines, node) if not through else ast.unparse(node)
        self.reads.append(Read(cast(ReadKind, kind), name, text, through))

    def opaque(self, why: str) -> None:
        self.why = self.why or why

    def read(self, node: ast.AST, through: tuple[str, ...], bound: frozenset[str] = frozenset()) -> None:
        """Collect the reads of an expression; `bound` are the names of comprehensions around it."""
        if isinstance(node, ast.Constant):
            self.add("literal", repr(node.value), node, through)
        elif isinstance(node, ast.Name):
            self.name(node, through, bound)
        elif isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
            self.primary(node, through, bound)
        elif isinstance(node, ast.Lambda):
            self.read(node.body, through, bound | {a.arg for a in node.args.args})
        elif isinstance(node, ast.GeneratorExp | ast.ListComp | ast.SetComp | ast.DictComp):
            for g in node.generators:
                self.read(g.iter, through, bound)
                bound = bound | {n.id for n in ast.walk(g.target) if isinstance(n, ast.Name)}
                for test in g.ifs:
                    self.read(test, through, bound)
            for made in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
                self.read(made, through, bound)
        elif isinstance(node, ast.Await | ast.Yield | ast.YieldFrom):
            self.opaque("its value comes from other code at run time")
        elif isinstance(node, ast.NamedExpr):
            self.read(node.value, through, bound)
        else:
            for child in ast.iter_child_nodes(node):
                self.read(child, through, bound)

    def name(self, node: ast.Name, through: tuple[str, ...], bound: frozenset[str]) -> None:
        name, scope = node.id, self.scope
        if name in bound:
            return
        if name in scope.values and name not in through:
            if len(through) >= _MAX_TRACE:
                self.opaque(f"`{name}` comes through too many locals")
                return
            self.add("local", name, node, through)
            for value in scope.values[name]:
                self.read(value, (*through, name))
        elif name in through:
            return
        elif name in scope.args_names:
            self.add("fact", name, node, through)
        elif name in scope.parameters:
            self.add("parameter", name, node, through)
        elif name in scope.unknown:
            self.add("local", name, node, through)
            self.opaque(f"`{name}` is bound to something that is known only at run time")
        elif name not in _BUILTINS:
            self.add("constant", name, node, through)

    def primary(self, node: ast.Attribute | ast.Call | ast.Subscript, through: tuple[str, ...], bound: frozenset[str]) -> None:
        """Attribute chains, calls and subscripts: the outermost form that has a name of its own is one read."""
        variable = environment_name(node)
        if variable is not None:
            self.add("environment", variable, node, through)
            return
        setting = setting_name(node, self.scope)
        if setting is not None:
            self.add("setting", setting, node, through)
            return
        path = dotted(node)
        if path is not None and any(w in path.split(".") or f"get_{w}" in path or f"{w}_of" in path for w in MODEL_WORDS):
            self.add("model", path, node, through)
        elif isinstance(node, ast.Subscript):
            self.read(node.value, through, bound)
            self.read(node.slice, through, bound)
        elif isinstance(node, ast.Attribute):
            root = _root(node)
            own = isinstance(root, ast.Name) and (
                root.id in self.scope.values or root.id in bound or root.id in self.scope.unknown
            )
            if path is None or own:
                self.read(node.value, through, bound)
            elif isinstance(root, ast.Name) and root.id in self.scope.parameters:
                self.add("parameter", path, node, through)
            else:
                self.add("fact", path, node, through)
        else:
            self.call(node, through, bound)

    def call(self, node: ast.Call, through: tuple[str, ...], bound: frozenset[str]) -> None:
        func = node.func
        if isinstance(func, ast.Attribute):
            root = _root(func)
            known = isinstance(root, ast.Name) and root.id not in self.scope.values and root.id not in bound
            if setting_name(func.value, self.scope) is not None or not known or root is not func.value:
                self.read(func.value, through, bound)  # a method of a value: `self.x.startswith(...)`
            else:
                self.add("fact", f"{dotted(func)}()", node, through)
        elif isinstance(func, ast.Name):
            if func.id not in _BUILTINS and func.id not in bound:
                if func.id in self.scope.values or func.id in self.scope.parameters:
                    self.opaque(f"`{func.id}` is a function that is known only at run time")
                else:
                    self.add("fact", f"{func.id}()", node, through)
        else:
            self.read(func, through, bound)
        for argument in [*node.args, *(k.value for k in node.keywords)]:
            if not (isinstance(argument, ast.Name) and argument.id in self.scope.args_names):
                self.read(argument, through, bound)


def _root(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node


def dotted(node: ast.expr) -> str | None:
    """`a.b().c[0]` as a name, the arguments of calls left out; None where it does not start at a name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else None
    if isinstance(node, ast.Call):
        base = dotted(node.func)
        return f"{base}()" if base else None
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        base = dotted(node.value)
        return f"{base}[{node.slice.value!r}]" if base else None
    return None


def setting_name(node: ast.expr, scope: Scope) -> str | None:
    """The field that an expression reads on the args object: `self.x`, `cfg.x`, `getattr(args, "x")`; else None."""
    if isinstance(node, ast.Attribute) and _is_args(node.value, scope.args_names):
        return node.attr if node.attr not in MODEL_WORDS else None
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("getattr", "hasattr")
        and len(node.args) > 1
    ):
        name = node.args[1]
        if _is_args(node.args[0], scope.args_names) and isinstance(name, ast.Constant) and isinstance(name.value, str):
            return name.value
    return None


def environment_name(node: ast.expr) -> str | None:
    """The variable that `envs.X.get()`, `os.environ.get("X")`, `os.environ["X"]`, `get_bool_env_var("X")` read; else None."""
    if isinstance(node, ast.Subscript):
        if (dotted(node.value) or "").endswith("environ") and isinstance(node.slice, ast.Constant):
            return str(node.slice.value)
        return None
    if not isinstance(node, ast.Call):
        return None
    path = dotted(node.func) or ""
    parts = path.split(".")
    if len(parts) >= 3 and parts[-3] == "envs" and parts[-1] in ("get", "is_set", "value", "getenv"):
        return parts[-2]
    if any(path == r or path.endswith("." + r) for r in _ENV_READERS) and node.args and isinstance(node.args[0], ast.Constant):
        return str(node.args[0].value)
    return None
