"""How rehearsal and the oracle agree on generated launches: python -m tests.oracle.rehearsal RELEASE [--count N] [--seed S]

Rehearsed on this machine in the environment of a lab's unit, so it needs the lab's engine and oracle (TRIAGE_SHARED).
Exit status 1 where any answer, or the statement of any failure, differs.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tests.e2e.releases import FACTS, MODELS, SHARED, ask_oracle_all, find_releases, python_of
from tests.loop.test_rehearse import Told, words
from tests.oracle.launches import make_launches
from tests.oracle.real import real_actions
from triage.analysis.failure import find_failure
from triage.analysis.log import read_log
from triage.engines import open_engine
from triage.hosts import open_host
from triage.loop.rehearse import RehearsalLimits, rehearse_launches
from triage.model import ExitStatus, Launch, Rehearsed

_MEANT = {"ok": "passes", "argparse": "usage", "exception": "fails", "exit": "exit"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.rehearsal", description=__doc__)
    parser.add_argument("release")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    reason = find_releases()
    if reason:
        print(reason, file=sys.stderr)
        return 2
    engine, host = open_engine("sglang"), open_host("local")
    env = {"PYTHONPATH": str(SHARED / "lab" / "engine"), "LAB_FACTS": str(FACTS), "PATH": "/usr/local/bin:/usr/bin:/bin"}
    entry = (str(python_of(given.release)), "-m", "sglang.launch_server")
    service = Told(host, Launch(entry, (), env, str(SHARED / "oracle"), None))
    models = sorted(str(p.parent) for p in MODELS.glob("*/config.json"))
    actions = real_actions(given.release)
    sample = [case.argv for case in make_launches(actions, ("h100x8",), models, given.count, given.seed)]
    answers: list[Rehearsed] = []
    ready: list[float] = []
    step = RehearsalLimits().launches
    for at in range(0, len(sample), step):
        found = rehearse_launches(host, service, engine, [words(*argv) for argv in sample[at : at + step]])  # type: ignore[arg-type]
        if found.problem is not None:
            print(found.problem, found.hint, file=sys.stderr)
            return 2
        answers += found.answers
        ready.append(found.prepared)
    table: Counter[tuple[str, str]] = Counter()
    differing = 0
    for argv, answer, oracle in zip(sample, answers, ask_oracle_all(given.release, sample), strict=True):
        table[answer.outcome, oracle["outcome"]] += 1
        if answer.outcome != "offline" and not is_same(answer, oracle):
            differing += 1
            print("DIFFERS", *argv, "|", answer.outcome, answer.why, "|", oracle["outcome"], oracle.get("message"))
    seconds = sorted(a.seconds for a in answers)
    print(f"{given.release}: {len(sample)} launches, {differing} differ; {dict(table)}")
    mean, median = sum(seconds) / len(seconds), seconds[len(seconds) // 2]
    print(f"import {sum(ready) / len(ready):.1f} s, a launch {mean:.3f} s, median {median:.3f} s")
    return 1 if differing else 0


def is_same(answer: Rehearsed, oracle: dict[str, object]) -> bool:
    """The same outcome, and of a failure the same innermost statement in the package."""
    if answer.outcome != _MEANT.get(str(oracle["outcome"])):
        return False
    if answer.outcome != "fails" or oracle["exception"] == "SystemExit":
        return True
    failure = find_failure(read_log(answer.log), ExitStatus(code=1), "sglang", "failed")
    inside = [f for f in failure.frames if f.file] if failure is not None else []
    frame = oracle["frame"]
    return (
        isinstance(frame, dict)
        and bool(inside)
        and (inside[-1].file, inside[-1].line) == (f"sglang/{frame['file']}", frame["line"])
    )


if __name__ == "__main__":
    raise SystemExit(main())
