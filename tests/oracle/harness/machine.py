"""The machine that a release is told of, read from a facts file."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Machine:
    """A host whose GPUs are all alike; memory in MiB. What a facts file leaves out is as here."""

    device: str = "cuda"  # or "cpu": no GPU, and no driver
    num_gpus: int = 8
    gpu_name: str = "NVIDIA H100 80GB HBM3"
    gpu_memory_mib: int = 81559
    compute_capability: tuple[int, int] = (9, 0)
    cuda_version: str = "13.0"
    driver_version: str = "580.82.07"
    multi_processor_count: int = 132
    missing_packages: tuple[str, ...] = ()  # declared by the release, and not there
    extra_packages: tuple[str, ...] = ()  # there, and not declared
    env: Mapping[str, str | None] = field(default_factory=dict)  # None: unset

    @property
    def has_cuda(self) -> bool:
        return self.device == "cuda"

    @property
    def memory_bytes(self) -> int:
        return self.gpu_memory_mib * 1024 * 1024

    @property
    def capability(self) -> str:
        return "{}.{}".format(*self.compute_capability)


def make_machine(table: Mapping[str, Any]) -> Machine:
    """From the content of a facts file. Raises ValueError for a key that no machine has."""
    names = {f.name for f in dataclasses.fields(Machine)}
    unknown = sorted(set(table) - names)
    if unknown:
        raise ValueError(f"no facts of a machine: {', '.join(unknown)}; known: {', '.join(sorted(names))}")
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in table.items()}
    return Machine(**values)


def read_machine(path: Path) -> Machine:
    """From a facts file. Raises OSError and ValueError."""
    return make_machine(json.loads(path.read_text(encoding="utf-8")))
