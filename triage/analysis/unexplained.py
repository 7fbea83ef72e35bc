"""A failure that evaluation of the source does not explain: what knowledge says of it, or plainly that it is not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from triage.analysis.blame import trace_blame
from triage.analysis.edits import Context
from triage.analysis.evaluate import Value
from triage.analysis.evaluators import Evaluators
from triage.analysis.figures import Figures, read_figures, read_settings
from triage.analysis.flags import read_flags
from triage.analysis.phases import describe_phases
from triage.analysis.proposals import Proposed, compute_values, propose_patches
from triage.analysis.signatures import fill_text, find_signatures, read_run
from triage.model import (
    Cause,
    Diagnosis,
    Evidence,
    Failure,
    Log,
    OutcomeName,
    Patch,
    PathCondition,
    SignatureMatch,
    Unknown,
)
from triage.protocols import Capture, EngineProfile

MAX_UNKNOWNS = 12
_MAX_GATHER = 5
_MAX_SAID = 300


def explain_unexplained(
    capture: Capture,
    profile: EngineProfile,
    log: Log,
    failure: Failure,
    path: PathCondition | None,
    evidence: Sequence[Evidence],
    unknowns: Sequence[Unknown],
    tried: Sequence[Patch] = (),
    evaluators: Evaluators | None = None,
) -> Diagnosis:
    """The diagnosis by the log and knowledge alone; `evaluators` are the capture's, where there are some already.

    Patches come from the remedy of the signature that fits best, with values computed from this run's own figures. Where no
    signature fits, the cause says that it is not known, and what was seen.
    """
    matches = find_signatures(profile.signatures, log, failure, capture.source)
    match = matches[0] if matches else None
    category = match.signature.category if match is not None else _category(profile, failure)
    parts: list[str] = []
    patches: tuple[Proposed, ...] = ()
    asked: list[Unknown] = []
    evidence = list(evidence)
    if match is not None:
        parts.append(fill_text(match.signature.means, match.holes))
        evidence.append(Evidence("knowledge", parts[0], knowledge_id=match.signature.id))
        evidence += [Evidence("log", said.text, log_line=said.line) for said in match.said]
        gather = [text for raw in match.signature.gather if (text := fill_text(raw, match.holes))][:_MAX_GATHER]
        if gather:
            asked = [Unknown("what confirms the cause", "it rests on knowledge of such failures", "; ".join(gather))]
    elif category in ("argument", "usage"):
        parts.append("The launch's arguments were refused; which change would pass is not known from what was captured.")
    else:
        parts.append("What this failure means is not known: no known kind of failure fits it, and no change is proposed for it.")
    parts.append(_tell_seen(failure))
    if capture.source is not None and capture.launch is not None:
        evaluators = evaluators or Evaluators(capture, profile)
        launch = capture.launch
        evaluator = evaluators.get(launch.env)
        evaluation = evaluator.evaluate(launch.args)
        options = read_flags(evaluator, capture.source)
        words = f"{failure.message}\n{parts[0]}" if match is not None else failure.message
        parts += trace_blame(words, evaluation, options, launch.args)
        if match is not None and evaluation.raised is None:
            figures = _figures(capture, profile, log, failure, match, evaluation.settings)
            context = Context(options, profile, capture.source, launch.args, launch.env)
            patches = propose_patches(match, figures, evaluators, context, tried)
            evaluator.evaluate(launch.args)
    if match is not None:
        parts.append(_tell_remedy(capture, profile, log, failure, match, bool(patches)))
    free = tuple(p.patch for p in patches if p.consent is None)
    outcome: OutcomeName = "patch" if free else ("needs_consent" if patches else "no_patch")
    if not free:
        asked += [Unknown("whether the change is wanted", p.consent, "a person has to agree to it") for p in patches if p.consent]
    cause = Cause(category, " ".join(p for p in parts if p), (), tuple(evidence))
    told = (*asked, *unknowns)[:MAX_UNKNOWNS]
    return Diagnosis(outcome, failure, path, cause, free or tuple(p.patch for p in patches), unknowns=told)


def _figures(
    capture: Capture,
    profile: EngineProfile,
    log: Log,
    failure: Failure,
    match: SignatureMatch,
    resolved: Mapping[str, Value] | None = None,
) -> Figures:
    records = read_run(log, failure)
    typed = capture.launch.args if capture.launch is not None and resolved is None else ()
    settings = {**(resolved or {}), **read_settings(records, profile.args_class.rpartition(".")[2], typed)}
    return Figures(match.holes, read_figures(records, profile.figures), settings, capture.facts)


def _tell_remedy(
    capture: Capture, profile: EngineProfile, log: Log, failure: Failure, match: SignatureMatch, patched: bool
) -> str:
    """The remedy in words, with the values that the run's figures give where no patch could be made of them."""
    remedy = match.signature.remedy
    text = f"What helps: {fill_text(remedy.text, match.holes)}" if remedy.kind != "none" else fill_text(remedy.text, match.holes)
    if patched or not any(t.compute for t in remedy.tries):
        return text
    told: list[str] = []
    for attempt, computed in compute_values(match, _figures(capture, profile, log, failure, match)):
        name = attempt.variable or (f"--{attempt.fields[0].replace('_', '-')}" if attempt.fields else "")
        if attempt.compute is not None:
            told.append(f"{name} {computed.value} ({computed.why})")
    return f"{text} By the figures of this run: {'; '.join(told)}." if told else text


def _category(profile: EngineProfile, failure: Failure) -> str:
    """By the log alone, where no signature fits."""
    if failure.kind == "usage":
        return "usage"
    if failure.kind != "exception":
        return failure.kind
    stages = {stage.call.rpartition(".")[2] for stage in profile.stages}
    validating = any(f.file and f.function.rpartition(".")[2] in stages for f in failure.frames)
    return "argument" if validating else "runtime"


def _tell_seen(failure: Failure) -> str:
    site = failure.site
    where = f" at {site.file or site.path}:{site.line} in {site.function}" if site is not None else ""
    message = " ".join(failure.message.split())[:_MAX_SAID]
    if failure.kind == "usage":
        return f"The argument parser refused the command line: {message}"
    if failure.kind == "exception":
        said = f': "{message}"' if message else ", without a message"
        told = f"{failure.exception or 'An exception'} was raised{where}{said}."
        last = failure.phases[-1].name if failure.phases else ""
        return f"{told} The start had reached the phase {last!r}." if last else told
    if failure.kind == "signal":
        told = f"A process was ended by signal {failure.signal}{where}. {message}"
    else:
        told = f"The server ended without a Python traceback. {message}"
    return f"{told.strip()} {describe_phases(failure.phases)}".strip()
