"""What patches are worth once the host has judged them: python -m tests.oracle.hosted RAW [--known facts|bare] [RELEASE...]

RAW is the file of `python -m tests.oracle.patches --raw`: failing launches, and what brute force finds for them. Each is
diagnosed from its real log and settled as `triage run` does before it restarts anything; the real validation of the release
stands in for the rehearsal on the host, which tests/e2e shows to judge alike.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.oracle.bare import META
from tests.oracle.brute import Asker
from tests.oracle.patches import within_two
from tests.oracle.places import FACTS
from tests.oracle.real import Evaluators, read_answer
from triage.argv import edit_args
from triage.loop.settle import make_diagnose, settle_patches
from triage.model import Edit, ExitStatus, Facts, Launch, Rehearsal, Rehearsed, RehearsedOutcome
from triage.protocols import Capture

Raw = dict[str, Any]


class Bench:
    """One release on one host: captures of failing launches, and the host that judges others."""

    def __init__(self, ours: Evaluators, facts: str, asker: Asker, known: str) -> None:
        self.ours, self.asker = ours, asker
        self.diagnose = make_diagnose(ours.profile)
        host = ours.get(facts).machine.facts
        self.env: dict[str, str] = json.loads((FACTS / f"{facts}.json").read_text()).get("env", {})
        self.facts = host if known == "facts" else Facts()
        self.models = tuple(ours.models) if known == "facts" else ()

    def settle(self, argv: tuple[str, ...]) -> Raw:
        """The first patch of the settled diagnosis, and what it took."""
        self.argv = argv
        started = time.process_time()
        answer = self.asker.ask([{"argv": list(argv)}])[0]
        log = read_answer(answer).log.encode()
        capture = Capture(META, Launch((), argv, self.env), self.facts, log, self.ours.tree, self.models)
        first = self.diagnose(capture, (), ())
        settled = settle_patches(capture, first, self.diagnose, self.rehearse) if first.patches else None
        asked = sum(len(r.answers) for r in settled.rehearsals) if settled is not None else 0
        patches = settled.diagnosis.patches if settled is not None else ()
        return {
            "edits": [[e.action, e.name, e.old, e.new] for e in patches[0].edits] if patches else None,
            "certainty": patches[0].certainty if patches else None,
            "ok": bool(patches) and self.rehearse([patches[0].edits]).answers[0].outcome == "passes",
            "asked": asked,
            "batches": len(settled.rehearsals) if settled is not None else 0,
            "seconds": time.process_time() - started,
            "outcome": settled.diagnosis.outcome if settled is not None else first.outcome,
        }

    def rehearse(self, launches: Sequence[tuple[Edit, ...]]) -> Rehearsal:
        """As loop/rehearse.py, by the harness."""
        questions = [{"argv": list(edit_args(self.argv, e)), "env": _variables(e)} for e in launches]
        answers = self.asker.ask(questions)
        return Rehearsal(tuple(_read(edits, answer) for edits, answer in zip(launches, answers, strict=True)))


def _variables(edits: Sequence[Edit]) -> dict[str, str | None]:
    return {e.name: e.new for e in edits if e.action == "env"}


def _read(edits: tuple[Edit, ...], answer: Raw) -> Rehearsed:
    real = read_answer(answer)
    outcomes: dict[str, RehearsedOutcome] = {"ok": "passes", "argparse": "usage", "exception": "fails"}
    outcome = outcomes.get(real.outcome, "crash")
    code = 0 if outcome == "passes" else 2 if outcome == "usage" else 1
    return Rehearsed(edits, outcome, f"{real.exception}: {real.message}"[:300], real.log.encode(), exit=ExitStatus(code))


def measure(release: str, raws: Sequence[Raw], known: str, show: bool) -> list[Raw]:
    ours = Evaluators(release, [tuple(r["argv"]) for r in raws])
    out: list[Raw] = []
    for facts in sorted({r["facts_name"] for r in raws}):
        with Asker(release, facts) as asker:
            bench = Bench(ours, facts, asker, known)
            for raw in (r for r in raws if r["facts_name"] == facts):
                found = bench.settle(tuple(raw["argv"]))
                out.append({**raw, "settled": found})
                if show and not found["ok"] and within_two(raw, "repair"):
                    print(facts, " ".join(raw["argv"]), raw["failure"], found, raw.get("brute"), sep="\n    ", flush=True)
    return out


def tell(release: str, known: str, raws: Sequence[Raw]) -> str:
    repairable = [r for r in raws if within_two(r, "repair") or r["settled"]["ok"]]
    good = sum(r["settled"]["ok"] for r in repairable)
    wrong = [r for r in raws if r["settled"]["certainty"] == "rehearsed" and not r["settled"]["ok"]]
    asked = sorted(r["settled"]["asked"] for r in raws)
    more = sum(r["settled"]["batches"] > 1 for r in raws)
    share = f"{good}/{len(repairable)} ({good / max(len(repairable), 1):.1%})"
    return (
        f"| {release} | {known} | {len(raws)} | {share} | {len(wrong)} | {more} | "
        f"{asked[len(asked) // 2]} ({asked[len(asked) * 9 // 10]}) |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.hosted", description=__doc__)
    parser.add_argument("raw", type=Path)
    parser.add_argument("releases", nargs="*")
    parser.add_argument("--known", choices=("facts", "bare"), default="facts")
    parser.add_argument("--list", action="store_true", help="print what fails")
    given = parser.parse_args()
    raws = [r for r in map(json.loads, given.raw.read_text().splitlines()) if "argv" in r]
    print(
        "| release | known | failing | first passes once rehearsed | rehearsed but refused | more than one batch | asked (p90) |"
    )
    print("|---|---|---|---|---|---|---|")
    for release in given.releases or sorted({r["release"] for r in raws}):
        mine = [r for r in raws if r["release"] == release]
        print(tell(release, given.known, measure(release, mine, given.known, given.list)), flush=True)


if __name__ == "__main__":
    main()
