"""Lines as a log's carrier stores them -> the lines that the server wrote, each with the raw line that it began on.

Carriers are the journal's export, verbose and JSON forms, docker's and kubernetes' files, and loggers that write JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from triage.analysis.framing import JSON_MARK, clean_text, is_prefix, split_carriage

EXPORT_HEAD = b"__CURSOR="
_MESSAGES = ("MESSAGE", "log", "message", "msg", "event", "textPayload", "body")
_TRACES = ("exc_info", "exception", "traceback", "stack_trace", "exc_text", "stack", "error.stack_trace")
_LEVELS = ("levelname", "level", "severity", "log.level", "level_name")
_STAMPS = ("asctime", "timestamp", "@timestamp", "time", "ts", "created")
_INNER = ("jsonPayload", "error", "record")
_VERBOSE_HEAD = re.compile(r"\S[^\[\n]{10,80} \[s=[0-9a-f]{8,40};i=")
_VERBOSE_FIELD = re.compile(r" {4}(?P<key>[A-Z_][A-Z0-9_]{0,63})=(?P<value>.*)$", re.DOTALL)
_VERBOSE_INDENT = len("    MESSAGE=")
_PARTIAL = re.compile(
    r"(?P<head>\d{4}-\d\d-\d\dT\S{8,40} (?P<stream>stdout|stderr)) (?P<tag>[PF])(?::\S{1,20})? (?P<text>.*)$", re.DOTALL
)
_PRETTY_LINES, _PRETTY_CHARS = 400, 1_000_000
_JOINED_CHARS = 1_000_000
_STORED_BYTES = 16_000  # docker and kubernetes cut longer lines into pieces of 16 KiB


@dataclass(frozen=True)
class Carried:
    """One line of the server's text. `stamp` and `level` are those of a JSON logger's record that begins with it."""

    number: int
    text: str
    level: str | None = None
    stamp: str | None = None


def read_carried(lines: Iterable[tuple[int, str]], notes: list[str]) -> Iterator[Carried]:
    """The server's lines from the stored ones (raw number, text). What a carrier left out is added to `notes`."""
    reader = _Reader(notes)
    for number, text in lines:
        yield from reader.feed(number, text)
    yield from reader.finish()


def read_export(data: bytes, start: int, end: int, number: int) -> Iterator[tuple[int, bytes]]:
    """The messages of the journal's export form in data[start:end]; `number` is the raw line that begins at `start`."""
    position = start
    while position < end:
        newline = data.find(b"\n", position, end)
        stop = end if newline < 0 else newline
        line = data[position : min(stop, position + 64)]
        if line.startswith(b"MESSAGE="):
            yield number, bytes(data[position + 8 : stop])
        elif newline >= 0 and line.isupper() and b"=" not in line and stop + 9 <= end:
            size = int.from_bytes(data[stop + 1 : stop + 9], "little")
            after = stop + 9 + size
            if after < end and data[after : after + 1] == b"\n":
                if line == b"MESSAGE":
                    yield number, bytes(data[stop + 9 : after])
                number += data[position:after].count(b"\n")
                stop, newline = after, after
        number += newline >= 0
        position = stop + 1


@dataclass
class _Reader:
    notes: list[str]
    verbose: bool = False
    key: str = ""
    parts: dict[str, Carried] = field(default_factory=dict)  # of each stream what waits for its rest
    pretty: list[tuple[int, str]] = field(default_factory=list)
    chars: int = 0

    def feed(self, number: int, text: str) -> Iterator[Carried]:
        if self.pretty:
            yield from self._feed_pretty(number, text)
        elif text.rstrip() == "{":
            self.pretty, self.chars = [(number, text)], 1
        elif text.startswith(" ") and self.verbose:
            yield from self._feed_verbose(number, text)
        elif _VERBOSE_HEAD.match(text):
            self.verbose, self.key = True, ""
        else:
            self.verbose = False
            yield from self._feed_line(number, text)

    def finish(self) -> Iterator[Carried]:
        yield from (Carried(number, text) for number, text in self.pretty)
        yield from self.parts.values()

    def _feed_verbose(self, number: int, text: str) -> Iterator[Carried]:
        match = _VERBOSE_FIELD.match(text)
        if match:
            self.key = match["key"]
            if self.key == "MESSAGE":
                yield Carried(number, match["value"])
        elif self.key == "MESSAGE":
            yield Carried(number, text[_VERBOSE_INDENT:] if text[:_VERBOSE_INDENT].isspace() else text.lstrip())

    def _feed_pretty(self, number: int, text: str) -> Iterator[Carried]:
        self.pretty.append((number, text))
        self.chars += len(text)
        closed = text.rstrip() in ("}", "},")
        if not closed and len(self.pretty) < _PRETTY_LINES and self.chars < _PRETTY_CHARS:
            return
        block, self.pretty = self.pretty, []
        found = self._unwrap("\n".join(part for _, part in block).rstrip().rstrip(","), block[0][0]) if closed else None
        if found is None:
            yield from (Carried(*item) for item in block)
            return
        own = next((n for n, part in block if part.strip().startswith(tuple(f'"{key}"' for key in _MESSAGES))), block[0][0])
        yield from (replace(item, number=own) for item in found)

    def _feed_line(self, number: int, text: str) -> Iterator[Carried]:
        match = _PARTIAL.match(text)
        if match and (match["tag"] == "P" or match["stream"] in self.parts):
            yield from self._join(match["stream"], Carried(number, f"{match['head']} F "), match["text"], match["tag"] == "F")
            return
        place = text.find("{") if JSON_MARK.search(text) else -1
        head = text[:place] if place > 0 else ""
        if place < 0 or (head and not is_prefix(head)):
            yield Carried(number, text)
            return
        found = self._unwrap(text[place:], number)
        if found is None:
            yield Carried(number, text)
        else:
            yield from (replace(item, text=head + item.text) for item in found) if head else found

    def _join(self, stream: str, empty: Carried, text: str, last: bool) -> Iterator[Carried]:
        """Put a piece of a line to what its stream wrote of it before."""
        kept = self.parts.pop(stream, empty)
        joined = replace(kept, text=kept.text + text if len(kept.text) < _JOINED_CHARS else kept.text)
        if last:
            yield joined
        else:
            self.parts[stream] = joined

    def _split_stored(self, stream: str, text: str, number: int) -> list[Carried]:
        """The whole lines of one stored message; a message of the greatest size without newline is a part of a line."""
        kept = self.parts.pop(stream, None)
        cut = len(text.encode("utf-8", "replace")) >= _STORED_BYTES and not text.endswith("\n")
        if kept is not None:
            number, text = kept.number, kept.text + text if len(kept.text) < _JOINED_CHARS else kept.text
        lines = [Carried(number, line) for line in text.removesuffix("\n").split("\n")]
        if cut:
            self.parts[stream] = lines.pop()
        return lines

    def _unwrap(self, text: str, number: int) -> list[Carried] | None:
        """The lines of one JSON object's message, None where it is no log message."""
        if not text.rstrip().endswith("}"):
            return None
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(found, dict):
            return None
        if "MESSAGE" in found and found["MESSAGE"] is None and len(found) > 1:
            self.notes.append(f"line {number}: the journal left out a long message (read it with --all or -o export)")
        message = _find_message(found)
        if message is None:
            return None
        message = _show(message)
        if isinstance(found.get("stream"), str) and "log" in found:
            return self._split_stored(found["stream"], message, number)
        trace = next((t for scope in _scopes(found) for t in (_as_text(scope.get(key)) for key in _TRACES) if t), "")
        lines = message.rstrip("\n").split("\n")
        if "\n" in trace and trace.strip() not in message:
            lines += _show(trace.strip("\n")).split("\n")
        level = next((found[key] for key in _LEVELS if isinstance(found.get(key), str)), None)
        stamp = next((str(found[key]) for key in _STAMPS if isinstance(found.get(key), str | int | float)), None)
        if "MESSAGE" in found or "log" in found:
            level = stamp = None  # of the carrier, not of a logger
        first = Carried(number, lines[0], level.upper() if level else None, stamp[:64] if stamp and level else None)
        return [first, *(Carried(number, line) for line in lines[1:])]


def _show(text: str) -> str:
    """What a terminal would show of a text."""
    return "\n".join(clean_text(part) for line in text.split("\n") for part in split_carriage(line.removesuffix("\r")))


def _scopes(found: dict[str, object]) -> list[dict[str, object]]:
    inner = [found.get(key) for key in _INNER]
    return [found, *(scope for scope in inner if isinstance(scope, dict))]


def _find_message(found: dict[str, object]) -> str | None:
    if isinstance(found.get("record"), dict) and isinstance(found.get("text"), str):
        return str(found["text"])
    for scope in _scopes(found)[:2] if isinstance(found.get("jsonPayload"), dict) else [found]:
        for key in _MESSAGES:
            message = scope.get(key)
            if isinstance(message, str):
                return message
            if isinstance(message, list) and message and all(type(b) is int and 0 <= b < 256 for b in message):
                return bytes(message).decode("utf-8", "replace")
    return None


def _as_text(value: object) -> str:
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "\n".join(line.rstrip("\n") for line in value)
    return value if isinstance(value, str) else ""
