"""Names outside the package: what the standard library, torch and the host answer, from the capture's facts.

Sources: the libraries' documentation. Only pure functions of the standard library are run; everything that would
touch a device, a file, the network or a clock is answered from `Facts`, or is unknown.
"""

from __future__ import annotations

import argparse
import ast
import collections
import importlib
import inspect
import ipaddress
import json
import math
import os.path
import re
import shlex
import textwrap
import types
import typing
import urllib.parse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from triage.analysis.evaluate.classes import AUTO, FIELD, MISSING, NODEFAULT
from triage.analysis.evaluate.values import (
    ABSENT,
    Bound,
    Class,
    External,
    Func,
    Instance,
    Maybe,
    Native,
    TargetRaise,
    Unknown,
    Value,
    Wrapped,
    has_unknown,
    show,
)

if TYPE_CHECKING:
    from triage.analysis.evaluate.machine import Machine

Args = list[Value]
Named = dict[str, Value]
Handler = Callable[["Machine", Args, Named], Value]

_PURE: dict[str, Any] = {
    "json": {"loads": json.loads, "dumps": json.dumps, "JSONDecodeError": json.JSONDecodeError},
    "math": {n: getattr(math, n) for n in dir(math) if not n.startswith("_") and n not in ("factorial", "comb", "perm")},
    "re": {n: getattr(re, n) for n in ("compile", "match", "search", "fullmatch", "sub", "split", "findall", "escape", "IGNORECASE", "I", "MULTILINE", "DOTALL", "VERBOSE", "Pattern", "Match", "error")},
    "os.path": {n: getattr(os.path, n) for n in ("join", "basename", "dirname", "splitext", "normpath", "isabs", "split", "sep", "commonpath")},
    "posixpath": {},
    "textwrap": {"dedent": textwrap.dedent, "indent": textwrap.indent},
    "shlex": {"split": shlex.split, "quote": shlex.quote, "join": shlex.join},
    "ipaddress": {n: getattr(ipaddress, n) for n in ("ip_address", "IPv4Address", "IPv6Address", "ip_network", "AddressValueError")},
    "urllib.parse": {n: getattr(urllib.parse, n) for n in ("urlparse", "urlsplit", "quote", "unquote", "urlunparse", "urlencode", "parse_qs")},
    "regex": {n: getattr(re, n) for n in ("compile", "match", "search", "fullmatch", "sub", "split", "findall", "escape", "IGNORECASE")},
    "orjson": {"loads": json.loads, "JSONDecodeError": json.JSONDecodeError},
    "ast": {"literal_eval": ast.literal_eval},
    "string": {"ascii_letters": "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "digits": "0123456789"},
    "argparse": {n: getattr(argparse, n) for n in ("Namespace", "SUPPRESS", "REMAINDER", "OPTIONAL", "ZERO_OR_MORE", "ONE_OR_MORE", "ArgumentTypeError", "ArgumentError")},
    "logging": {"DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40, "CRITICAL": 50, "WARN": 30, "FATAL": 50, "NOTSET": 0},
    "collections": {"OrderedDict": dict},
    "errno": {n: v for v, n in __import__("errno").errorcode.items()},
}  # fmt: skip

_NONE = {
    "logging.basicConfig", "logging.captureWarnings", "logging.addLevelName", "warnings.filterwarnings", "warnings.simplefilter",
    "gc.collect", "gc.freeze", "signal.signal", "faulthandler.enable", "multiprocessing.set_start_method", "resource.setrlimit",
    "torch.cuda.set_device", "torch.set_num_threads", "torch.cuda.empty_cache", "setproctitle.setproctitle", "atexit.register",
}  # fmt: skip
_IDENTITY = {
    "contextlib.contextmanager", "functools.total_ordering",
    "torch.no_grad", "torch.inference_mode", "torch.compile", "abc.abstractmethod", "typing.final", "typing.overload",
    "typing_extensions.override", "typing.runtime_checkable", "enum.unique", "functools.singledispatch", "contextlib.asynccontextmanager",
    "enum.verify", "typing.override", "dataclasses_json.dataclass_json", "torch.library.register_fake", "triton.jit",
}  # fmt: skip
_ACCELERATORS = ("xpu", "npu", "hpu", "mps", "musa", "mlu")


def normal_name(name: str) -> str:
    """A distribution's name as PEP 503 compares them."""
    return re.sub(r"[-_.]+", "-", name).lower()


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
        pure = _PURE.get(module)
        if pure is not None and name in pure:
            value = pure[name]
            if callable(value) and not isinstance(value, type):
                return Native(path, lambda w, a, n: w.call_pure(value, path, a, n))
            return value
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
        pure = _PURE.get(external.path)
        if pure is not None and name in pure:
            return True
        return Unknown(f"hasattr({external.path}, {name})", f"what {external.path} offers is not known")

    # ------------------------------------------------ calls
    def call(self, external: External, args: Args, named: Named) -> Value:
        path = external.path
        handler = self.handlers.get(path)
        if handler is not None:
            return handler(self.world, args, named)
        if path in _NONE:
            return None
        if path in _IDENTITY:
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
        text = ", ".join(show(a)[:60] for a in args)
        return Unknown(f"{path}({text})", f"{path} is outside the package and answers only on the host")

    def is_device(self, name: str, path: str) -> Value:
        device = self.world.facts.device
        return Unknown(f"{path}()", "the kind of device is not known") if device is None else device == name


# ---------------------------------------------------------------- torch and the device
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


def _capability(w: Machine, args: Args, named: Named) -> Value:
    text = w.facts.compute_capability
    if text is None:
        why = "the GPU's compute capability is not known"
        return tuple(Unknown(f"torch.cuda.get_device_capability()[{i}]", why) for i in range(2))
    parts = [int(p) for p in re.findall(r"\d+", text)[:2]]
    return (parts[0], parts[1] if len(parts) > 1 else 0)


def _device_name(w: Machine, args: Args, named: Named) -> Value:
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
    total: Value = Unknown("torch.cuda.mem_get_info()[1]", "the GPU's memory is not known")
    if w.facts.gpu_memory_mib is not None:
        total = w.facts.gpu_memory_mib * 1024 * 1024
    return (Unknown("torch.cuda.mem_get_info()[0]", "the free GPU memory is not known"), total)


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


# ---------------------------------------------------------------- packages and modules
def _find_spec(w: Machine, args: Args, named: Named) -> Value:
    name = args[0]
    if not isinstance(name, str):
        return Unknown("importlib.util.find_spec(?)", "the name is not known")
    if w.inside(name):
        return Instance(External("importlib.machinery.ModuleSpec"), opaque="spec") if w.program.find(name) else None
    present = w.has_package(name.split(".")[0])
    if present is None:
        return Unknown(f"importlib.util.find_spec({name})", f"whether the package {name} is installed is not known")
    return Instance(External("importlib.machinery.ModuleSpec"), {"name": name}, opaque="spec") if present else None


def _version(w: Machine, args: Args, named: Named) -> Value:
    name = args[0] if args else None
    if not isinstance(name, str):
        return Unknown("importlib.metadata.version(?)", "the name is not known")
    version = w.facts.packages.get(normal_name(name))
    if version is not None:
        return version
    if w.facts.packages:
        raise TargetRaise(External("importlib.metadata.PackageNotFoundError"), (name,))
    return Unknown(f"importlib.metadata.version({name})", f"the version of {name} is not known")


def _import(w: Machine, args: Args, named: Named) -> Value:
    if isinstance(args[0], str):
        if not w.inside(args[0]) and w.has_package(args[0].split(".")[0]) is False:
            raise TargetRaise(ModuleNotFoundError, (f"No module named '{args[0]}'",))
        return w.import_module(args[0])
    return Unknown("importlib.import_module(?)", "the name is not known")


# ---------------------------------------------------------------- environment and files
def _getenv(w: Machine, args: Args, named: Named) -> Value:
    return w.read_env(args[0], args[1] if len(args) > 1 else named.get("default"))


def _path_test(kinds: tuple[str, ...], name: str) -> Handler:
    def run(w: Machine, args: Args, named: Named) -> Value:
        path = args[0] if args else None
        if isinstance(path, Instance) and "__plain__" in path.attrs:
            path = path.attrs["__plain__"]
        if path is None:
            raise TargetRaise(TypeError, (f"{name}: path should be string, bytes, os.PathLike or integer, not NoneType",))
        if not isinstance(path, str):
            return Unknown(f"os.path.{name}({show(path)})", "the path is not known")
        kind = w.path_kind(path)
        if kind is None:
            return Unknown(f"os.path.{name}({path!r})", f"whether {path} exists on the host is not known")
        return kind in kinds

    return run


def _path_object(w: Machine, args: Args, named: Named) -> Value:
    parts = [w.plain_of(a) for a in args]
    if not all(isinstance(p, str) for p in parts):
        return Unknown(f"pathlib.Path({', '.join(show(p) for p in parts)})", "the path is not known")
    text = os.path.normpath(os.path.join(*parts)) if parts else "."
    return make_path(text)


def make_path(text: str) -> Instance:
    """A pathlib.Path of which only the text is used."""

    def method(name: str) -> Native:
        def run(w: Machine, args: Args, named: Named) -> Value:
            kinds = {"exists": ("file", "dir"), "is_file": ("file",), "is_dir": ("dir",)}.get(name)
            if kinds:
                return _path_test(kinds, name)(w, [text], {})
            if name == "joinpath":
                return _path_object(w, [text, *args], {})
            if name in ("resolve", "expanduser", "absolute"):
                return make_path(text)
            if name in ("glob", "rglob", "iterdir"):
                return Unknown(f"Path({text}).{name}()", "the files on the host are not known")
            return Unknown(f"Path({text}).{name}()", "the file on the host is not known")

        return Native(name, run)

    attrs: dict[str, Value] = {"__plain__": text, "name": os.path.basename(text), "suffix": os.path.splitext(text)[1]}
    attrs["stem"] = os.path.splitext(attrs["name"])[0]
    for name in (
        "exists",
        "is_file",
        "is_dir",
        "joinpath",
        "resolve",
        "expanduser",
        "absolute",
        "glob",
        "rglob",
        "iterdir",
        "read_text",
        "open",
        "stat",
    ):
        attrs[name] = method(name)
    return Instance(External("pathlib.Path"), attrs, opaque=f"Path({text})")


# ---------------------------------------------------------------- small library parts
def _partial(w: Machine, args: Args, named: Named) -> Value:
    fn, bound, extra = args[0], list(args[1:]), dict(named)
    return Native("partial", lambda w, a, n: w.call(fn, [*bound, *a], {**extra, **n}))


def _cached(w: Machine, args: Args, named: Named) -> Value:
    """`functools.cache` and `lru_cache`, with and without arguments."""
    if args and isinstance(args[0], (Func, Native, Bound, Class)):
        return w.memoize(args[0])
    return Native("lru_cache", lambda w, a, n: w.memoize(a[0]) if a else None)


def _reduce(w: Machine, args: Args, named: Named) -> Value:
    items = w.iterate(args[1])
    if items is None:
        return Unknown("functools.reduce()", "its items are not known")
    if len(args) > 2:
        items = [args[2], *items]
    value = items[0]
    for item in items[1:]:
        value = w.call(args[0], [value, w.bare(item)])
    return value


def _dataclass(w: Machine, args: Args, named: Named) -> Value:
    def make(w: Machine, a: Args, n: Named) -> Value:
        if isinstance(a[0], Class):
            a[0].kind = "dataclass"
            w.fields_of(a[0])
        return a[0]

    return make(w, args, {}) if args else Native("dataclass", make)


def _field(w: Machine, args: Args, named: Named) -> Value:
    return Instance(FIELD, dict(named))


def _fields(w: Machine, args: Args, named: Named) -> Value:
    cls = args[0].cls if isinstance(args[0], Instance) else args[0]
    if not isinstance(cls, Class) or cls.kind not in ("dataclass", "struct"):
        raise TargetRaise(TypeError, ("must be called with a dataclass type or instance",))
    return list(w.fields_of(cls))


def _is_dataclass(w: Machine, args: Args, named: Named) -> Value:
    cls = args[0].cls if isinstance(args[0], Instance) else args[0]
    return isinstance(cls, Class) and cls.kind == "dataclass"


def _replace(w: Machine, args: Args, named: Named) -> Value:
    obj = args[0]
    if not isinstance(obj, Instance) or not isinstance(obj.cls, Class):
        return Unknown("replace()", "not evaluated")
    names = [f.attrs["name"] for f in w.fields_of(obj.cls)]
    return w.instantiate(obj.cls, [], {**{k: v for k, v in obj.attrs.items() if k in names}, **named})


def _asdict(w: Machine, args: Args, named: Named) -> Value:
    obj = args[0]
    return (
        {f.attrs["name"]: obj.attrs.get(f.attrs["name"]) for f in w.fields_of(obj.cls)}
        if isinstance(obj, Instance)
        else Unknown("asdict()", "")
    )


def _defstruct(w: Machine, args: Args, named: Named) -> Value:
    """msgspec.defstruct(name, fields, namespace=...): a struct class made at run time."""
    name, fields = args[0], w.iterate(args[1])
    ns = named.get("namespace")
    if fields is None or not isinstance(name, str):
        return Unknown("msgspec.defstruct()", "its fields are not known")
    cls = Class(name, name, (External("msgspec.Struct"),), dict(ns) if isinstance(ns, dict) else {}, w.stack[-1].module)
    cls.kind = "struct"
    made: list[Instance] = []
    for item in fields:
        parts = item if isinstance(item, tuple) else (item,)
        annotation = parts[1] if len(parts) > 1 else External("typing.Any")
        cls.annotations[parts[0]] = annotation
        made.append(w.make_field(cls, parts[0], parts[2] if len(parts) > 2 else ABSENT, annotation))
    cls.options["fields"] = made
    for value in cls.ns.values():
        inner = value.fn if isinstance(value, Wrapped) else value
        if isinstance(inner, Func):
            inner.owner = cls
    return cls


def _type_hints(w: Machine, args: Args, named: Named) -> Value:
    cls = args[0]
    if not isinstance(cls, Class):
        return Unknown("typing.get_type_hints()", "not a class of the package")
    out: dict[str, Value] = {}
    for base in reversed(cls.mro):
        if isinstance(base, Class):
            for name, annotation in base.annotations.items():
                out[name] = w.annotation_value(base, annotation)
    return out


def _get_origin(w: Machine, args: Args, named: Named) -> Value:
    value = args[0]
    if isinstance(value, Instance) and "origin" in value.attrs:
        origin = value.attrs["origin"]
        return External("typing.Union") if origin is External("typing.Optional") else origin
    return None


def _get_args(w: Machine, args: Args, named: Named) -> Value:
    value = args[0]
    if isinstance(value, Instance) and "args" in value.attrs:
        inner = value.attrs["args"]
        parts = inner if isinstance(inner, tuple) else (inner,)
        return (
            (*parts, type(None))
            if value.attrs.get("origin") is External("typing.Optional")
            else tuple(None if p is None else p for p in parts)
        )
    return ()


def _copy(w: Machine, args: Args, named: Named) -> Value:
    value = args[0]
    if isinstance(value, (list, dict, set)):
        return value.copy()
    if isinstance(value, Instance):
        return Instance(value.cls, dict(value.attrs), value.opaque)
    return value


def _deepcopy(w: Machine, args: Args, named: Named) -> Value:
    def copy(value: Value, depth: int) -> Value:
        if depth > 12:
            return value
        if isinstance(value, list):
            return [copy(v, depth + 1) for v in value]
        if isinstance(value, dict):
            return {k: copy(v, depth + 1) for k, v in value.items()}
        if isinstance(value, tuple):
            return tuple(copy(v, depth + 1) for v in value)
        if isinstance(value, Instance) and isinstance(value.cls, Class) and value.cls.kind != "enum":
            return Instance(value.cls, {k: copy(v, depth + 1) for k, v in value.attrs.items()}, value.opaque)
        if isinstance(value, Instance) and value.opaque:
            return Instance(value.cls, {k: copy(v, depth + 1) for k, v in value.attrs.items()}, value.opaque)
        return value

    return copy(args[0], 0)


def _defaultdict(w: Machine, args: Args, named: Named) -> Value:
    return collections.defaultdict(list) if args and args[0] is list else {}


def _namedtuple(w: Machine, args: Args, named: Named) -> Value:
    names = args[1].replace(",", " ").split() if isinstance(args[1], str) else w.iterate(args[1])
    cls = Class(str(args[0]), str(args[0]), (), {}, w.stack[-1].module)
    cls.kind = "namedtuple"
    cls.options["fields"] = [w.make_field(cls, n, ABSENT, External("typing.Any")) for n in names or []]
    return cls


def _namespace(w: Machine, args: Args, named: Named) -> Value:
    return Instance(External("types.SimpleNamespace"), dict(named))


def _warn(w: Machine, args: Args, named: Named) -> Value:
    w.emit("warning", args[0] if args else "")
    return None


def _exit(w: Machine, args: Args, named: Named) -> Value:
    exc = TargetRaise(SystemExit, tuple(args))
    exc.reads = frozenset(w.reads)
    raise exc


def _version_parse(w: Machine, args: Args, named: Named) -> Value:
    text = args[0]
    if not isinstance(text, str):
        return Unknown(f"Version({show(text)})", text.why if isinstance(text, Unknown) else "not known")
    numbers = re.match(r"v?(\d+(?:\.\d+)*)(.*)", text)
    if numbers is None:
        raise TargetRaise(ValueError, (f"Invalid version: '{text}'",))
    release = tuple(int(n) for n in numbers.group(1).split("."))
    while len(release) > 1 and release[-1] == 0:
        release = release[:-1]
    suffix = numbers.group(2).split("+")[0]
    stage = -1 if re.match(r"\.?(a|b|rc|dev|alpha|beta)", suffix) else (1 if "post" in suffix else 0)
    padded = tuple(int(n) for n in numbers.group(1).split(".")) + (0, 0, 0)
    attrs: dict[str, Value] = {
        "__plain__": (release, stage),
        "release": padded[:3],
        "major": padded[0],
        "minor": padded[1],
        "micro": padded[2],
    }
    attrs["base_version"] = numbers.group(1)
    return Instance(External("packaging.version.Version"), attrs, opaque=f"Version({text})")


def _noop(w: Machine, args: Args, named: Named) -> Value:
    return None


def _machine(w: Machine, args: Args, named: Named) -> Value:
    if w.facts.machine is not None:
        return w.facts.machine
    return Unknown("platform.machine()", "the host's architecture is not known", ("x86_64", "aarch64"))


def _signature(w: Machine, args: Args, named: Named) -> Value:
    return Unknown("inspect.signature()", "not evaluated")


def _env_items(w: Machine, args: Args, named: Named) -> Value:
    return [(k, v) for k, v in w.env.items()]


_CONSTANTS: dict[str, Value] = {
    "dataclasses.MISSING": MISSING, "msgspec.NODEFAULT": NODEFAULT, "typing.TYPE_CHECKING": False, "sys.platform": "linux",
    "os.sep": "/", "os.name": "posix", "sys.maxsize": 2**63 - 1, "sys.flags": Instance(External("sys.flags"), opaque="sys.flags"),
    "os.devnull": "/dev/null", "argparse.Action": External("argparse.Action"), "types.NoneType": type(None),
    "collections.OrderedDict": dict, "os.PathLike": External("os.PathLike"), "subprocess.PIPE": -1, "subprocess.DEVNULL": -3,
    "json.JSONDecodeError": json.JSONDecodeError, "builtins.FP8_E4M3_MAX": 448.0, "types.SimpleNamespace": External("types.SimpleNamespace"),
    "typing.Any": External("typing.Any"), "subprocess.SubprocessError": External("subprocess.SubprocessError"),
    "subprocess.CalledProcessError": External("subprocess.CalledProcessError"),
}  # fmt: skip

_HANDLERS: dict[str, Handler] = {
    "torch.cuda.is_available": _cuda_available, "torch.cuda.device_count": _device_count,
    "torch.cuda.get_device_capability": _capability, "torch.cuda.get_device_name": _device_name,
    "torch.cuda.get_device_properties": _properties, "torch.cuda.mem_get_info": _memory_info,
    "torch.cpu.is_available": lambda w, a, n: True,
    "torch.cuda.current_device": lambda w, a, n: 0, "torch.cuda.is_initialized": lambda w, a, n: False,
    "subprocess.run": _run, "importlib.util.find_spec": _find_spec, "importlib.metadata.version": _version,
    "importlib_metadata.version": _version, "importlib.import_module": _import, "os.getenv": _getenv, "os.environ.get": _getenv,
    "os.path.exists": _path_test(("file", "dir"), "exists"), "os.path.isfile": _path_test(("file",), "isfile"),
    "os.path.isdir": _path_test(("dir",), "isdir"), "os.path.lexists": _path_test(("file", "dir"), "lexists"),
    "os.path.expanduser": lambda w, a, n: a[0], "os.path.abspath": lambda w, a, n: a[0], "os.path.realpath": lambda w, a, n: a[0],
    "os.fspath": lambda w, a, n: w.to_text(a[0], False),
    "pathlib.Path": _path_object, "pathlib.PurePath": _path_object, "pathlib.PosixPath": _path_object,
    "functools.wraps": lambda w, a, n: Native("wraps", lambda w2, b, m: b[0]), "functools.update_wrapper": lambda w, a, n: a[0],
    "importlib.metadata.entry_points": lambda w, a, n: [], "importlib_metadata.entry_points": lambda w, a, n: [],
    "functools.cache": _cached, "functools.lru_cache": _cached,
    "functools.partial": _partial, "functools.reduce": _reduce, "dataclasses.dataclass": _dataclass, "dataclasses.field": _field,
    "dataclasses.fields": _fields, "dataclasses.is_dataclass": _is_dataclass, "dataclasses.replace": _replace,
    "dataclasses.asdict": _asdict, "msgspec.field": _field, "msgspec.structs.fields": _fields, "msgspec.structs.asdict": _asdict,
    "msgspec.structs.replace": _replace, "msgspec.defstruct": _defstruct, "typing.get_type_hints": _type_hints,
    "typing.get_origin": _get_origin, "typing.get_args": _get_args, "copy.copy": _copy, "copy.deepcopy": _deepcopy,
    "collections.defaultdict": _defaultdict, "collections.namedtuple": _namedtuple, "types.SimpleNamespace": _namespace,
    "types.MappingProxyType": lambda w, a, n: a[0], "collections.deque": lambda w, a, n: w.iterate(a[0]) or [] if a else [],
    "msgspec.Struct.__setattr__": lambda w, a, n: w.type_method(object, "__setattr__", a, n),
    "warnings.warn": _warn, "sys.exit": _exit, "os._exit": _exit, "packaging.version.parse": _version_parse,
    "packaging.version.Version": _version_parse, "enum.auto": lambda w, a, n: Instance(AUTO),
    "functools.cached_property": lambda w, a, n: Wrapped("cached_property", a[0]),
    "typing.cast": lambda w, a, n: a[1], "typing.NewType": lambda w, a, n: a[1], "typing.TypeVar": lambda w, a, n: External("typing.Any"),
    "itertools.chain": lambda w, a, n: [x for part in a for x in (w.iterate(part) or [])],
    "itertools.count": lambda w, a, n: Unknown("itertools.count()", "endless"),
    "platform.machine": _machine, "platform.system": lambda w, a, n: "Linux", "inspect.signature": _signature,
    "contextlib.suppress": lambda w, a, n: Instance(External("contextlib.suppress")),
    "contextlib.nullcontext": lambda w, a, n: Instance(External("contextlib.nullcontext")),
    "os.environ.items": _env_items, "re.compile": lambda w, a, n: w.call_pure(re.compile, "re.compile", a, n),
    "os.cpu_count": lambda w, a, n: Unknown("os.cpu_count()", "the host's processors are not known"),
}  # fmt: skip

__all__ = ["ExternalModel", "Maybe", "importlib", "inspect", "normal_name", "types", "typing"]
