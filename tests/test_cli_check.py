"""`triage check` as a whole process, on the toy server: its own validation is asked about every launch that is named."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli_tools import ROOT, check_one_line, run_on_terminal, run_triage
from triage.analysis.trees import FolderTree
from triage.loop.capture import save_capture
from triage.model import CaptureMeta, Facts, Launch
from triage.protocols import Capture

TOY = ROOT / "fixtures" / "toyserver"
ENTRY = "python -m toyserver.launch"
BASE = "--model-path toy --draft-mode ladder --draft-budget 6"  # needs a width, and then a depth
MANY = f"{BASE} --lanes 6 --lane-groups 4 --cache-slots 33"  # and lanes, groups and slots that fit
GOOD = "--model-path toy --draft-mode ladder --draft-width 2 --draft-depth 2 --draft-budget 60"

ASK = """
import json, sys, traceback
from toyserver.args import prepare_server_args
try:
    made = prepare_server_args(json.loads(sys.stdin.read()))
    print(json.dumps({"ok": True, "budget": made.draft_budget}))
except Exception as error:
    last = traceback.extract_tb(error.__traceback__)[-1]
    print(json.dumps({"ok": False, "exception": type(error).__name__, "line": last.lineno, "file": last.filename}))
"""


def ask_toy(args: Sequence[str], env: Mapping[str, str] | None = None) -> Any:
    """What the toy server's own validation does."""
    full = {**os.environ, "PYTHONPATH": str(TOY), **(env or {})}
    ran = subprocess.run(
        [sys.executable, "-c", ASK], input=json.dumps(args), env=full, capture_output=True, text=True, check=True
    )
    return json.loads(ran.stdout)


def check(args: str, *more: str, code: int | None = None, env: dict[str, str] | None = None) -> Any:
    done = run_triage("check", "--source", str(TOY), "--launch", f"{ENTRY} {args}", *more, "--json", env=env)
    assert code is None or done.returncode == code, done.stderr.decode()
    return json.loads(done.stdout)


def is_failure(found: Any, real: Any) -> bool:
    return bool(
        not real["ok"]
        and found["exception"] == real["exception"]
        and found["line"] == real["line"]
        and real["file"].endswith(found["file"])
    )


# ------------------------------------------------------------------------------------------------ what would fail
def test_each_failure_comes_when_the_steps_before_it_are_taken() -> None:
    found = check(BASE, code=1)
    assert (found["schema"], found["outcome"], len(found["failures"])) == (1, "patch", 2)
    assert [f["failure"]["exception"] for f in found["failures"]] == ["AssertionError", "TypeError"]
    assert found["failures"][0]["argv"] == shlex.split(BASE)
    for failure in found["failures"]:
        assert is_failure(failure["failure"], ask_toy(failure["argv"], failure["env"])), failure["failure"]
    for before, after in zip(found["failures"], found["failures"][1:], strict=False):
        assert before["patches"][0]["argv"] == after["argv"]
    assert ask_toy(found["failures"][-1]["patches"][0]["argv"])["ok"]
    assert (found["failure"], found["cause"]) == (found["failures"][0]["failure"], found["failures"][0]["cause"])
    assert "--draft-width is set" in found["cause"]["text"]


def test_the_first_patch_passes_the_real_validation() -> None:
    for patch in check(BASE)["patches"]:
        assert ask_toy(patch["argv"], patch["env"])["ok"], patch["edits"]


def test_more_mistakes_than_one_search_covers_are_got_past_one_by_one() -> None:
    found = check(MANY, code=1)
    assert len(found["failures"]) >= 4
    for failure in found["failures"]:
        assert is_failure(failure["failure"], ask_toy(failure["argv"], failure["env"])), failure["failure"]
    assert len({(f["failure"]["file"], f["failure"]["line"]) for f in found["failures"]}) == len(found["failures"])
    assert found["outcome"] == "patch"
    best = found["patches"][0]
    assert ask_toy(best["argv"], best["env"])["ok"]


def test_a_refused_command_line_comes_first() -> None:
    found = check(f"{BASE} --draft-widht 2", code=1)
    assert found["failures"][0]["failure"]["kind"] == "usage"
    assert found["failures"][0]["failure"]["message"] == "unrecognized arguments: --draft-widht 2"
    assert ask_toy(found["patches"][0]["argv"])["ok"]


def test_what_no_edit_repairs_has_no_patch(tmp_path: Path) -> None:
    shutil.copytree(TOY / "toyserver", tmp_path / "toyserver")
    args = tmp_path / "toyserver" / "args.py"
    args.write_text(args.read_text().replace("        self._handle_lanes()", '        raise RuntimeError("never")'))
    done = run_triage("check", "--source", str(tmp_path), "--launch", f"{ENTRY} {GOOD}", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["outcome"], found["patches"]) == (1, "no_patch", [])
    assert [f["patches"] for f in found["failures"]] == [[]]
    assert any(u["what"] == "a patch" for u in found["unknowns"])


def test_a_patch_that_touches_something_protected_needs_consent() -> None:
    found = check("--model-path toy --port abc", code=1)
    assert (found["outcome"], found["failure"]["kind"]) == ("needs_consent", "usage")
    assert found["patches"][0]["edits"] == [{"action": "set", "name": "--port", "old": "abc", "new": "8123"}]
    assert not any(u["what"] == "a patch" for u in found["unknowns"])


# ------------------------------------------------------------------------------------------------ what passes
def test_a_launch_that_passes_and_what_it_changes_silently() -> None:
    found = check(GOOD, "--fact", "device=cpu", code=0)
    assert (found["outcome"], found["failures"], found["patches"], found["failure"]) == ("passes", [], [], None)
    (change,) = found["silent_changes"]
    assert (change["field"], change["asked"], change["used"]) == ("draft_budget", "60", str(ask_toy(shlex.split(GOOD))["budget"]))
    text = (TOY / change["file"]).read_text().splitlines()[change["line"] - 1]
    assert text.strip() == "args.draft_budget = most"
    assert "is more than width and depth allow" in change["why"]
    assert found["evaluated"]["engine_version"] == "1.0"
    assert found["evaluated"]["facts"]["device"] == "cpu"
    assert not found["assumed"]


def test_an_environment_variable_is_part_of_the_launch() -> None:
    lanes = "--model-path toy --lanes 8"
    assert check(lanes, code=1)["failure"]["exception"] == "ValueError"
    assert check(lanes, "--env", "TOY_ALLOW_MANY_LANES=1", code=0)["outcome"] == "passes"


def test_what_is_assumed_is_said() -> None:
    found = check(GOOD, code=0)
    assert found["assumed"]
    assert [u["what"] for u in found["unknowns"]] == ["the host"]
    assert "--fact device" in found["unknowns"][0]["settle"]
    assert found["evaluated"]["facts"]["device"] is None


# ------------------------------------------------------------------------------------------------ other ways to name it
def test_a_capture_directory_is_checked_without_its_log(tmp_path: Path) -> None:
    log = b'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\nMemoryError: not this launch\'s\n'
    meta = CaptureMeta("gpu1", "toy.service", "systemd", "toyserver", "1.0", None, None, None)
    launch = Launch(("python", "-m", "toyserver.launch"), tuple(shlex.split(BASE)))
    capture = Capture(meta, launch, Facts(device="cpu"), log, FolderTree(TOY))
    save_capture(capture, tmp_path / "one")
    done = run_triage("check", str(tmp_path / "one"), "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["failure"]["exception"]) == (1, "AssertionError")
    assert (found["evaluated"]["host"], found["evaluated"]["service"]) == ("gpu1", "toy.service")
    other = run_triage("check", str(tmp_path / "one"), "--launch", f"{ENTRY} {GOOD}", "--json")
    assert (other.returncode, json.loads(other.stdout)["outcome"]) == (0, "passes")
    save_capture(replace(capture, launch=None), tmp_path / "two")
    assert "no launch" in check_one_line(run_triage("check", str(tmp_path / "two")))


def test_a_plain_command_on_this_machine(tmp_path: Path) -> None:
    state = tmp_path / "state"
    env = {"TRIAGE_STATE_DIR": str(state), "PYTHONPATH": f"{ROOT}:{TOY}"}
    command = f"PYTHONPATH={TOY} {sys.executable} -m toyserver.launch {BASE}"
    done = run_triage("check", "--command", command, "--json", env=env, cwd=tmp_path)
    assert done.returncode == 1, done.stderr.decode()
    found = json.loads(done.stdout)
    assert [f["failure"]["exception"] for f in found["failures"]] == ["AssertionError", "TypeError"]
    assert found["evaluated"]["service"] == "the command"
    assert found["evaluated"]["facts"]["python_version"]
    assert list(tmp_path.iterdir()) == []  # no session, no state beside a log


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "nothing to check"),
        (("--source", "{toy}"), "belong together"),
        (("--launch", f"{ENTRY} {GOOD}"), "belong together"),
        (("/no/such/place",), "not a capture directory"),
        (("{empty}",), "capture.toml"),
        (("{empty}", "--unit", "x"), "leave --unit"),
        (("--host", "somewhere"), "name the server"),
        (("--unit", "x", "--command", "y"), "name the server"),
        (("--source", "{toy}", "--launch", "vllm serve x"), "starts no engine"),
        (("--source", "/no/such/tree", "--launch", f"{ENTRY} {GOOD}"), "/no/such/tree"),
        (("--source", "{toy}", "--launch", f"{ENTRY} {GOOD}", "--fact", "colour=red"), "colour"),
    ],
)
def test_what_cannot_be_checked_is_told_in_one_line(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = run_triage("check", *(w.format(toy=TOY, empty=tmp_path) for w in words))
    assert said in check_one_line(done)


# ------------------------------------------------------------------------------------------------ the text
def test_the_text_shows_the_patch_first_and_every_failure_in_order() -> None:
    done = run_triage("check", "--source", str(TOY), "--launch", f"{ENTRY} {BASE} --api-key hunter2hunter2")
    text = done.stdout.decode()
    assert done.returncode == 1
    assert b"\x1b" not in done.stdout
    assert "hunter2" not in text + done.stderr.decode()
    marks = ["This launch would fail", "+ --draft-width", "1 of 2", "AssertionError", "2 of 2", "TypeError", "toyserver 1.0"]
    places = [text.index(mark) for mark in marks[:-1]]
    assert places == sorted(places)
    assert marks[-1] in text[places[-1] :]


def test_colour_on_a_terminal_only_and_never_with_no_color() -> None:
    words = ["check", "--source", str(TOY), "--launch", f"{ENTRY} {GOOD}"]
    program = f"from triage.cli import main; raise SystemExit(main({words!r}))"
    assert b"\x1b[" in run_on_terminal(program, {"TERM": "xterm", "NO_COLOR": ""})
    assert b"\x1b[" not in run_on_terminal(program, {"TERM": "xterm", "NO_COLOR": "1"})


def test_hostile_source_neither_hangs_nor_acts_on_the_terminal(tmp_path: Path) -> None:
    shutil.copytree(TOY / "toyserver", tmp_path / "toyserver")
    args = tmp_path / "toyserver" / "args.py"
    evil = '        while True:\n            self.lanes += 1\n        raise ValueError("\\x1b]0;owned\\x07" * 9999)\n'
    args.write_text(args.read_text().replace("        self._handle_lanes()\n", evil))
    done = run_triage("check", "--source", str(tmp_path), "--launch", f"{ENTRY} {GOOD}")
    assert done.returncode == 0
    assert "What is not known" in done.stdout.decode()
    args.write_text(args.read_text().replace("        while True:\n            self.lanes += 1\n", ""))
    done = run_triage("check", "--source", str(tmp_path), "--launch", f"{ENTRY} {GOOD}")
    assert done.returncode == 1
    assert b"\x1b" not in done.stdout and b"\x07" not in done.stdout
    assert len(done.stdout) < 100_000
