"""Files on a host through its `run` alone: one small script for each operation, the path always a parameter."""

from __future__ import annotations

from abc import ABC, abstractmethod

from triage.errors import FileError, FileMissing
from triage.model import Command, CommandResult
from triage.redact import printable

ABSENT, IRREGULAR, TOO_LARGE, REFUSED, PARTIAL, IS_LINK = 41, 42, 43, 44, 45, 46

# The size of a regular file is checked first so that a huge one costs nothing; `head` holds for files that lie (/proc).
_READ = """
p=$1 max=$2
if [ ! -e "$p" ]; then
  [ -L "$p" ] && exit 41
  why=$(LC_ALL=C ls -d -- "$p" 2>&1) && exit 41
  case $why in *'ermission denied'*) exit 44 ;; esac
  exit 41
fi
[ -f "$p" ] || exit 42
[ -r "$p" ] || exit 44
exec 3<"$p" || exit 44
size=$(LC_ALL=C wc -c <"$p") || exit 44
[ "$size" -le "$max" ] || exit 43
head -c $((max + 1)) <&3
"""

# A cut connection ends stdin early, so the length is compared before the rename.
_WRITE = """
p=$1 mode=$2 size=$3 t=
case $p in */*) d=${p%/*} ;; *) d=. ;; esac
[ -n "$d" ] || d=/
[ -L "$p" ] && exit 46
if [ -e "$p" ] && [ ! -f "$p" ]; then exit 42; fi
[ -d "$d" ] || mkdir -p -- "$d" || exit 44
trap '[ -z "$t" ] || rm -f -- "$t"' EXIT
trap 'exit 45' HUP INT TERM PIPE
t=$(mktemp -- "$d/.triage-XXXXXXXX") || exit 44
cat >"$t" || exit 44
[ "$(wc -c <"$t")" -eq "$size" ] || exit 45
chmod -- "$mode" "$t" || exit 44
sync -- "$t" 2>/dev/null || sync || exit 44
mv -f -T -- "$t" "$p" || exit 44
t=
sync -- "$d" 2>/dev/null || sync
exit 0
"""

_REMOVE = """
p=$1
case $p in */*) d=${p%/*} ;; *) d=. ;; esac
[ -n "$d" ] || d=/
if [ -d "$p" ] && [ ! -L "$p" ]; then exit 42; fi
[ -e "$p" ] || [ -L "$p" ] || exit 0
rm -f -- "$p" || exit 44
sync -- "$d" 2>/dev/null || sync
exit 0
"""


class FileOperations(ABC):
    """The file half of the Host protocol, on top of `run`."""

    @abstractmethod
    def run(self, command: Command) -> CommandResult: ...

    @property
    @abstractmethod
    def name(self) -> str: ...

    def read_file(self, path: str, max_bytes: int = 64 * 1024 * 1024, root: bool = False) -> bytes:
        """The file's bytes. Raises FileMissing, or FileError (not a regular file, over `max_bytes`, refused)."""
        script = ("sh", "-c", _READ, "sh", _checked(path), str(max_bytes))
        result = self.run(Command(script, timeout=120.0, root=root, max_output=max_bytes + 1))
        if result.status == 0 and len(result.stdout) > max_bytes:
            raise self._error(TOO_LARGE, path, b"")
        if result.status != 0:
            raise self._error(result.status, path, result.stderr)
        return result.stdout

    def write_file(self, path: str, data: bytes, mode: int, root: bool = False) -> None:
        """Write beside, fsync, rename over; creates the parent folder; refuses a link. Raises FileError; then nothing changed."""
        script = ("sh", "-c", _WRITE, "sh", _checked(path), f"{mode:o}", str(len(data)))
        result = self.run(Command(script, stdin=data, timeout=120.0, root=root))
        if result.status != 0:
            raise self._error(result.status, path, result.stderr)

    def remove_file(self, path: str, root: bool = False) -> None:
        """Remove it; absent is fine. Raises FileError (a folder, refused)."""
        result = self.run(Command(("sh", "-c", _REMOVE, "sh", _checked(path)), root=root))
        if result.status != 0:
            raise self._error(result.status, path, result.stderr)

    def _error(self, status: int, path: str, stderr: bytes) -> FileError:
        where = f"{printable(path)} on {self.name}"
        said = printable(stderr.decode("utf-8", "replace"))
        if status == ABSENT:
            return FileMissing(f"no file {where}", path)
        text = {
            IRREGULAR: f"not a regular file: {where}",
            TOO_LARGE: f"too large to read: {where}",
            REFUSED: f"cannot be read or written: {where}",
            PARTIAL: f"only a part arrived, nothing was written: {where}",
            IS_LINK: f"a link stands in place of a file: {where}",
        }.get(status, f"cannot be read or written (status {status}): {where}")
        return FileError(f"{text} ({said})" if said else text, path)


def _checked(path: str) -> str:
    """The path as a parameter that no program can take for an option."""
    if not path or "\0" in path:
        raise FileError("not a path: empty or with a NUL character", path)
    return path if path.startswith("/") else f"./{path}"
