"""What reading a large log costs beside `grep -F` on the same file: python -m tests.benchmarks.logs [--gib N]

Two files are made: the ordinary lines of a busy server with a crash at the end, and one line of 200 MB before a crash.
`triage replay` and `grep -F` read each in turn, some rounds; the best time of each counts, all after the file was read
once. Memory is the most that the process of `triage` held.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.processes import Cost, run
from tests.oracle.places import ROOT

CRASH = ROOT / "fixtures" / "logs" / "sglang-0.5.23-e1.log"
START = "[2026-05-11 23:23:02] server_args=ServerArgs(model_path='/models/big-moe', tp_size=8, port=30000)\n"
READY = "[2026-05-11 23:29:02] The server is fired up and ready to roll!\n"
LINE = (
    "[2026-05-11 23:{m:02d}:{s:02d} TP{r}] Decode batch, #running-req: {n}, #token: {t}, token usage: 0.{u:02d}, "
    "cuda graph: True, gen throughput (token/s): {g:.2f}, #queue-req: 0\n"
)
LONG_LINE = 200_000_000  # bytes


def write_busy(path: Path, size: int) -> None:
    """At least `size` bytes of a healthy run, then a crash."""
    lines = (
        LINE.format(m=i // 60 % 60, s=i % 60, r=i % 8, n=i % 40, t=i * 37 % 99999, u=i % 100, g=i % 977 * 3.7)
        for i in range(40000)
    )
    block = "".join(lines).encode()
    with path.open("wb") as out:
        out.write((START + READY).encode())
        for _ in range(size // len(block) + 1):
            out.write(block)
        out.write(CRASH.read_bytes())


def write_long_line(path: Path) -> None:
    with path.open("wb") as out:
        out.write(b"start\n")
        for _ in range(LONG_LINE // 1_000_000):
            out.write(b"0123456789" * 100_000)
        out.write(b"\n" + CRASH.read_bytes())


def print_logs(gib: float, rounds: int, folder: Path) -> None:
    """Print a table row for each file."""
    busy, line = folder / "busy.log", folder / "line.log"
    write_busy(busy, int(gib * 2**30))
    write_long_line(line)
    print(
        "\n| log | bytes | triage replay, seconds | grep -F, seconds | throughput, of grep -F | MiB |\n|---|---|---|---|---|---|"
    )
    env = {"PYTHONPATH": str(ROOT), "TRIAGE_CACHE": "off"}
    for path in (busy, line):
        replays: list[Cost] = []
        greps: list[Cost] = []
        for _ in range(rounds):
            greps.append(run(["grep", "-cF", "Traceback (most recent call last)", str(path)], {}, ROOT, (0,)))
            replays.append(run([sys.executable, "-m", "triage.cli", "replay", str(path)], env, ROOT, (1,)))
        mine, its = min(c.seconds for c in replays), min(c.seconds for c in greps)
        memory = max(c.memory for c in replays)
        print(f"| {path.stem} | {path.stat().st_size} | {mine:.2f} | {its:.2f} | {its / mine:.2f} | {memory:.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.logs", description=__doc__)
    parser.add_argument("--gib", type=float, default=5.0, help="the size of the busy server's log")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print_logs(given.gib, given.rounds, Path(folder))
    print(f"\nload of the machine at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", file=sys.stderr)


if __name__ == "__main__":
    main()
