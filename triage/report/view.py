"""Diagnosis or Session -> Report: sections of blocks that every human format renders. Raw strings; nothing is escaped here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from triage.model import (
    Attempt,
    Diagnosis,
    Edit,
    Evidence,
    Failure,
    Location,
    OutcomeName,
    Patch,
    PathCondition,
    Plan,
    Session,
    Setting,
    SilentChange,
    Site,
    Unknown,
)

Subject = Diagnosis | Session


@dataclass(frozen=True)
class Paragraph:
    """Prose. `tone` "warn" is something the reader must not miss."""

    text: str
    tone: Literal["plain", "warn"] = "plain"


@dataclass(frozen=True)
class CodeLine:
    """One line of source, of a diff or of a log. `marked` is the line that the section is about."""

    text: str
    number: int | None = None
    marked: bool = False
    change: Literal["", "+", "-"] = ""

    @property
    def margin(self) -> str:
        """What every format writes before the text: the arrow and the number, or the sign of the change."""
        if self.number is None:
            return f"{self.change or ' '} "
        return f"{'->' if self.marked else '  '} {self.number:>5} | "


@dataclass(frozen=True)
class Code:
    lines: tuple[CodeLine, ...]
    caption: str = ""


@dataclass(frozen=True)
class Item:
    """A bullet: prose, then text of the machine's (code, flags, log lines)."""

    text: str
    code: str = ""


@dataclass(frozen=True)
class Bullets:
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Table:
    """All cells are text of the machine's."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


Block = Paragraph | Code | Bullets | Table


@dataclass(frozen=True)
class Section:
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Report:
    """`headline` says the outcome in one sentence; `about` names the target, "" for a bare diagnosis."""

    title: str
    outcome: OutcomeName
    headline: str
    about: str
    sections: tuple[Section, ...]


KEYWORDS = {kind: f"{kind} " for kind in ("if", "elif", "while", "assert", "for", "except", "with", "match")}
HEADLINES: dict[OutcomeName, str] = {
    "patch": "The cause is found and a patch is proposed. Nothing was changed.",
    "no_patch": "The failure is diagnosed; no change of flags or variables is known that would repair it.",
    "no_failure": "The log holds no failure that can be diagnosed.",
    "healthy": "The service is healthy. Nothing was changed.",
    "fixed": "Fixed: the service is healthy with the change below.",
    "needs_consent": "A patch exists, but it changes something protected and needs consent.",
    "out_of_budget": "The budget ran out before the service was healthy.",
    "not_applied": "A patch is proposed. It was not applied.",
    "would_fail": "This launch would fail.",
    "passes": "Nothing in this launch surely fails.",
    "unknown": "Nothing in this launch surely fails, as far as is known.",
}


def build_report(subject: Subject) -> Report:
    """The same sections in the same order for every format; a section with nothing to say is left out."""
    session = subject if isinstance(subject, Session) else None
    diagnosis = subject.diagnosis if isinstance(subject, Session) else subject
    sections: list[Section] = []

    def add(title: str, blocks: Iterator[Block]) -> None:
        held = tuple(blocks)
        if held:
            sections.append(Section(title, held))

    if session is not None and session.why:
        add("Outcome", iter((Paragraph(session.why),)))
    if diagnosis is not None:
        add("What failed", _show_failure(diagnosis.failure, diagnosis.path))
        add("Why", _show_cause(diagnosis))
        add("Settings that belong together", show_settings(diagnosis.settings))
    if session is not None:
        add("What was changed", _show_change(session))
        add("Attempts", _show_attempts(session.attempts))
    if diagnosis is not None:
        best = diagnosis.patches[:1]
        if best and (session is None or session.applied != best[0]):
            add("Proposed patch", show_patch(best[0]))
        if session is not None and session.applied is None:
            add("The plan, not in place", _show_plan(session.plan))
        add("Changed silently in the launch as typed", show_silent(diagnosis.silent))
        add("Evidence", _show_evidence(diagnosis))
        add("Alternatives", _show_alternatives(diagnosis.patches[1:]))
        add("What is not known", show_unknowns(diagnosis.unknowns))
    outcome = subject.outcome
    about = f"{session.service} on {session.host}, session {session.id}, started {session.started}" if session else ""
    return Report("Root-cause report", outcome, HEADLINES[outcome], about, tuple(sections))


def describe_failure(failure: Failure) -> str:
    """One line: what was raised and where."""
    site = failure.site
    where = f" in {site.function}, {site.file or site.path}:{site.line}" if site else ""
    match failure.kind:
        case "exception":
            what = failure.exception or "an exception"
            return f"{what}: {failure.message}{where}" if failure.message else f"{what} without a message{where}"
        case "usage":
            return f"the server's argument parser refused the command line: {failure.message}"
        case "signal":
            return f"killed by signal {failure.signal}{f': {failure.message}' if failure.message else ''}{where}"
        case "timeout":
            return f"did not become healthy in time{f': {failure.message}' if failure.message else ''}"
        case "exit":
            return f"ended without a traceback{f': {failure.message}' if failure.message else ''}"


def describe_edit(edit: Edit) -> tuple[CodeLine, ...]:
    """The edit as lines of a diff."""
    joint = "=" if edit.action == "env" else " "

    def line(change: Literal["+", "-"], value: str | None) -> CodeLine:
        return CodeLine(edit.name if value is None else f"{edit.name}{joint}{value}", change=change)

    match edit.action:
        case "add":
            return (line("+", edit.new),)
        case "remove":
            return (line("-", edit.old),)
        case "set":
            return (line("-", edit.old), line("+", edit.new))
        case "env":
            old = () if edit.old is None else (line("-", edit.old),)
            new = () if edit.new is None else (line("+", edit.new),)
            return (*old, *new) or (CodeLine(edit.name, change="-"),)


def describe_patch(patch: Patch) -> str:
    """The edits on one line, as in a diff."""
    return ", ".join(f"{line.change} {line.text}" for edit in patch.edits for line in describe_edit(edit))


def describe_location(location: Location | None) -> str:
    return str(location) if location else ""


def _show_failure(failure: Failure | None, path: PathCondition | None) -> Iterator[Block]:
    if failure is None:
        return
    yield Paragraph(describe_failure(failure))
    said = []
    if failure.ranks:
        said.append(f"seen on {len(failure.ranks)} rank{'s' if len(failure.ranks) > 1 else ''}: {', '.join(failure.ranks)}")
    if failure.first is not None:
        only = failure.last is None or failure.last == failure.first
        said.append(f"log line {failure.first}" if only else f"log lines {failure.first} to {failure.last}")
    if said:
        yield Paragraph("; ".join(said))
    for raised in failure.chain:
        last = raised.frames[-1] if raised.frames else None
        where = f" at {last.file or last.path}:{last.line}" if last else ""
        yield Paragraph(f"raised from {raised.exception}: {raised.message}{where}")
    if path is not None and path.sites:
        yield from _show_sites(failure, path.sites)
    elif failure.frames:
        frames = (f"{f.file or f.path}:{f.line} {f.function}  {f.text}" for f in failure.frames)
        yield Code(tuple(CodeLine(text) for text in frames), "Frames, outermost first")
    if failure.set_aside:
        yield Paragraph("Also in the log, and not the cause:")
        yield Bullets(tuple(Item(f"{s.why}, log line {s.line}", s.what) for s in failure.set_aside))


def _show_sites(failure: Failure, sites: tuple[Site, ...]) -> Iterator[Block]:
    last = sites[-1]
    if len(sites) > 1:
        calls = (f"{s.location} {s.function}  {_first_line(s.text)}" for s in sites)
        yield Code(tuple(CodeLine(text) for text in calls), "The call path, outermost first")
    guards = [g for site in sites for g in site.guards]
    if guards:
        yield Paragraph("Control came to the failing statement because, outermost first:")
        rows = tuple((str(g.location), f"{KEYWORDS.get(g.kind, '')}{g.text}", "true" if g.came_out else "false") for g in guards)
        yield Table(("where", "test", "came out"), rows)
    site = failure.site
    failing = last.at or (site.line if site and site.file == last.location.file else last.location.line)
    lines = last.text.splitlines() or [""]
    if not last.location.line <= failing < last.location.line + len(lines):
        failing = last.location.line
    numbered = tuple(CodeLine(t, n, marked=n == failing) for n, t in enumerate(lines, last.location.line))
    yield Code(numbered, f"{last.location} in {last.function}")
    if not last.matches:
        yield Paragraph("The traceback printed another text for this line: the source may have changed since.", "warn")


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0] + (" ..." if len(lines) > 1 else "") if lines else ""


def _show_cause(diagnosis: Diagnosis) -> Iterator[Block]:
    cause = diagnosis.cause
    if cause is None:
        return
    yield Paragraph(cause.text)
    if cause.constraints:
        yield Bullets(tuple(Item(describe_location(c.location), c.text) for c in cause.constraints))
    yield Paragraph(f"Category: {cause.category}")


def show_settings(settings: tuple[Setting, ...]) -> Iterator[Block]:
    rows = tuple((s.field, s.value, s.origin, s.typed or describe_location(s.location)) for s in settings)
    if rows:
        yield Table(("setting", "value", "origin", "from"), rows)


def show_patch(patch: Patch) -> Iterator[Block]:
    yield Code(tuple(line for edit in patch.edits for line in describe_edit(edit)))
    if patch.why:
        yield Paragraph(patch.why)
    yield Paragraph(f"Certainty: {patch.certainty}")
    if patch.losses:
        yield Paragraph("What was asked for and would be lost:", "warn")
        yield Bullets(tuple(Item(loss) for loss in patch.losses))
    if patch.silent:
        yield Paragraph("Typed values that the patched launch still replaces silently:", "warn")
        yield from show_silent(patch.silent)


def show_silent(changes: Sequence[SilentChange]) -> Iterator[Block]:
    rows = tuple((c.field, c.asked, c.used, describe_location(c.location)) for c in changes)
    if rows:
        yield Table(("setting", "asked", "used", "line"), rows)
    reasons = tuple(Item(f"{c.field}: {c.why}") for c in changes if c.why)
    if reasons:
        yield Bullets(reasons)


def _show_change(session: Session) -> Iterator[Block]:
    if session.applied is not None:
        yield from show_patch(session.applied)
        yield from _show_plan(session.plan)
    elif session.outcome != "healthy":
        yield Paragraph("Nothing: the service is as it was found.")


def _show_plan(plan: Plan | None) -> Iterator[Block]:
    if plan is not None and plan.diff:
        yield Code(tuple(_diff_line(t) for t in plan.diff.splitlines()), plan.what)


def _diff_line(text: str) -> CodeLine:
    if text.startswith(("+++ ", "--- ")):
        return CodeLine(text)
    if text[:1] == "+":
        return CodeLine(text[1:], change="+")
    return CodeLine(text[1:], change="-") if text[:1] == "-" else CodeLine(text)


def _show_attempts(attempts: tuple[Attempt, ...]) -> Iterator[Block]:
    rows = []
    for attempt in attempts:
        seen = attempt.observation
        failure = attempt.diagnosis.failure if attempt.diagnosis else None
        rows.append(
            (
                str(attempt.number),
                describe_patch(attempt.patch) if attempt.patch else "as found",
                seen.verdict if seen else "",
                f"{seen.seconds:.1f}" if seen else "",
                seen.phase if seen else "",
                describe_failure(failure) if failure else seen.why if seen else "",
            )
        )
    if rows:
        yield Table(("attempt", "change", "verdict", "seconds", "phase", "seen"), tuple(rows))


def _show_evidence(diagnosis: Diagnosis) -> Iterator[Block]:
    evidence = diagnosis.cause.evidence if diagnosis.cause else ()
    if evidence:
        yield Bullets(tuple(Item(_name_source(e), e.text) for e in evidence))


def _name_source(evidence: Evidence) -> str:
    parts: list[str] = [evidence.kind]
    if evidence.log_line is not None:
        parts.append(f"line {evidence.log_line}")
    if evidence.location is not None:
        parts.append(str(evidence.location))
    if evidence.knowledge_id is not None:
        parts.append(evidence.knowledge_id)
    return " ".join(parts)


def _show_alternatives(patches: tuple[Patch, ...]) -> Iterator[Block]:
    rows = tuple((describe_patch(p), p.certainty, "; ".join(p.losses)) for p in patches)
    if rows:
        yield Table(("patch", "certainty", "loses or changes silently"), rows)


def show_unknowns(unknowns: Sequence[Unknown]) -> Iterator[Block]:
    items = tuple(Item(f"{u.what}: {u.why}" + (f" (to settle it: {u.settle})" if u.settle else "")) for u in unknowns)
    if items:
        yield Bullets(items)
