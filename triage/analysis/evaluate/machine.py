"""The evaluator put together: one machine holds the loaded modules of one tree under one set of facts and environment."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from triage.analysis.evaluate import limits, natives
from triage.analysis.evaluate.calls import Calls
from triage.analysis.evaluate.externals import ExternalModel
from triage.analysis.evaluate.files import VirtualFiles
from triage.analysis.evaluate.frames import Frame, Place
from triage.analysis.evaluate.hf import HfConfigs
from triage.analysis.evaluate.imports import Program
from triage.analysis.evaluate.packages import normal_name
from triage.analysis.evaluate.parser import PARSER, Parser, action_objects, make_parser
from triage.analysis.evaluate.values import (
    ABSENT,
    Bound,
    Class,
    External,
    Func,
    Instance,
    Maybe,
    Module,
    Native,
    TargetRaise,
    Unknown,
    Value,
    first_unknown,
    has_unknown,
    join,
    show,
)
from triage.model import Facts, ModelConfig

IMPORT_NAMES = {
    "pyyaml": "yaml",
    "pillow": "pil",
    "opencv-python-headless": "cv2",
    "sentence-transformers": "sentence_transformers",
}


@dataclass(frozen=True)
class Message:
    """A log call or warning that validation makes."""

    level: str
    text: str | None  # None when it depends on unknown values
    place: Place


class Machine(Calls):
    """See `evaluate_launch` in __init__.py for the way in."""

    def __init__(
        self,
        program: Program,
        facts: Facts,
        env: Mapping[str, str],
        models: Sequence[ModelConfig],
        engine_prefixes: tuple[str, ...],
        declares: frozenset[str],
        budget: int,
    ) -> None:
        super().__init__(program, budget)
        self.facts = facts
        self.env = dict(env)
        self.models = {m.path: m.text for m in models}
        self.listings = {m.path: frozenset(m.files) for m in models if m.files is not None}
        self.engine_prefixes = engine_prefixes
        self.declares = declares
        self.argv: tuple[str, ...] = ()
        self.messages: list[Message] = []
        self.builtins = natives.make_builtins()
        self.externals = ExternalModel(self)
        self.hf = HfConfigs(self)
        self.memo: dict[int, dict[Value, Value]] = {}
        self.built: dict[int, Any] = {}
        self.stage = ""
        self.softly = False
        self.given: dict[str, Value] = {}
        self.parsers: list[Parser] = []
        self.declaring = False  # whether a parser was made that declares nothing yet
        self.packages = {normal_name(n) for n in facts.packages} | {IMPORT_NAMES.get(normal_name(n), "") for n in facts.packages}
        self.externals.handlers.update(self.hf.handlers())
        self.files = VirtualFiles(self)
        self.externals.handlers.update(self.files.handlers())
        self.builtins["open"] = External("builtins.open")
        self.externals.handlers["argparse.ArgumentParser"] = make_parser

    # ------------------------------------------------ what the other parts ask
    def has_package(self, name: str) -> bool | None:
        """Whether a top-level module is installed on the host; None when not known."""
        import sys

        if name in sys.stdlib_module_names:
            return True
        if not self.facts.packages:
            return None
        return normal_name(name) in self.packages or name.lower() in self.packages

    def bare(self, value: Value) -> Value:
        return value.value if isinstance(value, Maybe) else value

    def over_options(self, name: str, value: Unknown, run: Callable[[Value], Value], more: str = "") -> Value:
        """Apply a builtin to each option of an unknown value."""
        key = f"{name}({value.key}{', ' + more if more else ''})"
        if value.options is None:
            return Unknown(key, value.why)
        return self.from_options(self.each_option(value.options, run, value.key), key, value.why)

    def construct(self, cls: type, args: list[Value], named: dict[str, Value]) -> Value:
        return natives.construct(self, cls, args, named)

    def external_attribute(self, external: External, name: str) -> Value:
        if external.path == "super":
            return ABSENT
        return self.externals.attribute(f"{external.path}.{name}")

    def has_external(self, external: External, name: str) -> Value:
        return self.externals.has(external, name)

    def call_external(self, external: External, args: list[Value], named: dict[str, Value]) -> Value:
        return self.externals.call(external, args, named)

    def call_pure(self, fn: Callable[..., Any], path: str, args: list[Value], named: dict[str, Value]) -> Value:
        """A pure function of the standard library on plain values."""
        if has_unknown(args) or has_unknown(named):
            if len(args) == 1 and isinstance(args[0], Unknown) and args[0].options:
                return self.over_options(path, args[0], lambda o: self.call_pure(fn, path, [o], named))
            one = first_unknown([*args, *named.values()])
            return Unknown(f"{path}({', '.join(show(a) for a in args)})", one.why)
        if path.startswith(("re.", "regex.")) and args and not limits.pattern_affordable(args[0], args[1:]):
            return Unknown(f"?{path}", "the pattern may take too long to match")
        return self.run_plain(fn, [self.as_argument(a) for a in args], {k: self.as_argument(v) for k, v in named.items()})

    def opaque_attribute(self, instance: Instance, name: str) -> Value:
        cls = instance.cls
        if isinstance(cls, External):
            if cls.path == "super":
                return self.super_attribute(instance, name)
            if cls.path == "logging.Logger":
                return Native(name, lambda w, a, n: w.log(name, a))
            if cls is PARSER and name == "_actions":
                return action_objects(instance.attrs["__parser__"])
        if self.hf.is_config(instance):
            found = self.hf.attribute(instance, name, not self.softly)
            if found is not None:
                return found[0]
        return Unknown(f"{instance.opaque}.{name}", f"{instance.opaque} is known only on the host")

    def class_attribute(self, cls: Class, name: str) -> Value:
        if cls.lookup(name) is ABSENT and self.hf.is_config_class(cls):
            made = self.hf.class_method(cls, name)
            if made is not None:
                return made
        return super().class_attribute(cls, name)

    def find_softly(self, obj: Value, name: str) -> Value:
        """As `find_attribute`, where the target is ready for it to be absent."""
        before, self.softly = self.softly, True
        try:
            return self.find_attribute(obj, name)
        finally:
            self.softly = before

    def instance_attribute(self, obj: Instance, name: str, fallback: bool = True) -> Value:
        if type(obj.cls) is External:
            if obj.cls.path == "os._Environ":
                return self.environ_attribute(name)
            if obj.cls.path == "super":
                return self.super_attribute(obj, name)
        return super().instance_attribute(obj, name, fallback)

    # ------------------------------------------------ environment
    def read_env(self, name: Value, default: Value = None) -> Value:
        """One variable. Unset is sure: the launch's environment was captured, or its own variables were given."""
        if not isinstance(name, str):
            return Unknown(f"os.environ[{show(name)}]", "the variable's name is not known")
        self.reads.add(f"env:{name}")
        self.impure += 1
        held = self.env.get(name, ABSENT)
        if held is ABSENT:
            return default
        return join(held.value, default, held.why) if isinstance(held, Maybe) else held

    def environ_attribute(self, name: str) -> Value:
        if name == "get":
            return Native("os.environ.get", lambda w, a, n: w.read_env(a[0], a[1] if len(a) > 1 else n.get("default")))
        if name == "copy":
            return Native("copy", lambda w, a, n: dict(w.env))
        if name in ("__contains__",):
            return Native(name, lambda w, a, n: w.contains(w.env, a[0]))
        return self.plain_method(self.env, name)

    def get_item(self, box: Value, index: Value) -> Value:
        if isinstance(box, Instance) and isinstance(box.cls, External) and box.cls.path == "os._Environ":
            value = self.read_env(index, ABSENT)
            if value is ABSENT:
                raise TargetRaise(KeyError, (index,))
            return value
        return super().get_item(box, index)

    def contains(self, box: Value, item: Value) -> Value:
        if isinstance(box, Instance) and isinstance(box.cls, External) and box.cls.path == "os._Environ":
            if isinstance(item, str):
                self.reads.add(f"env:{item}")
            return super().contains(self.env, item)
        return super().contains(box, item)

    # ------------------------------------------------ files of the host
    def path_kind(self, path: str) -> str | None:
        """ "file", "dir", "absent", or None when not known."""
        if path == "":
            return "absent"
        if self.files.read(path) is not None:
            return "file"
        known = self.facts.paths.get(path) or self.facts.paths.get(os.path.normpath(path))
        if known is not None:
            return known
        for model in self.models:
            base = os.path.normpath(model)
            clean = os.path.normpath(path)
            if clean == base:
                return "dir"
            if clean == os.path.join(base, "config.json"):
                return "file"
            listed = self.listings.get(model)
            if listed is not None and clean.startswith(base + os.sep):
                first, _, rest = clean[len(base) + 1 :].partition(os.sep)
                if first not in listed:
                    return "absent"
                return None if rest or "." not in first else "file"
        parent = os.path.dirname(path)
        if parent and self.facts.paths.get(parent) == "absent":
            return "absent"
        if path.startswith("/") and path in self.argv and not os.path.splitext(path)[1]:
            self.note(f"{path}, which the launch names, is taken to be a folder that exists")
            return "dir"
        return None

    # ------------------------------------------------ messages
    def log(self, method: str, args: list[Value]) -> Value:
        if method in ("warning", "error", "info", "debug", "critical", "exception", "warn", "warning_once", "info_once", "log"):
            if method == "log":
                args = args[1:]
            text: Value = args[0] if args else ""
            if isinstance(text, str) and len(args) > 1:
                text = self.percent(text, tuple(args[1:])) if not isinstance(args[1], dict) else text
            self.emit(method.removesuffix("_once"), text)
            return None
        if method in ("isEnabledFor", "hasHandlers"):
            return Unknown(f"logger.{method}()", "the log level is not known")
        return None

    def emit(self, level: str, text: Value) -> None:
        if len(self.messages) < 500:
            self.messages.append(Message(level, text if isinstance(text, str) else None, self.place()))

    # ------------------------------------------------ with
    def enter(self, manager: Value) -> Value:
        if isinstance(manager, Instance) and isinstance(manager.cls, Class):
            method = manager.cls.lookup("__enter__")
            if method is not ABSENT:
                return self.call(method, [manager])
        if isinstance(manager, Instance):
            return manager
        if isinstance(manager, list):
            return manager[0] if manager else None
        return Unknown(f"{show(manager)}.__enter__()", manager.why if isinstance(manager, Unknown) else "not evaluated")

    def leave(self, manager: Value, raised: TargetRaise | None) -> Value:
        """The manager's `__exit__`; what it returns tells whether it swallows the exception."""
        if isinstance(manager, Instance) and isinstance(manager.cls, Class):
            method = manager.cls.lookup("__exit__")
            if method is not ABSENT:
                given = [None, None, None] if raised is None else [raised.cls, self.exception_value(raised), None]
                return self.call(method, [manager, *given])
        if raised is not None and isinstance(manager, Instance) and "__suppressed__" in manager.attrs:
            return self.matches_handler(raised, manager.attrs["__suppressed__"])
        return False

    # ------------------------------------------------ results that are kept
    def memoize(self, fn: Value) -> Value:
        """A function under functools.cache: results of plain arguments are kept, as Python keeps them; over several
        launches only those that read neither settings nor environment."""
        if not isinstance(fn, Func):
            return fn
        kept: dict[Value, Value] = {}

        def run(w: Machine, args: list[Value], named: dict[str, Value]) -> Value:
            key = _memo_key(args, named)
            if key is None:
                return w.call(fn, args, named)
            for table in (kept, w.memo.setdefault(id(fn), {})):
                if key in table:
                    return table[key]
            before = w.impure
            value = w.call(fn, args, named)
            if not has_unknown(value):
                copied = _plain_copy(value) if w.impure == before and w.heap.depth <= 1 else ABSENT
                if copied is not ABSENT:
                    kept[key] = copied
                else:
                    w.memo.setdefault(id(fn), {})[key] = value
            return value

        made = Native(fn.name, run)
        made.fn_of = fn
        return made

    def build_parser(self, target: Value, args: list[Value]) -> bool:
        """Replay a call that fills a fresh parser: what it declares does not depend on the launch."""
        self.declaring = any(not p.filled and len(p._actions) <= 1 for p in self.parsers)
        parser = next((a for a in args if type(a) is Instance and a.cls is PARSER), None)
        if parser is None or parser.attrs["__parser__"].filled or len(parser.attrs["__parser__"]._actions) > 1:
            return False
        fn, owner = (target.fn, target.self) if type(target) is Bound else (target, None)
        if type(fn) is not Func or isinstance(owner, Instance):
            return False
        made = parser.attrs["__parser__"]
        held = self.built.get(id(fn))
        if held is not None:
            made.take(held)
            return True
        made.filled = True
        super().call(target, args, {})
        self.built[id(fn)] = made
        return True

    # ------------------------------------------------ declared settings
    def call(self, target: Value, args: list[Value], named: dict[str, Value] | None = None) -> Value:
        if not named:
            if self.declaring and args and self.build_parser(target, args):
                return None
            kind = type(target)
            if kind is Func:
                return self.call_function(target, args, {})
            if kind is Bound and type(target.fn) is Func:
                return self.call_function(target.fn, [target.self, *args], {})
        elif getattr(target, "name", None) in self.declares:
            place = self.place()
            for field, value in named.items():
                if field in self.fields:
                    self.record_write(field, value, place)
        return super().call(target, args, named)


def _plain_copy(value: Value) -> Value:
    """A copy that no journal touches; ABSENT where the value holds objects."""
    if isinstance(value, (str, int, float, bool, type(None), bytes, Class, External)):
        return value
    if isinstance(value, (list, tuple, set, frozenset)):
        items = [_plain_copy(v) for v in value]
        return ABSENT if any(i is ABSENT for i in items) else type(value)(items)
    if isinstance(value, dict):
        pairs = {k: _plain_copy(v) for k, v in value.items()}
        return ABSENT if any(v is ABSENT for v in pairs.values()) else pairs
    return ABSENT


def _memo_key(args: list[Value], named: dict[str, Value]) -> Value | None:
    out: list[Value] = []
    for value in [*args, *(x for pair in sorted(named.items()) for x in pair)]:
        if isinstance(value, (str, int, float, bool, type(None))):
            out.append((type(value), value))
        elif isinstance(value, (Class, External, type)):
            out.append((id(value), value))
        else:
            return None
    return tuple(out)


def run_module_function(machine: Machine, dotted: str, args: list[Value]) -> Value:
    """Call a function of the package by its dotted name. Raises TargetRaise as the target would."""
    module_name, _, name = dotted.rpartition(".")
    module = machine.import_module(module_name)
    if not isinstance(module, Module):
        return ABSENT
    frame = Frame(module, "<module>", module.ns)
    machine.stack.append(frame)
    try:
        fn = machine.module_attribute(module, name)
        return ABSENT if fn is ABSENT else machine.call(fn, args)
    finally:
        machine.stack.pop()
