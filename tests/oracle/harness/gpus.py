"""GPUs that are not there, as torch, NVML and nvidia-smi would tell of them.

Everything is replaced before the release is imported, in the libraries that it asks; the release itself is left as it is.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

from .machine import Machine

FREE = 0.99  # of the memory: a driver keeps some for itself
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY")


def set_environment(machine: Machine) -> None:
    """The variables of the facts, and those that keep the Hugging Face libraries off the network."""
    for name in _OFFLINE:
        os.environ[name] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    for name, value in machine.env.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = str(value)


def fake_gpus(machine: Machine, torch: Any) -> None:
    """Put the machine's GPUs, or their absence, in place of the real ones."""
    if machine.has_cuda:
        _fake_torch(machine, torch)
        if "nvidia-ml-py" not in machine.missing_packages:
            sys.modules["pynvml"] = _make_nvml(machine)
    _fake_nvidia_smi(machine)


def _fake_torch(machine: Machine, torch: Any) -> None:
    major, minor = machine.compute_capability
    free, total = int(machine.memory_bytes * FREE), machine.memory_bytes
    properties = SimpleNamespace(
        name=machine.gpu_name,
        major=major,
        minor=minor,
        total_memory=total,
        multi_processor_count=machine.multi_processor_count,
        warp_size=32,
        is_integrated=0,
        gcnArchName="",  # says that it is none of AMD's
        L2_cache_size=50 << 20,
        shared_memory_per_block_optin=227 << 10,
    )

    @contextlib.contextmanager
    def device(_index: Any = None) -> Iterator[None]:
        yield

    answers: dict[str, Callable[..., Any]] = {
        "is_available": lambda: True,
        "is_initialized": lambda: False,
        "device_count": lambda: machine.num_gpus,
        "current_device": lambda: 0,
        "get_device_name": lambda device=None: machine.gpu_name,
        "get_device_capability": lambda device=None: (major, minor),
        "get_device_properties": lambda device=None: properties,
        "get_arch_list": lambda: [f"sm_{major}{minor}"],
        "is_bf16_supported": lambda including_emulation=True: major >= 8,
        "mem_get_info": lambda device=None: (free, total),
        "memory_allocated": lambda device=None: 0,
        "memory_reserved": lambda device=None: 0,
        "set_device": lambda device: None,
        "synchronize": lambda device=None: None,
        "empty_cache": lambda: None,
        "device": device,
        "_get_nvml_device_index": lambda device: 0,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
    torch.version.cuda = machine.cuda_version


def _make_nvml(machine: Machine) -> ModuleType:
    module: Any = ModuleType("pynvml")
    module.__spec__ = importlib.machinery.ModuleSpec("pynvml", None)
    total, free = machine.memory_bytes, int(machine.memory_bytes * FREE)
    module.NVMLError = type("NVMLError", (Exception,), {})
    module.NVMLError_NotSupported = type("NVMLError_NotSupported", (module.NVMLError,), {})
    module.nvmlInit = lambda: None
    module.nvmlShutdown = lambda: None
    module.nvmlDeviceGetCount = lambda: machine.num_gpus
    module.nvmlDeviceGetHandleByIndex = lambda index: index
    module.nvmlDeviceGetName = lambda handle: machine.gpu_name
    module.nvmlDeviceGetCudaComputeCapability = lambda handle: machine.compute_capability
    module.nvmlDeviceGetMemoryInfo = lambda handle: SimpleNamespace(total=total, free=free, used=total - free)
    module.nvmlSystemGetDriverVersion = lambda: machine.driver_version
    made: ModuleType = module
    return made


def _fake_nvidia_smi(machine: Machine) -> None:
    """`subprocess.run`, and what is made of it, finds a program that answers --query-gpu, or none."""
    real = subprocess.run
    told = {
        "name": machine.gpu_name,
        "memory.total": str(machine.gpu_memory_mib),
        "compute_cap": machine.capability,
        "driver_version": machine.driver_version,
    }

    def run(*popenargs: Any, **given: Any) -> Any:
        command = popenargs[0] if popenargs else given.get("args", ())
        words = command.split() if isinstance(command, str) else [str(w) for w in command]
        if not words or os.path.basename(words[0]) != "nvidia-smi":
            return real(*popenargs, **given)
        if not machine.has_cuda:
            raise FileNotFoundError(2, "No such file or directory", "nvidia-smi")
        asked = next((w.partition("=")[2].split(",") for w in words if w.startswith("--query-gpu=")), [])
        row = ", ".join(told.get(name, "[N/A]") for name in asked) + "\n"
        said = row * machine.num_gpus if asked else ""
        is_text = given.get("text") or given.get("universal_newlines") or given.get("encoding")
        empty, out = ("", said) if is_text else (b"", said.encode())
        return subprocess.CompletedProcess(command, 0, out, empty)

    subprocess.run = run


def ease_imports(torch: Any) -> None:
    """What modules do with torch while they are imported: compile functions, and describe kernels that nobody registered."""

    def compile_nothing(model: Any = None, **given: Any) -> Any:
        return model if model is not None else lambda function: function

    real = torch.library.register_fake

    def register_fake(op: Any, func: Any = None, /, **given: Any) -> Any:
        def register(function: Any) -> Any:
            try:
                return real(op, function, **given)
            except RuntimeError as error:
                if "does not exist" in str(error):
                    return function
                raise

        return register if func is None else register(func)

    torch.compile = compile_nothing
    torch.library.register_fake = register_fake
