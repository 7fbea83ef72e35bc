"""Text of values: str, repr, format and the % operator."""

from __future__ import annotations

import operator

from triage.analysis.evaluate import limits
from triage.analysis.evaluate.comparing import OURS, Comparing
from triage.analysis.evaluate.values import (
    ABSENT,
    Class,
    Instance,
    Maybe,
    TargetRaise,
    Unknown,
    Value,
    first_unknown,
    has_unknown,
    show,
)


class Texts(Comparing):
    """How values become text."""

    def percent(self, text: str, value: Value) -> Value:
        values = value if isinstance(value, tuple) else (value,)
        if not limits.spec_affordable(text) or ("*" in text and any(isinstance(v, int) and v > limits.MAX_TEXT for v in values)):
            return Unknown("?%", "too large to evaluate")
        if has_unknown(values):
            return Unknown(f"text({text})", first_unknown(values).why)
        if isinstance(value, dict):
            return self.native(operator.mod, text, {k: self.printable(v) for k, v in value.items()})
        return self.native(operator.mod, text, tuple(self.printable(v) for v in values))

    def printable(self, value: Value) -> Value:
        """What native formatting may be given: plain values; objects become their text."""
        plain = self.plain_of(value)
        if isinstance(plain, (*OURS, TargetRaise)):
            text = self.to_text(plain, False)
            return text if isinstance(text, str) else show(text)
        return plain

    def to_text(self, value: Value, as_repr: bool) -> Value:
        if isinstance(value, Unknown):
            return Unknown(f"str({value.key})", value.why)
        if isinstance(value, Maybe) or has_unknown(value):
            return Unknown(f"str({show(value)})", first_unknown([value]).why)
        if isinstance(value, TargetRaise):
            return value.message if isinstance(value.message, (str, Unknown)) else str(value.message)
        if isinstance(value, Instance):
            for name in ("__repr__",) if as_repr else ("__str__", "__repr__"):
                method = value.cls.lookup(name) if isinstance(value.cls, Class) else ABSENT
                if method is not ABSENT:
                    return self.call(method, [value])
            if isinstance(value.cls, Class) and value.cls.kind == "enum":
                member = value.attrs.get("_name_")
                if value.cls.native_base() is str and not as_repr and value.cls.options.get("str_enum"):
                    return value.attrs.get("_value_")
                return f"<{value.cls.name}.{member}: {value.attrs.get('_value_')!r}>" if as_repr else f"{value.cls.name}.{member}"
            if value.cls is not None and value.opaque:
                return Unknown(f"str({show(value)})", f"{show(value)} is not known")
            return repr(value)
        if isinstance(value, (list, tuple, dict, set, frozenset)):
            return self.native(repr, self.deep_printable(value))
        if isinstance(value, Class):
            return f"<class '{value.module.name}.{value.qualname}'>"
        return self.native(repr if as_repr else str, value)

    def deep_printable(self, value: Value) -> Value:
        if isinstance(value, list):
            return [self.deep_printable(v) for v in value]
        if isinstance(value, tuple):
            return tuple(self.deep_printable(v) for v in value)
        if isinstance(value, dict):
            return {self.deep_printable(k): self.deep_printable(v) for k, v in value.items()}
        return _Text(self.to_text(value, True)) if isinstance(value, OURS) else value

    def format(self, value: Value, conversion: int, spec: Value) -> Value:
        if isinstance(spec, Unknown):
            return spec
        if conversion == ord("r"):
            value = self.to_text(value, True)
        elif conversion in (ord("s"), ord("a")):
            value = self.to_text(value, False)
        if isinstance(value, (Unknown, Maybe)) or has_unknown(value):
            return first_unknown([value])
        if not spec and isinstance(value, (*OURS, TargetRaise, list, tuple, dict, set, frozenset)):
            return self.to_text(value, False)
        if not limits.spec_affordable(spec):
            return Unknown("?format", "too large to evaluate")
        return self.native(format, self.printable(value), spec)


class _Text(str):
    """A text whose repr is itself, for the repr of containers that hold objects of the target."""

    def __repr__(self) -> str:
        return str(self)
