"""Expressions of the target compiled to closures `run(world, frame) -> Value`. Knows syntax; operations are `world`'s."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from triage.analysis.evaluate.values import ABSENT, LazyImport, Maybe, Unknown, Value, show

if TYPE_CHECKING:
    from triage.analysis.evaluate.frames import Frame
    from triage.analysis.evaluate.machine import Machine


Run = Callable[[Any, "Frame"], Value]


def compile_expression(node: ast.expr | None) -> Run:
    """The closure that evaluates `node`; of None it is the value None."""
    if node is None:
        return lambda w, f: None
    maker = _MAKERS.get(type(node)) or _display(type(node))
    if maker is None:
        text = type(node).__name__
        return lambda w, f: Unknown(f"?{text}", f"the syntax {text} is not evaluated")
    run: Run = maker(node)
    return run


def _display(kind: type[ast.expr]) -> Callable[..., Run] | None:
    """The maker of a list, tuple, set, dict or comprehension."""
    from triage.analysis.evaluate.displays import DISPLAYS

    return DISPLAYS.get(kind)


def _constant(node: ast.Constant) -> Run:
    value = node.value
    return lambda w, f: value


def _name(node: ast.Name) -> Run:
    name = node.id

    def run(w: Machine, f: Frame) -> Value:
        value = f.locals.get(name, ABSENT)
        if value is not ABSENT:
            if f.deps:
                deps = f.deps.get(name)
                if deps:
                    w.reads |= deps
            kind = type(value)
            if kind is LazyImport:
                return w.resolve_local(f, name, value)
            return value.value if kind is Maybe else value
        return w.lookup(f, name)

    return run


def _attribute(node: ast.Attribute) -> Run:
    base = compile_expression(node.value)
    name = node.attr
    return lambda w, f: w.get_attribute(base(w, f), name)


def _subscript(node: ast.Subscript) -> Run:
    base = compile_expression(node.value)
    index = compile_expression(node.slice)
    return lambda w, f: w.get_item(base(w, f), index(w, f))


def _slice(node: ast.Slice) -> Run:
    lower, upper, step = (compile_expression(n) for n in (node.lower, node.upper, node.step))
    return lambda w, f: slice(lower(w, f), upper(w, f), step(w, f))


def _call(node: ast.Call) -> Run:
    fn = compile_expression(node.func)
    star = any(isinstance(a, ast.Starred) for a in node.args)
    args = [(isinstance(a, ast.Starred), compile_expression(a.value if isinstance(a, ast.Starred) else a)) for a in node.args]
    plain = [run for _, run in args]
    keywords = [(k.arg, compile_expression(k.value)) for k in node.keywords]
    if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
        return lambda w, f: w.make_super(f)
    if not star and not keywords:
        return lambda w, f: w.call(fn(w, f), [one(w, f) for one in plain])

    def run(w: Machine, f: Frame) -> Value:
        target = fn(w, f)
        if star:
            values: list[Value] = []
            for starred, one in args:
                value = one(w, f)
                if starred:
                    items = w.iterate(value)
                    if items is None:
                        return Unknown(f"{show(target)}(*{show(value)})", f"called with unknown arguments: {show(value)}")
                    values.extend(items)
                else:
                    values.append(value)
        else:
            values = [one(w, f) for one in plain]
        named: dict[str, Value] = {}
        for key, one in keywords:
            value = one(w, f) if key is not None else w.to_read(one(w, f))
            if key is not None:
                named[key] = value
            elif type(value) is dict:
                named.update({str(k): v for k, v in value.items()})
            else:
                return Unknown(f"{show(target)}(**{show(value)})", f"called with unknown arguments: {show(value)}")
        return w.call(target, values, named)

    return run


def _boolop(node: ast.BoolOp) -> Run:
    is_and = isinstance(node.op, ast.And)
    from triage.analysis.evaluate.targets import compile_narrowing

    parts = [(compile_expression(v), compile_narrowing(v)) for v in node.values]
    word = " and " if is_and else " or "

    def tail(w: Machine, f: Frame, at: int) -> Value:
        run, narrow = parts[at]
        value = run(w, f)
        if at == len(parts) - 1:
            return value
        truth = w.truth(value)
        if truth is None:

            def rest(w: Machine = w, f: Frame = f) -> Value:
                narrow(w, f, is_and)
                return tail(w, f, at + 1)

            other = w.speculate(f, value, is_and, rest)
            if type(other) is bool and other is not is_and:
                return other
            picked = None if is_and else w.or_else(value, other)
            if picked is not None:
                return picked
            why = value.why if isinstance(value, Unknown) else "not known"
            implied = tuple((is_and, part, is_and) for part in (value, other) if isinstance(part, Unknown))
            return Unknown(f"({show(value)}{word}{show(other)})", why, implied=implied)
        return tail(w, f, at + 1) if truth is is_and else value

    return lambda w, f: tail(w, f, 0)


def _unary(node: ast.UnaryOp) -> Run:
    operand = compile_expression(node.operand)
    if isinstance(node.op, ast.Not):

        def invert(w: Machine, f: Frame) -> Value:
            value = operand(w, f)
            truth = w.truth(value)
            if truth is None:
                if isinstance(value, Unknown):
                    return Unknown(f"not {value.key}", value.why, implied=((True, value, False), (False, value, True)))
                return Unknown(f"not {show(value)}", "not known")
            return not truth

        return invert
    symbol = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~"}[type(node.op)]
    return lambda w, f: w.unary(symbol, operand(w, f))


_BINARY = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitOr: "|", ast.BitAnd: "&", ast.BitXor: "^", ast.MatMult: "@",
}  # fmt: skip


COMPARE = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip


def binary_symbol(op: ast.operator) -> str:
    return _BINARY[type(op)]


def _binop(node: ast.BinOp) -> Run:
    left, right, symbol = compile_expression(node.left), compile_expression(node.right), _BINARY[type(node.op)]
    return lambda w, f: w.binary(symbol, left(w, f), right(w, f))


def _compare(node: ast.Compare) -> Run:
    first = compile_expression(node.left)
    rest = [(COMPARE[type(op)], compile_expression(c)) for op, c in zip(node.ops, node.comparators, strict=True)]
    if len(rest) == 1:
        symbol, other = rest[0]
        return lambda w, f: w.compare(symbol, first(w, f), other(w, f))

    def chain(w: Machine, f: Frame) -> Value:
        left = first(w, f)
        unknown: Value = None
        result: Value = True
        for symbol, operand in rest:
            right = operand(w, f)
            result = w.compare(symbol, left, right)
            truth = w.truth(result)
            if truth is False:
                return result
            if truth is None and unknown is None:
                unknown = result
            left = right
        return result if unknown is None else unknown

    return chain


def _ifexp(node: ast.IfExp) -> Run:
    from triage.analysis.evaluate.targets import compile_narrowing

    test, then, orelse = (compile_expression(n) for n in (node.test, node.body, node.orelse))
    narrow = compile_narrowing(node.test)

    def run(w: Machine, f: Frame) -> Value:
        value = test(w, f)
        truth = w.truth(value)
        if truth is not None:
            return then(w, f) if truth else orelse(w, f)

        def yes() -> Value:
            narrow(w, f, True)
            return then(w, f)

        def no() -> Value:
            narrow(w, f, False)
            return orelse(w, f)

        return w.fork_value(f, value, yes, no)

    return run


def _joined(node: ast.JoinedStr) -> Run:
    parts: list[tuple[str | None, Run | None, int, Run | None]] = []
    for value in node.values:
        if isinstance(value, ast.Constant):
            parts.append((str(value.value), None, -1, None))
        elif isinstance(value, ast.FormattedValue):
            spec = compile_expression(value.format_spec) if value.format_spec else None
            parts.append((None, compile_expression(value.value), value.conversion, spec))

    def run(w: Machine, f: Frame) -> Value:
        out: list[str] = []
        unknown: Unknown | None = None
        for text, value, conversion, spec in parts:
            if value is None:
                out.append(text or "")
                continue
            piece = w.format(value(w, f), conversion, spec(w, f) if spec else "")
            if isinstance(piece, Unknown):
                unknown = unknown or piece
                out.append("{" + piece.key[:40] + "}")
            else:
                out.append(piece)
        whole = "".join(out)
        return whole if unknown is None else Unknown(f"text({whole})", unknown.why)

    return run


def _lambda(node: ast.Lambda) -> Run:
    from triage.analysis.evaluate.functions import compile_function

    make = compile_function(node, "<lambda>")
    return lambda w, f: make(w, f)


def _named(node: ast.NamedExpr) -> Run:
    value, name = compile_expression(node.value), node.target.id

    def run(w: Machine, f: Frame) -> Value:
        result = value(w, f)
        f.root().assign(w, name, result)
        return result

    return run


def _yield(node: ast.Yield) -> Run:
    value = compile_expression(node.value)

    def run(w: Machine, f: Frame) -> Value:
        f.root().yielded.append(value(w, f))
        return None

    return run


def _yield_from(node: ast.YieldFrom) -> Run:
    value = compile_expression(node.value)

    def run(w: Machine, f: Frame) -> Value:
        items = w.iterate(value(w, f))
        f.root().yielded.extend(items if items is not None else [Unknown("?yield from", "its items are not known")])
        return None

    return run


_MAKERS: dict[type[ast.expr], Callable[..., Run]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.Call: _call,
    ast.BoolOp: _boolop,
    ast.UnaryOp: _unary,
    ast.BinOp: _binop,
    ast.Compare: _compare,
    ast.IfExp: _ifexp,
    ast.JoinedStr: _joined,
    ast.Lambda: _lambda,
    ast.NamedExpr: _named,
    ast.Yield: _yield,
    ast.YieldFrom: _yield_from,
}
