"""What `check` foresees against what the real code does: python -m tests.oracle.check --launches 300 --seed 5 0.5.11 0.5.23

The real code is asked about the launch as typed, about every launch on the way that check says would fail next, and about
the patched one.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tests.oracle.launches import make_launches
from tests.oracle.places import FACTS
from tests.oracle.real import SHARED, Answer, Evaluators, ask_all, facts_names, model_names, read_answer, real_actions
from triage.analysis.evaluators import Evaluators as Pool
from triage.analysis.foresee import foresee
from triage.model import CaptureMeta, Facts, Failure, Foresight, Launch
from triage.protocols import Capture

META = CaptureMeta("", "", "given", "sglang", None, None, None, None)


@dataclass(frozen=True)
class Case:
    name: str
    facts: str
    argv: tuple[str, ...]


@dataclass
class Figures:
    """Counts of one release: right ones of all that were said."""

    launches: int = 0
    foreseen: list[bool] = field(default_factory=list)  # of launches that really fail: check names the statement
    first: list[bool] = field(default_factory=list)  # of first failures that check names: they are the real ones
    passes: list[bool] = field(default_factory=list)  # of launches that check says pass
    later: list[bool] = field(default_factory=list)  # of further failures: they occur when the steps before are taken
    patches: list[bool] = field(default_factory=list)  # of best patches: they pass
    patched: list[bool] = field(default_factory=list)  # of launches that check says fail: it has a patch
    unknown: int = 0
    layers: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def row(self) -> str:
        spent = sorted(self.seconds)
        deep = [sum(n >= k for n in self.layers) for k in (1, 2, 3)]
        times = f"s median {spent[len(spent) // 2]:.2f} p90 {spent[len(spent) * 9 // 10]:.2f}"
        return (
            f"first {_share(self.first)}, of all that fail {_share(self.foreseen)}, passes {_share(self.passes)}, "
            f"later {_share(self.later)}, patch {_share(self.patches)}, has one {_share(self.patched)}, unknown {self.unknown}, "
            f"layers 1+/2+/3+ {'/'.join(map(str, deep))}, {times}"
        )


def _share(answers: Sequence[bool]) -> str:
    return f"{sum(answers)}/{len(answers)}"


class Checker:
    """`foresee` over one installed release, on the platforms of the oracle's facts files."""

    def __init__(self, release: str, cases: Iterable[Case], bare: bool = False) -> None:
        self.release = release
        self.bare = bare
        self.ours = Evaluators(release, [c.argv for c in cases])
        self.pools: dict[str, Pool] = {}

    def check(self, case: Case) -> Foresight:
        raw = json.loads((FACTS / f"{case.facts}.json").read_text())
        machine = self.ours.get(case.facts).machine
        facts, models = (Facts(), ()) if self.bare else (machine.facts, tuple(self.ours.models))
        launch = Launch((), case.argv, raw.get("env", {}))
        capture = Capture(META, launch, facts, b"", self.ours.tree, models)
        pool = self.pools.setdefault(case.facts, Pool(capture, self.ours.profile, self.ours.program))
        return foresee(capture, self.ours.profile, evaluators=pool)


def ask(release: str, facts: str, launches: Sequence[tuple[Sequence[str], Mapping[str, str]]]) -> list[Answer]:
    """What the real validation does with each launch and its variables."""
    questions = [{"argv": list(argv), "env": dict(env)} for argv, env in launches]
    return [read_answer(a) for a in ask_all(release, facts, questions, ("settings", "frames", "records"))]


def is_real(failure: Failure, real: Answer) -> bool:
    """Whether this is the failure that the real code shows: the parser's, or the exception at that statement."""
    if failure.kind == "usage":
        return real.outcome == "argparse"
    site = failure.site
    if site is None or real.outcome not in ("exception", "exit"):
        return False
    same = (real.exception or "").rpartition(".")[2] == (failure.exception or "").rpartition(".")[2]
    return same and site.file == real.file and real.first <= site.line <= real.last


def measure(release: str, cases: Sequence[Case], bare: bool = False, show: bool = False) -> Figures:
    """Foresee every case, ask the real code about all that was said, count."""
    checker = Checker(release, cases, bare)
    figures = Figures()
    for facts in sorted({c.facts for c in cases}):
        told: list[tuple[Case, Foresight]] = []
        launches: list[tuple[Sequence[str], Mapping[str, str]]] = []
        for case in (c for c in cases if c.facts == facts):
            started = time.process_time()
            seen = checker.check(case)
            figures.seconds.append(time.process_time() - started)
            told.append((case, seen))
            launches.append((case.argv, {}))
            launches += [(f.args, f.env) for f in seen.failures[1:]]
            launches += [(p.args, p.env) for p in seen.patches[:1]]
        answers = iter(ask(release, facts, launches))
        for case, seen in told:
            _count(figures, case, seen, answers)
        if show:
            print(f"  {facts}: {figures.row()}", flush=True)
    return figures


def _count(figures: Figures, case: Case, seen: Foresight, answers: Iterable[Answer]) -> None:
    real = next(iter(answers))
    figures.launches += 1
    figures.layers.append(len(seen.failures))

    def note(what: str, asked: Sequence[str], answer: Answer) -> None:
        where = f"{answer.file}:{answer.first} {answer.exception} {answer.message[:120]!r}"
        figures.wrong.append(f"{case.name} {case.facts} {what}: {answer.outcome} {where}; {' '.join(asked)}")

    fails = real.outcome != "ok"
    right = bool(seen.failures) and is_real(seen.failures[0].failure, real)
    if fails:
        figures.foreseen.append(right)
    if seen.failures:
        figures.first.append(right)
        figures.patched.append(bool(seen.patches))
        if not right:
            note(f"first {seen.failures[0].failure.exception} {seen.failures[0].failure.site}", case.argv, real)
    elif seen.outcome == "passes":
        figures.passes.append(not fails)
        if fails:
            note("passes", case.argv, real)
    else:
        figures.unknown += 1
    for number, failure in enumerate(seen.failures[1:], 2):
        answer = next(iter(answers))
        figures.later.append(is_real(failure.failure, answer))
        if not figures.later[-1]:
            note(f"failure {number} {failure.failure.exception} {failure.failure.site}", failure.args, answer)
    for patch in seen.patches[:1]:
        answer = next(iter(answers))
        figures.patches.append(answer.outcome == "ok")
        if answer.outcome != "ok":
            note(f"patch ({patch.certainty})", patch.args, answer)


def labelled_cases(release: str) -> list[Case]:
    """The labelled failures of a release; () where there are none."""
    path = SHARED / "cases" / f"{release}.jsonl"
    lines = path.read_text().splitlines() if path.is_file() else []
    return [Case(c["id"], c["facts"], tuple(c["argv"])) for c in map(json.loads, lines)]


def generated_cases(release: str, count: int, seed: int) -> list[Case]:
    made = make_launches(real_actions(release), facts_names(), model_names(), count, seed)
    return [Case(str(n), c.facts, c.argv) for n, c in enumerate(made)]


def pile_up(cases: Sequence[Case], count: int, seed: int) -> list[Case]:
    """Launches with several mistakes: the flags of two or three cases of one host and model behind each other."""
    rng = random.Random(seed)
    out: list[Case] = []
    for number in range(count):
        first = rng.choice(cases)
        more = [c for c in cases if c.facts == first.facts and c.argv[:2] == first.argv[:2] and c is not first]
        chosen = rng.sample(more, min(len(more), rng.choice((1, 2))))
        argv = (*first.argv, *(w for c in chosen for w in c.argv[2:]))
        out.append(replace(first, name=f"pile {number}", argv=argv))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.check", description=__doc__)
    parser.add_argument("releases", nargs="*", default=["0.5.11", "0.5.23"])
    parser.add_argument("--launches", type=int, default=300, help="generated ones; 0: the labelled cases")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pile", type=int, default=0, help="so many launches with the mistakes of several labelled cases")
    parser.add_argument("--bare", action="store_true", help="without facts and model config")
    parser.add_argument("--show", type=int, default=0, help="print this many disagreements")
    given = parser.parse_args()
    for release in given.releases:
        cases = generated_cases(release, given.launches, given.seed) if given.launches else labelled_cases(release)
        cases = pile_up(cases, given.pile, given.seed) if given.pile else cases
        figures = measure(release, cases, given.bare, bool(given.show))
        print(f"{release:12} {figures.launches} launches: {figures.row()}", flush=True)
        for line in figures.wrong[: given.show]:
            print(f"  {line}")


if __name__ == "__main__":
    main()
