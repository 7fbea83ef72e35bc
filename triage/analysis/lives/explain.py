"""What a person asked for (a field or a flag, and perhaps a launch) -> SettingLife."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import replace

from triage.analysis.evaluators import Evaluators
from triage.analysis.flags import Options, read_flags
from triage.analysis.lives import find_life
from triage.analysis.lives.values import find_values
from triage.errors import EngineError, UsageError
from triage.model import SettingLife, Unknown
from triage.protocols import Capture, EngineProfile

MAX_NEAR = 5


def explain_setting(capture: Capture, profile: EngineProfile, asked: str) -> SettingLife:
    """The life of the setting that `asked` names (`page_size`, `--page-size`, or what the parser takes for it), in the
    capture's source; with the values of the capture's launch where it has one.

    Raises UsageError for a name that is no setting, EngineError for a source without the args class.
    """
    assert capture.source is not None
    launch = capture.launch
    env = launch.env if launch is not None else {}
    evaluators = Evaluators(capture, profile)
    evaluator = evaluators.get(env)
    evaluation = evaluator.evaluate(launch.args if launch is not None else ())
    options = read_flags(evaluator, capture.source)
    fields = evaluator.machine.fields
    if not fields and not options.all:
        raise EngineError(f"the source declares no settings: {evaluation.why or 'its parser could not be read'}")
    name = name_setting(asked, options, fields)
    life = find_life(capture.source, profile, options, name)
    if launch is None:
        return life
    values = find_values(life, evaluation, options, launch.args, env)
    unsure = evaluators.assumed if evaluation.supposed else ()
    notes = tuple(Unknown("part of the code", note) for note in evaluation.notes[:3])
    return replace(life, launch=values, unknowns=(*life.unknowns, *unsure, *notes))


def name_setting(asked: str, options: Options, fields: Iterable[str]) -> str:
    """The field that a flag, a field's name or an abbreviation of a flag stands for. Raises UsageError with the nearest names."""
    known = {*fields, *options.by_field}
    text = asked.partition("=")[0].strip()
    plain = text.lstrip("-").replace("-", "_")
    if text.startswith("-"):
        option = options.find(text)
        if option is not None and option.field in known:
            return option.field
    for name in (text, plain):
        if name in known:
            return name
    dests = {option.flag.dest: option.field for option in options.all}
    if plain in dests:
        return dests[plain]
    pool = [n for o in options.all for n in o.flag.names] if text.startswith("-") else sorted(known)
    near = (
        difflib.get_close_matches(text[:100], pool, MAX_NEAR, 0.6) or [n for n in sorted(pool) if text.strip("-") in n][:MAX_NEAR]
    )
    shown = text if len(text) <= 100 else text[:100] + "..."
    hint = f"the nearest: {', '.join(near)}" if near else "give a field's name, or a flag as it is typed"
    raise UsageError(f"this release has no setting named {shown!r}", hint=hint)
