"""Tracebacks as real interpreters print them."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from triage.analysis.log import read_log
from triage.analysis.tracebacks import Traceback, parse_tracebacks, relative_file
from triage.model import LogRecord


def run_python(tmp_path: Path, source: str) -> tuple[Traceback, ...]:
    """The tracebacks that this interpreter prints for a program of a package called `engine`."""
    package = tmp_path / "engine"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "main.py").write_text(textwrap.dedent(source))
    result = subprocess.run([sys.executable, "-m", "engine.main"], cwd=tmp_path, capture_output=True, check=False)
    assert result.returncode == 1, result.stderr
    return tuple(t for record in read_log(result.stderr).records for t in parse_tracebacks(record, "engine"))


def parse(text: str, package: str = "engine") -> tuple[Traceback, ...]:
    return tuple(t for record in read_log(text.encode()).records for t in parse_tracebacks(record, package))


def test_frames_of_a_module_run_by_name(tmp_path: Path) -> None:
    (traceback,) = run_python(
        tmp_path,
        """\
        def check(steps, top_k):
            assert (
                steps is not None
                and top_k is not None
            )

        check(1, None)
        """,
    )
    raised = traceback.raised
    assert (raised.exception, raised.message) == ("AssertionError", "")
    assert [(f.function, f.file) for f in raised.frames] == [
        ("_run_module_as_main", None),
        ("_run_code", None),
        ("<module>", "engine/main.py"),
        ("check", "engine/main.py"),
    ]
    assert raised.frames[0].path == "<frozen runpy>" and raised.frames[0].text == ""
    assert raised.frames[2].text == "check(1, None)"
    assert raised.frames[3].line in (2, 4)  # 3.12 names the assert's own line
    assert (traceback.chain, traceback.lead, traceback.complete) == ((), "", True)


def test_cause_and_context_are_kept_innermost_last(tmp_path: Path) -> None:
    (traceback,) = run_python(
        tmp_path,
        """\
        def first():
            {}["key"]

        def second():
            try:
                first()
            except KeyError as error:
                raise ValueError("second") from error

        try:
            second()
        except ValueError:
            raise RuntimeError("third: with a colon")
        """,
    )
    assert (traceback.raised.exception, traceback.raised.message) == ("RuntimeError", "third: with a colon")
    assert [(r.exception, r.message) for r in traceback.chain] == [("ValueError", "second"), ("KeyError", "'key'")]
    assert traceback.chain[1].frames[-1].function == "first"
    assert traceback.chain[1].last < traceback.chain[0].first < traceback.raised.first


def test_many_lines_of_message_and_notes_stay_together(tmp_path: Path) -> None:
    (traceback,) = run_python(
        tmp_path,
        """\
        error = ValueError("steps is unset\\n  - set it\\n\\nor drop the draft model: it is unused")
        error.add_note("seen while the flags were read")
        raise error
        """,
    )
    assert traceback.raised.message == (
        "steps is unset\n  - set it\n\nor drop the draft model: it is unused\nseen while the flags were read"
    )


def test_folded_recursion(tmp_path: Path) -> None:
    (traceback,) = run_python(
        tmp_path,
        """\
        def down(n):
            return down(n + 1)

        down(0)
        """,
    )
    assert traceback.raised.exception == "RecursionError"
    assert [f.function for f in traceback.raised.frames[2:]] == ["<module>", "down", "down", "down"]


def test_syntax_error_frame_has_no_function(tmp_path: Path) -> None:
    (traceback,) = run_python(tmp_path, "import ast\nast.parse('a b c', 'engine/config.py')\n")
    assert traceback.raised.exception == "SyntaxError"
    last = traceback.raised.frames[-1]
    assert (last.path, last.line, last.function, last.text) == ("engine/config.py", 1, "", "a b c")


def test_exception_group_gives_its_first_leaf(tmp_path: Path) -> None:
    (traceback,) = run_python(
        tmp_path,
        """\
        def bad(number):
            raise ValueError(f"flag {number}")

        def collect():
            errors = []
            for number in (1, 2):
                try:
                    bad(number)
                except ValueError as error:
                    errors.append(error)
            errors.append(ExceptionGroup("inner", [TypeError("third")]))
            raise ExceptionGroup("two flags", errors)

        collect()
        """,
    )
    assert (traceback.raised.exception, traceback.raised.message) == ("ValueError", "flag 1")
    assert traceback.raised.frames[-1].function == "bad"
    assert [(r.exception.split(".")[-1], r.message) for r in traceback.siblings] == [
        ("ExceptionGroup", "two flags (3 sub-exceptions)"),
        ("ValueError", "flag 2"),
        ("TypeError", "third"),
    ]


def test_remote_traceback_of_a_worker(tmp_path: Path) -> None:
    (traceback,) = run_python(
        tmp_path,
        """\
        from concurrent.futures import ProcessPoolExecutor

        def work(n):
            raise OSError(f"shard {n} is missing")

        if __name__ == "__main__":
            with ProcessPoolExecutor(1) as pool:
                list(pool.map(work, [3]))
        """,
    )
    assert (traceback.raised.exception, traceback.raised.message) == ("OSError", "shard 3 is missing")
    assert traceback.chain[-1].frames[-1].function == "work"
    assert traceback.chain[-1].message == "shard 3 is missing"


PYTHON_3_13 = """\
Traceback (most recent call last):
  File \x1b[35m"/v/lib/python3.13/site-packages/engine/args.py"\x1b[0m, line \x1b[35m12\x1b[0m, in \x1b[35mparse\x1b[0m
    return \x1b[31mResolved\x1b[0m\x1b[1;31m(\x1b[0m
           \x1b[31m~~~~~~~~\x1b[0m\x1b[1;31m^\x1b[0m
    ...<3 lines>...
        steps=steps,
        ^^^^^^^^^^^^
    )
    ^
  File \x1b[35m"/v/lib/python3.13/site-packages/engine/args.py"\x1b[0m, line \x1b[35m40\x1b[0m, in \x1b[35m__post_init__\x1b[0m
    raise ValueError("no steps")
\x1b[1;35mValueError\x1b[0m: \x1b[35mno steps\x1b[0m
"""


def test_elided_lines_and_colour_of_3_13() -> None:
    (traceback,) = parse(PYTHON_3_13)
    assert (traceback.raised.exception, traceback.raised.message) == ("ValueError", "no steps")
    assert [(f.line, f.function, f.text, f.file) for f in traceback.raised.frames] == [
        (12, "parse", "return Resolved(", "engine/args.py"),
        (40, "__post_init__", 'raise ValueError("no steps")', "engine/args.py"),
    ]


def test_header_behind_other_text() -> None:
    text = (
        "[2026-05-11 23:23:32 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "/v/site-packages/engine/a.py", line 3, in run\n    go()\nRuntimeError: no\nmore of it\n\n'
        "[2026-05-11 23:23:32] Received sigquit\n"
    )
    (traceback,) = parse(text)
    assert traceback.lead == "Scheduler hit an exception:"
    assert (traceback.raised.rank, traceback.raised.message) == ("TP0", "no\nmore of it")
    assert (traceback.raised.first, traceback.raised.last) == (1, 5)


def test_lost_indentation_still_gives_frames() -> None:
    lines = [line.strip() for line in PYTHON_3_13.split("\n")]
    (traceback,) = parse("\n".join(lines[:2] + lines[2:3] + lines[9:]))
    assert [(f.line, f.function) for f in traceback.raised.frames] == [(12, "parse"), (40, "__post_init__")]
    assert traceback.raised.message == "no steps"


def test_cut_tail_is_incomplete_and_cut_head_is_not() -> None:
    lines = PYTHON_3_13.rstrip("\n").split("\n")
    (tail,) = parse("\n".join(lines[:-1]))
    assert (tail.complete, tail.raised.exception, len(tail.raised.frames)) == (False, "", 2)
    (head,) = parse("\n".join(lines[2:]))
    assert (head.complete, head.raised.exception) == (True, "ValueError")
    assert [f.line for f in head.raised.frames] == [40]


def test_stack_dumps_are_not_exceptions() -> None:
    dump = 'Stack (most recent call last):\n  File "/v/engine/a.py", line 3, in run\n    go()\nstill well: yes\n'
    fault = 'Thread 0x00007ee43dfff640 (most recent call first):\n  File "/v/engine/a.py", line 3 in run\n'
    assert parse(dump) == ()
    assert parse(fault) == ()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/opt/v/lib/python3.11/site-packages/sglang/srt/server_args.py", "sglang/srt/server_args.py"),
        ("/usr/lib/python3/dist-packages/sglang/launch_server.py", "sglang/launch_server.py"),
        ("/src/sglang/python/sglang/srt/x.py", "sglang/srt/x.py"),
        ("/sgl-workspace/sglang/python/sglang/srt/models/sglang/x.py", "sglang/srt/models/sglang/x.py"),
        ("sglang/srt/x.py", "sglang/srt/x.py"),
        ("/home/u/sglang/venv/lib/python3.11/site-packages/torch/nn/x.py", None),
        ("/home/u/sglang/venv/lib/python3.11/threading.py", None),
        ("/home/u/sglang/python/run.py", None),
        ("/v/site-packages/sglang_plugin/x.py", None),
        ("/v/site-packages/sglang/../../etc/shadow", None),
        ("/v/site-packages/sglang/../torch/x.py", None),
        ("/etc/shadow", None),
        ("<string>", None),
        ("/dev/sglang", None),
    ],
)
def test_relative_file(path: str, expected: str | None) -> None:
    assert relative_file(path, "sglang") == expected


def test_a_record_without_traceback_has_none() -> None:
    assert parse_tracebacks(LogRecord("Load weight begin. File sizes follow: 3", 1, 1), "engine") == ()
