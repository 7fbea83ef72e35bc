"""What the real parser makes of argument lists, and what triage does: every field before validation, or the refusal."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.oracle.launches import make_argument_lists
from tests.oracle.places import run_script
from tests.oracle.real import Evaluators, model_names, real_actions
from triage.analysis.evaluate import Evaluation
from triage.analysis.evaluate.values import Unknown
from triage.knowledge import load_profile

# Stops where the record is made: what was parsed is in it, and nothing was validated yet.
_PARSE = """
import contextlib, importlib, io, json, os, sys
from pathlib import Path
from harness.__main__ import open_release
from harness.children import make_folders
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
release = open_release(sys.argv[1], None)
module, _, name = sys.argv[3].rpartition(".")

class Parsed(BaseException):
    pass

def stop(record, *given):
    raise Parsed(record)

getattr(importlib.import_module(module), name).__post_init__ = stop

def plain(v):
    if isinstance(v, (list, tuple)):
        return [type(v).__name__, *map(plain, v)]
    if isinstance(v, dict):
        return {str(k): plain(x) for k, x in v.items()}
    return repr(v) if v is None or isinstance(v, (bool, int, float, str)) else type(v).__name__

def fields(record):
    names = getattr(type(record), "__struct_fields__", None) or vars(record)
    return {k: plain(getattr(record, k)) for k in names if not k.startswith("_")}

def parse(argv):
    error = io.StringIO()
    try:
        with contextlib.redirect_stderr(error), contextlib.redirect_stdout(error):
            stop(release.first(argv))  # a release whose records are made by generated code
    except Parsed as e:
        return ["parsed", "", fields(e.args[0])]
    except SystemExit as e:
        return ["refused" if e.code else "exit", error.getvalue().partition(": error: ")[2].removesuffix("\\n"), {}]
    except BaseException as e:
        return [type(e).__name__, str(e), {}]

with make_folders(Path(sys.argv[2]), 1):
    for line in sys.stdin:
        out.write(json.dumps(parse(json.loads(line))) + "\\n")
out.flush()
os._exit(0)
"""


@dataclass
class Agreement:
    """Counts of one release; a disagreement is kept with what both said."""

    lists: int = 0
    right: int = 0
    refused: int = 0  # by the parser, of those
    kinds: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def row(self) -> str:
        return f"{self.lists:8} {self.refused:8} {f'{self.right}/{self.lists}':>11} {self.right / max(1, self.lists):7.1%}"


def compare_parsing(release: str, count: int, seed: int, folder: Path) -> Agreement:
    """Generate argument lists, ask the real parser, evaluate, compare."""
    made = make_argument_lists(real_actions(release), model_names(), count, seed, folder)
    lists = [argv for argv, _texts, _kinds in made]
    text = "".join(json.dumps(list(a)) + "\n" for a in lists)
    answers = run_script(release, _PARSE, [load_profile("sglang").args_class], text).splitlines()
    assert len(answers) == count
    ours = Evaluators(release, lists, {k: v for _argv, texts, _kinds in made for k, v in texts.items()})
    out = Agreement()
    for (argv, texts, kinds), line in zip(made, answers, strict=True):
        real: list[Any] = json.loads(line)
        wrong = differences(ours.get("h100x8").evaluate(argv), *real)
        out.lists += 1
        out.kinds.update(kinds)
        out.refused += real[0] == "refused"
        out.right += not wrong
        if wrong:
            out.wrong.append(f"{' '.join(argv)} {list(texts.values())}: {wrong[:4]}")
    return out


def differences(said: Evaluation, kind: str, message: str, fields: dict[str, Any]) -> list[str]:
    """What is not the same: each field, the kind of failure, its text."""
    if kind == "parsed":
        if not said.given:
            return [f"parsed; we say {said.verdict} {said.why} {said.raised and (said.raised.exception, said.raised.message)}"]
        found = {k: plain(v) for k, v in said.given.items() if not k.startswith("_")}
        return [
            f"{k}: real {fields.get(k, 'absent')}, read {found.get(k, 'absent')}"
            for k in sorted({*fields, *found})
            if fields.get(k, "absent") != found.get(k, "absent")
        ]
    raised = said.raised
    if said.given or (raised is None and kind != "exit"):
        return [f"{kind} {message}; we go on"]
    if kind == "exit":
        return [] if raised is None or raised.exception == "SystemExit" else [f"exit; we say {raised.exception}"]
    assert raised is not None
    name = "refused" if raised.usage else raised.exception.rpartition(".")[2]
    text = raised.message if raised.message is not None else message
    return [] if (name, text) == (kind, message) else [f"{kind} {message!r}; we say {name} {text!r}"]


def plain(value: Any) -> Any:
    """As the script above puts values into JSON."""
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(plain, value)]
    if isinstance(value, dict):
        return {str(k): plain(x) for k, x in value.items()}
    if isinstance(value, Unknown):
        return f"unknown: {value.why}"
    return repr(value) if value is None or isinstance(value, (bool, int, float, str)) else type(value).__name__


__all__: Sequence[str] = ["Agreement", "compare_parsing", "differences"]
