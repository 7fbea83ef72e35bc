"""What is kept of a log too large to be read whole, and under which line numbers."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest
from log_framings import LOGS

from triage.analysis import excerpt
from triage.analysis.excerpt import Excerpt, cut_log
from triage.analysis.failure import find_failure
from triage.analysis.log import read_log
from triage.model import ExitStatus

CRASH = (LOGS / "sglang-0.5.23-e1.log").read_bytes()
MARK = b"Traceback (most recent call last)"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """All sizes some thousand times smaller."""
    sizes = {
        "WHOLE_BYTES": 4000,
        "LINE_BYTES": 100,
        "_HEAD_BYTES": 300,
        "_TAIL_BYTES": 600,
        "_BEFORE": 60,
        "_AFTER": 200,
        "_CHUNK": 257,
    }
    for name, value in sizes.items():
        monkeypatch.setattr(excerpt, name, value)


def numbered(kept: Excerpt) -> list[tuple[int, bytes]]:
    """The kept lines with their raw numbers."""
    starts = {gap.kept: gap.line for gap in kept.gaps}
    out: list[tuple[int, bytes]] = []
    number = 1
    for i, line in enumerate(kept.data.removesuffix(b"\n").split(b"\n")):
        number = starts.get(i, number)
        out.append((number, line))
        number += 1
    return out


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(40))
def test_kept_lines_stand_under_their_own_numbers(seed: int) -> None:
    chance = random.Random(seed)
    lines = [b"%d %s" % (i, b"x" * chance.choice((0, 5, 30, 70))) for i in range(1, 900)]
    marked = sorted(chance.sample(range(len(lines)), 12))
    for i in marked:
        lines[i] += b" " + MARK
    for i in chance.sample(range(len(lines)), 2):
        lines[i] += b"y" * chance.choice((250, 1500))
    data = b"\n".join(lines) + chance.choice((b"", b"\n"))
    kept = cut_log(io.BytesIO(data), len(data))
    assert len(kept.data) < len(data)
    numbers = set()
    for number, line in numbered(kept):
        if b" ... " not in line:
            assert line == lines[number - 1]
            numbers.add(number)
        elif not line.startswith(b" ... ") and line[:1].isdigit():
            assert line.split(b" ")[0] == str(number).encode()
    assert numbers >= {i + 1 for i in marked if len(lines[i]) < 100}
    assert {1, len(lines)} <= numbers
    notes = [gap.note for gap in kept.gaps]
    assert notes and read_log(kept.data, kept.gaps).notes == tuple(notes)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("length", [4000, 6000, 20000])
@pytest.mark.parametrize("before", [0, 10, 290, 700])
def test_a_line_that_is_larger_than_what_is_kept(length: int, before: int) -> None:
    data = b"a\n" * (before // 2) + b"z" * length + b"\nnext\n" + b"b\n" * 400
    kept = cut_log(io.BytesIO(data), len(data))
    told = numbered(kept)
    assert told[-1] == (data.count(b"\n"), b"b") and len(kept.data) < 3000
    assert all(data.split(b"\n")[number - 1] == line for number, line in told if b"z" not in line)
    assert any("not read" in gap.note for gap in kept.gaps)


@pytest.mark.usefixtures("small")
def test_many_marks_leave_the_first_and_the_last() -> None:
    one = b"%d " + MARK + b"\n" + b"." * 500 + b"\n"
    data = b"".join(one % i for i in range(600))
    kept = cut_log(io.BytesIO(data), len(data))
    seen = [int(line.split()[0]) for line in kept.data.split(b"\n") if MARK in line]
    assert seen[:10] == list(range(10)) and seen[-40:] == list(range(560, 600))
    assert len(seen) < 60


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("shift", range(0, 40, 3))
def test_a_mark_on_the_border_of_two_chunks_is_seen(shift: int) -> None:
    data = b"." * (257 * 9 - shift - 1) + b"\n" + MARK + b"\nthe end\n" + b".\n" * 3000
    kept = cut_log(io.BytesIO(data), len(data))
    assert MARK + b"\nthe end" in kept.data


def test_a_crash_in_the_middle_of_a_large_file(tmp_path: Path) -> None:
    line = b"[2026-05-11 23:23:32 TP0] Decode batch. #running-req: 4, token usage: 0.01\n"
    before, after = line * 200_000, line.replace(b"Decode", b"Prefill") * 150_000
    path = tmp_path / "big.log"
    path.write_bytes(before + CRASH + after)
    with path.open("rb") as stream:
        kept = cut_log(stream, path.stat().st_size)
    assert len(kept.data) < 4_000_000
    plain = find_failure(read_log(CRASH), ExitStatus(1), "sglang")
    failure = find_failure(read_log(kept.data, kept.gaps), ExitStatus(1), "sglang")
    assert plain is not None and failure is not None and plain.first is not None
    assert (failure.exception, failure.frames) == (plain.exception, plain.frames)
    assert failure.first == plain.first + 200_000
