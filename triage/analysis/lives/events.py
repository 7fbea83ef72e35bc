"""Writes, checks and decisions of a setting as records: with their guards, in words, and what a person sees of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from triage.analysis.conditions import Scope, atoms, parse_test
from triage.analysis.guards import Culprit, guards_in
from triage.analysis.lives.reach import Key, Reach, Reached, is_args, walk_in_order
from triage.analysis.lives.sources import Source, last_name
from triage.analysis.lives.writes import WriteSite, own_nodes
from triage.analysis.source import child_blocks, statement_kind, statement_text
from triage.analysis.words import describe_condition
from triage.model import Atom, Guard, LifeEvent, LifeKind, Location

MAX_OUTER = 6  # calls on the way whose guards are told
MAX_WHEN = 6
MAX_TEXT = 600  # characters of a statement
_NEAR = 2  # statements between a write and the log call that tells of it
_LOGGERS = frozenset({"logger", "logging", "log", "warnings", "rank0_log"})
_LEVELS = frozenset({"warning", "warn", "info", "error", "warning_once", "info_once", "critical", "log"})
_ORDERS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_DIVISIONS = (ast.Div, ast.FloorDiv, ast.Mod)


class Telling:
    """Makes the events of one setting; keeps what several of them share."""

    def __init__(self, reach: Reach, name: str, flag_of: Mapping[str, str], unset: frozenset[str], nullable: bool = True) -> None:
        """`unset` are the reprs of values that stand for "nobody decided"; `nullable`: the setting can be None."""
        self.reach = reach
        self.name = name
        self.flag_of = flag_of
        self.unset = unset
        self.nullable = nullable
        self.helpers: frozenset[str] = frozenset()
        self.scopes: dict[int, Scope] = {}
        self.ways: dict[int, tuple[Guard, ...]] = {}

    @cached_property
    def words(self) -> re.Pattern[str]:
        return re.compile(rf"\b(?:{'|'.join(map(re.escape, [self.name, *sorted(self.helpers)]))})\b")

    # ------------------------------------------------------------ records
    def write(self, f: Reached, site: WriteSite) -> tuple[Key, LifeEvent]:
        guards = self.guards(f, site.statement)
        scope = self.scope(f)
        unset = any(self.means_unset(g, scope) for g in guards) or self.falls_back(site, f)
        event = self.event(f, site.statement, "default" if unset else "overwrite", site.how, guards)
        return self.key(f, site.statement), replace(event, says=log_text(f, site.statement))

    def any_field(self, f: Reached, site: WriteSite) -> tuple[Key, LifeEvent]:
        guards = self.guards(f, site.statement)
        return self.key(f, site.statement), self.event(f, site.statement, "any_field", site.how, guards)

    def decision(self, f: Reached, sites: Sequence[WriteSite]) -> tuple[Key, LifeEvent]:
        """`sites` are the writes of one statement to other settings."""
        statement = sites[0].statement
        fields = tuple(dict.fromkeys(s.field for s in sites if s.field is not None))
        event = self.event(f, statement, "decides", sites[0].how, self.guards(f, statement))
        return self.key(f, statement), replace(event, fields=fields)

    def constant(self, source: Source, site: WriteSite) -> LifeEvent:
        """An entry of a module's constant."""
        node = site.statement
        lines = source.module.original[node.lineno - 1 : node.end_lineno]
        location = Location(source.file, node.lineno, node.end_lineno)
        return LifeEvent("overwrite", location, "<module>", "\n".join(lines).strip()[:MAX_TEXT], site.how)

    def event(self, f: Reached, node: ast.stmt, kind: LifeKind, how: str, guards: Sequence[Guard]) -> LifeEvent:
        module = f.source.module
        text = statement_text(module.original, node, module.lines)
        outer = self.way(f)
        telling = [g for g in (*outer, *guards) if tells(g)]
        when = tuple(dict.fromkeys(describe_condition(g.text, g.came_out, self.flag_of) for g in telling))[-MAX_WHEN:]
        location = Location(f.source.file, node.lineno, node.end_lineno)
        return LifeEvent(kind, location, f.definition.name, text[:MAX_TEXT], how, when, tuple(guards), outer)

    def key(self, f: Reached, node: ast.stmt) -> Key:
        return (*f.key, (node.lineno, node.col_offset)) if f.key is not None else ()

    # ------------------------------------------------------------ checks
    def checks(self, f: Reached) -> Iterator[tuple[Key, LifeEvent]]:
        """Asserts, raises, and comparisons and divisions that raise, whose test or path reads the setting."""
        scope = self.scope(f)
        for node in f.nodes:
            if isinstance(node, ast.Assert | ast.Raise):
                yield from self.refusal(f, node, scope)
            elif isinstance(node, ast.stmt):
                for inner in own_nodes(node):
                    culprit = self.can_raise(inner, f)
                    if culprit is None or not isinstance(inner, ast.expr):
                        continue
                    guards = guards_in(
                        f.source.module.tree, f.source.module.lines, f.node.name, inner.lineno, f.source.file, culprit
                    )
                    if not any(self.rules_out(g, scope, culprit) for g in guards):
                        how = "division" if culprit.exception == "ZeroDivisionError" else "comparison"
                        yield (
                            self.key(f, node),
                            self.event(f, node, "check", f"{how} ({culprit.exception})", self.guards(f, node)),
                        )

    def refusal(self, f: Reached, node: ast.Assert | ast.Raise, scope: Scope) -> Iterator[tuple[Key, LifeEvent]]:
        guards = self.guards(f, node)
        path = [g for g in guards if not passed(g)]
        own = isinstance(node, ast.Assert) and self.reads(ast.unparse(node.test), scope)
        if isinstance(node, ast.Raise):
            near = [g for g in path if g.kind != "with"][-1:]
            own = any(self.reads(g.text, scope) for g in near)
        if own or any(self.reads(g.text, scope) for g in path):
            event = self.event(f, node, "check", statement_kind(node), guards)
            yield self.key(f, node), replace(event, own_test=own)

    def can_raise(self, node: ast.AST, f: Reached) -> Culprit | None:
        """What an expression raises when the setting is None or zero; None where it does not use it so."""
        if isinstance(node, ast.Compare) and self.nullable:
            sides = [node.left, *node.comparators]
            for i, op in enumerate(node.ops):
                if type(op) in _ORDERS and any(self.is_it(s, f) for s in sides[i : i + 2]):
                    return Culprit("TypeError", f"'{_ORDERS[type(op)]}' not supported between")
        if isinstance(node, ast.BinOp) and isinstance(node.op, _DIVISIONS) and self.is_it(node.right, f):
            return Culprit("ZeroDivisionError", "division by zero")
        return None

    def is_it(self, node: ast.expr, f: Reached) -> bool:
        return isinstance(node, ast.Attribute) and node.attr == self.name and is_args(node.value, f.args)

    def rules_out(self, guard: Guard, scope: Scope, culprit: Culprit) -> bool:
        """Whether a guard says that the setting is not None, or not zero, where that would raise."""
        zero = culprit.exception == "ZeroDivisionError"
        return any(self.is_set(atom, atom.holds == guard.came_out, zero) for atom in self.decided(guard, scope))

    def is_set(self, atom: Atom, holds: bool, zero: bool) -> bool:
        if not any(r.kind == "setting" and r.name == self.name for r in atom.reads):
            return False
        if atom.kind == "truth":
            return holds
        other = atom.operands[1] if len(atom.operands) == 2 else ""
        if atom.operator in ("is", "==", "is not", "!="):
            equal = holds == (atom.operator in ("is", "=="))
            if other == "None":
                return not equal and not zero
            return (not equal and zero) if other == "0" else equal
        return atom.operator in ("<", "<=", ">", ">=") or (atom.operator == "in" and holds)

    # ------------------------------------------------------------ what a text says
    def reads(self, text: str, scope: Scope) -> bool:
        """Whether a test reads the setting, by itself, through locals or through a helper of the settings."""
        if not self.words.search(text) and not scope.values:
            return False
        if any(re.search(rf"\b{re.escape(h)}\b", text) for h in self.helpers):
            return True
        node = parse_test(text)
        if node is not None and any(self.names_it(n, scope) for n in [node, *walk_in_order(node)]):
            return True
        found = [r for a in atoms(text, scope) for r in a.reads]
        return any((r.kind == "setting" and r.name == self.name) or self.is_helper(r.name) for r in found)

    def names_it(self, node: ast.AST, scope: Scope) -> bool:
        return isinstance(node, ast.Attribute) and node.attr == self.name and is_args(node.value, scope.args_names)

    def is_helper(self, name: str) -> bool:
        return name.endswith("()") and name[:-2].rpartition(".")[2] in self.helpers

    def means_unset(self, guard: Guard, scope: Scope) -> bool:
        """Whether a guard says that nobody has decided the setting yet."""
        return any(self.is_unset(atom, atom.holds == guard.came_out) for atom in self.decided(guard, scope))

    def decided(self, guard: Guard, scope: Scope) -> tuple[Atom, ...]:
        """The atoms of a guard that all came out by themselves: of a true `and`, of a false `or`, of a single test."""
        if not self.words.search(guard.text) and not scope.values:
            return ()
        made = atoms(guard.text, scope)
        other = " or " if guard.came_out else " and "
        return made if len(made) == 1 or other not in guard.text else ()

    def is_unset(self, atom: Atom, holds: bool) -> bool:
        mine = [r for r in atom.reads if r.kind == "setting" and r.name == self.name]
        if not mine or any(r.kind == "setting" and r.name != self.name for r in atom.reads):
            return False
        if atom.kind == "truth":
            return not holds
        if len(atom.operands) != 2:
            return False
        if atom.operator in ("is", "==", "in"):
            return holds and (
                atom.operands[1] in self.unset or (atom.operator == "in" and any(u in atom.operands[1] for u in self.unset))
            )
        return atom.operator in ("is not", "!=") and not holds and atom.operands[1] in self.unset

    def falls_back(self, site: WriteSite, f: Reached) -> bool:
        """`x = x or 1`, `x = 1 if x is None else x`: a default in one expression."""
        value = site.value
        if isinstance(value, ast.BoolOp) and isinstance(value.op, ast.Or):
            return self.is_it(value.values[0], f)
        return isinstance(value, ast.IfExp) and (self.is_it(value.orelse, f) or self.is_it(value.body, f))

    # ------------------------------------------------------------ guards
    def guards(self, f: Reached, node: ast.stmt) -> tuple[Guard, ...]:
        module = f.source.module
        return guards_in(module.tree, module.lines, f.node.name, node.lineno, f.source.file)

    def way(self, f: Reached, depth: int = MAX_OUTER) -> tuple[Guard, ...]:
        """The guards on the way to a function, as far as only one call leads there."""
        if id(f.node) not in self.ways:
            self.ways[id(f.node)] = ()
            if len(f.calls) == 1 and depth:
                site = f.calls[0]
                module = site.caller.source.module
                here = guards_in(module.tree, module.lines, site.caller.node.name, site.line, site.caller.source.file)
                self.ways[id(f.node)] = (*self.way(site.caller, depth - 1), *(g for g in here if tells(g)))
        return self.ways[id(f.node)]

    def scope(self, f: Reached) -> Scope:
        if id(f.node) not in self.scopes:
            self.scopes[id(f.node)] = make_scope(f)
        return self.scopes[id(f.node)]


def make_scope(f: Reached) -> Scope:
    """What a function says about its names, for reading its tests."""
    values: dict[str, tuple[ast.expr, ...]] = {}
    for node in f.nodes:
        pairs: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(node, ast.Assign):
            pairs = [(t, node.value) for t in node.targets]
        elif isinstance(node, ast.NamedExpr) or (isinstance(node, ast.AnnAssign) and node.value is not None):
            pairs = [(node.target, node.value)] if node.value is not None else []
        elif isinstance(node, ast.For):
            pairs = [(node.target, node.iter)]
        for target, value in pairs:
            for inner in [target, *walk_in_order(target)]:
                if isinstance(inner, ast.Name) and inner.id not in f.args and isinstance(inner.ctx, ast.Store):
                    values[inner.id] = (*values.get(inner.id, ()), value)
    a = f.node.args
    parameters = {p.arg for p in [*a.posonlyargs, *a.args, *a.kwonlyargs]} - f.args
    return Scope(f.args, frozenset(parameters), values)


def passed(guard: Guard) -> bool:
    """Whether a guard only says that an earlier check did not refuse."""
    return guard.kind == "assert" or (guard.kind == "early_exit" and guard.leaves == "raise")


def tells(guard: Guard) -> bool:
    """Whether a guard tells a person when a place is reached."""
    return not passed(guard) and guard.kind not in ("with", "except")


def log_text(f: Reached, statement: ast.stmt) -> str:
    """What the log call beside a statement says, as far as the source tells; "" where none stands there."""
    block = next((b for b in blocks(f.node) if any(s is statement for s in b)), [])
    at = next((i for i, s in enumerate(block) if s is statement), 0)
    near = sorted(range(max(0, at - _NEAR), min(len(block), at + _NEAR + 1)), key=lambda i: abs(i - at))
    for i in near:
        node = block[i]
        call = node.value if isinstance(node, ast.Expr) else None
        if isinstance(call, ast.Call) and is_log(call):
            return " ".join(message_text(call).split())[:200] or "a message"
    return ""


def is_log(call: ast.Call) -> bool:
    func = call.func
    if isinstance(func, ast.Attribute):
        return func.attr in _LEVELS and last_name(func.value) in _LOGGERS
    return isinstance(func, ast.Name) and (
        func.id == "print" or ("warn" in func.id and "log" not in func.id) or func.id.startswith("log_")
    )


def message_text(call: ast.Call) -> str:
    """The text of a message, its parts that are known only at run time as `{...}` in source."""
    out = []
    for argument in call.args[:2]:
        for node in [argument, *walk_in_order(argument)] if isinstance(argument, ast.BinOp) else [argument]:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                out.append(node.value)
            elif isinstance(node, ast.JoinedStr):
                for part in node.values:
                    if isinstance(part, ast.Constant):
                        out.append(str(part.value))
                    elif isinstance(part, ast.FormattedValue):
                        out.append("{" + ast.unparse(part.value) + "}")
        if out:
            break
    return "".join(out)


def blocks(root: ast.AST) -> Iterator[list[ast.stmt]]:
    """Every block of statements inside a node."""
    todo = list(child_blocks(root))
    while todo:
        block = todo.pop()
        yield block
        for node in block:
            todo += child_blocks(node)
