"""Plain commands with a log: real processes on this machine, and on a lab host over ssh."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lab import LabHost
from triage.errors import ServiceError
from triage.hosts import open_host
from triage.model import MASK, Edit, Plan, RemoveFile, RunCommand, WriteFile
from triage.protocols import Host
from triage.services import CommandService
from triage.services.command_scripts import is_same_command, read_launch_text, write_launch

SERVER = """import os, sys, time
print(sys.argv[1:], os.environ.get("MODE"), os.getcwd(), flush=True)
if "--fail" in sys.argv: sys.exit(int(sys.argv[sys.argv.index("--fail") + 1]))
if "--die" in sys.argv: os.kill(os.getpid(), 11)
time.sleep(600)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "server.py").write_text(SERVER)
    yield tmp_path


def run(host: Host, plan: Plan, undo: bool = False) -> None:
    for step in plan.undo if undo else plan.steps:
        if isinstance(step, WriteFile):
            host.write_file(step.path, step.data, step.mode, root=step.as_root)
        elif isinstance(step, RemoveFile):
            host.remove_file(step.path, root=step.as_root)
        elif isinstance(step, RunCommand):
            result = host.run(step.command)
            assert result.status == 0, result


def wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


def test_the_whole_life(folder: Path) -> None:
    host = open_host("local")
    argv = (sys.executable, str(folder / "server.py"), "--fail", "7", "--api-key", "k3ysecret", "--x", "a 'b'\n$c")
    service = CommandService(host, argv, str(folder / "log"), {"MODE": "it's"}, str(folder))
    (folder / "log").write_text("an older run\n")
    assert (service.read_state().active, service.read_log().data) == ("inactive", b"an older run\n")
    run(host, service.plan_restart())
    wait_for(lambda: service.read_state().active == "failed")
    failed = service.read_state()
    assert (failed.exit.code, failed.exit.signal, failed.result, failed.main_pid) == (7, None, "exit-code", None)
    assert service.read_log().data.decode() == f"{list(argv[2:])} it's {folder}\n"
    assert "k3ysecret" not in repr(service.read_launch()) and "k3ysecret" in service.read_secrets()

    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    plan = service.plan_patch([Edit("remove", "--fail"), Edit("add", "--y", None, "1"), Edit("env", "MODE", None, "new\n$x")])
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before
    assert "k3ysecret" not in plan.diff and "-7" in plan.diff and "+--y" in plan.diff
    run(host, plan)
    assert service.read_launch().args == ("--api-key", MASK, "--x", "a 'b'\n$c", "--y", "1")
    run(host, service.plan_restart())
    wait_for(lambda: b"--y" in service.read_log().data)
    state = service.read_state()
    assert state.active == "active" and state.run != failed.run and state.main_pid
    assert b"new\n$x" in service.read_log().data
    assert (
        failed.run and b"--fail" in service.read_log(run=failed.run).data and b"--y" not in service.read_log(run=failed.run).data
    )
    cursor = service.read_log().cursor
    assert service.read_log(after=cursor).data == b""
    assert os.path.exists(f"/proc/{state.main_pid}")
    run(host, service.plan_stop())
    assert service.read_state().active == "failed" and not os.path.exists(f"/proc/{state.main_pid}")
    run(host, plan, undo=True)
    assert not (folder / ".triage-log" / "launch.sh").exists()
    assert "--fail" in service.read_launch().args


def test_a_signal_is_a_signal(folder: Path) -> None:
    host = open_host("local")
    service = CommandService(host, (sys.executable, str(folder / "server.py"), "--die"), str(folder / "log"))
    run(host, service.plan_restart())
    wait_for(lambda: service.read_state().active == "failed")
    assert service.read_state().exit.signal == 11


def test_what_the_user_started_is_found_and_ended(folder: Path) -> None:
    host = open_host("local")
    argv = (sys.executable, str(folder / "server.py"), "--mine", "1")
    other = subprocess.Popen([*argv[:3], "2"], stdout=subprocess.DEVNULL, start_new_session=True)
    with open(folder / "log", "wb") as log:
        mine = subprocess.Popen(argv, stdout=log, start_new_session=True)
    try:
        service = CommandService(host, ("nohup", *argv, ">", "log", "2>&1", "&"), str(folder / "log"))
        wait_for(lambda: service.read_state().active == "active" and b"--mine" in service.read_log().data)
        assert service.read_state().main_pid == mine.pid
        run(host, service.plan_patch([Edit("set", "--mine", "1", "3")]))
        run(host, service.plan_restart())
        assert mine.wait(10) != 0 and other.poll() is None
        wait_for(lambda: b"'3'" in service.read_log().data)
        run(host, service.plan_stop())
    finally:
        for process in (mine, other):
            process.kill()
            process.wait()


def test_what_cannot_be_done_says_why(folder: Path) -> None:
    host = open_host("local")
    for argv in ((), ("a", "|", "b"), ("a", "&&", "b"), ("a", ";", "b"), ("nohup", "&")):
        with pytest.raises(ServiceError):
            CommandService(host, argv, str(folder / "log"))
    with pytest.raises(ServiceError, match="no log file"):
        CommandService(host, ("x",), str(folder / "none")).read_log()
    os.mkfifo(folder / "fifo")
    with pytest.raises(ServiceError, match="not a regular"):
        CommandService(host, ("x",), str(folder / "fifo")).read_log()
    with pytest.raises(ServiceError, match="does not start the server itself"):
        CommandService(host, ("bash", "-c", "x --a"), str(folder / "log")).plan_patch([Edit("remove", "--a")])
    with pytest.raises(ServiceError, match="does not stand"):
        CommandService(host, ("x", "--b"), str(folder / "log")).plan_patch([Edit("remove", "--a")])
    (folder / ".triage-log").mkdir()
    (folder / ".triage-log" / "launch.sh").write_text("rm -rf /\n")
    with pytest.raises(ServiceError, match="cannot be read"):
        CommandService(host, ("x", "--b"), str(folder / "log")).read_launch()
    (folder / "big").write_bytes(b"")
    os.truncate(folder / "big", 200 * 1024 * 1024)
    chunk = CommandService(host, ("x",), str(folder / "big")).read_log()
    assert chunk.cut and len(chunk.data) == 64 * 1024 * 1024 and chunk.cursor == str(200 * 1024 * 1024)


def test_same_command_and_launch_text() -> None:
    argv = ("sglang", "serve", "--a", "1")
    assert is_same_command(argv, ("/v/bin/python3", "/v/bin/sglang", "serve", "--a", "1"))
    assert is_same_command(argv, ("/v/bin/sglang", "serve", "--a", "1"))
    for other in (("sglang", "serve", "--a", "2"), ("sglang", "serve", "--a"), ("sh", "-c", "sglang serve --a 1"), ()):
        assert not is_same_command(argv, other)
    words, env = ("a", "", "b 'c'\n#d", "$x\\"), {"A": "1\n'", "B": None, "C": ""}
    assert read_launch_text(write_launch(words, env)) == (words, env)


@pytest.mark.lab
def test_over_ssh_it_outlives_the_connection(lab: LabHost) -> None:
    lab.add_user("runner")
    lab.write("/srv/server.py", SERVER)
    host = lab.open("runner")
    argv = ("python3", "/srv/server.py", "--p", "1")
    with pytest.raises(ServiceError, match="must begin with /"):
        CommandService(host, argv, "log")
    service = CommandService(host, argv, "/home/runner/log", {"MODE": "m"}, "/srv")
    run(host, service.plan_restart())
    host.close()
    host = lab.open("runner")
    service = CommandService(host, argv, "/home/runner/log", {"MODE": "m"}, "/srv")
    wait_for(lambda: b"'--p', '1'] m /srv" in service.read_log().data)
    state = service.read_state()
    assert state.active == "active"
    run(host, service.plan_patch([Edit("set", "--p", "1", "2")]))
    run(host, service.plan_restart())
    wait_for(lambda: b"'2'" in service.read_log().data)
    assert service.read_state().run != state.run
    run(host, service.plan_stop())
    assert b"server.py" not in lab.run("ps", "-eo", "args")
    host.close()
