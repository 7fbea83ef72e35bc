"""Both sides of an unknown test: evaluated one after the other, their states joined; or one side, where facts are few."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from triage.analysis.evaluate.frames import Frame, Pending, Place
from triage.analysis.evaluate.heap import Diff
from triage.analysis.evaluate.proofs import Proofs
from triage.analysis.evaluate.signals import Signal
from triage.analysis.evaluate.values import ABSENT, TargetRaise, Unknown, Value, join, show


class Forks(Proofs):
    """Forks and what they leave behind: pending paths, possible failures, assumptions."""

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
        ahead = self.proof_ahead(f)
        before = self.printed
        self.printed = dict(before)
        maybes = len(self.maybes)
        one, raised_one = self.side(f, cond, True, yes)
        first = heap.capture(mark)
        self.rebase(root, known, mark)
        heap.undo(mark)
        middle, maybes_middle = len(root.pending), len(self.maybes)
        ones, self.printed = self.printed, dict(before)
        two, raised_two = self.side(f, cond, False, no)
        second_pending = len(root.pending)
        if self.proofs:
            prints = (self.newly(before, ones), self.newly(before, self.printed))
            gone = (self.is_gone(one, raised_one), self.is_gone(two, raised_two))
            took = self.choose_side(f, cond, prints, gone, ahead)
            twos = self.printed
            self.printed = (
                ones if took else twos if took is False else {p: max(ones.get(p, 0), twos.get(p, 0)) for p in {*ones, *twos}}
            )
            if took is True:
                del root.pending[middle:second_pending], self.maybes[maybes_middle:]
                heap.undo(mark)
                heap.apply(first)
            elif took is False:
                del root.pending[known:middle], self.maybes[maybes:maybes_middle]
            if took is not None:
                heap.release()
                raised = raised_one if took else raised_two
                if raised is not None:
                    raise raised
                return one if took else two
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
            if (raised_one.name, raised_one.at, raised_one.trail) != (raised_two.name, raised_two.at, raised_two.trail):
                self.maybe(raised_one, why)
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
        """Take one side of an unknown condition: the one where it does not hold, unless that very test decides an exception."""
        if self.may_try(f) and not pinned_ahead:
            decided = self.try_sides(f, cond, yes, no)
            if decided is not None:
                signal, raised = self.side(f, cond, decided, yes if decided else no)
                if raised is not None:
                    raise raised
                return signal
        mark = self.heap.mark()
        signal, raised = self.side(f, cond, False, no)
        own = raised is not None and not raised.trail and raised.nesting <= self.nesting
        if raised is not None and not own and not pinned_ahead:
            self.suppose(cond, False)
            self.heap.release()
            raise raised
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

    def try_sides(self, f: Frame, cond: Value, yes: Callable[[], Signal | None], no: Callable[[], Signal | None]) -> bool | None:
        """The side that the log proves, where one side prints what stands in the log, or alone goes on to where it is printed."""
        gone = [False, False]

        def follow(truth: bool, run: Callable[[], Signal | None]) -> Callable[[], None]:
            def inner() -> None:
                gone[0 if truth else 1] = self.is_gone(*self.side(f, cond, truth, run))

            return inner

        ahead = self.proof_ahead(f)
        ones = self.prints_on(f, follow(True, yes))
        if not ones and ahead is None:
            return None
        twos = self.prints_on(f, follow(False, no))
        return self.choose_side(f, cond, (ones, twos), (gone[0], gone[1]), ahead)

    def decide_by_log(
        self, f: Frame, cond: Value, narrow: Callable[..., None], truth: bool | None, spans: Sequence[tuple[int, int]]
    ) -> bool | None:
        """How a test came out by the trail's line or a proven statement on one of its sides; else as evaluated."""
        for side, (first, last) in zip((True, False), spans, strict=True):
            if f.pin and first <= f.pin <= last and truth is not side:
                self.observe(f, cond, narrow, side, truth)
                return side
        if truth is None and f.proven:
            truth = self.decide_by_proof(f, cond, spans)
            if truth is not None:
                narrow(self, f, truth)
        return truth

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
        """The trail shows that the condition came out this way, and so what it is made of."""
        if not isinstance(cond, Unknown):
            return
        if cond.named:
            self.assume(cond.key, truth)
            self.observed.setdefault(cond.key, truth)
        for when, part, came_out in cond.implied:
            if when is truth:
                self.learn(part, came_out)

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

        if self.optimistic and truth:  # taken not to hold, the first decides; the second is still read, and may be known
            mark = self.heap.mark()
            self.side(f, cond, truth, inner)
            self.heap.undo(mark)
            self.heap.release()
            return result[0]
        self.fork(f, cond, *((inner, skip) if truth else (skip, inner)))
        return result[0]

    def maybe(self, exc: TargetRaise, why: str) -> None:
        """Some path raises this. An enclosing `try` that catches it gets it; else it is a possible failure."""
        if exc.assumed:
            return
        if not exc.places:  # one that a handler raises again keeps its first place
            outer = self.places()
            if exc.at is not None and outer:
                outer = (*outer[:-1], Place(outer[-1].file, exc.at, outer[-1].function))
            exc.places = outer + tuple(Place(*p) for p in reversed(exc.trail))
            exc.depends = why
        for catches, found in reversed(self.collectors):
            if catches(exc) is not False:
                found.append(exc)
                return
        if len(self.maybes) < 200:
            self.maybes.append((exc, exc.places, exc.depends))

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
