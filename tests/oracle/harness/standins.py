"""Stand-ins for what a release declares as its dependencies and is not installed: packages that need a GPU, mostly.

They can be imported and found by importlib.metadata; any attribute of theirs is `Anything`.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, MutableSequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

from .machine import Machine

UNPINNED = "99.0.0"  # of a package of which any version will do
# Of a distribution whose modules are not named as it is; none: nobody imports it, or a stand-in would mislead.
_IMPORTS: dict[str, list[str]] = json.loads(Path(__file__).with_name("imports.json").read_text())
# Declared by the GPU builds of torch, so a release need not.
_BESIDE = {"triton": "3.6.0"}


# ---------------------------------------------------------------- what is declared
def normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def import_names(distribution: str) -> list[str]:
    return _IMPORTS.get(distribution, [distribution.replace("-", "_")])


def read_declared(distribution: str) -> dict[str, str | None]:
    """{name: lowest version that is asked for, or None} of what an installation for GPUs brings with it.

    A release whose runtime is an extra is installed with that: the smallest one that brings torch and transformers.
    """
    packaging: Any = importlib.import_module("packaging.requirements")
    lines = [packaging.Requirement(line) for line in importlib.metadata.requires(distribution) or ()]
    own = normalise(distribution)

    def gather(extras: Iterable[str]) -> dict[str, str | None]:
        wanted, todo = set(extras), [*extras, ""]
        found: dict[str, str | None] = {}
        while todo:
            extra = todo.pop()
            for line in lines:
                named = line.marker is not None and "extra" in str(line.marker)
                applies = line.marker is None or line.marker.evaluate({"extra": extra})
                if not applies or (extra and not named):
                    continue
                name = normalise(line.name)
                if name == own:
                    todo += sorted(set(line.extras) - wanted)
                    wanted |= line.extras
                else:
                    found[name] = _lowest(line) or found.get(name)
        return found

    core = {"torch", "transformers"}
    plain = gather(())
    if core <= set(plain):
        return plain
    extras = importlib.metadata.metadata(distribution).get_all("Provides-Extra") or []
    full = [found for found in (gather((e,)) for e in sorted(extras)) if core <= set(found)]
    return min(full, key=len) if full else plain


def _lowest(requirement: Any) -> str | None:
    versions = {s.operator: s.version for s in requirement.specifier}
    return next((versions[o] for o in ("==", ">=", "~=") if o in versions), None)


# ---------------------------------------------------------------- what answers to everything
class _AnythingType(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything

    def __getitem__(cls, item: Any) -> Any:
        return cls

    def __iter__(cls) -> Iterator[Any]:
        return iter(())

    def __or__(cls, other: Any) -> Any:
        return type.__or__(cls, other) if cls is not Anything else other

    def __ror__(cls, other: Any) -> Any:
        return type.__ror__(cls, other) if cls is not Anything else other


def _is_decorated(given: tuple[Any, ...], named: Mapping[str, Any]) -> bool:
    """Whether a call looks like that of a decorator."""
    return len(given) == 1 and not named and isinstance(given[0], (FunctionType, type)) and type(given[0]) is not _AnythingType


class Anything(metaclass=_AnythingType):
    """A class, a function, a decorator, a value: whatever is done with it gives another one, or leaves what it decorates."""

    def __new__(cls, *given: Any, **named: Any) -> Any:
        return given[0] if cls is Anything and _is_decorated(given, named) else object.__new__(cls)

    def __init__(self, *given: Any, **named: Any) -> None:
        pass

    def __init_subclass__(cls, **named: Any) -> None:
        pass

    def __call__(self, *given: Any, **named: Any) -> Any:
        return given[0] if _is_decorated(given, named) else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything

    def __getitem__(self, item: Any) -> Any:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return importlib.import_module("pydantic_core").core_schema.any_schema()


class _Module(ModuleType):
    __path__: MutableSequence[str] = []  # noqa: RUF012 - as ModuleType declares it

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything


# ---------------------------------------------------------------- finding them
class _Distribution(importlib.metadata.Distribution):
    def __init__(self, name: str, version: str) -> None:
        self._files = {
            "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            "top_level.txt": "\n".join(import_names(name)),
        }

    def read_text(self, filename: str) -> str | None:
        return self._files.get(filename)

    def locate_file(self, path: Any) -> Any:
        return Path("/nonexistent") / path


@dataclass(frozen=True)
class StandIns:
    """What stands in: versions of distributions, and of importable modules; and modules that must not be found."""

    distributions: Mapping[str, str]
    modules: Mapping[str, str]
    hidden: frozenset[str]


class _Finder(importlib.metadata.DistributionFinder, importlib.abc.Loader):
    """Last on the path of finders: what is installed comes first."""

    def __init__(self, found: StandIns) -> None:
        self.found = found

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] not in self.found.modules:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module: Any = _Module(spec.name)
        module.__version__ = self.found.modules[spec.name.partition(".")[0]]
        made: ModuleType = module
        return made

    def exec_module(self, module: ModuleType) -> None:
        _finish(module)

    def find_distributions(self, context: Any = None) -> Iterator[importlib.metadata.Distribution]:
        wanted = getattr(context, "name", None)
        for name, version in self.found.distributions.items():
            if wanted is None or normalise(wanted) == name:
                yield _Distribution(name, version)


class _Hider(importlib.abc.MetaPathFinder):
    """First on the path of finders."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        if fullname.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def _finish(module: Any) -> None:
    """The few answers of triton that modules compute with while they are imported."""
    if module.__name__ == "triton":
        module.cdiv = lambda a, b: -(-a // b)
        module.next_power_of_2 = lambda n: 1 << max(int(n) - 1, 0).bit_length()
        importlib.import_module("triton.runtime.driver")
    elif module.__name__ == "triton.runtime.driver":
        kind = "cuda" if sys.modules["torch"].cuda.is_available() else "cpu"
        limits = {"multiprocessor_count": 132, "max_shared_mem": 227 << 10}
        module.active = SimpleNamespace(
            get_current_target=lambda: SimpleNamespace(backend=kind, arch=None),
            get_current_device=lambda: 0,
            utils=SimpleNamespace(get_device_properties=lambda index: limits),
        )


def find_stand_ins(distribution: str, machine: Machine) -> StandIns:
    """What a release would find on the machine beside what is really installed here."""
    missing = {normalise(name) for name in machine.missing_packages}
    wanted = {**_BESIDE, **read_declared(distribution), **{normalise(name): None for name in machine.extra_packages}}
    distributions, modules = {}, {}
    for name, version in wanted.items():
        if name in missing:
            continue
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            distributions[name] = version or UNPINNED
        for module in import_names(name):
            if module not in missing and importlib.util.find_spec(module) is None:
                modules[module] = version or UNPINNED
    return StandIns(distributions, modules, frozenset(m for name in missing for m in import_names(name)))


def install(found: StandIns) -> None:
    sys.meta_path.append(_Finder(found))
    if found.hidden:
        sys.meta_path.insert(0, _Hider(found.hidden))


def list_packages(found: StandIns) -> dict[str, str]:
    """{name: version} of all that is there, real or not; a module counts as a package of its own where it is named otherwise."""
    out: dict[str, str] = {}
    for real in importlib.metadata.distributions():
        out.setdefault(normalise(real.metadata["Name"]), real.version)
    for name, version in {**found.distributions, **found.modules}.items():
        out.setdefault(normalise(name), version)
    return out
