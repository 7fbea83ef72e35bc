"""Record text -> text that is safe to show: no control characters, one line, bounded."""

from __future__ import annotations

from triage.redact import clean_text

MAX_CHARS = 4000


def show_line(text: str, limit: int = MAX_CHARS) -> str:
    """One clean line, whitespace runs folded; what goes beyond `limit` characters is counted, not shown."""
    return _bound(" ".join(clean_text(_cut(text, limit)).split()), len(text), limit)


def show_code(text: str, limit: int = MAX_CHARS) -> str:
    """One clean line that keeps its indentation; tabs become four columns."""
    tidy = clean_text(_cut(text, limit).expandtabs(4))
    return _bound(" ".join(tidy.splitlines()).rstrip(), len(text), limit)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= 2 * limit else text[: 2 * limit]


def _bound(shown: str, full: int, limit: int) -> str:
    return shown if len(shown) <= limit and full <= 2 * limit else f"{shown[:limit]} [... {max(full - limit, 1)} more characters]"
