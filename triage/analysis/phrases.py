"""Finds message templates in text. Work is bounded by the length of the text, whatever it holds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from triage.model import Gap, Phrase

MAX_TEXT = 20_000  # characters of one message that are read
MAX_GAP = 200  # characters of a gap without a kind
_MAX_STARTS = 50  # places of one text where a phrase is tried
_NUMBER = r"-?\d{1,20}(?:\.\d{1,20})?"
_TYPED = {
    "word": re.compile(r"[^\s]{1,200}?(?=[,;:.)\]'\"]*(?:\s|$))"),
    "int": re.compile(r"-?\d{1,20}"),
    "float": re.compile(_NUMBER),
    "bytes": re.compile(_NUMBER + r" ?(?:[KMGTP]i?B|bytes|B)\b"),
}
_SIZE = re.compile(rf"(?P<number>{_NUMBER})(?: ?(?P<unit>[KMGTP])?(?P<binary>i)?(?:B|bytes))?")


def flatten_text(text: str) -> str:
    """The text with runs of blanks as one and lines stripped, as phrases are matched on; cut after MAX_TEXT."""
    return "\n".join(" ".join(line.split()) for line in text[:MAX_TEXT].split("\n"))


@cache
def find_anchor(phrase: Phrase) -> str:
    """The longest word of its literal text: a text without it need not be looked at."""
    return max((word for part in phrase.parts if isinstance(part, str) for word in part.split()), key=len, default="")


def find_phrase(phrase: Phrase, flat: str) -> dict[str, str] | None:
    """What stands in the gaps where the phrase is first found in a flattened text; None where it is not. A blank of the
    phrase may be a line's end."""
    parts = phrase.parts
    first = 0 if isinstance(parts[0], str) else 1
    anchor = parts[first]
    assert isinstance(anchor, str)
    plain = flat.replace("\n", " ")
    at = -1
    for _ in range(_MAX_STARTS):
        at = plain.find(anchor, at + 1)
        if at < 0:
            return None
        found: dict[str, str] = {}
        leading = parts[0]
        if isinstance(leading, Gap):
            before = _read_before(leading, flat, at)
            if before is None:
                continue
            found[leading.name] = before
        rest = _read_rest(parts[first + 1 :], flat, plain, at + len(anchor))
        if rest is not None:
            found.update(rest)
            found.pop("_", None)
            return found
    return None


def _read_rest(parts: Sequence[str | Gap], flat: str, plain: str, at: int) -> dict[str, str] | None:
    found: dict[str, str] = {}
    for number, part in enumerate(parts):
        if isinstance(part, str):
            if not plain.startswith(part, at):
                return None
            at += len(part)
            continue
        if part.kind == "text":
            line = flat.find("\n", at, at + MAX_GAP)
            end = line if line >= 0 else min(len(flat), at + MAX_GAP)
            if number + 1 < len(parts):
                following = parts[number + 1]
                assert isinstance(following, str)
                end = plain.find(following, at + 1, min(len(plain), end + len(following)))
                if end < 0:
                    return None
        else:
            match = _TYPED[part.kind].match(flat, at)
            if match is None:
                return None
            end = match.end()
            if part.kind == "word" and number + 1 < len(parts):
                following = parts[number + 1]
                assert isinstance(following, str)
                stop = plain.find(following, at + 1, at + MAX_GAP + len(following))
                if stop < 0 or any(c.isspace() for c in flat[at:stop]):
                    return None
                end = stop
        found[part.name] = flat[at:end]
        at = end
    return found


def _read_before(gap: Gap, flat: str, at: int) -> str | None:
    line = max(flat.rfind("\n", 0, at) + 1, at - MAX_GAP)
    text = flat[line:at]
    if gap.kind == "text":
        return text or None
    word = text.rpartition(" ")[2].lstrip("([{'\"=")
    return word if _TYPED[gap.kind].fullmatch(word) else None


def read_number(text: str) -> float | None:
    """A number, or a size with its unit in bytes ("448.00 MiB", "40.00 GB"); None where it is neither."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    power = " KMGTP".index(match["unit"] or " ")
    return float(match["number"]) * float((1024 if match["binary"] else 1000) ** power)
