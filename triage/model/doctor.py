"""What triage can and cannot do for one service, found without changing anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Ability = Literal["ok", "limited", "no"]


@dataclass(frozen=True)
class DoctorCheck:
    """One line of the answer. `todo` is what the operator can do about it; "" where nothing is to be done."""

    name: str  # "ssh", "sudo", "unit", ...
    ability: Ability
    why: str
    todo: str = ""
    needed: bool = False  # `run` cannot do its work where this is "no"


@dataclass(frozen=True)
class Checkup:
    """All of it, in the order in which one rests on the other."""

    host: str
    service: str
    checks: tuple[DoctorCheck, ...]
    reached: bool = True  # False: the host could not be asked anything

    @property
    def fit(self) -> bool:
        """Whether everything that `run` needs is there."""
        return self.reached and not any(c.needed and c.ability == "no" for c in self.checks)
