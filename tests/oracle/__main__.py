"""The figures of any number of launches: python -m tests.oracle --launches 1000 --seed 5 0.5.11 0.5.23"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from tests.oracle.judge import HEAD, Tally
from tests.oracle.launches import make_launches
from tests.oracle.real import RELEASES, Evaluators, ask, facts_names, model_names, real_actions


def compare(release: str, count: int, seed: int, show: int = 0, facts: Sequence[str] = ()) -> Tally:
    """Generate, ask the real code, evaluate, count."""
    hosts = facts or facts_names()
    cases = make_launches(real_actions(release), hosts, model_names(), count, seed)
    ours = Evaluators(release, [c.argv for c in cases])
    tally = Tally()
    spent = 0.0
    for host in hosts:
        mine = [c for c in cases if c.facts == host]
        if not mine:
            continue
        answers = ask(release, host, [c.argv for c in mine])
        evaluator = ours.get(host)
        for case, real in zip(mine, answers, strict=True):
            started = time.perf_counter()
            said = evaluator.evaluate(case.argv)
            spent += time.perf_counter() - started
            tally.add(f"{host} {' '.join(repr(w) if ' ' in w or not w else w for w in case.argv)}", said, real)
    for line in (*tally.wrong[:show], *tally.unknown[:show]):
        print(f"  {line}")
    if show:
        print(f"{release}: {spent / max(1, count):.3f} s for one evaluation")
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument("releases", nargs="*", default=list(RELEASES))
    parser.add_argument("--launches", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=0, help="print this many disagreements and unknowns")
    given = parser.parse_args()
    print(f"{'release':12} {HEAD}", flush=True)
    for release in given.releases:
        print(f"{release:12} {compare(release, given.launches, given.seed, given.show).row()}", flush=True)


if __name__ == "__main__":
    main()
