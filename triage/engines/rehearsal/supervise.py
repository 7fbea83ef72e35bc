"""Has launches judged on a host, keeps them within bounds, and leaves nothing behind.

Runs on the host, in the launch's own interpreter: stdlib only, Python 3.8 and later. It imports nothing of the package; that
is for the process that it starts, whose forks judge one launch each. It writes to stdout, one line `token + JSON` each:

    {"ready": seconds}                     once, after the first import
    {"at": N, "outcome": ..., "why": ..., "code": ..., "signal": ..., "seconds": ..., "output": ..., "settings": {}, "asked": {}}
    {"problem": text, "output": text}      instead of answers: this host cannot rehearse
    {"end": true, "notes": [...]}          last
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from typing import Any

from triage.engines.rehearsal.judge import serve
from triage.engines.rehearsal.pipes import Judging, Lines, Output
from triage.engines.rehearsal.tree import adopt_orphans, die_with_parent, end_processes, list_below, read_state, sum_resident

_TICK = 0.05  # seconds
_LOOK = 0.25  # seconds between looks at the memory
_MAX_RESTARTS = 2
_GRACE = 1.0  # seconds that a process may take to end after its last word


class _Over(Exception):
    """The whole batch is over: its time is up, or nobody listens any more."""


def main(payload: dict[str, Any]) -> None:
    """Judge the launches of the payload's order; ends the process."""
    out = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    role = payload.get("role")
    if role is not None:  # a fresh interpreter that the supervisor started
        serve(payload["data"], role["requests"], role["replies"], role["answers"], role["outputs"])
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    code = 0
    supervisor = _Supervisor(payload, out)
    try:
        supervisor.run()
    except (_Over, BrokenPipeError):
        code = 1
    finally:
        supervisor.clean()
    os._exit(code)


class _Supervisor:
    def __init__(self, payload: dict[str, Any], out: int) -> None:
        self.payload = payload
        self.order: dict[str, Any] = payload["data"]
        self.limits: dict[str, Any] = self.order["limits"]
        self.out = out
        self.token: str = self.order.pop("token")
        self.begun = time.monotonic()
        self.until = self.begun + self.limits["seconds"]
        self.folder = ""
        self.notes: list[str] = []
        self.pipes: list[tuple[int, int]] = []  # of each launch, for its answer; (-1, -1) once it is judged
        self.printed: list[tuple[int, int]] = []
        self.listener = select.poll()
        self.listener.register(out, 0)
        self.looked = 0.0
        self.restarts = 0
        self.read: list[str] = []  # watched variables that the import read

    # ------------------------------------------------------------ the batch
    def run(self) -> None:
        self._settle()
        launches = self.order["launches"]
        for _ in launches:
            self.pipes.append(os.pipe())
            self.printed.append(os.pipe())
        judging = self._start({}, fresh=False)
        if judging is None:
            return
        self._say({"ready": time.monotonic() - self.begun})
        read = set(self.read)
        apart: list[int] = []
        for at, launch in enumerate(launches):
            if any(name in read or not name.startswith(tuple(self.order["forked"])) for name in launch["env"]):
                apart.append(at)
        together = [at for at in range(len(launches)) if at not in apart]
        if judging.cuts:
            self._note("a device is in use after the import, so each launch was judged in a process of its own")
            apart, together = list(range(len(launches))), []
        for at in together:
            judging = judging or self._start_again()
            if judging is None:
                self._say_lost(at)
            else:
                judging = self._judge(judging, at)
        if judging is not None:
            self._end(judging)
        for at in apart:
            own = self._start(launches[at]["env"], fresh=bool(launches[at]["env"]), at=at)
            if own is not None:
                own = self._judge(own, at)
                if own is not None:
                    self._end(own)

    def _start_again(self) -> Judging | None:
        self.restarts += 1
        return self._start({}, fresh=False, at=-1) if self.restarts <= _MAX_RESTARTS else None

    def _settle(self) -> None:
        """This process and its surroundings: what it starts is its own to end, and is the first to go where memory is short."""
        for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(name, self._stop)
        with contextlib.suppress(OSError):
            os.setsid()
        if not adopt_orphans():
            self._note("a process that a launch leaves behind could not be ended on this host")
        with contextlib.suppress(OSError):
            os.nice(10)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as stream:
            stream.write("1000")
        tempfile.tempdir = None
        self.folder = os.path.realpath(tempfile.mkdtemp(prefix="triage-rehearsal-"))
        os.mkdir(os.path.join(self.folder, "tmp"))
        names = self.order["names"]
        os.environ.update(names["environment"])
        for name in names["caches"]:
            os.environ[name] = os.path.join(self.folder, "tmp" if name == "TMPDIR" else name.lower())
            os.makedirs(os.environ[name], exist_ok=True)
        os.environ["TMPDIR"] = os.path.join(self.folder, "tmp")
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        sys.dont_write_bytecode = True
        tempfile.tempdir = None
        self.order["folder"] = self.folder
        self.order["nonce"] = os.urandom(16).hex()
        self.order["watched"] = sorted({name for launch in self.order["launches"] for name in launch["env"]})

    # ------------------------------------------------------------ the importing process
    def _start(self, env: dict[str, Any], fresh: bool, at: int | None = None) -> Judging | None:
        """Import the package in a new process; None where that fails, which is told of the launch `at`, or as the problem."""
        asking, asked = os.pipe()
        replying, replied = os.pipe()
        told, said = os.pipe()
        process = os.fork()
        if process == 0:
            for number in (asked, replying, told):
                os.close(number)
            self._become_judging(env, fresh, asking, replied, said)
        for number in (asking, replied, said):
            os.close(number)
        judging = Judging(process, asked, replying, self.order["nonce"])
        output = Output(told, self.limits["output"])
        over: dict[str, Any] | None = None
        while not judging.replies.found and over is None:
            self._wait([judging.replies.number, told])
            dead = read_state(process) in ("", "Z")
            judging.replies.read()
            output.read()
            if judging.replies.found:
                break
            if dead or judging.replies.ended:
                over = {"outcome": "crash", "why": "the process that imported it died"}
            elif self._is_too_large():
                over = {"outcome": "memory", "why": f"importing it takes more than {self.limits['memory']} MiB"}
            elif time.monotonic() >= self.until:
                over = {"outcome": "timeout", "why": self._time_is_up()}
        output.read()
        os.close(told)
        reply = judging.replies.found.pop(0) if judging.replies.found else {}
        self._keep_notes(reply)
        if "failed" in reply:
            over = {"outcome": "fails", "why": str(reply["failed"]), "code": 1}
        if over is None:
            self.read = [str(name) for name in reply.get("read", [])]
            judging.cuts = bool(reply.get("busy"))
            return judging
        self._end(judging)
        if at is None:
            self._say({"problem": over["why"], "output": output.text()[-20_000:]})
        elif at >= 0:
            self._say_answer(at, over, output.text(), 0.0)
        return None

    def _become_judging(self, env: dict[str, Any], fresh: bool, asking: int, replied: int, said: int) -> None:
        try:
            die_with_parent()
            for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(name, signal.SIG_DFL)
            for number in (self.out, *(r for r, _ in (*self.pipes, *self.printed) if r >= 0)):
                os.close(number)
            os.dup2(said, 1)
            os.dup2(said, 2)
            answers, outputs = [w for _, w in self.pipes], [w for _, w in self.printed]
            if not fresh:
                serve(self.order, asking, replied, answers, outputs)
            role = {"requests": asking, "replies": replied, "answers": answers, "outputs": outputs}
            payload = {**self.payload, "role": role}
            script = f"P = __import__('json').loads({json.dumps(payload)!r})\n{payload['boot']}".encode()
            held = os.memfd_create("rehearsal")
            while script:
                script = script[os.write(held, script) :]
            os.lseek(held, 0, os.SEEK_SET)
            os.dup2(held, 0)
            for number in (asking, replied, *answers, *outputs):
                if number >= 0:
                    os.set_inheritable(number, True)
            environ = {k: v for k, v in {**os.environ, **env}.items() if v is not None}
            os.execve(payload["python"][0], payload["python"], environ)
        finally:
            os._exit(70)

    def _end(self, judging: Judging) -> None:
        judging.close()
        end_processes(os.getpid(), set())

    # ------------------------------------------------------------ one launch
    def _judge(self, judging: Judging, at: int) -> Judging | None:
        """Have one launch judged and tell what came of it; None where the importing process is lost."""
        begun = time.monotonic()
        if begun >= self.until:
            self._say_answer(at, {"outcome": "timeout", "why": self._time_is_up()}, "", 0.0)
            return judging
        answer, output = Lines(self.pipes[at][0], self.order["nonce"]), Output(self.printed[at][0], self.limits["output"])
        if not judging.ask(f"judge {at}"):
            self._lose(judging, at)
            return None
        child = self._hear(judging, "child", begun + 5.0)
        if child is None:
            self._lose(judging, at)
            return None
        over = self._follow(child, answer, output, begun)
        status = None
        end_processes(os.getpid(), {judging.process, *([child] if over is None else [])})
        if over is None:
            limit = time.monotonic() + _GRACE
            while read_state(child) not in ("", "Z") and time.monotonic() < limit:
                time.sleep(0.002)
            end_processes(os.getpid(), {judging.process})
        if judging.ask(f"wait {child}"):
            status = self._hear(judging, "status", time.monotonic() + 30.0)
        answer.read()
        output.read()
        for pipes in (self.pipes, self.printed):
            for number in pipes[at]:
                os.close(number)
            pipes[at] = (-1, -1)
        self._say_answer(at, self._conclude(answer, over, status), output.text(), time.monotonic() - begun)
        if status is not None:
            return judging
        self._end(judging)
        return None

    def _follow(self, child: int, answer: Lines, output: Output, begun: float) -> dict[str, Any] | None:
        """Wait for the launch's last word or its death; what ended it before that, if anything did."""
        until = min(begun + self.limits["per_launch"], self.until)
        while True:
            self._wait([n.number for n in (answer, output) if not n.ended])
            dead = read_state(child) in ("", "Z")
            answer.read()
            output.read()
            if dead or any("end" in line for line in answer.found):
                return None
            if self._is_too_large():
                return {"outcome": "memory", "why": f"it took more than {self.limits['memory']} MiB"}
            if time.monotonic() >= until:
                late = self.limits["per_launch"] if until < self.until else None
                return {"outcome": "timeout", "why": self._time_is_up() if late is None else f"no answer within {late:g} s"}

    def _conclude(self, answer: Lines, over: dict[str, Any] | None, status: int | None) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for line in answer.found:
            found.update(line)
        self._keep_notes(found)
        if "outcome" in found:
            return found
        if over is not None:
            return over
        if status is not None and os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            name = signal.Signals(number).name if number in signal.Signals._value2member_map_ else f"signal {number}"
            return {"outcome": "crash", "why": f"it died by {name} while it was judged", "signal": number}
        code = os.WEXITSTATUS(status) if status is not None else None
        return {"outcome": "crash", "why": f"it ended with status {code} while it was judged", "code": code}

    def _hear(self, judging: Judging, word: str, until: float) -> int | None:
        """One number from the importing process; None where it is lost."""
        while True:
            judging.replies.read()
            while judging.replies.found:
                value = judging.replies.found.pop(0).get(word)
                if isinstance(value, int):
                    return value
            if judging.replies.ended or read_state(judging.process) in ("", "Z") or time.monotonic() > until:
                return None
            self._wait([judging.replies.number])

    def _lose(self, judging: Judging, at: int) -> None:
        self._end(judging)
        self._say_lost(at)

    # ------------------------------------------------------------ what is told
    def _say(self, value: dict[str, Any]) -> None:
        data = f"\n{self.token}{json.dumps(value)}\n".encode()
        while data:
            data = data[os.write(self.out, data) :]

    def _say_answer(self, at: int, found: dict[str, Any], output: str, seconds: float) -> None:
        kept = {name: found.get(name) for name in ("outcome", "why", "code", "signal", "settings", "asked")}
        self._say({"at": at, "seconds": seconds, "output": output, **kept})

    def _say_lost(self, at: int) -> None:
        self._say_answer(at, {"outcome": "crash", "why": "the process that imported the package died"}, "", 0.0)

    def _time_is_up(self) -> str:
        return f"the {self.limits['seconds']:g} s of the whole rehearsal were over"

    def _note(self, text: str) -> None:
        if text not in self.notes and len(self.notes) < 20:
            self.notes.append(text)

    def _keep_notes(self, found: dict[str, Any]) -> None:
        notes = found.get("notes")
        for note in notes if isinstance(notes, list) else []:
            self._note(str(note)[:500])

    # ------------------------------------------------------------ bounds
    def _wait(self, numbers: list[int]) -> None:
        """A moment, or until one of the pipes has something. Raises _Over where nobody listens to the answers."""
        if any(state & (select.POLLERR | select.POLLHUP | select.POLLNVAL) for _, state in self.listener.poll(0)):
            raise _Over
        select.select(numbers, [], [], _TICK)

    def _is_too_large(self) -> bool:
        now = time.monotonic()
        if now - self.looked < _LOOK:
            return False
        self.looked = now
        return bool(sum_resident(list_below(os.getpid())) > self.limits["memory"] * 1024 * 1024)

    def _stop(self, *_: Any) -> None:
        raise _Over

    def clean(self) -> None:
        """End all that was started, remove the folder, and say that it is done."""
        for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(name, signal.SIG_IGN)
        left = end_processes(os.getpid(), set())
        if left:
            self._note(f"processes could not be ended: {left}")
        if self.folder:
            self._remove_semaphores()
            shutil.rmtree(self.folder, ignore_errors=True)
            if os.path.exists(self.folder):
                self._note(f"the folder {self.folder} could not be removed")
        with contextlib.suppress(OSError):
            self._say({"end": True, "notes": self.notes})

    def _remove_semaphores(self) -> None:
        mark = f"sem.{os.path.basename(self.folder)}-"
        with contextlib.suppress(OSError):
            for name in os.listdir("/dev/shm"):
                if name.startswith(mark):
                    os.unlink(f"/dev/shm/{name}")
