"""Run by a release's Python: launches from stdin (JSON argv a line) -> for each failing frame the lines that ran in it.

Answers one JSON list a line: [[file, function, [line, ...]], ...], outermost frame first.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from harness.__main__ import open_release  # type: ignore[import-not-found]
from harness.children import make_folders  # type: ignore[import-not-found]

names, models, facts = sys.argv[1:]
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
engine = open_release(names, facts)
root = os.path.dirname(engine.root.rstrip(os.sep)) + os.sep
ran: dict[int, list[int]] = {}
found: list[list[Any]] = []


def describe(error: BaseException, said: str, stage: str) -> dict[str, Any]:
    entry = error.__traceback__
    while entry is not None:
        code = entry.tb_frame.f_code
        if id(entry.tb_frame) in ran and not code.co_name.startswith("<"):
            found.append([code.co_filename[len(root) :], code.co_name, [*ran[id(entry.tb_frame)], entry.tb_lineno]])
        entry = entry.tb_next
    return {}


def trace(frame: Any, event: str, argument: Any) -> Any:
    name = frame.f_code.co_filename
    if not (name.startswith(root) and ("/arg_groups/" in name or name.endswith(("server_args.py", "model_config.py")))):
        return None
    lines = ran[id(frame)] = []
    kept.append(frame)  # so that no other frame gets its id

    def local(frame: Any, event: str, argument: Any) -> Any:
        if event == "line":
            lines.append(frame.f_lineno)
        return local

    return local


engine.describe = describe
with make_folders(Path(models), 1):
    for line in sys.stdin:
        kept: list[Any] = []
        ran.clear()
        found.clear()
        sys.settrace(trace)
        engine.answer(json.loads(line))
        sys.settrace(None)
        out.write(json.dumps(found) + "\n")
        out.flush()
os._exit(0)
