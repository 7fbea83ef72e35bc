"""Takes typed values out of the tables of a TOML file; every complaint names the file and the key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from triage.errors import KnowledgeError

MAX_TEXT = 500
DOTTED = re.compile(r"\.?[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


def read_table(path: Path) -> Mapping[str, object]:
    """The file's top table. Raises KnowledgeError naming the file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise KnowledgeError(f"{path}: cannot be read: {error}") from error


class TableReader:
    """One table. All methods raise KnowledgeError."""

    def __init__(self, path: Path, table: Mapping[str, object]) -> None:
        self.path = path
        self.table = table

    def fail(self, key: str, problem: str) -> KnowledgeError:
        return KnowledgeError(f"{self.path}: {key}: {problem}")

    def check_text(self, key: str, value: object) -> str:
        if not isinstance(value, str) or not value.strip():
            raise self.fail(key, "must be a string that is not empty")
        if len(value) > MAX_TEXT or not value.isprintable():
            raise self.fail(key, f"must be printable and at most {MAX_TEXT} characters")
        return value

    def text(self, key: str) -> str:
        return self.check_text(key, self.table[key])

    def dotted(self, key: str) -> str:
        return self.check_dotted(key, self.text(key))

    def check_dotted(self, key: str, value: str) -> str:
        if not DOTTED.fullmatch(value) or value.startswith("."):
            raise self.fail(key, "must be a dotted Python name")
        return value

    def check_texts(self, key: str, value: object, needed: bool) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise self.fail(key, "must be a list of strings")
        if needed and not value:
            raise self.fail(key, "must not be empty")
        return tuple(self.check_text(f"{key}[{i}]", item) for i, item in enumerate(value))

    def texts(self, key: str, needed: bool = True) -> tuple[str, ...]:
        return self.check_texts(key, self.table.get(key, []), needed)

    def tables(self, key: str, keys: tuple[str, ...]) -> list[dict[str, object]]:
        value = self.table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.fail(key, "must be tables")
        for i, item in enumerate(value):
            for name in item:
                if name not in keys:
                    raise self.fail(f"{key}[{i}].{name}", "is not a key of this schema")
        return value

    def reasons(self, key: str) -> dict[str, str]:
        return self.check_reasons(key, self.table.get(key, {}))

    def check_reasons(self, key: str, value: object) -> dict[str, str]:
        if not isinstance(value, dict):
            raise self.fail(key, "must be a table of strings")
        return {name: self.check_text(f"{key}.{name}", reason) for name, reason in value.items()}
