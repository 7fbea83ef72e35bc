"""Every frozen record that crosses a module line; the modules follow the order of the pipeline. Stdlib only.

Paths called `file` are relative to the folder that holds the package (`sglang/srt/server_args.py`) unless a
record says otherwise; line numbers start at 1. No record holds a syntax node, a socket or an exception.
"""

from __future__ import annotations

from triage.model.base import MASK, SCHEMA, Certainty, FailureKind, JsonValue, OutcomeName
from triage.model.change import Command, CommandResult, Plan, RemoveFile, RunCommand, Secret, Step, WriteFile
from triage.model.diagnosis import Cause, Constraint, Diagnosis, Edit, Evidence, Patch, Unknown
from triage.model.doctor import Ability, Checkup, DoctorCheck
from triage.model.failure import Failure, Frame, Log, LogGap, LogRecord, PhaseSpan, Raised, SetAside
from triage.model.foresight import Foreseen, Foresight
from triage.model.launch import CaptureMeta, ExitStatus, Facts, Launch, ModelConfig
from triage.model.lives import Declaration, LaunchValues, LifeEvent, LifeKind, LifeValue, SettingLife
from triage.model.rehearsal import Rehearsal, Rehearsed, RehearsedOutcome
from triage.model.session import Attempt, LogChunk, Observation, ServiceState, Session
from triage.model.settings import Flag, Origin, Setting, SilentChange
from triage.model.signature import (
    FigureLine,
    Gap,
    Holding,
    HoleKind,
    Phrase,
    Remedy,
    RemedyKind,
    SaidLine,
    Signature,
    SignatureMatch,
    Try,
    Where,
)
from triage.model.source import (
    Atom,
    AtomKind,
    Guard,
    Leg,
    Location,
    PathCondition,
    Read,
    ReadKind,
    ResolvedGuard,
    Site,
    SiteCondition,
    Way,
)

__all__ = [
    "MASK",
    "SCHEMA",
    "Ability",
    "Atom",
    "AtomKind",
    "Attempt",
    "CaptureMeta",
    "Cause",
    "Certainty",
    "Checkup",
    "Command",
    "CommandResult",
    "Constraint",
    "Declaration",
    "Diagnosis",
    "DoctorCheck",
    "Edit",
    "Evidence",
    "ExitStatus",
    "Facts",
    "Failure",
    "FailureKind",
    "FigureLine",
    "Flag",
    "Foreseen",
    "Foresight",
    "Frame",
    "Gap",
    "Guard",
    "Holding",
    "HoleKind",
    "JsonValue",
    "Launch",
    "LaunchValues",
    "Leg",
    "LifeEvent",
    "LifeKind",
    "LifeValue",
    "Location",
    "Log",
    "LogChunk",
    "LogGap",
    "LogRecord",
    "ModelConfig",
    "Observation",
    "Origin",
    "OutcomeName",
    "Patch",
    "PathCondition",
    "PhaseSpan",
    "Phrase",
    "Plan",
    "Raised",
    "Read",
    "ReadKind",
    "Rehearsal",
    "Rehearsed",
    "RehearsedOutcome",
    "Remedy",
    "RemedyKind",
    "RemoveFile",
    "ResolvedGuard",
    "RunCommand",
    "SaidLine",
    "Secret",
    "ServiceState",
    "Session",
    "SetAside",
    "Setting",
    "SettingLife",
    "Signature",
    "SignatureMatch",
    "SilentChange",
    "Site",
    "SiteCondition",
    "Step",
    "Try",
    "Unknown",
    "Way",
    "Where",
    "WriteFile",
]
