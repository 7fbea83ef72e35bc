"""Log and exit status -> the one failure that matters, with a reason for everything that was set aside."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from triage.analysis.events import Event, Marks, collect_events, is_manager_line, is_shutdown_line
from triage.analysis.phases import find_phases
from triage.model import ExitStatus, Failure, Frame, Log, LogRecord, SetAside

_MESSAGE_CHARS = 4000
_ASIDE_ENDS = 20
_RUNNING = ("active", "activating", "reloading")
_STOP_SIGNALS = (2, 15)  # how a person or a manager stops a server on purpose
_COMPLAINT = re.compile(r"\b(?:[Ee]rror|ERROR|[Ff]ail(?:ed|ure)|[Ff]atal|FATAL|[Cc]annot|[Uu]nable|[Nn]o such|[Dd]enied)\b")
_VARYING = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?")


def find_failure(
    log: Log,
    exit: ExitStatus,
    package: str,
    active: str | None = None,
    fatal_marks: tuple[str, ...] = (),
    phases: Sequence[tuple[str, str]] = (),
) -> Failure | None:
    """The failure of the log's last run, or None when that run did not fail (or is not known to have failed).

    `active` is the service manager's word ("failed", "active", ...), None when there is none. `fatal_marks` are texts
    that a dying server prints, `phases` the (name, mark) of a start's phases in order. The earliest error that no other
    error explains is taken; the same error on several ranks is one failure. Whether the process died is told by the log,
    the exit status or the manager: a status of 0 after a crash does not make it healthy.
    """
    events, marks = collect_events(log, package, fatal_marks)
    start, end = _last_run(log, events, marks)
    failure = _find_in_run(log, exit, active, (start, end), events, marks)
    if failure is None:
        return None
    records = log.records[start:end]
    run = (min(r.first for r in records), max(r.last for r in records)) if records else None
    return replace(failure, phases=find_phases(records, phases), run=run)


def _find_in_run(
    log: Log, exit: ExitStatus, active: str | None, run_span: tuple[int, int], events: tuple[Event, ...], marks: Marks
) -> Failure | None:
    start, end = run_span
    aside = [_set_aside(event, "from an older run in the same log") for event in events if event.index < start]
    events = tuple(event for event in events if start <= event.index < end)
    marks = _cut_marks(marks, start, end)
    run = _Run(
        log,
        last_ready=max(marks.ready, default=-1),
        last_served=max(marks.served, default=-1),
        last_dying=max((*marks.fatal, *marks.ended, *(event.index for event in events if event.fatal)), default=-1),
        last_ordinary=_last_ordinary(log, start, end, frozenset(event.index for event in events)) if events else {},
        dead=exit.code not in (None, 0) or exit.signal is not None or active == "failed",
        active=active in _RUNNING,
    )
    open_events: list[Event] = []
    doubtful: list[Event] = []  # taken for handled; the best guess where the process died and nothing else says why
    for event in events:
        why, sure = _why_handled(event, run)
        if why:
            aside.append(_set_aside(event, why))
        else:
            open_events.append(event)
        if why and not sure and event.role == "root":
            doubtful.append(event)
    if marks.fatal:
        open_events = [replace(e, role="noise") if e.shell and e.index > marks.fatal[0] else e for e in open_events]
    died = run.dead or bool(marks.fatal or marks.ended) or any(event.fatal for event in open_events)
    stopped = exit.signal in _STOP_SIGNALS and active != "failed"
    roots = [event for event in open_events if event.role == "root"]
    roots = [event for event in roots if not event.bare] or roots
    if roots:
        return _make_failure(roots, open_events, aside)
    if not died or stopped:
        return None
    follow_ups = [event for event in open_events if event.role == "follow_up"]
    follow_ups = [event for event in follow_ups if not event.bare] or follow_ups
    if follow_ups:
        return _make_failure(follow_ups, open_events, aside)
    if doubtful:
        last = doubtful[-1]
        kept = [item for item in aside if item.line != last.first]
        return _make_failure([last], [*open_events, last], kept)
    aside += [_set_aside(event, _NOISE) for event in open_events]
    return _bare_failure(log, start, end, marks, exit, aside)


_START_ORDER = ("manager", "launcher", "args")  # the signs of a start, in the order in which one run shows them
_ENDED = len(_START_ORDER)
_NOISE = "how a process ends that was stopped"


# ---------------------------------------------------------------- runs
def _last_run(log: Log, events: Sequence[Event], marks: Marks) -> tuple[int, int]:
    """The indices of the records of the last run. A run ends with its launcher; the next sign of a start begins another."""
    signs = sorted(
        [(index, 0, kind) for index, kind in marks.starts]
        + [(event.index, 1, "main") for event in events if event.main]
        + [(index, 2, "ended") for index in marks.ended]
        + [(index, 3, "late") for index in (*marks.ready, *marks.fatal)]
    )
    bounds = [0]
    reached = -1  # how far the run's start has come
    last_end = -1
    for index, _, kind in signs:
        if kind in _START_ORDER:
            if _START_ORDER.index(kind) <= reached:
                bounds.append(index)
            reached = _START_ORDER.index(kind)
            continue
        if kind == "main" and reached == _ENDED:
            bounds.append(last_end + 1)  # a run that is first known by its own end
        if kind in ("main", "ended"):
            reached, last_end = _ENDED, index
        else:
            reached = max(reached, len(_START_ORDER) - 1)
    bounds = sorted(set(bounds))
    indices = sorted(event.index for event in events)
    end = len(log.records)
    while len(bounds) > 1:
        start = bounds[-1]
        own = [r for r in log.records[start:end] if not is_manager_line(r.text)]
        if own or bisect_left(indices, start) < bisect_left(indices, end):
            break
        end = bounds.pop()
    return bounds[-1], end


def _cut_marks(marks: Marks, start: int, end: int) -> Marks:
    def cut(indices: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(index for index in indices if start <= index < end)

    return Marks(cut(marks.ready), cut(marks.served), cut(marks.fatal), cut(marks.ended))


# ---------------------------------------------------------------- what does not matter
@dataclass(frozen=True)
class _Run:
    """The last run's log and what its end looks like; indices of records, -1 for never."""

    log: Log
    last_ready: int
    last_served: int
    last_dying: int
    last_ordinary: Mapping[str | None, int]  # of each rank
    dead: bool  # by its status or the manager's word
    active: bool


def _why_handled(event: Event, run: _Run) -> tuple[str, bool]:
    """Why the event did not end the server, "" where it may have; and whether that is sure."""
    if run.last_ready > event.index and not event.main:
        return "handled: the server became ready after it", True
    if event.warned:
        return "logged as something that the server goes on from", False
    if event.fatal:
        return "", True
    if run.last_served > event.index:
        return "handled: the server answered requests after it", False
    dying = run.last_dying >= event.index
    if run.last_ready >= 0 and not (dying or run.dead):
        return "handled: the server was ready before it and nothing says that it ended", True
    if run.active and not dying:
        return "handled: the service still runs", True
    later = run.last_ordinary.get(event.rank, -1)
    if later <= event.index:
        return "", True
    said = run.log.records[later].text.split("\n", 1)[0][:80]
    return f"handled: {event.rank or 'the process'} went on, last with {said!r}", False


def _last_ordinary(log: Log, start: int, end: int, events: frozenset[int]) -> dict[str | None, int]:
    """For each rank its last message that neither tells of an error nor of an end."""
    last: dict[str | None, int] = {}
    for index in range(start, end):
        record = log.records[index]
        if (
            record.stamp is not None
            and record.level not in ("ERROR", "CRITICAL")
            and index not in events
            and not is_shutdown_line(record.text)
            and not is_manager_line(record.text)
        ):
            last[record.rank] = index
    return last


# ---------------------------------------------------------------- the answer
def _make_failure(candidates: Sequence[Event], open_events: Sequence[Event], aside: Sequence[SetAside]) -> Failure:
    chosen = candidates[0]
    if chosen.role == "follow_up":
        told = chosen
        chosen = next((event for event in candidates if event.signal is not None), chosen)
        if told.kind == "timeout":
            chosen = replace(chosen, first=min(told.first, chosen.first))
        elif told is not chosen and told.kind in ("exit", "signal") and not told.frames:  # one death in two records
            chosen = replace(chosen, message=f"{told.message}\n{chosen.message}", first=min(told.first, chosen.first))
            open_events = [event for event in open_events if event is not told]
    same = [event for event in open_events if _signature(event) == _signature(chosen)]
    others = [event for event in open_events if _signature(event) != _signature(chosen)]
    later = [*aside, *(_set_aside(event, _why_after(event, chosen)) for event in others)]
    later += [
        SetAside(f"{raised.exception}: {_short(raised.message)}", "belongs to the same exception group", raised.first)
        for raised in chosen.siblings
    ]
    kind = chosen.kind
    if chosen.role == "follow_up" and chosen.signal is not None:
        kind = "signal"  # the parent's exception only reports that a child was killed
    return Failure(
        kind=kind,
        exception=chosen.exception if kind == chosen.kind else None,
        message=chosen.message,
        frames=chosen.frames if kind == chosen.kind else (),
        chain=chosen.chain if kind == chosen.kind else (),
        ranks=tuple(sorted({event.rank for event in same if event.rank}, key=_natural)),
        first=chosen.first,
        last=chosen.last,
        signal=chosen.signal,
        set_aside=_order(later),
    )


def _why_after(event: Event, chosen: Event) -> str:
    if event.role == "noise":
        return _NOISE
    if event.kind == "signal" and event.signal == chosen.signal:
        return "another word for the same death"
    if event.role == chosen.role == "follow_up":
        return "tells of the same end"
    if event.role == "follow_up":
        return "follows from the failure: it only reports that another process ended"
    where = "came after" if event.index >= chosen.index else "came before"
    return f"another error that {where} the failure; it may follow from it or be a second fault"


def _bare_failure(log: Log, start: int, end: int, marks: Marks, exit: ExitStatus, aside: Sequence[SetAside]) -> Failure | None:
    """A death that printed no traceback: what was said last, with the status."""
    records = [r for r in log.records[start:end] if not is_manager_line(r.text)]
    bad = [r for r in records if r.level in ("ERROR", "CRITICAL") and not is_shutdown_line(r.text)]
    bare = [
        _without_stamped_line(r) for r in records[-1:] if (r.stamp is None or "\n" in r.text) and not is_shutdown_line(r.text)
    ]
    fatal = [log.records[index] for index in marks.fatal]
    told = [r for r in fatal if not is_shutdown_line(r.text)]
    said = next(iter([*told[:1], *_find_complaint(records), *bare, *bad[-1:], *fatal[:1]]), None)
    signal = exit.signal
    if signal is None and exit.code is not None and 128 < exit.code < 160:
        signal = exit.code - 128  # how shells and containers report a signal
    return Failure(
        kind="exit" if signal is None else "signal",
        exception=None,
        message=said.text[:_MESSAGE_CHARS].strip() if said else "",
        ranks=(said.rank,) if said and said.rank else (),
        first=said.first if said else None,
        last=said.last if said else None,
        signal=signal,
        set_aside=_order(aside),
    )


def _find_complaint(records: Sequence[LogRecord]) -> list[LogRecord]:
    """The first bare line that tells of an error after the last message of a logger that goes on; [] where there is none."""
    ordinary = [
        i for i, r in enumerate(records) if r.stamp is not None and r.level in ("INFO", "DEBUG") and not is_shutdown_line(r.text)
    ]
    after = records[ordinary[-1] if ordinary else 0 :]
    lines = [_without_stamped_line(r) for r in after if r.stamp is None or "\n" in r.text]
    return [r for r in lines if _COMPLAINT.search(r.text[:2000]) and not is_shutdown_line(r.text)][:1]


def _without_stamped_line(record: LogRecord) -> LogRecord:
    """What was printed bare under a logger's line, as a record of its own."""
    if record.stamp is None:
        return record
    return replace(record, text=record.text.split("\n", 1)[1], first=min(record.first + 1, record.last))


def _set_aside(event: Event, why: str) -> SetAside:
    name = event.exception or event.kind
    rank = f"{event.rank}: " if event.rank else ""
    return SetAside(f"{rank}{name}: {_short(event.message)}" if event.message else f"{rank}{name}", why, event.first)


def _order(aside: Sequence[SetAside]) -> tuple[SetAside, ...]:
    """By line; of very many only the first and last, with a word of how many stand between."""
    items = sorted(aside, key=lambda item: item.line)
    if len(items) > 2 * _ASIDE_ENDS:
        between = items[_ASIDE_ENDS:-_ASIDE_ENDS]
        more = SetAside(f"{len(between)} more", "not listed one by one: there are too many", between[0].line)
        items = [*items[:_ASIDE_ENDS], more, *items[-_ASIDE_ENDS:]]
    return tuple(items)


def _short(text: str) -> str:
    line = text.split("\n", 1)[0]
    return line if len(line) <= 200 else line[:197] + "..."


def _signature(event: Event) -> tuple[str, str | None, str, Frame | None]:
    inside = [frame for frame in event.frames if frame.file] or list(event.frames)
    site = replace(inside[-1], path=inside[-1].file or inside[-1].path) if inside else None
    return event.kind, event.exception, _VARYING.sub("#", event.message[:_MESSAGE_CHARS]), site


def _natural(rank: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", rank))
