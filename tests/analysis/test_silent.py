"""Typed values that validation replaces: told of the launch that failed and of the patched one, with the line and the reason."""

from __future__ import annotations

import traceback

from tests.analysis.small_server import PROFILE, SOURCE, TREE
from triage.analysis.diagnose import diagnose
from triage.model import CaptureMeta, Diagnosis, Facts, Launch, ModelConfig
from triage.protocols import Capture


def diagnose_run(*args: str) -> Diagnosis:
    """The diagnosis of what Python prints when the package's own validation is run with these arguments."""
    space: dict[str, object] = {"__name__": "small.args"}
    exec(compile(SOURCE, "/venv/lib/small/args.py", "exec", dont_inherit=True), space)
    log = ""
    try:
        space["prepare_server_args"](["--model", "m", *args])  # type: ignore[operator]
    except Exception:  # whatever validation raises is what the log shows
        log = traceback.format_exc()
    launch = Launch(("python", "-m", "small"), ("--model", "m", *args), {})
    meta = CaptureMeta("local", "small", "given", "small", None, None, None, None)
    return diagnose(Capture(meta, launch, Facts(device="cuda"), log.encode(), TREE, (ModelConfig("m", "{}"),)), PROFILE)


def line_of(text: str) -> int:
    return next(n for n, line in enumerate(SOURCE.split("\n"), 1) if text in line)


def test_of_the_launch_that_failed_and_of_the_patched_one() -> None:
    found = diagnose_run("--share", "--pieces", "8")
    assert found.failure is not None and "pieces need the cache off" in found.failure.message
    for (change,) in (found.silent, found.patches[0].silent):
        assert (change.field, change.asked, change.used) == ("share", "True", "False")
        assert change.location is not None and change.location.line == line_of("self.share = False")
        assert "--share" in change.why and "--groups" in change.why, change.why


def test_what_the_failure_comes_before_is_not_replaced_yet() -> None:
    """The budget would be replaced, but the launch fails before it gets there; once patched, it is."""
    found = diagnose_run("--mode", "line", "--budget", "4", "--width", "1")
    assert found.failure is not None and found.silent == ()
    lost = [p for p in found.patches if any(e.new != "3" for e in p.edits)]
    assert all(c.field == "budget" and c.used != "4" for p in lost for c in p.silent)
    assert not found.patches[0].silent, "depth 3 keeps the budget of 4"


def test_nothing_to_tell() -> None:
    found = diagnose_run("--alone", "--half", "first")
    assert found.silent == () and found.patches[0].silent == ()
