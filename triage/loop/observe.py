"""A started run -> Observation: watched until it is surely healthy, surely not, or out of time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

from triage.errors import HostError
from triage.loop.marks import LogMarks
from triage.loop.probe import NO_ANSWER, Answer, ask_server, local_address
from triage.model import Launch, Observation, ServiceState
from triage.protocols import Engine, Host, Observer, Service

Verdict = Literal["healthy", "failed", "timeout", "interrupted"]

SETTLE = 3.0  # seconds for the rest of a traceback to arrive after a fatal line
NEW_RUN = 15.0  # seconds for the manager to begin a new run
LINK = 60.0  # seconds that a broken link may last


@dataclass
class _Seen:
    """What the watch knows so far."""

    state: ServiceState | None = None
    run: str | None = None
    restarts: int = 0
    cursor: str | None = None
    answer: Answer = NO_ANSWER
    generated: bool = False
    healthy_since: float | None = None
    fatal_since: float | None = None
    log_since: float = 0.0
    trouble: str = ""
    stopping_until: float = 0.0


def watch(
    host: Host,
    service: Service,
    engine: Engine,
    launch: Launch,
    run_before: str | None,
    observer: Observer,
    *,
    deadline: float = 1800.0,
    stability: float = 5.0,
    poll: float = 1.0,
) -> Observation:
    """Watch the run that follows `run_before` (None: the current one), at most `deadline` seconds.

    Healthy needs all of: the run's own process owns the port (or, where that cannot be seen, its log shows the ready
    mark), a health path answers 200, the generate path answers 200 once where the engine has one, and the run stays so
    for `stability` seconds. It failed when the manager says so, when a fatal line was logged, when the manager began
    another run, or when it ended with status 0. Ctrl-C gives the verdict "interrupted". Raises ServiceError, and
    HostError when the link is broken for more than a minute.
    """
    return _Watch(host, service, engine, launch, run_before, observer, deadline, stability, poll).run()


class _Watch:
    def __init__(
        self,
        host: Host,
        service: Service,
        engine: Engine,
        launch: Launch,
        run_before: str | None,
        observer: Observer,
        deadline: float,
        stability: float,
        poll: float,
    ) -> None:
        self._host = host
        self._service = service
        self._profile = engine.profile
        self._run_before = run_before
        self._observer = observer
        self._deadline = deadline
        self._stability = stability
        self._poll = poll
        self._marks = LogMarks(engine.profile)
        self._seen = _Seen()
        self._python = launch.entry[0] if launch.entry else "python3"
        ports = engine.typed_values(launch, engine.profile.port_field)
        self._port = int(ports[-1]) if ports and ports[-1].isdecimal() and 0 < int(ports[-1]) < 65536 else None
        hosts = engine.typed_values(launch, engine.profile.host_field)
        self._address = local_address(hosts[-1] if hosts else None)
        self._begun = time.monotonic()

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._begun

    def run(self) -> Observation:
        link_since: float | None = None
        try:
            while True:
                self._observer.phase(self._progress(), self._elapsed)
                try:
                    end = self._look()
                    link_since = None
                except HostError as error:
                    link_since = self._elapsed if link_since is None else link_since
                    self._seen.trouble = f"the host does not answer: {error}"
                    if self._elapsed - link_since > LINK:
                        raise
                    end = None
                if end is not None:
                    return end
                if self._elapsed >= self._deadline:
                    return self._end("timeout", self._why_timeout())
                time.sleep(min(self._poll, max(0.0, self._deadline - self._elapsed)))
        except KeyboardInterrupt:
            return self._end("interrupted", "interrupted by the operator")

    def _look(self) -> Observation | None:
        """One turn: state, log, probe. An Observation ends the watch."""
        seen = self._seen
        state = self._service.read_state()
        seen.state = state
        if seen.run is None:
            if self._run_before is not None and state.run == self._run_before:
                return self._wait_for_run(state)
            if state.run is None and self._elapsed < NEW_RUN and state.active not in ("failed", "inactive"):
                return None
            seen.run, seen.restarts = state.run, state.restarts
        self._read_log()
        over = self._why_over(state)
        if over:
            self._read_log()
            return self._end("failed", over)
        if self._marks.fatal is not None:
            seen.fatal_since = self._elapsed if seen.fatal_since is None else seen.fatal_since
            if self._elapsed - seen.fatal_since >= SETTLE:
                return self._end("failed", f"a fatal line in the log: {self._marks.fatal}")
            return None
        if self._is_healthy(state):
            seen.healthy_since = self._elapsed if seen.healthy_since is None else seen.healthy_since
            if self._elapsed - seen.healthy_since >= self._stability:
                return self._end("healthy", f"answers on port {seen.answer.port}, for {self._stability:g} s")
        else:
            seen.healthy_since = None
        return None

    def _wait_for_run(self, state: ServiceState) -> Observation | None:
        if state.active == "deactivating":
            self._seen.stopping_until = self._elapsed  # the old server takes its time to end
        if state.result == "start-limit-hit" or self._elapsed - self._seen.stopping_until >= NEW_RUN:
            return self._end("failed", f"no new run was started ({state.result or state.active})")
        return None

    def _read_log(self) -> None:
        chunk = self._service.read_log(run=self._seen.run, after=self._seen.cursor)
        self._seen.cursor = chunk.cursor or self._seen.cursor
        if chunk.data:
            self._seen.log_since = self._elapsed
        self._marks.feed(chunk.data)

    def _why_over(self, state: ServiceState) -> str | None:
        """Why the run has ended, None while it goes on. An end with status 0 is an end."""
        seen = self._seen
        if state.run is not None and seen.run is not None and state.run != seen.run:
            return "the run ended and the service manager began another one"
        if state.restarts > seen.restarts or state.sub == "auto-restart":
            return f"the run ended and the service manager is restarting it ({_describe_exit(state)})"
        if state.active in ("failed", "inactive"):
            return f"the run ended: {_describe_exit(state)}"
        return None

    def _is_healthy(self, state: ServiceState) -> bool:
        if state.active not in ("active", "activating", "reloading"):
            return False
        seen, profile = self._seen, self._profile
        seen.answer = ask_server(self._host, self._python, self._address, self._port, state.main_pid, profile.health_paths)
        if not seen.answer.is_ok(profile.health_paths):
            seen.trouble = "no 200 from " + " or ".join(profile.health_paths)
            return False
        if seen.answer.owner == "other":
            seen.trouble = f"port {seen.answer.port} belongs to a process that is not of this run"
            return False
        if seen.answer.owner != "ours" and not self._marks.ready:
            seen.trouble = f"whose process answers on port {seen.answer.port} cannot be seen, and the log shows no ready mark"
            return False
        if not seen.generated and not self._generates(state):
            return False
        seen.trouble = ""
        return True

    def _generates(self, state: ServiceState) -> bool:
        """Ask once more until the server has generated something; an engine or release without that path is taken as it is."""
        path = self._profile.generate_path
        if path is not None:
            port = self._seen.answer.port
            answer = ask_server(self._host, self._python, self._address, port, state.main_pid, (path,), timeout=30.0)
            if not answer.is_ok((path,)) and answer.statuses.get(path) not in (404, 405, 501):
                status = answer.statuses.get(path)
                self._seen.trouble = (
                    f"health answers 200, but {path} {'does not answer' if status is None else f'answers {status}'}"
                )
                return False
        self._seen.generated = True
        return True

    def _progress(self) -> str:
        if self._seen.healthy_since is not None:
            return "healthy, watching that it stays so"
        if self._seen.run is None:
            return "waiting for the new run"
        return self._marks.phase

    def _why_timeout(self) -> str:
        silent = self._elapsed - self._seen.log_since
        parts = [f"not healthy after {self._deadline:g} s", f"last phase: {self._marks.phase}", f"no log line for {silent:.0f} s"]
        return ", ".join([*parts, *([self._seen.trouble] if self._seen.trouble else [])])

    def _end(self, verdict: Verdict, why: str) -> Observation:
        return Observation(verdict, self._marks.phase, self._elapsed, why, self._seen.run, self._marks.kept)


def _describe_exit(state: ServiceState) -> str:
    if state.exit.signal is not None:
        how = f"signal {state.exit.signal}"
    elif state.exit.code:
        how = f"status {state.exit.code}"
    elif state.active == "inactive" or state.exit.code == 0:
        # systemd forgets the status of a unit that ended well, and a server that ends well was not meant to
        how = "without an error status, though a server does not end by itself"
    else:
        how = "with an unknown status"
    return f"{how} ({state.result})" if state.result and state.result not in ("success", "exit-code", "signal") else how
