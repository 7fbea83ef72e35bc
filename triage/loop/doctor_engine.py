"""The half of a checkup that needs the server's command: its Python, its package, facts, models, rehearsal, probe."""

from __future__ import annotations

from collections.abc import Callable

from triage.errors import CommandTimeout, FileError, HostError, PackageMissing, TriageError
from triage.loop.probe import NO_ANSWER, ask_server, local_address
from triage.loop.rehearse import rehearse_launches
from triage.model import Ability, DoctorCheck, Facts, Launch, ServiceState
from triage.protocols import Engine, EngineInstall, Host, Service

PROBE = "health and generate"
ENGINE_CHECKS = {
    "python": True,
    "package": True,
    "facts": False,
    "model config": False,
    "rehearsal": False,
    PROBE: True,
}  # needed?
_OPEN = {"offline", "timeout", "memory", "crash"}


def is_lost(error: TriageError) -> bool:
    """Whether it means that the host does not answer any more; a refused file or a slow command is an answer."""
    return isinstance(error, HostError) and not isinstance(error, FileError | CommandTimeout)


def examine_engine(
    host: Host, service: Service, engine: Engine, launch: Launch, state: ServiceState, step: Callable[[str], None]
) -> tuple[DoctorCheck, ...]:
    """One check for each name of ENGINE_CHECKS, in that order; secrets are not masked yet. Raises HostError where it is lost."""
    doctor = _EngineDoctor(host, service, engine)
    step("looking for the engine")
    install = doctor.find_package(launch)
    step("reading facts")
    doctor.examine_facts(launch, install)
    doctor.examine_models(launch)
    step("rehearsing the launch as it is")
    doctor.examine_rehearsal()
    step("asking the server")
    doctor.examine_probe(launch, state)
    return tuple(doctor.checks)


class _EngineDoctor:
    def __init__(self, host: Host, service: Service, engine: Engine) -> None:
        self.host = host
        self.service = service
        self.engine = engine
        self.checks: list[DoctorCheck] = []

    def _add(self, name: str, ability: Ability, why: str, todo: str = "") -> None:
        self.checks.append(DoctorCheck(name, ability, why, todo, ENGINE_CHECKS[name]))

    def _refuse(self, name: str, error: TriageError, ability: Ability = "no") -> None:
        if is_lost(error):
            raise error
        self._add(name, ability, str(error), error.hint)

    def find_package(self, launch: Launch) -> EngineInstall | None:
        package = self.engine.profile.package
        try:
            install = self.engine.locate(self.host, launch)
        except PackageMissing as error:
            self._add("python", "ok", f"{error.python} answers")
            self._add("package", "no", str(error), error.hint)
            return None
        except TriageError as error:
            self._refuse("python", error)
            self._add("package", "no", "not asked: the launch's Python does not answer")
            return None
        self._add("python", "ok", f"{install.python}, Python {install.python_version or 'of an unknown version'}")
        where = f"in {install.root}"
        if install.version is None:
            text = f"{package} of an unknown version {where}"
            self._add("package", "limited", text, "its metadata is not installed: a checkout, or a copied folder")
        else:
            self._add("package", "ok", f"{package} {install.version} {where}")
        return install

    def examine_facts(self, launch: Launch, install: EngineInstall | None) -> None:
        if install is None:
            self._add("facts", "no", "not asked: the launch's Python or its package is missing")
            return
        try:
            facts = self.engine.read_facts(self.host, launch, install)
        except TriageError as error:
            self._refuse("facts", error, "limited")
            return
        known = _show_facts(facts)
        if facts.gpu_count or facts.device in (None, "cpu"):
            self._add("facts", "ok" if facts.device else "limited", known or "nothing is known of the devices")
        else:
            self._add("facts", "limited", known, "checks that hang on the GPU's kind are not known; look at the driver's tools")

    def examine_models(self, launch: Launch) -> None:
        profile = self.engine.profile
        try:
            found = self.engine.read_model_configs(self.host, launch)
        except TriageError as error:
            self._refuse("model config", error, "limited")
            return
        typed = [v for field in profile.model_path_fields for v in self.engine.typed_values(launch, field)]
        wanted = dict.fromkeys([*typed, *(launch.args[:1] if launch.args and not launch.args[0].startswith("-") else ())])
        missing = [path for path in wanted if path not in {m.path for m in found}]
        if missing:
            todo = "checks of the model stay unknown: put its config.json into that folder or into the host's hub cache"
            names = ", ".join(missing)
            self._add("model config", "limited", f"neither a folder nor the hub cache has the config.json of {names}", todo)
        elif not found:
            self._add("model config", "limited", "the launch names no model")
        else:
            kinds = [f"{m.path} ({'hub cache' if m.files is None else 'folder'})" for m in found]
            self._add("model config", "ok", ", ".join(kinds))

    def examine_rehearsal(self) -> None:
        done = rehearse_launches(self.host, self.service, self.engine, ((),))
        if done.problem is not None or not done.answers:
            todo = done.hint or "patches rest on the evaluation of the source alone"
            self._add("rehearsal", "no", done.problem or "it gave no answer", todo)
            return
        answer = done.answers[0]
        took = f"in {done.seconds:.1f} s, of which {done.prepared:.1f} s to be ready"
        if answer.outcome == "passes":
            self._add("rehearsal", "ok", f"the launch as typed passes the host's own validation, {took}")
        elif answer.outcome in _OPEN:
            self._add("rehearsal", "limited", f"{_say_open(answer.outcome)}: {answer.why or 'no reason was given'}, {took}")
        else:
            self._add("rehearsal", "ok", f"the host's own validation refuses the launch as typed ({answer.why}), {took}")

    def examine_probe(self, launch: Launch, state: ServiceState) -> None:
        name, profile = PROBE, self.engine.profile
        python = launch.entry[0] if launch.entry else "python3"
        running = state.main_pid is not None
        ports = self.engine.typed_values(launch, profile.port_field)
        port = int(ports[-1]) if ports and ports[-1].isdecimal() and 0 < int(ports[-1]) < 65536 else None
        hosts = self.engine.typed_values(launch, profile.host_field)
        address = local_address(hosts[-1] if hosts else None)

        def ask(paths: tuple[str, ...], seconds: float = 5.0) -> tuple[bool, str, str]:
            answer = ask_server(self.host, python, address, port if running else None, state.main_pid, paths, seconds)
            told = ", ".join(f"{p} answers {answer.statuses[p]}" for p in paths if p in answer.statuses)
            return answer.is_ok(paths), told, "none" if answer is NO_ANSWER else answer.owner

        if not running:
            if ask(())[2] == "none":
                self._add(name, "no", "the host has no Python that could ask the server", "install python3")
            else:
                paths = " or ".join(profile.health_paths)
                then = f", then {profile.generate_path} once" if profile.generate_path else "; the engine has no generate path"
                self._add(name, "ok", f"nothing runs now; after a start {paths} is asked{then}")
            return
        healthy, told, owner = ask(profile.health_paths)
        if not healthy:
            self._add(name, "limited", f"the server runs, and {told or 'no health path answers'}")
        elif owner == "other":
            why = f"{told}, but from a process that is not of this service"
            self._add(name, "limited", why, "free the port")
        else:
            generated, more, _ = ask((profile.generate_path,), 30.0) if profile.generate_path else (True, "", "")
            whose = "" if owner == "ours" else "; whose process it is cannot be seen, so the log's ready mark counts as well"
            text = ", ".join(t for t in (told, more) if t) + whose
            self._add(name, "ok" if generated and not whose else "limited", text)


def _show_facts(facts: Facts) -> str:
    gpu = f"{facts.gpu_count or 1} x {facts.gpu_name or 'GPU'}" if facts.gpu_count or facts.gpu_name else ""
    parts = [
        facts.device,
        gpu,
        f"{facts.gpu_memory_mib} MiB each" if facts.gpu_memory_mib else "",
        f"compute capability {facts.compute_capability}" if facts.compute_capability else "",
        f"CUDA {facts.cuda_version}" if facts.cuda_version else "",
        facts.machine,
    ]
    return ", ".join(p for p in parts if p)


def _say_open(outcome: str) -> str:
    return {
        "offline": "the host can rehearse, but this launch needs the network, which a rehearsal does not use",
        "timeout": "the host can rehearse, but this launch did not end in time",
        "memory": "the host can rehearse, but this launch grew beyond the memory that a rehearsal may take",
    }.get(outcome, "the rehearsal of this launch ended without an answer")
