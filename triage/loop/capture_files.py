"""A capture as a directory, both ways; `capture_run` and these share one border record.

capture.toml        host, service, engine and version, launch, exit, facts, when, models, what source/ lists
log.txt             the log's raw bytes
source/             package files at their relative paths
rehearsals.json     what the host's own validation said of other launches, where it was asked
model/config.json   of the first model that the launch names; further ones in model/1/, model/2/, ...
"""

from __future__ import annotations

import os
import stat
import tomllib
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path

from triage.analysis.excerpt import cut_log
from triage.analysis.trees import FolderTree, MemoryTree, RecordingTree, is_safe_name, walk_python
from triage.codec import clean, from_json, to_json
from triage.errors import CaptureError
from triage.loop.rehearsal_files import read_rehearsals, write_rehearsals
from triage.loop.toml import write_toml
from triage.model import SCHEMA, CaptureMeta, Facts, JsonValue, Launch, ModelConfig, Rehearsal
from triage.protocols import Capture, SourceTree

MAX_TOML = 20_000_000  # bytes
MAX_MODEL = 20_000_000
MAX_MODELS = 50
MAX_REHEARSALS = 100_000_000
MAX_SOURCE = 400_000_000  # all files together
MAX_SOURCE_FILES = 50_000

_REHEARSALS = "rehearsals.json"


@dataclass(frozen=True)
class _Model:
    path: str
    file: str
    files: tuple[str, ...] | None = None  # all names in the model's folder


@dataclass(frozen=True)
class _Folder:
    folder: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class _Index:
    """The tables of capture.toml that are not fields of its top level."""

    facts: Facts = field(default_factory=Facts)
    launch: Launch | None = None
    models: tuple[_Model, ...] = ()
    listings: tuple[_Folder, ...] = ()


def save_capture(capture: Capture, directory: Path) -> None:
    """Write the capture; `directory` must be absent or empty. Raises CaptureError.

    Of a RecordingTree the files are written that were read so far (diagnose first), of any other tree all `.py` files
    of the engine's package. capture.toml comes last: a directory without it is not a capture.
    """
    tree = _tree_to_save(capture)
    files: dict[str, bytes] = {"log.txt": capture.log}
    for name, data in tree.files.items() if tree else ():
        if is_safe_name(name):
            files[f"source/{name}"] = data
    models = [_Model(clean(m.path), _model_file(i), m.files) for i, m in enumerate(capture.models[:MAX_MODELS])]
    for model, stored in zip(capture.models, models, strict=False):
        files[stored.file] = clean(model.text).encode()
    if capture.rehearsals:
        files[_REHEARSALS] = write_rehearsals(capture.rehearsals)
    listings = tuple(_Folder(folder, names) for folder, names in sorted(tree.listings.items())) if tree else ()
    index = _Index(capture.facts, capture.launch, tuple(models), listings)
    table: dict[str, JsonValue] = {"schema": SCHEMA}
    for record in (capture.meta, index):
        shown = to_json(record)
        assert isinstance(shown, dict)
        table.update({key: value for key, value in shown.items() if value not in ([], None)})
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise CaptureError(f"{directory} is not empty", hint="give a new directory")
        for name, data in files.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        (directory / "capture.toml.new").write_text(write_toml(table), encoding="utf-8")
        (directory / "capture.toml.new").rename(directory / "capture.toml")
    except OSError as error:
        raise CaptureError(f"{directory} cannot be written: {error.strerror}") from error


def load_capture(directory: Path) -> Capture:
    """Read a capture directory. Raises CaptureError for damage, an unknown schema, and files that are not plain files.

    Of a large log what a diagnosis reads is kept. `source` is None where there is no source/ folder.
    """
    table = _read_toml(directory / "capture.toml")
    if table.get("schema") != SCHEMA:
        raise CaptureError(f"{directory / 'capture.toml'}: schema {table.get('schema')!r} is not {SCHEMA}")
    meta, index = from_json(CaptureMeta, table), from_json(_Index, table)
    stream, size = _open_plain(directory, "log.txt")
    try:
        with stream:
            log = cut_log(stream, size)
    except OSError as error:
        raise CaptureError(f"{directory / 'log.txt'} cannot be read: {error.strerror or error}") from error
    models = []
    for model in index.models[:MAX_MODELS]:
        if not is_safe_name(model.file) or not model.file.startswith("model/"):
            raise CaptureError(f"{directory}: {model.file[:200]!r} is not a file of a capture")
        text = _read_plain(directory, model.file, MAX_MODEL).decode("utf-8", "replace")
        models.append(ModelConfig(model.path, text, model.files))
    source = _load_source(directory, index.listings)
    rehearsals: tuple[Rehearsal, ...] = ()
    if (directory / _REHEARSALS).exists():
        rehearsals = read_rehearsals(_read_plain(directory, _REHEARSALS, MAX_REHEARSALS), str(directory / _REHEARSALS))
    return Capture(meta, index.launch, index.facts, log.data, source, tuple(models), log.gaps, rehearsals)


def _model_file(number: int) -> str:
    return "model/config.json" if number == 0 else f"model/{number}/config.json"


def _tree_to_save(capture: Capture) -> MemoryTree | None:
    tree = capture.source
    if tree is None:
        return None
    if isinstance(tree, RecordingTree):
        return tree.recorded()
    if isinstance(tree, MemoryTree):
        return tree
    read = {name: tree.read(name) for name in walk_python(tree, capture.meta.engine)}
    return MemoryTree({name: data for name, data in read.items() if data is not None})


def _load_source(directory: Path, listings: tuple[_Folder, ...]) -> SourceTree | None:
    root = directory / "source"
    if root.is_symlink() or not root.is_dir():
        return None
    tree = FolderTree(root)
    files: dict[str, bytes] = {}
    total = 0
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            file = Path(folder, name).relative_to(root).as_posix()
            data = tree.read(file)
            if data is None:
                raise CaptureError(f"{root}: {file[:200]!r} is not a plain file below source/")
            files[file] = data
            total += len(data)
            if total > MAX_SOURCE or len(files) > MAX_SOURCE_FILES:
                raise CaptureError(f"{root} is too large for a capture")
    return MemoryTree(files, {item.folder: item.names for item in listings})


def _read_toml(path: Path) -> dict[str, JsonValue]:
    try:
        text = _read_plain(path.parent, path.name, MAX_TOML).decode("utf-8")
        table: dict[str, JsonValue] = tomllib.loads(text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CaptureError(f"{path} is damaged: {error}") from error
    return table


def _open_plain(directory: Path, name: str) -> tuple[BufferedReader, int]:
    """(the open file, its size in bytes). Raises CaptureError for what is no plain file."""
    path = directory
    try:
        for part in name.split("/"):
            path = path / part
            if path.is_symlink():
                raise CaptureError(f"{path} is a link")
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise CaptureError(f"{path} cannot be read: {error.strerror}") from error
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise CaptureError(f"{path} is not a plain file")
    return os.fdopen(handle, "rb"), status.st_size


def _read_plain(directory: Path, name: str, limit: int) -> bytes:
    """The file's bytes. Raises CaptureError for what is no plain file or larger than `limit`."""
    stream, size = _open_plain(directory, name)
    with stream:
        if size > limit:
            raise CaptureError(f"{directory / name} is too large ({size} bytes)")
        return stream.read(limit)
