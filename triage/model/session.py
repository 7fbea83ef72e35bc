"""What the service manager says, what a watch saw, and a whole session."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from triage.model.base import OutcomeName
from triage.model.change import Plan
from triage.model.diagnosis import Diagnosis, Patch
from triage.model.launch import CaptureMeta, ExitStatus


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
