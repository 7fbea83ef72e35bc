"""Repairs of a failing launch found by asking the real validation alone: no candidate, price or order of ours is used.

The domain of one edit: a typed flag goes, or takes each of its choices, plain numbers or neighbours of what was typed; a flag
of the parser is added with each of its choices, plain numbers, its default or as a switch. Two edits: one that changes the
failure, with one whose flag shares a word with the failure that then shows, or is typed. Flags that share words with the
failing statement, its callers or its message come first.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.oracle.launches import Action
from tests.oracle.places import FACTS, MODELS, engine_names, python_of, run_environment
from triage.argv import edit_args, find_flag, is_flag
from triage.model import Edit

CAP = 1200  # launches asked about for one failing launch
_BATCH = 40
_SINGLES = 0.6  # of them for one edit
_PROGRESS = 12  # first edits that change the failure, each followed by second ones
_NUMBERS = (1, 2, 4, 8, 16, 64, 256, 1024)
_SHARES = (0.1, 0.5, 0.8, 0.9, 1.0)
_MAX_CHOICES = 40
_COMMON = frozenset({"enable", "disable", "size", "num", "max", "min", "path", "args", "server", "self", "use", "must", "set"})
_SHORT = frozenset({"the", "and", "for", "not", "with", "that", "this", "from", "get"})
_NEVER = ("help", "version", "config", "model_path")
_GROUP = 20  # launches that one process screens
_SCRIPT = """
import json, os, sys
from pathlib import Path
from harness.__main__ import WARM, open_release
from harness.children import answer_all, make_folders
from harness.release import finish
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

def work(case):
    told, before, folder = [], dict(os.environ), os.getcwd()
    for argv in case["group"]:
        told.append(release.answer(argv))
        if len(case["group"]) > 1:
            del told[-1]["records"], told[-1]["settings"]
            if dict(os.environ) != before:
                os.environ.clear()
                os.environ.update(before)
            os.chdir(folder)
    return {"told": told}

with make_folders(Path(sys.argv[2]), int(sys.argv[4])) as folders:
    release = open_release(sys.argv[1], sys.argv[3])
    warm, batches = (f"{release.names.package}.", *WARM), 0
    for line in sys.stdin:
        batches += 1
        told = []
        for case, answer in answer_all(json.loads(line), work, folders, 60.0, warm if batches <= 3 else ()):
            told.append([finish(a, release.root) for a in answer["told"]] if "told" in answer else [answer])
        print(json.dumps(told), file=out, flush=True)
out.flush()
os._exit(0)
"""


class Asker:
    """A release on one host that stays in memory; answers are those of the harness. Used in a `with`."""

    def __init__(self, release: str, facts: str, jobs: int = 1) -> None:
        words = [str(python_of(release)), "-c", _SCRIPT, engine_names(), str(MODELS), str(FACTS / f"{facts}.json"), str(jobs)]
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=Path(MODELS).parent,
            env=run_environment(),
            text=True,
        )

    def __enter__(self) -> Asker:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    def ask(self, questions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Each launch ({"argv": words, "env": variables}) in a process of its own, in the order of the questions."""
        told = self._send([{"group": [q["argv"]], "env": q.get("env") or {}} for q in questions])
        return [answers[0] for answers in told]

    def screen(self, launches: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        """As `ask`, several launches in one process: what they leave behind there may change the answers, so those that pass
        are asked again, alone. Failures come without settings."""
        groups = [launches[at : at + _GROUP] for at in range(0, len(launches), _GROUP)]
        told = self._send([{"group": [list(argv) for argv in group]} for group in groups])
        answers: list[dict[str, Any]] = []
        for group, some in zip(groups, told, strict=True):
            answers += some if len(some) == len(group) else [{"outcome": "ok"}] * len(group)
        again = [n for n, answer in enumerate(answers) if answer["outcome"] == "ok"]
        for n, answer in zip(again, self.ask([{"argv": list(launches[n])} for n in again]), strict=True):
            answers[n] = answer
        return answers

    def _send(self, cases: Sequence[Mapping[str, Any]]) -> list[list[dict[str, Any]]]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if not cases:
            return []
        self.process.stdin.write(json.dumps(cases) + "\n")
        self.process.stdin.flush()
        told: list[list[dict[str, Any]]] = json.loads(self.process.stdout.readline())
        return told


# ---------------------------------------------------------------- what was typed
class Parser:
    """Typed values by the real parser's own flags."""

    def __init__(self, actions: Sequence[Action], field_of: Mapping[str, str]) -> None:
        """`field_of`: dest -> field of the args object where they differ."""
        self.field_of = field_of
        self.usable = [a for a in actions if a["flags"] and a["dest"] not in _NEVER]
        self.by_name = {f: a for a in actions for f in a["flags"]}

    def find(self, word: str) -> Action | None:
        if word in self.by_name:
            return self.by_name[word]
        begun = {a["dest"]: a for n, a in self.by_name.items() if word.startswith("--") and n.startswith(word)}
        return next(iter(begun.values())) if len(begun) == 1 else None

    def typed(self, argv: Sequence[str]) -> dict[str, Action]:
        """Spelling -> flag, of all that are known."""
        found = {w.partition("=")[0]: self.find(w.partition("=")[0]) for w in argv if is_flag(w)}
        return {name: action for name, action in found.items() if action is not None}

    def asked(self, argv: Sequence[str]) -> dict[str, Any]:
        """Field -> the value that was typed, of those with a plain type."""
        out: dict[str, Any] = {}
        for name, action in self.typed(argv).items():
            first, end = find_flag(argv, name)[-1]
            words = [argv[first].partition("=")[2]] if argv[first] != name else list(argv[first + 1 : end])
            key = self.field_of.get(action["dest"], action["dest"])
            if action["nargs"] == 0:
                if action["kind"] in ("_StoreTrueAction", "_StoreFalseAction", "_StoreConstAction"):
                    out[key] = action["const"]
                continue
            made = [_convert(w, action["type"]) for w in words]
            if made and all(m is not None for m in made) and action["kind"] == "_StoreAction":
                out[key] = made if action["nargs"] in ("*", "+") or isinstance(action["nargs"], int) else made[0]
        return out


def _convert(word: str, kind: str | None) -> Any:
    try:
        return int(word) if kind == "int" else float(word) if kind == "float" else word if kind in (None, "str") else None
    except ValueError:
        return None


def lost_values(asked: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """Fields whose typed value is not what the real validation ends with; another form of the same value is kept."""
    out = []
    for name, value in asked.items():
        if name not in settings or settings[name] == value:
            continue
        used = settings[name]
        if isinstance(value, list) and isinstance(used, list) and len(used) <= len(value) and all(u in value for u in used):
            continue
        if isinstance(value, str) and not isinstance(used, (str, int, float, type(None))):
            continue
        out.append(name)
    return sorted(out)


def is_renamed(first: Edit, second: Edit) -> bool:
    """Whether two edits are one change: a flag goes and comes back under another name with its value."""
    return first.action == "remove" and second.action == "add" and first.old == second.new


def takes_away(edits: Sequence[Edit]) -> bool:
    """Whether a typed flag goes for good."""
    after = [*edits[1:], Edit("env", "")]
    return any(e.action == "remove" and not is_renamed(e, then) for e, then in zip(edits, after, strict=True))


# ---------------------------------------------------------------- the domain
def single_edits(parser: Parser, argv: Sequence[str], words: frozenset[str]) -> Iterator[tuple[float, Edit]]:
    """Every edit of the domain with its rank: by what its flag shares with the words of the failure, the typed ones before."""
    typed = parser.typed(argv)
    for name in (w.partition("=")[0] for w in argv if is_flag(w)):
        if typed.get(name, {"dest": ""})["dest"] != "model_path":
            yield 1.0, Edit("remove", name, _old(argv, name), None)
    for name, action in typed.items():
        if action["dest"] not in _NEVER and action["nargs"] != 0:
            for place, text in enumerate(values_of(action, _old(argv, name))):
                yield 1.0 + 0.05 * place, Edit("set", name, _old(argv, name), text)
    present = {a["dest"] for a in typed.values()}
    for action in parser.usable:
        if action["dest"] in present:
            continue
        shared = _words(action["dest"]) & words
        rank = 0.5 if action["dest"] in words else 2.0 - 0.2 * len(shared) if shared else 9.0
        flag = max(action["flags"], key=len)
        if action["nargs"] == 0:
            yield rank, Edit("add", flag, None, None)
        else:
            for place, text in enumerate(values_of(action, None)):
                yield rank + 0.05 * place, Edit("add", flag, None, text)


def values_of(action: Action, old: str | None) -> list[str]:
    """Choices, plain numbers, neighbours of what is typed, the default."""
    default = action["default"]
    whole = isinstance(default, int) and not isinstance(default, bool)
    if action["choices"]:
        out = [str(c) for c in action["choices"]][:_MAX_CHOICES]
    elif action["type"] == "int" or whole:
        near = [int(t) for t in (old, str(default)) if t is not None and re.fullmatch(r"-?\d{1,9}", str(t))]
        around = [n for b in near for n in (b, b + 1, b - 1, b * 2, b // 2)]
        out = [str(n) for n in [*_NUMBERS, *around] if n > 0 or n == default]
    elif action["type"] == "float" or isinstance(default, float):
        out = [str(n) for n in ([default] if default is not None else []) + list(_SHARES)]
    else:
        out = [str(default)] if isinstance(default, str) else []  # what a text could be nobody knows
        out += [] if action["type"] in (None, "str") else ["{}"]
    return [t for t in dict.fromkeys(out) if t != old]


def failure_words(answer: Mapping[str, Any]) -> frozenset[str]:
    """Names and their parts in the failing statement, in the lines that called it, and in the message."""
    frame = answer.get("frame") or {}
    texts = [frame.get("text") or "", frame.get("function") or "", answer.get("message") or ""]
    texts += [f.get("source") or "" for f in answer.get("frames") or () if f.get("inside")]
    texts += [f.get("function") or "" for f in answer.get("frames") or () if f.get("inside")]
    names = {n.lower().replace("-", "_").strip("_") for t in texts for n in re.findall(r"[A-Za-z][\w-]{2,}", t)}
    return frozenset(names | {w for n in names for w in _words(n)})


def _words(name: str) -> frozenset[str]:
    return frozenset(w for w in name.lower().replace("-", "_").split("_") if len(w) > 2 and w not in _COMMON | _SHORT)


def _old(argv: Sequence[str], name: str) -> str | None:
    first, end = find_flag(argv, name)[-1]
    if argv[first] != name:
        return argv[first].partition("=")[2]
    return " ".join(argv[first + 1 : end]) if end > first + 1 else None


# ---------------------------------------------------------------- the search
@dataclass
class Found:
    """Edits of the first repair of each kind, None where there is none within the cap; `ended`: the domain was asked whole."""

    asked: int = 0
    ended: bool = False
    repair: tuple[Edit, ...] | None = None
    nothing_removed: tuple[Edit, ...] | None = None
    all_kept: tuple[Edit, ...] | None = None
    lost: list[str] = field(default_factory=list)

    def has(self, wanted: frozenset[str]) -> bool:
        return all(getattr(self, kind) is not None for kind in wanted)


def repair(
    asker: Asker, parser: Parser, argv: Sequence[str], failed: Mapping[str, Any], wanted: frozenset[str], cap: int = CAP
) -> Found:
    """Within two edits, until each wanted kind (names of Found) is found or `cap` launches were asked about."""
    found = Found()
    asked = parser.asked(argv)
    place = _place(failed)
    progress: list[tuple[Edit, dict[str, Any]]] = []
    singles = [e for _rank, e in sorted(single_edits(parser, argv, failure_words(failed)), key=lambda pair: pair[0])]

    def look(groups: Sequence[tuple[Edit, ...]]) -> None:
        launches = [(g, edit_args(argv, g)) for g in groups]
        answers = asker.screen([words for _group, words in launches])
        found.asked += len(answers)
        for (group, _argv), answer in zip(launches, answers, strict=True):
            if answer["outcome"] != "ok":
                if len(group) == 1 and answer["outcome"] in ("exception", "argparse") and _place(answer) != place:
                    progress.append((group[0], answer))
                continue
            found.repair = found.repair or group
            if all(e.action != "remove" for e in group):
                found.nothing_removed = found.nothing_removed or group
            if not lost_values(asked, answer["settings"] or {}):
                found.all_kept = found.all_kept or group

    def walk(groups: Sequence[tuple[Edit, ...]], bound: float) -> bool:
        for at in range(0, len(groups), _BATCH):
            if found.has(wanted):
                return False
            if found.asked >= bound:
                return at == len(groups)
            look(groups[at : at + _BATCH])
        return True

    ended = walk([(e,) for e in singles], _SINGLES * cap)
    kinds: set[tuple[str, str]] = set()
    for first, answer in progress:
        if len(kinds) >= _PROGRESS or found.has(wanted) or found.asked >= cap:
            break
        if (first.name, str(_place(answer))) in kinds:
            continue
        kinds.add((first.name, str(_place(answer))))
        words = failure_words(answer) | failure_words(failed)
        second = sorted(single_edits(parser, argv, words), key=lambda pair: pair[0])
        ended = walk([(first, e) for rank, e in second if rank < 3 and e.name != first.name], cap) and ended
    found.ended = ended and len(kinds) < _PROGRESS
    return found


def _place(answer: Mapping[str, Any]) -> tuple[Any, ...]:
    frame = answer.get("frame") or {}
    return (
        answer.get("outcome"),
        answer.get("exception"),
        frame.get("file"),
        frame.get("first"),
        (answer.get("message") or "")[:60],
    )
