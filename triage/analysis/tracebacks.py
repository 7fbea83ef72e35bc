"""One log record -> the Python tracebacks in it, with their chains, as the interpreter prints them (3.8 to 3.13)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from triage.model import Frame, LogRecord, Raised

HEADER = "Traceback (most recent call last):"
GROUP_HEADER = "Exception Group Traceback (most recent call last):"
CHAIN_PHRASES = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
MAX_FRAMES = 2000

_FRAME = re.compile(r'\s*File "(?P<path>[^"]{1,4096})", line (?P<line>\d{1,9})(?:, in (?P<function>.{1,500}))?\s*$')
_DUMPED = re.compile(r'\s*File "(?P<path>[^"]{1,4096})", line (?P<line>\d{1,9}) in (?P<function>.{1,500})$')
_EXCEPTION = re.compile(r"(?P<name>[A-Za-z_][\w.<>]{0,200}(?:\[[\w., ]{0,80}\])?)(?::(?: (?P<message>.*))?)?$", re.DOTALL)
_ERROR_NAME = re.compile(r"(?:[\w<>]{1,80}\.){0,12}\w{0,100}(?:Error|Exception|Exit|Interrupt|Warning|Timeout|Group)(?::|$)")
_NOT_SOURCE = re.compile(r"\s*(?:[\^~ ]+|\.\.\.<\d+ lines?>\.\.\.|\[Previous line repeated \d+ more times?\])$")
_GROUP_SEPARATOR = re.compile(r"\s*\+[-+]{2,80}(?: (?:\d{1,4}|\.\.\.) -{2,80})?\s*$")
_GROUP_MESSAGE = re.compile(r" \(\d{1,6} sub-exceptions?\)")
_GROUP_BAR = re.compile(r"\s*\| ?")
_INSTALLED = re.compile(r"(?:^|/)(?:site-packages|dist-packages)/")
_LIBRARY = re.compile(r"(?:^|/)(?:site-packages|dist-packages|lib/python\d[\d.]*)(?:/|$)")


@dataclass(frozen=True)
class Traceback:
    """One printed traceback: the exception that left it, what that was raised from, and what stood in front.

    `complete` is False where the log ends (or is cut) before the exception's own line; then `raised.exception` is "".
    `siblings` are the other exceptions of a group, the group itself first.
    """

    raised: Raised
    chain: tuple[Raised, ...] = ()  # innermost cause last
    lead: str = ""  # text before the header, on its line or the line above: "Scheduler hit an exception:"
    complete: bool = True
    siblings: tuple[Raised, ...] = ()


def parse_tracebacks(record: LogRecord, package: str) -> tuple[Traceback, ...]:
    """All tracebacks of the record in order; () when it holds none. `package` names the engine's package ("sglang")."""
    texts = record.text.split("\n")
    numbers = record.lines or range(record.first, record.first + len(texts))
    lines = [_Numbered(number, text) for number, text in zip(numbers, texts, strict=False)]
    return _Parser(lines, record.rank, package).parse()


def parse_dump(record: LogRecord, package: str) -> tuple[Frame, ...]:
    """The frames of one thread as the interpreter's fault handler prints them, outermost first; () for another record."""
    if "(most recent call first)" not in record.text[:200]:
        return ()
    found = [match for line in record.text.split("\n")[:MAX_FRAMES] if (match := _DUMPED.match(line))]
    frames = [Frame(m["path"], int(m["line"]), m["function"], "", relative_file(m["path"], package)) for m in found]
    return tuple(reversed(frames))


def relative_file(path: str, package: str) -> str | None:
    """The path from the folder that holds `package` on; None outside the package, and for paths that climb."""
    parts = path.split("/")
    if ".." in parts or package not in parts or any(ord(c) < 32 for c in path):
        return None
    installed = list(_INSTALLED.finditer(path))
    if installed:
        inside = path[installed[-1].end() :]
        return inside if inside.split("/", 1)[0] == package and "/" in inside else None
    last = len(parts) - 1 - parts[::-1].index(package)
    checkout = next((i for i in range(1, last) if parts[i] == package and parts[i - 1] == "python"), None)
    last = checkout if checkout is not None else last
    tail = parts[last:]
    if len(tail) < 2 or not tail[-1].endswith((".py", ".pyx", ".pyc")):
        return None
    rest = "/".join(tail)
    if _LIBRARY.search(rest) or tail[1] == "python":
        return None
    return rest


@dataclass(frozen=True)
class _Numbered:
    number: int
    text: str


class _Parser:
    def __init__(self, lines: Sequence[_Numbered], rank: str | None, package: str) -> None:
        self._lines, self._rank, self._package = lines, rank, package
        stacks = (i for i, line in enumerate(lines) if "Stack (most recent call" in line.text)
        self._stack_dump = next(stacks, len(lines))

    def parse(self) -> tuple[Traceback, ...]:
        found: list[Traceback] = []
        position = 0
        while (start := self._next_start(position)) is not None:
            traceback, position = self._parse_chain(start)
            if traceback is not None:
                found.append(traceback)
        return tuple(found)

    def _next_start(self, position: int) -> int | None:
        for i in range(position, len(self._lines)):
            text = self._lines[i].text
            # Frames without a header that follow a stack dump belong to it; no exception ends them.
            if HEADER in text or (i < self._stack_dump and _FRAME.match(text)):
                return i
        return None

    def _parse_chain(self, start: int) -> tuple[Traceback | None, int]:
        lead = self._lead(start)
        raised: list[Raised] = []
        complete, siblings = True, ()  # type: bool, tuple[Raised, ...]
        headed = HEADER in self._lines[start].text
        position = start
        while True:
            if GROUP_HEADER in self._lines[position].text:
                one, siblings, position = self._parse_group(position)
                complete = bool(one.exception)
            else:
                one, complete, position = self._parse_block(position)
            raised.append(one)
            after = self._after_chain_phrase(position)
            if after is None:
                break
            position = after
        if not headed and (not complete or not raised[-1].frames):
            return None, max(position, start + 1)
        return Traceback(raised[-1], tuple(reversed(raised[:-1])), lead, complete, siblings), max(position, start + 1)

    def _lead(self, start: int) -> str:
        text = self._lines[start].text
        if HEADER in text:
            before = text[: text.index(HEADER)].replace("+ Exception Group", "").strip(" |+")
            if before:
                return before
        above = next((line.text.strip() for line in reversed(self._lines[:start]) if line.text.strip()), "")
        return above if above.endswith(":") or above.startswith("Exception in ") else ""

    def _after_chain_phrase(self, position: int) -> int | None:
        """The line of the next traceback where a chain phrase stands between, else None."""
        seen = False
        for i in range(position, min(position + 12, len(self._lines))):
            text = self._lines[i].text.strip().lstrip("| ")
            if text in CHAIN_PHRASES:
                seen = True
            elif HEADER in text or _FRAME.match(text):
                return i if seen else None
            elif text and text != '"""':
                return None
        return None

    def _parse_block(self, start: int) -> tuple[Raised, bool, int]:
        """One header, its frames, the exception's line and its message."""
        frames: list[Frame] = []
        position = start + 1 if HEADER in self._lines[start].text else start
        flat = False
        while position < len(self._lines):
            text = self._lines[position].text
            match = _FRAME.match(text)
            if match:
                flat = flat or not text.startswith(" ") or self._is_shifted(position + 1)
                if len(frames) < MAX_FRAMES:
                    frames.append(self._frame(match, self._source_line(position + 1, flat)))
                if flat and self._source_line(position + 1, flat):
                    position += 1
            elif text.strip() and not text.startswith(" ") and not _NOT_SOURCE.match(text):
                break
            position += 1
        first = self._lines[start].number
        if position >= len(self._lines):
            return Raised("", "", tuple(frames), first, self._lines[-1].number, self._rank), False, position
        text = self._lines[position].text
        matched = _EXCEPTION.match(text) or _EXCEPTION.match(text.rstrip())
        if not matched or HEADER in self._lines[position].text or self._lines[position].text.strip() in CHAIN_PHRASES:
            return Raised("", "", tuple(frames), first, self._lines[position - 1].number, self._rank), False, position
        message, position, last = self._message(matched.group("message") or "", position + 1)
        return Raised(matched.group("name"), message, tuple(frames), first, last, self._rank), True, position

    def _is_shifted(self, position: int) -> bool:
        """Whether the source line of an indented frame has lost its indentation."""
        text = self._lines[position].text if position < len(self._lines) else ""
        known = text.startswith((" ", "|")) or HEADER in text or text.strip() in CHAIN_PHRASES
        return bool(text.strip()) and not known and not _EXCEPTION.match(text.rstrip()) and position + 1 < len(self._lines)

    def _source_line(self, position: int, flat: bool) -> str:
        """The source text that is printed under a frame, or "" where none is."""
        if position >= len(self._lines):
            return ""
        text = self._lines[position].text
        if _FRAME.match(text) or not text.strip() or _NOT_SOURCE.match(text):
            return ""
        if flat:
            return "" if _ERROR_NAME.match(text) else text.strip()
        return text.strip() if text.startswith("    ") else ""

    def _message(self, message: str, position: int) -> tuple[str, int, int]:
        """The message with its further lines, the line after it, and the raw number of its last line."""
        lines = [message]
        last = self._lines[position - 1].number
        while position < len(self._lines):
            text = self._lines[position].text
            if text.strip() in CHAIN_PHRASES or HEADER in text or text.strip() == '"""':
                break
            lines.append(text)
            if text.strip():
                last = self._lines[position].number
            position += 1
        return "\n".join(lines).strip(), position, last

    def _frame(self, match: re.Match[str], text: str) -> Frame:
        path = match["path"]
        return Frame(path, int(match["line"]), match["function"] or "", text, relative_file(path, self._package))

    def _parse_group(self, start: int) -> tuple[Raised, tuple[Raised, ...], int]:
        """The first leaf of an exception group; the group and the other leaves as siblings."""
        sections: list[list[_Numbered]] = [[]]
        position = start
        while position < len(self._lines):
            line = self._lines[position]
            if position > start and not line.text.startswith((" ", "|", "+")):
                break
            if _GROUP_SEPARATOR.match(line.text):
                sections.append([])
            else:
                bare = line.text if position == start else _GROUP_BAR.sub("", line.text, count=1)
                sections[-1].append(replace(line, text=bare))
            position += 1
        parsed: list[tuple[Raised, bool]] = []
        for section in sections:
            if not any(line.text.strip() for line in section):
                continue
            inner = _Parser(section, self._rank, self._package)
            heads = [i for i, line in enumerate(section) if HEADER in line.text]
            raised = inner._parse_block(heads[-1] if heads else 0)[0]
            parsed.append((raised, bool(_GROUP_MESSAGE.search(raised.message))))
        leaves = [raised for raised, is_group in parsed if not is_group and raised.exception]
        groups = [raised for raised, is_group in parsed if is_group]
        if not leaves:
            return groups[0], tuple(groups[1:]), position
        chosen = next((leaf for leaf in leaves if any(f.file for f in leaf.frames)), leaves[0])
        if not chosen.frames and groups:
            chosen = replace(chosen, frames=groups[0].frames)
        return chosen, (*groups[:1], *(leaf for leaf in leaves if leaf is not chosen and leaf.first != chosen.first)), position
