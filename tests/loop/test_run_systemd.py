"""The closed loop on a lab host: a real systemd, a real journal, real ssh, the toy server as a unit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Lab, Recorder

from triage.argv import edit_args
from triage.engines import open_engine
from triage.errors import EngineError, LockedError, ServiceError, UsageError
from triage.loop.capture import capture_run, load_capture, read_launch, save_capture
from triage.loop.observe import watch
from triage.loop.run import Budget, run_session
from triage.loop.session import SessionStore
from triage.loop.undo import undo_session
from triage.model import Cause, Diagnosis, Edit, Failure, OutcomeName, Patch, Plan
from triage.protocols import Capture
from triage.services.systemd import SystemdService

ENGINE = open_engine("toyserver")
FAILING = "--draft-mode ladder --draft-budget 6"
QUICK = Budget(attempts=4, deadline=60.0, stability=1.0, poll=0.3)
WIDTH, DEPTH = Edit("add", "--draft-width", None, "2"), Edit("add", "--draft-depth", None, "3")
# what a person would answer to each failure, in the order that one meets them
ONE_BY_ONE = {b"AssertionError": (WIDTH,), b"TypeError": (DEPTH,)}


def service_of(lab: Lab, unit: str) -> SystemdService:
    return SystemdService(lab.host, unit, ENGINE.split_command, ENGINE.profile.secret)


def answer_by(table: dict[bytes, tuple[Edit, ...]], seen: list[Capture]) -> Callable[[Capture, tuple[Patch, ...]], Diagnosis]:
    """A diagnosis by the name of the exception in the log."""

    def diagnose(capture: Capture, tried: tuple[Patch, ...]) -> Diagnosis:
        seen.append(capture)
        assert capture.launch is not None
        edits = next((edits for name, edits in table.items() if b"\n" + name in b"\n" + capture.log), ())
        outcome: OutcomeName = "patch" if edits else "no_patch" if b"Traceback" in capture.log else "no_failure"
        patches = (Patch(edits, edit_args(capture.launch.args, edits), {}, "likely", "by hand"),) if edits else ()
        failure = None if outcome == "no_failure" else Failure("exception", None, "")
        return Diagnosis(outcome, failure, None, Cause("argument", "the cause", ()), patches)

    return diagnose


def consent(_diagnosis: Diagnosis, _plan: Plan, _patch: Patch) -> bool:
    return True


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "state")


def test_two_layers_take_two_restarts_and_one_undo(lab: Lab, store: SessionStore, recorder: Recorder) -> None:
    unit = "two.service"
    lab.add_unit(unit, f"--port 8201 {FAILING}")
    lab.start(unit)
    lab.wait_for(unit, "failed")
    before, seen = lab.listing(unit), []
    session = run_session(lab.host, service_of(lab, unit), ENGINE, answer_by(ONE_BY_ONE, seen), recorder, store, consent, QUICK)
    assert (session.outcome, len(session.attempts)) == ("fixed", 2), session.why
    assert [a.observation.verdict for a in session.attempts if a.observation] == ["failed", "healthy"]
    # the second diagnosis saw the launch that ran, the session has the total patch of the launch as found
    assert "--draft-width" in (seen[1].launch.args if seen[1].launch else ())
    assert session.applied is not None and session.applied.edits == (WIDTH, DEPTH)
    assert b'"GET /health' in lab.run("journalctl", "-u", unit, "-o", "cat")
    show = lab.run("systemctl", "show", unit, "-p", "ExecStart").decode()
    assert "--draft-width 2" in show and "--draft-depth 3" in show
    assert lab.run("systemctl", "is-active", unit).strip() == b"active"
    assert "healthy, watching that it stays so" in recorder.phases

    undone = undo_session(lab.host, unit, SessionStore(store.root))
    assert undone.id == session.id and undone.why.startswith("undone")
    assert lab.listing(unit) == before
    assert lab.run("systemctl", "show", unit, "-p", "NeedDaemonReload").strip() == b"NeedDaemonReload=no"
    with pytest.raises(UsageError):
        undo_session(lab.host, unit, store)


def test_the_stored_capture_is_the_one_that_was_diagnosed(lab: Lab, store: SessionStore, recorder: Recorder) -> None:
    unit = "keep.service"
    lab.add_unit(unit, f"--port 8202 --api-key hunter2hunter2 {FAILING}", "Environment=TOY_TOKEN=s3cr3ts3cr3t")
    lab.start(unit)
    lab.wait_for(unit, "failed")
    read: list[bytes | None] = []
    inner = answer_by({b"AssertionError": (WIDTH, DEPTH)}, [])

    def diagnose(capture: Capture, tried: tuple[Patch, ...]) -> Diagnosis:
        assert capture.source is not None
        read.append(capture.source.read("toyserver/args.py"))
        assert capture.source.read("../etc/passwd") is None and capture.source.read("toyserver/none.py") is None
        return inner(capture, tried)

    session = run_session(lab.host, service_of(lab, unit), ENGINE, diagnose, recorder, store, consent, QUICK)
    assert session.outcome == "fixed", session.why
    stored = load_capture(store.directory(session.id) / "capture")
    assert read[0] is not None and b"class ToyArgs" in read[0]
    assert stored.source is not None and stored.source.read("toyserver/args.py") == read[0]
    assert stored.source.read("toyserver/launch.py") is None  # nobody read it
    assert stored.meta.active == "failed" and stored.meta.exit.code == 1 and stored.meta.engine == "toyserver"
    assert b"AssertionError" in stored.log
    everything = b"".join(p.read_bytes() for p in store.root.rglob("*") if p.is_file())
    assert b"hunter2" not in everything and b"s3cr3t" not in everything
    assert b"--api-key hunter2hunter2" in lab.run("sh", "-c", f"cat /etc/systemd/system/{unit}.d/*")


def test_a_healthy_unit_is_left_alone(lab: Lab, store: SessionStore, recorder: Recorder) -> None:
    unit = "well.service"
    lab.add_unit(unit, "--port 8203")
    lab.start(unit)
    before = lab.listing(unit), lab.run("systemctl", "show", unit, "-p", "InvocationID")

    def diagnose(_capture: Capture, _tried: tuple[Patch, ...]) -> Diagnosis:
        raise AssertionError("a healthy unit is not diagnosed")

    session = run_session(lab.host, service_of(lab, unit), ENGINE, diagnose, recorder, store, consent, QUICK)
    lab.wait_for(unit, "active")
    assert session.outcome == "healthy"
    assert (lab.listing(unit), lab.run("systemctl", "show", unit, "-p", "InvocationID")) == before


def test_41_without_success_the_unit_is_as_it_was_found(lab: Lab, store: SessionStore, recorder: Recorder) -> None:
    unit = "lost.service"
    lab.add_unit(unit, f"--port 8204 {FAILING}")
    lab.start(unit)
    lab.wait_for(unit, "failed")
    before = lab.listing(unit)
    only_first = {b"AssertionError": (WIDTH,)}
    session = run_session(lab.host, service_of(lab, unit), ENGINE, answer_by(only_first, []), recorder, store, consent, QUICK)
    assert (session.outcome, len(session.attempts)) == ("no_patch", 1)
    assert "1 attempt did not end in a healthy server" in session.why
    assert lab.listing(unit) == before
    assert lab.run("systemctl", "is-active", unit, check=False).strip() == b"failed"
    assert "--draft-width" not in lab.run("systemctl", "show", unit, "-p", "ExecStart").decode()


def test_29_the_same_patch_is_not_tried_twice(lab: Lab, store: SessionStore, recorder: Recorder) -> None:
    unit = "again.service"
    lab.add_unit(unit, f"--port 8205 {FAILING}")
    lab.start(unit)
    lab.wait_for(unit, "failed")
    useless = (Edit("add", "--lanes", None, "2"),)
    captures: list[Capture] = []

    def diagnose(capture: Capture, tried: tuple[Patch, ...]) -> Diagnosis:
        captures.append(capture)
        args = ("--model-path", "toy", "--port", "8205", *FAILING.split(), "--lanes", "2")
        edits = useless if not tried else ()
        return Diagnosis("patch", Failure("exception", None, ""), None, None, (Patch(edits, args, {}, "guess", ""),))

    session = run_session(lab.host, service_of(lab, unit), ENGINE, diagnose, recorder, store, consent, QUICK)
    assert (session.outcome, len(session.attempts), len(captures)) == ("no_patch", 1, 2)


def test_without_consent_nothing_changes(lab: Lab, store: SessionStore, recorder: Recorder) -> None:
    unit = "asked.service"
    lab.add_unit(unit, f"--port 8206 {FAILING}")
    lab.start(unit)
    lab.wait_for(unit, "failed")
    before = lab.listing(unit), lab.run("systemctl", "show", unit, "-p", "InvocationID")
    session = run_session(
        lab.host, service_of(lab, unit), ENGINE, answer_by(ONE_BY_ONE, []), recorder, store, lambda *_: False, QUICK
    )
    assert session.outcome == "not_applied" and session.plan is not None and "--draft-width" in session.plan.diff
    assert (lab.listing(unit), lab.run("systemctl", "show", unit, "-p", "InvocationID")) == before


def test_the_budget_of_attempts_ends_it(lab: Lab, store: SessionStore, recorder: Recorder) -> None:
    unit = "short.service"
    lab.add_unit(unit, f"--port 8207 {FAILING}")
    lab.start(unit)
    lab.wait_for(unit, "failed")
    before = lab.listing(unit)
    budget = Budget(attempts=1, deadline=60.0, stability=1.0, poll=0.3)
    session = run_session(lab.host, service_of(lab, unit), ENGINE, answer_by(ONE_BY_ONE, []), recorder, store, consent, budget)
    assert session.outcome == "out_of_budget" and lab.listing(unit) == before


@pytest.mark.parametrize("at", ["waiting for the new run", "loading", "reading the service"])
def test_34_ctrl_c_puts_the_unit_back(lab: Lab, store: SessionStore, at: str) -> None:
    unit = f"stop{at[0]}.service"
    lab.add_unit(unit, f"--port 8208 {FAILING}", "Environment=TOY_LOAD_SECONDS=20")
    lab.start(unit)
    lab.wait_for(unit, "failed")
    before = lab.listing(unit)

    class Interrupting(Recorder):
        def phase(self, text: str, seconds: float) -> None:
            super().phase(text, seconds)
            if text == at:
                raise KeyboardInterrupt

    fix = answer_by({b"AssertionError": (WIDTH, DEPTH)}, [])
    session = run_session(lab.host, service_of(lab, unit), ENGINE, fix, Interrupting(), store, consent, QUICK)
    assert session.outcome == "not_applied" and "interrupted" in session.why
    assert lab.listing(unit) == before
    assert lab.run("systemctl", "is-active", unit, check=False).strip() in (b"failed", b"inactive")
    stored = store.load(session.id)
    assert (stored.outcome, stored.why, len(stored.attempts)) == (session.outcome, session.why, len(session.attempts))


def test_34_what_a_killed_session_left_is_undone_before_the_next_patch(lab: Lab, store: SessionStore, recorder: Recorder) -> None:
    unit = "killed.service"
    lab.add_unit(unit, f"--port 8209 {FAILING}")
    lab.start(unit)
    lab.wait_for(unit, "failed")
    before = lab.listing(unit)

    class Killed(BaseException):
        """Stands for kill -9: no handler of the loop takes it."""

    class Killing(Recorder):
        def applied(self, plan: Plan) -> None:
            raise Killed

    fix = answer_by({b"AssertionError": (WIDTH, DEPTH)}, [])
    with pytest.raises(Killed):
        run_session(lab.host, service_of(lab, unit), ENGINE, fix, Killing(), store, consent, QUICK)
    assert lab.listing(unit) != before
    # the plan ran to its end: the unit is in the new state, and undo knows it
    undo_session(lab.host, unit, store)
    assert lab.listing(unit) == before


def test_36_a_second_session_is_locked_out(lab: Lab, store: SessionStore, recorder: Recorder) -> None:
    with store.lock(lab.host.name, "two.service"), pytest.raises(LockedError):
        run_session(
            lab.host,
            service_of(lab, "two.service"),
            ENGINE,
            answer_by({}, []),
            recorder,
            SessionStore(store.root),
            consent,
            QUICK,
        )


def test_a_capture_over_ssh_round_trips(lab: Lab, recorder: Recorder, tmp_path: Path) -> None:
    unit = "cap.service"
    lab.add_unit(unit, f"--port 8210 {FAILING}")
    lab.start(unit)
    lab.wait_for(unit, "failed")
    capture = capture_run(lab.host, service_of(lab, unit), ENGINE, recorder)
    assert capture.launch is not None and capture.launch.args[:4] == ("--model-path", "toy", "--port", "8210")
    assert capture.facts.device == "cpu" and capture.facts.python_version is not None
    save_capture(capture, tmp_path / "c")
    again = load_capture(tmp_path / "c")
    assert (again.meta, again.launch, again.facts, again.log) == (capture.meta, capture.launch, capture.facts, capture.log)
    assert again.source is not None and capture.source is not None
    for name in ("toyserver/args.py", "toyserver/checks.py"):
        assert again.source.read(name) == capture.source.read(name) != None  # noqa: E711


def test_a_missing_unit_and_a_missing_package_are_one_clear_line(lab: Lab, store: SessionStore, recorder: Recorder) -> None:
    with pytest.raises(ServiceError):
        run_session(lab.host, service_of(lab, "nowhere.service"), ENGINE, answer_by({}, []), recorder, store, consent, QUICK)
    lab.add_unit("bare.service", "", "Environment=PYTHONPATH=/nonexistent")
    lab.run("systemctl", "start", "--no-block", "bare.service")
    lab.wait_for("bare.service", "failed")
    with pytest.raises(EngineError, match="no package toyserver") as caught:
        run_session(lab.host, service_of(lab, "bare.service"), ENGINE, answer_by({}, []), recorder, store, consent, QUICK)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------- the watch
FAULTS = {
    "39 dies after health": ("Environment=TOY_DIE_AFTER=2", "failed", "status 3"),
    "38 exit status 0": ("Environment=TOY_EXIT_AFTER_LOAD=0", "failed", "does not end by itself"),
    "fails after load": ("Environment=TOY_FAIL_AFTER_LOAD=boom", "failed", "status 1"),
    "38 generation fails": ("Environment=TOY_GENERATE_FAILS=1", "timeout", "answers 503"),
    "40 hangs": ("Environment=TOY_HANG=1", "timeout", "last phase: loading"),
    "37 restart always": ("Environment=TOY_FAIL_AFTER_LOAD=boom\nRestart=always\nRestartSec=100ms", "failed", "manager"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_only_looks_healthy_is_not(lab: Lab, recorder: Recorder, name: str) -> None:
    service, verdict, why = FAULTS[name]
    unit = f"watch{list(FAULTS).index(name)}.service"
    lab.add_unit(unit, "--port 8220", service)
    before = service_of(lab, unit).read_state().run
    lab.start(unit)
    launch = read_launch(service_of(lab, unit), ENGINE)
    seen = watch(lab.host, service_of(lab, unit), ENGINE, launch, before, recorder, deadline=8.0, stability=4.0, poll=0.3)
    lab.run("systemctl", "stop", unit)
    assert (seen.verdict, why in seen.why) == (verdict, True), seen.why


def test_38_another_process_that_answers_200_does_not_count(lab: Lab, recorder: Recorder) -> None:
    lab.add_unit("old.service", "--port 8230")
    lab.start("old.service")
    lab.wait_for("old.service", "active")
    lab.add_unit("new.service", "--port 8230", "Environment=TOY_HANG=1")
    lab.start("new.service")
    service = service_of(lab, "new.service")
    seen = watch(lab.host, service, ENGINE, read_launch(service, ENGINE), None, recorder, deadline=5.0, stability=0.5, poll=0.3)
    old = service_of(lab, "old.service")
    control = watch(lab.host, old, ENGINE, read_launch(old, ENGINE), None, recorder, deadline=20.0, stability=0.5, poll=0.3)
    lab.run("systemctl", "stop", "old.service", "new.service")
    assert seen.verdict == "timeout" and "not of this run" in seen.why, seen.why
    assert control.verdict == "healthy", control.why


def test_a_port_that_is_not_typed_is_found_by_the_process(lab: Lab, recorder: Recorder) -> None:
    lab.add_unit("noport.service", "")
    lab.start("noport.service")
    service = service_of(lab, "noport.service")
    seen = watch(lab.host, service, ENGINE, read_launch(service, ENGINE), None, recorder, deadline=20.0, stability=0.5, poll=0.3)
    lab.run("systemctl", "stop", "noport.service")
    assert seen.verdict == "healthy" and "port 8123" in seen.why, seen.why


def test_session_json_has_stable_names(lab: Lab, store: SessionStore, recorder: Recorder) -> None:
    unit = "asked.service"
    session = run_session(
        lab.host, service_of(lab, unit), ENGINE, answer_by(ONE_BY_ONE, []), recorder, store, lambda *_: False, QUICK
    )
    stored = json.loads((store.directory(session.id) / "session.json").read_text())
    assert stored["schema"] == 1 and stored["session"]["meta"]["service"] == unit
    assert stored["session"]["diagnosis"]["patches"][0]["edits"][0]["name"] == "--draft-width"
