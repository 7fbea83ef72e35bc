"""Every frozen record that crosses a module line, in the order of the pipeline. Stdlib only.

Paths called `file` are relative to the folder that holds the package (`sglang/srt/server_args.py`) unless a
record says otherwise; line numbers start at 1. No record holds a syntax node, a socket or an exception.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

SCHEMA = 1
MASK = "<masked>"

Certainty = Literal["rehearsed", "proved", "likely", "guess"]
FailureKind = Literal["exception", "usage", "signal", "exit", "timeout"]
OutcomeName = Literal[
    "patch", "no_patch", "no_failure", "healthy", "fixed", "needs_consent", "out_of_budget", "not_applied", "would_fail", "passes"
]
JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]


# ---------------------------------------------------------------- launch, facts, capture
@dataclass(frozen=True)
class Launch:
    """The command that starts the server. Values of secret flags and variables are already MASK here."""

    entry: tuple[str, ...]  # the words before the server's own arguments: ("/v/bin/python", "-m", "sglang.launch_server")
    args: tuple[str, ...]  # the server's own arguments
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    user: str | None = None

    @property
    def argv(self) -> tuple[str, ...]:
        return self.entry + self.args


@dataclass(frozen=True)
class ExitStatus:
    """How the main process ended; both None when it still runs or is not known."""

    code: int | None = None
    signal: int | None = None


@dataclass(frozen=True)
class Facts:
    """True of the host, learned read-only; None is unknown. The names are fixed by the interface contract."""

    device: str | None = None  # cuda, cpu, hip, npu, xpu, ...
    gpu_name: str | None = None
    gpu_count: int | None = None
    gpu_memory_mib: int | None = None  # of one GPU
    compute_capability: str | None = None  # "9.0"
    cuda_version: str | None = None  # "12.8"
    python_version: str | None = None  # "3.11.7"
    machine: str | None = None  # "x86_64", "aarch64"
    packages: Mapping[str, str] = field(default_factory=dict)  # installed distributions: name -> version
    paths: Mapping[str, str] = field(default_factory=dict)  # named in the launch: path -> "file" | "dir" | "absent"


@dataclass(frozen=True)
class CaptureMeta:
    """What capture.toml holds beside launch and facts."""

    host: str
    service: str  # the unit's name, or the log's path for a plain command
    service_kind: str  # "systemd", "command", "log"
    engine: str  # "sglang"
    engine_version: str | None
    source_root: str | None  # on the host: the folder that holds the package
    run: str | None  # the run's identity (systemd invocation id, pid), None when unknown
    when: str | None  # ISO 8601, UTC
    exit: ExitStatus = ExitStatus()
    active: str | None = None  # the service manager's word at capture: "failed", "active", "activating", ...
    notes: tuple[str, ...] = ()  # what could not be captured, and why


@dataclass(frozen=True)
class ModelConfig:
    """The config.json of a model that the launch names by a local path."""

    path: str  # as typed in the launch
    text: str  # the file's JSON
    files: tuple[str, ...] | None = None  # all names in the folder; None when not listed


# ---------------------------------------------------------------- log and failure
@dataclass(frozen=True)
class LogRecord:
    """One message without its framing. `first`/`last` are raw line numbers in log.txt, from 1."""

    text: str
    first: int
    last: int
    rank: str | None = None  # "TP0", "DP0 TP1", ...
    level: str | None = None
    stamp: str | None = None  # the logger's clock (or level) as printed in front; None for a bare line
    lines: tuple[int, ...] = ()  # the raw line of each line of `text`, where they do not simply follow one another


@dataclass(frozen=True)
class Log:
    """The records in the order of the file; `notes` says what was cut, suppressed or unreadable."""

    records: tuple[LogRecord, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Frame:
    """One frame of a traceback as printed, outermost first in a list."""

    path: str  # as printed
    line: int
    function: str
    text: str  # the source line as printed, stripped; "" when absent
    file: str | None = None  # relative to the folder that holds the engine's package; None outside it


@dataclass(frozen=True)
class Raised:
    """One exception of a traceback chain."""

    exception: str  # "AssertionError", "torch.OutOfMemoryError"
    message: str
    frames: tuple[Frame, ...]
    first: int  # raw log lines
    last: int
    rank: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class SetAside:
    """A failure in the log that is not the cause, and why."""

    what: str
    why: str
    line: int


@dataclass(frozen=True)
class Failure:
    """The one failure that matters. For kind "usage", `message` is the parser's error text."""

    kind: FailureKind
    exception: str | None
    message: str
    frames: tuple[Frame, ...] = ()
    chain: tuple[Raised, ...] = ()  # what it was raised from, innermost cause last
    ranks: tuple[str, ...] = ()
    first: int | None = None  # raw log lines
    last: int | None = None
    signal: int | None = None
    set_aside: tuple[SetAside, ...] = ()

    @property
    def site(self) -> Frame | None:
        """The innermost frame inside the engine's package, else the innermost frame."""
        inside = [f for f in self.frames if f.file]
        return inside[-1] if inside else (self.frames[-1] if self.frames else None)


# ---------------------------------------------------------------- source
@dataclass(frozen=True)
class Location:
    file: str
    line: int
    end_line: int | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Guard:
    """A test that had to come out one way for control to reach a site."""

    location: Location
    text: str  # the test's source, on one line
    came_out: bool
    kind: Literal["if", "elif", "while", "early_exit", "assert", "for", "except", "with", "match", "ternary", "boolop"]
    leaves: str = ""  # of an early exit: how the way not taken leaves: "raise", "return", "continue", "break", "exit", "mixed"


@dataclass(frozen=True)
class Site:
    """The smallest statement that holds a frame's line, with its source and its guards (outermost first)."""

    location: Location
    function: str
    kind: str  # "assert", "raise", "if", "assign", "call", ...
    text: str  # the statement's source, dedented
    guards: tuple[Guard, ...] = ()
    matches: bool = True  # False: the traceback's printed text is not what stands at that line
    at: int | None = None  # the line inside the statement that the frame (or the text found in its place) points at


ReadKind = Literal["setting", "environment", "fact", "model", "constant", "local", "parameter", "literal"]
AtomKind = Literal["compare", "truth", "isinstance", "membership", "call", "quantifier", "opaque"]


@dataclass(frozen=True)
class Read:
    """One thing that a condition reads. `through` names the locals on the way from the condition to it, nearest first."""

    kind: ReadKind
    name: str  # field, variable, dotted callee or attribute chain, local name, repr of a literal
    text: str  # as it stands in the source
    through: tuple[str, ...] = ()


@dataclass(frozen=True)
class Atom:
    """A test without and/or/not. `holds` False: it stands under an odd number of `not`. `why` says what makes it opaque."""

    text: str
    kind: AtomKind
    holds: bool = True
    reads: tuple[Read, ...] = ()
    operator: str = ""  # of compare and membership: "is not", ">", "in", ...
    operands: tuple[str, ...] = ()  # of compare and membership: left, right
    why: str = ""


@dataclass(frozen=True)
class PathCondition:
    """The sites of the failing path, outermost first; the last one raised."""

    sites: tuple[Site, ...]


# ---------------------------------------------------------------- flags and settings
@dataclass(frozen=True)
class Flag:
    """One option of the server's parser."""

    dest: str
    names: tuple[str, ...]  # all spellings, the canonical long one first
    kind: Literal["value", "switch", "list", "optional", "other"]  # switch: present or absent
    type: str | None  # "int", "float", "str", or the name of the converter
    default: str | None  # repr
    choices: tuple[str, ...] | None
    required: bool = False
    help: str = ""
    deprecated: bool = False


Origin = Literal["typed", "config_file", "environment", "default", "derived", "observed", "unknown"]


@dataclass(frozen=True)
class Setting:
    """A field's value at the failure (or at the end of validation), as repr, and where it came from."""

    field: str
    value: str  # repr, or "unknown: <reason>"
    origin: Origin
    typed: str | None = None  # the spelling and value as typed
    location: Location | None = None  # the line that derived it


@dataclass(frozen=True)
class SilentChange:
    """A typed value that validation replaces without refusing it."""

    field: str
    asked: str
    used: str
    location: Location | None


# ---------------------------------------------------------------- cause and patches
@dataclass(frozen=True)
class Evidence:
    """One thing a claim rests on."""

    kind: Literal["log", "source", "knowledge", "fact", "setting", "evaluation", "attempt"]
    text: str
    location: Location | None = None
    log_line: int | None = None
    knowledge_id: str | None = None


@dataclass(frozen=True)
class Constraint:
    """ "When A, need B": `when` and `need` are source-level conditions in words; `fields` are the settings that belong together."""

    when: tuple[str, ...]
    need: str
    fields: tuple[str, ...]
    location: Location

    @property
    def text(self) -> str:
        return f"when {' and '.join(self.when)}, need {self.need}" if self.when else f"need {self.need}"


@dataclass(frozen=True)
class Cause:
    category: str  # "argument", "usage", "memory", "model", "environment", "host", "unknown", ...
    text: str  # one paragraph for a person
    constraints: tuple[Constraint, ...] = ()
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True)
class Edit:
    """A change to one flag or variable. `new` None with action "add" is a switch."""

    action: Literal["add", "remove", "set", "env"]
    name: str
    old: str | None = None
    new: str | None = None


@dataclass(frozen=True)
class Patch:
    edits: tuple[Edit, ...]
    args: tuple[str, ...]  # the whole new server argument list
    env: Mapping[str, str]  # only the variables that the patch sets
    certainty: Certainty
    why: str
    losses: tuple[str, ...] = ()  # what the user asked for and would not get
    silent: tuple[SilentChange, ...] = ()  # of the patched launch


@dataclass(frozen=True)
class Unknown:
    """Something triage does not know, why, and what would settle it."""

    what: str
    why: str
    settle: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """The answer for one run. `outcome` is the offline one: patch, no_patch, no_failure, needs_consent."""

    outcome: OutcomeName
    failure: Failure | None
    path: PathCondition | None
    cause: Cause | None
    patches: tuple[Patch, ...] = ()
    settings: tuple[Setting, ...] = ()  # the ones that the cause involves
    silent: tuple[SilentChange, ...] = ()  # of the launch as typed
    unknowns: tuple[Unknown, ...] = ()


# ---------------------------------------------------------------- changing a host
@dataclass(frozen=True)
class Secret:
    """Text that must not be shown; only a host asks for `reveal()`."""

    _value: str = field(repr=False)

    def reveal(self) -> str:
        return self._value

    def __str__(self) -> str:
        return MASK


@dataclass(frozen=True)
class Command:
    """An argv for a host; quoting and masking happen in the host. `timeout` is in seconds."""

    argv: tuple[str | Secret, ...]
    stdin: bytes = b""
    timeout: float = 30.0
    root: bool = False  # needs root: the host uses sudo where the login is not root
    max_output: int = 64 * 1024 * 1024  # bytes kept of each stream

    def __str__(self) -> str:
        return " ".join(str(a) for a in self.argv)


@dataclass(frozen=True)
class CommandResult:
    status: int
    stdout: bytes
    stderr: bytes


@dataclass(frozen=True)
class WriteFile:
    """Write `data` atomically at `path`. `expect` is the sha256 (hex) of what must stand there before; None: nothing."""

    path: str
    data: bytes = field(repr=False)
    mode: int = 0o644
    expect: str | None = None
    as_root: bool = False  # pass `root=True` to the host


@dataclass(frozen=True)
class RemoveFile:
    """Remove `path` (and the folder `and_folder` if it is then empty). `expect` as in WriteFile."""

    path: str
    expect: str | None = None
    and_folder: str | None = None
    as_root: bool = False


@dataclass(frozen=True)
class RunCommand:
    """Run a command that changes the host; a non-zero status fails the plan."""

    command: Command


Step = WriteFile | RemoveFile | RunCommand


@dataclass(frozen=True)
class Plan:
    """The exact steps of a change and, in the order to run them, the steps that undo it."""

    what: str
    steps: tuple[Step, ...]
    undo: tuple[Step, ...]
    diff: str = ""  # unified diff of the launch for a person, masked


@dataclass(frozen=True)
class ServiceState:
    """What the service manager says now."""

    active: str  # "active", "failed", "activating", "inactive", "deactivating"
    sub: str
    run: str | None  # identity of the current or last run
    main_pid: int | None
    exit: ExitStatus
    result: str = ""  # the manager's own word: "exit-code", "start-limit-hit", "oom-kill", ...
    restarts: int = 0


@dataclass(frozen=True)
class LogChunk:
    """Raw message bytes, one record a line, and a cursor to read on from."""

    data: bytes
    cursor: str | None
    cut: bool = False  # earlier messages of this run were left out (size limit)


@dataclass(frozen=True)
class Observation:
    """What the watch saw of one run."""

    verdict: Literal["healthy", "failed", "timeout", "interrupted"]
    phase: str  # the last phase reached
    seconds: float
    why: str
    run: str | None = None
    log: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class Attempt:
    """One turn of the loop."""

    number: int
    patch: Patch | None
    observation: Observation | None
    diagnosis: Diagnosis | None


@dataclass(frozen=True)
class Session:
    """All turns for one target."""

    id: str
    host: str
    service: str
    started: str  # ISO 8601, UTC
    outcome: OutcomeName
    why: str
    diagnosis: Diagnosis | None  # of the failure that the session began with
    attempts: tuple[Attempt, ...] = ()
    applied: Patch | None = None
    plan: Plan | None = None
    meta: CaptureMeta | None = None
