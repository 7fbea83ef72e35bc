"""A file without the bodies of its functions is the whole file once they are filled: on the standard library, and on text
that looks like something else."""

from __future__ import annotations

import ast
import sysconfig
from pathlib import Path

import pytest

from triage.analysis.outline import fill_all, fill_around, fill_body, may_yield, parse_outline

STDLIB = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))[::5]
HOLDERS = (ast.ClassDef, ast.If, ast.Try, ast.ExceptHandler, ast.With, ast.For, ast.While, ast.Match)


def whole(tree: ast.AST) -> str:
    """The tree as text. The last column of what holds functions is not kept by an outline, and not needed."""
    for node in ast.walk(tree):
        if isinstance(node, HOLDERS):
            node.end_col_offset = None
    return ast.dump(tree, include_attributes=True)


def left_out(tree: ast.AST) -> int:
    return sum("_triage_later" in n.__dict__ for n in ast.walk(tree))


@pytest.mark.filterwarnings("ignore")
def test_filled_outlines_of_the_standard_library_are_what_ast_reads() -> None:
    parted = 0
    for path in STDLIB:
        text = path.read_text("utf-8", "replace")
        outline = parse_outline(text)
        parted += left_out(outline) > 0
        fill_all(outline)
        assert whole(outline) == whole(ast.parse(text)), path
    assert parted >= 0.7 * len(STDLIB)  # else it only ever parses the whole file


SOURCES = {
    "text_at_the_margin": 'def f():\n    x = """\ndef g():\n  no\n"""\n    y = 1\n    return x\ny = 2\n',
    "a_def_inside_a_text": 'A = """\ndef f():\n    a\n    b\n    c\n"""\ndef g():\n    a\n    b\n    c\n',
    "two_kinds_of_quotes": "A = '''\n\"\"\"\n'''\ndef g():\n    '''\"\"\"'''\n    b\n    c\n",
    "quotes_in_a_comment": 'def g():\n    a  # """\n    b\n    c\nx = """\nq"""\n',
    "brackets_at_the_margin": "def g(\n    a,\n):\n    b = (\n1,\n)\n    c\n    d\nx = 1\n",
    "a_colon_in_a_default": "def g(\n    a={\n        1:\n        2\n    },\n):\n    b\n    c\n    d\n",
    "comments_at_the_margin": "def g():\n    a\n# why\n    b\n\n    c\n# behind\nx = 1\n",
    "beside_the_signature": "def g(): return 1\ndef h(): return 2\nclass C:\n    def i(self): ...\n    x: int = 1\n",
    "nested": "class C:\n  class D:\n    def f(self):\n      def g():\n        return 1\n      return g\n  y = 1\n",
    "async_and_decorated": "@a\n@b(1)\nasync def f(x):\n    await x\n    y\n    z\n",
    "last_in_blocks": "try:\n  def f():\n    a\n    b\n    c\nexcept E:\n  def f():\n    a\n    b\n    c\n",
    "tabs": "def f():\n\ta\n\tb\n\tc\n",
    "no_end": "def f():\n    a\n    b\n    c",
}


@pytest.mark.parametrize("name", SOURCES)
def test_odd_texts_are_read_as_ast_reads_them(name: str) -> None:
    outline = parse_outline(SOURCES[name])
    fill_all(outline)
    assert whole(outline) == whole(ast.parse(SOURCES[name]))


def test_only_the_function_around_a_line_is_filled() -> None:
    text = "class C:\n    def f(self):\n        a\n        b\n        c\n    def g(self):\n        d\n        e\n        f\n"
    outline = parse_outline(text)
    assert left_out(outline) == 2
    fill_around(outline, 8)
    assert ast.unparse(outline).count("...") == 1 and "d\n" in ast.unparse(outline)
    owner = outline.body[0]
    assert (owner.lineno, owner.end_lineno) == (1, 9)


def test_a_fault_inside_a_body_is_met_when_it_is_filled() -> None:
    text = "def f():\n    a\n    b = = 1\n    c\nx = 1\n"
    outline = parse_outline(text)
    assert not fill_body(outline.body[0])
    better = ast.parse("def f():\n    a\n    b = 1\n    c\nx = 1\n")
    outline = parse_outline(text, lambda: better)
    assert fill_body(outline.body[0]) and "b = 1" in ast.unparse(outline)


def test_a_fault_outside_bodies_is_the_files() -> None:
    with pytest.raises(SyntaxError):
        parse_outline("def f():\n    a\n    b\n    c\nx = = 1\n")


def test_generators_are_told_by_their_text() -> None:
    outline = parse_outline("def f():\n    a\n    b\n    c\ndef g():\n    a\n    yield b\n    c\n")
    fill_all(outline)
    assert [may_yield(n) for n in outline.body] == [False, True]
