"""What a launch that is judged may not do: reach another machine, take a port, write outside its folder, signal others.

Runs on the host, in the launch's own interpreter: stdlib only, Python 3.8 and later. It is no sandbox: it keeps code that
means no harm from doing what a start would do, and says so in an exception that can be told from the code's own failures.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import ipaddress
import os
import socket
import stat
import sys
from typing import Any

MAX_EVENTS = 20

_CREATES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# audit event -> places of the paths among its arguments, and of the folder's descriptor for each (None: it has none)
_CHANGES = {
    "os.remove": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)),
    "os.rmdir": ((0, 1),),
    "os.mkdir": ((0, 2),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
    "os.truncate": ((0, None),),
    "os.utime": ((0, 3),),
    "os.setxattr": ((0, None),),
    "os.removexattr": ((0, None),),
    "sqlite3.connect": ((0, None),),
}


class Refused(OSError):
    """The rehearsal's own refusal, never the launch's failure."""


class RefusedName(Refused, socket.gaierror):
    """The same for a look-up of a name."""


class Guard:
    """One for each process and its forks. `running`: the service's server is up, so that a port in use is taken as its own."""

    def __init__(self, folder: str, running: bool) -> None:
        self.folder = os.path.realpath(folder) + os.sep
        self.running = running
        self.events: list[str] = []
        self.made: set[str] = set()  # folders that were only said to be made
        self.open = False  # while the guard itself acts

    def install(self) -> None:
        """From here on, in this process and its forks; it cannot be taken back."""
        _replace_calls(self)
        _name_semaphores(os.path.basename(self.folder.rstrip(os.sep)))
        sys.addaudithook(self._hear)

    def note(self, text: str) -> None:
        text = "".join(c if c.isprintable() else "?" for c in text)[:300]
        if text not in self.events and len(self.events) < MAX_EVENTS:
            self.events.append(text)

    # ------------------------------------------------------------ the hook
    def _hear(self, event: str, given: tuple[Any, ...]) -> None:
        if event == "open":
            if isinstance(given[2], int) and given[2] & _CREATES:
                self._check_path(given[0], None)
        elif event.startswith("socket."):
            self._hear_socket(event, given)
        elif event in _CHANGES:
            if not self.open:
                for place, folder in _CHANGES[event]:
                    self._check_path(given[place], given[folder] if folder is not None and folder < len(given) else None)
        elif event == "os.kill":
            self._check_signal(given[0], given[1])
        elif event == "os.killpg":
            self._check_signal(-given[0] if given[0] else 0, given[1])

    def _hear_socket(self, event: str, given: tuple[Any, ...]) -> None:
        if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
            # a datagram socket that is connected sends nothing: it only learns which address it would send from
            if given[1] is None or (event == "socket.connect" and given[0].type & 0xF == int(socket.SOCK_DGRAM)):
                return
            if not _is_local(given[0], given[1]):
                self.refuse_network(f"connect to {_show_address(given[1])}")
        elif event == "socket.bind":
            self._check_bind(given[0], given[1])
        elif event in ("socket.getaddrinfo", "socket.gethostbyname") and not _is_local_name(given[0]):
            self.note(f"it was kept from looking up the name {_text(given[0])!r}")
            raise RefusedName(socket.EAI_AGAIN, f"a rehearsal looks up no name: {_text(given[0])!r}")

    def refuse_network(self, what: str) -> None:
        self.note(f"it was kept from the network: {what}")
        raise Refused(errno.ENETUNREACH, f"a rehearsal has no network: {what}")

    # ------------------------------------------------------------ files
    def _check_path(self, path: Any, folder: Any) -> None:
        if isinstance(path, int):  # a file that is open already
            return
        try:
            text = os.fsdecode(path)
            if not os.path.isabs(text) and isinstance(folder, int) and folder >= 0:
                text = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), text)
            head, tail = os.path.split(os.path.abspath(text))
            full = os.path.join(os.path.realpath(head), tail)
        except (TypeError, ValueError, OSError):
            return
        if os.path.islink(full):
            full = os.path.realpath(full)
        if full.startswith(self.folder) or text == ":memory:" or _is_harmless(full):
            return
        self.note(f"it was kept from changing {full}")
        raise Refused(errno.EROFS, "a rehearsal changes no file", full)

    def pretend_folder(self, path: Any, real: Any, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        """os.mkdir: outside the folder nothing is made, where it could be; what cannot be fails as it would."""
        try:
            full = os.path.abspath(os.fsdecode(path))
        except (TypeError, ValueError):
            full = ""
        head = os.path.dirname(full)
        inside = (os.path.realpath(head) + os.sep).startswith(self.folder)
        exists = not full or os.path.lexists(full) or named.get("dir_fd") is not None
        able = head in self.made or (os.path.isdir(head) and os.access(head, os.W_OK | os.X_OK))
        if inside or exists or not able:
            if full in self.made:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            self.open = True
            try:
                real(path, *given, **named)
            finally:
                self.open = False
            return
        self.made.add(full)
        self.note(f"the folder {full} was not made, and taken as made")

    # ------------------------------------------------------------ ports and processes
    def _check_bind(self, own: Any, address: Any) -> None:
        if own.family == socket.AF_UNIX:
            name = os.fsdecode(address) if isinstance(address, (str, bytes)) else ""
            if name and not name.startswith("\0"):
                self._check_path(name, None)
        elif isinstance(address, tuple) and len(address) > 1 and address[1] and not self.open:
            self.note(f"it was kept from taking port {address[1]}")
            raise Refused(errno.EACCES, f"a rehearsal takes no port: {_show_address(address)}")

    def pretend_bind(self, own: Any, address: Any, real: Any) -> None:
        """socket.bind of a fixed port: another port is taken, so that none is withheld from the server; one in use is refused."""
        fixed = own.family in (socket.AF_INET, socket.AF_INET6) and isinstance(address, tuple) and len(address) > 1 and address[1]
        if not fixed or not isinstance(address[1], int):
            real(own, address)
            return
        if own.type & 0xF == int(socket.SOCK_STREAM) and is_listened_at(address[1]):
            if not self.running:
                raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
            self.note(f"port {address[1]} is in use now, by the running server as a rule; it was taken as free")
        real(own, (address[0], 0, *address[2:]))

    def _check_signal(self, pid: int, number: int) -> None:
        if number == 0 or pid == 0 or (pid > 0 and _is_below(pid, os.getpid())) or -pid == os.getpgid(0):
            return
        self.note(f"it was kept from sending signal {number} to process {pid}")
        raise Refused(errno.EPERM, f"a rehearsal signals no other process: {pid}")


def _replace_calls(guard: Guard) -> None:
    """The calls that are to seem done: a folder made, a port taken, shared memory refused."""
    real_mkdir, real_isdir, real_exists, real_bind = os.mkdir, os.path.isdir, os.path.exists, socket.socket.bind

    def mkdir(path: Any, *given: Any, **named: Any) -> None:
        guard.pretend_folder(path, real_mkdir, given, named)

    def isdir(path: Any) -> bool:
        return real_isdir(path) or bool(guard.made and isinstance(path, (str, os.PathLike)) and _absolute(path) in guard.made)

    def exists(path: Any) -> bool:
        return real_exists(path) or bool(guard.made and isinstance(path, (str, os.PathLike)) and _absolute(path) in guard.made)

    def bind(own: Any, address: Any) -> None:
        guard.pretend_bind(own, address, real_bind)

    os.mkdir, os.path.isdir, os.path.exists = mkdir, isdir, exists  # type: ignore[assignment]
    socket.socket.bind = bind  # type: ignore[method-assign]
    try:
        shared: Any = importlib.import_module("_posixshmem")
    except ImportError:
        return
    real_open = shared.shm_open

    def shm_open(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT:
            guard.note("it was kept from making shared memory")
            raise Refused(errno.EACCES, "a rehearsal makes no shared memory", path)
        return int(real_open(path, flags, mode=mode))

    shared.shm_open = shm_open


def _name_semaphores(name: str) -> None:
    """Those of `multiprocessing` get names by which the supervisor finds those that are left."""
    with contextlib.suppress(ImportError, AttributeError, KeyError):
        process: Any = importlib.import_module("multiprocessing.process")
        process.current_process()._config["semprefix"] = f"/{name}"


def _absolute(path: Any) -> str:
    return os.path.abspath(os.fsdecode(path))


def _is_harmless(path: str) -> bool:
    """Devices, pipes and this process's own entries in /proc, which no rehearsal leaves changed."""
    if path.startswith(("/proc/self/", f"/proc/{os.getpid()}/")):
        return True
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def _is_local(own: Any, address: Any) -> bool:
    if own.family not in (socket.AF_INET, socket.AF_INET6) or not isinstance(address, tuple) or not address:
        return True
    return _is_local_name(address[0], addresses=False)


def _is_local_name(name: Any, addresses: bool = True) -> bool:
    """Whether a name needs nobody else to be found; with `addresses`, any address is one that needs no look-up."""
    text = _text(name)
    if text in ("", "localhost", "<broadcast>") or text.endswith(".localhost"):
        return text != "<broadcast>"
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text == os.uname().nodename
    return addresses or found.is_loopback or found.is_unspecified


def _text(name: Any) -> str:
    if isinstance(name, (bytes, bytearray)):
        return bytes(name).decode("latin-1")
    return name if isinstance(name, str) else ""


def _show_address(address: Any) -> str:
    return ":".join(str(part) for part in address[:2]) if isinstance(address, tuple) else "another machine"


def is_listened_at(port: int) -> bool:
    """Whether any program of this machine listens at the TCP port."""
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(name, encoding="ascii", errors="replace") as lines:
                for words in map(str.split, lines):
                    if len(words) > 3 and words[3] == "0A" and words[1].rpartition(":")[2] == f"{port:04X}":
                        return True
        except OSError:
            continue
    return False


def _is_below(pid: int, top: int) -> bool:
    """Whether `top` is the process or one of its ancestors."""
    for _ in range(64):
        if pid == top:
            return True
        try:
            with open(f"/proc/{pid}/stat", "rb") as stream:
                pid = int(stream.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return False
    return False
