"""The same failure from a log that kept its text but not its lines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from log_framings import FRAMINGS, LOGS, REPO, frame
from log_reshapings import RESHAPINGS, newest_first_without_clock, rich_box, terminal

from triage.analysis.failure import find_failure
from triage.analysis.log import read_log
from triage.knowledge import load_profile
from triage.model import ExitStatus, Failure

PROFILE = load_profile("sglang")
NAMES = ["e1", "e3", "n1", "n2", "model-missing"]
LOG_TEXTS = {f"{release}-{name}": (LOGS / f"sglang-{release}-{name}.log") for release in ("0.5.11", "0.5.23") for name in NAMES}
TEXTS = {name: path.read_text() for name, path in LOG_TEXTS.items() if path.is_file()}
TEXTS = {name: text for name, text in TEXTS.items() if "Traceback" in text}
SHARED = Path(os.environ.get("TRIAGE_SHARED") or REPO.parent / "shared") / "cases"


def find(data: bytes | str) -> Failure:
    raw = data.encode() if isinstance(data, str) else data
    failure = find_failure(read_log(raw), ExitStatus(1), "sglang", None, PROFILE.fatal_marks)
    assert failure is not None
    return failure


def squeezed(text: str) -> str:
    return " ".join(text.split())


def check_same(failure: Failure, plain: Failure, name: str) -> None:
    """Exception, message, innermost frame and ranks are those of the plain log."""
    assert plain.site is not None and failure.site is not None
    assert failure.exception == plain.exception
    if name.startswith("terminal"):  # a single wrapped line does not tell the width
        assert "".join(failure.message.split()) == "".join(plain.message.split())
    elif name in ("one-line", "rich-box", "rich-handler", "flat", "rendered"):
        assert squeezed(failure.message) == squeezed(plain.message)
    elif name == "curly":
        assert failure.message.replace('"', "'") == plain.message.replace('"', "'")
    else:
        assert [x.rstrip() for x in failure.message.split("\n")] == [x.rstrip() for x in plain.message.split("\n")]
    site, own = failure.site, plain.site
    assert (site.file, site.line, site.function) == (own.file, own.line, own.function)
    assert failure.ranks == plain.ranks


@pytest.mark.parametrize("name", sorted(RESHAPINGS))
@pytest.mark.parametrize("source", sorted(TEXTS))
def test_captured_logs(source: str, name: str) -> None:
    text = TEXTS[source]
    check_same(find(RESHAPINGS[name](text)), find(text), name)


@pytest.mark.parametrize(
    "name", ["export", "verbose", "json-pretty", "docker-file", "terminal-57", "terminal-133", "quoted", "entities"]
)
def test_four_ranks_are_one_failure(name: str) -> None:
    text = (LOGS / "oom-four-ranks.log").read_text()
    failure = find(RESHAPINGS[name](text))
    check_same(failure, find(text), name)
    assert failure.ranks == ("TP0", "TP1", "TP2", "TP3")


@pytest.mark.parametrize("source", sorted(set(TEXTS) - {name for name in TEXTS if "model-missing" in name}))
def test_a_traceback_that_stands_on_its_head(source: str) -> None:
    text = TEXTS[source]
    failure = find(newest_first_without_clock(text))
    check_same(failure, find(text), "newest-first")
    assert failure.first is not None and failure.last is not None and failure.first <= failure.last


def labelled() -> list[str]:
    """Launch tracebacks of the labelled cases, () where these are absent."""
    paths = sorted(SHARED.glob("*.jsonl"))
    cases = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    return [case["traceback_launch"] for case in cases if case.get("traceback_launch")]


CASES = labelled()
SHOWN = sorted(set(FRAMINGS) - {"coloured", "compose-colour", "ray-colour", "progress", "hidden", "crlf"})  # without escapes
WARNING = "[2026-05-11 23:23:32] Attention backend not specified. Use the default for this device.\n"


@pytest.mark.skipif(not CASES, reason=f"no labelled launches at {SHARED}")
@pytest.mark.parametrize("name", sorted(RESHAPINGS))
@given(data=st.data())
@settings(max_examples=8, deadline=None)
def test_labelled_launches(name: str, data: st.DataObject) -> None:
    text = WARNING + data.draw(st.sampled_from(CASES))
    check_same(find(RESHAPINGS[name](text)), find(text), name)


@pytest.mark.skipif(not CASES, reason=f"no labelled launches at {SHARED}")
@given(st.sampled_from(CASES), st.integers(80, 220), st.sampled_from(SHOWN))
@settings(max_examples=60, deadline=None)
def test_terminals_of_any_width_show_framed_logs(text: str, width: int, framing: str) -> None:
    framed = frame(WARNING + text, framing)
    check_same(find(terminal(framed.decode(), width)), find(WARNING + text), "terminal")


@pytest.mark.skipif(not CASES, reason=f"no labelled launches at {SHARED}")
@given(st.sampled_from(CASES), st.sampled_from(sorted(FRAMINGS)), st.data())
@settings(max_examples=80, deadline=None)
def test_a_cut_head_keeps_the_innermost_frame(text: str, framing: str, data: st.DataObject) -> None:
    lines = frame(WARNING + text, framing).split(b"\n")
    last = max(i for i, line in enumerate(lines) if b'File "' in line)
    cut = data.draw(st.integers(0, last))
    failure, plain = find(b"\n".join(lines[cut:])), find(WARNING + text)
    assert (failure.exception, squeezed(failure.message)) == (plain.exception, squeezed(plain.message))
    one, own = failure.frames[-1], plain.frames[-1]
    assert (one.path, one.line, one.function) == (own.path, own.line, own.function)


@pytest.mark.skipif(not CASES, reason=f"no labelled launches at {SHARED}")
@given(st.sampled_from(CASES), st.integers(2, 6), st.sampled_from(["{} ", "[{}] ", "[2026-05-11 23:23:32 {}] "]), st.data())
@settings(max_examples=60, deadline=None)
def test_ranks_in_any_mix(text: str, count: int, form: str, data: st.DataObject) -> None:
    plain = find(text)
    tags = [f"[rank{i}]:" if form == "{} " else f"TP{i}" for i in range(count)]
    queues = {tag: [form.format(tag) + line for line in text.rstrip("\n").split("\n")] for tag in tags}
    mixed = []
    while any(queues.values()):
        tag = data.draw(st.sampled_from([t for t, queue in queues.items() if queue]))
        take = data.draw(st.integers(1, 4))
        mixed += queues[tag][:take]
        del queues[tag][:take]
    failure = find("\n".join(mixed))
    assert plain.site is not None and failure.site is not None
    assert (failure.exception, squeezed(failure.message)) == (plain.exception, squeezed(plain.message))
    assert (failure.site.file, failure.site.line, failure.site.function) == (
        plain.site.file,
        plain.site.line,
        plain.site.function,
    )
    assert failure.ranks == tuple(tag.strip("[]:") for tag in tags)
    assert not failure.set_aside


@pytest.mark.skipif(not CASES, reason=f"no labelled launches at {SHARED}")
@given(st.sampled_from(CASES), st.integers(2, 5), st.data())
@settings(max_examples=60, deadline=None, phases=(Phase.explicit, Phase.generate))
def test_ranks_that_write_into_each_other_without_tags(text: str, count: int, data: st.DataObject) -> None:
    """As a logger's one message per rank arrives in pieces: only the header's line tells the rank."""
    text = text[text.rindex("Traceback (") :].rstrip("\n").replace("\n\n", "\n")
    plain = find(text)
    lines = text.split("\n")
    error = next(i for i, line in enumerate(lines) if i > 1 and not line.startswith(" "))
    queues = {f"TP{i}": lines[1 : error + 1] for i in range(count)}
    mixed = [f"[2026-05-11 23:23:32 {tag}] Scheduler hit an exception: {lines[0]}" for tag in queues]
    while any(queues.values()):
        tag = data.draw(st.sampled_from([t for t, queue in queues.items() if queue]))
        take = data.draw(st.integers(1, 4))
        mixed += queues[tag][:take]
        del queues[tag][:take]
    failure = find("\n".join(mixed))
    assert plain.site is not None and failure.site is not None
    assert failure.exception == plain.exception
    assert (failure.site.file, failure.site.line, failure.site.function) == (
        plain.site.file,
        plain.site.line,
        plain.site.function,
    )
    # whose the lines are is not always to be told: in a few of 100 mixes an outer frame comes twice, or one rank is not counted
    missing = {f"TP{i}" for i in range(count)} - set(failure.ranks)
    assert len(missing) <= 1 and len(failure.ranks) + len(missing) == count
    assert missing or not failure.set_aside


RICH = """\
import sys
sys.path.insert(0, {folder!r})
from rich.console import Console
from engine.args import resolve
try:
    resolve(None)
except Exception:
    Console(width={width}, file=sys.stdout, force_terminal={colour}).print_exception(show_locals={local})
"""
ENGINE = """\
from dataclasses import dataclass


@dataclass
class Resolved:
    steps: int

    def __post_init__(self):
        before = 1
        if self.steps is None or self.steps < 0:
            raise ValueError(f"steps is {self.steps!r}, no count of steps: give --steps with a number that is not below zero")


def resolve(steps):
    try:
        {}["steps"]
    except KeyError as error:
        raise_more(steps, error)


def raise_more(steps, error):
    return Resolved(
        steps,
    )
"""


@pytest.mark.parametrize("width", [60, 77, 100, 160])
@pytest.mark.parametrize(("colour", "local"), [(False, False), (True, True)])
def test_what_rich_itself_prints(tmp_path: Path, width: int, colour: bool, local: bool) -> None:
    folder = tmp_path / "site-packages"
    (folder / "engine").mkdir(parents=True)
    (folder / "engine" / "args.py").write_text(ENGINE)
    program = RICH.format(folder=str(folder), width=width, colour=colour, local=local)
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout
    failure = find_failure(read_log(printed), ExitStatus(1), "engine", None, ())
    assert failure is not None and failure.exception == "ValueError"
    assert failure.message == "steps is None, no count of steps: give --steps with a number that is not below zero"
    assert [(f.file, f.line, f.function) for f in failure.frames[-4:]] == [
        ("engine/args.py", 18, "resolve"),
        ("engine/args.py", 22, "raise_more"),
        (None, 4, "__init__"),
        ("engine/args.py", 11, "__post_init__"),
    ]
    assert failure.frames[-4].text == "raise_more(steps, error)"
    assert [raised.exception for raised in failure.chain] == ["KeyError"]


def test_a_cut_box_keeps_its_frames() -> None:
    rows = rich_box(TEXTS["0.5.11-e1"]).decode().split("\n")
    bottom = next(i for i, row in enumerate(rows) if row.startswith("╰"))
    failure = find("\n".join(rows[: bottom - 1]))
    assert failure.exception is None and failure.site is not None
    assert failure.site.function == find(TEXTS["0.5.11-e1"]).site.function  # type: ignore[union-attr]
