"""Statements that the log proves to have run, and the unknown tests that they decide.

A message in the log was printed by some activation of its statement. A test is decided by it where one side prints it and
the other cannot. Should the evaluation print it more often than the log holds it, the decision rested on the wrong
activation: `doubtful` says so, and the launch is evaluated again without that proof.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from triage.analysis.evaluate.expressions import compile_expression
from triage.analysis.evaluate.frames import Core, Frame
from triage.analysis.evaluate.signals import Signal
from triage.analysis.evaluate.values import OutOfBudget, TargetRaise, Unknown, Value, show
from triage.model import MASK

MAX_TRIALS, TRIAL_STEPS, ALL_TRIAL_STEPS, MAX_NESTED = 400, 20_000, 150_000, 2


@dataclass(frozen=True)
class Told:
    """A value in the message: the source of its expression, its text, and whether that is its `repr`."""

    expression: str
    text: str
    literal: bool


@dataclass(frozen=True)
class Proof:
    """A statement whose message stands in the log, `count` times, and the values in it where they are always the same."""

    file: str
    first: int
    last: int
    count: int = 1
    values: tuple[Told, ...] = ()


@dataclass(frozen=True)
class Decided:
    """An unknown test that a proof decided: where it stands, what it asked, how it came out."""

    file: str
    line: int
    test: str
    truth: bool
    proof: Proof
    apart: bool = False  # the statement stands in another function, called on that side


class Proofs(Core):
    """What the log proves, and how far the evaluation has come with it."""

    writes: list[Any]
    field_deps: dict[str, frozenset[str]]
    messages: list[Any]
    flipped: Decided | None = None  # a decision that is taken the other way, to see whether its message is printed all the same

    def __init__(self, budget: int) -> None:
        super().__init__(budget)
        self.take_proofs(())

    def take_proofs(self, proofs: Iterable[Proof]) -> None:
        """Begin an evaluation with these proofs."""
        self.proofs: dict[str, tuple[Proof, ...]] = {}
        for proof in proofs:
            self.proofs[proof.file] = (*self.proofs.get(proof.file, ()), proof)
        self.printed: dict[Proof, int] = {}
        self.decided: list[Decided] = []
        self.taken: dict[str, Value] = {}
        self.doubts: set[Proof] = set()
        self.trials = self.trial_steps = self.trying = 0

    def doubtful(self) -> frozenset[Proof]:
        """Proofs that decided a test, whose message the evaluation then printed more often than the log holds it."""
        return frozenset(p for p in self.used() if p in self.doubts or self.printed.get(p, 0) > p.count)

    def used(self) -> frozenset[Proof]:
        return frozenset(d.proof for d in self.decided)

    def find_proven(self, frame: Frame, node: Any) -> None:
        """Give a new frame the proven statements of its own code."""
        first, last = node.lineno, node.end_lineno or node.lineno
        near = [p for p in self.proofs.get(frame.module.file, ()) if first <= p.first and p.last <= last]
        if near:
            inner = [(n.lineno, n.end_lineno or n.lineno) for n in ast.walk(node) if isinstance(n, _SCOPES) and n is not node]
            frame.proven = tuple(p for p in near if not any(a <= p.first <= b for a, b in inner))

    def mark_printed(self, f: Frame, node: ast.stmt) -> None:
        for proof in f.proven:
            if proof.first <= node.lineno <= proof.last:
                self.printed[proof] = self.printed.get(proof, 0) + 1
                if proof.values and self.is_alone(proof):
                    self.take_values(f, proof)

    def is_alone(self, proof: Proof) -> bool:
        """Whether this is the only time that the message was printed, by the log and by the evaluation."""
        return proof.count == 1 and self.printed.get(proof, 0) == 1

    def take_values(self, f: Frame, proof: Proof) -> None:
        """Names and attributes that are unknown get the value that the log shows; what names it is kept in `taken`."""
        for told in proof.values:
            try:
                node = ast.parse(told.expression, mode="eval").body
            except (SyntaxError, ValueError):
                continue
            if not _is_path(node):
                continue
            try:
                held = compile_expression(node)(self, f)
            except TargetRaise:
                continue
            if type(held) is not Unknown:
                continue
            value = read_told(told, held.options)
            if type(value) is Unknown:
                continue
            if isinstance(node, ast.Name) and node.id in f.locals:
                self.heap.set(f.locals, node.id, value)
            if held.named and "@" not in held.key and not self.trying:
                self.taken[held.key] = value

    def is_open(self, proof: Proof) -> bool:
        """Whether the log holds the message more often than the evaluation has printed it."""
        return self.printed.get(proof, 0) < proof.count

    def decide_by_proof(self, f: Frame, cond: Value, spans: Sequence[tuple[int, int]]) -> bool | None:
        """The side (first: true) of an unknown test in which a proven statement stands."""
        inside = [next((p for p in f.proven if a <= p.first <= b and self.is_open(p)), None) for a, b in spans]
        yes, no = inside
        for (a, b), proof in zip(spans, inside, strict=True):
            if proof is None and not self.trying:  # a test that might have printed it as well
                self.doubts |= {p for p in f.proven if a <= p.first <= b and p in self.used()}
        if (yes is None) == (no is None):
            return None
        proof = yes if yes is not None else no
        assert proof is not None
        self.conclude(f, cond, yes is not None, proof)
        return yes is not None

    def conclude(self, f: Frame, cond: Value, truth: bool, proof: Proof, apart: bool = False) -> None:
        text = cond.text if isinstance(cond, Unknown) else show(cond)
        self.learn(cond, truth)
        if len(self.decided) < 200:
            self.decided.append(Decided(f.module.file, f.stmt.lineno if f.stmt else 0, text, truth, proof, apart))

    def learn(self, cond: Value, truth: bool) -> None:
        raise NotImplementedError

    def proof_ahead(self, f: Frame) -> Proof | None:
        """A proven statement that this activation still comes to, unless it leaves before."""
        if not f.proven or f.stmt is None or f.func is None:
            return None
        end = f.stmt.end_lineno or f.stmt.lineno
        proven: tuple[Proof, ...] = f.proven
        for proof in proven:
            if proof.first > end and self.is_open(proof) and _follows(f.func.code, f.stmt.lineno, proof.first):
                return proof
        return None

    def is_gone(self, signal: Signal | None, raised: TargetRaise | None) -> bool:
        """Whether a side has left its function for good."""
        if raised is not None:
            return not any(catches(raised) is not False for catches, _found in self.collectors)
        return signal is not None and signal.kind == "return"

    # ------------------------------------------------ sides that print
    def newly(self, before: dict[Proof, int], after: dict[Proof, int]) -> frozenset[Proof]:
        """What was printed in between, of what the log holds more often than it was printed before."""
        return frozenset(p for p, n in after.items() if before.get(p, 0) < min(n, p.count))

    def choose_side(
        self,
        f: Frame,
        cond: Value,
        prints: tuple[frozenset[Proof], frozenset[Proof]],
        gone: tuple[bool, bool],
        ahead: Proof | None,
    ) -> bool | None:
        """The side (first: true) that alone prints what the log holds, or alone goes on to where it is printed."""
        yes, no = prints[0] - prints[1], prints[1] - prints[0]
        if yes and not no:
            truth, proof = True, min(yes, key=lambda p: (p.file, p.first))
        elif no and not yes:
            truth, proof = False, min(no, key=lambda p: (p.file, p.first))
        elif ahead is not None and gone[0] != gone[1] and not yes and not no:
            truth, proof = gone[1], ahead
        else:
            return None
        flip = self.flipped
        if flip is not None and f.stmt is not None and (flip.file, flip.line) == (f.module.file, f.stmt.lineno):
            self.learn(cond, not truth)
            return not truth
        self.conclude(f, cond, truth, proof, proof not in f.proven)
        return truth

    def may_try(self, f: Frame) -> bool:
        return (
            bool(self.proofs)
            and f.root().is_function
            and self.trying < MAX_NESTED
            and self.trials < MAX_TRIALS
            and self.trial_steps < ALL_TRIAL_STEPS
            and (any(self.is_open(p) for group in self.proofs.values() for p in group) or any(d.apart for d in self.decided))
        )

    def prints_on(self, f: Frame, run: Callable[[], object]) -> frozenset[Proof]:
        """The open proofs that a side prints; its effects are undone."""
        before = self.printed
        self.printed = dict(before)
        books = (set(self.reads), list(self.writes), dict(self.field_deps), list(self.messages), list(self.maybes))
        more = (dict(self.observed), list(self.contradictions), dict(self.supposed), list(self.notes), list(self.decided))
        place = (self.trail_at, len(self.stack), self.budget, self.steps)
        root = f.root()
        pending, control = list(root.pending), f.exit_control
        found = [list(held) for _catches, held in self.collectors]
        mark = self.heap.mark()
        self.trying += 1
        self.trials += 1
        self.budget = min(self.budget, self.steps + TRIAL_STEPS)
        try:
            run()
            again = {
                d.proof
                for d in more[4]
                if d.apart and self.printed.get(d.proof, 0) > max(before.get(d.proof, 0), d.proof.count - 1)
            }
            self.doubts |= {p for p in again if not self.newly(before, self.printed) & {p}}
            return self.newly(before, self.printed)
        except OutOfBudget:
            return frozenset()
        finally:
            self.trying -= 1
            self.heap.undo(mark)
            self.heap.release()
            self.printed = before
            self.reads, self.writes, self.field_deps, self.messages, self.maybes = books
            self.observed, self.contradictions, self.supposed, self.notes, self.decided = more
            self.trial_steps += self.steps - place[3]
            self.trail_at, self.budget, self.steps = place[0], place[2], place[3]
            del self.stack[place[1] :]
            root.pending, f.exit_control = pending, control
            for (_catches, held), old in zip(self.collectors, found, strict=True):
                held[:] = old


def _is_path(node: ast.expr) -> bool:
    """A name, or attributes and plain items of one: reading it again has no effect."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant):
            return False
        node = node.value
    return isinstance(node, ast.Name)


def read_told(told: Told, options: tuple[Value, ...] | None) -> Value:
    """The value that a printed text stands for; Unknown where it may be several."""
    unclear = Unknown("?printed", "its text may stand for several values")
    if MASK in told.text or len(told.text) > MAX_TOLD:
        return unclear
    if options is not None:
        fitting = [o for o in options if type(o) in _PLAIN and (repr(o) if told.literal else str(o)) == told.text]
        return fitting[0] if len(fitting) == 1 else unclear
    try:
        read = ast.literal_eval(told.text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return unclear if told.literal or not told.text.isidentifier() else told.text
    return read if type(read) in _PLAIN or told.literal else unclear


MAX_TOLD = 200  # characters of a value that is taken
_PLAIN = (str, int, float, bool, type(None))
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def _follows(node: Any, line: int, later: int) -> bool:
    """Whether control that goes on behind the statement at `line` may come to the one at `later`: not the other branch."""
    blocks: list[list[ast.stmt]] = [node.body] if isinstance(node.body, list) else []
    while True:
        block = next((b for b in blocks if _holder(b, line) is not None), None)
        if block is None:
            return False
        here, there = _holder(block, line), _holder(block, later)
        if there is None or here is None:
            return False
        if here is not there:
            return here.lineno < there.lineno
        blocks = [b for b in _blocks(here) if b]


def _holder(block: list[ast.stmt], line: int) -> ast.stmt | None:
    return next((s for s in block if s.lineno <= line <= (s.end_lineno or s.lineno)), None)


def _blocks(node: ast.stmt) -> list[list[ast.stmt]]:
    own: list[list[ast.stmt]] = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
    inner = [*getattr(node, "handlers", []), *getattr(node, "cases", [])]
    return own + [part.body for part in inner]
