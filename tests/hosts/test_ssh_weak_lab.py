"""Servers that offer only what is not safe any more: refused with a word on why, while a usual one is spoken to strictly."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab import LabHost
from triage.errors import HostError
from triage.hosts import open_host
from triage.hosts.ssh import SshHost

pytestmark = pytest.mark.lab

WEAK = {
    "signatures": "HostKeyAlgorithms=ssh-rsa",
    "key exchange": "KexAlgorithms=diffie-hellman-group1-sha1",
}


@pytest.mark.parametrize("what", WEAK)
def test_20_a_server_with_sha1_only_is_refused_with_a_clear_message(lab: LabHost, tmp_path: Path, what: str) -> None:
    port = 2200 + list(WEAK).index(what)
    lab.shell("[ -f /etc/ssh/ssh_host_rsa_key ] || ssh-keygen -q -t rsa -N '' -f /etc/ssh/ssh_host_rsa_key")
    lab.shell('"$(command -v sshd)" -p "$1" -h /etc/ssh/ssh_host_rsa_key -o "$2"', str(port), WEAK[what])
    config, known = tmp_path / "config", tmp_path / "known"
    config.write_text(f"Host weak\n  HostName {lab.address}\n  Port {port}\n  User root\n  IdentityFile {lab.key}\n")
    key = " ".join(lab.read("/etc/ssh/ssh_host_rsa_key.pub").decode().split()[:2])
    known.write_text(f"[{lab.address}]:{port} {key}\n")
    with pytest.raises(HostError, match=r"^weak .*algorithms that are not safe any more") as caught:
        open_host("weak", ssh_config=config, known_hosts=known, timeout=5.0)
    assert "update the ssh server" in caught.value.hint


def test_20_the_key_exchange_is_strict(lab: LabHost) -> None:
    """What keeps an attacker in between from cutting messages off the start (Terrapin)."""
    host = lab.open()
    assert isinstance(host, SshHost)
    assert host._transports[-1].agreed_on_strict_kex  # type: ignore[attr-defined]
    host.close()
