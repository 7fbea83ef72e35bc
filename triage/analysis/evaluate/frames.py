"""The state of one evaluation: places, frames, the paths kept for later, and the bookkeeping that all parts share."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from triage.analysis.evaluate.heap import Diff, Heap
from triage.analysis.evaluate.signals import Signal
from triage.analysis.evaluate.values import ABSENT, Func, Instance, Module, OutOfBudget, TargetRaise, Unknown, Value


@dataclass(frozen=True)
class Place:
    file: str
    line: int
    function: str


class Pending:
    """A path that left the block early, kept until its function or loop ends."""

    __slots__ = ("diff", "mark", "signal", "why")

    def __init__(self, signal: Signal, diff: Diff, mark: int, why: str) -> None:
        self.signal = signal
        self.diff = diff
        self.mark = mark
        self.why = why


class Frame:
    """The state of one activation. `pin` is the line that the trail says was reached here, or 0."""

    # made for every call: what most frames never change stands on the class
    stmt: ast.stmt | None = None
    pin = 0
    proven: tuple[Any, ...] = ()  # statements of its code that the log proves to have run (`proofs.Proof`)
    more_items = False
    exit_control: frozenset[str] = frozenset()
    globals: frozenset[str] = frozenset()
    nonlocals: frozenset[str] = frozenset()
    class_annotations: dict[str, Value] | None = None
    is_function = False
    func: Func | None = None
    first_argument: Value = None
    parent: Frame | None = None

    def __init__(self, module: Module, name: str, locals_: dict[str, Value], closure: tuple[dict[str, Value], ...] = ()) -> None:
        self.module = module
        self.name = name
        self.qualname = name
        self.locals = locals_
        self.closure = closure
        self.deps: dict[str, frozenset[str]] = {}
        self.pending: list[Pending] = []
        self.yielded: list[Value] = []
        self.handled: list[TargetRaise] = []

    def child(self) -> Frame:
        """The scope of a comprehension."""
        inner = Frame(self.module, self.name, {}, (self.locals, *self.closure))
        inner.parent, inner.stmt, inner.is_function, inner.func = self, self.stmt, True, self.func
        inner.first_argument = self.first_argument
        return inner

    def root(self) -> Frame:
        frame = self
        while frame.parent is not None:
            frame = frame.parent
        return frame

    def assign(self, w: Core, name: str, value: Value) -> None:
        if self.globals and name in self.globals:
            w.heap.set(self.module.ns, name, value)
        elif self.nonlocals and name in self.nonlocals:
            home = next((c for c in self.closure if name in c), self.locals)
            w.heap.set(home, name, value)
        else:
            held = self.locals
            heap = w.heap
            if heap.depth:
                heap.journal.append((held, name, held.get(name, ABSENT)))
            held[name] = value
            deps = w.reads | w.control if w.control else w.reads
            if deps:
                self.deps[name] = frozenset(deps)
            elif self.deps:
                self.deps.pop(name, None)

    def handling(self) -> TargetRaise | None:
        return self.handled[-1] if self.handled else None

    def stmt_holds_pin(self, node: ast.stmt) -> bool:
        return node.lineno <= self.pin <= (node.end_lineno or node.lineno)


class _Reading:
    __slots__ = ("saved", "world")

    def __init__(self, world: Core) -> None:
        self.world = world

    def __enter__(self) -> None:
        self.saved = self.world.reads
        self.world.reads = set()

    def __exit__(self, *_: object) -> None:
        self.world.reads = self.saved


class Core:
    """Bookkeeping, and what the later layers must offer."""

    def __init__(self, budget: int) -> None:
        self.heap = Heap()
        self.steps = 0
        self.budget = budget
        self.reads: set[str] = set()
        self.control: frozenset[str] = frozenset()
        self.nesting = 0  # tests that the statement now running stands under, over all frames
        self.guards: tuple[frozenset[str], ...] = ()
        self.stack: list[Frame] = []
        self.assumptions: dict[str, Value] = {}
        self.maybes: list[tuple[TargetRaise, tuple[Place, ...], str]] = []
        self.collectors: list[tuple[Callable[[TargetRaise], bool | None], list[TargetRaise]]] = []
        self.notes: list[str] = []
        self.optimistic = False  # follow one side of each unknown test, where the facts are too few to follow both
        self.supposed: dict[str, None] = {}  # how unknown tests were taken to come out
        self.trail: tuple[Place, ...] = ()
        self.trail_at = -1
        self.observed: dict[str, bool] = {}
        self.contradictions: list[str] = []
        self.learned: dict[str, Value] = {}  # key of an unknown value -> what the log says that it is

    def told(self, value: Value) -> Value:
        """A value; where it is unknown, what the log says that it is."""
        return self.learned.get(value.key, value) if self.learned and type(value) is Unknown else value

    def tick(self) -> None:
        self.steps += 1
        if self.steps > self.budget:
            raise OutOfBudget

    def reading(self) -> _Reading:
        return _Reading(self)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def enter_guard(self, reads: frozenset[str]) -> tuple[frozenset[str], tuple[frozenset[str], ...]]:
        before = (self.control, self.guards)
        self.nesting += 1
        if reads:
            self.control = self.control | reads
            self.guards = (reads, *self.guards)
        return before

    def leave_guard(self, before: tuple[frozenset[str], tuple[frozenset[str], ...]]) -> None:
        self.control, self.guards = before
        self.nesting -= 1

    def places(self) -> tuple[Place, ...]:
        """The frames now active, outermost first."""
        return tuple(Place(f.module.file, f.stmt.lineno if f.stmt else 0, f.name) for f in self.stack)

    def lookup(self, f: Frame, name: str) -> Value:
        raise NotImplementedError

    def call_object(self, target: Value, args: list[Value], named: dict[str, Value]) -> Value:
        raise NotImplementedError

    def matches_handler(self, exc: TargetRaise, wanted: Value) -> bool | None:
        raise NotImplementedError

    def truth(self, value: Value) -> bool | None:
        raise NotImplementedError

    def iterate(self, value: Value) -> list[Value] | None:
        raise NotImplementedError

    def leave(self, manager: Value, raised: TargetRaise | None) -> Value:
        raise NotImplementedError

    def exception_value(self, exc: TargetRaise) -> Value:
        return exc.instance if isinstance(exc.instance, Instance) else exc

    def call(self, target: Value, args: list[Value], named: dict[str, Value] | None = None) -> Value:
        raise NotImplementedError

    def each_option(self, options: Sequence[Value], run: Callable[[Value], Value], why: str) -> list[Value]:
        raise NotImplementedError
