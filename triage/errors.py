"""The errors that `triage` raises about its own work; a target's failure is data, never one of these.

Every error carries `hint`: what the operator can do next, in one line. `cli` prints both and exits with `exit_code`.
"""

from __future__ import annotations


class TriageError(Exception):
    """Base of all. `str(e)` is one clear line without control characters; `hint` may be empty."""

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(TriageError):
    """The request makes no sense as given (flags, paths, formats)."""


class HostError(TriageError):
    """The host cannot be reached, or refuses what was asked of it."""


class HostKeyError(HostError):
    """The host's key is unknown, changed or revoked; never accepted silently."""


class CommandTimeout(HostError):
    """A command on the host did not end in its time."""


class FileError(HostError):
    """A file on the host cannot be read or written. `path` names it."""

    def __init__(self, message: str, path: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.path = path


class FileMissing(FileError):
    """The file (or a folder on the way to it) does not exist."""


class ServiceError(TriageError):
    """The unit or command is missing, unreadable, or in a form that triage cannot patch."""


class NeverRun(ServiceError):
    """The service has not run yet: there is no log of it."""


class EngineError(TriageError):
    """The server's package cannot be found or read where the launch says it is."""


class PackageMissing(EngineError):
    """The launch's interpreter works and does not have the package. `python` names the interpreter."""

    def __init__(self, message: str, python: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.python = python


class CaptureError(TriageError):
    """A capture directory or file is damaged, incomplete or of an unknown schema."""


class PlanConflict(TriageError):
    """What a plan expected to find is not there any more (someone else edited it). `path` names it."""

    exit_code = 1

    def __init__(self, message: str, path: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.path = path


class LockedError(TriageError):
    """Another triage session works on the same service."""


class KnowledgeError(TriageError):
    """A file under knowledge/ does not follow its schema."""
