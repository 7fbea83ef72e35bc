"""What the tests of the command line share: whole processes, their streams, and a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TRIAGE = (sys.executable, "-m", "triage.cli")


def run_triage(
    *words: str, stdin: bytes = b"", env: dict[str, str] | None = None, cwd: Path = ROOT
) -> subprocess.CompletedProcess[bytes]:
    full = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}", **(env or {})}
    return subprocess.run([*TRIAGE, *words], input=stdin, capture_output=True, env=full, cwd=cwd, timeout=120)


def check_one_line(done: subprocess.CompletedProcess[bytes], code: int = 2) -> str:
    """A clear refusal: nothing on stdout, one message (and at most one hint) after the progress on stderr, no traceback."""
    text = done.stderr.decode()
    assert (done.returncode, done.stdout) == (code, b""), text
    lines = text.splitlines()
    at = next((i for i, line in enumerate(lines) if line.startswith("triage: ")), len(lines))
    assert at in (len(lines) - 1, len(lines) - 2), text
    assert "Traceback" not in text
    return text


def run_on_terminal(program: str, env: dict[str, str], answer: bytes = b"") -> bytes:
    """What the program writes when all its streams are a terminal."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdin=follower, stdout=follower, stderr=follower, env={**os.environ, **env}
    )
    os.close(follower)
    seen = bytearray()

    def read() -> None:
        while True:
            try:
                data = os.read(leader, 65536)
            except OSError:
                return
            if not data:
                return
            seen.extend(data)

    reader = threading.Thread(target=read)
    reader.start()
    if answer:
        os.write(leader, answer)
    assert process.wait(60) == 0, bytes(seen)
    reader.join(10)
    os.close(leader)
    return bytes(seen)
