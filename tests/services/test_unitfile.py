"""The unit parser's own round trips; that it agrees with systemd is test_systemd_lab's matter."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from triage.argv import EditedWord
from triage.errors import ServiceError
from triage.services.dropin import choose_basename, rebuild_words, render_command, render_dropin
from triage.services.journal import drop_partial_head, join_messages, parse_export, select_run
from triage.services.unitfile import (
    UnitSyntaxError,
    expand_specifiers,
    expand_variables,
    parse_env_file,
    parse_exec,
    parse_unit,
    quote_word,
    split_words,
    values_of,
)

WORD = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])) | st.text(
    st.sampled_from("ab '\"\\$%;#=-\n\t\udcff{}"), max_size=12
)


def read_back(value: str) -> list[str]:
    values = values_of(parse_unit(f"[Service]\nExecStart={value}\n"), "Service", "ExecStart")
    (command,) = parse_exec(values[0])
    return [w for word in command.words for w in expand_variables(expand_specifiers(word.text, {}), {})]


@given(st.lists(WORD, min_size=1, max_size=8))
def test_written_words_read_back(words: list[str]) -> None:
    new = [*rebuild_words((), (), 0, [EditedWord(w, None) for w in ("/bin/p", *words)], True)]
    assert read_back(render_command("-", new)) == ["/bin/p", *words]
    assert read_back(render_command("", [*new, *new])) == ["/bin/p", *words] * 2


@given(st.dictionaries(st.from_regex(r"[A-Z_]{1,6}", fullmatch=True), WORD, max_size=4))
def test_written_variables_read_back(env: dict[str, str]) -> None:
    text = render_dropin([], [f"{k}={v}" for k, v in env.items()], [])
    entries = [w.text for v in values_of(parse_unit(text), "Service", "Environment") for w in split_words(v)]
    assert dict(expand_specifiers(e, {}).split("=", 1) for e in entries) == env


@given(st.text(st.sampled_from("a '\"\\;$%\t-@=x0n"), max_size=30))
@example(r"a 'b\' c' \; --x=\"$$\"")
def test_raw_words_are_the_text_itself(value: str) -> None:
    try:
        commands = parse_exec(f"/bin/p {value}")
    except UnitSyntaxError:
        return
    if len(commands) != 1 or f" {value}".rstrip(" \t").endswith((" ;", "\t;")):
        return
    raw = commands[0].prefix + "".join(w.raw for w in commands[0].words)
    assert [c for c in raw if c not in " \t"] == [c for c in f"/bin/p{value}" if c not in " \t"]


@given(st.text(), st.text())
def test_any_text_is_parsed_or_refused_cleanly(unit: str, value: str) -> None:
    parse_unit(unit)
    parse_env_file(unit)
    try:
        parse_exec(value)
        split_words(value)
    except UnitSyntaxError:
        pass


def test_a_nul_cannot_be_written() -> None:
    with pytest.raises(UnitSyntaxError):
        quote_word("a\0b")


def test_env_files_are_read_as_a_person_reads_them() -> None:
    text = '# c\n;c\nA=1\nB = spaced out  \nC=\'single $x\' \nD="double \\"q\\" \\n"\nE=a\\\n b\nbad line\n1X=no\n'
    text += "F='two\nlines'\nG=\n"
    assert parse_env_file(text) == {
        "A": "1", "B": "spaced out", "C": "single $x", "D": 'double "q" \\n', "E": "a b", "F": "two\nlines", "G": "",
    }  # fmt: skip


def test_a_reset_drops_what_came_before() -> None:
    text = "[Service]\nExecStart=/a\nExecStart=\n[Unit]\nExecStart=/no\n[Service]\nExecStart=/b \\\n# c\n  x\nExecStart=/c"
    assert values_of(parse_unit(text), "Service", "ExecStart") == ("/b  x", "/c")


def test_our_name_is_read_last() -> None:
    for others in ([], ["10-a.conf"], ["zzz.conf", "a.conf"], ["~x.conf"], ["zz-triage.conf"], ["~~~~.conf"]):
        assert all(choose_basename(others).encode() > o.encode() for o in others)
    assert choose_basename(["override.conf"]) == "zz-triage.conf"
    with pytest.raises(ServiceError):
        choose_basename(["\xff.conf"])


# ---------------------------------------------------------------- journal
def export(*records: dict[str, bytes], binary: bool = False) -> bytes:
    out = b""
    for i, record in enumerate(records):
        out += b"__CURSOR=c%d\n" % i
        for name, value in record.items():
            if binary or b"\n" in value:
                out += name.encode() + b"\n" + len(value).to_bytes(8, "little") + value + b"\n"
            else:
                out += name.encode() + b"=" + value + b"\n"
        out += b"\n"
    return out


@given(st.lists(st.binary(), max_size=6), st.booleans())
def test_messages_of_any_bytes_come_back(messages: list[bytes], binary: bool) -> None:
    data = export(*({"MESSAGE": m} for m in messages), binary=binary)
    assert [r.message for r in parse_export(data)] == messages
    joined, cursor = join_messages(parse_export(data))
    assert joined == b"".join(m + b"\n" for m in messages)
    assert cursor == (f"c{len(messages) - 1}" if messages else None)


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=5), st.integers(0, 400))
def test_cut_export_text_gives_whole_records_only(messages: list[bytes], at: int) -> None:
    data = export(*({"MESSAGE": m} for m in messages), binary=True)
    for part in (data[: at % len(data)], drop_partial_head(data[at % len(data) :])):
        assert all(r.message in messages for r in parse_export(part) if r.cursor.startswith("c") and "MESSAGE" in r.fields)


def test_the_real_format_of_journal_remote(tmp_path: Path) -> None:
    """A file made by systemd's own tool and read by journalctl."""
    tool = Path("/lib/systemd/systemd-journal-remote")
    if not tool.exists():
        pytest.skip("systemd-journal-remote is not installed")
    big = b"k" * 6000
    times = "__REALTIME_TIMESTAMP=1788000000000000\n__MONOTONIC_TIMESTAMP=5\n_BOOT_ID=0123456789abcdef0123456789abcdef\n"
    records = export({"MESSAGE": big}, {"MESSAGE": b"\x1b[1m\n\xff"}, binary=True)
    (tmp_path / "in").write_bytes(re.sub(rb"^__CURSOR=c\d\n", times.encode(), records, flags=re.M))
    subprocess.run([tool, f"--output={tmp_path / 'x.journal'}", tmp_path / "in"], check=True)
    out = subprocess.run(
        ["journalctl", "-o", "export", f"--file={tmp_path / 'x.journal'}"], capture_output=True, check=True
    ).stdout
    assert [r.message for r in parse_export(out)] == [big, b"\x1b[1m\n\xff"]


def test_split_lines_are_joined_by_stream() -> None:
    records = parse_export(
        export(
            {"MESSAGE": b"a1", "_STREAM_ID": b"A", "_LINE_BREAK": b"line-max"},
            {"MESSAGE": b"b", "_STREAM_ID": b"B"},
            {"MESSAGE": b"a2", "_STREAM_ID": b"A"},
            {"MESSAGE": b"open", "_STREAM_ID": b"A", "_LINE_BREAK": b"line-max"},
        )
    )
    assert join_messages(records)[0] == b"b\na1a2\nopen"


def test_a_nameless_line_belongs_to_the_run_until_another_begins() -> None:
    one, two = b"1" * 32, b"2" * 32
    records = [
        {"MESSAGE": b"Started", "INVOCATION_ID": one},
        {"MESSAGE": b"quick", "_STREAM_ID": b"A"},
        {"MESSAGE": b"named", "_STREAM_ID": b"B", "_SYSTEMD_INVOCATION_ID": one},
        {"MESSAGE": b"Started again", "INVOCATION_ID": two},
        {"MESSAGE": b"of the next", "_STREAM_ID": b"C"},
        {"MESSAGE": b"late", "_STREAM_ID": b"B", "_SYSTEMD_INVOCATION_ID": one},
    ]
    kept = select_run(parse_export(export(*records)), one.decode(), "INVOCATION_ID")
    assert [r.message for r in kept] == [b"Started", b"quick", b"named", b"late"]
