"""Sure verdicts against the real validation: labelled failures, and generated launches with a seed of our own.

For more launches than here: python -m tests.oracle --launches 1000 --seed 5
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.oracle.__main__ import compare
from tests.oracle.judge import Tally
from tests.oracle.real import RELEASES, SHARED, Answer, Evaluators, why_absent

SURE = 0.99
COMMITS = 0.90
LAUNCHES = 50
# The oracle starts once for each host: one for each release here, all of them for the command above.
HOSTS = {"0.5.5": "cpu", "0.5.16": "cpu"}


@pytest.mark.parametrize("release", RELEASES)
def test_generated_launches(release: str, report: Callable[[str], None]) -> None:
    absent = why_absent(release)
    if absent:
        pytest.skip(absent)
    tally = compare(release, LAUNCHES, seed=20, facts=(HOSTS.get(release, "h100x8"),))
    report(f"{release:12} generated     {tally.row()}")
    judge(tally)
    assert 0.1 < tally.really_fail / tally.launches < 0.9


@pytest.mark.parametrize("release", ["0.5.5", "0.5.16"])
def test_labelled_failures(release: str, report: Callable[[str], None]) -> None:
    """Each fails where its label says. The labels hold an oracle's answers, so only the sources are needed."""
    absent = why_absent(release)
    if absent:
        pytest.skip(absent)
    path = SHARED / "cases" / f"{release}.jsonl"
    if not path.is_file():
        pytest.skip(f"not here: {path}")
    cases = [json.loads(line) for line in path.read_text().splitlines()]
    ours = Evaluators(release, [c["argv"] for c in cases])
    tally = Tally()
    for case in cases:
        file = f"sglang/{case['file']}" if case.get("file") else None
        span = (case.get("statement_line") or 0, case.get("statement_end_line") or 0)
        real = Answer(case["outcome"], case["exception"], case["message"], file, *span)
        tally.add(case["id"], ours.get(case["facts"]).evaluate(case["argv"]), real)
    report(f"{release:12} labelled      {tally.row()}")
    assert tally.launches == len(cases)
    judge(tally)


def judge(tally: Tally) -> None:
    text = "\n".join([*tally.wrong, *tally.unknown][:20])
    assert tally.fails >= SURE, text
    assert tally.passes >= SURE, text
    assert tally.commits >= COMMITS, text
