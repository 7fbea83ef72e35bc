"""What patches are worth by the real validation: python -m tests.oracle.patches --launches 200 --seed 5 0.5.11 0.5.23

Launches that the real validation refuses are repaired offline, once with the facts of the host and the model's config, once
with log, source and command line alone. The real validation is asked about the first three patches, and about the first
without each of its edits. What else would have been possible is asked by brute force (`brute.py`), only where none of ours
passes with two edits, or each of them removes or loses something typed.

With --raw the results are kept in a file, from which an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.oracle.bare import META
from tests.oracle.brute import CAP, Asker, Parser, is_renamed, lost_values, repair, takes_away
from tests.oracle.failing import failing_launches
from tests.oracle.launches import Case
from tests.oracle.real import RELEASES, Evaluators, read_answer, real_actions
from triage.analysis.diagnose import diagnose
from triage.analysis.edits import Context
from triage.analysis.evaluate import Evaluator
from triage.analysis.flags import read_flags
from triage.analysis.patch import EvaluatorFor, Limits, find_patches
from triage.argv import edit_args
from triage.knowledge import load_profile
from triage.model import Edit, Facts, Launch, Patch
from triage.protocols import Capture

Raw = dict[str, Any]
MODES = ("facts", "bare")
PROFILE = load_profile("sglang")


# ---------------------------------------------------------------- ours
@dataclass(frozen=True)
class Proposed:
    """What ours says of one failing launch."""

    patches: tuple[Patch, ...]
    seconds: float
    evaluations: int = 0
    complete: bool = True
    consent: bool = False
    why: str = ""  # where there is none


class Repairer:
    """Patches for launches of one release."""

    def __init__(self, release: str, cases: Sequence[Case]) -> None:
        self.ours = Evaluators(release, [c.argv for c in cases])
        self.gets: dict[str, EvaluatorFor] = {}
        first = cases[0]
        self.ours.get(first.facts).evaluate(first.argv)
        self.options = read_flags(self.ours.get(first.facts), self.ours.tree)

    def evaluators(self, facts: str) -> EvaluatorFor:
        """Of one host, one for each environment."""
        if facts in self.gets:
            return self.gets[facts]
        ours = self.ours
        base = ours.get(facts)
        machine = base.machine
        host = dict(machine.env)
        made: dict[tuple[tuple[str, str], ...], Evaluator] = {(): base}

        def get(env: Mapping[str, str]) -> Evaluator:
            key = tuple(sorted(env.items()))
            if key not in made:
                made[key] = Evaluator(ours.program, ours.profile, machine.facts, {**host, **env}, ours.models)
            return made[key]

        self.gets[facts] = get
        return get

    def with_facts(self, case: Case) -> Proposed:
        started = time.process_time()
        get = self.evaluators(case.facts)
        get({}).evaluate(case.argv)
        context = Context(read_flags(get({}), self.ours.tree), self.ours.profile, self.ours.tree, case.argv, {})
        search = find_patches(get, context)
        consent, spent = False, search.evaluations
        if not search.patches:
            asking = find_patches(get, replace(context, protected=True), limits=Limits(edits=2, evaluations=20))
            consent, spent = bool(asking.patches), spent + asking.evaluations
            search = asking if asking.patches else search
        seconds = time.process_time() - started
        return Proposed(search.patches, seconds, spent, search.complete, consent)

    def bare(self, case: Case, log: str) -> Proposed:
        started = time.process_time()
        launch = Launch((), case.argv, {})
        said = diagnose(Capture(META, launch, Facts(), log.encode(), self.ours.tree), self.ours.profile)
        why = "; ".join(f"{u.what}: {u.why}" for u in said.unknowns)[:400]
        consent = said.outcome == "needs_consent"
        return Proposed(said.patches, time.process_time() - started, consent=consent, why=f"{said.outcome}: {why}")


# ---------------------------------------------------------------- the judge
def judge_case(
    case: Case, real: Mapping[str, Any], proposed: Mapping[str, Proposed], asker: Asker, parser: Parser, cap: int = CAP
) -> Raw:
    """What the real validation says of the patches, and brute force of what else there is."""
    asked = parser.asked(case.argv)
    raw: Raw = {
        "facts_name": case.facts,
        "argv": list(case.argv),
        "failure": {k: real.get(k) for k in ("outcome", "exception", "message")},
        "frame": {k: (real.get("frame") or {}).get(k) for k in ("file", "first", "text")},
    }
    for mode, ours in proposed.items():
        patches = [_ask_patch(case, p, asker, asked) for p in ours.patches[:3]]
        if patches and patches[0]["ok"]:
            edits = ours.patches[0].edits
            less = _without_one(edits)
            answers = asker.ask([_question(case, e) for e in less if _fits(case, e)])
            patches[0]["left_out"] = [a["outcome"] == "ok" for a in answers]
        told = {k: v for k, v in asdict(replace(ours, patches=())).items() if k != "patches"}
        raw[mode] = {**told, "patches": patches}
    wanted = [kind for kind in ("repair", "nothing_removed", "all_kept") if not within_two(raw, kind)]
    if wanted:
        found = repair(asker, parser, case.argv, real, frozenset(wanted), cap)
        raw["brute"] = {"wanted": wanted, **asdict(found)}
    return raw


def _without_one(edits: Sequence[Edit]) -> list[tuple[Edit, ...]]:
    """All but one change; [] where there is only one. A flag that is renamed is one change."""
    units: list[tuple[Edit, ...]] = []
    for edit in edits:
        if units and len(units[-1]) == 1 and is_renamed(units[-1][0], edit):
            units[-1] = (*units[-1], edit)
        else:
            units.append((edit,))
    return [tuple(e for unit in (*units[:n], *units[n + 1 :]) for e in unit) for n in range(len(units))] if units[1:] else []


def _ask_patch(case: Case, patch: Patch, asker: Asker, asked: Mapping[str, Any]) -> Raw:
    answer = asker.ask([_question(case, patch.edits)])[0]
    out: Raw = {
        "edits": [[e.action, e.name, e.old, e.new] for e in patch.edits],
        "ok": answer["outcome"] == "ok",
        "certainty": patch.certainty,
        "removes": takes_away(patch.edits),
        "losses": list(patch.losses),
        "lost": lost_values(asked, answer["settings"] or {}),
    }
    if not out["ok"]:
        real = read_answer(answer)
        out["instead"] = f"{real.outcome} {real.exception}: {real.message[:200]} at {real.file}:{real.first}"
    return out


def _question(case: Case, edits: Sequence[Edit]) -> Raw:
    env = {e.name: e.new for e in edits if e.action == "env"}
    return {"argv": list(edit_args(case.argv, edits)), "env": env}


def _fits(case: Case, edits: Sequence[Edit]) -> bool:
    try:
        edit_args(case.argv, edits)
    except ValueError:
        return False
    return True


# ---------------------------------------------------------------- figures
@dataclass
class Row:
    """Of one release and mode; each list holds one answer for each launch that counts."""

    launches: int = 0
    repairable: int = 0  # within two edits
    first: list[bool] = field(default_factory=list)
    three: list[bool] = field(default_factory=list)
    removes_nothing: list[bool] = field(default_factory=list)
    keeps: list[bool] = field(default_factory=list)
    minimal: list[bool] = field(default_factory=list)
    wrong: list[bool] = field(default_factory=list)  # of all first patches: it does not pass
    none: list[bool] = field(default_factory=list)  # of launches without a patch: brute force finds none either
    evaluations: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def within_two(raw: Raw, kind: str) -> bool:
    """Whether a repair of at most two edits of this kind is known, from ours or by brute force. One of brute force that
    makes up a value for a protected setting (a path, an address, a key) is a person's to make, and does not count."""
    brute = raw.get("brute", {}).get(kind)
    if brute and not any(_is_made_up(edit) for edit in brute):
        return True
    for patch in (p for mode in MODES for p in raw.get(mode, {}).get("patches", ())):
        kept = {"repair": True, "nothing_removed": not patch["removes"], "all_kept": not patch["lost"]}[kind]
        if patch["ok"] and len(patch["edits"]) <= 2 and kept:
            return True
    return False


def _is_made_up(edit: Mapping[str, Any]) -> bool:
    field = edit["name"].lstrip("-").replace("-", "_")
    return edit["action"] in ("add", "set") and edit["new"] is not None and PROFILE.protection(field) is not None


def count(raws: Sequence[Raw], mode: str) -> Row:
    row = Row()
    for raw in raws:
        ours = raw[mode]
        patches = ours["patches"]
        row.launches += 1
        row.evaluations.append(ours["evaluations"])
        row.seconds.append(ours["seconds"])
        first = patches[0] if patches else None
        good = first is not None and first["ok"]
        removes = first is not None and first["removes"]
        lost = first is not None and bool(first["lost"])
        if first is None:
            row.none.append(not within_two(raw, "repair"))
        else:
            row.wrong.append(not first["ok"])
            if good:
                row.minimal.append(not any(first.get("left_out", ())))
        if within_two(raw, "repair"):
            row.repairable += 1
            row.first.append(good)
            row.three.append(any(p["ok"] for p in patches))
        if within_two(raw, "nothing_removed"):
            row.removes_nothing.append(good and not removes)
        if within_two(raw, "all_kept"):
            row.keeps.append(good and not lost)
    return row


COLUMNS = (
    "release", "known", "failing", "repairable in 2", "first passes", "one of three", "removes nothing", "keeps all values",
    "minimal", "first is wrong", "no patch, rightly", "evaluations (p90)", "s median (p90)",
)  # fmt: skip


def cells(release: str, mode: str, row: Row) -> list[str]:
    def share(answers: Sequence[bool]) -> str:
        return f"{sum(answers)}/{len(answers)} ({sum(answers) / len(answers):.1%})" if answers else "-"

    used, spent = sorted(row.evaluations), sorted(row.seconds)
    at, late = len(used) // 2, len(used) * 9 // 10
    evaluations = f"{used[at]} ({used[late]})" if any(used) else "-"
    return [
        release, {"facts": "host and model", "bare": "log and source"}[mode], str(row.launches), str(row.repairable),
        share(row.first), share(row.three), share(row.removes_nothing), share(row.keeps), share(row.minimal),
        f"{sum(row.wrong)}/{len(row.wrong)}", share(row.none), evaluations, f"{spent[at]:.1f} ({spent[late]:.1f})",
    ]  # fmt: skip


# ---------------------------------------------------------------- the command
def measure(
    release: str, launches: int, seed: int, raw_file: Path | None, modes: Sequence[str], jobs: int, cap: int
) -> list[Raw]:
    """One result a launch, in their order; those that stand in the file are taken from there."""
    known: dict[tuple[str, ...], Raw] = {}
    cases: list[Case] = []
    lines = raw_file.read_text().splitlines() if raw_file is not None and raw_file.is_file() else []
    for raw in (r for r in map(json.loads, lines) if (r["release"], r["seed"]) == (release, seed)):
        if "cases" in raw:
            cases = [Case(facts, tuple(argv)) for facts, *argv in raw["cases"]]
        else:
            known[(raw["facts_name"], *raw["argv"])] = raw
    if not cases:
        cases = failing_launches(release, launches, seed)
        _keep(raw_file, {"release": release, "seed": seed, "cases": [[c.facts, *c.argv] for c in cases]})
    repairer = Repairer(release, cases)
    out: list[Raw] = []
    for facts in sorted({c.facts for c in cases}):
        mine = [c for c in cases if c.facts == facts]
        if all((facts, *c.argv) in known for c in mine):
            out += [known[(facts, *c.argv)] for c in mine]
            continue
        with Asker(release, facts, jobs) as asker:
            for case in mine:
                raw = known.get((facts, *case.argv)) or _measure_case(release, case, repairer, asker, modes, cap)
                out.append(raw)
                if (facts, *case.argv) not in known:
                    _keep(raw_file, {"release": release, "seed": seed, **raw})
    return out


def _keep(raw_file: Path | None, raw: Raw) -> None:
    if raw_file is not None:
        with raw_file.open("a") as file:
            file.write(json.dumps(raw) + "\n")


def _measure_case(release: str, case: Case, repairer: Repairer, asker: Asker, modes: Sequence[str], cap: int) -> Raw:
    real = asker.ask([{"argv": list(case.argv)}])[0]
    proposed = {}
    if "facts" in modes:
        proposed["facts"] = repairer.with_facts(case)
    if "bare" in modes:
        proposed["bare"] = repairer.bare(case, print_log(real))
    fields = {o.flag.dest: o.field for o in repairer.options.all}
    return judge_case(case, real, proposed, asker, Parser(real_actions(release), fields), cap)


def print_log(real: Mapping[str, Any]) -> str:
    """What the launch prints: warnings, then how it ends."""
    said = [r["message"] for r in real["records"] if r["level"] != "PYWARN"]
    return "".join(f"[2026-05-11 23:23:32] {text}\n" for text in said) + read_answer(real).log


def show_case(raw: Raw, modes: Sequence[str]) -> list[str]:
    """For a person: the launch, its failure, what ours proposes and what brute force found."""
    failure = raw["failure"]
    out = [f"{raw['facts_name']}: {' '.join(raw['argv'])}"]
    out.append(
        f"    {failure['exception']}: {(failure['message'] or '')[-300:]!r} at {raw['frame']['file']}:{raw['frame']['first']}"
    )
    for mode in modes:
        ours = raw[mode]
        for place, patch in enumerate(ours["patches"]):
            edits = ", ".join(" ".join(w for w in (a, n, o and f"({o} ->)", new) if w) for a, n, o, new in patch["edits"])
            said = "passes" if patch["ok"] else f"FAILS {patch['instead']}"
            lost = f" lost {patch['lost']}" if patch["lost"] else ""
            spare = " NOT MINIMAL" if any(patch.get("left_out", ())) else ""
            out.append(f"    {mode} {place}: {edits} [{patch['certainty']}] {said}{lost}{spare}")
        if not ours["patches"]:
            out.append(f"    {mode}: no patch, {ours['evaluations']} evaluations; {ours['why']}")
        if ours["consent"]:
            out.append(f"    {mode}: asks consent")
    brute = raw.get("brute")
    if brute:
        for kind in brute["wanted"]:
            edits = brute[kind]
            text = ", ".join(f"{e['action']} {e['name']} {e['new'] or ''}" for e in edits) if edits else "none"
            out.append(f"    brute {kind}: {text} ({brute['asked']} asked{'' if brute['ended'] else ', cut'})")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.patches", description=__doc__)
    parser.add_argument("releases", nargs="*", default=list(RELEASES))
    parser.add_argument("--launches", type=int, default=200, help="that fail, of each release and seed")
    parser.add_argument("--seed", type=int, nargs="+", default=[1])
    parser.add_argument("--raw", type=Path, help="file that results are added to, and taken from")
    parser.add_argument("--mode", choices=MODES, help="only this one")
    parser.add_argument("--jobs", type=int, default=1, help="processes of the real validation")
    parser.add_argument("--cap", type=int, default=CAP, help="launches that brute force asks about for each failing one")
    parser.add_argument("--list", action="store_true", help="print every launch with its patches")
    parser.add_argument("--markdown", action="store_true", help="print the table of PATCHES.md")
    given = parser.parse_args()
    modes = (given.mode,) if given.mode else MODES
    table = [list(COLUMNS), ["---"] * len(COLUMNS)]
    cut: Counter[str] = Counter()
    for release in given.releases:
        some = [measure(release, given.launches, seed, given.raw, modes, given.jobs, given.cap) for seed in given.seed]
        raws = [raw for part in some for raw in part]
        if given.list:
            for raw in raws:
                print("\n".join(show_case(raw, modes)))
        cut[release] = sum(not r["brute"]["ended"] and not r["brute"]["repair"] for r in raws if "brute" in r)
        for mode in modes:
            row = cells(release, mode, count(raws, mode))
            table.append(row)
            if not given.markdown:
                print("; ".join(f"{name} {cell}" for name, cell in zip(COLUMNS, row, strict=True)), flush=True)
    if given.markdown:
        print("\n".join(f"| {' | '.join(row)} |" for row in table))
    print(f"brute force asks about {given.cap} launches at most; cut there without a repair: {dict(cut)}; seeds {given.seed}")


if __name__ == "__main__":
    main()
