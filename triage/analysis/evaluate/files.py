"""Files that validation opens: the captured config.json of a model, captured files that the launch names, and what
validation itself wrote before.

Nothing is read from or written to this machine.
"""

from __future__ import annotations

import json
import os.path
from collections.abc import Callable
from typing import TYPE_CHECKING

from triage.analysis.evaluate.values import (
    External,
    Instance,
    Native,
    TargetRaise,
    Unknown,
    Value,
    first_unknown,
    has_unknown,
    show,
)
from triage.analysis.evaluate.yaml_text import is_affordable, read_yaml

if TYPE_CHECKING:
    from triage.analysis.evaluate.machine import Machine

FILE = External("io.TextIOWrapper")


class VirtualFiles:
    """`texts` holds what was written; a value may be unknown."""

    def __init__(self, world: Machine) -> None:
        self.world = world
        self.texts: dict[str, Value] = {}

    def handlers(self) -> dict[str, Callable[..., Value]]:
        return {
            "builtins.open": self.open,
            "json.load": self.load,
            "json.dump": self.dump,
            "yaml.safe_load": self.load_yaml,
            "tempfile.gettempdir": lambda w, a, n: "/tmp",
            "os.makedirs": lambda w, a, n: None,
            "os.getpid": lambda w, a, n: 1,
        }

    def read(self, path: str) -> Value | None:
        """The text of a file that is known, else None."""
        clean = os.path.normpath(path)
        if clean in self.texts:
            return self.texts[clean]
        given = self.world.facts.texts
        if path in given or clean in given:
            return given[path] if path in given else given[clean]
        if os.path.basename(clean) == "config.json":
            for model, text in self.world.models.items():
                if os.path.normpath(model) == os.path.dirname(clean):
                    return text
        return None

    def path_of(self, value: Value) -> str | None:
        value = self.world.plain_of(value)
        return value if isinstance(value, str) else None

    def open(self, w: Machine, args: list[Value], named: dict[str, Value]) -> Value:
        path = self.path_of(args[0]) if args else None
        mode = args[1] if len(args) > 1 else named.get("mode", "r")
        if path is None or not isinstance(mode, str):
            return Unknown(f"open({show(args[0]) if args else ''})", "the file's path is not known")
        if "r" in mode and self.read(path) is None and w.path_kind(path) == "absent":
            raise TargetRaise(FileNotFoundError, (2, "No such file or directory"))
        attrs: dict[str, Value] = {
            "__path__": os.path.normpath(path),
            "read": Native("read", lambda w, a, n: self.text(path)),
            "write": Native("write", lambda w, a, n: self.write(path, a[0])),
            "close": Native("close", lambda w, a, n: None),
        }
        return Instance(FILE, attrs, opaque=f"file {path}")

    def text(self, path: str) -> Value:
        known = self.read(path)
        return Unknown(f"open({path}).read()", f"the content of {path} on the host is not known") if known is None else known

    def write(self, path: str, text: Value) -> Value:
        clean = os.path.normpath(path)
        before = self.texts.get(clean, "")
        both = isinstance(before, str) and isinstance(text, str)
        self.world.heap.set(self.texts, clean, before + text if both else Unknown(f"open({path})", "its text is not known"))
        return None

    def load(self, w: Machine, args: list[Value], named: dict[str, Value]) -> Value:
        handle = args[0]
        if not isinstance(handle, Instance) or handle.cls is not FILE:
            return Unknown(f"json.load({show(handle)})", "the file is not known")
        text = self.text(handle.attrs["__path__"])
        return w.call_pure(json.loads, "json.loads", [text], {})

    def load_yaml(self, w: Machine, args: list[Value], named: dict[str, Value]) -> Value:
        source = args[0] if args else named.get("stream")
        text = self.text(source.attrs["__path__"]) if isinstance(source, Instance) and source.cls is FILE else source
        if not isinstance(text, str):
            return Unknown(f"yaml.safe_load({show(source)[:60]})", text.why if isinstance(text, Unknown) else "not known")
        if not is_affordable(text):
            return Unknown("?yaml.safe_load", "too large or too entangled to read")
        return w.call_pure(read_yaml, "yaml.safe_load", [text], {})

    def dump(self, w: Machine, args: list[Value], named: dict[str, Value]) -> Value:
        handle = args[1] if len(args) > 1 else named.get("fp")
        if isinstance(handle, Instance) and handle.cls is FILE:
            text: Value
            if has_unknown(args[0]):
                text = Unknown("json.dump()", first_unknown([args[0]]).why)
            else:
                text = w.call_pure(json.dumps, "json.dumps", [args[0]], {})
            w.heap.set(self.texts, handle.attrs["__path__"], text)
        return None
