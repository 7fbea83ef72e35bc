"""What one exec brings of a host's source: the package, and the files of other packages that the profile names."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from triage.engines.profile import ProfileEngine
from triage.errors import EngineError
from triage.hosts.local import LocalHost
from triage.knowledge import load_profile
from triage.loop.capture import fetch_source
from triage.model import Launch
from triage.protocols import EngineInstall, EngineProfile

EXTRAS = ("configs/models/auto/names.py", "configs/models/*/configuration_*.py")


class Elsewhere(LocalHost):
    """This machine, asked as if it were another one: everything goes through the exec."""

    name = "elsewhere"


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    """Two folders of packages, with awkward names on the way."""
    here, there = tmp_path / "site 'a' $(x)", tmp_path / "-C other*[b]"
    for path, text in {
        here / "toyserver/__init__.py": "",
        here / "toyserver/args.py": "a = 1\n",
        here / "toyserver/weights.bin": "no",
        here / "numbers/secret.py": "no",
        there / "configs/models/auto/names.py": "NAMES = 1\n",
        there / "configs/models/llama/configuration_llama.py": "class Llama: ...\n",
        there / "configs/models/llama/modeling_llama.py": "no",
        there / "configs/models/llama/deep/configuration_deep.py": "no",
        there / "configs/models/two words/configuration_two words.py": "class Two: ...\n",
        there / "unrelated/configuration_x.py": "no",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    os.link(here / "toyserver/args.py", here / "toyserver/same.py")
    (there / "configs/models/evil").mkdir()
    os.symlink("/etc/passwd", there / "configs/models/evil/configuration_evil.py")
    os.mkfifo(there / "configs/models/evil/configuration_fifo.py")
    return here, there


EXPECTED = {
    "toyserver/__init__.py": b"",
    "toyserver/args.py": b"a = 1\n",
    "toyserver/same.py": b"a = 1\n",
    "configs/models/auto/names.py": b"NAMES = 1\n",
    "configs/models/llama/configuration_llama.py": b"class Llama: ...\n",
    "configs/models/two words/configuration_two words.py": b"class Two: ...\n",
}


def test_files_of_another_folder_come_under_their_own_names(roots: tuple[Path, Path]) -> None:
    here, there = roots
    install = EngineInstall(str(here), None, sys.executable, None, {}, {"configs": str(there)})
    fetched = fetch_source(Elsewhere(), install, "toyserver", EXTRAS)
    assert fetched.files == EXPECTED  # type: ignore[attr-defined]
    local = fetch_source(LocalHost(), install, "toyserver", EXTRAS)
    assert {name: local.read(name) for name in EXPECTED} == EXPECTED
    assert local.read("configs/models/evil/configuration_evil.py") is None
    assert "configs" in local.list_dir("") and local.is_package("configs/models")


@pytest.mark.parametrize("root", [None, "/nonexistent"])
def test_extras_that_are_not_there_are_absent(roots: tuple[Path, Path], root: str | None) -> None:
    install = EngineInstall(str(roots[0]), None, sys.executable, None, {}, {"configs": root} if root else {})
    fetched = fetch_source(Elsewhere(), install, "toyserver", EXTRAS)
    assert set(fetched.files) == {n for n in EXPECTED if n.startswith("toyserver/")}  # type: ignore[attr-defined]


def test_a_package_without_source_is_told_although_extras_came(roots: tuple[Path, Path]) -> None:
    here, there = roots
    (here / "bare").mkdir()
    with pytest.raises(EngineError, match="holds no Python source"):
        fetch_source(Elsewhere(), EngineInstall(str(here), None, "p", None, {}, {"configs": str(there)}), "bare", EXTRAS)


def profile_with_extras() -> EngineProfile:
    values = {name: getattr(load_profile("toyserver"), name) for name in EngineProfile.__dataclass_fields__}
    return EngineProfile(**{**values, "source_extras": EXTRAS})


def test_the_interpreter_says_where_the_other_package_is(roots: tuple[Path, Path]) -> None:
    here, there = roots
    engine = ProfileEngine(profile_with_extras())
    for pythonpath, expected in ((f"{here}:{there}", {"configs": str(there)}), (str(here), {})):
        launch = Launch((sys.executable, "-m", "toyserver.launch"), (), {"PYTHONPATH": pythonpath})
        install = engine.locate(LocalHost(), launch)
        assert (install.root, dict(install.extra_roots)) == (str(here), expected)


def test_the_names_in_a_models_folder_are_listed(tmp_path: Path) -> None:
    folder = tmp_path / "model $(x)"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    odd = ["-n", ".hidden", "a b\nc.py", "tokenizer.json"]
    for name in odd:
        (folder / name).write_text("")
    (folder / "sub").mkdir()
    (folder / "sub" / "inner.json").write_text("")
    engine = ProfileEngine(load_profile("toyserver"))
    launch = Launch((sys.executable, "-m", "toyserver.launch"), ("--model-path", str(folder)))
    assert engine.read_model_configs(LocalHost(), launch)[0].files == tuple(sorted([*odd, "config.json", "sub"]))
    for i in range(5000):
        (folder / f"shard-{i}").touch()
    assert engine.read_model_configs(LocalHost(), launch)[0].files is None
