"""Commands that touch no host: replay and report."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from triage.cli.console import get_width, wants_colour, write_progress, write_result
from triage.cli.given import build_capture
from triage.cli.outcome import exit_code
from triage.errors import UsageError
from triage.model import Diagnosis
from triage.protocols import Capture, EngineProfile
from triage.report import FormatName, Subject, render_report


def replay_capture(args: Namespace) -> int:
    """Diagnose a capture directory or a log. stdout is the report."""
    capture, profile = build_capture(args)
    for note in capture.meta.notes:
        write_progress(f"triage: {note}")
    diagnosis = recall_diagnosis(capture, profile)
    from triage.analysis.mismatch import find_mismatch

    mismatch = find_mismatch(diagnosis)
    if mismatch is not None and capture.source is not None and not mismatch.moved:
        hint = "give the source of the release that wrote this log, with --source"
        raise UsageError(f"the source does not match the traceback: {mismatch.text}", hint=hint)
    show_result(diagnosis, args.json)
    return exit_code(diagnosis.outcome)


def report_session(args: Namespace) -> int:
    """The report of a stored session, of a session's folder or of a capture directory, in any format."""
    subject = find_subject(args.what)
    format_name: FormatName = args.format
    if args.output is None:
        write_result(render_report(subject, format_name, get_width(), wants_colour(sys.stdout)))
    else:
        write_file(Path(args.output), render_report(subject, format_name))
    return 0


def show_result(subject: Subject, as_json: bool) -> None:
    """The result on stdout: one JSON object, or text for a person."""
    write_result(render_report(subject, "json" if as_json else "text", get_width(), wants_colour(sys.stdout)))


def find_subject(what: str) -> Subject:
    """What `report` was asked for. Raises UsageError where it is neither a session nor a directory, CaptureError."""
    from triage.loop.session import SessionStore, load_session

    path = Path(what)
    if path.is_dir():
        return load_session(path) if (path / "session.json").is_file() else diagnose_directory(path)
    store = SessionStore()
    if what != "last":
        return store.load(what)
    ids = store.ids()
    if not ids:
        raise UsageError("there is no session yet", hint=f"sessions are kept in {store.root / 'sessions'}")
    return store.load(ids[-1])


def diagnose_directory(path: Path) -> Diagnosis:
    """The diagnosis of a capture directory. Raises CaptureError."""
    from triage.knowledge import load_profile
    from triage.loop.capture import load_capture

    capture = load_capture(path)
    return recall_diagnosis(capture, load_profile(capture.meta.engine))


def recall_diagnosis(capture: Capture, profile: EngineProfile) -> Diagnosis:
    """The diagnosis of a capture, from the cache where it was made before."""
    from triage.loop.answers import recall_answer

    def make(capture: Capture) -> Diagnosis:
        from triage.analysis.diagnose import diagnose  # wrong usage and an answer from the cache do not wait for it

        diagnosis = diagnose(capture, profile)
        if not capture.rehearsals:
            return diagnosis
        from triage.loop.rehearsal_files import answer_from
        from triage.loop.settle import make_diagnose, settle_patches

        return settle_patches(capture, diagnosis, make_diagnose(profile), answer_from(capture.rehearsals)).diagnosis

    return recall_answer(Diagnosis, capture, profile, make)


def write_file(path: Path, text: str) -> None:
    """Raises UsageError where it cannot be written."""
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be written: {getattr(error, 'strerror', None) or error}") from error
