"""Reads flags.toml: flags of other servers and releases, and what means the same here."""

from __future__ import annotations

import re
from pathlib import Path

from triage.knowledge.tables import TableReader, read_table
from triage.protocols import ForeignFlag

FLAGS_SCHEMA = 1

_FLAG = re.compile(r"--[a-z0-9][a-z0-9-]{0,99}")
_KEYS = ("name", "origin", "to", "value", "values", "drop", "exact", "why")


def read_foreign_flags(path: Path) -> tuple[ForeignFlag, ...]:
    """The flags of one flags.toml, in its order; () where there is no such file. Raises KnowledgeError."""
    if not path.is_file():
        return ()
    table = read_table(path)
    reader = TableReader(path, table)
    for key in table:
        if key not in ("schema", "flags"):
            raise reader.fail(key, "is not a key of this schema")
    if table.get("schema") != FLAGS_SCHEMA or isinstance(table.get("schema"), bool):
        raise reader.fail("schema", f"must be {FLAGS_SCHEMA}")
    found = tuple(_read_flag(reader, f"flags[{i}]", one) for i, one in enumerate(reader.tables("flags", _KEYS)))
    names = [flag.name for flag in found]
    for name in names:
        if names.count(name) > 1:
            raise reader.fail("flags", f"{name} is there twice")
    return found


def _read_flag(reader: TableReader, where: str, table: dict[str, object]) -> ForeignFlag:
    def flag(key: str, value: object) -> str:
        name = reader.check_text(f"{where}.{key}", value)
        if not _FLAG.fullmatch(name):
            raise reader.fail(f"{where}.{key}", "must be a flag: --some-name")
        return name

    def truth(key: str, default: bool) -> bool:
        value = table.get(key, default)
        if not isinstance(value, bool):
            raise reader.fail(f"{where}.{key}", "must be true or false")
        return value

    for key in ("name", "origin", "why"):
        if key not in table:
            raise reader.fail(f"{where}.{key}", "is missing")
    targets = tuple(flag("to", item) for item in reader.check_texts(f"{where}.to", table.get("to", []), needed=False))
    if bool(targets) == truth("drop", False):
        raise reader.fail(where, "has either `to` or `drop = true`")
    value = table.get("value")
    return ForeignFlag(
        name=flag("name", table["name"]),
        origin=reader.check_text(f"{where}.origin", table["origin"]),
        why=reader.check_text(f"{where}.why", table["why"]),
        to=targets,
        value=None if value is None else reader.check_text(f"{where}.value", value),
        values=reader.check_reasons(f"{where}.values", table.get("values", {})),
        exact=truth("exact", True),
    )
