"""Launches that the real validation refuses, made without a thought of how they could be repaired."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tests.oracle.brute import Asker, Parser
from tests.oracle.launches import Case, make_launches
from tests.oracle.real import facts_names, model_names, real_actions
from triage.argv import edit_args
from triage.model import Edit

_HOST = "h100x8"
_OTHERS = 3  # hosts beside it
_USAGE = 6  # one launch in so many is refused by the parser


def failing_launches(release: str, count: int, seed: int) -> list[Case]:
    """`count` launches that the real validation refuses, on a few hosts: some generated, the others made of generated ones
    that pass, one flag taken out or the flags of two put together."""
    rng = random.Random(seed)
    actions = real_actions(release)
    parser = Parser(actions, {})
    others = [f for f in facts_names() if f != _HOST]
    hosts = [_HOST, *rng.sample(others, _OTHERS)]
    with Asker(release, _HOST) as asker:  # a model that passes nowhere would be most of what fails
        alone = asker.screen([("--model-path", m) for m in model_names()])
    models = [m for m, a in zip(model_names(), alone, strict=True) if a["outcome"] == "ok"]
    made = make_launches(actions, hosts, models, 3 * count + 40, seed)
    refused: list[Case] = []
    by_parser: list[Case] = []
    for facts in sorted(hosts):
        mine = [c for c in made if c.facts == facts]
        with Asker(release, facts) as asker:
            outcomes = [a["outcome"] for a in asker.screen([c.argv for c in mine])]
            refused += [c for c, o in zip(mine, outcomes, strict=True) if o == "exception"]
            by_parser += [c for c, o in zip(mine, outcomes, strict=True) if o == "argparse"]
            passing = [c for c, o in zip(mine, outcomes, strict=True) if o == "ok" and len(c.argv) > 3]
            built = list(dict.fromkeys(_built(rng, parser, passing)))
            rng.shuffle(built)
            built = built[: 2 * len(mine)]
            outcomes = [a["outcome"] for a in asker.screen([c.argv for c in built])]
            refused += [c for c, o in zip(built, outcomes, strict=True) if o == "exception"]
    refused = list(dict.fromkeys(refused))
    rng.shuffle(refused)
    rng.shuffle(by_parser)
    few = by_parser[: count // _USAGE]
    return sorted([*few, *refused][:count], key=lambda c: c.facts)


def _built(rng: random.Random, parser: Parser, passing: Sequence[Case]) -> Iterator[Case]:
    for case in passing:
        for name, action in parser.typed(case.argv).items():
            if action["dest"] != "model_path":
                yield replace(case, argv=edit_args(case.argv, [Edit("remove", name)]))
        other = rng.choice(passing)
        rest = list(other.argv)
        if other is not case and "--model-path" in rest:
            at = rest.index("--model-path")
            yield replace(case, argv=(*case.argv, *rest[:at], *rest[at + 2 :]))
