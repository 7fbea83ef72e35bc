"""Flags of the server and the values of its settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from triage.model.source import Location


@dataclass(frozen=True)
class Flag:
    """One option of the server's parser."""

    dest: str
    names: tuple[str, ...]  # all spellings, the canonical long one first
    kind: Literal["value", "switch", "list", "optional", "other"]  # switch: present or absent
    type: str | None  # "int", "float", "str", or the name of the converter
    default: str | None  # repr
    choices: tuple[str, ...] | None
    required: bool = False
    help: str = ""
    deprecated: bool = False


Origin = Literal["typed", "config_file", "environment", "default", "derived", "observed", "unknown"]


@dataclass(frozen=True)
class Setting:
    """A field's value at the failure (or at the end of validation), as repr, and where it came from."""

    field: str
    value: str  # repr, or "unknown: <reason>"
    origin: Origin
    typed: str | None = None  # the spelling and value as typed
    location: Location | None = None  # the line that derived it


@dataclass(frozen=True)
class SilentChange:
    """A typed value that validation replaces without refusing it."""

    field: str
    asked: str
    used: str
    location: Location | None
    why: str = ""  # the tests that led there, in words, and what the log would say
