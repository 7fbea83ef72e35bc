"""One process that imports the package, and its forks that each judge one launch.

Runs on the host, in the launch's own interpreter: stdlib only, Python 3.8 and later. It tells the supervisor by pipes what
it comes to: lines of JSON. What a launch prints goes to a pipe of its own, as it would go to the log.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import functools
import gc
import importlib
import importlib.util
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

from triage.engines.rehearsal.errors import describe_error, flush_streams, is_of_parser, list_chain, print_error, write_text
from triage.engines.rehearsal.guard import Guard, Refused
from triage.engines.rehearsal.tree import die_with_parent
from triage.engines.rehearsal.typed import typed_names

MAX_REPR = 2_000  # characters of one setting
MAX_SETTINGS = 4_000
MASK = "<masked>"
_OURS = __file__
_WARM_ROUNDS = 40


def serve(data: dict[str, Any], requests: int, replies: int, answers: list[int], outputs: list[int]) -> None:
    """Import, say so, then fork one process for each request (`judge N` or `wait PID`) until there are no more. Never returns."""
    die_with_parent()
    os.setsid()
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(name, signal.SIG_DFL)
    guard = Guard(data["folder"], data["running"])
    guard.install()
    judge = _Judge(data, guard, (requests, replies))
    ready = judge.prepare()
    _send(replies, data["nonce"], ready)
    if "failed" in ready:
        flush_streams()
        os._exit(1)
    for line in os.fdopen(requests, "rb", buffering=0):
        word, number = line.split()
        if word == b"judge":
            at = int(number)
            flush_streams()
            child = os.fork()
            if child == 0:
                judge.answer(at, answers, outputs)
            _send(replies, data["nonce"], {"child": child, "at": at})
        elif word == b"wait":
            _, status = os.waitpid(int(number), 0)
            _send(replies, data["nonce"], {"status": status})
            judge.warm()
    os._exit(0)


class _Judge:
    def __init__(self, data: dict[str, Any], guard: Guard, private: tuple[int, ...]) -> None:
        self.data = data
        self.private = private  # descriptors that no launch gets
        self.names: dict[str, Any] = data["names"]
        self.guard = guard
        self.program: list[str] = []
        self.namespace: argparse.Namespace | None = None
        self.typed: set[str] = set()
        self.record: Any = None
        self.known: set[str] = set()
        self.wanted = os.path.join(data["folder"], "modules")  # what a launch imported beside, for the next
        self.rounds = _WARM_ROUNDS

    # ------------------------------------------------------------ once
    def prepare(self) -> dict[str, Any]:
        """Import what the launcher imports; which variables that read, and whether a device is in use now."""
        read: set[str] = set()
        with _watch_environment(set(self.data["watched"]), read):
            error = _attempt(self._import_all)
        if error is not None:
            print_error(error, _OURS)
            return {"failed": self._find_refused(error) or describe_error(error), "notes": self.guard.events}
        self.known = set(sys.modules)
        gc.collect()
        gc.freeze()
        return {"read": sorted(read), "busy": self._is_busy(), "notes": self.guard.events}

    def _import_all(self) -> None:
        self.program = self._find_program()
        importlib.import_module(self.names["stages"][0][0].rpartition(".")[0])
        for name in self.names["imports"]:
            _import_where_there(name)

    def _find_program(self) -> list[str]:
        """sys.argv of the launch before its own arguments, as the interpreter would set it."""
        module, words = self.data["module"], list(self.data["words"])
        if module is None:
            return words
        spec = importlib.util.find_spec(module)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(module + ".__main__")
        return [(spec.origin if spec is not None else None) or module, *words]

    def _is_busy(self) -> bool:
        if self.names["busy"] is None:
            return False
        module, _, name = self.names["busy"].rpartition(".")
        loaded = sys.modules.get(module)
        with contextlib.suppress(Exception):
            return loaded is not None and bool(getattr(loaded, name)())
        return False

    def warm(self) -> None:
        """Import here what the last launch had to import by itself, so that the next ones need not."""
        if self.rounds <= 0:
            return
        self.rounds -= 1
        try:
            with open(self.wanted, encoding="utf-8") as stream:
                names = json.load(stream)
            os.unlink(self.wanted)
        except (OSError, ValueError):
            return
        before = dict(os.environ)
        saved = os.dup(1), os.dup(2)
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        for name in names:
            with contextlib.suppress(Exception, SystemExit):
                importlib.import_module(name)
        flush_streams()
        os.dup2(saved[0], 1)
        os.dup2(saved[1], 2)
        for number in (*saved, nothing):
            os.close(number)
        if os.environ != before:
            os.environ.clear()
            os.environ.update(before)
        self.known |= set(sys.modules) | set(names)
        gc.freeze()

    # ------------------------------------------------------------ one launch
    def answer(self, at: int, answers: list[int], outputs: list[int]) -> None:
        """Judge one launch in this process, send what came of it, and end."""
        code = 70
        try:
            die_with_parent()
            os.setsid()
            out = answers[at]
            send = functools.partial(_send, out, self.data["nonce"])
            os.dup2(outputs[at], 1)
            os.dup2(outputs[at], 2)
            for number in (*answers, *outputs, *self.private):
                if number not in (out, -1):
                    os.close(number)
            launch = self.data["launches"][at]
            folder = os.path.join(self.data["folder"], "tmp", str(at))
            os.makedirs(folder, exist_ok=True)
            self.guard.events.clear()
            for name, value in {"TMPDIR": folder, **launch["env"]}.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
            if "tempfile" in sys.modules:
                sys.modules["tempfile"].tempdir = None  # type: ignore[attr-defined]
            verdict = self._judge(launch["args"])
            flush_streams()
            verdict["notes"] = self.guard.events
            send(verdict)
            if self.record is not None:
                send({"settings": self._read_settings(self.record)})
            if self.namespace is not None:
                send({"asked": self._show_all((k, v) for k, v in vars(self.namespace).items() if k in self.typed)})
            self._tell_modules()
            send({"end": True})
            code = 0
        finally:
            os._exit(code)  # no clean-up of the importing process must run here

    def _judge(self, args: list[str]) -> dict[str, Any]:
        sys.argv = [*self.program, *args]
        with self._keep_namespace():
            error = _attempt(lambda: self._run(args))
        return {"outcome": "passes"} if error is None else self._tell(error)

    def _run(self, args: list[str]) -> None:
        for call in self.names["first"]:
            function = _find_where_there(call)
            if function is not None:
                function()
        for call in self.names["words"]:
            function = _find_where_there(call)
            if function is not None:
                args = next(part for part in function(list(args)) if isinstance(part, list))
        first, *rest = self.names["stages"]
        module, _, name = first[0].rpartition(".")
        self.record = record = getattr(importlib.import_module(module), name)(list(args))
        for call, unless in rest:
            method = getattr(record, call[1:], None)
            if method is not None and not (unless is not None and getattr(record, unless, False)):
                method()

    def _tell(self, error: BaseException) -> dict[str, Any]:
        answer: dict[str, Any] = {"outcome": "fails", "why": describe_error(error), "code": 1}
        if self.record is None:
            self.record = self._find_record(error)
        if isinstance(error, SystemExit):
            given = error.code
            answer["code"] = given if isinstance(given, int) else 0 if given is None else 1
            if given is not None and not isinstance(given, int):
                write_text(f"{given}\n")
            if answer["code"] == 0:
                return {**answer, "outcome": "exit"}
            if answer["code"] == 2 and is_of_parser(error):
                answer["outcome"] = "usage"
        else:
            print_error(error, _OURS)
        refused = self._find_refused(error)
        if refused:
            return {**answer, "outcome": "offline", "why": refused}
        return answer

    def _find_record(self, error: BaseException) -> Any:
        """The args object whose own construction failed, from the frames of the failure; None where it did not get there."""
        trace, wanted = error.__traceback__, self.names["args_class"]
        while trace is not None:
            for value in list(trace.tb_frame.f_locals.values()):
                if f"{type(value).__module__}.{type(value).__qualname__}" == wanted:
                    return value
            trace = trace.tb_next
        return None

    def _find_refused(self, error: BaseException) -> str:
        """Why nothing is known of the launch: the exception, or one that it came from, is for want of what a rehearsal lacks."""
        for one in list_chain(error):
            if isinstance(one, Refused):
                return describe_error(one)
            kinds = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(one).__mro__]
            if any(fnmatch.fnmatchcase(kind, wanted) for kind in kinds for wanted in self.names["network_errors"]):
                return f"it needs the network: {describe_error(one)}"
        return ""

    @contextlib.contextmanager
    def _keep_namespace(self) -> Iterator[None]:
        """Keeps what the largest parser made of the command line, and which settings were typed."""
        parsers: Any = argparse.ArgumentParser
        real = parsers.parse_known_args

        def parse_known_args(*given: Any, **named: Any) -> Any:
            found = real(*given, **named)
            space = found[0]
            if self.namespace is None or len(vars(space)) >= len(vars(self.namespace)):
                self.namespace = space
                words = named.get("args", given[1] if len(given) > 1 else None)
                self.typed = typed_names(given[0], sys.argv[1:] if words is None else words)
            return found

        parsers.parse_known_args = parse_known_args
        try:
            yield
        finally:
            parsers.parse_known_args = real

    # ------------------------------------------------------------ settings
    def _read_settings(self, record: Any) -> dict[str, str]:
        """Every field, through the view where the release has one."""
        names = getattr(type(record), "__struct_fields__", None) or getattr(type(record), "__dataclass_fields__", None)
        shown = record
        if self.names["view"] is not None:
            module, _, function = self.names["view"].rpartition(".")
            with contextlib.suppress(Exception):
                shown = getattr(importlib.import_module(module), function)(record)
        pairs = []
        for name in list(names or getattr(record, "__dict__", None) or ()):
            with contextlib.suppress(Exception):
                pairs.append((name, getattr(shown, name)))
        return self._show_all(pairs)

    def _show_all(self, pairs: Any) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, value in list(pairs)[:MAX_SETTINGS]:
            if not isinstance(name, str) or name.startswith("_"):
                continue
            if value is not None and any(fnmatch.fnmatch(name.lower(), p.lower()) for p in self.names["secret"]):
                found[name] = repr(MASK)
                continue
            with contextlib.suppress(Exception):
                found[name] = repr(value)[:MAX_REPR]
        return found

    def _tell_modules(self) -> None:
        new = [n for n in sys.modules if n not in self.known and any(fnmatch.fnmatchcase(n, w) for w in self.names["warm"])]
        if new:
            with contextlib.suppress(OSError), open(self.wanted, "w", encoding="utf-8") as stream:
                json.dump(new, stream)


# ---------------------------------------------------------------- small things
def _attempt(work: Callable[[], None]) -> BaseException | None:
    """What the target's own code raises, which is its answer."""
    try:
        work()
    except BaseException as error:
        return error
    return None


def _send(out: int, nonce: str, value: dict[str, Any]) -> None:
    data = json.dumps({"nonce": nonce, **value}).encode() + b"\n"
    while data:
        data = data[os.write(out, data) :]


def _import_where_there(name: str) -> Any:
    """The module, None where the release has none; one that fails to import another is a failure."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            return None
        raise


def _find_where_there(call: str) -> Any:
    module, _, name = call.rpartition(".")
    return getattr(_import_where_there(module), name, None)


@contextlib.contextmanager
def _watch_environment(names: set[str], read: set[str]) -> Iterator[None]:
    """Gathers which of the names are looked up in os.environ."""
    environ: Any = type(os.environ)
    real = environ.__getitem__

    def getitem(own: Any, key: Any) -> Any:
        if key in names:
            read.add(key)
        return real(own, key)

    environ.__getitem__ = getitem
    try:
        yield
    finally:
        environ.__getitem__ = real
