"""Flags of another server or release: the real parser refuses them, and what is proposed in their place passes."""

from __future__ import annotations

import pytest

from tests.oracle.places import why_absent
from tests.oracle.real import Evaluators, ask
from triage.analysis.diagnose import diagnose
from triage.model import CaptureMeta, ExitStatus, Launch
from triage.protocols import Capture

HOST = "h100x8"
MODEL = ("--model-path", "models/llama")
# (release, what is typed beside the model, what must stand in its place)
CASES = [
    ("0.5.11", ("--max-model-len", "4096"), ("--context-length", "4096")),
    ("0.5.11", ("--gpu-memory-utilization=0.8",), ("--mem-fraction-static", "0.8")),
    ("0.5.11", ("--enforce-eager", "--tp", "2"), ("--tp", "2", "--disable-cuda-graph")),
    ("0.5.11", ("--enable-prefix-caching",), ()),
    ("0.5.11", ("--max_num_seqs", "16", "--enable-chunked-prefill"), ("--max-running-requests", "16")),
    ("0.5.11", ("--tokenizer", "models/llama"), ("--tokenizer-path", "models/llama")),  # the parser calls it ambiguous
    ("0.5.23", ("--no-enable-prefix-caching",), ("--disable-radix-cache",)),
    ("0.5.23", ("--cuda-graph-max-bs", "64"), ("--cuda-graph-max-bs-decode", "64")),
    ("0.5.23", ("--disable-piecewise-cuda-graph",), ("--cuda-graph-backend-prefill", "disabled")),
    ("0.5.23", ("--nsa-prefill-cp-mode", "round-robin-split"), ("--cp-strategy", "interleave")),
    ("0.5.23", ("--stream-output",), ("--incremental-streaming-output",)),
]


@pytest.mark.parametrize("release", sorted({release for release, _, _ in CASES}))
def test_a_flag_of_another_server_or_release_becomes_what_means_the_same(release: str) -> None:
    absent = why_absent(release)
    if absent is not None:
        pytest.skip(absent)
    cases = [(typed, wanted) for own, typed, wanted in CASES if own == release]
    launches = [(*MODEL, *typed) for typed, _ in cases]
    answers = ask(release, HOST, launches)
    ours = Evaluators(release, launches)
    patched = []
    for launch, answer, (typed, wanted) in zip(launches, answers, cases, strict=True):
        assert answer.outcome == "argparse", launch
        meta = CaptureMeta("h", "sglang", "systemd", "sglang", release, None, "1", None, ExitStatus(2), "failed")
        facts = ours.get(HOST).machine.facts
        start = Launch(("python", "-m", "sglang.launch_server"), launch)
        found = diagnose(Capture(meta, start, facts, answer.log.encode(), ours.tree, tuple(ours.models)), ours.profile)
        assert found.patches, (launch, found.unknowns)
        assert sorted(found.patches[0].args) == sorted((*MODEL, *wanted)), (launch, found.patches[0])
        assert found.cause is not None
        told = [evidence for evidence in found.cause.evidence if evidence.knowledge_id]
        assert told and all(evidence.text.split()[0].split("=")[0] in " ".join(typed) for evidence in told)
        patched.append(found.patches[0].args)
    assert [answer.outcome for answer in ask(release, HOST, patched)] == ["ok"] * len(patched)
