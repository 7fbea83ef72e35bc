"""Every raise and assert of the validation code, with the condition under which it is reached from the entry.

The walk starts at the profile's stages and follows calls by syntax: methods of the args class, functions that take the args
object or a view of it, helpers in the files where such functions raise, functions that are handed on or that decorators put
into a registry. Along a way it keeps the tests that had to come out one way, and resolves what they read through locals,
parameters, constants and returned values to settings, variables, facts and attributes of the model. What calls that came back
did not raise is no part of a condition. It reads only the modules on the way, and runs nothing.
"""

from __future__ import annotations

import ast
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from triage.analysis.collection import hold_collection
from triage.analysis.conditions import Part
from triage.analysis.guards import Culprit
from triage.analysis.sites.frames import PLACE, Frame, Node, Step, steps_of
from triage.analysis.sites.index import FunctionInfo, Index, ModuleIndex
from triage.analysis.sites.statements import Walk
from triage.analysis.sites.values import ANY_FIELD, ATTRIBUTE, INDEXED, NOTHING, RECORD, Func, Source, Val, union
from triage.analysis.source import qualified_name, statement_kind, statement_text
from triage.model import Atom, Guard, Leg, Location, Read, ReadKind, ResolvedGuard, Site, SiteCondition, Way
from triage.protocols import EngineProfile, SourceTree

MAX_WAYS = 8  # call paths that are kept for one site
_DEPTH = 20_000  # of the interpreter, while nested calls are walked


@dataclass(frozen=True)
class Survey:
    """`conditions` in the order of files and lines; those without a way stand in functions that the walk did not enter.
    `files` are the files of the validation code, each with the number of its raise and assert statements."""

    conditions: tuple[SiteCondition, ...]
    files: tuple[tuple[str, int], ...]
    modules: int  # files that were read
    functions: int  # that were walked
    lost: tuple[tuple[Location, str], ...] = ()  # calls that take the args object and of which the function was not found


@dataclass(frozen=True)
class Watch:
    """A statement that may raise though it is no raise and no assert."""

    file: str
    line: int
    culprit: Culprit = field(default_factory=Culprit)


def find_conditions(tree: SourceTree, profile: EngineProfile) -> tuple[SiteCondition, ...]:
    """The condition of every raise and assert that the walk from the profile's stages comes to."""
    return tuple(c for c in survey_sites(tree, profile).conditions if c.ways)


def find_condition(
    tree: SourceTree, profile: EngineProfile, file: str, line: int, culprit: Culprit | None = None
) -> SiteCondition | None:
    """The condition of the statement at a line, whatever it is; None where the walk does not come to it.

    `culprit` tells what it raised: then the tests inside the failing expression count as well. Helpers of the file are
    entered also where they get plain values only.
    """
    survey = survey_sites(tree, profile, [Watch(file, line, culprit or Culprit())])
    spans = [(c.site.location, c) for c in survey.conditions if c.ways and c.site.location.file == file]
    held = [(((w.end_line or w.line) - w.line), c) for w, c in spans if w.line <= line <= (w.end_line or w.line)]
    return min(held, key=lambda h: h[0])[1] if held else None


def survey_sites(tree: SourceTree, profile: EngineProfile, watched: Sequence[Watch] = ()) -> Survey:
    """As find_conditions, with the sites that were not reached, and the files that make the validation code. `watched`
    statements are sites as well."""
    index = Index(tree, profile.package)
    walk = Walk(index, profile.args_class, profile.declares)
    for place in watched:
        walk.files.add(place.file)
        walk.watched.setdefault(place.file, []).append((place.line, place.culprit))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _DEPTH))
    try:
        with hold_collection():
            roots = [_walk_stage(walk, stage.call, stage.unless_field) for stage in profile.stages]
            return _Collector(walk).collect([r for r in roots if r is not None])
    finally:
        sys.setrecursionlimit(limit)


def _walk_stage(walk: Walk, call: str, unless: str | None) -> Node | None:
    """A node that stands for the launcher and calls one stage."""
    if walk.args_class is None:
        return None
    home = walk.args_class.module
    root = Node(FunctionInfo(home, PLACE, "the launcher"))
    f = Frame(root, home, {})
    f.statement = ast.Pass(lineno=1, end_lineno=1)
    if call.startswith("."):
        target = walk.member(walk.args_class, call[1:], RECORD, f)
        args: list[Val] = []
    else:
        module, _, name = call.rpartition(".")
        file = walk.index.module_file(module)
        found = walk.index.find(file, name) if file else None
        target = walk.defined(found, name) if found is not None else None
        args = [Val(frozenset({Source("fact", "the command line")}))]
    if target is None:
        return None
    if unless:
        guard = Guard(Location(home.file, 1), f"args.{unless}", False, "if")
        f.path = Step(None, guard, ((Part(guard.text, "truth", True, ()), Val(frozenset({Source("setting", unless)}))),))
    for thing in target.things:
        if isinstance(thing, Func):
            walk.invoke(thing.info, [*([thing.bound] if thing.bound else []), *args], {}, f)
    return root


class _Collector:
    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self.tests: dict[int, ResolvedGuard] = {}
        self.legs: dict[int, tuple[ResolvedGuard, ...]] = {}
        self.attributes: dict[str, Val] = {}
        self.vals: dict[Val, tuple[tuple[Read, ...], str]] = {}

    def collect(self, roots: Sequence[Node]) -> Survey:
        ways: dict[tuple[str, int, int], list[Way]] = {}
        cut: set[tuple[str, int, int]] = set()
        where: dict[tuple[str, int, int], tuple[ModuleIndex, ast.stmt, FunctionInfo]] = {}
        entered: dict[int, int] = {}
        todo: deque[tuple[Node, tuple[Leg, ...], frozenset[int]]] = deque((r, (), frozenset()) for r in roots)
        while todo:
            node, legs, on_way = todo.popleft()
            entered[id(node)] = entered.get(id(node), 0) + 1
            if entered[id(node)] > MAX_WAYS or id(node) in on_way:
                continue
            file = node.info.module.file
            for statement, step in node.sites:
                key = (file, statement.lineno, statement.col_offset)
                where.setdefault(key, (node.info.module, statement, node.info))
                found = ways.setdefault(key, [])
                if len(found) >= MAX_WAYS:
                    cut.add(key)
                else:
                    found.append(Way((*legs, self.leg(node, statement, step))))
            for callee, statement, step in node.calls:
                todo.append((callee, (*legs, self.leg(node, statement, step)), on_way | {id(node)}))
        files = sorted({key[0] for key in ways} & self.walk.files)
        conditions: list[SiteCondition] = []
        counts: list[tuple[str, int]] = []
        for file in files:
            module = self.walk.index.read(file)
            every = _statements(module.module.tree) if module is not None else []
            counts.append((file, len(every)))
            for statement, chain in every:
                assert module is not None
                key = (file, statement.lineno, statement.col_offset)
                site = self.site(module, statement, qualified_name(chain))
                conditions.append(SiteCondition(site, tuple(ways.pop(key, ())), key in cut))
        for key in sorted(ways):
            module, statement, info = where[key]
            conditions.append(SiteCondition(self.site(module, statement, info.name), tuple(ways[key]), key in cut))
        read = sum(m is not None for m in self.walk.index.modules.values())
        lost = tuple((Location(file, line), name) for file, line, name in dict.fromkeys(self.walk.lost))
        return Survey(tuple(conditions), tuple(counts), read, len(self.walk.nodes), lost)

    def site(self, module: ModuleIndex, statement: ast.stmt, function: str) -> Site:
        location = Location(module.file, statement.lineno, statement.end_lineno)
        text = statement_text(module.module.original, statement, module.module.lines)
        return Site(location, function, statement_kind(statement), text, at=statement.lineno)

    def leg(self, node: Node, statement: ast.stmt, step: Step | None) -> Leg:
        if id(step) not in self.legs:
            self.legs[id(step)] = tuple(self.test(s) for s in steps_of(step))
        where = Location(node.info.module.file, statement.lineno, statement.end_lineno)
        return Leg(where, node.info.name, self.legs[id(step)])

    def test(self, step: Step) -> ResolvedGuard:
        if id(step) not in self.tests:
            atoms = tuple(_atom(part, *self.reads(value)) for part, value in step.parts)
            self.tests[id(step)] = ResolvedGuard(step.guard, atoms)
        return self.tests[id(step)]

    def reads(self, value: Val) -> tuple[tuple[Read, ...], str]:
        """The reads of an atom, the args object's bookkeeping replaced by what is assigned to it; why it is opaque."""
        if value not in self.vals:
            whole = union([value, *(self.bookkeeping(s.name, frozenset()) for s in value.reads if s.kind == ATTRIBUTE)])
            kept = sorted(s for s in whole.reads if s.kind not in (ATTRIBUTE, ANY_FIELD))
            why = whole.why
            by_name = any(s.text == INDEXED for s in value.reads)
            if any(s.kind == ANY_FIELD for s in (value.reads if by_name else whole.reads)):
                why = why or "it reads a field whose name is computed"
            self.vals[value] = (tuple(Read(_kind(s.kind), s.name, s.text or s.name) for s in kept), why)
        return self.vals[value]

    def bookkeeping(self, name: str, busy: frozenset[str]) -> Val:
        if name in busy:
            return NOTHING
        if name not in self.attributes:
            written = self.walk.writes.get(name)
            if written is None:
                made = Val(why=f"nothing assigns `{name}` of the args object")
            else:
                first = union(written)
                inner = [self.bookkeeping(s.name, busy | {name}) for s in first.reads if s.kind == ATTRIBUTE]
                made = union([first, Val(frozenset({Source("fact", f"the args object's {name}")})), *inner])
            if busy:
                return made
            self.attributes[name] = made
        return self.attributes[name]


def _atom(part: Part, reads: tuple[Read, ...], why: str) -> Atom:
    if not reads and not why:
        reads = (Read("literal", part.text, part.text),)  # what the source alone decides
    return part.atom(reads, why)


def _kind(kind: str) -> ReadKind:
    kinds: dict[str, ReadKind] = {
        "setting": "setting",
        "environment": "environment",
        "model": "model",
        "constant": "constant",
    }
    return kinds.get(kind, "fact")


def _statements(tree: ast.Module) -> list[tuple[ast.stmt, list[ast.stmt]]]:
    """Every raise and assert of a file with the definitions around it, in source order."""
    out: list[tuple[ast.stmt, list[ast.stmt]]] = []

    def visit(node: ast.AST, chain: list[ast.stmt]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Raise | ast.Assert):
                out.append((child, chain))
            elif isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
                inner = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                visit(child, [*chain, child] if inner and isinstance(child, ast.stmt) else chain)

    visit(tree, [])
    return out


__all__ = ["MAX_WAYS", "Culprit", "Survey", "Watch", "find_condition", "find_conditions", "survey_sites"]
