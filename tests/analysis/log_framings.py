"""Ways in which the lines of one log reach a file: each takes the lines of a plain log and gives those of the framed one.

Every framing here keeps one line for one line, so raw line numbers can be compared.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
LOGS = REPO / "fixtures" / "logs"
Wrap = Callable[[list[str]], list[str]]


def each(form: str) -> Wrap:
    """Every line put into `form` at {}; {s} is a clock's seconds."""
    return lambda lines: [form.replace("{}", line).replace("{s}", f"{i // 7 % 60:02d}") for i, line in enumerate(lines)]


def stripped(wrap: Wrap) -> Wrap:
    """As journald keeps them: without white space at the end."""
    return lambda lines: [line.rstrip() for line in wrap(lines)]


FRAMINGS: dict[str, Wrap] = {
    "plain": each("{}"),
    "crlf": each("{}\r"),
    "journal-short": stripped(each("May 11 23:23:{s} gpu-01 python[4711]: {}")),
    "journal-short-german": each("Mai 11 23:23:{s} gpu-01 sglang-start.sh[4711]: {}"),
    "journal-short-precise": each("May 11 23:23:{s}.123456 gpu-01 python[4711]: {}"),
    "journal-short-iso": each("2026-05-11T23:23:{s}+0200 gpu-01 python[4711]: {}"),
    "journal-short-full": each("Mon 2026-05-11 23:23:{s} UTC gpu-01 python[4711]: {}"),
    "journal-with-unit": each("Mon 2026-05-11 23:23:{s} CEST gpu-01 sglang.service[4711]: {}"),
    "journal-short-unix": each("1778541812.{s}3456 gpu-01 python[4711]: {}"),
    "journal-monotonic": each("[ 1234.{s}7890] gpu-01 python[4711]: {}"),
    "journal-no-hostname": stripped(each("May 11 23:23:{s} python[4711]: {}")),
    "torchrun-tee": each("[default0]:{}"),
    "mpirun": each("[1,0]<stderr>:{}"),
    "compose": each("sglang-1  | {}"),
    "compose-colour": each("\x1b[36msglang-1  | \x1b[0m{}"),
    "kubectl-prefix": each("[pod/sglang-0/server] {}"),
    "kubectl-timestamps": stripped(each("2026-05-11T23:23:{s}.123456789Z {}")),
    "cri": each("2026-05-11T23:23:{s}.123456789Z stderr F {}"),
    "collector": each("[2026-05-11T23:23:{s}.503Z] {}"),
    "ray": each("(SGLangEngine pid=616, ip=10.0.0.7) {}"),
    "ray-colour": each("\x1b[36m(SGLangEngine pid=616)\x1b[0m {}"),
    "slurm": each("0: {}"),
    "wrapper-logging": stripped(each("2026-05-11 23:23:10,531 - __main__ - INFO - {}")),
    "wrapper-loguru": each("2026-05-11 23:23:10.531 | INFO     | runner:pump:88 - {}"),
    "compose-of-journal": each("host-1 | May 11 23:23:{s} gpu-01 python[4711]: {}"),
    "coloured": each("\x1b[31m{}\x1b[0m\x1b]0;title\x07"),
    "hidden": each("\u202e{}\u200b\x00"),
    "progress": lambda lines: [f"\r  5%|#         | 1/20\r{line}" if line else line for line in lines],
}


def frame(text: str, name: str) -> bytes:
    """The plain log `text` in the framing `name`."""
    return ("\n".join(FRAMINGS[name](text.rstrip("\n").split("\n"))) + "\n").encode()


def shared_dir() -> Path:
    """The folder of cases and real releases beside the checkout; skips the test where it is absent."""
    path = Path(os.environ.get("TRIAGE_SHARED", REPO.parent / "shared"))
    if not (path / "cases").is_dir():
        pytest.skip(f"no cases at {path}; set TRIAGE_SHARED to the folder that holds cases/ and oracle/")
    return path
