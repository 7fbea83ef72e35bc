"""A capture of a launch that has not run -> what its argument validation would do: every failure, and what gets past it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from triage.analysis.chain import Chain, ChainLimits, Link, Walker
from triage.analysis.collection import hold_collection
from triage.analysis.constraints import describe_cause, find_constraints, find_settings
from triage.analysis.decoding import decode_source
from triage.analysis.edits import Context, edit_launch
from triage.analysis.evaluate import Evaluation, Raised
from triage.analysis.evaluate.missing import LOST
from triage.analysis.evaluators import Evaluators
from triage.analysis.flags import Options, read_flags
from triage.analysis.guards import complete_path
from triage.analysis.patch import Limits, find_patches
from triage.analysis.plugins import find_plugins
from triage.analysis.ranking import judge
from triage.analysis.silent import explain_patch, explain_silent
from triage.analysis.source import find_sites
from triage.model import (
    Cause,
    Evidence,
    Failure,
    Foreseen,
    Foresight,
    Frame,
    Location,
    OutcomeName,
    Patch,
    PathCondition,
    Unknown,
)
from triage.protocols import Capture, EngineProfile, SourceTree

MAX_UNKNOWNS = 12
MAX_MESSAGE = 160  # characters of a message inside a sentence
_DECIDING = ("compute_capability", "cuda_version", "gpu_count", "gpu_memory_mib", "gpu_name")  # facts that validation asks for
_OFFLINE = ("given", "log")  # kinds of captures of no host
_WHOLE_SOURCE = "the whole source of what runs there, read by a triage on the server's own Python"
_VERSION = re.compile(r"""^(?:__version__|version)\b[^=\n]*=\s*(?:version\s*=\s*)?["']([0-9][^"'\s]{0,60})["']""", re.MULTILINE)


@dataclass(frozen=True)
class ForesightLimits:
    """Bounds of one foresight. `quick` looks for patches before, `search` where nothing was found so far."""

    quick: Limits = field(default_factory=lambda: Limits(evaluations=25))
    search: Limits = field(default_factory=Limits)
    consent: Limits = field(default_factory=lambda: Limits(edits=2, evaluations=20))
    chain: ChainLimits = field(default_factory=ChainLimits)


def foresee(
    capture: Capture,
    profile: EngineProfile,
    limits: ForesightLimits | None = None,
    evaluators: Evaluators | None = None,
    patches: tuple[Patch, ...] = (),
) -> Foresight:
    """What validation does with the capture's launch; its log is not read. Same capture, same answer.

    Never raises for what stands in the capture; what cannot be known is an Unknown. `evaluators` are those of a capture
    with the same source, facts and models, to share their work. `patches` are known to pass, best first: none is searched.
    """
    with hold_collection():
        return _foresee(capture, profile, limits or ForesightLimits(), evaluators, patches)


def _foresee(
    capture: Capture,
    profile: EngineProfile,
    limits: ForesightLimits,
    evaluators: Evaluators | None,
    patches: tuple[Patch, ...],
) -> Foresight:
    launch = capture.launch
    if capture.source is None or launch is None:
        missing = "source" if capture.source is None else "launch"
        lost = Unknown(f"the {missing}", f"the capture holds no {missing}", f"give --{missing}")
        args = launch.args if launch is not None else ()
        return Foresight("unknown", (), (), (), (lost,), capture.meta, capture.facts, (), args)
    pool = evaluators or Evaluators(capture, profile)
    evaluation = pool.get(launch.env).evaluate(launch.args)
    if evaluation.raised is None and evaluation.why and not pool.assumed:  # too much is unknown to follow both sides
        cut = Unknown("all that depends on the host", evaluation.why, "capture the host")
        pool = Evaluators(capture, profile, pool.program, (cut,))
        evaluation = pool.get(launch.env).evaluate(launch.args)
    seer = _Seer(capture, profile, pool, limits, capture.source, launch.args, launch.env)
    return seer.tell(evaluation, patches)


class _Seer:
    def __init__(
        self,
        capture: Capture,
        profile: EngineProfile,
        pool: Evaluators,
        limits: ForesightLimits,
        tree: SourceTree,
        args: tuple[str, ...],
        env: Mapping[str, str],
    ) -> None:
        self.capture = capture
        self.profile = profile
        self.pool = pool
        self.limits = limits
        self.tree = tree
        self.args = args
        self.env = env
        self.meta = replace(capture.meta, engine_version=capture.meta.engine_version or read_version(tree, profile))
        self.options: Options = read_flags(pool.get(env), tree)
        self.context = Context(self.options, profile, tree, args, env)
        self.paths: dict[Raised, PathCondition] = {}
        self.unknowns: list[Unknown] = []

    def tell(self, evaluation: Evaluation, given: tuple[Patch, ...]) -> Foresight:
        assumed = self.is_assumed(evaluation)
        if assumed:  # of the host only, where no test hung on the model
            self.unknowns += _say_assumed(self.pool.assumed if evaluation.supposed else self.pool.assumed[:1])
        outcome: OutcomeName = "passes"
        links: tuple[Link, ...] = ()
        patches: tuple[Patch, ...] = ()
        if evaluation.raised is not None:
            chain, patches, outcome = self.find_ways(given)
            links = chain.links
        elif evaluation.verdict == "unknown":
            outcome = "unknown"
            if evaluation.why:
                self.unknowns.append(Unknown("how the validation ends", evaluation.why, _WHOLE_SOURCE))
        self.unknowns += [_say_possible(p, self.capture) for p in evaluation.possible]
        self.unknowns += find_plugins(self.tree, self.profile, self.env)
        self.unknowns += [Unknown("part of the code", note) for note in evaluation.notes]
        rewritten = self.pool.program.rewritten.items()
        self.unknowns += [Unknown(f"the exact syntax of {file}", note) for file, note in rewritten]
        shown = tuple(dict.fromkeys(self.unknowns))
        if len(shown) > MAX_UNKNOWNS:
            more = len(shown) - MAX_UNKNOWNS + 1
            shown = (*shown[: MAX_UNKNOWNS - 1], Unknown("more", f"{more} further checks hang on what is not known"))
        silent = explain_silent(evaluation, self.options, self.args, self.tree)
        return Foresight(
            outcome,
            tuple(self.describe(link) for link in links),
            tuple(explain_patch(p, self.pool, self.env, self.options) if n == 0 else p for n, p in enumerate(patches)),
            silent,
            shown,
            self.meta,
            self.capture.facts,
            tuple(m.path for m in self.capture.models),
            self.args,
            evaluation.steps,
            assumed,
        )

    def is_assumed(self, evaluation: Evaluation) -> bool:
        """Whether what was evaluated holds on the assumed host only."""
        return bool(evaluation.supposed) or self.capture.facts.device is None

    # ------------------------------------------------ patches and the chain
    def find_ways(self, given: tuple[Patch, ...]) -> tuple[Chain, tuple[Patch, ...], OutcomeName]:
        """The chain of failures, the patches past all of it, and the outcome."""
        walker = Walker(self.pool, self.context, self.span_of, self.limits.chain)
        if given:
            return walker.follow_patch(given[0]), given, "patch"
        search = find_patches(self.pool.get, self.context, limits=self.limits.quick)
        if search.patches:
            return walker.follow_patch(search.patches[0]), search.patches, "patch"
        chain = walker.walk_on(self.args, dict(self.env))
        if chain.passes:
            return chain, (self.join(chain),), "patch"
        search = find_patches(self.pool.get, self.context, limits=self.limits.search)
        if search.patches:
            return walker.follow_patch(search.patches[0]), search.patches, "patch"
        reached = self.search_from(chain, walker)
        if reached is not None:
            return reached, (self.join(reached),), "patch"
        consent = find_patches(self.pool.get, replace(self.context, protected=True), limits=self.limits.consent)
        if consent.patches:
            return walker.follow_patch(consent.patches[0]), consent.patches, "needs_consent"
        if not search.complete:
            why = f"the search was cut after {search.evaluations} evaluations of the whole validation"
            self.unknowns.append(Unknown("whether a patch exists", why))
        else:
            text = f"no plausible edit of up to {self.limits.search.edits} flags or variables passes validation"
            self.unknowns.append(
                Unknown("a patch", text, "the failure may hang on the model or the hardware, which flags do not change")
            )
        return chain, (), "no_patch"

    def search_from(self, chain: Chain, walker: Walker) -> Chain | None:
        """Where walking got past some failures and then no further: patches of the launch that it got to."""
        last = chain.links[-1]
        if len(chain.links) < 2 or last.step:
            return None
        touched = {e.name for e in chain.edits}
        there = replace(self.context, args=last.args, env=last.env)
        for patch in find_patches(self.pool.get, there, limits=self.limits.quick).patches:
            if touched & {e.name for e in patch.edits}:
                continue
            rest = Walker(self.pool, there, self.span_of, self.limits.chain).follow_patch(patch)
            changed = {k: v for k, v in last.env.items() if self.env.get(k) != v}
            links = [
                replace(k, patch=replace(k.patch, env={**changed, **k.patch.env})) if k.patch is not None else k
                for k in rest.links
            ]
            return Chain((*chain.links[:-1], *links), rest.end)
        return None

    def join(self, chain: Chain) -> Patch:
        """All steps of a chain that ends in a launch that passes, as one patch of the launch as typed."""
        assert chain.end is not None
        units = [link.step for link in chain.links]
        launch = edit_launch(self.args, self.env, [e for unit in units for e in unit])
        assert launch is not None
        return judge(self.context, units, 0.0, frozenset(), chain.end, *launch).patch

    # ------------------------------------------------ one failure in words
    def describe(self, link: Link) -> Foreseen:
        raised = link.raised
        failure = _failure_of(raised)
        path = self.path_of(raised)
        constraints = () if raised.usage else find_constraints(path, failure, link.evaluation, self.options)
        settings = find_settings(link.evaluation, self.options, link.args, link.env, constraints)
        text = describe_cause(failure, constraints, settings, self.profile.name, self.meta.engine_version)
        evidence: list[Evidence] = []
        if path.sites:
            evidence.append(Evidence("source", path.sites[-1].text, path.sites[-1].location))
        how = "would, on the host that is assumed, raise" if self.is_assumed(link.evaluation) else "surely raises"
        told = f"evaluating the installed source with this launch {how} {raised.exception} at {raised.site_text}"
        if link.evaluation.possible:
            told += ", unless a check before it that hangs on what is not known fails first"
        evidence.append(Evidence("evaluation", told))
        cause = Cause("usage" if raised.usage else "argument", text, constraints, tuple(evidence))
        changed = {k: v for k, v in link.env.items() if self.env.get(k) != v}
        return Foreseen(failure, path if path.sites else None, cause, link.args, changed, link.patch, settings)

    def path_of(self, raised: Raised) -> PathCondition:
        if raised not in self.paths:
            failure = _failure_of(raised)
            sites, lost = find_sites(failure, self.tree)
            self.unknowns += [u for u in lost if u not in self.unknowns]
            self.paths[raised] = complete_path(sites, self.tree, failure)
        return self.paths[raised]

    def span_of(self, raised: Raised) -> Location | None:
        sites = self.path_of(raised).sites
        return sites[-1].location if sites and not raised.usage else None


def _failure_of(raised: Raised) -> Failure:
    """What the traceback would show, as far as it is known before the run."""
    if raised.usage:
        return Failure("usage", raised.exception, raised.message or "")
    frames = tuple(Frame(p.file, p.line, p.function, "", p.file) for p in raised.places)
    return Failure("exception", raised.exception, raised.message or "", frames)


# ---------------------------------------------------------------- what is not known
def _say_assumed(assumed: tuple[Unknown, ...]) -> list[Unknown]:
    """In the words of a launch that has not run: there is no traceback that shows more."""
    told = "tests that depend on it are taken as not holding"
    return [
        replace(u, why=("a CUDA GPU is assumed; " if "CUDA" in u.why else "") + told if "traceback" in u.why else u.why)
        for u in assumed
    ]


def _say_possible(raised: Raised, capture: Capture) -> Unknown:
    said = f": {raised.message[:MAX_MESSAGE]}" if raised.message else ""
    missing = [n for n in _DECIDING if getattr(capture.facts, n) is None] if capture.facts.device != "cpu" else []
    if raised.depends.startswith(LOST):
        settle = _WHOLE_SOURCE
    elif capture.meta.service_kind not in _OFFLINE:
        settle = "the launch itself"
    elif not capture.models:
        settle = "give --model-config, or capture the host"
    elif "os.path." in raised.depends or not missing:
        settle = "capture the host: that tells which files and packages are there"
    else:
        settle = f"capture the host, or give --fact {' '.join(f'{n}=...' for n in missing)}"
    return Unknown(f"whether {raised.site_text} raises {raised.exception}{said}", f"it depends on {raised.depends}", settle)


# ---------------------------------------------------------------- which release
def read_version(tree: SourceTree, profile: EngineProfile) -> str | None:
    """The release that a tree holds, by its distribution's metadata folder, else by what the package says; None: neither."""
    names = re.compile(rf"{re.escape(profile.distribution)}-([0-9][^-/]{{0,60}})\.dist-info", re.IGNORECASE)
    for name in tree.list_dir(""):
        match = names.fullmatch(name.replace("_", "-") if "_" in profile.distribution else name)
        if match:
            return match.group(1)
    for file in ("_version.py", "version.py", "__init__.py"):
        data = tree.read(f"{profile.package}/{file}")
        found = _VERSION.search(decode_source(data[:20_000])) if data is not None else None
        if found:
            return found.group(1)
    return None


__all__ = ["ForesightLimits", "foresee", "read_version"]
