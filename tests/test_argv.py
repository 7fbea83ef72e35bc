"""Edits of argument lists; the expected lists are worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.argv import edit_args, edit_words, find_flag
from triage.model import Edit

ARGS = ("--a", "1", "--b=2", "--list", "1", "-2", "x", "--switch", "-tp", "8", "--neg", "-.5", "--a", "3")


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (Edit("add", "--n", None, "4"), (*ARGS, "--n", "4")),
        (Edit("add", "--n"), (*ARGS, "--n")),
        (Edit("add", "--n", None, "-1"), (*ARGS, "--n", "-1")),
        (Edit("add", "--n", None, "--odd"), (*ARGS, "--n=--odd")),
        (Edit("add", "--n", None, ""), (*ARGS, "--n", "")),
        (Edit("remove", "--a"), ARGS[2:12]),
        (Edit("remove", "--b", "2"), ARGS[:2] + ARGS[3:]),
        (Edit("remove", "--list"), ARGS[:3] + ARGS[7:]),
        (Edit("remove", "--switch"), ARGS[:7] + ARGS[8:]),
        (Edit("remove", "-tp"), ARGS[:8] + ARGS[10:]),
        (Edit("remove", "--neg"), ARGS[:10] + ARGS[12:]),
        (Edit("set", "--a", "3", "9"), (*ARGS[:12], "--a", "9")),
        (Edit("set", "--b", "2", "9 9"), (*ARGS[:2], "--b=9 9", *ARGS[3:])),
        (Edit("set", "--list", "1 -2 x", "5 6"), (*ARGS[:3], "--list", "5", "6", *ARGS[7:])),
        (Edit("set", "--neg", "-.5", "-x"), (*ARGS[:10], "--neg=-x", *ARGS[12:])),
        (Edit("env", "X", None, "1"), ARGS),
    ],
)
def test_one_edit(edit: Edit, expected: tuple[str, ...]) -> None:
    assert edit_args(ARGS, [edit]) == expected


def test_what_is_not_there_is_an_error() -> None:
    for name in ("--aa", "--", "--swit"):
        for action in ("remove", "set"):
            with pytest.raises(ValueError, match="does not stand"):
                edit_args(ARGS, [Edit(action, name, None, "1")])  # type: ignore[arg-type]


FLAGS = st.from_regex(r"--[a-z]{1,3}", fullmatch=True)
VALUES = st.text(max_size=6).filter(lambda v: not v.startswith("-")) | st.integers(-99, 99).map(str)
LISTS = st.lists(st.tuples(FLAGS, st.lists(VALUES, max_size=3)), max_size=6)


@given(LISTS, st.from_regex(r"--[A-Z]{1,3}", fullmatch=True), VALUES)
def test_an_added_flag_can_be_removed_again(flags: list[tuple[str, list[str]]], name: str, value: str) -> None:
    args = tuple(w for flag, values in flags for w in (flag, *values))
    added = edit_args(args, [Edit("add", name, None, value)])
    assert added[: len(args)] == args and find_flag(added, name) == ((len(args), len(args) + 2),)
    assert edit_args(added, [Edit("set", name, value, "1"), Edit("remove", name)]) == args


@given(LISTS)
def test_untouched_words_keep_their_place_of_origin(flags: list[tuple[str, list[str]]]) -> None:
    args = tuple(w for flag, values in flags for w in (flag, *values))
    for flag, _ in flags[:1]:
        left = edit_words(args, [Edit("remove", flag)])
        assert all(w.source is not None and args[w.source] == w.text for w in left)
        assert not find_flag([w.text for w in left], flag)
