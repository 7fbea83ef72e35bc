"""What the statements of a function write to the settings, and under which names.

A name that is computed is followed through loops over literal names, constants and locals; where that gives nothing, the
statement writes any field.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from triage.analysis.lives.names import Names, display_keys, keys_of, names_in, text_of
from triage.analysis.lives.reach import Reach, Reached, is_args, walk_in_order
from triage.analysis.lives.sources import Source, Sources, last_name
from triage.analysis.source import FunctionNode

_CHANGERS = frozenset({"append", "extend", "insert", "update", "setdefault", "add", "discard", "remove", "pop", "clear"})


@dataclass(frozen=True, eq=False)
class WriteSite:
    """A statement that writes `field` (None: whichever it is given). `value` is the expression that is written."""

    field: str | None
    statement: ast.stmt
    how: str
    value: ast.expr | None = None


@dataclass(frozen=True)
class Setters:
    """Functions of the target that write settings for their callers."""

    keywords: frozenset[str]  # each keyword argument is a setting
    named: Mapping[str, tuple[int, str]] = field(default_factory=dict)  # name -> position and name of the parameter that names it


def find_setters(reach: Reach, declares: tuple[str, ...]) -> Setters:
    """The profile's own, and every function on the way that hands its keywords or a parameter to setattr."""
    keywords = set(declares)
    named: dict[str, tuple[int, str]] = {}
    for f in reach.reached.values():
        a = f.node.args
        parameters = [p.arg for p in [*a.posonlyargs, *a.args]]
        for node in f.nodes:
            if not isinstance(node, ast.Call) or not (target := setattr_name(node, f)):
                continue
            if isinstance(target, ast.Name) and target.id in parameters:
                named[f.node.name] = (parameters.index(target.id) - (1 if f.definition.is_bound else 0), target.id)
            elif not isinstance(target, ast.Constant) and a.kwarg is not None and _loops_over(f, target, a.kwarg.arg):
                keywords.add(f.node.name)
    named.pop("__setattr__", None)
    return Setters(frozenset(keywords), named)


def _loops_over(f: Reached, target: ast.expr, name: str) -> bool:
    if not isinstance(target, ast.Name):
        return False
    loops = (n for n in f.nodes if isinstance(n, ast.For) and target.id in names_in(n.target))
    return any(name in names_in(loop.iter) for loop in loops)


def setattr_name(node: ast.Call, f: Reached) -> ast.expr | None:
    """The expression that names the field in `setattr(args, name, v)`, `object.__setattr__(args, name, v)`, ...; else None."""
    func = node.func
    if isinstance(func, ast.Name) and func.id in ("setattr", "delattr") and len(node.args) > 1:
        return node.args[1] if is_args(node.args[0], f.args) else None
    if isinstance(func, ast.Attribute) and func.attr == "__setattr__":
        if len(node.args) == 3:
            return node.args[1] if is_args(node.args[0], f.args) else None
        if len(node.args) == 2 and (is_args(func.value, f.args) or _is_super(func.value, f)):
            return node.args[0]
    return None


def _is_super(node: ast.expr, f: Reached) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) == "super" and "self" in f.args


# ---------------------------------------------------------------- one function
def own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement that are in no statement inside it."""
    todo = [n for n in ast.iter_child_nodes(statement) if not isinstance(n, ast.stmt)]
    while todo:
        node = todo.pop()
        yield node
        todo += [n for n in ast.iter_child_nodes(node) if not isinstance(n, ast.stmt)]


def find_writes(f: Reached, setters: Setters, sources: Sources, fields: frozenset[str]) -> Iterator[WriteSite]:
    """Every write of a function, in source order."""
    reader = _Writes(f, setters, sources, fields)
    for node in f.nodes:
        if isinstance(node, ast.stmt) and not isinstance(node, ast.ClassDef | FunctionNode):
            yield from reader.statement(node)


def find_constants(source: Source, fields: frozenset[str]) -> Iterator[WriteSite]:
    """Settings that a constant of a module holds for each of several cases: `{"CaseA": {"x": 1}, ...}`."""
    for statement in source.module.tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and isinstance(statement.value, ast.Dict):
            for value in statement.value.values:
                keys = keys_of(value) if isinstance(value, ast.Dict) else None
                if keys and isinstance(value, ast.Dict) and set(keys) <= fields:
                    for name, given in keys.items():
                        yield WriteSite(name, _at(statement, given), "constant of the module", given)


def _at(statement: ast.stmt, value: ast.expr) -> ast.stmt:
    """A statement that stands for one entry of a long display."""
    return ast.Expr(
        value, lineno=value.lineno, col_offset=value.col_offset, end_lineno=value.end_lineno, end_col_offset=value.end_col_offset
    )


class _Writes(Names):
    def __init__(self, f: Reached, setters: Setters, sources: Sources, fields: frozenset[str]) -> None:
        super().__init__(f, sources, fields)
        self.setters = setters
        self.handed = self.handed_on()

    def handed_on(self) -> dict[str, set[str]]:
        """Locals that leave as settings, with their keys: returned, given as `**x`, or given beside the args object."""
        out: set[str] = set()
        keys: dict[str, set[str]] = {}
        for node in self.f.nodes:
            if isinstance(node, ast.Return) and node.value is not None:
                out |= names_in(node.value)
            elif isinstance(node, ast.Call):
                out |= {k.value.id for k in node.keywords if k.arg is None and isinstance(k.value, ast.Name)}
                if any(is_args(a, self.f.args) for a in node.args):
                    out |= {a.id for a in node.args if isinstance(a, ast.Name)}
            elif isinstance(node, ast.For):
                out |= names_in(node.iter)
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        keys.setdefault(target.id, set()).update(display_keys(node.value))
                    elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
                        keys.setdefault(target.value.id, set()).update(self.names_of(target.slice) or ())
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
                keys.setdefault(node.target.id, set()).update(display_keys(node.value))
        return {name: keys[name] for name in out if name in keys and self.are_fields(keys[name]) is not False}

    def are_fields(self, keys: set[str]) -> bool | None:
        """Whether keys name settings for the most part; None where there are none."""
        return 2 * len(keys & self.fields) >= len(keys) if keys else None

    # ------------------------------------------------------------ statements
    def statement(self, node: ast.stmt) -> Iterator[WriteSite]:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from self.target(node, target, node.value, "assignment")
            if any(isinstance(t, ast.Name) and t.id in self.handed for t in node.targets):
                yield from self.display(node, node.value, "dict that is handed on")
        elif isinstance(node, ast.AugAssign):
            yield from self.target(node, node.target, node.value, "augmented assignment")
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield from self.target(node, node.target, node.value, "assignment")
            if isinstance(node.target, ast.Name) and node.target.id in self.handed:
                yield from self.display(node, node.value, "dict that is handed on")
        elif isinstance(node, ast.For | ast.AsyncFor):
            yield from self.target(node, node.target, None, "loop")
        elif isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                if item.optional_vars is not None:
                    yield from self.target(node, item.optional_vars, None, "with")
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                yield from self.target(node, target, None, "del")
        elif isinstance(node, ast.Return) and node.value is not None:
            yield from self.display(node, node.value, "returned dict")
        for inner in own_nodes(node):
            if isinstance(inner, ast.Call):
                yield from self.call(node, inner)

    def target(self, node: ast.stmt, target: ast.expr, value: ast.expr | None, how: str) -> Iterator[WriteSite]:
        if isinstance(target, ast.Tuple | ast.List):
            same = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
            for i, one in enumerate(target.elts):
                part = value.elts[i] if same and isinstance(value, ast.Tuple | ast.List) else value
                yield from self.target(node, one, part, "tuple assignment")
        elif isinstance(target, ast.Starred):
            yield from self.target(node, target.value, value, how)
        elif isinstance(target, ast.Attribute):
            if is_args(target.value, self.f.args):
                yield WriteSite(target.attr, node, how, value)
            else:
                yield from self.inside(node, target.value, value)
        elif isinstance(target, ast.Subscript):
            names = self.names_of(target.slice)
            if isinstance(target.value, ast.Name) and target.value.id in self.handed:
                for key in names or ():
                    yield WriteSite(key, node, "dict that is handed on", value)
            elif self.is_namespace(target.value):
                for held in names or (None,):
                    yield WriteSite(held, node, "attribute dict", value)
            else:
                yield from self.inside(node, target.value, value)

    def inside(self, node: ast.stmt, owner: ast.expr, value: ast.expr | None) -> Iterator[WriteSite]:
        """`args.x.y = v`, `args.x[k] = v`: the setting's own object is changed."""
        while isinstance(owner, ast.Attribute | ast.Subscript):
            if isinstance(owner, ast.Attribute) and is_args(owner.value, self.f.args):
                yield WriteSite(owner.attr, node, "change in place", value)
                return
            owner = owner.value

    def is_namespace(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Attribute) and node.attr == "__dict__":
            return is_args(node.value, self.f.args)
        return (
            isinstance(node, ast.Call)
            and last_name(node.func) == "vars"
            and bool(node.args)
            and is_args(node.args[0], self.f.args)
        )

    # ------------------------------------------------------------ calls
    def call(self, node: ast.stmt, call: ast.Call) -> Iterator[WriteSite]:
        f, name = self.f, last_name(call.func)
        target = setattr_name(call, f)
        if target is not None:
            value = call.args[-1]
            for one in self.names_of(target) or (None,):
                yield WriteSite(one, node, "setattr", value)
            return
        receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
        copies = name == "replace" and bool(call.args) and is_args(call.args[0], f.args)
        if name in self.setters.keywords or copies or (name == "update" and receiver is not None and self.is_namespace(receiver)):
            yield from self.keywords(node, call, f"{name}()")
        elif name in self.setters.named:
            position, parameter = self.setters.named[name]
            given = next((k.value for k in call.keywords if k.arg == parameter), None)
            if given is None and position < len(call.args):
                given = call.args[position]
            for one in (self.names_of(given) if given is not None else ()) or ():
                yield WriteSite(one, node, f"{name}()", call.args[-1] if call.args else None)
        elif isinstance(receiver, ast.Name) and receiver.id in self.handed and name in ("update", "setdefault"):
            yield from self.keywords(node, call, "dict that is handed on")
            for argument in call.args[:1]:
                yield from self.display(node, argument, "dict that is handed on")
                if name == "setdefault" and (key := text_of(argument)) is not None:
                    yield WriteSite(key, node, "dict that is handed on", call.args[-1])
        elif receiver is not None and name in _CHANGERS:
            if isinstance(receiver, ast.Attribute) and is_args(receiver.value, f.args):
                yield WriteSite(receiver.attr, node, "change in place", call)
        elif any(is_args(a, f.args) for a in call.args):
            for argument in call.args:
                if isinstance(argument, ast.Dict) and self.are_fields(display_keys(argument)):
                    yield from self.display(node, argument, f"{name}()")

    def keywords(self, node: ast.stmt, call: ast.Call, how: str) -> Iterator[WriteSite]:
        for keyword in call.keywords:
            if keyword.arg is not None:
                yield WriteSite(keyword.arg, node, how, keyword.value)
            elif isinstance(keyword.value, ast.Dict):
                yield from self.display(node, keyword.value, how)
            elif not (isinstance(keyword.value, ast.Name) and keyword.value.id in self.handed):
                names = self.key_names(keyword.value)
                for one in names if names is not None else (None,):
                    yield WriteSite(one, node, how, keyword.value)
            else:
                for one in sorted(self.handed[keyword.value.id]):
                    yield WriteSite(one, node, how, keyword.value)
                if not self.has_known_keys(keyword.value.id):
                    yield WriteSite(None, node, how, keyword.value)

    def has_known_keys(self, name: str) -> bool:
        """Whether all that a local holds comes from displays and stores in this function."""
        values = self.bound(name)
        return bool(values) and all(isinstance(v, ast.Dict) or last_name(v) == "dict" for v in values)

    def key_names(self, node: ast.expr) -> tuple[str, ...] | None:
        if isinstance(node, ast.DictComp):
            return self.names_of(node.key)
        return None

    def display(self, node: ast.stmt, value: ast.expr, how: str) -> Iterator[WriteSite]:
        """Dict displays in a value whose keys are settings."""
        for inner in [value, *walk_in_order(value)]:
            keys = keys_of(inner)
            if keys and self.are_fields(set(keys)):
                for name, given in keys.items():
                    yield WriteSite(name, node, how, given)
