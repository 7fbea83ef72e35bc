"""What a launch would do before it is started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from triage.model.base import OutcomeName
from triage.model.diagnosis import Cause, Patch, Unknown
from triage.model.failure import Failure
from triage.model.launch import CaptureMeta, Facts
from triage.model.settings import Setting, SilentChange
from triage.model.source import PathCondition


@dataclass(frozen=True)
class Foreseen:
    """One failure of a chain: that of the launch as typed, or the next one once the steps before it are taken.

    `args` and `env` are the launch that fails here. The edits of `step` are those that get past this failure alone; its
    `args` are the launch with all steps so far. None: no change was found that does.
    """

    failure: Failure
    path: PathCondition | None
    cause: Cause
    args: tuple[str, ...]
    env: Mapping[str, str]  # only the variables that the steps before set
    step: Patch | None = None
    settings: tuple[Setting, ...] = ()  # the ones that the cause involves


@dataclass(frozen=True)
class Foresight:
    """What the whole argument validation does with a launch.

    `outcome` is "passes" (nothing refuses it), "unknown" (nothing surely refuses it), or of a launch that would fail:
    "patch", "needs_consent" or "no_patch". `failures` come in the order in which they would be met.
    """

    outcome: OutcomeName
    failures: tuple[Foreseen, ...]
    patches: tuple[Patch, ...]  # past the whole validation, best first
    silent: tuple[SilentChange, ...]  # of the launch as typed, as far as its validation gets
    unknowns: tuple[Unknown, ...]
    meta: CaptureMeta
    facts: Facts  # as known; without a device, CUDA was assumed
    models: tuple[str, ...]  # whose config.json was read, as named in the launch
    args: tuple[str, ...]
    statements: int = 0  # of validation that were evaluated for the launch as typed
    assumed: bool = False  # host or model are not known: what fails is what would on the host that `unknowns` describe
    rehearsed: Literal["passes", "fails"] | None = None  # what the host's own validation says of the launch as typed

    @property
    def fails(self) -> bool:
        return bool(self.failures)
