"""The processes below one, as /proc shows them: listed, measured, ended.

Runs on the host, in the launch's own interpreter: stdlib only, Python 3.8 and later.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

_PAGE = os.sysconf("SC_PAGE_SIZE")
_ROUNDS = 200
_SET_PDEATHSIG = 1
_SET_CHILD_SUBREAPER = 36


def die_with_parent() -> None:
    """This process is killed where its parent ends first, on hosts that can."""
    _set_option(_SET_PDEATHSIG, int(signal.SIGKILL))


def adopt_orphans() -> bool:
    """Processes below this one whose parents end become its own; whether this host can do so."""
    return _set_option(_SET_CHILD_SUBREAPER, 1)


def _set_option(option: int, value: int) -> bool:
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def list_below(top: int) -> dict[int, int]:
    """{process: its resident bytes} of all processes below `top`, not of `top` itself; the dead that nobody waited for too."""
    parents: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as stream:
                words = stream.read().rpartition(b")")[2].split()
            parents[int(name)], sizes[int(name)] = int(words[1]), int(words[21]) * _PAGE
        except (OSError, ValueError, IndexError):
            continue
    below: dict[int, bool] = {top: True}
    for process in parents:
        way: list[int] = []
        at = process
        while at not in below and at in parents and len(way) < 10_000:
            way.append(at)
            at = parents[at]
        is_below = below.get(at, False)
        below.update((p, is_below) for p in way)
    return {p: sizes[p] for p, is_below in below.items() if is_below and p != top and p in sizes}


def sum_resident(found: dict[int, int]) -> int:
    """Bytes; memory that processes share counts for each of them."""
    return sum(found.values())


def read_state(process: int) -> str:
    """The letter of the process's state ("Z": it is dead and nobody has waited for it), "" where there is none."""
    try:
        with open(f"/proc/{process}/stat", "rb") as stream:
            return stream.read().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return ""


def end_processes(top: int, kept: set[int]) -> list[int]:
    """Kill all processes below `top` but the kept ones, until there are no more; those that would not go."""
    left: list[int] = []
    for turn in range(_ROUNDS):
        _reap(kept)
        left = [p for p in list_below(top) if p not in kept and read_state(p) not in ("", "Z")]
        if not left:
            break
        # stopped first, so that none starts another between two looks
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for process in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(process, number)
        time.sleep(min(0.002 * (turn + 1), 0.02))
    _reap(kept)
    return left


def _reap(kept: set[int]) -> None:
    """Wait for the dead children of this process, but for the kept ones, whose parent wants to."""
    with contextlib.suppress(ChildProcessError):
        while True:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is None or found.si_pid in kept:
                return
            os.waitpid(found.si_pid, os.WNOHANG)
