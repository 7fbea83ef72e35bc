"""Atoms, what they read, and conditions in words."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

import pytest
import real_sources as real

from triage.analysis.conditions import Scope, atoms, read_scope
from triage.analysis.flow import one_line
from triage.analysis.guards import find_guards
from triage.analysis.source import decode_source
from triage.analysis.words import describe_condition


def kinds(text: str, scope: Scope | None = None) -> list[tuple[str, str, bool]]:
    return [(a.text, a.kind, a.holds) for a in atoms(text, scope)]


def reads(text: str, scope: Scope | None = None) -> list[tuple[str, str]]:
    return [(r.kind, r.name) for a in atoms(text, scope) for r in a.reads if r.kind != "literal"]


def test_split_into_atoms() -> None:
    assert kinds("self.a is not None and not (self.b > 1 or is_cuda())") == [
        ("self.a is not None", "compare", True),
        ("self.b > 1", "compare", False),
        ("is_cuda()", "call", False),
    ]
    assert kinds("0 < self.a <= 3") == [("0 < self.a", "compare", True), ("self.a <= 3", "compare", True)]
    assert kinds("self.a not in ['x', 'y'] or isinstance(self.a, str) or any(x for x in self.b) or self.c") == [
        ("self.a not in ['x', 'y']", "membership", True),
        ("isinstance(self.a, str)", "isinstance", True),
        ("any(x for x in self.b)", "quantifier", True),
        ("self.c", "truth", True),
    ]
    assert kinds("except ValueError") == [("except ValueError", "opaque", True)]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("self.tp_size > server_args.dp_size", [("setting", "tp_size"), ("setting", "dp_size")]),
        ("getattr(self, 'zed', None)", [("setting", "zed")]),
        ("envs.SGLANG_X.get() and os.environ.get('Y') == '1'", [("environment", "SGLANG_X"), ("environment", "Y")]),
        ("get_bool_env_var('Z', 'true') or os.environ['W']", [("environment", "Z"), ("environment", "W")]),
        ("is_cuda() and torch.version.cuda >= '12'", [("fact", "is_cuda()"), ("fact", "torch.version.cuda")]),
        ("self.get_model_config().hf_config.architectures[0] in ARCHS",
         [("model", "self.get_model_config().hf_config.architectures[0]"), ("constant", "ARCHS")]),
        ("self.device.startswith('cuda')", [("setting", "device")]),
        ("len(self.lora_paths) > int(self.max_loras)", [("setting", "lora_paths"), ("setting", "max_loras")]),
        ("model_config_of(server_args).is_hybrid", [("model", "model_config_of().is_hybrid")]),
        ("supports(self, self.quant)", [("fact", "supports()"), ("setting", "quant")]),
        ("all(p in self.a for p in self.b)", [("setting", "b"), ("setting", "a")]),
    ],
)  # fmt: skip
def test_reads(text: str, want: list[tuple[str, str]]) -> None:
    assert reads(text) == want
    assert all(a.kind != "opaque" for a in atoms(text))


SOURCE = """
def handle(server_args, limit, f):
    cfg = resolving_view(server_args)
    window, text = int(cfg.window), f(limit)
    tokens = window * 2
    arch = cfg.get_model_config().hf_config.architectures[0]
    for backend in (cfg.decode, cfg.prefill):
        if (n := tokens) > 1:
            raise ValueError
    try:
        hf = get_config(cfg.model_path)
    except OSError as e:
        raise ValueError
    cfg = get_config(1)
"""


def test_locals_are_traced_to_what_they_come_from() -> None:
    scope = read_scope(SOURCE, 9)
    traced = [(r.kind, r.name, r.through) for a in atoms("tokens > limit", scope) for r in a.reads if r.kind != "literal"]
    assert traced == [
        ("local", "tokens", ()),
        ("local", "window", ("tokens",)),
        ("setting", "window", ("tokens", "window")),
        ("parameter", "limit", ()),
    ]
    assert reads("n > 1", scope)[-1] == ("setting", "window")
    assert reads("backend == 'x'", scope) == [("local", "backend"), ("setting", "decode"), ("setting", "prefill")]
    assert reads("arch in X", scope)[:2] == [("local", "arch"), ("model", "cfg.get_model_config().hf_config.architectures[0]")]
    assert [a.kind for a in atoms("text == 'a'", scope)] == ["opaque"]
    assert [a.kind for a in atoms("e.errno", read_scope(SOURCE, 13))] == ["opaque"]
    assert scope.args_names == {"server_args", "cfg"}


class Flags(Mapping[str, str]):
    """Every field has its flag."""

    def __getitem__(self, key: str) -> str:
        return "--" + key.replace("_", "-")

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


@pytest.mark.parametrize(
    ("test", "true", "false"),
    [
        ("self.top_k is None", "--top-k is not set", "--top-k is set"),
        ("not cfg.x", "--x is not set", "--x is set"),
        ("self.page_size > 1", "--page-size is greater than 1", "--page-size is at most 1"),
        ("1 >= self.page_size", "--page-size is at most 1", "--page-size is greater than 1"),
        ("self.x is not None and self.x > 1", "--x is greater than 1", "--x is not set or is at most 1"),
        ("self.b not in ['fa3', 'flashinfer']", "--b is none of fa3, flashinfer", "--b is one of fa3, flashinfer"),
        ("self.b in ('fa3',)", "--b is fa3", "--b is not fa3"),
        ("self.b in (None, 'fa3')", "--b is not set or is fa3", "--b is set and is not fa3"),
        ("self.b in BACKENDS", "--b is one of `BACKENDS`", "--b is none of `BACKENDS`"),
        ("self.x is None and self.y is None", "--x and --y are not set", "--x is set or --y is set"),
        ("self.a == 'q' and self.b > 1", "--a is q and --b is greater than 1", "not both --a is q and --b is greater than 1"),
        ("self.a == 'q' or self.b > 1", "--a is q or --b is greater than 1", "--a is not q and --b is at most 1"),
        ("0 < self.x <= 4", "--x is greater than 0 and is at most 4", "--x is at most 0 or is greater than 4"),
        ("self.tp % (self.dp * 2) == 0", "--tp is divisible by --dp * 2", "--tp is not divisible by --dp * 2"),
        ("self.x != self.y + 1", "--x is not --y + 1", "--x is --y + 1"),
        ("int(self.x) != 1", "--x is not 1", "--x is 1"),
        ("envs.SGLANG_A.get()", "SGLANG_A is set", "SGLANG_A is not set"),
        ("is_cuda()", "`is_cuda()` holds", "`is_cuda()` does not hold"),
        ("(self.x or self.y) and self.z", "(--x is set or --y is set) and --z is set",
         "not both (--x is set or --y is set) and --z is set"),
        ("x in {1: 2}", "`x` is one of `{1: 2}`", "`x` is none of `{1: 2}`"),
        ("except ValueError", "`except ValueError`", "not `except ValueError`"),
        ("a and", "`a and`", "not `a and`"),
    ],
)  # fmt: skip
def test_words(test: str, true: str, false: str) -> None:
    assert describe_condition(test, True, Flags()) == true
    assert describe_condition(test, False, Flags()) == false


def test_long_lists_and_sources_are_cut() -> None:
    words = describe_condition(f"self.a in {[f'v{i}' for i in range(40)]!r}", True, Flags())
    assert words.endswith("v7, ... (32 more)")
    assert len(describe_condition("g(" + "+".join("abc" * 200) + ")", True, Flags())) < 200


@pytest.mark.parametrize("version", ["0.4.6.post5", "0.5.5", "0.5.11", "0.5.16", "0.5.23"])
def test_at_most_one_site_in_ten_has_an_opaque_atom(version: str) -> None:
    root = real.install(version)
    total, opaque = 0, []
    for path in [root / "sglang/srt/server_args.py", *sorted((root / "sglang/srt/arg_groups").rglob("*.py"))]:
        text = decode_source(path.read_bytes())
        lines = text.split("\n")
        module = ast.parse(text)
        functions = [n for n in ast.walk(module) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
        for node in ast.walk(module):
            if isinstance(node, ast.Raise | ast.Assert):
                around = [f.name for f in functions if f.lineno <= node.lineno <= (f.end_lineno or 0)]
                guards = find_guards(text, around[-1] if around else "<module>", node.lineno)
                tests = [g.text for g in guards if g.kind not in ("except", "with")]
                tests += [one_line(lines, node.test)] if isinstance(node, ast.Assert) else []
                scope = read_scope(text, node.lineno)
                total += 1
                if any(a.kind == "opaque" for t in tests for a in atoms(t, scope)):
                    opaque.append((path.name, node.lineno))
    assert total >= 15
    assert len(opaque) <= total * 0.1, opaque
