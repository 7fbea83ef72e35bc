"""Real sglang releases that run without a GPU: where they are, what they are told of the platform, what they answer.

The oracle is a folder (`oracle.py`, `facts/`, `models/`) below TRIAGE_SHARED, and releases installed below ORACLE_HOME
(default /opt/oracle). What it answers is the truth; nothing here imports sglang into this process.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from triage.analysis.evaluate import Evaluator, Program
from triage.analysis.trees import FolderTree
from triage.knowledge import load_profile
from triage.model import Facts, ModelConfig

SHARED = Path(os.environ.get("TRIAGE_SHARED") or Path(__file__).resolve().parents[2].parent / "shared")
ORACLE = SHARED / "oracle"
ORACLE_HOME = Path(os.environ.get("ORACLE_HOME") or "/opt/oracle")
RELEASES = ("0.4.6.post5", "0.5.5", "0.5.11", "0.5.16", "0.5.23")
# The oracle's own defaults, for what a facts file leaves out.
_DEFAULTS = {
    "num_gpus": 8,
    "gpu_name": "NVIDIA H100 80GB HBM3",
    "gpu_memory_mib": 81559,
    "compute_capability": [9, 0],
    "cuda_version": "13.0",
    "env": {},
}

# Names and versions that a release sees: real distributions of its environment, and its declared dependencies, for which
# the oracle has stand-ins. The import name counts as a package of its own where it differs.
_PACKAGES = """
import importlib.metadata, json, sys
sys.path.insert(0, sys.argv[1])
import oracle_stubs
found = {}
for dist in importlib.metadata.distributions():
    found.setdefault(oracle_stubs.norm(dist.metadata["Name"]), dist.version)
wanted = {"triton": None, **oracle_stubs.declared()}
for dist, pin in wanted.items():
    if dist in oracle_stubs.DIST_TO_IMPORT:
        for name in [dist, *oracle_stubs.DIST_TO_IMPORT[dist]]:
            found.setdefault(oracle_stubs.norm(name), pin or "99.0.0")
import platform
print(json.dumps([found, platform.python_version(), platform.machine()]))
"""


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


def why_absent(release: str) -> str | None:
    """Why the oracle cannot be asked about a release; None when it can."""
    if not (ORACLE / "oracle.py").is_file():
        return f"not here: no oracle in {SHARED} (set TRIAGE_SHARED)"
    if not (ORACLE_HOME / release / "bin/python").exists():
        return f"not here: sglang {release} is not installed in {ORACLE_HOME} (set ORACLE_HOME)"
    return None


def facts_names() -> tuple[str, ...]:
    return tuple(sorted(p.stem for p in (ORACLE / "facts").glob("*.json")))


def model_names() -> tuple[str, ...]:
    return tuple(sorted(f"models/{p.parent.name}" for p in (ORACLE / "models").glob("*/config.json")))


def _python(release: str, args: Sequence[str], text: str = "") -> str:
    command = [str(ORACLE_HOME / release / "bin/python"), *args]
    done = subprocess.run(command, input=text, cwd=ORACLE, capture_output=True, text=True, timeout=1800, check=False)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)[:200]} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


@cache
def real_actions(release: str) -> list[dict[str, Any]]:
    """The flags of the real parser."""
    made: list[dict[str, Any]] = json.loads(_python(release, ["oracle.py", "--actions"]))
    return made


def ask(release: str, facts: str, launches: Sequence[Sequence[str]], env: Env = ()) -> list[Answer]:
    """What the real validation does with each launch, in its own process. `env` is set before the package is imported."""
    lines = "".join(json.dumps({"argv": list(argv)}) + "\n" for argv in launches)
    omit = "resolved,frames,log_warnings"
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        raw = json.loads((ORACLE / "facts" / f"{facts}.json").read_text())
        file.write(json.dumps({**raw, "env": {**raw.get("env", {}), **dict(env)}}))
        file.flush()
        args = ["oracle.py", "--facts", file.name, "--batch", "--jobs", "2", "--omit", omit]
        answers = [json.loads(line) for line in _python(release, args, lines).splitlines()]
    assert len(answers) == len(launches)
    out = []
    for a in answers:
        frame = a.get("frame") or {}
        name = f"sglang/{frame['file']}" if "file" in frame else None
        span = (frame.get("statement_line", 0), frame.get("statement_end_line", 0))
        message = a.get("message") or ""
        log = a.get("traceback_launch") or (f"usage: launch_server.py [-h]\n{message}\n" if a["outcome"] == "argparse" else "")
        out.append(Answer(a["outcome"], a.get("exception"), message, name, *span, log=log))
    return out


def env_names(release: str, prefixes: Sequence[str], args_class: str) -> tuple[str, ...]:
    """Names of environment variables that stand in the module of the args class, or in a folder of the package whose name
    says that it is about arguments."""
    root = next((ORACLE_HOME / release / "lib").glob("python*/site-packages"))
    module = root / (args_class.rpartition(".")[0].replace(".", "/") + ".py")
    files = [module, *(p for p in sorted(module.parent.glob("arg*/**/*.py")))]
    starts = "|".join(map(re.escape, prefixes))
    pattern = re.compile(rf"""(?:["']|envs\.)((?:{starts})\w+)""")
    return tuple(sorted({name for p in files for name in pattern.findall(p.read_text()) if name.isupper()}))


def kind_of(path: str) -> str:
    """What stands at a path as seen from the oracle's folder, as Facts name it."""
    full = ORACLE / path
    return "dir" if full.is_dir() else "file" if full.is_file() else "absent"


class Evaluators:
    """Our evaluator over one installed release, with the platforms of the oracle's facts files."""

    def __init__(self, release: str, launches: Iterable[Sequence[str]] = (), texts: Mapping[str, str] | None = None) -> None:
        """`launches` name files and folders; whether these exist, and the `texts` of some, is what a capture tells."""
        site = next((ORACLE_HOME / release / "lib").glob("python*/site-packages"))
        self.tree = FolderTree(site)
        self.profile = load_profile("sglang")
        self.program = Program(self.tree, self.profile.package)
        self.packages, self.python, self.machine = json.loads(_python(release, ["-c", _PACKAGES, str(ORACLE)]))
        self.models = [ModelConfig(m, (ORACLE / m / "config.json").read_text(), ("config.json",)) for m in model_names()]
        words = {w.partition("=")[2] if w.startswith("--") else w for argv in launches for w in argv}
        self.paths = {w: kind_of(w) for w in words if w and len(w) < 200}
        self.texts = dict(texts or {})
        self.made: dict[tuple[str, tuple[tuple[str, str], ...]], Evaluator] = {}

    def get(self, facts: str, env: Env = ()) -> Evaluator:
        key = (facts, tuple(env))
        if key not in self.made:
            raw = {**_DEFAULTS, **json.loads((ORACLE / "facts" / f"{facts}.json").read_text())}
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
