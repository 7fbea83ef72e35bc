"""Attributes: of modules, classes, objects of the target, names outside the package, and plain values."""

from __future__ import annotations

import argparse
import ast
import re
from dataclasses import dataclass

from triage.analysis.evaluate.frames import Frame, Place
from triage.analysis.evaluate.operations import Operations
from triage.analysis.evaluate.values import (
    ABSENT,
    Bound,
    Class,
    External,
    Func,
    Instance,
    LazyImport,
    Maybe,
    Module,
    Native,
    TargetRaise,
    Unknown,
    Value,
    Wrapped,
    join,
    show,
)
from triage.analysis.outline import fill_body

PLAIN_TYPES = (str, bytes, int, float, bool, list, tuple, dict, set, frozenset, range, argparse.Namespace, re.Pattern, re.Match)
ACTION = External("argparse.Action")
_SAFE_DUNDERS = {"__name__", "__qualname__", "__doc__", "__module__"}


@dataclass(frozen=True)
class Write:
    """One assignment to a setting during validation."""

    field: str
    value: Value
    place: Place
    reads: frozenset[str]


class Attributes(Operations):
    """Reads and writes of settings are recorded here, whatever object they go through."""

    def __init__(self, budget: int) -> None:
        super().__init__(budget)
        self.args_class: Class | None = None
        self.record: Instance | None = None  # the args object
        self.fields: frozenset[str] = frozenset()
        self.given: dict[str, Value] = {}
        self.overrides: dict[str, Value] = {}  # settings that a trial holds until validation writes them
        self.overridden: set[str] = set()  # those of them that were read
        self.writes: list[Write] = []
        self.field_deps: dict[str, frozenset[str]] = {}
        self.impure = 0  # reads of settings and environment so far

    def module_attribute(self, module: Module, name: str) -> Value:
        raise NotImplementedError

    def external_attribute(self, external: External, name: str) -> Value:
        raise NotImplementedError

    def plain_method(self, value: Value, name: str) -> Value:
        raise NotImplementedError

    def opaque_attribute(self, instance: Instance, name: str) -> Value:
        raise NotImplementedError

    # ------------------------------------------------ settings
    def is_args(self, instance: Instance) -> bool:
        return instance.cls is self.args_class and self.args_class is not None

    def is_view(self, instance: Instance) -> bool:
        """An object of the target that hands on attribute reads: a view of the settings."""
        return isinstance(instance.cls, Class) and instance.cls.lookup("__getattr__") is not ABSENT

    def place(self) -> Place:
        frame = self.stack[-1] if self.stack else None
        if frame is None:
            return Place("", 0, "")
        root = frame.root()
        return Place(root.module.file, root.stmt.lineno if root.stmt else 0, root.name)

    def record_write(self, field: str, value: Value, place: Place | None = None) -> None:
        if field in self.overrides:
            self.heap.delete(self.overrides, field)
        reads = frozenset(self.reads | self.control)
        self.writes.append(Write(field, value, place or self.place(), reads))
        self.field_deps[field] = reads | self.field_deps.get(field, frozenset()) if self.heap.depth else reads

    # ------------------------------------------------ reading
    def get_attribute(self, obj: Value, name: str) -> Value:
        """The attribute, or the target's AttributeError as TargetRaise."""
        value = self.find_attribute(obj, name)
        if value is ABSENT:
            text = f"{self.type_phrase(obj)} has no attribute '{name}'"
            exc = TargetRaise(AttributeError, (text,))
            exc.reads = frozenset(self.reads)
            raise exc
        return value

    def type_phrase(self, obj: Value) -> str:
        if isinstance(obj, Class):
            return f"type object '{obj.name}'"
        if isinstance(obj, Module):
            return f"module '{obj.name}'"
        return f"'{self.type_name(obj)}' object"

    def find_attribute(self, obj: Value, name: str) -> Value:
        """The attribute or ABSENT; a Maybe value is read as if it were there."""
        kind = type(obj)
        if kind is Instance:
            return self.instance_attribute(obj, name)
        if kind is Module:
            return self.module_attribute(obj, name)
        if kind is Class:
            return self.class_attribute(obj, name)
        if kind is External:
            return self.external_attribute(obj, name)
        if kind is Unknown:
            if obj.options is not None:
                found = [self.find_attribute(o, name) for o in obj.options if o is not None]
                if found and ABSENT not in found:
                    result = found[0]
                    for one in found[1:]:
                        result = join(result, one, obj.why)
                    return result
            return self.told(Unknown(f"{obj.key}.{name}", obj.why))
        if kind is Func or kind is Bound or kind is Native:
            return self.function_attribute(obj, name)
        if kind is Maybe:
            return self.find_attribute(obj.value, name)
        if kind is TargetRaise:
            if name == "args":
                return tuple(obj.values)
            if name == "__class__":
                return obj.cls
            return obj.attrs.get(name, Unknown(f"exception.{name}", "an attribute of an exception"))
        if kind is Wrapped:
            setter = Native("setter", lambda w, a, n: Wrapped(obj.kind, obj.fn, a[0]))
            return {"fget": obj.fn, "__func__": obj.fn, "setter": setter}.get(name, ABSENT)
        if isinstance(obj, type):
            if name in _SAFE_DUNDERS:
                return getattr(obj, name, ABSENT)
            return Native(f"{obj.__name__}.{name}", lambda w, a, n: self.type_method(obj, name, a, n))
        return self.plain_method(obj, name)

    def type_method(self, cls: type, name: str, args: list[Value], named: dict[str, Value]) -> Value:
        """`str.lower(x)`, `dict.fromkeys(...)`, `object.__setattr__(x, ...)`."""
        if name == "__setattr__" and len(args) == 3 and isinstance(args[0], Instance):
            self.raw_set(args[0], args[1], args[2])
            return None
        if name in ("__getattribute__", "__getattr__") and len(args) == 2 and isinstance(args[0], Instance):
            value = self.instance_attribute(args[0], args[1], fallback=False)
            if value is ABSENT:
                raise TargetRaise(AttributeError, (args[1],))
            return value
        if name in ("__init__", "__init_subclass__", "__post_init__"):
            if args and isinstance(args[0], Instance) and issubclass(cls, BaseException):
                args[0].attrs["args"] = tuple(args[1:])
            return None
        if name == "__new__" and args and isinstance(args[0], Class):
            return Instance(args[0])
        if name == "fromkeys" and cls is dict and args:
            keys = self.iterate(args[0])
            return Unknown("?dict", "unknown keys") if keys is None else dict.fromkeys(keys, args[1] if len(args) > 1 else None)
        if args and isinstance(args[0], cls) and not name.startswith("_"):
            return self.call(self.get_attribute(args[0], name), list(args[1:]), named)
        return Unknown(f"{cls.__name__}.{name}()", f"{cls.__name__}.{name} is not evaluated")

    def instance_attribute(self, obj: Instance, name: str, fallback: bool = True) -> Value:
        cls = obj.cls
        found = cls.lookup(name) if isinstance(cls, Class) else ABSENT
        if type(found) is Wrapped and found.kind in ("property", "cached_property"):
            held = obj.attrs.get(name, ABSENT)
            if found.kind == "cached_property" and held is not ABSENT:
                return held
            value = self.call(found.fn, [obj])
            if found.kind == "cached_property":
                self.heap.set(obj.attrs, name, value)
            return value
        is_field = name in self.fields
        if self.overrides and name in self.overrides and (cls is self.args_class or self.is_view(obj)):
            self.reads.add(name)
            self.impure += 1
            self.overridden.add(name)
            return self.overrides[name]
        held = obj.attrs.get(name, ABSENT)
        if held is not ABSENT:
            if is_field and cls is self.args_class:
                self.reads.add(name)
                self.impure += 1
            return held.value if type(held) is Maybe else held
        if found is not ABSENT:
            return self.bind_class_value(found, obj, cls)
        if name == "__class__":
            return cls
        if name == "__dict__":
            return obj.attrs
        if fallback and isinstance(cls, Class):
            getter = cls.lookup("__getattr__")
            if getter is not ABSENT:
                saved, self.reads = self.reads, set()
                try:
                    value = self.call(getter, [obj, name])
                finally:
                    self.reads = saved
                if is_field:
                    self.reads.add(name)
                    self.impure += 1
                return value
        if obj.opaque is not None:
            return self.opaque_attribute(obj, name)
        if isinstance(cls, Class) and cls.native_base() is not None:
            plain = obj.attrs.get("_value_", obj.attrs.get("__plain__", ABSENT))
            if plain is not ABSENT:
                return self.plain_method(plain, name)
        if isinstance(cls, Class) and cls.external_bases() and cls.kind in ("plain", "action"):
            if cls.external_bases() == [ACTION] and not hasattr(argparse.Action, name):
                return ABSENT
            return Unknown(f"{show(obj)}.{name}", f"{cls.name} has a base class outside the package")
        return ABSENT

    def bind_class_value(self, found: Value, obj: Value, cls: Value) -> Value:
        kind = type(found)
        if kind is Func:
            return Bound(found, obj)
        if kind is Wrapped:
            if found.kind == "classmethod":
                return Bound(found.fn, cls)
            return found.fn
        if kind is Native and found.fn_of is not None:
            return Bound(found, obj)
        if kind is Instance and isinstance(found.cls, Class):
            getter = found.cls.lookup("__get__")
            if getter is not ABSENT:
                return self.call(getter, [found, obj, cls])
        return found

    def class_attribute(self, cls: Class, name: str) -> Value:
        found = cls.lookup(name)
        if found is not ABSENT:
            if type(found) is Wrapped:
                if found.kind == "classmethod":
                    return Bound(found.fn, cls)
                return found.fn if found.kind == "staticmethod" else found
            if type(found) is Instance and isinstance(found.cls, Class) and found.cls.lookup("__get__") is not ABSENT:
                return self.call(found.cls.lookup("__get__"), [found, None, cls])
            if isinstance(found, LazyImport):
                return self.resolve(found, cls.ns, name)
            return found.value if type(found) is Maybe else found
        if name in ("__name__", "__qualname__"):
            return cls.name if name == "__name__" else cls.qualname
        if name == "__module__":
            return cls.module.name
        if name == "__mro__":
            return (*cls.mro, object)
        if name == "__bases__":
            return cls.bases
        if name == "__dict__":
            return cls.ns
        if name == "__annotations__":
            return dict(cls.annotations)
        if name == "__doc__":
            return None
        if name == "__members__" and cls.kind == "enum":
            return {m.attrs["_name_"]: m for m in cls.options.get("members", [])}
        if name in ("__setattr__", "__getattribute__", "__init__", "__new__", "__post_init__", "__init_subclass__"):
            return Native(name, lambda w, a, n: self.type_method(object, name, a, n))
        if cls.kind == "exception" or cls.native_base() is not None:
            base = cls.native_base()
            return Native(name, lambda w, a, n: self.type_method(base or object, name, a, n)) if base else ABSENT
        if cls.external_bases():
            return Unknown(f"{cls.name}.{name}", f"{cls.name} has a base class outside the package")
        return ABSENT

    def function_attribute(self, fn: Value, name: str) -> Value:
        inner = fn.fn if type(fn) is Bound else fn
        if isinstance(inner, Func) and name in inner.attrs:
            return inner.attrs[name]
        if name in ("__name__", "__qualname__") and isinstance(inner, (Func, Native)):
            return inner.qualname if name == "__qualname__" and isinstance(inner, Func) else inner.name
        if name == "__self__" and type(fn) is Bound:
            return fn.self
        if name in ("__func__", "__wrapped__"):
            return inner
        if name == "__module__" and isinstance(inner, Func):
            return inner.module.name
        if name == "__doc__":
            node = inner.code if isinstance(inner, Func) else None
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or not fill_body(node):
                return None
            return ast.get_docstring(node)
        if name in ("cache_clear", "cache_info"):
            return Native(name, lambda w, a, n: None)
        if isinstance(inner, Func):
            return inner.attrs.get(name, ABSENT)
        return ABSENT

    # ------------------------------------------------ writing
    def set_attribute(self, obj: Value, name: str, value: Value) -> None:
        if isinstance(obj, Instance):
            setter = obj.cls.lookup("__setattr__") if isinstance(obj.cls, Class) else ABSENT
            if isinstance(setter, Func):
                self.call(setter, [obj, name, value])
                return
            found = obj.cls.lookup(name) if isinstance(obj.cls, Class) else ABSENT
            if type(found) is Wrapped and found.kind == "property":
                if found.setter is not None:
                    self.call(found.setter, [obj, value])
                    return
                raise TargetRaise(AttributeError, (f"property '{name}' of '{self.type_name(obj)}' object has no setter",))
            descriptor = found.cls.lookup("__set__") if type(found) is Instance and isinstance(found.cls, Class) else ABSENT
            if descriptor is not ABSENT:
                self.call(descriptor, [found, obj, value])
                return
            self.raw_set(obj, name, value)
        elif isinstance(obj, (Module, Class)):
            self.heap.set(obj.ns, name, value)
            if isinstance(obj, Class) and name == "__annotations__" and isinstance(value, dict):
                obj.annotations = value
        elif isinstance(obj, (Func, TargetRaise)):
            obj.attrs[name] = value
        elif isinstance(obj, argparse.Namespace):
            self.heap.set(vars(obj), name, value)
        elif isinstance(obj, Unknown) and obj.options:
            for option in obj.options:
                if isinstance(option, Instance):
                    self.set_attribute(option, name, join(self.find_attribute(option, name), value, obj.why))

    def raw_set(self, obj: Instance, name: str, value: Value) -> None:
        if name in self.fields and self.is_args(obj) and self.record is obj:
            self.record_write(name, value)
        self.heap.set(obj.attrs, name, value)

    def delete_attribute(self, obj: Value, name: str) -> None:
        if isinstance(obj, Instance):
            self.heap.delete(obj.attrs, name)

    def make_super(self, f: Frame) -> Value:
        """`super()`: an object whose attributes start behind the class that defines the running method."""
        func, this = f.func, f.first_argument
        owner = func.owner if func is not None else None
        cls = this if isinstance(this, Class) else getattr(this, "cls", None)
        if owner is None or not isinstance(cls, Class):
            return Unknown("?super()", "super() outside a method")
        mro = list(cls.mro)
        rest = mro[mro.index(owner) + 1 :] if owner in mro else []
        return Instance(External("super"), {"__super__": (tuple(rest), this, cls)}, opaque="super()")

    def super_attribute(self, obj: Instance, name: str) -> Value:
        rest, this, cls = obj.attrs["__super__"]
        for base in rest:
            if isinstance(base, Class) and name in base.ns:
                return self.bind_class_value(base.ns[name], this, cls)
            if isinstance(base, type) and hasattr(base, name):
                return Native(name, lambda w, a, n, b=base: self.type_method(b, name, [this, *a], n))
            if isinstance(base, External):
                return Native(name, lambda w, a, n, b=base: self.external_super(b, name, this, a, n))
        return Native(name, lambda w, a, n: self.type_method(object, name, [this, *a], n))

    def external_super(self, base: External, name: str, this: Value, args: list[Value], named: dict[str, Value]) -> Value:
        if name in ("__init__", "__init_subclass__", "__post_init__"):
            if isinstance(this, Instance):
                for key, value in named.items():
                    self.heap.set(this.attrs, key, value)
                if base.path in ("argparse.Action",):
                    for key, value in zip(("option_strings", "dest"), args, strict=False):
                        self.heap.set(this.attrs, key, value)
            return None
        return Unknown(f"{base.path}.{name}()", f"{base.path} is outside the package")
