"""The life of one setting: declared, defaulted, overwritten, checked, and read to decide others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from triage.model.diagnosis import Unknown
from triage.model.settings import Flag, Origin
from triage.model.source import Guard, Location

LifeKind = Literal["default", "overwrite", "check", "decides", "any_field"]


@dataclass(frozen=True)
class Declaration:
    """Where the field stands in the source, as written there, and the flags that set it (the one to type first)."""

    location: Location | None
    text: str
    flags: tuple[Flag, ...]


@dataclass(frozen=True)
class LifeEvent:
    """One place of a setting's life.

    `guards` are those from the entry of its function; `outer` those on the way to the function, where only one way is
    known. `when` says both in words, nearest last. `rank` orders what validation reaches; None: it is not known when,
    or whether, the place is reached. `says` is the text of a log call beside a write; "" for a silent one.
    """

    kind: LifeKind
    location: Location
    function: str
    text: str  # the statement's source
    how: str  # "assignment", "declare_resolution", "setattr", "returned dict", "assert", "raise", ...
    when: tuple[str, ...] = ()
    guards: tuple[Guard, ...] = ()
    outer: tuple[Guard, ...] = ()
    rank: int | None = None
    says: str = ""
    own_test: bool = True  # of a check: its own test reads the setting, and not only a branch further out
    fields: tuple[str, ...] = ()  # of kind "decides": the settings that are written there


@dataclass(frozen=True)
class LifeValue:
    """A value that the setting has in one launch, as repr or "unknown: <reason>", and what gave it."""

    value: str
    origin: Origin
    location: Location | None = None
    function: str = ""
    says: str = ""  # what validation logs where it writes this; "" for a silent write


@dataclass(frozen=True)
class LaunchValues:
    """The values that one launch gives a setting, in order; the last is the one that validation ends with."""

    typed: str | None  # as typed
    values: tuple[LifeValue, ...]
    replaced: bool  # what was typed is not what is used
    silent: bool  # replaced, and no line of the log says so
    stops: str = ""  # where validation surely ends before its end
    unsure: tuple[str, ...] = ()  # what the values hang on


@dataclass(frozen=True)
class SettingLife:
    """Everything that the source says about one setting; events in the order in which validation reaches them."""

    field: str
    declaration: Declaration
    writes: tuple[LifeEvent, ...]
    checks: tuple[LifeEvent, ...]
    decisions: tuple[LifeEvent, ...]
    any_field: tuple[LifeEvent, ...]  # statements that write whichever field they are given
    reads: int  # places in the functions on the way that read it, those above included
    files: tuple[str, ...]  # with an event, sorted
    launch: LaunchValues | None = None
    unknowns: tuple[Unknown, ...] = ()
