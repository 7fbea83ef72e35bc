"""Names outside the package: what the standard library, torch and the host answer, from the capture's facts.

Sources: the libraries' documentation. Only pure functions of the standard library are run; everything that would
touch a device, a file, the network or a clock is answered from `Facts`, or is unknown.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from triage.analysis.evaluate import devices, missing, packages, records
from triage.analysis.evaluate.classes import MISSING, NODEFAULT
from triage.analysis.evaluate.packages import normal_name
from triage.analysis.evaluate.pure import IDENTITY, NO_EFFECT, PURE, WHOLE
from triage.analysis.evaluate.values import (
    ABSENT,
    Bound,
    Class,
    External,
    Func,
    Instance,
    Native,
    TargetRaise,
    Unknown,
    Value,
    Wrapped,
    show,
)

if TYPE_CHECKING:
    from triage.analysis.evaluate.machine import Machine

Args = list[Value]
Named = dict[str, Value]
Handler = Callable[["Machine", Args, Named], Value]


_ACCELERATORS = ("xpu", "npu", "hpu", "mps", "musa", "mlu")


class ExternalModel:
    """Answers for one machine; `world` calls `attribute`, `has` and `call`."""

    def __init__(self, world: Machine) -> None:
        self.world = world
        self.handlers: dict[str, Handler] = dict(_HANDLERS)

    # ------------------------------------------------ attributes
    def attribute(self, path: str) -> Value:
        w, facts = self.world, self.world.facts
        known = _CONSTANTS.get(path, ABSENT)
        if known is not ABSENT:
            return known
        module, _, name = path.rpartition(".")
        pure = PURE.get(module)
        if pure is not None and name in pure:
            value = pure[name]
            if callable(value) and not isinstance(value, type):
                return Native(path, lambda w, a, n: w.call_pure(value, path, a, n))
            return value
        if module in WHOLE and name not in WHOLE[module] and not name.startswith("__"):
            raise TargetRaise(AttributeError, (f"module '{module}' has no attribute '{name}'",))
        if path in ("os.environ", "os.environb"):
            return Instance(External("os._Environ"), {"__items__": w.env})
        if path == "sys.argv":
            return list(w.argv)
        if path == "sys.modules":
            return {}
        if path == "sys.version_info":
            if facts.python_version is None:
                return Unknown("sys.version_info", "the Python version is not known")
            parts = [int(p) for p in re.findall(r"\d+", facts.python_version)[:3]]
            return (*parts, *([0] * (3 - len(parts))))
        if path == "torch.version.cuda":
            if facts.cuda_version is not None:
                return facts.cuda_version
            return Unknown(path, "the CUDA version is not known") if facts.device in (None, "cuda") else None
        if path in ("torch.version.hip", "torch.version.musa", "torch.version.xpu"):
            if facts.device is None:
                return Unknown(path, "the kind of device is not known")
            return None if facts.device != path.rpartition(".")[2] else Unknown(path, "its version is not known", ("6.0",))
        if path.startswith("argparse.") and path.endswith(".__name__"):
            return path.split(".")[-2]
        if path.endswith(".__version__"):
            version = facts.packages.get(normal_name(path.split(".")[0]))
            return version if version is not None else Unknown(path, "the installed version is not known")
        return External(path)

    def has(self, external: External, name: str) -> Value:
        """`hasattr(module outside the package, name)`."""
        facts = self.world.facts
        if external.path in ("torch", "torch.backends", "torch.version"):
            if name in ("cuda", "cpu", "xpu", "backends", "mps", "version", "hip", "compile"):
                return True
            if name in ("npu", "hpu", "musa", "mlu"):
                if facts.device is None:
                    return Unknown(f"hasattr({external.path}, {name})", "the kind of device is not known")
                return facts.device == name
        pure = PURE.get(external.path)
        if pure is not None and name in pure:
            return True
        if external.path in WHOLE:
            return name in WHOLE[external.path]
        own = sys.modules.get(external.path) if external.path in sys.stdlib_module_names else None
        if own is not None and self.same_python():
            return hasattr(own, name)
        return Unknown(f"hasattr({external.path}, {name})", f"what {external.path} offers is not known")

    def same_python(self) -> bool:
        """Whether the host runs the Python version that this process runs: the standard library offers the same there."""
        version = re.match(r"(\d+)\.(\d+)", self.world.facts.python_version or "")
        return version is not None and (int(version[1]), int(version[2])) == sys.version_info[:2]

    # ------------------------------------------------ calls
    def call(self, external: External, args: Args, named: Named) -> Value:
        path = external.path
        handler = self.handlers.get(path)
        if handler is not None:
            return self.world.told(handler(self.world, args, named))
        if path in NO_EFFECT:
            return None
        if path in IDENTITY:
            if len(args) == 1 and isinstance(args[0], (Func, Class, Wrapped, Native, Bound)):
                return args[0]
            return Native(path, lambda w, a, n: a[0] if a else None)
        parts = path.split(".")
        if len(parts) == 3 and parts[0] == "torch" and parts[2] == "is_available" and parts[1] in _ACCELERATORS:
            return self.is_device(parts[1], path)
        if path == "torch.backends.mps.is_available":
            return self.is_device("mps", path)
        if path.startswith("logging.getLogger"):
            return Instance(External("logging.Logger"), opaque="logger")
        if self.world.inside(path):
            return self.world.told(missing.call_missing(self.world, path))
        text = ", ".join(show(a)[:60] for a in args)
        return self.world.told(Unknown(f"{path}({text})", f"{path} is outside the package and answers only on the host"))

    def is_device(self, name: str, path: str) -> Value:
        device = self.world.facts.device
        return Unknown(f"{path}()", "the kind of device is not known") if device is None else device == name


def _identifier(w: Machine, args: Args, named: Named) -> Value:
    """A UUID: a text that is there, whatever it holds."""
    text = Instance(External("builtins.str"), {"__types__": (str,)}, opaque="a new identifier")
    return Instance(External("uuid.UUID"), {"hex": text}, opaque="a new identifier")


def _warn(w: Machine, args: Args, named: Named) -> Value:
    w.emit("warning", args[0] if args else "")
    return None


def _exit(w: Machine, args: Args, named: Named) -> Value:
    exc = TargetRaise(SystemExit, tuple(args))
    exc.reads = frozenset(w.reads)
    raise exc


_CONSTANTS: dict[str, Value] = {
    "dataclasses.MISSING": MISSING,
    "msgspec.NODEFAULT": NODEFAULT,
    "typing.TYPE_CHECKING": False,
    "sys.platform": "linux",
    "os.sep": "/",
    "os.name": "posix",
    "sys.maxsize": 2**63 - 1,
    "sys.flags": Instance(External("sys.flags"), opaque="sys.flags"),
    "os.devnull": "/dev/null",
    "argparse.Action": External("argparse.Action"),
    "types.NoneType": type(None),
    "collections.OrderedDict": dict,
    "os.PathLike": External("os.PathLike"),
    "subprocess.PIPE": -1,
    "subprocess.DEVNULL": -3,
    "json.JSONDecodeError": json.JSONDecodeError,
    "builtins.FP8_E4M3_MAX": 448.0,
    "types.SimpleNamespace": External("types.SimpleNamespace"),
    "typing.Any": External("typing.Any"),
    "subprocess.SubprocessError": External("subprocess.SubprocessError"),
    "subprocess.CalledProcessError": External("subprocess.CalledProcessError"),
}


_HANDLERS: dict[str, Handler] = {
    **devices.HANDLERS,
    **packages.HANDLERS,
    **records.HANDLERS,
    "warnings.warn": _warn,
    "uuid.uuid4": _identifier,
    "uuid.uuid1": _identifier,
    "sys.exit": _exit,
    "os._exit": _exit,
    "inspect.signature": lambda w, a, n: Unknown("inspect.signature()", "not evaluated"),
    "contextlib.suppress": lambda w, a, n: Instance(External("contextlib.suppress"), {"__suppressed__": tuple(a)}),
    "contextlib.nullcontext": lambda w, a, n: Instance(External("contextlib.nullcontext")),
    "re.compile": lambda w, a, n: w.call_pure(re.compile, "re.compile", a, n),
}
