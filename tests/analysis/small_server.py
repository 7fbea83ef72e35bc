"""A package of our own, in memory, whose validation has chains, relations and advice; and the ways to try a launch on it."""

from __future__ import annotations

import contextlib
import io
import types
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from triage.analysis.edits import Context
from triage.analysis.evaluate import Evaluator, Program
from triage.analysis.flags import read_flags
from triage.analysis.patch import EvaluatorFor, Limits, Search, find_patches
from triage.analysis.trees import MemoryTree
from triage.model import Facts, Patch
from triage.protocols import EngineProfile, Stage

SOURCE = """
import argparse
import dataclasses
import os

MODES = ["tree", "line", "ring"]
FORMATS = ("plain", "packed", "dense")
PACKED = ("packed", "dense")


@dataclasses.dataclass
class Args:
    model: str
    mode: str | None = None
    width: int | None = None
    depth: int | None = None
    budget: int | None = None
    format: str = "plain"
    ways: int = 1
    groups: int = 1
    share: bool = False
    no_cache: bool = False
    pieces: int | None = None
    alone: bool = False
    together: bool = False
    half: str = "none"
    secret_path: str | None = None

    def __post_init__(self):
        self.check_ways()
        self.check_mode()
        self.check_pieces()
        self.check_both()

    def check_ways(self):
        assert self.ways % self.groups == 0, "ways must divide into groups"
        if self.ways > 4 and os.environ.get("SMALL_MANY") != "1":
            raise ValueError("more than 4 ways need SMALL_MANY=1")
        if self.share and self.groups == 1:
            self.share = False

    def check_mode(self):
        if self.mode is None:
            return
        if self.budget is None:
            self.width = self.width or 1
            self.depth = self.depth or 2
            self.budget = self.width * self.depth + 1
        else:
            assert self.width is not None
        if self.width > 1:
            assert self.depth > 1
        elif self.budget != self.depth + 1:
            self.budget = self.depth + 1
        if self.mode == "ring":
            assert self.format in PACKED

    def check_pieces(self):
        if self.pieces is not None:
            assert self.no_cache, "pieces need the cache off, please set --no-cache"
            if self.pieces == 0:
                raise ZeroDivisionError("pieces")
            if 64 % self.pieces:
                raise ValueError(f"64 is not divisible by {self.pieces}")
        if self.secret_path is not None and ":" in self.secret_path:
            raise ValueError("no colon in a path")

    def check_both(self):
        if self.alone and self.together:
            raise ValueError("--alone and --together exclude each other")
        if self.alone and self.half != "none":
            raise ValueError("half of a pair is not alone")

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--model", type=str, required=True)
        parser.add_argument("--mode", type=str, choices=MODES)
        parser.add_argument("--width", type=int)
        parser.add_argument("--depth", type=int)
        parser.add_argument("--budget", type=int)
        parser.add_argument("--format", type=str, choices=FORMATS, default="plain")
        parser.add_argument("--ways", type=int, default=1)
        parser.add_argument("--groups", type=int, default=1)
        parser.add_argument("--share", action="store_true")
        parser.add_argument("--no-cache", action="store_true")
        parser.add_argument("--pieces", type=int)
        parser.add_argument("--alone", action="store_true")
        parser.add_argument("--together", action="store_true")
        parser.add_argument("--half", type=str, choices=["none", "first", "second"], default="none")
        parser.add_argument("--secret-path", type=str)

    @classmethod
    def from_cli_args(cls, args):
        return cls(**{field.name: getattr(args, field.name) for field in dataclasses.fields(cls)})


def prepare_server_args(argv):
    parser = argparse.ArgumentParser()
    Args.add_cli_args(parser)
    return Args.from_cli_args(parser.parse_args(argv))
"""

PROFILE = EngineProfile(
    name="small",
    package="small",
    distribution="small",
    entries=(("-m", "small"),),
    args_class="small.args.Args",
    stages=(Stage("small.args.prepare_server_args"),),
    port_field="port",
    host_field="host",
    model_field="model",
    health_paths=("/health",),
    generate_path=None,
    ready_marks=("ready",),
    fatal_marks=("died",),
    protected={"model": "it is what is served", "*_path": "it names a file"},
    capabilities={"mode": "drafting", "ways": "the ways that were asked for"},
    roles={"half": "it would need a partner"},
    environment_prefixes=("SMALL_",),
)
TREE = MemoryTree({"small/__init__.py": b"", "small/args.py": SOURCE.encode()})


def evaluators() -> EvaluatorFor:
    program = Program(TREE, "small")
    made: dict[tuple[tuple[str, str], ...], Evaluator] = {}

    def get(env: Mapping[str, str]) -> Evaluator:
        key = tuple(sorted(env.items()))
        if key not in made:
            made[key] = Evaluator(program, PROFILE, Facts(), env)
        return made[key]

    return get


def search(
    args: Sequence[str],
    env: Mapping[str, str] | None = None,
    tried: Sequence[Patch] = (),
    limits: Limits | None = None,
    protected: bool = False,
    get: EvaluatorFor | None = None,
) -> Search:
    get = get or evaluators()
    get(env or {}).evaluate(args)
    options = read_flags(get(env or {}), TREE)
    return find_patches(
        get, Context(options, PROFILE, TREE, tuple(args), env or {}, protected), tried=tried, limits=limits or Limits()
    )


def passes(args: Sequence[str], env: Mapping[str, str] | None = None) -> bool:
    """What Python itself says: the package's own validation, run."""
    space = _run_module()
    space["os"] = types.SimpleNamespace(environ=dict(env or {}))
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            space["prepare_server_args"](list(args))
        except (AssertionError, ValueError, TypeError, ZeroDivisionError, SystemExit):
            return False
    return True


@cache
def _run_module() -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": "small.args"}
    exec(compile(SOURCE, "small/args.py", "exec", dont_inherit=True), space)
    return space
