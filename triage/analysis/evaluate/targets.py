"""Targets of assignments, and what the outcome of a test says about the names in it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from triage.analysis.evaluate.expressions import COMPARE, compile_expression
from triage.analysis.evaluate.values import Value

if TYPE_CHECKING:
    from triage.analysis.evaluate.frames import Frame
    from triage.analysis.evaluate.machine import Machine


Store = Callable[[Any, "Frame", Value], None]


def compile_target(node: ast.expr) -> Store:
    """The closure that assigns to a name, attribute, subscript or pattern of these."""
    if isinstance(node, ast.Name):
        name = node.id
        return lambda w, f, v: f.assign(w, name, v)
    if isinstance(node, ast.Attribute):
        base, attr = compile_expression(node.value), node.attr
        return lambda w, f, v: w.set_attribute(base(w, f), attr, v)
    if isinstance(node, ast.Subscript):
        base, index = compile_expression(node.value), compile_expression(node.slice)
        return lambda w, f, v: w.set_item(base(w, f), index(w, f), v)
    if isinstance(node, ast.Starred):
        return compile_target(node.value)
    if isinstance(node, (ast.Tuple, ast.List)):
        parts = [compile_target(e) for e in node.elts]
        star = next((i for i, e in enumerate(node.elts) if isinstance(e, ast.Starred)), None)

        def unpack(w: Machine, f: Frame, value: Value) -> None:
            items = w.unpack(value, len(parts), star)
            for part, item in zip(parts, items, strict=True):
                part(w, f, item)

        return unpack
    return lambda w, f, v: None


Narrow = Callable[[Any, "Frame", bool], None]


def compile_narrowing(node: ast.expr) -> Narrow:
    """The closure that records what follows from `node` having come out true or false: `x is None`, `x == "a"`, ..."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = compile_narrowing(node.operand)
        return lambda w, f, truth: inner(w, f, not truth)
    if isinstance(node, ast.BoolOp):
        parts = [compile_narrowing(v) for v in node.values]
        decides = isinstance(node.op, ast.And)

        def each(w: Machine, f: Frame, truth: bool) -> None:
            if truth is decides:
                for part in parts:
                    part(w, f, truth)

        return each
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.left, (ast.Name, ast.Attribute)):
        symbol = COMPARE[type(node.ops[0])]
        right = node.comparators[0]
        if _is_plain(right):
            read, store, other = compile_expression(node.left), compile_target(node.left), compile_expression(right)
            return lambda w, f, truth: w.narrow(f, read, store, lambda v: w.compare(symbol, v, other(w, f)), symbol, other, truth)
        return lambda w, f, truth: None
    if isinstance(node, (ast.Name, ast.Attribute)):
        read, store = compile_expression(node), compile_target(node)
        return lambda w, f, truth: w.narrow(f, read, store, lambda v: v, "", None, truth)
    return lambda w, f, truth: None


def _is_plain(node: ast.expr) -> bool:
    """Literals and names only: evaluated a second time they have no effect."""
    return all(
        isinstance(n, (ast.Constant, ast.Name, ast.Attribute, ast.List, ast.Tuple, ast.Set, ast.Load, ast.UnaryOp, ast.USub))
        for n in ast.walk(node)
    )
