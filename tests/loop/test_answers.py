"""Answers that are kept: given again only where everything that they were made from is the same."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli_tools import ROOT, run_triage
from triage.analysis.trees import FolderTree
from triage.knowledge import load_profile
from triage.loop.answers import recall_answer
from triage.model import CaptureMeta, Cause, Diagnosis, Facts, Launch
from triage.protocols import Capture

PROFILE = load_profile("toyserver")


class Analysis:
    """Reads one file that is there, one that is not, and a folder; counts how often it was asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, capture: Capture) -> Diagnosis:
        self.calls += 1
        tree = capture.source
        assert tree is not None
        seen = (tree.read("pkg/a.py"), tree.read("pkg/b.py"), tree.is_package("pkg/sub"), tree.list_dir("pkg"))
        return Diagnosis("no_patch", None, None, Cause("argument", repr(seen)), ())


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRIAGE_CACHE", str(tmp_path / "answers"))
    package = tmp_path / "tree" / "pkg"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text("A = 1\n")
    return tmp_path


def capture_of(place: Path) -> Capture:
    meta = CaptureMeta("h", "u", "systemd", "toyserver", "1", None, None, None)
    return Capture(meta, Launch(("p",), ("--a", "1")), Facts(), b"log", FolderTree(place / "tree"))


def ask(place: Path, made: Analysis, change: Callable[[Capture], Capture] = lambda c: c) -> Diagnosis:
    return recall_answer(Diagnosis, change(capture_of(place)), PROFILE, made)


def test_the_same_question_is_answered_once(place: Path) -> None:
    made = Analysis()
    assert ask(place, made) == ask(place, made)
    assert made.calls == 1


CHANGES: dict[str, Callable[[Path], object]] = {
    "a file that was read": lambda p: (p / "a.py").write_text("A = 2\n"),
    "a file that was looked for in vain": lambda p: (p / "b.py").write_text("B = 1\n"),
    "a folder that was looked into": lambda p: (p / "c.py").write_text(""),
    "a package that was not there": lambda p: ((p / "sub").mkdir(), (p / "sub" / "__init__.py").write_text("")),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_of_the_source_is_seen(place: Path, what: str) -> None:
    made = Analysis()
    before = ask(place, made)
    CHANGES[what](place / "tree" / "pkg")
    assert ask(place, made) != before
    assert made.calls == 2


QUESTIONS: dict[str, Callable[[Capture], Capture]] = {
    "log": lambda c: replace(c, log=b"another"),
    "launch": lambda c: replace(c, launch=Launch(("p",), ("--a", "2"))),
    "environment": lambda c: replace(c, launch=Launch(("p",), ("--a", "1"), {"A": "1"})),
    "facts": lambda c: replace(c, facts=Facts(gpu_count=8)),
    "texts of the host": lambda c: replace(c, facts=Facts(texts={"/etc/a.yaml": "a: 1"})),
    "release": lambda c: replace(c, meta=replace(c.meta, engine_version="2")),
}


@pytest.mark.parametrize("what", QUESTIONS)
def test_another_question_is_not_answered_from_memory(place: Path, what: str) -> None:
    made = Analysis()
    ask(place, made)
    ask(place, made, QUESTIONS[what])
    assert made.calls == 2


@pytest.mark.parametrize(
    "damage", [b"", b"{", b'{"read": [], "answer": 3}', b'{"read": [["__class__", "x", null]]}', b"\xff\xfe"]
)
def test_a_damaged_entry_only_costs_time(place: Path, damage: bytes) -> None:
    made = Analysis()
    answer = ask(place, made)
    (entry,) = (place / "answers").glob("*.json")
    entry.write_bytes(damage)
    assert ask(place, made) == answer
    assert made.calls == 2
    assert ask(place, made) == answer
    assert made.calls == 2


def test_a_folder_that_cannot_be_written_only_costs_time(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "file").write_text("")
    monkeypatch.setenv("TRIAGE_CACHE", str(place / "file" / "answers"))
    made = Analysis()
    assert ask(place, made) == ask(place, made)
    assert made.calls == 2


def test_nothing_is_kept_when_told_so_and_nobody_else_reads_what_is(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(place, Analysis())
    (entry,) = (place / "answers").glob("*.json")
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600
    assert stat.S_IMODE((place / "answers").stat().st_mode) == 0o700
    entry.unlink()
    monkeypatch.setenv("TRIAGE_CACHE", "off")
    made = Analysis()
    assert ask(place, made) == ask(place, made)
    assert made.calls == 2
    assert not list((place / "answers").iterdir())


def test_replay_says_the_same_from_memory_and_keeps_no_secret(tmp_path: Path) -> None:
    log = ROOT / "fixtures" / "logs" / "sglang-0.5.11-e1.log"
    (tmp_path / "tree" / "sglang").mkdir(parents=True)
    (tmp_path / "tree" / "sglang" / "__init__.py").write_text("")
    words = ("replay", str(log), "--source", str(tmp_path / "tree"), "--launch", "--model-path m --api-key verysecret1", "--json")
    env = {"TRIAGE_CACHE": str(tmp_path / "answers")}
    first, second = run_triage(*words, env=env), run_triage(*words, env=env)
    assert (first.returncode, first.stdout) == (second.returncode, second.stdout)
    kept = [p.read_text() for p in (tmp_path / "answers").glob("*.json")] if (tmp_path / "answers").is_dir() else []
    assert len(kept) == 1 and json.loads(kept[0])["answer"]["failure"]["exception"] == "AssertionError"
    assert "verysecret1" not in kept[0]
