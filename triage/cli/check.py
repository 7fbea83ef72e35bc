"""`triage check`: what a launch would do, before it is started. Changes nothing, here or on a host."""

from __future__ import annotations

import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

from triage.cli.console import get_width, wants_colour, write_progress, write_result
from triage.cli.given import lay_over, start_given
from triage.errors import UsageError
from triage.knowledge import load_profile
from triage.model import Foresight
from triage.protocols import Capture, EngineProfile

WAYS = "name a unit (--host H --unit U), give --source TREE and --launch ARGV, or a capture directory"


def check_launch(args: Namespace) -> int:
    """Foresee what the launch would do; stdout is the result. 1 where it would fail, 0 where nothing surely fails."""
    capture, profile = find_launch(args)
    for note in capture.meta.notes:
        write_progress(f"triage: {note}")
    from triage.loop.answers import recall_answer

    def make(capture: Capture) -> Foresight:
        from triage.analysis.foresee import foresee  # wrong usage and an answer from the cache do not wait for it

        return foresee(capture, profile)

    foresight = recall_answer(Foresight, capture, profile, make)
    show_foresight(foresight, args.json)
    return 1 if foresight.failures else 0


def show_foresight(foresight: Foresight, as_json: bool) -> None:
    """On stdout: one JSON object, or text for a person."""
    from triage.report.check import render_check_json, render_check_text

    if as_json:
        write_result(render_check_json(foresight))
    else:
        write_result(render_check_text(foresight, get_width(), wants_colour(sys.stdout)))


def find_launch(args: Namespace) -> tuple[Capture, EngineProfile]:
    """The launch to check with all that is known of its host, from one of the three ways to name it.

    Raises UsageError, CaptureError, HostError, ServiceError, EngineError.
    """
    live = bool(args.unit or args.command)
    if args.what is not None and live:
        raise UsageError("a capture directory has a launch of its own: leave --unit and --command out")
    if live:
        capture, profile = capture_target(args)
    elif args.host != "local":
        raise UsageError(f"name the server on {args.host}: --unit U, or --command ARGV")
    elif args.what is not None:
        capture, profile = open_capture(Path(args.what))
    elif args.source is None or args.launch is None:
        raise UsageError(
            "there is nothing to check" if args.source is args.launch else "--source and --launch belong together", WAYS
        )
    else:
        capture, profile = start_given()
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


def capture_target(args: Namespace) -> tuple[Capture, EngineProfile]:
    """What the server on the host would start next; it may run, have failed, or never have been started."""
    from triage.cli.live import NO_LOG, open_target
    from triage.cli.progress import Progress
    from triage.loop.capture import capture_launch

    with open_target(args, needs_log=False) as target, Progress() as progress:
        capture = capture_launch(target.host, target.service, target.engine, progress)
        profile = target.engine.profile
    if capture.meta.service == NO_LOG:
        capture = replace(capture, meta=replace(capture.meta, service="the command"))
    return capture, profile
