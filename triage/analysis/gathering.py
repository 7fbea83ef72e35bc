"""Lines without framing -> records: one message with all of its lines, even where other ranks' lines stand between."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from triage.analysis.framing import Line
from triage.analysis.tracebacks import CHAIN_PHRASES, HEADER
from triage.model import LogRecord

_RECORD_LINES, _RECORD_CHARS = 5000, 1_000_000
_EXCEPTION_LINE = re.compile(r"[A-Za-z_][\w.<>]{0,200}(?:\[[\w., ]{0,80}\])?(?::(?: |$)|$)")
_ERROR_NAME = re.compile(r"[\w.<>]{0,200}(?:Error|Exception|Exit|Interrupt|Warning|Timeout|Group)\b")
_MIXED = 256  # tracebacks that may stand in each other
_NUMBER = re.compile(r"\d{1,20}")
_BARE_ERROR = re.compile(
    r"(?:[A-Za-z_]\w{0,80}\.){0,12}[A-Z]\w{0,100}(?:Error|Exception|Interrupt|Timeout|OutOfResources?)(?::(?: |$)|$)"
)
_USAGE_ERROR = re.compile(r"[^\s:][^:]{0,120}: error: ")
# A bare line that begins a record of its own, whatever stood before.
_FRESH = re.compile(
    r"usage: "
    r"|\[rank\d+\]:\["
    r"|\[(?:Gloo|PG|c10d|W|E)\b"
    r"|(?:\S{1,300}: line \d+: +\d+ )?(?:Killed|Aborted|Segmentation fault|Bus error)\b"
    r"|Terminated\b|nohup:"
    r"|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):? {1,8}\S"
    r"|Exception ignored in|Exception in thread |Process [\w:-]+:$"
    r"|Fatal Python error|terminate called|Thread 0x|Current thread 0x|Extension modules:"
    r"|\S{1,300}\.py:\d+: \w{1,60}Warning: "
    r"|\S{1,120}:\d{1,8}:\d{1,8} \[\d+\] NCCL "
    r"|(?:Loading|Capturing|Fetching|Downloading|Multi-thread loading)[^|]{0,200}%"
    r"|-- (?:Boot|Reboot|Logs begin)\b|Suppressed \d+ messages"
    r"|\S{1,200}\.service: |(?:Started|Starting|Stopping|Stopped) \S"
    r"|Out of memory: |Memory cgroup out of memory|oom-kill:|Rank \d+ scheduler is dead|Exit code: -?\d+"
    r"|Stack \(most recent call"
)
_LEVEL_WORDS = (
    (
        "ERROR",
        re.compile(r"(?:\w+ )?hit an exception|.{0,80}Traceback \(most|(?:ERROR|Error|error)\b|.{0,40}failed\b|Received sigquit"),
    ),
    ("WARNING", re.compile(r"(?:WARNING|Warning|warning)\b|.{0,300}Warning: |.{0,80}(?:deprecated|Ignore import error)")),
)


@dataclass
class _Open:
    """A record that may still grow. `phase`: "text", "frames" (in a traceback), "message" (after its last line), "usage"."""

    rank: str | None
    stream: str
    stamp: str | None
    level: str | None
    numbers: list[int] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    chars: int = 0
    phase: str = "text"
    stamped_frames: bool = False
    tick: str | None = None
    flat: bool = False  # frames have lost their indentation
    after_file: int = 9  # lines since the last File line

    def add(self, number: int, line: Line) -> None:
        text = line.text
        self.numbers.append(number)
        self.lines.append(text)
        self.chars += len(text)
        self.tick = line.tick or self.tick
        self.rank = self.rank or line.rank
        self._advance(text, line.stamp is not None and len(self.lines) > 1)

    def _advance(self, text: str, stamped: bool) -> None:
        bare = text.strip()
        self.after_file += 1
        if HEADER in text:
            self.phase, self.flat = "frames", False
        elif is_file_line(bare):
            self.phase, self.after_file = "frames", 0
            self.flat = not text.startswith((" ", "|"))
            self.stamped_frames = self.stamped_frames or stamped
        elif text.startswith("usage: "):
            self.phase = "usage"
        elif (
            (self.phase == "text" and len(self.lines) == 1 and self.stamp is None and is_error_line(text))
            or (self.phase == "usage" and _USAGE_ERROR.match(text))
            or (self.phase == "frames" and bare and self.ends_frames(text))
        ):
            self.phase = "message"

    def ends_frames(self, text: str) -> bool:
        """Whether this line, after frames, is the exception's own line."""
        if text.startswith((" ", "|")) or is_file_line(text):
            return False
        text = text.rstrip()
        if self.flat and self.after_file <= 2:
            return bool(_ERROR_NAME.match(text) and _EXCEPTION_LINE.match(text))
        return bool(_EXCEPTION_LINE.match(text))

    def goes_on_as(self, other: _Open, text: str) -> bool:
        """Whether the other record has this text where this one ends; errors of ranks differ in numbers."""
        theirs = other.lines[len(self.lines)]
        return theirs == text or (self.ends_frames(text) and _NUMBER.sub("#", theirs) == _NUMBER.sub("#", text))

    @property
    def last_bare(self) -> str:
        return next((line.strip() for line in reversed(self.lines) if line.strip()), "")

    def takes(self, line: Line) -> bool:
        """Whether an unstamped line goes on with this record."""
        text = line.text
        if len(self.lines) >= _RECORD_LINES or self.chars >= _RECORD_CHARS:
            return False
        if not text.strip():
            return True
        if self.last_bare in CHAIN_PHRASES:
            return True
        if HEADER in text or text.startswith("Exception Group Traceback"):
            above = self.last_bare
            return above.endswith(":") or above == '"""' or above.startswith("Exception ignored") or text.startswith("  ")
        if self.phase == "frames":
            if text.startswith((" ", "|")) or is_file_line(text.strip()):
                return True
            if self.after_file <= 1 and (self.flat or not _FRESH.match(text)):
                return True  # a source line that lost its indentation
            return self.ends_frames(text)
        if text.strip() in CHAIN_PHRASES:
            return True
        if _FRESH.match(text):
            return False
        if self.phase == "usage":
            return text.startswith(" ") or bool(_USAGE_ERROR.match(text))
        if self.phase == "message":
            return line.tick is None or line.tick == self.tick
        if is_file_line(text.strip()) and text.startswith(" "):
            return True
        return text.startswith(" ") or (line.tick is None and self.stamp is not None)

    def takes_stamped(self, line: Line) -> bool:
        """Whether a stamped line of the same rank and stream goes on with this record: a traceback stamped line by line."""
        text = line.text
        if len(self.lines) >= _RECORD_LINES or self.chars >= _RECORD_CHARS:
            return False
        if text.strip() in CHAIN_PHRASES or (HEADER in text and self.last_bare in CHAIN_PHRASES):
            return self.phase == "message" and self.stamped_frames
        if self.phase == "usage":
            return text.startswith(" ") or bool(_USAGE_ERROR.match(text))
        if self.phase != "frames":
            return False
        return text.startswith("  ") or (self.stamped_frames and self.ends_frames(text))


class RecordBuilder:
    def __init__(self) -> None:
        self._open: dict[tuple[str, str | None], _Open] = {}
        self._latest: dict[str, _Open] = {}
        self._headed: dict[str, list[_Open]] = {}  # of each stream the tracebacks that began one right after the other
        self._done: list[_Open] = []

    def add(self, number: int, line: Line) -> None:
        """Put a line to the record that it goes on with, or begin one."""
        if line.stamp is None and not line.single:
            latest = self._latest.get(line.stream)
            chosen = self._choose(latest, line) if latest is not None else None
            if chosen is not None and chosen.takes(line):
                chosen.add(number, line)
                return
        elif not line.single:
            same = self._open.get((line.stream, line.rank))
            if same is not None and same.takes_stamped(line):
                same.add(number, line)
                return
        if not line.text.strip():
            return
        record = _Open(line.rank, line.stream, line.stamp or line.tick, line.level)
        record.add(number, line)
        self._done.append(record)
        if not line.single:
            self._open[(line.stream, line.rank)] = record
            self._latest[line.stream] = record
            headed = self._headed.setdefault(line.stream, [])
            if HEADER not in line.text:
                headed.clear()
            elif len(headed) < _MIXED:
                headed.append(record)

    def _choose(self, latest: _Open, line: Line) -> _Open:
        """The record that an untagged line belongs to where several ranks write the same traceback into each other.

        What the record that is ahead has at the place where another one stands is the other one's.
        """
        group = self._headed.get(line.stream, [])
        if len(group) < 2 or latest not in group:
            return latest
        ahead = max(group, key=lambda record: len(record.lines))
        behind = [
            record
            for record in group
            if record.phase == "frames" and len(record.lines) < len(ahead.lines) and record.goes_on_as(ahead, line.text)
        ]
        if behind:
            return max(behind, key=lambda record: len(record.lines))
        return ahead if ahead.phase == "frames" else latest

    def close_all(self) -> None:
        """Nothing after this goes on with what stood before."""
        self._open.clear()
        self._latest.clear()
        self._headed.clear()

    def finish(self) -> tuple[LogRecord, ...]:
        return tuple(_finish_record(record) for record in self._done)


def _finish_record(record: _Open) -> LogRecord:
    while record.lines and not record.lines[-1].strip():
        record.lines.pop()
        record.numbers.pop()
    text = "\n".join(record.lines).rstrip()
    level = record.level or next((name for name, pattern in _LEVEL_WORDS if pattern.match(text)), "INFO")
    first, last = min(record.numbers), max(record.numbers)
    follow = last - first == len(record.numbers) - 1 and record.numbers[0] == first
    lines = () if follow else tuple(record.numbers)
    return LogRecord(text, first, last, record.rank, level, record.stamp, lines)


def is_file_line(text: str) -> bool:
    """Whether a line (stripped) is the first line of a traceback's frame."""
    return text.startswith(('File "', '| File "')) and '", line ' in text


def is_error_line(text: str) -> bool:
    """Whether a line is what Python prints of an exception itself, whether or not a traceback stands above."""
    return bool(_BARE_ERROR.match(text))
