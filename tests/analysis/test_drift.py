"""Source that is not what it was: missing, compiled only, moved, newer, damaged, hooked. Each is told by name, nothing breaks."""

from __future__ import annotations

import json
import sys
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.analysis import real_sources
from tests.analysis.small_server import PROFILE, SOURCE
from triage.analysis.diagnose import diagnose
from triage.analysis.evaluate import Evaluation, Evaluator, Program
from triage.analysis.foresee import foresee
from triage.analysis.lives.explain import explain_setting
from triage.analysis.plugins import find_plugins
from triage.analysis.sites import survey_sites
from triage.analysis.trees import MemoryTree, WheelTree, open_tree
from triage.errors import EngineError, UsageError
from triage.knowledge import load_profile
from triage.model import CaptureMeta, Diagnosis, Facts, Foresight, Launch, ModelConfig, Unknown
from triage.protocols import Capture, EngineProfile, SourceTree

PASSING = ("--model", "m")
FAILING = ("--model", "m", "--mode", "tree", "--budget", "3")
SECONDS = 20.0  # CPU of one answer; what does not end takes minutes

TABLES = """
MODES = ["tree", "line", "ring"]

def check_all(args):
    if args.width is not None and args.width > 8:
        raise ValueError("wide")
"""
# Ways in which the args class uses a module of the package.
TOP = SOURCE.replace("import os\n", "import os\nfrom small.tables import check_all\n", 1)
WHOLE = SOURCE.replace("import os\n", "import os\nfrom small import tables\n", 1)
CALLED = {
    "imported name": TOP.replace("self.check_both()\n", "check_all(self)\n", 1),
    "imported module": WHOLE.replace("self.check_both()\n", "tables.check_all(self)\n", 1),
    "import inside": SOURCE.replace("self.check_both()\n", "from small import tables; tables.check_all(self)\n", 1),
}
DEEP = b"A = " + b"(" * 200_000 + b")" * 200_000 + b"\n"
# What stands there in place of tables.py -> the words that tell it.
LACKING: dict[str, tuple[dict[str, bytes], str]] = {
    "absent": ({}, "small/tables.py is not in the source"),
    "pyc": ({"small/tables.pyc": b"\xa7\r\r\n"}, "only small/tables.pyc is there"),
    "so": ({"small/tables.cpython-311-x86_64-linux-gnu.so": b"\x7fELF"}, "only small/tables.cpython-311-x86_64-linux-gnu.so"),
    "cache only": ({"small/__pycache__/tables.cpython-311.pyc": b"x"}, "small/tables.py is not in the source"),
    "no Python": ({"small/tables.py": b"def (:\n"}, "small/tables.py cannot be parsed"),
    "NUL": ({"small/tables.py": TABLES.encode() + b"\0"}, "small/tables.py cannot be parsed"),
    "200,000 brackets": ({"small/tables.py": TABLES.encode() + DEEP}, "small/tables.py cannot be parsed"),
    "a sum of 100,000": ({"small/tables.py": TABLES.encode() + b"A = " + b"1+" * 100_000 + b"1\n"}, "nested too deeply"),
    "30 MB": ({"small/tables.py": TABLES.encode() + b"A = 1\n" * 5_000_000}, "small/tables.py too large"),
    "60 MB": ({"small/tables.py": TABLES.encode() + b"A = 1\n" * 10_000_000}, "small/tables.py cannot be read"),
}


def make_tree(files: Mapping[str, str | bytes]) -> MemoryTree:
    made = {"small/__init__.py": b"", **{k: v.encode() if isinstance(v, str) else v for k, v in files.items()}}
    return MemoryTree(made)


def make_capture(tree: SourceTree, args: Sequence[str], log: bytes = b"", env: Mapping[str, str] | None = None) -> Capture:
    meta = CaptureMeta("local", "small", "given", "small", None, None, None, None)
    launch = Launch(("python", "-m", "small"), tuple(args), env or {})
    return Capture(meta, launch, Facts(device="cuda"), log, tree, (ModelConfig("m", "{}"),))


def evaluate(tree: SourceTree, args: Sequence[str]) -> Evaluation:
    return Evaluator(Program(tree, "small"), PROFILE, Facts(device="cuda"), {}).evaluate(args)


def line_of(text: str, source: str) -> int:
    return next(i for i, line in enumerate(source.split("\n"), 1) if text in line)


def make_log(file: str, source: str) -> bytes:
    inner, outer = "assert self.width is not None", "return Args.from_cli_args(parser.parse_args(argv))"
    return (
        "Traceback (most recent call last):\n"
        f'  File "/v/lib/{file}", line {line_of(outer, source)}, in prepare_server_args\n    {outer}\n'
        f'  File "/v/lib/{file}", line {line_of(inner, source)}, in check_mode\n    {inner}\n'
        "AssertionError\n"
    ).encode()


def told(answer: Diagnosis | Foresight) -> str:
    return "\n".join(f"{u.what} | {u.why} | {u.settle}" for u in answer.unknowns)


def edits_of(answer: Diagnosis | Foresight) -> set[tuple[str, str | None]]:
    return {(e.name, e.new) for e in answer.patches[0].edits} if answer.patches else set()


def ask_all(tree: SourceTree, args: Sequence[str], log: bytes, profile: EngineProfile = PROFILE) -> tuple[Foresight, Diagnosis]:
    """Every analysis of the tree; none may raise but for a source without settings, and none may go on and on."""
    started = time.process_time()
    capture = make_capture(tree, args, log)
    out = foresee(capture, profile), diagnose(capture, profile)
    survey_sites(tree, profile)
    try:
        explain_setting(capture, profile, "width")
    except EngineError as error:
        assert "declares no settings" in str(error)
    assert time.process_time() - started < SECONDS
    return out


# ---------------------------------------------------------------- a module on the way
@pytest.mark.parametrize("source", CALLED.values(), ids=CALLED)
def test_with_the_module_there_the_answers_are_sure(source: str) -> None:
    tree = make_tree({"small/args.py": source, "small/tables.py": TABLES})
    assert evaluate(tree, PASSING).verdict == "passes"
    failed = evaluate(tree, [*PASSING, "--width", "9"])
    assert failed.verdict == "fails" and failed.raised is not None
    assert failed.raised.site_text == "small/tables.py:6" and failed.raised.message == "wide"


@pytest.mark.parametrize("lacking", LACKING)
@pytest.mark.parametrize("how", CALLED)
def test_a_call_into_a_module_without_source_may_fail(how: str, lacking: str) -> None:
    files, words = LACKING[lacking]
    source = CALLED[how]
    tree = make_tree({"small/args.py": source, **files})
    found = evaluate(tree, PASSING)
    assert found.verdict == "unknown" and found.raised is None
    where = f"small/args.py:{line_of('check_all(self)', source)}"
    assert where in {p.site_text for p in found.possible}
    assert all(words in p.depends for p in found.possible)
    seen, _ = ask_all(tree, PASSING, b"")
    assert seen.outcome == "unknown"
    lost = [u for u in seen.unknowns if where in u.what]
    assert lost and all(words in u.why and "whole source" in u.settle for u in lost)


@pytest.mark.parametrize("lacking", LACKING)
def test_a_failure_elsewhere_is_still_found(lacking: str) -> None:
    source = CALLED["imported name"]
    tree = make_tree({"small/args.py": source, **LACKING[lacking][0]})
    whole = make_tree({"small/args.py": source, "small/tables.py": TABLES})
    found = evaluate(tree, FAILING)
    assert found.verdict == "fails" and found.raised is not None  # it comes before the call
    assert found.raised.site_text == f"small/args.py:{line_of('assert self.width is not None', source)}"
    lost = diagnose(make_capture(tree, FAILING, make_log("small/args.py", source)), PROFILE)
    known = diagnose(make_capture(whole, FAILING, make_log("small/args.py", source)), PROFILE)
    assert lost.failure == known.failure and lost.path is not None
    assert edits_of(known) == {("--width", "2"), ("--depth", "2")}
    assert not edits_of(lost) or lost.patches[0].certainty not in ("proved", "rehearsed")


def test_a_module_that_a_try_guards_is_not_missed() -> None:
    guarded = "import os\ntry:\n    from small.tables import check_all\nexcept ImportError:\n    check_all = None\n"
    source = SOURCE.replace("import os\n", guarded, 1)
    source = source.replace("self.check_both()\n", "check_all is None or check_all(self)\n", 1)
    assert evaluate(make_tree({"small/args.py": source}), PASSING).verdict == "passes"
    compiled = evaluate(make_tree({"small/args.py": source, "small/tables.pyc": b"x"}), PASSING)
    assert compiled.verdict == "unknown" and "only small/tables.pyc is there" in compiled.possible[0].depends


# ---------------------------------------------------------------- the module of the args class
MAIN: dict[str, tuple[dict[str, str | bytes], str]] = {
    "absent": ({}, "small/args.py is not in the source"),
    "pyc": ({"small/args.pyc": b"x"}, "only small/args.pyc is there"),
    "no Python": ({"small/args.py": SOURCE + "\ndef (:\n"}, "small/args.py cannot be parsed"),
    "NUL": ({"small/args.py": SOURCE + "\0"}, "small/args.py cannot be parsed"),
    "200,000 brackets": ({"small/args.py": SOURCE.encode() + DEEP}, "small/args.py cannot be parsed"),
    "50,000 attributes": ({"small/args.py": SOURCE + "\nA = a" + ".b" * 50_000 + "\n"}, "nested too deeply"),
    "30 MB": ({"small/args.py": SOURCE.encode() + b"A = 1\n" * 5_000_000}, "small/args.py too large"),
    "moved": ({"small/core/args.py": SOURCE}, "small/core/args.py has a class of that name"),
}


@pytest.mark.parametrize("case", MAIN)
def test_without_the_args_class_the_reason_names_its_file(case: str) -> None:
    files, words = MAIN[case]
    tree = make_tree(files)
    found = evaluate(tree, FAILING)
    assert found.verdict == "unknown" and words in found.why
    seen, diagnosis = ask_all(tree, FAILING, make_log("small/args.py", SOURCE))
    assert seen.outcome == "unknown" and words in told(seen) and "whole source" in told(seen)
    assert diagnosis.outcome == "no_patch" and "small/args.py" in told(diagnosis)
    assert diagnosis.failure is not None and diagnosis.failure.exception == "AssertionError"


LEFT = {
    "star": ("small/core/args.py", {"small/args.py": "from small.core.args import *\n"}),
    "names": ("small/core/args.py", {"small/args.py": "from small.core.args import Args, prepare_server_args\n"}),
    "a package": ("small/args/impl.py", {"small/args/__init__.py": "from .impl import Args, prepare_server_args\n"}),
    "on demand": (
        "small/core/args.py",
        {"small/args.py": "def __getattr__(name):\n    from small.core import args\n    return getattr(args, name)\n"},
    ),
}


@pytest.mark.parametrize("how", LEFT)
def test_a_fork_that_moved_the_file_and_left_its_names_is_followed(how: str) -> None:
    file, left = LEFT[how]
    seen, diagnosis = ask_all(make_tree({file: SOURCE, **left}), FAILING, make_log(file, SOURCE))
    assert seen.failures[0].failure.frames[-1].file == file
    assert seen.failures[0].failure.frames[-1].line == line_of("assert self.width is not None", SOURCE)
    assert edits_of(seen) == edits_of(diagnosis) == {("--width", "2"), ("--depth", "2")}


@pytest.mark.parametrize("how", ["names", "a package"])
def test_a_moved_file_has_its_sites_and_lives(how: str) -> None:
    file, left = LEFT[how]
    tree = make_tree({file: SOURCE, **left})
    reached = {c.site.location.line for c in survey_sites(tree, PROFILE).conditions if c.ways}
    assert line_of("assert self.width is not None", SOURCE) in reached and len(reached) == SOURCE.count("assert ") + SOURCE.count(
        "raise "
    )
    life = explain_setting(make_capture(tree, PASSING), PROFILE, "width")
    assert life.declaration.location is not None and life.declaration.location.file == file
    assert [w.location.line for w in life.writes] == [line_of("self.width = self.width or 1", SOURCE)]


# ---------------------------------------------------------------- syntax newer than the local Python
NEWER = """
MODES = ["tree", "line", "ring"]

def first[T](values: list[T]) -> T:
    return values[0]

def check_all(args):
    try:
        limit = int(f"{first(["8", "9"])}")
    except ValueError, TypeError:
        limit = 0
    if args.width is not None and args.width > limit:
        raise ValueError(f"over {limit}{f"{"!"}"}")
"""


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="this Python reads that syntax itself")
def test_newer_syntax_is_read_and_said_to_be_rewritten() -> None:
    tree = make_tree({"small/args.py": CALLED["imported name"], "small/tables.py": NEWER})
    assert evaluate(tree, PASSING).verdict == "passes"
    failed = evaluate(tree, [*PASSING, "--width", "9"])
    assert failed.verdict == "fails" and failed.raised is not None
    assert (failed.raised.site_text, failed.raised.message) == ("small/tables.py:13", "over 8!")
    seen, _ = ask_all(tree, [*PASSING, "--width", "9"], b"")
    assert "the exact syntax of small/tables.py" in {u.what for u in seen.unknowns}


# ---------------------------------------------------------------- editable installs
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("__editable__.small-1.0.pth", "{code}\n"),
        ("small.pth", "import os\n{code}\n"),
        ("small.egg-link", "{code}\n.\n"),
        ("__editable___small_1_0_finder.py", "MAPPING: dict[str, str] = {{'small': '{code}/small'}}\n"),
    ],
)
def test_an_editable_install_says_where_its_source_is(name: str, text: str, tmp_path: Path) -> None:
    code, site = tmp_path / "code", tmp_path / "site"
    (code / "small").mkdir(parents=True)
    (code / "small" / "__init__.py").write_text("")
    site.mkdir()
    with pytest.raises(UsageError, match="holds no package") as nothing:
        open_tree(site, "small")
    assert str(code) not in nothing.value.hint
    (site / name).write_text(text.format(code=code))
    with pytest.raises(UsageError, match="editable install of small") as error:
        open_tree(site, "small")
    assert error.value.hint.endswith(f"--source {code}")


# ---------------------------------------------------------------- plugins
HOOKED = {
    "hooks_lib-2.1.dist-info/entry_points.txt": b"[console_scripts]\nrun = hooks:main\n"
    b"\n[small.plugins]\nfast = hooks.fast:register\n",
    "other-1.0.dist-info/entry_points.txt": b"[console_scripts]\nsmall = other:main\n[pytest11]\nx = small_like:y\n",
    "small-1.0.dist-info/entry_points.txt": b"[small.plugins]\nown = small.own:register\n",
    "broken-1.0.dist-info/entry_points.txt": b"[small.plugins\nno section\n\xff",
}


def test_plugins_outside_the_package_are_named() -> None:
    tree = make_tree({"small/args.py": SOURCE, **HOOKED})
    profile = replace(PROFILE, plugin_variables=("SMALL_PLUGINS",))
    where = "hooks_lib-2.1 registers it for small.plugins (hooks.fast:register)"
    why = f"{where}: the server loads its code, which was not read"
    settle = "start once without it, or read its code"
    assert find_plugins(tree, profile, {}) == (Unknown("what the plugin fast does", why, settle),)
    env = {"SMALL_PLUGINS": "fast", "SMALL_MANY": "1"}
    capture = make_capture(tree, FAILING, make_log("small/args.py", SOURCE), env)
    for answer in (foresee(capture, profile), diagnose(capture, profile)):
        assert edits_of(answer) == {("--width", "2"), ("--depth", "2")}
        assert {"what the plugin fast does", "what SMALL_PLUGINS loads"} <= {u.what for u in answer.unknowns}
    assert "plugin" not in told(foresee(make_capture(make_tree({"small/args.py": SOURCE}), FAILING), profile))


# ---------------------------------------------------------------- a damaged wheel
def test_a_damaged_file_of_a_wheel_is_named(tmp_path: Path) -> None:
    wheel = tmp_path / "small-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("small/__init__.py", "")
        archive.writestr("small/args.py", CALLED["imported name"])
        archive.writestr("small/tables.py", TABLES * 50)
        at = archive.getinfo("small/tables.py").header_offset
    data = bytearray(wheel.read_bytes())
    body = at + 30 + len("small/tables.py")
    data[body : body + 20] = b"\xff" * 20
    wheel.write_bytes(data)
    found = evaluate(WheelTree(wheel), PASSING)
    assert found.verdict == "unknown" and "small/tables.py cannot be read" in found.possible[0].depends


# ---------------------------------------------------------------- a real release, changed in memory
class Overlay:
    """A tree with some files replaced; None is a file that is gone."""

    def __init__(self, inner: SourceTree, files: Mapping[str, bytes | None]) -> None:
        self.inner = inner
        self.files = files
        self.added = MemoryTree({k: v for k, v in files.items() if v is not None})

    def read(self, file: str) -> bytes | None:
        return self.files[file] if file in self.files else self.inner.read(file)

    def is_package(self, file: str) -> bool:
        return self.inner.is_package(file) or self.added.is_package(file)

    def list_dir(self, file: str) -> tuple[str, ...]:
        gone = {k.rpartition("/")[2] for k, v in self.files.items() if v is None and k.rpartition("/")[0] == file}
        return tuple(sorted({*self.inner.list_dir(file), *self.added.list_dir(file)} - gone))


RELEASE = "0.5.11"
ARGS_FILE = "sglang/srt/server_args.py"
MODEL = "models/qwen"
PLAIN = ("--model-path", MODEL)
SHORT = (*PLAIN, "--speculative-algorithm", "EAGLE3", "--speculative-num-draft-tokens", "3")  # no steps: TypeError or assert


def real_capture(files: Mapping[str, bytes | None], args: Sequence[str]) -> Capture:
    config = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 64, "num_attention_heads": 4}
    config |= {"num_hidden_layers": 2, "num_key_value_heads": 4, "vocab_size": 100, "max_position_embeddings": 4096}
    facts = Facts("cuda", "NVIDIA H100 80GB HBM3", 8, 81559, "9.0", "13.0", "3.11.7", "x86_64", paths={MODEL: "dir"})
    meta = CaptureMeta("local", "real", "given", "sglang", RELEASE, None, None, None)
    models = (ModelConfig(MODEL, json.dumps(config), ("config.json",)),)
    return Capture(meta, Launch((), tuple(args)), facts, b"", Overlay(real_sources.tree(RELEASE), files), models)


def real_evaluate(files: Mapping[str, bytes | None], args: Sequence[str]) -> Evaluation:
    capture = real_capture(files, args)
    assert capture.source is not None
    program = Program(capture.source, "sglang")
    return Evaluator(program, load_profile("sglang"), capture.facts, {}, capture.models).evaluate(args)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"sglang/srt/environ.py": None}, "sglang/srt/environ.py is not in the source"),
        (
            {"sglang/srt/configs/model_config.py": None, "sglang/srt/configs/model_config.pyc": b"x"},
            "only sglang/srt/configs/model_config.pyc is there",
        ),
        ({"sglang/srt/environ.py": b"def (:\n"}, "sglang/srt/environ.py cannot be parsed"),
    ],
    ids=["gone", "pyc", "no Python"],
)
def test_a_real_release_without_one_file(files: dict[str, bytes | None], words: str) -> None:
    assert real_evaluate({}, PLAIN).verdict == "passes"
    capture = real_capture(files, PLAIN)
    seen = foresee(capture, load_profile("sglang"))
    assert seen.outcome == "unknown" and not seen.failures
    assert any(words in u.why and "whole source" in u.settle for u in seen.unknowns)


def test_a_real_release_with_its_args_moved_or_in_newer_syntax() -> None:
    text = real_sources.tree(RELEASE).read(ARGS_FILE)
    assert text is not None
    before = real_evaluate({}, SHORT)
    assert before.verdict == "fails" and before.raised is not None and before.raised.site is not None
    assert before.raised.site.file == ARGS_FILE
    moved = "sglang/srt/args/server_args.py"
    left = b"from sglang.srt.args.server_args import *\n"
    there = real_evaluate({ARGS_FILE: left, moved: text, "sglang/srt/args/__init__.py": b""}, SHORT)
    assert there.verdict == "fails" and there.raised is not None
    assert there.raised.site == replace(before.raised.site, file=moved)
    newer = real_evaluate({ARGS_FILE: text + b"\n\ndef _first[T](x: T) -> T:\n    return x\n"}, SHORT)
    assert newer.verdict == "fails" and newer.raised is not None and newer.raised.site == before.raised.site
    gone = real_evaluate({ARGS_FILE: None}, SHORT)
    assert gone.verdict == "unknown" and f"{ARGS_FILE} is not in the source" in gone.why
