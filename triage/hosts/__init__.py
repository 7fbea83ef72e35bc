"""Where commands run. `open_host` is the one way in."""

from __future__ import annotations

from pathlib import Path

from triage.hosts.local import LocalHost
from triage.protocols import Host


def open_host(name: str, *, ssh_config: Path | None = None, known_hosts: Path | None = None, timeout: float = 15.0) -> Host:
    """The host called `local` is this machine; any other name is connected to by ssh, at once.

    `ssh_config` and `known_hosts` replace the user's and the system's own files; `timeout` (seconds) is for each stage of
    connecting. Raises UsageError (not a host name), HostKeyError, HostError.
    """
    if name == "local":
        return LocalHost()
    from triage.hosts.ssh import SshHost

    host = SshHost(name, ssh_config, known_hosts, timeout)
    host.connect()
    return host
