"""Evaluates the target's argument validation in three-valued logic, without running it.

An `Evaluator` holds what many launches share (parsed files, executed modules); `evaluate(args)` says what one launch
does: where it surely fails, where it may fail and on what that depends, and the resolved settings.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from triage.analysis.collection import hold_collection
from triage.analysis.evaluate.attributes import Write
from triage.analysis.evaluate.frames import Place
from triage.analysis.evaluate.imports import Program
from triage.analysis.evaluate.machine import Machine, Message, run_module_function
from triage.analysis.evaluate.missing import explain_class
from triage.analysis.evaluate.proofs import Decided, Proof, Told
from triage.analysis.evaluate.values import (
    ABSENT,
    Class,
    Instance,
    Maybe,
    Module,
    OutOfBudget,
    TargetRaise,
    Unknown,
    Value,
    show,
    snapshot,
)
from triage.model import Facts, ModelConfig
from triage.protocols import EngineProfile

DEFAULT_BUDGET = 500_000
MAX_FLIPS = 3  # decisions of one launch that are looked at from the other side


@dataclass(frozen=True)
class Raised:
    """An exception that validation raises, surely or on some path."""

    exception: str
    message: str | None  # None when it depends on unknown values
    places: tuple[Place, ...]  # outermost first
    reads: frozenset[str]
    mentions: frozenset[str]
    guards: tuple[frozenset[str], ...]
    stage: str
    depends: str = ""  # what decides whether it is raised; "" when sure
    usage: bool = False  # the parser refused the command line
    assumed: bool = False  # raised only because the log says so

    @property
    def site(self) -> Place | None:
        return self.places[-1] if self.places else None

    @property
    def site_text(self) -> str:
        site = self.site
        return f"{site.file}:{site.line}" if site is not None else "an unknown place"


@dataclass(frozen=True)
class Evaluation:
    """What one launch does. "passes" and "fails" are sure; "unknown" says in `possible` and `why` what it hangs on."""

    verdict: Literal["passes", "fails", "unknown"]
    raised: Raised | None
    possible: tuple[Raised, ...] = ()
    why: str = ""
    given: Mapping[str, Value] = field(default_factory=dict)  # settings after parsing, before validation
    settings: Mapping[str, Value] = field(default_factory=dict)  # as far as validation got
    writes: tuple[Write, ...] = ()
    deps: Mapping[str, frozenset[str]] = field(default_factory=dict)
    messages: tuple[Message, ...] = ()
    observed: Mapping[str, bool] = field(default_factory=dict)
    contradictions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    supposed: tuple[str, ...] = ()  # how unknown tests were taken to come out, in an optimistic evaluation
    steps: int = 0
    decided: tuple[Decided, ...] = ()  # unknown tests that messages of the log decided
    told: Mapping[str, Value] = field(default_factory=dict)  # unknown values that messages of the log tell, by key
    unprinted: tuple[Proof, ...] = ()  # statements that the log proves to have run, which this evaluation never came to


@dataclass(frozen=True)
class _Last:
    """The launch whose state the machine still holds."""

    args: tuple[str, ...]
    trail: tuple[Place, ...]
    evaluation: Evaluation
    mark: int
    failed: TargetRaise | None


class Evaluator:
    """One tree, one set of facts and environment; evaluates any number of argument lists."""

    def __init__(
        self,
        program: Program,
        profile: EngineProfile,
        facts: Facts,
        env: Mapping[str, str],
        models: Sequence[ModelConfig] = (),
        budget: int = DEFAULT_BUDGET,
        optimistic: bool = False,
    ) -> None:
        self.profile = profile
        self.machine = Machine(program, facts, env, models, profile.environment_prefixes, frozenset(profile.declares), budget)
        self.machine.optimistic = optimistic
        self.assumptions: dict[str, bool] = {}
        self.learned: dict[str, Value] = {}
        self.last: _Last | None = None
        self.witnessed: tuple[tuple[str, ...], tuple[Proof, ...]] = ((), ())

    def assume(self, observed: Mapping[str, bool]) -> None:
        """Take what a trail showed about host facts as given for all launches from now on."""
        if self.last is not None and observed != self.last.evaluation.observed:
            self.forget()
        self.assumptions.update({k: v for k, v in observed.items() if "?" not in k and "@" not in k})

    def witness(self, args: Sequence[str], proofs: Sequence[Proof]) -> None:
        """Take what the log of a launch with these arguments proves to have run, whenever these are evaluated."""
        self.forget()
        self.witnessed = (tuple(args), tuple(proofs))

    def printed_anyway(self, result: Evaluation, trail: Sequence[Place]) -> frozenset[Proof]:
        """Proofs that decided a test from another function, whose message is printed on the other side as well, later on."""
        apart = [d for d in result.decided if d.apart]
        if not apart:
            return frozenset()
        m, args = self.machine, self.witnessed[0]
        found = {d.proof for d in apart[MAX_FLIPS:]}
        for decided in apart[:MAX_FLIPS]:
            self.forget()
            m.flipped = decided
            self._evaluate(m, args, tuple(trail))
            m.flipped = None
            if m.printed.get(decided.proof):
                found.add(decided.proof)
        if not found:
            self.forget()
            self._evaluate(m, args, tuple(trail))
        return frozenset(found)

    def learn(self, told: Mapping[str, Value]) -> None:
        """Take values that the log tells of what is unknown, for all launches from now on."""
        self.forget()
        self.learned.update(told)

    def trial(self) -> LocalTrial | None:
        """To try settings on the function in which the last launch failed; usable until the next `evaluate`."""
        failed = self.last.failed if self.last is not None else None
        return LocalTrial(self.machine, failed) if failed is not None and failed.calls else None

    def forget(self) -> None:
        """Put the state back to where it stood before the last launch."""
        if self.last is not None:
            m = self.machine
            m.heap.undo(self.last.mark)
            m.heap.depth = 0
            m.heap.journal.clear()
            self.last = None

    def load_args_class(self) -> Class | None:
        """The args dataclass, executed; None when the tree does not define it."""
        m = self.machine
        module_name, _, name = self.profile.args_class.rpartition(".")
        module = m.import_module(module_name)
        if not isinstance(module, Module):
            return None
        cls = m.module_attribute(module, name)
        if not isinstance(cls, Class):
            return None
        m.args_class = cls
        m.fields = frozenset(f.attrs["name"] for f in m.fields_of(cls))
        return cls

    def evaluate(self, args: Sequence[str], trail: Sequence[Place] = ()) -> Evaluation:
        """Evaluate one argument list. With a trail (frames of a real traceback from the first stage's function on,
        outermost first) the sides of unknown tests that lead there are taken. Never raises for what the target does."""
        m = self.machine
        if self.last is not None and (self.last.args, self.last.trail) == (tuple(args), tuple(trail)):
            return self.last.evaluation
        self.forget()
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, 30_000))
        try:
            with hold_collection():
                result = self._evaluate(m, tuple(args), tuple(trail))
                while doubtful := m.doubtful() or self.printed_anyway(result, trail):
                    self.witness(args, [p for p in self.witnessed[1] if p not in doubtful])
                    result = self._evaluate(m, tuple(args), tuple(trail))
                return self.last.evaluation if self.last is not None else result
        finally:
            sys.setrecursionlimit(limit)

    def _evaluate(self, m: Machine, args: tuple[str, ...], trail: tuple[Place, ...]) -> Evaluation:
        name = self.profile.args_class
        try:
            if self.load_args_class() is None:
                return Evaluation("unknown", None, why=explain_class(m.program, name))
        except (RecursionError, OutOfBudget):
            return Evaluation("unknown", None, why=f"the module of {name} is nested too deeply, or runs without end")
        self.reset(m, args, trail)
        m.take_proofs(self.witnessed[1] if args == self.witnessed[0] else ())
        mark = m.heap.mark()
        stage = ""
        raised: Raised | None = None
        why = ""
        given: dict[str, Value] = {}
        record: Value = None
        failed: TargetRaise | None = None
        writes: tuple[Write, ...] = ()
        try:
            for number, step in enumerate(self.profile.stages):
                stage = step.call
                m.stage = stage
                if number == 0:
                    record = run_module_function(m, step.call, [list(args)])
                    if record is ABSENT:
                        why = f"{step.call} is not in the source"
                        break
                elif not isinstance(record, Instance):
                    why = "the settings object is not known: " + (record.why if isinstance(record, Unknown) else show(record))
                    break
                else:
                    if step.unless_field:
                        skip = m.find_attribute(record, step.unless_field)
                        if skip is not ABSENT and m.truth(skip) is True:
                            continue
                    method = m.find_attribute(record, step.call.lstrip("."))
                    if method is not ABSENT:
                        m.call(method, [])
        except TargetRaise as exc:
            failed = exc
            if not (isinstance(exc.cls, type) and issubclass(exc.cls, SystemExit) and exc.values in ((), (0,), (None,))):
                raised = self.describe(m, exc, stage, "")
            else:
                why = "the launch asks for help or its version and ends"
        except OutOfBudget:
            why = f"the evaluation stopped after {m.budget} steps"
        except RecursionError:
            why = "the source is nested too deeply to evaluate"
        unprinted = tuple(p for group in m.proofs.values() for p in group if p not in m.printed)
        m.proofs = {}
        given, deps = snapshot(m.given), dict(m.field_deps)
        settings = snapshot(self.settings_of(m)) if m.record is not None else {}
        writes, messages, steps = tuple(m.writes), tuple(m.messages), m.steps
        observed, contradictions = dict(m.observed), tuple(m.contradictions)
        possible = tuple(self.describe(m, exc, exc.attrs.get("stage", stage), why_, places) for exc, places, why_ in m.maybes)
        verdict: Literal["passes", "fails", "unknown"] = "passes"
        if why or (raised is None and (possible or m.supposed)):
            verdict = "unknown"
        elif raised is not None:
            verdict = "unknown" if possible or raised.assumed else "fails"
        result = Evaluation(
            verdict, raised, possible, why, given, settings, writes, deps, messages,
            observed, contradictions, tuple(m.notes), tuple(m.supposed), steps, tuple(m.decided), dict(m.taken), unprinted,
        )  # fmt: skip
        m.stack.clear()
        self.last = _Last(args, trail, result, mark, failed)
        return result

    def reset(self, m: Machine, args: tuple[str, ...], trail: tuple[Place, ...]) -> None:
        m.argv = (self.profile.package, *args)
        m.record, m.given = None, {}
        m.writes, m.field_deps, m.memo = [], {}, {}
        m.supposed = {}
        m.messages, m.maybes, m.observed, m.contradictions = [], [], {}, []
        m.nesting = 0
        m.collectors, m.reads, m.control, m.guards = [], set(), frozenset(), ()
        m.assumptions, m.learned = dict(self.assumptions), dict(self.learned)
        m.steps, m.trail, m.trail_at = 0, trail, -1
        m.stack, m.parsers, m.declaring = [], [], False

    def describe(self, m: Machine, exc: TargetRaise, stage: str, depends: str, places: tuple[Place, ...] = ()) -> Raised:
        message = exc.message
        if not isinstance(message, (str, Unknown)):
            message = m.to_text(message, False)
        usage = "usage" in exc.attrs
        where = places or tuple(Place(*p) for p in reversed(exc.trail))
        guards = exc.guards
        text = exc.attrs["usage"] if usage else (message if isinstance(message, str) else None)
        return Raised(exc.name, text, where, exc.reads, exc.mentions, guards, stage, depends, usage, exc.assumed)

    def settings_of(self, m: Machine) -> dict[str, Value]:
        """The resolved settings: through the profile's view where the release has one."""
        assert m.record is not None
        source: Value = m.record
        m.trail = ()
        m.budget, budget = m.budget + 500_000, m.budget
        try:
            if self.profile.view:
                made = run_module_function(m, self.profile.view, [m.record])
                if isinstance(made, Instance):
                    source = made
            out: dict[str, Value] = {
                k: v.value if isinstance(v, Maybe) else v for k, v in m.record.attrs.items() if k in m.fields
            }
            for name in sorted({w.field for w in m.writes} | (set() if self.profile.view else set(m.fields) - set(out))):
                value = m.find_attribute(source, name)
                if value is not ABSENT:
                    out[name] = value.value if isinstance(value, Maybe) else value
            return out
        except (TargetRaise, OutOfBudget):
            return {k: v for k, v in m.record.attrs.items() if k in m.fields}
        finally:
            m.budget = budget

    # ------------------------------------------------ the parser
    def actions(self) -> tuple[argparse.Action, ...]:
        """The options of the parser that the last evaluation built."""
        parsers = self.machine.parsers
        return tuple(parsers[0]._actions) if parsers else ()


Trial = Literal["passes", "fails", "moved", "unknown"]


class LocalTrial:
    """Runs the failing function again from the state at its entry, with other settings: a cheap filter for candidates."""

    MAX_STEPS = 4000

    def __init__(self, machine: Machine, failed: TargetRaise) -> None:
        self.machine = machine
        self.failed = failed
        chosen = failed.calls[0]
        for call in failed.calls[1:]:
            if call[4] > self.MAX_STEPS or call[0].name == "__post_init__" or call[0].name.startswith("run_"):
                break
            chosen = call
        self.func, self.args, self.named, self.entry, self.cost = chosen
        self.site = Place(*failed.trail[0]) if failed.trail else None

    def run(self, settings: Mapping[str, Value], env: Mapping[str, str]) -> Trial:
        """What the function does when the settings have these values: "passes" it, "fails" where it failed, comes to fail
        at another statement ("moved"), or "unknown", also where the function reads none of them by itself."""
        m = self.machine
        state = m.heap.capture(self.entry)
        before = list(m.heap.journal[self.entry :])
        m.heap.undo(self.entry)
        mark = m.heap.mark()
        observed = m.observed
        saved = (m.maybes, m.writes, m.field_deps, m.steps, m.messages, m.observed)
        m.maybes, m.writes, m.field_deps, m.messages, m.observed = [], [], dict(m.field_deps), [], {}
        m.steps = max(0, m.budget - 20 * self.MAX_STEPS)
        m.stack.clear()
        m.trail, m.trail_at = (), -1
        for key, truth in observed.items():
            m.heap.set(m.assumptions, key, truth)
        m.overrides = dict(settings)
        m.overridden = set()
        for name, value in env.items():
            m.heap.set(m.env, name, value)
        try:
            m.call_function(self.func, list(self.args), dict(self.named))
            if not env and not m.overridden:
                return "unknown"
            if any(places and places[-1] == self.site for _exc, places, _why in m.maybes):
                return "fails"
            return "unknown" if m.maybes else "passes"
        except TargetRaise as exc:
            if not env and not m.overridden:
                return "unknown"
            return "fails" if exc.trail and Place(*exc.trail[0]) == self.site else "moved"
        except OutOfBudget:
            return "unknown"
        finally:
            m.maybes, m.writes, m.field_deps, m.steps, m.messages, m.observed = saved
            m.overrides = {}
            m.stack.clear()
            m.heap.undo(mark)
            m.heap.release()
            m.heap.apply(state)
            m.heap.journal[self.entry :] = before


__all__ = [
    "DEFAULT_BUDGET",
    "Decided",
    "Evaluation",
    "Evaluator",
    "LocalTrial",
    "Place",
    "Program",
    "Proof",
    "Raised",
    "Told",
    "Trial",
    "Value",
    "Write",
]
