"""Signatures of failures: each against the real logs that it names, the matcher's rules, and the causes of all labelled logs."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.causes import LOGS, alarmed, describe_share, judge_failures
from triage.analysis.failure import find_failure
from triage.analysis.log import read_log
from triage.analysis.phrases import find_phrase, flatten_text, read_number
from triage.analysis.remedies import COMPUTATIONS
from triage.analysis.signatures import fill_text, find_signatures
from triage.analysis.trees import MemoryTree
from triage.errors import KnowledgeError
from triage.knowledge import data_root, load_profile
from triage.knowledge.failures import read_failures
from triage.knowledge.phrases import read_phrase
from triage.model import (
    ExitStatus,
    Failure,
    Frame,
    Holding,
    Log,
    LogRecord,
    PhaseSpan,
    Raised,
    Remedy,
    Signature,
    SignatureMatch,
    Where,
)

ORACLE = Path(os.environ.get("ORACLE_HOME", "/opt/oracle"))
RELEASES = sorted(p for p in ORACLE.glob("*/lib/python3.*/site-packages/sglang") if p.is_dir())
PROFILE = load_profile("sglang")
BY_ID = {signature.id: signature for signature in PROFILE.signatures}
TABLES: dict[str, dict[str, Any]] = {
    entry["id"]: entry
    for path in sorted((data_root() / "sglang" / "failures").glob("*.toml"))
    for entry in tomllib.loads(path.read_text(encoding="utf-8"))["failure"]
}
MATCHES = [(name, log) for name, entry in TABLES.items() for log in entry["matches"]]
MISSES = [(name, log) for name, entry in TABLES.items() for log in entry["not"]]


# Code of our own in the places where entries look into the source: a model of a release, which it could not import there.
TREE = MemoryTree({"sglang/srt/models/qwen2.py": b"class Qwen2ForCausalLM(Module): pass"})


def find_log(name: str) -> Path:
    places = [LOGS / folder / f"{name}.txt" for folder in ("failures", "kinds", "healthy")]
    return next(path for path in [*places, LOGS / f"{name}.log"] if path.is_file())


@cache
def match_log(name: str) -> tuple[SignatureMatch, ...]:
    path = find_log(name)
    label = tomllib.loads(path.with_suffix(".toml").read_text(encoding="utf-8"))
    log = read_log(path.read_bytes())
    status = ExitStatus(label.get("code"), label.get("signal"))
    failure = find_failure(log, status, "sglang", label.get("active"), PROFILE.fatal_marks, PROFILE.phases)
    return find_signatures(PROFILE.signatures, log, failure, TREE) if failure is not None else ()


# ---------------------------------------------------------------- the entries and their logs
@pytest.mark.parametrize(("name", "log"), MATCHES, ids=lambda value: str(value))
def test_an_entry_fits_the_logs_that_it_names(name: str, log: str) -> None:
    found = next((match for match in match_log(log) if match.signature.id == name), None)
    assert found is not None
    for text in (found.signature.means, found.signature.remedy.text):
        told = fill_text(text, found.holes)
        assert told and not re.search(r"\{[a-z_]+\}", told)


@pytest.mark.parametrize(("name", "log"), MISSES, ids=lambda value: str(value))
def test_an_entry_does_not_fit_its_near_misses(name: str, log: str) -> None:
    assert name not in [match.signature.id for match in match_log(log)]


def test_there_are_enough_entries_each_with_logs_on_both_sides() -> None:
    assert len(TABLES) >= 60 and set(TABLES) == set(BY_ID)
    assert all(entry["matches"] and entry["not"] for entry in TABLES.values())
    assert {path.stem for path in (LOGS / "kinds").glob("*.txt")} <= {log for _, log in MATCHES}


def test_excerpts_of_further_kinds_are_taken_for_what_they_are() -> None:
    for path in sorted((LOGS / "kinds").glob("*.toml")):
        label = tomllib.loads(path.read_text(encoding="utf-8"))
        first = match_log(path.stem)[0].signature
        assert (first.id, first.category) == (label["signature"][0], label["category"]), path.stem
        assert label["source"].startswith("https://github.com/") and label["text"] == "rewritten"


def test_an_entry_means_something_whichever_of_its_phrases_was_found() -> None:
    for signature in PROFILE.signatures:
        for where in signature.where:
            always = {gap for phrase in where.log for gap in phrase.gaps}
            for gaps in [phrase.gaps for phrase in where.messages] or [frozenset[str]()]:
                holes = dict.fromkeys(always | gaps, "this")
                assert len(fill_text(signature.means, holes)) > 10 and len(fill_text(signature.remedy.text, holes)) > 8, (
                    signature.id
                )


def test_every_computation_that_the_data_names_exists() -> None:
    named = {attempt.compute for s in PROFILE.signatures for attempt in s.remedy.tries if attempt.compute}
    assert named and named <= set(COMPUTATIONS)
    assert set(COMPUTATIONS) - named == set()


@pytest.mark.skipif(not RELEASES, reason=f"no sglang release is installed below {ORACLE}")
def test_every_setting_that_the_data_changes_is_one_of_some_release() -> None:
    files = [f for release in RELEASES for f in (release / "srt/server_args.py", *(release / "srt/arg_groups").rglob("*.py"))]
    words = set(re.findall(r"[A-Za-z_]\w*", "\n".join(f.read_text(encoding="utf-8") for f in files)))
    fields = {field for s in PROFILE.signatures for attempt in s.remedy.tries for field in attempt.fields}
    assert fields and fields <= words


def test_what_the_labels_name_exists() -> None:
    for path in sorted((LOGS / "failures").glob("*.toml")):
        assert set(tomllib.loads(path.read_text(encoding="utf-8")).get("signature", ())) <= set(BY_ID), path.stem


def test_causes_of_all_labelled_logs(record_property: Any) -> None:
    judged = judge_failures()
    record_property("causes", describe_share("failures", judged))
    wrong = [(one.name, one.said, one.entry) for one in judged if not one.right]
    assert len(judged) >= 80
    assert 10 * len(wrong) <= len(judged), wrong


def test_no_healthy_log_has_a_cause() -> None:
    assert alarmed() == ()


# ---------------------------------------------------------------- the matcher
def make_log(*lines: str) -> Log:
    return Log(tuple(LogRecord(text, number, number, stamp="x") for number, text in enumerate(lines, 1)))


def make_failure(message: str = "no room", exception: str = "pkg.errors.RoomError", **more: Any) -> Failure:
    frames = (
        Frame("/v/eng/run.py", 3, "main", "go()", "eng/run.py"),
        Frame("/v/eng/pool.py", 9, "Pool.fill", "x", "eng/pool.py"),
    )
    return replace(Failure("exception", exception, message, frames), **more)


def fits(where: Where, failure: Failure, log: Log | None = None) -> dict[str, str] | None:
    signature = Signature("one", "other", 1, "It is so.", (where,), Remedy("none", "Nothing."))
    found = find_signatures([signature], log or make_log(), failure)
    return dict(found[0].holes) if found else None


def phrases(*texts: str) -> tuple[Any, ...]:
    return tuple(read_phrase(text) for text in texts)


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (Where(exceptions=("Room*",)), Where(exceptions=("errors.RoomError",))),
        (Where(messages=phrases("no room")), Where(messages=phrases("No room"))),
        (Where(files=("eng/run.py",)), Where(files=("run",))),
        (Where(sites=("eng/pool.py",)), Where(sites=("eng/run.py",))),
        (Where(functions=("fill",)), Where(functions=("Pool",))),
        (Where(kinds=("exception",)), Where(kinds=("signal",))),
        (Where(phases=("weights",)), Where(phases=("start",))),
        (Where(messages=phrases("no room"), seconds=600), Where(messages=phrases("no room"), seconds=700)),
        (Where(ranks=("TP*",), kinds=("exception",)), Where(ranks=("PP*",), kinds=("exception",))),
        (Where(log=phrases("disk is {n:int} full")), Where(log=phrases("disk is {n:int} empty"))),
        (Where(kinds=("exception",), absent=phrases("all fine")), Where(kinds=("exception",), absent=phrases("disk is"))),
        (Where(lines=phrases("go()")), Where(lines=phrases("went()"))),
    ],
)
def test_every_condition_counts(good: Where, bad: Where) -> None:
    failure = make_failure(phases=(PhaseSpan("weights", 1, 650.0),), ranks=("TP1",))
    log = make_log("ready", "disk is 7 full")
    assert fits(good, failure, log) is not None
    assert fits(bad, failure, log) is None
    assert fits(replace(good, messages=phrases("another text altogether")), failure, log) is None


def test_message_and_exception_belong_to_one_exception_of_the_chain() -> None:
    cause = Raised("ValueError", "the pool is 3 short", (), 1, 2)
    failure = make_failure(chain=(cause,))
    assert fits(Where(exceptions=("ValueError",), messages=phrases("is {n:int} short")), failure) == {"n": "3"}
    assert fits(Where(exceptions=("RoomError",), messages=phrases("is {n:int} short")), failure) is None


def test_numbers_of_gaps_are_compared() -> None:
    where = Where(messages=phrases("asked {a:bytes}, kept {b:bytes}"), more=(("b", "a"),))
    assert fits(where, make_failure("asked 512.00 MiB, kept 1.50 GiB")) is not None
    assert fits(where, make_failure("asked 2.00 GiB, kept 1.50 GiB")) is None


def test_only_the_run_that_failed_is_searched() -> None:
    log = make_log("disk is 7 full", "starting", "no room")
    where = Where(log=phrases("disk is {n:int} full"))
    assert fits(where, make_failure(run=(1, 3)), log) == {"n": "7"}
    assert fits(where, make_failure(run=(2, 3)), log) is None


def test_the_source_counts_where_it_is_at_hand() -> None:
    where = Where(messages=phrases("no {kind:word} at all"), source=Holding("eng/rooms", "class {kind}("))
    failure = make_failure("no Attic at all")
    signature = Signature("one", "other", 1, "It is so.", (where,), Remedy("none", "Nothing."))
    for tree, found in (
        (MemoryTree({"eng/rooms/a.py": b"import x", "eng/rooms/b.py": b"class Attic(Room):\n    pass"}), 1),
        (MemoryTree({"eng/rooms/b.txt": b"class Attic(Room)", "eng/b.py": b"class Attic(Room)"}), 0),
        (MemoryTree({"eng/rooms/b.py": b"class Cellar(Room)"}), 0),
        (None, 0),
    ):
        assert len(find_signatures([signature], make_log(), failure, tree)) == found


def test_the_highest_rank_comes_first_and_then_the_longest_text() -> None:
    def entry(name: str, rank: int, text: str) -> Signature:
        return Signature(name, "other", rank, "So.", (Where(messages=phrases(text)),), Remedy("none", "Nothing."))

    entries = [entry("a", 1, "no room"), entry("b", 5, "room"), entry("c", 1, "no room for a wide batch")]
    found = find_signatures(entries, make_log(), make_failure("no room for a wide batch"))
    assert [match.signature.id for match in found] == ["b", "c", "a"]


@pytest.mark.parametrize(
    ("phrase", "text", "found"),
    [
        ("{n:int} is not divisible by {tp:int}", "AssertionError: 25 is not divisible by 2\n\nbye", {"n": "25", "tp": "2"}),
        ("allocate {size:bytes}. GPU", "Tried to allocate 448.00 MiB. GPU 7", {"size": "448.00 MiB"}),
        ("share={share:float}", "share=0.85. Raise it", {"share": "0.85"}),
        ("from '{module:word}'", "import 'a' from 'x.y' (/p)", {"module": "x.y"}),
        ("file: {path}", "no such file: /a b/c\nnext", {"path": "/a b/c"}),
        ("a {{b}} {n:int}", "a {b} 4", {"n": "4"}),
        ("wide  text", "some wide\n   text here", {}),
        ("asked {a}, kept {b}.", "asked x, kept y.", {"a": "x", "b": "y"}),
        ("{n:int} is odd", "x7 is odd", None),
        ("asked {a}, kept", "asked x\n" + "y" * 30 + ", kept", None),
        ("take {n:int} now", "take 1.5 now, take 3 now", {"n": "3"}),
    ],
)
def test_phrases(phrase: str, text: str, found: dict[str, str] | None) -> None:
    assert find_phrase(read_phrase(phrase), flatten_text(text)) == found


def test_hostile_text_is_not_read_to_its_end() -> None:
    phrase = read_phrase("lost {a}, {b}, {c}, {d} at last")
    text = "lost " * 200_000
    assert find_phrase(phrase, flatten_text(text)) is None
    assert len(flatten_text("x" * 10_000_000)) <= 20_000
    assert find_phrase(read_phrase("by {n:int} more"), "by " + "9" * 5000 + " more") is None


@pytest.mark.parametrize("text", ["{a}{b} texts", "{a", "a } b", "{a:number} x", "{A} x", "ok {a} and {a}", "{a}", "  "])
def test_a_broken_phrase_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        read_phrase(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [("448.00 MiB", 448 * 1024.0**2), ("40.00 GB", 40e9), ("7", 7.0), ("-0.5", -0.5), ("7 parsecs", None), ("", None)],
)
def test_numbers_with_units(text: str, number: float | None) -> None:
    assert read_number(text) == number


def test_texts_are_filled_or_shortened() -> None:
    text = "It is {a} long ({b} wide). Then {c} came; and the end."
    assert fill_text(text, {"a": "7"}) == "It is 7 long. and the end."
    assert fill_text(text, {"a": "7", "b": "2", "c": "x\n y"}) == "It is 7 long (2 wide). Then x y came; and the end."
    assert len(fill_text("{a}", {"a": "z" * 5000})) == 120


# ---------------------------------------------------------------- the data's schema
ENTRY = """
schema = 1
[[failure]]
id = "one"
category = "memory"
rank = 5
means = "It is {n} short."
matches = ["a"]
not = ["b"]
[[failure.where]]
messages = ["is {n:int} short"]
[failure.remedy]
kind = "flag"
text = "More."
[[failure.remedy.try]]
field = "share"
value = "1"
"""


def write_entry(folder: Path, text: str) -> Path:
    (folder / "one.toml").write_text(text, encoding="utf-8")
    return folder


def test_the_template_of_the_broken_entries_is_valid(tmp_path: Path) -> None:
    (found,) = read_failures(write_entry(tmp_path, ENTRY))
    assert (found.id, found.remedy.tries[0].fields, found.remedy.tries[0].value) == ("one", ("share",), "1")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("schema = 1", "schema = 2"),
        ('id = "one"', 'id = "One"'),
        ('category = "memory"', 'category = "weather"'),
        ("rank = 5", "rank = 500"),
        ("rank = 5", "rank = true"),
        ("{n} short", "{m} short"),
        ('matches = ["a"]', "matches = []"),
        ('not = ["b"]', ""),
        ('messages = ["is {n:int} short"]', "messages = []"),
        ('messages = ["is {n:int} short"]', 'messages = ["{n:int} "]'),
        ('messages = ["is {n:int} short"]', 'messages = ["is {n:int} short"]\nregex = ["x"]'),
        ('messages = ["is {n:int} short"]', 'messages = ["is {n:int} short"]\nkinds = ["crash"]'),
        ('kind = "flag"', 'kind = "magic"'),
        ('kind = "flag"', 'kind = "advice"'),
        ('field = "share"', 'field = "share"\nvariable = "SHARE"'),
        ('field = "share"', ""),
        ('value = "1"', 'value = "1"\ncompute = "half_requests"'),
        ('id = "one"', 'id = "one"\ncolour = "red"'),
    ],
)
def test_a_broken_entry_is_refused_by_its_file(tmp_path: Path, old: str, new: str) -> None:
    assert old in ENTRY
    with pytest.raises(KnowledgeError) as caught:
        read_failures(write_entry(tmp_path, ENTRY.replace(old, new, 1)))
    assert "one.toml" in str(caught.value)


def test_an_entry_may_stand_only_once(tmp_path: Path) -> None:
    write_entry(tmp_path, ENTRY)
    (tmp_path / "two.toml").write_text(ENTRY, encoding="utf-8")
    with pytest.raises(KnowledgeError):
        read_failures(tmp_path)
