"""Messages that real validation printed: the statement that is found for each, and what they decide in a bare log.

The truth is a handler's file and line for messages, and the lines that Python really ran for decided tests.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from tests.oracle.places import FACTS, run_script, site_of
from tests.oracle.real import SHARED, Evaluators, why_absent
from triage.analysis.decoding import decode_source
from triage.analysis.evaluate import Decided, Evaluator
from triage.analysis.records import find_matches
from triage.analysis.witnesses import make_proofs
from triage.model import Facts, LogRecord

MATCHED, RIGHT = 0.90, 0.98
TRACED = 6  # launches whose lines are traced
BARE = Facts(device="cuda")

# Runs one launch after another in children, with the lines of the package that ran.
_TRACE = """
import contextlib, json, os, sys
from pathlib import Path
from harness.__main__ import open_release
from harness.children import answer_all, make_folders
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
release = open_release(sys.argv[1], sys.argv[3])

def trace(case):
    lines = {}
    def line(frame, event, arg):
        lines[frame.f_code.co_filename].add(frame.f_lineno)
        return line
    def call(frame, event, arg):
        name = frame.f_code.co_filename
        if not name.startswith(release.root):
            return None
        lines.setdefault(name, set()).add(frame.f_lineno)
        return line
    sys.settrace(call)
    with contextlib.suppress(BaseException):
        release.answer(case["argv"])
    sys.settrace(None)
    return {"sglang/" + k[len(release.root):]: sorted(v) for k, v in lines.items()}

with make_folders(Path(sys.argv[2]), 1) as folders:
    for _case, answer in answer_all([{"argv": json.loads(text)} for text in sys.stdin], trace, folders):
        out.write(json.dumps(answer) + "\\n")
out.flush()
os._exit(0)
"""


def cases_of(release: str) -> list[dict[str, Any]]:
    absent = why_absent(release)
    path = SHARED / "cases" / f"{release}.jsonl"
    if absent or not path.is_file():
        pytest.skip(absent or f"not here: {path}")
    return [json.loads(line) for line in path.read_text().splitlines()]


@dataclass(frozen=True)
class Real:
    """A message as a handler saw it."""

    file: str
    line: int
    text: str


def messages_of(case: dict[str, Any]) -> Iterator[Real]:
    """What sglang itself logged."""
    for one in case["log_warnings"]:
        if one["level"] != "PYWARN" and not one["file"].startswith(("/", "<")):
            yield Real(f"sglang/{one['file']}", one["line"], one["message"])


def records(case: dict[str, Any]) -> list[LogRecord]:
    texts = [m.text.replace("\x1b[1;33m", "").replace("\x1b[0m", "") for m in messages_of(case)]
    return [LogRecord(text, i + 1, i + 1, stamp="12:00:00") for i, text in enumerate(texts)]


def sources(evaluator: Evaluator) -> list[tuple[str, str]]:
    found = evaluator.machine.program.found.values()
    return [(spec[0], decode_source(spec[1])) for spec in found if spec is not None and spec[1]]


@pytest.mark.parametrize("release", ["0.5.5", "0.5.16"])
def test_each_message_is_found_where_it_was_printed(release: str) -> None:
    cases = cases_of(release)
    evaluator = Evaluators(release).get("h100x8")
    evaluator.evaluate(cases[0]["argv"])
    real = {m.text.replace("\x1b[1;33m", "").replace("\x1b[0m", "").strip(): m for c in cases for m in messages_of(c)}
    found = find_matches([r for c in cases for r in records(c)], sources(evaluator))
    by_text = {m.message: m for m in found}
    matched = right = 0
    wrong = []
    for text, message in real.items():
        match = by_text.get(text)
        if match is None:
            wrong.append(f"not found: {message}")
            continue
        matched += 1
        held = any(s.file == message.file and s.first <= message.line <= s.last for s in match.statements)
        held = held or _is_helper(release, message)  # a helper of one line prints what its callers give it
        right += held
        if not held:
            wrong.append(f"{message}: {match.statements}")
    assert len(real) >= 20
    assert matched >= MATCHED * len(real), wrong
    assert right >= RIGHT * matched, wrong


def _is_helper(release: str, message: Real) -> bool:
    """Whether the statement prints a bare parameter of its function."""
    for node in ast.walk(_parsed(release, message.file)):
        if isinstance(node, ast.FunctionDef) and node.lineno <= message.line <= (node.end_lineno or 0):
            names = {a.arg for a in node.args.args}
            used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
            if names & used and (node.end_lineno or 0) - node.lineno <= 3:
                return True
    return False


@cache
def _parsed(release: str, file: str) -> ast.Module:
    return ast.parse((site_of(release) / file).read_text())


@pytest.mark.parametrize("release", ["0.5.16"])
def test_what_messages_decide_is_what_ran(release: str) -> None:
    """With no facts and no model: tests are decided by messages, and each as Python really went."""
    cases = [c for c in cases_of(release) if c["facts"] == "h100x8"]
    cases.sort(key=lambda c: (-len({(m.file, m.line) for m in messages_of(c)}), c["id"]))
    cases = cases[:TRACED]
    text = "".join(json.dumps(c["argv"]) + "\n" for c in cases)
    answers = run_script(release, _TRACE, [str(FACTS / "h100x8.json")], text).splitlines()
    ours = Evaluators(release)
    evaluator = Evaluator(ours.program, ours.profile, BARE, {}, (), optimistic=True)
    decided = 0
    for case, answer in zip(cases, answers, strict=True):
        ran = {file: set(lines) for file, lines in json.loads(answer).items()}
        if not decided:
            evaluator.evaluate(case["argv"])
        evaluator.witness(case["argv"], make_proofs(find_matches(records(case), sources(evaluator))))
        said = evaluator.evaluate(case["argv"])
        for one in said.decided:
            came_out = _went(release, one, ran.get(one.file, set()))
            if came_out is not None:
                decided += 1
                assert came_out == one.truth, (case["id"], one)
    assert decided >= 5


def _went(release: str, one: Decided, ran: set[int]) -> bool | None:
    """How the `if` at a line came out by the lines that ran; None where that does not tell."""
    for node in ast.walk(_parsed(release, one.file)):
        if isinstance(node, ast.If) and node.lineno == one.line:
            return any(node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0) for line in ran)
    return None
