"""Loads knowledge/ into records, strictly: a file that does not follow its schema is refused by name and key."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

from triage.errors import KnowledgeError
from triage.knowledge.failures import read_failures, read_figures
from triage.knowledge.flags import read_foreign_flags
from triage.knowledge.profiles import PROFILE_SCHEMA, ProfileReader
from triage.knowledge.tables import read_table
from triage.protocols import EngineProfile

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


def data_root() -> Path:
    """The knowledge folder: beside the package in a checkout, inside the package in an installed wheel."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "_data" / "knowledge"
    return installed if installed.is_dir() else package.parent / "knowledge"


def profile_names() -> tuple[str, ...]:
    """The engines that have a profile, sorted."""
    return tuple(sorted(p.parent.name for p in data_root().glob("*/profile.toml")))


@cache
def load_profile(name: str) -> EngineProfile:
    """The profile of one engine. Raises KnowledgeError for an unknown name and for a file that breaks the schema."""
    if not _NAME.fullmatch(name) or name not in profile_names():
        raise KnowledgeError(f"no engine profile named {name!r}", hint=f"known: {', '.join(profile_names())}")
    path = data_root() / name / "profile.toml"
    return replace(read_profile(path), foreign=read_foreign_flags(path.with_name("flags.toml")))


def read_profile(path: Path) -> EngineProfile:
    """Read one profile.toml, with the failures/*.toml and the figures.toml beside it where they are.

    Raises KnowledgeError naming the file and the key.
    """
    profile = ProfileReader(path, read_table(path)).profile()
    signatures = read_failures(path.parent / "failures")
    return replace(profile, signatures=signatures, figures=read_figures(path.parent / "figures.toml"))


__all__ = ["PROFILE_SCHEMA", "data_root", "load_profile", "profile_names", "read_profile"]
