"""How far a start came and how long each phase took."""

from __future__ import annotations

import pytest
from log_framings import LOGS

from triage.analysis.diagnose import diagnose
from triage.analysis.failure import find_failure
from triage.analysis.log import read_log
from triage.analysis.phases import describe_phases, find_phases
from triage.knowledge import load_profile
from triage.model import CaptureMeta, ExitStatus, Facts
from triage.protocols import Capture

PROFILE = load_profile("sglang")
HANG = """\
[2026-05-11 23:23:02] server_args=ServerArgs(model_path='/models/big-moe', tp_size=2)
[2026-05-11 23:23:12 TP0] Init torch distributed begin.
[2026-05-11 23:23:12 TP1] Init torch distributed begin.
[2026-05-11 23:23:15 TP0] Load weight begin. avail mem=78.30 GB
[2026-05-11 23:23:15 TP1] Load weight begin. avail mem=78.30 GB
[2026-05-11 23:33:35 TP0] Load weight end. type=X, avail mem=12.00 GB
[2026-05-11 23:33:36 TP0] KV Cache is allocated. #tokens: 1000
[2026-05-11 23:33:40 TP0] Capture cuda graph begin. This can take up to several minutes.
[2026-05-11 23:34:41 TP0] Capture cuda graph bs [1, 2, 4]
"""
SPANS = [
    ("imports and argument validation", 1, 0.0),
    ("starting processes", 1, 10.0),
    ("distributed init", 2, 3.0),
    ("weights", 4, 621.0),
    ("KV cache", 7, 4.0),
    ("CUDA graph capture", 8, 61.0),
]


def capture(text: str) -> Capture:
    return Capture(CaptureMeta("", "", "log", "sglang", None, None, None, None), None, Facts(), text.encode(), None)


def spans(text: str) -> list[tuple[str, int, float | None]]:
    return [(s.name, s.line, s.seconds) for s in find_phases(read_log(text.encode()).records, PROFILE.phases)]


def test_each_phase_with_its_line_and_seconds() -> None:
    assert spans(HANG) == SPANS


def test_only_the_last_start_counts() -> None:
    older = HANG.replace("23:2", "21:2").replace("23:3", "21:3")
    lines = older.count("\n")
    assert spans(older + HANG)[1:] == [(name, line + lines, seconds) for name, line, seconds in SPANS[1:]]


def test_a_clock_without_year_and_one_over_midnight() -> None:
    assert [s for _, _, s in spans(HANG.replace("2026-", ""))] == [s for _, _, s in SPANS]
    text = "[2026-12-31 23:59:50 TP0] Load weight begin.\n[2027-01-01 00:01:00 TP0] KV Cache is allocated.\n"
    assert [(name, seconds) for name, _, seconds in spans(text)[1:]] == [("weights", 70.0), ("KV cache", 0.0)]


def test_a_log_without_clock_still_tells_the_phases() -> None:
    bare = "\n".join(line.split("] ", 1)[1] for line in HANG.splitlines())
    assert [(name, seconds) for name, _, seconds in spans(bare)] == [(name, None) for name, _, _ in SPANS[1:]]


def test_a_start_that_the_manager_gave_up_says_where_it_was() -> None:
    text = HANG + "May 11 23:40:00 gpu-01 systemd[1]: sglang.service: start operation timed out. Terminating.\n"
    failure = find_failure(read_log(text.encode()), ExitStatus(None), "sglang", "failed", PROFILE.fatal_marks, PROFILE.phases)
    assert failure is not None and failure.kind == "timeout"
    assert [(s.name, s.line, s.seconds) for s in failure.phases] == SPANS
    found = diagnose(capture(text), PROFILE)
    assert found.cause is not None and found.cause.category == "timeout"
    assert "had reached the phase 'CUDA graph capture' (from log line 8 on)" in found.cause.text
    assert "weights 10 min" in found.cause.text


def test_a_start_that_may_hang_is_said_and_no_cause_invented() -> None:
    found = diagnose(capture(HANG), PROFILE)
    assert (found.outcome, found.failure, found.cause) == ("no_failure", None, None)
    (unknown,) = [u for u in found.unknowns if "hangs" in u.what]
    assert "'CUDA graph capture'" in unknown.why and "61 s" in unknown.why
    ready = HANG + "[2026-05-11 23:35:41] The server is fired up and ready to roll!\n"
    assert not [u for u in diagnose(capture(ready), PROFILE).unknowns if "hangs" in u.what]


def test_a_captured_log_went_as_far_as_its_warm_up() -> None:
    names = [name for name, _, _ in spans((LOGS / "sglang-0.5.23-healthy.log").read_text())]
    assert names[0] == "imports and argument validation" and names[-1] == "warm-up"


@pytest.mark.parametrize("text", ["", "nothing\n", "[2026-13-45 99:99:99] Load weight begin.\n"])
def test_odd_logs(text: str) -> None:
    found = find_phases(read_log(text.encode()).records, PROFILE.phases)
    assert all(span.seconds in (None, 0.0) for span in found)
    assert bool(describe_phases(found)) == bool(found)
