"""The real releases, the five failing launches, and what a lab host needs so that it looks like a host with eight H100s."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("TRIAGE_SHARED") or ROOT.parent / "shared").resolve()
ORACLE_HOME = Path(os.environ.get("ORACLE_HOME") or "/opt/oracle")
MODELS = SHARED / "oracle" / "models"
FACTS = SHARED / "oracle" / "facts" / "h100x8.json"
VERSIONS = ("0.5.11", "0.5.23")
STANDINS = "/srv/standins"  # on the host
TOOLS = "/srv/tools"  # on the host

# What a user says of such a host beside a bare log.
TOLD_FACTS = {
    "device": "cuda",
    "gpu_name": "NVIDIA H100 80GB HBM3",
    "gpu_count": "8",
    "gpu_memory_mib": "81559",
    "compute_capability": "9.0",
    "cuda_version": "13.0",
}

_EAGLE = (
    *("--model-path", str(MODELS / "kimi-k2"), "--trust-remote-code", "--speculative-algorithm", "EAGLE3"),
    *("--speculative-draft-model-path", str(MODELS / "eagle3-llama")),
)
_HYBRID = (
    *("--model-path", str(MODELS / "qwen3-next"), "--trust-remote-code", "--speculative-algorithm", "NEXTN"),
    *("--speculative-num-draft-tokens", "1"),
)
CASES: dict[str, tuple[str, ...]] = {
    "e1": (*_EAGLE, "--speculative-num-draft-tokens", "3", "--speculative-eagle-topk", "4"),
    "e2": (*_EAGLE, "--speculative-num-draft-tokens", "3"),
    "e3": (*_EAGLE, "--speculative-num-steps", "1", "--speculative-num-draft-tokens", "3"),
    "n1": _HYBRID,
    "n2": (*_HYBRID, "--mamba-scheduler-strategy", "extra_buffer"),
}


@dataclass(frozen=True)
class Launch:
    """One failing launch of one release, as a unit of the lab host."""

    version: str
    case: str

    @property
    def name(self) -> str:
        return f"{self.case}-{self.version}"

    @property
    def unit(self) -> str:
        return f"sg-{self.case}-{self.version.replace('.', '')}.service"

    @property
    def port(self) -> int:
        return 30000 + 100 * VERSIONS.index(self.version) + list(CASES).index(self.case)

    @property
    def args(self) -> tuple[str, ...]:
        return (*CASES[self.case], "--port", str(self.port))

    @property
    def log(self) -> Path:
        """The log of this launch as it was captured once."""
        return ROOT / "fixtures" / "logs" / f"sglang-{self.version}-{self.case}.log"


LAUNCHES = tuple(Launch(version, case) for version in VERSIONS for case in CASES)


def find_releases() -> str:
    """Why the real releases or the oracle are not here, empty when they are."""
    if not (SHARED / "oracle" / "oracle.py").is_file():
        return f"no oracle: {SHARED / 'oracle'} does not exist (set TRIAGE_SHARED)"
    missing = [v for v in VERSIONS if not python_of(v).exists()]
    return f"no real sglang {', '.join(missing)} under {ORACLE_HOME} (set ORACLE_HOME)" if missing else ""


def python_of(version: str) -> Path:
    return ORACLE_HOME / version / "bin" / "python"


def source_of(version: str) -> Path:
    """The folder that a user would give to --source."""
    return next(p for p in sorted((ORACLE_HOME / version / "lib").glob("python*/site-packages")) if (p / "sglang").is_dir())


def unit_text(version: str, args: Sequence[str], environment: Mapping[str, str] = {}) -> str:
    """A unit as operators write it: continued lines, a list of variables, and settings that are none of our business."""
    variables = {
        "PYTHONPATH": f"{STANDINS}/{version}:{SHARED / 'lab' / 'engine'}",
        "PATH": f"{TOOLS}:/usr/local/bin:/usr/bin:/bin",
        "LAB_FACTS": str(FACTS),
        "LAB_LOAD_SECONDS": "0.2",
        "PYTHONUNBUFFERED": "1",
        **environment,
    }
    lines = "".join(f'Environment="{name}={value}"\n' for name, value in variables.items())
    command = " \\\n  ".join(_pair_flags(args))
    return (
        f"[Unit]\nDescription=sglang {version}\nAfter=network.target\n\n[Service]\nType=simple\n{lines}"
        f"WorkingDirectory=/srv\n# served to the team\nExecStart={python_of(version)} -m sglang.launch_server \\\n  {command}\n"
        "Restart=no\nTimeoutStopSec=10\n\n[Install]\nWantedBy=multi-user.target\n"
    )


def _pair_flags(args: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for word in args:
        if word.startswith("--") or not lines:
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    return lines


def nvidia_smi() -> str:
    """A program that answers the two questions that are asked of nvidia-smi, as eight H100s would."""
    facts = json.loads(FACTS.read_text())
    capability = ".".join(map(str, facts["compute_capability"]))
    rows = "".join(
        f"{i}, GPU-0000000{i}-0000-0000-0000-000000000000, {facts['gpu_name']}, {facts['gpu_memory_mib']}, {capability}\\n"
        for i in range(facts["num_gpus"])
    )
    return (
        "#!/bin/sh\ncase $1 in\n"
        f"--query-gpu=index,uuid,name,memory.total,compute_cap) printf '{rows}' ;;\n"
        f"'') echo '| NVIDIA-SMI {facts['driver_version']}   Driver Version: {facts['driver_version']}   "
        f"CUDA Version: {facts['cuda_version']}     |' ;;\n"
        "*) exit 6 ;;\nesac\n"
    )


_DECLARED = """
import importlib.metadata, json, sys
sys.path.insert(0, sys.argv[1])
import oracle_stubs
found = {}
for name, pin in {"triton": None, **oracle_stubs.declared()}.items():
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        if name in oracle_stubs.DIST_TO_IMPORT:
            found[name] = (pin or "99.0.0", oracle_stubs.DIST_TO_IMPORT[name])
print(json.dumps(found))
"""


def stand_ins(version: str) -> dict[str, str]:
    """{path: text}: the metadata of the packages that the oracle's stand-ins take the place of.

    The lab's engine makes these importable in the server; with their metadata they are installed for every reader of the
    host, as they are where `pip install sglang` ran.
    """
    done = subprocess.run(
        [python_of(version), "-c", _DECLARED, str(SHARED / "oracle")], capture_output=True, check=True, timeout=60
    )
    files: dict[str, str] = {}
    for name, (number, modules) in json.loads(done.stdout).items():
        folder = f"{STANDINS}/{version}/{name.replace('-', '_')}-{number}.dist-info"
        files[f"{folder}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n"
        files[f"{folder}/top_level.txt"] = "".join(f"{module}\n" for module in modules)
    return files


@cache
def ask_oracle(version: str, argv: tuple[str, ...]) -> dict[str, Any]:
    """What the real validation says of this argv on eight H100s."""
    return ask_oracle_all(version, [argv])[0]


def ask_oracle_all(version: str, launches: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """One answer for each argv, in their order."""
    lines = "".join(json.dumps(list(argv)) + "\n" for argv in launches)
    with tempfile.TemporaryFile() as out:
        subprocess.run(
            [python_of(version), SHARED / "oracle" / "oracle.py", "--facts", FACTS, "--batch", "--omit", "frames"],
            input=lines.encode(), stdout=out, stderr=subprocess.DEVNULL, check=True, timeout=200, cwd=SHARED / "oracle",
        )  # fmt: skip
        out.seek(0)
        return [json.loads(line) for line in out.read().splitlines()]
