"""`triage doctor` as a whole process: on this machine for a plain command, on a lab host for a unit, with rights taken away."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli_tools import ROOT, TRIAGE, check_one_line, run_triage
from tests.lab import LabHost
from triage.model import Checkup, DoctorCheck
from triage.report.doctor import render_checkup_json, render_checkup_text

TOY = ROOT / "fixtures" / "toyserver"
UNIT = "toy-doctor.service"
FOLDER = "/opt/toy-doctor"
FAILING = "--draft-mode ladder --draft-budget 6"
SECRET = "hunter2hunter2"
NEEDED = {"unit", "journal", "patch", "python", "package", "health and generate", "undo"}


def by_name(done: subprocess.CompletedProcess[bytes], code: int, outcome: str) -> dict[str, Any]:
    assert done.returncode == code, done.stderr.decode() + done.stdout.decode()
    assert SECRET not in done.stdout.decode() + done.stderr.decode()
    made = json.loads(done.stdout)
    assert (made["schema"], made["outcome"]) == (1, outcome), made
    return {check["name"]: check for check in made["checks"]}


# ---------------------------------------------------------------- this machine
def command(folder: Path, python: str = sys.executable, more: str = "") -> tuple[str, ...]:
    words = f"PYTHONPATH={shlex.quote(str(TOY))} {python} -m toyserver.launch --model-path toy --api-key {SECRET} {more}"
    return ("doctor", "--command", words, "--log", str(folder / "log"))


def snapshot(folder: Path) -> list[tuple[str, bytes]]:
    return sorted((str(p), p.read_bytes() if p.is_file() else b"") for p in folder.rglob("*"))


def test_a_command_on_this_machine(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("it ran\n")
    state = tmp_path / "state"
    before = snapshot(tmp_path)
    env = {"TRIAGE_STATE_DIR": str(state)}
    checks = by_name(run_triage(*command(tmp_path), "--json", env=env), 0, "ready")
    assert {n for n, c in checks.items() if c["ability"] == "no"} == set()
    assert checks["rehearsal"]["why"].startswith("the launch as typed passes")
    assert checks["python"]["why"].startswith(sys.executable)
    assert checks["model config"]["ability"] == "limited" and "toy" in checks["model config"]["why"]
    refused = by_name(run_triage(*command(tmp_path, more=FAILING), "--json", env=env), 0, "ready")
    assert "refuses the launch as typed (AssertionError" in refused["rehearsal"]["why"]
    assert snapshot(tmp_path) == before and not state.exists()


def test_what_is_missing_is_named_and_told_by_the_exit_code(tmp_path: Path) -> None:
    checks = by_name(run_triage(*command(tmp_path), "--json"), 1, "not_ready")
    assert {n for n, c in checks.items() if c["ability"] == "no"} == {"log"}
    (tmp_path / "log").write_text("it ran\n")
    (tmp_path / "config.json").write_text("{}")
    bare = f"{sys.executable} -I -m toyserver.launch --model-path {tmp_path}"
    done = run_triage("doctor", "--command", bare, "--log", str(tmp_path / "log"), "--json", cwd=tmp_path)
    checks = by_name(done, 1, "not_ready")
    assert {n for n, c in checks.items() if c["ability"] == "no"} == {"package", "facts", "rehearsal"}
    assert "no package toyserver" in checks["package"]["why"] and sys.executable in checks["python"]["why"]
    assert (checks["model config"]["ability"], checks["model config"]["why"]) == ("ok", f"{tmp_path} (folder)")
    gone = by_name(run_triage(*command(tmp_path, "/no/python"), "--json"), 1, "not_ready")
    assert gone["python"]["ability"] == gone["package"]["ability"] == "no" and "/no/python" in gone["python"]["why"]
    (tmp_path / "state").write_text("a file stands where the folder should")
    env = {"TRIAGE_STATE_DIR": str(tmp_path / "state")}
    assert by_name(run_triage(*command(tmp_path), "--json", env=env), 1, "not_ready")["undo"]["ability"] == "no"


def test_wrong_usage_is_one_line() -> None:
    check_one_line(run_triage("doctor"))
    check_one_line(run_triage("doctor", "--command", "python -m toyserver.launch"))
    assert "-x" in check_one_line(run_triage("doctor", "--host=-x", "--unit", "u"))


@pytest.mark.abuse(17)
def test_a_host_that_cannot_be_reached(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host lost\n  HostName no-such.invalid\n")
    done = run_triage("doctor", "--host", "lost", "--ssh-config", str(config), "--unit", UNIT, "--json")
    checks = by_name(done, 2, "unreachable")
    assert list(checks) == ["ssh"] and "no-such.invalid" in checks["ssh"]["why"] and checks["ssh"]["todo"]


# ---------------------------------------------------------------- the text
def test_the_text_holds_each_line_within_the_width_and_no_escapes() -> None:
    checks = (
        DoctorCheck("ssh", "ok", "fine", needed=True),
        DoctorCheck("journal", "no", "the journal\x1b[2J of \u202ehost is closed " * 3, "join the group systemd-journal", True),
        DoctorCheck("facts", "limited", "", ""),
    )
    for width in (20, 40, 59, 60, 100):
        text = render_checkup_text(Checkup("h\x1b]0;x", "u", checks), width)
        assert all(len(line) <= width for line in text.splitlines()), text
        assert not any(c in text for c in "\x1b\x07\u202e")
        assert "lacks:" in " ".join(text.split()) and "-> join" in " ".join(text.split())
    assert json.loads(render_checkup_json(Checkup("h", "u", checks)))["checks"][2]["todo"] is None
    fit = Checkup("h", "u", (checks[0], checks[2], DoctorCheck("sudo", "no", "none", needed=False)))
    assert fit.fit and not Checkup("h", "u", checks).fit and not Checkup("h", "u", checks[:1], reached=False).fit


# ---------------------------------------------------------------- a unit on a lab host
class Doctor:
    def __init__(self, lab: LabHost, state: Path) -> None:
        self.lab = lab
        self.state = state

    def ask(self, *words: str, user: str = "root", name: str = "doctor", known: Path | None = None) -> Any:
        ssh = ("--ssh-config", str(self.lab.ssh_config), "--known-hosts", str(known or self.lab.known_hosts))
        env = {**os.environ, "TRIAGE_STATE_DIR": str(self.state), "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
        full = [*TRIAGE, name, "--host", f"{user}@{self.lab.name}", *ssh, "--unit", UNIT, *words]
        return subprocess.run(full, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=200)

    def checks(self, code: int, outcome: str, user: str = "root") -> dict[str, Any]:
        return by_name(self.ask("--json", user=user), code, outcome)


# one that every login may run; that of the tests may stand in a folder of root's
SYSTEM_PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable


def write_unit(lab: LabHost, args: str, folder: str = FOLDER, more: str = "", python: str = sys.executable) -> None:
    words = f"{python} -m toyserver.launch --model-path toy --port 8391 --api-key {SECRET} {args}"
    environment = f"Environment=PYTHONPATH={folder} PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1"
    lab.write(f"/etc/systemd/system/{UNIT}", f"[Service]\n{environment}\n{more}ExecStart={words}\n")
    lab.run("systemctl", "daemon-reload")


def no_of(checks: dict[str, Any]) -> set[str]:
    return {name for name, check in checks.items() if check["ability"] == "no"}


@pytest.fixture
def doctor(lab: LabHost, tmp_path: Path) -> Iterator[Doctor]:
    """The toy unit has failed on the host."""
    lab.shell('systemctl stop "$1"; rm -rf "/etc/systemd/system/$1.d" "$2"; mkdir -p "$2/toyserver"', UNIT, FOLDER)
    for path in sorted((TOY / "toyserver").glob("*.py")):
        lab.write(f"{FOLDER}/toyserver/{path.name}", path.read_bytes())
    write_unit(lab, FAILING)
    lab.shell('systemctl reset-failed "$1"; systemctl start "$1"; sleep 1; systemctl is-failed "$1"', UNIT)
    yield Doctor(lab, tmp_path / "state")
    lab.shell('systemctl stop "$1"', UNIT)


def touch(lab: LabHost) -> Sequence[bytes]:
    """Whatever a doctor could have changed."""
    run = lab.shell('systemctl show -p InvocationID,NRestarts,ActiveState,NeedDaemonReload "$1"', UNIT)
    return lab.tree("/etc"), lab.tree(FOLDER), run


@pytest.mark.lab
def test_a_unit_as_root_then_with_a_standing_change(doctor: Doctor) -> None:
    before = touch(doctor.lab)
    checks = doctor.checks(0, "ready")
    assert {n for n, c in checks.items() if c["needed"]} == NEEDED | {"sudo"} and no_of(checks) == set()
    assert "the host key is known" in checks["ssh"]["why"] and checks["sudo"]["why"] == "the login is root"
    assert "failed (exit-code)" in checks["unit"]["why"] and "refuses the launch as typed" in checks["rehearsal"]["why"]
    assert f"{UNIT}.d/" in checks["patch"]["why"]
    assert touch(doctor.lab) == before and not doctor.state.exists()
    text = doctor.ask()
    assert text.returncode == 0 and SECRET not in text.stdout.decode()
    assert [line.split()[1] for line in text.stdout.decode().splitlines() if line.startswith("ok")][:2] == ["ssh", "sudo"]

    assert doctor.ask("--apply", name="run").returncode == 0
    running = touch(doctor.lab)
    checks = doctor.checks(0, "ready")
    assert "stands" in checks["undo"]["why"] and "triage undo" in checks["undo"]["todo"]
    assert "one of triage's own stands there already" in checks["patch"]["why"]
    assert checks["health and generate"]["why"] == "/health answers 200, /generate_one answers 200"
    assert touch(doctor.lab) == running
    assert doctor.ask(name="undo").returncode == 0


@pytest.mark.lab
@pytest.mark.abuse(18)
def test_logins_with_less_rights(doctor: Doctor) -> None:
    lab = doctor.lab
    for user, groups in (("plain", ()), ("reader", ("systemd-journal",)), ("wheel", ())):
        lab.add_user(user, groups=groups)
    write_unit(lab, FAILING, python=SYSTEM_PYTHON)
    lab.write("/etc/sudoers.d/doctor", "wheel ALL=(ALL) NOPASSWD: ALL\n", 0o440)
    before = touch(lab)
    plain = doctor.checks(1, "not_ready", "plain")
    assert no_of(plain) >= {"sudo", "journal", "patch"} and not no_of(plain) & {"ssh", "unit", "python", "package", "undo"}
    assert "NOPASSWD" in plain["sudo"]["todo"] or "root" in plain["sudo"]["todo"]
    assert "systemd-journal" in plain["journal"]["todo"]
    reader = doctor.checks(1, "not_ready", "reader")
    assert reader["journal"]["ability"] == "ok" and no_of(reader) >= {"sudo", "patch"}
    wheel = doctor.checks(0, "ready", "wheel")
    assert no_of(wheel) == set() and "sudo without a password" in wheel["sudo"]["why"]
    assert touch(lab) == before


@pytest.mark.lab
def test_a_unit_that_lacks_what_run_needs(doctor: Doctor, tmp_path: Path) -> None:
    lab = doctor.lab
    write_unit(lab, FAILING, folder="/nowhere")
    checks = doctor.checks(1, "not_ready")
    assert no_of(checks) == {"package", "facts", "rehearsal"} and "no package toyserver" in checks["package"]["why"]
    write_unit(lab, FAILING, more="User=nobody\n", python=SYSTEM_PYTHON)
    assert doctor.checks(0, "ready")["rehearsal"]["ability"] == "ok"
    lab.shell('mkdir -p "$1"; mount -t tmpfs -o ro tmpfs "$1"', f"/etc/systemd/system/{UNIT}.d")
    try:
        checks = doctor.checks(1, "not_ready")
        assert no_of(checks) == {"patch"} and "cannot be written" in checks["patch"]["why"]
    finally:
        lab.shell('umount "$1"; rmdir "$1"', f"/etc/systemd/system/{UNIT}.d")
    lab.write(f"/etc/systemd/system/{UNIT}", "[Service]\nExecStart=/bin/sh -c 'exec false'\n")
    lab.run("systemctl", "daemon-reload")
    checks = doctor.checks(1, "not_ready")
    assert no_of(checks) >= {"unit", "patch", "python"} and "/bin/sh" in checks["unit"]["why"]
    assert checks["journal"]["ability"] == "ok"
    lab.shell('rm "/etc/systemd/system/$1"; systemctl daemon-reload', UNIT)
    assert "has no unit" in doctor.checks(1, "not_ready")["unit"]["why"]
    nothing = tmp_path / "known_hosts"
    nothing.write_text("")
    refused = by_name(doctor.ask("--json", known=nothing), 2, "unreachable")
    assert "key" in refused["ssh"]["why"] and "fingerprint" in refused["ssh"]["todo"]
