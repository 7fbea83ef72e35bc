"""The condition of each raise and assert of small packages of our own, against what a person reads in them."""

from __future__ import annotations

import textwrap

import pytest

from triage.analysis.sites import Culprit, find_condition, find_conditions, survey_sites
from triage.analysis.trees import MemoryTree
from triage.analysis.words import describe_guard
from triage.model import SiteCondition
from triage.protocols import EngineProfile, Stage

PROFILE = EngineProfile(
    name="small",
    package="small",
    distribution="small",
    entries=(),
    args_class="small.args.Args",
    stages=(Stage("small.args.prepare"), Stage(".check", "half")),
    port_field="port",
    host_field="host",
    model_field="model",
    health_paths=(),
    generate_path=None,
    ready_marks=(),
    fatal_marks=(),
    declares=("declare",),
)

HEAD = """
import dataclasses
import os
import sys

from small import helpers
from small.helpers import MODES, SIZES, is_fast, read_table, envs

LOCAL_MODES = ("x", "y")


@dataclasses.dataclass
class Args:
    model: str
    mode: str = "line"
    width: int = 1
    depth: int = 1
    half: bool = False
    left: str = ""
    right: str = ""

"""

HELPERS = """
import importlib
import platform
import shutil

MODES = ["tree", "ring"]
SIZES = {"tree": 4}
TABLE = importlib.import_module("elsewhere").table


def is_fast():
    return shutil.which("fast") is not None and platform.machine() == "x86_64"


def read_table(path):
    with open(path) as f:
        return f.read()
"""

TAIL = """

def prepare(argv):
    return Args(argv[0])
"""


def package(post_init: str, more: str = "", others: dict[str, str] | None = None, helpers: str = "") -> MemoryTree:
    body = textwrap.indent(textwrap.dedent(post_init).strip(), "        ")
    rest = textwrap.indent(textwrap.dedent(more).strip(), "    ")
    source = HEAD + "    def __post_init__(self):\n" + body + "\n\n" + rest + TAIL
    files = {
        "small/__init__.py": b"",
        "small/args.py": source.encode(),
        "small/helpers.py": (HELPERS + textwrap.dedent(helpers)).encode(),
    }
    files.update({name: textwrap.dedent(text).encode() for name, text in (others or {}).items()})
    return MemoryTree(files)


def the_only(tree: MemoryTree) -> SiteCondition:
    (found,) = find_conditions(tree, PROFILE)
    return found


def guards_of(condition: SiteCondition, way: int = 0) -> list[tuple[str, bool]]:
    return [(g.guard.text, g.guard.came_out) for leg in condition.ways[way].legs for g in leg.guards]


def reads_of(condition: SiteCondition, text: str) -> set[tuple[str, str]]:
    """(kind, name) of what the atom with this text reads, on the first way."""
    (atom,) = {a for a in condition.ways[0].atoms if a.text == text}
    return {(r.kind, r.name) for r in atom.reads}


def test_a_way_goes_through_handlers_and_helpers_and_keeps_early_returns() -> None:
    tree = package(
        """
        if self.model == "none":
            return
        self.check_shape()
        """,
        """
        def check_shape(self):
            if self.width > 1:
                helpers.check_depth(self)
        """,
        helpers="""
        def check_depth(args):
            if not args.half:
                return
            assert args.depth < 4, "deep"
        """,
    )
    condition = the_only(tree)
    assert [leg.function for leg in condition.ways[0].legs] == [
        "the launcher", "prepare", "Args.__post_init__", "Args.check_shape", "check_depth",
    ]  # fmt: skip
    assert guards_of(condition) == [
        ('self.model == "none"', False),
        ("self.width > 1", True),
        ("not args.half", False),
        ("args.depth < 4", False),
    ]
    assert condition.names("setting") == {"model", "width", "half", "depth"}
    assert not condition.opaque


def test_an_exit_deep_in_an_earlier_statement_is_part_of_the_condition() -> None:
    condition = the_only(
        package(
            """
            if self.width > 1:
                if self.depth > 2:
                    return
                self.left = "wide"
            raise ValueError("never wide and deep")
            """
        )
    )
    assert guards_of(condition) == [("self.width > 1 and (self.depth > 2)", False)]


def test_a_stage_that_a_setting_skips_has_it_as_a_guard() -> None:
    condition = the_only(package("pass", "def check(self):\n    assert self.width"))
    assert guards_of(condition) == [("args.half", False), ("self.width", False)]


def test_locals_are_followed_to_what_they_were_made_from_and_to_what_chose_between() -> None:
    condition = the_only(
        package(
            """
            side = self.left or "none"
            if self.half:
                side = self.right
            limit = self.width * 2
            assert side != "both" or limit < self.depth
            """
        )
    )
    assert reads_of(condition, 'side != "both"') == {("setting", "left"), ("setting", "right"), ("setting", "half")}
    assert reads_of(condition, "limit < self.depth") == {("setting", "width"), ("setting", "depth")}


def test_named_lists_of_other_modules_give_their_values() -> None:
    condition = the_only(package("assert self.mode in MODES and self.left not in LOCAL_MODES"))
    reads = {r.name: r.text for a in condition.ways[0].atoms for r in a.reads if r.kind == "constant"}
    assert reads == {"MODES": "['tree', 'ring']", "LOCAL_MODES": "('x', 'y')"}


def test_a_predicate_of_one_expression_is_that_expression_and_keeps_its_name() -> None:
    condition = the_only(package("if is_fast() and self.width:\n    raise ValueError"))
    assert reads_of(condition, "is_fast()") == {("fact", "is_fast()"), ("fact", "shutil.which()"), ("fact", "platform.machine()")}


def test_a_helper_that_takes_the_args_is_what_it_returns() -> None:
    condition = the_only(
        package(
            "assert helpers.wide(self), 'narrow'",
            helpers="""
            def wide(args):
                if args.half:
                    return True
                return args.width > args.depth
            """,
        )
    )
    assert reads_of(condition, "helpers.wide(self)") == {("setting", "half"), ("setting", "width"), ("setting", "depth")}


def test_environment_machine_and_model_are_named() -> None:
    condition = the_only(
        package(
            """
            table = read_table(self.left)
            config = helpers.load_model_config(self.model)
            if os.environ.get("SMALL_X") == "1" and "SMALL_Y" in os.environ and sys.platform == "linux":
                if table and config.hf_config.layers > 2:
                    raise ValueError
            """,
            helpers="def load_model_config(path):\n    return path\n",
        )
    )
    assert reads_of(condition, 'os.environ.get("SMALL_X") == "1"') == {("environment", "SMALL_X")}
    assert reads_of(condition, '"SMALL_Y" in os.environ') == {("environment", "SMALL_Y")}
    assert reads_of(condition, 'sys.platform == "linux"') == {("fact", "sys.platform")}
    assert reads_of(condition, "table") == {("fact", "read_table()"), ("setting", "left")}
    assert ("model", "config.hf_config.layers") in reads_of(condition, "config.hf_config.layers > 2")
    assert not condition.opaque


def test_loops_over_literals_and_fields_by_name() -> None:
    condition = the_only(
        package(
            """
            for name in ("left", "right"):
                value = getattr(self, name)
                if value == "bad":
                    raise ValueError(name)
            """
        )
    )
    assert guards_of(condition)[0] == ('name in ("left", "right")', True)
    assert reads_of(condition, 'value == "bad"') == {("setting", "left"), ("setting", "right")}


def test_walrus_quantifiers_and_comprehensions() -> None:
    condition = the_only(
        package(
            """
            parts = [p for p in self.left.split(",") if p]
            if (count := len(parts)) > self.width and any(p in MODES for p in parts) and count:
                raise ValueError
            """
        )
    )
    kinds = {a.text: a.kind for a in condition.ways[0].atoms}
    assert kinds["any(p in MODES for p in parts)"] == "quantifier"
    assert {n for k, n in reads_of(condition, "any(p in MODES for p in parts)") if k == "setting"} == {"left"}
    assert reads_of(condition, "count") == {("setting", "left")}


def test_an_exception_handler_depends_on_what_its_try_reads() -> None:
    condition = the_only(
        package(
            """
            try:
                import fastlib
                size = int(self.left)
            except (ImportError, ValueError):
                raise RuntimeError("no")
            """
        )
    )
    assert guards_of(condition) == [("except (ImportError, ValueError)", True)]
    assert reads_of(condition, "except (ImportError, ValueError)") == {("fact", "import fastlib"), ("setting", "left")}


def test_functions_that_are_handed_on_or_registered_are_entered() -> None:
    tree = package(
        "helpers.run(helpers.step, self)\nfrom small import registry\nregistry.dispatch(self)",
        helpers="""
        def run(step, args):
            step(args)

        def step(args):
            if args.half:
                raise ValueError
        """,
        others={
            "small/registry.py": """
            STEPS = {}

            def register(name):
                def put(fn):
                    STEPS.setdefault(name, []).append(fn)
                    return fn
                return put

            def dispatch(args):
                for fn in STEPS.get(args.mode, ()):
                    fn(args)
            """,
            "small/more.py": """
            from small.registry import register

            @register("tree")
            def grow(args):
                assert args.depth > 1
            """,
        },
    )
    by_function = {c.site.function: c for c in find_conditions(tree, PROFILE)}
    assert set(by_function) == {"step", "grow"}
    assert [leg.function for leg in by_function["step"].ways[0].legs][2:] == ["Args.__post_init__", "run", "step"]
    assert guards_of(by_function["grow"]) == [
        ("fn in STEPS.get(args.mode, ())", True),
        ("register('tree')", True),
        ("args.depth > 1", False),
    ]
    assert by_function["grow"].names("setting") == {"mode", "depth"}


def test_what_an_outside_object_was_handed_is_called_by_its_later_methods() -> None:
    tree = package("pass")
    source = tree.read("small/args.py")
    assert source is not None
    head = """
import argparse

class Old(argparse.Action):
    def __call__(self, parser, namespace, values):
        if values != "fine":
            raise ValueError("no longer")

def add_flags(parser):
    parser.add_argument("--old", action=Old)

def prepare(argv):
    parser = argparse.ArgumentParser()
    add_flags(parser)
    parser.parse_args(argv)
"""
    changed = source.decode().replace("def prepare(argv):", "def other(argv):") + head
    condition = the_only(MemoryTree({**tree.files, "small/args.py": changed.encode()}))
    assert [leg.function for leg in condition.ways[0].legs] == ["the launcher", "prepare", "Old.__call__"]
    assert ("fact", "the command line") in reads_of(condition, 'values != "fine"')


def test_a_view_of_the_args_is_the_args() -> None:
    condition = the_only(
        package(
            "cfg = helpers.view_of(self)\nassert cfg.width < cfg.depth",
            helpers="""
            class Later:
                def __init__(self, inner):
                    self.inner = inner

                def __getattr__(self, name):
                    return getattr(self.inner, name)

            def view_of(args):
                return Later(args)
            """,
        )
    )
    assert condition.names("setting") == {"width", "depth"}


def test_every_call_path_is_a_way_of_its_own() -> None:
    condition = the_only(
        package(
            "if self.half:\n    self.deep()\nelse:\n    self.wide()",
            """
            def deep(self):
                self.last()

            def wide(self):
                if self.width > 3:
                    self.last()

            def last(self):
                raise ValueError
            """,
        )
    )
    assert [[leg.function for leg in way.legs][3] for way in condition.ways] == ["Args.deep", "Args.wide"]
    assert guards_of(condition, 1) == [("self.half", False), ("self.width > 3", True)]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("for name in dir(self):\n    assert getattr(self, name)", "it reads a field whose name is computed"),
        ("import json\nassert json.dumps(self)", "it reads a field whose name is computed"),
        ("assert helpers.TABLE['x'](self)", "`helpers.TABLE['x']` takes the args object, and its source was not found"),
        ("assert self._memo", "nothing assigns `_memo` of the args object"),
        ("assert nowhere_defined", "`nowhere_defined` is not bound on every way, or by nothing that was read"),
        ("x = yield\nassert x", "its value comes from other code at run time"),
    ],
)
def test_what_nobody_can_tell_is_opaque_with_its_reason(body: str, why: str) -> None:
    condition = the_only(package(body))
    assert {a.why for a in condition.opaque} == {why}


def test_bookkeeping_of_the_args_is_what_was_assigned_to_it() -> None:
    condition = the_only(package("self._wide = self.width > 2\nif self._wide:\n    raise ValueError"))
    assert ("setting", "width") in reads_of(condition, "self._wide")


def test_a_guard_in_words_names_what_its_text_does_not() -> None:
    condition = the_only(
        package("side = self.left if self.half else 'none'\nif side != 'none' and is_fast():\n    raise ValueError\n")
    )
    (guard,) = condition.ways[0].legs[-1].guards
    words = describe_guard(guard, {"left": "--left", "half": "--half"})
    assert words.endswith("(decided by --half, --left, platform.machine(), shutil.which())")
    (guard,) = the_only(package("assert self.width > 1")).ways[0].legs[-1].guards
    assert describe_guard(guard, {"width": "--width"}) == "--width is at most 1"
    (guard,) = the_only(package("assert self._memo")).ways[0].legs[-1].guards
    assert describe_guard(guard, {}).endswith("(unknown: nothing assigns `_memo` of the args object)")


def test_unreached_sites_are_listed_without_a_way() -> None:
    tree = package("assert self.width", "def never_called(self):\n    raise ValueError")
    survey = survey_sites(tree, PROFILE)
    assert [(c.site.function, len(c.ways)) for c in survey.conditions] == [("Args.__post_init__", 1), ("Args.never_called", 0)]
    assert survey.files == (("small/args.py", 2),)


def test_a_raising_expression_has_the_tests_inside_it() -> None:
    body = """
    if self.half:
        ok = self.mode in SIZES and self.depth > SIZES[self.left]
    """
    tree = package(body)
    line = next(i for i, text in enumerate(tree.read("small/args.py").decode().split("\n"), 1) if "SIZES[" in text)  # type: ignore[union-attr]
    condition = find_condition(tree, PROFILE, "small/args.py", line, Culprit("KeyError", "'x'"))
    assert condition is not None
    assert guards_of(condition) == [("self.half", True), ("self.mode in SIZES", True)]
    assert find_condition(tree, PROFILE, "small/args.py", 3) is None


def test_recursion_and_hostile_depth_come_to_an_end() -> None:
    deep = "(" * 80 + "self.width" + ")" * 80
    tree = package(
        f"self.again(0)\nassert {deep}",
        "def again(self, n):\n    if n < self.depth:\n        self.again(n + 1)\n    raise ValueError",
    )
    by_function = {c.site.function: c for c in find_conditions(tree, PROFILE)}
    assert by_function["Args.again"].names("setting") >= {"depth"}
    assert by_function["Args.__post_init__"].names("setting") >= {"width"}


def test_containers_that_double_are_not_kept_apart() -> None:
    body = "\n".join(["x = (self.left, 'a')", *["x = (x, x)"] * 60, "if x:", "    raise ValueError"])
    condition = the_only(package(body))
    assert reads_of(condition, "x") == {("setting", "left")}


def test_calls_that_double_are_not_followed_without_end() -> None:
    steps = "\n".join(
        f"def f{i}(args, n):\n    f{i + 1}(args, n + args.a{i})\n    f{i + 1}(args, n * args.b{i})\n" for i in range(40)
    )
    last = "def f40(args, n):\n    assert n != 7\n"
    survey = survey_sites(package("helpers.f0(self, self.width)", helpers=f"{steps}\n{last}"), PROFILE)
    assert survey.functions <= 6_000
    (condition,) = [c for c in survey.conditions if c.site.function == "f40"]
    assert condition.cut
    assert {"width", "a0"} <= condition.names("setting")
