"""Sites: the statement of every labelled real failure, and hostile or changed source."""

from __future__ import annotations

import pytest
import real_sources as real

from tests.oracle.real import ask_all
from triage.analysis.source import excerpt, find_function, find_sites, isolate_function
from triage.model import Failure, Frame, Location


class Files:
    def __init__(self, **files: bytes | str) -> None:
        self.files = {f"{name}.py": f.encode() if isinstance(f, str) else f for name, f in files.items()}

    def read(self, file: str) -> bytes | None:
        return self.files.get(file)

    def is_package(self, file: str) -> bool:
        return False

    def list_dir(self, file: str) -> tuple[str, ...]:
        return ()


def fail(line: int, function: str = "f", text: str = "", exception: str = "ValueError", file: str = "a.py") -> Failure:
    return Failure("exception", exception, "", (Frame(f"/x/{file}", line, function, text, file),))


@pytest.mark.parametrize("version", ["0.5.5", "0.5.16"])
def test_every_labelled_failure_is_at_its_statement(version: str) -> None:
    tree = real.tree(version)
    wrong = []
    cases = real.labelled(version)
    for case in cases:
        failure = real.failure(case["exception"], case["message"], case["traceback_launch"] or case["traceback"])
        sites, unknowns = find_sites(failure, tree)
        site = sites[-1]
        got = (site.location.file, site.kind, site.location.line, site.location.end_line, site.function.rpartition(".")[2])
        want = ("sglang/" + case["file"], *(case[k] for k in ("statement", "statement_line", "statement_end_line", "function")))
        if got != want or unknowns or not all(s.matches for s in sites):
            wrong.append((case["id"], got, want, unknowns))
    assert len(cases) > 190
    assert wrong == []


EAGLE = ["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "models/eagle3-llama"]
LAUNCHES = {
    "E1": ["models/kimi-k2", *EAGLE, "--speculative-num-draft-tokens", "3", "--speculative-eagle-topk", "4"],
    "E2": ["models/kimi-k2", *EAGLE, "--speculative-num-draft-tokens", "3"],
    "E3": ["models/kimi-k2", *EAGLE, "--speculative-num-steps", "1", "--speculative-num-draft-tokens", "3"],
    "N1": ["models/qwen3-next", "--speculative-algorithm", "NEXTN", "--speculative-num-draft-tokens", "1"],
    "N2": ["models/qwen3-next", "--speculative-algorithm", "NEXTN", "--speculative-num-draft-tokens", "1",
           "--mamba-scheduler-strategy", "extra_buffer"],
}  # fmt: skip


@pytest.mark.parametrize("version", ["0.5.11", "0.5.23"])
def test_the_five_launches_fail_where_the_oracle_says(version: str) -> None:
    real.install(version)
    launches = [args for name, args in LAUNCHES.items() if version == "0.5.11" or name != "N2"]  # a flag that 0.5.23 has not
    questions = [{"argv": ["--trust-remote-code", "--model-path", *args]} for args in launches]
    answers = ask_all(version, "h100x8", questions, ("settings", "records"))
    assert len(answers) == len(launches)
    tree = real.tree(version)
    for answer in answers:
        assert answer["outcome"] == "exception", answer
        sites, unknowns = find_sites(real.failure(answer["exception"], answer["message"], answer["traceback"]), tree)
        frame = answer["frame"]
        site = sites[-1]
        assert unknowns == ()
        assert (site.kind, site.location.line, site.location.end_line) == (
            frame["kind"], frame["first"], frame["last"],
        )  # fmt: skip
        assert all(s.matches for s in sites)


def test_lines_of_a_multi_line_assert_give_the_same_statement() -> None:
    source = "def f(a, b):\n    x = 1\n    assert (\n        a is None\n        and b is None\n    ), 'no'\n"
    for line in (3, 4, 5, 6):
        (site,), unknowns = find_sites(fail(line, exception="AssertionError"), Files(a=source))
        assert (site.location, site.kind, site.at) == (Location("a.py", 3, 6), "assert", line)
        assert site.text == "assert (\n    a is None\n    and b is None\n), 'no'"
        assert unknowns == ()


def test_text_of_a_compound_statement_is_its_header() -> None:
    source = "class C:\n  def f(self):\n    if (\n      self.a > 1  # why\n    ):\n      # note\n      go()\n"
    (site,), _ = find_sites(fail(4, text="self.a > 1  # why"), Files(a=source))
    assert (site.kind, site.function, site.location) == ("if", "C.f", Location("a.py", 3, 7))
    assert site.text == "if (\n  self.a > 1  # why\n):"


def test_one_line_statements_are_told_apart_by_what_was_raised() -> None:
    source = "def f(a):\n    if a > 1: raise ValueError(a)\n    x = g(a); assert x\n"
    kinds = {
        (e, line): find_sites(fail(line, exception=e), Files(a=source))[0][0].kind
        for e, line in (("ValueError", 2), ("AssertionError", 3))
    }
    assert kinds == {("ValueError", 2): "raise", ("AssertionError", 3): "assert"}
    outer = Frame("/x/a.py", 3, "f", "", "a.py")
    inner = Frame("/x/a.py", 2, "g", "", "a.py")
    assert find_sites(Failure("exception", "KeyError", "", (outer, inner)), Files(a=source))[0][0].kind == "assign"


def test_changed_source_is_said_and_the_moved_statement_is_found() -> None:
    old = "def f(a):\n    check(a)\n    raise ValueError('x')\n"
    new = "def g(a):\n    raise ValueError('x')\n\n\ndef f(a):\n    check(a)\n    log(a)\n    raise ValueError('x')\n"
    same, _ = find_sites(fail(3, text="raise ValueError('x')"), Files(a=old))
    assert same[0].matches
    (moved,), unknowns = find_sites(fail(3, text="raise ValueError('x')"), Files(a=new))
    assert (moved.matches, moved.location.line, moved.function) == (False, 8, "f")
    assert "changed" in unknowns[0].why and "a.py:3" in unknowns[0].what


def test_text_at_the_line_but_in_another_function_does_not_match() -> None:
    source = "def g(a):\n    raise ValueError(\n        a)\n\n\ndef f(a):\n    raise ValueError(\n        a, 1)\n"
    (site,), _ = find_sites(fail(2, text="raise ValueError("), Files(a=source))
    assert (site.matches, site.location.line) == (False, 7)


def test_ambiguous_or_lost_statements_say_so() -> None:
    source = "def f(a):\n    go()\n    raise X\n    raise X\n"
    (site,), unknowns = find_sites(fail(2, text="raise X"), Files(a=source))
    assert not site.matches and "2 places" in unknowns[0].why
    (site,), unknowns = find_sites(fail(2, text="raise Gone"), Files(a=source))
    assert not site.matches and "does not match" in unknowns[0].why
    sites, unknowns = find_sites(fail(999), Files(a=source))
    assert sites == () and "no statement" in unknowns[0].why
    sites, unknowns = find_sites(fail(1, file="b.py"), Files(a=source))
    assert sites == () and "not in the source tree" in unknowns[0].why


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"\xef\xbb\xbfdef f():\r\n\traise ValueError\r\n", 2),
        (b"# -*- coding: latin-1 -*-\ndef f():\n    s = '\xe9'\n    raise ValueError(s)\n", 4),
        (b"# -*- coding: nonsense-99 -*-\ndef f():\n    raise ValueError\n", 3),
        (b"def f():\r    raise ValueError\r", 2),
        (b"def f():\n\tif 1:\n\t        raise ValueError\n", 3),
        (b"def f():\n    s = '\xff\xfe'\n    raise ValueError\n", 3),
        (b"def f():\n    '''\n\x0c\n'''\n    raise ValueError\n", 5),
    ],
)
def test_odd_encodings_and_newlines(data: bytes, line: int) -> None:
    (site,), unknowns = find_sites(fail(line), Files(a=data))
    assert site.kind == "raise" and site.text.startswith("raise ValueError") and unknowns == ()


@pytest.mark.parametrize(
    "body",
    [
        b"def f():\n    x = 1\n    y = '\0'\n",
        b"x = " + b"(" * 50_000,
        b"x = " + b"-" * 200_000 + b"1\n",
        b"x = " + b"a." * 100_000 + b"b\n",
        b"x = " + b"1+" * 200_000 + b"1\n",
        b"x = 1\n" * 9_000_000,
        bytes(range(256)) * 100,
        b"def f(:\n",
        b"",
    ],
    ids=["nul", "parens", "minus", "dots", "plus", "54MB", "binary", "syntax", "empty"],
)
def test_unreadable_source_is_a_named_unknown(body: bytes) -> None:
    sites, unknowns = find_sites(fail(2), Files(a=body))
    assert sites == () or sites[0].location.file == "a.py"
    assert sites or (unknowns and all(u.what and u.why for u in unknowns))


def test_newer_syntax_elsewhere_leaves_the_function_readable() -> None:
    source = (
        "import x\n\n\nclass C:\n    def new(self):\n        return t'{' ?? future\n\n"
        "    def f(\n        self,\n    ) -> int:\n        if self.a:\n            raise ValueError('q')\n\n"
        "    def g(self):\n        pass\n"
    )
    (site,), unknowns = find_sites(fail(12, text="raise ValueError('q')"), Files(a=source))
    assert (site.function, site.kind, site.matches, site.location.line) == ("C.f", "raise", True, 12)
    assert "does not parse" in unknowns[0].why and "only the functions on the path" in unknowns[0].why
    assert isolate_function(source, 1) is None and isolate_function(source, 0) is None
    sites, unknowns = find_sites(fail(6, "new"), Files(a=source))
    assert sites == () and "does not parse" in unknowns[0].why


def test_isolated_functions_of_a_real_file_parse_to_the_same_statements() -> None:
    """The fallback by indentation against the parser, for each raise and assert of a real file."""
    import ast

    from triage.analysis.source import decode_source, qualified_name, statement_chain

    data = real.tree("0.5.11").read("sglang/srt/server_args.py")
    assert data is not None
    text = decode_source(data)
    whole = ast.parse(text)
    checked = 0
    for node in ast.walk(whole):
        if isinstance(node, ast.Raise | ast.Assert):
            alone = isolate_function(text, node.lineno)
            assert alone is not None
            got, want = (statement_chain(t, node.lineno) for t in (ast.parse(alone), whole))
            assert ast.dump(got[-1], include_attributes=True) == ast.dump(want[-1], include_attributes=True)
            assert qualified_name(got) == qualified_name(want)
            checked += 1
    assert checked > 150


def test_excerpt_and_function() -> None:
    source = (
        "import os\n\n\nclass C:\n    @property\n    def f(self, a, *b, c=1, **d):\n"
        "        def g():\n            return 1\n        return g\n"
    )
    files = Files(a=source)
    assert excerpt(files, Location("a.py", 8), 1) == (
        (7, "        def g():"),
        (8, "            return 1"),
        (9, "        return g"),
    )
    assert excerpt(files, Location("b.py", 8)) == ()
    inner, outer = find_function(files, "a.py", 8), find_function(files, "a.py", 9)
    assert inner is not None and outer is not None
    assert (inner.name, inner.class_name) == ("C.f.<locals>.g", None)
    assert (outer.name, outer.class_name, outer.parameters) == ("C.f", "C", ("self", "a", "b", "c", "d"))
    assert find_function(files, "a.py", 1) is None
