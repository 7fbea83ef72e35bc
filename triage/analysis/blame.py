"""What a failure's words blame, followed to its origin: settings that nobody typed, or that are not what was typed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from triage.analysis.constraints import show_value
from triage.analysis.evaluate import Evaluation
from triage.analysis.evaluate.values import has_unknown, same
from triage.analysis.flags import Options, typed_text

MAX_TOLD = 3
_MAX_TEXT = 4000  # characters of the words that are read
_NAME = re.compile(r"(?<![\w-])(?:--[A-Za-z][\w-]{1,80}|[a-z][a-z0-9]{0,40}(?:_[a-z0-9]{1,40}){1,8})(?![\w])")


def trace_blame(words: str, evaluation: Evaluation, options: Options, args: Sequence[str]) -> tuple[str, ...]:
    """A sentence for each setting that the words name (by flag or field) and whose value was not typed: it is a default,
    or a line of the release decided it. Of a setting that was typed and replaced, too. At most three."""
    typed = options.typed(args)
    out: list[str] = []
    for name in _named(words, options):
        flag = options.by_field[name][0].name
        value = evaluation.settings.get(name, evaluation.given.get(name))
        if name not in evaluation.settings and name not in evaluation.given:
            continue
        last = next((w for w in reversed(evaluation.writes) if w.field == name and w.place.file), None)
        shown = show_value(value)[:80]
        if name in typed:
            asked = evaluation.given.get(name)
            if last is None or has_unknown(value) or has_unknown(asked) or same(asked, value) or asked == value:
                continue
            spelled = f"{typed[name][1]} {typed_text(args, typed[name][1]) or ''}".strip()
            out.append(f"{spelled} was typed, and {last.place.file}:{last.place.line} made it {shown}.")
        elif last is not None:
            hangs = sorted(options.by_field[r][0].name for r in last.reads if r in options.by_field and r != name)[:3]
            by = f", by {' and '.join(hangs)}" if hangs else ""
            out.append(f"Nobody typed {flag}: {last.place.file}:{last.place.line} made it {shown}{by}.")
        elif value is not None and value is not False:
            out.append(f"Nobody typed {flag}: {shown} is its default.")
        if len(out) >= MAX_TOLD:
            break
    return tuple(out)


def _named(words: str, options: Options) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for match in _NAME.finditer(words[:_MAX_TEXT]):
        word = match[0]
        option = options.by_name.get(word) if word.startswith("--") else None
        name = option.field if option is not None else word
        if name in options.by_field:
            found[name] = None
    return tuple(found)
