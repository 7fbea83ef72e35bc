"""Installing releases: what is taken for complete, which versions are asked for, what is refused. Nothing is installed here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.oracle import setup

METADATA = """Metadata-Version: 2.4
Name: sglang
Requires-Dist: aiohttp
Requires-Dist: transformers==5.6.0
Requires-Dist: tokenizers (<=0.23,>=0.22)
Requires-Dist: transformers==4.0; extra == "other"
Requires-Dist: huggingface_hub
"""


def make_release(home: Path, release: str, versions: dict[str, str]) -> Path:
    site = home / release / "lib/python3.11/site-packages"
    site.mkdir(parents=True)
    (home / release / "bin").mkdir()
    (home / release / "bin/python").touch()
    (home / release / "pyvenv.cfg").touch()
    (site / "base.pth").touch()
    for name, version in versions.items():
        (site / f"{name}-{version}.dist-info").mkdir()
        (site / f"{name}-{version}.dist-info/METADATA").write_text(METADATA if name == "sglang" else "")
    return home / release


FULL = {"sglang": "1.2", "transformers": "5.6.0", "tokenizers": "0.22.2", "huggingface_hub": "1.3"}


def test_an_environment_is_complete_by_what_is_in_it(tmp_path: Path) -> None:
    assert setup.is_complete(make_release(tmp_path, "1.2", FULL), "1.2")


@pytest.mark.parametrize(
    ("release", "change"),
    [("1.3", {}), ("1.2", {"transformers": "5.7.0"}), ("1.2", {"tokenizers": ""}), ("1.2", {"huggingface_hub": ""})],
)
def test_another_version_or_a_missing_part_is_not_complete(tmp_path: Path, release: str, change: dict[str, str]) -> None:
    versions = {k: v for k, v in {**FULL, **change}.items() if v}
    assert not setup.is_complete(make_release(tmp_path, release, versions), release)


def test_versions_are_those_of_the_wheel_and_of_extras_only_where_nothing_else_asks(tmp_path: Path) -> None:
    path = tmp_path / "METADATA"
    path.write_text(METADATA)
    found = setup.read_requirements(path, setup.READERS)
    assert found == {"transformers": {"==5.6.0"}, "tokenizers": {"<=0.23", ">=0.22"}, "huggingface-hub": set()}
    assert setup.specify("tokenizers", found) == "tokenizers<=0.23,>=0.22"
    path.write_text('Requires-Dist: transformers==4.51.1; extra == "runtime"\nRequires-Dist: requests\n')
    assert setup.read_requirements(path, setup.READERS) == {"transformers": {"==4.51.1"}}


def test_what_is_no_environment_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "1.2").mkdir()
    (tmp_path / "1.2/letter").write_text("dear")
    with pytest.raises(setup.SetupError, match="is no environment"):
        setup.make_environment(tmp_path / "1.2", sys.executable, [])
    assert (tmp_path / "1.2/letter").read_text() == "dear"


@pytest.mark.parametrize("word", ["../x", "-r", "1.0;rm"])
def test_a_release_is_a_version(word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["setup", "--", word])
    with pytest.raises(SystemExit) as stopped:
        setup.main()
    assert stopped.value.code == 2
    assert f"no version: {word}" in capsys.readouterr().err
