"""Expressions -> what decides their value, by abstract evaluation over names. Nothing is computed."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from triage.analysis.conditions import environment_name
from triage.analysis.sites.frames import Frame
from triage.analysis.sites.index import FunctionInfo, Index
from triage.analysis.sites.names import Names
from triage.analysis.sites.values import (
    MAX_ITEMS,
    NOTHING,
    Ext,
    Func,
    Lit,
    Val,
    container,
    element,
    indexed,
    literals,
    named,
    opaque,
    plain,
    union,
)

MAX_STEPS = 2_000_000  # expressions that one walk looks at; a large release takes some 60,000


class Expressions(Names):
    """`value(node, frame)` for every kind of expression; calls are left to `called`."""

    def __init__(self, index: Index, args_class: str) -> None:
        super().__init__(index, args_class)
        self.steps = 0
        self.makers: Mapping[type[ast.expr], Callable[[ast.expr, Frame], Val]] = {
            ast.Constant: self.constant,
            ast.Name: self.name,
            ast.Attribute: self.attribute,
            ast.Call: self.called,
            ast.Subscript: self.subscript,
            ast.NamedExpr: self.walrus,
            ast.Lambda: self.function,
            ast.ListComp: self.comprehension,
            ast.SetComp: self.comprehension,
            ast.GeneratorExp: self.comprehension,
            ast.DictComp: self.comprehension,
            ast.List: self.display,
            ast.Tuple: self.display,
            ast.Set: self.display,
            ast.Dict: self.display,
            ast.BoolOp: self.either,
            ast.IfExp: self.either,
            ast.Starred: self.starred,
            ast.Await: self.awaited,
            ast.Yield: self.awaited,
            ast.YieldFrom: self.awaited,
            ast.Compare: self.compare,
        }

    def value(self, node: ast.expr, f: Frame) -> Val:
        self.steps += 1
        if self.steps > MAX_STEPS:
            return opaque(f"the walk stopped after {MAX_STEPS} expressions")
        made = self.makers.get(type(node), self.parts)(node, f)
        if f.touched and (made.reads or made.why):
            f.touched[-1].append(plain(made))
        return made

    # ------------------------------------------------------------ simple ones
    def constant(self, node: ast.expr, f: Frame) -> Val:
        value = node.value if isinstance(node, ast.Constant) else None
        return Val(things=frozenset({Lit(value)})) if isinstance(value, str | int | bool | None) else NOTHING

    def parts(self, node: ast.expr, f: Frame) -> Val:
        """Arithmetic, f-strings, slices: all that stands in them decides."""
        return plain(union([self.value(c, f) for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr)]))

    def compare(self, node: ast.expr, f: Frame) -> Val:
        assert isinstance(node, ast.Compare)
        return plain(self.operands([node.left, *node.comparators], f))

    def operands(self, nodes: list[ast.expr], f: Frame) -> Val:
        """The sides of a comparison; `"X" in os.environ` reads the variable."""
        values = [self.solid(self.value(n, f)) for n in nodes]
        if len(values) == 2:
            if Ext("os.environ") in values[1].things and literals(values[0]):
                return union(named("environment", name) for name in literals(values[0]))
            values.append(indexed(values[1], values[0]))
        outside = [t.name for v in values for t in v.things if isinstance(t, Ext) and "." in t.name]
        return union([*values, *(named("fact", name) for name in outside)])

    def either(self, node: ast.expr, f: Frame) -> Val:
        """`a or b`, `a if t else b`: any of the sides; what a side calls is called only after the tests before it."""
        before = f.path
        if isinstance(node, ast.IfExp):
            values = [plain(self.value(node.test, f))]
            for side, came_out in ((node.body, True), (node.orelse, False)):
                self.narrow(side, node.test, came_out, "ternary", f)
                values.append(self.value(side, f))
                f.path = before
            return union(values)
        assert isinstance(node, ast.BoolOp)
        values = []
        for i, side in enumerate(node.values):
            if i:
                self.narrow(side, node.values[i - 1], isinstance(node.op, ast.And), "boolop", f)
            values.append(self.value(side, f))
        f.path = before
        return union(values)

    def starred(self, node: ast.expr, f: Frame) -> Val:
        assert isinstance(node, ast.Starred)
        return element(self.value(node.value, f))

    def awaited(self, node: ast.expr, f: Frame) -> Val:
        return opaque("its value comes from other code at run time")

    def walrus(self, node: ast.expr, f: Frame) -> Val:
        assert isinstance(node, ast.NamedExpr)
        made = self.value(node.value, f)
        f.locals[node.target.id] = made
        return made

    def function(self, node: ast.expr, f: Frame) -> Val:
        assert isinstance(node, ast.Lambda)
        info = FunctionInfo(f.module, node, f"{f.node.info.name}.<locals>.<lambda>")
        return Val(things=frozenset({Func(info, None, f)}))

    def display(self, node: ast.expr, f: Frame) -> Val:
        if isinstance(node, ast.Dict):
            nodes = [n for n in (*node.keys, *node.values) if n is not None]
        else:
            nodes = list(getattr(node, "elts", []))
        values = [self.value(n, f) for n in nodes]
        whole = plain(union(values))
        items = tuple(dict.fromkeys(values)) if isinstance(node, ast.Dict | ast.Set) else tuple(values)
        exact = isinstance(node, ast.List | ast.Tuple) and not any(isinstance(n, ast.Starred) for n in nodes)
        if len(items) > MAX_ITEMS or not any(v.things for v in items):
            return whole
        return Val(whole.reads, container(items, exact), whole.why)

    def comprehension(self, node: ast.expr, f: Frame) -> Val:
        inner = Frame(f.node, f.module, {}, f, f.path, f.statement)
        seen: list[Val] = []
        for g in getattr(node, "generators", []):
            source = self.solid(self.value(g.iter, inner))
            seen.append(plain(source))
            self.bind(g.target, element(source), inner)
            seen += [plain(self.value(test, inner)) for test in g.ifs]
        made = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]  # type: ignore[attr-defined]
        values = [self.value(m, inner) for m in made]
        whole = plain(union([*seen, *values]))
        return Val(whole.reads, container(values, False), whole.why) if any(v.things for v in values) else whole

    def subscript(self, node: ast.expr, f: Frame) -> Val:
        assert isinstance(node, ast.Subscript)
        variable = environment_name(node)
        if variable is not None:
            return named("environment", variable)
        base = self.solid(self.value(node.value, f))
        index = self.value(node.slice, f) if not isinstance(node.slice, ast.Slice) else self.parts(node.slice, f)
        at = next((t.value for t in index.things if isinstance(t, Lit)), None) if len(index.things) == 1 else None
        return union([element(base, at), plain(index), indexed(base, index)])

    # ------------------------------------------------------------ what the later layers add
    def narrow(self, side: ast.expr, test: ast.expr, came_out: bool, kind: str, f: Frame) -> None:
        raise NotImplementedError

    def called(self, node: ast.expr, f: Frame) -> Val:
        raise NotImplementedError
