"""Records to JSON values and back, for sessions and for --json: names are the field names and stay stable.

A field that is declared `repr=False` or holds bytes (raw contents, a secret's text) never leaves: it is left out, and
reading gives it its default or an empty value. A Secret is written as MASK. A field whose type is a choice of several
records carries `"type"`.
"""

from __future__ import annotations

import collections.abc
import types
import typing
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from triage.errors import CaptureError
from triage.model import MASK, JsonValue, Secret

T = TypeVar("T")


def to_json(record: object) -> JsonValue:
    """The JSON value of a record, or of a tuple, mapping or scalar of records. Text that is not valid Unicode is replaced."""
    return _encode(record, type(record) if is_dataclass(record) else object)


def from_json(cls: type[T], value: JsonValue) -> T:
    """The record that `value` describes; unknown keys are ignored. Raises CaptureError naming the place that is wrong."""
    return cast(T, _decode(value, cls, cls.__name__))


def clean(text: str) -> str:
    """The text with lone surrogates (undecodable bytes) replaced, so that UTF-8 can hold it."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace") if _has_surrogate(text) else text


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= c <= "\udfff" for c in text)


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _options(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _records_of(hint: Any) -> tuple[type, ...]:
    return tuple(o for o in _options(hint) if isinstance(o, type) and is_dataclass(o) and o is not Secret)


def _item_hint(hint: Any, position: int) -> Any:
    for option in _options(hint):
        arguments = get_args(option)
        origin = get_origin(option)
        if origin is tuple and arguments:
            return (
                arguments[0] if len(arguments) == 2 and arguments[1] is Ellipsis else arguments[min(position, len(arguments) - 1)]
            )
        if origin is list:
            return arguments[0]
    return object


def _encode(value: object, hint: Any) -> JsonValue:
    if isinstance(value, Secret):
        return MASK
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return clean(value)
    if is_dataclass(value) and not isinstance(value, type):
        hints = _hints(type(value))
        table: dict[str, JsonValue] = {"type": type(value).__name__} if len(_records_of(hint)) > 1 else {}
        for field in fields(value):
            if field.repr and hints[field.name] is not bytes:
                table[field.name] = _encode(getattr(value, field.name), hints[field.name])
        return table
    if isinstance(value, collections.abc.Mapping):
        return {clean(str(k)): _encode(v, object) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [_encode(item, _item_hint(hint, i)) for i, item in enumerate(value)]
    raise CaptureError(f"a {type(value).__name__} cannot be written as JSON")


def _decode(value: Any, hint: Any, where: str) -> object:
    if hint in (object, Any):
        return value
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _decode_choice(value, hint, where)
    if origin is Literal:
        if value not in get_args(hint):
            raise CaptureError(f"{where}: {str(value)[:80]!r} is not one of {', '.join(map(str, get_args(hint)))}")
        return value
    if isinstance(hint, type) and is_dataclass(hint):
        return _decode_record(value, hint, where)
    if origin is tuple:
        if not isinstance(value, list):
            raise CaptureError(f"{where}: must be a list")
        arguments = get_args(hint)
        if not (len(arguments) == 2 and arguments[1] is Ellipsis) and len(value) != len(arguments):
            raise CaptureError(f"{where}: must have {len(arguments)} items")
        return tuple(_decode(item, _item_hint(hint, i), f"{where}[{i}]") for i, item in enumerate(value))
    if origin in (dict, collections.abc.Mapping):
        if not isinstance(value, dict):
            raise CaptureError(f"{where}: must be a table")
        item_hint = get_args(hint)[1]
        return {str(k): _decode(v, item_hint, f"{where}.{k}") for k, v in value.items()}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(hint, type) or not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise CaptureError(f"{where}: must be {getattr(hint, '__name__', hint)}")
    return value


def _decode_choice(value: Any, hint: Any, where: str) -> object:
    options = _options(hint)
    if value is None and type(None) in options:
        return None
    records = _records_of(hint)
    if len(records) > 1 and isinstance(value, dict):
        named = [r for r in records if r.__name__ == value.get("type")]
        if not named:
            raise CaptureError(f"{where}: must carry a type")
        return _decode_record({k: v for k, v in value.items() if k != "type"}, named[0], where)
    if Secret in options and value == MASK:
        return Secret(MASK)
    rest = [o for o in options if o is not type(None) and o is not Secret]
    for option in rest[:-1]:
        try:
            return _decode(value, option, where)
        except CaptureError:
            continue
    return _decode(value, rest[-1], where)


def _decode_record(value: Any, cls: type, where: str) -> object:
    if not isinstance(value, dict):
        raise CaptureError(f"{where}: must be a table")
    hints = _hints(cls)
    given: dict[str, object] = {}
    for field in fields(cls):
        if not field.repr or hints[field.name] is bytes:
            if _has_no_default(field):
                given[field.name] = b"" if hints[field.name] is bytes else ""
        elif field.name in value:
            given[field.name] = _decode(value[field.name], hints[field.name], f"{where}.{field.name}")
        elif _has_no_default(field):
            if type(None) not in typing.get_args(hints[field.name]):
                raise CaptureError(f"{where}.{field.name}: is missing")
            given[field.name] = None
    return cls(**given)


def _has_no_default(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING
