"""The doctor on this machine through a host that lies, fails or goes away in the middle."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.loop.toyhost import Recorder
from triage.engines import open_engine
from triage.errors import CommandTimeout, FileError, HostError
from triage.hosts import open_host
from triage.loop.doctor import examine_service, tell_unreachable
from triage.loop.session import SessionStore
from triage.model import Checkup, Command, CommandResult
from triage.protocols import Host
from triage.services import CommandService

TOY = Path(__file__).resolve().parent.parent.parent / "fixtures" / "toyserver"
ENGINE = open_engine("toyserver")
SECRET = "hunter2hunter2"

Change = Callable[[Command, CommandResult], CommandResult]


class Between:
    """This machine, with something between it and triage: `change` sees each command and may replace its result or raise."""

    def __init__(self, change: Change) -> None:
        self.real: Host = open_host("local")
        self.change = change
        self.count = 0

    @property
    def name(self) -> str:
        return "far"

    def run(self, command: Command) -> CommandResult:
        self.count += 1
        return self.change(command, self.real.run(replace(command, root=False)))

    def read_file(self, path: str, max_bytes: int = 1 << 26, root: bool = False) -> bytes:
        return self.real.read_file(path, max_bytes)

    def write_file(self, path: str, data: bytes, mode: int, root: bool = False) -> None:
        raise AssertionError("a doctor writes nothing")

    def remove_file(self, path: str, root: bool = False) -> None:
        raise AssertionError("a doctor removes nothing")

    def close(self) -> None: ...


def examine(tmp_path: Path, host: Between) -> Checkup:
    (tmp_path / "log").write_text("it ran\n")
    argv = (sys.executable, "-m", "toyserver.launch", "--model-path", "toy", "--api-key", SECRET)
    env = {"PYTHONPATH": str(TOY)}
    service = CommandService(host, argv, str(tmp_path / "log"), env, secret=ENGINE.profile.secret, split=ENGINE.split_command)
    found = examine_service(host, service, ENGINE, SessionStore(tmp_path / "state"), Recorder())
    assert not (tmp_path / "state").exists() and SECRET not in repr(found)
    return found


def abilities(found: Checkup) -> dict[str, str]:
    return {c.name: c.ability for c in found.checks}


def unchanged(_command: Command, result: CommandResult) -> CommandResult:
    return result


def test_all_is_well(tmp_path: Path) -> None:
    found = examine(tmp_path, Between(unchanged))
    assert found.fit and "no" not in abilities(found).values()


@pytest.mark.parametrize(("seconds", "word"), [(-7200, "behind"), (7200, "ahead")])
def test_14_a_host_with_another_clock_is_told(tmp_path: Path, seconds: int, word: str) -> None:
    def skew(command: Command, result: CommandResult) -> CommandResult:
        if "date +%s" in str(command):
            *head, now, end = result.stdout.split(b"\n")
            return replace(result, stdout=b"\n".join([*head, str(int(now) + seconds).encode(), end]))
        return result

    found = examine(tmp_path, Between(skew))
    assert found.fit and found.checks[0].ability == "limited"
    assert word in found.checks[0].why and any(f"{n} s {word}" in found.checks[0].why for n in (7199, 7200, 7201))


def test_17_a_link_that_goes_at_any_command_is_reported_and_nothing_changed(tmp_path: Path) -> None:
    whole = Between(unchanged)
    all_checks = examine(tmp_path, whole).checks
    before = sorted(p.name for p in tmp_path.rglob("*"))
    for last in range(whole.count):
        host = Between(unchanged)

        def cut(command: Command, result: CommandResult, host: Between = host, last: int = last) -> CommandResult:
            if host.count > last:
                raise HostError("the connection to far was lost", "look at its link")
            return result

        host.change = cut
        found = examine(tmp_path, host)
        names = [c.name for c in found.checks]
        assert (found.reached, found.fit, names[-1], found.checks[-1].todo) == (False, False, "connection", "look at its link")
        assert names[:-1] == [c.name for c in all_checks][: len(names) - 1], last
    assert sorted(p.name for p in tmp_path.rglob("*")) == before


def test_a_command_that_is_too_slow_and_a_file_that_is_refused_are_answers(tmp_path: Path) -> None:
    def slow(command: Command, result: CommandResult) -> CommandResult:
        if "importlib" in command.stdin.decode("utf-8", "replace") and "nvidia-smi" not in command.stdin.decode(
            "utf-8", "replace"
        ):
            raise CommandTimeout("no end after 60 s: sh")
        return result

    found = examine(tmp_path, Between(slow))
    assert found.reached and not found.fit
    assert (abilities(found)["python"], abilities(found)["package"], abilities(found)["patch"]) == ("no", "no", "ok")

    class Refusing(Between):
        def read_file(self, path: str, max_bytes: int = 1 << 26, root: bool = False) -> bytes:
            raise FileError(f"{path} cannot be read: Permission denied", path)

    found = examine(tmp_path, Refusing(unchanged))
    assert found.reached and not found.fit
    assert abilities(found)["command"] == "no" and abilities(found)["undo"] == "ok"


@pytest.mark.parametrize(
    ("said", "why"), [(b"no\n/x\n900\n", "/x cannot be written"), (b"yes\n/x\n3\n", "/x has only 3 KiB free")]
)
def test_35_a_place_that_cannot_take_the_patch_is_told(tmp_path: Path, said: bytes, why: str) -> None:
    def full(command: Command, result: CommandResult) -> CommandResult:
        return replace(result, stdout=said) if "df -Pk" in str(command) else result

    found = examine(tmp_path, Between(full))
    (patch,) = [c for c in found.checks if c.name == "patch"]
    assert not found.fit and (patch.ability, patch.why) == ("no", why) and patch.todo


def test_an_unreachable_host_has_one_line_without_control_characters() -> None:
    found = tell_unreachable("h", "u", HostError("lost \x1b[2J", "look\nthere"))
    assert (found.fit, found.reached, [(c.name, c.why, c.todo) for c in found.checks]) == (
        False,
        False,
        [("ssh", "lost [2J", "look there")],
    )
