"""Classes of the target and the objects made from them: plain, dataclass, msgspec struct, enum, named tuple, exception."""

from __future__ import annotations

import ast

from triage.analysis.evaluate.attributes import Attributes
from triage.analysis.evaluate.frames import Frame
from triage.analysis.evaluate.signals import Step
from triage.analysis.evaluate.values import (
    ABSENT,
    Class,
    External,
    Func,
    Instance,
    Native,
    TargetRaise,
    Unknown,
    Value,
    Wrapped,
    has_unknown,
    show,
)

_ENUMS = {"enum.Enum": object, "enum.IntEnum": int, "enum.StrEnum": str, "enum.Flag": object, "enum.IntFlag": int}
_STRUCTS = {"msgspec.Struct"}
_TUPLES = {"typing.NamedTuple"}


class Classes(Attributes):
    """Class statements, class decorators and instantiation."""

    def annotation_value(self, cls: Class, annotation: Value) -> Value:
        raise NotImplementedError

    def make_class(self, f: Frame, node: ast.ClassDef, bases: tuple[Value, ...], options: dict[str, Value], body: Step) -> Class:
        """Run a class statement's body and make the class."""
        ns: dict[str, Value] = {}
        frame = Frame(f.module, node.name, ns, (f.locals, *f.closure) if f.is_function else f.closure)
        frame.qualname = node.name if f.class_annotations is None else f"{f.qualname}.{node.name}"
        frame.class_annotations = {}
        frame.stmt = node
        self.stack.append(frame)
        try:
            body(self, frame)
        finally:
            self.stack.pop()
        kept = tuple(b for b in bases if isinstance(b, (Class, External, type)) and b is not object)
        cls = Class(node.name, frame.qualname, kept, ns, f.module)
        cls.annotations = frame.class_annotations
        cls.node = node
        cls.options.update(options)
        self.adopt(cls)
        for name, value in list(ns.items()):
            if type(value) is Instance and isinstance(value.cls, Class):
                named = value.cls.lookup("__set_name__")
                if named is not ABSENT:
                    self.call(named, [value, cls, name])
        for base in cls.mro[1:]:
            hook = base.ns.get("__init_subclass__") if isinstance(base, Class) else None
            if hook is not None:
                self.call(
                    hook.fn if isinstance(hook, Wrapped) else hook, [cls], {k: v for k, v in options.items() if k != "metaclass"}
                )
                break
        return cls

    def adopt(self, cls: Class) -> None:
        """Decide what kind of class it is and finish its members."""
        for value in list(cls.ns.values()):
            inner = value.fn if isinstance(value, Wrapped) else value
            if isinstance(inner, Func) and inner.owner is None:
                inner.owner = cls
            if isinstance(value, Wrapped) and isinstance(value.setter, Func):
                value.setter.owner = cls
        for base in cls.mro[1:]:
            if isinstance(base, Class) and base.kind != "plain":
                cls.kind = base.kind
                break
            if isinstance(base, External):
                if base.path in _ENUMS:
                    cls.kind = "enum"
                    native = _ENUMS[base.path]
                    if native is not object:
                        cls.mro = (*cls.mro, native)
                        cls.options["str_enum"] = base.path == "enum.StrEnum"
                elif base.path in _STRUCTS:
                    cls.kind = "struct"
                elif base.path in _TUPLES:
                    cls.kind = "namedtuple"
                elif base.path.startswith("argparse.") and base.path.endswith("Action"):
                    cls.kind = "action"
                else:
                    continue
                break
            if isinstance(base, type) and issubclass(base, BaseException):
                cls.kind = "exception"
                break
        if cls.kind == "enum":
            self.make_members(cls)
        for name, value in list(cls.ns.items()):
            if isinstance(value, Instance) and isinstance(value.cls, Class):
                hook = value.cls.lookup("__set_name__")
                if hook is not ABSENT:
                    self.call(hook, [value, cls, name])

    def make_members(self, cls: Class) -> None:
        members: list[Instance] = list(cls.options.get("members", []))
        count = 0
        for name, value in list(cls.ns.items()):
            if name.startswith("_") or isinstance(value, (Func, Wrapped, Native, Class)):
                continue
            count += 1
            if isinstance(value, Instance) and value.cls is _AUTO:
                value = name.lower() if str in cls.mro else count
            if isinstance(value, int) and not isinstance(value, bool):
                count = max(count, value)
            twin = next((m for m in members if type(m.attrs["_value_"]) is type(value) and m.attrs["_value_"] == value), None)
            if twin is not None:
                cls.ns[name] = twin
                continue
            member = Instance(cls, {"_name_": name, "_value_": value, "name": name, "value": value})
            init = cls.lookup("__init__")
            if isinstance(init, Func):
                self.call(init, [member, *(value if isinstance(value, tuple) else (value,))])
            cls.ns[name] = member
            members.append(member)
        cls.options["members"] = members

    # ------------------------------------------------ fields of records
    def fields_of(self, cls: Class) -> list[Instance]:
        """Field objects (`name`, `default`, `default_factory`, `type`) of a dataclass or struct, in order."""
        made = cls.options.get("fields")
        if made is not None:
            return list(made)
        out: dict[str, Instance] = {}
        for base in reversed(cls.mro):
            if not isinstance(base, Class) or (base is not cls and base.kind == "plain"):
                continue  # what a base annotates that is no record itself is no field
            if base is not cls and base.options.get("fields") is not None:
                out.update({f.attrs["name"]: f for f in base.options["fields"]})
                continue
            for name, annotation in base.annotations.items():
                text = annotation_text(annotation)
                if text.startswith(("ClassVar", "typing.ClassVar")):
                    continue
                if name.startswith("__"):
                    continue
                out[name] = self.make_field(cls, name, base.ns.get(name, ABSENT), annotation)
        cls.options["fields"] = list(out.values())
        return list(out.values())

    def make_field(self, cls: Class, name: str, default: Value, annotation: Value) -> Instance:
        missing = _MISSING if cls.kind == "dataclass" else _NODEFAULT
        factory: Value = missing
        init: Value = True
        if isinstance(default, Instance) and default.cls is FIELD:
            factory = default.attrs.get("default_factory", missing)
            init = default.attrs.get("init", True)
            default = default.attrs.get("default", missing)
        elif default is ABSENT:
            default = missing
        elif cls.kind == "struct" and isinstance(default, (list, dict, set)) and not default:
            factory, default = type(default), missing
        required = default is missing and factory is missing
        attrs = {
            "name": name, "encode_name": name, "default": default, "default_factory": factory, "init": init,
            "type": annotation, "required": required, "metadata": {},
        }  # fmt: skip
        return Instance(External("dataclasses.Field"), attrs)

    def instantiate(self, cls: Class, args: list[Value], named: dict[str, Value]) -> Value:
        """Call a class."""
        if cls.kind == "enum":
            return self.enum_member(cls, args)
        if cls.lookup("__abstract_unknown__") is not ABSENT:
            return Unknown(f"{cls.name}()", "not evaluated")
        new = cls.lookup("__new__")
        obj: Value
        if isinstance(new, (Func, Wrapped)):
            obj = self.call(new.fn if isinstance(new, Wrapped) else new, [cls, *args], named)
            if not isinstance(obj, Instance):
                return obj
        else:
            obj = Instance(cls)
        if cls is self.args_class and self.record is None:
            self.record = obj
        if cls.kind == "exception":
            obj.attrs["args"] = tuple(args)
        if cls.kind == "action" or any(b.path.endswith("Config") for b in cls.external_bases()):
            obj.opaque = f"{cls.name}()"
        init = cls.lookup("__init__")
        if isinstance(init, Func):
            self.call(init, [obj, *args], named)
        elif cls.kind in ("dataclass", "struct", "namedtuple"):
            self.fill_record(cls, obj, args, named)
        elif obj.opaque is not None and cls.kind == "plain" and named:
            for name, value in named.items():
                self.heap.set(obj.attrs, name, value)
        elif cls.external_bases() and cls.kind == "plain" and any(b.path not in _HARMLESS for b in cls.external_bases()):
            obj.opaque = f"{cls.name}()"
        elif (args or named) and cls.kind == "plain" and not isinstance(new, (Func, Wrapped)):
            raise TargetRaise(TypeError, (f"{cls.name}() takes no arguments",))
        return obj

    def fill_record(self, cls: Class, obj: Instance, args: list[Value], named: dict[str, Value]) -> None:
        fields = [f for f in self.fields_of(cls) if f.attrs["init"] is not False]
        names = [f.attrs["name"] for f in fields]
        given = dict(zip(names, args, strict=False))
        given.update(named)
        extra = [k for k in given if k not in names]
        if extra or len(args) > len(names):
            raise TargetRaise(
                TypeError, (f"{cls.name}.__init__() got an unexpected keyword argument '{extra[0] if extra else '?'}'",)
            )
        missing: list[str] = []
        for field in self.fields_of(cls):
            name, default, factory = (field.attrs[k] for k in ("name", "default", "default_factory"))
            if name in given:
                value = given[name]
            elif default not in (_MISSING, _NODEFAULT):
                value = default
            elif factory not in (_MISSING, _NODEFAULT):
                value = self.call(factory, [])
            else:
                missing.append(name)
                continue
            self.heap.set(obj.attrs, name, value)
        if obj is self.record:
            self.given = dict(obj.attrs)
        if missing:
            raise TargetRaise(TypeError, (f"{cls.name}.__init__() missing required arguments: {', '.join(missing)}",))
        hook = cls.lookup("__post_init__")
        if isinstance(hook, Func):
            self.call(hook, [obj])

    def enum_member(self, cls: Class, args: list[Value]) -> Value:
        value = self.plain_of(args[0]) if args else None
        if args and isinstance(args[0], Instance) and args[0].cls is cls:
            return args[0]
        if isinstance(value, Unknown) or has_unknown(value):
            return Unknown(f"{cls.name}({show(value)})", value.why if isinstance(value, Unknown) else "not known")
        for member in cls.options.get("members", []):
            held = member.attrs["_value_"]
            if type(held) is type(value) and held == value:
                return member
        hook = cls.lookup("_missing_")
        if hook is not ABSENT:
            found = self.call(hook.fn if isinstance(hook, Wrapped) else hook, [cls, value])
            if found is not None:
                return found
        exc = TargetRaise(ValueError, (f"{value!r} is not a valid {cls.qualname}",))
        exc.reads = frozenset(self.reads)
        raise exc

    def make_exception(self, value: Value) -> TargetRaise:
        """What `raise value` puts on its way."""
        if isinstance(value, TargetRaise):
            return value
        if isinstance(value, Instance):
            args = value.attrs.get("args", ())
            return TargetRaise(value.cls, tuple(args) if isinstance(args, tuple) else (), value)
        if isinstance(value, Class):
            made = self.instantiate(value, [], {})
            return self.make_exception(made) if isinstance(made, Instance) else TargetRaise(value)
        if isinstance(value, type) and issubclass(value, BaseException):
            return TargetRaise(value)
        return TargetRaise(value if isinstance(value, (External, Unknown)) else Unknown("?exception", "not known"))

    def matches_handler(self, exc: TargetRaise, wanted: Value) -> bool | None:
        """Whether `except wanted` catches it; None when not known."""
        if isinstance(wanted, tuple):
            answers = [self.matches_handler(exc, one) for one in wanted]
            return True if True in answers else (None if None in answers else False)
        cls = exc.cls
        if wanted in (Exception, BaseException):
            if isinstance(cls, type):
                return issubclass(cls, wanted)
            return True
        if isinstance(wanted, type):
            if isinstance(cls, type):
                return issubclass(cls, wanted)
            if isinstance(cls, Class):
                return any(isinstance(b, type) and issubclass(b, wanted) for b in cls.mro)
            return None
        if isinstance(wanted, Class):
            return wanted in cls.mro if isinstance(cls, Class) else (False if isinstance(cls, type) else None)
        if isinstance(wanted, External) and isinstance(cls, External):
            return cls.path == wanted.path
        if isinstance(wanted, External) and isinstance(cls, type):
            return False
        return None


def annotation_text(annotation: Value) -> str:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value
    return ast.unparse(annotation) if isinstance(annotation, ast.expr) else str(annotation)


FIELD = External("dataclasses.field")
_AUTO = External("enum.auto")
_MISSING = External("dataclasses.MISSING")
_NODEFAULT = External("msgspec.NODEFAULT")
AUTO, MISSING, NODEFAULT = _AUTO, _MISSING, _NODEFAULT
_HARMLESS = {"abc.ABC", "typing.Protocol", "typing.Generic", "object", "typing.Generic[T]", "contextlib.ContextDecorator"}
