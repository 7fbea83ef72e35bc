"""The failures of a launch one behind the other: what fails first, what fails once that is got past, until it passes.

Two ways to walk. `follow_patch` takes the edits of a patch one after the other: each launch on the way is evaluated, so
every failure in the chain is one that a person who made these edits one restart at a time would meet. `walk_on` finds the
cheapest change that gets past one failure by itself, where no patch of the whole is known. All work is bounded.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from triage.analysis.candidates import find_candidates
from triage.analysis.edits import Candidate, Context, edit_launch, try_candidates
from triage.analysis.evaluate import Evaluation, LocalTrial, Place, Raised
from triage.analysis.evaluators import Evaluators
from triage.analysis.ranking import Unit, judge
from triage.model import Certainty, Edit, Location, Patch

_PRICE = {"passes": 0.0, "moved": 0.4, "unknown": 0.5}  # what a change costs more that was not seen to pass the function
_REMOVED = 1.0
_TRIAL_STEPS = 60_000  # statements of trials at one failure
_POOL, _ENOUGH = 14, 12  # candidates of which pairs are made; changes that are worth an evaluation
_ALIKE = 2  # values of one flag that are evaluated at one failure


@dataclass(frozen=True)
class ChainLimits:
    """Bounds of one chain."""

    failures: int = 8
    tries: int = 8  # evaluations for one step


@dataclass(frozen=True)
class Link:
    """A launch that fails. `step` are the edits that get past it, () where none were found; `patch` shows them."""

    args: tuple[str, ...]
    env: Mapping[str, str]  # all variables of the launch
    evaluation: Evaluation
    raised: Raised
    step: tuple[Edit, ...] = ()
    patch: Patch | None = None


@dataclass(frozen=True)
class Chain:
    """`end` is the evaluation of the launch behind the last link; None where the last link has no step."""

    links: tuple[Link, ...]
    end: Evaluation | None = None

    @property
    def passes(self) -> bool:
        return self.end is not None and self.end.raised is None and not self.end.why

    @property
    def edits(self) -> tuple[Edit, ...]:
        return tuple(e for link in self.links for e in link.step)


SpanOf = Callable[[Raised], Location | None]  # where the statement that raised stands


class Walker:
    """Walks from one launch; evaluates no launch twice."""

    def __init__(self, evaluators: Evaluators, context: Context, span_of: SpanOf, limits: ChainLimits = ChainLimits()) -> None:
        self.evaluators = evaluators
        self.context = context
        self.span_of = span_of
        self.limits = limits
        self.stages = [s.call for s in evaluators.profile.stages]
        self.known: dict[object, Evaluation] = {}
        self.offers: dict[object, list[Unit]] = {}

    # ------------------------------------------------ launches
    def look(self, args: tuple[str, ...], env: Mapping[str, str], offers: bool = False) -> Evaluation:
        """Evaluate a launch. With `offers` the changes that may get past its failure are kept, cheapest first."""
        key = (args, tuple(sorted(env.items())))
        if key in self.known and (not offers or key in self.offers):
            return self.known[key]
        context = replace(self.context, args=args, env=env)
        evaluator = self.evaluators.get(env)
        evaluation = evaluator.evaluate(args)
        raised = evaluation.raised
        if offers:
            trial = None if raised is None or raised.usage else evaluator.trial()
            candidates = find_candidates(raised, evaluation, context, evaluator) if raised is not None else []
            candidates = [c for c in candidates if self.is_new(c)]
            self.offers[key] = self.rank(candidates, trial) if trial is not None else [c.edits for c in candidates]
        self.known[key] = evaluation
        return evaluation

    def is_new(self, candidate: Candidate) -> bool:
        """Whether no edit is about a flag that the launch as typed has in another form by now."""
        typed = self.context.options.typed(self.context.args)
        for edit in candidate.edits:
            option = self.context.options.find(edit.name)
            if edit.action in ("set", "remove") and option is not None and option.field not in typed:
                return False
        return True

    def rank(self, candidates: Sequence[Candidate], trial: LocalTrial) -> list[Unit]:
        """What is worth an evaluation, by a trial of the failing function; pairs where nothing gets past it alone."""
        allowed = min(200, max(40, _TRIAL_STEPS // max(trial.cost, 1)))
        out: list[tuple[float, int, Unit]] = []
        passed = 0
        for number, candidate in enumerate(candidates[:allowed]):
            if passed >= _ENOUGH:
                break
            answer = try_candidates(trial, (candidate,))
            if answer == "fails" and candidate.edits[0].action != "remove":
                continue
            extra = _REMOVED if candidate.edits[0].action == "remove" else _PRICE.get(answer, 0.0)
            passed += answer == "passes"
            out.append((candidate.cost + extra, number, candidate.edits))
        if not passed:
            pool = [c for c in candidates if c.field and c.edits[0].action != "remove"][:_POOL]
            for number, pair in enumerate(itertools.combinations(pool, 2)):
                if pair[0].field != pair[1].field and try_candidates(trial, pair) == "passes":
                    edits = (*pair[0].edits, *pair[1].edits)
                    out.append((pair[0].cost + pair[1].cost, len(candidates) + number, edits))
        return [edits for _cost, _number, edits in sorted(out)]

    # ------------------------------------------------ walking
    def walk_on(self, args: tuple[str, ...], env: Mapping[str, str], touched: Sequence[Edit] = ()) -> Chain:
        """The chain from a launch on, by the cheapest change at each failure."""
        links: list[Link] = []
        names = {e.name for e in touched}
        while True:
            evaluation = self.look(args, env, offers=True)
            raised = evaluation.raised
            if raised is None or len(links) >= self.limits.failures:
                return Chain(tuple(links), evaluation)
            step = self.get_past(args, env, evaluation, raised, names)
            if step is None:
                return Chain((*links, Link(args, env, evaluation, raised)))
            links.append(self.link(args, env, evaluation, raised, step))
            names |= {e.name for e in step}
            args, env = edit_launch(args, env, step) or (args, env)

    def get_past(
        self, args: tuple[str, ...], env: Mapping[str, str], evaluation: Evaluation, raised: Raised, touched: set[str]
    ) -> Unit | None:
        """The cheapest change with which the launch passes, or comes to fail at a later place."""
        ways: Counter[tuple[str, str]] = Counter()
        left = self.limits.tries
        for edits in self.offers.get((args, tuple(sorted(env.items()))), ()):
            way = (edits[0].action, edits[0].name)
            if left <= 0:
                return None
            if ways[way] >= _ALIKE or any(e.name in touched for e in edits):
                continue
            launch = edit_launch(args, env, edits)
            if launch is None or launch == (args, dict(env)):
                continue
            ways[way] += 1
            left -= 1
            if self.is_past(raised, self.look(*launch)):
                return edits
        return None

    def follow_patch(self, patch: Patch) -> Chain:
        """The chain from the launch as typed to the patched one: at each failure as few of the edits as get past it."""
        args, env = self.context.args, dict(self.context.env)
        left = _units_of(patch.edits)
        links: list[Link] = []
        evaluation = self.look(args, env)
        while left and evaluation.raised is not None:
            for group in (g for size in range(1, len(left)) for g in itertools.combinations(left, size)):
                step = tuple(e for unit in group for e in unit)
                launch = edit_launch(args, env, step)
                if launch is not None and self.is_past(evaluation.raised, self.look(*launch)):
                    break
            else:
                group, step = tuple(left), tuple(e for unit in left for e in unit)
                launch = edit_launch(args, env, step)
            links.append(self.link(args, env, evaluation, evaluation.raised, step))
            left = [unit for unit in left if unit not in group]
            args, env = launch or (args, env)
            evaluation = self.look(args, env)
        return Chain(tuple(links), evaluation)

    def link(
        self, args: tuple[str, ...], env: Mapping[str, str], evaluation: Evaluation, raised: Raised, step: tuple[Edit, ...]
    ) -> Link:
        launch = edit_launch(args, env, step)
        assert launch is not None
        after = self.look(*launch)
        own = judge(replace(self.context, args=args, env=env), (step,), 0.0, frozenset(), after, *launch).patch
        changed = {k: v for k, v in launch[1].items() if self.context.env.get(k) != v}
        if after.raised is None:
            why = f"gets past it; then {own.why}"
        else:
            why = f"gets past it; the launch then fails at {after.raised.site_text}"
        sure: Certainty = "proved" if after.verdict != "unknown" else own.certainty
        return Link(args, env, evaluation, raised, step, replace(own, env=changed, why=why, certainty=sure))

    # ------------------------------------------------ small questions
    def is_past(self, old: Raised, after: Evaluation) -> bool:
        """Whether a launch gets past the place where another failed: it passes, or it fails later."""
        new = after.raised
        if new is None:
            return not after.why and not any(self.same_statement(old, p) for p in after.possible)
        if new.usage or old.usage:
            return old.usage and (not new.usage or new.message != old.message)
        if new.stage != old.stage and new.stage in self.stages and old.stage in self.stages:
            return self.stages.index(new.stage) > self.stages.index(old.stage)
        return not self.same_statement(old, new) and _is_behind(new.places, old.places)

    def same_statement(self, old: Raised, new: Raised) -> bool:
        a, b = old.site, new.site
        if a is None or b is None or a.file != b.file:
            return False
        span = self.span_of(old)
        return a.line == b.line or (span is not None and span.line <= b.line <= (span.end_line or span.line))


def _is_behind(new: Sequence[Place], old: Sequence[Place]) -> bool:
    """By the calls: the first frames in which they differ stand in one function, and the new one further down in it."""
    for a, b in zip(old, new, strict=False):
        if (a.file, a.function) != (b.file, b.function):
            return True  # one line called both, one after the other
        if a.line != b.line:
            return b.line > a.line
    return False


def _units_of(edits: Sequence[Edit]) -> list[Unit]:
    """Edits that are one change: a flag that goes and comes back under another name with its value."""
    out: list[Unit] = []
    for edit in edits:
        last = out[-1] if out else ()
        if edit.action == "add" and len(last) == 1 and last[0].action == "remove" and last[0].old == edit.new:
            out[-1] = (*last, edit)
        else:
            out.append((edit,))
    return out


__all__ = ["Chain", "ChainLimits", "Link", "Walker"]
