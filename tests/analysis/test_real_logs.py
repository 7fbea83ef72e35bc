"""Logs after public threads and of real runs: the failure that a person found in each, and none in the healthy ones."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from log_framings import LOGS

from triage.analysis.failure import find_failure
from triage.analysis.log import read_log
from triage.knowledge import load_profile
from triage.model import ExitStatus, Failure

PROFILE = load_profile("sglang")
FAILURES = sorted(path.stem for path in (LOGS / "failures").glob("*.toml"))
HEALTHY = sorted(path.stem for path in (LOGS / "healthy").glob("*.toml"))
# Excerpts in which no line tells of a death: nothing but what the server says that it goes on from.
SILENT = frozenset({"package-transformers-without-glm4v"})


def load(folder: str, name: str) -> tuple[bytes, dict[str, Any]]:
    path = LOGS / folder / f"{name}.toml"
    return path.with_suffix(".txt").read_bytes(), tomllib.loads(path.read_text())


@cache
def find(folder: str, name: str) -> Failure | None:
    """As of a bare log: nothing is known of how the process ended."""
    return find_failure(read_log(load(folder, name)[0]), ExitStatus(None, None), "sglang", None, PROFILE.fatal_marks)


def short(exception: str | None) -> str:
    return (exception or "").rpartition(".")[2]


@pytest.mark.parametrize("name", [name for name in FAILURES if name not in SILENT])
def test_the_failure_is_the_one_that_a_person_found(name: str) -> None:
    raw, label = load("failures", name)
    failure = find("failures", name)
    assert failure is not None
    wanted = short(label["exception"])
    raised = [short(failure.exception), *(short(one.exception) for one in failure.chain)]
    if not wanted:
        return
    assert wanted in raised
    text = raw.decode("utf-8", "replace")
    frames = [*failure.frames, *(frame for one in failure.chain for frame in one.frames)]
    if label["function"] and f", in {label['function']}\n" in text:
        assert label["function"] in [frame.function for frame in frames]


def test_the_line_of_the_root_failure_is_in_the_failure() -> None:
    inside, outside = 0, []
    for name in FAILURES:
        label, failure = load("failures", name)[1], find("failures", name)
        if not label["log_line"] or name in SILENT:
            continue
        assert failure is not None
        spans = [(failure.first or 0, failure.last or 0), *((one.first, one.last) for one in failure.chain)]
        if any(first <= label["log_line"] <= last for first, last in spans):
            inside += 1
        else:
            outside.append(name)
    # In the others a library's warning before the exception tells the cause; that is for the signatures.
    assert inside >= 0.9 * (inside + len(outside)), outside


def test_an_exception_that_only_passes_on_another_names_its_origin() -> None:
    known = {name: failure for name in FAILURES if (failure := find("failures", name)) and failure.origin}
    assert len(known) >= 4
    for name, failure in known.items():
        assert failure.origin is not None
        deeper = failure.chain[failure.chain.index(failure.origin) :]  # it may itself have been raised from another
        assert short(load("failures", name)[1]["exception"]) in [short(one.exception) for one in deeper], name


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_log_holds_no_failure(name: str) -> None:
    failure = find("healthy", name)
    assert failure is None, (failure.exception, failure.message[:200], failure.first)


def test_there_are_enough_logs() -> None:
    assert len(FAILURES) >= 80
    assert all(Path(LOGS / folder / f"{name}.txt").is_file() for folder in ("failures",) for name in FAILURES)
