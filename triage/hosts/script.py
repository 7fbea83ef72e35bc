"""Shell text for a host, as pure functions: any argv through any login shell, and what to make of its output."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from triage.errors import HostError, UsageError
from triage.model import Secret
from triage.redact import printable

# Every login shell (sh, bash, rbash, zsh, fish, csh, tcsh) passes this on unchanged: no backslash, no `!`, no newline,
# and no `exec`, which a restricted shell refuses. The real script is the first line of stdin, so it meets no login shell.
BOOT = "sh -c 'IFS= read -r x; eval \"$x\"'"

NEWLINE = b"'\"$n\"'"


def reveal_argv(argv: Sequence[str | Secret]) -> list[str]:
    """Plain words. Raises UsageError where no program could be started by them (empty, option-like, NUL)."""
    words = [a.reveal() if isinstance(a, Secret) else a for a in argv]
    if not words or not words[0] or words[0].startswith("-") or "=" in words[0]:
        raise UsageError(f"not a program name: {words[0]!r}" if words else "an empty command")
    if any("\0" in w for w in words):
        raise UsageError("a command word holds a NUL character")
    return words


def encode_script(words: Sequence[str], marker: str, root: bool) -> bytes:
    """One line for the `read` in BOOT: print the marker on both streams, then run the words and keep their status.

    stdout gets `<marker> <pid>`; what a shell's start-up file printed stands before it.
    """
    quoted = b" ".join(shlex.quote(w).encode("utf-8", "surrogateescape").replace(b"\n", NEWLINE) for w in words)
    sudo = b'[ "$(id -u)" = 0 ] || set -- sudo -n -- "$@"; ' if root else b""
    mark = marker.encode()
    return b"".join(
        (
            b"n=$(printf '\\nx'); n=${n%x}; set -- ",
            quoted,
            b"; printf '%s %s\\n' ",
            mark,
            b" $$; printf '%s\\n' ",
            mark,
            b" >&2; ",
            sudo,
            b'(exec "$@"); exit $?\n',
        )
    )


class Fence:
    """Takes one stream's bytes as they come; keeps only what follows the marker's line, at most `limit` bytes."""

    NOISE_LIMIT = 1024 * 1024

    def __init__(self, marker: str, limit: int) -> None:
        self._marker = marker.encode()
        self._limit = limit
        self._before = bytearray()
        self._after = bytearray()
        self.line: str | None = None  # the rest of the marker's line, once seen

    def feed(self, data: bytes) -> None:
        """Raises HostError when the shell prints without end and never gets to our command."""
        if self.line is not None:
            self._after += data[: max(0, self._limit - len(self._after))]
            return
        self._before += data
        at = self._before.find(self._marker)
        end = self._before.find(b"\n", at) if at >= 0 else -1
        if end >= 0:
            self.line = self._before[at + len(self._marker) : end].decode("ascii", "replace").strip()
            rest = bytes(self._before[end + 1 :])
            self._before = self._before[:at]
            self.feed(rest)
        elif len(self._before) > self.NOISE_LIMIT:
            raise HostError("the login shell prints without end and does not run commands")

    @property
    def data(self) -> bytes:
        return bytes(self._after)

    @property
    def noise(self) -> bytes:
        """What came before the marker."""
        return bytes(self._before)


def explain_sudo(status: int, stderr: bytes, user: str) -> HostError | None:
    """The error behind a `sudo -n` that did not run its command; None when the command itself ran."""
    text = [t for t in stderr.decode("utf-8", "replace").strip().splitlines() if "unable to resolve host" not in t]
    last = text[-1] if text else ""
    if status == 1 and last.startswith("sudo: "):
        return HostError(
            f"{user} needs root here, and sudo does not give it without a password ({printable(last)})",
            "log in as root, or allow this user to use sudo without a password (NOPASSWD)",
        )
    if status == 127 and "sudo" in last:
        return HostError(f"{user} needs root here, and there is no sudo", "log in as root")
    return None


# $1 process id of a script that encode_script made: its whole group is ended, never ours and never that of process 1
KILL_GROUP = """
group_of() { ps -o pgid= -p "$1" 2>/dev/null | tr -d ' '; }
g=$(group_of "$1"); own=$(group_of $$)
case $g in ''|*[!0-9]*|0|1|"$own") exit 0 ;; esac
kill -s TERM -- "-$g" 2>/dev/null
for i in 1 2 3 4 5; do kill -s 0 -- "-$g" 2>/dev/null || exit 0; sleep 0.2; done
kill -s KILL -- "-$g" 2>/dev/null
exit 0
"""
