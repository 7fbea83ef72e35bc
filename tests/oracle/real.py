"""Real sglang releases that run without a GPU: what they are told of the platform, what they answer.

They are installed by `python -m tests.oracle.setup`, and asked through the harness (`harness/README.md`). What it answers is
the truth; nothing here imports sglang into this process.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.oracle.places import (
    FACTS,
    HARNESS,
    MODELS,
    ORACLE_HOME,
    RELEASES,
    SHARED,
    run_harness,
    run_python,
    site_of,
    why_absent,
)
from triage.analysis.evaluate import Evaluator, Program
from triage.analysis.trees import FolderTree
from triage.knowledge import load_profile
from triage.model import Facts, ModelConfig

ORACLE = HARNESS  # holds facts/ and models/
# The harness's own defaults, for what a facts file leaves out.
_DEFAULTS = {
    "num_gpus": 8,
    "gpu_name": "NVIDIA H100 80GB HBM3",
    "gpu_memory_mib": 81559,
    "compute_capability": [9, 0],
    "cuda_version": "13.0",
    "env": {},
}
Question = Mapping[str, Any]  # {"argv": words, "env": {name: value or None}, "id": anything}


@dataclass(frozen=True)
class Answer:
    """What the real validation did with one launch. `file`, `first` and `last` hold the statement that raised."""

    outcome: str  # "ok", "argparse", "exception", "exit", "timeout", "crash"
    exception: str | None
    message: str
    file: str | None = None
    first: int = 0
    last: int = 0
    log: str = ""  # what the launch prints when it fails


Env = Sequence[tuple[str, str]]


def facts_names() -> tuple[str, ...]:
    return tuple(sorted(p.stem for p in FACTS.glob("*.json")))


def model_names() -> tuple[str, ...]:
    return tuple(sorted(f"models/{p.parent.name}" for p in MODELS.glob("*/config.json")))


@cache
def real_actions(release: str) -> list[dict[str, Any]]:
    """The flags of the real parser."""
    made: list[dict[str, Any]] = json.loads(run_harness(release, ["--actions"]))
    return made


def ask_all(release: str, facts: str, questions: Sequence[Question], omit: Sequence[str], env: Env = ()) -> list[dict[str, Any]]:
    """The harness's answers, in their order, without some keys. `env` is set before the package is imported."""
    text = "".join(json.dumps(dict(q)) + "\n" for q in questions)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        raw = json.loads((FACTS / f"{facts}.json").read_text())
        file.write(json.dumps({**raw, "env": {**raw.get("env", {}), **dict(env)}}))
        file.flush()
        words = ["--facts", file.name, "--batch", "--jobs", "2", "--omit", ",".join(omit)]
        answers = [json.loads(line) for line in run_harness(release, words, text).splitlines()] if questions else []
    assert len(answers) == len(questions)
    return answers


def read_answer(answer: Mapping[str, Any]) -> Answer:
    """From what the harness says."""
    frame = answer.get("frame") or {}
    message = answer.get("message") or ""
    log = answer.get("traceback") or (f"usage: launch_server.py [-h]\n{message}\n" if answer["outcome"] == "argparse" else "")
    name = f"sglang/{frame['file']}" if frame else None
    return Answer(answer["outcome"], answer.get("exception"), message, name, frame.get("first", 0), frame.get("last", 0), log)


def ask(release: str, facts: str, launches: Sequence[Sequence[str]], env: Env = ()) -> list[Answer]:
    """What the real validation does with each launch, in its own process. `env` is set before the package is imported."""
    questions = [{"argv": list(argv)} for argv in launches]
    return [read_answer(a) for a in ask_all(release, facts, questions, ("settings", "frames", "records"), env)]


def env_names(release: str, prefixes: Sequence[str], args_class: str) -> tuple[str, ...]:
    """Names of environment variables that stand in the module of the args class, or in a folder of the package whose name
    says that it is about arguments."""
    root = site_of(release)
    module = root / (args_class.rpartition(".")[0].replace(".", "/") + ".py")
    files = [module, *(p for p in sorted(module.parent.glob("arg*/**/*.py")))]
    starts = "|".join(map(re.escape, prefixes))
    pattern = re.compile(rf"""(?:["']|envs\.)((?:{starts})\w+)""")
    return tuple(sorted({name for p in files for name in pattern.findall(p.read_text()) if name.isupper()}))


def kind_of(path: str) -> str:
    """What stands at a path as seen from the folder that a launch runs in, as Facts name it: it holds the models, and no more."""
    if not path.startswith("/") and Path(path).parts[:1] not in ((), (MODELS.name,)):
        return "absent"
    full = MODELS.parent / path
    return "dir" if full.is_dir() else "file" if full.is_file() else "absent"


class Evaluators:
    """Our evaluator over one installed release, with the platforms of the oracle's facts files."""

    def __init__(self, release: str, launches: Iterable[Sequence[str]] = (), texts: Mapping[str, str] | None = None) -> None:
        """`launches` name files and folders; whether these exist, and the `texts` of some, is what a capture tells."""
        self.tree = FolderTree(site_of(release))
        self.profile = load_profile("sglang")
        self.program = Program(self.tree, self.profile.package)
        told = json.loads(run_harness(release, ["--packages"]))
        self.packages, self.python, self.machine = told["packages"], told["python"], told["machine"]
        self.models = [ModelConfig(m, (MODELS.parent / m / "config.json").read_text(), ("config.json",)) for m in model_names()]
        words = {w.partition("=")[2] if w.startswith("--") else w for argv in launches for w in argv}
        self.paths = {w: kind_of(w) for w in words if w and len(w) < 200}
        self.texts = dict(texts or {})
        self.made: dict[tuple[str, tuple[tuple[str, str], ...]], Evaluator] = {}

    def get(self, facts: str, env: Env = ()) -> Evaluator:
        key = (facts, tuple(env))
        if key not in self.made:
            raw = {**_DEFAULTS, **json.loads((FACTS / f"{facts}.json").read_text())}
            full = {**raw["env"], **dict(env)}
            self.made[key] = Evaluator(self.program, self.profile, self.facts(raw), full, self.models)
        return self.made[key]

    def facts(self, raw: dict[str, Any]) -> Facts:
        cuda = raw["device"] == "cuda"
        capability = ".".join(str(n) for n in raw["compute_capability"])
        return Facts(
            device=raw["device"],
            gpu_name=raw["gpu_name"] if cuda else None,
            gpu_count=raw["num_gpus"],
            gpu_memory_mib=raw["gpu_memory_mib"] if cuda else None,
            compute_capability=capability if cuda else None,
            cuda_version=raw["cuda_version"] if cuda else None,
            python_version=self.python,
            machine=self.machine,
            packages=self.packages,
            paths={**self.paths, **{f"{m}/generation_config.json": "absent" for m in model_names()}},
            texts=self.texts,
        )


__all__ = ["ORACLE", "ORACLE_HOME", "RELEASES", "SHARED", "Answer", "Evaluators", "ask", "run_python", "why_absent"]
