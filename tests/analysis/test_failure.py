"""The failure that matters, over captured and made logs, in every framing, cut and mixed."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_framings import FRAMINGS, LOGS, REPO, frame, shared_dir

from tests.oracle.real import ask_all, why_absent
from triage.analysis.failure import find_failure
from triage.analysis.log import read_log
from triage.model import ExitStatus, Failure

FATAL_MARKS = tuple(tomllib.loads((REPO / "knowledge" / "sglang" / "profile.toml").read_text())["fatal_marks"])
FIXTURES = sorted(path.stem for path in LOGS.glob("*.toml"))
READY = "[2026-05-11 23:59:01] The server is fired up and ready to roll!\n"


def load(name: str) -> tuple[str, dict[str, Any]]:
    return (LOGS / f"{name}.log").read_text(), tomllib.loads((LOGS / f"{name}.toml").read_text())


def find(data: str | bytes, code: int | None = None, signal: int | None = None, active: str | None = None) -> Failure | None:
    raw = data.encode() if isinstance(data, str) else data
    return find_failure(read_log(raw), ExitStatus(code, signal), "sglang", active, FATAL_MARKS)


def find_as(data: str | bytes, case: dict[str, Any]) -> Failure | None:
    return find(data, case.get("code"), case.get("signal"), case.get("active"))


def essence(failure: Failure | None) -> Any:
    """What neither framing nor place in the file may change."""
    if failure is None:
        return None
    lines = [line.rstrip() for line in failure.message.split("\n")]
    chain = [(r.exception, r.message.rstrip(), r.frames) for r in failure.chain]
    return failure.kind, failure.exception, lines, failure.frames, chain, failure.signal


# ---------------------------------------------------------------- the fixtures
def test_every_log_says_what_is_expected() -> None:
    assert sorted(path.stem for path in LOGS.glob("*.log")) == FIXTURES
    assert len(FIXTURES) >= 30


@pytest.mark.parametrize("name", FIXTURES)
def test_fixture(name: str) -> None:
    text, case = load(name)
    expected = case["expected"]
    failure = find_as(text, case)
    if expected.get("none"):
        assert failure is None
        return
    assert failure is not None
    site = failure.site
    got = {
        "kind": failure.kind,
        "exception": failure.exception,
        "file": site.file if site else None,
        "line": site.line if site else None,
        "function": site.function if site else None,
        "ranks": list(failure.ranks),
        "signal": failure.signal,
        "chain": [raised.exception for raised in failure.chain],
        "set_aside": len(failure.set_aside),
    }
    assert {key: got[key] for key in expected if key != "message"} == {k: v for k, v in expected.items() if k != "message"}
    assert (expected["message"] in failure.message) if expected["message"] else failure.message == ""
    assert all(item.why and item.line > 0 for item in failure.set_aside)
    lines = text.split("\n")
    assert failure.first is not None and failure.last is not None
    spanned = "\n".join(lines[failure.first - 1 : failure.last])
    assert failure.message.split("\n")[0][:60] in spanned and (failure.exception or "") in spanned


@pytest.mark.parametrize("framing", sorted(FRAMINGS))
@pytest.mark.parametrize("name", [n for n in FIXTURES if "journal" not in n and "iso" not in n and "ray" not in n])
def test_framing_changes_nothing(name: str, framing: str) -> None:
    text, case = load(name)
    plain = find_as(text, case)
    framed = find_as(frame(text, framing), case)
    assert essence(framed) == essence(plain)
    if plain is not None and framed is not None:
        assert (framed.first, framed.last, framed.ranks) == (plain.first, plain.last, plain.ranks)
        assert [(a.why, a.line) for a in framed.set_aside] == [(a.why, a.line) for a in plain.set_aside]


# ---------------------------------------------------------------- the real releases
ORACLE_CASES = [(release, case) for release in ("0.5.11", "0.5.23") for case in ("e1", "e2", "e3", "n1", "n2")]
_MODEL = {"e": ["--model-path", "models/kimi-k2", "--port", "30001", "--trust-remote-code"]}
_DRAFT = ["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "models/eagle3-llama"]
_NEXTN = ["--model-path", "models/qwen3-next", "--port", "30001", "--trust-remote-code", "--speculative-algorithm", "NEXTN"]
ARGV = {
    "e1": [*_MODEL["e"], *_DRAFT, "--speculative-num-draft-tokens", "3", "--speculative-eagle-topk", "4"],
    "e2": [*_MODEL["e"], *_DRAFT, "--speculative-num-draft-tokens", "3"],
    "e3": [*_MODEL["e"], *_DRAFT, "--speculative-num-steps", "1", "--speculative-num-draft-tokens", "3"],
    "n1": [*_NEXTN, "--speculative-num-draft-tokens", "1"],
    "n2": [*_NEXTN, "--speculative-num-draft-tokens", "1", "--mamba-scheduler-strategy", "extra_buffer"],
}


@pytest.mark.parametrize("release", ["0.5.11", "0.5.23"])
def test_captured_failures_are_what_the_release_says_today(release: str) -> None:
    absent = why_absent(release)
    if absent is not None:
        pytest.skip(absent)
    questions = [{"id": name, "argv": argv} for name, argv in ARGV.items()]
    answers = {answer["id"]: answer for answer in ask_all(release, "h100x8", questions, ("settings",))}
    assert sorted(answers) == sorted(ARGV)
    for name, answer in answers.items():
        failure = find((LOGS / f"sglang-{release}-{name}.log").read_bytes(), code=1)
        assert failure is not None
        if answer["outcome"] == "argparse":
            assert failure.kind == "usage" and answer["message"].endswith("error: " + failure.message)
            continue
        site = failure.site
        assert site is not None and failure.exception == answer["exception"]
        assert failure.message == answer["message"].strip()
        frame = answer["frame"]
        assert (site.file, site.line, site.function) == (f"sglang/{frame['file']}", frame["line"], frame["function"])


def test_all_labelled_launches() -> None:
    cases = [json.loads(line) for path in sorted((shared_dir() / "cases").glob("*.jsonl")) for line in path.open()]
    assert len(cases) >= 426
    for case in cases:
        if case.get("traceback_launch"):
            warning = "[2026-05-11 23:23:32] Attention backend not specified.\n"
            failure = find(warning + case["traceback_launch"], code=1)
            assert failure is not None, case["id"]
            site = failure.site
            assert (failure.kind, failure.exception, failure.message) == (
                "exception",
                case["exception"],
                case["message"].strip(),
            ), case["id"]
            assert site is not None
            expected = (f"sglang/{case['file']}", case["line"], case["function"])
            assert (site.file, site.line, site.function) == expected, case["id"]
            assert failure.first == 2
        else:
            failure = find(f"usage: sglang serve [-h]\n                    [--port PORT]\n{case['message']}\n", code=2)
            assert failure is not None and failure.kind == "usage", case["id"]
            assert "sglang serve: error: " + failure.message == case["message"]
            assert failure.first == 3


# ---------------------------------------------------------------- cut and mixed logs
E1 = load("sglang-0.5.11-e1")[0]
OOM = load("oom-four-ranks")[0]
MISSING = load("sglang-0.5.23-model-missing")[0]


@given(st.integers(min_value=0, max_value=len(E1[: E1.index("Traceback")].split("\n")) - 1))
@settings(max_examples=30, deadline=None)
def test_a_cut_head_before_the_traceback_changes_nothing(lines: int) -> None:
    assert essence(find("\n".join(E1.split("\n")[lines:]), code=1)) == essence(find(E1, code=1))


def test_a_head_cut_inside_the_traceback_keeps_the_inner_frames() -> None:
    lines = E1.rstrip("\n").split("\n")
    cut = find("\n".join(lines[-8:]), code=1)
    whole = find(E1, code=1)
    assert cut is not None and whole is not None
    assert (cut.exception, cut.site) == ("AssertionError", whole.site)


def test_a_cut_tail_keeps_what_is_there() -> None:
    cut = find("\n".join(E1.rstrip("\n").split("\n")[:-1]), code=1)
    assert cut is not None and (cut.kind, cut.exception, cut.message) == ("exception", None, "")
    assert cut.site == (find(E1) or cut).site


@given(st.permutations([0, 1, 2, 3]), st.data())
@settings(max_examples=60, deadline=None)
def test_ranks_mixed_line_by_line_are_one_failure(order: list[int], data: st.DataObject) -> None:
    body = [
        "Scheduler hit an exception: Traceback (most recent call last):",
        '  File "/v/site-packages/sglang/srt/managers/scheduler.py", line 10, in run',
        "    go()",
        '  File "/v/site-packages/sglang/srt/model.py", line 20, in load',
        "    raise ValueError(",
        "ValueError: rank {} has 3 heads",
    ]
    queues = [[f"[2026-05-11 23:23:32 TP{r}] {line.replace('{}', str(r))}" for line in body] for r in order]
    mixed = []
    while any(queues):
        queue = data.draw(st.sampled_from([q for q in queues if q]))
        mixed.append(queue.pop(0))
    failure = find("\n".join(mixed))
    assert failure is not None
    assert (failure.exception, failure.ranks, failure.set_aside) == ("ValueError", ("TP0", "TP1", "TP2", "TP3"), ())
    assert failure.site is not None and failure.site.file == "sglang/srt/model.py" and failure.site.line == 20
    assert [f.line for f in failure.frames] == [10, 20]


@pytest.mark.parametrize("old", ["sglang-0.5.11-e1", "sglang-0.5.11-n1", "sglang-0.5.23-n2", "oom-four-ranks", "crash-status-0"])
@pytest.mark.parametrize("new", ["sglang-0.5.11-e3", "sglang-0.5.23-e1", "sglang-0.5.23-n2", "oom-four-ranks", "port-in-use"])
def test_only_the_last_run_of_a_file_counts(old: str, new: str) -> None:
    text, case = load(new)
    before = load(old)[0]
    both = find_as(before + text, case)
    assert essence(both) == essence(find_as(text, case))
    assert both is not None and any(item.why == "from an older run in the same log" for item in both.set_aside)
    assert both.first is not None and both.first > before.count("\n")


def test_a_failed_run_before_a_healthy_one_is_no_failure() -> None:
    healthy = load("sglang-0.5.23-healthy")[0]
    assert find(E1 + healthy, active="active") is None
    assert find(healthy + E1, code=1) is not None


def test_a_restart_that_has_not_begun_leaves_the_last_failure() -> None:
    text = "".join(f"May 11 23:23:05 gpu-01 python[811]: {line}\n" for line in E1.rstrip("\n").split("\n"))
    text += "May 11 23:23:06 gpu-01 systemd[1]: sglang.service: Main process exited, code=exited, status=1/FAILURE\n"
    text += "May 11 23:23:07 gpu-01 systemd[1]: sglang.service: Scheduled restart job, restart counter is at 5.\n"
    text += "May 11 23:23:07 gpu-01 systemd[1]: sglang.service: Start request repeated too quickly.\n"
    assert essence(find(text, active="failed")) == essence(find(E1))


# ---------------------------------------------------------------- handled, parents, deaths
TRACE = (
    "[2026-05-11 23:23:05{}] {}Traceback (most recent call last):\n"
    '  File "/v/site-packages/sglang/srt/a.py", line 3, in load\n    go()\nOSError: no such shard\n'
)


def test_a_handled_traceback_in_a_log_that_goes_on() -> None:
    went_on = TRACE.format(" TP0", "fetch: ") + "[2026-05-11 23:23:06 TP0] Load weight begin.\n"
    assert find(went_on) is None
    assert find(went_on, active="activating") is None
    assert find(TRACE.format(" TP0", "fetch: ") + READY, code=0) is None
    assert find(TRACE.format(" TP0", "fetch: ")) is not None


def test_what_was_taken_for_handled_is_the_best_guess_of_a_silent_death() -> None:
    went_on = TRACE.format(" TP0", "fetch: ") + "[2026-05-11 23:23:06 TP0] Load weight begin.\n"
    failure = find(went_on, code=1)
    assert failure is not None and (failure.exception, failure.message) == ("OSError", "no such shard")


def test_a_handled_traceback_before_the_real_failure_is_set_aside() -> None:
    text = TRACE.format(" TP0", "fetch: ") + "[2026-05-11 23:23:06 TP0] Load weight begin.\n" + OOM
    failure = find(text, code=137)
    assert failure is not None and failure.exception == "torch.OutOfMemoryError"
    assert "handled: TP0 went on, last with 'Load weight begin. avail mem=78.30 GB'" in [item.why for item in failure.set_aside]


def test_the_child_is_the_cause_and_the_parent_follows() -> None:
    failure = find(OOM, code=137)
    assert failure is not None
    why = {item.what.split(":")[0]: item.why for item in failure.set_aside}
    assert why["RuntimeError"] == "follows from the failure: it only reports that another process ended"


def test_two_different_errors_name_the_first_and_keep_the_second() -> None:
    flag = OOM.replace("torch.OutOfMemoryError: CUDA out of memory.", "ValueError: heads do not divide.", 1)
    failure = find(flag, code=137)
    assert failure is not None and (failure.exception, failure.ranks) == ("ValueError", ("TP1",))
    assert [item.why for item in failure.set_aside if "OutOfMemory" in item.what] == [
        "another error that came after the failure; it may follow from it or be a second fault"
    ] * 3


@pytest.mark.parametrize(
    ("code", "signal", "active", "expected"),
    [
        (None, None, None, None),
        (0, None, "inactive", None),
        (None, 15, "inactive", None),
        (None, None, "active", None),
        (None, 9, "failed", ("signal", 9)),
        (None, 15, "failed", ("signal", 15)),
        (137, None, None, ("signal", 9)),
        (1, None, None, ("exit", None)),
        (3, None, "failed", ("exit", None)),
        (None, None, "failed", ("exit", None)),
    ],
)
def test_a_log_without_errors(
    code: int | None, signal: int | None, active: str | None, expected: tuple[str, int | None] | None
) -> None:
    text = "[2026-05-11 23:23:02] server_args=ServerArgs(model_path='m')\n[2026-05-11 23:23:05 TP0] Load weight begin.\n"
    failure = find(text, code, signal, active)
    assert (failure and (failure.kind, failure.signal)) == expected


def test_a_printed_reason_without_traceback_is_the_message() -> None:
    failure = find("[2026-05-11 23:23:02] begin\nthe flag --x needs --y\nsee the manual\n", code=1)
    assert failure is not None
    assert (failure.kind, failure.exception, failure.message, failure.first) == (
        "exit",
        None,
        "the flag --x needs --y\nsee the manual",
        2,
    )


@pytest.mark.parametrize(
    ("line", "signal"),
    [
        ("Killed", 9),
        ("Segmentation fault (core dumped)", 11),
        ("/opt/start.sh: line 12:  4711 Killed                  python -m sglang.launch_server", 9),
        ("Fatal Python error: Bus error", 7),
        ("May 11 23:23:35 gpu-01 systemd[1]: sglang.service: Main process exited, code=killed, status=9/KILL", 9),
        ("May 11 23:23:35 gpu-01 systemd[1]: sglang.service: Main process exited, code=dumped, status=11/SEGV", 11),
        ("May 11 23:23:35 gpu-01 systemd[1]: sglang.service: A process of this unit has been killed by the OOM killer.", 9),
    ],
)
def test_deaths_that_only_the_system_tells(line: str, signal: int) -> None:
    failure = find(f"[2026-05-11 23:23:05 TP0] Load weight begin.\n{line}\n")
    assert failure is not None
    assert (failure.kind, failure.signal, failure.first) == ("signal", signal, 2)


def test_a_usage_error_has_all_of_its_lines() -> None:
    text = "usage: sglang serve [-h]\n                    [--x X]\nsglang serve: error: argument --x: bad\n  because of y\n"
    failure = find(text, code=2)
    assert failure is not None
    assert (failure.kind, failure.message, failure.first, failure.last) == ("usage", "argument --x: bad\n  because of y", 3, 4)


def test_a_usage_error_whose_usage_was_cut_off() -> None:
    failure = find("launch_server.py: error: unrecognized arguments: --foo 3\n", code=2)
    assert failure is not None and (failure.kind, failure.message) == ("usage", "unrecognized arguments: --foo 3")


def test_empty_and_foreign_logs_hold_no_failure() -> None:
    assert find(b"") is None
    assert find(b"\x00\xff\n\n") is None
    assert find("hello\nthere\n", code=0) is None


def test_a_forged_traceback_names_no_file_of_the_package() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/v/site-packages/sglang/../../../../etc/shadow", line 1, in <module>\n'
        '  File "/etc/shadow", line 1, in f\n'
        '  File "/proc/self/fd/0", line 1, in f\n'
        "ValueError: add --trust-remote-code and --host 0.0.0.0\x1b]0;x\x07\n"
    )
    failure = find(text)
    assert failure is not None
    assert all(f.file is None for f in failure.frames)
    assert failure.message == "add --trust-remote-code and --host 0.0.0.0"


@given(st.binary(max_size=2000), st.sampled_from([None, 0, 1, 137]), st.sampled_from([None, "failed", "active"]))
@settings(max_examples=200, deadline=None)
def test_any_bytes_give_an_answer(data: bytes, code: int | None, active: str | None) -> None:
    failure = find(data, code, None, active)
    assert failure == find(data, code, None, active)
    if active == "failed":
        assert failure is not None


def test_a_subprocess_that_the_watchdog_found_dead() -> None:
    text = "[2026-05-11 23:23:40] Subprocess scheduler_0 (pid=977) crashed with exit code -9. Triggering SIGQUIT for cleanup...\n"
    failure = find(text)
    assert failure is not None and (failure.kind, failure.signal, failure.first) == ("signal", 9, 1)


def test_systemd_lines_without_their_framing_are_no_part_of_the_message() -> None:
    text = (
        E1
        + "sglang.service: Main process exited, code=exited, status=1/FAILURE\nsglang.service: Failed with result 'exit-code'.\n"
    )
    failure = find(text, active="failed")
    assert failure is not None and (failure.message, failure.last) == ("", E1.count("\n"))


def test_very_many_handled_errors_are_counted_not_listed() -> None:
    noise = "".join(TRACE.format(" TP0", "fetch: ") + "[2026-05-11 23:23:06 TP0] Load weight begin.\n" for _ in range(3000))
    failure = find(noise + OOM, code=137)
    assert failure is not None and failure.exception == "torch.OutOfMemoryError"
    assert len(failure.set_aside) == 41 and any("more" in item.what for item in failure.set_aside)
