"""A package of our own whose validation writes and checks settings in every way that a life has to tell."""

from __future__ import annotations

from dataclasses import replace

from tests.analysis.small_server import PROFILE as SMALL
from triage.analysis.evaluate import Evaluator, Program
from triage.analysis.flags import Options, read_flags
from triage.analysis.trees import MemoryTree
from triage.model import Facts

ARGS = """
import argparse
import dataclasses
import logging

from small import registry
from small.hooks import handle_depth, handle_format
from small.views import resolving_view

logger = logging.getLogger(__name__)
NAMES = ("ways", "groups")


@dataclasses.dataclass
class Args:
    model: str
    mode: str | None = None
    width: int | None = None
    depth: int | None = None
    format: str = "plain"
    ways: int = 1
    groups: int = 1
    share: bool = False
    pieces: int | None = None
    prefill_kind: str | None = None
    decode_kind: str | None = None

    def __post_init__(self):
        self.set_width()
        if self.mode is not None:
            self.set_mode()
        handle_depth(self)
        for name in NAMES:
            setattr(self, name, 1)  # loop
        run_hook(handle_format, self)
        registry.apply(self)
        self.check()

    def set_width(self):
        if self.width is None:
            self.width = 4  # default
            logger.info("width is 4 by default")
        self.width, self.depth = self.width * 2, 3  # tuple

    def set_mode(self):
        self.share = True  # silent
        for kind in ("prefill", "decode"):
            setattr(self, f"{kind}_kind", "a")  # parts

    @property
    def is_wide(self):
        return self.width > 16

    def check(self):
        assert self.pieces is None or self.mode, "pieces need a mode"  # assert
        if self.mode == "ring":
            if self.share:
                raise ValueError("no sharing in a ring")  # raise
        if self.is_wide:
            raise ValueError("too wide")  # helper
        if self.ways > 4:
            logger.info("many ways")
        limit = 64 // self.groups  # division
        if self.pieces > limit:  # comparison
            self.pieces = limit  # cut

    def never_called(self):
        self.width = 99  # unreached

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--model", type=str, required=True)
        parser.add_argument("--mode", type=str, choices=["tree", "ring"], help="How to draft.")
        parser.add_argument("--width", type=int)
        parser.add_argument("--depth", type=int)
        parser.add_argument("--format", type=str, default="plain")
        parser.add_argument("--ways", "--w", type=int, default=1)
        parser.add_argument("--groups", type=int, default=1)
        parser.add_argument("--share", action="store_true")
        parser.add_argument("--pieces", type=int)
        parser.add_argument("--prefill-kind", type=str)
        parser.add_argument("--decode-kind", type=str)

    @classmethod
    def from_cli_args(cls, args):
        return cls(**{field.name: getattr(args, field.name) for field in dataclasses.fields(cls)})


def run_hook(hook, given):
    hook(given)


def prepare_server_args(argv):
    parser = argparse.ArgumentParser()
    Args.add_cli_args(parser)
    return Args.from_cli_args(parser.parse_args(argv))
"""

HOOKS = """
import logging

from small.views import declare, resolving_view

logger = logging.getLogger(__name__)


def handle_depth(server_args):
    cfg = resolving_view(server_args)
    if getattr(cfg, "depth", None) > 8:
        return
    cfg.depth += 1  # augmented
    declare(
        server_args,
        "handle_depth",
        format="deep" if cfg.depth else cfg.format,
    )  # declared
    fields = {}
    if not cfg.pieces:
        fields["pieces"] = 2  # stored
    if fields:
        declare(server_args, "handle_depth", **fields)  # handed
    logger.warning("depth is %s", cfg.depth)


def handle_format(given):
    keep(given, "format", "packed")  # helper


def keep(server_args, name, value):
    if getattr(server_args, name) is None:
        setattr(server_args, name, value)  # any


def unrelated(config):
    config.format = "other"  # another object
"""

VIEWS = """
def resolving_view(server_args):
    return server_args


def declare(server_args, source, **fields):
    for name, value in fields.items():
        object.__setattr__(server_args, name, value)
"""

REGISTRY = """
from small.views import declare

import small.extra

PROVIDERS = []
BY_MODEL = {
    "tiny": {"width": 1, "share": False},  # constant
}


def register(fn):
    PROVIDERS.append(fn)
    return fn


@register
def of_tree(server_args):
    if server_args.mode != "tree":
        return {}
    return {"width": 32}  # returned


def apply(server_args):
    for fn in PROVIDERS:
        declare(server_args, fn.__name__, **fn(server_args))
"""

EXTRA = """
from small.registry import register


@register
def of_ring(server_args):
    decided = {}
    if server_args.mode == "ring":
        decided["width"] = 7  # elsewhere
    return decided
"""

FILES = {"__init__": "", "args": ARGS, "hooks": HOOKS, "views": VIEWS, "registry": REGISTRY, "extra": EXTRA}
TREE = MemoryTree({f"small/{name}.py": text.encode() for name, text in FILES.items()})
PROFILE = replace(SMALL, declares=("declare",), protected={}, roles={})


def line_of(file: str, mark: str) -> int:
    """The line of `# mark`."""
    return next(i for i, line in enumerate(FILES[file].split("\n"), 1) if line.endswith(f"# {mark}"))


def read_options() -> Options:
    evaluator = Evaluator(Program(TREE, "small"), PROFILE, Facts(), {})
    evaluator.evaluate([])
    return read_flags(evaluator, TREE)
