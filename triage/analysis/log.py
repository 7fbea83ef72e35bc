"""Raw log bytes -> Log: framing and rank tags stripped, records put together, raw line numbers kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from triage.analysis.boxes import BoxReader
from triage.analysis.carriers import EXPORT_HEAD, Carried, read_carried, read_export
from triage.analysis.excerpt import WHOLE_BYTES, cut_bytes
from triage.analysis.framing import choose_layers, clean_text, split_carriage
from triage.analysis.gathering import RecordBuilder, is_file_line
from triage.analysis.wrapping import restore_lines
from triage.model import Log, LogGap, LogRecord

LINE_BYTES = 64 * 1024  # of a longer line only its head and tail are kept
_LINE_TAIL = 16 * 1024
_SAMPLE_LINES = 4000
_EXPORT_CHARS = 64 * 1024  # an export's first entry begins within these
_SUPPRESSED = re.compile(r"Suppressed \d{1,12} messages from ")


def read_log(data: bytes, gaps: Sequence[LogGap] = ()) -> Log:
    """The records of a log, in the order in which they begin.

    Lines are split on newlines only and counted from 1. A record is one message with all of its lines, from one rank
    and stream, even where other ranks' lines stand between; its text holds no control characters except newline.
    `gaps` say what was left out of `data` before; of a log over WHOLE_BYTES without gaps only the head, the tail and
    the surroundings of marks are parsed. `notes` of the answer tells of all that was not read.
    """
    if not gaps and len(data) > WHOLE_BYTES:
        excerpt = cut_bytes(data)
        data, gaps = excerpt.data, excerpt.gaps
    notes: list[str] = []
    lines = restore_lines(list(read_carried(_read_lines(data, gaps, notes), notes)))
    alone = any(line.stamp is not None and is_file_line(line.text.strip()) for line in lines)
    framing = choose_layers(_sample(lines))
    builder = RecordBuilder()
    boxes = BoxReader()
    breaks = [gap.line for gap in reversed(gaps)]
    for raw in lines:
        while breaks and raw.number >= breaks[-1]:
            breaks.pop()
            for number, line in boxes.finish():
                builder.add(number, line)
            builder.close_all()
        line = framing.split(raw.text)
        if line.text.startswith("Suppressed ") and _SUPPRESSED.match(line.text):
            notes.append(f"line {raw.number}: the journal dropped messages ({line.text.strip()[:200]})")
        if line.empty:
            continue
        if raw.level is not None or raw.stamp is not None:
            line = replace(line, level=line.level or raw.level, stamp=line.stamp or (None if alone else raw.stamp))
        for number, part in boxes.feed(raw.number, line):
            builder.add(number, part)
    for number, part in boxes.finish():
        builder.add(number, part)
    return Log(builder.finish(), (*(gap.note for gap in gaps), *dict.fromkeys(notes)))


def find_messages(log: Log) -> tuple[LogRecord, ...]:
    """The log's stamped records, each with a level (guessed from its text where the line names none)."""
    return tuple(record for record in log.records if record.stamp is not None)


def _sample(lines: list[Carried]) -> Iterator[str]:
    """Lines that tell the framing: the last ones, and those around frame lines (at most `_SAMPLE_LINES` of each)."""
    yield from (line.text for line in lines[-_SAMPLE_LINES:])
    frames = [line.text for line in lines[:-_SAMPLE_LINES] if 'File "' in line.text]
    yield from frames[-_SAMPLE_LINES:]


def _read_lines(data: bytes, gaps: Sequence[LogGap], notes: list[str]) -> Iterator[tuple[int, str]]:
    """(raw number, clean text) of each line; of a line with carriage returns what a terminal would show."""
    export = data.startswith(EXPORT_HEAD) or b"\n" + EXPORT_HEAD in data[:_EXPORT_CHARS]
    bounds = [
        (0, 1),
        *zip(_find_lines(data, [gap.kept for gap in gaps]), (gap.line for gap in gaps), strict=True),
        (len(data), 0),
    ]
    told = {gap.line - 1 for gap in gaps}
    for (start, number), (end, _) in pairwise(bounds):
        read = read_export if export else _split_lines
        for own, raw in read(data, start, end, number):
            if len(raw) > LINE_BYTES:
                if own not in told:
                    notes.append(f"line {own} is {len(raw)} bytes long; its middle was not read")
                raw = raw[: LINE_BYTES - _LINE_TAIL] + b" ... " + raw[-_LINE_TAIL:]
            for whole in raw.decode("utf-8", "replace").split("\n"):
                for part in split_carriage(whole.removesuffix("\r")):
                    yield own, clean_text(part)


def _find_lines(data: bytes, wanted: list[int]) -> list[int]:
    """Where these lines of the data begin, counted from 0, in rising order."""
    found: list[int] = []
    place = count = 0
    for line in wanted:
        while count < line and place < len(data):
            newline = data.find(b"\n", place)
            place = newline + 1 if newline >= 0 else len(data)
            count += 1
        found.append(place)
    return found


def _split_lines(data: bytes, start: int, end: int, number: int) -> Iterator[tuple[int, bytes]]:
    while start < end:
        newline = data.find(b"\n", start, end)
        stop = end if newline < 0 else newline
        yield number, data[start:stop]
        number += 1
        start = stop + 1
