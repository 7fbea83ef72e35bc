"""Edits worth trying for one failure: the settings that it hangs on, and plausible values for each.

Values come from the flags' choices, from constants that the code on the way compares the setting with, from the numbers
typed beside it, and from advice in the message; never from a list of known cases.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from triage.analysis.evaluate import Evaluation, Raised, Value
from triage.analysis.evaluate.values import Unknown
from triage.analysis.flags import Option, Options, typed_text
from triage.analysis.source import function_chain, read_module
from triage.argv import is_flag
from triage.model import Edit
from triage.protocols import EngineProfile, SourceTree

MAX_FIELDS = 24
MAX_VALUES = 12
_TRUE, _FALSE = ("1", "true"), ("0", "false")


@dataclass(frozen=True)
class Candidate:
    """Edits that belong together (a renamed flag is two) with the setting that they mean (None: not one setting) and
    what they cost in plausibility."""

    edits: tuple[Edit, ...]
    field: str | None
    value: Value
    cost: float


@dataclass(frozen=True)
class Context:
    """What candidates are made from."""

    options: Options
    profile: EngineProfile
    tree: SourceTree
    args: tuple[str, ...]
    env: Mapping[str, str]
    protected: bool = False  # whether protected settings may be edited too

    def is_free(self, name: str) -> bool:
        """Whether a setting or variable may be edited without a person's word."""
        return self.protected or self.profile.protection(name) is None


def find_candidates(failure: Raised, evaluation: Evaluation, context: Context) -> list[Candidate]:
    """Edits for one failure, most plausible first."""
    if failure.usage:
        return _usage_candidates(failure.message or "", context)
    fields = relevant_settings(failure, evaluation)
    constants = read_constants(failure, context.tree)
    typed = context.options.typed(context.args)
    numbers = _typed_numbers(fields, typed, context.args)
    advised = advice_of(failure.message or "", context.options)
    for name in advised:
        if name not in fields:
            fields[name] = 0.5
    out: list[Candidate] = []
    for name, distance in sorted(fields.items(), key=lambda item: item[1])[:MAX_FIELDS]:
        if name.startswith("env:"):
            out.extend(_env_candidates(name[4:], distance, constants, advised, context))
            continue
        for option in context.options.by_field.get(name, ())[:1]:
            if not context.is_free(name):
                continue
            known = evaluation.settings.get(name)
            for made in _option_candidates(option, known, constants.get(name, ()), numbers, typed, context):
                new = made.edits[0].new
                bonus = 1.0 if name in advised and (new is None or new in advised[name]) else 0.0
                out.append(Candidate(made.edits, made.field, made.value, made.cost + 0.4 * distance - bonus))
    return sorted(out, key=_order)


def _order(candidate: Candidate) -> tuple[float, str, str]:
    return (candidate.cost, candidate.edits[0].name, str(candidate.edits[0].new))


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


# ---------------------------------------------------------------- values
def read_constants(failure: Raised, tree: SourceTree) -> dict[str, tuple[Value, ...]]:
    """Setting -> constants that the functions on the failing path compare it with (lists of them included)."""
    out: dict[str, dict[str, Value]] = {}
    for place in failure.places[-4:]:
        module = read_module(tree, place.file)
        chain = function_chain(module.tree, place.line) if hasattr(module, "tree") else []
        for node in ast.walk(chain[-1]) if chain else ():
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                for one in sides:
                    name = _setting_in(one)
                    if name is not None:
                        for other in sides:
                            for value in _constants_in(other):
                                out.setdefault(name, {}).setdefault(repr(value), value)
    return {name: tuple(values.values()) for name, values in out.items()}


def _setting_in(node: ast.expr) -> str | None:
    """The attribute or environment variable that a side of a comparison reads, through one call such as int()."""
    if isinstance(node, ast.Call) and len(node.args) == 1 and isinstance(node.func, ast.Name):
        return _setting_in(node.args[0])
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    return None


def _constants_in(node: ast.expr) -> Iterable[Value]:
    if isinstance(node, ast.Constant) and isinstance(node.value, (str, int, float)) and not isinstance(node.value, bool):
        yield node.value
    elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        for item in node.elts:
            yield from _constants_in(item)


def _typed_numbers(fields: Mapping[str, float], typed: Mapping[str, tuple[Option, str]], args: Sequence[str]) -> list[int]:
    out: list[int] = []
    for name in fields:
        if name in typed:
            text = typed_text(args, typed[name][1])
            if text is not None and re.fullmatch(r"\d{1,9}", text):
                out.append(int(text))
    return out


def _option_candidates(
    option: Option,
    known: Value,
    constants: Sequence[Value],
    numbers: Sequence[int],
    typed: Mapping[str, tuple[Option, str]],
    context: Context,
) -> list[Candidate]:
    name = option.field
    out: list[Candidate] = []
    spelling = typed[name][1] if name in typed else None
    old = typed_text(context.args, spelling) if spelling is not None else None
    lost = 2.0 if name in context.profile.capabilities else 0.0
    if spelling is not None:
        out.append(Candidate((Edit("remove", spelling, old, None),), name, _default_of(option), 5.0 + lost))
    if option.flag.kind == "switch":
        if spelling is None:
            weakens = 1.0 if re.match(r"--(disable|skip|no)-", option.name) else 0.0
            out.append(Candidate((Edit("add", option.name, None, None),), name, option.action.const, 1.0 + weakens))
        return out
    if option.flag.kind not in ("value", "optional", "list"):
        return out
    for text, cost in _values(option, known, constants, numbers, context)[:MAX_VALUES]:
        try:
            value = option.convert(text)
        except ValueError:
            continue
        if option.flag.kind == "list":
            value = [value]
        if spelling is None:
            out.append(Candidate((Edit("add", option.name, None, text),), name, value, 1.0 + cost))
        elif text != old:
            out.append(Candidate((Edit("set", spelling, old, text),), name, value, 3.5 + lost + cost + _loosens(old, text)))
    return out


def _loosens(old: str | None, new: str) -> float:
    """Changing a typed number a little is better than changing it a lot."""
    try:
        a, b = float(old or ""), float(new)
    except ValueError:
        return 0.3
    return min(1.0, abs(a - b) / (abs(a) + 1.0))


def _values(
    option: Option, known: Value, constants: Sequence[Value], numbers: Sequence[int], context: Context
) -> list[tuple[str, float]]:
    """Texts to try with their cost, cheapest first. Numbers keep the sign that the default or the choices have."""
    found: dict[str, float] = {}

    def offer(text: str, cost: float) -> None:
        if found.get(text, 99.0) > cost:
            found[text] = cost

    flag = option.flag
    if flag.choices is not None:
        for choice in flag.choices:
            offer(choice, 0.1 if choice in constants else 0.4)
    elif flag.type == "int" or (any(isinstance(c, int) for c in constants) and flag.type != "str"):
        default = option.action.default
        low = 0 if isinstance(default, int) and not isinstance(default, bool) and default == 0 else 1
        if isinstance(default, int) and default < 0:
            low = default
        for number in numbers:
            for value, cost in ((number - 1, 0.1), (number, 0.15), (number + 1, 0.2), (number // 2, 0.3), (number * 2, 0.4)):
                offer(str(value), cost)
        for constant in constants:
            if isinstance(constant, int):
                for value, cost in ((constant, 0.0), (constant + 1, 0.2), (constant - 1, 0.25)):
                    offer(str(value), cost)
        if isinstance(known, int) and not isinstance(known, bool):
            for value, cost in ((known // 2, 0.5), (known * 2, 0.5), (known + 1, 0.5), (known - 1, 0.5)):
                offer(str(value), cost)
        for value in (1, 2, 3, 4, 8):
            offer(str(value), 0.3 + 0.02 * value)
        for text in [t for t in found if int(t) < low]:
            del found[text]
    else:
        for constant in constants:
            offer(str(constant), 0.1)
        if flag.type == "float":
            for value in ("0.5", "0.8", "0.9", "1.0"):
                offer(value, 0.6)
    return sorted(found.items(), key=lambda item: (item[1], len(item[0]), item[0]))


def _default_of(option: Option) -> Value:
    default = option.action.default
    return None if isinstance(default, Unknown) else default


def _env_candidates(
    name: str, distance: float, constants: Mapping[str, Sequence[Value]], advised: Mapping[str, Sequence[str]], context: Context
) -> list[Candidate]:
    if not name.startswith(context.profile.environment_prefixes) or not context.is_free(name):
        return []
    old = context.env.get(name)
    values = [str(c) for c in constants.get(name, ())] or (
        [_FALSE[0]] if old in _TRUE else [_TRUE[0]] if old in _FALSE else [_TRUE[0], _FALSE[0]]
    )
    bonus = 1.0 if f"env:{name}" in advised else 0.0
    return [
        Candidate((Edit("env", name, old, value),), None, value, 2.2 + 0.4 * distance - bonus) for value in values[:4] if value != old
    ]


# ---------------------------------------------------------------- advice and usage errors
def advice_of(message: str, options: Options) -> dict[str, tuple[str, ...]]:
    """Settings that a message names by their flags or as NAME=VALUE, with the values beside them. A hint, not an answer."""
    out: dict[str, tuple[str, ...]] = {}
    for match in re.finditer(r"(--[A-Za-z][\w-]*)(?:[ =]+['\"]?([\w.+-]+)['\"]?)?", message[:4000]):
        option = options.by_name.get(match.group(1))
        if option is not None:
            out[option.field] = (*out.get(option.field, ()), *([match.group(2)] if match.group(2) else []))
    for match in re.finditer(r"\b([A-Z][A-Z0-9_]{4,})=(\w+)", message[:4000]):
        out[f"env:{match.group(1)}"] = (match.group(2),)
    return out


def _usage_candidates(message: str, context: Context) -> list[Candidate]:
    """For a command line that the parser refuses."""
    out: list[Candidate] = []
    unknown = re.search(r"unrecognized arguments: (.*)", message, re.S)
    if unknown:
        for word in dict.fromkeys(w.split("=", 1)[0] for w in unknown.group(1).split() if is_flag(w)):
            out.extend(_rename_candidates(word, context))
    choice = re.search(r"argument ([^\s:]+): invalid choice: '?([^'\s]*)'?", message)
    value = re.search(r"argument ([^\s:]+): (?:invalid|expected|ignored)", message)
    if choice or value:
        names = (choice or value).group(1).split("/")  # type: ignore[union-attr]
        option = next((context.options.by_name[n] for n in names if n in context.options.by_name), None)
        typed = context.options.typed(context.args)
        if option is not None and option.field in typed:
            out.extend(_repair_value(option, typed[option.field][1], context))
    ambiguous = re.search(r"ambiguous option: (\S+?)=? could match (.*)", message)
    if ambiguous:
        for name in re.findall(r"--[\w-]+", ambiguous.group(2)):
            out.extend(_renamed(ambiguous.group(1).split("=", 1)[0], name, 0.5, context))
    return sorted(out, key=_order)


def _rename_candidates(word: str, context: Context) -> list[Candidate]:
    known = [n for n in context.options.by_name if n.startswith("--")]
    dashed = word.replace("_", "-")
    close = [dashed] if dashed in known else difflib.get_close_matches(dashed, known, n=3, cutoff=0.82)
    out = [c for place, name in enumerate(close) for c in _renamed(word, name, 0.5 + 0.3 * place, context)]
    return [*out, Candidate((Edit("remove", word, typed_text(context.args, word), None),), None, None, 5.0)]


def _renamed(word: str, name: str, cost: float, context: Context) -> list[Candidate]:
    """A flag under another name: it is removed and added."""
    option = context.options.by_name[name]
    old = typed_text(context.args, word)
    if option.flag.kind == "switch" and old is not None:
        return []
    return [Candidate((Edit("remove", word, old, None), Edit("add", name, None, old)), None, None, cost)]


def _repair_value(option: Option, spelling: str, context: Context) -> list[Candidate]:
    old = typed_text(context.args, spelling)
    out = [Candidate((Edit("remove", spelling, old, None),), option.field, _default_of(option), 5.0)]
    choices = list(option.flag.choices or ())
    close = difflib.get_close_matches(old or "", choices, n=3, cutoff=0.4)
    folded = [c for c in choices if c.lower().replace("_", "-") == (old or "").lower().replace("_", "-")]
    for place, choice in enumerate(dict.fromkeys([*folded, *close, *choices[:8]])):
        out.append(Candidate((Edit("set", spelling, old, choice),), option.field, choice, 1.0 + 0.3 * place))
    if option.flag.type == "int" and old is not None:
        digits = re.match(r"-?\d+", old)
        if digits:
            out.append(Candidate((Edit("set", spelling, old, digits.group(0)),), option.field, int(digits.group(0)), 1.0))
    return out
