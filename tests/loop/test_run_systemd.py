"""The closed loop on a lab host: a real systemd, a real journal, real ssh, the toy server as a unit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.loop.toyhost import Recorder, ToyLab
from triage.argv import edit_args
from triage.engines import open_engine
from triage.errors import EngineError, HostError, LockedError, ServiceError, UsageError
from triage.loop.capture import capture_run, load_capture, read_launch, save_capture
from triage.loop.observe import watch
from triage.loop.run import Budget, Decide, run_session
from triage.loop.session import SessionStore
from triage.loop.settle import Diagnose
from triage.loop.undo import undo_session
from triage.model import Cause, Diagnosis, Edit, Failure, Observation, OutcomeName, Patch, Plan, Session
from triage.protocols import Capture
from triage.services.systemd import SystemdService

ENGINE = open_engine("toyserver")
FAILING = "--draft-mode ladder --draft-budget 6"
QUICK = Budget(attempts=4, deadline=60.0, stability=1.0, poll=0.3)
WIDTH, DEPTH = Edit("add", "--draft-width", None, "2"), Edit("add", "--draft-depth", None, "3")
# what a person would answer to each failure, in the order that one meets them
ONE_BY_ONE = {b"AssertionError": (WIDTH,), b"TypeError": (DEPTH,)}


def service_of(toy_lab: ToyLab, unit: str) -> SystemdService:
    return SystemdService(toy_lab.host, unit, ENGINE.split_command, ENGINE.profile.secret)


def answer_by(table: dict[bytes, tuple[Edit, ...]], seen: list[Capture]) -> Diagnose:
    """A diagnosis by the name of the exception in the log."""

    def diagnose(capture: Capture, tried: tuple[Patch, ...], _lessons: tuple[Capture, ...]) -> Diagnosis:
        seen.append(capture)
        assert capture.launch is not None
        edits = next((edits for name, edits in table.items() if b"\n" + name in b"\n" + capture.log), ())
        outcome: OutcomeName = "patch" if edits else "no_patch" if b"Traceback" in capture.log else "no_failure"
        patches = (Patch(edits, edit_args(capture.launch.args, edits), {}, "likely", "by hand"),) if edits else ()
        failure = None if outcome == "no_failure" else Failure("exception", None, "")
        return Diagnosis(outcome, failure, None, Cause("argument", "the cause", ()), patches)

    return diagnose


def repair(
    lab: ToyLab, unit: str, diagnose: Diagnose, observer: Recorder, store: SessionStore, decide: Decide, budget: Budget = QUICK
) -> Session:
    return run_session(lab.host, service_of(lab, unit), ENGINE, diagnose, observer, store, decide, budget)


def look(lab: ToyLab, unit: str, observer: Recorder, deadline: float) -> Observation:
    """Watch the current run."""
    service = service_of(lab, unit)
    launch = read_launch(service, ENGINE)
    return watch(lab.host, service, ENGINE, launch, None, observer, deadline=deadline, stability=0.5, poll=0.3)


def consent(_diagnosis: Diagnosis, _plan: Plan, _patch: Patch) -> bool:
    return True


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "state")


def test_two_layers_take_two_restarts_and_one_undo(toy_lab: ToyLab, store: SessionStore, recorder: Recorder) -> None:
    unit = "two.service"
    toy_lab.add_unit(unit, f"--port 8201 {FAILING}")
    toy_lab.start(unit)
    toy_lab.wait_for(unit, "failed")
    before, seen = toy_lab.listing(unit), []
    session = repair(toy_lab, unit, answer_by(ONE_BY_ONE, seen), recorder, store, consent)
    assert (session.outcome, len(session.attempts)) == ("fixed", 2), session.why
    assert [a.observation.verdict for a in session.attempts if a.observation] == ["failed", "healthy"]
    # the second diagnosis saw the launch that ran, the session has the total patch of the launch as found
    assert "--draft-width" in (seen[1].launch.args if seen[1].launch else ())
    assert session.applied is not None and session.applied.edits == (WIDTH, DEPTH)
    assert b'"GET /health' in toy_lab.run("journalctl", "-u", unit, "-o", "cat")
    show = toy_lab.run("systemctl", "show", unit, "-p", "ExecStart").decode()
    assert "--draft-width 2" in show and "--draft-depth 3" in show
    assert toy_lab.run("systemctl", "is-active", unit).strip() == b"active"
    assert "healthy, watching that it stays so" in recorder.phases

    undone = undo_session(toy_lab.host, unit, SessionStore(store.root))
    assert undone.id == session.id and undone.why.startswith("undone")
    assert toy_lab.listing(unit) == before
    assert toy_lab.run("systemctl", "show", unit, "-p", "NeedDaemonReload").strip() == b"NeedDaemonReload=no"
    with pytest.raises(UsageError):
        undo_session(toy_lab.host, unit, store)


def test_the_stored_capture_is_the_one_that_was_diagnosed(toy_lab: ToyLab, store: SessionStore, recorder: Recorder) -> None:
    unit = "keep.service"
    toy_lab.add_unit(unit, f"--port 8202 --api-key hunter2hunter2 {FAILING}", "Environment=TOY_TOKEN=s3cr3ts3cr3t")
    toy_lab.start(unit)
    toy_lab.wait_for(unit, "failed")
    read: list[bytes | None] = []
    inner = answer_by({b"AssertionError": (WIDTH, DEPTH)}, [])

    def diagnose(capture: Capture, tried: tuple[Patch, ...], _lessons: tuple[Capture, ...]) -> Diagnosis:
        assert capture.source is not None
        read.append(capture.source.read("toyserver/args.py"))
        assert capture.source.read("../etc/passwd") is None and capture.source.read("toyserver/none.py") is None
        return inner(capture, tried, ())

    session = repair(toy_lab, unit, diagnose, recorder, store, consent)
    assert session.outcome == "fixed", session.why
    stored = load_capture(store.directory(session.id) / "capture")
    assert read[0] is not None and b"class ToyArgs" in read[0]
    assert stored.source is not None and stored.source.read("toyserver/args.py") == read[0]
    assert stored.source.read("toyserver/launch.py") is None  # nobody read it
    assert stored.meta.active == "failed" and stored.meta.exit.code == 1 and stored.meta.engine == "toyserver"
    assert b"AssertionError" in stored.log
    everything = b"".join(p.read_bytes() for p in store.root.rglob("*") if p.is_file())
    assert b"hunter2" not in everything and b"s3cr3t" not in everything
    assert b"--api-key hunter2hunter2" in toy_lab.run("sh", "-c", f"cat /etc/systemd/system/{unit}.d/*")


def test_a_healthy_unit_is_left_alone(toy_lab: ToyLab, store: SessionStore, recorder: Recorder) -> None:
    unit = "well.service"
    toy_lab.add_unit(unit, "--port 8203")
    toy_lab.start(unit)
    before = toy_lab.listing(unit), toy_lab.run("systemctl", "show", unit, "-p", "InvocationID")

    def diagnose(_capture: Capture, _tried: tuple[Patch, ...], _lessons: tuple[Capture, ...]) -> Diagnosis:
        raise AssertionError("a healthy unit is not diagnosed")

    session = repair(toy_lab, unit, diagnose, recorder, store, consent)
    toy_lab.wait_for(unit, "active")
    assert session.outcome == "healthy"
    assert (toy_lab.listing(unit), toy_lab.run("systemctl", "show", unit, "-p", "InvocationID")) == before


def test_41_without_success_the_unit_is_as_it_was_found(toy_lab: ToyLab, store: SessionStore, recorder: Recorder) -> None:
    unit = "lost.service"
    toy_lab.add_unit(unit, f"--port 8204 {FAILING}")
    toy_lab.start(unit)
    toy_lab.wait_for(unit, "failed")
    before = toy_lab.listing(unit)
    only_first = {b"AssertionError": (WIDTH,)}
    session = repair(toy_lab, unit, answer_by(only_first, []), recorder, store, consent)
    assert (session.outcome, len(session.attempts)) == ("no_patch", 1)
    assert "1 attempt did not end in a healthy server" in session.why
    assert toy_lab.listing(unit) == before
    assert toy_lab.run("systemctl", "is-active", unit, check=False).strip() == b"failed"
    assert "--draft-width" not in toy_lab.run("systemctl", "show", unit, "-p", "ExecStart").decode()


def test_29_the_same_patch_is_not_tried_twice(toy_lab: ToyLab, store: SessionStore, recorder: Recorder) -> None:
    unit = "again.service"
    toy_lab.add_unit(unit, f"--port 8205 {FAILING}")
    toy_lab.start(unit)
    toy_lab.wait_for(unit, "failed")
    useless = (Edit("add", "--lanes", None, "2"),)
    captures: list[Capture] = []

    def diagnose(capture: Capture, tried: tuple[Patch, ...], _lessons: tuple[Capture, ...]) -> Diagnosis:
        captures.append(capture)
        args = ("--model-path", "toy", "--port", "8205", *FAILING.split(), "--lanes", "2")
        edits = useless if not tried else ()
        return Diagnosis("patch", Failure("exception", None, ""), None, None, (Patch(edits, args, {}, "guess", ""),))

    session = repair(toy_lab, unit, diagnose, recorder, store, consent)
    assert (session.outcome, len(session.attempts), len(captures)) == ("no_patch", 1, 2)


def test_without_consent_nothing_changes(toy_lab: ToyLab, store: SessionStore, recorder: Recorder) -> None:
    unit = "asked.service"
    toy_lab.add_unit(unit, f"--port 8206 {FAILING}")
    toy_lab.start(unit)
    toy_lab.wait_for(unit, "failed")
    before = toy_lab.listing(unit), toy_lab.run("systemctl", "show", unit, "-p", "InvocationID")
    session = repair(toy_lab, unit, answer_by(ONE_BY_ONE, []), recorder, store, lambda *_: False)
    assert session.outcome == "not_applied" and session.plan is not None and "--draft-width" in session.plan.diff
    assert (toy_lab.listing(unit), toy_lab.run("systemctl", "show", unit, "-p", "InvocationID")) == before


def test_the_budget_of_attempts_ends_it(toy_lab: ToyLab, store: SessionStore, recorder: Recorder) -> None:
    unit = "short.service"
    toy_lab.add_unit(unit, f"--port 8207 {FAILING}")
    toy_lab.start(unit)
    toy_lab.wait_for(unit, "failed")
    before = toy_lab.listing(unit)
    budget = Budget(attempts=1, deadline=60.0, stability=1.0, poll=0.3)
    session = repair(toy_lab, unit, answer_by(ONE_BY_ONE, []), recorder, store, consent, budget)
    assert session.outcome == "out_of_budget" and toy_lab.listing(unit) == before


@pytest.mark.parametrize("at", ["waiting for the new run", "loading", "reading the service"])
def test_34_ctrl_c_puts_the_unit_back(toy_lab: ToyLab, store: SessionStore, at: str) -> None:
    unit = f"stop{at[0]}.service"
    toy_lab.add_unit(unit, f"--port 8208 {FAILING}", "Environment=TOY_LOAD_SECONDS=20")
    toy_lab.start(unit)
    toy_lab.wait_for(unit, "failed")
    before = toy_lab.listing(unit)

    class Interrupting(Recorder):
        def phase(self, text: str, seconds: float) -> None:
            super().phase(text, seconds)
            if text == at:
                raise KeyboardInterrupt

    fix = answer_by({b"AssertionError": (WIDTH, DEPTH)}, [])
    session = repair(toy_lab, unit, fix, Interrupting(), store, consent)
    assert session.outcome == "not_applied" and "interrupted" in session.why
    assert toy_lab.listing(unit) == before
    assert toy_lab.run("systemctl", "is-active", unit, check=False).strip() in (b"failed", b"inactive")
    stored = store.load(session.id)
    assert (stored.outcome, stored.why, len(stored.attempts)) == (session.outcome, session.why, len(session.attempts))


def test_34_what_a_killed_session_left_is_undone_before_the_next_patch(
    toy_lab: ToyLab, store: SessionStore, recorder: Recorder
) -> None:
    unit = "killed.service"
    toy_lab.add_unit(unit, f"--port 8209 {FAILING}")
    toy_lab.start(unit)
    toy_lab.wait_for(unit, "failed")
    before = toy_lab.listing(unit)

    class Killed(BaseException):
        """Stands for kill -9: no handler of the loop takes it."""

    class Killing(Recorder):
        def applied(self, plan: Plan) -> None:
            raise Killed

    fix = answer_by({b"AssertionError": (WIDTH, DEPTH)}, [])
    with pytest.raises(Killed):
        repair(toy_lab, unit, fix, Killing(), store, consent)
    assert toy_lab.listing(unit) != before
    # the plan ran to its end: the unit is in the new state, and undo knows it
    undo_session(toy_lab.host, unit, store)
    assert toy_lab.listing(unit) == before


def test_17_a_link_that_breaks_after_the_write_is_undone_by_the_next_command(
    toy_lab: ToyLab, store: SessionStore, recorder: Recorder
) -> None:
    unit = "cut.service"
    toy_lab.add_unit(unit, f"--port 8211 {FAILING}")
    toy_lab.start(unit)
    toy_lab.wait_for(unit, "failed")
    before = toy_lab.listing(unit)

    class Cutting(Recorder):
        def applied(self, plan: Plan) -> None:
            toy_lab.inside.cut()

    fix = answer_by({b"AssertionError": (WIDTH, DEPTH)}, [])
    host = toy_lab.inside.open()
    service = SystemdService(host, unit, ENGINE.split_command, ENGINE.profile.secret)
    try:
        with pytest.raises(HostError):
            run_session(host, service, ENGINE, fix, Cutting(), store, consent, QUICK)
    finally:
        toy_lab.inside.mend()
        host.close()
    assert toy_lab.listing(unit) != before
    session = store.find_latest(host.name, unit)
    assert session is not None and "run triage undo" in session.why
    again = toy_lab.inside.open()
    try:
        assert undo_session(again, unit, store).id == session.id
    finally:
        again.close()
    assert toy_lab.listing(unit) == before


def test_36_a_second_session_is_locked_out(toy_lab: ToyLab, store: SessionStore, recorder: Recorder) -> None:
    with store.lock(toy_lab.host.name, "two.service"), pytest.raises(LockedError):
        run_session(
            toy_lab.host,
            service_of(toy_lab, "two.service"),
            ENGINE,
            answer_by({}, []),
            recorder,
            SessionStore(store.root),
            consent,
            QUICK,
        )


def test_a_capture_over_ssh_round_trips(toy_lab: ToyLab, recorder: Recorder, tmp_path: Path) -> None:
    unit = "cap.service"
    toy_lab.add_unit(unit, f"--port 8210 {FAILING}")
    toy_lab.start(unit)
    toy_lab.wait_for(unit, "failed")
    capture = capture_run(toy_lab.host, service_of(toy_lab, unit), ENGINE, recorder)
    assert capture.launch is not None and capture.launch.args[:4] == ("--model-path", "toy", "--port", "8210")
    assert capture.facts.device == "cpu" and capture.facts.python_version is not None
    save_capture(capture, tmp_path / "c")
    again = load_capture(tmp_path / "c")
    assert (again.meta, again.launch, again.facts, again.log) == (capture.meta, capture.launch, capture.facts, capture.log)
    assert again.source is not None and capture.source is not None
    for name in ("toyserver/args.py", "toyserver/checks.py"):
        assert again.source.read(name) == capture.source.read(name) != None  # noqa: E711


def test_a_missing_unit_and_a_missing_package_are_one_clear_line(
    toy_lab: ToyLab, store: SessionStore, recorder: Recorder
) -> None:
    with pytest.raises(ServiceError):
        repair(toy_lab, "nowhere.service", answer_by({}, []), recorder, store, consent)
    toy_lab.add_unit("bare.service", "", "Environment=PYTHONPATH=/nonexistent")
    toy_lab.run("systemctl", "start", "--no-block", "bare.service")
    toy_lab.wait_for("bare.service", "failed")
    with pytest.raises(EngineError, match="no package toyserver") as caught:
        repair(toy_lab, "bare.service", answer_by({}, []), recorder, store, consent)
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
def test_what_only_looks_healthy_is_not(toy_lab: ToyLab, recorder: Recorder, name: str) -> None:
    service, verdict, why = FAULTS[name]
    unit = f"watch{list(FAULTS).index(name)}.service"
    toy_lab.add_unit(unit, "--port 8220", service)
    before = service_of(toy_lab, unit).read_state().run
    toy_lab.start(unit)
    launch = read_launch(service_of(toy_lab, unit), ENGINE)
    seen = watch(toy_lab.host, service_of(toy_lab, unit), ENGINE, launch, before, recorder, deadline=8.0, stability=4.0, poll=0.3)
    toy_lab.run("systemctl", "stop", unit)
    assert (seen.verdict, why in seen.why) == (verdict, True), seen.why


def test_38_another_process_that_answers_200_does_not_count(toy_lab: ToyLab, recorder: Recorder) -> None:
    toy_lab.add_unit("old.service", "--port 8230")
    toy_lab.start("old.service")
    toy_lab.wait_for("old.service", "active")
    toy_lab.add_unit("new.service", "--port 8230", "Environment=TOY_HANG=1")
    toy_lab.start("new.service")
    service = service_of(toy_lab, "new.service")
    seen = watch(
        toy_lab.host, service, ENGINE, read_launch(service, ENGINE), None, recorder, deadline=5.0, stability=0.5, poll=0.3
    )
    old = service_of(toy_lab, "old.service")
    control = watch(toy_lab.host, old, ENGINE, read_launch(old, ENGINE), None, recorder, deadline=20.0, stability=0.5, poll=0.3)
    toy_lab.run("systemctl", "stop", "old.service", "new.service")
    assert seen.verdict == "timeout" and "not of this run" in seen.why, seen.why
    assert control.verdict == "healthy", control.why


def test_a_port_that_is_not_typed_is_found_by_the_process(toy_lab: ToyLab, recorder: Recorder) -> None:
    toy_lab.add_unit("noport.service", "")
    toy_lab.start("noport.service")
    service = service_of(toy_lab, "noport.service")
    seen = watch(
        toy_lab.host, service, ENGINE, read_launch(service, ENGINE), None, recorder, deadline=20.0, stability=0.5, poll=0.3
    )
    toy_lab.run("systemctl", "stop", "noport.service")
    assert seen.verdict == "healthy" and "port 8123" in seen.why, seen.why


def test_session_json_has_stable_names(toy_lab: ToyLab, store: SessionStore, recorder: Recorder) -> None:
    unit = "asked.service"
    session = repair(toy_lab, unit, answer_by(ONE_BY_ONE, []), recorder, store, lambda *_: False)
    stored = json.loads((store.directory(session.id) / "session.json").read_text())
    assert stored["schema"] == 1 and stored["session"]["meta"]["service"] == unit
    assert stored["session"]["diagnosis"]["patches"][0]["edits"][0]["name"] == "--draft-width"
