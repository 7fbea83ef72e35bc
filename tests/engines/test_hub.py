"""Configs of models that are named as on the hub: a cache laid out as huggingface_hub does, read by its own library as well."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.oracle.places import ORACLE_HOME
from triage.engines import open_engine
from triage.hosts.local import LocalHost
from triage.model import Launch

SGLANG = open_engine("sglang")
NAME = "some-owner/Some-Model_1.5"


def fill(
    cache: Path, name: str = NAME, commit: str = "c0ffee", refs: tuple[str, ...] = ("main",), text: str = '{"a": 1}'
) -> Path:
    """One revision of one model; returns its folder in the cache."""
    folder = cache / ("models--" + name.replace("/", "--"))
    snapshot, blobs = folder / "snapshots" / commit, folder / "blobs"
    for made in (snapshot, blobs, folder / "refs"):
        made.mkdir(parents=True, exist_ok=True)
    (blobs / f"b-{commit}").write_text(text)
    (snapshot / "config.json").symlink_to(f"../../blobs/b-{commit}")
    for ref in refs:
        (folder / "refs" / ref).write_text(commit)
    return folder


def read(env: dict[str, str], *args: str, name: str = NAME, cwd: str | None = None) -> list[tuple[str, str]]:
    launch = Launch(("python", "-m", "sglang.launch_server"), ("--model-path", name, *args), env, cwd)
    return [(m.path, m.text) for m in SGLANG.read_model_configs(LocalHost(), launch)]


@pytest.mark.parametrize(
    ("variable", "below"),
    [("HF_HUB_CACHE", ""), ("HF_HOME", "hub"), ("XDG_CACHE_HOME", "huggingface/hub"), ("HOME", ".cache/huggingface/hub")],
)
def test_the_cache_is_where_the_launchs_variables_place_it(tmp_path: Path, variable: str, below: str) -> None:
    fill(tmp_path / below)
    assert read({variable: str(tmp_path)}) == [(NAME, '{"a": 1}')]
    assert read({variable: str(tmp_path / "other")}) == []


def test_the_typed_revision_is_read(tmp_path: Path) -> None:
    fill(tmp_path)
    fill(tmp_path, commit="beef", refs=("v2",), text='{"a": 2}')
    env = {"HF_HUB_CACHE": str(tmp_path)}
    assert read(env) == [(NAME, '{"a": 1}')]
    assert read(env, "--revision", "v2") == [(NAME, '{"a": 2}')]
    assert read(env, "--revision", "beef") == [(NAME, '{"a": 2}')]
    assert read(env, "--revision", "absent") == []


def test_no_file_outside_the_models_folder_is_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hidden")
    folder = fill(tmp_path / "cache")
    link = folder / "snapshots" / "c0ffee" / "config.json"
    link.unlink()
    link.symlink_to(secret)
    env = {"HF_HUB_CACHE": str(tmp_path / "cache")}
    assert read(env) == []
    link.unlink()
    (folder / "refs" / "main").write_text("../../..")
    assert read(env) == []
    for name in ("../secret", "a/b/c", "-x", "some-owner/..", "$(id)", "a b"):
        assert read(env, name=name) == []


def test_a_folder_of_that_name_comes_first(tmp_path: Path) -> None:
    fill(tmp_path / "cache")
    (tmp_path / NAME).mkdir(parents=True)
    env = {"HF_HUB_CACHE": str(tmp_path / "cache")}
    assert read(env, cwd=str(tmp_path)) == [], "a local folder without a config is not the hub's model"


def test_the_hubs_own_library_reads_the_same_file(tmp_path: Path) -> None:
    python = next(iter(sorted(ORACLE_HOME.glob("*/bin/python"))), None)
    if python is None:
        pytest.skip(f"no release is installed below {ORACLE_HOME}: python -m tests.oracle.setup")
    fill(tmp_path / "hub")
    program = f"from huggingface_hub import try_to_load_from_cache as t; print(open(t({NAME!r}, 'config.json')).read())"
    done = subprocess.run([python, "-c", program], env={"HF_HOME": str(tmp_path)}, capture_output=True, check=True, timeout=60)
    assert json.loads(done.stdout) == {"a": 1}
    assert read({"HF_HOME": str(tmp_path)}) == [(NAME, '{"a": 1}')]
