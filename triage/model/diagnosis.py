"""The cause, the patches, and the whole answer for one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from triage.model.base import Certainty, OutcomeName
from triage.model.failure import Failure
from triage.model.settings import Setting, SilentChange
from triage.model.source import Location, PathCondition


@dataclass(frozen=True)
class Evidence:
    """One thing a claim rests on."""

    kind: Literal["log", "source", "knowledge", "fact", "setting", "evaluation", "rehearsal", "attempt"]
    text: str
    location: Location | None = None
    log_line: int | None = None
    knowledge_id: str | None = None


@dataclass(frozen=True)
class Constraint:
    """When A, need B: both are source-level conditions in words; `fields` are the settings that belong together."""

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
