"""Changes computed from a run's own figures, with values that a person worked out; and the patches that come of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from triage.analysis.diagnose import diagnose
from triage.analysis.figures import Figures, read_figures, read_settings
from triage.analysis.log import read_log
from triage.analysis.remedies import COMPUTATIONS
from triage.analysis.trees import MemoryTree
from triage.knowledge import load_profile
from triage.model import CaptureMeta, Diagnosis, Edit, Facts, Launch, ModelConfig
from triage.protocols import Capture, EngineProfile, Stage

LOGS = Path(__file__).resolve().parents[2] / "fixtures" / "logs"
SGLANG = load_profile("sglang")
UNKNOWN = Facts()
OOM = {"tried": "3.00 GiB", "free": "1.00 GiB", "total": "80.00 GiB"}
WEIGHTS = {"before_weights": 80.0, "after_weights": 20.0}


def compute(
    name: str,
    holes: Mapping[str, str] | None = None,
    told: Mapping[str, float] | None = None,
    settings: Mapping[str, Any] | None = None,
    facts: Facts = UNKNOWN,
) -> str | None:
    computed = COMPUTATIONS[name](Figures(holes or {}, told or {}, settings or {}, facts))
    return computed.value if computed is not None else None


# ---------------------------------------------------------------- values, and none where a figure is missing
def test_the_share_that_gives_the_cache_half_of_what_the_weights_left() -> None:
    # 20 of 80 GB are left: 10 of them to the cache, 10 stay: 1 - 10/80 = 0.875, down to 0.87
    assert compute("share_for_pool", told=WEIGHTS) == "0.87"
    # 60 GB of weights tell what was free before where that line is cut off
    assert compute("share_for_pool", told={"after_weights": 20.0, "weights": 60.0}) == "0.87"
    assert compute("share_for_pool", told=WEIGHTS, settings={"mem_fraction_static": 0.8}) == "0.87"
    assert compute("share_for_pool", told=WEIGHTS, settings={"mem_fraction_static": 0.9}) is None
    assert compute("share_for_pool", told=WEIGHTS, holes={"share": "0.95"}) is None
    # 0.6 GB left: 0.3 would stay for activations
    assert compute("share_for_pool", told={"before_weights": 24.0, "after_weights": 0.6}) is None
    # the message's own bound: above 0.9123
    assert compute("share_for_pool", holes={"least": "0.9123"}) == "0.93"
    assert compute("share_for_pool") is None
    assert compute("share_for_pool", told={"after_weights": 20.0}) is None


def test_the_share_less_what_was_lacking() -> None:
    now = {"mem_fraction_static": 0.88}
    # 2 GiB were lacking, and 1 GiB more: 3/80 = 0.0375; 0.88 - 0.0375 = 0.8425, down to 0.84
    assert compute("share_after_oom", OOM, settings=now) == "0.84"
    # little lacking: by 0.02 at least
    assert compute("share_after_oom", {**OOM, "tried": "1.01 GiB"}, settings={"mem_fraction_static": 0.5}) == "0.48"
    # weights alone take 0.85 of what was free
    assert compute("share_after_oom", OOM, {"before_weights": 80.0, "after_weights": 12.0}, now) is None
    assert compute("share_after_oom", OOM) is None
    assert compute("share_after_oom", {"tried": "3.00 GiB"}, settings=now) is None


def test_halves() -> None:
    assert compute("half_graph_batch", settings={"cuda_graph_max_bs": 160}) == "80"
    assert compute("half_graph_batch", settings={"cuda_graph_max_bs": None}, told={"graph_batch": 25.0}) == "12"
    assert compute("half_graph_batch", settings={"cuda_graph_max_bs": 1}) is None
    assert compute("half_requests", told={"requests": 48.0}) == "24"
    assert compute("half_requests", settings={"max_running_requests": True}) is None
    assert compute("half_chunk", settings={"chunked_prefill_size": 8192}) == "4096"
    assert compute("half_chunk", settings={"chunked_prefill_size": 1024}) is None
    assert compute("half_chunk", settings={"chunked_prefill_size": -1}) is None


def test_host_cache_port_and_gpus() -> None:
    # 44.87 less 10 in reserve, whole GB
    assert compute("host_cache", {"need": "40.00", "free": "44.87"}) == "34"
    assert compute("host_cache", {"need": "40.00", "free": "9.50"}) is None
    assert compute("host_cache", {"need": "40.00"}) is None
    assert compute("next_port", {"port": "31000"}) == "31001"
    assert compute("next_port", settings={"port": 65535}) is None
    assert compute("gpus_at_hand", settings={"tp_size": 16}, facts=Facts(gpu_count=8)) == "8"
    assert compute("gpus_at_hand", settings={"tp_size": 9}, facts=Facts(gpu_count=8)) == "3"
    assert compute("gpus_at_hand", settings={"tp_size": 8}, facts=Facts(gpu_count=8)) is None
    assert compute("gpus_at_hand", settings={"tp_size": 8}) is None


def test_ranks() -> None:
    # 129280 = 2^8 * 505; 25 is odd
    assert compute("ranks_that_divide", {"n": "129280", "tp": "24"}) == "16"
    assert compute("ranks_that_divide", {"n": "25", "tp": "2"}) == "1"
    assert compute("ranks_that_divide", {"n": "25"}) is None
    # 576 * 16 = 9216 = 8 * 1152 = 8 * 9 * 128
    assert compute("ranks_for_blocks", {"part": "576", "block": "128"}, settings={"tp_size": 16}) == "8"
    # 320 * 4 = 1280 = 2 * 640 = 2 * 5 * 128
    assert compute("ranks_for_blocks", {"part": "320", "block": "128"}, settings={"tp_size": 4}) == "2"
    # 8 * 8 = 64: less than a block however it is cut
    assert compute("ranks_for_blocks", {"part": "8", "block": "128"}, settings={"tp_size": 8}) is None
    assert compute("ranks_for_blocks", {"part": "576", "block": "128"}) is None


@pytest.mark.parametrize("name", sorted(COMPUTATIONS))
def test_nothing_is_computed_of_nothing_and_of_nonsense(name: str) -> None:
    assert compute(name) is None
    nonsense = dict.fromkeys(("tried", "free", "total", "port", "need", "n", "tp", "part", "block", "share", "least"), "0")
    assert compute(name, nonsense, dict.fromkeys((*WEIGHTS, "weights", "requests"), 0.0), {"tp_size": 0, "port": 0}) is None
    huge = dict.fromkeys(nonsense, "9" * 20)
    value = compute(name, huge, dict.fromkeys(WEIGHTS, 1e18), {"tp_size": 10**9, "mem_fraction_static": 1e9}, Facts(gpu_count=8))
    assert value is None or len(value) < 25


# ---------------------------------------------------------------- figures of a log
def test_figures_are_the_smallest_rank_s_first_and_last() -> None:
    log = """\
[2025-09-02 10:00:00 TP0] Load weight begin. avail mem=78.00 GB
[2025-09-02 10:00:00 TP1] Load weight begin. avail mem=77.00 GB
[2025-09-02 10:00:09 TP0] Load weight end. type=A, dtype=torch.bfloat16, avail mem=20.00 GB, mem usage=58.00 GB.
[2025-09-02 10:00:09 TP1] Load weight end. elapsed=9 s, type=A, avail mem=18.50 GB, mem usage=58.50 GB.
[2025-09-02 10:00:10 TP0] Load weight begin. avail mem=20.00 GB
[2025-09-02 10:00:12 TP0] Load weight end. type=Draft, dtype=torch.bfloat16, avail mem=17.00 GB, mem usage=3.00 GB.
[2025-09-02 10:00:15 TP0] max_total_num_tokens=56524, chunked_prefill_size=8192, max_prefill_tokens=16384, \
max_running_requests=2049, context_len=32768
"""
    told = read_figures(read_log(log.encode()).records, SGLANG.figures)
    assert told["before_weights"] == 77.0 and told["after_weights"] == 17.0 and told["weights"] == 58.5
    assert (told["tokens"], told["chunk"], told["requests"], told["context"]) == (56524, 8192, 2049, 32768)


def test_settings_are_those_that_the_run_printed_before_those_typed() -> None:
    records = read_log(b"[2025-09-02 10:00:00] server_args=ServerArgs(model_path='m', tp_size=4, port=30000)\n").records
    found = read_settings(records, "ServerArgs", ["--tp-size", "8", "--mem-fraction-static=0.9", "--trust-remote-code"])
    assert (found["tp_size"], found["port"], found["mem_fraction_static"]) == (4, 30000, 0.9)
    assert read_settings((), "ServerArgs", ["--tp-size", "8"]) == {"tp_size": 8}


# ---------------------------------------------------------------- patches through a validation of our own
SOURCE = """
import argparse
import dataclasses


@dataclasses.dataclass
class Args:
    model: str
    port: int = 30000
    mem_fraction_static: float | None = None
    tp_size: int = 1
    cuda_graph_max_bs: int = 160
    trust_remote_code: bool = False

    def __post_init__(self):
        if self.mem_fraction_static is None:
            self.mem_fraction_static = 0.75 if self.tp_size > 1 else 0.88
        assert self.mem_fraction_static < 0.9 or self.tp_size < 8, "too much for many"


def prepare_server_args(argv):
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=str, required=True)
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--mem-fraction-static", type=float)
    parser.add_argument("--tp-size", "--tp", type=int, default=1)
    parser.add_argument("--cuda-graph-max-bs", type=int, default=160)
    parser.add_argument("--trust-remote-code", action="store_true")
    return Args(**vars(parser.parse_args(argv)))
"""
PROFILE = replace(
    EngineProfile(
        name="own",
        package="own",
        distribution="own",
        entries=(("-m", "own"),),
        args_class="own.args.Args",
        stages=(Stage("own.args.prepare_server_args"),),
        port_field="port",
        host_field="host",
        model_field="model",
        health_paths=("/health",),
        generate_path=None,
        ready_marks=SGLANG.ready_marks,
        fatal_marks=SGLANG.fatal_marks,
    ),
    phases=SGLANG.phases,
    protected=SGLANG.protected,
    capabilities=SGLANG.capabilities,
    signatures=SGLANG.signatures,
    figures=SGLANG.figures,
)


def diagnose_fixture(name: str, *args: str, source: str = SOURCE, env: Mapping[str, str] | None = None) -> Diagnosis:
    log = next(path for folder in ("failures", "kinds") if (path := LOGS / folder / f"{name}.txt").is_file()).read_bytes()
    tree = MemoryTree({"own/__init__.py": b"", "own/args.py": source.encode()})
    launch = Launch(("python", "-m", "own"), ("--model", "m", *args), env or {})
    meta = CaptureMeta("local", "own", "given", "own", None, None, None, None)
    return diagnose(Capture(meta, launch, Facts(device="cuda", gpu_count=8), log, tree, (ModelConfig("m", "{}"),)), PROFILE)


def test_a_share_from_the_log_becomes_a_patch_and_what_nobody_typed_is_followed() -> None:
    found = diagnose_fixture("memory-pool-too-small-24gb")
    assert found.outcome == "patch" and found.cause is not None and found.cause.category == "memory"
    # 2.61 of 23.09 GB are left: 1 - 1.305/23.09 = 0.9434
    (patch,) = found.patches
    assert patch.edits == (Edit("add", "--mem-fraction-static", None, "0.94"),)
    assert patch.certainty == "likely" and "less memory for activations and graphs" in patch.losses
    assert "2.61 of 23.09" in patch.why and "gpu-memory-pool" in patch.why
    line = next(n for n, text in enumerate(SOURCE.split("\n"), 1) if "self.mem_fraction_static = 0.75" in text)
    assert f"Nobody typed --mem-fraction-static: own/args.py:{line} made it 0.88, by --tp-size." in found.cause.text
    assert [e.knowledge_id for e in found.cause.evidence if e.kind == "knowledge"] == ["gpu-memory-pool"]
    assert any(u.settle and "avail mem" in u.settle for u in found.unknowns)


def test_values_that_a_message_blames_are_followed_to_their_origin() -> None:
    log = b"""\
[2025-09-02 10:00:03 TP0] Scheduler hit an exception: Traceback (most recent call last):
  File "/v/lib/python3.11/site-packages/own/worker.py", line 7, in __init__
    assert batch == ranks
AssertionError: cuda_graph_max_bs must be tp_size with this mem_fraction_static and this --port, got 160 and 2

[2025-09-02 10:00:03] Received sigquit from a child process. It usually means the child failed.
"""
    tree = MemoryTree({"own/__init__.py": b"", "own/args.py": SOURCE.encode()})
    meta = CaptureMeta("local", "own", "given", "own", None, None, None, None)
    launch = Launch(("python", "-m", "own"), ("--model", "m", "--tp", "2", "--port", "31000"), {})
    found = diagnose(Capture(meta, launch, Facts(device="cuda"), log, tree, (ModelConfig("m", "{}"),)), PROFILE)
    assert found.cause is not None
    text = found.cause.text
    assert "Nobody typed --cuda-graph-max-bs: 160 is its default." in text
    assert "Nobody typed --mem-fraction-static: own/args.py:17 made it 0.75, by --tp-size." in text
    assert "Nobody typed --tp-size" not in text and "Nobody typed --port" not in text


def test_a_patch_that_validation_refuses_is_not_proposed() -> None:
    found = diagnose_fixture("memory-pool-too-small-24gb", "--tp", "8")
    assert (found.outcome, found.patches) == ("no_patch", ())
    assert found.cause is not None and "By the figures of this run" in found.cause.text


def test_a_release_without_the_flag_gets_no_such_patch() -> None:
    without = "\n".join(line for line in SOURCE.split("\n") if '"--mem-fraction-static"' not in line)
    without = without.replace("return Args(**vars(", "return Args(mem_fraction_static=None, **vars(")
    assert diagnose_fixture("memory-pool-too-small-24gb", source=without).patches == ()


def test_the_changes_of_a_remedy_come_in_its_order_and_keep_the_spelling() -> None:
    found = diagnose_fixture("memory-graph-capture-deepep", "--mem-fraction-static", "0.85", "--tp", "16")
    # 448 - 310.31 MiB lacking and 1 GiB more of 95 GiB: 0.0119; by 0.02 at least
    assert [p.edits for p in found.patches] == [
        (Edit("set", "--mem-fraction-static", "0.85", "0.83"),),
        (Edit("add", "--cuda-graph-max-bs", None, "80"),),
    ]
    assert found.patches[0].args == ("--model", "m", "--mem-fraction-static", "0.83", "--tp", "16")
    tried = diagnose_fixture("memory-graph-capture-deepep", "--mem-fraction-static", "0.83", "--tp", "16")
    assert tried.patches[0].edits[0].new == "0.81"


def test_ranks_are_set_by_the_flag_that_was_typed() -> None:
    found = diagnose_fixture("model-vocabulary-and-tp", "--tp", "24")
    assert found.patches[0].edits == (Edit("set", "--tp", "24", "16"),)
    assert "tensor parallelism over the GPUs that were asked for" in " ".join(found.patches[0].losses)


@pytest.mark.parametrize(
    ("log", "edit"),
    [
        ("host-port-in-use", Edit("set", "--port", "31000", "31001")),
        ("access-remote-code-not-allowed", Edit("add", "--trust-remote-code")),
        ("warmup-proxy-502-while-serving", Edit("env", "no_proxy", "10.0.0.9", "10.0.0.9,127.0.0.1,localhost,0.0.0.0,::1")),
    ],
)
def test_protected_settings_need_consent(log: str, edit: Edit) -> None:
    found = diagnose_fixture(log, "--port", "31000", env={"no_proxy": "10.0.0.9"})
    assert found.outcome == "needs_consent"
    assert found.patches[0].edits == (edit,)
    assert any("agree" in u.settle for u in found.unknowns)


def test_a_variable_becomes_a_patch() -> None:
    found = diagnose_fixture("driver-nccl-p2p-invalid")
    assert [dict(p.env) for p in found.patches] == [{"NCCL_CUMEM_ENABLE": "0"}, {"NCCL_P2P_DISABLE": "1"}]
    assert diagnose_fixture("driver-nccl-p2p-invalid", env={"NCCL_CUMEM_ENABLE": "0"}).patches[0].env == {"NCCL_P2P_DISABLE": "1"}


def test_what_nothing_fits_is_said_not_to_be_known() -> None:
    log = b"""\
[2025-09-02 10:00:00 TP0] Load weight begin. avail mem=78.00 GB
[2025-09-02 10:00:03 TP0] Scheduler hit an exception: Traceback (most recent call last):
  File "/v/lib/python3.11/site-packages/own/odd.py", line 7, in turn
    raise Peculiar("three left feet")
own.odd.Peculiar: three left feet

[2025-09-02 10:00:03] Received sigquit from a child process. It usually means the child failed.
"""
    meta = CaptureMeta("local", "own", "log", "own", None, None, None, None)
    found = diagnose(Capture(meta, None, Facts(), log, None), PROFILE)
    assert found.cause is not None and found.cause.category == "runtime" and found.outcome == "no_patch"
    text = found.cause.text
    assert "not known" in text and "own.odd.Peculiar" in text and "own/odd.py:7 in turn" in text
    assert "three left feet" in text and "'weights'" in text
    assert not [e for e in found.cause.evidence if e.kind == "knowledge"]
