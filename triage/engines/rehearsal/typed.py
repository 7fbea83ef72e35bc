"""Which settings a command line sets, asked of the parser that reads it."""

from __future__ import annotations

from typing import Any


def typed_names(parser: Any, words: Any) -> set[str]:
    """The settings that the words set, spelled in full or shortened."""
    flags = parser._option_string_actions
    found: set[str] = set()
    for word in words:
        if word == "--":
            break
        name = word.partition("=")[0]
        dests = {a.dest for n, a in flags.items() if n == name or (name[:2] == "--" and len(name) > 2 and n.startswith(name))}
        found |= {flags[name].dest} if name in flags else dests if len(dests) == 1 else set()
    return found
