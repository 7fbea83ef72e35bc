"""`triage demo`: the whole loop on this machine, on a toy server of our own that fails as a real one does."""

from __future__ import annotations

import shutil
import socket
import sys
import tempfile
import time
from argparse import Namespace
from pathlib import Path

from triage.cli.live import Target, make_rehearse
from triage.cli.offline import show_result
from triage.cli.outcome import exit_code
from triage.cli.progress import Progress
from triage.engines import open_engine
from triage.errors import UsageError
from triage.hosts.local import LocalHost
from triage.knowledge import data_root
from triage.loop.apply import apply_plan
from triage.loop.run import Budget, run_session
from triage.loop.session import SessionStore
from triage.loop.settle import make_diagnose
from triage.model import Diagnosis, Patch, Plan, Session
from triage.services import CommandService

FLAGS = ("--draft-mode", "ladder", "--draft-budget", "6")
BUDGET = Budget(attempts=3, deadline=60.0, stability=1.0, poll=0.2)
START_SECONDS = 20.0


def run_demo(args: Namespace) -> int:
    """Start the toy server so that it fails, repair it, stop it. Leaves no process and no file. stdout is the report."""
    with tempfile.TemporaryDirectory(prefix="triage-demo-") as folder, Progress() as progress:
        session = repair_toy_server(Path(folder), progress)
    show_result(session, args.json)
    return exit_code(session.outcome, live=True)


def repair_toy_server(folder: Path, progress: Progress) -> Session:
    """The session of one repair in a folder of its own, sessions and locks included."""
    shutil.copytree(find_toyserver() / "toyserver", folder / "toyserver", ignore=shutil.ignore_patterns("__pycache__"))
    command = (sys.executable, "-m", "toyserver.launch", "--model-path", "toy", "--port", str(find_free_port()), *FLAGS)
    engine = open_engine("toyserver")
    store = SessionStore(folder / "state")
    host = LocalHost()
    env = {"PYTHONPATH": str(folder)}
    service = CommandService(host, command, str(folder / "server.log"), env, str(folder), split=engine.split_command)
    progress.note(f"starting a toy server: {' '.join(command[1:])}")
    journal = store.journal(store.create())
    try:
        apply_plan(host, service.plan_restart(), journal)
        wait_for_end(service)
        rehearse = make_rehearse(Target(host, service, engine, ""), progress)
        return run_session(
            host, service, engine, make_diagnose(engine.profile), progress, store, consent, BUDGET, rehearse=rehearse
        )
    finally:
        apply_plan(host, service.plan_stop(), journal)
        host.close()


def consent(diagnosis: Diagnosis, plan: Plan, patch: Patch) -> bool:
    return True


def wait_for_end(service: CommandService) -> None:
    """Until the server that was started wrongly has ended, at most START_SECONDS."""
    deadline = time.monotonic() + START_SECONDS
    while service.read_state().active in ("active", "activating") and time.monotonic() < deadline:
        time.sleep(0.1)


def find_toyserver() -> Path:
    """The toy server's folder: in the package of an installed wheel, or in a checkout. Raises UsageError."""
    knowledge = data_root()
    for path in (knowledge.parent / "toyserver", knowledge.parent / "fixtures" / "toyserver"):
        if (path / "toyserver").is_dir():
            return path
    raise UsageError("this installation has no toy server", hint="install the wheel again, or run in a checkout")


def find_free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port
