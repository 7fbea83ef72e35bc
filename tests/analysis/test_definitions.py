"""Where helpers and constants of a failing condition are defined: small packages, real failures, and saved captures."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import real_sources as real

from triage.analysis.definitions import MAX_FILES, MAX_NAMES, find_definitions
from triage.analysis.guards import complete_path
from triage.analysis.source import find_sites
from triage.analysis.trees import FolderTree, MemoryTree, RecordingTree
from triage.model import Failure, Frame
from triage.protocols import SourceTree

ARGS = """\
import os

from eng import consts
from eng.choose import auto_choose, pick as picked
from eng.consts import KINDS
from eng.views import make_view
from elsewhere import outside


class ServerArgs:
    def _handle(self):
        view = make_view(self)
        client = outside(self)
        steps = picked(self.model)
        if self.kind in KINDS and not self.ready():
            raise ValueError("kind")
        if len(self.names) > consts.LIMIT and os.path.exists(self.path):
            raise ValueError("many")
        if view.is_large(self.size):
            raise ValueError("large")
        assert client.ok(), auto_choose(self)
        assert steps > 1 and getattr(self, "topk") and outside(self)
        assert auto_choose(self) == KINDS[0] == consts.LIMIT == self.ready()
        assert self.size in (
            1,
            auto_choose(self),
        )

    def ready(self) -> bool:
        return True
"""
FILES = {
    "eng/__init__.py": "",
    "eng/args.py": ARGS,
    "eng/consts.py": "LIMIT: int = 8\nKINDS = [\n    'a',\n    'b',\n]\n",
    "eng/choose.py": "from eng.impl import auto_choose\n\n\ndef pick(model):\n    return 1\n",
    "eng/impl.py": "import functools\n\n\n@functools.cache\ndef auto_choose(args) -> int:\n    return 2\n",
    "eng/views.py": "class View:\n    def is_large(self, n):\n        return 1\n\n\ndef make_view(args):\n    return View()\n",
    "elsewhere.py": "def outside(args):\n    return args\n",
}


def find(tree: SourceTree, text: str, exception: str = "ValueError") -> list[str]:
    line = ARGS.split("\n").index(text) + 1
    failure = Failure("exception", exception, "", (Frame("/v/eng/args.py", line, "_handle", text.strip(), "eng/args.py"),))
    sites, _ = find_sites(failure, tree)
    return [f"{e.location}: {e.text}" for e in find_definitions(complete_path(sites, tree, failure), tree)]


def folder(tmp_path: Path, files: Mapping[str, str] = FILES) -> FolderTree:
    for name, text in files.items():
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return FolderTree(tmp_path)


KINDS = "eng/consts.py:2: KINDS = ["
READY = "eng/args.py:29: def ready(self) -> bool:"
LIMIT = "eng/consts.py:1: LIMIT: int = 8"
AUTO = "eng/impl.py:5: def auto_choose(args) -> int:"
PICK = "eng/choose.py:4: def pick(model):"
LARGE = "eng/views.py:2: def is_large(self, n):"


@pytest.mark.parametrize(
    ("text", "exception", "want"),
    [
        ('            raise ValueError("kind")', "ValueError", [KINDS, READY]),
        ('            raise ValueError("many")', "ValueError", [LIMIT, KINDS, READY]),
        ('            raise ValueError("large")', "ValueError", [LARGE, LIMIT, KINDS]),
        ("        assert client.ok(), auto_choose(self)", "AssertionError", [LARGE, LIMIT, KINDS]),
        ('        assert steps > 1 and getattr(self, "topk") and outside(self)', "AssertionError", [PICK, LIMIT]),
        ("        assert auto_choose(self) == KINDS[0] == consts.LIMIT == self.ready()", "AssertionError", [AUTO, KINDS, LIMIT]),
        ("            auto_choose(self),", "AssertionError", [AUTO, KINDS, LIMIT]),
    ],
)
def test_names_of_the_condition_nearest_first(tmp_path: Path, text: str, exception: str, want: list[str]) -> None:
    assert find(folder(tmp_path), text, exception) == want and len(want) <= MAX_NAMES
    assert find(MemoryTree({name: data.encode() for name, data in FILES.items()}), text, exception) == want
    # what was read of the folder is all that the same answer needs
    recording = RecordingTree(FolderTree(tmp_path))
    assert find(recording, text, exception) == want
    saved = recording.recorded()
    assert find(saved, text, exception) == want
    assert "elsewhere.py" not in saved.files


def test_files_that_are_followed_are_bounded() -> None:
    chain = {f"eng/m{i}.py": f"from eng.m{i + 1} import *\n" for i in range(MAX_FILES * 4)}
    stars = {"eng/choose.py": "".join(f"from eng.m{i} import *\n" for i in range(MAX_FILES * 4))}
    tree = RecordingTree(MemoryTree({n: t.encode() for n, t in {**FILES, **chain, **stars}.items()}))
    find(tree, "            auto_choose(self),", "AssertionError")
    assert len(tree.recorded().files) <= MAX_FILES + 1


def test_inference_runs_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    hostile = {**FILES, "eng/views.py": f"open({str(mark)!r}, 'w')\n" + FILES["eng/views.py"]}
    folder(tmp_path / "tree", hostile)
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "temporary").mkdir()
    program = f"""
import sys
sys.path[:0] = {[str(real.HERE.parents[2]), str(real.HERE.parent)]!r}
from pathlib import Path
import test_definitions as t
seen = []
sys.addaudithook(lambda e, a: seen.append(e) if e in ("subprocess.Popen", "os.fork", "os.posix_spawn", "os.system") else None)
tree = t.FolderTree(Path({str(tmp_path / "tree")!r}))
print(t.find(tree, '            raise ValueError("large")'), seen, "jedi" in sys.modules)
"""
    env = {"HOME": str(home), "XDG_CACHE_HOME": str(home), "TMPDIR": str(tmp_path / "temporary"), "PATH": "/usr/bin:/bin"}
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, timeout=120)
    want = [LARGE.replace(":2:", ":3:"), LIMIT, KINDS]
    assert ran.stdout.strip() == f"{want} [] True", ran.stderr[-2000:]
    assert not mark.exists() and not list(home.iterdir()) and not list((tmp_path / "temporary").iterdir())


@pytest.mark.parametrize("version", ["0.5.5", "0.5.16"])
def test_real_failures_name_definitions_that_stand_there(version: str) -> None:
    tree = real.tree(version)
    found = 0
    for case in real.labelled(version):
        failure = real.failure(case["exception"], case.get("message") or "", case["traceback"])
        sites, _ = find_sites(failure, tree)
        for evidence in find_definitions(complete_path(sites, tree, failure), tree):
            assert evidence.location is not None
            data = tree.read(evidence.location.file)
            assert data is not None and evidence.location.file.startswith("sglang/")
            line = data.decode().split("\n")[evidence.location.line - 1]
            assert evidence.text == line.strip()[:200]
            assert line.lstrip().startswith(("def ", "class ", "async def ")) or "=" in line or ":" in line
            found += 1
    assert found > 20
