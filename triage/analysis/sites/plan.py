"""The guards that each statement of a function adds, once for all contexts in which the function is walked."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from triage.analysis.conditions import Part, parse_test, split_test
from triage.analysis.flow import always_exits
from triage.analysis.guards import Culprit, GuardKind, GuardWalk
from triage.analysis.source import child_blocks
from triage.model import Guard

_MAX_TEXT = 2_000  # characters of one composed test


@dataclass(frozen=True, eq=False)
class Planned:
    """A guard and its parts. `handler` is the clause where it tells that an exception came or did not."""

    guard: Guard
    parts: tuple[Part, ...]
    handler: ast.ExceptHandler | None = None


class DeepWalk(GuardWalk):
    """Tells also of exits that stand deeper in a statement that was passed: not all of the tests on the way to them held."""

    def passed(self, node: ast.stmt) -> None:
        super().passed(node)
        if isinstance(node, ast.If):
            self.nested(node)

    def nested(self, node: ast.If) -> None:
        before: list[str] = []
        while True:
            here = [*before, self.grouped(node.test)]
            if not always_exits(node.body):
                self.inner(node, node.body, here)
            before.append(f"not ({self.text(node.test)})")
            following = node.orelse[0] if len(node.orelse) == 1 else None
            if not (isinstance(following, ast.If) and self.if_kind(following) == "elif"):
                break
            node = following
        told = always_exits(node.body) and len(before) == 1  # the walk has told of it
        if node.orelse and not told and not always_exits(node.orelse):
            self.inner(node, node.orelse, before)

    def inner(self, node: ast.If, block: list[ast.stmt], tests: list[str]) -> None:
        walk = DeepWalk(self.lines, self.file)
        for statement in block:
            walk.passed(statement)
        for guard in walk.out:
            if guard.kind == "except":
                continue
            text = " and ".join([*tests, f"not ({guard.text})" if guard.came_out else f"({guard.text})"])
            if len(text) <= _MAX_TEXT:
                self.add(node.test, text, False, "early_exit", guard.leaves or "raise")


class Planner:
    """Plans of the statements of one module."""

    def __init__(self, file: str, lines: Sequence[str]) -> None:
        self.file = file
        self.lines = lines
        self.kept: dict[tuple[int, int], list[Planned]] = {}

    def header(self, parent: ast.AST, block: list[ast.stmt]) -> list[Planned]:
        """The guards for getting from the start of a statement to the start of one of its blocks."""
        number = next(i for i, b in enumerate(child_blocks(parent)) if b is block)
        key = (id(parent), number)
        if key not in self.kept:
            walk = DeepWalk(self.lines, self.file)
            walk.header(parent, block)
            self.kept[key] = self.collect(walk)
        return self.kept[key]

    def passed(self, node: ast.stmt) -> list[Planned]:
        """The guards that follow from control having come out at the end of a statement."""
        key = (id(node), -1)
        if key not in self.kept:
            walk = DeepWalk(self.lines, self.file)
            walk.passed(node)
            self.kept[key] = self.collect(walk)
        return self.kept[key]

    def failed(self, node: ast.Assert) -> list[Planned]:
        """The guard of an assert that fails."""
        key = (id(node), -2)
        if key not in self.kept:
            walk = DeepWalk(self.lines, self.file)
            walk.test(node.test, False, "assert", "raise")
            self.kept[key] = self.collect(walk)
        return self.kept[key]

    def inside(self, node: ast.stmt, line: int, culprit: Culprit) -> list[Planned]:
        """The guards inside the expression of a statement that failed."""
        walk = DeepWalk(self.lines, self.file)
        walk.expression(node, line, culprit)
        walk.nodes = [None] * len(walk.out)
        return self.collect(walk)

    def side(self, test: ast.expr, came_out: bool, kind: GuardKind) -> list[Planned]:
        """The guard of a later side of `and`, `or`, `x if test else y`."""
        key = (id(test), -3 - came_out)
        if key not in self.kept:
            walk = DeepWalk(self.lines, self.file)
            walk.test(test, came_out, kind)
            self.kept[key] = self.collect(walk)
        return self.kept[key]

    def collect(self, walk: GuardWalk) -> list[Planned]:
        return [
            self.plan(guard, node)
            for guard, node in zip(walk.out, walk.nodes, strict=True)
            if guard.kind != "with" and not (guard.came_out is False and guard.text == "except BaseException")
        ]

    def plan(self, guard: Guard, node: ast.AST | None) -> Planned:
        if isinstance(node, ast.ExceptHandler):
            return Planned(guard, (Part(guard.text, "truth", True, ()),), node)
        if guard.kind == "for" and isinstance(node, ast.expr):
            return Planned(guard, (Part(guard.text, "membership", True, (node,)),))
        if isinstance(node, ast.expr):
            return Planned(guard, tuple(split_test(node, True, self.lines)))
        parsed = parse_test(guard.text)
        if parsed is None:
            return Planned(guard, (Part(guard.text, "opaque", True, ()),))
        return Planned(guard, tuple(split_test(parsed, True, f"({guard.text}\n)".split("\n"))))
