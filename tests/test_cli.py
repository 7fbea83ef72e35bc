"""The command line: grammar, exit codes, what goes to which stream, and that no input brings a traceback of ours."""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli_tools import ROOT, check_one_line, run_on_terminal, run_triage
from triage import cli
from triage.cli.console import write_result
from triage.cli.given import find_engine, parse_facts, parse_launch, split_words
from triage.cli.outcome import EXIT, exit_code
from triage.cli.parser import FORMAT_NAMES, build_parser, parse_pair, parse_seconds
from triage.errors import UsageError
from triage.model import Facts
from triage.report import FORMATS

HEAVY = ("paramiko", "libcst", "jedi", "rich", "jinja2", "triage.analysis", "triage.loop", "triage.report", "triage.model")


# ------------------------------------------------------------------------------------------------ grammar
def test_help_lists_the_commands_of_the_contract_that_work() -> None:
    done = run_triage("--help")
    assert done.returncode == 0
    for name in ("run", "capture", "replay", "check", "report", "undo", "demo"):
        assert re.search(rf"^    {name} ", done.stdout.decode(), re.MULTILINE)
    assert done.stderr == b""


def test_help_and_usage_errors_import_no_library() -> None:
    program = (
        "import sys; from triage.cli import main; code = main(sys.argv[1:]);"
        f"heavy = [m for m in {HEAVY!r} if m in sys.modules]; print(code, heavy, file=sys.stderr)"
    )
    for words, code in ((["--help"], 0), (["run", "--help"], 0), (["run", "--no-such-flag"], 2), ([], 2), (["nonsense"], 2)):
        done = subprocess.run([sys.executable, "-c", program, *words], cwd=ROOT, capture_output=True, check=True)
        assert done.stderr.decode().splitlines()[-1] == f"{code} []", words


def test_every_command_has_its_own_function() -> None:
    parser = build_parser()
    names = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction)).choices
    functions = {name: cli.find_command(name) for name in names}
    assert len(set(functions.values())) == len(functions)


def test_formats_are_those_of_the_report() -> None:
    assert FORMAT_NAMES == FORMATS


@pytest.mark.parametrize(("text", "seconds"), [("90", 90.0), ("90s", 90.0), ("30m", 1800.0), ("1.5h", 5400.0)])
def test_times(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-5", "m", "1d", "nan", "1e9", "10m ", "9" * 30])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        parse_seconds(text)


@pytest.mark.parametrize(("text", "pair"), [("A=b", ("A", "b")), ("A=", ("A", "")), ("A=b=c", ("A", "b=c"))])
def test_pairs(text: str, pair: tuple[str, str]) -> None:
    assert parse_pair(text) == pair


@pytest.mark.parametrize("text", ["", "A", "=b", "a b=c", "-x=1"])
def test_what_is_no_pair_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        parse_pair(text)


def test_apply_and_dry_run_exclude_each_other() -> None:
    done = run_triage("run", "--unit", "x", "--apply", "--dry-run")
    assert done.returncode == 2
    assert b"not allowed with" in done.stderr


# ------------------------------------------------------------------------------------------------ exit codes
def test_exit_codes_are_those_of_the_contract() -> None:
    good = {"patch": 0, "passes": 0, "unknown": 0, "healthy": 0, "fixed": 0}
    assert {name: code for name, code in EXIT.items() if code == 0} == good
    assert exit_code("no_failure") == 3
    assert exit_code("out_of_budget", live=True) == 4
    assert exit_code("patch") == 0
    assert exit_code("patch", live=True) == 1
    assert {exit_code(n, live=True) for n in ("no_patch", "needs_consent", "not_applied", "would_fail")} == {1}


# ------------------------------------------------------------------------------------------------ what was given
def test_a_launch_as_pasted_from_a_shell() -> None:
    text = "nohup env CUDA_VISIBLE_DEVICES=0,1 python3 -m sglang.launch_server \\\n  --model-path /m --tp 2 > /tmp/log 2>&1 &"
    profile, launch = parse_launch(text, {"MORE": "1"})
    assert profile.name == "sglang"
    assert launch.entry == ("python3", "-m", "sglang.launch_server")
    assert launch.args == ("--model-path", "/m", "--tp", "2")
    assert launch.env == {"CUDA_VISIBLE_DEVICES": "0,1", "MORE": "1"}


@pytest.mark.parametrize("text", ["sglang serve --model-path /m", "/opt/v/bin/sglang serve --model-path /m", "--model-path /m"])
def test_other_forms_of_a_launch(text: str) -> None:
    assert parse_launch(text, {})[1].args == ("--model-path", "/m")


def test_a_toy_launch_is_told_from_an_sglang_launch() -> None:
    profile, entry, args = find_engine(("python", "-m", "toyserver.launch", "--port", "1"))
    assert (profile.name, entry[-1], args) == ("toyserver", "toyserver.launch", ("--port", "1"))


@pytest.mark.parametrize("text", ["", "   ", "> log", "A=1", "'no end", "vllm serve x", "python -m http.server"])
def test_what_is_no_launch_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_launch(text, {})


def test_quoted_words_are_not_taken_for_redirections() -> None:
    assert split_words("""x --json '{"a": "b > c"}' --re '>=2'""")[1] == ("x", "--json", '{"a": "b > c"}', "--re", ">=2")


def test_facts_have_fixed_names_and_types() -> None:
    facts = parse_facts(
        [("device", "cuda"), ("gpu_count", "8"), ("gpu_memory_mib", "81559"), ("compute_capability", "9.0")], Facts()
    )
    assert facts == Facts(device="cuda", gpu_count=8, gpu_memory_mib=81559, compute_capability="9.0")
    for wrong in (("gpu_count", "eight"), ("packages", "x"), ("colour", "red")):
        with pytest.raises(UsageError):
            parse_facts([wrong], Facts())


# ------------------------------------------------------------------------------------------------ refusals
@pytest.mark.parametrize(
    "words",
    [
        ("replay", "/no/such/place"),
        ("replay", "/dev/zero"),
        ("replay", "{empty}"),
        ("replay", "{log}", "--source", "/no/such/tree"),
        ("replay", "{log}", "--source", "{empty}"),
        ("replay", "{log}", "--launch", "'"),
        ("replay", "{log}", "--launch", "vllm serve --api-key sk-0123456789abcdef0123"),
        ("replay", "{log}", "--env", "A=1"),
        ("replay", "{log}", "--fact", "colour=red"),
        ("replay", "{log}", "--launch", "--model-path x", "--model-config", "/no/such/file"),
        ("report", "no-such-session"),
        ("report", "last"),
        ("report", "{empty}"),
        ("run",),
        ("run", "--unit", "x", "--command", "y", "--log", "z"),
        ("run", "--command", "python -m sglang.launch_server"),
        ("run", "--command", "python -m sglang.launch_server", "--log", "/tmp/x", "--user-unit"),
        ("capture", "--unit", "x", "-o", "{full}"),
        ("undo",),
        ("undo", "--unit", "no-such-unit.service"),
        ("undo", "--unit", "../x"),
        ("undo", "--unit", "x", "--host=-oProxyCommand=touch x"),
        ("undo", "--unit", "x", "--host", "a;b"),
        ("undo", "--unit", "x", "--host", "a\nb"),
        ("undo", "--unit", "x", "--host", "127.0.0.1", "--ssh-config", "/no/such/file"),
        ("capture", "--command", "python -m sglang.launch_server", "--log", "/no/such/log", "-o", "{empty}"),
        ("capture", "--command", "vllm serve x", "--log", "/no/such/log", "-o", "{empty}"),
        ("capture", "--command", "python -m sglang.launch_server $ARGS | tee x", "--log", "/no/such/log", "-o", "{empty}"),
    ],
    ids=lambda words: " ".join(words),
)
def test_what_cannot_be_done_is_said_in_one_line(words: tuple[str, ...], tmp_path: Path) -> None:
    places = {"empty": tmp_path / "empty", "full": tmp_path / "full", "log": tmp_path / "a.log"}
    places["empty"].mkdir()
    places["full"].mkdir()
    (places["full"] / "file").write_text("x")
    places["log"].write_text("nothing\n")
    text = check_one_line(run_triage(*(w.format(**places) for w in words), env={"TRIAGE_STATE_DIR": str(tmp_path / "state")}))
    assert "internal error" not in text
    assert "sk-0123456789" not in text


def test_a_fifo_as_a_log_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    check_one_line(run_triage("replay", str(tmp_path / "pipe")))


def test_an_error_message_reaches_a_terminal_without_its_escapes(tmp_path: Path) -> None:
    text = check_one_line(run_triage("report", "\x1b]0;owned\x07\x1b[31mx", env={"TRIAGE_STATE_DIR": str(tmp_path)}))
    assert "\x1b" not in text and "\x07" not in text


def test_a_bug_of_ours_is_one_line_and_a_traceback_only_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(args: object) -> int:
        raise ZeroDivisionError("\x1b[31mdivision")

    monkeypatch.setattr(cli, "find_command", lambda name: fail)
    monkeypatch.delenv("TRIAGE_DEBUG", raising=False)
    assert cli.main(["demo"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[0] == "triage: internal error: ZeroDivisionError: division"
    assert "Traceback" not in err
    monkeypatch.setenv("TRIAGE_DEBUG", "1")
    assert cli.main(["demo"]) == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_ends_with_130_and_a_word_on_the_state(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wait(args: object) -> int:
        os.kill(os.getpid(), getattr(signal, name))
        time.sleep(5)
        return 0

    monkeypatch.setattr(cli, "find_command", lambda command: wait)
    before = signal.getsignal(signal.SIGTERM)
    assert cli.main(["demo"]) == 130
    assert capsys.readouterr().err == "triage: interrupted; nothing was changed\n"
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_command_that_ended_in_good_order_after_a_signal_still_says_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(args: object) -> int:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        except KeyboardInterrupt:
            return 1
        return 0

    monkeypatch.setattr(cli, "find_command", lambda command: wait)
    assert cli.main(["run"]) == 130


# ------------------------------------------------------------------------------------------------ streams
def test_a_reader_that_goes_away_is_no_error() -> None:
    program = (
        "from triage.cli.console import write_result; write_result('x' * 10_000_000); write_result('more'); raise SystemExit(7)"
    )
    process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout and process.stderr
    process.stdout.read(10)
    process.stdout.close()
    assert process.wait(60) == 7
    assert process.stderr.read() == b""


@pytest.mark.parametrize("closing", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_are_no_error(closing: str) -> None:
    program = "from triage.cli.console import *; write_result('a'); write_progress('b'); raise SystemExit(7)"
    done = subprocess.run(["sh", "-c", f'exec "$0" -c "$1" {closing}', sys.executable, program], cwd=ROOT, capture_output=True)
    assert done.returncode == 7
    assert b"Traceback" not in done.stderr


def test_an_ascii_terminal_gets_what_it_can_show(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    program = "from triage.cli.console import write_result; write_result('caf\\u00e9 \\U0001f642\\n')"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=True)
    assert capfdbinary.readouterr().out == b"caf\\xe9 \\U0001f642\n"


@pytest.mark.parametrize(
    ("env", "coloured"),
    [
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb", "NO_COLOR": ""}, False),
    ],
)
def test_colour_on_a_terminal(env: dict[str, str], coloured: bool) -> None:
    program = "import sys; from triage.cli.console import wants_colour; print(wants_colour(sys.stdout))"
    assert run_on_terminal(program, env).split() == [str(coloured).encode()]


def test_no_colour_in_a_pipe() -> None:
    program = "import sys; from triage.cli.console import wants_colour; print(wants_colour(sys.stdout))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env={**os.environ, "TERM": "xterm"}, capture_output=True)
    assert done.stdout.split() == [b"False"]


@pytest.mark.parametrize(
    ("answer", "given"), [(b"y\n", True), (b"YES\n", True), (b"\n", False), (b"no\n", False), (b"yep\n", False), (b"\x04", False)]
)
def test_only_a_yes_is_a_yes(answer: bytes, given: bool) -> None:
    program = (
        "from triage.cli.progress import Progress\n"
        "with Progress() as p:\n    p.phase('waiting', 1.0)\n    said = p.ask('Apply \\x1b[31mthis?')\nprint('said', said)"
    )
    seen = run_on_terminal(program, {"TERM": "xterm"}, answer)
    assert f"said {given}".encode() in seen
    assert b"Apply this? [y/N]" in seen


def test_progress_in_a_pipe_is_plain_lines_and_not_one_for_each_second(capsys: pytest.CaptureFixture[str]) -> None:
    from triage.cli.progress import Progress

    with Progress() as progress:
        for second in range(40):
            progress.phase("loading \x1b[31mweights", float(second))
        progress.phase("ready", 41.0)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == ["loading weights (0 s)", "loading weights (15 s)", "loading weights (30 s)", "ready (41 s)"]


def test_write_result_keeps_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    write_result("é\n")
    assert capsys.readouterr().out == "é\n"
