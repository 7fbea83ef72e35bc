"""What a failing statement demands: the test that must come out true for control to pass it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from triage.analysis.flow import one_line
from triage.analysis.guards import Culprit, can_fail
from triage.analysis.reading import parse_lines
from triage.analysis.source import called_name
from triage.model import Guard, Site

_MAX_OPERANDS = 3


def failing_condition(site: Site, exception: str | None = None, message: str = "") -> str | None:
    """The source of the test that must come out true for the site to pass; None where the site does not tell.

    For an assert its own test; for a raise the innermost guards turned round (all tests before an `else` as one); for an
    expression that failed on None, zero or a missing key, what must be so of its operands (needs exception and message).
    The guards of the site must be filled in (`complete_path`).
    """
    node, lines = parse_site(site)
    name = (exception or "").rpartition(".")[2]
    if isinstance(node, ast.Assert) and name in ("", "AssertionError"):
        return one_line(lines, node.test)
    if isinstance(node, ast.Raise) and (not name or node.exc is None or called_name(node.exc) == name):
        return _turned(site.guards)
    return _operands(node, lines, site, Culprit(exception, message)) if node is not None and name else None


def parse_site(site: Site) -> tuple[ast.stmt | None, tuple[str, ...]]:
    """The site's statement as a tree of its own (line 1 is its first line) and the lines that it was parsed from."""
    text = site.text
    if text.startswith("elif"):
        text = "if" + text[4:]
    for rewriting in (False, True):
        for whole in (text, f"{text} pass", f"{text}\n    pass"):
            parsed = parse_lines(whole, rewriting)
            if parsed is not None and parsed.tree.body:
                return parsed.tree.body[0], parsed.lines
    return None, ()


def _turned(guards: tuple[Guard, ...]) -> str | None:
    """The negation of the innermost tests that led to an unconditional raise."""
    left = [g for g in guards if g.kind not in ("with", "for", "assert") and not (g.kind == "early_exit" and g.leaves == "raise")]
    if not left or left[-1].kind == "except":
        return None
    last = left[-1]
    if last.came_out:
        return f"not ({last.text})"
    needs = [last.text]
    for guard in reversed(left[:-1]):
        chained = last.kind == "elif" and guard.kind in ("if", "elif")
        beside = last.kind == guard.kind == "early_exit"
        if guard.came_out or not (chained or beside):
            break
        needs.append(guard.text)
        last = guard
    return needs[0] if len(needs) == 1 else " or ".join(f"({n})" for n in reversed(needs))


def _operands(node: ast.stmt, lines: tuple[str, ...], site: Site, culprit: Culprit) -> str | None:
    roots = [n for n in ast.iter_child_nodes(node) if not isinstance(n, ast.stmt)]
    found = [n for root in roots for n in ast.walk(root) if isinstance(n, ast.expr) and can_fail(n, culprit)]
    if site.at is not None:
        line = site.at - site.location.line + 1
        found = [n for n in found if n.lineno <= line <= (n.end_lineno or n.lineno)] or found
    needs = list(dict.fromkeys(need for n in found for need in _needs(n, lines, culprit)))
    if not needs or len(needs) > _MAX_OPERANDS:
        return None
    return needs[0] if len(needs) == 1 else " and ".join(f"({n})" for n in needs)


def _needs(node: ast.expr, lines: tuple[str, ...], culprit: Culprit) -> Iterator[str]:
    """What must be so of the operands of one expression for it not to raise this; nothing where the message tells nothing."""

    def text(part: ast.expr) -> str:
        plain = isinstance(part, ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.Constant)
        return one_line(lines, part) if plain else f"({one_line(lines, part)})"

    def present(*parts: ast.expr) -> Iterator[str]:
        for part in parts:
            if not isinstance(part, ast.Constant):
                yield f"{text(part)} is not None"

    name = (culprit.exception or "").rpartition(".")[2]
    nothing = "'NoneType'" in culprit.message
    if name == "TypeError" and nothing:
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for a, op, b in zip(sides, node.ops, sides[1:], strict=False):
                if isinstance(op, ast.In | ast.NotIn):
                    yield from present(b)
                else:
                    yield from present(*_named(a, b, culprit.message))
        elif isinstance(node, ast.BinOp):
            yield from present(*_named(node.left, node.right, culprit.message))
        elif isinstance(node, ast.Subscript):
            yield from present(node.value)
        elif isinstance(node, ast.Call) and node.args and (called_name(node) or "") + "()" in culprit.message:
            yield from present(node.args[0])
    elif name == "AttributeError" and nothing and isinstance(node, ast.Attribute):
        yield from present(node.value)
    elif name == "ZeroDivisionError" and isinstance(node, ast.BinOp):
        if not isinstance(node.right, ast.Constant):
            yield f"{text(node.right)} != 0"
    elif name == "KeyError" and isinstance(node, ast.Subscript):
        yield f"{text(node.slice)} in {text(node.value)}"


def _named(left: ast.expr, right: ast.expr, message: str) -> list[ast.expr]:
    """The operands that the message calls None: "... between instances of 'NoneType' and 'int'"."""
    before, _, after = message.rpartition(" and ")
    return [side for side, words in ((left, before), (right, after)) if "'NoneType'" in words]
