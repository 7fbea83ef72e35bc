"""A condition in words, with the flags that a person types in place of the fields that the code reads."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from triage.analysis.conditions import ARGS_NAMES, environment_name, parse_test
from triage.analysis.flow import one_line
from triage.model import ResolvedGuard

_OWNERS = ARGS_NAMES | {"self", "cfg", "view"}
_MAX_LISTED = 8  # members of a literal list that are spelled out
_MAX_SOURCE = 160  # characters of source that stand in for words
_NEGATED = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_MIRRORED = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_SIGNS: Mapping[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_WORDS = {"<": "is less than", "<=": "is at most", ">": "is greater than", ">=": "is at least", "==": "is", "!=": "is not"}


@dataclass(frozen=True)
class _Phrase:
    """`subject predicate`; `joint` is the word that joins its parts ("" for a single one)."""

    subject: str
    predicate: str
    joint: str = ""

    @property
    def text(self) -> str:
        return f"{self.subject} {self.predicate}".strip()


def describe_condition(test_source: str, came_out: bool, flag_of: Mapping[str, str]) -> str:
    """Words for "this test came out so", fields named by `flag_of` (dest -> flag). Source in backticks where words fail.

    `"--page-size is greater than 1"`, `"--attention-backend is none of fa3, flashinfer"`, `"not both A and B"`.
    """
    node = parse_test(test_source)
    if node is None:
        return _quote(test_source) if came_out else f"not {_quote(test_source)}"
    try:
        return _Speaker(flag_of, tuple(f"({test_source}\n)".split("\n"))).say(node, came_out).text
    except RecursionError:
        return _quote(test_source) if came_out else f"not {_quote(test_source)}"


def describe_guard(guard: ResolvedGuard, flag_of: Mapping[str, str]) -> str:
    """Words for a guard of a path condition; what decides it is named where its own text does not: "`is_mla` holds
    (decided by the model's hf_config.architectures)"."""
    words = describe_condition(guard.guard.text, guard.guard.came_out, flag_of)
    deciding: dict[str, None] = {}
    for atom in guard.atoms:
        for read in atom.reads:
            name = flag_of.get(read.name, read.name) if read.kind == "setting" else read.name
            told = read.kind in ("literal", "constant") or name in words or read.name in guard.guard.text
            if not told:
                deciding[f"the model's {name}" if read.kind == "model" else name] = None
    unknown = [f"unknown: {atom.why}" for atom in guard.atoms if atom.kind == "opaque"]
    listed = list(deciding)
    if len(listed) > _MAX_LISTED:
        listed = [*listed[:_MAX_LISTED], f"{len(listed) - _MAX_LISTED} more"]
    notes = [*([f"decided by {', '.join(listed)}"] if listed else []), *dict.fromkeys(unknown)]
    return f"{words} ({'; '.join(notes)})" if notes else words


def _quote(source: str) -> str:
    source = " ".join(source.split())
    return f"`{source if len(source) <= _MAX_SOURCE else source[: _MAX_SOURCE - 4] + ' ...'}`"


class _Speaker:
    def __init__(self, flag_of: Mapping[str, str], lines: tuple[str, ...]) -> None:
        self.flag_of = flag_of
        self.lines = lines

    def quote(self, node: ast.expr) -> str:
        return _quote(one_line(self.lines, node) if hasattr(node, "lineno") else ast.unparse(node))

    def say(self, node: ast.expr, came_out: bool) -> _Phrase:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self.say(node.operand, not came_out)
        if isinstance(node, ast.BoolOp):
            return self.junction(node, came_out)
        if isinstance(node, ast.Compare):
            if len(node.ops) == 1:
                return self.compare(node.left, node.ops[0], node.comparators[0], came_out)
            sides = [node.left, *node.comparators]
            parts: list[ast.expr] = [
                ast.Compare(a, [op], [b]) for a, op, b in zip(sides, node.ops, node.comparators, strict=False)
            ]
            return self.junction(ast.BoolOp(ast.And(), parts), came_out)
        if isinstance(node, ast.Constant):
            return _Phrase("always" if bool(node.value) == came_out else "never", "")
        name = self.name(node)
        if name is not None:
            return _Phrase(name, "is set" if came_out else "is not set")
        return _Phrase(self.quote(node), "holds" if came_out else "does not hold")

    def junction(self, node: ast.BoolOp, came_out: bool) -> _Phrase:
        conjunction = isinstance(node.op, ast.And)
        values = self.needed(node.values) if conjunction else list(node.values)
        if len(values) == 1 and not came_out:
            values = list(node.values)  # what the comparison implies when it holds says nothing when it does not
        if len(values) == 1:
            return self.say(values[0], came_out)
        if conjunction and not came_out:
            positive = [self.say(v, True) for v in values]
            if self.shared(positive) or all(p.predicate.startswith(("is not ", "is none ")) for p in positive):
                return self.joined([self.say(v, False) for v in values], "or")
            texts = [self.grouped(p, "and") for p in positive]
            both = "not both" if len(texts) == 2 else "not all of:"
            listed = " and ".join(texts) if len(texts) == 2 else "; ".join(texts)
            return _Phrase("", f"{both} {listed}", "and")
        return self.joined([self.say(v, came_out) for v in values], "and" if conjunction or not came_out else "or")

    @staticmethod
    def needed(values: Sequence[ast.expr]) -> list[ast.expr]:
        """Without an `x is not None` that a later comparison of the same x implies when it holds."""
        out: list[ast.expr] = []
        for i, value in enumerate(values):
            subject = ""
            if isinstance(value, ast.Compare) and isinstance(value.ops[0], ast.IsNot) and len(value.ops) == 1:
                other = value.comparators[0]
                subject = ast.dump(value.left) if isinstance(other, ast.Constant) and other.value is None else ""
            implied = False
            for later in values[i + 1 :] if subject else []:
                if isinstance(later, ast.Compare) and isinstance(later.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
                    implied = implied or subject in (ast.dump(s) for s in (later.left, *later.comparators))
            if not implied:
                out.append(value)
        return out

    @staticmethod
    def shared(phrases: Sequence[_Phrase]) -> bool:
        return len({p.subject for p in phrases}) == 1 and bool(phrases[0].subject)

    def joined(self, phrases: Sequence[_Phrase], word: str) -> _Phrase:
        """Phrases with one word between them; neighbours about the same subject name it once."""
        unique = list(dict.fromkeys(phrases))
        if len(unique) == 1:
            return unique[0]
        if self.shared(unique) and not any(p.joint for p in unique):
            return _Phrase(unique[0].subject, f" {word} ".join(p.predicate for p in unique), word)
        subjects = dict.fromkeys(p.predicate for p in unique)
        if len(subjects) == 1 and len(unique) == 2 and word == "and" and not any(p.joint for p in unique) and unique[0].predicate:
            both = unique[0].predicate.replace("is ", "are ", 1)
            if both.startswith("are ") and both in ("are set", "are not set"):
                return _Phrase(f"{unique[0].subject} and {unique[1].subject}", both, word)
        return _Phrase("", f" {word} ".join(self.grouped(p, word) for p in unique), word)

    @staticmethod
    def grouped(phrase: _Phrase, word: str) -> str:
        return f"({phrase.text})" if phrase.joint and phrase.joint != word else phrase.text

    def compare(self, left: ast.expr, op: ast.cmpop, right: ast.expr, came_out: bool) -> _Phrase:
        if isinstance(op, ast.In | ast.NotIn):
            return self.member(left, right, isinstance(op, ast.In) == came_out)
        if isinstance(op, ast.Is | ast.IsNot):
            same = isinstance(op, ast.Is) == came_out
            if isinstance(right, ast.Constant) and right.value is None:
                return _Phrase(self.value(left), "is not set" if same else "is set")
            return _Phrase(self.value(left), f"{'is' if same else 'is not'} {self.value(right)}")
        sign = _SIGNS[type(op)]
        if isinstance(left, ast.Constant) and not isinstance(right, ast.Constant):
            left, right, sign = right, left, _MIRRORED[sign]
        sign = sign if came_out else _NEGATED[sign]
        zero = isinstance(right, ast.Constant) and right.value == 0 and not isinstance(right.value, bool)
        if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mod) and zero and sign in ("==", "!=", ">"):
            whole = "is divisible by" if sign == "==" else "is not divisible by"
            return _Phrase(self.value(left.left), f"{whole} {self.value(left.right)}")
        return _Phrase(self.value(left), f"{_WORDS[sign]} {self.value(right)}")

    def member(self, left: ast.expr, right: ast.expr, inside: bool) -> _Phrase:
        subject = self.value(left)
        if not isinstance(right, ast.Tuple | ast.List | ast.Set):
            if isinstance(left, ast.Constant):
                return _Phrase(self.value(right), f"{'contains' if inside else 'does not contain'} {self.value(left)}")
            return _Phrase(subject, f"{'is one of' if inside else 'is none of'} {self.value(right)}")
        empty = any(isinstance(e, ast.Constant) and e.value is None for e in right.elts)
        values = [self.value(e) for e in right.elts if not (isinstance(e, ast.Constant) and e.value is None)]
        more = len(values) - _MAX_LISTED
        listed = ", ".join(values if more <= 1 else [*values[:_MAX_LISTED], f"... ({more} more)"])
        if not values:
            return _Phrase(subject, "is not set" if inside == empty else "is set")
        one = len(values) == 1
        if inside:
            words = f"is {listed}" if one else f"is one of {listed}"
            return _Phrase(subject, f"is not set or {words}", "or") if empty else _Phrase(subject, words)
        words = f"is not {listed}" if one else f"is none of {listed}"
        return _Phrase(subject, f"is set and {words}", "and") if empty else _Phrase(subject, words)

    # ------------------------------------------------------------ names and values
    def name(self, node: ast.expr) -> str | None:
        """The flag or variable that an expression reads; None for anything else."""
        variable = environment_name(node)
        if variable is not None:
            return variable
        dest: object = None
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in _OWNERS:
            dest = node.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) > 1:
            owner, attribute = node.args[:2]
            if isinstance(owner, ast.Name) and owner.id in _OWNERS and isinstance(attribute, ast.Constant):
                dest = attribute.value
        return self.flag_of.get(dest) if isinstance(dest, str) else None

    def value(self, node: ast.expr) -> str:
        """An operand: a flag, a bare literal, or source in backticks; arithmetic keeps its form with the flags in it."""
        name = self.name(node)
        if name is not None:
            return name
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) and node.value and node.value.isprintable() else repr(node.value)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return f"-{node.operand.value!r}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
            converted = self.name(node.args[0]) if node.func.id in ("int", "float", "str", "bool") else None
            if converted is not None:
                return converted
        plain = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div | ast.FloorDiv)
        copy = parse_test(ast.unparse(node)) if plain and all(self.simple(side) for side in _leaves(node)) else None
        return ast.unparse(_Rename(self).visit(copy)) if copy is not None else self.quote(node)

    def simple(self, node: ast.expr) -> bool:
        return self.name(node) is not None or (isinstance(node, ast.Constant) and isinstance(node.value, int | float))


def _leaves(node: ast.expr) -> list[ast.expr]:
    return [*_leaves(node.left), *_leaves(node.right)] if isinstance(node, ast.BinOp) else [node]


class _Rename(ast.NodeTransformer):
    def __init__(self, speaker: _Speaker) -> None:
        self.speaker = speaker

    def visit(self, node: ast.AST) -> ast.AST:
        name = self.speaker.name(node) if isinstance(node, ast.expr) else None
        return ast.Name(id=name) if name is not None else super().visit(node)
