"""The installed release: imported on a machine that is not there, then asked what its launcher asks of it."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.metadata
import io
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import frames, gpus, standins
from .machine import Machine

Answer = dict[str, Any]
_LAUNCHER = "launch_server.py"
_REFUSED = re.compile(r"^\S[^\n]*?: error: ", re.MULTILINE)  # as argparse ends its usage


@dataclass(frozen=True)
class Names:
    """What a release's profile says of its validation: names only.

    `stages` are (call, field that switches it off or None) in the launcher's order: a dotted function that takes the
    words of the command line, then methods of what it returned, which are left out where a release has none.
    """

    package: str
    distribution: str
    stages: tuple[tuple[str, str | None], ...]
    view: str | None = None  # a dotted function: what it returns shows settings that are decided beside the args object


def make_names(table: Mapping[str, Any]) -> Names:
    stages = tuple((s["call"], s.get("unless_field")) for s in table["stages"])
    return Names(table["package"], table["distribution"], stages, table.get("view"))


class Release:
    """One release in this process. Only one can be made: what it is told of the machine cannot be changed afterwards."""

    def __init__(self, names: Names, machine: Machine) -> None:
        self.names = names
        gpus.set_environment(machine)
        torch = importlib.import_module("torch")
        self.standins = standins.find_stand_ins(names.distribution, machine)
        standins.install(self.standins)
        gpus.ease_imports(torch)
        gpus.fake_gpus(machine, torch)
        package = importlib.import_module(names.package)
        self.root = str(Path(str(package.__file__)).resolve().parent) + os.sep
        self.version = importlib.metadata.version(names.distribution)
        module, _, function = names.stages[0][0].rpartition(".")
        self.first_module: Any = importlib.import_module(module)
        self.first: Callable[[list[str]], Any] = getattr(self.first_module, function)

    # ------------------------------------------------------------ one launch
    def run_stages(self, argv: Sequence[str], begin: Callable[[str], None]) -> Any:
        """The args object, after all that the launcher asks. `begin` hears the name of each stage."""
        begin(self.names.stages[0][0].rpartition(".")[2])
        record = self.first(list(argv))
        self.record = record
        for call, unless in self.names.stages[1:]:
            method = getattr(record, call[1:], None)
            if method is not None and not (unless is not None and getattr(record, unless, False)):
                begin(call[1:])
                method()
        return record

    def answer(self, argv: Sequence[str]) -> Answer:
        """What becomes of one launch, in this process; keys are those of the README."""
        sys.argv = [self.root + _LAUNCHER, *argv]
        self.record = None
        answer: Answer = {"outcome": "ok", "stage": None}
        said = io.StringIO()
        with gather_records(self.root) as records, contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                self.run_stages(argv, lambda stage: answer.update(stage=stage))
            except BaseException as error:  # whatever it is, it is the answer
                answer.update(self.describe(error, said.getvalue(), answer["stage"]))
        answer["records"] = records
        answer["settings"] = None if self.record is None else self.read_settings(self.record)
        return answer

    def describe(self, error: BaseException, said: str, stage: str) -> Answer:
        module = type(error).__module__
        name = type(error).__qualname__ if module == "builtins" else f"{module}.{type(error).__qualname__}"
        answer: Answer = {"outcome": "exception", "exception": name, "message": str(error)}
        if isinstance(error, SystemExit):
            answer["exit_code"] = error.code
            refused = _REFUSED.search(said)
            if refused is not None and error.code == 2:
                return {**answer, "outcome": "argparse", "message": said[refused.start() :].removesuffix("\n")}
            if error.code in (0, None):
                answer["outcome"] = "exit"
        found = frames.list_frames(frames.cut_traceback(error.__traceback__), self.root)
        inside = [f for f in found if f["inside"]]
        answer["frame"] = dict(inside[-1]) if inside else None
        answer["frames"] = found
        answer["traceback"] = frames.print_traceback(error, self.root, stage)
        return answer

    def read_settings(self, record: Any) -> dict[str, Any]:
        """Every field, through the view where the release has one."""
        names = [n for n in (getattr(type(record), "__struct_fields__", None) or vars(record)) if not n.startswith("_")]
        shown = record
        if self.names.view is not None:
            module, _, function = self.names.view.rpartition(".")
            with contextlib.suppress(ImportError, AttributeError):
                shown = getattr(importlib.import_module(module), function)(record)
        found = {}
        for name in names:
            with contextlib.suppress(AttributeError):
                found[name] = to_json(getattr(shown, name))
        return found

    # ------------------------------------------------------------ the parser
    def read_actions(self) -> list[Answer]:
        """Every flag of the parser that the first stage makes, as it was when the parser was first used."""
        seen: list[argparse.ArgumentParser] = []
        real = argparse.ArgumentParser.parse_known_args

        def parse_known_args(parser: Any, *given: Any, **named: Any) -> Any:
            seen.append(parser)
            return real(parser, *given, **named)

        parsers: Any = argparse.ArgumentParser
        parsers.parse_known_args = parse_known_args
        try:
            with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit):
                self.first([])
        finally:
            parsers.parse_known_args = real
        parser = max(seen, key=lambda p: len(p._actions))
        return [_describe_action(a) for a in parser._actions]


def _describe_action(action: argparse.Action) -> Answer:
    return {
        "flags": list(action.option_strings),
        "dest": action.dest,
        "kind": type(action).__name__,
        "type": None if action.type is None else getattr(action.type, "__name__", repr(action.type)),
        "nargs": action.nargs,
        "choices": None if action.choices is None else [to_json(c) for c in action.choices],
        "default": to_json(action.default),
        "const": to_json(action.const),
        "required": action.required,
        "suppressed": action.help == argparse.SUPPRESS,
    }


@contextlib.contextmanager
def gather_records(root: str) -> Iterator[list[Answer]]:
    """Log records of level WARNING and above, whoever handles them, and what the `warnings` module shows."""
    records: list[Answer] = []
    make = logging.getLogRecordFactory()

    def note(level: str, logger: str, message: str, file: str, line: int) -> None:
        file = file[len(root) :] if file.startswith(root) else file
        records.append({"level": level, "logger": logger, "message": message, "file": file, "line": line})

    def factory(*given: Any, **named: Any) -> logging.LogRecord:
        record = make(*given, **named)
        if record.levelno >= logging.WARNING:
            with contextlib.suppress(TypeError, ValueError):  # a message that does not fit its arguments
                note(record.levelname, record.name, record.getMessage(), record.pathname, record.lineno)
        return record

    def show(message: Any, category: Any, filename: str, lineno: int, *given: Any, **named: Any) -> None:
        note("PYWARN", category.__name__, str(message), filename, lineno)

    shown = warnings.showwarning
    logging.setLogRecordFactory(factory)
    warnings.showwarning = show
    try:
        yield records
    finally:
        logging.setLogRecordFactory(make)
        warnings.showwarning = shown


def to_json(value: Any, depth: int = 0) -> Any:
    """A value that JSON can hold; what it cannot is its repr."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float) and value == value and abs(value) != float("inf"):
        return value
    if depth < 5 and isinstance(value, dict):
        return {str(k): to_json(v, depth + 1) for k, v in value.items()}
    if depth < 5 and isinstance(value, (list, tuple)):
        return [to_json(v, depth + 1) for v in value]
    if depth < 5 and isinstance(value, (set, frozenset)):
        return sorted((to_json(v, depth + 1) for v in value), key=str)
    return repr(value)[:200]


def finish(answer: Answer, root: str) -> Answer:
    """With what is read from the sources, which is kept: so it is done once, and not in each child."""
    frame = answer.get("frame")
    if frame:
        frame.update(frames.find_statement(root + frame["file"], frame["line"]))
    return answer
