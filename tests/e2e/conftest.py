"""One lab host with the ten failed units, their captures, and their repairs; each made once for the whole test run."""

from __future__ import annotations

import io
import json
import shlex
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.e2e.figures import FIGURES
from tests.e2e.person import Done, Person
from tests.e2e.releases import (
    LAUNCHES,
    TOOLS,
    VERSIONS,
    Launch,
    ask_oracle_all,
    find_releases,
    nvidia_smi,
    stand_ins,
    unit_text,
)
from tests.lab import LabHost, boot, find_labhost

SYSTEM = "/etc/systemd/system"

A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True)
class Failed:
    """A unit that was started and failed, and what can be said of it from afar."""

    launch: Launch
    seconds: float  # from its start to its failure, as the manager counts
    capture: Path
    captured: Done
    replayed: Done


@dataclass(frozen=True)
class Repaired:
    """`triage run --apply --yes` and `triage undo` on a failed unit, and the host between them."""

    launch: Launch
    found: bytes  # /etc/systemd/system before, of this unit only
    done: Done
    changed: bytes  # the same between run and undo
    state: dict[str, str]
    running: tuple[str, ...]  # the server's own command line, from /proc
    starts: int  # runs of the unit since it was started by hand
    undone: Done
    restored: bytes
    after: dict[str, str]
    session: Path
    oracle: dict[str, Any]  # of the arguments that run now


@pytest.fixture(scope="session")
def e2e_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabHost]:
    """A host with eight H100s, as far as anyone asks. Skips where there is no lab."""
    found = find_labhost()
    if isinstance(found, str):
        pytest.skip(found)
    with boot(tmp_path_factory.mktemp("lab"), 100, 140) as host:
        put_files(host, {f"{TOOLS}/nvidia-smi": nvidia_smi()}, 0o755)
        yield host


@pytest.fixture(scope="session")
def person(e2e_lab: LabHost, tmp_path_factory: pytest.TempPathFactory) -> Person:
    return Person(e2e_lab, tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session")
def real_lab(e2e_lab: LabHost) -> LabHost:
    """The host, with both releases and the ten units on it, not yet started. Skips where there is no release."""
    reason = find_releases()
    if reason:
        pytest.skip(reason)
    for version in VERSIONS:
        put_files(e2e_lab, stand_ins(version))
    put_files(e2e_lab, {f"{SYSTEM}/{launch.unit}": unit_text(launch.version, launch.args) for launch in LAUNCHES})
    e2e_lab.run("systemctl", "daemon-reload")
    return e2e_lab


@pytest.fixture(scope="session")
def failed(real_lab: LabHost, person: Person, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Failed]:
    """The ten launches have failed, one after the other; each was captured and replayed."""
    folder = tmp_path_factory.mktemp("captures")
    found = {}
    for launch in LAUNCHES:
        seconds = start_failing(real_lab, launch.unit)
        capture = folder / launch.name
        captured = person.on_host("capture", "--unit", launch.unit, "-o", str(capture))
        replayed = person.offline("replay", str(capture), "--json")
        found[launch.name] = Failed(launch, seconds, capture, captured, replayed)
        row = FIGURES.row(launch.name)
        row.launch, row.replay, row.replay_memory = seconds, replayed.seconds, replayed.memory
    return found


@pytest.fixture(scope="session")
def repaired(failed: dict[str, Failed], person: Person, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Repaired]:
    """The ten units were repaired, two at a time, and put back."""
    lab = person.lab

    def repair(launch: Launch) -> dict[str, Any]:
        state = tmp_path_factory.mktemp("state")
        mine = Person(lab, state)
        found = read_unit(lab, launch.unit)
        done = mine.on_host("run", "--unit", launch.unit, "--apply", "--yes", "--json")
        changed, state_then = read_unit(lab, launch.unit), show_unit(lab, launch.unit)
        running = read_command(lab, state_then["MainPID"])
        starts = count_starts(lab, launch.unit)
        undone = mine.on_host("undo", "--unit", launch.unit)
        restored, after = read_unit(lab, launch.unit), show_unit(lab, launch.unit)
        lab.run("systemctl", "stop", launch.unit)
        return {
            "launch": launch,
            "found": found,
            "done": done,
            "changed": changed,
            "state": state_then,
            "running": running,
            "starts": starts,
            "undone": undone,
            "restored": restored,
            "after": after,
            "session": state,
        }

    parts = {part["launch"].name: part for part in two_at_a_time(repair, LAUNCHES)}
    answers = judge({name: part["launch"].version for name, part in parts.items()}, {n: p["running"] for n, p in parts.items()})
    for name, part in parts.items():
        row = FIGURES.row(name)
        row.restarts, row.repair, row.run_memory = part["starts"] - 1, part["done"].seconds, part["done"].memory
        row.patch = describe_first(part["done"])
    return {name: Repaired(**part, oracle=answers[name]) for name, part in parts.items()}


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if FIGURES.rows:
        terminalreporter.section("real launches: figures of this run")
        for line in FIGURES.lines():
            terminalreporter.write_line(line)


# ---------------------------------------------------------------- what several tests need
def two_at_a_time(work: Callable[[A], B], items: Sequence[A]) -> list[B]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(work, items))


def judge(versions: dict[str, str], launches: dict[str, tuple[str, ...]]) -> dict[str, dict[str, Any]]:
    """The oracle's answer for each named argv, one process for each release; no argv gives no `ok`."""
    answers: dict[str, dict[str, Any]] = {name: {"outcome": "nothing to ask"} for name in launches}
    for version in VERSIONS:
        names = [name for name, argv in launches.items() if versions[name] == version and argv]
        if names:
            answers.update(zip(names, ask_oracle_all(version, [launches[n] for n in names]), strict=True))
    return answers


def describe_first(done: Done) -> str:
    """The first patch of a JSON result in a few words."""
    try:
        edits = done.json["patches"][0]["edits"]
    except (ValueError, IndexError):
        return ""
    return ", ".join(f"{e['action']} {e['name']}{'' if e['new'] is None else ' ' + e['new']}" for e in edits)


def put_files(lab: LabHost, files: dict[str, str], mode: int = 0o644) -> None:
    """Many files of one mode in one go."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for path, text in files.items():
            member = tarfile.TarInfo(path.lstrip("/"))
            member.size, member.mode = len(text.encode()), mode
            tar.addfile(member, io.BytesIO(text.encode()))
    lab.run("tar", "-x", "-C", "/", "-f", "-", stdin=archive.getvalue())


def start_failing(lab: LabHost, unit: str) -> float:
    """Start the unit by hand and wait for its failure. Seconds that its process lived."""
    lab.shell('systemctl reset-failed "$1" 2>/dev/null; systemctl start "$1"', unit)
    end = time.monotonic() + 100
    while (state := show_unit(lab, unit))["ActiveState"] not in ("failed", "inactive"):
        assert time.monotonic() < end, f"{unit} did not fail: {state}"
        time.sleep(0.1)
    times = [int(state[f"ExecMain{what}TimestampMonotonic"]) for what in ("Start", "Exit")]
    return (times[1] - times[0]) / 1e6


def show_unit(lab: LabHost, unit: str) -> dict[str, str]:
    names = (
        *("ActiveState", "SubState", "MainPID", "NRestarts", "InvocationID", "ExecMainStatus", "NeedDaemonReload"),
        *("ExecMainStartTimestampMonotonic", "ExecMainExitTimestampMonotonic", "DropInPaths", "FragmentPath"),
    )
    text = lab.run("systemctl", "show", "-p", ",".join(names), unit).decode()
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def read_unit(lab: LabHost, unit: str) -> bytes:
    """Every file of the unit, with names, modes and contents, wherever systemd would look for it."""
    script = r"""
for d in /etc/systemd/system /run/systemd/system /run/systemd/transient /run/systemd/system.control; do
  for f in "$d/$1"*; do
    [ -e "$f" ] || continue
    find "$f" -printf "%p %m %y %l\n" | sort
    find "$f" -type f | sort | while IFS= read -r name; do echo "== $name"; cat "$name"; done
  done
done
"""
    return lab.shell(script, unit)


def read_command(lab: LabHost, pid: str) -> tuple[str, ...]:
    """The server's own arguments as the kernel has them, () for none."""
    if pid in ("", "0"):
        return ()
    words = lab.shell('cat "/proc/$1/cmdline"', pid).decode().split("\0")[:-1]
    return tuple(words[words.index("sglang.launch_server") + 1 :])


def count_starts(lab: LabHost, unit: str) -> int:
    """How often the manager started the unit, by its journal."""
    text = lab.run("journalctl", "-u", unit, "-o", "json", "--output-fields=INVOCATION_ID,JOB_TYPE", "--no-pager").decode()
    return len({entry["INVOCATION_ID"] for line in text.splitlines() if "INVOCATION_ID" in (entry := json.loads(line))})


def command_text(launch: Launch) -> str:
    """The launch as an operator would paste it."""
    return shlex.join(["python", "-m", "sglang.launch_server", *launch.args])
