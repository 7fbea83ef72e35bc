"""What the loop does, as lines on stderr, and as a line that is rewritten while it waits where a person looks at it."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from triage.cli.console import is_terminal, wants_colour, write_progress
from triage.model import Attempt, Diagnosis, Observation, Patch, Plan
from triage.report.plain import show_code, show_line
from triage.report.view import describe_failure, describe_patch

if TYPE_CHECKING:
    from rich.status import Status

REPEAT_AFTER = 15.0  # seconds of one phase after which a plain line is written again


class Progress:
    """Implements `Observer`. Use it as a context manager."""

    def __init__(self) -> None:
        self._status: Status | None = None
        self._last: tuple[str, float] = ("", 0.0)

    def __enter__(self) -> Self:
        if is_terminal(sys.stderr) and os.environ.get("TERM", "dumb") != "dumb":
            from rich.console import Console

            console = Console(stderr=True, markup=False, highlight=False, emoji=False, no_color=not wants_colour(sys.stderr))
            self._status = console.status("", spinner="line")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._clear()

    def phase(self, text: str, seconds: float) -> None:
        line = f"{show_line(text, 200)} ({seconds:.0f} s)"
        if self._status is not None:
            from rich.text import Text

            self._status.update(Text(line))
            self._status.start()
            return
        last, at = self._last
        if text != last or seconds < at or seconds - at >= REPEAT_AFTER:
            self._last = (text, seconds)
            write_progress(line)

    def diagnosed(self, diagnosis: Diagnosis) -> None:
        if diagnosis.failure is not None:
            self._line(f"found: {describe_failure(diagnosis.failure)}")
        if diagnosis.patches:
            self._line(f"proposed: {describe_patch(diagnosis.patches[0])}")
        elif diagnosis.failure is not None:
            self._line("no patch is known that would repair this")

    def planned(self, plan: Plan, patch: Patch) -> None:
        self._line(f"plan: {plan.what}")
        for text in plan.diff.splitlines():
            write_progress(f"    {show_code(text)}")
        for loss in patch.losses:
            self._line(f"loses: {loss}")
        for change in patch.silent:
            self._line(f"changes silently: {change.field} {change.asked} becomes {change.used}")

    def applied(self, plan: Plan) -> None:
        self._line(f"applied: {plan.what}")

    def observed(self, observation: Observation) -> None:
        why = f": {observation.why}" if observation.why else ""
        self._line(f"{observation.verdict} in {observation.seconds:.1f} s{why}")

    def attempted(self, attempt: Attempt) -> None:
        """Each turn's parts have been told when they came."""

    def note(self, text: str) -> None:
        self._line(text)

    def ask(self, question: str) -> bool:
        """A question on stderr, the answer from stdin: only `y` and `yes` are a yes; the end of input is a no."""
        self._clear()
        if sys.stderr is None or sys.stdin is None:
            return False
        sys.stderr.write(f"{show_line(question)} [y/N] ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def _line(self, text: str) -> None:
        self._clear()
        write_progress(show_line(text))

    def _clear(self) -> None:
        if self._status is not None:
            self._status.stop()
