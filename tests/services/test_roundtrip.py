"""Generated units come back byte for byte, an edit changes its own words only, and systemd reads all of them the same way.

`python -m tests.services.roundtrip --lab` does the same for 10,000 units.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.lab import LabHost
from tests.services.roundtrip import Example, check_edit, check_reading, compare_with_systemd, make_examples
from tests.services.unit_texts import MadeUnit, edited_units, units

slow = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@slow
@given(units())
def test_32_words_are_read_with_their_spelling_and_their_meaning(unit: MadeUnit) -> None:
    check_reading(unit)


@slow
@given(edited_units())
def test_32_an_edit_changes_its_own_words_and_its_undo_restores_the_files(example: Example) -> None:
    check_edit(*example)


@pytest.mark.lab
def test_32_systemd_reads_generated_units_as_they_are_meant(lab: LabHost) -> None:
    examples = make_examples(150, seed=4)
    assert len(examples) > 100 and {e.action for _, e, _ in examples} == {"add", "remove", "set"}
    assert compare_with_systemd(lab, examples) == []
