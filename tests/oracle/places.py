"""Where the oracle's parts are: the harness, its facts and models, the installed releases; and how a release is run."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from platformdirs import user_cache_path

from triage.knowledge import load_profile

ROOT = Path(__file__).resolve().parents[2]
HARNESS = ROOT / "tests/oracle/harness"
FACTS = HARNESS / "facts"
MODELS = HARNESS / "models"
# What is beside the checkout in some places: labelled failures, and another oracle to compare with.
SHARED = Path(os.environ.get("TRIAGE_SHARED") or ROOT.parent / "shared")
RELEASES = ("0.4.6.post5", "0.5.5", "0.5.11", "0.5.16", "0.5.23")
_COMMON = Path("/opt/oracle")
_KEPT = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR")  # of our environment: nothing that validation decides by
_MAX_SECONDS = 1800


def find_home(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of the releases: ORACLE_HOME; else /opt/oracle where it holds some or can be written; else a cache."""
    if environ.get("ORACLE_HOME"):
        return Path(environ["ORACLE_HOME"]).absolute()
    there = next(p for p in (_COMMON, *_COMMON.parents) if p.exists())
    if next(_COMMON.glob("*/bin/python"), None) is not None or os.access(there, os.W_OK):
        return _COMMON
    return user_cache_path("triage-oracle")


ORACLE_HOME = find_home()


def python_of(release: str, home: Path = ORACLE_HOME) -> Path:
    return home / release / "bin/python"


def site_of(release: str, home: Path = ORACLE_HOME) -> Path:
    """The folder that holds the package. Raises AssertionError where the release is not installed."""
    found = next(iter((home / release / "lib").glob("python*/site-packages")), None)
    assert found is not None, why_absent(release)
    return found


def why_absent(release: str) -> str | None:
    """Why a release cannot be asked, and what to do; None when it can."""
    if python_of(release).exists():
        return None
    return f"not here: sglang {release} is not installed in {ORACLE_HOME}; to install: python -m tests.oracle.setup {release}"


@cache
def engine_names() -> str:
    """What the harness has to know of the engine, as JSON."""
    profile = load_profile("sglang")
    stages = [{"call": s.call, "unless_field": s.unless_field} for s in profile.stages]
    names = {"package": profile.package, "distribution": profile.distribution, "stages": stages, "view": profile.view}
    return json.dumps(names)


def run_environment() -> dict[str, str]:
    """Of a process that imports a release: the harness can be imported, and sets have one order."""
    kept = {k: os.environ[k] for k in _KEPT if k in os.environ}
    return {**kept, "PYTHONPATH": str(HARNESS.parent), "PYTHONHASHSEED": "0"}


def run_python(release: str, args: Sequence[str], text: str = "", home: Path = ORACLE_HOME) -> str:
    """Standard output of the release's interpreter; `text` is its input. Raises AssertionError where it fails."""
    command = [str(python_of(release, home)), *args]
    done = subprocess.run(
        command, input=text, cwd=home, env=run_environment(), capture_output=True, text=True, timeout=_MAX_SECONDS, check=False
    )
    if done.returncode:
        raise AssertionError(f"{' '.join(command)[:200]} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def run_harness(release: str, args: Sequence[str], text: str = "", home: Path = ORACLE_HOME) -> str:
    """The answers of the harness, a JSON value a line; see its README. Raises AssertionError where it fails."""
    return run_python(release, ["-m", "harness", "--names", engine_names(), *args], text, home)


def run_script(release: str, script: str, args: Sequence[str], text: str = "") -> str:
    """Standard output of a script that uses the harness's modules: `release = open_release(sys.argv[1], facts file or None)`.

    Its first two words are what it needs for that and the models' folder. It launches inside `make_folders`, so that what
    validation makes is thrown away.
    """
    return run_python(release, ["-c", script, engine_names(), str(MODELS), *args], text)
