"""This oracle beside another one that was written apart from it: python -m tests.oracle.both [--launches N] [RELEASE ...]

The other is `oracle/oracle.py` below TRIAGE_SHARED; it gets a folder of its own. Labelled failures, where a release has
them, come with the answers that it gave. Both get the same models.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.oracle.launches import make_launches
from tests.oracle.places import FACTS, MODELS, SHARED, python_of
from tests.oracle.real import Answer, Question, ask_all, facts_names, model_names, read_answer, real_actions

OTHER = SHARED / "oracle"
_KIMI = ("--model-path", "models/kimi-k2", "--trust-remote-code", "--speculative-algorithm", "EAGLE3")
_EAGLE = (*_KIMI, "--speculative-draft-model-path", "models/eagle3-llama", "--speculative-num-draft-tokens", "3")
_NEXT = ("--model-path", "models/qwen3-next", "--trust-remote-code", "--speculative-algorithm", "NEXTN")
FIVE: Mapping[str, tuple[str, ...]] = {
    "E1": (*_EAGLE, "--speculative-eagle-topk", "4"),
    "E2": _EAGLE,
    "E3": (*_EAGLE, "--speculative-num-steps", "1"),
    "N1": (*_NEXT, "--speculative-num-draft-tokens", "1"),
    "N2": (*_NEXT, "--speculative-num-draft-tokens", "1", "--mamba-scheduler-strategy", "extra_buffer"),
}


@dataclass(frozen=True)
class Case:
    name: str
    facts: str
    argv: tuple[str, ...]
    label: Answer | None = None  # what the other said; asked where None


@dataclass
class Agreement:
    """Of one release; `same` means outcome, exception, file, first and last line of the statement."""

    launches: int = 0
    failing: int = 0
    same: int = 0
    same_text: int = 0  # the message as well
    ours: float = 0.0  # seconds of wall time
    theirs: float = 0.0
    asked: int = 0  # of theirs
    wrong: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)  # the same but for the message

    def row(self) -> str:
        each = f"{self.ours / max(1, self.launches):.3f} s a launch, the other {self.theirs / max(1, self.asked):.3f} s"
        return f"{self.same}/{self.launches} the same ({self.failing} failing), {self.same_text} with equal messages; {each}"

    def add(self, name: str, ours: Answer, theirs: Answer) -> None:
        self.launches += 1
        self.failing += theirs.outcome != "ok"
        same = _place(ours) == _place(theirs)
        self.same += same
        self.same_text += same and ours.message == theirs.message
        if same and ours.message != theirs.message:
            self.texts.append(f"{name}: {ours.message!r}; the other {theirs.message!r}")
        if not same:
            self.wrong.append(
                f"{name}: {_place(ours)} {ours.message[:120]!r}; the other {_place(theirs)} {theirs.message[:120]!r}"
            )


def _place(answer: Answer) -> tuple[str, str | None, str | None, int, int]:
    return answer.outcome, answer.exception, answer.file, answer.first, answer.last


def read_other(answer: Mapping[str, Any]) -> Answer:
    """From an answer of the other oracle, or a labelled failure."""
    frame = answer.get("frame") or (answer if answer.get("file") else {})
    name = f"sglang/{frame['file']}" if frame else None
    span = (frame.get("statement_line") or 0, frame.get("statement_end_line") or 0)
    return Answer(answer["outcome"], answer.get("exception"), answer.get("message") or "", name, *span)


def ask_other(release: str, facts: str, questions: Sequence[Question]) -> list[Answer]:
    """The other oracle's answers, in a folder of its own: validation makes folders where it runs."""
    text = "".join(json.dumps(dict(q)) + "\n" for q in questions)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(MODELS, Path(folder) / "models")
        words = [str(python_of(release)), str(OTHER / "oracle.py"), "--facts", str(FACTS / f"{facts}.json"), "--batch"]
        words += ["--jobs", "2", "--omit", "resolved,frames,log_warnings"]
        ran = subprocess.run(words, input=text, cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    answers = [read_other(json.loads(line)) for line in ran.stdout.splitlines()]
    assert len(answers) == len(questions)
    return answers


def labelled_cases(release: str) -> list[Case]:
    """() where a release has none."""
    path = SHARED / "cases" / f"{release}.jsonl"
    lines = path.read_text().splitlines() if path.is_file() else []
    return [Case(c["id"], c["facts"], tuple(c["argv"]), read_other(c)) for c in map(json.loads, lines)]


def five_cases() -> list[Case]:
    return [Case(name, "h100x8", argv) for name, argv in FIVE.items()]


def generated_cases(release: str, count: int, seed: int) -> list[Case]:
    made = make_launches(real_actions(release), facts_names(), model_names(), count, seed)
    return [Case(c.name, c.facts, c.argv) for c in made]


def compare(release: str, cases: Sequence[Case]) -> Agreement:
    """Ask this oracle about every case, and the other about those without a label."""
    out = Agreement()
    for facts in sorted({c.facts for c in cases}):
        mine = [c for c in cases if c.facts == facts]
        questions = [{"argv": list(c.argv)} for c in mine]
        started = time.perf_counter()
        ours = [read_answer(a) for a in ask_all(release, facts, questions, ("settings", "frames", "records"))]
        out.ours += time.perf_counter() - started
        open_ = [q for q, c in zip(questions, mine, strict=True) if c.label is None]
        started = time.perf_counter()
        theirs = iter(ask_other(release, facts, open_) if open_ else ())
        out.theirs += time.perf_counter() - started
        out.asked += len(open_)
        for case, answer in zip(mine, ours, strict=True):
            out.add(case.name, answer, case.label or next(theirs))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.both", description=__doc__)
    parser.add_argument("releases", nargs="*", default=["0.5.5", "0.5.16"])
    parser.add_argument("--launches", type=int, default=0, help="generated ones in place of the labelled failures")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=5, help="print this many disagreements")
    given = parser.parse_args()
    if not (OTHER / "oracle.py").is_file():
        raise SystemExit(f"not here: no other oracle in {OTHER} (set TRIAGE_SHARED)")
    for release in given.releases:
        made = generated_cases(release, given.launches, given.seed) if given.launches else labelled_cases(release)
        found = compare(release, [*five_cases(), *made])
        print(f"{release:12} {found.row()}", flush=True)
        for line in [*found.wrong, *found.texts][: given.show]:
            print(f"  {line}")


if __name__ == "__main__":
    main()
