"""This machine. The only user of subprocess."""

from __future__ import annotations

import contextlib
import getpass
import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence

from triage.errors import CommandTimeout, HostError
from triage.hosts.files import FileOperations
from triage.hosts.script import explain_sudo, reveal_argv
from triage.model import Command, CommandResult
from triage.redact import printable

_GRACE = 0.5  # seconds that output may lag behind the end of its process, and that TERM may take


class LocalHost(FileOperations):
    """Commands run in a process group of their own, which is killed when the time is up."""

    @property
    def name(self) -> str:
        return "local"

    def run(self, command: Command) -> CommandResult:
        """Run it to its end; a death by signal N is status 128 + N. Raises CommandTimeout, HostError (cannot start)."""
        words = reveal_argv(command.argv)
        sudo = command.root and os.geteuid() != 0
        if sudo:
            words = ["sudo", "-n", "--", *words]
        try:
            process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, bufsize=0
            )
        except FileNotFoundError:
            if sudo:
                raise HostError("this needs root, and there is no sudo", "run triage as root") from None
            return CommandResult(127, b"", f"{words[0]}: not found".encode("utf-8", "surrogateescape"))
        except PermissionError:
            return CommandResult(126, b"", f"{words[0]}: permission denied".encode("utf-8", "surrogateescape"))
        except OSError as error:
            raise HostError(f"cannot start {printable(words[0])}: {error.strerror}") from error
        try:
            stdout, stderr = _exchange(process, command)
        except BaseException:
            _end_group(process, sudo)
            raise
        finally:
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe:
                    with contextlib.suppress(OSError):
                        pipe.close()
        status = process.returncode
        if sudo and (refused := explain_sudo(status, stderr, _user())):
            raise refused
        return CommandResult(128 - status if status < 0 else status, stdout, stderr)

    def close(self) -> None:
        """Nothing is held between commands."""


def _exchange(process: subprocess.Popen[bytes], command: Command) -> tuple[bytes, bytes]:
    """Feed stdin and keep at most `max_output` bytes of each stream until the process ends. Raises CommandTimeout."""
    deadline = time.monotonic() + command.timeout
    assert process.stdin and process.stdout and process.stderr
    kept = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    feed, at = process.stdin.fileno(), 0
    out, err = process.stdout.fileno(), process.stderr.fileno()
    ended: float | None = None
    with selectors.DefaultSelector() as selector:
        for stream in (out, err):
            os.set_blocking(stream, False)
            selector.register(stream, selectors.EVENT_READ)
        if command.stdin:
            os.set_blocking(feed, False)
            selector.register(feed, selectors.EVENT_WRITE)
        else:
            process.stdin.close()
        while selector.get_map():
            now = time.monotonic()
            if now >= deadline:
                raise CommandTimeout(f"no end after {command.timeout:g} s: {printable(str(command.argv[0]))}")
            events = selector.select(min(0.1, deadline - now))
            for key, _ in events:
                stream = key.fd
                if stream == feed:
                    try:
                        at += os.write(feed, command.stdin[at : at + 65536])
                    except BlockingIOError:
                        continue
                    except BrokenPipeError:
                        at = len(command.stdin)
                    if at >= len(command.stdin):
                        selector.unregister(feed)
                        process.stdin.close()
                    continue
                data = os.read(stream, 1 << 18)
                if data:
                    kept[stream] += data[: max(0, command.max_output - len(kept[stream]))]
                else:
                    selector.unregister(stream)
            # a process that it left behind may hold the pipes open for ever
            if process.poll() is not None:
                ended = time.monotonic() if ended is None or any(k.fd != feed for k, _ in events) else ended
                if time.monotonic() - ended > _GRACE:
                    break
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise CommandTimeout(f"no end after {command.timeout:g} s: {printable(str(command.argv[0]))}") from None
    return bytes(kept[out]), bytes(kept[err])


def _end_group(process: subprocess.Popen[bytes], sudo: bool) -> None:
    """TERM, then KILL the process's group; through sudo where root owns it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if sudo:
            _quiet(["sudo", "-n", "--", "kill", "-s", number.name.removeprefix("SIG"), "--", f"-{process.pid}"])
        else:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)


def _quiet(words: Sequence[str]) -> None:
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=5, check=False
        )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.geteuid()}"


def open_proxy(command: str) -> tuple[socket.socket, Callable[[], None]]:
    """A ProxyCommand run by sh: a socket that is its stdin and stdout, and what ends it. Raises OSError."""
    ours, theirs = socket.socketpair()
    try:
        process = subprocess.Popen(
            ["sh", "-c", f"exec {command}"],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()

    def end() -> None:
        ours.close()
        _end_group(process, sudo=False)

    return ours, end
