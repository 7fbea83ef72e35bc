"""Patches judged by the validation that is installed on the host, before one of them is applied.

A patch that the host refuses is treated as a restart would be: what it printed is diagnosed as the log of the patched
launch, and the patches of that join the next batch, as patches of the launch as found. So a chain of failures, and every
mistake of the evaluation, is settled without a restart. Works the same on any answers: it runs nothing itself.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from triage.analysis.diagnose import diagnose
from triage.argv import edit_args
from triage.loop.edits import fold_patches, is_same_patch
from triage.model import Diagnosis, Edit, Evidence, Patch, Rehearsal, Rehearsed, SilentChange, Unknown
from triage.protocols import Capture, EngineProfile

# The captured run, patches not to propose again, other launches that failed on the same host.
Diagnose = Callable[[Capture, tuple[Patch, ...], tuple[Capture, ...]], Diagnosis]
Rehearse = Callable[[Sequence[tuple[Edit, ...]]], Rehearsal]

WHAT = "what the host's own validation says"
NOTED = "how the rehearsal compares with a start"
_JUDGED = ("passes", "fails", "usage")
_REDUCED = 4  # edits of a patch that is tried without some of them


@dataclass(frozen=True)
class SettleLimits:
    """Bounds of one settling: batches, patches in one batch, and refused patches that are followed after each."""

    rounds: int = 6
    batch: int = 6
    followed: int = 2


@dataclass(frozen=True)
class Settled:
    """`as_typed`: how the launch as found was judged; None where that was not asked, or the host cannot rehearse."""

    diagnosis: Diagnosis
    as_typed: Rehearsed | None = None
    rehearsals: tuple[Rehearsal, ...] = ()

    @property
    def confirmed(self) -> bool:
        return any(p.certainty == "rehearsed" for p in self.diagnosis.patches)


def make_diagnose(profile: EngineProfile) -> Diagnose:
    """Diagnoses with the names of one engine."""

    def diagnose_capture(capture: Capture, tried: tuple[Patch, ...], lessons: tuple[Capture, ...]) -> Diagnosis:
        return diagnose(capture, profile, tried, lessons)

    return diagnose_capture


def capture_rehearsed(capture: Capture, answer: Rehearsed) -> Capture:
    """What a start that went as the rehearsal did would have left behind."""
    return replace(capture, log=answer.log, meta=replace(capture.meta, exit=answer.exit, active="failed"))


def settle_patches(
    capture: Capture,
    diagnosis: Diagnosis,
    diagnose: Diagnose,
    rehearse: Rehearse,
    tried: tuple[Patch, ...] = (),
    limits: SettleLimits = SettleLimits(),
    *,
    standing: Patch | None = None,
) -> Settled:
    """The diagnosis with its patches as the host judged them: those that pass first, those that are refused gone.

    The patches of `diagnosis` and of `tried` are patches of the launch as found. `standing` is the one that the captured
    run had, None for the launch as found itself: that is then judged too, and where the host lets it pass, a rehearsal
    does not see what fails, and nothing is called rehearsed.
    """
    return _Settler(capture, diagnosis, diagnose, rehearse, tried, limits, standing).run()


class _Settler:
    def __init__(
        self,
        capture: Capture,
        diagnosis: Diagnosis,
        diagnose: Diagnose,
        rehearse: Rehearse,
        tried: tuple[Patch, ...],
        limits: SettleLimits,
        standing: Patch | None,
    ) -> None:
        self.capture = capture
        self.diagnosis = diagnosis
        self.diagnose = diagnose
        self.rehearse = rehearse
        self.limits = limits
        self.standing = standing
        self.seen: list[Patch] = list(tried)  # asked or tried: never asked again
        self.passed: list[tuple[Patch, Rehearsed]] = []
        self.refused: list[tuple[Patch, Rehearsed]] = []
        self.open: list[tuple[Patch, Rehearsed]] = []  # the rehearsal did not come to an answer
        self.lessons: list[Capture] = []
        self.folded: list[Patch] = []  # put together from several diagnoses
        self.rehearsals: list[Rehearsal] = []
        self.as_typed: Rehearsed | None = None

    def run(self) -> Settled:
        waiting = self.take(self.diagnosis.patches)
        for number in range(self.limits.rounds):
            typed = self.standing is None and number == 0
            if not waiting and not typed:
                break
            problem = self.ask(waiting, typed)
            if problem is not None:
                return self.end(problem)
            if self.as_typed is not None and self.as_typed.outcome == "passes":
                return self.end(self.say_unseen())
            if self.passed:
                break
            waiting = self.follow(waiting)
        self.reduce()
        return self.end(None)

    def take(self, patches: Sequence[Patch]) -> list[Patch]:
        """Those that were not asked yet, as many as a batch holds."""
        fresh: list[Patch] = []
        for patch in patches:
            if len(fresh) < self.limits.batch and patch.edits and not any(is_same_patch(patch, s) for s in (*self.seen, *fresh)):
                fresh.append(patch)
        self.seen += fresh
        return fresh

    def ask(self, patches: Sequence[Patch], typed: bool) -> Unknown | None:
        """Rehearse one batch. Returns why nothing is known by it."""
        rehearsal = self.rehearse([*([()] if typed else []), *(p.edits for p in patches)])
        self.rehearsals.append(rehearsal)
        answers = list(rehearsal.answers)
        if rehearsal.problem is not None or len(answers) != len(patches) + typed:
            why = rehearsal.problem or "the rehearsal ended before all launches were judged"
            return Unknown(WHAT, f"it cannot be asked: {why}", rehearsal.hint)
        if typed:
            self.as_typed = answers.pop(0)
            if not self.capture.log:  # it has not run: the rehearsal is the first that is seen of it
                self.capture = capture_rehearsed(self.capture, self.as_typed)
        for patch, answer in zip(patches, answers, strict=True):
            kept = self.passed if answer.outcome == "passes" else self.refused if answer.outcome in _JUDGED else self.open
            kept.append((patch, answer))
        return None

    def follow(self, asked: Sequence[Patch]) -> list[Patch]:
        """The next batch: patches of the launch itself by what the refused ones taught, then what carries those further."""
        refused = [(p, a) for p, a in self.refused if any(p is one for one in asked)][: self.limits.followed]
        self.lessons += [self.make_capture(patch, answer) for patch, answer in refused]
        found = [fold_patches(self.standing, p) for p in self.find(self.capture)]
        own = len(found)
        for patch, answer in refused:
            found += [fold_patches(patch, p) for p in self.find(self.make_capture(patch, answer))]
        self.folded += found[own:]
        return self.take(found)

    def reduce(self) -> None:
        """What was put together from several diagnoses may hold edits that are not needed: smaller ones are asked as well."""
        launch = self.capture.launch
        if not self.passed or self.standing is not None or launch is None:
            return
        patch = self.passed[0][0]
        if not any(patch is one for one in self.folded):
            return
        sizes = range(1, len(patch.edits)) if len(patch.edits) <= _REDUCED else ()
        parts = [part for size in sizes for part in itertools.combinations(patch.edits, size)]
        smaller: list[Patch] = []
        for part in parts:
            env = {e.name: e.new for e in part if e.action == "env" and e.new is not None}
            with suppress(ValueError):  # one edit of a pair that belongs together
                smaller.append(replace(patch, edits=part, args=edit_args(launch.args, part), env=env))
        fresh = self.take(smaller)
        known, self.passed = self.passed, []
        if fresh:
            self.ask(fresh, False)
        self.passed += known

    def find(self, capture: Capture) -> tuple[Patch, ...]:
        further = self.diagnose(capture, tuple(self.seen), tuple(self.lessons))
        return further.patches if further.outcome == self.diagnosis.outcome else ()

    def make_capture(self, patch: Patch, answer: Rehearsed) -> Capture:
        """What a restart with this patch would have left behind."""
        assert self.capture.launch is not None
        launch = replace(self.capture.launch, args=patch.args, env={**self.capture.launch.env, **patch.env})
        return replace(capture_rehearsed(self.capture, answer), launch=launch)

    # ------------------------------------------------ what came of it
    def say_unseen(self) -> Unknown:
        why = "the host's own validation lets this launch pass, so what made it fail is not in what a rehearsal runs"
        return Unknown("why the run failed and its rehearsal did not", why, "restart once, and compare the two logs")

    def end(self, doubt: Unknown | None) -> Settled:
        diagnosis = self.diagnosis
        unknowns = [*((doubt,) if doubt is not None else ()), *(_say_open(a) for _, a in self.open[:2])]
        notes = dict.fromkeys(n for r in self.rehearsals for n in r.notes)
        unknowns += [Unknown(NOTED, note) for note in notes]
        if doubt is not None and doubt.what != WHAT:
            patches = diagnosis.patches
        else:
            patches = (*self.rank_passed(), *(p for p, _ in self.open), *self.unasked())
        cause = diagnosis.cause
        if cause is not None:
            cause = replace(cause, evidence=(*cause.evidence, *self.say_evidence(doubt)))
        outcome = diagnosis.outcome
        if diagnosis.patches and not patches:
            outcome = "no_patch"
            last = self.refused[-1][1].why
            why = f"the host's own validation refuses all {len(self.refused)} candidates; the last of them with {last}"
            unknowns.append(
                Unknown("a patch", why, "the failure may hang on the model or the hardware, which flags do not change")
            )
        settled = replace(diagnosis, outcome=outcome, patches=patches, cause=cause, unknowns=(*unknowns, *diagnosis.unknowns))
        return Settled(settled, self.as_typed, tuple(self.rehearsals))

    def unasked(self) -> list[Patch]:
        asked = [p for pairs in (self.passed, self.refused, self.open) for p, _ in pairs]
        return [p for p in self.diagnosis.patches if not any(is_same_patch(p, a) for a in asked)]

    def rank_passed(self) -> list[Patch]:
        """In the order of their rank; those that replace a typed value which the evaluation thought kept come last."""
        sets = [frozenset(p.edits) for p, _ in self.passed]
        needed = [pair for pair, edits in zip(self.passed, sets, strict=True) if not any(other < edits for other in sets)]
        found = [(patch, answer, _surprises(patch, answer)) for patch, answer in needed]
        found.sort(key=lambda one: len(one[2]))
        return [_confirm(*one) for one in found]

    def say_evidence(self, doubt: Unknown | None) -> list[Evidence]:
        out: list[Evidence] = []
        typed = self.as_typed
        if typed is not None and typed.outcome in ("fails", "usage"):
            out.append(Evidence("rehearsal", f"the host's own validation refuses the launch as typed: {typed.why}"))
        out += [
            Evidence("rehearsal", f"the host's own validation refuses {_show(patch.edits)}: {answer.why}")
            for patch, answer in self.refused[:4]
        ]
        if doubt is None and self.passed:
            patch, answer = self.passed[0]
            out.append(Evidence("rehearsal", f"the host's own validation passes {_show(patch.edits)} ({answer.seconds:.2f} s)"))
        return out


def _confirm(patch: Patch, answer: Rehearsed, new: tuple[SilentChange, ...]) -> Patch:
    why = "the validation installed on the host, run with this launch, refuses nothing"
    kept = [c for c in patch.silent if c.field in answer.asked and not _is_replaced(c.field, answer)]
    silent = tuple(c for c in patch.silent if c not in kept)
    losses = [text for text in patch.losses if not any(text.endswith(f" {c.asked} becomes {c.used}") for c in kept)]
    losses += [f"{c.field} {c.asked} becomes {c.used}" for c in new]
    return replace(patch, certainty="rehearsed", why=why, silent=(*silent, *new), losses=tuple(losses))


def _surprises(patch: Patch, answer: Rehearsed) -> tuple[SilentChange, ...]:
    """Typed values that the host's validation replaces, beyond those that the patch names."""
    known = {c.field for c in patch.silent}
    return tuple(
        SilentChange(field, asked, answer.settings[field], None, "seen in the rehearsal")
        for field, asked in answer.asked.items()
        if field not in known and _is_replaced(field, answer)
    )


def _is_replaced(field: str, answer: Rehearsed) -> bool:
    asked, used = answer.asked.get(field), answer.settings.get(field)
    if asked is None or used is None or asked == used:
        return False
    try:
        typed, taken = ast.literal_eval(asked), ast.literal_eval(used)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False  # another form of the same value cannot be told from another value
    if isinstance(typed, str) and not isinstance(taken, str | int | float | None):
        return False  # a text that was parsed
    return bool(typed != taken)


def _show(edits: Sequence[Edit]) -> str:
    return ", ".join(f"{e.action} {e.name}{'' if e.new is None else f' {e.new}'}" for e in edits)


def _say_open(answer: Rehearsed) -> Unknown:
    settle = "put the model's files into the host's own cache, or name a local folder" if answer.outcome == "offline" else ""
    what = {
        "offline": "it needs the network, which a rehearsal does not use",
        "timeout": "it did not end in time",
        "memory": "it grew beyond the memory that a rehearsal may take",
    }.get(answer.outcome, "it ended without an answer")
    return Unknown(
        f"{WHAT} of {_show(answer.edits) or 'the launch as typed'}", f"{what}: {answer.why}" if answer.why else what, settle
    )


__all__ = ["NOTED", "Diagnose", "Rehearse", "SettleLimits", "Settled", "capture_rehearsed", "make_diagnose", "settle_patches"]
