"""The closed loop on this machine: a plain command, no root, no ssh."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.loop.toyhost import TOYSERVER, Recorder
from triage.argv import edit_args
from triage.engines import open_engine
from triage.hosts.local import LocalHost
from triage.loop.apply import apply_plan
from triage.loop.run import Budget, run_session
from triage.loop.session import Journal, SessionStore
from triage.loop.undo import undo_session
from triage.model import Cause, Diagnosis, Edit, Failure, Patch, Plan, Rehearsal, Rehearsed
from triage.protocols import Capture
from triage.services.command import CommandService

ENGINE = open_engine("toyserver")
QUICK = Budget(attempts=4, deadline=60.0, stability=0.5, poll=0.2)
BOTH = (Edit("add", "--draft-width", None, "2"), Edit("add", "--draft-depth", None, "3"))


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def diagnose_by_hand(capture: Capture, _tried: tuple[Patch, ...], _lessons: tuple[Capture, ...]) -> Diagnosis:
    assert capture.launch is not None
    if b"\nAssertionError" not in capture.log:
        return Diagnosis("no_patch", Failure("exception", None, ""), None, Cause("unknown", "not known"))
    patch = Patch(BOTH, edit_args(capture.launch.args, BOTH), {}, "likely", "by hand")
    return Diagnosis("patch", Failure("exception", "AssertionError", ""), None, None, (patch,))


def consent(_diagnosis: Diagnosis, _plan: Plan, _patch: Patch) -> bool:
    return True


@pytest.fixture
def service(tmp_path: Path) -> Iterator[CommandService]:
    """The failing toy server, started once by hand; stopped at the end."""
    words = f"{sys.executable} -m toyserver.launch --model-path toy --port {free_port()} --draft-mode ladder --draft-budget 6"
    env = {"PYTHONPATH": str(TOYSERVER), "PYTHONUNBUFFERED": "1", "PATH": os.environ["PATH"]}
    service = CommandService(LocalHost(), words.split(), str(tmp_path / "server.log"), env, str(tmp_path))
    journal = Journal(tmp_path / "by-hand.jsonl")
    apply_plan(LocalHost(), service.plan_restart(), journal)
    yield service
    apply_plan(LocalHost(), service.plan_stop(), journal)


def test_a_failed_command_becomes_healthy_with_one_restart(service: CommandService, tmp_path: Path, recorder: Recorder) -> None:
    store = SessionStore(tmp_path / "state")
    session = run_session(LocalHost(), service, ENGINE, diagnose_by_hand, recorder, store, consent, QUICK)
    assert (session.outcome, len(session.attempts)) == ("fixed", 1), session.why
    assert service.read_state().active == "active"
    assert "--draft-depth" in service.read_launch().argv
    again = run_session(LocalHost(), service, ENGINE, diagnose_by_hand, recorder, store, consent, QUICK)
    assert (again.outcome, again.attempts) == ("healthy", ())
    undone = undo_session(LocalHost(), service.name, store)
    assert undone.id == session.id
    assert "--draft-depth" not in service.read_launch().argv


def test_the_capture_reads_source_where_the_command_finds_it(service: CommandService, tmp_path: Path, recorder: Recorder) -> None:
    read: list[Capture] = []

    def diagnose(capture: Capture, tried: tuple[Patch, ...], _lessons: tuple[Capture, ...]) -> Diagnosis:
        read.append(capture)
        return diagnose_by_hand(capture, tried, ())

    store = SessionStore(tmp_path / "state")
    session = run_session(LocalHost(), service, ENGINE, diagnose, recorder, store, lambda *_: False, QUICK)
    capture = read[0]
    assert session.outcome == "not_applied"
    assert capture.meta.source_root == str(TOYSERVER) and capture.meta.service_kind == "command"
    assert capture.meta.exit.code == 1
    assert capture.source is not None
    assert capture.source.read("toyserver/args.py") == (TOYSERVER / "toyserver" / "args.py").read_bytes()


def test_a_failure_that_no_flag_repairs_is_left_as_found(tmp_path: Path, recorder: Recorder) -> None:
    words = f"{sys.executable} -m toyserver.launch --model-path toy --port {free_port()}"
    env = {"PYTHONPATH": str(TOYSERVER), "TOY_FAIL_AFTER_LOAD": "no space on the card", "TOY_LOAD_SECONDS": "0"}
    service = CommandService(LocalHost(), words.split(), str(tmp_path / "server.log"), env, str(tmp_path))
    apply_plan(LocalHost(), service.plan_restart(), Journal(tmp_path / "j.jsonl"))
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    store = SessionStore(tmp_path / "state")
    session = run_session(LocalHost(), service, ENGINE, diagnose_by_hand, recorder, store, consent, QUICK)
    assert (session.outcome, session.why, session.attempts) == ("no_patch", "not known", ())
    after = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file() and store.root not in p.parents}
    assert {p.name for p in after} - {"j.jsonl", "status"} == {p.name for p in before} - {"j.jsonl", "status"}


def test_a_launch_that_fails_after_its_rehearsal_passed_is_told_as_that(
    service: CommandService, tmp_path: Path, recorder: Recorder
) -> None:
    """The host's own validation is made to say yes to a patch with which the server still dies."""
    wrong = (Edit("add", "--draft-width", None, "2"),)

    def diagnose(capture: Capture, tried: tuple[Patch, ...], _lessons: tuple[Capture, ...]) -> Diagnosis:
        assert capture.launch is not None
        failure, cause = Failure("exception", "TypeError", ""), Cause("runtime", "by hand")
        patch = Patch(wrong, edit_args(capture.launch.args, wrong) if not tried else capture.launch.args, {}, "likely", "")
        return Diagnosis("no_patch" if tried else "patch", failure, None, cause, () if tried else (patch,))

    def rehearse(launches: Sequence[tuple[Edit, ...]]) -> Rehearsal:
        return Rehearsal(tuple(Rehearsed(edits, "passes" if edits else "fails") for edits in launches))

    store = SessionStore(tmp_path / "state")
    session = run_session(
        service.host, service, ENGINE, diagnose, recorder, store, consent, replace(QUICK, attempts=2), rehearse=rehearse
    )
    assert session.outcome == "no_patch" and len(session.attempts) == 1
    told = session.attempts[0]
    assert told.patch is not None and told.patch.certainty == "rehearsed"
    assert told.diagnosis is not None
    assert told.diagnosis.unknowns[0].what == "what the rehearsal did not see"
    assert any("it still failed: the failure lies behind validation" in note for note in recorder.notes)
    assert "--draft-width" not in service.read_launch().argv
