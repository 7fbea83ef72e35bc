"""First patches of labelled failures of real releases, judged by the real validation of that release."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.oracle.real import SHARED, Evaluators, ask_all, why_absent
from triage.analysis.edits import Context
from triage.analysis.evaluate import Evaluator
from triage.analysis.flags import read_flags
from triage.analysis.patch import EvaluatorFor, Search, find_patches
from triage.argv import edit_args
from triage.model import Edit

SAMPLE, SEED = 24, 20261130
Question = dict[str, Any]  # a line of the oracle's batch


@dataclass(frozen=True)
class Result:
    case: dict[str, Any]
    search: Search

    @property
    def first(self) -> tuple[Edit, ...]:
        return self.search.patches[0].edits if self.search.patches else ()

    def question(self, name: str, edits: tuple[Edit, ...]) -> Question:
        env = {e.name: e.new for e in edits if e.action == "env"}
        return {"id": f"{self.case['id']} {name}", "argv": edit_args(self.case["argv"], edits), "env": env}


def evaluator_for(ours: Evaluators, facts: str) -> EvaluatorFor:
    """Evaluators of one host, one for each environment."""
    base = ours.get(facts)
    machine = base.machine
    made: dict[tuple[tuple[str, str], ...], Evaluator] = {(): base}
    host = dict(machine.env)

    def get(env: Mapping[str, str]) -> Evaluator:
        key = tuple(sorted(env.items()))
        if key not in made:
            made[key] = Evaluator(ours.program, ours.profile, machine.facts, {**host, **env}, ours.models)
        return made[key]

    return get


def search_all(release: str) -> list[Result]:
    cases = [json.loads(line) for line in (SHARED / "cases" / f"{release}.jsonl").read_text().splitlines()]
    cases = random.Random(SEED).sample(cases, SAMPLE)
    ours = Evaluators(release, [c["argv"] for c in cases])
    out: list[Result] = []
    for case in cases:
        get = evaluator_for(ours, case["facts"])
        get({}).evaluate(case["argv"])
        context = Context(read_flags(get({}), ours.tree), ours.profile, ours.tree, tuple(case["argv"]), {})
        out.append(Result(case, find_patches(get, context)))
    return out


def ask(release: str, questions: list[tuple[str, Question]]) -> dict[str, bool]:
    """Whether the real validation lets each launch pass, by id. `questions` are (facts, line) pairs."""
    by_facts: defaultdict[str, list[Question]] = defaultdict(list)
    for facts, question in questions:
        by_facts[facts].append(question)
    out: dict[str, bool] = {}
    for facts, lines in sorted(by_facts.items()):
        answers = ask_all(release, facts, lines, ("settings", "frames", "records"))
        out.update({a["id"]: a["outcome"] == "ok" for a in answers})
    return out


def takes_away(edits: tuple[Edit, ...]) -> bool:
    """Whether a typed flag goes; one that is renamed (removed and added with its value) does not."""
    added = {e.new for e in edits if e.action == "add" and e.new is not None}
    return any(e.action == "remove" and not (e.old is not None and e.old in added) for e in edits)


@pytest.mark.parametrize("release", ["0.5.5", "0.5.16"])
def test_first_patches_hold_by_the_real_validation(release: str, report: Callable[[str], None]) -> None:
    absent = why_absent(release) or (None if (SHARED / "cases" / f"{release}.jsonl").is_file() else "not here: labelled cases")
    if absent:
        pytest.skip(absent)
    results = search_all(release)
    questions: list[tuple[str, Question]] = []
    for r in results:
        made = [r.question(str(n), p.edits) for n, p in enumerate(r.search.patches[:3])]
        if len(r.first) > 1:
            made += [r.question(f"without {n}", (*r.first[:n], *r.first[n + 1 :])) for n in range(len(r.first))]
        questions += [(r.case["facts"], q) for q in made]
    passed = ask(release, questions)

    repairable = [r for r in results if (r.case["repair_edits"] or 9) <= 2]
    with_patch = [r for r in results if r.first]
    typed_can_stay = [r for r in with_patch if r.case["keeps_intent"]]
    first_ok = sum(passed.get(f"{r.case['id']} 0", False) for r in repairable)
    three_ok = sum(any(passed.get(f"{r.case['id']} {n}") for n in range(3)) for r in repairable)
    kept = sum(not takes_away(r.first) for r in typed_can_stay)
    minimal = sum(not any(ok for k, ok in passed.items() if k.startswith(f"{r.case['id']} without")) for r in with_patch)
    used = sorted(r.search.evaluations for r in results)
    row = (
        f"first {first_ok}/{len(repairable)}, one of three {three_ok}/{len(repairable)}, keeps typed {kept}/{len(typed_can_stay)}"
    )
    spent = f"evaluations {used[len(used) // 2]} (p90 {used[len(used) * 9 // 10]})"
    report(f"{release:12} patches       {row}, minimal {minimal}/{len(with_patch)}, {spent}")
    wrong = [(r.case["id"], r.first) for r in with_patch if not passed[f"{r.case['id']} 0"]]
    assert not wrong, "patches that were proved do not pass"
    assert first_ok >= 0.9 * len(repairable)
    assert three_ok >= 0.95 * len(repairable) - 1  # one of a sample this small is more than five in a hundred
    assert kept >= 0.95 * len(typed_can_stay) - 1
    assert minimal >= 0.98 * len(with_patch)
