"""Lists, tuples, sets, dicts and comprehensions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from triage.analysis.evaluate.expressions import Run, compile_expression
from triage.analysis.evaluate.targets import compile_narrowing, compile_target
from triage.analysis.evaluate.values import ABSENT, LazyImport, Maybe, Unknown, Value, join, show

if TYPE_CHECKING:
    from triage.analysis.evaluate.frames import Frame
    from triage.analysis.evaluate.machine import Machine


def compile_sequence(node: ast.List | ast.Tuple | ast.Set) -> Run:
    items = [(isinstance(e, ast.Starred), compile_expression(e.value if isinstance(e, ast.Starred) else e)) for e in node.elts]
    make = {ast.List: list, ast.Tuple: tuple, ast.Set: set}[type(node)]

    def run(w: Machine, f: Frame) -> Value:
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


def _compile_entry(node: ast.expr) -> Run:
    """A value of a dict. At the top of a module an imported name stays an import until it is asked for: a registry of
    classes would load the modules of all of them."""
    run = compile_expression(node)
    if not isinstance(node, ast.Name):
        return run
    name = node.id

    def entry(w: Machine, f: Frame) -> Value:
        held = f.module.ns.get(name) if f.locals is f.module.ns else None
        return held if type(held) is LazyImport and w.inside(held.module) else run(w, f)

    return entry


def compile_dict(node: ast.Dict) -> Run:
    items = [
        (None if k is None else compile_expression(k), _compile_entry(v)) for k, v in zip(node.keys, node.values, strict=True)
    ]

    def run(w: Machine, f: Frame) -> Value:
        out: dict[Value, Value] = {}
        for key, value in items:
            if key is None:
                more = w.to_read(value(w, f))
                if type(more) is not dict:
                    return Unknown(f"{{**{show(more)}}}", f"its keys depend on {show(more)}")
                for k, v in more.items():
                    out[k] = join(out.get(k, ABSENT), v.value, v.why) if isinstance(v, Maybe) else v
            else:
                name = key(w, f)
                if isinstance(name, Unknown):
                    return Unknown(f"{{{name.key}: ...}}", name.why)
                w.native(out.__setitem__, name, value(w, f))
        return out

    return run


def compile_comprehension(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Run:
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

    def run(w: Machine, f: Frame) -> Value:
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
                w.tick()
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


DISPLAYS: dict[type[ast.expr], Callable[..., Run]] = {
    ast.List: compile_sequence,
    ast.Tuple: compile_sequence,
    ast.Set: compile_sequence,
    ast.Dict: compile_dict,
    ast.ListComp: compile_comprehension,
    ast.SetComp: compile_comprehension,
    ast.GeneratorExp: compile_comprehension,
    ast.DictComp: compile_comprehension,
}
