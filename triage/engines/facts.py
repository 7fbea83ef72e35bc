"""Raw answers of a host -> Facts. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from triage.model import Facts, JsonValue
from triage.protocols import EngineInstall


@dataclass(frozen=True)
class _Gpu:
    uuid: str
    name: str
    memory_mib: int | None
    capability: str | None


def build_facts(answer: dict[str, JsonValue], install: EngineInstall, visible: str | None) -> Facts:
    """Facts from the answer of the FACTS probe; `visible` is the launch's CUDA_VISIBLE_DEVICES, None when it has none."""
    torch = _torch_version(_text(answer.get("torch")))
    gpus = _visible_gpus(_parse_gpus(_text(answer.get("gpus"))), visible)
    devices = answer.get("devices")
    device = _device(bool(gpus), devices if isinstance(devices, list) else [], torch)
    header = re.search(r"CUDA Version:\s*([0-9]+\.[0-9]+)", _text(answer.get("smi")))
    paths = answer.get("paths")
    amd = _parse_rocm(_text(answer.get("rocm"))) if device == "hip" else []
    shown = gpus or amd
    counted = len(shown) if shown or device == "cpu" else None
    return Facts(
        device=device,
        gpu_name=shown[0].name if shown else None,
        gpu_count=counted,
        gpu_memory_mib=shown[0].memory_mib if shown else None,
        compute_capability=shown[0].capability if shown else None,
        # What the engine's own torch was built for; the driver's ceiling only where that is not known.
        cuda_version=torch.get("cuda") or (header.group(1) if header and gpus else None),
        python_version=install.python_version,
        machine=_text(answer.get("machine")) or None,
        packages=install.packages,
        paths={k: v for k, v in paths.items() if isinstance(v, str)} if isinstance(paths, dict) else {},
    )


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""


def _torch_version(text: str) -> dict[str, str]:
    """The string constants of torch/version.py, which is read as text."""
    found = re.findall(r"^(cuda|hip|xpu|__version__)\s*(?::[^=\n]+)?=\s*['\"]([^'\"\n]*)['\"]", text, re.M)
    return dict(found)


def _parse_gpus(text: str) -> list[_Gpu]:
    gpus = []
    for line in text.splitlines():
        parts = [p.strip() for p in line.split(",")]
        if len(parts) == 5 and parts[0].isdigit():
            capability = parts[4] if re.fullmatch(r"[0-9]+\.[0-9]+", parts[4]) else None
            gpus.append(_Gpu(parts[1], parts[2], int(parts[3]) if parts[3].isdigit() else None, capability))
    return gpus


def _parse_rocm(text: str) -> list[_Gpu]:
    try:
        cards = json.loads(text) if text else {}
    except ValueError:
        return []
    gpus = []
    for key in sorted(cards) if isinstance(cards, dict) else []:
        card = cards[key]
        if not key.startswith("card") or not isinstance(card, dict):
            continue
        memory = str(card.get("VRAM Total Memory (B)", ""))
        name = str(card.get("Card Series") or card.get("Card series") or "") or "AMD GPU"
        gpus.append(_Gpu("", name, int(memory) // (1 << 20) if memory.isdigit() else None, None))
    return gpus


def _visible_gpus(gpus: list[_Gpu], visible: str | None) -> list[_Gpu]:
    """As CUDA reads the variable: the list ends at the first entry that names no GPU; a repeated entry makes it empty."""
    if visible is None:
        return gpus
    chosen: list[_Gpu] = []
    for word in (w.strip() for w in visible.split(",")):
        if word.isdigit() and int(word) < len(gpus):
            gpu = gpus[int(word)]
        else:
            matches = [g for g in gpus if word and g.uuid.startswith(word)]
            if len(matches) != 1:
                break
            gpu = matches[0]
        if gpu in chosen:
            return []
        chosen.append(gpu)
    return chosen


def _device(has_cuda: bool, devices: list[JsonValue], torch: dict[str, str]) -> str:
    if has_cuda:
        return "cuda"
    if "/dev/kfd" in devices and "hip" in torch:
        return "hip"
    if "/dev/davinci0" in devices:
        return "npu"
    if "/dev/accel/accel0" in devices and "xpu" not in torch:
        return "hpu"
    if "/dev/dri/renderD128" in devices and "xpu" in torch:
        return "xpu"
    return "cpu"
