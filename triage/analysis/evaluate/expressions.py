"""Expressions of the target compiled to closures `run(world, frame) -> Value`. Knows syntax; operations are `world`'s."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from triage.analysis.evaluate.values import ABSENT, LazyImport, Maybe, Unknown, Value, show

if TYPE_CHECKING:
    from triage.analysis.evaluate.world import Frame, World

Run = Callable[["World", "Frame"], Value]


def compile_expression(node: ast.expr | None) -> Run:
    """The closure that evaluates `node`; of None it is the value None."""
    if node is None:
        return lambda w, f: None
    maker = _MAKERS.get(type(node))
    if maker is None:
        text = type(node).__name__
        return lambda w, f: Unknown(f"?{text}", f"the syntax {text} is not evaluated")
    run: Run = maker(node)
    return run


def _constant(node: ast.Constant) -> Run:
    value = node.value
    return lambda w, f: value


def _name(node: ast.Name) -> Run:
    name = node.id

    def run(w: World, f: Frame) -> Value:
        value = f.locals.get(name, ABSENT)
        if value is not ABSENT:
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
    is_super = isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args

    def run(w: World, f: Frame) -> Value:
        if is_super:
            return w.make_super(f)
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
            value = one(w, f)
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
    parts = [(compile_expression(v), compile_narrowing(v)) for v in node.values]
    word = " and " if is_and else " or "

    def tail(w: World, f: Frame, at: int) -> Value:
        run, narrow = parts[at]
        value = run(w, f)
        if at == len(parts) - 1:
            return value
        truth = w.truth(value)
        if truth is None:

            def rest(w: World = w, f: Frame = f) -> Value:
                narrow(w, f, is_and)
                return tail(w, f, at + 1)

            other = w.speculate(f, value, is_and, rest)
            if type(other) is bool and other is not is_and:
                return other
            return Unknown(f"({show(value)}{word}{show(other)})", value.why if isinstance(value, Unknown) else "not known")
        return tail(w, f, at + 1) if truth is is_and else value

    return lambda w, f: tail(w, f, 0)


def _unary(node: ast.UnaryOp) -> Run:
    operand = compile_expression(node.operand)
    if isinstance(node.op, ast.Not):

        def invert(w: World, f: Frame) -> Value:
            value = operand(w, f)
            truth = w.truth(value)
            if truth is None:
                key = value.key if isinstance(value, Unknown) else show(value)
                return Unknown(f"not {key}", value.why if isinstance(value, Unknown) else "not known")
            return not truth

        return invert
    symbol = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~"}[type(node.op)]
    return lambda w, f: w.unary(symbol, operand(w, f))


_BINARY = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitOr: "|", ast.BitAnd: "&", ast.BitXor: "^", ast.MatMult: "@",
}  # fmt: skip
_COMPARE = {
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
    rest = [(_COMPARE[type(op)], compile_expression(c)) for op, c in zip(node.ops, node.comparators, strict=True)]
    if len(rest) == 1:
        symbol, other = rest[0]
        return lambda w, f: w.compare(symbol, first(w, f), other(w, f))

    def chain(w: World, f: Frame) -> Value:
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
    test, then, orelse = (compile_expression(n) for n in (node.test, node.body, node.orelse))
    narrow = compile_narrowing(node.test)

    def run(w: World, f: Frame) -> Value:
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

    def run(w: World, f: Frame) -> Value:
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


def _sequence(node: ast.List | ast.Tuple | ast.Set) -> Run:
    items = [(isinstance(e, ast.Starred), compile_expression(e.value if isinstance(e, ast.Starred) else e)) for e in node.elts]
    make = {ast.List: list, ast.Tuple: tuple, ast.Set: set}[type(node)]

    def run(w: World, f: Frame) -> Value:
        out: list[Value] = []
        for starred, one in items:
            value = one(w, f)
            if starred:
                more = w.iterate(value)
                if more is None:
                    return Unknown(f"[*{show(value)}]", f"its length depends on {show(value)}")
                out.extend(more)
            else:
                out.append(value)
        return w.native(make, out)

    return run


def _dict(node: ast.Dict) -> Run:
    items = [
        (None if k is None else compile_expression(k), compile_expression(v)) for k, v in zip(node.keys, node.values, strict=True)
    ]

    def run(w: World, f: Frame) -> Value:
        out: dict[Value, Value] = {}
        for key, value in items:
            if key is None:
                more = value(w, f)
                if type(more) is not dict:
                    return Unknown(f"{{**{show(more)}}}", f"its keys depend on {show(more)}")
                out.update(more)
            else:
                name = key(w, f)
                if isinstance(name, Unknown):
                    return Unknown(f"{{{name.key}: ...}}", name.why)
                w.native(out.__setitem__, name, value(w, f))
        return out

    return run


def _comprehension(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Run:
    if isinstance(node, ast.DictComp):
        key_run, value_run = compile_expression(node.key), compile_expression(node.value)
        element: Run = lambda w, f: (key_run(w, f), value_run(w, f))  # noqa: E731
    else:
        element = compile_expression(node.elt)
    generators = [
        (compile_target(g.target), compile_expression(g.iter), [(compile_expression(c), compile_narrowing(c)) for c in g.ifs])
        for g in node.generators
    ]
    kind = type(node)

    def run(w: World, f: Frame) -> Value:
        inner = f.child()
        out: list[Value] = []
        missing: list[Unknown] = []

        def walk(level: int) -> None:
            if level == len(generators):
                out.append(element(w, inner))
                return
            target, source, tests = generators[level]
            value = source(w, inner if level else f)
            items = w.iterate(value)
            if items is None:
                missing.append(value if isinstance(value, Unknown) else Unknown(show(value), "its items are not known"))
                return
            for item in items:
                sure: Unknown | None = None
                if isinstance(item, Maybe):
                    sure = Unknown(f"?maybe {show(item.value)}", item.why)
                    item = item.value
                target(w, inner, item)
                skip = False
                for test, _narrow in tests:
                    result = test(w, inner)
                    truth = w.truth(result)
                    if truth is False:
                        skip = True
                        break
                    if truth is None:
                        sure = result
                if skip:
                    continue
                at = len(out)
                walk(level + 1)
                if sure is not None:
                    out[at:] = [Maybe(x, sure.why) for x in out[at:]]

        walk(0)
        if missing:
            return Unknown(f"[for {missing[0].key}]", missing[0].why)
        if kind is ast.DictComp:
            pairs: dict[Value, Value] = {}
            for entry in out:
                maybe = isinstance(entry, Maybe)
                key, value = entry.value if maybe else entry
                if isinstance(key, Unknown):
                    return Unknown(f"{{{key.key}: ...}}", key.why)
                w.native(pairs.__setitem__, key, Maybe(value, entry.why) if maybe else value)
            return pairs
        return w.native(set, out) if kind is ast.SetComp else out

    return run


def _lambda(node: ast.Lambda) -> Run:
    from triage.analysis.evaluate.statements import compile_function

    make = compile_function(node, "<lambda>")
    return lambda w, f: make(w, f)


def _named(node: ast.NamedExpr) -> Run:
    value, name = compile_expression(node.value), node.target.id

    def run(w: World, f: Frame) -> Value:
        result = value(w, f)
        f.root().assign(w, name, result)
        return result

    return run


def _yield(node: ast.Yield) -> Run:
    value = compile_expression(node.value)

    def run(w: World, f: Frame) -> Value:
        f.root().yielded.append(value(w, f))
        return None

    return run


def _yield_from(node: ast.YieldFrom) -> Run:
    value = compile_expression(node.value)

    def run(w: World, f: Frame) -> Value:
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
    ast.List: _sequence,
    ast.Tuple: _sequence,
    ast.Set: _sequence,
    ast.Dict: _dict,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _comprehension,
    ast.Lambda: _lambda,
    ast.NamedExpr: _named,
    ast.Yield: _yield,
    ast.YieldFrom: _yield_from,
}

Store = Callable[["World", "Frame", Value], None]


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

        def unpack(w: World, f: Frame, value: Value) -> None:
            items = w.unpack(value, len(parts), star)
            for part, item in zip(parts, items, strict=True):
                part(w, f, item)

        return unpack
    return lambda w, f, v: None


Narrow = Callable[["World", "Frame", bool], None]


def compile_narrowing(node: ast.expr) -> Narrow:
    """The closure that records what follows from `node` having come out true or false: `x is None`, `x == "a"`, ..."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = compile_narrowing(node.operand)
        return lambda w, f, truth: inner(w, f, not truth)
    if isinstance(node, ast.BoolOp):
        parts = [compile_narrowing(v) for v in node.values]
        decides = isinstance(node.op, ast.And)

        def each(w: World, f: Frame, truth: bool) -> None:
            if truth is decides:
                for part in parts:
                    part(w, f, truth)

        return each
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.left, (ast.Name, ast.Attribute)):
        symbol = _COMPARE[type(node.ops[0])]
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
