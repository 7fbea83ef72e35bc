"""Sites -> PathCondition: every test that had to come out one way for control to reach a statement.

Works on the syntax tree that locating already made (`reading.read_module`): branches around the statement, exits before
it in the blocks around it, handlers, loops, and the place inside the failing expression. A guard is claimed only where
it is certain; exits that stand deeper in earlier blocks than that are left to the evaluation.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from triage.analysis.flow import always_exits, breaks_out, exit_kind, may_swallow, one_line, pattern_test
from triage.analysis.reading import isolate_function, parse_lines, read_module
from triage.analysis.source import (
    FunctionNode,
    called_name,
    child_blocks,
    function_chain,
    statement_chain,
)
from triage.model import Failure, Guard, Location, PathCondition, Site, Unknown
from triage.protocols import SourceTree

GuardKind = Literal["if", "elif", "while", "early_exit", "assert", "for", "except", "with", "match", "ternary", "boolop"]


@dataclass(frozen=True)
class Culprit:
    """What is known of the expression that failed inside a statement; all None: nothing."""

    exception: str | None = None
    message: str = ""
    callee: str | None = None  # the function of the next frame


def find_guards(source: str, function: str, line: int, *, file: str = "", culprit: Culprit | None = None) -> tuple[Guard, ...]:
    """The guards from the entry of `function` to the statement at `line`, in the order of their evaluation.

    `source` is the text of the whole file. () when the line is in no such function, or the text cannot be read.
    """
    parsed = parse_lines(source)
    if parsed is None:
        alone = isolate_function(source, line)
        parsed = parse_lines(alone) if alone is not None else None
    return guards_in(parsed.tree, parsed.lines, function, line, file, culprit) if parsed is not None else ()


def guards_in(
    tree: ast.Module, lines: Sequence[str], function: str, line: int, file: str, culprit: Culprit | None = None
) -> tuple[Guard, ...]:
    """As find_guards, on a tree that is already there. Module-level statements have the function name "<module>"."""
    chain = statement_chain(tree, line)
    outer = function_chain(tree, line)
    name = function.rpartition(".")[2]
    if name != "<module>":
        while outer and isinstance(outer[-1], FunctionNode) and outer[-1].name != name:
            outer = [n for i, n in enumerate(outer[:-1]) if any(isinstance(m, FunctionNode) for m in outer[i:-1])]
        if not outer:
            return ()
    walk = GuardWalk(lines, file)
    try:
        parent: ast.AST = outer[-1] if outer else tree
        for child in chain[len(outer) :]:
            walk.enter(parent, child)
            parent = child
        if culprit is not None and isinstance(parent, ast.stmt):
            walk.expression(parent, line, culprit)
    except RecursionError:
        return tuple(walk.out)
    return tuple(walk.out)


class GuardWalk:
    """Collects guards in `out`, in the order of their evaluation."""

    def __init__(self, lines: Sequence[str], file: str) -> None:
        self.lines = lines
        self.file = file
        self.out: list[Guard] = []
        self.nodes: list[ast.AST | None] = []  # of each guard: the syntax that its text is, None where the text was composed

    def text(self, node: ast.expr) -> str:
        return one_line(self.lines, node)

    def add(
        self, node: ast.AST, text: str, came_out: bool, kind: GuardKind, leaves: str = "", syntax: ast.AST | None = None
    ) -> None:
        line = getattr(node, "lineno", 1)
        self.out.append(Guard(Location(self.file, line, getattr(node, "end_lineno", line)), text, came_out, kind, leaves))
        self.nodes.append(syntax)

    def test(self, node: ast.expr, came_out: bool, kind: GuardKind, leaves: str = "") -> None:
        self.add(node, self.text(node), came_out, kind, leaves, node)

    # ------------------------------------------------------------ around the statement
    def enter(self, parent: ast.AST, child: ast.stmt) -> None:
        """The guards for getting from the start of `parent` to the start of `child` directly inside it."""
        block = next(b for b in child_blocks(parent) if any(s is child for s in b))
        self.header(parent, block)
        for before in block:
            if before is child:
                break
            self.passed(before)

    def header(self, parent: ast.AST, block: list[ast.stmt]) -> None:
        """The guards for getting from the start of `parent` to the start of one of its blocks."""
        if isinstance(parent, ast.If):
            self.test(parent.test, block is parent.body, self.if_kind(parent))
        elif isinstance(parent, ast.While):
            self.test(parent.test, block is parent.body, "while")
        elif isinstance(parent, ast.For | ast.AsyncFor):
            if block is parent.body:
                self.add(parent.iter, self.for_text(parent.target, parent.iter), True, "for", "", parent.iter)
            else:
                self.searched(parent, "for")
        elif isinstance(parent, ast.With | ast.AsyncWith):
            self.add(parent.items[0].context_expr, self.with_text(parent), True, "with")
        elif isinstance(parent, ast.Try | ast.TryStar):
            self.enter_try(parent, block)
        elif isinstance(parent, ast.Match):
            self.enter_case(parent, block)

    def if_kind(self, node: ast.If) -> GuardKind:
        line = self.lines[node.lineno - 1] if node.lineno <= len(self.lines) else ""
        return "elif" if line.encode()[node.col_offset :].startswith(b"elif") else "if"

    def for_text(self, target: ast.expr, iterable: ast.expr) -> str:
        name = self.text(target)
        name = f"({name})" if isinstance(target, ast.Tuple) and not name.startswith("(") else name
        return f"{name} in {self.operand(iterable)}"

    def operand(self, node: ast.expr) -> str:
        """The text of a node, in parentheses where it would bind looser than a comparison or `not` beside it."""
        loose = ast.BoolOp | ast.IfExp | ast.Lambda | ast.NamedExpr | ast.Compare | ast.Tuple | ast.Starred | ast.Await
        text = self.text(node)
        return f"({text})" if isinstance(node, loose) and not (isinstance(node, ast.Tuple) and text.startswith("(")) else text

    def with_text(self, node: ast.With | ast.AsyncWith) -> str:
        return "with " + ", ".join(self.text(i.context_expr) for i in node.items)

    def enter_try(self, node: ast.Try | ast.TryStar, block: list[ast.stmt]) -> None:
        handler = next((h for h in node.handlers if h.body is block), None)
        if handler is not None:
            self.add(handler, self.except_text(handler), True, "except", "", handler)
        elif block is node.orelse:
            for s in node.body:
                self.passed(s)

    def except_text(self, handler: ast.ExceptHandler) -> str:
        return f"except {self.text(handler.type)}" if handler.type is not None else "except BaseException"

    def enter_case(self, node: ast.Match, block: list[ast.stmt]) -> None:
        subject = self.operand(node.subject)
        for case in node.cases:
            test = pattern_test(subject, case.pattern, self.lines)
            if case.body is block:
                if test != "True":
                    text = test or f"match {subject}: case {ast.unparse(case.pattern)}"
                    self.add(case.pattern, text, True, "match")
                if case.guard is not None:
                    self.test(case.guard, True, "match")
                return
            if test is not None and case.guard is None:
                self.add(case.pattern, test, False, "match")

    # ------------------------------------------------------------ exits before the statement
    def passed(self, node: ast.stmt) -> None:
        """The guards that follow from control having passed a whole earlier statement of the same block."""
        if isinstance(node, ast.If):
            self.passed_if(node)
        elif isinstance(node, ast.Assert):
            if not isinstance(node.test, ast.Constant):
                self.test(node.test, True, "assert")
        elif isinstance(node, ast.While):
            if not isinstance(node.test, ast.Constant) and not breaks_out(node.body):
                self.test(node.test, False, "while")
        elif isinstance(node, ast.For | ast.AsyncFor):
            if not breaks_out(node.body):
                self.searched(node, "early_exit")
        elif isinstance(node, ast.With | ast.AsyncWith):
            if not may_swallow(node):
                for s in node.body:
                    self.passed(s)
        elif isinstance(node, ast.Try | ast.TryStar):
            if all(always_exits(h.body) for h in node.handlers):
                for handler in node.handlers:
                    self.add(handler, self.except_text(handler), False, "except", "", handler)
                for s in [*node.body, *node.orelse]:
                    self.passed(s)
            for s in node.finalbody:
                self.passed(s)
        elif isinstance(node, ast.Match):
            subject = self.operand(node.subject)
            for case in node.cases:
                test = pattern_test(subject, case.pattern, self.lines)
                if test is None or test == "True" or case.guard is not None:
                    break
                if always_exits(case.body):
                    self.add(case.pattern, test, False, "early_exit", exit_kind(case.body))

    def passed_if(self, node: ast.If) -> None:
        """An if-chain that control came out of at its end: which of its tests that tells."""
        earlier: list[str] = []  # tests before, false by now, whose branches do not exit: a later test was asked only then
        while True:
            body, other = always_exits(node.body), always_exits(node.orelse)
            if other:
                if not body and not earlier:
                    self.test(node.test, True, "early_exit", exit_kind(node.orelse))
                    for s in node.body:
                        self.passed(s)
                return
            if body and earlier:
                text = " and ".join([*(f"not ({t})" for t in earlier), self.grouped(node.test)])
                self.add(node.test, text, False, "early_exit", exit_kind(node.body))
            elif body:
                self.test(node.test, False, "early_exit", exit_kind(node.body))
            following = node.orelse[0] if len(node.orelse) == 1 else None
            if not (isinstance(following, ast.If) and self.if_kind(following) == "elif"):
                break
            if not body:
                earlier.append(self.text(node.test))
            node = following
        if body and not earlier:
            for s in node.orelse:
                self.passed(s)

    def grouped(self, node: ast.expr) -> str:
        text = self.text(node)
        return f"({text})" if isinstance(node, ast.BoolOp | ast.IfExp | ast.Lambda | ast.NamedExpr) else text

    def searched(self, node: ast.For | ast.AsyncFor, kind: GuardKind) -> None:
        """A loop whose whole body is `if test: leave`, run to its end: no element passed the test."""
        inner = node.body[0]
        if len(node.body) != 1 or not isinstance(inner, ast.If) or inner.orelse or not always_exits(inner.body):
            return
        if any(isinstance(n, ast.Continue) for s in inner.body for n in ast.walk(s)):
            return
        target = self.text(node.target)
        text = f"any({self.text(inner.test)} for {target} in {self.grouped(node.iter)})"
        self.add(inner.test, text, False, kind, exit_kind(inner.body))

    # ------------------------------------------------------------ inside the failing expression
    def expression(self, node: ast.stmt, line: int, culprit: Culprit) -> None:
        """The guards inside the statement's own expressions, as far as all expressions that can have failed share them."""
        raised = node.exc if isinstance(node, ast.Raise) else None
        if culprit.callee is None and culprit.exception is not None:
            if isinstance(node, ast.Assert) and culprit.exception == "AssertionError":
                return
            if raised is not None and called_name(raised) == culprit.exception.rpartition(".")[2]:
                return
        roots = [n for n in ast.iter_child_nodes(node) if not isinstance(n, ast.stmt)]
        nodes = [(n, path) for root in roots for n, path in self.inside(root, ())]
        near = [(n, p) for n, p in nodes if n.lineno <= line <= (n.end_lineno or n.lineno)]
        for pool in (near, nodes):
            paths = [p for n, p in pool if can_fail(n, culprit)]
            if paths:
                break
        else:
            paths = [p for n, p in near if n.lineno == line]
        if not paths:
            return
        shared = 0
        while all(len(p) > shared for p in paths) and len({p[shared] for p in paths}) == 1:
            shared += 1
        self.out += paths[0][:shared]

    def inside(self, node: ast.AST, path: tuple[Guard, ...]) -> Iterator[tuple[ast.expr, tuple[Guard, ...]]]:
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case | ast.Lambda):
            return
        if isinstance(node, ast.expr):
            yield node, path
        if isinstance(node, ast.BoolOp):
            for value in node.values:
                yield from self.inside(value, path)
                path = (*path, self.guard(value, isinstance(node.op, ast.And), "boolop"))
        elif isinstance(node, ast.IfExp):
            yield from self.inside(node.test, path)
            yield from self.inside(node.body, (*path, self.guard(node.test, True, "ternary")))
            yield from self.inside(node.orelse, (*path, self.guard(node.test, False, "ternary")))
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            for g in node.generators:
                yield from self.inside(g.iter, path)
                location = Location(self.file, g.iter.lineno, g.iter.end_lineno)
                path = (*path, Guard(location, self.for_text(g.target, g.iter), True, "for"))
                for test in g.ifs:
                    yield from self.inside(test, path)
                    path = (*path, self.guard(test, True, "if"))
            for made in [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]:
                yield from self.inside(made, path)
        else:
            for child in ast.iter_child_nodes(node):
                yield from self.inside(child, path)

    def guard(self, node: ast.expr, came_out: bool, kind: GuardKind) -> Guard:
        return Guard(Location(self.file, node.lineno, node.end_lineno), self.text(node), came_out, kind)


_ORDER = {"<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE}


def can_fail(node: ast.expr, culprit: Culprit) -> bool:
    """Whether this very expression (not one inside it) can have raised what the culprit tells."""
    if culprit.callee is not None:
        return isinstance(node, ast.Call) and called_name(node) == culprit.callee
    exception = (culprit.exception or "").rpartition(".")[2]
    message = culprit.message
    if exception == "TypeError":
        if isinstance(node, ast.Compare):
            if "not iterable" in message or "is not a container" in message:
                return any(isinstance(o, ast.In | ast.NotIn) for o in node.ops)
            return any(
                f"'{sign}' not supported" in message and isinstance(o, kind) for sign, kind in _ORDER.items() for o in node.ops
            )
        if isinstance(node, ast.BinOp | ast.UnaryOp):
            return "unsupported operand" in message or "bad operand" in message
        if isinstance(node, ast.Subscript):
            return "not subscriptable" in message
        return isinstance(node, ast.Call) and not ("not supported" in message or "unsupported operand" in message)
    if exception == "ZeroDivisionError":
        return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.FloorDiv | ast.Mod)
    if exception in ("KeyError", "IndexError"):
        return isinstance(node, ast.Subscript)
    if exception == "AttributeError":
        return isinstance(node, ast.Attribute) and message.rstrip("?").split(". Did")[0].endswith(f"'{node.attr}'")
    return isinstance(node, ast.Call)


def complete_path(sites: Sequence[Site], tree: SourceTree, failure: Failure | None = None) -> PathCondition:
    """The sites with their guards filled in. With `failure`, guards inside the innermost failing expression as well.

    A site whose file cannot be read keeps the guards that it has.
    """
    done: list[Site] = []
    for i, site in enumerate(sites):
        line = site.at or site.location.line
        module = read_module(tree, site.location.file, line)
        if isinstance(module, Unknown):
            done.append(site)
            continue
        if i + 1 < len(sites):
            culprit: Culprit | None = Culprit(callee=_callee(sites[i + 1].function))
        else:
            culprit = Culprit(failure.exception, failure.message) if failure is not None else None
        guards = guards_in(module.tree, module.lines, site.function, line, site.location.file, culprit)
        done.append(replace(site, guards=guards))
    return PathCondition(tuple(done))


def _callee(function: str) -> str:
    """What a caller writes to call it: the class for a constructor."""
    owner, _, name = function.rpartition(".")
    return owner.rpartition(".")[2] if name in ("__init__", "__post_init__", "__new__") and owner else name
