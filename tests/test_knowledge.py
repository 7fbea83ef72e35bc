"""Profiles: their schema is enforced, and what they name exists in real releases."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from triage.errors import KnowledgeError
from triage.knowledge import data_root, load_profile, profile_names, read_profile

ORACLE = Path(os.environ.get("ORACLE_HOME", "/opt/oracle"))
RELEASES = sorted(p for p in ORACLE.glob("*/lib/python3.*/site-packages/sglang") if p.is_dir())

needs_releases = pytest.mark.skipif(not RELEASES, reason=f"no sglang release is installed below {ORACLE}")

VALID = """
schema = 1
name = "e"
package = "e"
distribution = "e"
entries = [["-m", "e"]]
args_class = "e.Args"
port_field = "port"
host_field = "host"
model_field = "model"
health_paths = ["/health"]
ready_marks = ["ready"]
fatal_marks = ["died"]
[[stages]]
call = "e.prepare"
"""


def write_profile(folder: Path, text: str) -> Path:
    path = folder / "e" / "profile.toml"
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    return path


def test_every_profile_loads_under_its_own_name() -> None:
    assert {"sglang", "toyserver"} <= set(profile_names())
    for name in profile_names():
        assert load_profile(name).name == name


def test_the_checkout_is_read_beside_the_package() -> None:
    assert (data_root() / "sglang" / "profile.toml").is_file()


def test_an_installed_wheel_reads_its_own_copy(tmp_path: Path) -> None:
    package = data_root().parent / "triage"
    shutil.copytree(package, tmp_path / "triage", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(data_root(), tmp_path / "triage" / "_data" / "knowledge")
    program = "from triage.knowledge import *; print(data_root(), load_profile('toyserver').name)"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == [str(tmp_path / "triage" / "_data" / "knowledge"), "toyserver"]


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("schema = 1", "schema = 2", "schema"),
        ("schema = 1", "schema = true", "schema"),
        ('name = "e"', 'name = "other"', "name"),
        ('package = "e"', "", "package"),
        ('package = "e"', 'package = "../e"', "package"),
        ('package = "e"', 'package = "e"\ncolour = "red"', "colour"),
        ('package = "e"', 'package = "e"\nsource_extras = ["../x.py"]', "source_extras[0]"),
        ('package = "e"', 'package = "e"\nsource_extras = ["a/b.py", "*/x.py"]', "source_extras[1]"),
        ('package = "e"', 'package = "e"\nsource_extras = ["a/../b.py"]', "source_extras[0]"),
        ('package = "e"', 'package = "e"\nsource_extras = ["a/$(id).py"]', "source_extras[0]"),
        ('[["-m", "e"]]', '["-m", "e"]', "entries[0]"),
        ('[["-m", "e"]]', "[]", "entries"),
        ('["/health"]', '["health"]', "health_paths"),
        ('["/health"]', '["/health?x=$(id)"]', "health_paths"),
        ('["ready"]', '["re\\u001bady"]', "ready_marks[0]"),
        ('["died"]', '[""]', "fatal_marks[0]"),
        ('["died"]', "[7]", "fatal_marks[0]"),
        ('call = "e.prepare"', 'call = ".prepare"', "stages[0].call"),
        ('call = "e.prepare"', 'call = "e.prepare"\nwhen = "x"', "stages[0].when"),
        (
            'call = "e.prepare"',
            'call = "e.prepare"\n[[phases]]\nname = "a"\n[[phases]]\nname = "b"',
            "phases[1]",
        ),
        ('call = "e.prepare"', 'call = "e.prepare"\n[protected]\nhost = 3', "protected.host"),
    ],
)
def test_a_broken_profile_is_refused_by_file_and_key(tmp_path: Path, old: str, new: str, key: str) -> None:
    assert old in VALID
    path = write_profile(tmp_path, VALID.replace(old, new, 1))
    with pytest.raises(KnowledgeError) as caught:
        read_profile(path)
    assert str(path) in str(caught.value)
    assert key in str(caught.value)


def test_the_template_of_the_broken_ones_is_valid(tmp_path: Path) -> None:
    assert read_profile(write_profile(tmp_path, VALID)).entries == (("-m", "e"),)


@pytest.mark.parametrize("name", ["nothing", "../sglang", "", "sglang/../toyserver"])
def test_an_unknown_engine_is_refused(name: str) -> None:
    with pytest.raises(KnowledgeError):
        load_profile(name)


def test_protection_knows_names_and_patterns() -> None:
    profile = load_profile("sglang")
    for name in (
        "host",
        "api_key",
        "trust_remote_code",
        "tokenizer_path",
        "ssl_keyfile",
        "LD_PRELOAD",
        "HF_TOKEN",
        "dist_init_addr",
    ):
        assert profile.protection(name), name
    for name in ("speculative_num_steps", "tp_size", "page_size", "SGLANG_ENABLE_SPEC_V2"):
        assert profile.protection(name) is None, name


@pytest.fixture(scope="module")
def release_texts() -> dict[str, str]:
    """All Python source of each release as one text."""
    texts = {}
    for release in RELEASES:
        files = [*(release / "srt").rglob("*.py"), *release.glob("*.py"), *(release / "cli").rglob("*.py")]
        texts[release.parents[3].name] = "\n".join(f.read_text(encoding="utf-8", errors="replace") for f in files)
    return texts


@needs_releases
def test_names_of_the_sglang_profile_exist_in_every_release(release_texts: dict[str, str]) -> None:
    profile = load_profile("sglang")
    for release, text in release_texts.items():
        assert f"class {profile.args_class.rpartition('.')[2]}" in text, release
        assert "def prepare_server_args(" in text, release
        assert "def check_server_args(self" in text, release
        for path in (*profile.health_paths, profile.generate_path):
            assert f'"{path}"' in text, (release, path)
        assert any(mark in text for mark in profile.ready_marks), release
        assert sum(mark in text for mark in profile.fatal_marks) >= 4, release


@needs_releases
def test_settings_of_the_sglang_profile_exist_in_some_release(release_texts: dict[str, str]) -> None:
    profile = load_profile("sglang")
    words = set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", "\n".join(release_texts.values()).replace("-", "_")))
    named = [n for n in (*profile.protected, *profile.capabilities, *profile.model_path_fields) if "*" not in n]
    assert [n for n in named if n not in words] == []


@needs_releases
def test_every_mark_is_printed_by_some_release(release_texts: dict[str, str]) -> None:
    profile = load_profile("sglang")
    everything = "\n".join(release_texts.values())
    # printed by argparse, by Python, by uvicorn, by an f-string that is put together
    elsewhere = {"launch_server.py: error: ", "sglang serve: error: ", "Fatal Python error: ", "Application startup complete."}
    elsewhere |= {"Uvicorn running on", "server_args=ServerArgs("}
    marks = {*profile.fatal_marks, *profile.ready_marks, *(mark for _, mark in profile.phases if mark)} - elsewhere
    assert sorted(m for m in marks if m not in everything) == []
