"""One forked child for each launch, with a time limit, in a throw-away folder that holds the models."""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import select
import shutil
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Case = Mapping[str, Any]  # {"argv": [...], "env": {name: value or None}, ...}
Work = Callable[[Case], dict[str, Any]]
_WARM_ROUNDS = 40  # of learning what launches import
_FAILED = 70


class Folder:
    """A working directory that each launch finds as the first one did."""

    def __init__(self, path: Path, models: Path) -> None:
        self.path = path
        shutil.copytree(models, path / "models")
        self.kept = self.list()

    def list(self) -> set[Path]:
        return set(self.path.rglob("*"))

    def clean(self) -> None:
        for path in sorted(self.list() - self.kept):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


@contextlib.contextmanager
def make_folders(models: Path, count: int) -> Iterator[list[Folder]]:
    """So many folders, the first of them the working directory; temporary files go beside them. All are gone afterwards."""
    before = (os.getcwd(), os.environ.get("TMPDIR"), tempfile.tempdir)
    with tempfile.TemporaryDirectory(prefix="oracle-", ignore_cleanup_errors=True) as name:
        top = Path(name).resolve()
        (top / "tmp").mkdir()
        folders = []
        for number in range(count):
            (top / str(number)).mkdir()
            folders.append(Folder(top / str(number), models))
        os.chdir(folders[0].path)
        os.environ["TMPDIR"] = tempfile.tempdir = str(top / "tmp")
        try:
            yield folders
        finally:
            os.chdir(before[0])
            tempfile.tempdir = before[2]
            os.environ.pop("TMPDIR")
            if before[1] is not None:
                os.environ["TMPDIR"] = before[1]


class _Made:
    """Folders that a launch makes beyond its own: validation names some by the values of flags."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.own = (str(Path.cwd().parent) + os.sep, str(Path.home()) + os.sep)
        sys.addaudithook(self.hear)

    def hear(self, event: str, given: tuple[Any, ...]) -> None:
        if event == "os.mkdir" and isinstance(given[0], (str, bytes, os.PathLike)):
            path = os.path.abspath(os.fsdecode(given[0]))
            if not path.startswith(self.own) and not os.path.exists(path):
                self.paths.append(path)

    def remove(self) -> None:
        for path in sorted(self.paths, reverse=True):
            with contextlib.suppress(OSError):
                os.rmdir(path)


@dataclass
class _Child:
    number: int
    case: Case
    folder: Folder
    process: int
    pipe: int
    until: float
    said: bytes = b""
    killed: bool = field(default=False)


def _start(number: int, case: Case, folder: Folder, work: Work, limit: float, known: set[str]) -> _Child:
    reading, writing = os.pipe()
    process = os.fork()
    if process:
        os.close(writing)
        return _Child(number, case, folder, process, reading, time.monotonic() + limit)
    code = _FAILED
    try:
        os.setsid()
        os.close(reading)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        os.chdir(folder.path)
        for name, value in (case.get("env") or {}).items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = str(value)
        made = _Made()
        answer = work(case)
        made.remove()
        new = [name for name in sys.modules if name not in known] if known else []
        with os.fdopen(writing, "wb") as out:
            out.write(json.dumps([answer, new]).encode())
        code = 0
    finally:
        os._exit(code)  # no clean-up of the parent's must run here


def _end(child: _Child, limit: float) -> tuple[dict[str, Any], list[str]]:
    os.close(child.pipe)
    _process, status = os.waitpid(child.process, 0)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.process, signal.SIGKILL)  # what the launch started and left
    child.folder.clean()
    if child.killed:
        return {"outcome": "timeout", "message": f"no answer within {limit:g} s"}, []
    try:
        answer, new = json.loads(child.said)
    except ValueError:
        return {"outcome": "crash", "message": f"the child ended with {os.waitstatus_to_exitcode(status)}"}, []
    return answer, new


def _import_too(names: Iterable[str]) -> None:
    """Import here what a child had to import, so that those that come need not."""
    before = dict(os.environ)
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        for name in names:
            with contextlib.suppress(BaseException):
                importlib.import_module(name)
    os.environ.clear()
    os.environ.update(before)


def answer_all(
    cases: Iterable[Case], work: Work, folders: Iterable[Folder], limit: float = 60.0, warm: tuple[str, ...] = ()
) -> Iterator[tuple[Case, dict[str, Any]]]:
    """Each case with what `work` made of it, in their order; as many at a time as there are folders.

    `limit` is in seconds of wall time. `warm`: prefixes of the modules that may be imported once for all.
    """
    gc.collect()
    gc.freeze()
    known, rounds = set(sys.modules), _WARM_ROUNDS if warm else 0
    free, running, done = list(folders), dict[int, _Child](), dict[int, tuple[Case, dict[str, Any]]]()
    waiting = deque(enumerate(cases))
    following = 0
    while waiting or running:
        while waiting and free:
            child = _start(*waiting.popleft(), free.pop(), work, limit, known if rounds else set())
            running[child.pipe] = child
        for pipe in select.select(list(running), [], [], 0.2)[0]:
            child = running[pipe]
            data = os.read(pipe, 1 << 20)
            child.said += data
            if data:
                continue
            del running[pipe]
            answer, new = _end(child, limit)
            free.append(child.folder)
            done[child.number] = (child.case, answer)
            wanted = [name for name in new if name not in known and name.startswith(warm)]
            if wanted:
                _import_too(wanted)
                known |= set(sys.modules) | set(new)
                rounds -= 1
                gc.freeze()
        for child in running.values():
            if not child.killed and time.monotonic() > child.until:
                child.killed = True
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(child.process, signal.SIGKILL)
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(child.process, signal.SIGKILL)
        while following in done:
            yield done.pop(following)
            following += 1
    gc.unfreeze()
