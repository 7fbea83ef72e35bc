"""Reads a message template as the data has it: literal text with {gaps}."""

from __future__ import annotations

import re
from typing import cast, get_args

from triage.model import Gap, HoleKind, Phrase

MAX_GAPS = 8
_GAP = re.compile(r"\{(?P<name>[a-z_][a-z0-9_]{0,30})(?::(?P<kind>[a-z]+))?\}")
_LEAST_LITERAL = 3  # letters and digits, so that a phrase does not match everything


def read_phrase(text: str, alone: bool = False) -> Phrase:
    """`{name}` and `{name:kind}` are gaps, `{{` and `}}` are braces; runs of blanks are one. Raises ValueError.

    `alone`: nothing else narrows where it is looked for, so that it needs some text of its own.
    """
    parts: list[str | Gap] = []
    literal = ""
    at = 0
    while at < len(text):
        if text[at : at + 2] in ("{{", "}}"):
            literal += text[at]
            at += 2
            continue
        if text[at] not in "{}":
            literal += text[at]
            at += 1
            continue
        match = _GAP.match(text, at)
        if match is None:
            raise ValueError("a brace that opens no gap has to be doubled")
        kind = match["kind"] or "text"
        if kind not in get_args(HoleKind):
            raise ValueError(f"no kind of gap is called {kind!r}")
        if literal:
            parts.append(_blanks(literal))
        elif parts:
            raise ValueError("two gaps stand side by side")
        literal = ""
        parts.append(Gap(match["name"], cast(HoleKind, kind)))
        at = match.end()
    if literal:
        parts.append(_blanks(literal))
    names = [part.name for part in parts if isinstance(part, Gap) and part.name != "_"]
    if len(set(names)) != len(names):
        raise ValueError("a gap's name stands twice")
    if sum(isinstance(part, Gap) for part in parts) > MAX_GAPS:
        raise ValueError(f"it has more than {MAX_GAPS} gaps")
    literal = "".join(part for part in parts if isinstance(part, str))
    if not literal.strip() or (alone and sum(c.isalnum() for c in literal) < _LEAST_LITERAL):
        raise ValueError("it has hardly any text of its own")
    return Phrase(text, tuple(parts))


def _blanks(text: str) -> str:
    inner = " ".join(text.split())
    if not inner:
        return " "
    return (" " if text[0].isspace() else "") + inner + (" " if text[-1].isspace() else "")
