"""Commands for a host, and plans that change one."""

from __future__ import annotations

from dataclasses import dataclass, field

from triage.model.base import MASK


@dataclass(frozen=True)
class Secret:
    """Text that must not be shown; only a host asks for `reveal()`."""

    _value: str = field(repr=False)

    def reveal(self) -> str:
        return self._value

    def __str__(self) -> str:
        return MASK


@dataclass(frozen=True)
class Command:
    """An argv for a host; quoting and masking happen in the host. `timeout` is in seconds."""

    argv: tuple[str | Secret, ...]
    stdin: bytes = b""
    timeout: float = 30.0
    root: bool = False  # needs root: the host uses sudo where the login is not root
    max_output: int = 64 * 1024 * 1024  # bytes kept of each stream

    def __str__(self) -> str:
        return " ".join(str(a) for a in self.argv)


@dataclass(frozen=True)
class CommandResult:
    status: int
    stdout: bytes
    stderr: bytes


@dataclass(frozen=True)
class WriteFile:
    """Write `data` atomically at `path`. `expect` is the sha256 (hex) of what must stand there before; None: nothing."""

    path: str
    data: bytes = field(repr=False)
    mode: int = 0o644
    expect: str | None = None
    as_root: bool = False  # pass `root=True` to the host


@dataclass(frozen=True)
class RemoveFile:
    """Remove `path` (and the folder `and_folder` if it is then empty). `expect` as in WriteFile."""

    path: str
    expect: str | None = None
    and_folder: str | None = None
    as_root: bool = False


@dataclass(frozen=True)
class RunCommand:
    """Run a command that changes the host; a non-zero status fails the plan."""

    command: Command


Step = WriteFile | RemoveFile | RunCommand


@dataclass(frozen=True)
class Plan:
    """The exact steps of a change and, in the order to run them, the steps that undo it."""

    what: str
    steps: tuple[Step, ...]
    undo: tuple[Step, ...]
    diff: str = ""  # unified diff of the launch for a person, masked
