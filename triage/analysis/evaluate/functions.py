"""Functions and classes of the target: compiled when first called, made where their definition is reached."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from triage.analysis.evaluate.expressions import compile_expression
from triage.analysis.evaluate.signals import Signal, Step
from triage.analysis.evaluate.values import Class, Func, Unknown, Value
from triage.analysis.outline import fill_body, may_yield

if TYPE_CHECKING:
    from triage.analysis.evaluate.frames import Frame
    from triage.analysis.evaluate.machine import Machine


@dataclass(frozen=True)
class Code:
    """A compiled function body with its parameters."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    positional: tuple[str, ...]
    vararg: str | None
    keyword_only: tuple[str, ...]
    kwarg: str | None
    body: Step
    is_generator: bool
    is_async: bool
    line: int
    end: int
    is_plain: bool  # takes its positional parameters and nothing else


_CODE = "_triage_code"  # the attribute of a definition that keeps its compiled form


def code_of(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Code:
    """Compiled on the first call: most functions of a module are never called."""
    held: Code | None = node.__dict__.get(_CODE)
    if held is not None:
        return held
    from triage.analysis.evaluate.statements import compile_block

    args = node.args
    if isinstance(node, ast.Lambda):
        value = compile_expression(node.body)
        body: Step = lambda w, f: Signal("return", value(w, f))  # noqa: E731
    elif fill_body(node):
        body = compile_block(node.body)
    else:
        unread = Unknown(f"{node.name}()", f"the body of {node.name} (line {node.lineno}) cannot be read")
        body = lambda w, f: Signal("return", unread)  # noqa: E731
    inside = _own_nodes(node) if may_yield(node) else []
    code = Code(
        node,
        tuple(a.arg for a in [*args.posonlyargs, *args.args]),
        args.vararg.arg if args.vararg else None,
        tuple(a.arg for a in args.kwonlyargs),
        args.kwarg.arg if args.kwarg else None,
        body,
        any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in inside),
        isinstance(node, ast.AsyncFunctionDef),
        node.lineno,
        node.end_lineno or node.lineno,
        not (args.vararg or args.kwarg or args.kwonlyargs),
    )
    setattr(node, _CODE, code)
    return code


def _own_nodes(node: ast.AST) -> list[ast.AST]:
    out: list[ast.AST] = []
    todo = list(ast.iter_child_nodes(node))
    while todo:
        one = todo.pop()
        out.append(one)
        if not isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            todo.extend(ast.iter_child_nodes(one))
    return out


def compile_function(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, name: str) -> Callable[[Machine, Frame], Value]:
    """The closure that makes the function object where its definition is reached."""
    defaults = [compile_expression(d) for d in node.args.defaults]
    kw_defaults = [(a.arg, compile_expression(d)) for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if d]

    def run(w: Machine, f: Frame) -> Value:
        qualname = f"{f.qualname}.{name}" if f.class_annotations is not None else name
        closure = f.closure if f.class_annotations is not None else ((f.locals, *f.closure) if f.is_function else f.closure)
        return Func(
            name,
            qualname,
            node,
            f.module,
            closure,
            tuple(d(w, f) for d in defaults),
            {key: d(w, f) for key, d in kw_defaults},
        )

    return run


def define_function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Step:
    make = compile_function(node, node.name)
    decorators = [compile_expression(d) for d in reversed(node.decorator_list)]

    def run(w: Machine, f: Frame) -> Signal | None:
        value = make(w, f)
        for decorator in decorators:
            value = w.decorate(decorator(w, f), value)
        f.assign(w, node.name, value)
        return None

    return run


def define_class(node: ast.ClassDef) -> Step:
    from triage.analysis.evaluate.statements import compile_block

    bases = [compile_expression(b) for b in node.bases]
    keywords = [(k.arg, compile_expression(k.value)) for k in node.keywords if k.arg]
    body = compile_block(node.body)
    decorators = [compile_expression(d) for d in reversed(node.decorator_list)]

    def run(w: Machine, f: Frame) -> Signal | None:
        options = {key: value(w, f) for key, value in keywords}
        cls: Class = w.make_class(f, node, tuple(b(w, f) for b in bases), options, body)
        value: Value = cls
        for decorator in decorators:
            value = w.decorate(decorator(w, f), value)
        f.assign(w, node.name, value)
        return None

    return run
