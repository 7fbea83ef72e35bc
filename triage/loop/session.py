"""Sessions on this machine: one folder each, so that `report` and `undo` work later and after a crash.

<state folder>/sessions/<id>/session.json   the Session record
                             journal.jsonl  what was about to be done, and what was done (loop/apply.py)
                             capture/       the capture that the session began with
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from triage.codec import from_json, to_json
from triage.errors import CaptureError, LockedError, UsageError
from triage.loop.places import find_state_folder
from triage.model import SCHEMA, JsonValue, Session

STATE_VARIABLE = "TRIAGE_STATE_DIR"

_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{6}")


class Journal:
    """An append-only file of JSON lines; a line that is read back was on disk before what it announces was done."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, event: Mapping[str, JsonValue]) -> None:
        """Write one event and wait until the disk has it. Raises UsageError when the file cannot be written."""
        line = (json.dumps(event, ensure_ascii=True) + "\n").encode()
        try:
            handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                size = os.fstat(handle).st_size
                torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
                os.write(handle, b"\n" + line if torn else line)
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise UsageError(f"the session journal {self.path} cannot be written: {error.strerror}") from error

    def read(self) -> tuple[dict[str, JsonValue], ...]:
        """All events. A line that was torn (power loss) is left out: what it announced was not begun. Raises CaptureError."""
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise CaptureError(f"the session journal {self.path} cannot be read: {error.strerror}") from error
        events: list[dict[str, JsonValue]] = []
        for line in lines:
            with suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict):
                    events.append(event)
        return tuple(events)


class SessionStore:
    """The state folder: `directory`, else $TRIAGE_STATE_DIR, else the user's XDG state folder for triage."""

    def __init__(self, directory: Path | None = None) -> None:
        self.root = directory or Path(os.environ.get(STATE_VARIABLE) or find_state_folder())

    def create(self) -> str:
        """Make the folder of a new session and give its id. Raises UsageError when the state folder cannot be written."""
        session_id = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
        self._make(self.directory(session_id))
        return session_id

    def directory(self, session_id: str) -> Path:
        """The session's folder. Raises UsageError for what is not an id."""
        if not _ID.fullmatch(session_id):
            raise UsageError(f"{session_id[:60]!r} is not a session id", hint=f"sessions are kept in {self.root / 'sessions'}")
        return self.root / "sessions" / session_id

    def journal(self, session_id: str) -> Journal:
        return Journal(self.directory(session_id) / "journal.jsonl")

    def save(self, session: Session) -> None:
        """Write session.json atomically. Raises UsageError when it cannot be written."""
        directory = self.directory(session.id)
        self._make(directory)
        text = json.dumps({"schema": SCHEMA, "session": to_json(session)}, indent=1, sort_keys=True)
        draft = directory / "session.json.new"
        try:
            with open(draft, "w", encoding="utf-8", opener=_open_private) as stream:
                stream.write(text + "\n")
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(draft, directory / "session.json")
        except OSError as error:
            raise UsageError(f"the session cannot be written to {directory}: {error.strerror}") from error

    def load(self, session_id: str) -> Session:
        """The stored session; its plan is for showing only (no file contents). Raises UsageError, CaptureError."""
        return load_session(self.directory(session_id))

    def ids(self) -> tuple[str, ...]:
        """All session ids, oldest first."""
        folder = self.root / "sessions"
        if not folder.is_dir():
            return ()
        return tuple(sorted(p.name for p in folder.iterdir() if _ID.fullmatch(p.name) and (p / "session.json").is_file()))

    def find_latest(self, host: str, service: str) -> Session | None:
        """The newest session of this host and service, None when there is none. Damaged ones of other services do not matter."""
        for session_id in reversed(self.ids()):
            try:
                session = self.load(session_id)
            except CaptureError:
                continue
            if (session.host, session.service) == (host, service):
                return session
        return None

    def find_all(self, host: str, service: str) -> tuple[str, ...]:
        """The ids of all sessions of this host and service, newest first."""
        found = []
        for session_id in reversed(self.ids()):
            try:
                session = self.load(session_id)
            except CaptureError:
                continue
            if (session.host, session.service) == (host, service):
                found.append(session_id)
        return tuple(found)

    @contextmanager
    def lock(self, host: str, service: str) -> Iterator[None]:
        """Hold the lock of one service on one host. Raises LockedError at once when another process holds it."""
        folder = self.root / "locks"
        self._make(folder)
        name = hashlib.sha256(f"{host}\n{service}".encode("utf-8", "surrogateescape")).hexdigest()[:32]
        lock = FileLock(folder / f"{name}.lock", timeout=0)
        try:
            lock.acquire()
        except Timeout as error:
            raise LockedError(f"another triage works on {service} of {host}", hint="wait until it has ended") from error
        except OSError as error:
            raise UsageError(f"the lock folder {folder} cannot be used: {error.strerror}") from error
        try:
            yield
        finally:
            lock.release()

    def _make(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise UsageError(
                f"the state folder {folder} cannot be made: {error.strerror}", hint=f"set {STATE_VARIABLE}"
            ) from error


def load_session(directory: Path) -> Session:
    """Read `session.json` of a session folder. Raises UsageError when there is none, CaptureError when it is damaged."""
    path = directory / "session.json"
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError(f"{directory} holds no session") from error
    except (OSError, ValueError) as error:
        raise CaptureError(f"{path} cannot be read: {error}") from error
    if not isinstance(stored, dict) or stored.get("schema") != SCHEMA:
        raise CaptureError(f"{path} is not a session of this version of triage")
    return from_json(Session, stored.get("session"))


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
