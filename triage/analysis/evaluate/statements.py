"""Statements and functions of the target compiled to closures. A statement's closure returns None, or a `Signal`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from triage.analysis.evaluate.bindings import (
    compile_delete,
    compile_global,
    compile_import,
    compile_import_from,
    compile_nonlocal,
)
from triage.analysis.evaluate.expressions import binary_symbol, compile_expression
from triage.analysis.evaluate.functions import define_class, define_function
from triage.analysis.evaluate.patterns import compile_pattern
from triage.analysis.evaluate.search import find_search, run_search
from triage.analysis.evaluate.signals import BREAK, CONTINUE, Signal, Step
from triage.analysis.evaluate.targets import compile_narrowing, compile_target
from triage.analysis.evaluate.values import Maybe, OutOfBudget, TargetRaise, Unknown, show

if TYPE_CHECKING:
    from triage.analysis.evaluate.frames import Frame
    from triage.analysis.evaluate.machine import Machine


def compile_block(body: list[ast.stmt]) -> Step:
    """The closure that runs the statements in order; each is compiled when it is first reached."""
    steps: list[Step | None] = [None] * len(body)

    def run(w: Machine, f: Frame) -> Signal | None:
        pin = f.pin
        if pin and any(s.lineno <= pin <= (s.end_lineno or s.lineno) for s in body):
            return w.run_pinned(f, [(steps[i] or compile_statement(node), node) for i, node in enumerate(body)])
        for i, step in enumerate(steps):
            if step is None:
                step = steps[i] = compile_statement(body[i])
            signal = step(w, f)
            if signal is not None:
                return signal
        return None

    return run


def compile_statement(node: ast.stmt) -> Step:
    maker = _MAKERS.get(type(node))
    if maker is None:
        return _skip(node)
    inner: Step = maker(node)

    def run(w: Machine, f: Frame) -> Signal | None:
        f.stmt = node
        w.steps += 1
        if w.steps > w.budget:
            raise OutOfBudget
        try:
            return inner(w, f)
        except TargetRaise as exc:
            if not exc.blamed:
                exc.blamed = True
                exc.nesting = w.nesting
                exc.guards = (*w.guards, f.exit_control) if f.exit_control else w.guards
            raise

    return run


def _skip(node: ast.stmt) -> Step:
    name = type(node).__name__
    assigned = sorted({n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)})

    leaves = any(isinstance(n, (ast.Return, ast.Raise, ast.Assert, ast.Call, ast.Yield)) for n in ast.walk(node))

    def run(w: Machine, f: Frame) -> Signal | None:
        for one in assigned:
            f.assign(w, one, Unknown(f"?{one}", f"the statement {name} is not evaluated"))
        why = f"the statement {name} at {f.module.file}:{node.lineno} is not evaluated"
        w.note(why)
        if leaves:
            w.maybe(TargetRaise(Unknown(f"?{name}", why), ()), why)
        return None

    return run


def _expression(node: ast.Expr) -> Step:
    if isinstance(node.value, ast.Constant):
        return lambda w, f: None
    value = compile_expression(node.value)

    def run(w: Machine, f: Frame) -> Signal | None:
        if f.proven:
            w.mark_printed(f, node)
        saved, w.reads = w.reads, set()
        try:
            value(w, f)
        finally:
            w.reads = saved
        return None

    return run


def _assign(node: ast.Assign) -> Step:
    value = compile_expression(node.value)
    targets = [compile_target(t) for t in node.targets]

    def run(w: Machine, f: Frame) -> Signal | None:
        saved, w.reads = w.reads, set()
        try:
            result = value(w, f)
            for target in targets:
                target(w, f, result)
        finally:
            w.reads = saved
        return None

    return run


def _annassign(node: ast.AnnAssign) -> Step:
    name = node.target.id if isinstance(node.target, ast.Name) and node.simple else None
    annotation = node.annotation
    value = compile_expression(node.value) if node.value else None
    target = compile_target(node.target)

    def run(w: Machine, f: Frame) -> Signal | None:
        if f.class_annotations is not None and name:
            f.class_annotations[name] = annotation
        if value is not None:
            with w.reading():
                target(w, f, value(w, f))
        return None

    return run


def _augassign(node: ast.AugAssign) -> Step:
    load = ast.copy_location(_as_load(node.target), node.target)
    read, value, store = compile_expression(load), compile_expression(node.value), compile_target(node.target)
    symbol = binary_symbol(node.op)

    def run(w: Machine, f: Frame) -> Signal | None:
        with w.reading():
            store(w, f, w.in_place(symbol, read(w, f), value(w, f)))
        return None

    return run


def _as_load(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Name):
        return ast.Name(node.id, ast.Load())
    if isinstance(node, ast.Attribute):
        return ast.Attribute(node.value, node.attr, ast.Load())
    if isinstance(node, ast.Subscript):
        return ast.Subscript(node.value, node.slice, ast.Load())
    return node


_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def _leaves(body: Sequence[ast.AST]) -> bool:
    """Whether control may leave the block by return, break or continue (not by an exception)."""
    for node in body:
        if isinstance(node, (ast.Return, ast.Break, ast.Continue)):
            return True
        if any(_leaves(node.__dict__.get(name, ())) for name in _BLOCKS) and not isinstance(node, _DEFINITIONS):
            return True
    return False


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _if(node: ast.If) -> Step:
    test = compile_expression(node.test)
    narrow = compile_narrowing(node.test)
    then, orelse = compile_block(node.body), compile_block(node.orelse)
    exits = _leaves(node.body) or _leaves(node.orelse)
    spans = (
        (node.body[0].lineno, node.body[-1].end_lineno or 0),
        (node.orelse[0].lineno, node.orelse[-1].end_lineno or 0) if node.orelse else (0, -1),
    )

    def run(w: Machine, f: Frame) -> Signal | None:
        saved, w.reads = w.reads, set()
        try:
            value = test(w, f)
            reads = frozenset(w.reads)
        finally:
            w.reads = saved
        truth = value if value is True or value is False else w.truth(value)
        if f.pin or f.proven:
            truth = w.decide_by_log(f, value, narrow, truth, spans)
        before = w.enter_guard(reads)
        if exits:
            f.exit_control |= reads
        try:
            if truth is not None:
                return (then if truth else orelse)(w, f)

            def yes() -> Signal | None:
                narrow(w, f, True)
                return then(w, f)

            def no() -> Signal | None:
                narrow(w, f, False)
                return orelse(w, f)

            return w.fork(f, value, yes, no)
        finally:
            w.leave_guard(before)

    return run


def _for(node: ast.For) -> Step:
    search = find_search(node)
    source, target = compile_expression(node.iter), compile_target(node.target)
    body, orelse = compile_block(node.body), compile_block(node.orelse)

    def run(w: Machine, f: Frame) -> Signal | None:
        with w.reading():
            value = source(w, f)
            reads = frozenset(w.reads)
        items = w.iterate(value)
        if search is not None and items is not None and not f.pin:
            found = run_search(w, f, items, f.locals.get(search[0]), search[1], search[2])
            if found is not False:
                return found if isinstance(found, Signal) else None
        before = w.enter_guard(reads)
        try:
            if items is None:
                unknown = value if isinstance(value, Unknown) else Unknown(show(value), "its items are not known")
                items = [Maybe(Unknown(f"item of {unknown.key}", unknown.why), unknown.why)]
            return w.loop(f, items, lambda item: target(w, f, item), body, orelse)
        finally:
            w.leave_guard(before)

    return run


def _while(node: ast.While) -> Step:
    test, body, orelse = compile_expression(node.test), compile_block(node.body), compile_block(node.orelse)

    def run(w: Machine, f: Frame) -> Signal | None:
        return w.loop_while(f, lambda: test(w, f), body, orelse)

    return run


def _return(node: ast.Return) -> Step:
    value = compile_expression(node.value)

    def run(w: Machine, f: Frame) -> Signal | None:
        saved, w.reads = w.reads, set()
        try:
            return Signal("return", value(w, f), frozenset(w.reads))
        finally:
            w.reads = saved

    return run


def _raise(node: ast.Raise) -> Step:
    value = compile_expression(node.exc)
    bare = node.exc is None

    def run(w: Machine, f: Frame) -> Signal | None:
        if bare:
            raise f.handling() or TargetRaise(RuntimeError, ("No active exception to reraise",))
        with w.reading():
            exc = w.make_exception(value(w, f))
            exc.mentions = frozenset(w.reads)
        raise exc

    return run


def _assert(node: ast.Assert) -> Step:
    test, message = compile_expression(node.test), compile_expression(node.msg)
    narrow = compile_narrowing(node.test)
    has_message = node.msg is not None

    def run(w: Machine, f: Frame) -> Signal | None:
        with w.reading():
            value = test(w, f)
            reads = frozenset(w.reads)
        truth = w.truth(value)
        if truth is True:
            return None

        def fail() -> Signal | None:
            narrow(w, f, False)
            exc = TargetRaise(AssertionError, (message(w, f),) if has_message else ())
            exc.reads = reads
            raise exc

        if truth is False:
            fail()

        def hold() -> Signal | None:
            narrow(w, f, True)
            return None

        return w.fork(f, value, hold, fail)

    return run


def _try(node: ast.Try) -> Step:
    body, orelse, final = compile_block(node.body), compile_block(node.orelse), compile_block(node.finalbody)
    handlers = [(compile_expression(h.type) if h.type else None, h.name, compile_block(h.body)) for h in node.handlers]
    spans = [(h.lineno, h.body[-1].end_lineno or 0) for h in node.handlers]

    def run(w: Machine, f: Frame) -> Signal | None:
        pinned = next((i for i, (first, last) in enumerate(spans) if first <= f.pin <= last), None) if f.pin else None
        return w.run_try(f, body, handlers, orelse, final, pinned)

    return run


def _with(node: ast.With) -> Step:
    items = [
        (compile_expression(i.context_expr), compile_target(i.optional_vars) if i.optional_vars else None) for i in node.items
    ]
    body = compile_block(node.body)

    def run(w: Machine, f: Frame) -> Signal | None:
        managers = []
        for source, target in items:
            manager = source(w, f)
            entered = w.enter(manager)
            managers.append(manager)
            if target is not None:
                target(w, f, entered)
        return w.run_with(f, managers, body)

    return run


def _match(node: ast.Match) -> Step:
    subject = compile_expression(node.subject)
    cases = [
        (compile_pattern(c.pattern), compile_expression(c.guard) if c.guard else None, compile_block(c.body)) for c in node.cases
    ]

    def run(w: Machine, f: Frame) -> Signal | None:
        value = subject(w, f)

        def attempt(at: int) -> Signal | None:
            if at == len(cases):
                return None
            test, guard, body = cases[at]
            result = test(w, f, value)
            if guard is not None and w.truth(result) is not False:
                second = guard(w, f)
                result = second if w.truth(result) is True or w.truth(second) is False else result
            truth = w.truth(result)
            if truth is None:
                return w.fork(f, result, lambda: body(w, f), lambda: attempt(at + 1))
            return body(w, f) if truth else attempt(at + 1)

        return attempt(0)

    return run


_MAKERS: dict[type[ast.stmt], Callable[..., Step]] = {
    ast.Expr: _expression,
    ast.Assign: _assign,
    ast.AnnAssign: _annassign,
    ast.AugAssign: _augassign,
    ast.If: _if,
    ast.For: _for,
    ast.While: _while,
    ast.Return: _return,
    ast.Raise: _raise,
    ast.Assert: _assert,
    ast.Try: _try,
    ast.With: _with,
    ast.Import: compile_import,
    ast.ImportFrom: compile_import_from,
    ast.Delete: compile_delete,
    ast.Global: compile_global,
    ast.Nonlocal: compile_nonlocal,
    ast.FunctionDef: define_function,
    ast.AsyncFunctionDef: define_function,
    ast.ClassDef: define_class,
    ast.Match: _match,
    ast.Pass: lambda node: lambda w, f: None,
    ast.Break: lambda node: lambda w, f: BREAK,
    ast.Continue: lambda node: lambda w, f: CONTINUE,
}
