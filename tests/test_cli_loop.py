"""Whole commands on this machine with the toy server: demo, run, capture, replay, report, undo, as a person types them."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli_tools import ROOT, TRIAGE, check_one_line, run_on_terminal
from triage.cli.demo import FLAGS, find_free_port

TOYSERVER = ROOT / "fixtures" / "toyserver" / "toyserver"
LOGS = ROOT / "fixtures" / "logs"


def list_processes(folder: Path) -> list[str]:
    """Processes that work in the folder, or that are started from it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            if os.readlink(process / "cwd").startswith(str(folder)) or str(folder) in words:
                found.append(words)
        except OSError:
            continue
    return found


class Place:
    """A folder with the toy server, its log and its own triage state."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "server.log"
        shutil.copytree(TOYSERVER, folder / "toyserver", ignore=shutil.ignore_patterns("__pycache__"))
        words = (sys.executable, "-m", "toyserver.launch", "--model-path", "toy", "--port", str(find_free_port()), *FLAGS)
        self.command = shlex.join(words)
        self.env = {"PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}", "TRIAGE_STATE_DIR": str(folder / "state")}
        self.target = ("--command", self.command, "--log", str(self.log), "--cwd", str(folder))
        with self.log.open("wb") as log:
            assert subprocess.run(words, cwd=folder, stdout=log, stderr=log).returncode == 1

    def triage(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        env = {**os.environ, **self.env}
        return subprocess.run([*TRIAGE, *words], stdin=subprocess.DEVNULL, capture_output=True, env=env, cwd=ROOT, timeout=120)

    def serving(self) -> list[str]:
        return [words for words in list_processes(self.folder) if "toyserver.launch" in words]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd").startswith(str(tmp_path)):
                os.kill(int(process.name), signal.SIGKILL)
        except OSError:
            continue


def test_the_demo_repairs_and_leaves_nothing(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}", "TMPDIR": str(tmp_path)}
    done = subprocess.run([*TRIAGE, "demo", "--json"], cwd=ROOT, env=env, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    assert found["outcome"] == "fixed"
    assert len(found["session"]["attempts"]) == 1
    assert found["failure"]["exception"] == "AssertionError"
    names = {edit["name"] for edit in found["session"]["applied"]["edits"]}
    assert names == {"--draft-width", "--draft-depth"}
    assert list_processes(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_demo_leaves_nothing(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}", "TMPDIR": str(tmp_path)}
    process = subprocess.Popen([*TRIAGE, "demo"], cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stderr
    for line in process.stderr:
        if line.startswith(b"applied: "):
            process.send_signal(signal.SIGINT)
            break
    process.stderr.read()
    assert process.wait(60) == 130
    assert list_processes(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_run_without_consent_shows_the_plan_and_changes_nothing(place: Place) -> None:
    for words in ((), ("--dry-run",), ("--dry-run", "--yes")):
        done = place.triage("run", *place.target, *words)
        assert done.returncode == 1, done.stderr.decode()
        assert "+ --draft-depth" in done.stdout.decode()
        assert "Nothing: the service is as it was found." in done.stdout.decode()
        assert "plan: " in done.stderr.decode()
        assert place.serving() == []


def test_run_apply_then_report_then_undo(place: Place) -> None:
    done = place.triage("run", *place.target, "--apply", "--json")
    assert done.returncode == 0, done.stderr.decode()
    session = json.loads(done.stdout)
    assert session["outcome"] == "fixed"
    assert len(place.serving()) >= 1
    assert b"triage undo " in done.stderr

    again = place.triage("run", *place.target, "--apply", "--json")
    assert (again.returncode, json.loads(again.stdout)["outcome"]) == (0, "healthy")

    shown = place.triage("report", session["session"]["id"], "--format", "json")
    assert shown.stdout == done.stdout
    for format_name, mark in (("md", "# Root-cause report"), ("html", "<!doctype html>"), ("text", "Fixed: ")):
        path = place.folder / f"report.{format_name}"
        written = place.triage("report", session["session"]["id"], "--format", format_name, "-o", str(path))
        assert (written.returncode, written.stdout) == (0, b"")
        assert path.read_text().startswith(mark)

    undone = place.triage("undo", *place.target)
    assert undone.returncode == 0, undone.stderr.decode()
    assert session["session"]["id"].encode() in undone.stdout
    check_one_line(place.triage("undo", *place.target))


def test_a_yes_at_the_prompt_applies_and_a_no_does_not(place: Place) -> None:
    for answer, outcome in ((b"n\n", "not_applied"), (b"y\n", "fixed")):
        program = (
            "import json, sys; from triage.cli import main\n"
            f"code = main(['run', *{list(place.target)!r}])\nprint('code', code)\n"
            "from triage.loop.session import SessionStore\ns = SessionStore(); print('outcome', s.load(s.ids()[-1]).outcome)"
        )
        seen = run_on_terminal(program, {**place.env, "TERM": "xterm"}, answer)
        assert b"Apply this plan? [y/N]" in seen
        assert f"outcome {outcome}".encode() in seen
        assert bool(place.serving()) is (outcome == "fixed")


def test_replay_of_a_capture_gives_what_the_live_run_gave(place: Place) -> None:
    live = place.triage("run", *place.target, "--dry-run", "--no-rehearsal", "--json")
    directory = place.folder / "capture"
    done = place.triage("capture", *place.target, "-o", str(directory))
    assert (done.returncode, done.stdout.decode()) == (0, f"{directory}\n"), done.stderr.decode()
    assert place.serving() == []
    shutil.rmtree(place.folder / "toyserver")
    replayed = place.triage("replay", str(directory), "--json")
    assert replayed.returncode == 0, replayed.stderr.decode()
    diagnosis = json.loads(live.stdout)["session"]["diagnosis"]
    assert replayed.stdout.decode() == json.dumps(diagnosis, indent=2) + "\n"
    assert place.triage("report", str(directory), "--format", "json").stdout == replayed.stdout
    check_one_line(place.triage("capture", *place.target, "-o", str(directory)))


def test_replay_of_a_bare_log_with_source_and_launch(place: Place) -> None:
    words = ("replay", str(place.log), "--launch", place.command, "--source", str(place.folder), "--json")
    done = place.triage(*words)
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    assert (found["failure"]["file"], found["failure"]["function"]) == ("toyserver/args.py", "_handle_drafting")
    assert {e["name"] for e in found["patches"][0]["edits"]} == {"--draft-width", "--draft-depth"}
    assert found["patches"][0]["argv"][: len(FLAGS) + 4][-len(FLAGS) :] == list(FLAGS)


def test_secrets_of_the_launch_reach_no_output(place: Place) -> None:
    secret = "swordfish-swordfish"
    log = place.folder / "leak.log"
    log.write_bytes(place.log.read_bytes() + f"\nusing key {secret}\nAssertionError: {secret}\n".encode())
    words = ("replay", str(log), "--launch", f"{place.command} --api-key {secret}", "--source", str(place.folder))
    for more in ((), ("--json",)):
        done = place.triage(*words, *more)
        assert secret.encode() not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "code", "exception"),
    [
        ("sglang-0.5.11-e1", 1, "AssertionError"),
        ("sglang-0.5.23-e3", 1, "TypeError"),
        ("sglang-0.5.23-healthy", 3, None),
        ("healthy-handled", 3, None),
    ],
)
def test_a_log_alone_still_tells_what_failed(name: str, code: int, exception: str | None) -> None:
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    data = (LOGS / f"{name}.log").read_bytes()
    outputs = set()
    for what, stdin in ((str(LOGS / f"{name}.log"), b""), ("-", data)):
        done = subprocess.run(
            [*TRIAGE, "replay", what, "--json"], input=stdin, cwd=ROOT, env=env, capture_output=True, timeout=120
        )
        assert done.returncode == code, done.stderr.decode()
        failure = json.loads(done.stdout)["failure"]
        assert (failure and failure["exception"]) == exception
        outputs.add(done.stdout)
    assert len(outputs) == 1
