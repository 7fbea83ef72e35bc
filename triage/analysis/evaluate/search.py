"""One idiom in one go: the search through a list of (source, mapping) pairs, which views of settings are made of."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from triage.analysis.evaluate.signals import Signal
from triage.analysis.evaluate.values import ABSENT, Maybe, Value, join

if TYPE_CHECKING:
    from triage.analysis.evaluate.frames import Frame
    from triage.analysis.evaluate.machine import Machine


def find_search(node: ast.For) -> tuple[str, int, int] | None:
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


def run_search(w: Machine, f: Frame, items: list[Value], key: Value, at: int, size: int) -> Signal | bool | None:
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
