"""Loops, exception handlers, `with`, and the trail of a real traceback."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial

from triage.analysis.evaluate.forks import Forks
from triage.analysis.evaluate.frames import Frame, Pending
from triage.analysis.evaluate.signals import BREAK, Signal, Step
from triage.analysis.evaluate.values import ABSENT, Class, External, Maybe, OutOfBudget, TargetRaise, Unknown, Value, show

MAX_CAUGHT = 12  # possible exceptions of one `try` whose handling is followed
MAX_ROUNDS, MAX_ROUNDS_IN_FORK = 2000, 50  # of a while loop


BROKEN = Signal("broken")  # out of a loop whose else is running


class Control(Forks):
    """Control flow beyond a plain test."""

    def loop(self, f: Frame, items: list[Value], bind: Callable[[Value], None], body: Step, orelse: Step) -> Signal | None:
        root = f.root()
        outer, root.pending = root.pending, []
        result: Signal | None = None
        ended = False
        items = list(items)
        for at, item in enumerate(items):
            f.more_items = at + 1 < len(items)
            bind(item.value if isinstance(item, Maybe) else item)
            if isinstance(item, Maybe):
                cond = Unknown(f"?maybe {item.why}", item.why)
                signal = self.run_round(root, outer, partial(self.fork, f, cond, partial(body, self, f), lambda: None))
            else:
                signal = self.run_round(root, outer, partial(body, self, f))
            if signal is not None:
                result, ended = (signal if signal.kind == "return" else None), True
                break
        f.more_items = False
        if ended:
            self.settle_loop(root, "break")
        else:
            result = self.run_else(root, outer, partial(orelse, self, f))
        root.pending = [*outer, *root.pending]
        return result

    def run_else(self, root: Frame, outer: list[Pending], run: Callable[[], Signal | None]) -> Signal | None:
        """The else of a loop, which the paths that broke out of it do not run. A break in it is one of the loop around."""
        for path in root.pending:
            if path.signal.kind == "break":
                path.signal = BROKEN
        signal: Signal | None = None
        try:
            signal = run()
        except TargetRaise as exc:
            if not self.revive(root, "broken", exc):
                root.pending = [*outer, *root.pending]
                raise
        if signal is not None and self.revive(root, "broken", signal):
            signal = None
        self.settle_loop(root, "broken")
        return signal

    def run_round(self, root: Frame, outer: list[Pending], run: Callable[[], Signal | None]) -> Signal | None:
        """One round of a loop; None where control goes on to the next. Where the path that came to the end of the round leaves
        the loop, a path that is to go on, else one that broke out of it, takes its place."""
        signal: Signal | None = None
        try:
            signal = run()
        except TargetRaise as exc:
            if self.revive(root, "continue", exc):
                signal = None
            elif self.revive(root, "break", exc):
                signal = BREAK
            else:
                root.pending = [*outer, *root.pending]
                raise
        if signal is not None and signal.kind != "continue" and self.revive(root, "continue", signal):
            signal = None
        if signal is not None and signal.kind == "return" and self.revive(root, "break", signal):
            signal = BREAK
        self.settle_loop(root, "continue")
        return None if signal is not None and signal.kind == "continue" else signal

    def revive(self, root: Frame, kind: str, leaving: Signal | TargetRaise) -> bool:
        """Go on with the last path that left the round in this way, and keep the present one for later; False: there is none."""
        at = next((i for i in range(len(root.pending) - 1, -1, -1) if root.pending[i].signal.kind == kind), None)
        if at is None:
            return False
        path = root.pending[at]
        diff = self.heap.capture(path.mark)
        self.rebase(root, at + 1, path.mark)
        self.heap.undo(path.mark)
        self.heap.apply(path.diff)
        if isinstance(leaving, TargetRaise):
            self.maybe(leaving, path.why)
            self.heap.release()
            del root.pending[at]
        else:
            root.pending[at] = Pending(leaving, diff, path.mark, path.why)
        return True

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
                result = self.run_else(root, outer, partial(orelse, self, f))
                root.pending = [*outer, *root.pending]
                return result
            if truth is None or rounds > (MAX_ROUNDS if self.heap.depth <= 1 else MAX_ROUNDS_IN_FORK):
                if truth is not None and self.heap.depth <= 1 and not root.pending:
                    self.note(f"a loop of more than {MAX_ROUNDS} rounds is not followed to its end")
                    raise OutOfBudget  # it may never end: what stands behind it is not known to be reached
                start = len(self.heap.journal)
                cond = value if truth is None else Unknown("?while", "a loop of unknown length")
                signal = self.run_round(root, outer, partial(self.fork, f, cond, partial(body, self, f), lambda: None))
                result = signal if signal is not None and signal.kind == "return" else None
                self.heap.blur(start, "a loop of unknown length")
                break
            signal = self.run_round(root, outer, partial(body, self, f))
            if signal is not None:
                result = signal if signal.kind == "return" else None
                break
        self.settle_loop(root, "break")
        root.pending = [*outer, *root.pending]
        return result

    def run_try(
        self,
        f: Frame,
        body: Step,
        handlers: list[tuple[Callable[..., Value] | None, str | None, Step]],
        orelse: Step,
        final: Step,
        pinned: int | None,
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

        def caught(exc: TargetRaise) -> Signal | None:
            """The handler of what may be raised: how far the body came by then is not known."""
            self.heap.merge({}, start, f"{exc.name} in try")
            return handle(exc)

        found: list[TargetRaise] = []
        raised: TargetRaise | None = None
        start = len(self.heap.journal)
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
            elif pinned is not None:
                again = _exception_for(wanted, pinned, found, self.matches_handler)
                below = self.trail[self.trail_at + 1 : self.trail_at + 2]
                if not again.trail and below and (below[0].file, below[0].function) == (f.module.file, f.root().name):
                    again.trail.append((below[0].file, below[0].line, below[0].function))  # the handler raises it again
                signal = handle(again)
            elif found and not f.pin:
                signal = signal if signal is not None else orelse(self, f)
                for one in found[:MAX_CAUGHT]:
                    why = one.depends or f"{one.name} may be raised and handled"
                    signal = self.fork(
                        f, Unknown(f"?{one.name} in try", why), partial(caught, one), partial(_same_signal, signal)
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
                except TargetRaise as early:
                    text = f"{f.module.file}:{node.lineno}: evaluation raises {early.name}, the traceback shows that it went on"
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


def _exception_for(
    wanted: list[Value], pinned: int, found: list[TargetRaise], matches: Callable[[TargetRaise, Value], bool | None]
) -> TargetRaise:
    """What the trail's handler got: a possible exception that it takes, else an assumed one of the kind that it names."""
    kind = wanted[pinned]
    for one in found:
        earlier = any(w is ABSENT or matches(one, w) for w in wanted[:pinned])
        if not earlier and (kind is ABSENT or matches(one, kind) is not False):
            return one
    if isinstance(kind, tuple) and kind:
        kind = kind[0]
    made = TargetRaise(kind if isinstance(kind, (type, Class, External)) else Exception, ())
    made.assumed = True  # what a handler makes of it is its own; raised again, it is still only what the log shows
    return made


def _same_signal(signal: Signal | None) -> Signal | None:
    return signal


def _has_inner(node: ast.stmt, line: int) -> bool:
    """Whether a statement nested in `node` holds the line."""
    return any(
        isinstance(n, ast.stmt) and n is not node and n.lineno <= line <= (n.end_lineno or n.lineno) for n in ast.walk(node)
    )
