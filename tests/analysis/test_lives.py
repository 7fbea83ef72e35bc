"""A setting's life on a small package whose marked lines a person listed."""

from __future__ import annotations

from functools import cache

import pytest

from tests.analysis.lives_server import FILES, PROFILE, TREE, line_of, read_options
from triage.analysis.flags import Options
from triage.analysis.lives import find_life
from triage.analysis.lives.explain import explain_setting, name_setting
from triage.analysis.trees import MemoryTree
from triage.errors import UsageError
from triage.model import CaptureMeta, Facts, Launch, LifeEvent, SettingLife
from triage.protocols import Capture


@cache
def options() -> Options:
    return read_options()


@cache
def life(name: str) -> SettingLife:
    return find_life(TREE, PROFILE, options(), name)


def at(events: tuple[LifeEvent, ...]) -> list[tuple[str, int]]:
    return [(e.location.file.removeprefix("small/").removesuffix(".py"), e.location.line) for e in events]


def marks(*places: str) -> list[tuple[str, int]]:
    """Places as `file mark`; a statement in several lines is marked at its last."""
    return [(p.split()[0], line_of(*p.split(maxsplit=1))) for p in places]


def last_lines(events: tuple[LifeEvent, ...]) -> list[tuple[str, int]]:
    return [(e.location.file.removeprefix("small/").removesuffix(".py"), e.location.end_line or 0) for e in events]


@pytest.mark.parametrize(
    ("name", "places"),
    [
        # in the order in which validation reaches them; what is registered last, by file
        ("width", ["args default", "args tuple", "extra elsewhere", "registry constant", "registry returned"]),
        ("depth", ["args tuple", "hooks augmented"]),
        ("format", ["hooks declared", "hooks helper"]),
        ("ways", ["args loop"]),
        ("groups", ["args loop"]),
        ("share", ["args silent", "registry constant"]),
        ("pieces", ["hooks stored", "hooks handed", "args cut"]),
        ("prefill_kind", ["args parts"]),
        ("decode_kind", ["args parts"]),
        ("mode", []),
    ],
)
def test_writes(name: str, places: list[str]) -> None:
    assert last_lines(life(name).writes) == marks(*places)


def test_the_moment_is_known_for_what_is_called_and_not_for_what_is_registered() -> None:
    assert [e.rank for e in life("width").writes] == [1, 2, None, None, None]
    assert [e.rank for e in life("pieces").writes] == [1, 2, 3]


def test_defaults_and_overwrites_with_what_the_log_says() -> None:
    first, second = life("width").writes[:2]
    assert (first.kind, first.says, first.when) == ("default", "width is 4 by default", ("--width is not set",))
    assert (second.kind, second.when) == ("overwrite", ())
    silent = life("share").writes[0]
    assert (silent.kind, silent.says, silent.function) == ("overwrite", "", "Args.set_mode")
    assert life("pieces").writes[0].kind == "default"


def test_guards_on_the_way_to_the_function_are_told() -> None:
    silent = life("share").writes[0]
    assert silent.when == ("--mode is set",)
    assert [g.text for g in silent.outer] == ["self.mode is not None"]
    assert silent.guards == ()


def test_checks() -> None:
    found = life("pieces").checks
    assert at(found) == marks("args assert", "args comparison")
    assert [e.how for e in found] == ["assert", "comparison (TypeError)"]
    share = life("share").checks
    assert at(share) == marks("args raise") and share[0].when == ("--mode is ring", "--share is set")
    assert share[0].own_test
    mode = {e.location.line: e.own_test for e in life("mode").checks}
    assert mode == {line_of("args", "assert"): True, line_of("args", "raise"): False}
    assert [e.how for e in life("groups").checks] == ["division (ZeroDivisionError)"]


def test_a_check_through_a_property_counts() -> None:
    assert marks("args helper")[0] in at(life("width").checks)


def test_decisions_about_other_settings() -> None:
    depth = {e.location.end_line: e.fields for e in life("depth").decisions}
    assert depth[line_of("hooks", "declared")] == ("format",)
    mode = [(e.function, e.fields) for e in life("mode").decisions]
    assert ("of_tree", ("width",)) in mode and ("of_ring", ("width",)) in mode
    assert life("format").decisions == ()


def test_statements_that_write_any_field() -> None:
    assert marks("hooks any")[0] in at(life("format").any_field)
    assert marks("args loop")[0] not in at(life("format").any_field)


def test_declaration_and_flags() -> None:
    found = life("ways").declaration
    assert found.location is not None and found.location.line == FILES["args"].split("\n").index("    ways: int = 1") + 1
    assert found.text == "ways: int = 1"
    assert [f.names for f in found.flags] == [("--ways", "--w")]
    assert life("mode").declaration.flags[0].help == "How to draft."


def test_a_source_without_the_args_class_is_an_unknown() -> None:
    empty = MemoryTree({"small/__init__.py": b"", "small/args.py": b"def prepare_server_args(argv):\n    pass\n"})
    found = find_life(empty, PROFILE, options(), "width")
    assert (found.writes, found.checks) == ((), ())
    assert found.unknowns and "small.args.Args" in found.unknowns[0].why


@pytest.mark.parametrize(
    "source", [b"class Args:\n    def __post_init__(self):\n        self.__post_init__()\n", b"def (", b"\0", b""]
)
def test_hostile_sources_end(source: bytes) -> None:
    found = find_life(MemoryTree({"small/args.py": source}), PROFILE, options(), "width")
    assert found.writes == ()


# ---------------------------------------------------------------- a launch
def explain(asked: str, *words: str) -> SettingLife:
    meta = CaptureMeta("", "", "given", "small", None, None, None, None)
    launch = Launch((), words) if words else None
    return explain_setting(Capture(meta, launch, Facts(device="cuda"), b"", TREE), PROFILE, asked)


def test_values_of_a_launch() -> None:
    found = explain("--width", "--model", "m", "--width", "5", "--pieces", "1", "--mode", "tree").launch
    assert found is not None
    assert (found.typed, found.replaced) == ("--width 5", True)
    assert [(v.value, v.origin) for v in found.values[:2]] == [("5", "typed"), ("10", "derived")]
    assert found.values[1].location is not None and found.values[1].location.line == line_of("args", "tuple")
    assert "too wide" not in found.stops and "args.py" in found.stops  # 32 by the tree's provider: refused as too wide


def test_a_default_has_its_line_and_a_typed_value_that_stays_is_not_replaced() -> None:
    found = explain("width", "--model", "m").launch
    assert found is not None and found.typed is None and not found.replaced
    assert [(v.value, v.origin, v.says) for v in found.values[:2]] == [
        ("None", "default", ""),
        ("4", "derived", "width is 4 by default"),
    ]
    mode = explain("mode", "--model", "m", "--mode", "tree").launch
    assert mode is not None and [(v.value, v.origin) for v in mode.values] == [("'tree'", "typed")] and not mode.replaced


def test_a_silent_replacement_is_told() -> None:
    found = explain("ways", "--model", "m", "--w", "3", "--pieces", "1", "--mode", "tree").launch
    assert found is not None and found.typed == "--w 3"
    assert found.replaced and found.silent


# ---------------------------------------------------------------- names
@pytest.mark.parametrize("asked", ["prefill_kind", "prefill-kind", "--prefill-kind", "--prefill", "--prefill-kind=x"])
def test_names(asked: str) -> None:
    assert name_setting(asked, options(), ["prefill_kind"]) == "prefill_kind"


@pytest.mark.parametrize(("asked", "near"), [("widht", "width"), ("--wdith", "--width"), ("\x1b[31mx", "")])
def test_unknown_names_get_the_nearest(asked: str, near: str) -> None:
    with pytest.raises(UsageError) as raised:
        name_setting(asked, options(), ["width"])
    assert near in raised.value.hint
    assert "\x1b" not in str(raised.value)


def test_a_setting_that_is_never_none_is_not_checked_by_a_comparison() -> None:
    assert life("ways").reads == 1
    assert life("ways").checks == ()
