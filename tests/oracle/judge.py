"""What the evaluator says against what the real code does."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.oracle.real import Answer
from triage.analysis.evaluate import Evaluation


@dataclass
class Tally:
    """Counts of one release. A disagreement is kept with what both said."""

    launches: int = 0
    fails_right: int = 0
    fails_wrong: int = 0
    passes_right: int = 0
    passes_wrong: int = 0
    really_fail: int = 0
    refused: int = 0  # of those that fail: by the parser
    unknown: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, name: str, said: Evaluation, real: Answer) -> None:
        if real.outcome in ("timeout", "crash"):
            return
        self.launches += 1
        self.really_fail += real.outcome != "ok"
        self.refused += real.outcome == "argparse"
        right = agrees(said, real)
        if said.verdict == "unknown":
            possible = "; ".join(f"{p.exception} at {p.site_text} if {p.depends[:200]}" for p in said.possible[:3])
            assumed = "only the traceback shows that it fails" if said.raised is not None and said.raised.assumed else ""
            self.unknown.append(f"{name}: unknown ({said.why} {possible}{assumed}); really {_real(real)}")
        elif said.verdict == "fails":
            self.fails_right += right
            self.fails_wrong += not right
        else:
            self.passes_right += right
            self.passes_wrong += not right
        if said.verdict != "unknown" and not right:
            self.wrong.append(f"{name}: {_said(said)}; really {_real(real)}")

    @property
    def fails(self) -> float:
        said = self.fails_right + self.fails_wrong
        return self.fails_right / said if said else 1.0

    @property
    def passes(self) -> float:
        said = self.passes_right + self.passes_wrong
        return self.passes_right / said if said else 1.0

    @property
    def commits(self) -> float:
        return 1 - len(self.unknown) / max(1, self.launches)

    @property
    def right(self) -> float:
        """Of all that it commits itself on."""
        said = self.launches - len(self.unknown)
        return (self.fails_right + self.passes_right) / said if said else 1.0

    def row(self) -> str:
        sure = f"{self.fails_right}/{self.fails_right + self.fails_wrong}"
        good = f"{self.passes_right}/{self.passes_right + self.passes_wrong}"
        rates = f"{sure:>11} {self.fails:7.1%} {good:>11} {self.passes:7.1%} {self.commits:8.1%}"
        return f"{self.launches:8} {self.really_fail:8} {rates}"


HEAD = "launches  failing  says fails   right says passes   right  commits"


def agrees(said: Evaluation, real: Answer) -> bool:
    """Whether a sure verdict is what the real code does, at the statement where it does it."""
    if said.verdict == "passes":
        return real.outcome == "ok"
    raised = said.raised
    if raised is None or real.outcome == "ok":
        return False
    if real.outcome == "argparse" or (real.exception == "SystemExit" and real.file is None):
        return raised.exception == "SystemExit"
    site = raised.site
    return site is not None and site.file == real.file and real.first <= site.line <= real.last


def _said(said: Evaluation) -> str:
    if said.raised is None:
        return "passes"
    return f"fails with {said.raised.exception}: {(said.raised.message or '')[:160]!r} at {said.raised.site_text}"


def _real(real: Answer) -> str:
    where = f"{real.file}:{real.first}"
    return "ok" if real.outcome == "ok" else f"{real.outcome} {real.exception}: {real.message[:160]!r} at {where}"
