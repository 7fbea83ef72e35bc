"""The seams, on one page. Implementations live in hosts/, services/, engines/ and analysis/source.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Protocol

from triage.model import (
    Attempt,
    CaptureMeta,
    Command,
    CommandResult,
    Diagnosis,
    Edit,
    Facts,
    FigureLine,
    JsonValue,
    Launch,
    LogChunk,
    LogGap,
    ModelConfig,
    Observation,
    Patch,
    Plan,
    Rehearsal,
    ServiceState,
    Signature,
)


class Host(Protocol):
    """Where commands run: this machine or one behind ssh."""

    @property
    def name(self) -> str: ...

    def run(self, command: Command) -> CommandResult:
        """Run it to its end. Raises HostError (unreachable), CommandTimeout. A non-zero status is a result."""
        ...

    def read_file(self, path: str, max_bytes: int = 64 * 1024 * 1024, root: bool = False) -> bytes:
        """The file's bytes, at most `max_bytes`. Raises FileError (absent, not a regular file, too large, refused)."""
        ...

    def write_file(self, path: str, data: bytes, mode: int, root: bool = False) -> None:
        """Write beside, fsync, rename over; creates the parent folder. Raises FileError; then nothing changed."""
        ...

    def remove_file(self, path: str, root: bool = False) -> None:
        """Remove it; absent is fine. Raises FileError."""
        ...

    def close(self) -> None: ...


class Service(Protocol):
    """A named server on a host under one manager."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def host(self) -> Host: ...

    def read_state(self) -> ServiceState:
        """Raises ServiceError where the service does not exist."""
        ...

    def read_launch(self) -> Launch:
        """The effective launch, secrets masked. Raises ServiceError when it has a form that cannot be read."""
        ...

    def read_secrets(self) -> frozenset[str]:
        """Secret values of the launch, for masking them in the log and in every output. Raises ServiceError."""
        ...

    def reveal_launch(self) -> Launch:
        """As read_launch with secrets in clear, and with the user that it runs as where the login is not meant.

        For a rehearsal only: it stays in memory and goes to the host by stdin. Raises ServiceError.
        """
        ...

    def read_log(self, run: str | None = None, after: str | None = None) -> LogChunk:
        """Messages of one run only (default: the last), after a cursor. Raises ServiceError when unreadable (no access)."""
        ...

    def plan_patch(self, edits: Sequence[Edit]) -> Plan:
        """The plan that makes these edits act at the next start. Edits act on the unmasked command. Raises ServiceError."""
        ...

    def plan_restart(self) -> Plan: ...

    def plan_stop(self) -> Plan: ...


class SourceTree(Protocol):
    """Read-only view of the folder that holds the package; never leaves it."""

    def read(self, file: str) -> bytes | None:
        """Bytes of `sglang/srt/x.py`; None when it does not exist there (or is not a regular file below the root)."""
        ...

    def is_package(self, file: str) -> bool:
        """Whether this relative folder holds an `__init__.py` or is a namespace folder."""
        ...

    def list_dir(self, file: str) -> tuple[str, ...]:
        """Sorted names in a relative folder; () when absent."""
        ...


@dataclass(frozen=True)
class Stage:
    """One call of validation in the launcher's order: a dotted function, or a method of what the first one returned."""

    call: str  # "sglang.srt.server_args.prepare_server_args" or ".check_server_args"
    unless_field: str | None = None  # skipped when this field of the args object is true


@dataclass(frozen=True)
class RehearsalNames:
    """What a rehearsal has to know of the engine beside `stages`: names only."""

    imports: tuple[str, ...] = ()  # modules that the launcher has imported when it parses; absent ones are left out
    first: tuple[str, ...] = ()  # dotted functions that it calls before the stages; absent ones are left out
    environment: Mapping[str, str] = field(default_factory=dict)  # variables that switch the network off
    caches: tuple[str, ...] = ()  # variables that name a folder for caches, which is a throw-away one here
    network_errors: tuple[str, ...] = ()  # dotted exceptions (patterns) that mean that the network was needed
    warm: tuple[str, ...] = ()  # modules (patterns) that may be imported once for all launches
    busy: str | None = None  # dotted function without arguments: true where a device is in use, which a fork would break
    # last word of the entry -> dotted functions that take the words of the command line and give, in a tuple, the list that is
    # parsed; absent ones are left out
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class ForeignFlag:
    """A flag of another server or release, and what means the same here: the first of `to` that the release has.

    Without `to` it is not needed. `value` is typed in place of its own; `values` says which of its values become which.
    """

    name: str  # "--max-model-len"
    origin: str  # "vLLM", "an older release"
    why: str
    to: tuple[str, ...] = ()
    value: str | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    exact: bool = True  # False where the meaning is near, not the same


@dataclass(frozen=True)
class EngineProfile:
    """What the server is: names, as data from knowledge/. Describes, does not interpret."""

    name: str
    package: str  # "sglang"
    distribution: str
    entries: tuple[tuple[str, ...], ...]  # word sequences that end the entry: ("-m", "sglang.launch_server"), ("sglang", "serve")
    args_class: str  # "sglang.srt.server_args.ServerArgs"
    stages: tuple[Stage, ...]
    port_field: str
    host_field: str
    model_field: str
    health_paths: tuple[str, ...]
    generate_path: str | None
    ready_marks: tuple[str, ...]
    fatal_marks: tuple[str, ...]
    phases: tuple[tuple[str, str], ...] = ()  # (phase name, mark in the log), in order
    protected: Mapping[str, str] = field(default_factory=dict)  # dest or variable -> reason it is never changed without consent
    protected_values: Mapping[str, str] = field(default_factory=dict)  # the same, of settings that take a value
    secret: tuple[str, ...] = ()  # flag and variable names (fnmatch patterns) whose values are masked
    capabilities: Mapping[str, str] = field(default_factory=dict)  # dest -> what is lost when it is removed
    roles: Mapping[str, str] = field(default_factory=dict)  # dest -> what the server becomes when it is set unasked
    kinds: tuple[str, ...] = ()  # those among the roles that make it another kind of server
    platforms: Mapping[str, str] = field(default_factory=dict)  # pattern of dests and values -> the device they are for
    environment_prefixes: tuple[str, ...] = ()  # variables that belong to the engine
    model_path_fields: tuple[str, ...] = ()
    declares: tuple[str, ...] = ()  # functions whose keyword arguments are settings that validation decides
    view: str | None = None  # dotted function of the args object that gives its resolved view, where a release has one
    source_extras: tuple[
        str, ...
    ] = ()  # files of other packages that validation depends on: "other/sub/*.py"; no * in the first part
    plugin_variables: tuple[str, ...] = ()  # variables that name code outside the package to load (fnmatch patterns)
    gpu_fields: tuple[str, ...] = ()  # settings that are numbers of GPUs
    nodes_field: str | None = None  # the number of machines of one server
    rehearsal: RehearsalNames = field(default_factory=RehearsalNames)
    foreign: tuple[ForeignFlag, ...] = ()
    signatures: tuple[Signature, ...] = ()  # known failures that are no argument logic
    figures: tuple[FigureLine, ...] = ()  # log lines that tell numbers

    @property
    def extra_packages(self) -> tuple[str, ...]:
        """The top-level packages that `source_extras` names, sorted."""
        return tuple(sorted({glob.partition("/")[0] for glob in self.source_extras}))

    def protection(self, name: str, switch: bool = False) -> str | None:
        """Why a field or variable is never changed without consent, None when it may be; keys may be patterns (`*_path`).

        `switch`: it takes no value, so that it names no file."""
        if name in self.protected:
            return self.protected[name]
        tables = (self.protected,) if switch else (self.protected, self.protected_values)
        return next((why for table in tables for key, why in table.items() if fnmatchcase(name, key)), None)


class Engine(Protocol):
    @property
    def profile(self) -> EngineProfile: ...

    def split_command(self, argv: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """(entry, args) where argv starts this engine, else None. `args` alone (first word begins with -) gives ((), args)."""
        ...

    def typed_values(self, launch: Launch, field: str) -> tuple[str, ...]:
        """The values that the launch gives to the flag named after this field (spelled in full or shortened), in order."""
        ...

    def locate(self, host: Host, launch: Launch) -> EngineInstall:
        """Where the launch's own interpreter finds the package; runs no engine code. Raises EngineError."""
        ...

    def read_facts(self, host: Host, launch: Launch, install: EngineInstall) -> Facts: ...

    def read_model_configs(self, host: Host, launch: Launch) -> tuple[ModelConfig, ...]: ...

    def build_rehearsal(self, host: Host, launch: Launch, order: Mapping[str, JsonValue], timeout: float) -> Command:
        """The command that judges the launches of `order` on the host, in the interpreter and environment of `launch` (unmasked).

        `order` and the answer lines are described in engines/rehearsal. Raises EngineError (no interpreter, unknown launcher).
        """
        ...


@dataclass(frozen=True)
class EngineInstall:
    root: str  # the folder on the host that holds the package
    version: str | None
    python: str  # the interpreter
    python_version: str | None
    packages: Mapping[str, str] = field(default_factory=dict)
    extra_roots: Mapping[str, str] = field(
        default_factory=dict
    )  # package of `source_extras` -> the folder on the host that holds it


@dataclass(frozen=True)
class Capture:
    """Everything a diagnosis needs; the border between effects and analysis."""

    meta: CaptureMeta
    launch: Launch | None
    facts: Facts
    log: bytes = field(repr=False)
    source: SourceTree | None
    models: tuple[ModelConfig, ...] = ()
    gaps: tuple[LogGap, ...] = ()  # what was left out of a log too large to be kept
    rehearsals: tuple[Rehearsal, ...] = ()  # in the order in which the host was asked


class Observer(Protocol):
    """Listens to the loop; returns nothing, decides nothing (resolvelib's reporter)."""

    def phase(self, text: str, seconds: float) -> None:
        """Progress while something takes time; called again and again."""
        ...

    def diagnosed(self, diagnosis: Diagnosis) -> None: ...
    def planned(self, plan: Plan, patch: Patch) -> None: ...
    def applied(self, plan: Plan) -> None: ...
    def observed(self, observation: Observation) -> None: ...
    def attempted(self, attempt: Attempt) -> None: ...
    def note(self, text: str) -> None: ...
