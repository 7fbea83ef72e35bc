"""The journal's export format: raw records, bytes in and out. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_BOUNDARY = re.compile(rb"\n\n(?=__CURSOR=)")


@dataclass(frozen=True)
class JournalRecord:
    """Fields of one entry; where a field stands several times, the last value."""

    fields: dict[str, bytes] = field(default_factory=dict)

    @property
    def cursor(self) -> str:
        return self.fields.get("__CURSOR", b"").decode("ascii", "replace")

    @property
    def message(self) -> bytes:
        return self.fields.get("MESSAGE", b"")


def parse_export(data: bytes) -> Iterator[JournalRecord]:
    """Records of `journalctl -o export`. A text field is `NAME=value`; a binary one is the name alone on a line, eight bytes
    of length (little endian), the bytes, a newline. A record cut off at the end is left out.
    """
    at, size = 0, len(data)
    fields: dict[str, bytes] = {}
    while at < size:
        end = data.find(b"\n", at)
        if end < 0:
            return
        line = data[at:end]
        at = end + 1
        if not line:
            if fields:
                yield JournalRecord(fields)
            fields = {}
            continue
        name, equals, value = line.partition(b"=")
        if not equals:
            length = int.from_bytes(data[at : at + 8], "little")
            if at + 8 + length + 1 > size:
                return
            value = data[at + 8 : at + 8 + length]
            at += 8 + length + 1
        fields[name.decode("ascii", "replace")] = value
    if fields:
        yield JournalRecord(fields)


def drop_partial_head(data: bytes) -> bytes:
    """The bytes from the first whole record on, for export text whose head was cut at some byte."""
    found = _BOUNDARY.search(data)
    return data[found.end() :] if found else b""


def select_run(records: Iterable[JournalRecord], run: str, manager_field: str) -> Iterator[JournalRecord]:
    """Of a unit's records from a run's first one on: those of this run.

    A process that ends at once may be gone before journald looks up its invocation; such records name the unit only, and
    belong to the run as long as no other run of the unit has begun.
    """
    wanted = run.encode()
    other = False
    for record in records:
        named = record.fields.get("_SYSTEMD_INVOCATION_ID"), record.fields.get(manager_field)
        if wanted in named:
            yield record
        elif named[1] or (named[0] and "_STREAM_ID" in record.fields):
            other = True
        elif not named[0] and not other:
            yield record


def join_messages(records: Iterable[JournalRecord]) -> tuple[bytes, str | None]:
    """(messages, one a line; cursor of the last record). A line that journald split for its length is whole again."""
    out: list[bytes] = []
    open_lines: dict[bytes, list[bytes]] = {}
    cursor: str | None = None
    for record in records:
        cursor = record.cursor or cursor
        stream = record.fields.get("_STREAM_ID", b"")
        if record.fields.get("_LINE_BREAK") == b"line-max" and stream:
            open_lines.setdefault(stream, []).append(record.message)
            continue
        out.append(b"".join([*open_lines.pop(stream, []), record.message]) + b"\n")
    # the rest of these lines is not written yet: without a newline, so that the next chunk goes on
    out += [b"".join(parts) for parts in open_lines.values()]
    return b"".join(out), cursor
