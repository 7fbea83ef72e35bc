"""Plan -> the host, with a write-ahead journal: at any moment the host is in the old or the new state, and the journal
knows which.

The journal holds no file contents (a drop-in may hold an API key): it holds digests. What an undo has to write back is
kept on the host, beside the file, where the same secrets already stand.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from triage.codec import from_json, to_json
from triage.errors import CaptureError, FileMissing, HostError, PlanConflict, TriageError
from triage.loop.session import Journal
from triage.model import Command, JsonValue, Plan, RemoveFile, RunCommand, Secret, Step, WriteFile
from triage.protocols import Host


@dataclass(frozen=True)
class Recovery:
    """What was found of earlier plans, and what was done about it."""

    undone: tuple[str, ...]  # plans that were undone now
    standing: tuple[str, ...]  # plans that are applied in full and were left


@dataclass(frozen=True)
class _Stored:
    """One plan as the journal has it."""

    number: int
    what: str
    steps: tuple[Step, ...]
    undo: tuple[Step, ...]
    digests: tuple[str | None, ...]  # of each undo step's data
    backups: tuple[str | None, ...]
    applied: bool = False
    undo_begun: bool = False
    undone: bool = False
    ran: int = 0


def apply_plan(host: Host, plan: Plan, journal: Journal) -> None:
    """Run the plan's steps in order.

    A step that fails (PlanConflict when the host is not as the plan expects; HostError, FileError) undoes the steps before
    it, and the error is raised on. When the undo fails as well the journal keeps the plan as unfinished, see `recover`.
    """
    number = _next_number(journal)
    backups = tuple(_backup_path(step, journal, number) for step in plan.undo)
    journal.append(_describe_plan(plan, number, backups))
    index = -1
    try:
        for step, backup in zip(plan.undo, backups, strict=True):
            if isinstance(step, WriteFile) and backup is not None:
                host.write_file(backup, step.data, 0o600, root=step.as_root)
        for index, step in enumerate(plan.steps):
            journal.append({"event": "begin", "plan": number, "phase": "apply", "step": index})
            run_step(host, step)
            journal.append({"event": "done", "plan": number, "phase": "apply", "step": index})
    except TriageError as error:
        if isinstance(error, PlanConflict) and index == 0:
            _drop_copies(host, plan.undo, backups)
            journal.append({"event": "undone", "plan": number})  # the first step looked, and wrote nothing
            raise
        with contextlib.suppress(TriageError):
            _undo(host, plan.steps, plan.undo, backups, journal, number)
            raise error
        error.hint = error.hint or "the change could not be taken back yet: run triage undo"
        raise
    journal.append({"event": "applied", "plan": number})


def undo_plan(host: Host, plan: Plan, journal: Journal) -> None:
    """Undo a plan of this session, as far as it ran, and check that its files stand as before.

    Raises PlanConflict when someone else has changed them since; HostError, FileError.
    """
    for stored in reversed(_read_plans(journal)):
        if not stored.undone and stored.what == plan.what:
            _undo(host, plan.steps, plan.undo, stored.backups, journal, stored.number)
            return


def recover(host: Host, directory: Path, *, keep_applied: bool = True) -> Recovery:
    """Finish what a session left: every plan that did not run to its end is undone, newest first.

    With `keep_applied=False` (`triage undo`) plans that did run to their end are undone as well. Running it twice is
    harmless. Raises PlanConflict, HostError, CaptureError (the journal or a kept file is damaged).
    """
    journal = Journal(directory / "journal.jsonl")
    undone: list[str] = []
    standing: list[str] = []
    for stored in reversed(_read_plans(journal)):
        if stored.undone or not stored.undo:
            continue
        if stored.applied and not stored.undo_begun and keep_applied:
            standing.append(stored.what)
            continue
        journal.append({"event": "begin", "plan": stored.number, "phase": "undo", "step": None})
        _undo(host, stored.steps, _fill_undo(host, stored), stored.backups, journal, stored.number)
        undone.append(stored.what)
    return Recovery(tuple(undone), tuple(standing))


def has_standing_change(directory: Path) -> bool:
    """Whether the session's journal holds a change that is not undone."""
    return any(stored.undo and not stored.undone for stored in _read_plans(Journal(directory / "journal.jsonl")))


def run_step(host: Host, step: Step) -> None:
    """Run one step. Raises PlanConflict when its file is not as expected, HostError when its command fails."""
    if isinstance(step, RunCommand):
        _run_or_conflict(host, step.command)
        return
    _check_expect(host, step.path, step.expect, step.as_root)
    if isinstance(step, WriteFile):
        host.write_file(step.path, step.data, step.mode, root=step.as_root)
    else:
        _remove(host, step)


def digest_file(host: Host, path: str, root: bool) -> str | None:
    """sha256 of the file's bytes, None when it does not exist. Raises FileError when it cannot be read."""
    try:
        return hashlib.sha256(host.read_file(path, root=root)).hexdigest()
    except FileMissing:
        return None


def _undo(
    host: Host, steps: Sequence[Step], undo: Sequence[Step], backups: Sequence[str | None], journal: Journal, number: int
) -> None:
    for index, step in enumerate(undo):
        journal.append({"event": "begin", "plan": number, "phase": "undo", "step": index})
        _undo_step(host, step)
        journal.append({"event": "done", "plan": number, "phase": "undo", "step": index})
    _check_restored(host, steps)
    _drop_copies(host, undo, backups)
    journal.append({"event": "undone", "plan": number})


def _drop_copies(host: Host, undo: Sequence[Step], backups: Sequence[str | None]) -> None:
    for step, backup in zip(undo, backups, strict=True):
        if backup is not None and isinstance(step, WriteFile):
            host.remove_file(backup, root=step.as_root)


def _undo_step(host: Host, step: Step) -> None:
    """As run_step, but a file that already stands as it shall is left: the plan may have run in part only."""
    if isinstance(step, RunCommand):
        _run(host, step.command)
        return
    now = digest_file(host, step.path, step.as_root)
    target = hashlib.sha256(step.data).hexdigest() if isinstance(step, WriteFile) else None
    if now != target:
        if now != step.expect:
            raise _conflict(step.path)
        if isinstance(step, WriteFile):
            host.write_file(step.path, step.data, step.mode, root=step.as_root)
    if isinstance(step, RemoveFile):
        _remove(host, step)


def _check_restored(host: Host, steps: Sequence[Step]) -> None:
    before: dict[str, tuple[str | None, bool]] = {}
    for step in steps:
        if not isinstance(step, RunCommand):
            before.setdefault(step.path, (step.expect, step.as_root))
    for path, (expect, as_root) in before.items():
        _check_expect(host, path, expect, as_root)


def _check_expect(host: Host, path: str, expect: str | None, as_root: bool) -> None:
    if digest_file(host, path, as_root) != expect:
        raise _conflict(path)


def _conflict(path: str) -> PlanConflict:
    return PlanConflict(
        f"{path} is not as it was read: someone else changed it", path, hint="look at the file, then run triage again"
    )


def _remove(host: Host, step: RemoveFile) -> None:
    host.remove_file(step.path, root=step.as_root)
    if step.and_folder is not None:
        # A folder that holds other files stays; rmdir says so with its status.
        host.run(Command(("rmdir", "--", step.and_folder), root=step.as_root))


def _run_or_conflict(host: Host, command: Command) -> None:
    """A plan compares the files that it was computed from by their digests; a difference is a conflict like any other."""
    if str(command.argv[0]) != "sha256sum":
        _run(host, command)
        return
    result = host.run(command)
    ends = (b": FAILED", b": FAILED open or read")
    changed = [line.rpartition(b": ")[0] for line in result.stdout.splitlines() if line.endswith(ends)]
    if changed:
        raise _conflict("".join(c if c.isprintable() else "?" for c in changed[0].decode("utf-8", "replace"))[:300])
    if result.status != 0:
        _run(host, command)


def _run(host: Host, command: Command) -> None:
    result = host.run(command)
    if result.status != 0:
        text = result.stderr.decode("utf-8", "replace").strip().splitlines()
        said = "".join(c if c.isprintable() else "?" for c in text[-1])[:300] if text else "no message"
        raise HostError(f"{str(command)[:200]} failed on {host.name} with status {result.status}: {said}")


# ---------------------------------------------------------------- the journal's form of a plan
def _next_number(journal: Journal) -> int:
    return sum(1 for event in journal.read() if event.get("event") == "plan")


def _backup_path(step: Step, journal: Journal, number: int) -> str | None:
    """Beside the file, with an ending that no service manager reads."""
    if not isinstance(step, WriteFile):
        return None
    tag = hashlib.sha256(f"{journal.path}\n{number}\n{step.path}".encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"{step.path}.triage-{tag}"


def _describe_plan(plan: Plan, number: int, backups: Sequence[str | None]) -> dict[str, JsonValue]:
    shown = to_json(replace(plan, diff=""))
    assert isinstance(shown, dict)
    digests: list[JsonValue] = [_digest_contents(step) for step in plan.undo]
    return {"event": "plan", "plan": number, "record": shown, "undo_digests": digests, "undo_backups": list(backups)}


def _digest_contents(step: Step) -> str | None:
    """Of what a step needs and the journal does not hold."""
    contents = step.data if isinstance(step, WriteFile) else step.command.stdin if isinstance(step, RunCommand) else b""
    return hashlib.sha256(contents).hexdigest() if contents or isinstance(step, WriteFile) else None


def _read_plans(journal: Journal) -> list[_Stored]:
    plans: dict[int, _Stored] = {}
    for event in journal.read():
        number, kind = event.get("plan"), event.get("event")
        if not isinstance(number, int):
            raise CaptureError(f"{journal.path} is damaged: an event without a plan")
        if kind == "plan":
            record = from_json(Plan, event.get("record"))
            digests = from_json(_Texts, {"items": event.get("undo_digests")}).items
            backups = from_json(_Texts, {"items": event.get("undo_backups")}).items
            if not len(digests) == len(backups) == len(record.undo):
                raise CaptureError(f"{journal.path} is damaged: plan {number}")
            plans[number] = _Stored(number, record.what, record.steps, record.undo, digests, backups)
            continue
        if number not in plans:
            raise CaptureError(f"{journal.path} is damaged: plan {number} is not described")
        stored = plans[number]
        if kind == "applied":
            stored = replace(stored, applied=True)
        elif kind == "undone":
            stored = replace(stored, undone=True)
        elif event.get("phase") == "undo":
            stored = replace(stored, undo_begun=True)
        elif kind == "done":
            stored = replace(stored, ran=stored.ran + 1)
        plans[number] = stored
    return [plans[number] for number in sorted(plans)]


@dataclass(frozen=True)
class _Texts:
    items: tuple[str | None, ...]


def _fill_undo(host: Host, stored: _Stored) -> tuple[Step, ...]:
    """The undo steps with the contents that are kept on the host. Raises CaptureError when these are not what was kept."""
    filled: list[Step] = []
    for step, digest, backup in zip(stored.undo, stored.digests, stored.backups, strict=True):
        if isinstance(step, RunCommand) and (digest is not None or any(isinstance(w, Secret) for w in step.command.argv)):
            raise CaptureError(f"{stored.what}: its undo needs a secret or an input that is not stored")
        if isinstance(step, WriteFile):
            step = _fill_write(host, step, digest, backup)
        filled.append(step)
    return tuple(filled)


def _fill_write(host: Host, step: WriteFile, digest: str | None, backup: str | None) -> WriteFile:
    for path in (step.path, backup):
        # The file itself comes first: the plan may have stopped before it kept a copy.
        if path is None:
            continue
        with contextlib.suppress(FileMissing):
            data = host.read_file(path, root=step.as_root)
            if hashlib.sha256(data).hexdigest() == digest:
                return replace(step, data=data)
    raise CaptureError(f"{step.path} cannot be put back: its kept copy {backup} is gone or changed")
