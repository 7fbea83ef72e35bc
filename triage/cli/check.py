"""`triage check`: what a launch would do, before it is started. Changes nothing, here or on a host."""

from __future__ import annotations

import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from triage.cli.console import get_width, wants_colour, write_progress, write_result
from triage.cli.given import lay_over, start_given
from triage.errors import UsageError
from triage.knowledge import load_profile
from triage.model import Foresight
from triage.protocols import Capture, EngineProfile, Observer

if TYPE_CHECKING:
    from triage.cli.live import Target

WAYS = "name a unit (--host H --unit U), give --source TREE and --launch ARGV, or a capture directory"


def check_launch(args: Namespace) -> int:
    """Foresee what the launch would do; stdout is the result. 1 where it would fail, 0 where nothing surely fails."""
    foresight = foresee_service(args) if args.unit or args.command else foresee_given(args)
    show_foresight(foresight, args.json)
    return 1 if foresight.failures else 0


def foresee_given(args: Namespace) -> Foresight:
    """Of a launch with its source, or of a capture directory. Raises UsageError, CaptureError."""
    capture, profile = find_launch(args)
    tell_notes(capture)
    from triage.loop.answers import recall_answer

    def make(capture: Capture) -> Foresight:
        from triage.analysis.foresee import foresee  # wrong usage and an answer from the cache do not wait for it

        return foresee(capture, profile)

    return recall_answer(Foresight, capture, profile, make)


def tell_notes(capture: Capture) -> None:
    for note in capture.meta.notes:
        write_progress(f"triage: {note}")


def show_foresight(foresight: Foresight, as_json: bool) -> None:
    """On stdout: one JSON object, or text for a person."""
    from triage.report.check import render_check_json, render_check_text

    if as_json:
        write_result(render_check_json(foresight))
    else:
        write_result(render_check_text(foresight, get_width(), wants_colour(sys.stdout)))


def find_launch(args: Namespace) -> tuple[Capture, EngineProfile]:
    """The launch to check with all that is known of its host. Raises UsageError, CaptureError."""
    if args.host != "local":
        raise UsageError(f"name the server on {args.host}: --unit U, or --command ARGV")
    elif args.what is not None:
        capture, profile = open_capture(Path(args.what))
    elif args.source is None or args.launch is None:
        raise UsageError(
            "there is nothing to check" if args.source is args.launch else "--source and --launch belong together", WAYS
        )
    else:
        capture, profile = start_given()
    return complete_launch(capture, profile, args)


def complete_launch(capture: Capture, profile: EngineProfile, args: Namespace) -> tuple[Capture, EngineProfile]:
    """With what the command line lays over it. Raises UsageError where launch or source are missing then."""
    capture, profile = lay_over(capture, profile, args)
    if capture.launch is None:
        raise UsageError("this capture holds no launch", hint="give --launch")
    if capture.source is None:
        raise UsageError("this capture holds no source", hint="give --source")
    return capture, profile


def open_capture(path: Path) -> tuple[Capture, EngineProfile]:
    """A capture directory without its log: that of another launch, or of the one that failed already. Raises CaptureError."""
    from triage.loop.capture import load_capture

    if not path.is_dir():
        raise UsageError(f"{path} is not a capture directory", hint=WAYS)
    capture = load_capture(path)
    return replace(capture, log=b""), load_profile(capture.meta.engine)


def foresee_service(args: Namespace) -> Foresight:
    """What the server on the host would do at its next start; it may run, have failed, or never have been started.

    Raises UsageError, HostError, ServiceError, EngineError.
    """
    from triage.cli.live import make_rehearse, open_target
    from triage.cli.progress import Progress

    if args.what is not None:
        raise UsageError("a capture directory has a launch of its own: leave --unit and --command out")
    with open_target(args, needs_log=False) as target, Progress() as progress:
        capture = read_target(target, progress)
        tell_notes(capture)
        installed = capture.source
        capture, profile = complete_launch(capture, target.engine.profile, args)
        changed = args.launch or args.env or capture.source is not installed
        from triage.analysis.foresee import foresee
        from triage.loop.foreknow import foresee_on_host

        if args.no_rehearsal or changed:  # what is laid over the unit's own launch is not what the host would start
            return foresee(capture, profile)
        return foresee_on_host(capture, profile, make_rehearse(target, progress))


def capture_target(args: Namespace) -> tuple[Capture, EngineProfile]:
    """The launch of the server on the host, without its log. Raises HostError, ServiceError, EngineError."""
    from triage.cli.live import open_target
    from triage.cli.progress import Progress

    with open_target(args, needs_log=False) as target, Progress() as progress:
        return read_target(target, progress), target.engine.profile


def read_target(target: Target, observer: Observer) -> Capture:
    from triage.cli.live import NO_LOG
    from triage.loop.capture import capture_launch

    capture = capture_launch(target.host, target.service, target.engine, observer)
    if capture.meta.service == NO_LOG:
        capture = replace(capture, meta=replace(capture.meta, service="the command"))
    return capture
