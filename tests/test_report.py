"""Reports: what they say of a failure, and that nothing in a record can act as markup or as a control in any format."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from triage.model import (
    Attempt,
    Cause,
    Constraint,
    Diagnosis,
    Edit,
    Evidence,
    Failure,
    Frame,
    Guard,
    Location,
    Observation,
    OutcomeName,
    Patch,
    PathCondition,
    Plan,
    Raised,
    Session,
    SetAside,
    Setting,
    SilentChange,
    Site,
    Unknown,
)
from triage.report import FORMATS, render_html, render_json, render_markdown, render_report, render_text
from triage.report.markdown import escape_prose, quote_code

ROOT = Path(__file__).resolve().parent.parent
ARGS = "shop/args.py"
STATEMENT = """\
assert (
    args.draft_steps is not None
    and args.draft_width is not None
), "steps and width go together\""""


def make_diagnosis() -> Diagnosis:
    """A failure of an imaginary server, with every field of a diagnosis used once."""
    check = Location(ARGS, 52, 55)
    frames = (
        Frame("/opt/v/shop/launch.py", 9, "main", "args = prepare(argv)", "shop/launch.py"),
        Frame("/opt/v/shop/args.py", 54, "check_draft", "and args.draft_width is not None", ARGS),
    )
    failure = Failure(
        "exception",
        "AssertionError",
        "steps and width go together",
        frames,
        chain=(Raised("KeyError", "'draft'", frames[1:], 3, 5),),
        ranks=("TP0", "TP1"),
        first=11,
        last=19,
        set_aside=(SetAside("ConnectionResetError", "follows when a rank dies", 31),),
    )
    outer = Site(Location("shop/launch.py", 9, 9), "main", "assign", "args = prepare(argv)")
    guards = (
        Guard(Location(ARGS, 40), "args.draft_mode == 'tree'", True, "if"),
        Guard(Location(ARGS, 44), "args.safe", False, "early_exit"),
    )
    site = Site(check, "check_draft", "assert", STATEMENT, guards, at=54)
    constraint = Constraint(
        ("draft_mode is 'tree'",), "draft_steps and draft_width given together", ("draft_steps", "draft_width"), check
    )
    silent = SilentChange("draft_tokens", "3", "2", Location(ARGS, 70))
    best = Patch(
        (Edit("add", "--draft-width", None, "4"), Edit("env", "SHOP_MODE", "a", "b"), Edit("add", "--eager")),
        ("--draft-steps", "2", "--draft-width", "4", "--eager"),
        {"SHOP_MODE": "b", "A_FIRST": "1"},
        "proved",
        "the check needs both",
        silent=(silent,),
    )
    other = Patch(
        (Edit("remove", "--draft-steps", "2"),), (), {}, "likely", "neither is given", losses=("the steps that were asked for",)
    )
    return Diagnosis(
        "patch",
        failure,
        PathCondition((outer, site)),
        Cause("argument", "Steps were given without a width.", (constraint,), (Evidence("log", "AssertionError", log_line=19),)),
        (best, other),
        (
            Setting("draft_steps", "2", "typed", "--draft-steps 2"),
            Setting("draft_width", "None", "default", location=Location(ARGS, 12)),
        ),
        (silent,),
        (Unknown("the card", "no facts were given", "--fact gpu_name=..."),),
    )


def make_session(diagnosis: Diagnosis) -> Session:
    patch = diagnosis.patches[0]
    return Session(
        "20261130-1",
        "ct1",
        "shop.service",
        "2026-11-30T10:00:00Z",
        "fixed",
        "healthy after one restart",
        diagnosis,
        (Attempt(1, patch, Observation("healthy", "ready", 4.25, "answers on port 30001", "abc"), None),),
        patch,
        Plan("write a drop-in", (), (), "--- before\n+++ after\n-python -m shop\n+python -m shop --draft-width 4\n"),
    )


EXPECTED_TEXT = """\
The cause is found and a patch is proposed. Nothing was changed.

What failed
  AssertionError: steps and width go together in check_draft, shop/args.py:54
  seen on 2 ranks: TP0, TP1; log lines 11 to 19
  raised from KeyError: 'draft' at shop/args.py:54
  The call path, outermost first:
    shop/launch.py:9 main  args = prepare(argv)
    shop/args.py:52 check_draft  assert ( ...
  Control came to the failing statement because, outermost first:
  where            test                          came out
  shop/args.py:40  if args.draft_mode == 'tree'  true
  shop/args.py:44  args.safe                     false
  shop/args.py:52 in check_draft:
        52 | assert (
        53 |     args.draft_steps is not None
  ->    54 |     and args.draft_width is not None
        55 | ), "steps and width go together"
  Also in the log, and not the cause:
  - follows when a rank dies, log line 31: ConnectionResetError

Why
  Steps were given without a width.
  - shop/args.py:52: when draft_mode is 'tree', need draft_steps and draft_width given together
  Category: argument

Settings that belong together
  setting      value  origin   from
  draft_steps  2      typed    --draft-steps 2
  draft_width  None   default  shop/args.py:12

Proposed patch
  + --draft-width 4
  - SHOP_MODE=a
  + SHOP_MODE=b
  + --eager
  the check needs both
  Certainty: proved
  Typed values that the patched launch still replaces silently:
  setting       asked  used  line
  draft_tokens  3      2     shop/args.py:70

Changed silently in the launch as typed
  setting       asked  used  line
  draft_tokens  3      2     shop/args.py:70

Evidence
  - log line 19: AssertionError

Alternatives
  patch              certainty  loses or changes silently
  - --draft-steps 2  likely     the steps that were asked for

What is not known
  - the card: no facts were given (to settle it: --fact gpu_name=...)
"""


def test_text_says_what_failed_why_and_what_to_change() -> None:
    assert render_text(make_diagnosis(), 100) == EXPECTED_TEXT


def test_json_has_the_contract_s_names_and_values() -> None:
    found = json.loads(render_json(make_diagnosis()))
    assert (found["schema"], found["outcome"]) == (1, "patch")
    contract = {
        "kind": "exception",
        "exception": "AssertionError",
        "message": "steps and width go together",
        "file": ARGS,
        "line": 54,
        "function": "check_draft",
        "rank": "TP0",
    }
    assert {key: found["failure"][key] for key in contract} == contract
    assert found["cause"]["category"] == "argument"
    assert found["cause"]["text"] == "Steps were given without a width."
    assert found["cause"]["constraints"] == ["when draft_mode is 'tree', need draft_steps and draft_width given together"]
    assert found["cause"]["evidence"][0]["log_line"] == 19
    assert found["patches"][0]["edits"] == [
        {"action": "add", "name": "--draft-width", "old": None, "new": "4"},
        {"action": "env", "name": "SHOP_MODE", "old": "a", "new": "b"},
        {"action": "add", "name": "--eager", "old": None, "new": None},
    ]
    assert found["patches"][0]["argv"] == ["--draft-steps", "2", "--draft-width", "4", "--eager"]
    assert list(found["patches"][0]["env"].items()) == [("A_FIRST", "1"), ("SHOP_MODE", "b")]
    assert found["patches"][0]["certainty"] == "proved"
    assert found["patches"][0]["why"] == "the check needs both"
    assert found["unknowns"] == [{"what": "the card", "why": "no facts were given", "settle": "--fact gpu_name=..."}]
    change = {"field": "draft_tokens", "asked": "3", "used": "2", "file": ARGS, "line": 70, "why": ""}
    assert found["silent_changes"] == [change]
    assert [s["origin"] for s in found["settings"]] == ["typed", "default"]


@pytest.mark.parametrize("outcome", ["no_failure", "healthy"])
def test_json_of_a_diagnosis_without_a_failure(outcome: OutcomeName) -> None:
    found = json.loads(render_json(Diagnosis(outcome, None, None, None)))
    assert (found["failure"], found["cause"], found["patches"], found["unknowns"]) == (None, None, [], [])


def test_json_of_a_session_holds_what_replay_prints() -> None:
    diagnosis = make_diagnosis()
    whole = json.loads(render_json(make_session(diagnosis)))
    assert whole["outcome"] == "fixed"
    assert json.dumps(whole["session"]["diagnosis"], indent=2) + "\n" == render_json(diagnosis)
    assert whole["session"]["attempts"][0]["observation"]["verdict"] == "healthy"
    assert whole["session"]["applied"]["edits"][0]["name"] == "--draft-width"
    assert whole["failure"]["line"] == 54


@pytest.mark.parametrize("format_name", FORMATS)
def test_the_same_record_gives_the_same_bytes_in_every_process(format_name: str) -> None:
    program = (
        "import sys; sys.path[:0] = ['tests', '.']; import test_report as t; from triage.report import render_report;"
        f"sys.stdout.write(render_report(t.make_session(t.make_diagnosis()), {format_name!r}))"
    )
    outputs = set()
    for seed in ("1", "2", "3"):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        outputs.add(subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=env, capture_output=True, check=True).stdout)
    assert len(outputs) == 1
    assert b"--draft-width" in outputs.pop()


def test_a_session_s_report_tells_change_and_attempts() -> None:
    text = render_text(make_session(make_diagnosis()), 120)
    assert "Fixed: the service is healthy with the change below." in text
    assert "shop.service on ct1, session 20261130-1" in text
    assert re.search(r"1 +\+ --draft-width 4, - SHOP_MODE=a, \+ SHOP_MODE=b, \+ --eager +healthy +4\.2 +ready", text)
    assert "  - python -m shop\n  + python -m shop --draft-width 4\n" in text
    assert "Proposed patch" not in text


def test_a_source_that_changed_since_is_said() -> None:
    diagnosis = make_diagnosis()
    assert diagnosis.path
    site = replace(diagnosis.path.sites[-1], matches=False)
    for format_name in ("text", "md", "html"):
        assert "the source may have changed since" in render_report(replace(diagnosis, path=PathCondition((site,))), format_name)


# ------------------------------------------------------------------------------------------------ hostile text
HOSTILE = [
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b]8;;http://evil.example\x07link\x1b]8;;\x07",
    "\x9b31m \x90q\x9c \u202egnitirw\u202c \u2066a\u2069 \x00\x08\x7f\r over",
    "[bold red]markup[/bold red] [link=http://evil.example]x[/link] [/] :smile:",
    "<script>alert(1)</script><img src=x onerror=alert(1)> \"' & &amp; {{ 7 * 7 }} {% raw %}",
    "``` \n```\n# heading\n<b>x</b>\n| a | b |\n|---|---|\n",
    "[x](http://evil.example) ![i](http://evil.example/i.png) <http://evil.example>",
    "www.evil.example https://evil.example a@evil.example",
    "- item\n+ item\n* item\n1. item\n> quote\n    code\n***\n===\n---\n~~~\nx",
    "a | b \\| c \\\\| `d` | ``e`` \\",
    "$(reboot); `reboot` && x",
    "\ud800 \udcff",
    "é漢字🙂\u200b\u200d" * 50,
    "x" * 50_000,
]


def fill(text: str) -> Session:
    """A session in which every free text is `text`."""
    location = Location(text, 3)
    frame = Frame(text, 3, text, text, text)
    failure = Failure(
        "exception",
        text,
        text,
        (frame,),
        (Raised(text, text, (frame,), 1, 2, text, (text,)),),
        (text,),
        1,
        2,
        None,
        (SetAside(text, text, 3),),
    )
    site = Site(location, text, text, f"{text}\n{text}", (Guard(location, text, True, "if"),), matches=False)
    silent = SilentChange(text, text, text, location)
    edits = (
        Edit("add", text, None, text),
        Edit("set", text, text, text),
        Edit("env", text, text, text),
        Edit("remove", text, text),
    )
    patch = Patch(edits, (text,), {text: text}, "guess", text, (text,), (silent,))
    cause = Cause(text, text, (Constraint((text,), text, (text,), location),), (Evidence("source", text, location, 3, text),))
    diagnosis = Diagnosis(
        "patch",
        failure,
        PathCondition((site, site)),
        cause,
        (patch, patch),
        (Setting(text, text, "typed", text, location),),
        (silent,),
        (Unknown(text, text, text),),
    )
    attempt = Attempt(1, patch, Observation("failed", text, 1.0, text, text), diagnosis)
    return Session(
        text, text, text, text, "not_applied", text, diagnosis, (attempt,), None, Plan(text, (), (), f"+{text}\n-{text}")
    )


def find_controls(text: str) -> list[str]:
    bidi = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    return re.findall(rf"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029{bidi}]", text)


class Tags(HTMLParser):
    """Collects what a browser would make of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def flatten(tokens: list[Token]) -> list[Token]:
    return [inner for token in tokens for inner in (token, *flatten(token.children or []))]


def check_every_format(subject: Session) -> None:
    for width in (12, 20, 80):
        text = render_text(subject, width)
        assert find_controls(text) == []
    assert json.loads(render_json(subject))["session"]["why"] == subject.why
    assert find_controls(render_json(subject)) == []

    page = render_html(subject)
    assert find_controls(page) == []
    tags = Tags()
    tags.feed(page)
    structure = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "ul", "li", "code", "pre", "span"}
    assert tags.tags <= structure | {"table", "tr", "th", "td", "figure", "figcaption"}
    assert tags.attributes <= {"lang", "charset", "http-equiv", "content", "name", "class"}

    document = render_markdown(subject)
    assert find_controls(document) == []
    tokens = flatten(MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(document))
    kinds = {token.type for token in tokens}
    assert (
        kinds
        & {
            "html_block",
            "html_inline",
            "link_open",
            "image",
            "blockquote_open",
            "code_block",
            "hr",
            "ordered_list_open",
            "em_open",
        }
        == set()
    )
    headings = [tokens[i + 1].content for i, token in enumerate(tokens) if token.type == "heading_open"]
    assert headings[0] == "Root-cause report"
    assert set(headings) <= {
        "Root-cause report",
        "Outcome",
        "What failed",
        "Why",
        "Settings that belong together",
        "What was changed",
        "Attempts",
        "Proposed patch",
        "The plan, not in place",
        "Changed silently in the launch as typed",
        "Evidence",
        "Alternatives",
        "What is not known",
    }
    rows: list[int] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append(0)
        elif token.type in ("td_open", "th_open"):
            rows[-1] += 1
    assert set(rows) <= {3, 4, 6}


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_only_text_in_every_format(text: str) -> None:
    check_every_format(fill(text))


@settings(max_examples=60, deadline=None)
@given(st.text(st.one_of(st.characters(), st.sampled_from("`|\\<>[]()*_#-+=~!&\n\x1b{}%$@:/.")), max_size=60))
def test_any_text_is_only_text_in_every_format(text: str) -> None:
    check_every_format(fill(text))


@given(st.text(st.sampled_from("`|\\<>[]()*_#-+=~!& ab1.{}%$@:/"), max_size=40))
def test_markdown_gives_the_text_back(text: str) -> None:
    line = " ".join(text.split())
    reader = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    prose = flatten(reader.parse(escape_prose(text)))
    assert "".join(t.content for t in prose if t.type in ("text", "text_special")) == line
    assert {t.type for t in prose} <= {"paragraph_open", "paragraph_close", "inline", "text", "text_special"}
    code = flatten(reader.parse(f"x {quote_code(text)}"))
    assert [t.content for t in code if t.type == "code_inline"] == ([line] if line else [])


def test_values_are_shown_and_not_dropped() -> None:
    page = render_html(fill("<b>{{ 7 * 7 }}</b>"))
    assert "&lt;b&gt;{{ 7 * 7 }}&lt;/b&gt;" in page
    assert "49" not in page
    assert "[bold]x[/bold]" in render_text(fill("[bold]x[/bold]"), 100)


@pytest.mark.parametrize("width", [1, 20, 37, 69, 70, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for subject in (make_session(make_diagnosis()), fill("word " * 40 + "x" * 300)):
        assert max(len(line) for line in render_text(subject, width).splitlines()) <= max(width, 12)


def test_colour_only_where_it_is_asked_for() -> None:
    assert "\x1b" not in render_text(make_diagnosis(), 80)
    coloured = render_text(make_diagnosis(), 80, colour=True)
    assert re.search("\x1b\\[1;31m->    54", coloured)
    assert re.sub("\x1b\\[[0-9;]*m", "", coloured).split() == render_text(make_diagnosis(), 80).split()
