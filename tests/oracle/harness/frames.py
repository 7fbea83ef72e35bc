"""Frames of a failure: inside the package, with their statements, and as the launcher would have printed them."""

from __future__ import annotations

import ast
import json
import runpy
import sys
import traceback
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

_HERE = str(Path(__file__).resolve().parent)
_HEAD = "Traceback (most recent call last):\n"
_TEXT_LIMIT = 2000  # characters of a statement


@dataclass(frozen=True)
class _Source:
    lines: list[str]
    tree: ast.Module


@cache
def _read(path: str) -> _Source | None:
    """None where there is no such file, or none that this Python can parse."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        return _Source(text.splitlines(), ast.parse(text))
    except (OSError, ValueError, SyntaxError):
        return None


@cache
def _statements(path: str) -> list[tuple[int, int, str]]:
    source = _read(path)
    nodes = ast.walk(source.tree) if source is not None else ()
    return [(n.lineno, n.end_lineno or n.lineno, type(n).__name__.lower()) for n in nodes if isinstance(n, ast.stmt)]


def find_statement(path: str, line: int) -> dict[str, Any]:
    """The smallest statement that holds a line: kind, first and last line, text. {} where there is none."""
    held = [(last - first, first, last, kind) for first, last, kind in _statements(path) if first <= line <= last]
    source = _read(path)
    if not held or source is None:
        return {}
    _size, first, last, kind = min(held)
    text = "\n".join(source.lines[first - 1 : last])
    return {"kind": kind, "first": first, "last": last, "text": text[:_TEXT_LIMIT]}


def cut_traceback(trace: TracebackType | None) -> TracebackType | None:
    """Without the frames of this harness at its start."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_HERE):
        trace = trace.tb_next
    return trace


def list_frames(trace: TracebackType | None, root: str) -> list[dict[str, Any]]:
    """Outermost first; files of the package are relative to `root`, its folder with a separator at the end."""
    found = []
    for frame in traceback.extract_tb(trace):
        inside = frame.filename.startswith(root)
        file = frame.filename[len(root) :] if inside else frame.filename
        found.append({"file": file, "line": frame.lineno, "function": frame.name, "source": frame.line, "inside": inside})
    return found


# ---------------------------------------------------------------- the launcher's own frames
@dataclass(frozen=True)
class _Call:
    path: str
    line: int
    function: str
    text: str

    def print(self, name: str | None = None) -> str:
        shown = f"    {self.text}\n" if name is None else ""  # frozen modules have no source to show
        return f'  File "{name or self.path}", line {self.line}, in {self.function}\n{shown}'


class _Calls(ast.NodeVisitor):
    """The last call of a name in a file, and the function that it stands in."""

    def __init__(self, callee: str) -> None:
        self.callee = callee
        self.inside = ["<module>"]
        self.found: tuple[int, str] | None = None

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.inside.append(node.name)
        self.generic_visit(node)
        self.inside.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", None)
        if name == self.callee and (self.found is None or node.lineno > self.found[0]):
            self.found = (node.lineno, self.inside[-1])
        self.generic_visit(node)


def _find_call(path: str, callee: str) -> _Call | None:
    source = _read(path)
    if source is None:
        return None
    calls = _Calls(callee)
    calls.visit(source.tree)
    if calls.found is None:
        return None
    line, function = calls.found
    return _Call(path, line, function, source.lines[line - 1].strip())


@cache
def launcher_frames(root: str, callee: str) -> str:
    """What a traceback of `python -m` shows before a stage, as the installed launcher reads; "" where it cannot tell."""
    names = json.loads(Path(__file__).with_name("launcher.json").read_text())
    paths = [root + name for name in (names["launcher"], *names["through"])]
    chain: list[_Call] = []
    while True:
        found = [call for path in paths if (call := _find_call(path, callee)) is not None]
        call = next((c for c in found if c.function != callee), None)
        if call is None or len(chain) > len(paths) + 1:
            return ""
        chain.insert(0, call)
        if call.function == "<module>":
            break
        callee = call.function
    return _runpy_frames() + "".join(c.print() for c in chain)


@cache
def _runpy_frames() -> str:
    source = _read(runpy.__file__)
    frozen = "<frozen runpy>" if sys.version_info >= (3, 11) else None
    out = ""
    for function, callee in (("_run_module_as_main", "_run_code"), ("_run_code", "exec")):
        for node in source.tree.body if source is not None else ():
            if source is not None and isinstance(node, ast.FunctionDef) and node.name == function:
                calls = _Calls(callee)
                calls.visit(node)
                line = calls.found[0] if calls.found is not None else node.lineno
                out += _Call(runpy.__file__, line, function, source.lines[line - 1].strip()).print(frozen)
    return out


def print_traceback(error: BaseException, root: str, callee: str) -> str:
    """As Python would print it had the launcher called the stage. The launcher's frames are read, not observed."""
    text = "".join(traceback.format_exception(type(error), error, cut_traceback(error.__traceback__)))
    at = text.rfind(_HEAD) + len(_HEAD)
    return text[:at] + launcher_frames(root, callee) + text[at:]
