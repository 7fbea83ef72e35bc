"""What a found patch costs the user: typed values that are lost or replaced, and how sure it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from triage.analysis.edits import Context, turns_off
from triage.analysis.evaluate import Evaluation, Value
from triage.analysis.evaluate.values import Unknown, has_unknown, same, show
from triage.analysis.flags import Options
from triage.model import Certainty, Edit, Location, Patch, SilentChange

SILENT = 3.5  # a typed value that is replaced without a word: nearly as bad as changing it
GUESS = 2.0

Unit = tuple[Edit, ...]
_CERTAINTIES: tuple[Certainty, ...] = ("rehearsed", "proved", "likely", "guess")


@dataclass(frozen=True)
class Judged:
    """A patch with its score (lower is better) and a key that orders equal scores."""

    score: float
    key: tuple[object, ...]
    patch: Patch
    units: tuple[Unit, ...]
    lost: int  # what was asked for is lost by it, beyond what the launch as typed loses

    @property
    def sure(self) -> int:
        """Lower is surer."""
        return _CERTAINTIES.index(self.patch.certainty)

    @property
    def order(self) -> tuple[object, ...]:
        return (self.score, *self.key)


def judge(
    context: Context,
    units: Sequence[Unit],
    cost: float,
    fields: frozenset[str],
    evaluation: Evaluation,
    args: tuple[str, ...],
    env: Mapping[str, str],
    replaced: frozenset[str] = frozenset(),
) -> Judged:
    """`context` is that of the launch as typed, `args` and `env` those of the patched one."""
    edits = tuple(e for unit in units for e in unit)
    silent = silent_changes(evaluation, context.options, args)
    new_risks = [p for p in evaluation.possible if fields & p.reads.union(*p.guards[:3])]
    certainty: Certainty = "proved" if evaluation.verdict == "passes" else ("likely" if not new_risks else "guess")
    flag_of = context.options.flag_of()
    losses = [text for unit in units for text in _losses(unit, context)]
    given_up = len(losses)
    counted = [c for c in silent if c.field not in replaced and not _is_spelling(c.field, evaluation)]
    losses += [f"{flag_of.get(s.field, s.field)} {s.asked} becomes {s.used}" for s in counted]
    patch = Patch(
        edits=edits,
        args=args,
        env={e.name: e.new for e in edits if e.action == "env" and e.new is not None},
        certainty=certainty,
        why=_why(certainty, evaluation),
        losses=tuple(losses),
        silent=silent,
    )
    score = cost + SILENT * len(counted) + (GUESS if certainty == "guess" else 0.0)
    rank = _CERTAINTIES.index(certainty)
    key = (len(units), rank, args, tuple(sorted(env.items())))
    return Judged(round(score, 3), key, patch, tuple(units), given_up + len(counted))


def _losses(unit: Unit, context: Context) -> list[str]:
    if len(unit) > 1:  # a renamed flag
        return []
    edit = unit[0]
    option = context.options.find(edit.name)
    field = option.field if option is not None else edit.name
    lost = context.profile.capabilities.get(field)
    if edit.action == "add":
        off = turns_off(edit.name)
        role = context.profile.roles.get(field)
        return [f"{off} is turned off" if off else f"{edit.name}: {role}"] if off or role else []
    if edit.action == "env":
        return [] if edit.old is None else [f"{edit.name} is changed from {edit.old} to {edit.new}"]
    if edit.action == "set" and edit.new is None:  # words that the flag never took
        return []
    was = f"{edit.name} {edit.old}".strip() if edit.old else edit.name
    return [f"{was} is {'removed' if edit.action == 'remove' else f'changed to {edit.new}'}" + (f": {lost}" if lost else "")]


def _why(certainty: Certainty, evaluation: Evaluation) -> str:
    if certainty == "proved":
        return f"evaluated through the whole argument validation ({evaluation.steps} statements): nothing refuses it"
    hangs = list(dict.fromkeys(p.depends for p in evaluation.possible if p.depends))
    if not hangs and evaluation.supposed:
        return (
            f"nothing in the argument validation refuses it, {len(evaluation.supposed)} tests of host and model taken as likely"
        )
    return (
        f"nothing in the argument validation surely refuses it; some checks hang on what is not known: {'; '.join(hangs)[:300]}"
    )


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


def _is_spelling(field: str, evaluation: Evaluation) -> bool:
    """Whether a setting was replaced by looking at nothing but itself: another name for the same value."""
    writes = [w for w in evaluation.writes if w.field == field]
    return bool(writes) and all(w.reads <= {field} for w in writes)


def _only_normalized(asked: Value, used: Value) -> bool:
    """The same value in another form: a text parsed to JSON, a list as a set or of one."""
    if isinstance(asked, list | tuple) and isinstance(used, list | tuple | set | frozenset):
        return len(asked) >= len(used) and all(one in asked for one in used) and all(one in used for one in asked)
    return isinstance(asked, str) and not isinstance(used, (str, int, float, type(None)))
