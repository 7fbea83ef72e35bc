"""The options of the server's parser, and the settings that a launch gives them.

The parser is the one that the evaluator builds from the target's own declarations, so aliases, prefixes, repeated flags
and deprecated spellings behave as in the launch.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from triage.analysis.evaluate import Evaluator, Value
from triage.analysis.evaluate.values import Unknown
from triage.analysis.outline import fill_body
from triage.argv import find_flag, is_flag
from triage.model import Flag
from triage.protocols import SourceTree

Kind = Literal["value", "switch", "list", "optional", "other"]


@dataclass(frozen=True)
class Option:
    """A flag with the field of the args object that it sets, and argparse's own object to convert a text."""

    flag: Flag
    field: str
    action: argparse.Action = dataclasses.field(repr=False)

    @property
    def name(self) -> str:
        return self.flag.names[0]

    def convert(self, text: str | None) -> Value:
        """The value that the parser makes of a text (None for a switch). Raises ValueError where it refuses."""
        if self.flag.kind == "switch":
            return self.action.const
        convert: Any = self.action.type
        if text is None or not callable(convert):
            return text
        try:
            return convert(text)
        except (TypeError, argparse.ArgumentTypeError) as exc:
            raise ValueError(str(exc)) from exc


@dataclass(frozen=True)
class Options:
    """All options, by field and by spelling."""

    all: tuple[Option, ...]
    by_field: Mapping[str, tuple[Option, ...]]
    by_name: Mapping[str, Option]

    def flag_of(self) -> Mapping[str, str]:
        """Field -> the spelling to show."""
        return {name: options[0].name for name, options in self.by_field.items()}

    def typed(self, args: Sequence[str]) -> Mapping[str, tuple[Option, str]]:
        """Field -> (option, the spelling as typed) of every flag in an argument list; abbreviations are resolved."""
        out: dict[str, tuple[Option, str]] = {}
        for word in args:
            if is_flag(word):
                spelling = word.split("=", 1)[0]
                option = self.find(spelling)
                if option is not None:
                    out[option.field] = (option, spelling)
        return out

    def find(self, spelling: str) -> Option | None:
        """The option of a spelling; an abbreviation counts when only one option begins with it (argparse's rule)."""
        exact = self.by_name.get(spelling)
        if exact is not None:
            return exact
        begun = {id(o): o for n, o in self.by_name.items() if n.startswith(spelling)} if spelling.startswith("--") else {}
        return next(iter(begun.values())) if len(begun) == 1 else None


def read_flags(evaluator: Evaluator, tree: SourceTree) -> Options:
    """The options that the evaluator's last evaluation declared; empty when it did not get that far."""
    renamed = _field_names(evaluator, tree)
    fields = evaluator.machine.fields
    made: list[Option] = []
    for action in evaluator.actions():
        if not action.option_strings or action.dest in ("help", "version"):
            continue
        name = renamed.get(action.dest, action.dest)
        made.append(Option(_flag_of(action), name if name in fields else action.dest, action))
    by_field: dict[str, list[Option]] = {}
    for option in made:
        by_field.setdefault(option.field, []).append(option)
    ordered = {k: tuple(sorted(v, key=lambda o: o.flag.deprecated)) for k, v in by_field.items()}
    return Options(tuple(made), ordered, {n: o for o in made for n in o.flag.names})


def typed_text(args: Sequence[str], spelling: str) -> str | None:
    """The value as typed behind the last occurrence of a flag; None for a switch."""
    spans = find_flag(args, spelling)
    if not spans:
        return None
    first, end = spans[-1]
    if args[first] != spelling:
        return args[first].split("=", 1)[1]
    return " ".join(args[first + 1 : end]) if end > first + 1 else None


def _flag_of(action: argparse.Action) -> Flag:
    names = sorted(action.option_strings, key=lambda n: not n.startswith("--"))
    if action.nargs == 0:
        kind: Kind = "switch"
    elif action.nargs in ("*", "+") or isinstance(action.nargs, int):
        kind = "list"
    elif action.nargs == "?":
        kind = "optional"
    else:
        kind = "value"
    choices = None
    if action.choices is not None:
        choices = tuple(str(c) for c in action.choices if not isinstance(c, Unknown))
    text = action.help or ""
    return Flag(
        dest=action.dest,
        names=tuple(names),
        kind=kind,
        type=getattr(action.type, "__name__", None) if action.type is not None else None,
        default=repr(action.default),
        choices=choices,
        required=bool(action.required),
        help=text,
        deprecated="eprecated" in type(action).__name__ or "deprecated" in text[:40].lower(),
    )


def _field_names(evaluator: Evaluator, tree: SourceTree) -> dict[str, str]:
    """dest -> field where `from_cli_args` copies one to the other (`args.tp_size = args.tensor_parallel_size`)."""
    module = evaluator.profile.args_class.rpartition(".")[0].replace(".", "/")
    data = tree.read(f"{module}.py") or tree.read(f"{module}/__init__.py")
    parsed = evaluator.machine.program.parse(f"{module}.py", data) if data is not None else None
    out: dict[str, str] = {}
    for node in ast.walk(parsed) if parsed is not None else ():
        if isinstance(node, ast.FunctionDef) and node.name == "from_cli_args" and fill_body(node):
            for child in ast.walk(node):
                if isinstance(child, ast.Assign) and isinstance(child.value, ast.Attribute):
                    target = child.targets[0]
                    if isinstance(target, ast.Attribute) and ast.dump(target.value) in (
                        ast.dump(child.value.value),
                        ast.dump(child.value.value).replace("Load", "Store"),
                    ):
                        out[child.value.attr] = target.attr
    return out
