"""Path conditions against real failures: the call path of the real traceback, the settings when it raised, the fields that
the evaluation of the launch found to decide it.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.oracle.launches import make_launches
from tests.oracle.real import SHARED, Evaluators, ask_all, facts_names, model_names, real_actions
from triage.analysis.conditions import parse_test
from triage.analysis.evaluate import Evaluation
from triage.analysis.sites import Survey
from triage.knowledge import load_profile
from triage.model import ResolvedGuard, SiteCondition, Way

_FRAME = re.compile(r'File "[^"]*/site-packages/(sglang/[^"]+)", line (\d+), in (\S+)')
_PLAIN = (str, int, float, bool, list, tuple, type(None))
_OMIT = ("settings", "frames", "records")


@dataclass(frozen=True)
class RealFailure:
    """A launch that the real validation refused, with the frames of its traceback inside the package, outermost first."""

    name: str
    facts: str
    argv: tuple[str, ...]
    frames: tuple[tuple[str, int, str], ...]


@dataclass
class Verdict:
    """What was compared, and how it came out."""

    launches: int = 0  # failures with a site in the validation code
    beyond: int = 0  # failures that were raised in helpers outside it
    no_condition: int = 0
    path: int = 0  # one of the ways is the call path of the real traceback
    guards: int = 0  # guards of that way whose truth the settings at the failure decide
    hold: int = 0  # ... that hold
    fields: int = 0  # launches of which the evaluation names the deciding fields, guard by guard
    inside: int = 0  # ... all of which the condition names
    notes: Counter[str] = field(default_factory=Counter)

    def row(self) -> str:
        def share(part: int, whole: int) -> str:
            return f"{part}/{whole} ({part / whole:.1%})" if whole else "none"

        found = self.launches - self.no_condition
        return (
            f"{self.launches} | {self.beyond} | {share(found, self.launches)} | {share(self.path, self.launches)} | "
            f"{share(self.hold, self.guards)} | {share(self.inside, self.fields)}"
        )


def read_frames(traceback: str, stages: set[str]) -> tuple[tuple[str, int, str], ...]:
    """The frames of the last traceback of a chain from the first stage's function on, comprehensions left out."""
    last = re.split(r"\n(?:During handling|The above exception)", traceback)[-1]
    found = [(m[1], int(m[2]), m[3]) for m in _FRAME.finditer(last)]
    start = next((i for i, f in enumerate(found) if f[2] in stages), None)
    return tuple(f for f in found[start:] if not f[2].startswith("<")) if start is not None else ()


def labelled(release: str, stages: set[str]) -> list[RealFailure]:
    """The labelled failures of a release; [] where there are none."""
    path = SHARED / "cases" / f"{release}.jsonl"
    lines = path.read_text().splitlines() if path.is_file() else []
    return [_failure(c["id"], c["facts"], c["argv"], c, stages) for c in map(json.loads, lines) if c["outcome"] == "exception"]


def generated(release: str, count: int, seed: int, stages: set[str]) -> list[RealFailure]:
    """Those of `count` generated launches that the real validation refuses with an exception."""
    out: list[RealFailure] = []
    cases = make_launches(real_actions(release), facts_names(), model_names(), count, seed)
    for host in facts_names():
        mine = [c for c in cases if c.facts == host]
        answers = ask_all(release, host, [{"argv": list(c.argv)} for c in mine], _OMIT)
        for i, (case, answer) in enumerate(zip(mine, answers, strict=True)):
            if answer["outcome"] == "exception":
                out.append(_failure(f"{host}-{i}", host, case.argv, answer, stages))
    return out


def _failure(name: str, facts: str, argv: Sequence[str], answer: Mapping[str, Any], stages: set[str]) -> RealFailure:
    return RealFailure(name, facts, tuple(argv), read_frames(answer["traceback"], stages))


# ---------------------------------------------------------------- comparing
def compare(release: str, survey: Survey, failures: Sequence[RealFailure], evaluate: bool = True) -> Verdict:
    """Judge the conditions of a survey by real failures of the same release; `evaluate` also by what our evaluation of each
    launch says of the settings at the failure."""
    ours = Evaluators(release, [f.argv for f in failures]) if evaluate else None
    sites = {(c.site.location.file, line) for c in survey.conditions for line in _lines(c)}
    out = Verdict()
    for failure in failures:
        if not failure.frames or failure.frames[-1][:2] not in sites:
            out.beyond += 1
            continue
        out.launches += 1
        condition = condition_at(survey, failure.frames[-1])
        if condition is None:
            out.no_condition += 1
            out.notes[f"no condition: {failure.frames[-1]}"] += 1
            continue
        way = next((w for w in condition.ways if is_path(w, failure.frames)), None)
        if way is None:
            out.notes[f"path: {failure.name} {failure.frames[-3:]}"] += 1
            continue
        out.path += 1
        said = ours.get(failure.facts).evaluate(failure.argv) if ours is not None else None
        site = said.raised.site if said is not None and said.raised is not None else None
        if said is not None and site is not None and site.file == failure.frames[-1][0] and site.line in _lines(condition):
            judge_guards(out, way, said, failure.name)
            judge_fields(out, way, said, failure.name, load_profile("sglang").model_field)
    return out


def _lines(condition: SiteCondition) -> range:
    where = condition.site.location
    return range(where.line, (where.end_line or where.line) + 1)


def condition_at(survey: Survey, frame: tuple[str, int, str]) -> SiteCondition | None:
    file, line, _ = frame
    for c in survey.conditions:
        if c.ways and c.site.location.file == file and line in _lines(c):
            return c
    return None


def is_path(way: Way, frames: Sequence[tuple[str, int, str]]) -> bool:
    """Whether a way goes through exactly these frames: same functions, each line inside the leg's statement."""
    legs = [leg for leg in way.legs[1:] if not leg.function.rpartition(".")[2].startswith("<")]
    if len(legs) != len(frames):
        return False
    for leg, (file, line, function) in zip(legs, frames, strict=True):
        where = leg.location
        if where.file != file or not where.line <= line <= (where.end_line or where.line):
            return False
        if leg.function.rpartition(".")[2] != function:
            return False
    return True


def judge_guards(out: Verdict, way: Way, said: Evaluation, name: str) -> None:
    """Guards over settings and literals alone, with the settings as they were when it raised."""
    own = {k: v for k, v in said.settings.items() if isinstance(v, _PLAIN)}
    seen = own | {w.field: w.value for w in said.writes}  # a view shows decisions that are not on the args object yet
    seen = {k: v for k, v in seen.items() if isinstance(v, _PLAIN)}
    for leg in way.legs:
        for guard in leg.guards:
            truth = decide(guard, own if "self." in guard.guard.text else seen)
            if truth is not None:
                out.guards += 1
                out.hold += truth == guard.guard.came_out
                if truth != guard.guard.came_out:
                    out.notes[f"guard: {name} {guard.guard.location} {guard.guard.text[:120]} is {truth}"] += 1


def judge_fields(out: Verdict, way: Way, said: Evaluation, name: str, model_field: str) -> None:
    """The fields that the evaluation's guards read on the way, against those that the condition names."""
    if said.raised is None or not said.raised.guards:
        return
    reads = [r for atom in way.atoms for r in atom.reads]
    named = {r.name if r.kind == "setting" else f"env:{r.name}" for r in reads if r.kind in ("setting", "environment")}
    if any(r.kind == "model" for r in reads):
        named.add(model_field)
    wanted = frozenset().union(*said.raised.guards)
    out.fields += 1
    out.inside += wanted <= named
    for missing in sorted(wanted - named):
        out.notes[f"field: {missing} ({name}, {way.legs[-1].function})"] += 1


def decide(guard: ResolvedGuard, settings: Mapping[str, Any]) -> bool | None:
    """The truth of a test over settings and literals; None where it reads anything else."""
    if any(r.kind not in ("setting", "literal") for a in guard.atoms for r in a.reads) or guard.guard.kind in ("for", "except"):
        return None
    node = parse_test(guard.guard.text)
    fields = {r.name for a in guard.atoms for r in a.reads if r.kind == "setting"}
    if node is None or not fields <= set(settings) or not all(_simple(n, fields) for n in _nodes(node)):
        return None
    code = compile(ast.fix_missing_locations(ast.Expression(_Fields(fields).visit(node))), "<guard>", "eval")
    try:
        return bool(eval(code, {"__builtins__": {}}, {f"f_{k}": v for k, v in settings.items()}))  # only what _simple allows
    except (TypeError, ZeroDivisionError):
        return None


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if not isinstance(node, ast.Attribute):
        for child in ast.iter_child_nodes(node):
            yield from _nodes(child)


def _simple(node: ast.AST, fields: set[str]) -> bool:
    if isinstance(node, ast.Attribute):
        return isinstance(node.value, ast.Name) and node.attr in fields
    kinds = (ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.Compare, ast.Constant, ast.Tuple, ast.List, ast.Set)
    return isinstance(node, (*kinds, ast.boolop, ast.unaryop, ast.operator, ast.cmpop, ast.expr_context))


class _Fields(ast.NodeTransformer):
    def __init__(self, fields: set[str]) -> None:
        self.fields = fields

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return ast.Name(f"f_{node.attr}", ast.Load())


__all__ = ["RealFailure", "Verdict", "compare", "generated", "labelled"]
