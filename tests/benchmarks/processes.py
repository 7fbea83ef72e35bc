"""A process and what it cost."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cost:
    """Of one process: wall time in seconds, and the most memory that it held, in MiB."""

    seconds: float
    memory: float


def run(command: list[str], env: Mapping[str, str], cwd: Path, codes: tuple[int, ...]) -> Cost:
    """Run a command to its end. Raises AssertionError where it ends with another code."""
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=cwd, env={**os.environ, **env}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    said = process.stderr.read()
    _pid, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in codes, (command, process.returncode, said[-2000:])
    return Cost(seconds, usage.ru_maxrss / 1024)
