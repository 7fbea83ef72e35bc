"""`triage`: the commands of the interface contract. Each command's module is imported when the command is called."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from triage.cli.console import write_progress
from triage.cli.parser import build_parser, place_flag
from triage.errors import TriageError

if TYPE_CHECKING:
    from argparse import Namespace

WHERE_TO_SEND = "please send this line, and the output with TRIAGE_DEBUG=1, to the issue tracker of sglang-triage"
INTERRUPTED = 130
ENDS_AT_ONCE = {"replay", "check", "explain", "report"}  # one answer from memory that is given back as a whole
AFTER_INTERRUPT = {"undo": "run the same command again to finish"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Whatever happens, stderr gets one line and never a traceback of ours."""
    try:
        args = build_parser().parse_args(place_flag(sys.argv[1:] if argv is None else argv))
    except SystemExit as done:  # argparse has printed its usage or its help
        return done.code if isinstance(done.code, int) else 2
    if args.name in ENDS_AT_ONCE:
        gc.disable()
    try:
        with _signals_interrupt() as signals:
            code = find_command(args.name)(args)
        if args.name in ENDS_AT_ONCE:
            gc.freeze()  # the interpreter's end would search all of it for cycles
        return INTERRUPTED if signals else code
    except TriageError as error:
        _explain(str(error), error.hint)
        return error.exit_code
    except KeyboardInterrupt:
        write_progress(f"triage: interrupted; {AFTER_INTERRUPT.get(args.name, 'nothing was changed')}")
        return INTERRUPTED
    except Exception as error:  # the one broad clause: a bug of ours is said in one line, with a way to report it
        if os.environ.get("TRIAGE_DEBUG") == "1":
            sys.excepthook(type(error), error, error.__traceback__)
        _explain(f"internal error: {type(error).__name__}: {error}", WHERE_TO_SEND)
        return 2


def find_command(name: str) -> Callable[[Namespace], int]:
    """The function behind a command's name; imports only what that command needs."""
    match name:
        case "replay":
            from triage.cli.offline import replay_capture

            return replay_capture
        case "check":
            from triage.cli.check import check_launch

            return check_launch
        case "explain":
            from triage.cli.explain import explain_field

            return explain_field
        case "report":
            from triage.cli.offline import report_session

            return report_session
        case "run":
            from triage.cli.live import run_loop

            return run_loop
        case "capture":
            from triage.cli.live import capture_service

            return capture_service
        case "undo":
            from triage.cli.live import undo_session

            return undo_session
        case "doctor":
            from triage.cli.doctor import examine_target

            return examine_target
        case "demo":
            from triage.cli.demo import run_demo

            return run_demo
        case _:
            raise AssertionError(name)


def _explain(message: str, hint: str) -> None:
    from triage.report.plain import show_line

    write_progress(f"triage: {show_line(message)}")
    if hint:
        write_progress(f"        {show_line(hint)}")


@contextmanager
def _signals_interrupt() -> Iterator[list[int]]:
    """A hang-up or a plain kill ends like Ctrl-C does, with the same care; what nohup ignores stays ignored.

    Yields the signals that came: a command may have ended in good order because of one.
    """
    came: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        came.append(number)
        raise KeyboardInterrupt

    before = {}
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(name) in (signal.SIG_DFL, signal.default_int_handler):
            before[name] = signal.signal(name, interrupt)
    try:
        yield came
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
