"""Searches the smallest plausible edits under which the launch passes all of its validation, and ranks them.

Uniform-cost search. At a failure the failing function is tried again with one, two or three settings changed (cheap), and
what passes there is evaluated through the whole validation; a failure further on is expanded in turn. The search never
repeats an argument list and never edits a setting twice. All bounds are arguments.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from triage.analysis.candidates import Candidate, Context, find_candidates
from triage.analysis.evaluate import Evaluation, Evaluator, LocalTrial, Place, Trial, Value
from triage.analysis.evaluate.values import Unknown, has_unknown, same, show
from triage.analysis.flags import Options
from triage.argv import edit_args
from triage.model import Certainty, Edit, Location, Patch, SilentChange

EvaluatorFor = Callable[[Mapping[str, str]], Evaluator]


@dataclass(frozen=True)
class Limits:
    """Bounds of one search."""

    edits: int = 3
    evaluations: int = 60  # of whole validations
    trials: int = 600  # of one failing function, for each failure
    patches: int = 5
    margin: float = 3.0  # how much dearer than the best a further patch may be


@dataclass(frozen=True)
class Target:
    """The failure to get past: the trail of the launch as typed, and its statement (file, first line, last line)."""

    trail: tuple[Place, ...] = ()
    span: tuple[str, int, int] | None = None

    def holds(self, place: Place | None) -> bool:
        return place is not None and self.span is not None and place.file == self.span[0] and self.span[1] <= place.line <= self.span[2]


@dataclass(frozen=True)
class Search:
    """What was found, and whether the search ended by itself."""

    patches: tuple[Patch, ...]
    evaluations: int
    complete: bool


@dataclass(frozen=True)
class _Node:
    cost: float
    edits: tuple[Edit, ...]
    fields: frozenset[str]
    count: int  # edits as a person counts them: a renamed flag is one


@dataclass(frozen=True)
class _Found:
    node: _Node
    evaluation: Evaluation


class _Searcher:
    def __init__(
        self, evaluator_for: EvaluatorFor, context: Context, limits: Limits, target: Target, skip: frozenset[object]
    ) -> None:
        self.evaluator_for = evaluator_for
        self.context = context
        self.limits = limits
        self.target = target
        self.skip = skip
        self.queue: list[tuple[float, int, _Node]] = []
        self.order = itertools.count()
        self.seen: set[object] = set()
        self.found: list[_Found] = []
        self.evaluations = 0

    # ------------------------------------------------ one launch
    def launch(self, node: _Node) -> tuple[tuple[str, ...], dict[str, str]] | None:
        try:
            args = edit_args(self.context.args, node.edits)
        except ValueError:
            return None
        env = dict(self.context.env)
        for edit in node.edits:
            if edit.action == "env" and edit.new is not None:
                env[edit.name] = edit.new
        return args, env

    def visit(self, node: _Node) -> None:
        launch = self.launch(node)
        if launch is None:
            return
        args, env = launch
        key = (args, tuple(sorted(env.items())))
        if key in self.seen or (node.edits and key in self.skip):
            return
        self.seen.add(key)
        self.evaluations += 1
        context = replace(self.context, args=args, env=env)

        def expand(trial: LocalTrial, evaluation: Evaluation) -> None:
            if node.count < self.limits.edits and evaluation.raised is not None:
                self.expand(node, trial, evaluation, context)

        trail = () if node.edits else self.target.trail
        evaluation = self.evaluator_for(env).evaluate(args, trail, expand)
        if evaluation.raised is None and not evaluation.why:
            if any(self.target.holds(p.site) for p in evaluation.possible) or not node.edits:
                return  # for all that is known it fails as before
            self.found.append(_Found(node, evaluation))
        elif evaluation.raised is not None and evaluation.raised.usage and node.count < self.limits.edits:
            for candidate in find_candidates(evaluation.raised, evaluation, context):
                self.push(node, (candidate,))

    def push(self, node: _Node, candidates: Sequence[Candidate], extra: float = 0.0) -> None:
        fields = frozenset(c.field for c in candidates if c.field)
        cost = node.cost + extra + sum(c.cost for c in candidates)
        edits = (*node.edits, *(e for c in candidates for e in c.edits))
        child = _Node(cost, edits, node.fields | fields, node.count + len(candidates))
        heapq.heappush(self.queue, (cost, next(self.order), child))

    # ------------------------------------------------ one failure
    def expand(self, node: _Node, trial: LocalTrial, evaluation: Evaluation, context: Context) -> None:
        """Queue what gets past this failure in its own function: one change, else two, else three."""
        assert evaluation.raised is not None
        touched = {e.name for e in node.edits}
        candidates = [
            c
            for c in find_candidates(evaluation.raised, evaluation, context)
            if c.field not in node.fields and not any(e.name in touched for e in c.edits)
        ]
        trials = 0
        moved: Counter[str] = Counter()
        passed: list[Candidate] = []
        for size in range(1, self.limits.edits - node.count + 1):
            pool = candidates if size == 1 else [c for c in candidates if c.field and c not in passed][: 26 if size == 2 else 14]
            for group in itertools.combinations(pool, size):
                if size > 1 and (len({c.field for c in group}) < size or any(c.edits[0].action == "remove" for c in group)):
                    continue
                if trials >= self.limits.trials:
                    return
                trials += 1
                answer = self.attempt(trial, group)
                if answer == "fails" or (answer == "moved" and (size > 1 or not self.is_step(group[0], moved))):
                    continue
                if size == 1 and answer == "passes":
                    passed.append(group[0])
                self.push(node, group, {"passes": 0.0, "unknown": 0.5, "moved": 0.4}[answer])

    @staticmethod
    def is_step(candidate: Candidate, moved: Counter[str]) -> bool:
        """Whether to go on from a change that gets past the failing statement and meets another one in the same function:
        for the two most plausible values of each setting."""
        name = candidate.edits[0].name
        moved[name] += 1
        return candidate.edits[0].action in ("add", "set", "env") and moved[name] <= 2

    def attempt(self, trial: LocalTrial, group: Sequence[Candidate]) -> Trial:
        settings: dict[str, Value] = {}
        env: dict[str, str] = {}
        for candidate in group:
            if candidate.field is not None:
                settings[candidate.field] = candidate.value
            elif candidate.edits[0].action == "env" and candidate.edits[0].new is not None:
                env[candidate.edits[0].name] = candidate.edits[0].new
            else:
                return "unknown"
        return trial.run(settings, env)

    # ------------------------------------------------ the search
    def run(self) -> bool:
        """Whether the search came to its own end."""
        self.visit(_Node(0.0, (), frozenset(), 0))
        while self.queue:
            cost, _, node = heapq.heappop(self.queue)
            best = min((f.node.cost for f in self.found), default=None)
            if best is not None and (cost > best + self.limits.margin or len(self.found) >= 3 * self.limits.patches):
                return True
            if any(set(f.node.edits) < set(node.edits) for f in self.found):
                continue
            if self.evaluations >= self.limits.evaluations:
                return False
            self.visit(node)
        return True


def find_patches(
    evaluator_for: EvaluatorFor,
    context: Context,
    target: Target = Target(),
    tried: Sequence[Patch] = (),
    limits: Limits = Limits(),
) -> Search:
    """Ranked minimal patches of a launch that fails. `tried`: patches that are not to be proposed again."""
    skip = frozenset((p.args, tuple(sorted({**context.env, **p.env}.items()))) for p in tried)
    searcher = _Searcher(evaluator_for, context, limits, target, skip)
    complete = searcher.run()
    ranked = sorted((_judge(f, searcher) for f in searcher.found), key=lambda pair: pair[0])
    patches: list[Patch] = []
    for _key, patch in ranked:
        if not any(set(p.edits) <= set(patch.edits) for p in patches):
            patches.append(patch)
    return Search(tuple(patches[: limits.patches]), searcher.evaluations, complete)


def _judge(found: _Found, searcher: _Searcher) -> tuple[tuple[object, ...], Patch]:
    """The patch of a node, with its rank: what is lost of what was typed first, then plausibility, then size."""
    context, node, evaluation = searcher.context, found.node, found.evaluation
    launch = searcher.launch(node)
    assert launch is not None
    args, env = launch
    silent = silent_changes(evaluation, context.options, args)
    losses: list[str] = []
    removed = changed = capabilities = 0
    renamed = {e.new for e in node.edits if e.action == "add" and e.new is not None}
    for edit in node.edits:
        if edit.action in ("remove", "set") and not (edit.action == "remove" and edit.old in renamed and edit.old is not None):
            removed += edit.action == "remove"
            changed += edit.action == "set"
            option = context.options.find(edit.name)
            lost = context.profile.capabilities.get(option.field) if option is not None else None
            capabilities += lost is not None
            was = f"{edit.name} {edit.old}".strip() if edit.old else edit.name
            losses.append(f"{was} is {'removed' if edit.action == 'remove' else f'changed to {edit.new}'}" + (f": {lost}" if lost else ""))
    losses += [f"{context.options.flag_of().get(s.field, s.field)} {s.asked} becomes {s.used}" for s in silent]
    new_risks = [p for p in evaluation.possible if node.fields & p.reads.union(*p.guards[:3])]
    certainty: Certainty = "proved" if evaluation.verdict == "passes" else ("likely" if not new_risks else "guess")
    patch = Patch(
        edits=node.edits,
        args=args,
        env={e.name: e.new for e in node.edits if e.action == "env" and e.new is not None},
        certainty=certainty,
        why=_why(certainty, evaluation),
        losses=tuple(losses),
        silent=silent,
    )
    rank = ("proved", "likely", "guess").index(certainty)
    return (removed, changed + len(silent), capabilities, rank == 2, round(node.cost, 3), node.count, rank, args, sorted(env.items())), patch


def _why(certainty: Certainty, evaluation: Evaluation) -> str:
    if certainty == "proved":
        return f"evaluated through the whole argument validation ({evaluation.steps} statements): nothing refuses it"
    hangs = "; ".join(dict.fromkeys(p.depends for p in evaluation.possible if p.depends))
    return f"nothing in the argument validation surely refuses it; some checks hang on what is not known: {hangs[:300]}"


def silent_changes(evaluation: Evaluation, options: Options, args: Sequence[str]) -> tuple[SilentChange, ...]:
    """Typed values that validation replaced: asked, used, and the line that did it."""
    out: list[SilentChange] = []
    for name in options.typed(args):
        asked, used = evaluation.given.get(name), evaluation.settings.get(name)
        if isinstance(used, Unknown) or has_unknown(used) or has_unknown(asked) or name not in evaluation.settings:
            continue
        if same(asked, used) or asked == used or _only_normalized(asked, used):
            continue
        last = next((w for w in reversed(evaluation.writes) if w.field == name), None)
        where = Location(last.place.file, last.place.line) if last is not None and last.place.file else None
        out.append(SilentChange(name, show(asked), show(used), where))
    return tuple(out)


def _only_normalized(asked: Value, used: Value) -> bool:
    """The same value in another form: a text parsed to JSON, a list of one."""
    return isinstance(asked, str) and not isinstance(used, (str, int, float, type(None)))
