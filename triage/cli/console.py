"""How results and progress leave the process: stdout is the result, stderr is progress; neither may break the work."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TextIO

MIN_WIDTH, MAX_WIDTH = 20, 140


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person looks at the stream. A closed one is no terminal."""
    return stream is not None and not stream.closed and stream.isatty()


def wants_colour(stream: TextIO | None) -> bool:
    """NO_COLOR, TERM=dumb and anything that is not a terminal turn colour off."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def get_width() -> int:
    """Columns for a report: COLUMNS, else the terminal's, else 100; from 20 to 140."""
    return min(max(shutil.get_terminal_size((100, 24)).columns, MIN_WIDTH), MAX_WIDTH)


def write_result(text: str) -> None:
    """To stdout, whatever its encoding. A reader that went away is no error: the command's exit code still tells the outcome."""
    _write(sys.stdout, text)


def write_progress(text: str) -> None:
    """One line to stderr, with nothing in it that acts on a terminal; a stderr that is gone must not stop a repair half-way."""
    from triage.redact import clean_text

    _write(sys.stderr, clean_text(text.replace("\n", " ")) + "\n")


def _write(stream: TextIO | None, text: str) -> None:
    if stream is None or stream.closed:
        return
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except OSError:
        _silence(stream)


def _silence(stream: TextIO) -> None:
    """Point the stream's descriptor at the null device, so that the interpreter's own flush at exit stays quiet."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
    except (OSError, ValueError):
        return
