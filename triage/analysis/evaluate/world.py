"""One evaluation of the target's validation: frames, calls, forks at unknown tests, and what was learned on the way.

At a test that cannot be known both sides are evaluated and their states joined (`Heap`); an exception that only one
side raises is recorded as possible and the evaluation goes on with the other. With a `trail` (the frames of a real
traceback) the sides that cannot lead there are dropped, so that the log decides what the host alone would know.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from triage.analysis.evaluate.heap import Diff, Heap
from triage.analysis.evaluate.statements import BREAK, CONTINUE, Signal, Step, code_of
from triage.analysis.evaluate.values import (
    ABSENT,
    Bound,
    Class,
    External,
    Func,
    Instance,
    Maybe,
    Module,
    OutOfBudget,
    TargetRaise,
    Unknown,
    Value,
    join,
    show,
)

MAX_CALL_DEPTH = 70
MAX_UNKNOWN_RECURSION = 2
MAX_ROUNDS, MAX_ROUNDS_IN_FORK = 2000, 50  # of a while loop


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

    def __init__(self, module: Module, name: str, locals_: dict[str, Value], closure: tuple[dict[str, Value], ...] = ()) -> None:
        self.module = module
        self.name = name
        self.qualname = name
        self.locals = locals_
        self.closure = closure
        self.deps: dict[str, frozenset[str]] = {}
        self.stmt: ast.stmt | None = None
        self.pin = 0
        self.more_items = False
        self.pending: list[Pending] = []
        self.exit_control: frozenset[str] = frozenset()
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()
        self.yielded: list[Value] = []
        self.handled: list[TargetRaise] = []
        self.class_annotations: dict[str, Value] | None = None
        self.is_function = False
        self.func: Func | None = None
        self.first_argument: Value = None
        self.parent: Frame | None = None

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

    def assign(self, w: World, name: str, value: Value) -> None:
        if name in self.globals:
            w.heap.set(self.module.ns, name, value)
        elif name in self.nonlocals:
            home = next((c for c in self.closure if name in c), self.locals)
            w.heap.set(home, name, value)
        else:
            w.heap.set(self.locals, name, value)
            deps = w.reads | w.control if w.control else w.reads
            if deps:
                self.deps[name] = frozenset(deps)
            else:
                self.deps.pop(name, None)

    def handling(self) -> TargetRaise | None:
        return self.handled[-1] if self.handled else None

    def stmt_holds_pin(self, node: ast.stmt) -> bool:
        return node.lineno <= self.pin <= (node.end_lineno or node.lineno)


class _Reading:
    __slots__ = ("saved", "world")

    def __init__(self, world: World) -> None:
        self.world = world

    def __enter__(self) -> None:
        self.saved = self.world.reads
        self.world.reads = set()

    def __exit__(self, *_: object) -> None:
        self.world.reads = self.saved


class World:
    """Control: calls, forks, loops, exceptions. `Machine` (machine.py) adds the operations on values."""

    def __init__(self, budget: int) -> None:
        self.heap = Heap()
        self.steps = 0
        self.budget = budget
        self.reads: set[str] = set()
        self.control: frozenset[str] = frozenset()
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

    # ------------------------------------------------ bookkeeping
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
        if reads:
            self.control = self.control | reads
            self.guards = (reads, *self.guards)
        return before

    def leave_guard(self, before: tuple[frozenset[str], tuple[frozenset[str], ...]]) -> None:
        self.control, self.guards = before

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

    # ------------------------------------------------ calls
    def call(self, target: Value, args: list[Value], named: dict[str, Value] | None = None) -> Value:
        """Call any value. Raises TargetRaise where the target would."""
        if type(target) is Bound:
            return self.call(target.fn, [target.self, *args], named)
        if type(target) is Func:
            return self.call_function(target, args, named or {})
        return self.call_object(target, args, named or {})

    def call_function(self, func: Func, args: list[Value], named: Mapping[str, Value]) -> Value:
        code = code_of(func)
        if code.is_async:
            return Unknown(f"{func.qualname}()", "coroutines are not evaluated")
        if len(self.stack) >= MAX_CALL_DEPTH:
            self.note(f"calls nested deeper than {MAX_CALL_DEPTH} are not followed ({func.qualname})")
            return Unknown(f"?{func.qualname}()", "calls are nested too deeply")
        if any(type(a) is Unknown for a in args) and sum(f.func is func for f in self.stack) >= MAX_UNKNOWN_RECURSION:
            return Unknown(f"?{func.qualname}()", f"{func.name} calls itself on an unknown value")
        frame = Frame(func.module, func.name, self.bind(func, args, named), func.closure)
        frame.qualname = func.qualname
        frame.is_function, frame.func = True, func
        frame.first_argument = args[0] if args else None
        self.match_trail(frame, code.line, code.end)
        self.stack.append(frame)
        saved_reads, saved_at = self.reads, self.trail_at
        entry, started = len(self.heap.journal), self.steps
        if frame.pin:
            self.trail_at += 1
        self.reads = set()
        signal: Signal | None = None
        raised: TargetRaise | None = None
        try:
            signal = code.body(self, frame)
        except TargetRaise as exc:
            exc.trail.append((frame.module.file, frame.stmt.lineno if frame.stmt else 0, frame.name))
            exc.calls.append((func, list(args), dict(named), entry, self.steps - started))
            raised = exc
        finally:
            self.stack.pop()
            self.reads, self.trail_at = saved_reads, saved_at
        value = signal.value if signal is not None else None
        reads = signal.reads if signal is not None else frozenset()
        if frame.pending:
            value, raised = self.settle(frame, value, raised)
        if raised is not None:
            raise raised
        self.reads |= reads
        self.reads |= frame.exit_control
        if code.is_generator:
            return list(frame.yielded)
        return value

    def bind(self, func: Func, args: list[Value], named: Mapping[str, Value]) -> dict[str, Value]:
        """Parameters to arguments, as Python does it."""
        code = code_of(func)
        out: dict[str, Value] = dict(zip(code.positional, args, strict=False))
        extra = args[len(code.positional) :]
        if code.vararg:
            out[code.vararg] = tuple(extra)
        elif extra:
            text = f"{func.qualname}() takes {len(code.positional)} positional arguments but {len(args)} were given"
            raise TargetRaise(TypeError, (text,))
        rest: dict[str, Value] = {}
        known = {*code.positional, *code.keyword_only}
        for key, value in named.items():
            if key in known:
                out[key] = value
            else:
                rest[key] = value
        if code.kwarg:
            out[code.kwarg] = rest
        elif rest:
            raise TargetRaise(TypeError, (f"{func.qualname}() got an unexpected keyword argument '{next(iter(rest))}'",))
        if func.defaults:
            for name, value in zip(code.positional[-len(func.defaults) :], func.defaults, strict=True):
                out.setdefault(name, value)
        for name, value in func.kw_defaults.items():
            out.setdefault(name, value)
        missing = [n for n in (*code.positional, *code.keyword_only) if n not in out]
        if missing:
            raise TargetRaise(TypeError, (f"{func.qualname}() missing required argument: {', '.join(missing)}",))
        return out

    def settle(self, frame: Frame, value: Value, raised: TargetRaise | None) -> tuple[Value, TargetRaise | None]:
        """Join the paths that returned early with the one that came to the end."""
        for path in reversed(frame.pending):
            if raised is not None:
                self.maybe(raised, path.why)
                raised = None
                self.heap.undo(path.mark)
                self.apply(path.diff)
                value = path.signal.value
            else:
                self.heap.merge(path.diff, path.mark, path.why)
                value = join(path.signal.value, value, path.why)
            self.heap.release()
        frame.pending = []
        return value, raised

    def apply(self, diff: Diff) -> None:
        self.heap.apply(diff)

    # ------------------------------------------------ forks
    def fork(self, f: Frame, cond: Value, yes: Callable[[], Signal | None], no: Callable[[], Signal | None]) -> Signal | None:
        """Evaluate both sides of an unknown condition; the present state becomes the joined one."""
        why = cond.text if isinstance(cond, Unknown) else show(cond)
        heap = self.heap
        pinned_ahead = bool(f.pin) and f.stmt is not None and (f.stmt.end_lineno or 0) < f.pin
        if self.optimistic:
            return self.follow_one(f, cond, yes, no, pinned_ahead)
        mark = heap.mark()
        root = f.root()
        known = len(root.pending)
        one, raised_one = self.side(f, cond, True, yes)
        first = heap.capture(mark)
        self.rebase(root, known, mark)
        heap.undo(mark)
        two, raised_two = self.side(f, cond, False, no)
        second_pending = len(root.pending)
        if pinned_ahead:
            gone_one = raised_one is not None or one is not None
            gone_two = raised_two is not None or two is not None
            if gone_one and not gone_two:
                del root.pending[known:second_pending]
                self.learn(cond, False)
                heap.release()
                return None
            if gone_two and not gone_one:
                self.rebase(root, known, mark)
                heap.undo(mark)
                heap.apply(first)
                self.learn(cond, True)
                heap.release()
                return None
        if raised_one is not None and raised_two is not None:
            heap.release()
            if raised_one.trail or raised_two.trail or raised_one.name != raised_two.name:
                raised_two.alternatives.append(raised_one)
            raise raised_two
        if raised_one is not None:
            self.maybe(raised_one, why)
            heap.release()
            return two
        if raised_two is not None:
            self.rebase(root, second_pending, mark)
            heap.undo(mark)
            heap.apply(first)
            heap.release()
            self.maybe(raised_two, f"not {why}")
            return one
        if one is None and two is None:
            heap.merge(first, mark, why)
            heap.release()
            return None
        if one is None:  # the second side left: keep it for later and go on with the first
            assert two is not None
            second = heap.capture(mark)
            self.rebase(root, second_pending, mark)
            heap.undo(mark)
            heap.apply(first)
            root.pending.append(Pending(two, second, mark, why))
            return None
        if two is None:
            root.pending.append(Pending(one, first, mark, why))
            return None
        if one.kind == two.kind:
            heap.merge(first, mark, why)
            heap.release()
            return one if one.kind != "return" else Signal("return", join(one.value, two.value, why), one.reads | two.reads)
        root.pending.append(Pending(one, first, mark, why))
        return two

    def follow_one(
        self, f: Frame, cond: Value, yes: Callable[[], Signal | None], no: Callable[[], Signal | None], pinned_ahead: bool
    ) -> Signal | None:
        """Take one side of an unknown condition: the one where it does not hold, unless the evaluation cannot go on there."""
        mark = self.heap.mark()
        signal, raised = self.side(f, cond, False, no)
        if raised is not None or (pinned_ahead and signal is not None):
            self.heap.undo(mark)
            signal, other = self.side(f, cond, True, yes)
            if other is not None:
                self.heap.release()
                raise other
            self.suppose(cond, True)
        else:
            self.suppose(cond, False)
        self.heap.release()
        return signal

    def suppose(self, cond: Value, truth: bool) -> None:
        text = cond.text if isinstance(cond, Unknown) else show(cond)
        if len(self.supposed) < 40:
            self.supposed.setdefault(text if truth else f"not {text}")

    def leave_maybe(self, f: Frame, signal: Signal, why: str) -> None:
        """Some path leaves here with the state as it is; the others go on."""
        f.root().pending.append(Pending(signal, {}, self.heap.mark(), why))

    def side(
        self, f: Frame, cond: Value, truth: bool, run: Callable[[], Signal | None]
    ) -> tuple[Signal | None, TargetRaise | None]:
        if isinstance(cond, Unknown) and cond.named:
            self.assume(cond.key, truth)
        stmt = f.stmt
        try:
            return run(), None
        except TargetRaise as exc:
            exc.at = self.places_below(f) if exc.at is None else exc.at
            return None, exc
        finally:
            f.stmt = stmt

    def places_below(self, f: Frame) -> int:
        return f.root().stmt.lineno if f.root().stmt else 0  # type: ignore[union-attr]

    def rebase(self, f: Frame, first: int, mark: int) -> None:
        """Make the pendings that were added after `first` relative to an earlier mark."""
        for path in f.pending[first:]:
            if path.mark <= mark:
                continue
            diff: Diff = {}
            later = self.heap.old_values(path.mark)
            for container, key, _old in self.heap.journal[mark : path.mark]:
                self.heap.add_slot(diff, container, key, later)
            diff.update(path.diff)
            path.diff = diff
            path.mark = mark

    def assume(self, key: str, truth: bool) -> None:
        if key.startswith("not "):
            key, truth = key[4:], not truth
        self.heap.set(self.assumptions, key, truth)

    def learn(self, cond: Value, truth: bool) -> None:
        """The trail shows that the condition came out this way."""
        if isinstance(cond, Unknown) and cond.named:
            self.assume(cond.key, truth)
            self.observed.setdefault(cond.key, truth)

    def observe(self, f: Frame, cond: Value, narrow: Callable[..., None], truth: bool, evaluated: bool | None) -> None:
        """As `learn`, for a test whose taken side holds the trail's line."""
        if evaluated is None:
            self.learn(cond, truth)
            narrow(self, f, truth)
        else:
            line = f.stmt.lineno if f.stmt else 0
            self.contradictions.append(f"{f.module.file}:{line}: evaluation says {evaluated}, the traceback shows {truth}")

    def fork_value(self, f: Frame, cond: Value, yes: Callable[[], Value], no: Callable[[], Value]) -> Value:
        """A conditional expression with an unknown test."""
        result: list[Value] = [ABSENT, ABSENT]

        def keep(at: int, run: Callable[[], Value]) -> Callable[[], Signal | None]:
            def inner() -> Signal | None:
                result[at] = run()
                return None

            return inner

        self.fork(f, cond, keep(0, yes), keep(1, no))
        if result[0] is ABSENT or result[1] is ABSENT:
            return result[1] if result[0] is ABSENT else result[0]
        return join(result[0], result[1], cond.text if isinstance(cond, Unknown) else show(cond))

    def speculate(self, f: Frame, cond: Value, truth: bool, run: Callable[[], Value]) -> Value:
        """The second operand of an `and`/`or` whose first is unknown."""
        result: list[Value] = [Unknown("?raises", "it raises")]

        def inner() -> Signal | None:
            result[0] = run()
            return None

        def skip() -> Signal | None:
            return None

        self.fork(f, cond, *((inner, skip) if truth else (skip, inner)))
        return result[0]

    def maybe(self, exc: TargetRaise, why: str) -> None:
        """Some path raises this. An enclosing `try` that catches it gets it; else it is a possible failure."""
        if exc.assumed:
            return
        for catches, found in reversed(self.collectors):
            if catches(exc) is not False:
                found.append(exc)
                return
        outer = self.places()
        inner = tuple(Place(*p) for p in reversed(exc.trail))
        if not inner and exc.at is not None and outer:
            outer = (*outer[:-1], Place(outer[-1].file, exc.at, outer[-1].function))
        if len(self.maybes) < 200:
            self.maybes.append((exc, outer + inner, why))

    # ------------------------------------------------ loops
    def loop(self, f: Frame, items: list[Value], bind: Callable[[Value], None], body: Step, orelse: Step) -> Signal | None:
        root = f.root()
        outer = root.pending
        root.pending = []
        kept: list[Pending] = []
        result: Signal | None = None
        ended = False
        items = list(items)
        for at, item in enumerate(items):
            f.more_items = at + 1 < len(items)
            bind(item.value if isinstance(item, Maybe) else item)
            if isinstance(item, Maybe):
                signal = self.fork(f, Unknown(f"?maybe {item.why}", item.why), lambda: body(self, f), lambda: None)
            else:
                signal = body(self, f)
            self.settle_loop(root, "continue")
            if signal is not None and signal.kind != "continue":
                result, ended = (signal if signal.kind == "return" else None), True
                break
        f.more_items = False
        if not ended and result is None:
            result = orelse(self, f)
        self.settle_loop(root, "break")
        kept = root.pending
        root.pending = [*outer, *kept]
        return result

    def settle_loop(self, f: Frame, kind: str) -> None:
        """Join the paths that left by break or continue; returns stay pending until the function ends."""
        for at in range(len(f.pending) - 1, -1, -1):
            path = f.pending[at]
            if path.signal.kind == kind:
                self.heap.merge(path.diff, path.mark, path.why)
                self.heap.release()
                del f.pending[at]

    def loop_while(self, f: Frame, test: Callable[[], Value], body: Step, orelse: Step) -> Signal | None:
        rounds = 0
        root = f.root()
        outer, root.pending = root.pending, []
        result: Signal | None = None
        while True:
            rounds += 1
            self.tick()
            value = test()
            truth = self.truth(value)
            if truth is False:
                result = orelse(self, f)
                break
            if truth is None or rounds > (MAX_ROUNDS if self.heap.depth <= 1 else MAX_ROUNDS_IN_FORK):
                self.fork(
                    f,
                    value if truth is None else Unknown("?while", "a loop of unknown length"),
                    lambda: body(self, f),
                    lambda: None,
                )
                self.settle_loop(root, "continue")
                break
            signal = body(self, f)
            self.settle_loop(root, "continue")
            if signal is not None and signal.kind != "continue":
                result = signal if signal.kind == "return" else None
                break
        self.settle_loop(root, "break")
        root.pending = [*outer, *root.pending]
        return result

    # ------------------------------------------------ exceptions
    def run_try(
        self,
        f: Frame,
        body: Step,
        handlers: list[tuple[Callable[..., Value] | None, str | None, Step]],
        orelse: Step,
        final: Step,
        pinned_handlers: bool,
    ) -> Signal | None:
        wanted: list[Value] = []
        for kind, _name, _step in handlers:
            wanted.append(ABSENT if kind is None else kind(self, f))

        def catches(exc: TargetRaise) -> bool | None:
            answers = [True if w is ABSENT else self.matches_handler(exc, w) for w in wanted]
            return True if True in answers else (None if None in answers else False)

        def handle(exc: TargetRaise) -> Signal | None:
            for kind, (_k, name, step) in zip(wanted, handlers, strict=True):
                if kind is ABSENT or self.matches_handler(exc, kind) is not False:
                    if name:
                        f.assign(self, name, self.exception_value(exc))
                    f.handled.append(exc)
                    try:
                        return step(self, f)
                    finally:
                        f.handled.pop()
            raise exc

        found: list[TargetRaise] = []
        raised: TargetRaise | None = None
        signal: Signal | None = None
        if handlers:
            self.collectors.append((catches, found))
        depth = len(self.stack)
        try:
            signal = body(self, f)
        except TargetRaise as exc:
            raised = exc
            exc.trail.append((f.module.file, f.root().stmt.lineno if f.root().stmt else 0, f.name))  # type: ignore[union-attr]
        finally:
            del self.stack[depth:]
            if handlers:
                self.collectors.pop()
        leaving: TargetRaise | None = None
        try:
            if raised is not None and catches(raised) is not False and not raised.assumed:
                signal = handle(raised)
            elif raised is not None:
                raised.trail.pop()
                leaving = raised
            elif pinned_handlers and handlers:
                signal = handle(found[0] if found else TargetRaise(Exception, ()))
            elif found and not f.pin:
                first = found[0]
                before = signal
                signal = self.fork(
                    f,
                    Unknown(f"?{first.name} in try", f"{first.name} may be raised and handled"),
                    lambda: handle(first),
                    lambda: before if before is not None else orelse(self, f),
                )
            elif signal is None:
                signal = orelse(self, f)
        except TargetRaise as exc:
            leaving = exc
        root = f.root()
        stmt = root.stmt
        ending = final(self, f)
        if ending is not None:
            return ending
        root.stmt = stmt
        if leaving is not None:
            raise leaving
        return signal

    def run_with(self, f: Frame, managers: list[Value], body: Step) -> Signal | None:
        """The body between entering and leaving; a manager may swallow what the body raises."""
        raised: TargetRaise | None = None
        signal: Signal | None = None
        depth, root = len(self.stack), f.root()
        try:
            signal = body(self, f)
        except TargetRaise as exc:
            raised = exc
            del self.stack[depth:]
        stmt = root.stmt
        for manager in reversed(managers):
            swallows = self.truth(self.leave(manager, raised))
            if raised is not None and swallows is not False and not raised.assumed:
                if swallows is None:
                    self.maybe(raised, f"{show(manager)} may handle it")
                raised = None
        root.stmt = stmt
        if raised is not None:
            raise raised
        return signal

    # ------------------------------------------------ the trail
    def match_trail(self, frame: Frame, first: int, last: int) -> None:
        at = self.trail_at + 1
        if at >= len(self.trail):
            return
        place = self.trail[at]
        if place.file != frame.module.file or place.function != frame.name or not first <= place.line <= last:
            return
        if at > 0:
            top = self.stack[-1] if self.stack else None
            if top is None or not top.root().pin or top.stmt is None or not top.root().stmt_holds_pin(top.stmt):
                return
        frame.pin = place.line

    def run_pinned(self, f: Frame, pairs: list[tuple[Step, ast.stmt]]) -> Signal | None:
        """A block one of whose statements the trail says was reached."""
        for step, node in pairs:
            last = node.end_lineno or node.lineno
            if last < f.pin:
                before = len(self.maybes)
                try:
                    signal = step(self, f)
                except TargetRaise as exc:
                    text = f"{f.module.file}:{node.lineno}: evaluation raises {exc.name}, the traceback shows that it went on"
                    self.contradictions.append(text)
                    continue
                del self.maybes[before:]
                if signal is not None:
                    self.contradictions.append(
                        f"{f.module.file}:{node.lineno}: evaluation leaves, the traceback shows that it went on"
                    )
                continue
            if node.lineno > f.pin:
                break
            signal = step(self, f)
            if f.more_items and signal is None:
                return None
            exc = TargetRaise(Unknown("?raised", "the log shows an exception here"), ())
            exc.assumed = True
            f.stmt = node if not _has_inner(node, f.pin) else f.stmt
            raise exc
        return None


def _has_inner(node: ast.stmt, line: int) -> bool:
    """Whether a statement nested in `node` holds the line."""
    return any(
        isinstance(n, ast.stmt) and n is not node and n.lineno <= line <= (n.end_lineno or n.lineno) for n in ast.walk(node)
    )


__all__ = ["BREAK", "CONTINUE", "Class", "External", "Frame", "Place", "World"]
