"""The target's command-line parser: its `add_argument` calls, evaluated, build a real argparse parser of our own."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from triage.analysis.evaluate.calls import NeedsUnknown
from triage.analysis.evaluate.values import (
    ABSENT,
    Bound,
    Class,
    External,
    Func,
    Instance,
    Native,
    TargetRaise,
    Unknown,
    Value,
    has_unknown,
)

if TYPE_CHECKING:
    from triage.analysis.evaluate.machine import Machine

_SWITCHES = ("add_help", "allow_abbrev", "exit_on_error")
_TEXTS = ("prog", "description", "epilog", "usage", "prefix_chars", "fromfile_prefix_chars", "conflict_handler")
_BOOLEAN = getattr(argparse, "BooleanOptionalAction", None)


PARSER = External("argparse.ArgumentParser")


class Refused(Exception):
    """The parser's `error: ...` text, or a request for help."""

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class Parser(argparse.ArgumentParser):
    """argparse with its own behavior; only its exits are ours."""

    filled = False  # by one call that declares flags

    def take(self, other: Parser) -> None:
        """Share another parser's declarations; declaring one of them again is then ignored."""
        mine = {"prog": self.prog}
        self.__dict__.update(other.__dict__)
        self.__dict__.update(mine)
        self.filled = True

    def error(self, message: str) -> NoReturn:
        raise Refused(message)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise Refused(message or "", status)

    def print_help(self, file: Any = None) -> None:
        raise Refused("help was asked for", 0)


def make_parser(w: Machine, args: list[Value], named: dict[str, Value]) -> Value:
    """`argparse.ArgumentParser(...)` of the target."""
    keys: dict[str, Any] = {
        k: v for k, v in named.items() if (k in _SWITCHES and isinstance(v, bool)) or (k in _TEXTS and isinstance(v, str))
    }
    parser = Parser(**keys)
    w.parsers.append(parser)
    w.declaring = True
    return _wrap(parser)


def _wrap(parser: Any) -> Instance:
    def add_argument(w: Machine, args: list[Value], named: dict[str, Value]) -> Value:
        return _add_argument(w, parser, args, named)

    def parse_args(w: Machine, args: list[Value], named: dict[str, Value]) -> Value:
        argv = args[0] if args else named.get("args")
        words = w.iterate(argv) if argv is not None else list(w.argv[1:])
        if words is None or has_unknown(words):
            return Unknown("argparse.Namespace", "the command line is not known")
        return _parse(w, parser, [str(x) for x in words])

    def group(w: Machine, args: list[Value], named: dict[str, Value]) -> Value:
        return _wrap(parser.add_argument_group())

    def exclusive(w: Machine, args: list[Value], named: dict[str, Value]) -> Value:
        return _wrap(parser.add_mutually_exclusive_group(required=named.get("required", False) is True))

    def set_defaults(w: Machine, args: list[Value], named: dict[str, Value]) -> Value:
        parser.set_defaults(**named)
        return None

    def error(w: Machine, args: list[Value], named: dict[str, Value]) -> Value:
        raise usage_error(str(args[0]))

    def get_default(w: Machine, args: list[Value], named: dict[str, Value]) -> Value:
        return parser.get_default(args[0])

    attrs: dict[str, Value] = {
        "add_argument": Native("add_argument", add_argument),
        "parse_args": Native("parse_args", parse_args),
        "parse_known_args": Native("parse_known_args", lambda w, a, n: (parse_args(w, a, n), [])),
        "add_argument_group": Native("add_argument_group", group),
        "add_mutually_exclusive_group": Native("add_mutually_exclusive_group", exclusive),
        "set_defaults": Native("set_defaults", set_defaults),
        "error": Native("error", error),
        "get_default": Native("get_default", get_default),
        "prog": getattr(parser, "prog", ""),
        "__parser__": parser,
    }
    return Instance(PARSER, attrs, opaque="parser")


def action_objects(parser: Any) -> list[Value]:
    """Stand-ins of the parser's actions for code that walks them (config file merging)."""
    out: list[Value] = []
    for action in parser._actions:
        attrs: dict[str, Value] = {
            "option_strings": list(action.option_strings), "dest": action.dest, "nargs": action.nargs, "const": action.const,
            "default": action.default, "choices": action.choices, "required": action.required, "type": action.type,
            "help": action.help, "metavar": action.metavar,
        }  # fmt: skip
        custom = getattr(action, "triage_custom", None)
        out.append(Instance(custom or External(f"argparse.{type(action).__name__}"), attrs))
    return out


def is_action(cls: External, wanted: External) -> bool:
    """Whether one class of argparse is another, or derives from it."""
    one, other = (getattr(argparse, c.path.rpartition(".")[2], None) for c in (cls, wanted))
    return isinstance(one, type) and isinstance(other, type) and issubclass(one, other)


def usage_error(message: str) -> TargetRaise:
    """The parser's refusal as the exception that it ends in."""
    exc = TargetRaise(SystemExit, (2,))
    exc.attrs["usage"] = message
    return exc


def _parse(w: Machine, parser: argparse.ArgumentParser, words: list[str]) -> Value:
    try:
        return parser.parse_args(words)
    except Refused as exc:
        if exc.code == 0:
            raise TargetRaise(SystemExit, (0,)) from None
        raise usage_error(exc.message) from None
    except argparse.ArgumentError as exc:
        raise usage_error(str(exc)) from None
    except NeedsUnknown as exc:
        return Unknown("argparse.Namespace", exc.value.why)


def _add_argument(w: Machine, parser: Any, args: list[Value], named: dict[str, Value]) -> Value:
    if has_unknown(args):
        w.note("a flag whose name is not known was left out")
        return None
    held = getattr(parser, "_option_string_actions", {}).get(args[0]) if args else None
    if held is not None and getattr(parser, "filled", False):
        return Instance(
            External("argparse.Action"), {"dest": held.dest, "option_strings": list(held.option_strings)}, opaque="action"
        )
    keys = {k: v for k, v in named.items() if k != "help"}
    help_text = named.get("help")
    keys["help"] = help_text if isinstance(help_text, str) else None
    action = keys.get("action")
    custom: Any = None
    if isinstance(action, Class):
        custom = action
        keys["action"] = _custom_action(w, action)
    elif isinstance(action, External):
        keys["action"] = _BOOLEAN if action.path == "argparse.BooleanOptionalAction" else "store"
    elif isinstance(action, Unknown):
        keys["action"] = "store"
    kind = keys.get("type")
    if isinstance(kind, (Func, Bound, Native, Class, External)):
        keys["type"] = _converter(w, kind)
    elif isinstance(kind, Unknown):
        keys.pop("type")
    choices = keys.get("choices", ABSENT)
    if choices is not ABSENT and choices is not None:
        items = w.iterate(choices)
        if items is None or has_unknown(items):
            keys.pop("choices")
            w.note(f"the choices of {args[0] if args else '?'} are not all known")
        else:
            keys["choices"] = [w.plain_of(i) for i in items]
    if custom is None and keys.get("action") in (
        "store_true",
        "store_false",
        "store_const",
        "append_const",
        "count",
        "help",
        "version",
    ):
        for key in ("type", "choices", "nargs", "metavar"):
            keys.pop(key, None)
    try:
        made = parser.add_argument(*args, **keys)
    except (ValueError, TypeError, argparse.ArgumentError) as exc:
        w.note(f"the declaration of {args[0] if args else '?'} was left out: {exc}")
        return None
    made.triage_custom = custom
    return Instance(
        External("argparse.Action"), {"dest": made.dest, "option_strings": list(made.option_strings)}, opaque="action"
    )


def _converter(w: Machine, fn: Value) -> Any:
    def convert(text: str) -> Value:
        try:
            return w.call(fn, [text])
        except TargetRaise as exc:
            if exc.cls is argparse.ArgumentTypeError:
                raise argparse.ArgumentTypeError(exc.message) from None
            if isinstance(exc.cls, type) and issubclass(exc.cls, (ValueError, TypeError)):
                raise ValueError(str(exc.message)) from None
            raise

    convert.__name__ = str(getattr(fn, "name", getattr(fn, "path", "value"))).rpartition(".")[2]
    return convert


def _custom_action(w: Machine, cls: Class) -> type[argparse.Action]:
    """An argparse action of ours that runs the target's `__call__`, evaluated."""

    class Custom(argparse.Action):
        def __init__(self, option_strings: Sequence[str], dest: str, **named: Any) -> None:
            given = {"option_strings": list(option_strings), "dest": dest, **named}
            self.target = Instance(cls, {}, opaque=f"{cls.name}()")
            init = cls.lookup("__init__")
            if isinstance(init, Func):
                w.call(init, [self.target], given)
            else:
                self.target.attrs.update(given)
            base: dict[str, Any] = {}
            for key in ("nargs", "const", "default", "type", "choices", "required", "help", "metavar"):
                value = self.target.attrs.get(key, named.get(key))
                if value is not None or key == "default":
                    base[key] = value
            if "nargs" not in self.target.attrs and "nargs" not in named and cls.lookup("__triage_flag__") is not ABSENT:
                base["nargs"] = 0
            self.kept = dict(self.target.attrs)  # a parser outlives the evaluation that built it, whose writes are undone
            super().__init__(list(option_strings), dest, **base)

        def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
            self.target.attrs.update(self.kept)
            self.target.attrs.update({"dest": self.dest, "option_strings": list(self.option_strings), "const": self.const})
            w.call(cls.lookup("__call__"), [self.target, _wrap(parser), namespace, values, option_string])

    Custom.__name__ = cls.name
    return Custom
