"""Which lines write settings in the real validation, and whether a setting's life names them.

python -m tests.oracle.writes --launches 300 --seed 3 0.5.11 0.5.23
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.oracle.launches import make_launches
from tests.oracle.places import FACTS, run_script
from tests.oracle.real import RELEASES, SHARED, Evaluators, facts_names, model_names, real_actions
from triage.analysis.flags import Options, read_flags
from triage.analysis.lives import Lives
from triage.knowledge import load_profile
from triage.model import LifeEvent, SettingLife

# Runs in the release's own interpreter. Each write is (field, [[file, line, function] of the frames that led to it,
# innermost first], the source that a declaration names).
TRACE = """
import importlib, json, os, sys
from pathlib import Path
from harness.__main__ import WARM, open_release
from harness.children import answer_all, make_folders
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
release = open_release(sys.argv[1], sys.argv[3])
package = os.path.dirname(release.root.rstrip("/"))
declares = json.loads(sys.argv[4])
module, _, name = sys.argv[5].rpartition(".")
cls, seen = getattr(importlib.import_module(module), name), []

def note(name, frame, source):
    frames = []
    while frame is not None and len(frames) < 6:
        path = frame.f_code.co_filename
        if path.startswith(release.root):
            frames.append([os.path.relpath(path, package), frame.f_lineno, frame.f_code.co_name])
        elif not frames:
            return
        frame = frame.f_back
    if frames:
        seen.append([name, frames, source])

plain = cls.__setattr__

def traced(self, name, value):
    if not name.startswith("_"):
        frame = sys._getframe(1)
        note(name, frame, str(frame.f_locals.get("source") or frame.f_locals.get("_source") or ""))
    plain(self, name, value)

cls.__setattr__ = traced

def wrap(function):
    def declared(server_args, source, **fields):
        for name in fields:
            note(name, sys._getframe(1), source)
        return function(server_args, source, **fields)
    return declared

for module in [m for n, m in list(sys.modules.items()) if n.startswith("sglang.")]:
    for name in declares:
        function = getattr(module, name, None)
        if function is not None and getattr(function, "__module__", "").startswith("sglang."):
            setattr(module, name, wrap(function))

def work(case):
    release.answer(case["argv"])
    return {"writes": seen}

cases = [{"argv": json.loads(line)} for line in sys.stdin]
with make_folders(Path(sys.argv[2]), 2) as folders:
    for case, answer in answer_all(cases, work, folders, warm=WARM):
        out.write(json.dumps(answer) + "\\n")
out.flush()
os._exit(0)
"""


@dataclass(frozen=True)
class RealWrite:
    """`frames` lead to the write, innermost first: (file, line, function)."""

    field: str
    frames: tuple[tuple[str, int, str], ...]
    source: str


def real_writes(release: str, facts: str, launches: Sequence[Sequence[str]], declares: Sequence[str]) -> Counter[RealWrite]:
    """The writes of the real validation over these launches, with how often each happened."""
    lines = "".join(json.dumps(list(argv)) + "\n" for argv in launches)
    args_class = load_profile("sglang").args_class
    text = run_script(release, TRACE, [str(FACTS / f"{facts}.json"), json.dumps(list(declares)), args_class], lines)
    out: Counter[RealWrite] = Counter()
    for line in text.splitlines():
        for name, frames, source in json.loads(line).get("writes") or ():
            out[RealWrite(name, tuple((f, n, fn) for f, n, fn in frames), source)] += 1
    return out


@dataclass
class Recall:
    """How many distinct (field, file:line) writes that were seen are in the life of the field."""

    named: int = 0  # a statement that writes this very field
    through: int = 0  # a statement that writes any field, and the one that chose the field for it
    vague: int = 0  # only a statement that writes any field
    missed: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)  # the vague ones

    @property
    def seen(self) -> int:
        return self.named + self.through + self.vague + len(self.missed)

    @property
    def share(self) -> float:
        """Of the writes seen, those whose own line is told: as a write of this field, or as one of any field."""
        return (self.seen - len(self.missed)) / self.seen if self.seen else 0.0

    @property
    def exact(self) -> float:
        """Of the writes seen, those for which the line that decides on this field is told."""
        return (self.named + self.through) / self.seen if self.seen else 0.0

    def add(self, life: SettingLife, write: RealWrite) -> None:
        first = write.frames[0]
        text = f"{write.field} {first[0]}:{first[1]} in {first[2]}, source {write.source!r}"
        if covers(life.writes, *first[:2]):
            self.named += 1
        elif not covers(life.any_field, *first[:2]):
            self.missed.append(text)
        elif any(covers(life.writes, *f[:2]) for f in write.frames[1:]) or any(decides(e, write.source) for e in life.writes):
            self.through += 1
        else:
            self.vague += 1
            self.undecided.append(text)

    def row(self) -> str:
        counts = f"{self.seen:7} {self.named:7} {self.through:8} {self.vague:6} {len(self.missed):7}"
        return f"{counts} {self.share:8.1%} {self.exact:8.1%}"


HEAD = f"{'writes':>7} {'named':>7} {'through':>8} {'vague':>6} {'missed':>7} {'line':>8} {'decider':>8}"


def covers(events: Iterable[LifeEvent], file: str, line: int) -> bool:
    return any(e.location.file == file and e.location.line <= line <= (e.location.end_line or e.location.line) for e in events)


def decides(event: LifeEvent, source: str) -> bool:
    """Whether an event stands in the function, or the constant, that a declaration names as its source."""
    return event.function == source or (event.function == "<module>" and "[" in source)


def recall(ours: Evaluators, options: Options, fields: Iterable[str], writes: Mapping[RealWrite, int]) -> Recall:
    """Over the writes of some fields; each (field, file:line, source) counts once."""
    told = Recall()
    wanted = set(fields)
    distinct = {(w.field, w.frames[0], w.source): w for w in writes if w.field in wanted}
    by_field: dict[str, list[RealWrite]] = {}
    for write in distinct.values():
        by_field.setdefault(write.field, []).append(write)
    lives = Lives(ours.tree, ours.profile, options)
    for name, mine in sorted(by_field.items()):
        life = lives.find(name)
        for write in mine:
            told.add(life, write)
    return told


def options_of(ours: Evaluators) -> Options:
    evaluator = ours.get("h100x8")
    evaluator.evaluate([])
    return read_flags(evaluator, ours.tree)


def labelled(release: str) -> dict[str, list[list[str]]]:
    """The launches of the labelled failures, by facts; of another release where there are none for this one."""
    path = SHARED / "cases" / f"{release}.jsonl"
    paths = [path] if path.is_file() else sorted(SHARED.glob("cases/*.jsonl"))
    out: dict[str, list[list[str]]] = {}
    for case in (json.loads(line) for p in paths for line in p.read_text().splitlines()):
        out.setdefault(case["facts"], []).append(case["argv"])
    return out


def gather(release: str, count: int, seed: int, hosts: Sequence[str], ours: Evaluators, cases: bool) -> Counter[RealWrite]:
    """Real writes over generated launches and, where wanted, the labelled ones."""
    made: dict[str, list[Any]] = labelled(release) if cases else {}
    for case in make_launches(real_actions(release), hosts, model_names(), count, seed):
        made.setdefault(case.facts, []).append(list(case.argv))
    out: Counter[RealWrite] = Counter()
    for facts, launches in sorted(made.items()):
        out.update(real_writes(release, facts, launches, ours.profile.declares))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.writes", description=__doc__)
    parser.add_argument("releases", nargs="*", default=list(RELEASES))
    parser.add_argument("--launches", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=0, help="print this many writes that no life names")
    parser.add_argument("--fields", type=int, default=0, help="only the fields with the most writing lines; 0: all")
    given = parser.parse_args()
    print(f"{'release':12} {'fields':>6} {HEAD}")
    for release in given.releases:
        ours = Evaluators(release)
        writes = gather(release, given.launches, given.seed, facts_names(), ours, cases=True)
        options = options_of(ours)
        places: dict[str, set[Any]] = {}
        for write in writes:
            if write.field in options.by_field:
                places.setdefault(write.field, set()).add(write.frames[0])
        fields = sorted(places, key=lambda name: (-len(places[name]), name))[: given.fields or None]
        started = time.perf_counter()
        told = recall(ours, options, fields, writes)
        spent = (time.perf_counter() - started) / max(1, len(fields))
        print(f"{release:12} {len(fields):6} {told.row()}   {spent:.2f} s for one field", flush=True)
        for line in (told.missed + told.undecided)[: given.show]:
            print(f"  {line}")


if __name__ == "__main__":
    main()
