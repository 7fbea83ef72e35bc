"""What torch and nvidia-smi answer about the devices of the host, from `Facts`.

Source: the documentation of torch.cuda.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from triage.analysis.evaluate.values import External, Instance, TargetRaise, Unknown, Value, has_unknown, show

if TYPE_CHECKING:
    from triage.analysis.evaluate.machine import Machine

Args = list[Value]
Named = dict[str, Value]
Handler = Callable[["Machine", Args, Named], Value]


def _cuda_available(w: Machine, args: Args, named: Named) -> Value:
    device = w.facts.device
    return (
        Unknown("torch.cuda.is_available()", "whether a CUDA device is there is not known")
        if device is None
        else device in ("cuda", "hip", "musa")
    )


def _device_count(w: Machine, args: Args, named: Named) -> Value:
    if w.facts.gpu_count is not None:
        return w.facts.gpu_count
    if w.facts.device == "cpu":
        return 0
    return Unknown("torch.cuda.device_count()", "the number of GPUs is not known")


def _needs_cuda(w: Machine) -> None:
    """What torch.cuda/__init__.py `_lazy_init` raises on a host without a GPU."""
    if w.facts.device == "cpu":
        if "+cpu" in w.facts.packages.get("torch", ""):
            raise TargetRaise(AssertionError, ("Torch not compiled with CUDA enabled",))
        raise TargetRaise(RuntimeError, ("Found no NVIDIA driver on your system.",))


def _capability(w: Machine, args: Args, named: Named) -> Value:
    _needs_cuda(w)
    return _capability_parts(w)


def _capability_parts(w: Machine) -> tuple[Value, Value]:
    text = w.facts.compute_capability
    if text is None:
        why = "the GPU's compute capability is not known"
        parts_ = [Unknown(f"torch.cuda.get_device_capability()[{i}]", why) for i in range(2)]
        return (parts_[0], parts_[1])
    parts = [int(p) for p in re.findall(r"\d+", text)[:2]]
    return (parts[0], parts[1] if len(parts) > 1 else 0)


def _device_name(w: Machine, args: Args, named: Named) -> Value:
    _needs_cuda(w)
    name = w.facts.gpu_name
    return Unknown("torch.cuda.get_device_name()", "the GPU's name is not known") if name is None else name


def _properties(w: Machine, args: Args, named: Named) -> Value:
    attrs: dict[str, Value] = {}
    capability = _capability(w, [], {})
    attrs["major"], attrs["minor"] = capability[0], capability[1]
    attrs["name"] = _device_name(w, [], {})
    if w.facts.gpu_memory_mib is not None:
        attrs["total_memory"] = w.facts.gpu_memory_mib * 1024 * 1024
    return Instance(External("torch.cuda.DeviceProperties"), attrs, opaque="torch.cuda.get_device_properties()")


def _memory_info(w: Machine, args: Args, named: Named) -> Value:
    _needs_cuda(w)
    total: Value = Unknown("torch.cuda.mem_get_info()[1]", "the GPU's memory is not known")
    if w.facts.gpu_memory_mib is not None:
        total = w.facts.gpu_memory_mib * 1024 * 1024
    return (Unknown("torch.cuda.mem_get_info()[0]", "the free GPU memory is not known"), total)


def _nvml(answer: Callable[[Machine], Value]) -> Handler:
    """A call of pynvml (nvidia-ml-py), which every host with an NVIDIA driver can answer."""

    def run(w: Machine, args: Args, named: Named) -> Value:
        if w.facts.device != "cuda":
            return Unknown("pynvml", "what NVML answers on this host is not known")
        return answer(w)

    return run


def _nvml_memory(w: Machine) -> Value:
    free, total = _memory_info(w, [], {})
    return Instance(External("pynvml.Memory"), {"total": total, "free": free}, opaque="nvmlDeviceGetMemoryInfo()")


def _run(w: Machine, args: Args, named: Named) -> Value:
    """`nvidia-smi --query-gpu=memory.total`: the one command that validation runs and that facts answer."""
    command = args[0] if args else named.get("args")
    words = command if isinstance(command, list) else str(command).split()
    if words and not has_unknown(words) and str(words[0]).endswith("nvidia-smi"):
        query = next((str(x) for x in words if str(x).startswith("--query-gpu=")), "")
        facts = w.facts
        if facts.device is not None and facts.device != "cuda":
            raise TargetRaise(FileNotFoundError, (2, "No such file or directory"))
        answer = {
            "--query-gpu=memory.total": facts.gpu_memory_mib,
            "--query-gpu=compute_cap": facts.compute_capability,
            "--query-gpu=name": facts.gpu_name,
        }.get(query)
        if answer is not None:
            text = f"{answer}\n" * (facts.gpu_count or 1)
            return Instance(External("subprocess.CompletedProcess"), {"stdout": text, "stderr": "", "returncode": 0})
    return Instance(External("subprocess.CompletedProcess"), opaque=f"{show(command)[:80]}")


HANDLERS: dict[str, Handler] = {
    "pynvml.nvmlInit": _nvml(lambda w: None),
    "pynvml.nvmlShutdown": _nvml(lambda w: None),
    "pynvml.nvmlDeviceGetCount": _nvml(lambda w: _device_count(w, [], {})),
    "pynvml.nvmlDeviceGetHandleByIndex": _nvml(lambda w: Instance(External("pynvml.Device"), opaque="NVML device")),
    "pynvml.nvmlDeviceGetCudaComputeCapability": _nvml(_capability_parts),
    "pynvml.nvmlDeviceGetName": _nvml(lambda w: _device_name(w, [], {})),
    "pynvml.nvmlDeviceGetMemoryInfo": _nvml(_nvml_memory),
    "torch.cuda.is_available": _cuda_available,
    "torch.cuda.device_count": _device_count,
    "torch.cuda.get_device_capability": _capability,
    "torch.cuda.get_device_name": _device_name,
    "torch.cuda.get_device_properties": _properties,
    "torch.cuda.mem_get_info": _memory_info,
    "torch.cpu.is_available": lambda w, a, n: True,
    "torch.cuda.current_device": lambda w, a, n: 0,
    "torch.cuda.is_initialized": lambda w, a, n: False,
    "subprocess.run": _run,
}
