"""`triage doctor`: what triage can and cannot do for a server, before it is needed. Changes nothing, here or on a host."""

from __future__ import annotations

import sys
from argparse import Namespace

from triage.cli.console import get_width, wants_colour, write_result
from triage.cli.live import open_target
from triage.cli.progress import Progress
from triage.errors import EngineError, HostError, ServiceError
from triage.model import Checkup


def examine_target(args: Namespace) -> int:
    """One line for each thing on stdout. 0: all that `run` needs is there; 1: something is missing; 2: cannot be reached."""
    checkup = _examine(args)
    from triage.report.doctor import render_checkup_json, render_checkup_text

    if args.json:
        write_result(render_checkup_json(checkup))
    else:
        write_result(render_checkup_text(checkup, get_width(), wants_colour(sys.stdout)))
    return 0 if checkup.fit else 1 if checkup.reached else 2


def _examine(args: Namespace) -> Checkup:
    """Raises UsageError. A service that cannot be read is looked at with the default engine, for what else can be told."""
    from triage.loop.doctor import tell_unreachable

    try:
        try:
            return _examine_as(args, reads=True)
        except (ServiceError, EngineError):
            return _examine_as(args, reads=False)
    except HostError as error:
        return tell_unreachable(args.host, args.unit or "the command", error)


def _examine_as(args: Namespace, reads: bool) -> Checkup:
    from triage.loop.doctor import examine_service
    from triage.loop.session import SessionStore

    with open_target(args, reads=reads) as target, Progress() as progress:
        return examine_service(target.host, target.service, target.engine, SessionStore(), progress)
