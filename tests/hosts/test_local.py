"""This machine as a host."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from triage.errors import CommandTimeout, FileError, FileMissing, HostError, UsageError
from triage.hosts import open_host
from triage.model import Command, Secret


def test_words_streams_status_and_stdin() -> None:
    host = open_host("local")
    words = ["a b", "", "$HOME", "\n", "\udcff", "'\"", "-n"]
    out = host.run(Command(("printf", "%s\\0", *words))).stdout.decode("utf-8", "surrogateescape")
    assert out.split("\0")[:-1] == words
    result = host.run(Command(("sh", "-c", "cat; echo e >&2; exit 5"), stdin=b"x" * 3_000_000))
    assert (result.status, len(result.stdout), result.stderr) == (5, 3_000_000, b"e\n")
    assert host.run(Command(("sh", "-c", "kill -9 $$"))).status == 137
    assert host.run(Command(("no-such-program",))).status == 127
    assert host.run(Command(("printf", "%s", Secret("x")))).stdout == b"x"
    assert len(host.run(Command(("head", "-c", "5000000", "/dev/zero"), max_output=10)).stdout) == 10
    assert host.run(Command(("true",), stdin=b"y" * 1_000_000)).status == 0


def test_bad_programs() -> None:
    for argv in ((), ("",), ("-x",), ("A=b",), ("echo", "a\0b")):
        with pytest.raises(UsageError):
            open_host("local").run(Command(argv))


def test_the_whole_group_ends_with_the_time(tmp_path: Path) -> None:
    script = f"trap '' TERM; sleep 987 & echo $! >{tmp_path}/pid; sleep 987"
    with pytest.raises(CommandTimeout):
        open_host("local").run(Command(("sh", "-c", script), timeout=0.5))
    pid = int((tmp_path / "pid").read_text())
    for _ in range(200):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                time.sleep(0.05)
                continue
        return
    pytest.fail("a process of the group still runs")


def test_a_process_left_behind_does_not_hold_the_command(tmp_path: Path) -> None:
    result = open_host("local").run(Command(("sh", "-c", f"sleep 986 & echo $! >{tmp_path}/pid; echo done"), timeout=20.0))
    assert result.stdout == b"done\n"
    os.kill(int((tmp_path / "pid").read_text()), 9)


def test_files(tmp_path: Path) -> None:
    host = open_host("local")
    path = str(tmp_path / "new dir" / "-f\n'$x")
    host.write_file(path, b"1", 0o600)
    host.write_file(path, b"22", 0o644)
    assert (host.read_file(path), os.stat(path).st_mode & 0o777, os.listdir(tmp_path / "new dir")) == (b"22", 0o644, ["-f\n'$x"])
    with pytest.raises(FileError, match="too large"):
        host.read_file(path, max_bytes=1)
    host.remove_file(path)
    host.remove_file(path)
    with pytest.raises(FileMissing):
        host.read_file(path)
    with pytest.raises(FileMissing):
        host.read_file(path + "/below")
    os.mkfifo(tmp_path / "fifo")
    for odd in ("fifo", "new dir"):
        with pytest.raises(FileError, match="not a regular file"):
            host.read_file(str(tmp_path / odd))
    with pytest.raises(FileError):
        host.remove_file(str(tmp_path / "new dir"))
    for bad in ("", "a\0b"):
        with pytest.raises(FileError, match="not a path"):
            host.read_file(bad)


def test_readers_never_see_half_a_file(tmp_path: Path) -> None:
    host = open_host("local")
    path = tmp_path / "f"
    path.write_bytes(b"a" * 100_000)
    seen: set[bytes] = set()
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            seen.add(path.read_bytes())

    thread = threading.Thread(target=watch)
    thread.start()
    for letter in (b"b", b"c", b"d"):
        host.write_file(str(path), letter * 100_000, 0o644)
    stop.set()
    thread.join()
    assert seen <= {letter * 100_000 for letter in (b"a", b"b", b"c", b"d")}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_without_root_there_is_a_clear_line(tmp_path: Path) -> None:
    code = (
        "import os; from triage.hosts import open_host; from triage.model import Command; from triage.errors import HostError\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "try:\n  open_host('local').run(Command(('id',), root=True))\nexcept HostError as e:\n  print(e, '|', e.hint)\n"
    )
    root = Path(__file__).resolve().parents[2]
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PATH": os.environ["PATH"], "PYTHONPATH": str(root)}
    )
    assert "needs root" in out.stdout, out
    assert HostError.exit_code == 2
