"""The folders of this user that triage writes in: state that must stay, and what may be lost at any time."""

from __future__ import annotations

from pathlib import Path

from platformdirs import user_cache_dir, user_state_dir


def find_state_folder() -> Path:
    """The XDG state folder for triage."""
    return Path(user_state_dir("triage"))


def find_cache_folder() -> Path:
    """The XDG cache folder for triage."""
    return Path(user_cache_dir("triage"))
