"""Real sglang judged on a lab host without a start: as the real logs say, as the oracle says, and leaving nothing behind."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.e2e.conftest import SYSTEM, show_unit
from tests.e2e.releases import CASES, MODELS, VERSIONS, Launch, ask_oracle_all, unit_text
from tests.lab import LabHost
from tests.loop.test_rehearse import words
from tests.loop.toyhost import Recorder
from tests.oracle.launches import make_launches
from tests.oracle.real import real_actions
from tests.oracle.rehearsal import is_same
from triage.analysis.diagnose import diagnose
from triage.analysis.failure import find_failure
from triage.analysis.log import read_log
from triage.engines import open_engine
from triage.errors import CommandTimeout
from triage.loop.capture import capture_launch
from triage.loop.rehearse import rehearse_launches
from triage.model import Edit, ExitStatus, Failure, Rehearsal, Rehearsed
from triage.services import SystemdService

pytestmark = pytest.mark.timeout(900)

ENGINE = open_engine("sglang")
ENDED = ExitStatus(code=1)
SAMPLE = 20
SEED = 41
SECRET = "hf-secret-of-the-operator"
each_version = pytest.mark.parametrize("version", VERSIONS)


@dataclass(frozen=True)
class Batch:
    """What came of one rehearsal of a unit: the five launches, a repair, and generated ones."""

    service: SystemdService
    rehearsal: Rehearsal
    cases: dict[str, Rehearsed]
    repaired: Rehearsed
    sample: list[tuple[tuple[str, ...], Rehearsed]]
    wall: float


def unit_of(version: str) -> str:
    return f"rh-{version.replace('.', '')}.service"


def instead(typed: Sequence[str], argv: Sequence[str]) -> tuple[Edit, ...]:
    """Edits that put other words in place of all that is typed."""
    return (*(Edit("remove", word) for word in typed if word.startswith("--")), *words(*argv))


@pytest.fixture(scope="module")
def batches(real_lab: LabHost) -> dict[str, Batch]:
    found: dict[str, Batch] = {}
    models = sorted(str(p.parent) for p in MODELS.glob("*/config.json"))
    for version in VERSIONS:
        real_lab.write(f"{SYSTEM}/{unit_of(version)}", unit_text(version, CASES["e1"]))
    real_lab.run("systemctl", "daemon-reload")
    with_host = real_lab.open()
    for version in VERSIONS:
        service = SystemdService(with_host, unit_of(version), ENGINE.split_command, ENGINE.profile.secret)
        sample = [case.argv for case in make_launches(real_actions(version), ("h100x8",), models, SAMPLE, SEED)]
        others = {name: argv for name, argv in CASES.items() if name != "e1"}
        questions: list[tuple[Edit, ...]] = [(), *(instead(CASES["e1"], argv) for argv in others.values())]
        questions += [(Edit("add", "--speculative-num-steps", None, "2"),), *(instead(CASES["e1"], argv) for argv in sample)]
        begun = time.monotonic()
        rehearsal = rehearse_launches(with_host, service, ENGINE, questions)
        wall = time.monotonic() - begun
        assert rehearsal.problem is None, (rehearsal.problem, rehearsal.hint)
        answers = list(rehearsal.answers)
        cases = dict(zip(["e1", *others], answers, strict=False))
        found[version] = Batch(service, rehearsal, cases, answers[5], list(zip(sample, answers[6:], strict=True)), wall)
    return found


def failure_of(log: bytes) -> Failure:
    failure = find_failure(read_log(log), ENDED, "sglang", "failed", ENGINE.profile.fatal_marks)
    assert failure is not None
    return failure


def place_of(failure: Failure) -> tuple[str | None, tuple[tuple[str | None, int, str], ...]]:
    """The exception, and the frames inside the package below the launcher, which a rehearsal has not."""
    inside = [(f.file, f.line, f.function) for f in failure.frames if f.file and f.file != "sglang/launch_server.py"]
    return failure.exception, tuple(inside)


# ---------------------------------------------------------------- what it says
@each_version
@pytest.mark.parametrize("case", CASES)
def test_the_five_launches_are_refused_where_the_real_logs_say(batches: dict[str, Batch], version: str, case: str) -> None:
    answer = batches[version].cases[case]
    rehearsed, real = failure_of(answer.log), failure_of(Launch(version, case).log.read_bytes())
    assert (answer.outcome, answer.exit.code) == (("usage", 2) if real.kind == "usage" else ("fails", 1)), answer.why
    assert place_of(rehearsed) == place_of(real)
    if real.kind == "usage":  # a flag that this release does not have
        assert rehearsed.message == real.message and real.message in answer.log.decode()
    else:
        assert answer.settings["speculative_algorithm"] and answer.asked["speculative_num_draft_tokens"]


@each_version
def test_a_repair_passes_and_shows_what_would_be_used(batches: dict[str, Batch], version: str) -> None:
    answer = batches[version].repaired
    assert (answer.outcome, answer.why) == ("passes", "")
    assert answer.settings["speculative_num_steps"] == answer.asked["speculative_num_steps"] == "2"
    assert "api_key" in answer.settings and len(answer.settings) > 300


@each_version
def test_generated_launches_get_the_oracle_s_answers(batches: dict[str, Batch], version: str) -> None:
    sample = batches[version].sample
    wrong = []
    for (argv, answer), oracle in zip(sample, ask_oracle_all(version, [argv for argv, _ in sample]), strict=True):
        # what needs the network fails in the oracle, and is no failure of the launch
        if answer.outcome != "offline" and not is_same(answer, oracle):
            wrong.append((argv, answer.outcome, answer.why, oracle["outcome"], oracle.get("message")))
    assert wrong == []
    assert {"passes", "fails"} <= {answer.outcome for _, answer in sample}


@each_version
def test_what_it_says_is_diagnosed_as_the_log_of_a_start(batches: dict[str, Batch], version: str) -> None:
    batch = batches[version]
    capture = capture_launch(batch.service.host, batch.service, ENGINE, Recorder())
    meta = replace(capture.meta, exit=ENDED, active="failed")
    rehearsed, started = batch.cases["e1"].log, Launch(version, "e1").log.read_bytes()
    found, real = (diagnose(replace(capture, log=log, meta=meta), ENGINE.profile) for log in (rehearsed, started))
    assert found.cause is not None and real.cause is not None
    assert found.cause.constraints == real.cause.constraints and found.cause.constraints
    assert [p.edits for p in found.patches] == [p.edits for p in real.patches] and found.patches


@each_version
def test_it_costs_one_import_and_little_for_each_launch(batches: dict[str, Batch], version: str, capsys: Any) -> None:
    batch = batches[version]
    seconds = sorted(a.seconds for a in batch.rehearsal.answers)
    each, count = sum(seconds) / len(seconds), len(seconds)
    alone = batch.rehearsal.prepared + each
    with capsys.disabled():
        print(
            f"\nrehearsal, sglang {version}: ready after {batch.rehearsal.prepared:.2f} s, {each:.3f} s a launch (median "
            f"{seconds[count // 2]:.3f}, worst {seconds[-1]:.2f}); {count} launches in {batch.wall:.1f} s, one by one "
            f"{count * alone:.0f} s: {count * alone / batch.wall:.1f} times as long"
        )
    assert batch.rehearsal.notes == () or all("kept from" in note or "taken as" in note for note in batch.rehearsal.notes)


# ---------------------------------------------------------------- what it leaves
LOOK = r"""
find /root /home /tmp /var/tmp /dev/shm /srv /etc /var/lib /opt -xdev -newerct "@$1" ! -path /tmp ! -path /dev/shm -print |
  grep -v -e '^/var/lib/systemd' -e '^/var/lib/labhost' -e '^/root/.pyenv/shims' | sort
"""


def is_the_machines(path: str, moment: float) -> bool:
    """Whether this machine changed it meanwhile: a lab host sees that through, and its own writes never come here."""
    try:
        return os.lstat(path).st_ctime >= moment
    except OSError:
        return False


def test_a_running_server_is_undisturbed_and_nothing_is_left(real_lab: LabHost) -> None:
    """As root, for a unit with a user of its own and its secrets in an EnvironmentFile, while the server serves."""
    version, unit, port = "0.5.11", "rh-live.service", 30777
    real_lab.shell("useradd -m serve; chmod a+x /root; install -m 600 -o serve /dev/null /home/serve/seen")
    real_lab.write("/etc/serve.env", f"HF_TOKEN={SECRET}\nSGLANG_LOG_MS=1\n", 0o600)
    text = unit_text(version, (*CASES["e1"], "--speculative-num-steps", "2", "--port", str(port)))
    real_lab.write(f"{SYSTEM}/{unit}", text.replace("Type=simple\n", "Type=simple\nUser=serve\nEnvironmentFile=/etc/serve.env\n"))
    real_lab.run("systemctl", "daemon-reload")
    real_lab.run("systemctl", "start", unit)
    health = f"http://127.0.0.1:{port}/health"
    until = time.monotonic() + 60
    while real_lab.shell('curl -s -o /dev/null -w "%{http_code}" "$1" || true', health) != b"200":
        assert time.monotonic() < until, real_lab.run("journalctl", "-u", unit, "--no-pager").decode()
        time.sleep(0.2)

    def look() -> tuple[Any, ...]:
        processes = real_lab.shell("ps -eo user=,args= | grep -v -e 'ps -eo' -e sshd -e grep -e '\\[' -e sd-pam | sort")
        ports = real_lab.shell("ss -ltn | sort")
        return (
            show_unit(real_lab, unit),
            processes,
            ports,
            real_lab.tree("/home"),
            real_lab.shell("ls -A /tmp"),
        )

    host = real_lab.open()
    service = SystemdService(host, unit, ENGINE.split_command, ENGINE.profile.secret)
    launch = service.reveal_launch()
    assert (launch.user, launch.env["HF_TOKEN"], launch.env["HOME"]) == ("serve", SECRET, "/home/serve")
    before = look()
    moment = real_lab.shell("sleep 1.1; date +%s; sleep 1.1").decode().strip()
    found = rehearse_launches(
        host, service, ENGINE, [(), (Edit("remove", "--speculative-num-steps", "2"),), (Edit("set", "--port", None, "80"),)]
    )
    changed = [p for p in real_lab.shell(LOOK, moment).decode().splitlines() if not is_the_machines(p, float(moment))]
    after = look()
    assert [a.outcome for a in found.answers] == ["passes", "fails", "passes"], (found.problem, found.hint)
    assert changed == []
    assert after == before
    assert real_lab.shell('curl -s -o /dev/null -w "%{http_code}" "$1"', health) == b"200"
    assert SECRET not in repr(found) and SECRET.encode() not in b"".join(a.log for a in found.answers)
    real_lab.run("systemctl", "stop", unit)

    real_lab.add_user("other")
    stranger = real_lab.open("other")
    theirs = rehearse_launches(stranger, service, ENGINE, [()])
    assert theirs.answers == () and theirs.problem is not None and "runs as serve" in theirs.problem
    real_lab.write("/etc/sudoers.d/other", "other ALL=(ALL) NOPASSWD: ALL\n", 0o440)
    allowed = rehearse_launches(stranger, service, ENGINE, [(Edit("remove", "--speculative-num-steps", "2"),)])
    assert [a.outcome for a in allowed.answers] == ["fails"], (allowed.problem, allowed.hint)
    stranger.close()
    host.close()


def test_the_link_may_go_in_the_middle_and_it_ends_by_itself(real_lab: LabHost) -> None:
    unit = unit_of("0.5.11")
    real_lab.write(f"{SYSTEM}/{unit}", unit_text("0.5.11", CASES["e1"]))
    real_lab.run("systemctl", "daemon-reload")
    host = real_lab.open(timeout=5.0)
    service = SystemdService(host, unit, ENGINE.split_command, ENGINE.profile.secret)
    launch = service.reveal_launch()
    order: dict[str, Any] = {
        "token": "t:",
        "launches": [{"args": list(launch.args), "env": {}}] * 2,
        "limits": {"seconds": 100.0, "per_launch": 20.0, "memory": 16384, "output": 1000},
        "running": False,
        "clean": True,
    }
    # while it imports, the network goes
    command = ENGINE.build_rehearsal(host, launch, order, 3.0)
    timer = threading.Timer(1.0, real_lab.cut)
    timer.start()
    try:
        with pytest.raises(CommandTimeout):
            host.run(command)
        until = time.monotonic() + 60
        while real_lab.shell("ls -d /tmp/triage-rehearsal-* 2>/dev/null; pgrep -f '[-]B [-]$' || true").strip():
            assert time.monotonic() < until, real_lab.shell("ls -d /tmp/triage-*; ps -ef").decode()
            time.sleep(0.2)
    finally:
        timer.join()
        real_lab.mend()
    host.close()
