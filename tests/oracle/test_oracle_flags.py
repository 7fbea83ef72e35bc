"""Every action of the real parsers against the flags read from the same release's source, and what the parsers make of
argument lists: abbreviations, repeated flags, lists, negative numbers, deprecated flags, config files, refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.parsing import compare_parsing
from tests.oracle.real import RELEASES, Evaluators, real_actions, why_absent
from triage.analysis.flags import Option, read_flags

BAR = 0.99
LISTS = 50


def differences(real: dict[str, Any], option: Option | None) -> list[str]:
    """What is not the same: names, dest, kind, arity, type, default, choices."""
    if option is None:
        return ["absent"]
    action, flag = option.action, option.flag
    found = {
        "names": (sorted(real["flags"]), sorted(flag.names)),
        "dest": (real["dest"], flag.dest),
        "nargs": (real["nargs"], action.nargs),
        "switch": (real["nargs"] == 0, flag.kind == "switch"),
        "required": (real["required"], flag.required),
        "type": (_type(real["type"]), _type(flag.type)),
        "default": (real["default"], _plain(action.default)),
        "const": (real["const"], _plain(action.const)),
        "choices": (_sorted(real["choices"]), _sorted(action.choices)),
    }
    return [f"{name}: real {a!r}, read {b!r}" for name, (a, b) in found.items() if a != b]


def _type(name: str | None) -> str | None:
    return None if name is None else name.rpartition(".")[2].rstrip(">")


def _plain(value: Any) -> Any:
    if isinstance(value, (tuple, set, frozenset)):
        return [_plain(v) for v in value]
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return value if isinstance(value, (str, int, float, dict, type(None))) else repr(value)


def _sorted(values: Any) -> list[str] | None:
    return None if values is None else sorted(str(v) for v in values)


@pytest.mark.parametrize("release", RELEASES)
def test_flags_are_those_of_the_real_parser(release: str, report: Callable[[str], None]) -> None:
    absent = why_absent(release)
    if absent:
        pytest.skip(absent)
    ours = Evaluators(release)
    evaluator = ours.get("h100x8")
    evaluator.evaluate(["--model-path", "models/llama"])
    options = read_flags(evaluator, ours.tree)
    actions = [a for a in real_actions(release) if a["dest"] not in ("help", "version")]
    wrong = {a["flags"][0]: d for a in actions if (d := differences(a, options.by_name.get(a["flags"][0])))}
    real_names = {name for a in actions for name in a["flags"]}
    invented = [n for n in options.by_name if n not in real_names and n not in ("-h", "--help", "--version")]
    right = len(actions) - len(wrong)
    report(f"{release:12} flags         {len(actions):8} {'':8} {f'{right}/{len(actions)}':>11} {right / len(actions):7.1%}")
    assert not invented
    assert right / len(actions) >= BAR, "\n".join(f"{k}: {v}" for k, v in list(wrong.items())[:30])


@pytest.mark.parametrize("release", RELEASES)
def test_argument_lists_are_parsed_as_the_real_parser_does(release: str, tmp_path: Path, report: Callable[[str], None]) -> None:
    absent = why_absent(release)
    if absent:
        pytest.skip(absent)
    found = compare_parsing(release, LISTS, 31, tmp_path)
    report(f"{release:12} parsing       {found.row()}")
    assert found.right / found.lists >= BAR, "\n".join(found.wrong[:20])
    assert 0.05 < found.refused / found.lists < 0.6
    assert {"abbreviation", "repeated", "list", "--flag=value", "underscores"} <= set(found.kinds)


def test_each_release_declares_in_its_own_way_and_none_is_missed(report: Callable[[str], None]) -> None:
    """Guard against a reader that finds nothing: the numbers grow with the releases."""
    counts = []
    for release in RELEASES:
        if why_absent(release):
            pytest.skip(str(why_absent(release)))
        ours = Evaluators(release)
        ours.get("cpu").evaluate(["--model-path", "models/llama"])
        counts.append(len(read_flags(ours.get("cpu"), ours.tree).all))
    assert counts == sorted(counts)
    assert counts[0] > 100
    assert counts[-1] > 500
