"""Ctrl-C, and kill -9, at many moments of a run: the unit has the old or the new drop-in, whole, and `undo` can finish."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.conftest import SYSTEM, put_files, read_unit, show_unit, start_failing, two_at_a_time
from tests.e2e.person import Done, Person, ends_within, run
from tests.e2e.releases import ROOT
from tests.lab import LabHost

pytestmark = pytest.mark.timeout(900)

FOLDER = "/srv/toy"
INTERRUPTS, DOUBLE, KILLS = 14, 3, 7
SEED = int(os.environ.get("TRIAGE_TEST_SEED", "20260511"))


@dataclass(frozen=True)
class Moment:
    """When which signals are sent: seconds after the start, as shares of a whole run."""

    number: int
    share: float
    signals: tuple[signal.Signals, ...]

    @property
    def unit(self) -> str:
        return f"toy-stop{self.number}.service"


@dataclass(frozen=True)
class Stopped:
    moment: Moment
    seconds: float
    found: bytes
    done: Done
    between: bytes
    loaded: dict[str, str]
    undone: Done
    restored: bytes
    again: Done


def choose_moments() -> list[Moment]:
    """Spread over the run, each at a random place of its part."""
    chance = random.Random(SEED)
    moments: list[Moment] = []
    kinds = (
        (INTERRUPTS, (signal.SIGINT,)),
        (DOUBLE, (signal.SIGINT, signal.SIGINT)),
        (KILLS, (signal.SIGKILL,)),
    )
    for count, signals in kinds:
        moments += [Moment(len(moments) + i, (i + chance.random()) / count, signals) for i in range(count)]
    return moments


MOMENTS = choose_moments()


@pytest.fixture(scope="session")
def toys(e2e_lab: LabHost) -> LabHost:
    """A failing toy unit for each moment, and one to measure with."""
    files = {f"{FOLDER}/toyserver/{p.name}": p.read_text() for p in (ROOT / "fixtures" / "toyserver" / "toyserver").glob("*.py")}
    for i, unit in enumerate(["toy-whole.service", *(m.unit for m in MOMENTS)]):
        files[f"{SYSTEM}/{unit}"] = (
            f"[Service]\nEnvironment=PYTHONPATH={FOLDER}\nExecStart={sys.executable} -m toyserver.launch --model-path toy"
            f" --port {31000 + i} --draft-mode ladder --draft-budget 6\n"
        )
    put_files(e2e_lab, files)
    e2e_lab.run("systemctl", "daemon-reload")
    return e2e_lab


@pytest.fixture(scope="session")
def whole(toys: LabHost, tmp_path_factory: pytest.TempPathFactory) -> tuple[float, bytes]:
    """A run that nobody disturbs: its seconds, and what then stands beside the unit."""
    unit = "toy-whole.service"
    start_failing(toys, unit)
    me = Person(toys, tmp_path_factory.mktemp("state"))
    done = me.on_host("run", "--unit", unit, "--apply", "--yes")
    assert done.code == 0, done.text
    changed = read_unit(toys, unit)
    assert me.on_host("undo", "--unit", unit).code == 0
    toys.run("systemctl", "stop", unit)
    return done.seconds, changed


@pytest.fixture(scope="session")
def stopped(toys: LabHost, whole: tuple[float, bytes], tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Stopped]]:
    folders: list[Path] = []

    def stop(moment: Moment) -> Stopped:
        state = tmp_path_factory.mktemp("state")
        folders.append(state)
        me = Person(toys, state)
        start_failing(toys, moment.unit)
        found = read_unit(toys, moment.unit)
        seconds = moment.share * whole[0]

        def send(pid: int) -> None:
            for i, number in enumerate(moment.signals):
                if ends_within(pid, 0.3 if i else seconds):
                    return
                os.kill(pid, number)

        command = me.command("run", "--unit", moment.unit, "--apply", "--yes")
        done = run(command, state, send)
        time.sleep(0.5)  # a command of a killed run may still be on its way
        between, loaded = read_unit(toys, moment.unit), show_unit(toys, moment.unit)
        undone = me.on_host("undo", "--unit", moment.unit)
        restored = read_unit(toys, moment.unit)
        again = me.on_host("undo", "--unit", moment.unit)
        toys.run("systemctl", "stop", moment.unit)
        return Stopped(moment, seconds, found, done, between, loaded, undone, restored, again)

    yield two_at_a_time(stop, MOMENTS)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def pick(stopped: list[Stopped], number: int) -> Stopped:
    return next(s for s in stopped if s.moment.number == number)


each_moment = pytest.mark.parametrize(
    "number", [m.number for m in MOMENTS], ids=[f"{m.share:.2f}-{'-'.join(s.name for s in m.signals)}" for m in MOMENTS]
)


@each_moment
def test_the_drop_in_is_the_old_or_the_new_one(stopped: list[Stopped], whole: tuple[float, bytes], number: int) -> None:
    seen = pick(stopped, number)
    new = whole[1].replace(b"toy-whole.service", seen.moment.unit.encode())
    expected = new.replace(b"--port 31000", f"--port {31001 + number}".encode())
    empty = f"{SYSTEM}/{seen.moment.unit}.d 755 d \n".encode()  # the file is gone, its folder not yet
    assert seen.between in (seen.found, seen.found + empty, expected), (seen.seconds, seen.done.text, seen.between.decode())


@each_moment
def test_undo_finishes_and_a_second_undo_finds_nothing(stopped: list[Stopped], number: int) -> None:
    seen = pick(stopped, number)
    assert seen.restored == seen.found, (seen.seconds, seen.done.text, seen.undone.text)
    if seen.between != seen.found:
        assert seen.undone.code == 0, seen.undone.text
    assert seen.undone.code == 0 or "nothing to undo" in seen.undone.text
    assert seen.again.code == 2 and "nothing to undo" in seen.again.text


@each_moment
def test_an_interrupted_run_says_so_in_order(stopped: list[Stopped], number: int) -> None:
    seen = pick(stopped, number)
    assert "Traceback" not in seen.done.text and "internal error" not in seen.done.text, seen.done.text
    if signal.SIGKILL in seen.moment.signals:
        assert seen.done.code in (-signal.SIGKILL, 0)
    else:
        assert seen.done.code in (130, -signal.SIGINT, 0), seen.done.text
    if seen.moment.signals == (signal.SIGINT,) and seen.done.code == 130 and seen.between != seen.found:
        assert "undo" in seen.done.text  # a change stands: it is said how to take it back


def test_the_moments_met_every_part_of_a_run(stopped: list[Stopped]) -> None:
    """Else the shares are off, and the tests above say little."""
    applied = [s for s in stopped if b"applied: " in s.done.stderr]
    assert 4 <= len(applied) <= len(stopped) - 4
    assert len([s for s in stopped if s.done.code == 130]) >= 8
