"""Why a typed value is replaced without being refused: the tests that lead to the assignment, and what it logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from triage.analysis.constraints import guards_that_tell
from triage.analysis.evaluate import Evaluation
from triage.analysis.evaluators import Evaluators
from triage.analysis.flags import Options
from triage.analysis.guards import complete_path
from triage.analysis.ranking import silent_changes
from triage.analysis.source import find_sites
from triage.analysis.words import describe_condition
from triage.model import Failure, Frame, Patch, SilentChange
from triage.protocols import SourceTree

MAX_TESTS = 3
MAX_NAMES = 4
NEAR = 12  # lines between an assignment and the log call that belongs to it
MAX_MESSAGE = 200  # characters


def explain_silent(evaluation: Evaluation, options: Options, args: Sequence[str], tree: SourceTree) -> tuple[SilentChange, ...]:
    """The typed values that validation replaces, each with the line that does it and why, as far as the source tells."""
    return tuple(
        replace(change, why=_say_why(change, evaluation, options, tree)) for change in silent_changes(evaluation, options, args)
    )


def explain_patch(patch: Patch, evaluators: Evaluators, env: Mapping[str, str], options: Options) -> Patch:
    """The patch with the reason of each silent change of the patched launch; `env` are the variables of the launch as it was."""
    source = evaluators.capture.source
    if not patch.silent or source is None:
        return patch
    evaluation = evaluators.get({**env, **patch.env}).evaluate(patch.args)
    return replace(patch, silent=explain_silent(evaluation, options, patch.args, source))


def _say_why(change: SilentChange, evaluation: Evaluation, options: Options, tree: SourceTree) -> str:
    where = change.location
    last = next((w for w in reversed(evaluation.writes) if w.field == change.field), None)
    if where is None or last is None:
        return ""
    parts: list[str] = []
    frame = Frame(where.file, where.line, last.place.function, "", where.file)
    sites, _ = find_sites(Failure("exception", None, "", (frame,)), tree)
    flag_of = options.flag_of()
    for site in complete_path(sites, tree).sites:
        tests = [describe_condition(g.text, g.came_out, flag_of) for g in guards_that_tell(site.guards, options)[-MAX_TESTS:]]
        if tests:
            parts.append(" and ".join(dict.fromkeys(tests)))
    if not parts:  # the tests stand elsewhere, in a helper: what the new value was made from is known all the same
        names = [flag_of.get(n, n.removeprefix("env:")) for n in sorted(last.reads) if n in flag_of or n.startswith("env:")]
        if names:
            parts.append(f"decided from {', '.join(names[:MAX_NAMES])}" + (" and others" if len(names) > MAX_NAMES else ""))
    said = [
        m
        for m in evaluation.messages
        if m.text and m.place.file == where.file and m.place.function == last.place.function and _near(m.place.line, where.line)
    ]
    if said:
        nearest = min(said, key=lambda m: abs(m.place.line - where.line))
        parts.append(f'it only logs "{(nearest.text or "")[:MAX_MESSAGE]}"')
    return "; ".join(parts)


def _near(line: int, other: int) -> bool:
    return abs(line - other) <= NEAR


__all__ = ["explain_patch", "explain_silent"]
