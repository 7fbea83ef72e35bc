"""Values worth trying for a setting: what the source compares it with or assigns to it, what the message names, its
declared choices and default, and the numbers beside it; each with what it costs in plausibility.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from triage.analysis.evaluate import Evaluator, Raised, Value
from triage.analysis.evaluate.values import Module, OutOfBudget, TargetRaise
from triage.analysis.flags import Option, Options
from triage.analysis.source import MAX_SOURCE, decode_source, function_chain, read_module, statement_chain
from triage.protocols import SourceTree

Resolve = Callable[[str, ast.expr], Value]

MAX_MESSAGE = 4000
_ORDERED = 0.1  # a bound, against a value that is asked for by name
_FAR = 0.3  # a constant elsewhere in the functions on the way, against one in the failing tests
_SMALL = (1, 2, 3, 4, 8)
_ROOMY = (16, 8, 64, 4, 2, 1)  # for a maximum: hardly anyone means one of 1
_NUMBER = re.compile(r"-?\d{1,9}")


@dataclass(frozen=True)
class Hints:
    """What source and message say about values. Constants cost 0 in the failing tests and more elsewhere."""

    compared: Mapping[str, Mapping[Value, float]] = field(default_factory=dict)
    exact: Mapping[str, frozenset[Value]] = field(default_factory=dict)  # those compared for equality or membership
    assigned: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)  # by the release itself, commonest first
    advised: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    words: frozenset[str] = frozenset()  # of the message
    listed: tuple[str, ...] = ()  # words that the message quotes or lists in brackets
    tested: frozenset[str] = frozenset()  # names of attributes that the failing tests read
    numbers: tuple[int, ...] = ()  # typed for settings that the failure hangs on


def read_hints(failure: Raised, tree: SourceTree, options: Options, files: Iterable[str], resolve: Resolve) -> Hints:
    """`files`: those that validation wrote settings in."""
    message = (failure.message or "")[:MAX_MESSAGE]
    counts: dict[str, dict[Value, int]] = {}
    for file in sorted({*files, *(p.file for p in failure.places)}):
        data = tree.read(file)
        text = decode_source(data) if data is not None and len(data) <= MAX_SOURCE else ""
        for name, values in assigned_constants(text).items():
            for value, times in values.items():
                known = counts.setdefault(name, {})
                known[value] = known.get(value, 0) + times
    assigned = {n: tuple(sorted(v, key=lambda one: (-v[one], str(one)))) for n, v in counts.items()}
    words = message_words(message)
    compared, exact = read_constants(failure, tree, resolve)
    advised = advice_of(message, options)
    tested = frozenset(tested_names(failure, tree))
    return Hints(compared, exact, assigned, advised, words, listed_in(message), tested)


def message_words(message: str) -> frozenset[str]:
    """Names, values and flags without their dashes."""
    return frozenset(re.findall(r"[\w.-]*\w", message[:MAX_MESSAGE]))


def listed_in(message: str) -> tuple[str, ...]:
    """Words that a message quotes, or lists in brackets ("one of: 'a', 'b'", "[a, b]"), in their order."""
    found: dict[str, None] = {}
    for quoted, inside in re.findall(r"""["'`]([\w.+-]{1,40})["'`]|[\[{(]([\w.+, -]{1,300})[\]})]""", message[:MAX_MESSAGE]):
        parts = [quoted] if quoted else [part.strip() for part in inside.split(",")]
        found.update(dict.fromkeys(part for part in parts if part and " " not in part))
    return tuple(found)


def advice_of(message: str, options: Options) -> dict[str, tuple[str, ...]]:
    """Settings that a message names by their flags, as NAME=VALUE, or as a field that is to be true, with the values beside
    them. A hint, not an answer."""
    out: dict[str, tuple[str, ...]] = {}
    for match in re.finditer(r"(--[A-Za-z][\w-]*)(?:[ =]+['\"`]?(-?\w[\w.+-]*)['\"`]?)?", message[:MAX_MESSAGE]):
        option = options.by_name.get(match.group(1))
        if option is not None:
            out[option.field] = (*out.get(option.field, ()), *([match.group(2)] if match.group(2) else []))
    for match in re.finditer(r"\b([A-Z][A-Z0-9_]{4,})=(\w+)", message[:MAX_MESSAGE]):
        out[f"env:{match.group(1)}"] = (match.group(2),)
    for match in re.finditer(r"\b([a-z]\w{3,}) ?= ?True\b", message[:MAX_MESSAGE]):
        if any(o.flag.kind == "switch" for o in options.by_field.get(match.group(1), ())):
            out.setdefault(match.group(1), ())
    return out


# ---------------------------------------------------------------- constants in the source
def make_resolve(evaluator: Evaluator) -> Resolve:
    """Looks a name of a module up (a constant, or an attribute of one) in the evaluator's loaded modules."""
    machine = evaluator.machine

    def resolve(file: str, node: ast.expr) -> Value:
        dotted = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        try:
            if isinstance(node, ast.Name):
                module = machine.import_module(dotted)
                return machine.module_attribute(module, node.id) if isinstance(module, Module) else None
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                return machine.find_attribute(resolve(file, node.value), node.attr)
        except (TargetRaise, OutOfBudget):
            return None
        return None

    return resolve


def read_constants(
    failure: Raised, tree: SourceTree, resolve: Resolve
) -> tuple[dict[str, dict[Value, float]], dict[str, frozenset[Value]]]:
    """Setting -> constants that the functions on the failing path compare it with, lists of them and names included; and
    those among them that are not bounds."""
    out: dict[str, dict[Value, float]] = {}
    exact: dict[str, frozenset[Value]] = {}
    for place in failure.places[-4:]:
        module = read_module(tree, place.file, place.line)
        chain = function_chain(module.tree, place.line) if hasattr(module, "tree") else []
        if not chain or not hasattr(module, "tree"):
            continue
        near = {id(n) for test in _tests_at(module.tree, place.line) for n in ast.walk(test)}
        local = _local_lists(chain[-1])
        for node in ast.walk(chain[-1]):
            bound = isinstance(node, ast.Compare) and all(isinstance(o, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for o in node.ops)
            for name, others in _comparisons(node):
                for value in (v for other in others for v in _constants_in(other, place.file, local, resolve)):
                    cost = (0.0 if id(node) in near else _FAR) + (_ORDERED if bound else 0.0)
                    known = out.setdefault(name, {})
                    known[value] = min(cost, known.get(value, cost))
                    if not bound:
                        exact[name] = exact.get(name, frozenset()) | {value}
    return out, exact


def tested_names(failure: Raised, tree: SourceTree) -> Iterator[str]:
    """Attributes that the failing statement and the tests around it read: settings often keep their name in other objects."""
    for place in failure.places[-1:]:
        module = read_module(tree, place.file, place.line)
        for test in _tests_at(module.tree, place.line) if hasattr(module, "tree") else ():
            yield from (n.attr for n in ast.walk(test) if isinstance(n, ast.Attribute))


def _tests_at(tree: ast.Module, line: int) -> Iterator[ast.AST]:
    """The tests around a line and the innermost statement that holds it."""
    chain = statement_chain(tree, line)
    for node in chain:
        if isinstance(node, ast.If | ast.While):
            yield node.test
        elif node is chain[-1] and not isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node


def _comparisons(node: ast.AST) -> Iterator[tuple[str, list[ast.expr]]]:
    """Name of a setting -> the expressions that it is compared or looked up with."""
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        for one in sides:
            name = _setting_in(one)
            if name is not None:
                yield name, [s for s in sides if s is not one]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        name = _setting_in(node.left)
        if name is not None:
            yield name, [node.right]
    elif isinstance(node, ast.Subscript):
        name = _setting_in(node.slice)
        if name is not None:
            yield name, [node.value]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
        name = _setting_in(node.func.value)
        if name is not None and node.func.attr in ("startswith", "endswith", "__eq__"):
            yield name, list(node.args)


def _setting_in(node: ast.expr) -> str | None:
    """The attribute or name that a side of a comparison reads, through one call such as int() or .lower()."""
    if isinstance(node, ast.Call):
        if len(node.args) == 1 and isinstance(node.func, ast.Name):
            return _setting_in(node.args[0])
        if not node.args and isinstance(node.func, ast.Attribute):
            return _setting_in(node.func.value)
        return None
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def _constants_in(node: ast.expr, file: str, local: Mapping[str, ast.expr], resolve: Resolve) -> Iterator[Value]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float) and not isinstance(node.value, bool):
        yield node.value
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        if isinstance(node.operand.value, int | float):
            yield -node.operand.value
    elif isinstance(node, ast.List | ast.Tuple | ast.Set):
        for item in node.elts:
            yield from _constants_in(item, file, local, resolve)
    elif isinstance(node, ast.Dict):
        for key in node.keys:
            if key is not None:
                yield from _constants_in(key, file, local, resolve)
    elif isinstance(node, ast.Name) and node.id in local:
        yield from _constants_in(local[node.id], file, {}, resolve)
    elif isinstance(node, ast.Name | ast.Attribute):
        found = resolve(file, node)
        values = found if isinstance(found, list | tuple | set | frozenset | dict) else [found]
        yield from (v for v in values if isinstance(v, str | int | float) and not isinstance(v, bool))


def _local_lists(function: ast.AST) -> dict[str, ast.expr]:
    out: dict[str, ast.expr] = {}
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        if isinstance(node.value, ast.List | ast.Tuple | ast.Set | ast.Dict | ast.Constant):
            out[node.targets[0].id] = node.value
    return out


_CONSTANT = r"""(?:"([^"\\\n]{0,200})"|'([^'\\\n]{0,200})'|(-?\d{1,18})(?![\w.]))"""
_GIVEN = re.compile(  # `x.name = 1`, `f(name=1)`, and either with `1 if test else 2`
    rf"(?:\.(\w+)[ ]*=[ ]*(?:\(\s*)?|(?<=[(,\s])(\w+)=){_CONSTANT}(?:\s+if\b[^\"']{{1,200}}?\belse\s+{_CONSTANT})?\s*(?=[,)\n#])"
)


@lru_cache(maxsize=128)
def assigned_constants(text: str) -> Mapping[str, Mapping[Value, int]]:
    """Attribute or keyword -> texts and numbers that the text of a module gives it, with how often. Read as text, because
    these are hints from many files: a constant in a comment does no harm."""
    out: dict[str, dict[Value, int]] = {}
    for found in _GIVEN.finditer(text):
        attribute, keyword, *constants = found.groups()
        known = out.setdefault(attribute or keyword, {})
        for double, single, number in (constants[:3], constants[3:]):
            value: Value = int(number) if number is not None else double if double is not None else single
            if value is not None:
                known[value] = known.get(value, 0) + 1
    return out


# ---------------------------------------------------------------- values of one option
def value_texts(option: Option, known: Value, hints: Hints) -> list[tuple[str, float]]:
    """Texts to try with their cost, cheapest first. `known` is the setting's value at the failure."""
    found: dict[str, float] = {}

    def offer(value: Value, cost: float) -> None:
        text = str(value)
        if found.get(text, 99.0) > cost:
            found[text] = cost

    flag, name = option.flag, option.field
    default = option.action.default
    compared = hints.compared.get(name, {})
    named = [
        v for v in hints.advised.get(name, ()) if (v in flag.choices if flag.choices is not None else _is_value(v, flag.type))
    ]
    if flag.choices is not None:
        assigned = [str(v) for v in hints.assigned.get(name, ())]
        near = {str(v): cost for v, cost in compared.items()}
        for place, choice in enumerate(flag.choices):
            cost = 0.6 + min(0.3, 0.01 * place)
            if choice in assigned:
                cost = 0.2 + min(0.3, 0.03 * assigned.index(choice))
            if choice in near:
                both = 0.04 if choice in assigned else 0.0
                cost = min(cost, 0.1 + near[choice] - both + min(0.03, 0.001 * place))
            if choice in hints.words:
                cost = 0.05 + 0.001 * place
            offer(choice, 0.0 if choice == default and cost < 0.1 else min(cost, 0.15) if choice == default else cost)
    elif flag.type == "int" or (flag.type not in ("str", "float") and any(isinstance(c, int) for c in compared)):
        _offer_numbers(offer, known, default, compared, hints.exact.get(name, frozenset()), hints)
        for place, number in enumerate(_ROOMY if name.startswith("max_") or "_max_" in name else _SMALL):
            offer(number, 0.3 + 0.02 * place)
        for place, number in enumerate(n for n in hints.assigned.get(name, ()) if isinstance(n, int)):
            offer(number, 0.05 + 0.03 * place)
        low = lowest(option)
        meant = {str(v) for v in hints.exact.get(name, ())} | set(named) | {str(default)}
        for text in [t for t in found if int(t) < low and t not in meant]:
            del found[text]
    else:
        for value, cost in compared.items():
            if isinstance(value, str) or value > 0 or value in hints.exact.get(name, ()):
                offer(value, 0.1 + cost)
        for value in hints.assigned.get(name, ()):
            offer(value, 0.3)
        if flag.type in (None, "str") and (name in hints.advised or {str(known), *_first_of(known)} & hints.words):
            for place, word in enumerate(hints.listed):
                offer(word, 0.2 + 0.01 * place)
        if flag.type == "float":
            for value in ("0.5", "0.8", "0.9", "1.0"):
                offer(value, 0.6)
        if flag.type == "loads":  # a JSON text: the empty object is the one that asks for nothing
            offer("{}", 0.5)
        if isinstance(default, str | int | float) and not isinstance(default, bool):
            offer(default, 0.1)
    for text in named:
        offer(text, 0.0)
    return sorted(found.items(), key=lambda item: (item[1], len(item[0]), item[0]))


def _first_of(known: Value) -> list[str]:
    return [str(known[0])] if isinstance(known, list | tuple) and known else []


def _is_value(word: str, type_name: str | None) -> bool:
    """Whether a word behind a flag in a sentence can be its value, not the next word ("--cert and --key")."""
    return bool(re.fullmatch(r"-?\d[\d.]*", word)) if type_name in ("int", "float") else not word.isalpha()


def lowest(option: Option) -> int:
    """The smallest number that a person would type unless the source names a smaller one: 1, or what the default shows."""
    default = option.action.default
    if isinstance(default, int) and not isinstance(default, bool):
        return min(1, default)
    return 1


def _offer_numbers(
    offer: Callable[[Value, float], None],
    known: Value,
    default: Value,
    compared: Mapping[Value, float],
    exact: frozenset[Value],
    hints: Hints,
) -> None:
    for number in hints.numbers:
        beside = 0.0 if number <= 16 else 0.4  # one more than 4 is a relation, one more than 4096 hardly
        offer(number, 0.15 + beside)
        offer(number - 1, 0.1 + beside)
        offer(number + 1, 0.2 + beside)
        offer(number // 2, 0.3)
        offer(number * 2, 0.4)
    for constant, extra in compared.items():
        if isinstance(constant, int):
            if constant not in exact:  # a bound far from what anyone typed is allowed, not asked for
                extra += min(0.4, 0.02 * abs(constant))
            for value, cost in ((constant, 0.0), (constant + 1, 0.2), (constant - 1, 0.25)):
                offer(value, cost + extra if value >= 0 or value == constant else 9.0)
    for word in sorted(hints.words):
        if _NUMBER.fullmatch(word) and 0 < int(word) <= 1_000_000:
            offer(int(word), 0.25)
    if isinstance(known, int) and not isinstance(known, bool):
        for value, cost in ((known // 2, 0.5), (known * 2, 0.5), (known + 1, 0.5), (known - 1, 0.5)):
            offer(value, cost)
    if isinstance(default, int) and not isinstance(default, bool):
        offer(default, 0.1)


def typed_numbers(texts: Sequence[str | None]) -> tuple[int, ...]:
    return tuple(int(t) for t in texts if t is not None and re.fullmatch(r"\d{1,9}", t))
