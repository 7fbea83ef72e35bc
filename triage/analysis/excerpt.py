"""A log file of any size -> the part of it that a diagnosis reads, with the line numbers of the whole; bounded memory."""

from __future__ import annotations

import io
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Protocol

from triage.model import LogGap

WHOLE_BYTES = 16 * 1024 * 1024  # logs up to this size are kept whole
LINE_BYTES = 64 * 1024  # how far the ends of a kept part are looked for; longer lines are cut
_HEAD_BYTES = 256 * 1024
_TAIL_BYTES = 2 * 1024 * 1024
_BEFORE, _AFTER = 8 * 1024, 96 * 1024  # kept around a mark
_CHUNK = 512 * 1024
_START_BYTES = 64 * 1024 * 1024  # a run becomes ready within so much of its log


class Readable(Protocol):
    """A binary file that can seek."""

    def seek(self, offset: int, /) -> int: ...
    def read(self, size: int, /) -> bytes: ...
    def readinto(self, buffer: memoryview, /) -> int: ...


@dataclass
class _Mark:
    """A text around which the log is kept: at its first and last places."""

    text: bytes
    first: int
    last: int
    hits: list[int] = field(default_factory=list)
    until: int | None = None  # looked for before this place only; everywhere where None

    def add(self, places: list[int]) -> None:
        """Take further places, in order."""
        self.hits += places
        del self.hits[self.first : max(self.first, len(self.hits) - self.last)]


@dataclass(frozen=True)
class Excerpt:
    """What is kept of a log, whole lines where they are not too long, and the gaps between the parts."""

    data: bytes
    gaps: tuple[LogGap, ...] = ()


@dataclass(frozen=True)
class _Part:
    start: int
    data: bytes
    line: int  # of its first byte
    torn: bool  # it begins inside a line


def cut_log(stream: Readable, size: int) -> Excerpt:
    """Keep a log of at most WHOLE_BYTES as it is; of a larger one the head, the tail and what stands around marks.

    The stream must be able to seek. A line is read in the middle of a log only near a traceback, the first lines of a
    run, or the word that a run became ready. Raises OSError where the stream cannot be read.
    """
    if size <= WHOLE_BYTES:
        stream.seek(0)
        return Excerpt(stream.read(size))
    marks, counts, size = _scan(stream, size)
    spans = [(0, _HEAD_BYTES), (max(0, size - _TAIL_BYTES), size)]
    spans += [(max(0, hit - _BEFORE), min(size, hit + _AFTER)) for mark in marks for hit in mark.hits]
    parts = [_read_part(stream, start, end, size, counts) for start, end in _merge(spans)]
    return _join(parts)


def cut_bytes(data: bytes) -> Excerpt:
    """As `cut_log`, of a log in memory."""
    return Excerpt(data) if len(data) <= WHOLE_BYTES else cut_log(io.BytesIO(data), len(data))


_Counts = list[tuple[int, int]]  # (place, newlines before it), in order


def _scan(stream: Readable, size: int) -> tuple[tuple[_Mark, ...], _Counts, int]:
    """The marks with their places, the newlines before each chunk, and how many bytes there were."""
    crash = _Mark(b"Traceback (most recent call last)", 10, 40)
    start = _Mark(b"server_args=ServerArgs(", 2, 6)
    ready = _Mark(b"ready to roll!", 2, 6, until=_START_BYTES)
    marks = (crash, start, ready)
    lap = max(len(mark.text) for mark in marks) - 1
    buffer = bytearray(lap + _CHUNK)
    view = memoryview(buffer)
    counts = [(0, 0)]
    position = held = 0  # `held` bytes of the chunk before stand in front
    stream.seek(0)
    while position < size:
        got = stream.readinto(view[held : held + min(_CHUNK, size - position)])
        if not got:
            break
        end = held + got
        for mark in marks:
            if mark.until is not None and position >= mark.until:
                continue
            places: list[int] = []
            place = end + 1
            while (place := buffer.rfind(mark.text, 0, place)) >= 0:  # backwards is by far the faster search here
                places.append(position - held + place)
                place += len(mark.text) - 1
            mark.add(places[::-1])
            if places and mark is not crash:  # a run becomes ready once
                ready.until = position + _START_BYTES if mark is start else 0
        position += got
        counts.append((position, counts[-1][1] + buffer.count(b"\n", held, end)))
        held = min(lap, end)
        buffer[:held] = buffer[end - held : end]
    return marks, counts, position


def _merge(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1] + 2 * LINE_BYTES:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _read(stream: Readable, start: int, end: int) -> bytes:
    stream.seek(start)
    return stream.read(end - start)


def _read_part(stream: Readable, start: int, end: int, size: int, counts: _Counts) -> _Part:
    """The span, from the beginning of its first line to the end of its last one where these are near."""
    before = _read(stream, max(0, start - LINE_BYTES), start)
    newline = before.rfind(b"\n")
    torn = newline < 0 and len(before) == LINE_BYTES
    start -= 0 if torn else len(before) - newline - 1
    after = _read(stream, end, min(size, end + LINE_BYTES))
    newline = after.find(b"\n")
    end += newline + 1 if newline >= 0 else len(after)
    place, number = counts[max(0, bisect_right(counts, (start, size)) - 1)]
    number += _read(stream, place, start).count(b"\n")
    return _Part(start, _read(stream, start, end), number + 1, torn)


def _join(parts: list[_Part]) -> Excerpt:
    data = bytearray()
    gaps: list[LogGap] = []
    kept = began = 0  # newlines in `data`; where in the log the line begins that is not ended yet
    for i, part in enumerate(parts):
        if i:
            last = parts[i - 1]
            line = last.line + last.data.count(b"\n")  # the one that the last part ends in, or before
            newline = last.data.rfind(b"\n")
            began = last.start + newline + 1 if newline >= 0 else began
            inside = not data.endswith(b"\n")
            if part.torn and inside and part.line == line:
                end = part.data.find(b"\n")
                length = part.start + (end if end >= 0 else len(part.data)) - began
                gaps.append(LogGap(kept + 1, line + 1, f"line {line} is {length} bytes long; its middle was not read"))
            else:
                gone = (line + inside, part.line - 1)
                what = f"lines {gone[0]} to {gone[1]} were not read: the log is large and they hold no mark"
                if gone[1] < gone[0]:
                    what = f"line {part.line if part.torn else line} is very long; a part of it was not read"
                if inside:
                    data += b" ... \n"
                    kept += 1
                gaps.append(LogGap(kept, part.line, what))
            data += b" ... " if part.torn else b""
        data += part.data
        kept += part.data.count(b"\n")
    return Excerpt(bytes(data), tuple(gaps))
