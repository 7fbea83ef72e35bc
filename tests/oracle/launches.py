"""Launches to compare on: bases over every model, mutated by flags of the real parser with plausible and absurd values.

Nothing here knows a flag: names, kinds and choices come from the parser's own actions; flags are taken together by the
first word of their names, because what belongs together tends to be named alike. Each flag is drawn once before any is
drawn twice. Spellings are those that argparse knows: abbreviations (ambiguous ones too), `--flag=value`, repeated flags,
lists, negative numbers as words of their own, underscores, a YAML file under the command line.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Action = dict[str, Any]

_INTEGERS = [1, 1, 2, 2, 3, 4, 4, 5, 8, 8, 16, 32, 64, 128, 256, 1024, 4096, 8192, 0, 0, -1, 7, 100000]
_FLOATS = [0.1, 0.5, 0.8, 0.9, 0.95, 1.0, 1.5, 0.0, -0.5, 2, 30]
_TEXTS = [
    "auto",
    "none",
    "default",
    "x",
    "",
    "1",
    "0,1",
    "a,b",
    "{}",
    '{"a": 1}',
    "[1, 2]",
    "/nowhere",
    "localhost:5000",
    "127.0.0.1",
    "1:2",
    "tcp://127.0.0.1:7000",
    "bfloat16",
    "true",
    "two words",
    " x ",
]
_ENV_VALUES = ["1", "1", "0", "true", "false", "", "4", "auto", "x"]
ENVIRONMENTS = 6  # of a set of launches, beside the empty one


@dataclass(frozen=True)
class Case:
    """One launch on a host of the oracle; `env` is set before the package is imported."""

    facts: str
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    texts: tuple[tuple[str, str], ...] = ()  # files that the launch names: path, content
    kinds: frozenset[str] = field(default=frozenset(), compare=False)  # what of argparse it makes use of

    @property
    def name(self) -> str:
        words = [f"{k}={v}" for k, v in self.env] + [self.facts]
        words += [repr(w) if " " in w or not w else w for w in self.argv]
        return " ".join([*words, *(f"<{text!r}>" for _path, text in self.texts)])


def make_launches(
    actions: Sequence[Action],
    facts: Sequence[str],
    models: Sequence[str],
    count: int,
    seed: int,
    variables: Sequence[str] = (),
    folder: Path | None = None,
) -> list[Case]:
    """`count` launches; the same seed gives the same ones. Half of them are on the first facts that name eight GPUs.

    `variables` are names of environment variables that the release reads; files go to `folder` (none without it).
    """
    rng = random.Random(seed)
    usable = [a for a in actions if a["flags"] and a["dest"] not in ("help", "version", "model_path", "config")]
    groups: dict[str, list[Action]] = {}
    for action in usable:
        for word in set(action["dest"].split("_")):
            groups.setdefault(word, []).append(action)
    shared = sorted(k for k, v in groups.items() if 2 <= len(v) <= 40)
    names = [f for a in actions for f in a["flags"] if f.startswith("--")]
    environments = _environments(rng, variables)
    config = any("--config" in a["flags"] for a in actions) and folder is not None
    deck: list[Action] = []
    out: list[Case] = []
    while len(out) < count:
        chosen: list[Action] = []
        for _ in range(rng.choice((0, 0, 1, 1, 2))):
            group = groups[rng.choice(shared)]
            chosen += rng.sample(group, min(len(group), rng.choice((1, 2, 3))))
        for _ in range(rng.choice((0, 1, 1, 2, 3))):
            if not deck:
                deck = rng.sample(usable, len(usable))
            chosen.append(deck.pop())
        maker = _Maker(rng, models, names)
        parts = [maker.words(a) for a in chosen]
        if chosen and rng.random() < 0.06:
            parts.append(maker.words(rng.choice(chosen), "repeated"))
        texts: tuple[tuple[str, str], ...] = ()
        if config and folder is not None and rng.random() < 0.05:
            path, text = folder / f"launch-{len(out)}.{rng.choice(('yaml', 'yaml', 'yml', 'txt'))}", maker.yaml(actions)
            path.write_text(text)
            texts = ((str(path), text),)
            parts.append(["--config", str(path)])
        parts.append(["--model-path", rng.choice(models)])
        if rng.random() < 0.7:
            parts = [parts[-1], *parts[:-1]]
        argv = [word for part in parts for word in part]
        argv = maker.damage(argv) if rng.random() < 0.015 else argv
        where = rng.choice(facts) if rng.random() < 0.7 else "h100x8"
        env: tuple[tuple[str, str], ...] = ()
        if environments and rng.random() < 0.1:
            where, env = rng.choice(environments)
            maker.kinds.add("environment")
        out.append(Case(where if where in facts else facts[0], tuple(argv), env, texts, frozenset(maker.kinds)))
    return out


def make_argument_lists(
    actions: Sequence[Action], models: Sequence[str], count: int, seed: int, folder: Path
) -> list[tuple[tuple[str, ...], dict[str, str], frozenset[str]]]:
    """Lists that try the parser, not validation: (words, texts of the files that they name, what they make use of)."""
    rng = random.Random(seed)
    usable = [a for a in actions if a["flags"] and a["dest"] not in ("help", "version", "config")]
    names = [f for a in actions for f in a["flags"] if f.startswith("--")]
    config = any("--config" in a["flags"] for a in actions)
    deck: list[Action] = []
    out = []
    while len(out) < count:
        maker = _Maker(rng, models, names, often=4.0)
        chosen = []
        for _ in range(rng.choice((1, 2, 3, 4))):
            deck = deck or rng.sample(usable, len(usable))
            chosen.append(deck.pop())
        parts = [["--model-path", rng.choice(models)], *(maker.words(a) for a in chosen)]
        if rng.random() < 0.25:
            parts.append(maker.words(rng.choice(chosen), "repeated"))
        texts: dict[str, str] = {}
        if config and rng.random() < 0.25:
            path = folder / f"list-{len(out)}.{rng.choice(('yaml', 'yaml', 'yml', 'txt'))}"
            texts[str(path)] = maker.yaml(actions)
            path.write_text(texts[str(path)])
            parts.insert(rng.randrange(len(parts) + 1), ["--config", str(path)])
        argv = [word for part in parts for word in part]
        argv = maker.damage(argv) if rng.random() < 0.08 else argv
        out.append((tuple(argv), texts, frozenset(maker.kinds)))
    return out


def _environments(rng: random.Random, variables: Sequence[str]) -> list[tuple[str, tuple[tuple[str, str], ...]]]:
    """Few, because the real package is imported once for each."""
    out = []
    for at in range(ENVIRONMENTS if variables else 0):
        names = rng.sample(list(variables), min(len(variables), rng.choice((1, 2, 4, 8))))
        out.append(("h100x8" if at % 4 else "cpu", tuple((name, rng.choice(_ENV_VALUES)) for name in names)))
    return out


class _Maker:
    """Words of one launch; `kinds` says what of argparse they make use of."""

    def __init__(self, rng: random.Random, models: Sequence[str], names: Sequence[str], often: float = 1.0) -> None:
        """`often`: how many times more often than usual a flag is spelled in an unusual way."""
        self.rng = rng
        self.often = often
        self.models = models
        self.names = names
        self.kinds: set[str] = set()

    def words(self, action: Action, kind: str = "") -> list[str]:
        rng = self.rng
        flag = self.spelling(rng.choice(action["flags"]))
        if kind:
            self.kinds.add(kind)
        if "eprecated" in action["kind"]:
            self.kinds.add("deprecated")
        nargs = action["nargs"]
        if nargs == 0 or (nargs == "?" and rng.random() < 0.5):
            return [flag]
        if nargs in ("*", "+") or isinstance(nargs, int):
            many = nargs if isinstance(nargs, int) else rng.choice((1, 1, 2, 3) if nargs == "+" else (0, 1, 1, 2, 3))
            self.kinds.add("list")
            return [flag, *(self.value(action) for _ in range(many))]
        value = self.value(action)
        if value.startswith("-"):
            self.kinds.add("negative number")
        if " " in value:
            self.kinds.add("value with spaces")
        if flag.startswith("--") and rng.random() < (0.4 if value.startswith("-") else 0.15):
            self.kinds.add("--flag=value")
            return [f"{flag}={value}"]
        return [flag, value]

    def spelling(self, flag: str) -> str:
        """The flag, sometimes abbreviated or with underscores."""
        rng = self.rng
        if not flag.startswith("--") or len(flag) < 6:
            return flag
        dice = rng.random() / self.often
        if dice < 0.07:
            own = [n for n in range(3, len(flag)) if sum(x.startswith(flag[:n]) for x in self.names) == 1]
            short = min(own, default=len(flag))
            self.kinds.add("abbreviation")
            return flag[: rng.randint(short, len(flag))]
        if dice < 0.075:
            self.kinds.add("ambiguous or unknown")
            return flag[: rng.randint(3, len(flag))]
        if dice < 0.085 and "-" in flag[2:]:
            self.kinds.add("underscores")
            return "--" + flag[2:].replace("-", "_")
        return flag

    def damage(self, argv: list[str]) -> list[str]:
        """A word lost or added."""
        self.kinds.add("damaged")
        at = self.rng.randrange(len(argv))
        return argv[:at] + argv[at + 1 :] if self.rng.random() < 0.6 else [*argv[:at], self.rng.choice(_TEXTS), *argv[at:]]

    def yaml(self, actions: Sequence[Action]) -> str:
        """A config file that sets a few flags, in YAML's flow style or plain."""
        rng = self.rng
        self.kinds.add("config file")
        usable = [a for a in actions if a["flags"] and a["dest"] not in ("help", "version", "config")]
        lines = []
        for action in rng.sample(usable, rng.choice((0, 1, 2, 3, 4))):
            key = max(action["flags"], key=len).lstrip("-")
            key = key.replace("-", "_") if rng.random() < 0.1 else key
            if action["nargs"] == 0:
                value: Any = rng.random() < 0.7
            elif action["nargs"] in ("*", "+"):
                value = [self.scalar(action) for _ in range(rng.choice((0, 1, 2)))]
            else:
                value = self.scalar(action)
            plain = isinstance(value, str) and value.strip() and not set(value) & set("{}[]:,") and rng.random() < 0.5
            lines.append(f"{key}: {value if plain else json.dumps(value)}\n")
        return "".join(lines)

    def scalar(self, action: Action) -> Any:
        text = self.value(action)
        if action["type"] in ("int", "float"):
            return float(text) if action["type"] == "float" else int(text)
        return text

    def value(self, action: Action) -> str:
        rng = self.rng
        if action["choices"] and rng.random() < 0.97:
            return str(rng.choice(action["choices"]))
        default = action["default"]
        whole = isinstance(default, int) and not isinstance(default, bool)
        if action["type"] == "int" or whole:
            near = [default, default * 2, default - 1, default + 1] if whole else []
            return str(rng.choice(_INTEGERS + near + near))
        if action["type"] == "float" or isinstance(default, float):
            return str(rng.choice(_FLOATS))
        if "path" in action["dest"] and rng.random() < 0.7:
            return rng.choice(list(self.models))
        if isinstance(default, str) and rng.random() < 0.3:
            return default
        return rng.choice(_TEXTS)
