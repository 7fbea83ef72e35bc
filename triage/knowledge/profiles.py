"""Reads a profile.toml into an EngineProfile."""

from __future__ import annotations

import re

from triage.knowledge.tables import DOTTED, TableReader
from triage.protocols import EngineProfile, RehearsalNames, Stage

PROFILE_SCHEMA = 1

_GLOB = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z0-9_*?][A-Za-z0-9_.*?-]*)+")
_REQUIRED = [
    "schema",
    "name",
    "package",
    "distribution",
    "entries",
    "args_class",
    "stages",
    "port_field",
    "host_field",
    "model_field",
    "health_paths",
    "ready_marks",
    "fatal_marks",
]
_OPTIONAL = [
    "generate_path",
    "phases",
    "environment_prefixes",
    "secret",
    "capabilities",
    "roles",
    "platforms",
    "model_path_fields",
    "protected",
    "protected_values",
    "kinds",
    "declares",
    "view",
    "source_extras",
    "plugin_variables",
    "gpu_fields",
    "nodes_field",
    "rehearsal",
]
_REHEARSAL = ("imports", "first", "environment", "caches", "network_errors", "warm", "busy", "words")


class ProfileReader(TableReader):
    """The table of one profile.toml."""

    def profile(self) -> EngineProfile:
        for key in _REQUIRED:
            if key not in self.table:
                raise self.fail(key, "is missing")
        for key in self.table:
            if key not in _REQUIRED and key not in _OPTIONAL:
                raise self.fail(key, "is not a key of this schema")
        if self.table["schema"] != PROFILE_SCHEMA or isinstance(self.table["schema"], bool):
            raise self.fail("schema", f"must be {PROFILE_SCHEMA}")
        name = self.text("name")
        if name != self.path.parent.name:
            raise self.fail("name", f"must be the folder's name, {self.path.parent.name!r}")
        return EngineProfile(
            name=name,
            package=self.dotted("package"),
            distribution=self.text("distribution"),
            entries=self.entries(),
            args_class=self.dotted("args_class"),
            stages=self.stages(),
            port_field=self.dotted("port_field"),
            host_field=self.dotted("host_field"),
            model_field=self.dotted("model_field"),
            health_paths=self.url_paths("health_paths"),
            generate_path=self.url_path("generate_path", self.text("generate_path")) if "generate_path" in self.table else None,
            ready_marks=self.texts("ready_marks"),
            fatal_marks=self.texts("fatal_marks"),
            phases=self.phases(),
            protected=self.reasons("protected"),
            protected_values=self.reasons("protected_values"),
            secret=self.texts("secret", needed=False),
            capabilities=self.reasons("capabilities"),
            roles=self.reasons("roles"),
            kinds=self.texts("kinds", needed=False),
            platforms=self.reasons("platforms"),
            environment_prefixes=self.texts("environment_prefixes", needed=False),
            model_path_fields=self.texts("model_path_fields", needed=False),
            declares=self.texts("declares", needed=False),
            view=self.dotted("view") if "view" in self.table else None,
            source_extras=self.globs("source_extras"),
            plugin_variables=self.texts("plugin_variables", needed=False),
            gpu_fields=self.texts("gpu_fields", needed=False),
            nodes_field=self.dotted("nodes_field") if "nodes_field" in self.table else None,
            rehearsal=self.rehearsal(),
        )

    def globs(self, key: str) -> tuple[str, ...]:
        values = self.texts(key, needed=False)
        for i, value in enumerate(values):
            if not _GLOB.fullmatch(value):
                raise self.fail(f"{key}[{i}]", "must be a relative path of plain names, with * and ? only below a package")
        return values

    def url_path(self, key: str, value: str) -> str:
        if not re.fullmatch(r"/[A-Za-z0-9._~/-]*", value):
            raise self.fail(key, "must be an absolute URL path")
        return value

    def url_paths(self, key: str) -> tuple[str, ...]:
        return tuple(self.url_path(key, value) for value in self.texts(key))

    def entries(self) -> tuple[tuple[str, ...], ...]:
        value = self.table["entries"]
        if not isinstance(value, list) or not value:
            raise self.fail("entries", "must be a list of word lists that is not empty")
        return tuple(self.check_texts(f"entries[{i}]", words, needed=True) for i, words in enumerate(value))

    def stages(self) -> tuple[Stage, ...]:
        found = []
        for i, item in enumerate(self.tables("stages", ("call", "unless_field"))):
            call = self.check_text(f"stages[{i}].call", item.get("call"))
            if not DOTTED.fullmatch(call) or (i == 0) == call.startswith("."):
                raise self.fail(f"stages[{i}].call", "must be a dotted function first, then .methods of what it returned")
            skip = item.get("unless_field")
            found.append(Stage(call, None if skip is None else self.check_text(f"stages[{i}].unless_field", skip)))
        if not found:
            raise self.fail("stages", "must not be empty")
        return tuple(found)

    def phases(self) -> tuple[tuple[str, str], ...]:
        pairs: list[tuple[str, str]] = []
        for i, item in enumerate(self.tables("phases", ("name", "marks"))):
            name = self.check_text(f"phases[{i}].name", item.get("name"))
            marks = self.check_texts(f"phases[{i}].marks", item.get("marks", []), needed=i > 0)
            pairs.extend((name, mark) for mark in marks or ("",))
        return tuple(pairs)

    def rehearsal(self) -> RehearsalNames:
        table = self.table.get("rehearsal", {})
        if not isinstance(table, dict):
            raise self.fail("rehearsal", "must be a table")
        for key in table:
            if key not in _REHEARSAL:
                raise self.fail(f"rehearsal.{key}", "is not a key of this schema")
        lists = {
            key: self.check_texts(f"rehearsal.{key}", table.get(key, []), needed=False)
            for key in ("imports", "first", "caches", "network_errors", "warm")
        }
        for key in ("imports", "first"):
            for name in lists[key]:
                self.check_dotted(f"rehearsal.{key}", name)
        busy = table.get("busy")
        if busy is not None:
            busy = self.check_dotted("rehearsal.busy", self.check_text("rehearsal.busy", busy))
        given = table.get("words", {})
        if not isinstance(given, dict):
            raise self.fail("rehearsal.words", "must be a table of lists")
        words = {word: self.check_texts(f"rehearsal.words.{word}", calls, needed=True) for word, calls in given.items()}
        for word, calls in words.items():
            for name in calls:
                self.check_dotted(f"rehearsal.words.{word}", name)
        environment = self.check_reasons("rehearsal.environment", table.get("environment", {}))
        return RehearsalNames(**lists, environment=environment, busy=busy, words=words)
