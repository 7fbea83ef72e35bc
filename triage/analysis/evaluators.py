"""The evaluators of one capture: one for each environment that is tried, and the facts that they take as given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from triage.analysis.evaluate import Evaluator, Program
from triage.model import Facts, Unknown
from triage.protocols import Capture, EngineProfile


class Evaluators:
    """One evaluator for each environment that is tried; what the traceback showed of the host holds in all of them."""

    def __init__(
        self, capture: Capture, profile: EngineProfile, program: Program | None = None, assumed: tuple[Unknown, ...] = ()
    ) -> None:
        """`program` shares parsed files with other captures of the same tree. With `assumed`, one side of each unknown test
        is followed, as where the facts are too few."""
        assert capture.source is not None
        self.capture = capture
        self.profile = profile
        self.program = program or Program(capture.source, profile.package)
        self.facts, missing = complete_facts(capture)
        self.assumed = (*missing, *assumed)
        self.made: dict[tuple[tuple[str, str], ...], Evaluator] = {}
        self.observed: Mapping[str, bool] = {}

    def get(self, env: Mapping[str, str]) -> Evaluator:
        key = tuple(sorted(env.items()))
        if key not in self.made:
            made = Evaluator(self.program, self.profile, self.facts, env, self.capture.models, optimistic=bool(self.assumed))
            made.assume(self.observed)
            self.made[key] = made
        return self.made[key]

    def learn(self, observed: Mapping[str, bool]) -> None:
        self.observed = {**self.observed, **observed}
        for evaluator in self.made.values():
            evaluator.assume(observed)


def complete_facts(capture: Capture) -> tuple[Facts, tuple[Unknown, ...]]:
    """The facts to evaluate with, and what was assumed to have them. Where the host or the model was not captured (a bare
    log), a CUDA host is assumed and one side of each unknown test is followed: the one that the traceback shows, else
    the one on which the test does not hold."""
    assumed: list[Unknown] = []
    facts = capture.facts
    if facts.device is None:
        facts = replace(facts, device="cuda")
        what = "a CUDA GPU is assumed; tests that depend on the host are taken as the traceback shows them, else as not holding"
        assumed.append(
            Unknown("the host", what, "capture the host, or give --fact device=... compute_capability=... gpu_count=...")
        )
    if not capture.models:
        what = "tests that depend on the model are taken as the traceback shows them, else as not holding"
        assumed.append(Unknown("the model's config.json", what, "give --model-config"))
    return facts, tuple(assumed)
