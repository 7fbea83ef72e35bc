"""What the target raises, told as the interpreter tells it.

Runs on the host, in the launch's own interpreter: stdlib only, Python 3.8 and later.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Iterator
from typing import Any


def write_text(text: str) -> None:
    """To the standard error, past what the target made of sys.stderr."""
    flush_streams()
    data = text.encode("utf-8", "backslashreplace")
    while data:
        data = data[os.write(2, data) :]


def flush_streams() -> None:
    """What the target has printed and not yet written."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()


def list_chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and all that it came from."""
    todo: list[BaseException] = [error]
    seen: set[int] = set()
    while todo and len(seen) < 50:
        one = todo.pop(0)
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            todo += [e for e in (one.__cause__, one.__context__) if e is not None]


def describe_error(error: BaseException) -> str:
    """The exception and its message, on one line."""
    lines = "".join(traceback.format_exception_only(type(error), error)).strip().splitlines()
    return (lines[-1] if isinstance(error, SyntaxError) and lines else lines[0] if lines else type(error).__name__)[:1000]


def is_of_parser(error: BaseException) -> bool:
    """Whether it was raised in argparse."""
    trace, name = error.__traceback__, ""
    while trace is not None:
        name, trace = trace.tb_frame.f_globals.get("__name__", ""), trace.tb_next
    return name == "argparse"


def print_error(error: BaseException, own: str) -> None:
    """As the interpreter prints it, without the frames of the file `own`."""
    shown = traceback.TracebackException(type(error), error, error.__traceback__)
    todo: list[Any] = [shown]
    seen: set[int] = set()
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.stack[:] = [f for f in one.stack if f.filename != own and not f.filename.startswith("<frozen importlib")]
        todo += [one.__cause__, one.__context__, *(getattr(one, "exceptions", None) or ())]
    write_text("".join(shown.format()))
