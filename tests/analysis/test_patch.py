"""The search against brute force over the whole domain of a small package, and what it promises of every patch."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.analysis.small_server import evaluators, passes, search
from triage.analysis.patch import EVERYTHING, Limits
from triage.argv import edit_args
from triage.model import Edit, Patch

NUMBERS = {"--width": "1234", "--depth": "1234", "--budget": "234", "--ways": "1248", "--groups": "124", "--pieces": "1248"}
CHOICES = {"--mode": ["tree", "line", "ring"], "--format": ["plain", "packed", "dense"], "--half": ["none", "first", "second"]}
SWITCHES = ["--share", "--no-cache", "--alone", "--together"]
VALUES = {**{k: list(v) for k, v in NUMBERS.items()}, **CHOICES}


def domain(args: Sequence[str]) -> list[Edit]:
    """Every edit of one flag or variable, values out of the declared ones and small numbers."""
    edits = [Edit("env", "SMALL_MANY", None, "1")]
    for name, values in VALUES.items():
        if name in args:
            old = args[list(args).index(name) + 1]
            edits.append(Edit("remove", name, old, None))
            edits += [Edit("set", name, old, v) for v in values if v != old]
        else:
            edits += [Edit("add", name, None, v) for v in values]
    for name in SWITCHES:
        edits.append(Edit("remove", name, None, None) if name in args else Edit("add", name, None, None))
    return edits


def holds(args: Sequence[str], edits: Sequence[Edit]) -> bool:
    return passes(edit_args(args, edits), {e.name: e.new or "" for e in edits if e.action == "env"})


def brute(args: Sequence[str], size: int) -> Iterator[tuple[Edit, ...]]:
    """All repairs of exactly this many edits."""
    for group in itertools.combinations(domain(args), size):
        if len({e.name for e in group}) == size and holds(args, group):
            yield group


def removes(edits: Sequence[Edit]) -> bool:
    return any(e.action == "remove" for e in edits)


def random_failures(count: int, seed: int) -> list[tuple[str, ...]]:
    rng = random.Random(seed)
    out: list[tuple[str, ...]] = []
    while len(out) < count:
        args = ["--model", "m"]
        for name in rng.sample(sorted([*VALUES, *SWITCHES]), rng.randint(1, 5)):
            args += [name] if name in SWITCHES else [name, rng.choice([*VALUES[name], "5"] if name in NUMBERS else VALUES[name])]
        if not passes(args) and tuple(args) not in out:
            out.append(tuple(args))
    return out


def check_promises(args: Sequence[str], patches: Sequence[Patch]) -> None:
    for patch in patches:
        assert passes(patch.args, patch.env), (args, patch.edits)
        assert patch.args == edit_args(args, patch.edits)
        assert patch.certainty == "proved"
        assert {"--model", "--secret-path"}.isdisjoint(e.name for e in patch.edits)
    if patches:
        first = patches[0].edits
        for one in range(len(first)):
            rest = (*first[:one], *first[one + 1 :])
            assert not rest or not holds(args, rest), f"{args}: {first[one]} can be left out of {first}"


GET = evaluators()


@pytest.mark.parametrize("args", random_failures(60, seed=7), ids=lambda a: " ".join(a[2:]))
def test_what_brute_force_repairs_is_repaired_without_losing_more(args: tuple[str, ...]) -> None:
    found = search(args, get=GET)
    check_promises(args, found.patches)
    one, two = list(brute(args, 1)), list(brute(args, 2))
    if not one and not two:
        return
    assert found.patches, f"brute force finds {(one or two)[0]}"
    if any(not removes(g) for g in [*one, *two]):
        assert not removes(found.patches[0].edits), found.patches[0].edits
    if any(all(e.action in ("add", "env") for e in g) for g in [*one, *two]):
        assert all(e.action in ("add", "env") for e in found.patches[0].edits), found.patches[0].edits


Shape = frozenset[tuple[str, str]]  # (action, name) of each edit


def shape_of(edits: Sequence[Edit]) -> Shape:
    return frozenset((e.action, e.name) for e in edits)


def minimal_shapes(args: Sequence[str], sizes: Sequence[int]) -> set[Shape]:
    """By brute force: what minimal repairs change, but for their values. A flag that gives the server another role is no
    repair, and neither is a shape that another one is part of."""
    shapes: set[Shape] = set()
    for size in sizes:
        for group in brute(args, size):
            shape = shape_of(group)
            if not any(known < shape for known in shapes):
                shapes.add(shape)
    return {s for s in shapes if all(name != "--half" or action == "remove" for action, name in s)}


@pytest.mark.parametrize(("count", "seed", "sizes"), [(24, 11, (1, 2)), (4, 12, (1, 2, 3))], ids=["pairs", "triples"])
def test_all_minimal_patches_are_found_within_wide_bounds(count: int, seed: int, sizes: tuple[int, ...]) -> None:
    for args in random_failures(count, seed):
        found = search(args, limits=replace(EVERYTHING, edits=max(sizes)), get=GET)
        assert found.complete
        lost = minimal_shapes(args, sizes) - {shape_of(p.edits) for p in found.patches}
        assert not lost, (args, sorted(map(sorted, lost)))
        for edits in (p.edits for p in found.patches):
            parts = [part for size in range(1, len(edits)) for part in itertools.combinations(edits, size)]
            assert not any(holds(args, part) for part in parts), (args, edits)


CHAINS = [
    ("--mode", "ring", "--budget", "3", "--width", "2"),
    ("--mode", "line", "--budget", "3", "--pieces", "8"),
    ("--mode", "ring", "--budget", "3"),
    ("--ways", "8", "--groups", "4", "--pieces", "8", "--mode", "ring"),
]


@pytest.mark.parametrize("args", CHAINS, ids=" ".join)
def test_a_chain_of_failures_is_settled_by_companions(args: tuple[str, ...]) -> None:
    """Each failure hides the next one; nothing that was typed has to go."""
    launch = ("--model", "m", *args)
    found = search(launch)
    check_promises(launch, found.patches)
    assert all(e.action in ("add", "env") for e in found.patches[0].edits)


def test_the_first_patch_of_a_three_edit_chain_is_among_those_of_brute_force() -> None:
    launch = ("--model", "m", "--mode", "line", "--budget", "3", "--pieces", "8")
    kept = [g for size in (1, 2) for g in brute(launch, size) if all(e.action in ("add", "env") for e in g)]
    assert not kept
    first = search(launch).patches[0]
    assert len(first.edits) == 3
    assert any(set(g) == set(first.edits) for g in brute(launch, 3))


def test_a_relation_between_two_numbers_is_kept_not_silently_broken() -> None:
    """Width 1 and budget 3 ask for depth 2: any other depth passes, but takes the typed budget away."""
    first = search(("--model", "m", "--mode", "tree", "--width", "1", "--budget", "3")).patches[0]
    assert first.edits == (Edit("add", "--depth", None, "2"),)
    assert not first.silent and not first.losses


def test_silent_changes_are_listed_with_their_line() -> None:
    found = search(("--model", "m", "--share", "--pieces", "8"))
    change = found.patches[0].silent[0]
    assert (change.field, change.asked, change.used) == ("share", "True", "False")
    assert change.location is not None and change.location.file == "small/args.py"
    assert found.patches[0].losses == ("cache is turned off",), "the launch as typed loses --share as well"


def test_losses_are_named() -> None:
    found = search(("--model", "m", "--ways", "3", "--groups", "2"), limits=Limits(alternatives=40, margin=20.0, patches=20))
    by_edits = {p.edits: p.losses for p in found.patches}
    assert by_edits[(Edit("set", "--groups", "2", "1"),)] == ("--groups 2 is changed to 1",)
    lowered = next(losses for edits, losses in by_edits.items() if edits[0].name == "--ways" and edits[0].action == "set")
    assert lowered[0].endswith(": the ways that were asked for")
    off = search(("--model", "m", "--pieces", "8")).patches[0]
    assert off.losses == ("cache is turned off",)


def test_removal_ranks_last() -> None:
    found = search(("--model", "m", "--alone", "--half", "first"), limits=Limits(alternatives=40, margin=20.0, patches=20))
    kinds = [removes(p.edits) for p in found.patches]
    assert True in kinds and kinds == sorted(kinds)


def test_two_flags_that_exclude_each_other_lose_one() -> None:
    found = search(("--model", "m", "--alone", "--together"))
    assert {p.edits for p in found.patches} == {(Edit("remove", "--alone"),), (Edit("remove", "--together"),)}


def test_a_role_is_taken_only_where_nothing_else_helps() -> None:
    assert all(
        e.name != "--half"
        for args in random_failures(15, seed=3)
        if "--half" not in args
        for p in search(args, get=GET).patches
        for e in p.edits
    )


def test_numbers_are_plausible() -> None:
    for args in (("--pieces", "0", "--no-cache"), ("--pieces", "-4", "--no-cache"), ("--groups", "0")):
        for patch in search(("--model", "m", *args)).patches:
            assert all(int(e.new) > 0 for e in patch.edits if e.new is not None), patch.edits


def test_what_was_tried_is_never_proposed_again() -> None:
    args = ("--model", "m", "--mode", "tree", "--budget", "3")
    tried: list[Patch] = []
    for _ in range(6):
        found = search(args, tried=tried)
        assert not {p.args for p in found.patches} & {p.args for p in tried}
        tried += found.patches[:1]
    assert len({p.args for p in tried}) == len(tried) > 2


def test_an_earlier_fix_is_not_undone() -> None:
    """The launch carries an added flag; the next failure is not repaired by taking it away again."""
    fix = Patch((Edit("add", "--together"),), ("--model", "m", "--alone", "--together"), {}, "proved", "")
    found = search(fix.args, tried=[fix])
    assert [p.edits for p in found.patches] == [(Edit("remove", "--alone"),)]


def test_no_repair_is_said() -> None:
    found = search(("--model", "m", "--secret-path", "a:b"))
    assert found.patches == () and found.complete
    assert [e.name for e in search(("--model", "m", "--secret-path", "a:b"), protected=True).patches[0].edits] == [
        "--secret-path"
    ]


def test_bounds_hold() -> None:
    args = ("--model", "m", "--mode", "ring", "--budget", "3", "--pieces", "8")
    found = search(args, limits=Limits(evaluations=2))
    assert found.evaluations <= 2 and not found.complete
    assert search(args, limits=Limits(edits=1)).patches == ()
    assert len(search(args, limits=Limits(patches=1)).patches) == 1


def test_a_launch_that_passes_needs_no_patch() -> None:
    assert search(("--model", "m")).patches == ()


@pytest.mark.parametrize(
    ("args", "edits"),
    [
        (("--model", "m", "--no_cache"), (Edit("remove", "--no_cache"), Edit("add", "--no-cache"))),
        (("--model", "m", "--mode", "Ring", "--format", "dense"), (Edit("set", "--mode", "Ring", "ring"),)),
        (("--model", "m", "--pieces", "8x", "--no-cache"), (Edit("set", "--pieces", "8x", "8"),)),
        (("--model", "m", "--no-cache", "true"), (Edit("set", "--no-cache", "true", None),)),
        (("--model", "m", "--ways", "2", "4", "--alone"), (Edit("set", "--ways", "2 4", "2"),)),
    ],
)
def test_usage_errors(args: tuple[str, ...], edits: tuple[Edit, ...]) -> None:
    found = search(args)
    assert found.patches[0].edits == edits
    assert passes(found.patches[0].args)


def test_same_input_same_output_whatever_the_hash_seed() -> None:
    script = (
        "from tests.analysis.small_server import search\n"
        "for a in ('--mode ring --budget 3 --pieces 8', '--ways 3 --groups 2', '--alone --half first --ways 8'):\n"
        "    s = search(('--model', 'm', *a.split())); print(s)\n"
    )
    root = Path(__file__).resolve().parents[2]
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script], cwd=root, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(outputs) == 1 and b"Patch(" in next(iter(outputs))
