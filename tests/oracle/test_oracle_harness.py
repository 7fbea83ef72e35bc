"""The harness: children and their folders, stand-ins, what a release says through it, and that another oracle says the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.both import OTHER, Case, compare, five_cases, labelled_cases
from tests.oracle.harness.children import Work, answer_all, make_folders
from tests.oracle.places import FACTS, HARNESS, MODELS, find_home, python_of, run_environment, run_harness, why_absent

RELEASE = "0.5.11"


@pytest.fixture
def models(tmp_path: Path) -> Path:
    (tmp_path / "given/one").mkdir(parents=True)
    (tmp_path / "given/one/config.json").write_text("{}")
    return tmp_path / "given"


# ---------------------------------------------------------------- children
def run_children(models: Path, work: Work, words: list[str], limit: float = 30.0, jobs: int = 1) -> list[dict[str, Any]]:
    with make_folders(models, jobs) as folders:
        return [answer for _case, answer in answer_all([{"argv": [w]} for w in words], work, folders, limit)]


def test_a_launch_finds_the_models_and_nothing_of_the_launch_before_it(models: Path) -> None:
    def work(case: Any) -> dict[str, Any]:
        found = sorted(str(p) for p in Path().rglob("*"))
        Path(case["argv"][0], "deep").mkdir(parents=True)
        Path("models/one/more").write_text("x")
        return {"found": found, "at": os.getcwd()}

    answers = run_children(models, work, ["x", "0,1", "{}"])
    assert [a["found"] for a in answers] == [["models", "models/one", "models/one/config.json"]] * 3
    assert not Path(answers[0]["at"]).exists()
    assert sorted(p.name for p in models.rglob("*")) == ["config.json", "one"]


def test_empty_folders_made_elsewhere_are_removed_and_what_was_there_stays(models: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()

    def work(case: Any) -> dict[str, Any]:
        (tmp_path / "there/new/deep").mkdir(parents=True)
        (tmp_path / "there").mkdir(exist_ok=True)
        return {"made": (tmp_path / "there/new/deep").is_dir()}

    assert run_children(models, work, ["a", "b"]) == [{"made": True}] * 2
    assert list((tmp_path / "there").iterdir()) == []


def test_answers_come_in_order_and_one_that_hangs_or_dies_stops_no_other(models: Path) -> None:
    def work(case: Any) -> dict[str, Any]:
        if case["argv"] == ["hang"]:
            time.sleep(600)
        if case["argv"] == ["die"]:
            os._exit(9)
        return {"outcome": "ok", "word": case["argv"][0]}

    answers = run_children(models, work, ["hang", "a", "die", "b"], limit=2.0, jobs=2)
    assert [a["outcome"] for a in answers] == ["timeout", "ok", "crash", "ok"]
    assert [a.get("word") for a in answers] == [None, "a", None, "b"]
    assert answers[2]["message"].endswith(" 9")


def test_variables_of_a_launch_are_its_own(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIAGE_TEST_A", "outer")
    cases: list[dict[str, Any]] = [{"argv": [], "env": {"TRIAGE_TEST_A": None, "TRIAGE_TEST_B": "1"}}, {"argv": []}]

    def work(case: Any) -> dict[str, Any]:
        return {"seen": [os.environ.get("TRIAGE_TEST_A"), os.environ.get("TRIAGE_TEST_B")]}

    with make_folders(models, 1) as folders:
        answers = [answer for _case, answer in answer_all(cases, work, folders)]
    assert [a["seen"] for a in answers] == [[None, "1"], ["outer", None]]


# ---------------------------------------------------------------- stand-ins
STAND_INS = """
import importlib.metadata, importlib.util, json, sys
sys.path.insert(0, sys.argv[1])
from harness.machine import make_machine
from harness.standins import find_stand_ins, install
machine = make_machine({"missing_packages": ["gpu-two"], "extra_packages": ["gpu-three"]})
install(find_stand_ins("target", machine))
import gpu_one.deep.er
from gpu_one import thing

@thing
def plain(): return 7

@thing.make(size=3)
def made(): return 8

class Child(thing):
    x: thing | None = None

print(json.dumps([
    plain(), made(), Child().x, [*thing], importlib.metadata.version("GPU.one"), importlib.metadata.version("gpu-three"),
    [bool(importlib.util.find_spec(n)) for n in ("gpu_one", "gpu_three", "nobody")],
    importlib.metadata.packages_distributions()["gpu_one"],
]))
try:
    import gpu_two
except ModuleNotFoundError as error:
    print(error)
"""


def test_declared_packages_can_be_imported_and_missing_ones_cannot(tmp_path: Path) -> None:
    site = tmp_path / "target-1.0.dist-info"
    site.mkdir()
    lines = ["torch", "transformers==1.0", "gpu_one[x]>=2.5", "gpu-two==3.0", 'gpu-far; sys_platform == "nowhere"']
    site.joinpath("METADATA").write_text(
        "Metadata-Version: 2.1\nName: target\nVersion: 1.0\n" + "".join(f"Requires-Dist: {x}\n" for x in lines)
    )
    command = [sys.executable, "-c", STAND_INS, str(HARNESS.parent)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told, refused = done.stdout.splitlines()
    assert json.loads(told) == [7, 8, None, [], "2.5", "99.0.0", [True, True, False], ["gpu-one"]]
    assert refused == "No module named 'gpu_two'"


def test_a_runtime_that_is_an_extra_is_installed_with_it(tmp_path: Path) -> None:
    site = tmp_path / "target-1.0.dist-info"
    site.mkdir()
    lines = ["plain", 'target[common]; extra == "srt"', 'torch==2.0; extra == "srt"', 'gpu-one==1.2; extra == "srt"']
    lines += ['transformers==4.0; extra == "common"', 'torch==9; extra == "other"', 'tool; extra == "dev"']
    lines += ['target[srt]; extra == "all"', 'more; extra == "all"']
    extras = "".join(f"Provides-Extra: {x}\n" for x in ("all", "common", "dev", "other", "srt"))
    site.joinpath("METADATA").write_text(
        f"Metadata-Version: 2.1\nName: target\nVersion: 1.0\n{extras}" + "".join(f"Requires-Dist: {x}\n" for x in lines)
    )
    script = "import sys, json; sys.path.insert(0, sys.argv[1])\nfrom harness.standins import read_declared\n"
    command = [sys.executable, "-c", script + "print(json.dumps(read_declared('target')))", str(HARNESS.parent)]
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    said = json.loads(subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout)
    assert said == {"plain": None, "torch": "2.0", "gpu-one": "1.2", "transformers": "4.0"}


# ---------------------------------------------------------------- a release
def need(release: str) -> None:
    absent = why_absent(release)
    if absent:
        pytest.skip(absent)


def test_outcomes_of_a_release() -> None:
    """Worked out by hand: 8 GPUs in 3 parts, a word for a number, help, a model that is no folder (and no network to get it)."""
    need(RELEASE)
    llama = ["--model-path", "models/llama"]
    launches: list[dict[str, Any]] = [
        {"id": "plain", "argv": llama},
        {"id": "usage", "argv": [*llama, "--tp-size", "x"]},
        {"id": "help", "argv": ["--help"]},
        {"id": "nodes", "argv": [*llama, "--tp-size", "3", "--nnodes", "2"]},
        {"id": "model", "argv": ["--model-path", "nobody/nothing"]},
    ]
    text = "".join(json.dumps(x) + "\n" for x in launches)
    told = run_harness(RELEASE, ["--facts", str(FACTS / "a100x8.json"), "--batch", "--jobs", "2"], text)
    answers = [json.loads(line) for line in told.splitlines()]
    assert [a["id"] for a in answers] == ["plain", "usage", "help", "nodes", "model"]
    assert [a["outcome"] for a in answers] == ["ok", "argparse", "exit", "exception", "exception"]
    plain, usage, _help, nodes, model = answers
    assert plain["settings"]["model_path"] == "models/llama" and plain["settings"]["tp_size"] == 1
    assert usage["message"].endswith("invalid int value: 'x'") and usage["settings"] is None
    assert nodes["exception"] == "AssertionError" and nodes["stage"] == "check_server_args"
    assert nodes["frame"]["kind"] == "assert" and nodes["frame"]["first"] <= nodes["frame"]["line"] <= nodes["frame"]["last"]
    lines = nodes["traceback"].splitlines()
    assert lines[0] == "Traceback (most recent call last):" and "_run_module_as_main" in lines[1]
    assert next(f for f in lines if "in <module>" in f).strip().startswith(f'File "{python_of(RELEASE).parents[1]}')
    assert str(HARNESS) not in nodes["traceback"]
    assert "offline mode" in model["message"]


def test_what_it_is_given_wrong_is_one_line(tmp_path: Path) -> None:
    need(RELEASE)
    wrong = tmp_path / "facts.json"
    wrong.write_text('{"gpus": 3}')
    command = [str(python_of(RELEASE)), "-m", "harness", "--names", str(tmp_path / "absent"), "--facts", str(wrong)]
    done = subprocess.run(command, env=run_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.startswith("harness: FileNotFoundError") and done.stderr.count("\n") == 1


@pytest.mark.parametrize("release", ["0.5.5", "0.5.16"])
def test_both_oracles_agree(release: str) -> None:
    """Every sixth labelled failure on one host (python -m tests.oracle.both takes all), and five that the other is asked."""
    need(release)
    labelled: list[Case] = labelled_cases(release)
    if not labelled or not (OTHER / "oracle.py").is_file():
        pytest.skip(f"not here: no other oracle in {OTHER} (set TRIAGE_SHARED)")
    found = compare(release, [*five_cases(), *(c for c in labelled[::6] if c.facts == "h100x8")])
    assert found.same == found.launches > 20, "\n".join(found.wrong)
    assert found.asked == 5 and found.failing >= found.launches - 5


# ---------------------------------------------------------------- places
def test_the_home_is_what_was_said_else_a_folder_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert find_home({"ORACLE_HOME": str(tmp_path)}) == tmp_path
    common = tmp_path / "opt/oracle"
    monkeypatch.setattr("tests.oracle.places._COMMON", common)
    assert find_home({}) == common  # its parent can be written
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert find_home({}).name == "triage-oracle"
    (common / "1.0/bin").mkdir(parents=True)
    (common / "1.0/bin/python").touch()
    assert find_home({}) == common  # somebody installed releases there


def test_models_and_facts_are_complete() -> None:
    for path in sorted(MODELS.glob("*/config.json")):
        assert json.loads(path.read_text())["architectures"], path
    kinds = {json.loads(p.read_text())["model_type"] for p in MODELS.glob("*/config.json")}
    assert {
        "llama",
        "qwen3_moe",
        "deepseek_v3",
        "kimi_k2",
        "qwen3_next",
        "nemotron_h",
        "gemma3_text",
        "qwen2_5_vl",
        "bert",
    } <= kinds
    assert {json.loads(p.read_text())["device"] for p in FACTS.glob("*.json")} == {"cuda", "cpu"}
