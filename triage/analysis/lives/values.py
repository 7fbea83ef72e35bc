"""Evaluation + SettingLife -> the values that one launch gives the setting, and which of them nobody is told of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from triage.analysis.constraints import show_value
from triage.analysis.evaluate import Evaluation, Value
from triage.analysis.evaluate.values import Unknown, has_unknown, same, show
from triage.analysis.flags import Options, typed_text
from triage.model import LaunchValues, LifeEvent, LifeValue, Location, Origin, SettingLife

MAX_VALUES = 30
MAX_UNSURE = 5
_SETTINGS_FILES = (".yaml", ".yml", ".json", ".toml")


def find_values(
    life: SettingLife, evaluation: Evaluation, options: Options, args: Sequence[str], env: Mapping[str, str]
) -> LaunchValues:
    """Typed, from a config file or by default, then every line that derived another; `evaluation` is of `args` and `env`."""
    name = life.field
    typed = options.typed(args)
    spelled = None
    if name in typed:
        spelling = typed[name][1]
        spelled = f"{spelling} {typed_text(args, spelling) or ''}".strip()
    values: list[LifeValue] = []
    if name in evaluation.given:
        values.append(LifeValue(show_value(evaluation.given[name]), _first_origin(name, spelled, evaluation, options, args)))
    for write in evaluation.writes:
        if write.field != name:
            continue
        where = Location(write.place.file, write.place.line) if write.place.file else None
        event = _event_at(life.writes, where) or _event_at(life.any_field, where)
        says = event.says if event is not None else ""
        origin: Origin = "environment" if _from_environment(write.reads, name, env) else "derived"
        values.append(LifeValue(show_value(write.value), origin, where, write.place.function, says))
    asked, used = evaluation.given.get(name), evaluation.settings.get(name)
    replaced = spelled is not None and name in evaluation.settings and _differ(asked, used)
    raised = evaluation.raised
    stops = f"{raised.exception} at {raised.site_text}" if raised is not None and not raised.usage else ""
    if raised is not None and raised.usage:
        stops = f"the parser refuses the command line: {raised.message or ''}".rstrip(": ")
    hangs = tuple(dict.fromkeys(p.depends for p in evaluation.possible if p.depends))
    if evaluation.supposed:
        hangs = (f"{len(evaluation.supposed)} tests of host and model that are taken as not holding", *hangs)
    told = any(v.says for v in values[1:])
    return LaunchValues(spelled, tuple(values[:MAX_VALUES]), replaced, replaced and not told, stops, hangs[:MAX_UNSURE])


def _first_origin(name: str, spelled: str | None, evaluation: Evaluation, options: Options, args: Sequence[str]) -> Origin:
    if spelled is not None:
        return "typed"
    option = next(iter(options.by_field.get(name, ())), None)
    value = evaluation.given[name]
    if isinstance(value, Unknown) or has_unknown(value):
        return "unknown"
    if option is None or show(value) == option.flag.default:
        return "default"
    files = [w for w in args if w.endswith(_SETTINGS_FILES)]
    return "config_file" if files else "default"


def _from_environment(reads: frozenset[str], name: str, env: Mapping[str, str]) -> bool:
    """Whether a write looked at variables that the launch sets, and at no other setting."""
    variables = {r[4:] for r in reads if r.startswith("env:")}
    others = {r for r in reads if not r.startswith("env:") and r != name}
    return bool(variables & set(env)) and not others


def _differ(asked: Value, used: Value) -> bool:
    if isinstance(asked, Unknown) or isinstance(used, Unknown) or has_unknown(asked) or has_unknown(used):
        return False
    return not same(asked, used) and asked != used


def _event_at(events: Sequence[LifeEvent], where: Location | None) -> LifeEvent | None:
    if where is None:
        return None
    for event in events:
        there = event.location
        if there.file == where.file and there.line <= where.line <= (there.end_line or there.line):
            return event
    return None
