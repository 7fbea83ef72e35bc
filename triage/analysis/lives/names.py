"""The texts that an expression can stand for: through literals, locals, constants of modules and loops over them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from triage.analysis.lives.reach import Reached
from triage.analysis.lives.sources import Sources, last_name

_MAX_NAMES = 400


class Names:
    """Reads names of settings in one function."""

    def __init__(self, f: Reached, sources: Sources, fields: frozenset[str]) -> None:
        self.f = f
        self.sources = sources
        self.fields = fields

    def names_of(self, node: ast.expr, hops: int = 4) -> tuple[str, ...] | None:
        """The texts that an expression can be: () for texts that are no field; None where it is not known."""
        if isinstance(node, ast.Constant):
            return (node.value,) if isinstance(node.value, str) else None
        if isinstance(node, ast.IfExp):
            sides = self.names_of(node.body, hops), self.names_of(node.orelse, hops)
            return (*sides[0], *sides[1]) if sides[0] is not None and sides[1] is not None else None
        if isinstance(node, ast.JoinedStr):
            parts = [re.escape(str(v.value)) if isinstance(v, ast.Constant) else r"\w*" for v in node.values]
            return tuple(sorted(n for n in self.fields if re.fullmatch("".join(parts), n))) or None
        if isinstance(node, ast.Name) and hops:
            out: list[str] = []
            for value in self.bound(node.id) or [c for c in [self.constant(node.id)] if c is not None]:
                names = self.names_of(value, hops - 1)
                if names is None:
                    return None
                out += names
            for target, iterable in self.loops():
                if node.id in names_in(target):
                    at = (
                        [i for i, t in enumerate(target.elts) if node.id in names_in(t)]
                        if isinstance(target, ast.Tuple)
                        else None
                    )
                    members = self.members(iterable, at[0] if at else None, hops - 1)
                    if members is None:
                        return None
                    out += members
            return tuple(dict.fromkeys(out))[:_MAX_NAMES] or None
        return None

    def members(self, node: ast.expr, at: int | None, hops: int) -> list[str] | None:
        """The texts that a loop over an expression takes; `at` is the place in each of its tuples."""
        if isinstance(node, ast.Call) and last_name(node.func) in ("items", "keys") and isinstance(node.func, ast.Attribute):
            inner = self.follow(node.func.value, hops)
            return list(keys_of(inner) or ()) or None if inner is not None and not at else None
        if isinstance(node, ast.Call) and last_name(node.func) in ("list", "tuple", "sorted", "set", "reversed") and node.args:
            return self.members(node.args[0], at, hops)
        if isinstance(node, ast.Call) and last_name(node.func) == "zip" and at is not None and at < len(node.args):
            return self.members(node.args[at], None, hops)
        found = self.follow(node, hops)
        if isinstance(found, ast.Dict) and at is None:
            return list(keys_of(found) or ()) or None
        if not isinstance(found, ast.Tuple | ast.List | ast.Set):
            return None
        out: list[str] = []
        for one in found.elts:
            if at is not None:
                if not isinstance(one, ast.Tuple | ast.List) or at >= len(one.elts):
                    return None
                one = one.elts[at]
            names = self.names_of(one, hops)
            if names is None:
                return None
            out += names
        return out

    def follow(self, node: ast.expr, hops: int) -> ast.expr | None:
        """The display behind a name, where one binding gives it."""
        if isinstance(node, ast.Name) and hops > 0:
            values = self.bound(node.id)
            if len(values) == 1:
                return self.follow(values[0], hops - 1)
            constant = self.constant(node.id) if not values else None
            return self.follow(constant, hops - 1) if constant is not None else None
        return None if isinstance(node, ast.Name) else node

    def bound(self, name: str) -> list[ast.expr]:
        out: list[ast.expr] = []
        for node in self.f.nodes:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            if value is not None and any(isinstance(t, ast.Name) and t.id == name for t in targets):
                out.append(value)
        return out

    def loops(self) -> Iterator[tuple[ast.expr, ast.expr]]:
        return ((n.target, n.iter) for n in self.f.nodes if isinstance(n, ast.For | ast.comprehension))

    def constant(self, name: str) -> ast.expr | None:
        where = self.sources.resolve(self.f.source, name, self.f.local)
        return where[0].constants.get(where[1]) if where is not None else None


def text_of(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def keys_of(node: ast.AST) -> dict[str, ast.expr] | None:
    """The literal keys of a dict display or of `dict(x=...)`, with their values."""
    if isinstance(node, ast.Dict):
        return {
            k.value: v
            for k, v in zip(node.keys, node.values, strict=True)
            if isinstance(k, ast.Constant) and isinstance(k.value, str)
        }
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        return {k.arg: k.value for k in node.keywords if k.arg is not None}
    return None


def display_keys(node: ast.expr) -> set[str]:
    return set(keys_of(node) or ())


def names_in(node: ast.AST) -> set[str]:
    """The plain names inside a node."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
