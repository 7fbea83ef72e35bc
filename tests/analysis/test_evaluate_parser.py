"""Parsers of the target: evaluated again and again by one evaluator, and really run; config files beneath the command line."""

from __future__ import annotations

import contextlib
import io
import textwrap
from pathlib import Path

import pytest

from tests.analysis.snippet_runs import TAIL, evaluate, make_evaluator, really, same_story, told
from triage.analysis.evaluate import Place
from triage.model import Facts

SOURCE = textwrap.dedent(
    """
    import argparse
    import json

    class Renamed(argparse.Action):
        def __init__(self, option_strings, dest, becomes=None, nargs=0, **kwargs):
            self.becomes = becomes
            super().__init__(option_strings, dest, nargs=nargs, **kwargs)
        def __call__(self, parser, namespace, values, option_string=None):
            setattr(namespace, self.dest, self.becomes)

    def declare(parser):
        parser.add_argument("--size", "-s", type=int, default=1)
        parser.add_argument("--sizes", type=int, nargs="*")
        parser.add_argument("--loud", action="store_true")
        parser.add_argument("--labels", type=json.loads, default=None)
        parser.add_argument("--old-loud", dest="level", action=Renamed, becomes="high")

    def walk(parser):
        out = {}
        for action in parser._actions:
            out[action.dest] = [
                isinstance(action, argparse._StoreTrueAction), isinstance(action, argparse.Action),
                isinstance(action, Renamed), hasattr(action, "action"), action.__class__.__name__,
            ]
        return out

    def work(argv):
        parser = argparse.ArgumentParser()
        declare(parser)
        given = parser.parse_args(argv)
        return [given.size, given.sizes, given.loud, given.labels, given.level, walk(parser)]
    """
)
LISTS = [
    [],
    ["--old-loud"],
    ["--size", "-3"],
    ["--size=-3", "--size=4", "-s5"],
    ["--sizes", "1", "-2", "3", "--loud"],
    ["--lo", "--lab", "[1, 2]"],
    ["--old", "--old-loud"],
]
REFUSED = [["--siz", "3"], ["--size", "x"], ["--labels", "{"], ["--loud=1"], ["--si_ze", "1"], ["lost", " x "], ["--size"]]


def test_a_parser_is_the_same_at_each_evaluation() -> None:
    evaluator = make_evaluator({"toy/main.py": SOURCE + TAIL})
    for argv in [*LISTS, *reversed(LISTS)]:
        same_story(told(evaluator.evaluate(argv)), really(SOURCE, argv))


@pytest.mark.parametrize("argv", REFUSED)
def test_a_refusal_has_the_words_of_argparse(argv: list[str]) -> None:
    error = io.StringIO()
    with contextlib.redirect_stderr(error), pytest.raises(SystemExit):
        really(SOURCE, argv)
    raised = evaluate(SOURCE, argv).raised
    assert raised is not None
    assert raised.usage
    assert raised.message == error.getvalue().partition(": error: ")[2].removesuffix("\n")


LEVEL = "import logging\n\ndef work(argv):\n    return [getattr(logging, argv[0].upper()), getattr(logging, argv[0] + '.x', 7)]\n"


@pytest.mark.parametrize("name", ["info", "quiet", "127.0.0.1", ""])
def test_an_attribute_that_the_launch_names(name: str) -> None:
    same_story(told(evaluate(LEVEL, [name])), really(LEVEL, [name]))


CONFIG = textwrap.dedent(
    """
    import yaml
    from pathlib import Path

    def work(argv):
        if not Path(argv[0]).exists():
            raise ValueError("no such file")
        with open(argv[0]) as file:
            held = yaml.safe_load(file)
        if not isinstance(held, dict):
            raise ValueError("not a mapping")
        out = []
        for key, value in held.items():
            out.extend([f"--{key}", str(value).lower()] if isinstance(value, bool) else [f"--{key}", str(value)])
        return out
    """
)
TEXTS = [
    "a: 1\nb-c: true\nd: [1, x]\n",
    "",
    "- 1\n",
    "a: 1:20\nb: 'no'\nc: no\nd: 1e3\n",
    "a: {b: [1\n",
    "a:\n  - b: ~\n  c: 1\n",
]


@pytest.mark.parametrize("text", TEXTS)
def test_yaml_is_read_as_the_target_reads_it(text: str, tmp_path: Path) -> None:
    path = tmp_path / "launch.yaml"
    path.write_text(text)
    real = really(CONFIG, [str(path)])
    said = told(evaluate(CONFIG, [str(path)], facts=Facts(texts={str(path): text})))
    assert (said.value, (said.exception or "").rpartition(".")[2], said.line) == (real.value, real.exception or "", real.line)


def test_yaml_that_could_grow_without_end_is_not_read() -> None:
    text = "a: &a [x, x, x]\n" + "".join(f"{k}: &{k} [*{j}, *{j}, *{j}]\n" for j, k in zip("abcdefgh", "bcdefghi", strict=True))
    assert evaluate(CONFIG, ["/x.yaml"], facts=Facts(texts={"/x.yaml": text})).verdict == "unknown"
    deep = "a: " + "[" * 50_000
    assert evaluate(CONFIG, ["/x.yaml"], facts=Facts(texts={"/x.yaml": deep})).verdict == "unknown"


def test_a_file_whose_text_was_not_captured_is_unknown() -> None:
    assert evaluate(CONFIG, ["/x.yaml"], facts=Facts(paths={"/x.yaml": "file"})).verdict == "unknown"
    assert told(evaluate(CONFIG, ["/x.yaml"], facts=Facts(paths={"/x.yaml": "absent"}))).message == "no such file"


ABSENT = {
    "open": "import os\n\ndef work(argv):\n    return os.open(argv[0], os.O_RDONLY)\n",
    "read_text": "from pathlib import Path\n\ndef work(argv):\n    return Path(argv[0]).read_text()\n",
    "Path.open": "from pathlib import Path\n\ndef work(argv):\n    return Path(argv[0]).open()\n",
    "uuid5": "import uuid\n\ndef work(argv):\n    return uuid.uuid5(uuid.NAMESPACE_URL, argv[0]).hex\n",
}


@pytest.mark.parametrize("name", ABSENT)
def test_a_file_that_is_absent_cannot_be_read(name: str) -> None:
    real = really(ABSENT[name], ["/nowhere/at/all"])
    said = told(evaluate(ABSENT[name], ["/nowhere/at/all"], facts=Facts(paths={"/nowhere/at/all": "absent"})))
    assert (said.exception, said.line, said.value) == (real.exception, real.line, real.value)


HANDLED = textwrap.dedent(
    """
    def work(argv):
        try:
            import a_package_that_is_nowhere
        except AttributeError:
            raise RuntimeError("old")
        except ImportError:
            raise ValueError("not installed")
        return 1
    """
)


def test_a_handler_on_the_trail_gets_the_exception_that_it_names() -> None:
    real = really(HANDLED)
    assert real.message == "not installed"
    call = len((HANDLED + TAIL).splitlines()) - 1
    said = told(evaluate(HANDLED, trail=[Place("toy/main.py", call, "run"), Place("toy/main.py", real.line, "work")]))
    assert (said.exception, said.message, said.line) == (real.exception, real.message, real.line)
