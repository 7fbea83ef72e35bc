"""What evaluation foresees held against the validation that is installed: a package of our own, judged by running it here."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.analysis.small_server import PROFILE, SOURCE
from tests.loop.toyhost import Recorder
from triage.engines import ProfileEngine
from triage.hosts.local import LocalHost
from triage.loop.capture import capture_launch
from triage.loop.foreknow import foresee_on_host
from triage.loop.rehearse import rehearse_launches
from triage.model import Edit, Foresight, Rehearsal
from triage.services.command import CommandService

# A check that hangs on what no source tells, and that this machine always answers in the same way.
UNKNOWN = "        if os.getloadavg()[0] >= 0 and self.mode is not None:\n            assert {}, 'this host wants it'\n"
HEAD = "    def check_both(self):\n"
MAIN = "import sys\nfrom small.args import prepare_server_args\nprepare_server_args(sys.argv[1:])\n"
ENGINE = ProfileEngine(replace(PROFILE, entries=(("-m", "small"),)))


class Target:
    """The small package as installed in a folder, with one check more."""

    def __init__(self, folder: Path, check: str | None, recorder: Recorder) -> None:
        self.folder, self.recorder = folder, recorder
        self.batches: list[tuple[str, ...]] = []
        (folder / "small").mkdir(exist_ok=True)
        source = SOURCE.replace(HEAD, HEAD + UNKNOWN.format(check)) if check else SOURCE
        for name, text in (("__init__", ""), ("args", source), ("__main__", MAIN)):
            (folder / "small" / f"{name}.py").write_text(text)

    def check(self, *args: str) -> Foresight:
        argv = (sys.executable, "-m", "small", "--model", "m", *args)
        env = {"PYTHONPATH": str(self.folder), "PATH": os.environ["PATH"]}
        service = CommandService(LocalHost(), argv, str(self.folder / "log"), env, str(self.folder), split=ENGINE.split_command)

        def rehearse(launches: Sequence[tuple[Edit, ...]]) -> Rehearsal:
            found = rehearse_launches(service.host, service, ENGINE, launches)
            assert found.problem is None, (found.problem, found.hint)
            self.batches.append(tuple(a.outcome for a in found.answers))
            return found

        capture = capture_launch(service.host, service, ENGINE, self.recorder)
        capture = replace(capture, facts=replace(capture.facts, device="cuda"))
        return foresee_on_host(capture, PROFILE, rehearse)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def names(edits: Sequence[Edit]) -> set[str]:
    return {e.name for e in edits}


def test_what_was_foreseen_is_confirmed_in_one_batch(folder: Path, recorder: Recorder) -> None:
    target = Target(folder, None, recorder)
    found = target.check("--mode", "tree", "--budget", "3")
    assert (found.outcome, found.rehearsed, len(target.batches)) == ("patch", "fails", 1)
    assert {p.certainty for p in found.patches} == {"rehearsed"}
    assert len(found.failures) == 2, "width, then depth"


def test_a_launch_that_hangs_on_what_is_not_known_is_settled_by_the_host(folder: Path, recorder: Recorder) -> None:
    target = Target(folder, "self.mode == 'tree'", recorder)
    found = target.check("--mode", "ring", "--format", "dense")
    assert (found.outcome, found.rehearsed) == ("patch", "fails"), found
    failure = found.failures[0].failure
    assert (failure.exception, failure.message) == ("AssertionError", "this host wants it")
    assert failure.site is not None and failure.site.function == "check_both"
    assert found.patches and {p.certainty for p in found.patches} == {"rehearsed"}

    passing = target.check("--mode", "tree")
    assert (passing.outcome, passing.rehearsed, passing.failures, passing.unknowns) == ("passes", "passes", (), ())


def test_a_patch_that_the_host_refuses_is_carried_on_without_a_start(folder: Path, recorder: Recorder) -> None:
    target = Target(folder, "self.no_cache", recorder)
    found = target.check("--mode", "tree", "--budget", "3")
    assert (found.outcome, found.rehearsed) == ("patch", "fails")
    assert names(found.patches[0].edits) == {"--width", "--depth", "--no-cache"}
    assert found.patches[0].certainty == "rehearsed"
    assert len(target.batches) == 2 and "passes" not in target.batches[0] and "passes" in target.batches[1]


def test_where_the_host_refuses_everything_nothing_is_proposed(folder: Path, recorder: Recorder) -> None:
    found = Target(folder, "False", recorder).check("--mode", "tree", "--budget", "3")
    assert found.patches and {p.certainty for p in found.patches} == {"rehearsed"}
    assert all("--mode" in names(p.edits) for p in found.patches), "only taking the mode away passes"
    both = Target(folder, "False", recorder).check("--mode", "tree", "--width", "1", "--secret-path", "a:b")
    assert (both.outcome, both.rehearsed, both.patches) == ("no_patch", "fails", ()), both.patches
