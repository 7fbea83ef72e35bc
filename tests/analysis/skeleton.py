"""Control flow without content: a function's tree with every test replaced by a decision of the caller.

Running it says which decisions lead to which raise or assert, by Python's own control flow: a second opinion on guards
that shares no code with the analysis.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

EXITS = {"sys.exit", "exit", "quit", "os._exit", "parser.error"}
MAX_DECISIONS = 600


class Stop(Exception):
    """What every raise of the skeleton raises."""


class Never(Exception):
    pass


class TooLong(BaseException):
    pass


def _call(name: str, *numbers: int) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), [ast.Constant(n) for n in numbers], [])


class _Strip(ast.NodeTransformer):
    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for s in body:
            made = self.visit(s)
            out += made if isinstance(made, list) else [made]
        return out

    def generic_visit(self, node: ast.AST) -> ast.AST:
        return ast.Expr(_call("_simple")) if isinstance(node, ast.stmt) else node

    def visit_Expr(self, node: ast.Expr) -> Any:
        if isinstance(node.value, ast.Call) and ast.unparse(node.value.func) in EXITS:
            return ast.Raise(ast.Name("_Leave", ast.Load()))
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> Any:
        return ast.If(_call("_test", node.test.lineno), self.block(node.body), self.block(node.orelse))

    def visit_While(self, node: ast.While) -> Any:
        constant = isinstance(node.test, ast.Constant)
        test = _call("_round" if constant else "_loop", node.test.lineno, node.body[0].lineno, node.end_lineno or 0)
        return ast.While(test, self.block(node.body), self.block(node.orelse))

    def visit_For(self, node: ast.For) -> Any:
        items = _call("_items", node.iter.lineno, node.body[0].lineno, node.body[-1].end_lineno or 0)
        return ast.For(ast.Name("_i", ast.Store()), items, self.block(node.body), self.block(node.orelse))

    def visit_With(self, node: ast.With) -> Any:
        manager = ast.withitem(_call("_manager", node.items[0].context_expr.lineno), None)
        return ast.With([manager], self.block(node.body))

    def visit_Try(self, node: ast.Try) -> Any:
        handlers = [ast.ExceptHandler(_call("_handler", h.lineno), None, self.block(h.body)) for h in node.handlers]
        body = [ast.Expr(_call("_maybe")), *self.block(node.body), ast.Expr(_call("_maybe"))]
        return ast.Try(body, handlers, self.block(node.orelse), self.block(node.finalbody))

    def visit_Match(self, node: ast.Match) -> Any:
        out: list[ast.stmt] = []
        for case in reversed(node.cases):
            always = isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None and case.guard is None
            body = self.block(case.body)
            test: ast.expr = ast.Constant(True) if always else _call("_test", case.pattern.lineno)
            out = [ast.If(test, body, out)]
        return out

    def visit_Raise(self, node: ast.Raise) -> Any:
        return [ast.Expr(_call("_at", node.lineno)), ast.Raise(ast.Name("_Stop", ast.Load()))]

    def visit_Assert(self, node: ast.Assert) -> Any:
        at = ast.Expr(_call("_at", node.lineno))
        if isinstance(node.test, ast.Constant):
            return [at, ast.Raise(ast.Name("_Stop", ast.Load()))] if not node.test.value else at
        refuse = ast.If(ast.UnaryOp(ast.Not(), _call("_test", node.test.lineno)), [ast.Raise(ast.Name("_Stop", ast.Load()))], [])
        return [at, refuse]

    def visit_Return(self, node: ast.Return) -> Any:
        return ast.Return(None)

    def visit_Break(self, node: ast.Break) -> Any:
        return node

    def visit_Continue(self, node: ast.Continue) -> Any:
        return node


Outcomes = dict[int, bool]
Run = Callable[[Outcomes, random.Random, Callable[[int, Outcomes], None]], None]


def runner(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Run:
    """`run(wanted, random, at)`: one run that follows `wanted` (line of a test -> outcome) nine times in ten, else chance.

    `at(line, outcomes)` is called at each raise and assert with the last outcome of every test that still counts.
    """
    body = _Strip().block(function.body)
    made = ast.FunctionDef("skeleton", ast.arguments([], [], None, [], [], None, []), body, [], None, lineno=1, col_offset=0)
    code = compile(ast.fix_missing_locations(ast.Module([made], [])), "<skeleton>", "exec")

    def run(wanted: Outcomes, chance: random.Random, at: Callable[[int, Outcomes], None]) -> None:
        outcomes: Outcomes = {}
        left = [MAX_DECISIONS]

        mood = chance.choice((0.05, 0.5, 0.95))  # deep functions are crossed only where most tests agree

        def decide(line: int, usual: float = mood) -> bool:
            left[0] -= 1
            if left[0] < 0:
                raise TooLong
            if line in wanted and chance.random() < 0.9:
                return wanted[line]
            return chance.random() < usual

        def test(line: int) -> bool:
            outcomes[line] = decide(line)
            return outcomes[line]

        def forget(first: int, last: int) -> None:
            for line in [k for k in outcomes if first <= k <= last]:
                del outcomes[line]

        def loop(line: int, first: int, last: int) -> bool:
            outcomes[line] = decide(line)
            if outcomes[line]:
                forget(max(first, line + 1), last)
            return outcomes[line]

        def around(line: int, first: int, last: int) -> bool:
            decide(line)
            forget(max(first, line + 1), last)
            return True

        def items(line: int, first: int, last: int) -> Iterator[int]:
            for i in range(chance.choice((0, 1, 2)) if line not in wanted else chance.choice((1, 1, 2))):
                forget(max(first, line + 1), last)
                outcomes[line] = True
                yield i
                decide(line)

        @contextmanager
        def manager(line: int) -> Iterator[None]:
            outcomes[line] = True
            yield

        def handler(line: int) -> type[Exception]:
            outcomes[line] = decide(line, 0.7)
            return Stop if outcomes[line] else Never

        def maybe() -> None:
            if chance.random() < 0.25:
                raise Stop

        names = {
            "_test": test, "_loop": loop, "_round": around, "_items": items, "_manager": manager, "_handler": handler,
            "_maybe": maybe, "_simple": lambda: None, "_at": lambda line: at(line, outcomes), "_Stop": Stop, "_Leave": TooLong,
        }  # fmt: skip
        exec(code, names)
        with suppress(Stop, TooLong):
            names["skeleton"]()  # type: ignore[operator]

    return run
