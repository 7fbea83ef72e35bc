"""From the failing path and the settings to constraints ("when A, need B"), the settings involved, and the cause in words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from triage.analysis.candidates import relevant_settings
from triage.analysis.demands import failing_condition
from triage.analysis.evaluate import Evaluation, Value
from triage.analysis.evaluate.values import Unknown, has_unknown, show
from triage.analysis.flags import Options, typed_text
from triage.analysis.words import describe_condition
from triage.model import Constraint, Failure, Guard, Location, Origin, PathCondition, Setting

MAX_GUARDS = 4
MAX_SETTINGS = 12
MAX_TOLD = 300  # characters of a value that the log tells


def find_constraints(path: PathCondition, failure: Failure, evaluation: Evaluation, options: Options) -> tuple[Constraint, ...]:
    """What the failing statement demands under the guards that led to it; () where the statement does not tell."""
    if not path.sites:
        return ()
    site = path.sites[-1]
    flag_of = options.flag_of()
    need = failing_condition(site, failure.exception, failure.message)
    raised = evaluation.raised
    near = set(raised.reads) if raised is not None else set()
    for reads in raised.guards[:2] if raised is not None else ():
        near |= reads
    near |= _named_in(need or "")  # an `and` that failed at its first operand read no more of them
    fields = tuple(sorted(f for f in near if f in evaluation.settings or f.startswith("env:")))
    guards = guards_that_tell(site.guards, options)
    if need is None:
        if not guards:
            return ()
        last = guards.pop()
        words = describe_condition(last.text, not last.came_out, flag_of)
    else:
        words = describe_condition(need, True, flag_of)
        guards = [g for g in guards if g.text not in need]
    when = tuple(dict.fromkeys(describe_condition(g.text, g.came_out, flag_of) for g in guards[-MAX_GUARDS:]))
    return (Constraint(when, words, fields, site.location),)


def _named_in(condition: str) -> set[str]:
    """The attributes that a condition's source names."""
    return set(re.findall(r"\.(\w+)\b", condition))


def guards_that_tell(guards: Sequence[Guard], options: Options) -> list[Guard]:
    """The guards that are worth a person's reading: about a setting, and not an earlier check that merely passed."""
    return [g for g in guards if _tells(g, options)]


def _tells(guard: Guard, options: Options) -> bool:
    if guard.kind in ("with", "for", "except", "while") or (guard.kind == "early_exit" and guard.leaves == "raise"):
        return False
    return any(f".{name}" in guard.text or f'"{name}"' in guard.text for name in options.by_field)


def find_settings(
    evaluation: Evaluation,
    options: Options,
    args: Sequence[str],
    env: Mapping[str, str],
    constraints: Sequence[Constraint] = (),
    told: Mapping[str, str] | None = None,
) -> tuple[Setting, ...]:
    """The settings that the failure hangs on, nearest first, with their values there and where they came from. `told` are
    values (field -> repr) that the log tells: they stand where the evaluation does not know the value for sure."""
    if evaluation.raised is None or evaluation.raised.usage:
        return ()
    found = relevant_settings(evaluation.raised, evaluation)
    found.update({name: 0.0 for constraint in constraints for name in constraint.fields})
    near = sorted(found.items(), key=lambda item: (item[1], item[0]))
    typed = options.typed(args)
    out: list[Setting] = []
    for name, distance in near:
        if distance > 2.5 or len(out) >= MAX_SETTINGS:
            break
        if name.startswith("env:"):
            variable = name[4:]
            out.append(Setting(variable, repr(env[variable]) if variable in env else "not set", "environment"))
            continue
        if name not in evaluation.settings:
            continue
        value = evaluation.settings[name]
        last = next((w for w in reversed(evaluation.writes) if w.field == name), None)
        spelled = None
        if name in typed:
            spelling = typed[name][1]
            spelled = f"{spelling} {typed_text(args, spelling) or ''}".strip()
        origin: Origin = "derived" if last is not None else ("typed" if spelled is not None else "default")
        where = Location(last.place.file, last.place.line) if last is not None and last.place.file else None
        shown = show_value(value)
        if told is not None and name in told and (has_unknown(value) or evaluation.supposed) and told[name] != shown:
            shown, origin, where = told[name][:MAX_TOLD], "observed", None
        out.append(Setting(name, shown, origin, spelled, where))
    return tuple(out)


def show_value(value: Value) -> str:
    if isinstance(value, Unknown):
        return f"unknown: {value.why}"
    return "partly unknown" if has_unknown(value) else show(value)


def describe_cause(
    failure: Failure, constraints: Sequence[Constraint], settings: Sequence[Setting], engine: str, version: str | None
) -> str:
    """One paragraph for a person. The predicate in the source is what counts; the message is quoted as the target's word."""
    site = failure.site
    where = f" in {site.function} ({site.file or site.path}:{site.line})" if site is not None else ""
    name = f"{engine} {version}" if version else engine
    parts: list[str] = []
    if failure.kind == "usage":
        parts.append(f"The command line is refused by the argument parser of {name}: {failure.message}")
    else:
        parts.append(f"{name} refuses this launch{where}.")
    for constraint in constraints:
        parts.append(f"{constraint.text[0].upper()}{constraint.text[1:]}.")
    typed = [s for s in settings if s.typed is not None]
    missing = [s for s in settings if s.typed is None and s.value == "None" and s.origin == "default"]
    if typed:
        parts.append(f"The launch types {', '.join(str(s.typed) for s in typed[:6])}.")
    if missing:
        parts.append(f"Not set: {', '.join(s.field for s in missing[:6])}.")
    if failure.kind == "exception":
        said = failure.message.strip()
        parts.append(f'{failure.exception} says: "{said[:300]}"' if said else f"The {failure.exception} carries no message.")
    return " ".join(parts)
