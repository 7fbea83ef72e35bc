"""Sites, guards, demands and the evaluation of a file in syntax newer than the local Python."""

from __future__ import annotations

import sys

import pytest

from tests.analysis.snippet_runs import TAIL, Story, evaluate, make_evaluator, told
from triage.analysis.definitions import find_definitions
from triage.analysis.demands import parse_site
from triage.analysis.evaluate import Program
from triage.analysis.guards import complete_path, find_guards
from triage.analysis.reading import read_module
from triage.analysis.source import find_sites
from triage.analysis.trees import MemoryTree
from triage.model import Failure, Frame, Unknown

# Python 3.15 reads all of it.
pytestmark = pytest.mark.skipif(sys.version_info >= (3, 15), reason="this Python reads the snippet itself")

SOURCE = '''\
"""A module of a later Python."""
from typing import Literal
lazy import dataclasses

type Mode = Literal["fast", "slow"]
type Tree[T] = list[T | Tree[T]]
LIMIT = 4

class Base[T]:
    kind: Mode = "fast"
    def first[U](self, values: list[U]) -> U:
        return values[0]

@dataclasses.dataclass
class Box[T](Base[T]):
    size: T
    def shown(self) -> str:
        return f"<{self.size:>{len("abcd")}}>"

def check(size):
    return size > LIMIT

def work(argv):
    opts = {"size": argv[0]}
    try:
        size = int(opts["size"])
    except ValueError, KeyError:
        size = -1
    box = Box(size)
    unread = t"size {opts["size"]}"
    if not check(size) and f"{opts["size"]}" != "free": say = "small"
    else: say = "big"
    if say == "big" and f"{opts["size"]}" == "9":
        raise ValueError(f"{"\\n".join(argv)} is {f"{opts["size"]} of {box.kind}"}, {size = }")
    assert size != 8, f"no {opts["size"]}"; done = [*row for row in [[box.shown()], [say, box.first([size])]]]
    return done
'''


@pytest.mark.parametrize(
    ("argv", "story"),
    [
        (["3"], Story(["<   3>", "small", 3])),
        (["free"], Story(["<  -1>", "big", -1])),
        (["x"], Story(["<  -1>", "small", -1])),
        (["7", "more"], Story(["<   7>", "big", 7])),
        (["9", "more"], Story(None, "ValueError", "9\nmore is 9 of fast, size = 9", 34, "work")),
        (["8"], Story(None, "AssertionError", "no 8", 35, "work")),
    ],
)
def test_the_evaluation_tells_what_a_later_python_would(argv: list[str], story: Story) -> None:
    assert told(evaluate(SOURCE, argv)) == story


def test_the_program_says_which_files_were_rewritten() -> None:
    tree = MemoryTree({"toy/main.py": SOURCE.encode(), "toy/old.py": b"x = 1\n", "toy/broken.py": b"def f(:\n"})
    program = Program(tree, "toy")
    for name in ("main", "old", "broken"):
        data = tree.read(f"toy/{name}.py")
        assert data is not None
        assert (program.parse(f"toy/{name}.py", data) is None) == (name == "broken")
    assert list(program.rewritten) == ["toy/main.py"] and "rewritten form with the same lines" in program.rewritten["toy/main.py"]
    assert "nor rewritten" in program.failures["toy/broken.py"]


def test_a_later_module_that_nothing_can_read_is_an_unknown_of_the_evaluation() -> None:
    made = make_evaluator({"toy/main.py": "def work(argv) ->\n" + TAIL}).evaluate([])
    assert made.verdict == "unknown" or any("nor rewritten" in note for note in made.notes)


def located(line: int, text: str, exception: str) -> tuple[Failure, MemoryTree]:
    frame = Frame("/venv/toy/main.py", line, "work", text, "toy/main.py")
    return Failure("exception", exception, "", (frame,)), MemoryTree({"toy/main.py": SOURCE.encode(), "toy/__init__.py": b""})


def test_a_site_has_the_words_of_the_file_and_its_guards() -> None:
    text = 'raise ValueError(f"{"\\n".join(argv)} is {f"{opts["size"]} of {box.kind}"}, {size = }")'
    failure, tree = located(34, text, "ValueError")
    (site,), unknowns = find_sites(failure, tree)
    assert (site.location.line, site.location.end_line, site.function, site.kind, site.matches) == (34, 34, "work", "raise", True)
    assert site.text == text
    assert [u.what for u in unknowns] == ["the exact syntax of toy/main.py"] and "f-strings of Python 3.12" in unknowns[0].why
    (done,) = complete_path((site,), tree, failure).sites
    last = done.guards[-1]
    assert (last.location.line, last.came_out, last.kind) == (33, True, "if")
    assert last.text.startswith('say == "big" and f"')
    assert [g.text for g in find_guards(SOURCE, "work", 34)] == [g.text for g in done.guards]
    node, lines = parse_site(done)
    assert node is not None and lines


def test_several_statements_on_one_line_are_told_apart() -> None:
    failure, tree = located(35, SOURCE.split("\n")[34].strip(), "AssertionError")
    (site,), _ = find_sites(failure, tree)
    assert (site.kind, site.location.line, site.matches) == ("assert", 35, True)
    failure, tree = located(31, SOURCE.split("\n")[30].strip(), "NameError")
    (site,), _ = find_sites(failure, tree)
    found = find_definitions(complete_path((site,), tree, failure), tree)
    assert [str(e.location) for e in found] == ["toy/main.py:20"]


def test_what_stands_in_the_way_elsewhere_leaves_the_function_readable() -> None:
    text = SOURCE.replace("LIMIT = 4", "def g():\n    return 4 ??")
    line = text.split("\n").index("    return size > LIMIT") + 1
    module = read_module(MemoryTree({"toy/main.py": text.encode()}), "toy/main.py", line)
    assert not isinstance(module, Unknown) and module.partial and module.original[line - 1] == "    return size > LIMIT"
    line = next(i for i, s in enumerate(text.split("\n"), 1) if "raise ValueError" in s)
    alone = read_module(MemoryTree({"toy/main.py": text.encode()}), "toy/main.py", line)
    assert not isinstance(alone, Unknown) and alone.partial and alone.rewritten
