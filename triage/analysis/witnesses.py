"""What the log testifies of a launch beside the failure: messages, the printed args object, the values in the message."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from triage.analysis.decoding import decode_source
from triage.analysis.evaluate import Evaluation, Evaluator, Place, Proof, Told
from triage.analysis.observed import compare_settings, find_message_values, find_printed_args, name_fields
from triage.analysis.records import Match, Statement, find_matches
from triage.model import Evidence, Failure, Location, Log, LogRecord, PathCondition, Unknown

MAX_EVIDENCE = 8
MAX_RECORDS = 200_000  # of one run: the first and the last ones


@dataclass(frozen=True)
class Testimony:
    """The evaluation with what the log proves, and what that rests on. `values`: settings (repr) that the log tells."""

    evaluation: Evaluation
    evidence: tuple[Evidence, ...] = ()
    unknowns: tuple[Unknown, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)


def hear_log(
    log: Log,
    failure: Failure,
    path: PathCondition | None,
    evaluator: Evaluator,
    args: Sequence[str],
    trail: Sequence[Place],
    agrees: Callable[[Evaluation], bool],
) -> Testimony:
    """Evaluate a launch with what its log proves. Where the evaluation is sure by itself and agrees with the failure, the
    source is not searched for messages: only those that the evaluation prints are looked up in the log."""
    evaluation = evaluator.evaluate(args, trail)
    records = run_records(log, failure)
    evidence: list[Evidence] = []
    unknowns: list[Unknown] = []
    if agrees(evaluation) and evaluation.verdict == "fails" and not evaluation.supposed:
        evidence += _expected(evaluation, records)
    else:
        evaluation, matches, against = _with_proofs(evaluation, records, evaluator, args, trail, agrees)
        evidence += _evidence(evaluation, matches)
        unknowns += against
    values: dict[str, str] = {}
    printed = find_printed_args(records, evaluator.profile.args_class.rpartition(".")[2])
    if printed is not None:
        told, different = compare_settings(evaluation.settings, printed)
        values.update(told)
        if told or different:
            text = f"the log prints the resolved settings ({len(printed.fields)} fields)"
            evidence.append(Evidence("log", text, log_line=printed.log_line))
        if not evaluation.supposed:
            what = "whether source, launch and log are of one run"
            unknowns += [Unknown(what, text, "check that --source and --launch are those of this run") for text in different[:3]]
        else:
            values.update({text.split(" ", 1)[0]: printed.fields[text.split(" ", 1)[0]].text for text in different})
    if path is not None and path.sites and failure.kind == "exception":
        said = find_message_values(path.sites[-1].text, failure.message)
        if said:
            shown = ", ".join(f"{v.expression} = {v.text}" for v in said[:6])
            evidence.append(Evidence("log", f"the message tells {shown[:300]}", path.sites[-1].location, failure.last))
            values.update(name_fields(said, evaluation.settings))
    return Testimony(evaluation, tuple(evidence), tuple(unknowns), values)


def run_records(log: Log, failure: Failure) -> tuple[LogRecord, ...]:
    """The records of the failure's own run before it, of the process that failed: at most MAX_RECORDS."""
    older = max((s.line for s in failure.set_aside if "older run" in s.why), default=0)
    first = failure.first if failure.first is not None else 1 << 60
    rank = failure.ranks[0] if failure.ranks else None
    found = [r for r in log.records if older < r.first < first and r.rank in (None, rank)]
    return tuple(found if len(found) <= MAX_RECORDS else found[: MAX_RECORDS // 2] + found[-MAX_RECORDS // 2 :])


def _with_proofs(
    evaluation: Evaluation,
    records: Sequence[LogRecord],
    evaluator: Evaluator,
    args: Sequence[str],
    trail: Sequence[Place],
    agrees: Callable[[Evaluation], bool],
) -> tuple[Evaluation, tuple[Match, ...], list[Unknown]]:
    """The evaluation under what the messages prove; the first one where they do not help or contradict the traceback."""
    read = evaluator.machine.program.found.values()
    sources = [(spec[0], decode_source(spec[1])) for spec in read if spec is not None and spec[1]]
    matches = find_matches(records, sources)
    sure = [(m, m.sure) for m in matches if m.sure is not None]
    proofs = make_proofs(matches)
    if not proofs:
        return evaluation, matches, []
    evaluator.witness(args, proofs)
    second = evaluator.evaluate(args, trail)
    if second.told:
        evaluator.learn(second.told)
        second = evaluator.evaluate(args, trail)
    if agrees(evaluation) and not agrees(second):
        evaluator.witness((), ())
        evaluator.learned.clear()
        return evaluator.evaluate(args, trail), matches, []
    against: list[Unknown] = []
    if not second.supposed and second.verdict != "unknown":
        for proof in second.unprinted[:3]:
            match = next(m for m, s in sure if (s.file, s.first) == (proof.file, proof.first))
            text = (
                f'the log holds "{match.message[:120]}" (line {match.log_line}), which {proof.file}:{proof.first} prints, but '
                "evaluating this launch never comes there"
            )
            against.append(Unknown("whether source, launch and log are of one run", text, "capture the host anew"))
    return second, matches, against


def make_proofs(matches: Sequence[Match]) -> tuple[Proof, ...]:
    """One proof for each statement that alone can have printed its messages; values where it printed only one."""
    found: dict[Statement, list[Match]] = {}
    for match in matches:
        if match.sure is not None:
            found.setdefault(match.sure, []).append(match)
    out = []
    for statement, own in found.items():
        values = tuple(Told(v.expression, v.text, v.literal) for v in own[0].values if v.text is not None and len(own) == 1)
        out.append(Proof(statement.file, statement.first, statement.last, sum(m.count for m in own), values))
    return tuple(out)


def _evidence(evaluation: Evaluation, matches: Sequence[Match]) -> list[Evidence]:
    """The messages that decided tests first, then those with values, in the order of the log."""
    deciding = {(d.proof.file, d.proof.first) for d in evaluation.decided}
    sure = [(m, m.sure) for m in matches if m.sure is not None]
    sure.sort(key=lambda one: ((one[1].file, one[1].first) not in deciding, not one[0].values, one[0].log_line))
    out: list[Evidence] = []
    for match, statement in sure[:MAX_EVIDENCE]:
        decided = (statement.file, statement.first) in deciding
        how = "decides a test that is else unknown" if decided else "shows that its statement ran"
        text = f'"{match.message[:200]}" {how}'
        out.append(Evidence("log", text, Location(statement.file, statement.first, statement.last), match.log_line))
    return out


def _expected(evaluation: Evaluation, records: Sequence[LogRecord]) -> list[Evidence]:
    """Messages that the evaluation prints and the log holds."""
    lines: dict[str, int] = {}
    for record in records:
        lines.setdefault(record.text.strip(), record.first)
    out: list[Evidence] = []
    for message in evaluation.messages:
        line = lines.get(message.text.strip()) if message.text else None
        if line is not None and len(out) < MAX_EVIDENCE and message.text is not None:
            text = f'"{message.text.strip()[:200]}" is printed by this evaluation too'
            out.append(Evidence("log", text, Location(message.place.file, message.place.line), line))
    return list(dict.fromkeys(out))
