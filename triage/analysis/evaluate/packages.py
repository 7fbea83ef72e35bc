"""What the host has: packages, modules, paths, variables, its machine.

Source: the Python documentation; packaging.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from triage.analysis.evaluate.values import External, Instance, Native, TargetRaise, Unknown, Value, has_unknown, show

if TYPE_CHECKING:
    from triage.analysis.evaluate.machine import Machine

Args = list[Value]
Named = dict[str, Value]
Handler = Callable[["Machine", Args, Named], Value]


def normal_name(name: str) -> str:
    """A distribution's name as PEP 503 compares them."""
    return re.sub(r"[-_.]+", "-", name).lower()


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


def _iter_modules(w: Machine, args: Args, named: Named) -> Value:
    """`pkgutil.iter_modules(package.__path__, prefix)` for packages of the source tree: (finder, name, is a package)."""
    folders = w.iterate(args[0] if args else named.get("path"))
    prefix = args[1] if len(args) > 1 else named.get("prefix", "")
    if folders is None or has_unknown(folders) or not isinstance(prefix, str):
        return Unknown("pkgutil.iter_modules()", "the folders are not known")
    found: list[Value] = []
    for folder in folders:
        relative = str(folder).strip("/")
        for name in w.program.tree.list_dir(relative):
            stem, dot, ending = name.partition(".")
            if dot and ending == "py" and stem != "__init__":
                found.append((None, prefix + stem, False))
            elif not dot and w.program.tree.read(f"{relative}/{name}/__init__.py") is not None:
                found.append((None, prefix + stem, True))
    return found


def _import(w: Machine, args: Args, named: Named) -> Value:
    if isinstance(args[0], str):
        if not w.inside(args[0]) and w.has_package(args[0].split(".")[0]) is False:
            raise TargetRaise(ModuleNotFoundError, (f"No module named '{args[0]}'",))
        return w.import_module(args[0])
    return Unknown("importlib.import_module(?)", "the name is not known")


def _open(w: Machine, args: Args, named: Named) -> Value:
    """`os.open`: a descriptor, where the file is not known to be absent."""
    path = w.plain_of(args[0]) if args else None
    if isinstance(path, str) and w.path_kind(path) == "absent":
        raise TargetRaise(FileNotFoundError, (2, "No such file or directory"))
    return Unknown(f"os.open({show(path)})", "the file on the host is not known")


def _getenv(w: Machine, args: Args, named: Named) -> Value:
    return w.read_env(args[0], args[1] if len(args) > 1 else named.get("default"))


def _env_items(w: Machine, args: Args, named: Named) -> Value:
    return [(k, v) for k, v in w.env.items()]


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
            if name in ("read_text", "read_bytes", "open", "stat", "iterdir") and w.path_kind(text) == "absent":
                raise TargetRaise(FileNotFoundError, (2, "No such file or directory"))
            if name == "open":
                return w.files.open(w, [text, *args], named)
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
        "read_bytes",
        "open",
        "stat",
    ):
        attrs[name] = method(name)
    return Instance(External("pathlib.Path"), attrs, opaque=f"Path({text})")


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
    padded = (*(int(n) for n in numbers.group(1).split(".")), 0, 0, 0)
    attrs: dict[str, Value] = {
        "__plain__": (release, stage),
        "release": padded[:3],
        "major": padded[0],
        "minor": padded[1],
        "micro": padded[2],
    }
    attrs["base_version"] = numbers.group(1)
    return Instance(External("packaging.version.Version"), attrs, opaque=f"Version({text})")


def _machine(w: Machine, args: Args, named: Named) -> Value:
    if w.facts.machine is not None:
        return w.facts.machine
    return Unknown("platform.machine()", "the host's architecture is not known", ("x86_64", "aarch64"))


HANDLERS: dict[str, Handler] = {
    "pkgutil.iter_modules": _iter_modules,
    "importlib.util.find_spec": _find_spec,
    "importlib.metadata.version": _version,
    "importlib_metadata.version": _version,
    "importlib.import_module": _import,
    "os.getenv": _getenv,
    "os.open": _open,
    "os.environ.get": _getenv,
    "os.path.exists": _path_test(("file", "dir"), "exists"),
    "os.path.isfile": _path_test(("file",), "isfile"),
    "os.path.isdir": _path_test(("dir",), "isdir"),
    "os.path.lexists": _path_test(("file", "dir"), "lexists"),
    "os.path.expanduser": lambda w, a, n: a[0],
    "os.path.abspath": lambda w, a, n: a[0],
    "os.path.realpath": lambda w, a, n: a[0],
    "os.fspath": lambda w, a, n: w.to_text(a[0], False),
    "pathlib.Path": _path_object,
    "pathlib.PurePath": _path_object,
    "pathlib.PosixPath": _path_object,
    "importlib.metadata.entry_points": lambda w, a, n: [],
    "importlib_metadata.entry_points": lambda w, a, n: [],
    "packaging.version.parse": _version_parse,
    "packaging.version.Version": _version_parse,
    "platform.machine": _machine,
    "platform.system": lambda w, a, n: "Linux",
    "os.environ.items": _env_items,
    "os.cpu_count": lambda w, a, n: Unknown("os.cpu_count()", "the host's processors are not known"),
}
