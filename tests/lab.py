"""Throw-away hosts with a real systemd, journald and sshd. Found through TRIAGE_SHARED, or ../shared beside the checkout."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from triage.hosts import open_host
from triage.protocols import Host

STATE = Path(os.environ.get("LABHOST_DIR", "/var/lib/labhost"))
BRIDGE = "lab0"  # as labhost names it
NETWORK = "10.77.0."


def find_labhost() -> Path | str:
    """The program, or why there is none."""
    checkout = Path(__file__).resolve().parent.parent
    path = Path(os.environ.get("TRIAGE_SHARED", checkout.parent / "shared")) / "lab" / "labhost"
    if not path.is_file():
        return f"no lab: {path} does not exist (set TRIAGE_SHARED)"
    if os.geteuid() != 0:
        return "no lab: it needs root"
    inside = [str(p) for p in (checkout, Path(sys.prefix)) if p.is_relative_to("/tmp")]
    if inside:
        return f"no lab: its hosts have a /tmp of their own, and {inside[0]} stands in this one"
    missing = [name for name in ("sshd", "ip", "dbus-daemon", "ssh-keygen") if not shutil.which(name)]
    return f"no lab: {', '.join(missing)} not installed" if missing else path


@dataclass(frozen=True)
class LabHost:
    """One running host. `folder` holds the ssh config and known hosts that reach it; the machine's own are not touched."""

    labhost: Path
    name: str
    address: str
    folder: Path

    @property
    def ssh_config(self) -> Path:
        return self.folder / "ssh_config"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def key(self) -> Path:
        return STATE / "id_ed25519"

    def run(self, *words: str, stdin: bytes = b"") -> bytes:
        """Inside the host as root, without ssh and without triage."""
        return subprocess.run(
            [self.labhost, "run", self.name, *words], input=stdin, capture_output=True, check=True, timeout=60
        ).stdout

    def shell(self, script: str, *words: str, stdin: bytes = b"") -> bytes:
        return self.run("sh", "-c", script, "sh", *words, stdin=stdin)

    def write(self, path: str, data: str | bytes, mode: int = 0o644) -> None:
        raw = data.encode() if isinstance(data, str) else data
        self.shell('mkdir -p -- "$(dirname -- "$1")"; cat >"$1"; chmod "$2" "$1"', path, f"{mode:o}", stdin=raw)

    def read(self, path: str) -> bytes:
        return self.run("cat", "--", path)

    def tree(self, path: str) -> bytes:
        """Every name, mode and content below a folder: to see that nothing changed."""
        script = 'cd "$1"; find . -printf "%p %m %y %l\\n" | sort; find . -type f -print0 | sort -z | xargs -0 -r sha256sum'
        return self.shell(script, path)

    def cut(self) -> None:
        subprocess.run([self.labhost, "cut", self.name], check=True)

    def mend(self) -> None:
        subprocess.run([self.labhost, "mend", self.name], check=True)
        # while it was cut, this machine may have learned that there is no such neighbour
        subprocess.run(["ip", "neigh", "flush", "to", self.address], check=True, capture_output=True)

    def add_user(self, name: str, shell: str = "/bin/bash", groups: Sequence[str] = ()) -> None:
        """A login with the lab's key, and no rights beside those of its groups."""
        script = (
            'useradd -m -s "$2" "$1"; for g in $3; do usermod -aG "$g" "$1"; done; d=$(getent passwd "$1" | cut -d: -f6);'
            'mkdir -p "$d/.ssh"; cp /root/.ssh/authorized_keys "$d/.ssh/"; chown -R "$1" "$d/.ssh"; chmod 700 "$d/.ssh"'
        )
        self.shell(script, name, shell, " ".join(groups))

    def host_key(self) -> str:
        """Its ed25519 key as a known_hosts line without the name."""
        return " ".join(self.read("/etc/ssh/ssh_host_ed25519_key.pub").decode().split()[:2])

    def open(self, user: str = "root", timeout: float = 15.0) -> Host:
        return open_host(f"{user}@{self.name}", ssh_config=self.ssh_config, known_hosts=self.known_hosts, timeout=timeout)


def _fix_bridge() -> None:
    """The hosts' bridge with an address of its own: else it takes that of a port, changes it when that host goes down,
    and the sessions of all other hosts stall."""
    mac = "02:00:0a:4d:00:01"
    if subprocess.run(["ip", "link", "show", BRIDGE], capture_output=True).returncode:
        for words in (["link", "add", BRIDGE, "type", "bridge"], ["addr", "add", f"{NETWORK}1/24", "dev", BRIDGE]):
            subprocess.run(["ip", *words], check=True, capture_output=True)
    subprocess.run(["ip", "link", "set", BRIDGE, "address", mac, "up"], check=True, capture_output=True)


@contextmanager
def boot(folder: Path, first: int = 10, last: int = 59) -> Iterator[LabHost]:
    """A host at a free address of the range, taken down at the end whatever happens."""
    labhost = find_labhost()
    assert isinstance(labhost, Path)
    STATE.mkdir(parents=True, exist_ok=True)
    with open(STATE / ".test-lock", "w") as lock:
        # several test runs may boot hosts at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        up = {line.split()[-1] for line in subprocess.run([labhost, "list"], capture_output=True, text=True).stdout.splitlines()}
        number = next(n for n in range(first, last + 1) if f"{NETWORK}{n}" not in up and not (STATE / f"th{n}").exists())
        host = LabHost(labhost, f"th{number}", f"{NETWORK}{number}", folder)
        _fix_bridge()
        subprocess.run([labhost, "up", host.name, host.address], check=True, timeout=90, capture_output=True)
        # an earlier host at this address had another hardware address, which is remembered for longer than a connect waits
        subprocess.run(["ip", "neigh", "flush", "to", host.address], check=True, capture_output=True)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        host.ssh_config.write_text(
            f"Host {host.name}\n  HostName {host.address}\n  IdentityFile {host.key}\n  IdentityAgent none\n"
        )
        host.shell('echo "127.0.1.1 $1" >>/etc/hosts', host.name)  # sudo asks for it
        host.known_hosts.write_text(f"{host.address} {host.host_key()}\n")
        yield host
    finally:
        subprocess.run([labhost, "down", host.name], check=False, timeout=60)
