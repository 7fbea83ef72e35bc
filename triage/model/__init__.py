"""Every frozen record that crosses a module line; the modules follow the order of the pipeline. Stdlib only.

Paths called `file` are relative to the folder that holds the package (`sglang/srt/server_args.py`) unless a
record says otherwise; line numbers start at 1. No record holds a syntax node, a socket or an exception.
"""

from __future__ import annotations

from triage.model.base import MASK, SCHEMA, Certainty, FailureKind, JsonValue, OutcomeName
from triage.model.change import Command, CommandResult, Plan, RemoveFile, RunCommand, Secret, Step, WriteFile
from triage.model.diagnosis import Cause, Constraint, Diagnosis, Edit, Evidence, Patch, Unknown
from triage.model.failure import Failure, Frame, Log, LogRecord, Raised, SetAside
from triage.model.launch import CaptureMeta, ExitStatus, Facts, Launch, ModelConfig
from triage.model.session import Attempt, LogChunk, Observation, ServiceState, Session
from triage.model.settings import Flag, Origin, Setting, SilentChange
from triage.model.source import Atom, AtomKind, Guard, Location, PathCondition, Read, ReadKind, Site

__all__ = [
    "MASK",
    "SCHEMA",
    "Atom",
    "AtomKind",
    "Attempt",
    "CaptureMeta",
    "Cause",
    "Certainty",
    "Command",
    "CommandResult",
    "Constraint",
    "Diagnosis",
    "Edit",
    "Evidence",
    "ExitStatus",
    "Facts",
    "Failure",
    "FailureKind",
    "Flag",
    "Frame",
    "Guard",
    "JsonValue",
    "Launch",
    "Location",
    "Log",
    "LogChunk",
    "LogRecord",
    "ModelConfig",
    "Observation",
    "Origin",
    "OutcomeName",
    "Patch",
    "PathCondition",
    "Plan",
    "Raised",
    "Read",
    "ReadKind",
    "RemoveFile",
    "RunCommand",
    "Secret",
    "ServiceState",
    "Session",
    "SetAside",
    "Setting",
    "SilentChange",
    "Site",
    "Step",
    "Unknown",
    "WriteFile",
]
