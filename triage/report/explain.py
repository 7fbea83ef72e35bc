"""A SettingLife for a person and for a program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triage.model import SCHEMA, Flag, Guard, LaunchValues, LifeEvent, LifeValue, Location, SettingLife
from triage.report.objects import JsonObject, build_location, build_unknown, dump_object
from triage.report.view import Block, Bullets, Code, CodeLine, Item, Paragraph, Report, Section

MAX_EVENTS = 25  # of one kind, in the text for a person; the JSON holds all
MAX_DECISIONS = 12
MAX_LINES = 8  # of one statement
ORIGINS = {
    "typed": "as typed",
    "config_file": "from the configuration file",
    "environment": "from the environment",
    "default": "by default",
    "derived": "derived",
    "observed": "as the log shows",
    "unknown": "from an unknown origin",
}


def render_life_text(life: SettingLife, width: int = 100, colour: bool = False) -> str:
    """Lines of at most `width` columns, with a final newline; escape sequences only where `colour` is true."""
    from triage.report.terminal import draw_report

    return draw_report(build_life_report(life), width, colour)


def render_life_json(life: SettingLife) -> str:
    """One ASCII object with a final newline; the same record gives the same bytes."""
    return dump_object(build_life_object(life))


# ---------------------------------------------------------------- for a person
def build_life_report(life: SettingLife) -> Report:
    """Declaration, the launch's values, who writes, who checks, what it decides, what is not known."""
    sections: list[Section] = []

    def add(title: str, blocks: Iterator[Block]) -> None:
        held = tuple(blocks)
        if held:
            sections.append(Section(title, held))

    add("Declared", _declared(life))
    if life.launch is not None:
        add("In this launch", _launch(life.launch))
    add(f"Written, in the order in which validation reaches it ({len(life.writes)})", _events(life.writes))
    own = [e for e in life.checks if e.own_test]
    add(f"Checked ({len(own)})", _events(own))
    path = [e for e in life.checks if not e.own_test]
    add(f"Checks of other things, where it decides whether they are made ({len(path)})", _short(path))
    add(f"Decides other settings ({len(life.decisions)})", _short(life.decisions))
    if life.any_field:
        add("Statements that write whichever setting they are given", _short(life.any_field))
    add("Unknowns", _unknowns(life))
    flags = ", ".join(n for flag in life.declaration.flags[:1] for n in flag.names)
    counts = f"{len(life.writes)} writes, {len(life.checks)} checks, {len(life.decisions)} decisions, read at {life.reads} places"
    where = f"in {len(life.files)} file{'' if len(life.files) == 1 else 's'} of the validation"
    headline = f"{life.field}{f' ({flags})' if flags else ''}: {counts} {where}."
    return Report(f"The life of {life.field}", "passes", headline, "", tuple(sections))


def _declared(life: SettingLife) -> Iterator[Block]:
    declaration = life.declaration
    if declaration.location is not None:
        yield Code(_code(declaration.text, declaration.location.line), str(declaration.location))
    else:
        yield Paragraph("Its declaration was not found in the source.", "warn")
    yield Bullets(tuple(Item(*_flag(flag)) for flag in declaration.flags)) if declaration.flags else Paragraph("No flag sets it.")


def _flag(flag: Flag) -> tuple[str, str]:
    parts = [f"deprecated {flag.kind}" if flag.deprecated else flag.kind]
    if flag.type:
        parts.append(f"of type {flag.type}")
    if flag.default is not None:
        parts.append(f"default {flag.default}")
    if flag.choices is not None:
        parts.append(f"one of {', '.join(flag.choices[:30])}")
    if flag.required:
        parts.append("required")
    first = flag.help.strip().split("\n", 1)[0].strip()
    return f"{'; '.join(parts)}. {first}".rstrip(), " ".join(flag.names)


def _launch(launch: LaunchValues) -> Iterator[Block]:
    if launch.typed is not None:
        yield Paragraph(f"The launch types {launch.typed}.")
    yield Bullets(tuple(Item(_value(v), v.value) for v in launch.values))
    if launch.silent:
        yield Paragraph("What was typed is replaced, and nothing in the log says so.", "warn")
    elif launch.replaced:
        yield Paragraph("What was typed is replaced; the log says so.", "warn")
    if launch.stops:
        yield Paragraph(f"Validation does not get to its end: {launch.stops}. The last value is the one at that point.", "warn")
    if launch.unsure:
        yield Paragraph(f"These values hang on what is not known here: {'; '.join(launch.unsure)}.", "warn")


def _value(value: LifeValue) -> str:
    text = ORIGINS[value.origin]
    if value.location is not None:
        text += f" at {value.location} in {value.function}"
        text += f', which logs "{value.says}"' if value.says else ", silently"
    return text


def _events(events: Sequence[LifeEvent]) -> Iterator[Block]:
    for event in events[:MAX_EVENTS]:
        kind = f"{event.kind} at " if event.kind in ("default", "overwrite") else ""
        yield Code(_code(event.text, event.location.line), f"{kind}{_place(event)}{_told(event)}")
        if event.when:
            yield Bullets(tuple(Item(f"when {words}") for words in event.when))
    if len(events) > MAX_EVENTS:
        yield Paragraph(f"... and {len(events) - MAX_EVENTS} more: --json lists them all.")


def _short(events: Sequence[LifeEvent]) -> Iterator[Block]:
    if events:
        yield Bullets(tuple(Item(_place(e) + _fields(e), _one_line(e.text)) for e in events[:MAX_DECISIONS]))
    if len(events) > MAX_DECISIONS:
        yield Paragraph(f"... and {len(events) - MAX_DECISIONS} more: --json lists them all.")


def _place(event: LifeEvent) -> str:
    late = "" if event.rank is not None or event.kind == "any_field" else ", at a moment that is not known"
    return f"{event.location} in {event.function}{late}"


def _told(event: LifeEvent) -> str:
    if event.kind in ("default", "overwrite"):
        return f', which logs "{event.says}"' if event.says else ", silently"
    return ""


def _fields(event: LifeEvent) -> str:
    return f" decides {', '.join(event.fields[:6])}" if event.fields else ""


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 160 else line[:156] + " ..."


def _code(text: str, first: int) -> tuple[CodeLine, ...]:
    lines = text.split("\n")
    shown = [CodeLine(line, first + i) for i, line in enumerate(lines[:MAX_LINES])]
    return (*shown, CodeLine(f"... {len(lines) - MAX_LINES} more lines")) if len(lines) > MAX_LINES else tuple(shown)


def _unknowns(life: SettingLife) -> Iterator[Block]:
    if life.unknowns:
        settle = [f" ({u.settle})" if u.settle else "" for u in life.unknowns]
        yield Bullets(tuple(Item(f"{u.what}: {u.why}{s}") for u, s in zip(life.unknowns[:10], settle, strict=False)))


# ---------------------------------------------------------------- for a program
def build_life_object(life: SettingLife) -> JsonObject:
    """Names are stable, keys may be added; SCHEMA is raised on a breaking change."""
    return {
        "schema": SCHEMA,
        "field": life.field,
        "declaration": {
            **_location(life.declaration.location),
            "text": life.declaration.text,
            "flags": [_flag_object(f) for f in life.declaration.flags],
        },
        "launch": _launch_object(life.launch) if life.launch is not None else None,
        "writes": [_event(e) for e in life.writes],
        "checks": [_event(e) for e in life.checks],
        "decides": [_event(e) for e in life.decisions],
        "any_field": [_event(e) for e in life.any_field],
        "reads": life.reads,
        "files": list(life.files),
        "unknowns": [build_unknown(u) for u in life.unknowns],
    }


def _location(location: Location | None) -> JsonObject:
    return {**build_location(location), "end_line": location.end_line if location is not None else None}


def _flag_object(flag: Flag) -> JsonObject:
    return {
        "names": list(flag.names),
        "dest": flag.dest,
        "kind": flag.kind,
        "type": flag.type,
        "default": flag.default,
        "choices": list(flag.choices) if flag.choices is not None else None,
        "required": flag.required,
        "deprecated": flag.deprecated,
        "help": flag.help,
    }


def _event(event: LifeEvent) -> JsonObject:
    return {
        "kind": event.kind,
        **_location(event.location),
        "function": event.function,
        "text": event.text,
        "how": event.how,
        "when": list(event.when),
        "guards": [_guard(g) for g in event.guards],
        "outer": [_guard(g) for g in event.outer],
        "rank": event.rank,
        "says": event.says or None,
        "own_test": event.own_test if event.kind == "check" else None,
        "fields": list(event.fields),
    }


def _guard(guard: Guard) -> JsonObject:
    return {
        **_location(guard.location),
        "text": guard.text,
        "came_out": guard.came_out,
        "kind": guard.kind,
        "leaves": guard.leaves,
    }


def _launch_object(launch: LaunchValues) -> JsonObject:
    return {
        "typed": launch.typed,
        "values": [
            {"value": v.value, "origin": v.origin, **_location(v.location), "function": v.function, "says": v.says or None}
            for v in launch.values
        ],
        "replaced": launch.replaced,
        "silent": launch.silent,
        "stops": launch.stops or None,
        "unsure": list(launch.unsure),
    }
