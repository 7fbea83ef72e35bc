"""What a candidate edit is, what it costs, and the launch that it is made for.

What an edit costs says how far it is from what the user meant: adding a companion is the cheapest, changing a typed value
costs more than three of those, removing one costs most.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from triage.analysis.evaluate import LocalTrial, Trial, Value
from triage.analysis.evaluate.values import Unknown
from triage.analysis.flags import Option, Options
from triage.argv import edit_args
from triage.model import Edit
from triage.protocols import EngineProfile, SourceTree

ADD, ENV, SET, REMOVE = 1.0, 2.2, 4.0, 7.0
CAPABILITY = 2.0  # more for taking a capability away
ROLE = 3.0  # more for making the server something else than was asked for
KIND = 9.0  # more for making it another kind of server: taking away what was typed is less
TURNS_OFF = 1.5  # more for a switch that turns something off
SUSPECT = 2.5  # less for changing a number that nobody means (0 GPUs) where the failing test reads it


@dataclass(frozen=True)
class Candidate:
    """Edits that belong together (a renamed flag is two) with the setting that they mean (None: not one setting) and
    what they cost in plausibility."""

    edits: tuple[Edit, ...]
    field: str | None
    value: Value
    cost: float


@dataclass(frozen=True)
class Context:
    """What candidates are made from."""

    options: Options
    profile: EngineProfile
    tree: SourceTree
    args: tuple[str, ...]
    env: Mapping[str, str]
    protected: bool = False  # whether protected settings may be edited too

    def is_free(self, name: str) -> bool:
        """Whether a setting or variable may be edited without a person's word."""
        return self.protected or self.protection(name) is None

    def protection(self, name: str) -> str | None:
        """Why it may not, None where it may. A switch holds no path, whatever its name says."""
        options = self.options.by_field.get(name, ())
        return self.profile.protection(name, switch=bool(options) and all(o.flag.kind == "switch" for o in options))


def edit_launch(
    args: Sequence[str], env: Mapping[str, str], edits: Sequence[Edit]
) -> tuple[tuple[str, ...], dict[str, str]] | None:
    """The arguments and the variables of a launch with edits made; None where one of them does not fit."""
    try:
        new = edit_args(args, edits)
    except ValueError:
        return None
    return new, {**env, **{e.name: e.new for e in edits if e.action == "env" and e.new is not None}}


def try_candidates(trial: LocalTrial, group: Sequence[Candidate]) -> Trial:
    """How the failing function comes out with all of these made; "unknown" where one means no single setting or variable."""
    settings: dict[str, Value] = {}
    env: dict[str, str] = {}
    for candidate in group:
        edit = candidate.edits[0]
        if candidate.field is not None:
            settings[candidate.field] = candidate.value
        elif edit.action == "env" and edit.new is not None:
            env[edit.name] = edit.new
        else:
            return "unknown"
    return trial.run(settings, env)


def turns_off(name: str) -> str | None:
    """What a switch of this spelling turns off, by its name; None where it turns something on."""
    match = re.match(r"--(?:disable|skip|no)-(.+)", name)
    return match.group(1).replace("-", " ") if match else None


def order_of(candidate: Candidate) -> tuple[float, str, str]:
    return (candidate.cost, candidate.edits[0].name, str(candidate.edits[0].new))


def default_of(option: Option) -> Value:
    default = option.action.default
    return None if isinstance(default, Unknown) else default
