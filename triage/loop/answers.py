"""Answers of the analysis kept on this machine, so that a capture or a launch that was asked for before is answered at once.

An answer is found by the content of everything that it was made from: the log, the launch, the facts, the profile, the
code of triage itself, and each file of the source that the analysis read (those that it looked for in vain as well).
Nothing is kept that the answer itself would not show: captures are redacted before they are analysed.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TypeVar

from triage.analysis.trees import RecordingTree
from triage.codec import from_json, to_json
from triage.errors import CaptureError
from triage.loop.places import find_cache_folder
from triage.loop.rehearsal_files import write_rehearsals
from triage.model import JsonValue
from triage.protocols import Capture, EngineProfile

T = TypeVar("T")

SWITCH = "TRIAGE_CACHE"  # "off": keep nothing and look nothing up; else the folder to keep answers in
KEPT = 200  # answers at most


def recall_answer(cls: type[T], capture: Capture, profile: EngineProfile, make: Callable[[Capture], T]) -> T:
    """What `make(capture)` gives, from the cache where nothing that it read has changed since. The answer is that of its
    JSON form in both cases; what a cache cannot do (no space, no rights) only costs time."""
    folder = _folder()
    if folder is None or capture.source is None:
        return make(capture)
    path = folder / f"{_digest_inputs(cls, capture, profile)}.json"
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, CaptureError):
        held = json.loads(path.read_bytes())
        ask = {"read": capture.source.read, "is_package": capture.source.is_package, "list_dir": capture.source.list_dir}
        if all(_digest(ask[how](name)) == seen for how, name, seen in held["read"]):
            return from_json(cls, held["answer"])
    tree = RecordingTree(capture.source)
    answer = to_json(make(replace(capture, source=tree)))
    with suppress(OSError):
        _write(folder, path, {"read": [[*asked, _digest(seen)] for asked, seen in tree.questions().items()], "answer": answer})
    return from_json(cls, answer)


def _digest(seen: bytes | bool | Sequence[str] | None) -> JsonValue:
    """What is kept of a tree's answer: a file's content by its digest."""
    if isinstance(seen, bytes):
        return hashlib.sha256(seen).hexdigest()
    return seen if seen is None or isinstance(seen, bool) else list(seen)


def _digest_inputs(cls: type, capture: Capture, profile: EngineProfile) -> str:
    values = (
        cls.__name__,
        to_json(capture.meta),
        to_json(capture.launch),
        to_json(capture.facts),
        to_json(capture.models),
        to_json(capture.gaps),
    )
    found = hashlib.sha256(json.dumps([*values, repr(profile), _own_state()], sort_keys=True).encode())
    found.update(repr(sorted(capture.facts.texts.items())).encode("utf-8", "surrogatepass"))  # not in a record's JSON form
    found.update(hashlib.sha256(capture.log).digest())
    found.update(write_rehearsals(capture.rehearsals))
    return found.hexdigest()


@cache
def _own_state() -> list[list[JsonValue]]:
    """What runs: another Python, or another state of the files of triage itself (name, size, time), may answer otherwise."""
    root = Path(__file__).parents[1]
    files = sorted(root.rglob("*.py"))
    state: list[list[JsonValue]] = [[str(f.relative_to(root)), s.st_size, s.st_mtime_ns] for f in files for s in (f.stat(),)]
    return [[sys.version], *state]


def _folder() -> Path | None:
    told = os.environ.get(SWITCH)
    if told == "off":
        return None
    return Path(told) if told else find_cache_folder() / "answers"


def _write(folder: Path, path: Path, entry: dict[str, JsonValue]) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(json.dumps(entry).encode())
    part.replace(path)
    kept = sorted(folder.glob("*.json"), key=lambda p: p.stat().st_mtime)
    for old in kept[:-KEPT]:
        old.unlink(missing_ok=True)


__all__ = ["recall_answer"]
