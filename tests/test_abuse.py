"""The table of faults stands for the tests that there are."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.abuse import FAULTS, ROOT, TABLE, Ran, draw_table, faults_of, read_list, read_results, read_table


def marked(function: ast.FunctionDef) -> set[int]:
    """Numbers of `pytest.mark.abuse(...)` anywhere in its decorators."""
    calls = [n for d in function.decorator_list for n in ast.walk(d) if isinstance(n, ast.Call)]
    ours = [c for c in calls if ast.unparse(c.func) == "pytest.mark.abuse"]
    return {a.value for c in ours for a in c.args if isinstance(a, ast.Constant) and isinstance(a.value, int)}


def all_tests() -> Iterator[tuple[str, tuple[int, ...]]]:
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.parse(path.read_bytes()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                nodeid = f"{path.relative_to(ROOT).as_posix()}::{node.name}"
                yield nodeid, faults_of(nodeid, marked(node))


def test_the_list_names_tests_that_exist() -> None:
    existing = {nodeid for nodeid, _ in all_tests()}
    listed = [test for fault in read_list().values() for test in fault.tests]
    assert len(listed) > 100 and [test for test in listed if test not in existing] == []
    assert list(read_list()) == list(FAULTS)


def test_the_table_names_no_test_that_is_gone_and_leaves_no_fault_out() -> None:
    tests = list(all_tests())
    today = {number: {nodeid for nodeid, faults in tests if number in faults} for number in FAULTS}
    table = read_table(TABLE.read_text(encoding="utf-8"))
    gone = {number: lost for number in FAULTS if (lost := set(table[number][0]) - today[number])}
    assert gone == {}, "run `python -m tests.abuse`"
    assert {number for number, (_, result) in table.items() if (result == "no test") != (not today[number])} == set()


def test_a_run_becomes_a_table(tmp_path: Path) -> None:
    case = '<testcase classname="tests.loop.test_a" name="{}"><properties><property name="abuse" value="{}"/></properties>{}'
    (tmp_path / "j.xml").write_text(
        "<testsuites><testsuite>"
        + "</testcase>".join(
            [
                case.format("test_34_x[a]", "34", ""),
                case.format("test_34_x[b]", "34 35", "<failure/>"),
                case.format("test_y", "35", "<skipped/>"),
                case.format("test_z", "1", ""),
                '<testcase classname="tests.test_b" name="test_q">',
            ]
        )
        + "</testcase></testsuite></testsuites>"
    )
    ran = read_results(tmp_path / "j.xml")
    assert ran == [
        Ran("tests/loop/test_a.py::test_34_x", frozenset({34, 35}), "failed"),
        Ran("tests/loop/test_a.py::test_y", frozenset({35}), "skipped"),
        Ran("tests/loop/test_a.py::test_z", frozenset({1}), "passed"),
    ]
    table = read_table(draw_table(ran))
    assert (table[1], table[2]) == ((("tests/loop/test_a.py::test_z",), "passed"), ((), "no test"))
    assert table[35] == (("tests/loop/test_a.py::test_34_x", "tests/loop/test_a.py::test_y"), "failed")
    assert faults_of("tests/x.py::test_7_b[1-2]", [9]) == (7, 9) and faults_of("tests/x.py::test_a") == ()
