"""Outcome -> exit code, as the interface contract has them."""

from __future__ import annotations

from triage.model import OutcomeName

EXIT: dict[OutcomeName, int] = {
    "patch": 0,
    "passes": 0,
    "unknown": 0,
    "healthy": 0,
    "fixed": 0,
    "no_patch": 1,
    "needs_consent": 1,
    "not_applied": 1,
    "would_fail": 1,
    "no_failure": 3,
    "out_of_budget": 4,
}


def exit_code(outcome: OutcomeName, live: bool = False) -> int:
    """`live`: a service was meant to be repaired, so a patch that was only proposed is not enough."""
    return 1 if live and outcome == "patch" else EXIT[outcome]
