"""A Checkup for a person and for a program: one line for each thing that triage rests on."""

from __future__ import annotations

import textwrap

from triage.model import SCHEMA, Checkup, DoctorCheck
from triage.report.objects import JsonObject, dump_object
from triage.report.plain import show_line

STYLES = {"ok": "\x1b[32m", "limited": "\x1b[33m", "no": "\x1b[31m"}
PLAIN = "\x1b[0m"
STACK_BELOW = 60  # columns: narrower than this, the texts stand below the names


def render_checkup_text(checkup: Checkup, width: int = 100, colour: bool = False) -> str:
    """Lines of at most `width` columns (words that are longer are cut), with a final newline; escapes only with `colour`."""
    lines = textwrap.wrap(show_line(_headline(checkup)), width)
    names = max((len(show_line(c.name)) for c in checkup.checks), default=0)
    for check in checkup.checks:
        lines += _draw(check, names, width, colour)
    return "\n".join(lines) + "\n"


def render_checkup_json(checkup: Checkup) -> str:
    """One ASCII object with a final newline; `outcome` is "ready", "not_ready" or "unreachable"."""
    checks: list[JsonObject] = [
        {"name": c.name, "ability": c.ability, "needed": c.needed, "why": c.why, "todo": c.todo or None} for c in checkup.checks
    ]
    return dump_object(
        {
            "schema": SCHEMA,
            "outcome": "unreachable" if not checkup.reached else "ready" if checkup.fit else "not_ready",
            "host": checkup.host,
            "service": checkup.service,
            "checks": [*checks],
        }
    )


def _headline(checkup: Checkup) -> str:
    where = f"{checkup.service} on {checkup.host}"
    if not checkup.reached:
        return f"{where}: the host cannot be reached."
    missing = [c.name for c in checkup.checks if c.needed and c.ability == "no"]
    if missing:
        return f"{where}: `triage run` cannot work here, it lacks: {', '.join(missing)}."
    less = [c.name for c in checkup.checks if c.ability != "ok"]
    return f"{where}: `triage run` has all that it needs" + (f"; less than usual: {', '.join(less)}." if less else ".")


def _draw(check: DoctorCheck, names: int, width: int, colour: bool) -> list[str]:
    word = check.ability
    shown = f"{STYLES[word]}{word}{PLAIN}{' ' * (7 - len(word))}" if colour else f"{word:7}"
    name = show_line(check.name)
    indent = names + 11 if width >= STACK_BELOW else 4
    texts = [show_line(check.why), *([f"-> {show_line(check.todo)}"] if check.todo else [])]
    body = [line for text in texts for line in textwrap.wrap(text, max(width - indent, 10))]
    if width < STACK_BELOW:
        return [f"{shown.rstrip()} {name}"[: width + (len(shown) - 7)], *(" " * indent + line for line in body)]
    head = f"{shown}  {name:{names}}  "
    return [(head if i == 0 else " " * indent) + line for i, line in enumerate(body or [""])]
