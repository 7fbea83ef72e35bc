"""Plans on real files: applied, undone, and killed at every step (abuse 34, 35, 36)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from triage.errors import CaptureError, HostError, PlanConflict
from triage.hosts.local import LocalHost
from triage.loop.apply import apply_plan, has_standing_change, recover, undo_plan
from triage.loop.session import Journal
from triage.model import Command, CommandResult, Plan, RemoveFile, RunCommand, Step, WriteFile

OLD, NEW, SECRET = b"old drop-in\n", b"new drop-in\n", b"--api-key hunter2hunter2\n"


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class DyingHost(LocalHost):
    """The process dies as by kill -9 before or after the n-th thing it does to the host."""

    def __init__(self, at: int, after: bool) -> None:
        super().__init__()
        self.left = at
        self.after = after

    def count(self, action: Callable[[], CommandResult]) -> CommandResult:
        self.left -= 1
        if self.left == 0 and not self.after:
            os._exit(9)
        result = action()
        if self.left == 0:
            os._exit(9)
        return result

    def run(self, command: Command) -> CommandResult:
        return self.count(lambda: LocalHost.run(self, command))


class Place:
    """A folder that stands for a unit's: a drop-in that was there or not, and a reload that leaves a mark."""

    def __init__(self, root: Path, had_dropin: bool) -> None:
        self.dropin = root / "u.service.d" / "zz.conf"
        self.reloads = root / "reloads"
        self.journal = Journal(root / "session" / "journal.jsonl")
        self.journal.path.parent.mkdir()
        if had_dropin:
            self.dropin.parent.mkdir()
            self.dropin.write_bytes(OLD + SECRET)
            self.dropin.chmod(0o640)
        self.before = self.look()

    def look(self) -> dict[str, object]:
        """Everything about the unit's folder that an undo must bring back."""
        if not self.dropin.parent.exists():
            return {}
        return {p.name: (p.read_bytes(), p.stat().st_mode & 0o777) for p in self.dropin.parent.iterdir()}

    def plan(self) -> Plan:
        reload: Step = RunCommand(Command(("sh", "-c", 'echo x >> "$1"', "sh", str(self.reloads))))
        path, old = str(self.dropin), OLD + SECRET
        undo: Step = WriteFile(path, old, 0o640, sha(NEW)) if self.before else RemoveFile(path, sha(NEW), str(self.dropin.parent))
        write = WriteFile(path, NEW, 0o644, sha(old) if self.before else None)
        return Plan("drop-in", (write, reload), (undo, reload))


@pytest.fixture(params=[False, True], ids=["no drop-in before", "drop-in before"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(tmp_path, request.param)


def test_apply_then_undo_is_byte_exact(place: Place) -> None:
    apply_plan(LocalHost(), place.plan(), place.journal)
    assert place.dropin.read_bytes() == NEW
    assert has_standing_change(place.journal.path.parent)
    undo_plan(LocalHost(), place.plan(), place.journal)
    assert place.look() == place.before
    assert not has_standing_change(place.journal.path.parent)


def test_another_process_undoes_from_the_journal_alone(place: Place) -> None:
    apply_plan(LocalHost(), place.plan(), place.journal)
    assert recover(LocalHost(), place.journal.path.parent).standing == ("drop-in",)
    assert place.dropin.read_bytes() == NEW
    assert recover(LocalHost(), place.journal.path.parent, keep_applied=False).undone == ("drop-in",)
    assert place.look() == place.before
    assert recover(LocalHost(), place.journal.path.parent, keep_applied=False).undone == ()


def test_the_journal_holds_no_contents(place: Place) -> None:
    apply_plan(LocalHost(), place.plan(), place.journal)
    assert b"hunter2" not in place.journal.path.read_bytes()
    assert b"drop-in\\n" not in place.journal.path.read_bytes()
    assert place.journal.path.stat().st_mode & 0o077 == 0


def count_operations(place: Place, action: Callable[[LocalHost], object]) -> int:
    """How many host operations the action makes when nobody kills it."""
    host = DyingHost(10_000, False)
    action(host)
    return 10_000 - host.left


def run_in_child(action: Callable[[], object]) -> int:
    """The exit status of the action in a process of its own."""
    pid = os.fork()
    if pid == 0:
        try:
            action()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("had_dropin", [False, True])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_34_a_kill_at_every_operation_of_apply_leaves_the_old_or_the_new_state_and_recover_ends_it(
    tmp_path: Path, had_dropin: bool, after: bool
) -> None:
    (tmp_path / "dry").mkdir()
    dry = Place(tmp_path / "dry", had_dropin)
    total = count_operations(dry, lambda host: apply_plan(host, dry.plan(), dry.journal))
    assert total >= 3
    for at in range(1, total + 1):
        (tmp_path / str(at)).mkdir()
        place = Place(tmp_path / str(at), had_dropin)
        host = DyingHost(at, after)
        assert run_in_child(lambda h=host, p=place: apply_plan(h, p.plan(), p.journal)) == 9  # type: ignore[misc]
        now = place.dropin.read_bytes() if place.dropin.exists() else None
        assert now in (NEW, OLD + SECRET if had_dropin else None)
        recover(LocalHost(), place.journal.path.parent, keep_applied=False)
        assert place.look() == place.before, at
        assert not has_standing_change(place.journal.path.parent)


@pytest.mark.parametrize("had_dropin", [False, True])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_34_a_kill_at_every_operation_of_undo_is_finished_by_the_next_command(
    tmp_path: Path, had_dropin: bool, after: bool
) -> None:
    def undo(host: LocalHost, place: Place) -> None:
        recover(host, place.journal.path.parent, keep_applied=False)

    (tmp_path / "dry").mkdir()
    dry = Place(tmp_path / "dry", had_dropin)
    apply_plan(LocalHost(), dry.plan(), dry.journal)
    total = count_operations(dry, lambda host: undo(host, dry))
    for at in range(1, total + 1):
        (tmp_path / str(at)).mkdir()
        place = Place(tmp_path / str(at), had_dropin)
        apply_plan(LocalHost(), place.plan(), place.journal)
        host = DyingHost(at, after)
        assert run_in_child(lambda h=host, p=place: undo(h, p)) == 9  # type: ignore[misc]
        # also without asking for it: an undo that was begun is finished, never left
        recover(LocalHost(), place.journal.path.parent, keep_applied=True)
        assert place.look() == place.before, at


def test_a_failing_step_takes_back_the_ones_before_it(place: Place) -> None:
    plan = place.plan()
    bad = Plan(plan.what, (*plan.steps, RunCommand(Command(("sh", "-c", "echo no reload >&2; exit 4")))), plan.undo)
    with pytest.raises(HostError, match="status 4: no reload"):
        apply_plan(LocalHost(), bad, place.journal)
    assert place.look() == place.before
    assert not has_standing_change(place.journal.path.parent)


def test_36_an_edit_between_read_and_write_is_a_conflict_and_nothing_is_written(place: Place) -> None:
    plan = place.plan()
    place.dropin.parent.mkdir(exist_ok=True)
    place.dropin.write_bytes(b"someone else\n")
    with pytest.raises(PlanConflict) as caught:
        apply_plan(LocalHost(), plan, place.journal)
    assert caught.value.path == str(place.dropin)
    assert place.dropin.read_bytes() == b"someone else\n"
    assert not has_standing_change(place.journal.path.parent)


def test_36_an_edit_after_apply_is_not_overwritten_by_undo(place: Place) -> None:
    apply_plan(LocalHost(), place.plan(), place.journal)
    place.dropin.write_bytes(NEW + b"# kept by hand\n")
    with pytest.raises(PlanConflict):
        recover(LocalHost(), place.journal.path.parent, keep_applied=False)
    assert place.dropin.read_bytes() == NEW + b"# kept by hand\n"
    assert has_standing_change(place.journal.path.parent)


def test_36_a_changed_unit_file_is_a_conflict(place: Place, tmp_path: Path) -> None:
    unit = tmp_path / "u.service"
    unit.write_bytes(b"[Service]\nExecStart=/bin/other\n")
    listing = f"{sha(b'[Service]')}  {unit}\n".encode()
    check = RunCommand(Command(("sha256sum", "--check", "--quiet", "-"), stdin=listing))
    plan = place.plan()
    with pytest.raises(PlanConflict) as caught:
        apply_plan(LocalHost(), Plan(plan.what, (check, *plan.steps), plan.undo), place.journal)
    assert caught.value.path == str(unit)
    assert place.look() == place.before


def test_35_a_link_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    place = Place(tmp_path, False)
    place.dropin.parent.mkdir()
    target = tmp_path / "passwd"
    target.write_bytes(b"root\n")
    place.dropin.symlink_to(target)
    with pytest.raises(PlanConflict):
        apply_plan(LocalHost(), place.plan(), place.journal)
    assert target.read_bytes() == b"root\n"


def test_35_a_full_disk_leaves_the_old_state(tmp_path: Path) -> None:
    place = Place(tmp_path, False)
    full = WriteFile("/dev/full/x", NEW, 0o644, None)
    plan = place.plan()
    with pytest.raises(HostError):
        apply_plan(LocalHost(), Plan(plan.what, (*plan.steps, full), plan.undo), place.journal)
    assert place.look() == place.before


def test_a_kept_copy_that_was_changed_is_not_written_back(tmp_path: Path) -> None:
    place = Place(tmp_path, True)
    apply_plan(LocalHost(), place.plan(), place.journal)
    for path in place.dropin.parent.iterdir():
        if path != place.dropin:
            path.write_bytes(b"[Service]\nExecStart=/bin/evil\n")
    with pytest.raises(CaptureError):
        recover(LocalHost(), place.journal.path.parent, keep_applied=False)
    assert place.dropin.read_bytes() == NEW


def test_a_torn_journal_line_is_what_it_is_and_the_next_line_is_whole(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append({"event": "plan", "plan": 0})
    with open(journal.path, "ab") as stream:
        stream.write(b'{"event": "beg')
    journal.append({"event": "undone", "plan": 0})
    assert [e["event"] for e in journal.read()] == ["plan", "undone"]


@pytest.mark.parametrize(
    "line", ['{"event": "done", "plan": 3}', '{"event": "plan", "plan": 0, "record": 5}', '{"event": "done"}']
)
def test_a_damaged_journal_is_said_to_be_damaged(tmp_path: Path, line: str) -> None:
    (tmp_path / "journal.jsonl").write_text(line + "\n")
    with pytest.raises(CaptureError):
        recover(LocalHost(), tmp_path)


def test_journal_events_are_json_lines_in_order(place: Place) -> None:
    apply_plan(LocalHost(), place.plan(), place.journal)
    events = [json.loads(line)["event"] for line in place.journal.path.read_text().splitlines()]
    assert events == ["plan", "begin", "done", "begin", "done", "applied"]
