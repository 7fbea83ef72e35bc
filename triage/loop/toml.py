"""Writes the small TOML that captures need; the standard library only reads it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from triage.model import JsonValue

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def write_toml(table: Mapping[str, JsonValue]) -> str:
    """The table as TOML text that `tomllib` reads back equal. None values are left out; text holds no lone surrogates."""
    lines: list[str] = []
    _write_table(table, (), lines)
    return "\n".join(lines).strip("\n") + "\n"


def _write_table(table: Mapping[str, JsonValue], path: tuple[str, ...], lines: list[str]) -> None:
    later: list[tuple[str, JsonValue]] = []
    for key, value in table.items():
        if isinstance(value, dict) or _is_tables(value):
            later.append((key, value))
        elif value is not None:
            lines.append(f"{_key(key)} = {_value(value)}")
    for key, value in later:
        inner = (*path, key)
        name = ".".join(map(_key, inner))
        if isinstance(value, dict):
            lines.extend(("", f"[{name}]"))
            _write_table(value, inner, lines)
        elif isinstance(value, list):
            for item in value:
                lines.extend(("", f"[[{name}]]"))
                assert isinstance(item, dict)
                _write_table(item, inner, lines)


def _is_tables(value: JsonValue) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _value(value: JsonValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    assert isinstance(value, list)
    return _list([_value(item) for item in value])


def _list(items: Sequence[str]) -> str:
    line = f"[{', '.join(items)}]"
    return line if len(line) < 100 else "[\n" + "".join(f"    {item},\n" for item in items) + "]"


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _text(text: str) -> str:
    return '"' + "".join(_character(c) for c in text) + '"'


def _character(c: str) -> str:
    if c in _SHORT:
        return _SHORT[c]
    # Everything that is not printable is spelled: a capture is read by people, too.
    return c if c.isprintable() else f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}"
