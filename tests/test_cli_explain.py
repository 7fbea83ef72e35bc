"""`triage explain` as a whole process, on a package of our own under the engine's name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli_tools import check_one_line, run_triage

SERVER_ARGS = """
import argparse
import dataclasses
import logging

logger = logging.getLogger(__name__)


@dataclasses.dataclass
class ServerArgs:
    model_path: str
    tp_size: int = 1
    page_size: int | None = None
    api_key: str | None = None

    def __post_init__(self):
        if self.page_size is None:
            self.page_size = 16
        if self.tp_size > 4:
            self.page_size = 1
        assert self.page_size < 64, "the page is too large"
        if self.api_key == "\\x1b[31m":
            self.api_key = None

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--model-path", type=str, required=True)
        parser.add_argument("--tensor-parallel-size", "--tp-size", "--tp", type=int, default=1)
        parser.add_argument("--page-size", type=int, help="Tokens in a page.\\nMore text.")
        parser.add_argument("--api-key", type=str)

    @classmethod
    def from_cli_args(cls, args):
        args.tp_size = args.tensor_parallel_size
        return cls(**{f.name: getattr(args, f.name) for f in dataclasses.fields(cls)})


def prepare_server_args(argv):
    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    return ServerArgs.from_cli_args(parser.parse_args(argv))
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    home = tmp_path / "site" / "sglang" / "srt"
    home.mkdir(parents=True)
    for folder in (home, home.parent):
        (folder / "__init__.py").write_text("")
    (home / "server_args.py").write_text(SERVER_ARGS)
    return tmp_path / "site"


def line_of(text: str) -> int:
    return next(i for i, line in enumerate(SERVER_ARGS.split("\n"), 1) if line.strip() == text)


def explain(tree: Path, *words: str) -> Any:
    done = run_triage("explain", *words, "--source", str(tree), "--json")
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", ["page_size", "page-size", "--page-size", "--page"])
def test_a_field_or_a_flag(tree: Path, name: str) -> None:
    said = explain(tree, name)
    assert said["field"] == "page_size"
    assert [(w["kind"], w["line"], w["when"]) for w in said["writes"]] == [
        ("default", line_of("self.page_size = 16"), ["--page-size is not set"]),
        ("overwrite", line_of("self.page_size = 1"), ["--tensor-parallel-size is greater than 4"]),
    ]
    assert [(c["how"], c["line"]) for c in said["checks"]] == [
        ("assert", line_of('assert self.page_size < 64, "the page is too large"'))
    ]
    assert said["declaration"]["flags"][0]["names"] == ["--page-size"]
    assert said["launch"] is None


def test_another_spelling_of_the_flag(tree: Path) -> None:
    said = explain(tree, "--tp")
    assert said["field"] == "tp_size"
    assert [(d["fields"], d["line"]) for d in said["decides"]] == [(["page_size"], line_of("self.page_size = 1"))]


def test_values_of_a_launch(tree: Path) -> None:
    said = explain(tree, "--page-size", "--launch", "python -m sglang.launch_server --model-path m --tp 8 --page-size 32")
    launch = said["launch"]
    assert (launch["typed"], launch["replaced"], launch["silent"]) == ("--page-size 32", True, True)
    assert [(v["value"], v["origin"], v["line"]) for v in launch["values"]] == [
        ("32", "typed", None),
        ("1", "derived", line_of("self.page_size = 1")),
    ]


def test_text_for_a_person(tree: Path) -> None:
    done = run_triage("explain", "page_size", "--source", str(tree), "--launch", "--model-path m --page-size 99")
    text = done.stdout.decode()
    assert done.returncode == 0, done.stderr
    assert f"sglang/srt/server_args.py:{line_of('self.page_size = 16')}" in text
    assert "Tokens in a page." in text and "More text." not in text
    assert "when --page-size is not set" in text
    assert "AssertionError" in text
    assert "\x1b" not in text


def test_a_secret_value_is_not_shown(tree: Path) -> None:
    words = ("explain", "api_key", "--source", str(tree), "--launch", "--model-path m --api-key hunter2secret")
    for more in ((), ("--json",)):
        done = run_triage(*words, *more)
        assert done.returncode == 0, done.stderr
        assert b"hunter2secret" not in done.stdout + done.stderr


@pytest.mark.parametrize("name", ["page_sise", "--page-sise"])
def test_an_unknown_name_gets_the_nearest(tree: Path, name: str) -> None:
    text = check_one_line(run_triage("explain", name, "--source", str(tree)))
    assert name in text and ("page_size" in text or "--page-size" in text)


def test_wrong_usage(tree: Path, tmp_path: Path) -> None:
    assert "source" in check_one_line(run_triage("explain", "page_size"))
    assert "no package" in check_one_line(run_triage("explain", "page_size", "--source", str(tmp_path)))
    assert "--unit" in check_one_line(run_triage("explain", "page_size", "--host", "somewhere"))
    assert run_triage("explain").returncode == 2
    (tree / "sglang" / "srt" / "server_args.py").write_text("x = 1\n")
    check_one_line(run_triage("explain", "page_size", "--source", str(tree)))
