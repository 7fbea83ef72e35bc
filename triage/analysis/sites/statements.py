"""Statements: the way through a function, with the tests on it, and what locals come from."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from triage.analysis.flow import breaks_out
from triage.analysis.guards import Culprit, GuardKind
from triage.analysis.sites.calls import Calls
from triage.analysis.sites.expressions import Expressions
from triage.analysis.sites.frames import Frame, Node, Step, merge
from triage.analysis.sites.index import FunctionInfo, Index, imports_of, index_block
from triage.analysis.sites.plan import Planned, Planner
from triage.analysis.sites.values import NOTHING, Cls, Func, Val, container, element, holds_record, named, opaque, plain, union
from triage.analysis.source import child_blocks, first_line

_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return, ast.Delete, ast.Pass)
_GROWING = {"append", "add", "extend", "insert", "update", "discard", "remove", "setdefault"}


class Walk(Calls):
    """Walks functions from the entry of validation; `nodes` holds what it found."""

    def __init__(self, index: Index, args_class: str, declares: Iterable[str]) -> None:
        super().__init__(index, args_class, declares)
        self.planners: dict[str, Planner] = {}
        self.calling: dict[int, bool] = {}
        self.watched: dict[str, list[tuple[int, Culprit]]] = {}  # file -> lines of other statements whose sites are wanted

    def planner(self, f: Frame) -> Planner:
        file = f.module.file
        if file not in self.planners:
            self.planners[file] = Planner(file, f.module.module.lines)
        return self.planners[file]

    # ------------------------------------------------------------ tests
    def push(self, planned: Sequence[Planned], f: Frame) -> None:
        """Add guards to the way. What they call was noted when the statement itself was walked."""
        self.quiet += 1
        for one in planned:
            parts = tuple((part, self.part_value(one, part.nodes, f)) for part in one.parts)
            f.path = Step(f.path, one.guard, parts)
        self.quiet -= 1

    def part_value(self, planned: Planned, nodes: tuple[ast.expr, ...], f: Frame) -> Val:
        if planned.handler is not None:
            return f.handlers.get(id(planned.handler), NOTHING)
        if not nodes:
            return opaque("it is not an expression")
        return plain(self.operands(list(nodes), f))

    def narrow(self, side: ast.expr, test: ast.expr, came_out: bool, kind: str, f: Frame) -> None:
        if id(side) not in self.calling:
            self.calling[id(side)] = any(isinstance(n, ast.Call) for n in ast.walk(side))
        if self.calling[id(side)] and not self.quiet:
            word: GuardKind = "ternary" if kind == "ternary" else "boolop"
            self.push(self.planner(f).side(test, came_out, word), f)

    # ------------------------------------------------------------ functions
    def enter(self, node: Node, bound: dict[str, Val], parent: Frame | None) -> None:
        info = node.info
        f = Frame(node, info.module, dict(bound), parent)
        if isinstance(info.node, ast.Lambda):
            quiet, self.quiet = self.quiet, 0
            f.statement = parent.statement if parent is not None else None
            node.result = self.value(info.node.body, f)
            self.quiet = quiet
            return
        if any(holds_record(v) for v in bound.values()) and _raises(info.node):
            self.files.add(info.module.file)
        quiet, self.quiet = self.quiet, 0
        self.block(info.node.body, f)
        self.quiet = quiet
        node.result = union(node.returns)

    def block(self, block: Sequence[ast.stmt], f: Frame) -> bool:
        """Walk statements in order. True: control never reaches the end of the block."""
        for statement in block:
            f.statement = statement
            before = f.path
            if f.module.file in self.watched:
                self.watch(statement, f)
            if self.statement(statement, f):
                return True
            f.path = before
            if not isinstance(statement, _SIMPLE):
                f.statement = statement
                self.push(self.planner(f).passed(statement), f)
        return False

    def watch(self, node: ast.stmt, f: Frame) -> None:
        """Note a statement one of whose own expressions may raise, with the tests inside it."""
        inner = [s for block in child_blocks(node) for s in block]
        for line, culprit in self.watched[f.module.file]:
            here = node.lineno <= line <= (node.end_lineno or node.lineno)
            deeper = any(first_line(s) <= line <= (s.end_lineno or s.lineno) for s in inner)
            if here and not deeper and not isinstance(node, ast.Raise | ast.Assert | ast.FunctionDef | ast.ClassDef):
                before = f.path
                self.push(self.planner(f).inside(node, line, culprit), f)
                f.node.sites.append((node, f.path))
                f.path = before

    def statement(self, node: ast.stmt, f: Frame) -> bool:
        match node:
            case ast.Assign():
                value = self.value(node.value, f)
                for target in node.targets:
                    self.bind(target, value, f)
            case ast.AnnAssign():
                if node.value is not None:
                    self.bind(node.target, self.value(node.value, f), f)
            case ast.AugAssign():
                value = self.value(node.value, f)
                before = self.value(node.target, f) if isinstance(node.target, ast.Name) else NOTHING
                self.bind(node.target, union([before, value]), f)
            case ast.Expr():
                self.expression(node.value, f)
            case ast.If():
                return self.branch(node, f)
            case ast.For() | ast.AsyncFor() | ast.While():
                return self.loop(node, f)
            case ast.Try() | ast.TryStar():
                return self.attempt(node, f)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    value = self.value(item.context_expr, f)
                    if item.optional_vars is not None:
                        self.bind(item.optional_vars, value, f)
                return self.block(node.body, f)
            case ast.Match():
                return self.choose(node, f)
            case ast.Return():
                value = self.value(node.value, f) if node.value is not None else NOTHING
                f.node.returns.append(union([value, plain(f.path.control())]) if f.path is not None else value)
                return True
            case ast.Raise():
                for part in (node.exc, node.cause):
                    if part is not None:
                        self.value(part, f)
                f.node.sites.append((node, f.path))
                return True
            case ast.Assert():
                self.value(node.test, f)
                before_test = f.path
                self.push(self.planner(f).failed(node), f)
                f.node.sites.append((node, f.path))
                f.path = before_test
                return isinstance(node.test, ast.Constant) and not node.test.value
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                info = FunctionInfo(f.module, node, f"{f.node.info.name}.<locals>.{node.name}")
                f.locals[node.name] = Val(things=frozenset({Func(info, None, f)}))
            case ast.ClassDef():
                index_block(f.module, [node], f"{f.node.info.name}.<locals>.", None)
                made = f.module.classes[f"{f.node.info.name}.<locals>.{node.name}"]
                f.locals[node.name] = Val(things=frozenset({Cls(made)}))
            case ast.Import() | ast.ImportFrom():
                for name, symbol in imports_of(f.module.file, node):
                    f.locals[name] = self.imported(symbol)
                    if f.touched:
                        f.touched[-1].append(named("fact", f"import {symbol.module}"))
            case ast.Continue() | ast.Break():
                return True
        return False

    def expression(self, node: ast.expr, f: Frame) -> None:
        value = self.value(node, f)
        if isinstance(node, ast.Yield | ast.YieldFrom) and node.value is not None:
            made = self.value(node.value, f)
            f.node.returns.append(Val(made.reads, container([made], False), made.why))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _GROWING and node.args:
            owner = node.func.value
            if isinstance(owner, ast.Name) and owner.id in f.locals:
                added = [self.value(a, f) for a in node.args if not isinstance(a, ast.Starred)]
                inner = added if node.func.attr in ("append", "add", "insert") else [element(a) for a in added]
                grown = Val(things=container(inner, False)) if any(v.things for v in inner) else NOTHING
                self.widen(owner, union([plain(value), *map(plain, added)]), f)
                f.locals[owner.id] = union([f.locals[owner.id], grown])

    # ------------------------------------------------------------ branches
    def way(self, parent: ast.stmt, block: list[ast.stmt], start: dict[str, Val], f: Frame) -> dict[str, Val] | None:
        """Walk one block of a statement from given locals; the locals at its end, None when that is never reached."""
        before = f.path
        f.locals = dict(start)
        f.statement = parent
        if block:
            self.push(self.planner(f).header(parent, block), f)
        ended = self.block(block, f)
        f.path = before
        return None if ended else f.locals

    def join(self, start: dict[str, Val], ways: list[dict[str, Val] | None], control: Val, f: Frame) -> bool:
        open_ways = [w for w in ways if w is not None]
        f.locals = merge(start, open_ways, control) if open_ways else dict(start)
        return not open_ways

    def branch(self, node: ast.If, f: Frame) -> bool:
        control = plain(self.value(node.test, f))
        start = f.locals
        ways = [self.way(node, node.body, start, f)]
        ways.append(self.way(node, node.orelse, start, f) if node.orelse else dict(start))
        return self.join(start, ways, control, f)

    def loop(self, node: ast.For | ast.AsyncFor | ast.While, f: Frame) -> bool:
        if isinstance(node, ast.While):
            control = plain(self.value(node.test, f))
            start = dict(f.locals)
        else:
            source = self.solid(self.value(node.iter, f))
            control = plain(source)
            start = dict(f.locals)
            self.bind(node.target, element(source), f)
        inside = f.locals
        ended = self.way(node, node.body, inside, f)
        ways: list[dict[str, Val] | None] = [start, ended if ended is not None else dict(f.locals)]
        self.join(start, ways, control, f)
        if node.orelse:
            other = self.way(node, node.orelse, f.locals, f)
            if other is None and not breaks_out(node.body):
                return True
            f.locals = other if other is not None else f.locals
        always = isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and bool(node.test.value)
        return always and not breaks_out(node.body)

    def attempt(self, node: ast.Try | ast.TryStar, f: Frame) -> bool:
        start = dict(f.locals)
        path = f.path
        f.touched.append([])
        ended = self.block(node.body, f)
        seen = union(f.touched.pop())
        if f.touched:
            f.touched[-1].append(seen)
        f.path = path
        after = f.locals
        where = f"the try at line {node.lineno}"
        raised = seen if seen.reads or seen.why else opaque(f"nothing names what {where} depends on")
        ways: list[dict[str, Val] | None] = []
        for handler in node.handlers:
            f.handlers[id(handler)] = raised
            locals_ = merge(start, [start, after], raised)
            if handler.name:
                locals_[handler.name] = raised
            ways.append(self.way(node, handler.body, locals_, f))
        f.locals = after
        if not ended and node.orelse:
            self.push([p for s in node.body for p in self.planner(f).passed(s)], f)
            ways.append(self.way(node, node.orelse, after, f))
        else:
            ways.append(None if ended else after)
        f.path = path
        ended = self.join(start, ways, raised, f)
        return (bool(node.finalbody) and self.block(node.finalbody, f)) or ended

    def choose(self, node: ast.Match, f: Frame) -> bool:
        subject = plain(self.value(node.subject, f))
        start = f.locals
        ways: list[dict[str, Val] | None] = []
        whole = False
        for case in node.cases:
            names = [n.name for n in ast.walk(case.pattern) if isinstance(n, ast.MatchAs | ast.MatchStar) and n.name]
            ways.append(self.way(node, case.body, {**start, **dict.fromkeys(names, subject)}, f))
            whole |= case.guard is None and isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None
        if not whole:
            ways.append(dict(start))
        return self.join(start, ways, subject, f)


def _raises(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Raise | ast.Assert) for n in ast.walk(node))


__all__ = ["Expressions", "Walk"]
