"""Searches the smallest plausible edits under which the launch passes all of its validation, and ranks them.

Uniform-cost search. At a failure the failing function is tried again with one setting changed (cheap), and what passes
there is evaluated through the whole validation; a failure further on is expanded in turn. Two and three settings at once
are tried only when no cheaper node is left. The search never repeats an argument list and never edits a setting twice. All
bounds are arguments.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from triage.analysis.candidates import find_candidates, told_settings
from triage.analysis.edits import REMOVE, SET, Candidate, Context, edit_launch, try_candidates
from triage.analysis.evaluate import Evaluation, Evaluator, LocalTrial, Place, Trial
from triage.analysis.ranking import Judged, Unit, judge, silent_changes
from triage.model import Edit, Patch

EvaluatorFor = Callable[[Mapping[str, str]], Evaluator]
_Answer = tuple[tuple[Candidate, ...], float]  # changes that are worth an evaluation, and what they cost more

_UNKNOWN, _MOVED, _DOUBTED = 0.5, 0.4, 1.0  # what a change costs more that was not seen to pass the failing function
_OWN = 0.5  # less for the value that the release itself would take
_STEPS = 60_000  # statements of trials at one failure
_ALIKE, _DELAY = 2, 2.5  # so many values of the same settings came to the same next failure: more of them wait
_SAME_SHAPE = 2  # patches that differ in values only
_POOL = {1: 200, 2: 26, 3: 14}
_ENOUGH = 12  # changes that pass the failing function before the first of them is evaluated


@dataclass(frozen=True)
class Limits:
    """Bounds of one search."""

    edits: int = 3
    evaluations: int = 60  # of whole validations
    trials: int = 400  # of one failing function, for each failure and number of edits
    patches: int = 5
    alternatives: int = 6  # evaluations after the best patch is known
    margin: float = 3.0  # how much dearer than the best a further patch may be
    dominated: bool = False  # whether patches are wanted too where a smaller one that loses nothing is known


EVERYTHING = Limits(evaluations=10**6, trials=10**6, patches=10**6, alternatives=10**6, margin=1e9, dominated=True)


@dataclass(frozen=True)
class Target:
    """The failure to get past: the trail of the launch as typed, and its statement (file, first line, last line)."""

    trail: tuple[Place, ...] = ()
    span: tuple[str, int, int] | None = None
    message: str = ""  # as the log has it: the evaluation may not know all that it is made of

    def holds(self, place: Place | None) -> bool:
        return (
            place is not None
            and self.span is not None
            and place.file == self.span[0]
            and self.span[1] <= place.line <= self.span[2]
        )


@dataclass(frozen=True)
class Search:
    """What was found, and whether the search ended by itself: nothing within its domain would rank before the first patch."""

    patches: tuple[Patch, ...]
    evaluations: int
    complete: bool


@dataclass(frozen=True)
class _Node:
    cost: float
    units: tuple[Unit, ...] = ()
    fields: frozenset[str] = frozenset()
    size: int = 1  # how many settings to change at once where it fails
    delayed: bool = False
    start: int = 0  # the first change that was not tried yet

    @property
    def edits(self) -> tuple[Edit, ...]:
        return tuple(e for unit in self.units for e in unit)

    @property
    def shape(self) -> frozenset[tuple[str, str]]:
        return frozenset((e.action, e.name) for e in self.edits)


@dataclass
class _Trials:
    """What the trials at one failure came to so far."""

    allowed: int
    passing: set[tuple[tuple[Edit, ...], ...]]
    moved: Counter[str]
    unread: Counter[str]


class _Searcher:
    def __init__(
        self, evaluator_for: EvaluatorFor, context: Context, limits: Limits, target: Target, tried: Sequence[Patch]
    ) -> None:
        self.evaluator_for = evaluator_for
        self.context = context
        self.limits = limits
        self.target = target
        self.skip = {(p.args, tuple(sorted({**context.env, **p.env}.items()))) for p in tried}
        self.own = {e.name for p in tried for e in p.edits if e.action in ("add", "set", "env")}
        self.queue: list[tuple[float, int, _Node]] = []
        self.order = itertools.count()
        self.seen: set[object] = set()
        self.found: list[Judged] = []
        self.shapes: Counter[frozenset[tuple[str, str]]] = Counter()
        self.ends: Counter[tuple[frozenset[tuple[str, str]], Place | None]] = Counter()  # where launches of a shape failed
        self.stuck: Counter[frozenset[tuple[str, str]]] = Counter()  # the most that failed at one place
        self.evaluations = 0
        self.trials: dict[tuple[Unit, ...], dict[int, _Trials]] = {}  # of each node, by the number of changes
        self.told: frozenset[str] = frozenset()  # settings that the failure reads, or that its message names
        self.assumed = False  # nothing but the log says that the launch as typed fails
        self.contradictions: frozenset[str] = frozenset()  # between the traceback and the evaluation of the launch as typed
        self.replaced: frozenset[str] = frozenset()  # typed values that the launch as it is does not keep either

    # ------------------------------------------------ one launch
    def launch(self, units: Sequence[Unit]) -> tuple[tuple[str, ...], dict[str, str]] | None:
        return edit_launch(self.context.args, self.context.env, [e for unit in units for e in unit])

    def visit(self, node: _Node) -> None:
        launch = self.launch(node.units)
        if launch is None:
            return
        args, env = launch
        key = (args, tuple(sorted(env.items())), node.size, node.start)
        if key in self.seen or (node.units and key[:2] in self.skip) or self.shapes[node.shape] >= self.enough(node):
            return
        if not node.delayed and node.size == 1 and not node.start and self.stuck[node.shape] >= _ALIKE:
            late = replace(node, cost=round(node.cost + _DELAY, 3), delayed=True)
            heapq.heappush(self.queue, (late.cost, next(self.order), late))
            return
        self.seen.add(key)
        self.evaluations += 1
        context = replace(self.context, args=args, env=env)
        evaluator = self.evaluator_for(env)
        evaluation = evaluator.evaluate(args, () if node.units else self.target.trail)
        trial = evaluator.trial()
        answers: list[_Answer] = []
        if trial is not None and len(node.units) < self.limits.edits and evaluation.raised and not evaluation.raised.usage:
            if not node.units and not evaluation.raised.message and self.target.message:
                evaluation = replace(evaluation, raised=replace(evaluation.raised, message=self.target.message))
            answers = self.expand(node, trial, evaluation, context, evaluator)
        own = self.own_choice(node, answers)
        for group, extra in answers:
            edit = group[0].edits[0]
            self.push(node, group, extra - (_OWN if (edit.name, edit.new) == own else 0.0))
        if evaluation.raised is not None and node.units and not node.start:
            self.ends[node.shape, evaluation.raised.site] += 1
            self.stuck[node.shape] = max(self.stuck[node.shape], self.ends[node.shape, evaluation.raised.site])
        if not node.units:
            if evaluation.raised is not None:
                self.told = told_settings(evaluation.raised, context)
                self.contradictions = frozenset(evaluation.contradictions)
                self.assumed = evaluation.raised.assumed
            self.replaced = frozenset(c.field for c in silent_changes(evaluation, context.options, args))
        if evaluation.raised is None and not evaluation.why:
            past = not any(self.target.holds(p.site) for p in evaluation.possible)
            if node.units and past and not self.only_supposed(node, evaluation, evaluator, args):
                self.accept(node, evaluation, args, env)
        elif evaluation.raised is not None and evaluation.raised.usage and len(node.units) < self.limits.edits:
            for candidate in find_candidates(evaluation.raised, evaluation, context, evaluator):
                self.push(node, (candidate,))

    def only_supposed(self, node: _Node, evaluation: Evaluation, evaluator: Evaluator, args: tuple[str, ...]) -> bool:
        """Whether the launch gets past the failure only because an unknown test is taken to come out well, though none of the
        settings that the failure tells of was changed."""
        touched = node.fields | {f"env:{e.name}" for e in node.edits if e.action == "env"}
        if not evaluation.supposed or not self.target.trail or not touched or touched & self.told:
            return False
        self.evaluations += 1
        again = evaluator.evaluate(args, self.target.trail)
        if self.assumed and not set(again.contradictions) <= self.contradictions:
            again = evaluator.evaluate(args, self.target.trail[-1:])  # another way may lead to the same call
        if not set(again.contradictions) <= self.contradictions:
            return False  # a test on the way surely comes out otherwise now
        if again.raised is None or not self.target.holds(again.raised.site):
            return False
        return self.assumed or not again.raised.assumed  # else the statement surely failed before, and only the log says so now

    def enough(self, node: _Node) -> int:
        """How many patches with the same edits but for their values are wanted: one that is proved and loses nothing will do,
        and more are looked at where each loses something."""
        alike = [f for f in self.found if {(e.action, e.name) for e in f.patch.edits} == node.shape]
        if any(f.patch.certainty == "proved" and not f.lost for f in alike):
            return 1
        return _SAME_SHAPE if any(not f.lost for f in alike) else 2 * _SAME_SHAPE

    def accept(self, node: _Node, evaluation: Evaluation, args: tuple[str, ...], env: Mapping[str, str]) -> None:
        self.found.append(judge(self.context, node.units, node.cost, node.fields, evaluation, args, env, self.replaced))
        self.shapes[node.shape] += 1
        last = node.units[-1] if node.units else ()
        if len(last) == 1 and last[0].action == "remove" and last[0].old is not None:
            self.offer_own_choice(node, last[0], evaluation)

    def offer_own_choice(self, node: _Node, edit: Edit, evaluation: Evaluation) -> None:
        """In place of removing a flag: the value that the release itself takes where the flag is left out."""
        option = self.context.options.find(edit.name)
        used = evaluation.settings.get(option.field) if option is not None else None
        if option is None or option.flag.kind != "value" or isinstance(used, bool) or not isinstance(used, str | int | float):
            return
        if str(used) == edit.old or (option.flag.choices is not None and str(used) not in option.flag.choices):
            return
        new = (Edit("set", edit.name, edit.old, str(used)),)
        child = _Node(node.cost - REMOVE + SET, (*node.units[:-1], new), node.fields)
        heapq.heappush(self.queue, (child.cost, next(self.order), child))

    def push(self, node: _Node, candidates: Sequence[Candidate], extra: float = 0.0) -> None:
        if any(e.action == "remove" and e.name in self.own and len(c.edits) == 1 for c in candidates for e in c.edits):
            return  # it would undo an earlier fix
        cost = round(node.cost + extra + sum(c.cost for c in candidates), 3)
        fields = node.fields | {c.field for c in candidates if c.field}
        child = _Node(cost, (*node.units, *(c.edits for c in candidates)), fields)
        heapq.heappush(self.queue, (cost, next(self.order), child))

    # ------------------------------------------------ one failure
    def expand(
        self, node: _Node, trial: LocalTrial, evaluation: Evaluation, context: Context, evaluator: Evaluator
    ) -> list[_Answer]:
        """What gets past this failure in its own function with `node.size` changes. Queues the turn for those that were not
        tried yet, and for one change more."""
        assert evaluation.raised is not None
        touched = {e.name for e in node.edits}
        candidates = [
            c
            for c in find_candidates(evaluation.raised, evaluation, context, evaluator)
            if c.field not in node.fields and not any(e.name in touched for e in c.edits)
        ]
        size = node.size
        if size > 1:
            candidates = [c for c in candidates if c.field and c.edits[0].action != "remove"]
        pool = candidates[: _POOL.get(size, 10)]
        groups = [g for g in itertools.combinations(pool, size) if len({c.field or c.edits for c in g}) == size]
        groups.sort(key=lambda g: sum(c.cost for c in g))
        of_node = self.trials.setdefault(node.units, {})
        if size not in of_node:
            allowed = min(self.limits.trials, max(40, _STEPS // max(trial.cost, 1)))
            of_node[size] = _Trials(allowed, set(), Counter(), Counter())
        so_far = of_node[size]
        alone = of_node[1].passing if size > 1 and 1 in of_node else set()
        answers: list[_Answer] = []
        cheapest: float | None = None
        at = node.start
        while at < len(groups) and so_far.allowed > 0:
            group = groups[at]
            cost = sum(c.cost for c in group)
            if cheapest is not None and (cost > cheapest + self.limits.margin or len(answers) >= _ENOUGH):
                late = replace(node, start=at, cost=round(node.cost + cost, 3))
                heapq.heappush(self.queue, (late.cost, next(self.order), late))
                break
            at += 1
            if any((c.edits,) in alone for c in group):
                continue
            so_far.allowed -= 1
            answer = try_candidates(trial, group)
            if answer == "passes":
                so_far.passing.add(tuple(c.edits for c in group))
                cheapest = cost if cheapest is None else cheapest
            extra = self.price(group, answer, so_far.moved, so_far.unread)
            if extra is not None:
                answers.append((group, extra))
        if not node.start and len(node.units) + size < self.limits.edits:
            least = sorted({c.field: c.cost for c in reversed(candidates) if c.edits[0].action != "remove"}.values())
            if len(least) > size:
                bound = round(node.cost + sum(least[: size + 1]), 3)
                heapq.heappush(self.queue, (bound, next(self.order), replace(node, size=size + 1)))
        return answers

    def own_choice(self, node: _Node, answers: Sequence[_Answer]) -> tuple[str, str]:
        """The typed flag whose value is to be changed and has most choices left, and the one that the release takes
        where the flag is left out."""
        left = Counter(g[0].edits[0].name for g, _ in answers if len(g) == 1 and g[0].edits[0].action == "set")
        name, times = left.most_common(1)[0] if left else ("", 0)
        option = self.context.options.find(name) if times > 1 else None
        launch = self.launch((*node.units, (Edit("remove", name),)))
        if option is None or option.flag.choices is None or launch is None or node.units:
            return "", ""
        self.evaluations += 1
        used = self.evaluator_for(launch[1]).evaluate(launch[0]).settings.get(option.field)
        return (name, used) if isinstance(used, str) else ("", "")

    @staticmethod
    def price(group: Sequence[Candidate], answer: Trial, moved: Counter[str], unread: Counter[str]) -> float | None:
        """What a group costs more for how the trial came out; None: it is not worth an evaluation."""
        if answer == "passes":
            return 0.0
        first = group[0].edits[0]
        if first.action == "remove":  # what would stand there then is decided before this function
            return _DOUBTED
        if len(group) > 1:
            return _UNKNOWN if answer == "unknown" else None
        if answer == "unknown":
            unread[first.name] += 1
            return _UNKNOWN if unread[first.name] <= 6 else None
        if answer == "moved":  # past the failing statement, to another one of the same function
            moved[first.name] += 1
            return _MOVED if moved[first.name] <= 2 else None
        return None

    # ------------------------------------------------ the search
    def run(self) -> bool:
        """Whether the best patch of the domain was found, or none is in it."""
        self.visit(_Node(0.0))
        last: int | None = None  # evaluations up to which alternatives are looked for, once the best is known
        while self.queue:
            cost, _, node = heapq.heappop(self.queue)
            best = min((f.score for f in self.found), default=None)
            if best is not None and cost >= best:
                last = self.evaluations + self.limits.alternatives if last is None else last
                if cost > best + self.limits.margin or self.evaluations >= last or len(self.found) >= self.limits.patches:
                    return True
            if node.size == 1 and any(set(f.units) < set(node.units) for f in self.found):
                continue
            larger = len(node.units) + (node.size if node.size > 1 else 0)
            if not self.limits.dominated and any(len(f.units) < larger and not f.lost for f in self.found):
                continue  # fewer edits that lose nothing are known
            if self.evaluations >= self.limits.evaluations:
                return last is not None
            self.visit(node)
        return True

    def minimal(self, judged: Judged) -> Judged:
        """The same patch without what can be left out."""
        parts = [part for size in range(1, len(judged.units)) for part in itertools.combinations(judged.units, size)]
        for units in parts:
            launch = self.launch(units)
            if launch is None:
                continue
            args, env = launch
            key = (args, tuple(sorted(env.items())))
            if (*key, 1, 0) in self.seen or key in self.skip:
                continue
            self.evaluations += 1
            evaluator = self.evaluator_for(env)
            evaluation = evaluator.evaluate(args)
            good = evaluation.verdict == "passes"
            if (
                judged.patch.certainty != "proved"
                and evaluation.raised is None
                and not evaluation.why
                and not evaluation.possible
            ):
                options = [self.context.options.find(e.name) for unit in units for e in unit]
                node = _Node(0.0, units, frozenset(o.field for o in options if o is not None))
                good = not self.only_supposed(node, evaluation, evaluator, args)
            if good:
                share = judged.score * len(units) / len(judged.units)
                return judge(self.context, units, share, frozenset(), evaluation, args, env, self.replaced)
        return judged


def find_patches(
    evaluator_for: EvaluatorFor,
    context: Context,
    target: Target = Target(),
    tried: Sequence[Patch] = (),
    limits: Limits = Limits(),
) -> Search:
    """Ranked minimal patches of a launch that fails. `tried`: patches that are not to be proposed again."""
    searcher = _Searcher(evaluator_for, context, limits, target, tried)
    complete = searcher.run()
    ranked = sorted(searcher.found, key=lambda j: j.order)
    kept: list[Judged] = []
    for judged in ranked:
        if len(kept) >= limits.patches:
            break
        if any(set(less.units) < set(judged.units) and less.sure <= judged.sure for less in ranked):
            continue
        smallest = searcher.minimal(judged)
        if not any(set(k.units) <= set(smallest.units) for k in kept):
            kept.append(smallest)
    kept.sort(key=lambda j: j.order)
    return Search(tuple(k.patch for k in kept), searcher.evaluations, complete)


__all__ = ["EVERYTHING", "EvaluatorFor", "Limits", "Search", "Target", "find_patches", "silent_changes"]
