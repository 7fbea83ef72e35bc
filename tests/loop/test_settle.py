"""Patches judged by a host, with answers made by hand; tests/e2e has those of real hosts and real releases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from triage.argv import edit_args
from triage.loop.settle import Settled, SettleLimits, settle_patches
from triage.model import (
    CaptureMeta,
    Cause,
    Diagnosis,
    Edit,
    ExitStatus,
    Facts,
    Failure,
    Launch,
    Patch,
    Rehearsal,
    Rehearsed,
    RehearsedOutcome,
    SilentChange,
)
from triage.protocols import Capture

ARGS = ("--mode", "ring")
META = CaptureMeta("h", "u", "systemd", "small", None, None, "r1", None)
CAPTURE = Capture(META, Launch(("small",), ARGS, {"A": "1"}), Facts(), b"log of the real run", None)
FAILURE = Failure("exception", "AssertionError", "")


def adding(*flags: str, silent: tuple[SilentChange, ...] = (), args: tuple[str, ...] = ARGS) -> Patch:
    edits = tuple(Edit("add", *pair) for flag in flags for pair in [(flag.split()[0], None, flag.split()[1])])
    return Patch(edits, edit_args(args, edits), {}, "proved", "by hand", silent=silent)


def found(*patches: Patch) -> Diagnosis:
    return Diagnosis("patch" if patches else "no_patch", FAILURE, None, Cause("argument", "by hand"), patches)


class Bench:
    """A host that lets exactly the named launches pass, and what it was asked."""

    def __init__(self, *passing: str, typed: RehearsedOutcome = "fails", other: RehearsedOutcome = "fails") -> None:
        self.passing = passing
        self.typed = typed
        self.other = other
        self.batches: list[list[str]] = []
        self.diagnosed: list[Capture] = []
        self.further: dict[str, tuple[Patch, ...]] = {}
        self.used: dict[str, dict[str, str]] = {}

    def rehearse(self, launches: Sequence[tuple[Edit, ...]]) -> Rehearsal:
        names = [" ".join(f"{e.name} {e.new}" for e in edits) for edits in launches]
        self.batches.append(names)
        return Rehearsal(tuple(self.answer(n, e) for n, e in zip(names, launches, strict=True)), prepared=1.0, seconds=1.5)

    def answer(self, name: str, edits: tuple[Edit, ...]) -> Rehearsed:
        outcome = self.typed if not edits else "passes" if name in self.passing else self.other
        asked = {e.name: repr(e.new) for e in edits}
        settings = {**asked, **self.used.get(name, {})}
        why = "" if outcome == "passes" else f"{outcome} with {name}"
        return Rehearsed(edits, outcome, why, f"log of {name}".encode(), settings, asked, ExitStatus(1))

    def diagnose(self, capture: Capture, tried: tuple[Patch, ...], _lessons: tuple[Capture, ...]) -> Diagnosis:
        self.diagnosed.append(capture)
        return found(*(p for p in self.further.get(capture.log.decode(), ()) if p.args not in [t.args for t in tried]))

    def settle(self, *patches: Patch, **more: SettleLimits) -> Settled:
        return settle_patches(CAPTURE, found(*patches), self.diagnose, self.rehearse, **more)


def test_what_the_host_passes_comes_first_and_what_it_refuses_is_gone() -> None:
    bench = Bench("--b 1", "--c 1")
    settled = bench.settle(adding("--a 1"), adding("--b 1"), adding("--c 1"))
    assert bench.batches == [["", "--a 1", "--b 1", "--c 1"]], "one batch, the launch as typed in it"
    assert [p.edits[0].name for p in settled.diagnosis.patches] == ["--b", "--c"]
    assert {p.certainty for p in settled.diagnosis.patches} == {"rehearsed"}
    assert settled.confirmed and settled.diagnosis.outcome == "patch"
    assert settled.diagnosis.cause is not None
    said = [e.text for e in settled.diagnosis.cause.evidence if e.kind == "rehearsal"]
    assert any("add --a 1: fails with --a 1" in text for text in said), said
    assert not bench.diagnosed


def test_a_refused_patch_is_diagnosed_as_a_restart_would_be() -> None:
    bench = Bench("--a 1 --d 4 --e 5")
    bench.further["log of --a 1"] = (adding("--d 4", args=(*ARGS, "--a", "1")),)
    bench.further["log of --a 1 --d 4"] = (adding("--e 5", args=(*ARGS, "--a", "1", "--d", "4")),)
    settled = bench.settle(adding("--a 1"))
    assert bench.batches[:3] == [["", "--a 1"], ["--a 1 --d 4"], ["--a 1 --d 4 --e 5"]]
    assert bench.batches[3] == ["--d 4", "--e 5", "--a 1 --e 5", "--d 4 --e 5"], "and none of its edits can be left out"
    (patch,) = settled.diagnosis.patches
    assert patch.edits == adding("--a 1", "--d 4", "--e 5").edits
    assert patch.args == (*ARGS, "--a", "1", "--d", "4", "--e", "5")
    again, first = bench.diagnosed[:2]
    assert again is CAPTURE
    assert first.launch is not None
    assert (first.launch.args, first.log, first.meta.exit.code) == ((*ARGS, "--a", "1"), b"log of --a 1", 1)


def test_what_later_edits_made_needless_is_left_out() -> None:
    bench = Bench("--d 4", "--a 1 --d 4")
    bench.further["log of --a 1"] = (adding("--d 4", args=(*ARGS, "--a", "1")),)
    (patch,) = bench.settle(adding("--a 1")).diagnosis.patches
    assert (patch.edits, patch.args, patch.certainty) == (adding("--d 4").edits, (*ARGS, "--d", "4"), "rehearsed")


def test_nothing_is_asked_twice_and_the_rounds_are_bounded() -> None:
    bench = Bench()
    bench.further["log of --a 1"] = (adding("--a 1"), adding("--b 1", args=(*ARGS, "--a", "1")))
    bench.further["log of the real run"] = (adding("--a 1"), adding("--c 1"), adding("--d 1"), adding("--e 1"), adding("--f 1"))
    settled = bench.settle(adding("--a 1"), limits=SettleLimits(rounds=4, batch=1))
    asked = [name for batch in bench.batches for name in batch]
    assert len(asked) == len(set(asked))
    assert len(bench.batches) == 4
    assert settled.diagnosis.outcome == "no_patch"
    assert not settled.diagnosis.patches, "what the host refuses is never proposed"
    assert any(u.what == "a patch" and "refuses all 4" in u.why for u in settled.diagnosis.unknowns)


def test_where_the_host_cannot_rehearse_evaluation_stands_and_the_reason_is_told() -> None:
    patches = (adding("--a 1"), adding("--b 1"))
    settled = settle_patches(CAPTURE, found(*patches), Bench().diagnose, lambda _: Rehearsal(problem="no Python", hint="install"))
    assert settled.diagnosis.patches == patches
    assert ("no Python" in settled.diagnosis.unknowns[0].why, settled.diagnosis.unknowns[0].settle) == (True, "install")
    assert not settled.confirmed


def test_a_rehearsal_that_does_not_see_the_failure_confirms_nothing() -> None:
    patches = (adding("--a 1"), adding("--b 1"))
    settled = Bench("--b 1", typed="passes").settle(*patches)
    assert settled.diagnosis.patches == patches
    assert "lets this launch pass" in settled.diagnosis.unknowns[0].why


def test_a_launch_that_cannot_be_judged_is_neither_confirmed_nor_refused() -> None:
    settled = Bench("--b 1", other="offline").settle(adding("--a 1"), adding("--b 1"))
    assert [(p.edits[0].name, p.certainty) for p in settled.diagnosis.patches] == [("--b", "rehearsed"), ("--a", "proved")]
    assert "needs the network" in settled.diagnosis.unknowns[0].why


def test_values_that_only_the_host_replaces_are_told_and_count() -> None:
    bench = Bench("--a 1", "--b 1")
    bench.used["--a 1"] = {"--a": "'2'"}
    settled = bench.settle(adding("--a 1"), adding("--b 1"))
    first, second = settled.diagnosis.patches
    assert (first.edits[0].name, first.silent) == ("--b", ())
    (change,) = second.silent
    assert (change.field, change.asked, change.used) == ("--a", "'1'", "'2'")
    assert "--a '1' becomes '2'" in second.losses


def test_what_evaluation_thought_replaced_and_the_host_keeps_is_not_told() -> None:
    settled = Bench("--a 1").settle(adding("--a 1", silent=(SilentChange("--a", "1", "3", None),)))
    assert settled.diagnosis.patches[0].silent == ()


def test_a_launch_that_ran_patched_is_not_judged_as_typed() -> None:
    bench = Bench("--a 1 --b 1")
    standing = adding("--a 1")
    ran = replace(CAPTURE, launch=replace(CAPTURE.launch or Launch((), ()), args=standing.args))
    total = adding("--a 1", "--b 1")
    settled = settle_patches(ran, found(total), bench.diagnose, bench.rehearse, (standing,), standing=standing)
    assert bench.batches == [["--a 1 --b 1"]]
    assert settled.diagnosis.patches[0].edits == total.edits
