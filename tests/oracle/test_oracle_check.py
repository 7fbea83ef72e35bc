"""What check foresees for labelled failures of a real release, and for launches with several of these mistakes, judged by
the real validation of that release: every failure in its order, and the patch."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.oracle.check import labelled_cases, measure, pile_up
from tests.oracle.real import why_absent

FACTS, SAMPLE, PILES, SEED = "h100x8", 8, 3, 20261211  # one host: making its evaluator costs more than a launch


@pytest.mark.parametrize("release", ["0.5.16"])
def test_failures_come_in_the_order_that_check_says(release: str, report: Callable[[str], None]) -> None:
    cases = [c for c in labelled_cases(release) if c.facts == FACTS]
    absent = why_absent(release) or (None if cases else "not here: labelled cases")
    if absent:
        pytest.skip(absent)
    chosen = [*random.Random(SEED).sample(cases, SAMPLE), *pile_up(cases, PILES, SEED)]
    figures = measure(release, chosen)
    report(f"{release:12} check         {figures.row()}")
    assert figures.wrong == []
    assert (len(figures.first), len(figures.foreseen)) == (SAMPLE + PILES, SAMPLE + PILES)
    assert sum(n > 1 for n in figures.layers) >= 3
    assert sum(figures.patched) >= 0.9 * len(chosen) - 1
