"""Real sglang installs and labelled failures for the tests of this folder; each use skips with its reason when absent."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from triage.analysis.trees import FolderTree
from triage.model import Failure, Frame

HERE = Path(__file__).resolve()
SHARED = Path(os.environ.get("TRIAGE_SHARED") or HERE.parents[2].parent / "shared")
ORACLE_HOME = Path(os.environ.get("ORACLE_HOME") or "/opt/oracle")
SNIPPETS = HERE.parent / "snippets"


def install(version: str) -> Path:
    """The site-packages folder of an installed release."""
    for found in sorted((ORACLE_HOME / version / "lib").glob("python*/site-packages")):
        if (found / "sglang").is_dir():
            return found
    pytest.skip(f"sglang {version} is not installed under {ORACLE_HOME} (ORACLE_HOME)")


def tree(version: str) -> FolderTree:
    return FolderTree(install(version))


def labelled(version: str) -> list[dict[str, Any]]:
    """The labelled failures of a release that have a traceback inside the package."""
    path = SHARED / "cases" / f"{version}.jsonl"
    if not path.is_file():
        pytest.skip(f"{path} is absent (TRIAGE_SHARED)")
    return [case for line in path.read_text().splitlines() if (case := json.loads(line))["file"]]


def failure(exception: str, message: str, traceback: str) -> Failure:
    return Failure("exception", exception, message, tuple(frames(traceback)))


def frames(traceback: str) -> Iterator[Frame]:
    lines = traceback.split("\n")
    for i, line in enumerate(lines):
        m = re.fullmatch(r'  File "(.*)", line (\d+), in (.*)', line)
        if m:
            text = lines[i + 1].strip() if i + 1 < len(lines) and lines[i + 1].startswith("    ") else ""
            at = m[1].find("/sglang/")
            yield Frame(m[1], int(m[2]), m[3], text, m[1][at + 1 :] if at >= 0 else None)
