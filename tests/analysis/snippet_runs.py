"""Runs a snippet of ours twice: evaluated as the target's source, and by Python itself. The two must tell the same story."""

from __future__ import annotations

import os
import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triage.analysis.evaluate import Evaluation, Evaluator, Place, Program
from triage.analysis.evaluate.values import Maybe, Unknown
from triage.analysis.trees import MemoryTree
from triage.model import Facts
from triage.protocols import EngineProfile, Stage

PROFILE = EngineProfile(
    name="toy",
    package="toy",
    distribution="toy",
    entries=(),
    args_class="toy.main.Args",
    stages=(Stage("toy.main.run"),),
    port_field="port",
    host_field="host",
    model_field="model",
    health_paths=(),
    generate_path=None,
    ready_marks=(),
    fatal_marks=(),
    environment_prefixes=("TOY_",),
)
# Appended to the snippet, so that its own line numbers stand.
TAIL = """

import dataclasses as _dc

@_dc.dataclass
class Args:
    out: object = None

def run(argv):
    made = Args()
    made.out = work(argv)
    return made
"""
# Three facts that are independent of one another: unknown to the evaluator, stubbed for Python.
FACTS = ("torch.cuda.is_available()", "torch.xpu.is_available()", "os.path.exists('/probe')")


@dataclass(frozen=True)
class Story:
    """How one run ended: a value, or an exception with its place in the snippet."""

    value: object = None
    exception: str | None = None
    message: str = ""
    line: int = 0
    function: str = ""


NOTHING_KNOWN = Facts()


def make_evaluator(files: Mapping[str, str], facts: Facts = NOTHING_KNOWN, budget: int = 200_000) -> Evaluator:
    tree = MemoryTree({name: text.encode() for name, text in {"toy/__init__.py": "", **files}.items()})
    return Evaluator(Program(tree, "toy"), PROFILE, facts, {}, (), budget)


def evaluate(source: str, argv: Sequence[str] = (), trail: Sequence[Place] = (), **given: Any) -> Evaluation:
    return make_evaluator({"toy/main.py": source + TAIL}, **given).evaluate(argv, trail)


def told(result: Evaluation) -> Story:
    """The story of a sure evaluation."""
    assert result.verdict != "unknown", (result.why, [(p.exception, p.site, p.depends) for p in result.possible], result.notes)
    if result.verdict == "passes":
        return Story(plain(result.settings["out"]))
    raised = result.raised
    assert raised is not None
    site = next(p for p in reversed(raised.places) if p.file.startswith("toy/"))
    return Story(None, raised.exception.removeprefix("toy.main."), raised.message or "", site.line, site.function)


def plain(value: Any) -> Any:
    """A value without the evaluator's wrappers."""
    if isinstance(value, Maybe):
        return ("maybe", plain(value.value))
    if isinstance(value, (list, tuple)):
        return type(value)(plain(v) for v in value)
    if isinstance(value, dict):
        return {plain(k): plain(v) for k, v in value.items()}
    return value


def really(source: str, argv: Sequence[str] = (), truths: Sequence[bool] = ()) -> Story:
    """Python's own story of a snippet (which is ours: nothing of a target is run here)."""
    with stubs(truths):
        module = types.ModuleType("toy.main")
        sys.modules["toy.main"] = module
        try:
            code = compile(source + TAIL, "toy/main.py", "exec", dont_inherit=True)
            exec(code, module.__dict__)
            return _story(lambda: module.run(list(argv)).out, lambda name: name == "toy/main.py")
        finally:
            del sys.modules["toy.main"]


def really_package(files: Mapping[str, str], folder: Path, argv: Sequence[str] = ()) -> Story:
    """As `really`, for a package of several files."""
    for name, text in {"toy/__init__.py": "", **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    sys.path.insert(0, str(folder))
    try:
        import importlib

        importlib.invalidate_caches()
        return _story(lambda: importlib.import_module("toy.main").run(list(argv)).out, lambda name: name.startswith(str(folder)))
    finally:
        sys.path.remove(str(folder))
        for name in [n for n in sys.modules if n == "toy" or n.startswith("toy.")]:
            del sys.modules[name]


def _story(run: Callable[[], object], mine: Callable[[str], bool]) -> Story:
    try:
        return Story(run())
    except Exception as exc:
        trace, line, function = exc.__traceback__, 0, ""
        while trace is not None:
            if mine(trace.tb_frame.f_code.co_filename):
                line, function = trace.tb_lineno, trace.tb_frame.f_code.co_name
            trace = trace.tb_next
        return Story(None, type(exc).__name__, str(exc), line, function)


class stubs:
    """Puts a torch of three answers in place, and os.path.exists for one path."""

    def __init__(self, truths: Sequence[bool]) -> None:
        self.truths = [*truths, False, False, False]

    def __enter__(self) -> None:
        torch: Any = types.ModuleType("torch")
        torch.cuda = types.SimpleNamespace(is_available=lambda: self.truths[0])
        torch.xpu = types.SimpleNamespace(is_available=lambda: self.truths[1])
        self.saved = (sys.modules.get("torch"), os.path.exists)
        sys.modules["torch"] = torch
        real = os.path.exists
        os.path.exists = lambda path: self.truths[2] if path == "/probe" else real(path)

    def __exit__(self, *_: object) -> None:
        torch, os.path.exists = self.saved
        if torch is None:
            del sys.modules["torch"]
        else:
            sys.modules["torch"] = torch


def covers(value: Any, actual: object) -> bool:
    """Whether what the evaluator says of a value admits the actual one."""
    if isinstance(value, Unknown):
        return value.options is None or any(covers(o, actual) for o in value.options)
    if isinstance(value, Maybe):
        return covers(value.value, actual)
    if isinstance(value, (list, tuple)) and isinstance(actual, type(value)):
        return _covers_items(list(value), list(actual))
    if isinstance(value, dict) and isinstance(actual, dict):
        sure = {k for k, v in value.items() if not isinstance(v, Maybe)}
        return sure <= set(actual) <= set(value) and all(covers(value[k], v) for k, v in actual.items())
    return type(value) is type(actual) and bool(value == actual)


def _covers_items(said: list[Any], actual: list[Any]) -> bool:
    if not said:
        return not actual
    if actual and covers(said[0], actual[0]) and _covers_items(said[1:], actual[1:]):
        return True
    return isinstance(said[0], Maybe) and _covers_items(said[1:], actual)


def same_story(said: Story, real: Story) -> None:
    """Fails where the two differ; of a message Python's wording may differ in names and addresses only."""
    assert (said.exception, said.line, said.function) == (real.exception, real.line, real.function), (said, real)
    if real.exception is None:
        assert said.value == real.value and type(said.value) is type(real.value), (said, real)
    elif real.exception in ("AssertionError", "ValueError", "RuntimeError", "KeyError", "Custom"):
        clean = [re.sub(r"0x[0-9a-f]+", "0x", text) for text in (said.message, real.message)]
        assert clean[0] == clean[1]
