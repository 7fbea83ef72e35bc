"""Someone with a terminal at another machine: whole `triage` processes, measured."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cli_tools import ROOT, TRIAGE
from tests.lab import LabHost


@dataclass(frozen=True)
class Done:
    """One ended process."""

    code: int  # negative: ended by that signal
    stdout: bytes
    stderr: bytes
    seconds: float
    memory: int  # peak resident set, bytes

    @property
    def text(self) -> str:
        return self.stderr.decode()

    @property
    def json(self) -> dict[str, Any]:
        value = json.loads(self.stdout)
        assert isinstance(value, dict)
        return value


class Person:
    """`state` is their state folder; their ssh files reach the lab host and nothing else."""

    def __init__(self, lab: LabHost, state: Path) -> None:
        self.lab = lab
        self.state = state

    def on_host(self, name: str, *words: str, host: str | None = None, known_hosts: Path | None = None) -> Done:
        """A command that works on a host."""
        return run(self.command(name, *words, host=host, known_hosts=known_hosts), self.state)

    def offline(self, *words: str) -> Done:
        return run([*TRIAGE, *words], self.state)

    def command(self, name: str, *words: str, host: str | None = None, known_hosts: Path | None = None) -> list[str]:
        ssh = ["--ssh-config", str(self.lab.ssh_config), "--known-hosts", str(known_hosts or self.lab.known_hosts)]
        return [*TRIAGE, name, "--host", host or f"root@{self.lab.name}", *ssh, *words]


def start(command: list[str], state: Path, stdout: int, stderr: int) -> subprocess.Popen[bytes]:
    env = {**os.environ, "TRIAGE_STATE_DIR": str(state), "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    # A test run in the background ignores Ctrl-C, and what it starts would too.
    words = ["env", "--default-signal=INT", *command]
    return subprocess.Popen(words, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr)


def run(command: list[str], state: Path, meanwhile: Callable[[int], None] | None = None) -> Done:
    """Run to the end, at most 5 minutes. `meanwhile` gets the process number, and may send signals."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        begun = time.monotonic()
        process = start(command, state, out.fileno(), err.fileno())
        try:
            if meanwhile is not None:
                meanwhile(process.pid)
            code, memory = _wait(process, 300.0)
        except BaseException:
            process.send_signal(signal.SIGKILL)
            process.wait()
            raise
        seconds = time.monotonic() - begun
        out.seek(0)
        err.seek(0)
        return Done(code, out.read(), err.read(), seconds, memory)


def ends_within(pid: int, seconds: float) -> bool:
    """Whether the process ends in that time; its status is left for `run`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return True
        time.sleep(0.01)
    return False


def _wait(process: subprocess.Popen[bytes], limit: float) -> tuple[int, int]:
    """(exit code, peak memory in bytes). Raises TimeoutError."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            unit = 1 if sys.platform == "darwin" else 1024
            return process.returncode, usage.ru_maxrss * unit
        time.sleep(0.02)
    raise TimeoutError(f"{process.args!r} still ran after {limit:g} s")
