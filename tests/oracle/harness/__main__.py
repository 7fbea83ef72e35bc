"""Runs in the interpreter of an installed release: what its real validation does with a launch.

python -m harness --names NAMES.json [--facts FACTS.json] -- --model-path models/llama --tp 2
python -m harness --names NAMES.json --facts FACTS.json --batch < launches.jsonl
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .children import answer_all, make_folders
from .machine import Machine, read_machine
from .release import Names, Release, finish, make_names
from .standins import find_stand_ins, list_packages

_HERE = Path(__file__).resolve().parent
WARM = ("transformers", "huggingface_hub", "torch.", "numpy", "PIL")


def leave_no_trace() -> None:
    """This folder's parent is on the module path for the harness alone."""
    top = str(_HERE.parent)
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or os.getcwd()) != top]
    os.environ.pop("PYTHONPATH", None)


def _read_given(names: str, facts: str | None) -> tuple[Names, Machine]:
    leave_no_trace()
    try:
        table = json.loads(names if names.startswith("{") else Path(names).read_text())
        return make_names(table), read_machine(Path(facts)) if facts else Machine()
    except (OSError, ValueError, KeyError) as error:
        raise SystemExit(f"harness: {type(error).__name__}: {error}") from error


def open_release(names: str, facts: str | None) -> Release:
    """`names` is JSON, or the path of a file with it; `facts` the path of a facts file. Exits where one cannot be read."""
    return Release(*_read_given(names, facts))


def _read_packages(names: str, facts: str | None) -> dict[str, Any]:
    """Without an import of the release."""
    known, machine = _read_given(names, facts)
    found = find_stand_ins(known.distribution, machine)
    return {"packages": list_packages(found), "python": platform.python_version(), "machine": platform.machine()}


def main() -> None:
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(prog="python -m harness", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--names", required=True, help="package, distribution, stages, view of the engine's profile: JSON or a file"
    )
    parser.add_argument("--facts", help="of the machine; without: eight H100s")
    parser.add_argument("--models", type=Path, default=_HERE / "models", help="folder that a launch finds as models/")
    parser.add_argument("--batch", action="store_true", help="launches from standard input, an object with argv, env a line")
    parser.add_argument("--actions", action="store_true", help="the flags of the real parser")
    parser.add_argument("--packages", action="store_true", help="what is installed, or seems to be; imports nothing")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for a launch")
    parser.add_argument("--omit", default="", help="keys of the answers to leave out, with commas")
    given = parser.parse_args(words[:cut])
    models = given.models.resolve()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the release prints is none of the answers
    if given.packages:
        print(json.dumps(_read_packages(given.names, given.facts)), file=out)
        return
    with make_folders(models, max(1, given.jobs) if given.batch else 1) as folders:
        release = open_release(given.names, given.facts)
        if given.actions:
            print(json.dumps(release.read_actions()), file=out)
        else:
            cases = [_read_case(line) for line in sys.stdin if line.strip()] if given.batch else [{"argv": words[cut + 1 :]}]
            warm = (f"{release.names.package}.", *WARM)
            for line in _answers(release, cases, folders, given.limit, warm, given.omit.split(",")):
                print(line, file=out, flush=True)
    out.flush()
    os._exit(0)  # threads and handlers of the release must not keep it


def _answers(
    release: Release, cases: Sequence[Any], folders: Any, limit: float, warm: tuple[str, ...], omit: Sequence[str]
) -> Iterator[str]:
    def work(case: Any) -> dict[str, Any]:
        return {k: v for k, v in release.answer(case["argv"]).items() if k not in omit}

    for case, answer in answer_all(cases, work, folders, limit, warm):
        told = {**{k: case[k] for k in ("id", "argv") if k in case and k not in omit}, **finish(answer, release.root)}
        yield json.dumps(told)


def _read_case(line: str) -> dict[str, Any]:
    case = json.loads(line)
    return {"argv": case} if isinstance(case, list) else case


if __name__ == "__main__":
    main()
