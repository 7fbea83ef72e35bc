"""PURE: a capture in, a diagnosis out. Reads the capture's files and nothing else; never imports or runs the target."""

from __future__ import annotations

from triage.analysis.diagnose import diagnose
from triage.analysis.mismatch import Mismatch, find_mismatch
from triage.analysis.patch import Limits

__all__ = ["Limits", "Mismatch", "diagnose", "find_mismatch"]
