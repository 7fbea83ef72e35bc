"""What is too deep or too long for libcst's parser, found by reading tokens alone.

That parser recurses natively: some hundred brackets end the whole process, and a few constructs take time exponential in
their depth. A text is given to it only when it stays below these bounds.
"""

from __future__ import annotations

import re

MAX_CHARS = 1024 * 1024
MAX_BRACKETS = 40_000  # pairs; with that many the parser takes some seconds
MAX_DEPTH = 40  # brackets and fields of f-strings around one token
MAX_PATTERN_DEPTH = 6  # brackets of a `case` or a `del`, which take exponential time
MAX_RUN = 600  # tokens between two separators: operators, attributes, calls in a row
MAX_ELIFS = 1000  # of one file: each nests in the one before

_TOKEN = re.compile(
    r"(?P<space>(?:[ \t\f]|\\\n)+)|(?P<comment>\#[^\n]*)|(?P<line>\n)|(?P<word>\w+)|(?P<quote>'''|\"\"\"|'|\")"
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<op>.)",
    re.DOTALL,
)
_PREFIXES = {a + b for a in ("", "r", "b", "f", "t") for b in ("", "r", "b", "f", "t")} | {"u"}
_REST = {
    "'": re.compile(r"(?:[^\\'\n]|\\.)*'?", re.DOTALL),
    '"': re.compile(r'(?:[^\\"\n]|\\.)*"?', re.DOTALL),
    "'''": re.compile(r"(?:[^\\']|\\.|'(?!''))*(?:''')?", re.DOTALL),
    '"""': re.compile(r'(?:[^\\"]|\\.|"(?!""))*(?:""")?', re.DOTALL),
}
_SKIPPED = re.compile(r"[^{}\\'\"\n]+")


class _Level:
    """Code between brackets (`quote` empty) or the text of an f-string; `spec`: its format specification."""

    __slots__ = ("field", "quote", "raw", "run", "spec")

    def __init__(self, quote: str = "", raw: bool = False, field: bool = False, spec: bool = False) -> None:
        self.quote, self.raw, self.field, self.spec = quote, raw, field, spec
        self.run = 0


def too_much(text: str) -> str | None:
    """Why a text is not given to the parser; None where it may be."""
    if len(text) > MAX_CHARS:
        return f"it has {len(text)} characters, more than the {MAX_CHARS} that are rewritten"
    levels = [_Level()]
    limit, elifs, pairs, at, fresh = MAX_DEPTH, 0, 0, 0, True
    while at < len(text):
        level = levels[-1]
        if level.quote:
            at = _read_text(text, at, levels)
        else:
            match = _TOKEN.match(text, at)
            assert match is not None
            kind, token, start, at = match.lastgroup, match.group(), at, match.end()
            if kind in ("space", "comment"):
                continue
            if kind == "line":
                if len(levels) == 1:
                    limit, fresh, level.run = MAX_DEPTH, True, 0
                continue
            level.run = 0 if token in ",;" else level.run + 1
            if kind == "word":
                elifs += token == "elif"
                if len(levels) == 1 and (token == "del" or (token == "case" and fresh)):
                    limit = MAX_PATTERN_DEPTH
                if text[at : at + 1] in ("'", '"') and token.lower() in _PREFIXES:
                    at = _open_string(text, at, token.lower(), levels)
            elif kind == "quote":
                at = _open_string(text, start, "", levels)
            elif kind == "open":
                levels.append(_Level())
                pairs += 1
            elif kind == "close" and len(levels) > 1:
                levels.pop()
            elif token == ":" and level.field:
                quoted = levels[-2]
                levels[-1] = _Level(quoted.quote, quoted.raw, spec=True)
            fresh = False
            if level.run > MAX_RUN:
                return f"more than {MAX_RUN} operators or names stand in a row"
        if pairs > MAX_BRACKETS:
            return f"it has more than {MAX_BRACKETS} brackets"
        if len(levels) > limit:
            return "it is nested too deeply"
    return f"it has more than {MAX_ELIFS} elif branches" if elifs > MAX_ELIFS else None


def _open_string(text: str, at: int, prefix: str, levels: list[_Level]) -> int:
    quote = text[at : at + 3] if text[at : at + 3] in ("'''", '"""') else text[at]
    at += len(quote)
    if "f" in prefix or "t" in prefix:
        levels.append(_Level(quote, "r" in prefix))
        return at
    rest = _REST[quote].match(text, at)
    assert rest is not None
    return rest.end()


def _read_text(text: str, at: int, levels: list[_Level]) -> int:
    """Read on in the text of an f-string: to the next field, or past its end."""
    level = levels[-1]
    match = _SKIPPED.match(text, at)
    if match is not None:
        return match.end()
    here = text[at]
    if here == "\\":
        if text.startswith("\\N{", at) and not level.raw:
            end = text.find("}", at)
            return end + 1 if end >= 0 else len(text)
        return at + 1 if text[at + 1 : at + 2] in ("{", "}") else at + 2
    if here in "{}" and not level.spec and text.startswith(here * 2, at):
        return at + 2
    if here == "{":
        levels.append(_Level(field=True))
    elif here == "}" and level.spec:
        levels.pop()
    elif text.startswith(level.quote, at) or (here == "\n" and len(level.quote) == 1 and not level.spec):
        levels.pop()
        return at + (len(level.quote) if here != "\n" else 0)
    return at + 1
