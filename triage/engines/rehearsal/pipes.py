"""What the supervisor reads from the processes that it started, whatever they write: bounded, and never waited for.

Runs on the host, in the launch's own interpreter: stdlib only, Python 3.8 and later.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

_MAX_ANSWER = 8_000_000  # bytes


class Judging:
    """A process that imports and forks, and the pipes to it."""

    def __init__(self, process: int, requests: int, replies: int, nonce: str) -> None:
        self.process = process
        self.requests = requests
        self.replies = Lines(replies, nonce)
        self.cuts = False  # a fork would break it

    def ask(self, text: str) -> bool:
        try:
            os.write(self.requests, text.encode() + b"\n")
        except OSError:
            return False
        return True

    def close(self) -> None:
        for number in (self.requests, self.replies.number):
            with contextlib.suppress(OSError):
                os.close(number)


class Lines:
    """Lines of JSON from a pipe that may hold anything; bounded. Those count that hold the batch's own `nonce`."""

    def __init__(self, number: int, nonce: str) -> None:
        os.set_blocking(number, False)
        self.nonce = nonce
        self.number = number
        self.data = b""
        self.ended = False
        self.found: list[dict[str, Any]] = []
        self.size = 0

    def read(self) -> None:
        while not self.ended:
            try:
                data = os.read(self.number, 1 << 18)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            self.size += len(data)
            self.ended = not data or self.size > _MAX_ANSWER
            *lines, self.data = (self.data + data).split(b"\n")
            for line in lines:
                with contextlib.suppress(ValueError):
                    value = json.loads(line)
                    if isinstance(value, dict) and value.pop("nonce", None) == self.nonce:
                        self.found.append(value)


class Output:
    """What a launch prints: the first and the last half of what is kept."""

    def __init__(self, number: int, limit: int) -> None:
        os.set_blocking(number, False)
        self.number = number
        self.half = max(limit // 2, 1)
        self.head, self.tail = b"", b""
        self.left_out = 0
        self.ended = False

    def read(self) -> None:
        for _ in range(64):
            try:
                data = os.read(self.number, 1 << 16)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.ended = True
                return
            room = self.half - len(self.head)
            self.head += data[:room] if room > 0 else b""
            self.tail += data[room:] if room > 0 else data
            if len(self.tail) > 2 * self.half:
                self._cut()

    def _cut(self) -> None:
        more = max(0, len(self.tail) - self.half)
        self.left_out += more
        self.tail = self.tail[more:]

    def text(self) -> str:
        self._cut()
        middle = b"\n[%d bytes left out]\n" % self.left_out if self.left_out else b""
        return (self.head + middle + self.tail).decode("utf-8", "surrogateescape")
