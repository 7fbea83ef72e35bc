"""How control leaves a statement."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from triage.analysis.evaluate.values import Value

if TYPE_CHECKING:
    from triage.analysis.evaluate.frames import Frame


class Signal:
    """How control leaves a statement: "return" with a value, "break" or "continue"."""

    __slots__ = ("kind", "reads", "value")

    def __init__(self, kind: str, value: Value = None, reads: frozenset[str] = frozenset()) -> None:
        self.kind = kind
        self.value = value
        self.reads = reads  # what the value was made from


BREAK, CONTINUE = Signal("break"), Signal("continue")
Step = Callable[[Any, "Frame"], Signal | None]
