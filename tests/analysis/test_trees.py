"""Source trees read regular files below their root and nothing else (abuse 11, 21, 24)."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from triage.analysis.trees import (
    MAX_FILE,
    FolderTree,
    JoinedTree,
    MemoryTree,
    RecordingTree,
    WheelTree,
    is_safe_name,
    open_tree,
    walk_python,
)
from triage.errors import CaptureError, UsageError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    package = tmp_path / "root" / "pkg"
    (package / "sub").mkdir(parents=True)
    (package / "__init__.py").write_bytes(b"a = 1\n")
    (package / "sub" / "m.py").write_bytes(b"\xef\xbb\xbfb = 2\r\n")
    (tmp_path / "secret.py").write_bytes(b"secret")
    os.symlink(tmp_path / "secret.py", package / "out.py")
    os.symlink(tmp_path, package / "outdir")
    os.symlink("sub/m.py", package / "inside.py")
    os.symlink("loop.py", package / "loop.py")
    os.mkfifo(package / "fifo.py")
    with open(package / "huge.py", "wb") as stream:
        stream.truncate(MAX_FILE + 1)
    return tmp_path / "root"


REFUSED = [
    "../secret.py",
    "pkg/../../secret.py",
    "/etc/passwd",
    "pkg/out.py",
    "pkg/outdir/secret.py",
    "pkg/fifo.py",
    "pkg/huge.py",
    "pkg/loop.py",
    "pkg",
    "pkg/absent.py",
    "",
    ".",
    "pkg//__init__.py",
    "pkg/\0.py",
    "pkg\\..\\x",
    "x" * 5000,
]


@pytest.mark.parametrize("name", REFUSED)
def test_a_folder_refuses_what_is_not_a_regular_file_below_it(root: Path, name: str) -> None:
    assert FolderTree(root).read(name) is None


def test_a_folder_reads_its_files_byte_for_byte(root: Path) -> None:
    tree = FolderTree(root)
    assert tree.read("pkg/sub/m.py") == b"\xef\xbb\xbfb = 2\r\n"
    assert tree.read("pkg/inside.py") == b"\xef\xbb\xbfb = 2\r\n"
    assert tree.list_dir("pkg/sub") == ("m.py",)
    assert tree.is_package("pkg/sub") and not tree.is_package("pkg/sub/m.py") and not tree.is_package("pkg/outdir")
    assert tree.list_dir("..") == () and tree.list_dir("pkg/outdir") == ()


def test_a_device_is_refused(tmp_path: Path) -> None:
    assert FolderTree(Path("/dev")).read("zero") is None


def test_a_wheel_gives_what_its_folder_gives(root: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "pkg-1.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in ("pkg/__init__.py", "pkg/sub/m.py"):
            archive.write(root / name, name)
        archive.writestr("../evil.py", b"x")
        archive.writestr("/abs.py", b"x")
    tree = open_tree(wheel, "pkg")
    assert isinstance(tree, WheelTree)
    for name in ("pkg/__init__.py", "pkg/sub/m.py"):
        assert tree.read(name) == FolderTree(root).read(name)
    assert tree.list_dir("pkg") == ("__init__.py", "sub") and tree.is_package("pkg/sub")
    assert tree.read("../evil.py") is None and tree.read("/abs.py") is None


def test_a_bomb_in_a_wheel_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "bomb.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("pkg/__init__.py", b"\0" * (MAX_FILE + 1))
    assert WheelTree(wheel).read("pkg/__init__.py") is None


def test_a_recorded_tree_answers_as_the_first_one_did(root: Path) -> None:
    tree = RecordingTree(FolderTree(root))
    questions = ["pkg/__init__.py", "pkg/sub/m.py", "pkg/absent.py"]
    answers = [tree.read(q) for q in questions]
    folders = [(tree.is_package(f), tree.list_dir(f)) for f in ("pkg", "pkg/sub", "pkg/none")]
    again = tree.recorded()
    assert [again.read(q) for q in questions] == answers
    assert [(again.is_package(f), again.list_dir(f)) for f in ("pkg", "pkg/sub", "pkg/none")] == folders
    assert set(again.files) == {"pkg/__init__.py", "pkg/sub/m.py"}


def test_memory_folders_follow_from_the_names() -> None:
    tree = MemoryTree({"pkg/a/b.py": b"1", "pkg/c.py": b"2"})
    assert tree.list_dir("pkg") == ("a", "c.py") and tree.is_package("pkg/a") and not tree.is_package("pkg/c.py")
    assert list(walk_python(tree, "pkg")) == ["pkg/c.py", "pkg/a/b.py"]


def test_open_tree_finds_the_package_in_each_usual_place(root: Path, tmp_path: Path) -> None:
    checkout = tmp_path / "checkout" / "python"
    checkout.parent.mkdir()
    os.symlink(root, checkout)
    for place in (root, root / "pkg", tmp_path / "checkout"):
        assert open_tree(place, "pkg").read("pkg/__init__.py") == b"a = 1\n"
    with pytest.raises(UsageError):
        open_tree(tmp_path / "nowhere", "pkg")
    with pytest.raises(CaptureError):
        open_tree(root / "pkg" / "__init__.py", "pkg")


def test_names_with_control_characters_are_not_safe() -> None:
    assert is_safe_name("sglang/srt/x.py")
    assert not any(is_safe_name(n) for n in ("a\nb", "a/\x1b[2J", "a/..", "./a", "/a", "a/"))


def test_joined_packages_stand_under_one_root() -> None:
    main = MemoryTree({"pkg/a.py": b"1", "other/shadowed.py": b"no", "gone/x.py": b"no"})
    tree = JoinedTree(main, {"other": MemoryTree({"other/b.py": b"2", "pkg/a.py": b"no"}), "gone": MemoryTree({})})
    assert (tree.read("pkg/a.py"), tree.read("other/b.py")) == (b"1", b"2")
    assert tree.read("other/shadowed.py") is None and tree.read("gone/x.py") is None and not tree.is_package("gone")
    assert tree.list_dir("") == ("other", "pkg") and tree.list_dir("other") == ("b.py",)
    assert tree.read("../x") is None and tree.read("") is None


def test_an_empty_folder_stays_a_folder_when_it_was_recorded(tmp_path: Path) -> None:
    (tmp_path / "pkg" / "empty").mkdir(parents=True)
    tree = RecordingTree(FolderTree(tmp_path))
    assert tree.is_package("pkg/empty") and not tree.is_package("pkg/none") and tree.list_dir("pkg/none") == ()
    again = tree.recorded()
    assert again.is_package("pkg/empty") and not again.is_package("pkg/none")
