"""The pipeline of the analysis as a handful of calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from triage.analysis.blame import trace_blame
from triage.analysis.collection import hold_collection
from triage.analysis.constraints import describe_cause, find_constraints, find_settings
from triage.analysis.definitions import find_definitions
from triage.analysis.edits import Context
from triage.analysis.evaluate import Evaluation, Place
from triage.analysis.evaluators import Evaluators
from triage.analysis.failure import find_failure
from triage.analysis.flags import read_flags
from triage.analysis.foreign import explain_refused
from triage.analysis.guards import complete_path
from triage.analysis.log import read_log
from triage.analysis.patch import Limits, Search, Target, find_patches
from triage.analysis.phases import describe_phases, find_phases
from triage.analysis.plugins import find_plugins
from triage.analysis.silent import explain_patch, explain_silent
from triage.analysis.source import find_sites
from triage.analysis.unexplained import MAX_UNKNOWNS, explain_unexplained
from triage.analysis.witnesses import hear_log
from triage.model import Cause, Diagnosis, Evidence, Failure, Launch, Log, OutcomeName, Patch, PathCondition, Unknown
from triage.protocols import Capture, EngineProfile

DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class _Explained:
    """What evaluation says of the failure that the log shows."""

    evaluation: Evaluation
    agrees: bool  # the evaluation raises where the log says
    trail: tuple[Place, ...]


def diagnose(
    capture: Capture,
    profile: EngineProfile,
    tried: Sequence[Patch] = (),
    lessons: Sequence[Capture] = (),
    limits: Limits = DEFAULT_LIMITS,
) -> Diagnosis:
    """The cause of the captured run's failure and the patches for it. Same capture, same answer.

    Never raises for what stands in the capture: what cannot be known is an Unknown of the diagnosis. `tried` patches
    are not proposed again. `lessons` are other launches on the same host that failed, with their logs: what these show of
    the host holds for every patch.
    """
    with hold_collection():
        return _diagnose(capture, profile, tried, lessons, limits)


def _diagnose(
    capture: Capture, profile: EngineProfile, tried: Sequence[Patch], lessons: Sequence[Capture], limits: Limits
) -> Diagnosis:
    log = read_log(capture.log, capture.gaps)
    failure = find_failure(log, capture.meta.exit, profile.package, capture.meta.active, profile.fatal_marks, profile.phases)
    unknowns = [Unknown("part of the log", note) for note in log.notes]
    if failure is None and capture.meta.gave_up is not None:
        failure = Failure("timeout", None, capture.meta.gave_up, phases=find_phases(log.records, profile.phases))
    if failure is None:
        unknowns += _ask_hang(log, profile)
        return Diagnosis("no_failure", None, None, None, unknowns=tuple(unknowns))
    path: PathCondition | None = None
    if capture.source is None:
        unknowns.append(Unknown("the code that failed", "no source was captured", "give --source, or capture the host"))
    else:
        sites, lost = find_sites(failure, capture.source)
        unknowns += lost
        path = complete_path(sites, capture.source, failure)
        moved = [s for s in sites if not s.matches]
        if moved:
            text = (
                f"{moved[-1].location} does not hold the text that the traceback shows: the source changed since, or is another"
            )
            unknowns.append(
                Unknown("whether the captured source is what ran", text, "restart once, so that log and source agree")
            )
        unknowns += find_plugins(capture.source, profile, capture.launch.env if capture.launch is not None else {})
    if capture.launch is None:
        unknowns.append(Unknown("the launch", "the log alone does not tell the command line", "give --launch"))
    evidence = list(_log_evidence(failure))
    if path is not None and path.sites:
        last = path.sites[-1]
        evidence.append(Evidence("source", last.text, last.location))
        if capture.source is not None:
            evidence += find_definitions(path, capture.source)
    if capture.source is None or capture.launch is None or failure.kind in ("signal", "timeout"):
        return explain_unexplained(capture, profile, log, failure, path, evidence, unknowns, tried)
    return _explain(capture, profile, capture.launch, log, failure, path, evidence, unknowns, tried, lessons, limits)


def _explain(
    capture: Capture,
    profile: EngineProfile,
    launch: Launch,
    log: Log,
    failure: Failure,
    path: PathCondition | None,
    evidence: list[Evidence],
    unknowns: list[Unknown],
    tried: Sequence[Patch],
    lessons: Sequence[Capture],
    limits: Limits,
) -> Diagnosis:
    assert capture.source is not None
    evaluators = Evaluators(capture, profile)
    trail = find_trail(failure, path, profile)
    heard = hear_log(log, failure, path, evaluators.get(launch.env), launch.args, trail, lambda one: _agrees(one, failure, path))
    evaluation = heard.evaluation
    evidence += heard.evidence
    unknowns += heard.unknowns
    if evaluation.supposed or evaluation.observed:
        unknowns += evaluators.assumed
    options = read_flags(evaluators.get(launch.env), capture.source)
    found = _Explained(evaluation, _agrees(evaluation, failure, path), trail)
    for text in evaluation.contradictions[:3]:
        unknowns.append(Unknown("why the run went another way than the evaluation", text, "capture the host's facts anew"))
    moved = path is not None and bool(path.sites) and not path.sites[-1].matches
    guessed = moved and (bool(evaluation.contradictions) or (evaluation.raised is not None and evaluation.raised.assumed))
    if not found.agrees or guessed:  # a source that changed since is believed only where it surely fails by itself
        return _disagreement(capture, profile, log, failure, path, found, evidence, unknowns, tried, evaluators)
    evaluators.learn(evaluation.observed)
    for lesson in lessons:
        evaluators.learn({**_read_lesson(lesson, profile, evaluators), **evaluation.observed})
    evidence.append(_evaluation_evidence(evaluation))
    if failure.kind == "usage":
        evidence += explain_refused(failure.message, profile, options.by_name)
    constraints = find_constraints(path, failure, evaluation, options) if path is not None else ()
    settings = find_settings(evaluation, options, launch.args, launch.env, constraints, heard.values)
    text = describe_cause(failure, constraints, settings, profile.name, capture.meta.engine_version)
    blamed = trace_blame(failure.message, evaluation, options, launch.args) if failure.kind == "exception" else ()
    cause = Cause(
        "usage" if failure.kind == "usage" else "argument",
        " ".join((text, *blamed)),
        constraints,
        tuple(evidence),
    )
    context = Context(options, profile, capture.source, launch.args, launch.env)
    target = Target(found.trail, _span(path), failure.message)
    search = find_patches(evaluators.get, context, target, tried, limits)
    outcome: OutcomeName = "patch" if search.patches else "no_patch"
    if not search.patches:
        search, outcome = _ask_consent(evaluators, context, target, tried, limits, search)
    if any(p.certainty != "proved" for p in search.patches[:1]):  # what the launch as typed never came to may decide it
        unknowns += [u for u in evaluators.assumed if u not in unknowns]
    if not search.complete:
        why = f"the search was cut after {search.evaluations} evaluations of the whole validation"
        unknowns.append(Unknown("whether a better patch exists", why))
    elif not search.patches:
        text = f"no plausible edit of up to {limits.edits} flags or variables passes validation ({search.evaluations} evaluated)"
        unknowns.append(Unknown("a patch", text, "the failure may hang on the model or the hardware, which flags do not change"))
    unknowns += [
        Unknown(f"how {p.site} comes out", f"it depends on {p.depends}", "a capture with the host's facts")
        for p in evaluation.possible
    ]
    unknowns += [Unknown("part of the code", note) for note in evaluation.notes]
    located = {u.what for u in unknowns}
    newer = [Unknown(f"the exact syntax of {file}", note) for file, note in evaluators.program.rewritten.items()]
    unknowns += [u for u in newer if u.what not in located]
    silent = explain_silent(evaluation, options, launch.args, capture.source)
    patches = tuple(explain_patch(p, evaluators, launch.env, options) if n == 0 else p for n, p in enumerate(search.patches))
    return Diagnosis(outcome, failure, path, cause, patches, settings, silent, tuple(unknowns[:MAX_UNKNOWNS]))


def _read_lesson(lesson: Capture, profile: EngineProfile, evaluators: Evaluators) -> Mapping[str, bool]:
    """How tests that nothing else tells came out where another launch failed; {} where evaluation does not follow it there."""
    log = read_log(lesson.log)
    failure = find_failure(log, lesson.meta.exit, profile.package, lesson.meta.active, profile.fatal_marks)
    if failure is None or failure.kind != "exception" or lesson.launch is None or evaluators.capture.source is None:
        return {}
    path = complete_path(find_sites(failure, evaluators.capture.source)[0], evaluators.capture.source, failure)
    trail = find_trail(failure, path, profile)
    evaluator = evaluators.get(lesson.launch.env)
    heard = hear_log(log, failure, path, evaluator, lesson.launch.args, trail, lambda one: _agrees(one, failure, path))
    return heard.evaluation.observed if _agrees(heard.evaluation, failure, path) else {}


def _ask_consent(
    evaluators: Evaluators, context: Context, target: Target, tried: Sequence[Patch], limits: Limits, before: Search
) -> tuple[Search, OutcomeName]:
    """Only where nothing else helps: patches that touch a protected setting, which a person has to agree to."""
    again = find_patches(
        evaluators.get, replace(context, protected=True), target, tried, replace(limits, edits=2, evaluations=20)
    )
    return (again, "needs_consent") if again.patches else (before, "no_patch")


# ---------------------------------------------------------------- the log against the evaluation
def find_trail(failure: Failure, path: PathCondition | None, profile: EngineProfile) -> tuple[Place, ...]:
    """The frames of the traceback from the first call of a validation stage on, as the evaluator counts lines."""
    if path is None or failure.kind != "exception":
        return ()
    names = {stage.call.rpartition(".")[2] for stage in profile.stages}
    places = [Place(s.location.file, s.location.line, s.function.rpartition(".")[2]) for s in path.sites]
    start = next((i for i, p in enumerate(places) if p.function in names), None)
    return tuple(places[start:]) if start is not None else ()


def _span(path: PathCondition | None) -> tuple[str, int, int] | None:
    if path is None or not path.sites:
        return None
    where = path.sites[-1].location
    return (where.file, where.line, where.end_line or where.line)


def _agrees(evaluation: Evaluation, failure: Failure, path: PathCondition | None) -> bool:
    raised = evaluation.raised
    if raised is None:
        return False
    if failure.kind == "usage":
        return raised.usage
    span = _span(path)
    site = raised.site
    return span is not None and site is not None and site.file == span[0] and span[1] <= site.line <= span[2]


def _evaluation_evidence(evaluation: Evaluation) -> Evidence:
    raised = evaluation.raised
    assert raised is not None
    how = "must, by the traceback," if raised.assumed else "surely"
    return Evidence(
        "evaluation", f"evaluating the installed source with this launch {how} raises {raised.exception} at {raised.site_text}"
    )


def _log_evidence(failure: Failure) -> list[Evidence]:
    text = f"{failure.exception}: {failure.message}" if failure.exception else failure.message
    out = [Evidence("log", text[:500], log_line=failure.last)]
    out += [Evidence("log", f"set aside: {s.what} ({s.why})", log_line=s.line) for s in failure.set_aside[:5]]
    return out


def _ask_hang(log: Log, profile: EngineProfile) -> list[Unknown]:
    """Of a start whose log shows neither a failure nor readiness: it may hang."""
    spans = find_phases(log.records, profile.phases)
    if not spans or spans[-1].name == profile.phases[-1][0]:
        return []
    why = f"the log ends before the server is ready. {describe_phases(spans)}"
    return [Unknown("whether the start hangs", why, "look whether the process still runs, and for how long its log was silent")]


# ---------------------------------------------------------------- no patch
def _disagreement(
    capture: Capture,
    profile: EngineProfile,
    log: Log,
    failure: Failure,
    path: PathCondition | None,
    found: _Explained,
    evidence: list[Evidence],
    unknowns: list[Unknown],
    tried: Sequence[Patch],
    evaluators: Evaluators,
) -> Diagnosis:
    """The evaluation does not reach the failure: it lies behind validation, or the capture is not what ran."""
    evaluation = found.evaluation
    if found.trail or failure.kind == "usage":
        what = (
            "passes"
            if evaluation.verdict == "passes"
            else (evaluation.why and f"ends in nothing known ({evaluation.why})")
            or (f"raises at {evaluation.raised and evaluation.raised.site_text}")
        )
        why = f"the log shows the failure in validation, but evaluating the captured source with the captured launch {what}"
        unknowns.append(Unknown("why validation failed", why, "check that --source and --launch are those of this run"))
    elif evaluation.verdict == "passes":
        evidence.append(Evidence("evaluation", "the argument validation of this launch passes; the failure comes after it"))
    return explain_unexplained(capture, profile, log, failure, path, evidence, unknowns, tried, evaluators)


__all__ = ["Limits", "diagnose", "find_trail"]
