"""What the statements of a function write to the settings, and under which names.

A name that is computed is followed through loops over literal names, constants and locals; where that gives nothing, the
statement writes any field.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from triage.analysis.lives.reach import Reach, Reached, is_args, walk_in_order
from triage.analysis.lives.sources import Source, Sources, last_name
from triage.analysis.source import FunctionNode

_CHANGERS = frozenset({"append", "extend", "insert", "update", "setdefault", "add", "discard", "remove", "pop", "clear"})
_MAX_NAMES = 400


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
    loops = (n for n in f.nodes if isinstance(n, ast.For) and target.id in _names_in(n.target))
    return any(name in _names_in(loop.iter) for loop in loops)


def _names_in(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


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
                keys = _keys(value) if isinstance(value, ast.Dict) else None
                if keys and isinstance(value, ast.Dict) and set(keys) <= fields:
                    for name, given in keys.items():
                        yield WriteSite(name, _at(statement, given), "constant of the module", given)


def _at(statement: ast.stmt, value: ast.expr) -> ast.stmt:
    """A statement that stands for one entry of a long display."""
    return ast.Expr(
        value, lineno=value.lineno, col_offset=value.col_offset, end_lineno=value.end_lineno, end_col_offset=value.end_col_offset
    )


class _Writes:
    def __init__(self, f: Reached, setters: Setters, sources: Sources, fields: frozenset[str]) -> None:
        self.f = f
        self.setters = setters
        self.sources = sources
        self.fields = fields
        self.handed = self.handed_on()

    def handed_on(self) -> frozenset[str]:
        """Locals that leave as settings: returned, given as `**x`, or given beside the args object; keys that are fields."""
        out: set[str] = set()
        keys: dict[str, set[str]] = {}
        for node in self.f.nodes:
            if isinstance(node, ast.Return) and node.value is not None:
                out |= _names_in(node.value)
            elif isinstance(node, ast.Call):
                out |= {k.value.id for k in node.keywords if k.arg is None and isinstance(k.value, ast.Name)}
                if any(is_args(a, self.f.args) for a in node.args):
                    out |= {a.id for a in node.args if isinstance(a, ast.Name)}
            elif isinstance(node, ast.For):
                out |= _names_in(node.iter)
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        keys.setdefault(target.id, set()).update(_display_keys(node.value))
                    elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and (k := _text(target.slice)):
                        keys.setdefault(target.value.id, set()).add(k)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
                keys.setdefault(node.target.id, set()).update(_display_keys(node.value))
        return frozenset(name for name in out if name in keys and self.are_fields(keys[name]) is not False)

    def are_fields(self, keys: set[str]) -> bool | None:
        """Whether keys name settings for the most part; None where there are none."""
        return 2 * len(keys & self.fields) > len(keys) if keys else None

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
            name = _text(target.slice)
            if isinstance(target.value, ast.Name) and target.value.id in self.handed and name is not None:
                yield WriteSite(name, node, "dict that is handed on", value)
            elif self.is_namespace(target.value):
                yield WriteSite(name, node, "attribute dict", value)
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
                if name == "setdefault" and (key := _text(argument)) is not None:
                    yield WriteSite(key, node, "dict that is handed on", call.args[-1])
        elif receiver is not None and name in _CHANGERS:
            if isinstance(receiver, ast.Attribute) and is_args(receiver.value, f.args):
                yield WriteSite(receiver.attr, node, "change in place", call)
        elif any(is_args(a, f.args) for a in call.args):
            for argument in call.args:
                if isinstance(argument, ast.Dict) and self.are_fields(_display_keys(argument)):
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
            elif not self.has_known_keys(keyword.value.id):
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
            keys = _keys(inner)
            if keys and self.are_fields(set(keys)):
                for name, given in keys.items():
                    yield WriteSite(name, node, how, given)

    # ------------------------------------------------------------ names
    def names_of(self, node: ast.expr, hops: int = 4) -> tuple[str, ...] | None:
        """The texts that an expression can be: () for texts that are no field; None where it is not known."""
        if isinstance(node, ast.Constant):
            return (node.value,) if isinstance(node.value, str) else None
        if isinstance(node, ast.IfExp):
            sides = self.names_of(node.body, hops), self.names_of(node.orelse, hops)
            return (*sides[0], *sides[1]) if sides[0] is not None and sides[1] is not None else None
        if isinstance(node, ast.JoinedStr):
            parts = [re.escape(str(v.value)) if isinstance(v, ast.Constant) else r"\w*" for v in node.values]
            return tuple(sorted(n for n in self.fields if re.fullmatch("".join(parts), n))) or None
        if isinstance(node, ast.Name) and hops:
            out: list[str] = []
            for value in self.bound(node.id) or [c for c in [self.constant(node.id)] if c is not None]:
                names = self.names_of(value, hops - 1)
                if names is None:
                    return None
                out += names
            for target, iterable in self.loops():
                if node.id in _names_in(target):
                    at = (
                        [i for i, t in enumerate(target.elts) if node.id in _names_in(t)]
                        if isinstance(target, ast.Tuple)
                        else None
                    )
                    members = self.members(iterable, at[0] if at else None, hops - 1)
                    if members is None:
                        return None
                    out += members
            return tuple(dict.fromkeys(out))[:_MAX_NAMES] or None
        return None

    def members(self, node: ast.expr, at: int | None, hops: int) -> list[str] | None:
        """The texts that a loop over an expression takes; `at` is the place in each of its tuples."""
        if isinstance(node, ast.Call) and last_name(node.func) in ("items", "keys") and isinstance(node.func, ast.Attribute):
            inner = self.follow(node.func.value, hops)
            return list(_keys(inner) or ()) or None if inner is not None and not at else None
        if isinstance(node, ast.Call) and last_name(node.func) in ("list", "tuple", "sorted", "set", "reversed") and node.args:
            return self.members(node.args[0], at, hops)
        if isinstance(node, ast.Call) and last_name(node.func) == "zip" and at is not None and at < len(node.args):
            return self.members(node.args[at], None, hops)
        found = self.follow(node, hops)
        if isinstance(found, ast.Dict) and at is None:
            return list(_keys(found) or ()) or None
        if not isinstance(found, ast.Tuple | ast.List | ast.Set):
            return None
        out: list[str] = []
        for one in found.elts:
            if at is not None:
                if not isinstance(one, ast.Tuple | ast.List) or at >= len(one.elts):
                    return None
                one = one.elts[at]
            names = self.names_of(one, hops)
            if names is None:
                return None
            out += names
        return out

    def follow(self, node: ast.expr, hops: int) -> ast.expr | None:
        """The display behind a name, where one binding gives it."""
        if isinstance(node, ast.Name) and hops > 0:
            values = self.bound(node.id)
            if len(values) == 1:
                return self.follow(values[0], hops - 1)
            constant = self.constant(node.id) if not values else None
            return self.follow(constant, hops - 1) if constant is not None else None
        return None if isinstance(node, ast.Name) else node

    def bound(self, name: str) -> list[ast.expr]:
        out: list[ast.expr] = []
        for node in self.f.nodes:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            if value is not None and any(isinstance(t, ast.Name) and t.id == name for t in targets):
                out.append(value)
        return out

    def loops(self) -> Iterator[tuple[ast.expr, ast.expr]]:
        return ((n.target, n.iter) for n in self.f.nodes if isinstance(n, ast.For | ast.comprehension))

    def constant(self, name: str) -> ast.expr | None:
        where = self.sources.resolve(self.f.source, name, self.f.local)
        return where[0].constants.get(where[1]) if where is not None else None


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _keys(node: ast.AST) -> dict[str, ast.expr] | None:
    """The literal keys of a dict display or of `dict(x=...)`, with their values."""
    if isinstance(node, ast.Dict):
        return {
            k.value: v
            for k, v in zip(node.keys, node.values, strict=True)
            if isinstance(k, ast.Constant) and isinstance(k.value, str)
        }
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        return {k.arg: k.value for k in node.keywords if k.arg is not None}
    return None


def _display_keys(node: ast.expr) -> set[str]:
    return set(_keys(node) or ())
