"""What knowledge says of flags of other servers and releases, and of which ones it is asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from triage.analysis.foreign import explain_refused, find_foreign, refused_flags
from triage.errors import KnowledgeError
from triage.knowledge import load_profile
from triage.knowledge.flags import read_foreign_flags
from triage.protocols import ForeignFlag

PROFILE = load_profile("sglang")
GOOD = 'schema = 1\n[[flags]]\nname = "--a-b"\norigin = "o"\nto = ["--c"]\nwhy = "w"\n'


@pytest.mark.parametrize(
    ("message", "flags"),
    [
        ("unrecognized arguments: --max-model-len 4096 --x=3 -q", ("--max-model-len", "--x", "-q")),
        ("unrecognized arguments: stray --x", ("--x",)),
        ("ambiguous option: --tokenizer could match --tokenizer-path, --tokenizer-mode", ("--tokenizer",)),
        ("ambiguous option: --mo=x could match --model", ("--mo",)),
        ("argument --tp: invalid int value: 'x'", ()),
        ("", ()),
    ],
)
def test_flags_that_a_parser_refuses(message: str, flags: tuple[str, ...]) -> None:
    assert refused_flags(message) == flags


def test_underscores_are_dashes() -> None:
    found = find_foreign("--max_model_len", PROFILE)
    assert found is not None and found.to == ("--context-length",)
    assert find_foreign("--tp", PROFILE) is None


def test_only_what_the_release_has_is_told() -> None:
    flag = ForeignFlag("--old", "an older release", "renamed", ("--newest", "--newer"))
    other = ForeignFlag("--gone", "vLLM", "it is so anyway")
    profile = replace(PROFILE, foreign=(flag, other))
    message = "unrecognized arguments: --old 3 --gone --odd"
    assert [(e.text, e.knowledge_id) for e in explain_refused(message, profile, {"--newer", "--newest-of-all"})] == [
        ("--old is a flag of an older release, here --newer: renamed", "flag:--old"),
        ("--gone is a flag of vLLM, not needed here: it is so anyway", "flag:--gone"),
    ]
    assert [e.knowledge_id for e in explain_refused(message, profile, ())] == ["flag:--gone"]


def test_every_flag_of_the_file_has_a_reason_and_is_there_once() -> None:
    names = [flag.name for flag in PROFILE.foreign]
    assert len(names) >= 40 and len(set(names)) == len(names)
    assert all(flag.name not in flag.to for flag in PROFILE.foreign)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (GOOD.replace("schema = 1", "schema = 2"), "schema"),
        (GOOD.replace("[[flags]]", "odd = 1\n[[flags]]"), "odd"),
        (GOOD.replace('to = ["--c"]\n', ""), "either"),
        (GOOD + "drop = true\n", "either"),
        (GOOD.replace("--a-b", "a-b"), "must be a flag"),
        (GOOD.replace("--c", "--C x"), "must be a flag"),
        (GOOD.replace('why = "w"\n', ""), "is missing"),
        (GOOD + 'exact = "no"\n', "true or false"),
        (GOOD + "more = 1\n", "is not a key"),
        (GOOD + GOOD.partition("\n")[2], "twice"),
        ("schema = [", "cannot be read"),
    ],
)
def test_a_file_that_breaks_the_schema_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "flags.toml"
    path.write_text(GOOD)
    assert read_foreign_flags(path) == (ForeignFlag("--a-b", "o", "w", ("--c",)),)
    path.write_text(text)
    with pytest.raises(KnowledgeError, match=problem):
        read_foreign_flags(path)
    assert read_foreign_flags(tmp_path / "none.toml") == ()
