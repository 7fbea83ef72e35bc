"""Run by an oracle's Python: launches from stdin (JSON argv a line) -> for each failing frame the lines that ran in it.

Answers one JSON list a line: [[file, function, [line, ...]], ...], outermost frame first.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

folder, facts = sys.argv[1:3]
sys.path.insert(0, folder)
import oracle  # type: ignore[import-not-found]  # noqa: E402

out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
engine = oracle.Sglang(oracle.load_facts(facts))
root = os.path.dirname(engine.root.rstrip(os.sep)) + os.sep
ran: dict[int, list[int]] = {}
found: list[list[Any]] = []


def describe(result: dict[str, Any], error: BaseException, stage: str) -> None:
    entry = error.__traceback__
    while entry is not None:
        code = entry.tb_frame.f_code
        if id(entry.tb_frame) in ran and not code.co_name.startswith("<"):
            found.append([code.co_filename[len(root) :], code.co_name, [*ran[id(entry.tb_frame)], entry.tb_lineno]])
        entry = entry.tb_next


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
