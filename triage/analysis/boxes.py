"""Tracebacks that rich draws in a box, or loguru with arrows, -> lines as the interpreter prints them."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field, replace

from triage.analysis.framing import Line

_TOP = re.compile(
    r"(?P<lead> {0,200})[╭┌+][─-]{2,400} (?:Exception Group )?Traceback \(most recent call last\) [─-]{2,400}[╮┐+]\s*$"
)
_BOTTOM = re.compile(r"[╰└+][─-]{4,400}[╯┘+]?\s*$")
_INNER_TOP = re.compile(r"[╭┌+][─-]{1,400}(?: \S{1,80} [─-]{1,400})?[╮┐+]\s*$")
_HEAD = re.compile(r"(?P<path>\S(?:[^\n]{0,4000}?)):(?P<line>\d{1,9}) in (?P<function>\S[^\n]{0,500})$")
_NO_FILE = re.compile(r"in (?P<function>\S{1,500}):(?P<line>\d{1,9})$")  # code that no file holds
_MARKED = re.compile(r"[❱>] {1,12}(?P<line>\d{1,9}) ?(?P<text>.*)$")
_CODE = re.compile(r"(?:[❱>] )? {0,12}\d{1,9}(?: |$)")
_HIDDEN = re.compile(r"\.\.\. \d{1,6} frames? hidden \.\.\.$")
_HEAD_ROWS = 4  # a frame's path and place are wrapped over at most so many rows
_AFTER_LINES = 200  # of the message under a box


@dataclass
class _Box:
    """A box that is being read. `phase` is "rows" inside, "message" under it."""

    number: int
    line: Line
    column: int
    width: int
    phase: str = "rows"
    depth: int = 0  # boxes inside, which show locals
    rows: list[tuple[int, str]] = field(default_factory=list)  # of the frame's head, until a blank row
    head: tuple[int, str] | None = None  # the frame's line, until its source is known
    text: str = ""
    open_text: bool = False  # the source line may go on in the next row
    pending: tuple[int, str] | None = None  # a line under the box that may go on
    after: int = 0
    last: int = 0  # how long the row was that the pending line ends with

    def wraps(self, word: str) -> bool:
        """Whether the console's width is why the pending line ended: its next word would not have fitted."""
        return self.last + 1 + len(word) > self.width >= self.last > 0


class BoxReader:
    """Fed with lines without framing; gives them back, those of boxes as plain traceback lines."""

    def __init__(self) -> None:
        self._boxes: dict[str, _Box] = {}

    def feed(self, number: int, line: Line) -> list[tuple[int, Line]]:
        """The lines that are complete with this one."""
        text = line.text
        top = _TOP.match(text) if "Traceback (" in text else None
        box = self._boxes.get(line.stream)
        if top is None and box is None:
            return [(number, _straighten(line))]
        out: list[tuple[int, Line]] = []
        if box is not None and (top is not None or line.stamp is not None):
            out += self._close(line.stream)
            box = None
        if top is not None:
            column = len(top["lead"])
            self._boxes[line.stream] = _Box(number, line, column, len(text.rstrip()) - column)
            return [*out, (number, replace(line, text="Traceback (most recent call last):"))]
        if box is None:
            return [*out, (number, line)]
        if box.phase == "rows":
            self._read_row(box, number, text, out)
        else:
            self._read_under(box, number, line, out)
        return out

    def finish(self) -> list[tuple[int, Line]]:
        """What still waited for a further line."""
        return [item for stream in list(self._boxes) for item in self._close(stream)]

    def _close(self, stream: str) -> list[tuple[int, Line]]:
        box = self._boxes.pop(stream)
        out: list[tuple[int, Line]] = []
        self._end_frame(box, out)
        if box.pending is not None:
            out.append((box.pending[0], replace(box.line, text=box.pending[1], stamp=None)))
        return out

    # ------------------------------------------------------------ inside
    def _read_row(self, box: _Box, number: int, text: str, out: list[tuple[int, Line]]) -> None:
        row = text[box.column :].rstrip()
        if not row.startswith(("│", "|")):
            if _BOTTOM.match(row):
                self._end_frame(box, out)
                box.phase = "message"
            return
        inner = row[1:].strip() if len(row) < box.width else row[1:-1].strip()
        full = len(row) >= box.width and row[-3:-1].strip() != ""
        if box.depth or _INNER_TOP.match(inner):
            box.depth += (1 if _INNER_TOP.match(inner) else 0) - (1 if _BOTTOM.match(inner) else 0)
            return
        marked = _MARKED.match(inner)
        if inner and box.rows and box.head is None:
            self._read_place(box, number, inner, out)
            return
        nowhere = _NO_FILE.match(inner)
        if nowhere:
            self._end_frame(box, out)
            box.rows = []
            box.head = (number, f'  File "<string>", line {nowhere["line"]}, in {nowhere["function"]}')
        elif not inner or _HIDDEN.match(inner):
            box.rows, box.open_text = [], False
        elif marked and box.head is not None:
            box.text = marked["text"].lstrip("│ ").rstrip()
            if full:  # cut at the border
                box.text = ""
            box.open_text = bool(box.text)
        elif _CODE.match(inner):
            box.open_text = False
        elif box.open_text:
            box.text += " " + inner.lstrip("│ ")
        else:
            self._read_place(box, number, inner, out)

    def _read_place(self, box: _Box, number: int, inner: str, out: list[tuple[int, Line]]) -> None:
        """A row of a frame's path, line and function, which may go on in the next row."""
        if len(box.rows) >= _HEAD_ROWS:
            return
        if not box.rows:
            self._end_frame(box, out)
        box.rows.append((number, inner))
        head = _read_head([part for _, part in box.rows])
        if head:
            box.head = (box.rows[0][0], head)

    def _end_frame(self, box: _Box, out: list[tuple[int, Line]]) -> None:
        if box.head is not None:
            number, head = box.head
            out.append((number, replace(box.line, text=head, stamp=None)))
            if box.text:
                out.append((number, replace(box.line, text=f"    {box.text}", stamp=None)))
        box.head, box.text, box.open_text = None, "", False

    # ------------------------------------------------------------ under the box
    def _read_under(self, box: _Box, number: int, line: Line, out: list[tuple[int, Line]]) -> None:
        text = line.text[box.column :].rstrip()
        box.after += 1
        outside = bool(line.text[: box.column].strip())
        if box.after > _AFTER_LINES or outside:
            out += self._close(line.stream)
            out.append((number, line))
            return
        if box.pending is not None and text:
            word = text.split(" ", 1)[0]
            if not text.startswith(" ") and len(box.pending[1]) < 100_000 and box.wraps(word):
                box.pending = (box.pending[0], f"{box.pending[1]} {text}")
                box.last = len(text)
                return
        if box.pending is not None:
            out.append((box.pending[0], replace(box.line, text=box.pending[1], stamp=None)))
        box.pending = (number, text)
        box.last = len(text)


def _read_head(rows: list[str]) -> str | None:
    """The traceback line of a frame's place, which may have been wrapped anywhere; None where it is none (yet)."""
    for joins in itertools.product(("", " "), repeat=len(rows) - 1):
        text = rows[0] + "".join(join + row for join, row in zip(joins, rows[1:], strict=True))
        match = _HEAD.match(text)
        if match and "/" in match["path"]:
            return f'  File "{match["path"]}", line {match["line"]}, in {match["function"]}'
    return None


def _straighten(line: Line) -> Line:
    """loguru marks the frame that caught with ">", and draws values under a source line."""
    if line.text.startswith('> File "'):
        return replace(line, text=" " + line.text[1:])
    return line
