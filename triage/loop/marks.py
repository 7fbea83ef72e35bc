"""Reads a growing log for an engine's marks: how far a start has come, and whether it is over."""

from __future__ import annotations

from triage.protocols import EngineProfile

MAX_LINE = 16_384  # bytes of one line that are searched
MAX_KEPT = 32 * 1024 * 1024  # bytes of log kept for the observation, its end


class LogMarks:
    """Fed with chunks; remembers the phase, the fatal line and the readiness that the text has shown so far."""

    def __init__(self, profile: EngineProfile) -> None:
        self._phases = [(name, mark.encode()) for name, mark in profile.phases if mark]
        self._order = list(dict.fromkeys(name for name, _ in profile.phases)) or ["starting"]
        self._fatal = [m.encode() for m in profile.fatal_marks]
        self._ready = [m.encode() for m in profile.ready_marks]
        self._rest = b""
        self.phase = self._order[0]
        self.fatal: str | None = None
        self.ready = False
        self._kept = bytearray()

    @property
    def kept(self) -> bytes:
        """The end of the text so far, at most MAX_KEPT bytes."""
        return bytes(self._kept)

    def feed(self, data: bytes) -> None:
        """Search whole lines; what follows the last newline waits for the next chunk."""
        if not data:
            return
        self._kept += data
        del self._kept[: max(len(self._kept) - MAX_KEPT, 0)]
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            self._search(line[:MAX_LINE])
        # A line without end (a progress bar) must not grow without bound, and may hold a mark already.
        self._search(self._rest[:MAX_LINE])
        self._rest = self._rest[:MAX_LINE]

    def _search(self, line: bytes) -> None:
        for name, mark in self._phases:
            if mark in line and self._order.index(name) > self._order.index(self.phase):
                self.phase = name
        if self.fatal is None and any(mark in line for mark in self._fatal):
            self.fatal = "".join(c if c.isprintable() else "?" for c in line.decode("utf-8", "replace"))[:300].strip()
        self.ready = self.ready or any(mark in line for mark in self._ready)
