"""The JSON of the interface contract: names are stable, keys may be added, SCHEMA is raised on a breaking change."""

from __future__ import annotations

import json
from collections.abc import Iterable

from triage.model import (
    SCHEMA,
    Attempt,
    Cause,
    Diagnosis,
    Edit,
    Evidence,
    Failure,
    Guard,
    JsonValue,
    Location,
    Observation,
    Patch,
    PathCondition,
    Setting,
    SilentChange,
    Site,
    Unknown,
)
from triage.report.view import Subject

JsonObject = dict[str, JsonValue]


def render_json(subject: Subject) -> str:
    """One ASCII object with a final newline; the same record gives the same bytes."""
    return dump_object(build_object(subject))


def dump_object(made: JsonObject) -> str:
    """One ASCII object with a final newline; the same values give the same bytes."""
    return json.dumps(made, indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def build_object(subject: Subject) -> JsonObject:
    """The contract's object. A Session adds `session`; there `diagnosis` is what `replay` of that failure's capture prints."""
    if isinstance(subject, Diagnosis):
        return _diagnosis(subject)
    empty = Diagnosis(outcome=subject.outcome, failure=None, path=None, cause=None)
    whole = _diagnosis(subject.diagnosis or empty)
    whole["outcome"] = subject.outcome
    whole["session"] = {
        "id": subject.id,
        "host": subject.host,
        "service": subject.service,
        "started": subject.started,
        "why": subject.why,
        "engine_version": subject.meta.engine_version if subject.meta else None,
        "applied": build_patch(subject.applied) if subject.applied else None,
        "diff": subject.plan.diff if subject.plan else None,
        "attempts": [_attempt(a) for a in subject.attempts],
        "diagnosis": _diagnosis(subject.diagnosis) if subject.diagnosis else None,
    }
    return whole


def _diagnosis(diagnosis: Diagnosis) -> JsonObject:
    return {
        "schema": SCHEMA,
        "outcome": diagnosis.outcome,
        "failure": build_failure(diagnosis.failure) if diagnosis.failure else None,
        "cause": build_cause(diagnosis.cause) if diagnosis.cause else None,
        "patches": [build_patch(p) for p in diagnosis.patches],
        "unknowns": [build_unknown(u) for u in diagnosis.unknowns],
        "settings": [build_setting(s) for s in diagnosis.settings],
        "silent_changes": build_silent(diagnosis.silent),
        "path": build_path(diagnosis.path) if diagnosis.path else [],
    }


def build_failure(failure: Failure) -> JsonObject:
    site = failure.site
    return {
        "kind": failure.kind,
        "exception": failure.exception,
        "message": failure.message,
        "file": site.file if site else None,
        "line": site.line if site else None,
        "function": site.function if site else None,
        "rank": failure.ranks[0] if failure.ranks else None,
        "ranks": list(failure.ranks),
        "path": site.path if site else None,
        "signal": failure.signal,
        "log_first": failure.first,
        "log_last": failure.last,
        "raised_from": [{"exception": r.exception, "message": r.message} for r in failure.chain],
        "set_aside": [{"what": s.what, "why": s.why, "log_line": s.line} for s in failure.set_aside],
    }


def build_cause(cause: Cause) -> JsonObject:
    return {
        "category": cause.category,
        "text": cause.text,
        "constraints": [c.text for c in cause.constraints],
        "evidence": [_evidence(e) for e in cause.evidence],
        "constraint_details": [
            {"when": list(c.when), "need": c.need, "fields": list(c.fields), **build_location(c.location)}
            for c in cause.constraints
        ],
    }


def _evidence(evidence: Evidence) -> JsonObject:
    return {
        "kind": evidence.kind,
        "text": evidence.text,
        **build_location(evidence.location),
        "log_line": evidence.log_line,
        "knowledge_id": evidence.knowledge_id,
    }


def build_location(location: Location | None) -> JsonObject:
    return {"file": location.file if location else None, "line": location.line if location else None}


def _edit(edit: Edit) -> JsonObject:
    return {"action": edit.action, "name": edit.name, "old": edit.old, "new": edit.new}


def build_patch(patch: Patch) -> JsonObject:
    return {
        "edits": [_edit(e) for e in patch.edits],
        "argv": list(patch.args),
        "env": {name: patch.env[name] for name in sorted(patch.env)},
        "certainty": patch.certainty,
        "why": patch.why,
        "losses": list(patch.losses),
        "silent_changes": build_silent(patch.silent),
    }


def build_silent(changes: Iterable[SilentChange]) -> list[JsonValue]:
    return [{"field": c.field, "asked": c.asked, "used": c.used, **build_location(c.location), "why": c.why} for c in changes]


def build_setting(setting: Setting) -> JsonObject:
    return {
        "field": setting.field,
        "value": setting.value,
        "origin": setting.origin,
        "typed": setting.typed,
        **build_location(setting.location),
    }


def build_unknown(unknown: Unknown) -> JsonObject:
    return {"what": unknown.what, "why": unknown.why, "settle": unknown.settle}


def build_path(path: PathCondition) -> list[JsonValue]:
    return [_site(s) for s in path.sites]


def _site(site: Site) -> JsonObject:
    return {
        **build_location(site.location),
        "end_line": site.location.end_line,
        "at": site.at,
        "function": site.function,
        "kind": site.kind,
        "text": site.text,
        "matches": site.matches,
        "guards": [_guard(g) for g in site.guards],
    }


def _guard(guard: Guard) -> JsonObject:
    return {**build_location(guard.location), "kind": guard.kind, "text": guard.text, "came_out": guard.came_out}


def _attempt(attempt: Attempt) -> JsonObject:
    return {
        "number": attempt.number,
        "patch": build_patch(attempt.patch) if attempt.patch else None,
        "observation": _observation(attempt.observation) if attempt.observation else None,
        "diagnosis": _diagnosis(attempt.diagnosis) if attempt.diagnosis else None,
    }


def _observation(seen: Observation) -> JsonObject:
    return {"verdict": seen.verdict, "phase": seen.phase, "seconds": round(seen.seconds, 3), "why": seen.why, "run": seen.run}
