"""The closed loop: capture, diagnose, ask, apply, restart, watch; again with what was learned, until healthy or out of budget.

Each attempt's plan is the *total* patch of the launch as it was found: before a further attempt the previous plan is
undone, so that one undo always leads back to the unit as found. The diagnosis after a failed attempt sees the launch as
it ran (patched); `fold_patches` turns its patch into a total one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from triage.analysis.mismatch import find_mismatch
from triage.analysis.trees import RecordingTree
from triage.errors import CaptureError, EngineError, HostError, TriageError
from triage.loop.apply import apply_plan, recover, undo_plan
from triage.loop.capture import capture_run, read_launch, save_capture
from triage.loop.edits import fold_patches, is_same_patch
from triage.loop.observe import watch
from triage.loop.session import SessionStore
from triage.loop.settle import Diagnose, Rehearse, settle_patches
from triage.model import Attempt, Diagnosis, Observation, OutcomeName, Patch, Plan, ServiceState, Session, Unknown
from triage.protocols import Capture, Engine, Host, Observer, Service

Decide = Callable[[Diagnosis, Plan, Patch], bool]

_RESTART = "restart the server once, so that its log and the source agree, then run triage again"
_RUNNING = ("active", "activating", "reloading")


@dataclass(frozen=True)
class Budget:
    """When to stop: attempts (restarts), seconds for the whole session, seconds that health must last, seconds between looks."""

    attempts: int = 5
    deadline: float = 1800.0
    stability: float = 5.0
    poll: float = 1.0


def run_session(
    host: Host,
    service: Service,
    engine: Engine,
    diagnose: Diagnose,
    observer: Observer,
    store: SessionStore,
    decide: Decide,
    budget: Budget = Budget(),
    *,
    keep: bool = False,
    rehearse: Rehearse | None = None,
) -> Session:
    """Repair one service. The session is stored at every step, and its folder holds the first capture.

    `diagnose` gets a capture, the patches already tried (as total patches) and other launches that failed. `decide` gives
    consent to one plan; without it nothing on the host changes. With `rehearse`, patches are judged by the host's own
    validation before one is applied. Outcomes: healthy (it was, nothing changed), no_failure, no_patch, needs_consent and
    not_applied (consent was not given, or Ctrl-C), fixed, out_of_budget. Unless it ends fixed or `keep` is set, the unit is
    put back as found. Raises LockedError, and the errors of the host, service and engine, after putting the unit back where
    it can.
    """
    with store.lock(host.name, service.name):
        return _Loop(host, service, engine, diagnose, observer, store, decide, budget, keep, rehearse).run()


class _Loop:
    def __init__(
        self,
        host: Host,
        service: Service,
        engine: Engine,
        diagnose: Diagnose,
        observer: Observer,
        store: SessionStore,
        decide: Decide,
        budget: Budget,
        keep: bool,
        rehearse: Rehearse | None,
    ) -> None:
        self._host = host
        self._service = service
        self._engine = engine
        self._diagnose = diagnose
        self._observer = observer
        self._store = store
        self._decide = decide
        self._budget = budget
        self._keep = keep
        self._rehearse = rehearse
        self._begun = time.monotonic()
        self._found: ServiceState | None = None
        self._standing: Plan | None = None  # applied, not undone
        self._restarted = False
        self._lessons: list[Capture] = []  # the runs that were seen to fail
        session_id = store.create()
        started = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        self._session = Session(session_id, host.name, service.name, started, "not_applied", "in progress", None)
        self._journal = store.journal(session_id)

    def run(self) -> Session:
        try:
            self._save()
            outcome, why = self._work()
        except KeyboardInterrupt:
            outcome, why = "not_applied", "interrupted by the operator"
        except TriageError as error:
            self._finish("not_applied", f"ended by an error: {error}")
            raise
        return self._finish(outcome, why)

    @property
    def _left(self) -> float:
        return self._budget.deadline - (time.monotonic() - self._begun)

    def _save(self, **changes: object) -> None:
        self._session = replace(self._session, **changes)  # type: ignore[arg-type]
        self._store.save(self._session)

    def _work(self) -> tuple[OutcomeName, str]:
        self._found = self._service.read_state()
        seen = self._watch_found(self._found)
        if seen is not None and seen.verdict == "healthy":
            return "healthy", f"{self._service.name} is healthy already: {seen.why}"
        if seen is not None and seen.verdict == "interrupted":
            return "not_applied", seen.why
        capture, diagnosis = self._study(seen if seen is not None and seen.verdict != "healthy" else None, (), None)
        self._save(diagnosis=diagnosis, meta=capture.meta)
        with suppress(CaptureError):  # a session without its capture still reports and undoes
            save_capture(capture, self._store.directory(self._session.id) / "capture")
        if diagnosis.outcome == "no_failure":
            return "no_failure", seen.why if seen is not None else "the log of the last run holds no failure"
        return self._repair(diagnosis)

    def _watch_found(self, state: ServiceState) -> Observation | None:
        """A unit that runs is watched before anything is said about it."""
        if state.active not in _RUNNING or state.sub == "auto-restart":
            return None
        launch = read_launch(self._service, self._engine)
        steady = min(self._budget.stability, 2.0)
        return watch(
            self._host,
            self._service,
            self._engine,
            launch,
            None,
            self._observer,
            deadline=self._left,
            stability=steady,
            poll=self._budget.poll,
        )

    def _study(self, seen: Observation | None, tried: tuple[Patch, ...], standing: Patch | None) -> tuple[Capture, Diagnosis]:
        """Capture and diagnose a run: the one that was watched, else the last. The patches are those of the launch as found,
        `standing` is the one that it ran with."""
        capture = capture_run(self._host, self._service, self._engine, self._observer, seen.run if seen is not None else None)
        if seen is not None and seen.verdict == "timeout":
            capture = replace(capture, meta=replace(capture.meta, gave_up=seen.why))
        if capture.source is not None:
            capture = replace(capture, source=RecordingTree(capture.source))
        diagnosis = self._diagnose(capture, tried, tuple(self._lessons))
        mismatch = find_mismatch(diagnosis)
        if mismatch is not None:
            where = f"the {self._engine.profile.name} that is installed on {self._host.name} is not the one that failed"
            raise EngineError(f"{where}: {mismatch.text}", hint=_RESTART)
        self._lessons.append(capture)
        diagnosis = replace(diagnosis, patches=tuple(fold_patches(standing, p) for p in diagnosis.patches))
        if self._rehearse is not None and diagnosis.patches:
            self._observer.phase("rehearsing the patches", time.monotonic() - self._begun)
            settled = settle_patches(capture, diagnosis, self._diagnose, self._rehearse, tried, standing=standing)
            diagnosis, capture = settled.diagnosis, replace(capture, rehearsals=settled.rehearsals)
        self._observer.diagnosed(diagnosis)
        return capture, diagnosis

    def _repair(self, diagnosis: Diagnosis) -> tuple[OutcomeName, str]:
        tried: tuple[Patch, ...] = ()
        while True:
            patch = next((p for p in diagnosis.patches if not any(is_same_patch(p, t) for t in tried)), None)
            if patch is None:
                return "no_patch", _why_no_patch(diagnosis, len(tried))
            if len(tried) >= self._budget.attempts:
                return "out_of_budget", f"still failing after {len(tried)} attempts"
            if self._left <= 0:
                return "out_of_budget", f"still failing after {self._budget.deadline:g} s"
            self._put_back()
            plan = self._service.plan_patch(patch.edits)
            self._observer.planned(plan, patch)
            self._save(plan=plan)
            if not self._decide(diagnosis, plan, patch):
                refused: OutcomeName = "needs_consent" if diagnosis.outcome == "needs_consent" else "not_applied"
                return refused, "the patch was not applied: no consent"
            if self._finish_earlier():
                plan = self._service.plan_patch(patch.edits)
            observation = self._try(plan, patch)
            tried = (*tried, patch)
            attempt = Attempt(len(tried), patch, observation, None)
            if observation.verdict in ("failed", "timeout"):
                self._save(attempts=(*self._session.attempts, attempt))
                _, diagnosis = self._study(observation, tried, patch)
                if patch.certainty == "rehearsed":
                    diagnosis = self._say_rehearsed(diagnosis)
                attempt = replace(attempt, diagnosis=diagnosis)
                self._save(attempts=self._session.attempts[:-1])
            self._save(attempts=(*self._session.attempts, attempt))
            self._observer.attempted(attempt)
            if observation.verdict == "healthy":
                self._save(applied=patch)
                return "fixed", f"healthy after {len(tried)} restart{'s' if len(tried) > 1 else ''}: {observation.why}"
            if observation.verdict == "interrupted":
                return "not_applied", observation.why
            if observation.verdict == "timeout":
                return "out_of_budget", observation.why

    def _say_rehearsed(self, diagnosis: Diagnosis) -> Diagnosis:
        """The diagnosis of a launch that its rehearsal let pass."""
        cause = diagnosis.cause
        inside = cause is not None and cause.category in ("argument", "usage")
        where = "validation came out otherwise in the real start" if inside else "the failure lies behind validation"
        why = f"the host's own validation let this launch pass in the rehearsal, and it still failed: {where}"
        self._observer.note(why)
        return replace(diagnosis, unknowns=(Unknown("what the rehearsal did not see", why), *diagnosis.unknowns))

    def _finish_earlier(self) -> bool:
        """Undo what earlier sessions of this service left half-way (a crash); True when there was something."""
        found = False
        for session_id in self._store.find_all(self._host.name, self._service.name):
            if session_id != self._session.id:
                recovery = recover(self._host, self._store.directory(session_id))
                for what in recovery.undone:
                    self._observer.note(f"undone, left half-way by session {session_id}: {what}")
                    found = True
        return found

    def _try(self, plan: Plan, patch: Patch) -> Observation:
        """Apply, restart, watch."""
        self._standing = plan  # from here on an interrupt leads through undo, whatever of the plan ran
        apply_plan(self._host, plan, self._journal)
        self._observer.applied(plan)
        before = self._service.read_state().run
        launch = read_launch(self._service, self._engine)
        self._restarted = True
        try:
            apply_plan(self._host, self._service.plan_restart(), self._journal)
        except HostError as error:
            # A manager that waits for the start reports its failure here; the state says more than the status.
            self._observer.note(f"restart: {error}")
        observation = watch(
            self._host,
            self._service,
            self._engine,
            launch,
            before,
            self._observer,
            deadline=max(self._left, 0.0),
            stability=self._budget.stability,
            poll=self._budget.poll,
        )
        self._observer.observed(observation)
        return observation

    def _put_back(self) -> None:
        if self._standing is not None:
            undo_plan(self._host, self._standing, self._journal)
            self._standing = None

    def _finish(self, outcome: OutcomeName, why: str) -> Session:
        """Put the unit back where it shall be, and store the end."""
        if outcome != "fixed" and not self._keep:
            try:
                self._restore()
            except KeyboardInterrupt:
                why = f"{why}; interrupted before the unit was put back: run triage undo"
            except TriageError as error:
                why = f"{why}; the unit could not be put back ({error}): run triage undo"
        self._save(outcome=outcome, why=why)
        return self._session

    def _restore(self) -> None:
        """As found: the plan undone, and a server that was down is down again. A broken server is not restarted."""
        changed = self._standing is not None
        self._put_back()
        if not (self._restarted or changed) or self._found is None:
            return
        now = self._service.read_state()
        if self._found.active not in _RUNNING and now.active in _RUNNING:
            apply_plan(self._host, self._service.plan_stop(), self._journal)
        elif self._found.active in _RUNNING and now.active not in _RUNNING:
            self._observer.note(f"{self._service.name} was {self._found.active} when found (not healthy), now it is {now.active}")


def _why_no_patch(diagnosis: Diagnosis, attempts: int) -> str:
    cause = diagnosis.cause.text if diagnosis.cause is not None else "no cause was found"
    if attempts == 0:
        return cause
    return f"{attempts} attempt{'s' if attempts > 1 else ''} did not end in a healthy server, and nothing is left to try: {cause}"
