"""Which statement of the source printed a message of the log, and the values that it printed."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from triage.analysis.framing import clean_text
from triage.analysis.templates import Hole, Template, make_templates
from triage.model import LogRecord

MAX_MESSAGES = 2000  # distinct ones that are looked up
MAX_MESSAGE = 6000  # characters of one message
MIN_LITERAL = 12  # letters and digits that a template must bring to be told from others
MAX_ALTERNATIVES = 6
MAX_CALL = 8000  # characters of one call
_NEAR = 0.8  # a template with this share of the best one's literal text is as good an explanation

_NAMES = ("warn", "info", "error", "debug", "print", "critical", "exception(", "log(", "log_")  # in the name of what prints
_REST = re.compile(r"\w{0,40}\(?")
_QUICK = re.compile(r"[\"']([^\"'{}%\\\n]{5,})")  # literal text inside quotes, good enough to ask whether it was printed
_QUICK_CHARS = 500
_TOKEN = re.compile(
    r"(?P<string>[rRbBuUfF]{0,2}(?:\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'))"
    r"|(?P<comment>#[^\n]*)|(?P<open>[(\[{])|(?P<close>[)\]}])",
    re.S,
)


@dataclass(frozen=True)
class Statement:
    """A call that prints: its lines in a file of the source, counted from 1."""

    file: str
    first: int
    last: int


@dataclass(frozen=True)
class Printed:
    """A value as printed: the source of the expression, its text in the log (None where the text can be cut in several ways),
    and whether it was printed by `repr`."""

    expression: str
    text: str | None
    literal: bool


@dataclass(frozen=True)
class Match:
    """A message of the log with the statements that can have printed it: one, or alternatives with the same text."""

    message: str
    log_line: int
    count: int
    statements: tuple[Statement, ...]
    values: tuple[Printed, ...] = ()

    @property
    def sure(self) -> Statement | None:
        """The only statement that can have printed it; None where there are alternatives."""
        return self.statements[0] if len(self.statements) == 1 else None


def find_matches(records: Sequence[LogRecord], sources: Iterable[tuple[str, str]]) -> tuple[Match, ...]:
    """The messages that statements of the sources (file, text) printed, in the order of the log; each message once.

    Work is bounded: at most MAX_MESSAGES distinct messages, the first and the last ones; of each at most MAX_MESSAGE characters.
    """
    lines = _Lines(records)
    found: dict[int, list[tuple[Template, Statement, tuple[int, tuple[str | None, ...]]]]] = {}
    for file, text in sources:
        for template, statement in find_templates(file, text, lines.whole):
            for at, end, values in lines.find(template):
                found.setdefault(at, []).append((template, statement, (end, values)))
    out: list[Match] = []
    for at in sorted(found):
        best = max(t.weight for t, _s, _v in found[at])
        near = [one for one in found[at] if one[0].weight >= best * _NEAR][:MAX_ALTERNATIVES]
        template, _statement, (end, values) = max(near, key=lambda one: one[0].weight)
        holes = [p for p in template.parts if isinstance(p, Hole)]
        printed = tuple(Printed(h.expression, v, h.literal) for h, v in zip(holes, values, strict=True))
        statements = tuple(dict.fromkeys(s for _t, s, _v in near))
        line, count = lines.origin(at)
        out.append(Match(lines.whole[at:end], line, count, statements, printed if len(statements) == 1 else ()))
    return tuple(out)


def find_templates(file: str, text: str, wanted: str) -> Iterator[tuple[Template, Statement]]:
    """The messages that calls in a file can print, of those whose longest literal piece occurs in `wanted`."""
    for start, opened in _find_calls(text):
        quick = _QUICK.findall(text, opened, opened + _QUICK_CHARS)
        if not any(clean_text(piece).strip() in wanted for piece in quick):
            continue
        end = _call_end(text, opened)
        if end is None:
            continue
        line = text.count("\n", 0, start) + 1
        source = text[start:end]
        try:
            node = ast.parse(source, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        if not isinstance(node, ast.Call):
            continue
        statement = Statement(file, line, line + source.count("\n"))
        for template in make_templates(node):
            if template.weight >= MIN_LITERAL and template.anchor in wanted:
                yield template, statement


def _find_calls(text: str) -> list[tuple[int, int]]:
    """Where calls stand whose name says that they print: the offsets of the name's part and behind the parenthesis."""
    found: dict[int, int] = {}
    for name in _NAMES:
        at = text.find(name)
        while at >= 0:
            end = at + len(name)
            if not name.endswith("("):
                rest = _REST.match(text, end)
                end = rest.end() if rest is not None else end
            if text[end - 1] == "(":
                found.setdefault(end, at)
            at = text.find(name, end)
    return [(start, end) for end, start in sorted(found.items())]


def _call_end(text: str, start: int) -> int | None:
    """Where the call ends whose arguments begin at `start`."""
    depth = 1
    for token in _TOKEN.finditer(text, start, min(len(text), start + MAX_CALL)):
        kind = token.lastgroup
        if kind == "open":
            depth += 1
        elif kind == "close":
            depth -= 1
            if not depth:
                return token.end()
    return None


class _Lines:
    """The distinct messages as one text, each between two newlines of its own, searched as a whole."""

    def __init__(self, records: Sequence[LogRecord]) -> None:
        seen: dict[str, list[int]] = {}  # message -> first line, count, whether it bears a stamp
        for record in records:
            text = record.text[:MAX_MESSAGE].strip()
            held = seen.get(text)
            if held is not None:
                held[1] += 1
            elif text:
                seen[text] = [record.first, 1, record.stamp is not None]
        kept = list(seen)
        if len(kept) > MAX_MESSAGES:  # a start prints first, a failure last
            kept = kept[: MAX_MESSAGES // 2] + kept[-(MAX_MESSAGES // 2) :]
        self.starts: list[int] = []
        self.held: list[tuple[str, int, int]] = []
        self.stamped: list[bool] = []
        at = 1
        for text in kept:
            self.starts.append(at)
            first, count, stamped = seen[text]
            self.stamped.append(bool(stamped))
            self.held.append((text, first, count))
            at += len(text) + 2
        self.whole = "\n" + "\n\0".join(text for text, _n, _c in self.held) + "\n"

    def _index(self, at: int) -> int:
        return bisect_right(self.starts, at + 1) - 1

    def origin(self, at: int) -> tuple[int, int]:
        """The line in the log of the message at an offset, and how often it was printed."""
        i = self._index(at)
        text, first, count = self.held[i]
        return first + text.count("\n", 0, max(0, at - self.starts[i])), count

    def find(self, template: Template) -> Iterator[tuple[int, int, tuple[str | None, ...]]]:
        """Where the template matches whole lines: (start, end, the value of each hole)."""
        hits = 0
        position = self.whole.find(template.anchor)
        done = -1
        while position >= 0 and hits < MAX_MESSAGES:
            hits += 1
            if position > done:
                i = self._index(position)
                text = self.held[i][0] if i >= 0 else ""
                for start, end, values in template.find(text, position - self.starts[i], self.stamped[i]):
                    yield self.starts[i] + start, self.starts[i] + end, values
                    done = self.starts[i] + end
            position = self.whole.find(template.anchor, position + 1)
