"""How a server is started: under systemd, or by a plain command."""

from __future__ import annotations

from triage.services.command import CommandService
from triage.services.systemd import SystemdService

__all__ = ["CommandService", "SystemdService"]
