"""Framing, records and line numbers of logs as they are found."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_framings import FRAMINGS, LOGS, frame

from triage.analysis.log import WHOLE_BYTES, find_messages, read_log
from triage.model import Log, LogRecord

PLAIN = (LOGS / "sglang-0.5.11-model-missing.log").read_text()
RANKS = (LOGS / "oom-four-ranks.log").read_text()


def shapes(log: Log) -> list[tuple[str, int, int, str | None]]:
    """What a framing must not change; blanks at line ends are not kept by every transport."""
    return [("\n".join(s.rstrip() for s in r.text.split("\n")), r.first, r.last, r.rank) for r in log.records]


def is_clean(text: str) -> bool:
    return all(c == "\n" or c.isprintable() or c == "\ufffd" or not (ord(c) < 32 or 127 <= ord(c) < 160) for c in text)


@pytest.mark.parametrize("source", ["model-missing", "oom-four-ranks"])
@pytest.mark.parametrize("name", sorted(FRAMINGS))
def test_every_framing_gives_the_records_of_the_plain_log(name: str, source: str) -> None:
    text = PLAIN if source == "model-missing" else RANKS
    assert shapes(read_log(frame(text, name))) == shapes(read_log(text.encode()))


def test_records_of_a_plain_log() -> None:
    records = read_log(PLAIN.encode()).records
    assert [(r.first, r.last, r.stamp) for r in records] == [(1, 3, None), (4, 72, None)]
    assert records[0].text.endswith("  warnings.warn(")
    assert records[1].text.startswith("Traceback (most") and records[1].text.endswith("#offline-mode'.")
    assert records[1].text.count("\n") == 72 - 4


def test_ranks_and_spans_of_stamped_tracebacks() -> None:
    log = read_log(RANKS.encode())
    hits = [r for r in log.records if "hit an exception" in r.text]
    assert [r.rank for r in hits] == ["TP1", "TP0", "TP3", "TP2"]
    lines = RANKS.split("\n")
    for record in hits:
        assert "Scheduler hit an exception" in lines[record.first - 1]
        assert lines[record.last - 1].startswith("torch.OutOfMemoryError")
        assert record.level == "ERROR" and record.stamp is not None


@pytest.mark.parametrize(
    ("line", "rank", "text"),
    [
        ("[2026-05-11 23:23:32] Load weight begin.", None, "Load weight begin."),
        ("[2026-05-11 23:23:32 TP0] Load weight begin.", "TP0", "Load weight begin."),
        ("[2026-05-11 23:23:32.123 DP0 TP0] Load weight begin.", "DP0 TP0", "Load weight begin."),
        ("[2026-05-11 23:23:32 TP1 PP0] Load weight begin.", "TP1 PP0", "Load weight begin."),
        ("[2026-05-11 23:23:32 DP1 PP0 ATTN_CP0 MOE_DP1 TP3 EP7] Go", "DP1 PP0 ATTN_CP0 MOE_DP1 TP3 EP7", "Go"),
        ("[gpu=0] Load weight begin.", "gpu=0", "Load weight begin."),
        ("[gpu_id=3] Load weight begin.", "gpu_id=3", "Load weight begin."),
        ("[TP0] Scheduler begins", "TP0", "Scheduler begins"),
        ("2026-05-11 23:23:27,531 - __main__ - INFO - [2026-05-11 23:23:27 TP2] Init torch", "TP2", "Init torch"),
        ("INFO 05-11 23:23:34 __init__.py:190] Automatically detected platform", None, "Automatically detected platform"),
        ("[05-11 23:23:32] Loading model from 3 files", None, "Loading model from 3 files"),
        ("INFO:     Application startup complete.", None, "Application startup complete."),
        ("[rank3]: ValueError: x", "rank3", "ValueError: x"),
    ],
)
def test_stamps_and_rank_tags(line: str, rank: str | None, text: str) -> None:
    (record,) = read_log(line.encode()).records
    assert (record.rank, record.text) == (rank, text)


@pytest.mark.parametrize(
    "line",
    [
        "0: not slurm where other lines have no task number",
        "usage | not a container where other lines have none",
        "[Gloo] Rank 0 is connected to 1 peer ranks.",
        "[rank3]:[E511 23:33:41.9 ProcessGroupNCCL.cpp:683] caught",
        "2026 was the year: nothing here is a stamp",
        "[info] no rank",
    ],
)
def test_content_that_only_looks_like_framing_stays(line: str) -> None:
    text = f"plain line\nanother line\n{line}\nand one more\n"
    assert line in [r.text for r in read_log(text.encode()).records]


def test_ranks_interleaved_line_by_line_are_put_together() -> None:
    bodies = {}
    for rank in ("TP0", "TP1", "TP2", "TP3"):
        lines = [
            "Scheduler hit an exception: Traceback (most recent call last):",
            *(f'  File "/v/site-packages/sglang/srt/f{i}.py", line {i}, in step{i}\n    go{i}()' for i in range(1, 6)),
            f"RuntimeError: rank {rank} has lost its memory",
        ]
        bodies[rank] = "\n".join(lines).split("\n")
    mixed = [
        f"[2026-05-11 23:23:32 {rank}] {body[i]}" for i in range(len(bodies["TP0"])) for rank, body in sorted(bodies.items())
    ]
    log = read_log("\n".join(mixed).encode())
    assert [(r.rank, r.text) for r in log.records] == [(rank, "\n".join(body)) for rank, body in sorted(bodies.items())]
    assert [(r.first, r.last) for r in log.records] == [(1, 45), (2, 46), (3, 47), (4, 48)]


def test_supervisor_headers_are_dropped() -> None:
    lines = RANKS.rstrip("\n").split("\n")
    chunks = [lines[i : i + 9] for i in range(0, len(lines), 9)]
    framed = "\n".join("\n".join(["2026-05-11 23:23:32,123 DEBG 'sglang' stderr output:", *chunk]) for chunk in chunks)
    assert [r.text for r in read_log(framed.encode()).records] == [r.text for r in read_log(RANKS.encode()).records]


def test_manager_lines_do_not_join_the_servers_records() -> None:
    log = read_log((LOGS / "oom-killer-journal.log").read_bytes())
    texts = [r.text for r in log.records]
    assert "sglang.service: Failed with result 'oom-kill'." in texts
    assert sum(t.startswith("Traceback") for t in texts) == 1
    assert next(t for t in texts if t.startswith("Traceback")).endswith("more memory.")


def test_nothing_that_steers_a_terminal_is_left() -> None:
    raw = (
        b"\x1b[31mred\x1b[0m \x1b]0;pwned\x07title \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ \xc2\x9b31mC1 "
        b"\xe2\x80\xaebidi\xe2\x81\xa6 \x00nul \xff\xfebad \x1bP1$q\x1b\\dcs\tend\x7f\n"
    )
    (record,) = read_log(raw).records
    assert record.text == "red title link C1 bidi nul \ufffd\ufffdbad dcs    end"


def test_progress_bars_show_their_last_state_but_hide_no_traceback() -> None:
    bar = b"Loading:   0%|  | 0/4\rLoading:  25%|# | 1/4\rLoading: 100%|####| 4/4\n"
    (record,) = read_log(bar).records
    assert record.text == "Loading: 100%|####| 4/4"
    old = b'Loading 1%\rTraceback (most recent call last):\r  File "/v/sglang/a.py", line 3, in f\rValueError: x\rLoading 2%'
    assert any("ValueError: x" in r.text for r in read_log(old).records)


def test_suppressed_messages_are_noted() -> None:
    log = read_log(b"May 11 23:23:32 host systemd-journald[1]: Suppressed 412 messages from sglang.service\n")
    assert log.notes == ("line 1: the journal dropped messages (Suppressed 412 messages from sglang.service)",)


def test_messages_are_the_stamped_records_with_a_level() -> None:
    text = (
        "bare line\n[2026-05-11 23:23:32 TP0] Load weight begin.\n[2026-05-11 23:23:33] Ignore import error when loading x\n"
        "WARNING:  careful\n2026-05-11 23:23:34.000 | ERROR    | a:b:3 - bad\n[2026-05-11 23:23:35] Received sigquit\n"
    )
    messages = find_messages(read_log(text.encode()))
    assert [(m.first, m.level, m.rank) for m in messages] == [
        (2, "INFO", "TP0"),
        (3, "WARNING", None),
        (4, "WARNING", None),
        (5, "ERROR", None),
        (6, "ERROR", None),
    ]


@given(st.binary(max_size=3000))
@settings(max_examples=300, deadline=None)
def test_any_bytes_give_clean_records_within_the_file(data: bytes) -> None:
    check_sound(data)


PIECES = st.sampled_from(
    [
        "Traceback (most recent call last):",
        '  File "/v/site-packages/sglang/a.py", line 3, in f',
        "    go()",
        "    ^^^^",
        "ValueError: x",
        "",
        "During handling of the above exception, another exception occurred:",
        "  + Exception Group Traceback (most recent call last):",
        "  +-+---------------- 1 ----------------",
        "    | ValueError: y",
        "usage: sglang serve [-h]",
        "sglang serve: error: bad",
        "[2026-05-11 23:23:32 TP0] hello",
        "[2026-05-11 23:23:32 TP1] Scheduler hit an exception: Traceback (most recent call last):",
        "May 11 23:23:32 host systemd[1]: x.service: Main process exited, code=killed, status=9/KILL",
        "\x1b[31m",
        "a\rb",
        "(A pid=3) z",
        "x | y",
        "0: q",
        "\ud800",
    ]
)


@given(st.lists(PIECES, max_size=40))
@settings(max_examples=300, deadline=None)
def test_any_mix_of_known_lines_is_sound(lines: list[str]) -> None:
    check_sound("\n".join(lines).encode("utf-8", "surrogatepass"))


def check_sound(data: bytes) -> None:
    log = read_log(data)
    total = data.count(b"\n") + 1
    for record in log.records:
        assert 1 <= record.first <= record.last <= total
        assert is_clean(record.text) and record.text.strip()
    assert read_log(data) == log


def test_a_large_log_is_read_around_its_marks() -> None:
    filler = b"[2026-05-11 23:23:32 TP0] Decode batch. #running-req: 4, token usage: 0.01\n"
    before = filler * (WHOLE_BYTES // len(filler))
    after = filler * (2 * WHOLE_BYTES // len(filler))
    data = before + PLAIN.encode() + after
    first = before.count(b"\n") + 4
    tracemalloc.start()
    log = read_log(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    (hit,) = [r for r in log.records if r.text.startswith("Traceback")]
    assert (hit.first, hit.last) == (first, first + 68)
    assert log.records[0].first == 1 and log.records[-1].last == data.count(b"\n")
    assert peak < 200_000_000
    assert sum("were not read" in note for note in log.notes) == 2


def test_a_large_log_full_of_marks_stays_bounded() -> None:
    one = (
        b'[2026-05-11 23:23:32] retry: Traceback (most recent call last):\n  File "a.py", line 1, in f\nOSError: x\n'
        + b"." * 4000
        + b"\n"
    )
    data = one * (3 * WHOLE_BYTES // len(one))
    tracemalloc.start()
    log = read_log(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200_000_000
    assert log.records[-1].last == data.count(b"\n")


def test_one_line_of_200_megabytes() -> None:
    data = b"start\n" + b"x" * 200_000_000 + b"\n" + PLAIN.encode()
    tracemalloc.start()
    log = read_log(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000_000
    assert any(r.text.startswith("Traceback") and r.first == 6 for r in log.records)
    assert "line 2 is 200000000 bytes long; its middle was not read" in log.notes


@pytest.mark.parametrize(
    "line",
    [
        "[2026-05-11 23:23:32" + " TP0" * 20000,
        "\x1b[" + "0;" * 20000,
        "\x1b]" + "\x1b[" * 20000,
        'File "' + "a" * 30000 + '", line ',
        "a." * 15000 + "Error",
        ("a" * 100 + ".") * 300 + ": error: x",
        "terminate called after throwing " + "'" * 30000,
        "x" * 30000 + "launch_server.py:1: UserWarning",
        " " * 30000 + "x",
        "+-" * 15000,
        "usage: " + "[-" * 15000,
        "(" * 30000,
        "Loading" + " " * 30000,
        "1" * 30000 + " ",
        'Traceback (most recent call last): File "a", line 1, in f x ' + " ^" * 20000 + " y",
        "Traceback (most recent call last): " + 'File "' * 8000,
        'Traceback (most recent call last):\\n  File "a", line 1' + "\\n" * 15000,
        "│ " + "a/" * 15000 + ":1 in",
        "╭" + "─" * 300 + " Traceback (most recent call last) " + "─" * 30000,
        "{" + " " * 30000 + '"',
        "{ " * 15000 + '"a": 1}',
        "    MESSAGE=" + " " * 30000,
        "2026-05-11T23:23:32.1Z stderr P " + "x" * 30000,
    ],
)
def test_lines_made_to_blow_up_a_pattern_are_read(line: str) -> None:
    text = "\n".join(["Traceback (most recent call last):", line, *[line] * 20])
    log: Log = read_log(text.encode())
    assert log.records
    assert all(isinstance(r, LogRecord) for r in log.records)


def test_json_lines_of_docker_and_the_journal() -> None:
    want = [(r.text, r.rank, r.first, r.last) for r in read_log(RANKS.encode()).records]
    lines = RANKS.rstrip("\n").split("\n")
    docker = "\n".join(json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-05-11T23:23:32Z"}) for line in lines)
    journal = "\n".join(json.dumps({"PRIORITY": "6", "_PID": "4711", "MESSAGE": line}) for line in lines)
    numbers = "\n".join(json.dumps({"MESSAGE": list(f"\x1b[31m{line}\x1b[0m".encode())}) for line in lines)
    for framed in (docker, journal, numbers):
        assert [(r.text, r.rank, r.first, r.last) for r in read_log(framed.encode()).records] == want


def test_a_json_loggers_traceback_follows_its_message() -> None:
    trace = 'Traceback (most recent call last):\n  File "/v/sglang/a.py", line 3, in f\nValueError: x'
    (record,) = read_log(json.dumps({"level": "error", "event": "load failed:", "exception": trace}).encode()).records
    assert (record.text, record.first, record.last) == ("load failed:\n" + trace, 1, 1)


@pytest.mark.parametrize(
    "line", ['{"a": 1}', '{"MESSAGE": null}', "{" * 60000 + "}", '{"log": 3}', "{'py': 'dict'}", '{"msg": [1, 300]}']
)
def test_lines_that_are_no_json_message_stay(line: str) -> None:
    (record,) = read_log(line.encode()).records
    assert record.text == line
