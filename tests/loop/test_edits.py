"""Folding: one patch that does what two did, checked by applying both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.argv import edit_args
from triage.loop.edits import fold_edits, fold_patches, is_same_patch
from triage.model import Edit, Patch

CASES = [
    ((Edit("add", "--a", None, "1"),), (Edit("set", "--a", "1", "2"),), (Edit("add", "--a", None, "2"),)),
    ((Edit("add", "--a", None, "1"),), (Edit("remove", "--a", "1"),), ()),
    ((Edit("set", "--a", "1", "2"),), (Edit("set", "--a", "2", "3"),), (Edit("set", "--a", "1", "3"),)),
    ((Edit("set", "--a", "1", "2"),), (Edit("set", "--a", "2", "1"),), ()),
    ((Edit("set", "--a", "1", "2"),), (Edit("remove", "--a", "2"),), (Edit("remove", "--a", "1"),)),
    ((Edit("remove", "--a", "1"),), (Edit("add", "--a", None, "3"),), (Edit("set", "--a", "1", "3"),)),
    ((Edit("env", "A", None, "1"),), (Edit("env", "A", "1", "2"),), (Edit("env", "A", None, "2"),)),
    ((Edit("env", "A", "0", "1"),), (Edit("env", "A", "1", "0"),), ()),
    ((Edit("add", "--b", None, "1"),), (Edit("add", "--c"),), (Edit("add", "--b", None, "1"), Edit("add", "--c"))),
]


@pytest.mark.parametrize(("first", "then", "folded"), CASES)
def test_two_edits_of_one_name_become_one(first: tuple[Edit, ...], then: tuple[Edit, ...], folded: tuple[Edit, ...]) -> None:
    assert fold_edits(first, then) == folded


def values_of(args: tuple[str, ...]) -> dict[str, str]:
    return dict(zip(args[::2], args[1::2], strict=True))


@st.composite
def two_rounds(draw: st.DrawFn) -> tuple[tuple[str, ...], list[tuple[Edit, ...]]]:
    """Arguments, and two rounds of edits that fit them."""
    names, numbers = ("--alpha", "--beta", "--gamma"), st.sampled_from(["1", "2", "3"])
    start = draw(st.dictionaries(st.sampled_from(names), numbers))
    now, rounds = dict(start), []
    for _ in range(2):
        edits = []
        for name in draw(st.sets(st.sampled_from(names))):
            if name not in now:
                now[name] = draw(numbers)
                edits.append(Edit("add", name, None, now[name]))
            elif draw(st.booleans()):
                edits.append(Edit("remove", name, now.pop(name)))
            else:
                old, now[name] = now[name], draw(numbers)
                edits.append(Edit("set", name, old, now[name]))
        rounds.append(tuple(edits))
    return tuple(word for pair in start.items() for word in pair), rounds


@given(two_rounds())
def test_a_folded_patch_gives_the_command_that_both_give(case: tuple[tuple[str, ...], list[tuple[Edit, ...]]]) -> None:
    args, (first, then) = case
    in_turn = edit_args(edit_args(args, first), then)
    assert values_of(edit_args(args, fold_edits(first, then))) == values_of(in_turn)


def test_a_folded_patch_keeps_losses_and_variables_of_both() -> None:
    one = Patch((Edit("env", "A", None, "1"),), ("x",), {"A": "1"}, "likely", "", ("speed",))
    two = Patch((Edit("env", "B", None, "2"),), ("y",), {"B": "2"}, "proved", "why", ("speed", "context"))
    total = fold_patches(one, two)
    assert (total.args, total.env, total.losses) == (("y",), {"A": "1", "B": "2"}, ("speed", "context"))
    assert fold_patches(None, two) is two
    assert is_same_patch(total, Patch((), ("y",), {"B": "2", "A": "1"}, "guess", ""))
    assert not is_same_patch(total, two)
