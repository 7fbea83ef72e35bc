"""What the engine's own validation, as installed on the host, says of launches that are not started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from triage.model.diagnosis import Edit
from triage.model.launch import ExitStatus

RehearsedOutcome = Literal[
    "passes",
    "fails",  # validation raised
    "usage",  # the parser refused the command line
    "exit",  # it ended by itself without a failure (`--help`)
    "offline",  # it needed the network, which a rehearsal does not have: nothing is known of this launch
    "timeout",
    "memory",  # it was ended at the memory limit
    "crash",  # it died without an answer
]


@dataclass(frozen=True)
class Rehearsed:
    """One launch as it was judged: the service's own launch with `edits` made."""

    edits: tuple[Edit, ...]
    outcome: RehearsedOutcome
    why: str = ""  # one line: the exception and its message, or what ended it; "" where it passes
    log: bytes = field(default=b"", repr=False)  # what the server would have logged up to there, traceback included; masked
    # field -> repr after validation, as far as it got; masked
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    # field -> repr of what the parser made of the command line, before validation decided anything; {} where it did not get there
    asked: Mapping[str, str] = field(default_factory=dict, repr=False)
    exit: ExitStatus = field(default_factory=ExitStatus)
    seconds: float = 0.0


@dataclass(frozen=True)
class Rehearsal:
    """One batch. `answers` come in the order of the questions; they are () where `problem` says why the host cannot rehearse."""

    answers: tuple[Rehearsed, ...] = ()
    problem: str | None = None
    hint: str = ""
    prepared: float = 0.0  # seconds until the first launch could be judged: the interpreter's start and one import
    seconds: float = 0.0  # all of it, the way to the host included
    notes: tuple[str, ...] = ()  # what was not as in a real start, in this batch
