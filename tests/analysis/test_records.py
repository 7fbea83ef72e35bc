"""Messages of a log: which statement printed them, with what values, and what that decides. Python itself prints the messages."""

# ruff: noqa: E501
from __future__ import annotations

import io
import itertools
import logging
import textwrap
from collections.abc import Sequence

import pytest

from tests.analysis.snippet_runs import FACTS, PROFILE, TAIL, Story, make_evaluator, plain, really
from triage.analysis.evaluate import Evaluation, Evaluator, Program
from triage.analysis.failure import find_failure
from triage.analysis.guards import complete_path
from triage.analysis.log import read_log
from triage.analysis.observed import compare_settings, find_message_values, find_printed_args, name_fields, read_args
from triage.analysis.records import Match, find_matches
from triage.analysis.source import find_sites
from triage.analysis.trees import MemoryTree
from triage.analysis.witnesses import hear_log, make_proofs
from triage.model import ExitStatus, Facts, LogRecord

HEAD = f"""\
import logging
import os
import torch
import warnings

logger = logging.getLogger("toy")

def facts():
    return {", ".join(FACTS)}

"""


def write(body: str) -> str:
    return HEAD + "def work(argv):\n    A, B, C = facts()\n" + textwrap.indent(textwrap.dedent(body).strip(), "    ") + "\n"


def records(*messages: str) -> tuple[LogRecord, ...]:
    return tuple(LogRecord(text, i + 1, i + 1, stamp="12:00:00") for i, text in enumerate(messages))


def run(source: str, truths: Sequence[bool]) -> tuple[Story, tuple[LogRecord, ...]]:
    """What Python does with these facts, and the records of the log that it writes."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("[%(asctime)s] %(message)s", "%Y-%m-%d %H:%M:%S"))
    logger = logging.getLogger("toy")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        story = really(source, [], truths)
    finally:
        logger.removeHandler(handler)
    return story, read_log(stream.getvalue().encode()).records


def hear(source: str, found: Sequence[LogRecord], optimistic: bool = False) -> Evaluation:
    evaluator = make_evaluator({"toy/main.py": source + TAIL})
    evaluator.machine.optimistic = optimistic
    evaluator.witness([], make_proofs(find_matches(found, [("toy/main.py", source)])))
    evaluation = evaluator.evaluate([])
    return again(evaluator, evaluation) if evaluation.told else evaluation


def again(evaluator: Evaluator, evaluation: Evaluation) -> Evaluation:
    evaluator.learn(evaluation.told)
    return evaluator.evaluate([])


# ---------------------------------------------------------------- which statement, which values
FORMS = {
    "f-string": ("logger.info(f'the page size is {x} for {y!r}')", {"x": "64", "y": "'fast'"}),
    "percent": ("logger.warning('the page size is %d for %s', x, y)", {"x": "64", "y": "fast"}),
    "percent by the text": ("logger.warning('the page size is %d for %s' % (x, y))", {"x": "64", "y": "fast"}),
    "format": ("logger.error('the page size is {} for {name}'.format(x, name=y))", {"x": "64", "y": "fast"}),
    "pieces": ("logger.info(\n    'the page '\n    f'size is {x} '\n    'for us all'\n)", {"x": "64"}),
    "sum": ("logger.info('the page size is ' + str(x) + ' for us')", {"str(x)": "64"}),
    "a field": ("logger.info(f'the page size {x=} stands')", {"x": "64"}),
    "a width": ("logger.debug(f'the page size is {x:>6d} for {y:>8s}')", {"x": "    64", "y": "    fast"}),
    "no value": ("logger.warning('the page size is 100% right')", {}),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    call, values = FORMS[name]
    source = write(f"x, y = 64, 'fast'\n{call}\nreturn x")
    _story, found = run(source, (False, False, False))
    (match,) = find_matches(found, [("toy/main.py", source)])
    first = source[: source.index("logger.", source.index("def work"))].count("\n") + 1
    statement = match.sure
    assert statement is not None
    assert (statement.file, statement.first) == ("toy/main.py", first)
    assert {v.expression: v.text for v in match.values} == values


def matches(source: str, *messages: str) -> tuple[Match, ...]:
    return find_matches(records(*messages), [("a.py", source)])


def test_too_little_text_matches_nothing() -> None:
    assert matches("logger.info(f'{a}: {b}')\nlogger.info('ok %s', a)", "ok then: what is this long message about") == ()


def test_a_message_of_another_statement_matches_nothing() -> None:
    source = "logger.warning(f'page size is changed to {x} for this backend')\n"
    assert matches(source, "page size is changed to 64 for that backend") == ()
    assert matches(source, "note: page size is changed to 64 for this backend") == ()


def test_a_number_is_a_number() -> None:
    source = "logger.warning('the number of pages is %d', n)\n"
    assert matches(source, "the number of pages is unknown") == ()
    assert len(matches(source, "the number of pages is 12")) == 1


def test_the_same_text_twice_is_ambiguous() -> None:
    source = "logger.warning('overlap schedule is disabled')\nlogger.warning('overlap schedule is disabled')\n"
    (match,) = matches(source, "overlap schedule is disabled")
    assert match.sure is None
    assert [s.first for s in match.statements] == [1, 2]
    assert make_proofs([match]) == ()


def test_the_fuller_text_wins() -> None:
    source = "logger.warning(f'{a} is not supported')\nlogger.warning(f'page size {n} with fp8 is not supported')\n"
    (match,) = matches(source, "page size 64 with fp8 is not supported")
    assert match.sure is not None
    assert match.sure.first == 2


def test_where_a_value_ends_is_not_guessed() -> None:
    (match,) = matches("logger.info(f'the names of it are {a}, {b} here')", "the names of it are x, y, z here")
    assert [v.text for v in match.values] == [None, None]


def test_bare_lines_of_one_record_are_told_apart() -> None:
    log = read_log(b"Attention backend is chosen by default.\nOverlap schedule is disabled now.\n")
    source = "logger.warning('Attention backend is chosen by default.')\nlogger.warning('Overlap schedule is disabled now.')\n"
    found = find_matches(log.records, [("a.py", source)])
    assert [(m.log_line, m.sure and m.sure.first) for m in found] == [(1, 1), (2, 2)]


def test_a_colour_is_no_text() -> None:
    log = read_log(b"[2026-05-11 23:23:32] \x1b[1;33m'--old' is deprecated, use '--new'\x1b[0m\n")
    source = "def warn(m):\n    pass\nprint_warning(f\"\\033[1;33m'{a}' is deprecated, use '{b}'\\033[0m\")\n"
    (match,) = find_matches(log.records, [("a.py", source)])
    assert [v.text for v in match.values] == ["--old", "--new"]


def test_a_value_with_newlines() -> None:
    (match,) = matches("logger.error(f'loading the extension failed: {e}')", "loading the extension failed: one\ntwo\nthree")
    assert [v.text for v in match.values] == ["one\ntwo\nthree"]


def test_hostile_messages_end() -> None:
    holes = "".join(f"a{{x{i}}}" for i in range(40))
    source = f"logger.info(f'the hostile message {holes}b')\n"
    assert matches(source, "the hostile message " + "a" * 5000, "the hostile message " + "ab" * 2500) != ()


def test_a_long_log_keeps_its_start() -> None:
    source = "logger.info('the first of all messages')\nlogger.info('the last of all messages')\n"
    noise = [f"a request came in with the number {i}" for i in range(20_000)]
    found = matches(source, "the first of all messages", *noise, "the last of all messages", "the last of all messages")
    assert [(m.message, m.log_line, m.count) for m in found] == [
        ("the first of all messages", 1, 1),
        ("the last of all messages", 20_002, 2),
    ]


def test_broken_sources_are_passed_over() -> None:
    assert matches("logger.info('the page size is' % (\nlogger.info(f'the page {')\n'''logger.info(", "the page size is") == ()


# ---------------------------------------------------------------- what it decides
BODIES = {
    "the side that prints": ("if A:\n    logger.info('taking the first of the ways')\n    return 1\nreturn 2", 4),
    "in an else": ("if A:\n    x = 1\nelse:\n    x = 2\n    logger.info('the second value is taken')\nreturn x", 4),
    "in a helper": (
        "def h(v):\n    logger.info(f'the helper was called here with {v}')\n    return v\nx = 0\nif B:\n    x = h(3)\nreturn x",
        4,
    ),
    "behind an early return": ("if A:\n    return 1\nlogger.info('went on behind the return')\nreturn 2", 4),
    "behind an assertion": ("assert not C\nlogger.info('went on behind the assertion')\nreturn 2", 4),
    "nested": ("if A:\n    if B:\n        logger.info('both of them hold here')\n        return 1\nreturn 0", 2),
    "both sides print": (
        "if A:\n    logger.info('the first side was taken')\n    x = 1\n"
        "else:\n    logger.info('the other side was taken')\n    x = 2\nreturn x",
        8,
    ),
    "twice in a loop": (
        "o = []\nfor c in (A, B):\n    if c:\n        logger.info('one of the two holds')\n    o.append(c)\nreturn o",
        2,
    ),
    "twice by calls": (
        "def h(c):\n    if c:\n        logger.info('one of the two holds')\n        return 1\n    return 0\nreturn [h(A), h(B)]",
        2,
    ),
    "later anyway": (
        "def h():\n    logger.info('the helper speaks in any case')\nx = 0\nif A:\n    x = 1\n    h()\nif not A:\n    h()\nreturn x",
        0,
    ),
    "the other branch": (
        "for c in (False, True):\n    if c:\n        logger.info('in the second of the rounds')\n    elif A:\n        return 1\nreturn 2",
        0,
    ),
    "caught": (
        "try:\n    if A:\n        raise KeyError('x')\nexcept KeyError:\n    pass\nlogger.info('went on in both cases')\nreturn 1",
        0,
    ),
}


@pytest.mark.parametrize("optimistic", [False, True])
@pytest.mark.parametrize("name", BODIES)
def test_what_a_message_decides_holds(name: str, optimistic: bool) -> None:
    """In each of the eight worlds: what the messages decide is so there. How many worlds have a test decided is worked out by hand."""
    body, worlds = BODIES[name]
    source = write(body)
    decided = 0
    for truths in itertools.product((True, False), repeat=3):
        story, found = run(source, truths)
        said = hear(source, found, optimistic)
        world = dict(zip(FACTS, truths, strict=True))
        for fact, truth in said.observed.items():
            if fact.removeprefix("not ") in world:
                assert truth == (world[fact.removeprefix("not ")] != fact.startswith("not ")), (truths, said.decided)
        decided += bool(said.decided)
        if not said.supposed and said.verdict == "passes" and story.exception is None and "?" not in repr(said.settings["out"]):
            out = plain(said.settings["out"])
            if "<unknown" not in repr(out):
                assert out == story.value, (truths, said.decided)
    assert decided == worlds


def test_a_printed_value_is_taken() -> None:
    source = write("n = torch.cuda.device_count()\nlogger.info(f'the number of devices is {n}')\nassert n % 2 == 0\nreturn n")
    said = hear(source, records("the number of devices is 8"))
    assert (said.verdict, said.settings["out"]) == ("passes", 8)
    said = hear(source, records("the number of devices is 7"))
    assert said.verdict == "fails"


def test_a_printed_value_holds_before_it_was_printed() -> None:
    source = write(
        "if torch.cuda.device_count() > 4:\n    x = 1\nelse:\n    x = 2\n"
        "n = torch.cuda.device_count()\nlogger.info(f'the number of devices is {n}')\nreturn x"
    )
    assert hear(source, records("the number of devices is 8")).settings["out"] == 1


def test_a_masked_value_is_not_taken() -> None:
    source = write("n = os.path.exists(argv)\nlogger.info(f'the number of devices is {n}')\nreturn n")
    assert not hear(source, records("the number of devices is <masked>")).told


def test_a_message_that_is_never_printed_is_named() -> None:
    source = write("if False:\n    logger.info('this side is never taken')\nreturn 1")
    said = hear(source, records("this side is never taken"))
    assert [(p.file, p.first) for p in said.unprinted] == [("toy/main.py", source[: source.index("logger.info")].count("\n") + 1)]


# ---------------------------------------------------------------- the printed args object
def test_printed_args() -> None:
    text = (
        "ServerArgs(a=1, b='x, y=(2', c=None, d=[1, {'k': \"it's\"}], e=<Mode.FAST: 'fast'>, f=1e-05, g=('a',), h=float('inf'))"
    )
    fields, complete = read_args(text.partition("(")[2])
    assert complete
    assert {k: v.value for k, v in fields.items() if v.literal} == {
        "a": 1, "b": "x, y=(2", "c": None, "d": [1, {"k": "it's"}], "f": 1e-05, "g": ("a",)
    }  # fmt: skip
    assert fields["e"].text == "<Mode.FAST: 'fast'>"
    assert fields["h"].text == "float('inf')"


@pytest.mark.parametrize("cut", range(10, 40))
def test_a_cut_line_gives_whole_values_only(cut: str) -> None:
    text = "a=1, b='x, y=(2', c=[1, 2], d='end')"[: int(cut)]
    fields, complete = read_args(text)
    whole = {"a": 1, "b": "x, y=(2", "c": [1, 2], "d": "end"}
    assert {k: v.value for k, v in fields.items()}.items() <= whole.items()
    assert complete == text.endswith(")")


def test_the_printed_dict() -> None:
    found = find_printed_args(records("noise", "server_args={'a': 1, 'b': {'c': 2}}"), "ServerArgs")
    assert found is not None
    assert ({k: v.value for k, v in found.fields.items()}, found.complete, found.log_line) == ({"a": 1, "b": {"c": 2}}, True, 2)


def test_hostile_objects_end() -> None:
    for text in ("a=" + "(" * 50_000, "a='" + "x" * 50_000, "a=1, " * 50_000, "a=<" * 20_000, "=" * 1000, ""):
        fields, _complete = read_args(text)
        assert len(fields) <= 3000


def test_settings_against_the_printed_ones() -> None:
    from triage.analysis.evaluate.values import Unknown

    found = find_printed_args(records("server_args=ServerArgs(a=1, b='x', c=2.0, d=(1, 2), e='<masked>', f=7)"), "ServerArgs")
    assert found is not None
    held = {"a": Unknown("gpus", "not known"), "b": "y", "c": 2, "d": [1, 2], "e": "secret", "f": 7, "g": 1}
    told, against = compare_settings(held, found)
    assert told == {"a": "1"}
    assert len(against) == 1
    assert "'x'" in against[0] and "'y'" in against[0] and against[0].startswith("b ")


# ---------------------------------------------------------------- a log and a launch
def test_a_log_is_heard() -> None:
    """A bare log with a message and a printed value: what was supposed becomes known, and each has its evidence."""
    source = write(
        "if A:\n    logger.info('the fast way is taken here')\n    n = 1\nelse:\n    n = 2\n"
        "assert n != 1, f'{n} is the fast way, which this host does not have'"
    )
    story, _found = run(source, (True, False, False))
    lines = source.split("\n")
    line = next(i for i, text in enumerate(lines, 1) if text.strip().startswith("assert"))
    assert (story.exception, story.line) == ("AssertionError", line)
    path = "/opt/site/toy/main.py"
    text = (
        "[2026-05-11 23:23:32] the fast way is taken here\n"
        "Traceback (most recent call last):\n"
        f'  File "{path}", line {line}, in work\n    {lines[line - 1].strip()}\n'
        f"AssertionError: {story.message}\n"
    )
    log = read_log(text.encode())
    failure = find_failure(log, ExitStatus(1), "toy")
    assert failure is not None
    tree = MemoryTree({"toy/__init__.py": b"", "toy/main.py": (source + TAIL).encode()})
    sites, _lost = find_sites(failure, tree)
    evaluator = Evaluator(Program(tree, "toy"), PROFILE, Facts(), {}, (), optimistic=True)
    before = evaluator.evaluate([])
    assert (before.verdict, before.raised) == ("unknown", None)

    def agrees(one: Evaluation) -> bool:
        return one.raised is not None and one.raised.site is not None and one.raised.site.line == line

    heard = hear_log(log, failure, complete_path(sites, tree, failure), evaluator, [], (), agrees)
    assert heard.evaluation.verdict == "fails"
    assert heard.evaluation.observed == {"torch.cuda.is_available()": True}
    message, said = heard.evidence
    assert (message.log_line, message.location and message.location.line) == (
        1,
        next(i for i, t in enumerate(lines, 1) if "fast way is" in t),
    )
    assert "n = 1" in said.text
    assert heard.unknowns == ()


# ---------------------------------------------------------------- the failing message
def test_values_of_the_message() -> None:
    statement = "raise ValueError(\n    f'{self.heads} heads do not divide by {self.tp_size}'\n)"
    values = find_message_values(statement, "30 heads do not divide by 8")
    assert [(v.expression, v.text) for v in values] == [("self.heads", "30"), ("self.tp_size", "8")]
    assert name_fields(values, {"tp_size": 8}) == {"tp_size": "8"}
    assert find_message_values(statement, "something else") == ()
    values = find_message_values("assert x, 'page size %s is not one of %s' % (a.page, b)", "page size 3 is not one of [1, 2]")
    assert [v.text for v in values] == ["3", "[1, 2]"]
