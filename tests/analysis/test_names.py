"""Definitions across modules by syntax and by jedi, on own code and real releases; the target is never imported."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import real_sources as real

from triage.analysis.names import find_definition, goto, is_args_object
from triage.analysis.trees import FolderTree
from triage.model import Location

TREE = FolderTree(real.SNIPPETS)
USE = (real.SNIPPETS / "pkg/use.py").read_text()


@pytest.mark.parametrize(
    ("name", "line", "want"),
    [
        ("resolving_view", None, "pkg/inner/views.py:6"),
        ("Args", None, "pkg/inner/base.py:8"),
        ("Args.check", None, "pkg/inner/base.py:2"),
        ("Args.other", None, "pkg/inner/base.py:9"),
        ("Args.size", None, "pkg/inner/base.py:5"),
        ("made.check", None, "pkg/inner/base.py:2"),
        ("base.Base", None, "pkg/inner/base.py:1"),
        ("base", None, "pkg/inner/base.py:1"),
        ("wrap", 8, "pkg/inner/views.py:6"),
        ("wrap", None, None),
        ("handle", None, "pkg/use.py:5"),
        ("base._gone", None, None),
        ("len", None, None),
    ],
)
def test_definition_by_syntax(name: str, line: int | None, want: str | None) -> None:
    found = find_definition(TREE, "pkg/use.py", name, line)
    assert (str(found) if found else None) == want


def test_circular_imports_and_absent_files_end() -> None:
    assert find_definition(TREE, "pkg/loop.py", "spin") is None
    assert find_definition(TREE, "pkg/none.py", "spin") is None


@pytest.mark.parametrize(
    ("line", "name", "want"),
    [
        (11, "server_args", True),
        (11, "cfg", True),
        (11, "again", True),
        (11, "view", False),
        (11, "other", False),
        (11, "third", False),
        (16, "self", True),
        (21, "self", False),
    ],
)
def test_args_object(line: int, name: str, want: bool) -> None:
    assert is_args_object(TREE, "pkg/use.py", line, name) is want


def position(text: str, fragment: str) -> tuple[int, int]:
    line = next(i for i, s in enumerate(text.split("\n"), 1) if fragment in s)
    return line, text.split("\n")[line - 1].index(fragment) + len(fragment) - 1


def test_goto_follows_what_syntax_cannot() -> None:
    assert goto(USE, "pkg/use.py", *position(USE, "third.check"), real.SNIPPETS) == Location("pkg/inner/base.py", 2)
    assert goto(USE, "pkg/use.py", *position(USE, "view = resolving_view"), real.SNIPPETS) == Location("pkg/inner/views.py", 6)


def test_goto_outside_the_tree_or_nowhere_is_none() -> None:
    text = "import os\nos.getcwd()\n\n"
    assert goto(text, "pkg/new.py", 2, 4, real.SNIPPETS) is None
    assert goto(text, "pkg/new.py", 3, 0, real.SNIPPETS) is None
    assert goto(text, "pkg/new.py", 900, 0, real.SNIPPETS) is None
    assert goto("def f(:\n  x.\n", "pkg/new.py", 2, 3, real.SNIPPETS) is None


def test_goto_imports_and_starts_nothing(tmp_path: Path) -> None:
    """In a process of its own: no module of the target, no process, and an extension module that is not loaded."""
    (tmp_path / "pkg").mkdir()
    mark = tmp_path / "imported"
    for source in (real.SNIPPETS / "pkg").rglob("*.py"):
        target = tmp_path / source.relative_to(real.SNIPPETS)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source.read_text())
    (tmp_path / "native.so").write_bytes(b"\x7fELF not a library")
    (tmp_path / "conftest.py").write_text(f"open({str(mark)!r}, 'w')\n")
    program = f"""
import sys
from pathlib import Path
seen = []
def watch(event, args):
    if event in ("subprocess.Popen", "os.fork", "os.posix_spawn", "os.system", "socket.connect", "ctypes.dlopen"):
        seen.append(event)
    if event == "import" and args[1] is not None and {str(tmp_path)!r} in args[1]:
        seen.append(args[1])
from triage.analysis.names import goto
import jedi
sys.addaudithook(watch)
root = Path({str(tmp_path)!r})
text = (root / "pkg/use.py").read_text() + "import native\\nnative.thing\\n"
for line, s in enumerate(text.split("\\n"), 1):
    for column in range(0, len(s), 3):
        goto(text, "pkg/use.py", line, column, root)
print(seen, [m for m in ("pkg", "native", "conftest") if m in sys.modules])
"""
    env = {
        "PYTHONPATH": str(real.HERE.parents[2]),
        "TRIAGE_TEST_IMPORTED": str(mark),
        "HOME": str(tmp_path),
        "PATH": "/usr/bin:/bin",
    }
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, timeout=120)
    assert ran.stdout.strip() == "[] []", ran.stderr[-2000:]
    assert not mark.exists()


@pytest.mark.parametrize(
    ("version", "file"), [("0.5.11", "sglang/srt/server_args.py"), ("0.5.23", "sglang/srt/arg_groups/speculative_hook.py")]
)
def test_imported_names_of_real_files_are_where_their_definition_stands(version: str, file: str) -> None:
    """Every name that the file imports from the package: the answer is a def, class or assignment of that name."""
    tree = real.tree(version)
    data = tree.read(file)
    assert data is not None
    checked, lost = 0, []
    for node in ast.parse(data).body:
        if not (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sglang")):
            continue
        for alias in node.names:
            checked += 1
            found = find_definition(tree, file, alias.asname or alias.name)
            source = tree.read(found.file) if found else None
            if found is None or source is None:
                lost.append(alias.name)
                continue
            line = source.decode().split("\n")[found.line - 1]
            if found.line > 1:
                assert alias.name in line or line.lstrip().startswith("("), (alias.name, found, line)
    assert checked > 10
    assert len(lost) <= checked * 0.1, lost
