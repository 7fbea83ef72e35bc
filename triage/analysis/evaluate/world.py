"""One evaluation of the target's validation: frames, calls, forks at unknown tests, and what was learned on the way.

At a test that cannot be known both sides are evaluated and their states joined (`Heap`); an exception that only one
side raises is recorded as possible and the evaluation goes on with the other. With a `trail` (the frames of a real
traceback) the sides that cannot lead there are dropped, so that the log decides what the host alone would know.
"""

from __future__ import annotations

from collections.abc import Mapping

from triage.analysis.evaluate.control import Control
from triage.analysis.evaluate.frames import Frame, Place
from triage.analysis.evaluate.functions import code_of
from triage.analysis.evaluate.signals import Signal
from triage.analysis.evaluate.values import Bound, Func, TargetRaise, Unknown, Value

MAX_CALL_DEPTH = 70
MAX_UNKNOWN_RECURSION = 2


class World(Control):
    """Control: calls, forks, loops, exceptions. `Machine` (machine.py) adds the operations on values."""

    def call(self, target: Value, args: list[Value], named: dict[str, Value] | None = None) -> Value:
        """Call any value. Raises TargetRaise where the target would."""
        if type(target) is Bound:
            return self.call(target.fn, [target.self, *args], named)
        if type(target) is Func:
            return self.call_function(target, args, named or {})
        return self.call_object(target, args, named or {})

    def call_function(self, func: Func, args: list[Value], named: Mapping[str, Value]) -> Value:
        code = code_of(func.code)
        if code.is_async:
            return Unknown(f"{func.qualname}()", "coroutines are not evaluated")
        if len(self.stack) >= MAX_CALL_DEPTH:
            self.note(f"calls nested deeper than {MAX_CALL_DEPTH} are not followed ({func.qualname})")
            return Unknown(f"?{func.qualname}()", "calls are nested too deeply")
        if Unknown in map(type, args) and sum(f.func is func for f in self.stack) >= MAX_UNKNOWN_RECURSION:
            return Unknown(f"?{func.qualname}()", f"{func.name} calls itself on an unknown value")
        if code.is_plain and not named and len(args) == len(code.positional):
            given: dict[str, Value] = dict(zip(code.positional, args, strict=True))
        else:
            given = self.bind(func, args, named)
        frame = Frame(func.module, func.name, given, func.closure)
        frame.qualname = func.qualname
        frame.is_function, frame.func = True, func
        frame.first_argument = args[0] if args else None
        if self.trail:
            self.match_trail(frame, code.line, code.end)
        if self.proofs:
            self.find_proven(frame, code.node)
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
            line = exc.at if exc.at is not None else frame.stmt.lineno if frame.stmt else 0
            exc.at = None
            exc.trail.append((frame.module.file, line, frame.name))
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
        if reads:
            self.reads |= reads
        if frame.exit_control:
            self.reads |= frame.exit_control
        if code.is_generator:
            return list(frame.yielded)
        return value

    def bind(self, func: Func, args: list[Value], named: Mapping[str, Value]) -> dict[str, Value]:
        """Parameters to arguments, as Python does it."""
        code = code_of(func.code)
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


__all__ = ["Frame", "Place", "World"]
