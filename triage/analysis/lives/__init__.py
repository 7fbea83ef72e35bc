"""SourceTree + Options -> SettingLife: a setting's whole life in the target's validation."""

from __future__ import annotations

import ast
from dataclasses import replace

from triage.analysis.collection import hold_collection
from triage.analysis.flags import Options
from triage.analysis.lives.declared import find_declaration
from triage.analysis.lives.events import Telling
from triage.analysis.lives.reach import Key, Reach, Reached, is_args
from triage.analysis.lives.sources import Source, Sources, last_name
from triage.analysis.lives.writes import WriteSite, find_constants, find_setters, find_writes
from triage.model import LifeEvent, SettingLife, Unknown
from triage.protocols import EngineProfile, SourceTree

__all__ = ["Lives", "find_life"]

MAX_HELPER = 300  # syntax nodes of a function that only answers a question
HELPER_HOPS = 2

Told = list[tuple[Key, LifeEvent]]


def find_life(tree: SourceTree, profile: EngineProfile, options: Options, name: str) -> SettingLife:
    """Where the field `name` is declared, written, checked and read, in the order in which validation reaches it.

    Reads the tree only. What could not be read is an Unknown of the result; never raises for what stands in the tree.
    """
    return Lives(tree, profile, options).find(name)


class Lives:
    """What the lives of all settings of one source share: the functions on the way and the setters among them."""

    def __init__(self, tree: SourceTree, profile: EngineProfile, options: Options) -> None:
        self.profile = profile
        self.options = options
        with hold_collection():
            self.sources = Sources(tree, profile.package)
            self.reach = Reach(self.sources, profile)

    def find(self, name: str) -> SettingLife:
        """As find_life."""
        with hold_collection():
            return self._find(name)

    def _find(self, name: str) -> SettingLife:
        sources, reach, options = self.sources, self.reach, self.options
        reach.enter_registered(name)
        fields = frozenset(options.by_field) | {name}
        declaration = find_declaration(sources, self.profile, options, name)
        defaults = {flag.default for flag in declaration.flags if flag.default is not None}
        nullable = "None" in defaults or any(word in declaration.text for word in ("None", "Optional")) or not declaration.text
        telling = Telling(reach, name, options.flag_of(), frozenset(defaults | {"None"}), nullable)
        setters = find_setters(reach, self.profile.declares)
        telling.helpers = _helpers(reach, name)
        writes: Told = []
        checks: Told = []
        decisions: Told = []
        any_field: Told = []
        reads = 0
        for f in reach.functions():
            text = _text(f)
            if "setattr" in text or "**" in text:
                any_field += [telling.any_field(f, s) for s in find_writes(f, setters, sources, fields) if s.field is None]
            if not telling.words.search(text) and not _names_parts(f, text):
                continue
            sites = list(find_writes(f, setters, sources, fields))
            writes += [telling.write(f, s) for s in sites if s.field == name]
            checks += telling.checks(f)
            decisions += _decisions(telling, f, sites, name, fields)
            reads += sum(
                1 for n in f.nodes if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load) and telling.is_it(n, f)
            )
        writes += _constants(telling, reach, name, fields)
        return SettingLife(
            name,
            declaration,
            _ordered(writes),
            _ordered(checks),
            _ordered(decisions),
            _ordered(any_field),
            reads,
            tuple(sorted({e.location.file for _, e in [*writes, *checks, *decisions]})),
            unknowns=_unknowns(reach, sources, self.profile),
        )


def _text(f: Reached) -> str:
    return "\n".join(f.source.module.lines[f.node.lineno - 1 : f.node.end_lineno])


def _names_parts(f: Reached, text: str) -> bool:
    """Whether names of fields can be made of parts or come from elsewhere in this function."""
    return "setattr" in text and any(isinstance(n, ast.JoinedStr | ast.For) for n in f.nodes)


def _helpers(reach: Reach, name: str) -> frozenset[str]:
    """Functions on the way that only answer a question which reads the setting, by themselves or through another one."""
    asking: list[Reached] = []
    for f in reach.reached.values():
        short = len(f.nodes) <= MAX_HELPER and not f.node.name.startswith("__")
        if short and any(isinstance(n, ast.Return) and n.value is not None for n in f.nodes):
            acts = any(
                isinstance(n, ast.Raise | ast.Assert) or (isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
                for n in f.nodes
            )
            asking += [] if acts else [f]
    out = {
        f.node.name
        for f in asking
        if any(isinstance(n, ast.Attribute) and n.attr == name and is_args(n.value, f.args) for n in f.nodes)
    }
    for _ in range(HELPER_HOPS):
        out |= {f.node.name for f in asking if any(isinstance(n, ast.Call) and last_name(n.func) in out for n in f.nodes)}
    return frozenset(out)


def _decisions(telling: Telling, f: Reached, sites: list[WriteSite], name: str, fields: frozenset[str]) -> Told:
    """Statements that write other settings by looking at this one."""
    scope = telling.scope(f)
    by_statement: dict[int, list[WriteSite]] = {}
    for site in sites:
        if site.field is not None and site.field != name and site.field in fields:
            by_statement.setdefault(id(site.statement), []).append(site)
    out: Told = []
    for same in by_statement.values():
        guards = telling.guards(f, same[0].statement)
        values = [ast.unparse(s.value) for s in same if s.value is not None]
        if any(telling.reads(g.text, scope) for g in guards if g.kind != "assert" and g.leaves != "raise") or any(
            telling.reads(v, scope) for v in values
        ):
            out.append(telling.decision(f, same))
    return out


def _constants(telling: Telling, reach: Reach, name: str, fields: frozenset[str]) -> Told:
    """Entries of constants, in the modules on the way."""
    out: Told = []
    seen: dict[int, Source] = {id(f.source): f.source for f in reach.reached.values()}
    for source in seen.values():
        for site in find_constants(source, fields):
            if site.field == name:
                out.append(((), telling.constant(source, site)))
    return out


def _ordered(told: Told) -> tuple[LifeEvent, ...]:
    """In the order in which they are reached, numbered; what has no known moment last, by file and line."""
    known = sorted((t for t in told if t[0]), key=lambda t: t[0])
    rest = sorted((e for key, e in told if not key), key=lambda e: (e.location.file, e.location.line))
    ordered = [replace(e, rank=i) for i, (_, e) in enumerate(known, 1)] + rest
    return tuple({(e.location, e.how, e.fields): e for e in ordered}.values())


def _unknowns(reach: Reach, sources: Sources, profile: EngineProfile) -> tuple[Unknown, ...]:
    out = list(sources.unread)
    if reach.args_class is None:
        why = f"{profile.args_class} is not in the source, so no function on the way is known"
        out.append(Unknown("how validation goes", why, "give the source of a release that holds it"))
    if not reach.complete:
        out.append(Unknown("the rest of validation", "it has more functions than are followed"))
    return tuple(out)
