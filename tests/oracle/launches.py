"""Launches to compare on: bases over every model, mutated by flags of the real parser with plausible and absurd values.

Nothing here knows a flag: names, kinds and choices come from the parser's own actions; flags are taken together by the
first word of their names, because what belongs together tends to be named alike.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
]


@dataclass(frozen=True)
class Case:
    facts: str
    argv: tuple[str, ...]


def make_launches(
    actions: Sequence[dict[str, Any]], facts: Sequence[str], models: Sequence[str], count: int, seed: int
) -> list[Case]:
    """`count` launches; the same seed gives the same ones. Half of them are on the first facts that name eight GPUs."""
    rng = random.Random(seed)
    usable = [a for a in actions if a["flags"] and a["dest"] not in ("help", "version", "model_path", "config")]
    groups: dict[str, list[dict[str, Any]]] = {}
    for action in usable:
        for word in set(action["dest"].split("_")):
            groups.setdefault(word, []).append(action)
    shared = sorted(k for k, v in groups.items() if 2 <= len(v) <= 40)
    out: list[Case] = []
    while len(out) < count:
        chosen: list[dict[str, Any]] = []
        for _ in range(rng.choice((0, 0, 1, 1, 2))):
            group = groups[rng.choice(shared)]
            chosen += rng.sample(group, min(len(group), rng.choice((1, 2, 3))))
        chosen += [rng.choice(usable) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
        argv = ["--model-path", rng.choice(models)]
        for action in chosen:
            argv += _words(rng, action, models)
        where = rng.choice(facts) if rng.random() < 0.7 else "h100x8"
        out.append(Case(where, tuple(argv)))
    return out


def _words(rng: random.Random, action: dict[str, Any], models: Sequence[str]) -> list[str]:
    flag = rng.choice(action["flags"])
    nargs = action["nargs"]
    if nargs == 0:
        return [flag]
    if nargs == "?" and rng.random() < 0.5:
        return [flag]
    if nargs in ("*", "+"):
        return [flag, *(_value(rng, action, models) for _ in range(rng.choice((1, 1, 2, 3))))]
    if isinstance(nargs, int):
        return [flag, *(_value(rng, action, models) for _ in range(nargs))]
    value = _value(rng, action, models)
    return [f"{flag}={value}"] if flag.startswith("--") and (value.startswith("-") or rng.random() < 0.1) else [flag, value]


def _value(rng: random.Random, action: dict[str, Any], models: Sequence[str]) -> str:
    if action["choices"] and rng.random() < 0.97:
        return str(rng.choice(action["choices"]))
    default = action["default"]
    if action["type"] == "int" or (isinstance(default, int) and not isinstance(default, bool)):
        near = (
            [default, default * 2, default - 1, default + 1] if isinstance(default, int) and not isinstance(default, bool) else []
        )
        return str(rng.choice(_INTEGERS + near + near))
    if action["type"] == "float" or isinstance(default, float):
        return str(rng.choice(_FLOATS))
    if "path" in action["dest"] and rng.random() < 0.7:
        return rng.choice(list(models))
    if isinstance(default, str) and rng.random() < 0.3:
        return default
    return rng.choice(_TEXTS)
