"""Edits worth trying for one failure: the settings that it hangs on, and plausible values for each.

Values come from the flags' choices, from constants that the code on the way compares the setting with, from the numbers
typed beside it, and from advice in the message; never from a list of known cases.
"""

from __future__ import annotations

import re
from dataclasses import replace
from fnmatch import fnmatchcase

from triage.analysis.edits import (
    ADD,
    CAPABILITY,
    ENV,
    KIND,
    REMOVE,
    ROLE,
    SET,
    SUSPECT,
    TURNS_OFF,
    Candidate,
    Context,
    default_of,
    order_of,
    turns_off,
)
from triage.analysis.evaluate import Evaluation, Evaluator, Raised
from triage.analysis.flags import Option, typed_text
from triage.analysis.suggestions import (
    MAX_MESSAGE,
    Hints,
    advice_of,
    lowest,
    make_resolve,
    message_words,
    read_hints,
    typed_numbers,
    value_texts,
)
from triage.analysis.usage import find_usage_candidates
from triage.model import Edit, Facts

MAX_FIELDS = 24
MAX_VALUES = 12

_DISTANCE, _MAX_DISTANCE = 0.3, 4.0
_FEW = 4
_FOREIGN = 1.5  # more for a value of another kind of device where the device is not known
_GPUS = 72  # of the largest machines
_PORT = re.compile(r"(?:^|_)port$")
_TRUE, _FALSE = ("1", "true"), ("0", "false")


def find_candidates(failure: Raised, evaluation: Evaluation, context: Context, evaluator: Evaluator) -> list[Candidate]:
    """Edits for one failure, most plausible first."""
    if failure.usage:
        return find_usage_candidates(failure.message or "", context)
    fields = relevant_settings(failure, evaluation)
    typed = context.options.typed(context.args)
    files = {w.place.file for w in evaluation.writes}
    files.add(evaluator.profile.args_class.rpartition(".")[0].replace(".", "/") + ".py")
    hints = read_hints(failure, context.tree, context.options, files, make_resolve(evaluator))
    for name in hints.advised:
        fields.setdefault(name, 0.5)
    for name in sorted(hints.tested & context.options.by_field.keys()):
        fields.setdefault(name, 1.0)
    for name in _named_by(failure.message or "", context, failure.assumed):
        fields.setdefault(name, 1.0)
    near = sorted(fields.items(), key=lambda item: (item[1], item[0]))[:MAX_FIELDS]
    numbers = typed_numbers([typed_text(context.args, typed[n][1]) for n, _ in near if n in typed])
    hints = replace(hints, numbers=numbers)
    maker = _Maker(context, evaluation, hints, evaluator.machine.facts)
    out: list[Candidate] = []
    for name, distance in near:
        if name.startswith("env:"):
            out += maker.env(name[4:], distance)
        elif context.is_free(name):
            out += maker.setting(name, distance)
    for name in () if failure.assumed else typed:  # what led there is not always known; by the log alone all would seem to help
        if name not in fields and context.is_free(name):
            out += [c for c in maker.setting(name, _MAX_DISTANCE) if c.edits[0].action == "remove"]
    return sorted(out, key=order_of)


def _named_by(message: str, context: Context, strict: bool) -> set[str]:
    """Typed settings of which a message has the name, the flag or the value; `strict`: a plain number alone does not count."""
    out: set[str] = set()
    words = message_words(message)
    for name, (_option, spelling) in context.options.typed(context.args).items():
        value = typed_text(context.args, spelling) or name
        no_word = not value.isalnum() and len(value) > 1 and value in message[:MAX_MESSAGE]
        if no_word or {name, spelling.lstrip("-")} & words or (value in words and not (strict and value.isdigit())):
            out.add(name)
    return out


def told_settings(failure: Raised, context: Context) -> frozenset[str]:
    """Settings that a failure itself tells of: read in its test and the guards next to it, or named by its message. What
    hangs on many at once (a model's configuration) hangs on none of them."""
    message = failure.message or ""
    named = _named_by(message, context, strict=True)
    guards = () if failure.assumed else failure.guards[:3]  # which lead to a call that fails for a reason of its own
    groups = [g for g in (failure.reads, failure.mentions, *guards) if len(g) <= _FEW]
    return frozenset(named).union(advice_of(message, context.options), *groups)


def relevant_settings(failure: Raised, evaluation: Evaluation) -> dict[str, float]:
    """Settings and variables that decide the failure, with their distance: 0 in the failing test, then guard by guard,
    plus one for each derivation step."""
    out: dict[str, float] = {}
    steps: list[tuple[str, float]] = [(n, 0.0) for n in failure.reads]
    for depth, reads in enumerate(failure.guards):
        steps += [(n, 0.5 + 0.5 * depth) for n in reads]
    steps += [(n, 1.5) for n in failure.mentions]
    while steps:
        steps.sort(key=lambda s: s[1])
        name, distance = steps.pop(0)
        if name in out or distance > 6:
            continue
        out[name] = distance
        steps += [(n, distance + 1.0) for n in evaluation.deps.get(name, ()) if n not in out]
    return out


class _Maker:
    def __init__(self, context: Context, evaluation: Evaluation, hints: Hints, facts: Facts) -> None:
        self.context = context
        self.evaluation = evaluation
        self.hints = hints
        self.facts = facts
        self.typed = context.options.typed(context.args)

    def setting(self, name: str, distance: float) -> list[Candidate]:
        option = next(iter(self.context.options.by_field.get(name, ())), None)
        if option is None:
            return []
        far = _DISTANCE * min(distance, _MAX_DISTANCE)
        advised = self.hints.advised.get(name)
        out: list[Candidate] = []
        for made in self.option(option, distance):
            new = made.edits[0].new
            bonus = 0.8 if advised is not None and (new is None or new in advised or not advised) else 0.0
            cost = made.cost + far - (bonus if made.edits[0].action != "remove" else 0.0)
            out.append(Candidate(made.edits, made.field, made.value, max(0.2, cost)))
        return out

    def option(self, option: Option, distance: float) -> list[Candidate]:
        name, flag = option.field, option.flag
        profile = self.context.profile
        out: list[Candidate] = []
        spelling = self.typed[name][1] if name in self.typed else None
        old = typed_text(self.context.args, spelling) if spelling is not None else None
        lost = CAPABILITY if name in profile.capabilities else 0.0
        if spelling is not None:
            out.append(Candidate((Edit("remove", spelling, old, None),), name, default_of(option), REMOVE + lost))
        elif name in profile.roles:
            lost = KIND if name in profile.kinds else ROLE
        else:
            lost = 0.0
        foreign = self.foreign(name)
        if foreign is None and spelling is None:
            return out
        if flag.kind == "switch":
            if spelling is None:
                off = TURNS_OFF if turns_off(option.name) else 0.0
                out.append(
                    Candidate(
                        (Edit("add", option.name, None, None),), name, option.action.const, ADD + off + lost + (foreign or 0)
                    )
                )
            return out
        if flag.kind not in ("value", "optional", "list"):
            return out
        base = ADD if spelling is None else SET
        if spelling is not None and distance <= 1.0 and _is_suspect(old, option):
            base -= SUSPECT
            lost = 0.0
        for text, cost in self.texts(option):
            strange = self.foreign(text)
            if strange is None or text == old or (text == str(option.action.default) and spelling is None):
                continue
            try:
                value = option.convert(text)
            except ValueError:
                continue
            value = [value] if flag.kind == "list" else value
            edit = Edit("add", option.name, None, text) if spelling is None else Edit("set", spelling, old, text)
            far = _far_from(old, text) if spelling is not None else 0.0
            out.append(Candidate((edit,), name, value, base + lost + cost + far + strange + (foreign or 0.0)))
        return out

    def texts(self, option: Option) -> list[tuple[str, float]]:
        """Values with their cost: for a port those next to the server's own, for a number of GPUs no more than there are."""
        profile, settings = self.context.profile, self.evaluation.settings
        if _PORT.search(option.field) and option.flag.type == "int":
            own = settings.get(profile.port_field)
            return [(str(own + n), 0.1 * n) for n in (1, 2, 3)] if isinstance(own, int) else []
        texts = value_texts(option, settings.get(option.field), self.hints)[:MAX_VALUES]
        nodes = settings.get(profile.nodes_field) if profile.nodes_field else 1
        if option.field in profile.gpu_fields and isinstance(nodes, int):
            most = (self.facts.gpu_count or _GPUS) * max(1, nodes)
            texts = [(text, cost) for text, cost in texts if not text.isdigit() or int(text) <= most]
        return texts

    def foreign(self, word: str) -> float | None:
        """What a name or value costs by the kind of device that it is for; None where this host's is another."""
        device = next((d for pattern, d in self.context.profile.platforms.items() if fnmatchcase(word, pattern)), None)
        if device is None or device == self.facts.device:
            return 0.0
        return _FOREIGN if self.facts.device is None else None

    def env(self, name: str, distance: float) -> list[Candidate]:
        context = self.context
        if not name.startswith(context.profile.environment_prefixes) or not context.is_free(name):
            return []
        old = context.env.get(name)
        values = [str(c) for c in self.hints.compared.get(name, ())] or (
            [_FALSE[0]] if old in _TRUE else [_TRUE[0]] if old in _FALSE else [_TRUE[0], _FALSE[0]]
        )
        advised = self.hints.advised.get(f"env:{name}", ())
        bonus = 0.8 if advised else 0.0
        cost = ENV + _DISTANCE * min(distance, _MAX_DISTANCE) - bonus
        texts = dict.fromkeys([*advised, *values])
        return [Candidate((Edit("env", name, old, v),), None, v, cost) for v in list(texts)[:4] if v != old]


def _is_suspect(old: str | None, option: Option) -> bool:
    """Whether a typed number is below what a person would type for this option."""
    return old is not None and re.fullmatch(r"-?\d{1,9}", old) is not None and int(old) < lowest(option)


def _far_from(old: str | None, new: str) -> float:
    """Changing a typed number a little is better than changing it a lot."""
    try:
        a, b = float(old or ""), float(new)
    except ValueError:
        return 0.2
    return min(0.6, 0.6 * abs(a - b) / (abs(a) + 1.0))
