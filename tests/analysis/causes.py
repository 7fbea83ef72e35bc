"""What the diagnosis says of the labelled logs by themselves, against the labels: `python -m tests.analysis.causes`.

A bare log is given: neither source nor launch nor how the process ended. A cause is right where the entry of knowledge/ that
the diagnosis rests on is one that a person found to mean the label's cause.
"""

from __future__ import annotations

import tomllib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from triage.analysis.diagnose import diagnose
from triage.knowledge import load_profile
from triage.model import CaptureMeta, Diagnosis, Facts
from triage.protocols import Capture

LOGS = Path(__file__).resolve().parents[2] / "fixtures" / "logs"
META = CaptureMeta("log", "log", "log", "sglang", None, None, None, None)


@dataclass(frozen=True)
class Judged:
    name: str
    category: str  # of the label
    said: str  # the category of the diagnosis
    wanted: tuple[str, ...]
    entry: str | None  # that the diagnosis rests on

    @property
    def right_category(self) -> bool:
        return self.said == self.category

    @property
    def right(self) -> bool:
        return self.right_category and self.entry in self.wanted

    @property
    def first_half(self) -> bool:
        return zlib.crc32(self.name.encode()) % 2 == 0


def diagnose_log(path: Path) -> Diagnosis:
    return diagnose(Capture(META, None, Facts(), path.read_bytes(), None), load_profile("sglang"))


def entry_of(diagnosis: Diagnosis) -> str | None:
    evidence = diagnosis.cause.evidence if diagnosis.cause is not None else ()
    return next((e.knowledge_id for e in evidence if e.kind == "knowledge"), None)


def judge_log(path: Path) -> Judged:
    label = tomllib.loads(path.with_suffix(".toml").read_text(encoding="utf-8"))
    diagnosis = diagnose_log(path)
    said = diagnosis.cause.category if diagnosis.cause is not None else "none"
    return Judged(path.stem, label["category"], said, tuple(label.get("signature", ())), entry_of(diagnosis))


@cache
def judge_failures() -> tuple[Judged, ...]:
    return tuple(judge_log(path) for path in sorted((LOGS / "failures").glob("*.txt")))


@cache
def alarmed() -> tuple[str, ...]:
    """The healthy logs for which a failure is reported."""
    found = [(path.stem, diagnose_log(path).failure) for path in sorted((LOGS / "healthy").glob("*.txt"))]
    return tuple(name for name, failure in found if failure is not None)


def describe_share(name: str, judged: Sequence[Judged]) -> str:
    both, category = sum(j.right for j in judged), sum(j.right_category for j in judged)
    return (
        f"{name}: category {category}/{len(judged)}, category and cause {both}/{len(judged)} ({100 * both / len(judged):.1f} %)"
    )


def main() -> None:
    judged = judge_failures()
    for one in judged:
        if not one.right:
            print(f"  {one.name}: {one.category} {list(one.wanted)}, said {one.said} {one.entry}")
    print(describe_share("failures", judged))
    print(describe_share("  first half, by which the entries were written", [j for j in judged if j.first_half]))
    print(describe_share("  second half", [j for j in judged if not j.first_half]))
    healthy = len(list((LOGS / "healthy").glob("*.txt")))
    print(f"healthy: {len(alarmed())} of {healthy} with a failure reported {list(alarmed())}")


if __name__ == "__main__":
    main()
