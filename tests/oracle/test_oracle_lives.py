"""Every line that writes a setting in the real validation is told by that setting's life.

For more launches, all fields and the labelled failures: python -m tests.oracle.writes --launches 300 --seed 3
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.oracle.real import Evaluators, why_absent
from tests.oracle.writes import gather, options_of, recall

TOLD = 0.99
FIELDS = 24
LAUNCHES = 50


@pytest.mark.parametrize("release", ["0.5.23"])  # one: the command takes them all
def test_lives_tell_the_writes_that_happen(release: str, report: Callable[[str], None]) -> None:
    absent = why_absent(release)
    if absent:
        pytest.skip(absent)
    ours = Evaluators(release)
    writes = gather(release, LAUNCHES, 11, ("h100x8",), ours, cases=False)
    options = options_of(ours)
    places: dict[str, set[tuple[str, int, str]]] = {}
    for write in writes:
        if write.field in options.by_field:
            places.setdefault(write.field, set()).add(write.frames[0])
    fields = sorted(places, key=lambda name: (-len(places[name]), name))[:FIELDS]
    told = recall(ours, options, fields, writes)
    report(f"{release:12} lives         {told.seen} writes of {len(fields)} settings, {told.exact:.1%} told")
    assert len(fields) == FIELDS and told.seen > FIELDS
    assert told.share >= TOLD, "\n".join(told.missed)
    assert told.exact >= TOLD, "\n".join(told.undecided)
