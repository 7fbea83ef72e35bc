"""`triage explain`: a setting's whole life in the installed source, and its values in a launch. Changes nothing."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from triage.cli.console import get_width, wants_colour, write_progress, write_result
from triage.cli.given import lay_over, start_given
from triage.errors import UsageError
from triage.protocols import Capture, EngineProfile

WAYS = "give --source TREE (a capture directory will do too), or name a unit (--host H --unit U)"


def explain_field(args: Namespace) -> int:
    """Explain the field or flag `args.field`; stdout is the result."""
    capture, profile = find_source(args)
    for note in capture.meta.notes:
        write_progress(f"triage: {note}")
    from triage.analysis.lives.explain import explain_setting  # wrong usage is told without waiting for it
    from triage.report.explain import render_life_json, render_life_text

    life = explain_setting(capture, profile, args.field)
    if args.json:
        write_result(render_life_json(life))
    else:
        write_result(render_life_text(life, get_width(), wants_colour(sys.stdout)))
    return 0


def find_source(args: Namespace) -> tuple[Capture, EngineProfile]:
    """The source to explain from, with the launch where one is given or captured.

    Raises UsageError, CaptureError, HostError, ServiceError, EngineError.
    """
    live = bool(args.unit or args.command)
    if live:
        from triage.cli.check import capture_target

        capture, profile = capture_target(args)
    elif args.host != "local":
        raise UsageError(f"name the server on {args.host}: --unit U, or --command ARGV")
    elif args.source is None:
        raise UsageError("there is no source to explain from", hint=WAYS)
    elif (Path(args.source) / "capture.toml").is_file():
        from triage.cli.check import open_capture

        capture, profile = open_capture(Path(args.source))
        args.source = None
    else:
        capture, profile = start_given()
    capture, profile = lay_over(capture, profile, args)
    if capture.source is None:
        raise UsageError(
            "this capture holds no source", hint="capture the host again, or give --source a folder that holds the package"
        )
    return capture, profile
