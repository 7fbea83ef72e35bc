"""What the loop's tests share: an observer that keeps what it hears, and the toy server as units of a lab host."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab import LabHost
from triage.model import Attempt, Diagnosis, Observation, Patch, Plan
from triage.protocols import Host

CHECKOUT = Path(__file__).resolve().parents[2]
TOYSERVER = CHECKOUT / "fixtures" / "toyserver"


@dataclass
class Recorder:
    """An Observer that keeps what it hears."""

    phases: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)

    def phase(self, text: str, seconds: float) -> None:
        if not self.phases or self.phases[-1] != text:
            self.phases.append(text)

    def diagnosed(self, diagnosis: Diagnosis) -> None: ...
    def planned(self, plan: Plan, patch: Patch) -> None:
        self.plans.append(plan)

    def applied(self, plan: Plan) -> None: ...
    def observed(self, observation: Observation) -> None:
        self.observations.append(observation)

    def attempted(self, attempt: Attempt) -> None: ...
    def note(self, text: str) -> None:
        self.notes.append(text)


@dataclass
class ToyLab:
    """A lab host that runs the toy server in units, reached by ssh."""

    inside: LabHost
    host: Host

    def run(self, *argv: str, stdin: bytes = b"", check: bool = True) -> bytes:
        """A command inside, as root, past triage."""
        words = [str(self.inside.labhost), "run", self.inside.name, *argv]
        return subprocess.run(words, input=stdin, stdout=subprocess.PIPE, check=check, timeout=60).stdout

    def add_unit(self, name: str, args: str, service: str = "", python: str = sys.executable) -> str:
        """A unit of the toy server; returns its file's path."""
        path = f"/etc/systemd/system/{name}"
        text = (
            f"[Service]\nEnvironment=PYTHONPATH={TOYSERVER} PYTHONUNBUFFERED=1\n{service}\n"
            f"ExecStart={python} -m toyserver.launch --model-path toy {args}\n"
        )
        self.run("sh", "-c", f"cat > {path} && systemctl daemon-reload", stdin=text.encode())
        return path

    def listing(self, name: str) -> bytes:
        """The unit's files with their digests."""
        found = f"find /etc/systemd/system/{name} /etc/systemd/system/{name}.d -exec sha256sum {{}} + 2>/dev/null | sort"
        return self.run("sh", "-c", found, check=False)

    def start(self, name: str) -> None:
        """Start it and wait until systemd has made up its mind."""
        self.run("systemctl", "start", "--no-block", name)

    def wait_for(self, name: str, *states: str) -> None:
        look = f'case "$(systemctl is-active {name})" in {"|".join(states)}) exit 0;; esac'
        script = f"for i in $(seq 200); do {look}; sleep 0.1; done; exit 1"
        self.run("sh", "-c", script)
