"""How far a start came, by the marks of its phases in the log, and how long each phase took by the log's own clock."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from triage.model import LogRecord, PhaseSpan

_CLOCK = re.compile(
    r"(?:(?P<year>\d{4})[-/](?P<month>\d\d)[-/](?P<day>\d\d)|(?P<month2>\d\d)-(?P<day2>\d\d)|(?P<month3>\d\d)/(?P<day3>\d\d)/(?P<year3>\d\d))"
    r"[ T](?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:[.,](?P<part>\d{1,9}))?"
)
_HEAD_CHARS = 4096
_LEAP_YEAR = 2000  # for clocks without a year
_STARTS = 2  # a mark of the first phases after a later one is another start


def find_phases(records: Sequence[LogRecord], phases: Sequence[tuple[str, str]]) -> tuple[PhaseSpan, ...]:
    """The phases that the last start of these records went through, in order; () where no mark is seen.

    `phases` are (name, mark) in the engine's order; a name may have several marks. Seconds go to the beginning of the
    next phase, those of the last one to the last message with a clock; None where the log has no clock there.
    """
    order = list(dict.fromkeys(name for name, _ in phases))
    marks = [(order.index(name), mark) for name, mark in phases if mark]
    reached: list[tuple[int, LogRecord]] = []
    first: LogRecord | None = None
    for record in records:
        first = first or (record if record.stamp else None)
        head = record.text[:_HEAD_CHARS]
        at = max((index for index, mark in marks if mark in head), default=-1)
        if at < 0:
            continue
        if reached and at < _STARTS <= reached[-1][0]:
            reached, first = [], record
        if not reached or at > reached[-1][0]:
            reached.append((at, record))
    if not reached:
        return ()
    if reached[0][0] > 0 and first is not None and order:
        reached.insert(0, (0, first))
    ends = [record for _, record in reached[1:]] + [next((r for r in reversed(records) if r.stamp), reached[-1][1])]
    return tuple(
        PhaseSpan(order[at], record.first, _seconds(record, end)) for (at, record), end in zip(reached, ends, strict=True)
    )


def describe_phases(spans: Sequence[PhaseSpan]) -> str:
    """The phases in a sentence for a person; "" where none is known."""
    if not spans:
        return ""
    last = spans[-1]
    spent = "" if last.seconds is None else f" and had been in it for {_duration(last.seconds)} at its last message"
    before = [f"{span.name} {_duration(span.seconds)}" for span in spans[:-1] if span.seconds is not None]
    told = f" (before: {', '.join(before)})" if before else ""
    return f"The start had reached the phase {last.name!r} (from log line {last.line} on){spent}{told}."


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"


def _seconds(start: LogRecord, end: LogRecord) -> float | None:
    a, b = _read_clock(start.stamp), _read_clock(end.stamp)
    if a is None or b is None or b < a:
        return None
    return (b - a).total_seconds()


def _read_clock(stamp: str | None) -> datetime | None:
    match = _CLOCK.search(stamp or "")
    if match is None:
        return None
    found = match.groupdict()
    year = int(found["year"] or (f"20{found['year3']}" if found["year3"] else _LEAP_YEAR))
    month, day = (int(found[name] or found[f"{name}2"] or found[f"{name}3"]) for name in ("month", "day"))
    micro = int((found["part"] or "0").ljust(6, "0")[:6])
    try:
        return datetime(year, month, day, int(found["hour"]), int(found["minute"]), int(found["second"]), micro)
    except ValueError:
        return None
