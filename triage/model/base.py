"""Constants and small types that the records share."""

from __future__ import annotations

from typing import Literal

SCHEMA = 1
MASK = "<masked>"

Certainty = Literal["rehearsed", "proved", "likely", "guess"]
FailureKind = Literal["exception", "usage", "signal", "exit", "timeout"]
OutcomeName = Literal[
    "patch",
    "no_patch",
    "no_failure",
    "healthy",
    "fixed",
    "needs_consent",
    "out_of_budget",
    "not_applied",
    "would_fail",
    "passes",
    "unknown",
]
JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]
