"""What the server is: names from a profile, found on a host."""

from __future__ import annotations

from triage.engines.profile import ProfileEngine
from triage.knowledge import load_profile

__all__ = ["ProfileEngine", "open_engine"]


def open_engine(name: str = "sglang") -> ProfileEngine:
    """The engine of a profile. Raises KnowledgeError for an unknown name."""
    return ProfileEngine(load_profile(name))
