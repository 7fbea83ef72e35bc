"""Guards: shapes worked out by hand, and every raise and assert of real validation code against Python's own control flow."""

from __future__ import annotations

import ast
import json
import random
from pathlib import Path

import pytest
import real_sources as real
import skeleton

from tests.oracle.places import FACTS, run_script
from triage.analysis.demands import failing_condition
from triage.analysis.guards import Culprit, complete_path, find_guards
from triage.analysis.source import decode_source, find_sites
from triage.model import Failure, Frame, Guard

SNIPPET = (real.SNIPPETS / "exits.py").read_text()


def guards_at(mark: str, culprit: Culprit | None = None) -> list[tuple[str, bool, str]]:
    line = next(i for i, text in enumerate(SNIPPET.split("\n"), 1) if text.endswith(f"# at {mark}"))
    tree = ast.parse(SNIPPET)
    name = next(f.name for f in tree.body if isinstance(f, ast.FunctionDef) and f.lineno <= line <= (f.end_lineno or 0))
    return [(g.text, g.came_out, g.kind) for g in find_guards(SNIPPET, name, line, culprit=culprit)]


BEFORE = [
    ('kind == "none"', False, "early_exit"),
    ('not (kind == "plain") and size < 0', False, "early_exit"),
    ("size > 100", False, "early_exit"),
    ("not f", False, "early_exit"),
]


def test_branches_exits_handlers_and_loops() -> None:
    kind = [('kind == "a"', False, "if"), ('kind == "b"', True, "elif")]
    loop = [('name in ["x", "y"]', True, "for"), ("name == size", False, "early_exit")]
    assert guards_at("handler") == [*BEFORE, *kind, *loop, ("except ValueError", True, "except")]
    assert guards_at("loop") == [*BEFORE, *kind, *loop, ("size > 3 and kind", True, "if")]
    assert guards_at("other") == [*BEFORE, ('kind == "a"', False, "if"), ('kind == "b"', False, "elif")]


def test_loops_that_end_and_searches() -> None:
    known = [("self.wait()", False, "while"), ("any(name in self.known for name in names)", False, "early_exit")]
    assert guards_at("missing") == [*known, ("any(name.old for name in names)", False, "for")]
    assert guards_at("end") == known


def test_match_cases() -> None:
    first = ('mode in ("x", "y")', False, "match")
    assert guards_at("none") == [first, ("mode is None", True, "match")]
    assert guards_at("any") == [first, ("mode is None", False, "match")]


def test_try_assert_and_walrus() -> None:
    assert guards_at("walrus") == [
        ("except ImportError", False, "except"),
        ("self.ready", True, "assert"),
        ("(n := self.count) is None or n > 3", True, "if"),
    ]


def test_place_in_the_failing_expression() -> None:
    none = "'NoneType' object has no attribute 'size'"
    assert guards_at("ternary", Culprit("AttributeError", none)) == []  # `a.size` or `c.size`: not known which
    zero = guards_at("ternary", Culprit("ZeroDivisionError", "division by zero"))
    assert zero == [("a is not None and (b or c > 1)", False, "ternary")]
    order = "'>' not supported between instances of 'NoneType' and 'int'"
    assert guards_at("ternary", Culprit("TypeError", order)) == [("a is not None", True, "boolop"), ("b", False, "boolop")]
    closed = guards_at("made", Culprit("AttributeError", "'int' object has no attribute 'closed'"))
    assert closed == [("y in self.many", True, "for"), ("y > x", True, "boolop")]
    made = guards_at("made", Culprit("AttributeError", "'int' object has no attribute 'z'"))
    assert made == [("y in self.many", True, "for"), ("y > x and not y.closed", True, "if")]


def test_early_exits_say_how_they_leave() -> None:
    line = next(i for i, text in enumerate(SNIPPET.split("\n"), 1) if text.endswith("# at other"))
    leaves = [g.leaves for g in find_guards(SNIPPET, "chain", line) if g.kind == "early_exit"]
    assert leaves == ["return", "raise", "mixed", "return"]


def test_absent_functions_and_unreadable_text_have_no_guards() -> None:
    assert find_guards(SNIPPET, "elsewhere", 9) == ()
    assert find_guards("def f(:\n  raise X\n", "f", 2) == ()
    assert find_guards("x = 1\n", "f", 400) == ()
    deep = "def f(x):\n" + "".join(f"{' ' * i}if x:\n" for i in range(1, 90)) + " " * 90 + "raise X\n"
    assert len(find_guards(deep, "f", 91)) == 89
    long = "def f(x):\n    if x == 0:\n        return\n" + "".join(f"    elif x == {i}:\n        return\n" for i in range(1, 400))
    assert len(find_guards(long + "    raise X\n", "f", 2 * 400 + 2)) == 400


# ---------------------------------------------------------------- what must hold
def demand(text: str, line: int, exception: str, message: str = "") -> str | None:
    class Tree:
        def read(self, file: str) -> bytes:
            return text.encode()

        def is_package(self, file: str) -> bool:
            return False

        def list_dir(self, file: str) -> tuple[str, ...]:
            return ()

    failure = Failure("exception", exception, message, (Frame("/x/a.py", line, "f", "", "a.py"),))
    sites, _ = find_sites(failure, Tree())
    (site,) = complete_path(sites, Tree(), failure).sites
    return failing_condition(site, exception, message)


ORDER = "'>' not supported between instances of 'NoneType' and 'int'"


@pytest.mark.parametrize(
    ("body", "line", "exception", "message", "want"),
    [
        ("assert (\n    a is None\n    and b\n)", 3, "AssertionError", "", "a is None and b"),
        ("if a:\n    if b > 1:\n        raise ValueError", 4, "ValueError", "", "not (b > 1)"),
        ("if a:\n    pass\nelif b:\n    pass\nelse:\n    raise ValueError", 7, "ValueError", "", "(a) or (b)"),
        ("if a:\n    return\nif b:\n    raise KeyError\nif c: return\nraise ValueError", 7, "ValueError", "", "(a) or (c)"),
        ("try:\n    g()\nexcept KeyError:\n    raise ValueError", 5, "ValueError", "", None),
        ("if a and b.k > 1 and c > 1: return", 2, "TypeError", ORDER, "(b.k is not None) and (c is not None)"),
        ("if (\n  a > 1\n  and b.k > 1\n): return", 4, "TypeError", ORDER, "b.k is not None"),
        ("x = a % (b - c)", 2, "ZeroDivisionError", "integer modulo by zero", "(b - c) != 0"),
        ("x = T[b]", 2, "KeyError", "'q'", "b in T"),
        ("x = int(a.b)", 2, "TypeError", "int() argument must be a string, not 'NoneType'", "a.b is not None"),
        ("x = a.b.c", 2, "AttributeError", "'NoneType' object has no attribute 'c'", "a.b is not None"),
        ("x = a.b * 2", 2, "TypeError", "unsupported operand type(s) for *: 'NoneType' and 'int'", "a.b is not None"),
        ("x = g(a)", 2, "ValueError", "whatever", None),
    ],
)
def test_what_a_failing_statement_demands(body: str, line: int, exception: str, message: str, want: str | None) -> None:
    text = "def f(a, b, c):\n" + "".join(f"    {s}\n" for s in body.split("\n"))
    assert demand(text, line, exception, message) == want


# ---------------------------------------------------------------- every real site, against the skeleton
def vacuous(guard: Guard, outcomes: dict[int, bool]) -> bool:
    """A claim that something did not happen, about a test that was not even asked."""
    silent = guard.kind == "except" or guard.text.startswith(("not (", "any("))
    return guard.location.line not in outcomes and not guard.came_out and silent


@pytest.mark.parametrize(
    ("version", "files", "least"),
    [("0.5.11", "sglang/srt/server_args.py", 170), ("0.5.23", "sglang/srt/arg_groups/**/*.py", 700)],
)
def test_guards_of_every_real_site_agree_with_the_control_flow(version: str, files: str, least: int) -> None:
    """Each claim holds in every run that reaches the site, each site is reached, and no test that always comes out one
    way on the way to a site is left unclaimed."""
    root = real.install(version)
    seen, wrong = 0, []
    for path in sorted(root.glob(files)):
        text = decode_source(path.read_bytes())
        module = ast.parse(text)
        for function in [n for n in ast.walk(module) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]:
            sites = [n.lineno for n in own(function) if isinstance(n, ast.Raise | ast.Assert)]
            run = skeleton.runner(function) if sites else None
            for line in sites:
                assert run is not None
                seen += 1
                claims = find_guards(text, function.name, line)
                wrong += [f"{path.name}:{line}: {w}" for w in disagreements(run, claims, line)]
    assert seen >= least
    assert wrong == []


def own(function: ast.AST) -> list[ast.AST]:
    """The nodes of a function without those of the functions and classes inside it."""
    out: list[ast.AST] = []
    todo = list(ast.iter_child_nodes(function))
    while todo:
        node = todo.pop()
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            out.append(node)
            todo += ast.iter_child_nodes(node)
    return out


def disagreements(run: skeleton.Run, claims: tuple[Guard, ...], line: int) -> list[str]:
    chance = random.Random(line)
    claimed = {g.location.line: g.came_out for g in claims}
    hits = reach(run, claimed, line, chance, 3000, 60)
    if not hits:
        return ["not reached with its guards"]
    bad = [
        f"{g.text} came out {not g.came_out}"
        for g in claims
        if any(h.get(g.location.line) != g.came_out and not vacuous(g, h) for h in hits)
    ]
    always = set.intersection(*(set(h.items()) for h in hits)) - set(claimed.items())
    for other, outcome in always:
        # Chance may never have crossed the other branch alive: try it on purpose before calling it always.
        against = reach(run, {**claimed, other: not outcome}, line, chance, 6000, 2000)
        if not any(h.get(other) == (not outcome) for h in against):
            bad.append(f"the test at line {other} always comes out {outcome} and is not claimed")
    return bad


def reach(
    run: skeleton.Run, wanted: dict[int, bool], line: int, chance: random.Random, runs: int, enough: int
) -> list[dict[int, bool]]:
    hits: list[dict[int, bool]] = []

    def at(here: int, outcomes: dict[int, bool]) -> None:
        if here == line:
            hits.append(dict(outcomes))

    for _ in range(runs):
        if len(hits) >= enough:
            break
        run(wanted, chance, at)
    return hits


# ---------------------------------------------------------------- real failures, against the lines that really ran
@pytest.mark.parametrize(("version", "step", "least"), [("0.5.5", 1, 90), ("0.5.16", 2, 150)])
def test_guards_of_real_failures_agree_with_the_lines_that_ran(version: str, step: int, least: int) -> None:
    """The labelled launches run once more under a tracer; a branch that a guard says was taken must have run, else not."""
    root = real.install(version)
    distinct = {(c["file"], c["line"]): c for c in real.labelled(version) if c["facts"] == "h100x8"}
    cases = list(distinct.values())[::step]
    lines = "".join(json.dumps(c["argv"]) + "\n" for c in cases)
    script = Path(__file__).with_name("line_trace.py").read_text()
    ran = run_script(version, script, [str(FACTS / "h100x8.json")], lines)
    traced = [json.loads(line) for line in ran.splitlines() if line.startswith("[")]
    assert len(traced) == len(cases) > 20
    checked, wrong = 0, []
    for frames in traced:
        for file, function, lines_run in frames:
            text = decode_source((root / file).read_bytes())
            executed = set(lines_run)
            for guard in find_guards(text, function, lines_run[-1]):
                node = statement_of(text, guard)
                if node is None:
                    continue
                checked += 1
                body = (node.body[0].lineno, node.body[0].end_lineno or 0)
                entered = any(body[0] <= n <= body[1] for n in executed)
                if entered != guard.came_out and not guard.text.startswith("not ("):
                    wrong.append((file, lines_run[-1], guard))
    assert checked >= least
    assert wrong == []


def statement_of(text: str, guard: Guard) -> ast.If | None:
    """The `if` (outside loops) whose test stands where the guard says."""
    if guard.kind not in ("if", "elif", "early_exit"):
        return None
    module = parsed(text)
    looped = {id(n) for loop in ast.walk(module) if isinstance(loop, ast.For | ast.While) for n in ast.walk(loop)}
    for node in ast.walk(module):
        if isinstance(node, ast.If) and node.test.lineno == guard.location.line and id(node) not in looped:
            return node
    return None


_PARSED: dict[str, ast.Module] = {}


def parsed(text: str) -> ast.Module:
    return _PARSED.setdefault(text, ast.parse(text)) if text not in _PARSED else _PARSED[text]
