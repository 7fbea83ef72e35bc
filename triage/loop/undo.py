"""`triage undo`: what the newest session changed is taken back, whether it ended well, badly, or not at all."""

from __future__ import annotations

from dataclasses import replace

from triage.errors import UsageError
from triage.loop.apply import has_standing_change, recover
from triage.loop.session import SessionStore
from triage.model import Session
from triage.protocols import Host


def undo_session(host: Host, service: str, store: SessionStore) -> Session:
    """Undo the newest session of this service that still has a change standing; its record is stored again and returned.

    Files are put back byte for byte and checked; the server is not restarted. Raises UsageError when there is nothing to
    undo, LockedError, PlanConflict (someone else changed a file since), HostError, CaptureError.
    """
    with store.lock(host.name, service):
        for session_id in store.find_all(host.name, service):
            directory = store.directory(session_id)
            if not has_standing_change(directory):
                continue
            recover(host, directory, keep_applied=False)
            session = store.load(session_id)
            undone = replace(session, outcome="not_applied", why=f"undone; before that: {session.why}")
            store.save(undone)
            return undone
    raise UsageError(
        f"there is nothing to undo for {service} on {host.name}", hint=f"sessions are kept in {store.root / 'sessions'}"
    )
