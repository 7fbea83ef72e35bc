"""Where candidate values come from: guards, names, the release's own choices, the message; and what is never proposed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analysis.small_server import PROFILE, TREE, evaluators
from triage.analysis.candidates import find_candidates, told_settings
from triage.analysis.edits import REMOVE, SET, Candidate, Context, turns_off
from triage.analysis.evaluate import Evaluator, Place, Program, Raised
from triage.analysis.flags import read_flags
from triage.analysis.patch import Target, find_patches
from triage.analysis.suggestions import advice_of, assigned_constants, listed_in
from triage.analysis.trees import MemoryTree
from triage.model import Facts
from triage.protocols import EngineProfile

HEAD = """
import argparse
import dataclasses

LIMITS = {"small": 8, "large": 64}
GOOD = ["fast", "safe"]
STEP = 48
KINDS = ["auto", "rocm_only", "fast", "safe", "odd", "small", "large"]


@dataclasses.dataclass
class Args:
    model: str = "m"
    kind: str = "auto"
    size: int | None = None
    count: int = 1
    scale: float = 1.0
    switch: bool = False
    text: str = "t"
    other_port: int | None = None
    max_rank: int | None = None

    def __post_init__(self):
        if self.kind == "auto":
            self.kind = "safe"
CHECK

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--model", type=str)
        parser.add_argument("--kind", type=str, default="auto", choices=KINDS)
        parser.add_argument("--size", type=int)
        parser.add_argument("--count", type=int, default=1)
        parser.add_argument("--scale", type=float, default=1.0)
        parser.add_argument("--switch", action="store_true")
        parser.add_argument("--text", type=str, default="t")
        parser.add_argument("--other-port", type=int)
        parser.add_argument("--max-rank", type=int)

    @classmethod
    def from_cli_args(cls, args):
        return cls(**{f.name: getattr(args, f.name) for f in dataclasses.fields(cls) if hasattr(args, f.name)})


def prepare_server_args(argv):
    parser = argparse.ArgumentParser()
    Args.add_cli_args(parser)
    return Args.from_cli_args(parser.parse_args(argv))
"""


def candidates(
    check: str,
    *args: str,
    profile: EngineProfile = PROFILE,
    device: str | None = "cuda",
    protected: bool = False,
    assumed: bool = False,
    gpus: int | None = None,
) -> list[Candidate]:
    """The candidates of the failure that this body of `__post_init__` raises for a launch."""
    source = HEAD.replace("CHECK", "\n".join(f"        {line}" for line in check.strip().split("\n")))
    tree = MemoryTree({"small/__init__.py": b"", "small/args.py": source.encode()})
    evaluator = Evaluator(Program(tree, "small"), profile, Facts(device=device, gpu_count=gpus), {})
    result = evaluator.evaluate(args)
    assert result.raised is not None
    context = Context(read_flags(evaluator, tree), profile, tree, args, {}, protected)
    return find_candidates(replace(result.raised, assumed=assumed), result, context, evaluator)


def values(found: list[Candidate], name: str) -> list[str | None]:
    return [c.edits[0].new for c in found if c.edits[0].name == name and c.edits[0].action in ("add", "set")]


@pytest.mark.parametrize(
    ("check", "args", "name", "first"),
    [
        ("assert self.size == 7", (), "--size", "7"),
        ("assert self.size in (5, 6)", (), "--size", "5"),
        ("assert self.size is not None and self.size % STEP == 0", ("--size", "47"), "--size", "48"),
        ("if self.kind not in GOOD:\n    raise ValueError('no')", ("--kind", "odd"), "--kind", "safe"),
        ("limit = LIMITS[self.kind]", ("--kind", "odd"), "--kind", "small"),
        ("allowed = ['large']\nassert self.kind in allowed", ("--kind", "odd"), "--kind", "large"),
        ("assert self.kind == 'fast', 'no'", ("--kind", "odd"), "--kind", "fast"),
        ("if self.kind == 'odd':\n    raise ValueError('use fast here')", ("--kind", "odd"), "--kind", "fast"),
        ("if self.size is None:\n    raise ValueError('please set --size 300')", (), "--size", "300"),
        ("if self.count < 1:\n    raise ValueError('count')", ("--count", "0"), "--count", "1"),
        ("assert self.scale >= 0", ("--scale", "-1"), "--scale", "1.0"),
    ],
)
def test_the_best_value(check: str, args: tuple[str, ...], name: str, first: str) -> None:
    assert values(candidates(check, *args), name)[0] == first


def test_a_negative_number_only_where_the_source_asks_for_it() -> None:
    assert "-1" in values(candidates("assert self.size == -1"), "--size")
    for check in ("assert self.size is not None and self.size > 0", "assert self.size != None"):
        assert all(int(v or 0) > 0 for v in values(candidates(check), "--size"))


def test_the_next_word_of_a_sentence_is_no_value() -> None:
    check = "raise ValueError('--model and --size to be given')"
    assert not {"and", "to"} & {c.edits[0].new for c in candidates(check, protected=True)}


def test_numbers_typed_beside_it_are_tried() -> None:
    assert {"15", "16", "14"} <= set(values(candidates("assert self.size == self.count + 1", "--count", "15"), "--size"))


def test_values_for_another_device_are_not_proposed() -> None:
    profile = replace(PROFILE, platforms={"rocm_*": "hip"})
    check = "assert self.kind == 'rocm_only' or self.kind == 'fast'"
    assert "rocm_only" not in values(candidates(check, "--kind", "odd", profile=profile), "--kind")
    assert "rocm_only" in values(candidates(check, "--kind", "odd", profile=profile, device="hip"), "--kind")
    unknown = values(candidates(check, "--kind", "odd", profile=profile, device=None), "--kind")
    assert unknown.index("rocm_only") > unknown.index("fast")


def test_no_more_gpus_than_there_are() -> None:
    profile = replace(PROFILE, gpu_fields=("size",), nodes_field="count")
    check = "assert self.scale == 3 or self.size == 64 or self.size == 2"
    assert "64" in values(candidates(check, "--size", "1"), "--size")
    assert "64" not in values(candidates(check, "--size", "1", profile=profile, gpus=8), "--size")
    assert "64" in values(candidates(check, "--size", "1", "--count", "8", profile=profile, gpus=8), "--size")
    assert "64" in values(candidates(check, "--size", "1", profile=profile), "--size")
    assert "6400" not in values(candidates(check.replace("64", "6400"), "--size", "1", profile=profile), "--size")


def test_a_port_is_one_beside_the_servers_own() -> None:
    profile = replace(PROFILE, port_field="count")
    check = "assert self.other_port is not None"
    assert values(candidates(check, "--count", "30000", profile=profile, protected=True), "--other-port") == [
        "30001",
        "30002",
        "30003",
    ]


def test_a_maximum_leaves_room() -> None:
    assert values(candidates("assert self.max_rank"), "--max-rank")[0] == "16"
    assert values(candidates("assert self.size"), "--size")[0] == "1"


def test_protected_settings_need_consent() -> None:
    check = "assert self.model == 'x'"
    assert values(candidates(check, "--model", "m"), "--model") == []
    assert values(candidates(check, "--model", "m", protected=True), "--model") == ["x"]


def test_a_switch_names_no_file() -> None:
    """Patterns of names that hold paths protect what takes a value."""
    profile = replace(PROFILE, protected={"model": "it is served"}, protected_values={"t*t": "a text", "s*ch": "a text"})
    check = "        assert not (self.switch and self.text == 't')"
    found = candidates(check, "--switch", "--text", "t", profile=profile)
    names = {e.name for c in found for e in c.edits}
    assert "--switch" in names and "--text" not in names


def test_another_kind_of_server_is_further_away_than_taking_a_flag_away() -> None:
    check = "        assert not self.switch or self.kind == 'fast'"
    profile = replace(PROFILE, roles={"kind": "it would be another server"})
    cost = {e.name: c.cost for c in candidates(check, "--switch", profile=profile) for e in c.edits}
    assert cost["--kind"] < cost["--switch"]
    cost = {e.name: c.cost for c in candidates(check, "--switch", profile=replace(profile, kinds=("kind",))) for e in c.edits}
    assert cost["--kind"] > cost["--switch"]


def test_every_typed_flag_may_go_at_last() -> None:
    """The failing test does not read --switch; taking it away is still a way, dearer than any change of a value."""
    found = candidates("assert self.size == 7", "--switch", "--size", "3")
    removed = {c.edits[0].name: c.cost for c in found if c.edits[0].action == "remove"}
    assert set(removed) == {"--switch", "--size"}
    assert min(removed.values()) >= REMOVE > max(c.cost for c in found if c.edits[0].action == "set") > SET


def test_only_what_the_failure_reads_where_the_log_alone_shows_it() -> None:
    """Without the traceback evaluation would take the test to come out well, whatever was edited."""
    found = candidates("assert self.size == 7, 'got 3'", "--switch", "--size", "3", "--count", "3", assumed=True)
    assert {c.edits[0].name for c in found} == {"--size"}


@pytest.mark.parametrize(
    ("body", "patched"),
    [
        ("if other.busy():\n    raise ValueError('no')", set()),
        ("if other.busy() and self.switch:\n    raise ValueError('no')", {"--switch"}),
        ("if other.busy(self.size):\n    raise ValueError('no')", {"--size"}),
        ("kinds = [self.kind]\nif other.busy():\n    pass\nraising = LIMITS[kinds[0]]", {"--kind"}),
    ],
)
def test_what_only_the_traceback_decided_stays_so(body: str, patched: set[str]) -> None:
    """What does not bear on an unknown test does not get past it; a statement that fails by itself is another matter."""
    lines = HEAD.replace("CHECK", "\n".join(f"        {line}" for line in f"import other\n{body}".split("\n"))).split("\n")
    tree = MemoryTree({"small/__init__.py": b"", "small/args.py": "\n".join(lines).encode()})
    evaluator = Evaluator(Program(tree, "small"), PROFILE, Facts(device="cuda"), {}, optimistic=True)
    marks = {"prepare_server_args": "return Args.from", "from_cli_args": "return cls(", "__post_init__": "rais"}
    trail = tuple(Place("small/args.py", next(n for n, x in enumerate(lines, 1) if mark in x), f) for f, mark in marks.items())
    args = ("--switch", "--size", "3", "--kind", "odd")
    assert evaluator.evaluate(args, trail).raised is not None
    context = Context(read_flags(evaluator, tree), PROFILE, tree, args, {})
    search = find_patches(lambda _env: evaluator, context, Target(trail, ("small/args.py", trail[-1].line, trail[-1].line)))
    assert {e.name for p in search.patches for e in p.edits} == patched


@pytest.mark.parametrize("typed", ["a,b", "two words", "{}", "x1"])
def test_a_failure_tells_of_the_value_that_its_message_holds(typed: str) -> None:
    tree = MemoryTree({"small/__init__.py": b"", "small/args.py": HEAD.replace("CHECK", "").encode()})
    evaluator = Evaluator(Program(tree, "small"), PROFILE, Facts(), {})
    args = ("--text", typed, "--size", "3")
    evaluator.evaluate(args)
    failure = Raised(
        "OSError", f"no file named {typed}, 3 tries", (), frozenset(), frozenset(), (frozenset({"kind"}),), "", assumed=True
    )
    context = Context(read_flags(evaluator, tree), PROFILE, tree, args, {})
    assert told_settings(failure, context) == {"text"}
    assert told_settings(replace(failure, assumed=False), context) == {"text", "kind"}


def test_words_that_the_message_lists_are_values() -> None:
    check = """if self.text.split(':')[0] not in load():
    raise ValueError(f"--text {self.text!r}: must be one of 'tse', 'own' [a1, b2]")"""
    assert values(candidates(f"load = lambda: []\n{check}", "--text", "x"), "--text")[:5] == ["t", "tse", "own", "a1", "b2"]
    assert listed_in("[--no, two words] `ok`, {modelopt, modelopt_fp4}") == ("--no", "ok", "modelopt", "modelopt_fp4")


def test_a_number_that_nobody_means_is_changed_sooner() -> None:
    zero = candidates("assert self.count > 0", "--count", "0")
    seven = candidates("assert self.count != 7", "--count", "7")
    cost = {old: next(c.cost for c in found if c.edits[0].action == "set") for old, found in (("0", zero), ("7", seven))}
    assert cost["0"] < cost["7"]


def test_same_candidates_each_time() -> None:
    check = "if self.kind not in set(GOOD):\n    raise ValueError('no')"
    assert candidates(check, "--kind", "odd") == candidates(check, "--kind", "odd")


def test_advice_names_flags_with_values_and_variables() -> None:
    evaluator = evaluators()({})
    evaluator.evaluate(("--model", "m"))
    options = read_flags(evaluator, TREE)
    assert advice_of("set `--pieces=-1` or use --mode ring, --nothing 3, or SMALL_MANY=1", options) == {
        "pieces": ("-1",),
        "mode": ("ring",),
        "env:SMALL_MANY": ("1",),
    }
    assert advice_of("pass the argument `no_cache=True`, width=True", options) == {"no_cache": ()}


def test_assigned_constants_count_both_ways_of_writing() -> None:
    text = "self.a = 'x'\nself.a = 'y' if c else 'x'\ndeclare(args, a='x', b=3)\nself.b = True\n"
    assert assigned_constants(text) == {"a": {"x": 3, "y": 1}, "b": {3: 1}}


def test_assigned_constants_are_no_comparisons_and_no_locals() -> None:
    assert assigned_constants("if self.a == 'x':\n    b = 3\n    c = f(1, self.d == 4)\n") == {}
    assert assigned_constants("self.a = (\n    'x'\n    if self.b == 2\n    else 'y'\n)\n") == {"a": {"x": 1, "y": 1}}


@pytest.mark.parametrize(
    ("flag", "what"), [("--disable-radix", "radix"), ("--no-cache", "cache"), ("--normal", None), ("--cache", None)]
)
def test_what_a_switch_turns_off(flag: str, what: str | None) -> None:
    assert turns_off(flag) == what
