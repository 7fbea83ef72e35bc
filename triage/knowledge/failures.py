"""Reads failures/*.toml into signatures, and figures.toml into the log lines that tell numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import cast, get_args

from triage.knowledge.phrases import read_phrase
from triage.knowledge.tables import TableReader, read_table
from triage.model import FailureKind, FigureLine, Holding, Phrase, Remedy, RemedyKind, Signature, Try, Where

FAILURES_SCHEMA = 1
CATEGORIES = (
    *("argument", "usage", "memory", "host_memory", "host", "network", "driver", "kernel"),
    *("package", "model", "access", "environment", "runtime", "timeout", "warmup", "other"),
)
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9.]+)*")
_FOLDER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*")
_GAP_IN_TEXT = re.compile(r"\{([a-z_][a-z0-9_]*)\}")
_ENTRY = ("id", "category", "rank", "means", "where", "remedy", "gather", "matches", "not")
_WHERE = (
    *("exceptions", "messages", "files", "functions", "sites", "lines", "log", "absent"),
    *("phases", "kinds", "signals", "seconds", "ranks", "more", "source"),
)
_TRY = ("field", "fields", "variable", "value", "compute", "joins", "costs")


def read_failures(folder: Path) -> tuple[Signature, ...]:
    """The signatures of all files of a folder, by id; () where there is no folder. Raises KnowledgeError."""
    found: dict[str, Signature] = {}
    for path in sorted(folder.glob("*.toml")):
        reader = FailureReader(path, read_table(path))
        for number, signature in enumerate(reader.signatures()):
            if signature.id in found:
                raise reader.fail(f"failure[{number}].id", f"{signature.id!r} stands twice")
            found[signature.id] = signature
    return tuple(found[name] for name in sorted(found))


def read_figures(path: Path) -> tuple[FigureLine, ...]:
    """The lines of figures.toml; () where there is none. Raises KnowledgeError."""
    return FailureReader(path, read_table(path)).figures() if path.is_file() else ()


class FailureReader(TableReader):
    """The tables of one file."""

    def check_schema(self, key: str) -> None:
        for name in self.table:
            if name not in ("schema", key):
                raise self.fail(name, "is not a key of this schema")
        if self.table.get("schema") != FAILURES_SCHEMA or isinstance(self.table.get("schema"), bool):
            raise self.fail("schema", f"must be {FAILURES_SCHEMA}")

    def signatures(self) -> tuple[Signature, ...]:
        self.check_schema("failure")
        return tuple(self.signature(f"failure[{i}]", item) for i, item in enumerate(self.tables("failure", _ENTRY)))

    def figures(self) -> tuple[FigureLine, ...]:
        self.check_schema("figure")
        found = []
        for i, item in enumerate(self.tables("figure", ("lines", "take", "over"))):
            phrases = self.phrases(f"figure[{i}].lines", item.get("lines", []), needed=True, alone=True)
            take, over = item.get("take", "last"), item.get("over", "min")
            if take not in ("first", "last"):
                raise self.fail(f"figure[{i}].take", "must be first or last")
            if over not in ("min", "max"):
                raise self.fail(f"figure[{i}].over", "must be min or max")
            found.append(FigureLine(phrases, "first" if take == "first" else "last", "max" if over == "max" else "min"))
        return tuple(found)

    def signature(self, key: str, item: Mapping[str, object]) -> Signature:
        name = self.check_text(f"{key}.id", item.get("id"))
        if not _ID.fullmatch(name):
            raise self.fail(f"{key}.id", "must be words of small letters and digits, joined by -")
        key = f"failure {name}"
        category = self.check_text(f"{key}.category", item.get("category"))
        if category not in CATEGORIES:
            raise self.fail(f"{key}.category", f"must be one of {', '.join(CATEGORIES)}")
        for kind in ("matches", "not"):
            for log in self.check_texts(f"{key}.{kind}", item.get(kind, []), needed=True):
                if not _ID.fullmatch(log):
                    raise self.fail(f"{key}.{kind}", "must be names of logs")
        where = tuple(self.where(f"{key}.where[{i}]", w) for i, w in enumerate(self.check_tables(f"{key}.where", item, _WHERE)))
        made = Signature(
            id=name,
            category=category,
            rank=self.check_int(f"{key}.rank", item.get("rank"), 0, 100),
            means=self.check_text(f"{key}.means", item.get("means")),
            where=where,
            remedy=self.remedy(f"{key}.remedy", item.get("remedy")),
            gather=self.check_texts(f"{key}.gather", item.get("gather", []), needed=False),
        )
        known = {gap for w in where for phrase in (*w.messages, *w.lines, *w.log) for gap in phrase.gaps}
        for text in (made.means, made.remedy.text, *made.gather, *(t.value or "" for t in made.remedy.tries)):
            for gap in _GAP_IN_TEXT.findall(text):
                if gap not in known:
                    raise self.fail(key, f"no phrase has the gap {{{gap}}}")
        return made

    def where(self, key: str, item: Mapping[str, object]) -> Where:
        def texts(name: str) -> tuple[str, ...]:
            return self.check_texts(f"{key}.{name}", item.get(name, []), needed=False)

        kinds, signals, seconds = texts("kinds"), item.get("signals", []), item.get("seconds")
        for kind in kinds:
            if kind not in get_args(FailureKind):
                raise self.fail(f"{key}.kinds", f"no kind of failure is called {kind!r}")
        if not isinstance(signals, list):
            raise self.fail(f"{key}.signals", "must be a list of numbers")
        made = Where(
            exceptions=texts("exceptions"),
            messages=self.phrases(f"{key}.messages", item.get("messages", []), alone="exceptions" not in item),
            files=texts("files"),
            functions=texts("functions"),
            sites=texts("sites"),
            lines=self.phrases(f"{key}.lines", item.get("lines", []), alone=True),
            log=self.phrases(f"{key}.log", item.get("log", []), alone=True),
            absent=self.phrases(f"{key}.absent", item.get("absent", []), alone=True),
            phases=texts("phases"),
            kinds=cast(tuple[FailureKind, ...], kinds),
            signals=tuple(self.check_int(f"{key}.signals[{i}]", s, 1, 64) for i, s in enumerate(signals)),
            seconds=None if seconds is None else self.check_int(f"{key}.seconds", seconds, 1, 10**6),
            ranks=texts("ranks"),
            source=self.holding(f"{key}.source", item.get("source")),
            more=self.pairs(f"{key}.more", item.get("more", [])),
        )
        told = (made.exceptions, made.messages, made.files, made.functions, made.sites, made.lines, made.log)
        if not any((*told, made.kinds, made.signals)):
            raise self.fail(key, "says nothing that a failure could be known by")
        return made

    def holding(self, key: str, value: object) -> Holding | None:
        if value is None:
            return None
        if not isinstance(value, dict) or set(value) != {"folder", "text"}:
            raise self.fail(key, "must have folder and text")
        folder = self.check_text(f"{key}.folder", value["folder"])
        if not _FOLDER.fullmatch(folder):
            raise self.fail(f"{key}.folder", "must be a relative folder of plain names")
        return Holding(folder, self.check_text(f"{key}.text", value["text"]))

    def pairs(self, key: str, value: object) -> tuple[tuple[str, str], ...]:
        if not isinstance(value, list):
            raise self.fail(key, "must be pairs of gaps")
        found = [self.check_texts(f"{key}[{i}]", pair, needed=True) for i, pair in enumerate(value)]
        if any(len(pair) != 2 for pair in found):
            raise self.fail(key, "must be pairs of gaps")
        return tuple((pair[0], pair[1]) for pair in found)

    def remedy(self, key: str, item: object) -> Remedy:
        if not isinstance(item, dict):
            raise self.fail(key, "must be a table")
        for name in item:
            if name not in ("kind", "text", "try"):
                raise self.fail(f"{key}.{name}", "is not a key of this schema")
        kind = self.check_text(f"{key}.kind", item.get("kind"))
        if kind not in get_args(RemedyKind):
            raise self.fail(f"{key}.kind", f"must be one of {', '.join(get_args(RemedyKind))}")
        tries = tuple(
            self.attempt(f"{key}.try[{i}]", t) for i, t in enumerate(self.check_tables(f"{key}.try", item, _TRY, needed=False))
        )
        if tries and kind not in ("flag", "environment"):
            raise self.fail(f"{key}.try", "belongs to a remedy of kind flag or environment")
        return Remedy(cast(RemedyKind, kind), self.check_text(f"{key}.text", item.get("text")), tries)

    def attempt(self, key: str, item: Mapping[str, object]) -> Try:
        def optional(name: str) -> str | None:
            return self.check_text(f"{key}.{name}", item[name]) if name in item else None

        field = optional("field")
        fields = (field,) if field else self.check_texts(f"{key}.fields", item.get("fields", []), needed=False)
        made = Try(
            fields,
            optional("variable"),
            optional("value"),
            optional("compute"),
            item.get("joins") is True,
            optional("costs") or "",
        )
        if bool(made.fields) == bool(made.variable):
            raise self.fail(key, "must name a field or a variable, and not both")
        if made.value is not None and made.compute is not None:
            raise self.fail(key, "cannot have both a value and a computation")
        return made

    def check_tables(
        self, key: str, item: Mapping[str, object], keys: tuple[str, ...], needed: bool = True
    ) -> list[dict[str, object]]:
        name = key.rpartition(".")[2]
        value = item.get(name, [])
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value) or (needed and not value):
            raise self.fail(key, "must be tables")
        for i, one in enumerate(value):
            for name in one:
                if name not in keys:
                    raise self.fail(f"{key}[{i}].{name}", "is not a key of this schema")
        return value

    def check_int(self, key: str, value: object, least: int, most: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.fail(key, f"must be a whole number from {least} to {most}")
        return value

    def phrases(self, key: str, value: object, needed: bool = False, alone: bool = False) -> tuple[Phrase, ...]:
        found = []
        for i, text in enumerate(self.check_texts(key, value, needed)):
            try:
                found.append(read_phrase(text, alone))
            except ValueError as error:
                raise self.fail(f"{key}[{i}]", str(error)) from error
        return tuple(found)
