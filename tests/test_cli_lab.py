"""Whole commands over ssh on a lab host: a unit that fails, its repair, its undo, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli_tools import ROOT, TRIAGE, check_one_line
from tests.lab import LabHost

UNIT = "toy-cli.service"
TEXT = f"""\
[Unit]
Description=toy

[Service]
Environment=PYTHONPATH={{folder}} PYTHONUNBUFFERED=1
ExecStart={sys.executable} -m toyserver.launch --model-path toy --port 8311 \\
  --draft-mode ladder --draft-budget 6
"""


class Operator:
    """Someone at another machine, with a state folder and ssh files of their own."""

    def __init__(self, lab: LabHost, state: Path) -> None:
        self.lab = lab
        self.state = state

    def triage(self, *words: str, known_hosts: Path | None = None) -> subprocess.CompletedProcess[bytes]:
        name, *rest = words
        ssh = ("--ssh-config", str(self.lab.ssh_config), "--known-hosts", str(known_hosts or self.lab.known_hosts))
        env = {**os.environ, "TRIAGE_STATE_DIR": str(self.state), "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
        command = [*TRIAGE, name, "--host", f"root@{self.lab.name}", *ssh, *rest]
        return subprocess.run(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=200)


@pytest.fixture
def operator(lab: LabHost, tmp_path: Path) -> Operator:
    """The toy unit has failed on the host, without any drop-in."""
    folder = "/opt/toy-cli"
    lab.shell('systemctl stop "$1"; rm -rf "/etc/systemd/system/$1.d" "$2"; mkdir -p "$2/toyserver"', UNIT, folder)
    for path in sorted((ROOT / "fixtures" / "toyserver" / "toyserver").glob("*.py")):
        lab.write(f"{folder}/toyserver/{path.name}", path.read_bytes())
    lab.write(f"/etc/systemd/system/{UNIT}", TEXT.format(folder=folder))
    lab.shell(
        'systemctl daemon-reload; systemctl reset-failed "$1"; systemctl start "$1"; sleep 1; systemctl is-failed "$1"', UNIT
    )
    return Operator(lab, tmp_path / "state")


def test_a_failed_unit_becomes_healthy_and_undo_restores_it(operator: Operator) -> None:
    lab = operator.lab
    before = lab.tree("/etc/systemd")
    planned = operator.triage("run", "--unit", UNIT)
    assert planned.returncode == 1, planned.stderr.decode()
    assert lab.tree("/etc/systemd") == before

    done = operator.triage("run", "--unit", UNIT, "--apply", "--json")
    assert done.returncode == 0, done.stderr.decode()
    session = json.loads(done.stdout)
    assert (session["outcome"], len(session["session"]["attempts"])) == ("fixed", 1)
    assert lab.run("systemctl", "is-active", UNIT).strip() == b"active"
    assert lab.read(f"/etc/systemd/system/{UNIT}").decode() == TEXT.format(folder="/opt/toy-cli")
    assert lab.tree("/etc/systemd") != before

    healthy = operator.triage("run", "--unit", UNIT, "--apply", "--json")
    assert (healthy.returncode, json.loads(healthy.stdout)["outcome"]) == (0, "healthy")

    undone = operator.triage("undo", "--unit", UNIT)
    assert undone.returncode == 0, undone.stderr.decode()
    assert lab.tree("/etc/systemd") == before


def test_replay_of_what_was_captured_over_ssh(operator: Operator, tmp_path: Path) -> None:
    directory = tmp_path / "capture"
    assert operator.triage("capture", "--unit", UNIT, "-o", str(directory)).returncode == 0
    live = operator.triage("run", "--unit", UNIT, "--dry-run", "--no-rehearsal", "--json")
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    replayed = subprocess.run([*TRIAGE, "replay", str(directory), "--json"], cwd=ROOT, env=env, capture_output=True, timeout=120)
    assert replayed.returncode == 0, replayed.stderr.decode()
    assert json.loads(replayed.stdout) == json.loads(live.stdout)["session"]["diagnosis"]


def test_what_cannot_be_reached_or_read_changes_nothing(operator: Operator, tmp_path: Path) -> None:
    before = operator.lab.tree("/etc/systemd")
    nothing = tmp_path / "known_hosts"
    nothing.write_text("")
    for name in ("run", "undo"):
        refused = operator.triage(name, "--unit", UNIT, known_hosts=nothing)
        assert "key" in check_one_line(refused)
    check_one_line(operator.triage("run", "--unit", "no-such-unit.service", "--apply"))
    operator.lab.write("/etc/systemd/system/other-cli.service", "[Service]\nExecStart=/bin/false\n")
    operator.lab.run("systemctl", "daemon-reload")
    text = check_one_line(operator.triage("run", "--unit", "other-cli.service", "--apply"))
    assert "/bin/false" in text
    operator.lab.shell("rm /etc/systemd/system/other-cli.service; systemctl daemon-reload")
    assert operator.lab.tree("/etc/systemd") == before


def test_check_of_a_unit_that_never_ran_and_of_one_that_runs(operator: Operator, tmp_path: Path) -> None:
    lab = operator.lab
    unit = "toy-check.service"
    lab.write(f"/etc/systemd/system/{unit}", TEXT.format(folder="/opt/toy-cli").replace("8311", "8312"))
    lab.run("systemctl", "daemon-reload")
    before = lab.tree("/etc/systemd")
    failing = operator.triage("check", "--unit", unit, "--json")
    assert failing.returncode == 1, failing.stderr.decode()
    found = json.loads(failing.stdout)
    assert [f["failure"]["exception"] for f in found["failures"]] == ["AssertionError", "TypeError"]
    assert found["evaluated"]["service"] == unit
    assert lab.shell('systemctl show -P InvocationID "$1"', unit).strip() == b""  # it was not started to find out

    # what the patch says, as a person would write it
    words = " ".join(found["patches"][0]["argv"])
    start = f"ExecStart={sys.executable} -m toyserver.launch {words}\n"
    lab.write(f"/etc/systemd/system/{unit}", TEXT.format(folder="/opt/toy-cli").split("ExecStart=")[0] + start)
    lab.shell('systemctl daemon-reload; systemctl start "$1"; sleep 1; systemctl is-active "$1"', unit)
    running = lab.shell('systemctl show -P InvocationID "$1"', unit)
    passing = operator.triage("check", "--unit", unit, "--json")
    assert passing.returncode == 0, passing.stdout.decode()
    assert json.loads(passing.stdout)["failures"] == []
    assert lab.shell('systemctl show -P InvocationID "$1"', unit) == running

    # another launch on the same host, before the unit is edited
    worse = operator.triage(
        "check", "--unit", unit, "--launch", "python -m toyserver.launch --model-path toy --lanes 6", "--json"
    )
    assert (worse.returncode, json.loads(worse.stdout)["failure"]["exception"]) == (1, "ValueError")

    told = operator.triage("explain", "--unit", unit, "--json", "--launch", "python -m toyserver.launch --lanes 6", "lanes")
    assert told.returncode == 0, told.stderr.decode()
    life = json.loads(told.stdout)
    assert (life["field"], life["launch"]["typed"]) == ("lanes", "--lanes 6")
    assert {c["file"] for c in life["checks"]} == {"toyserver/args.py"}
    own = operator.triage("explain", "--unit", unit, "--json", "model_path")
    assert json.loads(own.stdout)["launch"]["typed"].startswith("--model-path")  # as the unit's own launch has it
    assert lab.shell('systemctl show -P InvocationID "$1"', unit) == running

    assert not operator.state.exists()  # nothing that undo would act on
    check_one_line(operator.triage("check", "--unit", "no-such-unit.service"))
    check_one_line(operator.triage("explain", "--unit", "no-such-unit.service", "lanes"))
    lab.write(f"/etc/systemd/system/{unit}", "[Service]\nExecStart=/bin/false\n")
    lab.run("systemctl", "daemon-reload")
    assert "/bin/false" in check_one_line(operator.triage("check", "--unit", unit))
    lab.write(f"/etc/systemd/system/{unit}", f"[Service]\nExecStart={sys.executable} -m sglang.launch_server --model-path m\n")
    lab.run("systemctl", "daemon-reload")
    assert "sglang" in check_one_line(operator.triage("check", "--unit", unit))
    lab.write(f"/etc/systemd/system/{unit}", TEXT.format(folder="/opt/toy-cli").replace("8311", "8312"))
    lab.shell('systemctl daemon-reload; systemctl stop "$1"', unit)
    assert lab.tree("/etc/systemd") == before
    lab.shell('rm "/etc/systemd/system/$1"; systemctl daemon-reload', unit)
