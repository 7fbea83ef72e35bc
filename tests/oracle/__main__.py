"""The figures of any number of launches: python -m tests.oracle --launches 1000 --seed 5 0.5.11 0.5.23"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.oracle.bare import Bare
from tests.oracle.judge import HEAD, Tally
from tests.oracle.launches import Case, make_launches
from tests.oracle.real import RELEASES, Answer, Evaluators, ask, env_names, facts_names, model_names, real_actions
from triage.knowledge import load_profile


@dataclass
class Figures:
    """Of one release: with facts and model configs, and with the bare log of failing and of passing launches."""

    facts: Tally = field(default_factory=Tally)
    failing: Tally = field(default_factory=Tally)
    passing: Tally = field(default_factory=Tally)
    kinds: Counter[str] = field(default_factory=Counter)
    flags: str = ""  # how many of the parser's are used
    lost: int = 0  # launches in environments in which the real package cannot be imported


def measure(release: str, count: int, seed: int, facts: Sequence[str] = (), bare: bool = True, rich: bool = True) -> Figures:
    """Generate, ask the real code, evaluate, count. `rich` launches have environments and config files too."""
    hosts = facts or facts_names()
    profile = load_profile("sglang")
    figures = Figures()
    with tempfile.TemporaryDirectory() as folder:
        actions = real_actions(release)
        variables = env_names(release, profile.environment_prefixes, profile.args_class) if rich else ()
        cases = make_launches(actions, hosts, model_names(), count, seed, variables, Path(folder) if rich else None)
        ours = Evaluators(release, [c.argv for c in cases], dict(t for c in cases for t in c.texts))
        alone = Bare(ours)
        for host, env in dict.fromkeys((c.facts, c.env) for c in cases):
            mine = [c for c in cases if (c.facts, c.env) == (host, env)]
            try:
                answers = ask(release, host, [c.argv for c in mine], env)
            except AssertionError:
                if not env:
                    raise
                figures.lost += len(mine)
                continue
            for case, real in zip(mine, answers, strict=True):
                figures.kinds.update(case.kinds)
                started = time.process_time()
                said = ours.get(host, env).evaluate(case.argv)
                figures.facts.seconds += time.process_time() - started
                figures.facts.add(case.name, said, real)
                if bare:
                    _add_bare(figures, alone, case, real)
    used = {w.partition("=")[0] for c in cases for w in c.argv}
    flagged = [a for a in actions if a["flags"] and a["dest"] not in ("help", "version")]
    hit = sum(any(any(w == f or (len(w) > 4 and f.startswith(w)) for w in used) for f in a["flags"]) for a in flagged)
    figures.flags = f"{hit}/{len(flagged)}"
    return figures


def _add_bare(figures: Figures, alone: Bare, case: Case, real: Answer) -> None:
    tally = figures.passing if real.outcome == "ok" else figures.failing
    started = time.process_time()
    said = alone.evaluate(case.argv, case.env, real)
    tally.seconds += time.process_time() - started
    tally.add(case.name, said, real)


def compare(release: str, count: int, seed: int, facts: Sequence[str] = ()) -> Tally:
    """The figures with facts, of launches without environments of their own."""
    return measure(release, count, seed, facts, bare=False, rich=False).facts


_COLUMNS = (
    "release", "launches", "really pass", "really fail", "of these usage", "flags used", "surely fails: right",
    "surely passes: right", "committed", "bare log: committed", "right", "bare, passing: committed", "right", "seconds each",
    "seed",
)  # fmt: skip


def markdown_row(release: str, seed: int, f: Figures) -> str:
    t = f.facts
    cells = [
        release, t.launches, t.launches - t.really_fail, t.really_fail, t.refused, f.flags,
        f"{t.fails_right}/{t.fails_right + t.fails_wrong} ({t.fails:.1%})",
        f"{t.passes_right}/{t.passes_right + t.passes_wrong} ({t.passes:.1%})",
        f"{t.commits:.1%}", f"{f.failing.commits:.1%}", f"{f.failing.right:.1%}",
        f"{f.passing.commits:.1%}", f"{f.passing.right:.1%}", f"{t.seconds / max(1, t.launches):.3f}", seed,
    ]  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument("releases", nargs="*", default=list(RELEASES))
    parser.add_argument("--launches", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=0, help="print this many disagreements and unknowns")
    parser.add_argument("--markdown", action="store_true", help="print the table of EVALUATION.md")
    given = parser.parse_args()
    if given.markdown:
        print(f"| {' | '.join(_COLUMNS)} |\n|{' --- |' * len(_COLUMNS)}", flush=True)
    else:
        print(f"{'release':12} {'':8} {HEAD}", flush=True)
    for release in given.releases:
        figures = measure(release, given.launches, given.seed)
        for name in ("facts", "failing", "passing"):
            tally: Tally = getattr(figures, name)
            for line in (*tally.wrong[: given.show], *tally.unknown[: given.show]):
                print(f"  {name}: {line}")
        if given.markdown:
            print(markdown_row(release, given.seed, figures), flush=True)
            continue
        for name in ("facts", "failing", "passing"):
            print(f"{release:12} {name:8} {getattr(figures, name).row()}", flush=True)
        each = figures.facts.seconds / max(1, figures.facts.launches)
        print(
            f"  {each:.3f} s each; flags used {figures.flags}; {dict(sorted(figures.kinds.items()))}; not asked: {figures.lost}"
        )


if __name__ == "__main__":
    main()
