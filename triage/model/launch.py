"""The launch, what is true of its host, and what a capture says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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
    texts: Mapping[str, str] = field(default_factory=dict, repr=False)  # of small files named in the launch: path -> text


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
    gave_up: str | None = None  # why a watch of this run ended before it was healthy or dead


@dataclass(frozen=True)
class ModelConfig:
    """The config.json of a model that the launch names by a local path."""

    path: str  # as typed in the launch
    text: str  # the file's JSON
    files: tuple[str, ...] | None = None  # all names in the folder; None when not listed
