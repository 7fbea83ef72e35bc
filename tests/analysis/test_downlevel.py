"""Newer syntax in older words: same lines, same values, and bounds against what would break the parser."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

import pytest

from triage.analysis.downlevel import down_level, rewrite
from triage.analysis.downlevel.bounds import MAX_CHARS

SETUP = """
import datetime
a = {"k": 7, "it's": 'say "x"'}
names = ["n1", "n2"]
w, p, dash = 12, 3, "-"
class Both:
    def __format__(self, spec): return f"<{spec}>"
    def __repr__(self): return 'Both("r")'
both = Both()
"""

# f-strings of Python 3.12 and the value of `x` after them, as Python 3.13 gives it
FSTRINGS = {
    'x = f"{a["k"]}"': "7",
    "x = f'{a['k']}'": "7",
    'x = f"it\'s {a["it\'s"]}"': 'it\'s say "x"',
    'x = f"{"\\n".join(names)}"': "n1\nn2",
    'x = f"{"\\\\".join(names)!r}"': "'n1\\\\n2'",
    'x = f"{\n a["k"]  # a comment\n}"': "7",
    'x = f"{\n a["k"]\n}"\ny = 1': "7",
    'x = f"{f"{f"{f"{f"{a["k"]}"}"}"}"}"': "7",
    'x = f"{1.23456:{w}.{p}}|{a["k"]}"': "        1.23|7",
    'x = f"{both:{a["k"]}{"x"}}"': "<7x>",
    'x = f"{1:{"{w}"[1:-1] and w}}{a["k"]}"': "           17",
    'x = f"{1:{w:{"0"}}}"': "           1",
    'x = f"{a["k"]=}"': 'a["k"]=7',
    'x = f"{ a["k"] = !s:>5}"': ' a["k"] =     7',
    'x = f"{both=}{a["k"] = :03}"': 'both=Both("r")a["k"] = 007',
    'x = f"{{{a["k"]}}}"': "{7}",
    'x = f"\\x41\\N{BULLET}\\t{a["k"]}\\\\"': "A•\t7\\",
    'x = rf"\\d\\{a["k"]}\\n"': "\\d\\7\\n",
    'x = f"""first\n"{a["k"]}" \'\n{"\\t".join(names)} last\\\n!"""': 'first\n"7" \'\nn1\tn2 last!',
    'x = f"""{a["""k"""]}\n\n"""': "7\n\n",
    'x = ("one " "{two} "\n  f"{a["k"]} "  # why\n\n  "three" f\'{dash}\')': "one {two} 7 three-",
    'x = f"{ {"k": 1}["k"]}"': "1",
    'x = f"{(lambda v: v["k"])(a)}"': "7",
    'x = f"{a["k"] if a["k"] > 1 else "none"}"': "7",
    'x = f"{names[0]!r:>{w}}{"é"!a}{"\\u00e9"}"': "        'n1''\\xe9'é",
    'x = f"{a["k"]}".rjust(3) + "%s" % f"{a["k"]}"': "  77",
    'x = f"{1, *names, "z"}"': "(1, 'n1', 'n2', 'z')",
    'x = f"{(y := a["k"])}{y}"': "77",
    "x = f'{\"\".join(f'<{n}>' for n in names if n != 'n1')}'": "<n2>",
    'x = f"{datetime.date(2024, 5, 6):%Y-{"%m"}}{a["k"]}"': "2024-057",
    'x = f"{sum([\n 1,\n a["k"],\n])} and {\n a["k"]}"': "8 and 7",
    'x = f"{a[\'k\']}" f"{a["k"]}"': "77",
}

OTHERS = {
    "def f[T](v: T, *rest: T) -> list[T]:\n    return [v]\nx = f(3)": [3],
    "def f[\n    T: int,\n    *Ts,\n    **P,\n](\n    v: T,\n) -> 'T':\n    return v\nx = f(4)": 4,
    "class C[T]:\n    size: int = 2\n    def get(self, v: T) -> T: return v\nx = C[int]().get(C.size)": 2,
    "class C[K, *Vs](dict[K, int], ): pass\nx = C[int, str](a=1)['a']": 1,
    "class A: pass\nclass C[T](A, metaclass=type):\n    y = 1\nx = (C.y, issubclass(C, A))": (1, True),
    "class D[T = int, *U = *tuple[int, str]]:\n    y = 5\nx = D.y": 5,
    "from typing import Generic, TypeVar, cast\nS = TypeVar('S')\nclass B(Generic[S]):\n    def g(self): return 1\n"
    "class C[T](\n    B[\n        T\n    ],\n):\n    def h(self): return cast(list[T], [self.g()])\nx = C().h()": [1],
    "class O:\n    class I[T]:\n        async def m[U](self, u: U): return u\n        y = 6\nx = O.I.y": 6,
    "from typing import Literal, get_args\ntype Mode = Literal['a', 'b']\nx = 1": 1,
    "type Tree[T] = list[T | Tree[T]]\ntype \\\n  Late = (\n    Later\n  )\nx = 1\nclass Later: pass": 1,
    "try:\n    1 / 0\nexcept ValueError, ZeroDivisionError:\n    x = 'caught'": "caught",
    "try:\n    raise KeyError(1)\nexcept ValueError, KeyError, TypeError:\n    x = 1\nelse:\n    x = 2": 1,
    "try:\n    raise ExceptionGroup('g', [KeyError(1)])\nexcept* KeyError, ValueError:\n    x = 3": 3,
    "lazy import json\nlazy from os import path as p2, sep\nx = (json.dumps([1]), p2.sep == sep)": ("[1]", True),
    "rows = [[1], [2, 3]]\nx = [*r for r in rows if r]": [1, 2, 3],
    "rows = [[1], [2, 3]]\nx = sorted({*r for r in rows}) + list((*r[1:] for r in rows))": [1, 2, 3, 3],
    "rows = [{'a': 1}, {'b': 2, 'a': 3}]\nx = {**r for r in rows}": {"a": 3, "b": 2},
}


def run(text: str) -> object:
    names: dict[str, object] = {}
    exec(compile(SETUP, "setup", "exec"), names)
    exec(compile(text, "snippet", "exec"), names)
    return names["x"]


@pytest.mark.parametrize(("new", "want"), [*FSTRINGS.items(), *OTHERS.items()])
def test_the_rewritten_form_has_the_value_and_the_lines(new: str, want: object) -> None:
    old = rewrite(new + "\nlast = 1\n")
    assert old.text is not None, old.why
    assert run(old.text) == want
    assert old.text.count("\n") == new.count("\n") + 2
    assert old.text.split("\n")[-2] == "last = 1"
    try:
        compile(new, "new", "exec")
    except SyntaxError:
        assert old.constructs and old.note
    else:
        assert run(new) == want
        assert first_lines(old.text) == first_lines(new + "\nlast = 1\n")


def first_lines(text: str) -> list[tuple[str, int]]:
    return [(type(n).__name__, n.lineno) for n in ast.walk(ast.parse(text)) if isinstance(n, ast.stmt)]


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="this Python reads t-strings itself")
def test_a_template_string_keeps_its_expressions_evaluated() -> None:
    text = 'x = 1\ny = t"""one {a["k"]!r:>{w}}\n two { b = }"""\nz = 2\n'
    old = rewrite(text)
    assert old.text is not None and old.constructs == ("t-strings",)
    tree = ast.parse(old.text)
    assert [node.lineno for node in tree.body] == [1, 2, 4]
    read = {ast.unparse(n) for n in ast.walk(tree.body[1]) if isinstance(n, ast.Name | ast.Subscript)}
    assert {"a['k']", "b", "w"} <= read


BODY = '''\
"""A module with a docstring."""
from __future__ import annotations

import os


class Box[T: (int, str)](Base[T], frozen=True):
    """Holds one."""

    value: T

    @property
    def shown[U](
        self,
        other: U,
    ) -> str:
        if self.value:
            return f"{self.value!r} {
                other["key"]
            } {"\\n".join(
                os.environ["A"]
            )}"
        for a, b in (
            (1, 2),
        ):
            try: a; b
            except KeyError, ValueError as_ if False else 0:
                pass
        assert other, f"{other["a"]} is " f"{other["b"]}"; return ""

type Alias[T] = (
    dict[str, T]
)
def plain(): return f"{1}"
'''


def test_every_statement_begins_on_the_line_where_it_began() -> None:
    text = BODY.replace(" as_ if False else 0", "")
    old = rewrite(text)
    assert old.text is not None, old.why
    wanted = {}
    for line, content in enumerate(text.split("\n"), 1):
        for word in ("class ", "def ", "if ", "return ", "for ", "try", "except", "pass", "assert", "value:", "type ", "import"):
            if content.strip().startswith(word):
                wanted[line] = word
    got: dict[int, set[str]] = {}
    for node in ast.walk(ast.parse(old.text)):
        if isinstance(node, ast.stmt | ast.excepthandler):
            got.setdefault(node.lineno, set()).add(type(node).__name__)
    assert set(wanted) <= set(got)
    expression = next(
        n for n in ast.walk(ast.parse(old.text)) if isinstance(n, ast.Subscript) and ast.unparse(n) == "other['key']"
    )
    assert text.split("\n")[expression.lineno - 1].strip() == 'other["key"]'
    # what is not new is left as it stands
    same = [a for a, b in zip(text.split("\n"), old.text.split("\n"), strict=True) if a == b]
    assert len(same) > 20 and 'def plain(): return f"{1}"' in same


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = f'{a['k']}'\ndef f(:\n", "no Python syntax"),
        ("this is no Python\n", "no Python syntax"),
        ("def f[T](T): return T\n", "bound again"),
        ("x = f\"{a['\\q'\"}\n", "no Python syntax"),
    ],
)
def test_what_cannot_be_rewritten_has_a_reason(text: str, why: str) -> None:
    old = rewrite(text)
    assert old.text is None and why in old.why
    assert down_level(text.encode()) is None


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbfx = f\"{a['k']}{\"\\n\".join('ab')}\"\r\ny = 1\r\n",
        '# -*- coding: latin-1 -*-\nx = f"é{a["k"]}"\n'.encode("latin-1"),
        b'#!/bin/sh\n# vim: set fileencoding=utf-8 :\nx = f"{a["k"]}"\n',
        b'\x0cx = f"{a["k"]}"\n\x0cy = 2\n',
        b'if 1:\n\tx = f"{a["k"]}"\n',
    ],
)
def test_encodings_line_ends_and_form_feeds(data: bytes) -> None:
    made = down_level(data)
    assert made is not None
    assert "7" in str(run(made.decode())) or "\n" in str(run(made.decode()))
    ast.parse(made)
    assert made.count(b"\n") == data.count(b"\n")


def hostile() -> Iterator[tuple[str, str]]:
    n = 100_000
    for opening, closing in ("()", "[]", "{}"):
        yield f"{n} of {opening}", f"x = {opening * n}{closing * n}\nf[T]\n"
        yield f"{n} of {opening} open", opening * n
    yield "f-strings in f-strings", "x = " + 'f"{' * n + "1" + '}"' * n
    yield "fields in specifications", 'x = f"{a' + ":{b" * n + "}" * n + '}"'
    yield "lines and strings between", 'x = ("""\nreturn x""" + ' * n + ")" * n
    yield "conditions between", "x = (a\nif b else " * n + "1" + ")" * n
    yield "unary", "x = " + "- " * n + "1"
    yield "not", "x = " + "not " * n + "1"
    yield "lambdas", "x = " + "lambda: " * n + "1"
    yield "conditions", "x = " + "1 if a else " * n + "1"
    yield "powers", "x = " + "2 ** " * n + "1"
    yield "sums", "x = " + "1 + " * n + "1"
    yield "attributes", "x = a" + ".b" * n
    yield "calls", "x = a" + "()" * n
    yield "strings", "x = " + '"a" ' * n + "'"
    yield "elifs", "if a:\n pass\n" + "elif b:\n pass\n" * n + "else\n"
    yield "patterns", "match x:\n case " + "(" * 30 + "1" + ")" * 30 + ": pass\ntype X = 1\n"
    yield "mappings", "match x:\n case " + '{"a":' * 30 + "1" + "}" * 30 + ": pass\ntype X = 1\n"
    yield "deletions", "if x: del " + "(" * 30 + "a" + ")" * 30 + "\ntype X = 1\n"
    yield "indentation", "".join(" " * i + "if a:\n" for i in range(1000)) + " " * 1000 + "type X = 1\n"
    yield "size", "type X = 1\n" * (MAX_CHARS // 10)
    yield "brackets", "type X = 1\ny = [" + "1, (2, [3]), " * (MAX_CHARS // 14) + "]\n"
    yield "backslashes", "x = " + "\\\n" * n + "(" * n
    yield "quotes", "x = " + "'" * n + '"""' + "(" * n


@pytest.mark.parametrize(("name", "text"), list(hostile()), ids=lambda v: v if len(v) < 40 else "")
def test_hostile_text_is_refused_before_the_parser_sees_it(name: str, text: str) -> None:
    old = rewrite(text)
    assert old.text is None and old.why


def test_usual_code_stays_below_the_bounds() -> None:
    text = "type X = int\n" + "x = " + " + ".join(["a.b"] * 100) + "\ny = [" + "1, (2, [3]),\n" * 500 + "]\n"
    text += "z = (\n" + '    "text (" f"{x:>{y}} {{"\n' * 100 + ")\n"
    text += "if x: pass\n" + "elif y: pass\n" * 200
    assert rewrite(text).text is not None
