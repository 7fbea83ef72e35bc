"""The remedy of a signature -> patches of this launch, each evaluated through the whole validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from triage.analysis.edits import Context, edit_launch
from triage.analysis.evaluators import Evaluators
from triage.analysis.figures import Figures
from triage.analysis.flags import Option, Options, typed_text
from triage.analysis.ranking import judge
from triage.analysis.remedies import COMPUTATIONS, Computed
from triage.analysis.signatures import fill_text
from triage.model import Certainty, Edit, Patch, SignatureMatch, Try

_COST = 1.0


@dataclass(frozen=True)
class Proposed:
    """What a remedy comes to for this launch. `consent`: why a person has to agree to a change of this setting first."""

    patch: Patch
    consent: str | None = None


def compute_values(match: SignatureMatch, figures: Figures) -> tuple[tuple[Try, Computed], ...]:
    """The changes of a remedy with the value that each sets, in order; those whose figures are missing are left out.
    The value of a switch is ""."""
    out: list[tuple[Try, Computed]] = []
    for attempt in match.signature.remedy.tries:
        if attempt.compute is not None:
            computed = COMPUTATIONS[attempt.compute](figures) if attempt.compute in COMPUTATIONS else None
            if computed is not None:
                out.append((attempt, computed))
        elif attempt.value is None:
            out.append((attempt, Computed("", "")))
        elif value := fill_text(attempt.value, match.holes):
            out.append((attempt, Computed(value, "")))
    return tuple(out)


def propose_patches(
    match: SignatureMatch, figures: Figures, evaluators: Evaluators, context: Context, tried: Sequence[Patch]
) -> tuple[Proposed, ...]:
    """Patches in the order of the remedy. A change whose flag this release does not declare, that the launch has already,
    that was tried before or that validation surely refuses is none. Certainty is "likely" where validation passes, else
    "guess": that the change solves the failure rests on knowledge."""
    before = {(p.args, tuple(sorted({**context.env, **p.env}.items()))) for p in tried}
    out: list[Proposed] = []
    for attempt, computed in compute_values(match, figures):
        made = _make_edit(attempt, computed.value, context.options, context.args, context.env)
        launch = edit_launch(context.args, context.env, [made]) if made is not None else None
        if made is None or launch is None or (launch[0], tuple(sorted(launch[1].items()))) in before:
            continue
        option = context.options.find(made.name)
        field = option.field if option is not None and made.action != "env" else made.name
        args, env = launch
        evaluation = evaluators.get(env).evaluate(args)
        if evaluation.raised is not None:
            continue
        patch = judge(context, [(made,)], _COST, frozenset({field}), evaluation, args, env).patch
        why = f"by knowledge of this kind of failure ({match.signature.id})"
        why += f"; {computed.why}" if computed.why else ""
        told = not attempt.costs or any(attempt.costs in loss for loss in patch.losses)
        losses = patch.losses if told else (*patch.losses, attempt.costs)
        certainty: Certainty = "likely" if evaluation.verdict == "passes" and attempt.compute != "next_port" else "guess"
        patch = replace(patch, certainty=certainty, why=f"{why}; {patch.why}", losses=losses)
        out.append(Proposed(patch, context.protection(field)))
    return tuple(out)


def _make_edit(attempt: Try, value: str, options: Options, args: Sequence[str], env: Mapping[str, str]) -> Edit | None:
    if attempt.variable is not None:
        old = env.get(attempt.variable)
        if old is not None and set(value.split(",")) <= set(old.split(",")):
            return None
        new = f"{old},{value}" if attempt.joins and old else value
        return Edit("env", attempt.variable, old, new)
    option = next((o for name in attempt.fields for o in options.by_field.get(name, ()) if not o.flag.deprecated), None)
    if option is None or (option.flag.choices is not None and value not in option.flag.choices):
        return None
    typed = options.typed(args).get(option.field)
    if option.flag.kind == "switch":
        return Edit("add", option.name) if typed is None and not value else None
    if not value or not _converts(option, value):
        return None
    if typed is None:
        return Edit("add", option.name, None, value)
    old = typed_text(args, typed[1])
    return Edit("set", typed[1], old, value) if old != value else None


def _converts(option: Option, value: str) -> bool:
    try:
        option.convert(value)
    except ValueError:
        return False
    return True
