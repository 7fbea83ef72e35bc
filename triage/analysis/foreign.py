"""Flags that the release at hand refuses and that another server or release knows, as far as knowledge tells."""

from __future__ import annotations

import re
from collections.abc import Collection

from triage.argv import is_flag
from triage.model import Evidence
from triage.protocols import EngineProfile, ForeignFlag

_UNKNOWN = re.compile(r"unrecognized arguments: (.*)", re.DOTALL)
_AMBIGUOUS = re.compile(r"ambiguous option: (\S+?)(?:=\S*)? could match ")
_MAX_TOLD = 20


def refused_flags(message: str) -> tuple[str, ...]:
    """The flags that an argument parser's message says it does not know, or cannot tell which one is meant."""
    unknown, ambiguous = _UNKNOWN.search(message), _AMBIGUOUS.search(message)
    words = unknown.group(1).split() if unknown else [ambiguous.group(1)] if ambiguous else []
    return tuple(dict.fromkeys(word.split("=", 1)[0] for word in words if is_flag(word)))


def find_foreign(word: str, profile: EngineProfile) -> ForeignFlag | None:
    """What is known of a flag as typed (underscores count as dashes), None where nothing is."""
    name = "--" + word.lstrip("-").replace("_", "-")
    return next((flag for flag in profile.foreign if flag.name == name), None)


def explain_refused(message: str, profile: EngineProfile, names: Collection[str]) -> tuple[Evidence, ...]:
    """For each refused flag that is known elsewhere: whose it is and what means the same among this release's `names`."""
    out: list[Evidence] = []
    for word in refused_flags(message)[:_MAX_TOLD]:
        flag = find_foreign(word, profile)
        if flag is None:
            continue
        target = next((name for name in flag.to if name in names), None)
        meaning = "not needed here" if not flag.to else f"here {target} {flag.value or ''}".strip()
        if flag.to and target is None:
            continue
        text = f"{word} is a flag of {flag.origin}, {meaning}: {flag.why}"
        out.append(Evidence("knowledge", text, knowledge_id=f"flag:{flag.name}"))
    return tuple(out)
