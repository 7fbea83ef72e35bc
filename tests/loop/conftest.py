"""Real hosts for the loop: this machine, and throw-away lab hosts with their own systemd where the lab is there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from triage.hosts import open_host
from triage.model import Attempt, Diagnosis, Observation, Patch, Plan
from triage.protocols import Host

CHECKOUT = Path(__file__).resolve().parents[2]
TOYSERVER = CHECKOUT / "fixtures" / "toyserver"
SHARED = Path(os.environ.get("TRIAGE_SHARED", CHECKOUT.parent / "shared"))
LABHOST = SHARED / "lab" / "labhost"
LAB_NAME, LAB_ADDRESS = "looptest", "10.77.0.60"


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


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@dataclass
class Lab:
    """A booted lab host, reached by ssh."""

    host: Host

    def run(self, *argv: str, stdin: bytes = b"", check: bool = True) -> bytes:
        """A command inside, as root, past triage."""
        words = [str(LABHOST), "run", LAB_NAME, *argv]
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


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    if not LABHOST.is_file():
        pytest.skip(f"no lab at {LABHOST} (TRIAGE_SHARED names its folder)")
    if os.geteuid() != 0 or not shutil.which("sshd") or not shutil.which("ip"):
        pytest.skip("lab hosts need root, openssh-server and iproute2")
    folder = tmp_path_factory.mktemp("lab")
    subprocess.run([str(LABHOST), "down", LAB_NAME], check=False, timeout=60)
    log = folder / "up.log"
    with open(log, "wb") as stream:  # its helper process keeps the stream: a pipe would never end
        up = subprocess.run([str(LABHOST), "up", LAB_NAME, LAB_ADDRESS], stdout=stream, stderr=stream, timeout=120)
    try:
        assert up.returncode == 0, log.read_text()
        keys = subprocess.run(["ssh-keyscan", "-t", "ed25519", LAB_ADDRESS], capture_output=True, check=True, timeout=30).stdout
        (folder / "known_hosts").write_bytes(keys)
        key = Path(os.environ.get("LABHOST_DIR", "/var/lib/labhost")) / "id_ed25519"
        config = f"Host {LAB_NAME}\n  HostName {LAB_ADDRESS}\n  User root\n  IdentityFile {key}\n"
        (folder / "config").write_text(config)
        host = open_host(LAB_NAME, ssh_config=folder / "config", known_hosts=folder / "known_hosts")
        yield Lab(host)
        host.close()
    finally:
        subprocess.run([str(LABHOST), "down", LAB_NAME], check=False, timeout=60)
