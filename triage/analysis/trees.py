"""Read-only views of the folder that holds a package: a folder, a wheel, files in memory; never outside it.

Every tree refuses (reads as absent) what is not a regular file below its root: `..`, absolute names, links that lead
out, FIFOs, devices, and files over MAX_FILE bytes. Nothing is imported or run.
"""

from __future__ import annotations

import lzma
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from triage.errors import CaptureError, UsageError
from triage.protocols import SourceTree

MAX_FILE = 50_000_000  # bytes
MAX_WHEEL_ENTRIES = 200_000
MAX_LINKS = 200  # files of editable installs that are looked at
MAX_LINK = 100_000  # bytes of each that are read
_COMPILED = (".pyc", ".so", ".pyd")


def is_safe_name(file: str) -> bool:
    """Whether `file` is a plain relative name: no empty, `.` or `..` part, no backslash, no control character, not too long."""
    if not file or len(file) > 1000 or "\\" in file or not file.isprintable():
        return False
    return all(part not in ("", ".", "..") and len(part.encode("utf-8", "replace")) <= 255 for part in file.split("/"))


class FolderTree:
    """A folder of this machine."""

    def __init__(self, root: Path) -> None:
        """Raises CaptureError when `root` is not a folder."""
        self.root = root
        try:
            self._real = os.path.realpath(root, strict=True)
        except OSError as error:
            raise CaptureError(f"{root} cannot be read: {error.strerror}") from error
        if not os.path.isdir(self._real):
            raise CaptureError(f"{root} is not a folder")

    def read(self, file: str) -> bytes | None:
        path = self._inside(file)
        if path is None:
            return None
        try:
            # O_NONBLOCK: opening a FIFO must not wait for its writer.
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE:
            os.close(handle)
            return None
        try:
            with os.fdopen(handle, "rb") as stream:
                data = stream.read(MAX_FILE + 1)
        except OSError:
            return None
        return data if len(data) <= MAX_FILE else None

    def is_package(self, file: str) -> bool:
        path = self._inside(file)
        return path is not None and os.path.isdir(path)

    def list_dir(self, file: str) -> tuple[str, ...]:
        path = self._real if file == "" else self._inside(file)
        try:
            return tuple(sorted(os.listdir(path))) if path is not None else ()
        except OSError:
            return ()

    def _inside(self, file: str) -> str | None:
        if not is_safe_name(file):
            return None
        try:
            path = os.path.realpath(os.path.join(self._real, file), strict=True)
        except (OSError, ValueError):
            return None
        return path if path.startswith(self._real.rstrip("/") + "/") else None


class MemoryTree:
    """Files in memory; `listings` are folders whose full list of names is known although not all files are held."""

    def __init__(self, files: Mapping[str, bytes], listings: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self.files = dict(files)
        self.listings = dict(listings or {})
        self._folders: dict[str, set[str]] = {"": set()}
        for name in self.files:
            parts = name.split("/")
            for i, part in enumerate(parts):
                self._folders.setdefault("/".join(parts[:i]), set()).add(part)

    def read(self, file: str) -> bytes | None:
        data = self.files.get(file)
        return data if data is not None and len(data) <= MAX_FILE else None

    def is_package(self, file: str) -> bool:
        return file != "" and (file in self._folders or file in self.listings)

    def list_dir(self, file: str) -> tuple[str, ...]:
        if file in self.listings:
            return self.listings[file]
        return tuple(sorted(self._folders.get(file, ())))


class WheelTree:
    """The files of a wheel (a zip archive); names that would leave the root are not there."""

    def __init__(self, path: Path) -> None:
        """Raises CaptureError when the file is not a zip archive."""
        try:
            self._zip = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile) as error:
            raise CaptureError(f"{path} is not a wheel: {error}") from error
        infos = self._zip.infolist()
        if len(infos) > MAX_WHEEL_ENTRIES:
            raise CaptureError(f"{path} holds too many files ({len(infos)})")
        self._infos = {i.filename: i for i in infos if not i.is_dir() and is_safe_name(i.filename)}
        self._names = MemoryTree(dict.fromkeys(self._infos, b""))

    def read(self, file: str) -> bytes | None:
        info = self._infos.get(file)
        if info is None or info.file_size > MAX_FILE:
            return None
        try:
            with self._zip.open(info) as stream:
                data = stream.read(MAX_FILE + 1)
        except (OSError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, RuntimeError, EOFError):
            return None
        return data if len(data) <= MAX_FILE else None

    def is_package(self, file: str) -> bool:
        return self._names.is_package(file)

    def list_dir(self, file: str) -> tuple[str, ...]:
        return self._names.list_dir(file)


class JoinedTree:
    """One root for packages that are installed in different folders: `others` serve their own top-level name."""

    def __init__(self, main: SourceTree, others: Mapping[str, SourceTree]) -> None:
        self._main = main
        self._others = dict(others)

    def read(self, file: str) -> bytes | None:
        return self._tree_of(file).read(file)

    def is_package(self, file: str) -> bool:
        return self._tree_of(file).is_package(file)

    def list_dir(self, file: str) -> tuple[str, ...]:
        if file != "":
            return self._tree_of(file).list_dir(file)
        held = {name for name, tree in self._others.items() if tree.is_package(name)}
        return tuple(sorted({*self._main.list_dir(""), *held} - (set(self._others) - held)))

    def _tree_of(self, file: str) -> SourceTree:
        return self._others.get(file.partition("/")[0], self._main)


class RecordingTree:
    """Passes questions on and remembers the answers, so that a saved capture holds exactly what a diagnosis reads."""

    def __init__(self, inner: SourceTree) -> None:
        self._inner = inner
        self._files: dict[str, bytes | None] = {}
        self._listings: dict[str, tuple[str, ...]] = {}
        self._packages: dict[str, bool] = {}

    def read(self, file: str) -> bytes | None:
        if file not in self._files:
            self._files[file] = self._inner.read(file)
        return self._files[file]

    def is_package(self, file: str) -> bool:
        found = self._packages[file] = self._inner.is_package(file)
        if found:
            self.list_dir(file)
        return found

    def list_dir(self, file: str) -> tuple[str, ...]:
        if file not in self._listings:
            self._listings[file] = self._inner.list_dir(file)
        return self._listings[file]

    def recorded(self) -> MemoryTree:
        """A tree that gives the same answers to the questions asked so far."""
        files = {name: data for name, data in self._files.items() if data is not None}
        return MemoryTree(files, {name: names for name, names in self._listings.items() if names or self._packages.get(name)})

    def questions(self) -> dict[tuple[str, str], bytes | bool | tuple[str, ...] | None]:
        """All that was asked, by the method's name and its argument, with what the tree said."""
        return {
            **{("read", name): data for name, data in self._files.items()},
            **{("is_package", name): found for name, found in self._packages.items()},
            **{("list_dir", name): names for name, names in self._listings.items()},
        }


def open_tree(path: Path, package: str = "sglang") -> SourceTree:
    """The tree of `--source`: a folder that holds `package`, the package folder itself, a checkout (its `python/`), or a wheel.

    Raises UsageError when the package is in none of these places.
    """
    if path.is_file():
        wheel = WheelTree(path)
        if not wheel.is_package(package):
            raise UsageError(f"{path} holds no package {package}")
        return wheel
    for root in (path, path / "python", path / "src"):
        if (root / package).is_dir():
            return FolderTree(root)
    if path.name == package and (path / "__init__.py").is_file():
        return FolderTree(path.parent)
    linked = find_editable(path, package) if path.is_dir() else None
    if linked is not None:
        raise UsageError(
            f"{path} holds an editable install of {package}", hint=f"its source is elsewhere: give --source {linked}"
        )
    raise UsageError(f"{path} holds no package {package}", hint="give the folder that contains it, or a wheel")


def compiled_form(tree: SourceTree, file: str) -> str | None:
    """The file beside where `m.py` would be that can be imported in its place: `m.pyc`, `m.cpython-311-x86_64-linux-gnu.so`."""
    folder, _, name = file.removesuffix(".py").rpartition("/")
    for entry in tree.list_dir(folder):
        if entry.endswith(_COMPILED) and entry.partition(".")[0] == name:
            return f"{folder}/{entry}" if folder else entry
    return None


def find_editable(root: Path, package: str) -> str | None:
    """Where an installation in `root` that only points elsewhere says the package is; None where there is none.

    Reads `.pth` files with a plain path, the tables of setuptools' finders (`__editable___x_finder.py`) and `.egg-link`.
    """
    try:
        names = sorted(n for n in os.listdir(root) if n.endswith((".pth", ".egg-link")) or n.startswith("__editable__"))
    except OSError:
        return None
    tree = FolderTree(root)
    for name in names[:MAX_LINKS]:
        text = (tree.read(name) or b"")[:MAX_LINK].decode("utf-8", "replace")
        mapped = re.search(rf"['\"]{re.escape(package)}['\"]\s*:\s*['\"]([^'\"\n]+)['\"]", text) if name.endswith(".py") else None
        places = [os.path.dirname(mapped[1])] if mapped is not None else []
        places += [line.strip() for line in text.splitlines() if not name.endswith(".py") and not line.startswith("import")]
        for place in places:
            full = os.path.join(root, place)
            if place and place.isprintable() and os.path.isdir(os.path.join(full, package)):
                return os.path.normpath(full)
    return None


def walk_python(tree: SourceTree, package: str, limit: int = 20_000) -> Iterator[str]:
    """The names of the `.py` files below `package`, sorted by folder; at most `limit`."""
    stack, found = [package], 0
    while stack and found < limit:
        folder = stack.pop()
        folders = []
        for name in tree.list_dir(folder):
            file = f"{folder}/{name}"
            if name.endswith(".py"):
                found += 1
                yield file
            elif name != "__pycache__" and tree.is_package(file):
                folders.append(file)
        stack.extend(reversed(folders))
