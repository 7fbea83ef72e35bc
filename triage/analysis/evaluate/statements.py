"""Statements and functions of the target compiled to closures. A statement's closure returns None, or a `Signal`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from triage.analysis.evaluate.expressions import binary_symbol, compile_expression, compile_narrowing, compile_target
from triage.analysis.evaluate.patterns import compile_pattern
from triage.analysis.evaluate.values import ABSENT, Class, Func, LazyImport, Maybe, TargetRaise, Unknown, Value, join, show

if TYPE_CHECKING:
    from triage.analysis.evaluate.world import Frame, World


class Signal:
    """How control leaves a statement: "return" with a value, "break" or "continue"."""

    __slots__ = ("kind", "reads", "value")

    def __init__(self, kind: str, value: Value = None, reads: frozenset[str] = frozenset()) -> None:
        self.kind = kind
        self.value = value
        self.reads = reads  # what the value was made from


BREAK, CONTINUE = Signal("break"), Signal("continue")
Step = Callable[["World", "Frame"], Signal | None]


def compile_block(body: list[ast.stmt]) -> Step:
    """The closure that runs the statements in order."""
    steps = [compile_statement(s) for s in body]
    pairs = list(zip(steps, body, strict=True))

    def run(w: World, f: Frame) -> Signal | None:
        pin = f.pin
        if pin and any(s.lineno <= pin <= (s.end_lineno or s.lineno) for s in body):
            return w.run_pinned(f, pairs)
        for step in steps:
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

    def run(w: World, f: Frame) -> Signal | None:
        f.stmt = node
        w.tick()
        try:
            return inner(w, f)
        except TargetRaise as exc:
            if not exc.blamed:
                exc.blamed = True
                exc.guards = (*w.guards, f.exit_control) if f.exit_control else w.guards
            raise

    return run


def _skip(node: ast.stmt) -> Step:
    name = type(node).__name__
    assigned = sorted({n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)})

    leaves = any(isinstance(n, (ast.Return, ast.Raise, ast.Assert, ast.Call, ast.Yield)) for n in ast.walk(node))

    def run(w: World, f: Frame) -> Signal | None:
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

    def run(w: World, f: Frame) -> Signal | None:
        with w.reading():
            value(w, f)
        return None

    return run


def _assign(node: ast.Assign) -> Step:
    value = compile_expression(node.value)
    targets = [compile_target(t) for t in node.targets]

    def run(w: World, f: Frame) -> Signal | None:
        with w.reading():
            result = value(w, f)
            for target in targets:
                target(w, f, result)
        return None

    return run


def _annassign(node: ast.AnnAssign) -> Step:
    name = node.target.id if isinstance(node.target, ast.Name) and node.simple else None
    annotation = node.annotation
    value = compile_expression(node.value) if node.value else None
    target = compile_target(node.target)

    def run(w: World, f: Frame) -> Signal | None:
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

    def run(w: World, f: Frame) -> Signal | None:
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


def _leaves(body: list[ast.stmt]) -> bool:
    """Whether control may leave the block by return, break or continue (not by an exception)."""
    return any(isinstance(n, (ast.Return, ast.Break, ast.Continue)) for s in body for n in ast.walk(s))


def _if(node: ast.If) -> Step:
    test = compile_expression(node.test)
    narrow = compile_narrowing(node.test)
    then, orelse = compile_block(node.body), compile_block(node.orelse)
    exits = _leaves(node.body) or _leaves(node.orelse)
    spans = (
        (node.body[0].lineno, node.body[-1].end_lineno or 0),
        (node.orelse[0].lineno, node.orelse[-1].end_lineno or 0) if node.orelse else (0, -1),
    )

    def run(w: World, f: Frame) -> Signal | None:
        with w.reading():
            value = test(w, f)
            reads = frozenset(w.reads)
        truth = w.truth(value)
        if f.pin:
            for side, (first, last) in zip((True, False), spans, strict=True):
                if first <= f.pin <= last and truth is not side:
                    w.observe(f, value, narrow, side, truth)
                    truth = side
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


def _mapping_search(node: ast.For) -> tuple[str, int, int] | None:
    """`for a, b in items: if name in b: return b[name]`: (name, place of b, number of parts), else None."""
    test = node.body[0] if len(node.body) == 1 and not node.orelse else None
    if not isinstance(test, ast.If) or test.orelse or len(test.body) != 1 or not isinstance(test.body[0], ast.Return):
        return None
    found, back = test.test, test.body[0].value
    if not (isinstance(found, ast.Compare) and len(found.ops) == 1 and isinstance(found.ops[0], ast.In)):
        return None
    key, box = found.left, found.comparators[0]
    if not (isinstance(key, ast.Name) and isinstance(box, ast.Name) and isinstance(back, ast.Subscript)):
        return None
    if ast.dump(back.value) != ast.dump(box) or ast.dump(back.slice) != ast.dump(key) or not isinstance(node.target, ast.Tuple):
        return None
    names = [e.id for e in node.target.elts if isinstance(e, ast.Name)]
    if len(names) != len(node.target.elts) or box.id not in names or key.id in names:
        return None
    return key.id, names.index(box.id), len(names)


def _search_natively(w: World, f: Frame, items: list[Value], key: Value, at: int, size: int) -> Signal | bool | None:
    """The search loop in one go; False where an item is not plainly known and the loop has to be evaluated."""
    if type(key) is not str:
        return False
    perhaps: list[tuple[Value, str]] = []
    for item in items:
        why = ""
        if type(item) is Maybe:
            item, why = item.value, item.why
        if type(item) is not tuple or len(item) != size or type(item[at]) is not dict:
            return False
        held = item[at].get(key, ABSENT)
        if type(held) is Maybe:
            held, why = held.value, held.why
        if held is ABSENT:
            continue
        if why:
            perhaps.append((held, why))
            continue
        for value, reason in reversed(perhaps):
            held = join(value, held, reason)
        return Signal("return", held)
    for value, reason in perhaps:
        w.leave_maybe(f, Signal("return", value), reason)
    return None


def _for(node: ast.For) -> Step:
    search = _mapping_search(node)
    source, target = compile_expression(node.iter), compile_target(node.target)
    body, orelse = compile_block(node.body), compile_block(node.orelse)

    def run(w: World, f: Frame) -> Signal | None:
        with w.reading():
            value = source(w, f)
            reads = frozenset(w.reads)
        items = w.iterate(value)
        if search is not None and items is not None and not f.pin:
            found = _search_natively(w, f, items, f.locals.get(search[0]), search[1], search[2])
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

    def run(w: World, f: Frame) -> Signal | None:
        return w.loop_while(f, lambda: test(w, f), body, orelse)

    return run


def _return(node: ast.Return) -> Step:
    value = compile_expression(node.value)

    def run(w: World, f: Frame) -> Signal | None:
        with w.reading():
            return Signal("return", value(w, f), frozenset(w.reads))

    return run


def _raise(node: ast.Raise) -> Step:
    value = compile_expression(node.exc)
    bare = node.exc is None

    def run(w: World, f: Frame) -> Signal | None:
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

    def run(w: World, f: Frame) -> Signal | None:
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
    span = (node.body[0].lineno, node.body[-1].end_lineno or 0)

    def run(w: World, f: Frame) -> Signal | None:
        pinned_handlers = bool(f.pin) and not span[0] <= f.pin <= span[1] and f.stmt_holds_pin(node)
        return w.run_try(f, body, handlers, orelse, final, pinned_handlers)

    return run


def _with(node: ast.With) -> Step:
    items = [
        (compile_expression(i.context_expr), compile_target(i.optional_vars) if i.optional_vars else None) for i in node.items
    ]
    body = compile_block(node.body)

    def run(w: World, f: Frame) -> Signal | None:
        managers = []
        for source, target in items:
            manager = source(w, f)
            entered = w.enter(manager)
            managers.append(manager)
            if target is not None:
                target(w, f, entered)
        return w.run_with(f, managers, body)

    return run


def _import(node: ast.Import) -> Step:
    def run(w: World, f: Frame) -> Signal | None:
        for alias in node.names:
            w.require(alias.name, f)
            module = w.import_module(alias.name)
            if alias.asname:
                f.assign(w, alias.asname, module)
            else:
                f.assign(w, alias.name.split(".")[0], w.import_module(alias.name.split(".")[0]))
        return None

    return run


def _import_from(node: ast.ImportFrom) -> Step:
    def run(w: World, f: Frame) -> Signal | None:
        base = w.absolute_name(f.module, node.module or "", node.level)
        w.require(base, f)
        for alias in node.names:
            if alias.name == "*":
                w.import_star(f, base)
            else:
                w.preload(base, alias.name)
                f.assign(w, alias.asname or alias.name, LazyImport(base, alias.name))
        return None

    return run


def _delete(node: ast.Delete) -> Step:
    def run(w: World, f: Frame) -> Signal | None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                w.heap.delete(f.locals, target.id)
            elif isinstance(target, ast.Attribute):
                w.delete_attribute(compile_expression(target.value)(w, f), target.attr)
            elif isinstance(target, ast.Subscript):
                w.delete_item(compile_expression(target.value)(w, f), compile_expression(target.slice)(w, f))
        return None

    return run


def _global(node: ast.Global) -> Step:
    def run(w: World, f: Frame) -> Signal | None:
        f.globals |= set(node.names)
        return None

    return run


def _nonlocal(node: ast.Nonlocal) -> Step:
    def run(w: World, f: Frame) -> Signal | None:
        f.nonlocals |= set(node.names)
        return None

    return run


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


_code_cache: dict[int, tuple[ast.AST, Code]] = {}


def _code_of(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Code:
    """Compiled on the first call: most functions of a module are never called."""
    hit = _code_cache.get(id(node))
    if hit is not None and hit[0] is node:
        return hit[1]
    args = node.args
    if isinstance(node, ast.Lambda):
        value = compile_expression(node.body)
        body: Step = lambda w, f: Signal("return", value(w, f))  # noqa: E731
    else:
        body = compile_block(node.body)
    inside = list(_own_nodes(node))
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
    )
    _code_cache[id(node)] = (node, code)
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


def code_of(func: Func) -> Code:
    return _code_of(func.code)


def compile_function(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, name: str) -> Callable[[World, Frame], Value]:
    """The closure that makes the function object where its definition is reached."""
    defaults = [compile_expression(d) for d in node.args.defaults]
    kw_defaults = [(a.arg, compile_expression(d)) for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if d]

    def run(w: World, f: Frame) -> Value:
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


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Step:
    make = compile_function(node, node.name)
    decorators = [compile_expression(d) for d in reversed(node.decorator_list)]

    def run(w: World, f: Frame) -> Signal | None:
        value = make(w, f)
        for decorator in decorators:
            value = w.decorate(decorator(w, f), value)
        f.assign(w, node.name, value)
        return None

    return run


def _class(node: ast.ClassDef) -> Step:
    bases = [compile_expression(b) for b in node.bases]
    keywords = [(k.arg, compile_expression(k.value)) for k in node.keywords if k.arg]
    body = compile_block(node.body)
    decorators = [compile_expression(d) for d in reversed(node.decorator_list)]

    def run(w: World, f: Frame) -> Signal | None:
        options = {key: value(w, f) for key, value in keywords}
        cls: Class = w.make_class(f, node, tuple(b(w, f) for b in bases), options, body)
        value: Value = cls
        for decorator in decorators:
            value = w.decorate(decorator(w, f), value)
        f.assign(w, node.name, value)
        return None

    return run


def _match(node: ast.Match) -> Step:
    subject = compile_expression(node.subject)
    cases = [(compile_pattern(c.pattern), compile_expression(c.guard) if c.guard else None, compile_block(c.body)) for c in node.cases]

    def run(w: World, f: Frame) -> Signal | None:
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
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.Delete: _delete,
    ast.Global: _global,
    ast.Nonlocal: _nonlocal,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.ClassDef: _class,
    ast.Match: _match,
    ast.Pass: lambda node: lambda w, f: None,
    ast.Break: lambda node: lambda w, f: BREAK,
    ast.Continue: lambda node: lambda w, f: CONTINUE,
}
__all__ = ["ABSENT", "BREAK", "CONTINUE", "Code", "Signal", "Step", "code_of", "compile_block", "compile_function"]
