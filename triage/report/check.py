"""A Foresight for a person and for a program: what would fail, in order, what gets past it, and what was looked at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from triage.model import SCHEMA, Foreseen, Foresight, JsonValue, OutcomeName
from triage.report.objects import (
    build_cause,
    build_failure,
    build_patch,
    build_path,
    build_setting,
    build_silent,
    build_unknown,
    dump_object,
)
from triage.report.view import (
    Block,
    Bullets,
    Code,
    CodeLine,
    Item,
    Paragraph,
    Report,
    Section,
    Table,
    describe_failure,
    describe_patch,
    show_patch,
    show_settings,
    show_silent,
    show_unknowns,
)

FACTS = (
    "device",
    "gpu_name",
    "gpu_count",
    "gpu_memory_mib",
    "compute_capability",
    "cuda_version",
    "python_version",
    "machine",
)
HEADLINES: dict[OutcomeName, str] = {
    "passes": "Nothing surely fails: the whole argument validation was evaluated, and nothing in it refuses this launch.",
    "unknown": "Nothing surely fails, but some checks hang on what is not known here.",
    "patch": "This launch would fail; a patch is known that passes the whole argument validation.",
    "needs_consent": "This launch would fail; the patch that is known changes something protected and needs consent.",
    "no_patch": "This launch would fail; no change of flags or variables is known that would repair it.",
}

REHEARSED = "The validation that is installed on the host, run with this launch, refuses nothing. The server was not started."


def render_check_text(foresight: Foresight, width: int = 100, colour: bool = False) -> str:
    """Lines of at most `width` columns, with a final newline; escape sequences only where `colour` is true."""
    from triage.report.terminal import draw_report

    return draw_report(build_check_report(foresight), width, colour)


def render_check_json(foresight: Foresight) -> str:
    """One ASCII object with a final newline; the same record gives the same bytes."""
    return dump_object(build_check_object(foresight))


# ---------------------------------------------------------------- for a person
def build_check_report(foresight: Foresight) -> Report:
    """The patch first, then each failure with what gets past it alone, then what is changed silently and not known."""
    sections: list[Section] = []

    def add(title: str, blocks: Iterator[Block]) -> None:
        held = tuple(blocks)
        if held:
            sections.append(Section(title, held))

    best = foresight.patches[:1]
    for patch in best:
        add("The patch past all of it", show_patch(patch))
    many = len(foresight.failures)
    for number, failure in enumerate(foresight.failures, 1):
        title = "What would fail" if many == 1 else f"What would fail, {number} of {many}"
        add(title, _show_foreseen(failure, alone=many == 1 and bool(best)))
    add("Other patches past all of it", _show_alternatives(foresight))
    add("Changed silently in the launch as typed", show_silent(foresight.silent))
    add("What is not known", show_unknowns(foresight.unknowns))
    add("What was evaluated", _show_evaluated(foresight))
    headline = REHEARSED if foresight.rehearsed == "passes" else HEADLINES[foresight.outcome]
    if foresight.assumed and foresight.failures:
        headline = headline.replace("would fail", "would fail on the host that is assumed", 1)
    meta = foresight.meta
    about = f"{meta.service} on {meta.host}" if meta.host else ""
    return Report("What a launch would do", foresight.outcome, headline, about, tuple(sections))


def _show_foreseen(foreseen: Foreseen, alone: bool) -> Iterator[Block]:
    yield Paragraph(describe_failure(foreseen.failure))
    site = foreseen.path.sites[-1] if foreseen.path is not None and foreseen.path.sites else None
    if site is not None:
        failing = site.at or site.location.line
        lines = enumerate(site.text.splitlines() or [""], site.location.line)
        yield Code(tuple(CodeLine(t, n, marked=n == failing) for n, t in lines), f"{site.location} in {site.function}")
    yield Paragraph(foreseen.cause.text)
    yield from show_settings(foreseen.settings)
    if foreseen.step is None:
        yield Paragraph("No change of one or two settings is known that gets past this.", "warn")
    elif not alone:
        yield Paragraph(f"Got past by {describe_patch(foreseen.step)}: {foreseen.step.why}")


def _show_alternatives(foresight: Foresight) -> Iterator[Block]:
    rows = tuple((describe_patch(p), p.certainty, "; ".join(p.losses)) for p in foresight.patches[1:])
    if rows:
        yield Table(("patch", "certainty", "loses or changes silently"), rows)


def _show_evaluated(foresight: Foresight) -> Iterator[Block]:
    meta, facts = foresight.meta, foresight.facts
    if facts.device is None:
        facts = replace(facts, device="cuda (assumed)")
    known = [f"{name} {getattr(facts, name)}" for name in FACTS if getattr(facts, name) is not None]
    yield Bullets(
        (
            Item("release", f"{meta.engine} {meta.engine_version or 'of an unknown version'}"),
            Item("host", ", ".join(known)),
            Item("packages installed there", str(len(facts.packages)) if facts.packages else "not known"),
            Item("model config", ", ".join(foresight.models) or "none"),
            Item("statements of the validation", str(foresight.statements)),
            Item("arguments", " ".join(foresight.args)),
        )
    )


# ---------------------------------------------------------------- for a program
def build_check_object(foresight: Foresight) -> dict[str, JsonValue]:
    """The contract's object; `failure` and `cause` are those of the first failure, `failures` has all, in order."""
    first = foresight.failures[0] if foresight.failures else None
    meta, facts = foresight.meta, foresight.facts
    return {
        "schema": SCHEMA,
        "outcome": foresight.outcome,
        "failure": build_failure(first.failure) if first else None,
        "cause": build_cause(first.cause) if first else None,
        "patches": [build_patch(p) for p in foresight.patches],
        "unknowns": [build_unknown(u) for u in foresight.unknowns],
        "settings": [build_setting(s) for s in first.settings] if first else [],
        "silent_changes": build_silent(foresight.silent),
        "path": build_path(first.path) if first and first.path else [],
        "failures": [_foreseen(f) for f in foresight.failures],
        "assumed": foresight.assumed,
        "rehearsed": foresight.rehearsed,
        "evaluated": {
            "engine": meta.engine,
            "engine_version": meta.engine_version,
            "host": meta.host or None,
            "service": meta.service or None,
            "facts": {name: getattr(facts, name) for name in FACTS},
            "packages": len(facts.packages),
            "model_configs": list(foresight.models),
            "argv": list(foresight.args),
            "statements": foresight.statements,
        },
    }


def _foreseen(foreseen: Foreseen) -> dict[str, JsonValue]:
    """`argv` and `env` are the launch that fails here, `patches` what gets past this failure alone."""
    return {
        "failure": build_failure(foreseen.failure),
        "cause": build_cause(foreseen.cause),
        "patches": [build_patch(foreseen.step)] if foreseen.step is not None else [],
        "settings": [build_setting(s) for s in foreseen.settings],
        "argv": list(foreseen.args),
        "env": {name: foreseen.env[name] for name in sorted(foreseen.env)},
        "path": build_path(foreseen.path) if foreseen.path is not None else [],
    }
