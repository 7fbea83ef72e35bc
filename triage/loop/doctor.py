"""Host + Service + Engine -> Checkup: what triage can and cannot do there. Read-only on the host and here."""

from __future__ import annotations

import os
import posixpath
import time
from dataclasses import replace

from triage.errors import HostError, NeverRun, TriageError
from triage.loop.apply import has_standing_change
from triage.loop.capture import read_launch
from triage.loop.doctor_engine import ENGINE_CHECKS, examine_engine, is_lost
from triage.loop.session import SessionStore
from triage.model import Ability, Checkup, Command, DoctorCheck, Edit, Launch, Plan, RunCommand, ServiceState, WriteFile
from triage.protocols import Engine, Host, Observer, Service
from triage.redact import mask_args, mask_text, printable

_SKEW = 60  # seconds that the host's clock may differ
_SHOWN = 1000  # characters of one text
_ROOM = 64  # KiB that a patch may need on the disk
_NEVER_WRITTEN = "--triage-doctor"  # the flag of a patch that is planned to see whether one can be, and never applied

# $1 a file that may not exist, nor its folder. Says: the nearest folder that exists, whether it may be written, KiB free.
_WRITABLE = """
f=$1
if [ -L "$f" ]; then echo link; exit 0; fi
d=$(dirname -- "$f")
while [ ! -e "$d" ] && [ ! -L "$d" ] && [ "$d" != / ] && [ "$d" != . ]; do d=$(dirname -- "$d"); done
if [ ! -d "$d" ]; then printf 'nofolder\\n%s\\n' "$d"; exit 0; fi
free=$(df -Pk -- "$d" 2>/dev/null | awk 'NR == 2 {print $4}')
if [ -w "$d" ] && [ -x "$d" ]; then w=yes; else w=no; fi
printf '%s\\n%s\\n%s\\n' "$w" "$d" "$free"
"""


def examine_service(host: Host, service: Service, engine: Engine, store: SessionStore, observer: Observer) -> Checkup:
    """Ask the host for everything that `run` rests on. Never raises TriageError, and nothing changes anywhere.

    What cannot be asked because something before it is missing is "no" and says so. Secrets of the launch are masked.
    """
    return _Doctor(host, service, engine, store, observer).examine()


def tell_unreachable(host: str, service: str, error: HostError) -> Checkup:
    """The answer for a host that could not be connected to, or runs no command."""
    check = DoctorCheck("ssh", "no", printable(str(error), _SHOWN), printable(error.hint, _SHOWN), needed=True)
    return Checkup(host, service, (check,), reached=False)


class _Doctor:
    def __init__(self, host: Host, service: Service, engine: Engine, store: SessionStore, observer: Observer) -> None:
        self.host = host
        self.service = service
        self.engine = engine
        self.store = store
        self.observer = observer
        self.begun = time.monotonic()
        self.checks: list[DoctorCheck] = []
        self.hidden: frozenset[str] = frozenset()
        self.is_root = False

    def examine(self) -> Checkup:
        try:
            self._examine()
        except HostError as error:  # lost on the way
            lost = replace(tell_unreachable(self.host.name, self.service.name, error).checks[0], name="connection")
            self.checks.append(lost)
            return Checkup(self.host.name, self.service.name, self._told(), reached=False)
        return Checkup(self.host.name, self.service.name, self._told())

    def _examine(self) -> None:
        self._step("asking the host")
        self._examine_login()
        self._examine_sudo()
        self._step("reading the service")
        state, launch = self._examine_service()
        self._step("reading the log")
        self._examine_log(state)
        if state is None or launch is None:
            for name, needed in {"patch": True, **ENGINE_CHECKS}.items():
                self._add(name, "no", "not asked: the server's command is not known", needed=needed)
        else:
            self._examine_patch()
            self.checks += examine_engine(self.host, self.service, self.engine, launch, state, self._step)
        self._examine_sessions()

    def _step(self, text: str) -> None:
        self.observer.phase(text, time.monotonic() - self.begun)

    def _add(self, name: str, ability: Ability, why: str, todo: str = "", needed: bool = False) -> None:
        self.checks.append(DoctorCheck(name, ability, why, todo, needed))

    def _refuse(self, name: str, error: TriageError, ability: Ability = "no", needed: bool = False) -> None:
        if is_lost(error):
            raise error
        self._add(name, ability, str(error), error.hint, needed)

    def _told(self) -> tuple[DoctorCheck, ...]:
        def tidy(text: str) -> str:
            return printable(mask_text(text, self.hidden), _SHOWN)

        return tuple(replace(c, why=tidy(c.why), todo=tidy(c.todo)) for c in self.checks)

    # ------------------------------------------------ the host
    def _examine_login(self) -> None:
        name = "login" if self.host.name == "local" else "ssh"
        before, begun = time.time(), time.monotonic()
        result = self.host.run(Command(("sh", "-c", "id -u; id -un; date +%s")))
        took = time.monotonic() - begun
        lines = result.stdout.decode("utf-8", "replace").split("\n")
        if result.status != 0 or len(lines) < 3 or not lines[0].isdigit() or not lines[2].isdigit():
            said = result.stderr.decode("utf-8", "replace") or f"status {result.status}"
            self._add(name, "limited", f"the host's own tools do not answer as expected: {said}")
            return
        self.is_root = lines[0] == "0"
        trusted = "" if name == "login" else "the host key is known, "
        why = f"{trusted}logged in as {lines[1]}, a command takes {took * 1000:.0f} ms"
        skew = int(lines[2]) - (before + took / 2)
        if abs(skew) > _SKEW:
            text = f"{why}; the host's clock is {abs(skew):.0f} s {'ahead' if skew > 0 else 'behind'}"
            self._add(name, "limited", text, "times in its logs are its own; set its clock")
        else:
            self._add(name, "ok", why)

    def _examine_sudo(self) -> None:
        needed = _needs_root(self.service.plan_restart())
        if self.is_root:
            self._add("sudo", "ok", "the login is root", needed=needed)
            return
        try:
            self.host.run(Command(("true",), root=True))
        except HostError as error:
            if needed:
                self._add("sudo", "no", str(error), error.hint, needed=True)
            else:
                self._add("sudo", "limited", f"{error}; this server needs it only where it runs as another user")
            return
        self._add("sudo", "ok", "root by sudo without a password", needed=needed)

    # ------------------------------------------------ the service
    def _examine_service(self) -> tuple[ServiceState | None, Launch | None]:
        name = "unit" if self.service.kind == "systemd" else "command"
        try:
            state = self.service.read_state()
        except TriageError as error:
            self._refuse(name, error, needed=True)
            return None, None
        now = f"{state.active} ({state.result or state.sub})"
        try:
            launch = read_launch(self.service, self.engine)
            self.hidden = self.service.read_secrets()
        except TriageError as error:
            if is_lost(error):
                raise
            self._add(name, "no", f"it is {now}, but {error}", error.hint, needed=True)
            return state, None
        words = " ".join(mask_args(launch.argv, self.engine.profile.secret))
        self._add(name, "ok", f"{now}; starts {printable(words, 300)}", needed=True)
        return state, launch

    def _examine_log(self, state: ServiceState | None) -> None:
        name = "journal" if self.service.kind == "systemd" else "log"
        if state is None:
            self._add(name, "no", "not asked: the service cannot be read", needed=True)
            return
        begun = time.monotonic()
        try:
            chunk = self.service.read_log()
        except NeverRun as error:
            self._add(name, "limited", str(error), "start it once, or use `triage check`", needed=True)
            return
        except TriageError as error:
            self._refuse(name, error, needed=True)
            return
        size = f"{len(chunk.data) / 1024:.0f} KiB of the last run in {time.monotonic() - begun:.1f} s"
        if not chunk.data:
            self._add(name, "limited", "open, but it holds nothing of the last run", "start it once", needed=True)
        elif chunk.cut:
            self._add(name, "limited", f"{size}; the beginning of the run is not there any more", needed=True)
        else:
            self._add(name, "ok", size, needed=True)

    def _examine_patch(self) -> None:
        """A plan is made as for a real patch, and its files are looked at; it is never applied."""
        try:
            plan = self.service.plan_patch([Edit("add", _NEVER_WRITTEN)])
            problem = next((text for step in plan.steps if isinstance(step, WriteFile) and (text := self._look(step))), "")
        except TriageError as error:  # a HostError here: no sudo
            self._add("patch", "no", str(error), error.hint, needed=True)
            return
        written = [s for s in plan.steps if isinstance(s, WriteFile)]
        where = ", ".join(s.path for s in written)
        if problem:
            self._add("patch", "no", problem, "make that place writable, or patch by hand what `triage run` shows", needed=True)
        elif any(s.expect is not None for s in written):
            self._add("patch", "ok", f"{where} can be written; one of triage's own stands there already", needed=True)
        else:
            self._add("patch", "ok", f"{where} can be written", needed=True)

    def _look(self, step: WriteFile) -> str:
        """Why the file cannot be written, "" where it can. Raises HostError where root is needed and not to be had."""
        result = self.host.run(Command(("sh", "-c", _WRITABLE, "sh", step.path), root=step.as_root))
        said, folder, free, *_ = [*result.stdout.decode("utf-8", "replace").split("\n"), "", "", ""]
        match said:
            case "yes" if free.isdigit() and int(free) < _ROOM:
                return f"{folder} has only {free} KiB free"
            case "yes":
                return ""
            case "link":
                return f"a link stands in place of {step.path}"
            case "nofolder":
                return f"{folder} is not a folder"
            case _:
                return f"{folder or posixpath.dirname(step.path)} cannot be written"

    # ------------------------------------------------ here
    def _examine_sessions(self) -> None:
        name = "undo"
        folder = self.store.root
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
            self._add(name, "no", f"the state folder {self.store.root} cannot be written", "set TRIAGE_STATE_DIR", needed=True)
            return
        try:
            standing = _find_standing(self.host, self.service, self.store)
        except TriageError as error:
            self._refuse(name, error, needed=True)
            return
        if standing:
            todo = "`triage undo` with the same options takes it back"
            self._add(name, "ok", f"the change of session {standing} stands", todo, needed=True)
        else:
            self._add(name, "ok", "no change of triage stands; a new one can be recorded", needed=True)


def _needs_root(plan: Plan) -> bool:
    return any(step.command.root if isinstance(step, RunCommand) else step.as_root for step in plan.steps)


def _find_standing(host: Host, service: Service, store: SessionStore) -> str | None:
    found = store.find_all(host.name, service.name)
    return next((i for i in found if has_standing_change(store.directory(i))), None)
