"""The state of the walk: frames, the tests on the way, and what was found in each function."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from triage.analysis.conditions import Part
from triage.analysis.sites.index import FunctionInfo, ModuleIndex
from triage.analysis.sites.values import NOTHING, Val, union
from triage.model import Guard

# Stands for the function where an expression of a module or class is read.
PLACE = ast.Lambda(ast.arguments([], [], None, [], [], None, []), ast.Constant(None))


@dataclass(eq=False)
class Step:
    """One guard on the way, after those of `before`."""

    before: Step | None
    guard: Guard
    parts: tuple[tuple[Part, Val], ...]
    whole: Val | None = None

    def control(self) -> Val:
        """What decides whether control comes here within the function."""
        if self.whole is None:
            fatal = self.guard.kind == "assert" or self.guard.leaves in ("raise", "exit")  # else nothing comes back at all
            own = NOTHING if fatal else union(v for _, v in self.parts)
            self.whole = union([self.before.control(), own]) if self.before is not None else own
        return self.whole


def steps_of(step: Step | None) -> list[Step]:
    out: list[Step] = []
    while step is not None:
        out.append(step)
        step = step.before
    return out[::-1]


@dataclass(eq=False)
class Node:
    """A function as it is walked for one set of arguments: its sites, the calls that it makes, what it returns."""

    info: FunctionInfo
    sites: list[tuple[ast.stmt, Step | None]] = field(default_factory=list)
    calls: list[tuple[Node, ast.stmt, Step | None]] = field(default_factory=list)
    returns: list[Val] = field(default_factory=list)
    result: Val | None = None


@dataclass(eq=False)
class Frame:
    """A function that is being walked."""

    node: Node
    module: ModuleIndex
    locals: dict[str, Val]
    parent: Frame | None = None  # the frame around a nested function or a comprehension
    path: Step | None = None
    statement: ast.stmt | None = None
    imports: dict[str, Val] = field(default_factory=dict)
    touched: list[list[Val]] = field(default_factory=list)  # what the bodies of the tries around read
    handlers: dict[int, Val] = field(default_factory=dict)  # what decides whether an except clause is entered

    def find(self, name: str) -> Val | None:
        frame: Frame | None = self
        while frame is not None:
            if name in frame.locals:
                return frame.locals[name]
            frame = frame.parent
        return None


def merge(before: dict[str, Val], ways: list[dict[str, Val]], control: Val) -> dict[str, Val]:
    """The locals after a branch: where the ways differ, a local also depends on what chose between them."""
    if len(ways) == 1:
        return ways[0]
    out: dict[str, Val] = {}
    decided = Val(control.reads, frozenset(), control.why)
    for name in dict.fromkeys(n for way in ways for n in way):
        values = list(dict.fromkeys(way[name] for way in ways if name in way))
        missing = any(name not in way for way in ways)
        if len(values) == 1 and not (missing and values[0] is not before.get(name)):
            out[name] = values[0]
        else:
            out[name] = union([*values, decided])
    return out


__all__ = ["PLACE", "Frame", "Node", "Step", "merge", "steps_of"]
