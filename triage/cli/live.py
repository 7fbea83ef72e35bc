"""Commands that work on a host: run, capture, undo."""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from triage.cli.console import is_terminal, write_progress, write_result
from triage.cli.given import DEFAULT_ENGINE, find_engine, split_words
from triage.cli.offline import show_result
from triage.cli.outcome import exit_code
from triage.cli.progress import Progress
from triage.engines import ProfileEngine
from triage.errors import UsageError
from triage.knowledge import load_profile
from triage.model import Diagnosis, Edit, Patch, Plan, Rehearsal
from triage.protocols import Capture, Engine, EngineProfile, Host, Observer, Service
from triage.report.plain import show_line

if TYPE_CHECKING:
    from triage.loop.run import Decide
    from triage.loop.settle import Rehearse

NO_LOG = "/dev/null"


@dataclass(frozen=True)
class Target:
    """The server that a command works on. `options` are the words that name it again, for a hint."""

    host: Host
    service: Service
    engine: Engine
    options: str


@contextmanager
def open_target(args: Namespace, reads: bool = True, needs_log: bool = True) -> Iterator[Target]:
    """Connect and name the service and, where `reads`, its engine. Without `needs_log` a command's log is never read.

    Raises UsageError, HostError, ServiceError.
    """
    from triage.hosts import open_host
    from triage.services import CommandService, SystemdService

    check_target(args, needs_log)
    log = args.log or NO_LOG
    options = ["--host", args.host, *(("--unit", args.unit) if args.unit else ("--command", args.command, "--log", log))]
    if args.user_unit:
        options.append("--user-unit")
    host = open_host(args.host, ssh_config=name_file(args.ssh_config), known_hosts=name_file(args.known_hosts))
    try:
        service: Service
        if args.unit:
            plain = SystemdService(host, args.unit, user=args.user_unit)
            engine = ProfileEngine(find_engine_of(plain) if reads else load_profile(DEFAULT_ENGINE))
            service = SystemdService(host, args.unit, engine.split_command, engine.profile.secret, user=args.user_unit)
        else:
            env, argv = split_words(args.command)
            engine = ProfileEngine(find_engine(argv)[0])
            service = CommandService(host, argv, log, env, args.cwd, engine.profile.secret, split=engine.split_command)
        yield Target(host, service, engine, shlex.join(options))
    finally:
        host.close()


def find_engine_of(service: Service) -> EngineProfile:
    """The engine that the service's command starts; the default one where it is none that triage knows. Raises ServiceError."""
    try:
        return find_engine(service.read_launch().argv)[0]
    except UsageError:
        return load_profile(DEFAULT_ENGINE)


def check_target(args: Namespace, needs_log: bool = True) -> None:
    """Raises UsageError unless exactly one of --unit and --command (where `needs_log`, with --log) is given."""
    if bool(args.unit) == bool(args.command):
        raise UsageError("name the server: --unit U, or --command ARGV" + (" with --log PATH" if needs_log else ""))
    if args.command and not args.log and needs_log:
        raise UsageError("--command needs --log, the file on the host that its output goes to")
    if args.unit and (args.log or args.cwd):
        raise UsageError("--log and --cwd belong to --command: a unit has a journal and a folder of its own")
    if args.command and args.user_unit:
        raise UsageError("--user-unit belongs to --unit")


def name_file(text: str | None) -> Path | None:
    """A file that was named on the command line. Raises UsageError where there is none."""
    if text is None:
        return None
    path = Path(text)
    if not path.is_file():
        raise UsageError(f"there is no file {text}")
    return path


def run_loop(args: Namespace) -> int:
    """The closed loop. The plan and the progress are on stderr, the report is on stdout."""
    from triage.loop.apply import has_standing_change
    from triage.loop.run import Budget, run_session
    from triage.loop.session import SessionStore
    from triage.loop.settle import make_diagnose

    store = SessionStore()
    with open_target(args) as target, Progress() as progress:
        session = run_session(
            target.host,
            target.service,
            target.engine,
            make_diagnose(target.engine.profile),
            progress,
            store,
            make_decide(args, progress),
            Budget(args.max_attempts, args.deadline),
            keep=args.keep,
            rehearse=None if args.no_rehearsal else make_rehearse(target, progress),
        )
        standing = has_standing_change(store.directory(session.id))
    show_result(session, args.json)
    write_progress(f"session {session.id}: triage report {session.id} shows it again")
    if standing:
        write_progress(f"the change stands; to take it back: triage undo {target.options}")
    return exit_code(session.outcome, live=True)


def capture_service(args: Namespace) -> int:
    """Write the capture of the last run. stdout is the directory."""
    from triage.loop.capture import capture_run, save_capture

    path = Path(args.output)
    check_empty(path)
    with open_target(args) as target, Progress() as progress:
        capture = capture_run(target.host, target.service, target.engine, progress)
    for note in capture.meta.notes:
        write_progress(f"triage: {note}")
    save_capture(trim_source(capture, target.engine), path)
    write_result(f"{path}\n")
    return 0


def undo_session(args: Namespace) -> int:
    """Take back what the newest session with a standing change did."""
    from triage.loop.session import SessionStore
    from triage.loop.undo import undo_session

    with open_target(args, reads=False) as target:
        session = undo_session(target.host, target.service.name, SessionStore())
    what = show_line(
        f"{session.service} on {session.host} is as it was before session {session.id}; the server was not restarted"
    )
    write_result(f"{what}\n")
    return 0


def make_rehearse(target: Target, observer: Observer) -> Rehearse:
    """Launches as the target's own validation judges them."""
    from triage.loop.rehearse import rehearse_launches

    def rehearse(launches: Sequence[tuple[Edit, ...]]) -> Rehearsal:
        found = rehearse_launches(target.host, target.service, target.engine, launches)
        if found.problem is not None:
            observer.note(f"no rehearsal: {found.problem}")
        else:
            passing = sum(a.outcome == "passes" for a in found.answers)
            observer.note(
                f"rehearsed {len(launches)} launches in {found.seconds:.1f} s: {passing} pass the host's own validation"
            )
        return found

    return rehearse


def make_decide(args: Namespace, progress: Progress) -> Decide:
    """Consent: --apply and --yes give it, --dry-run never does, else a person at a terminal is asked.

    A patch that changes something protected is never applied on --apply alone: it takes --yes or the person.
    """

    def decide(diagnosis: Diagnosis, plan: Plan, patch: Patch) -> bool:
        if args.dry_run:
            return False
        protected = diagnosis.outcome == "needs_consent"
        if args.yes or (args.apply and not protected):
            return True
        if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
            progress.note("nothing was changed: --apply applies this plan")
            return False
        return progress.ask("This changes a protected setting. Apply it?" if protected else "Apply this plan?")

    return decide


def trim_source(capture: Capture, engine: Engine) -> Capture:
    """The capture with the files that a diagnosis reads, in place of the whole package."""
    from triage.analysis.diagnose import diagnose
    from triage.analysis.trees import RecordingTree

    if capture.source is None:
        return capture
    tree = RecordingTree(capture.source)
    capture = replace(capture, source=tree)
    diagnose(capture, engine.profile)
    return capture


def check_empty(path: Path) -> None:
    """Raises UsageError where a capture cannot be written: it is a file, or a folder that holds something."""
    try:
        taken = path.exists() and (not path.is_dir() or any(path.iterdir()))
    except OSError as error:
        raise UsageError(f"{path} cannot be used: {error.strerror}") from error
    if taken:
        raise UsageError(f"{path} exists already and is not an empty directory")
