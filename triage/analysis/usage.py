"""Edits for a command line that the parser refuses: unknown, misspelt and foreign flags, stray words, values that do not fit."""

from __future__ import annotations

import difflib
import re

from triage.analysis.edits import REMOVE, SET, Candidate, Context, default_of, order_of
from triage.analysis.flags import Option, typed_text
from triage.analysis.foreign import find_foreign, refused_flags
from triage.argv import find_flag
from triage.model import Edit

_TOLD = 0.2  # cost of what knowledge says that a flag means here
_STRAY = 0.5  # of leaving out what no flag takes


def find_usage_candidates(message: str, context: Context) -> list[Candidate]:
    """From the parser's own message, most plausible first."""
    out: list[Candidate] = []
    if "unrecognized arguments: " in message:
        for word in refused_flags(message):
            out += _rename_candidates(word, context)
        out += _stray_candidates(message.partition("unrecognized arguments: ")[2], context)
    ambiguous = re.search(r"ambiguous option: (\S+?)(?:=\S*)? could match (.*)", message)
    if ambiguous:
        known = [name for name in re.findall(r"--[\w-]+", ambiguous.group(2)) if name in context.options.by_name]
        renamed = [c for name in known for c in _renamed(ambiguous.group(1), name, 0.5, context)]
        out += _foreign_candidates(ambiguous.group(1), context) or renamed
    about = re.search(r"argument ([^\s:]+): ", message)
    if about:
        names = about.group(1).split("/")
        option = next((context.options.by_name[n] for n in names if n in context.options.by_name), None)
        typed = context.options.typed(context.args)
        if option is not None and option.field in typed and context.is_free(option.field):
            out += _repair_value(option, typed[option.field][1], context)
    return sorted(out, key=order_of)


def _rename_candidates(word: str, context: Context) -> list[Candidate]:
    known = [n for n in context.options.by_name if n.startswith("--")]
    dashed = word.replace("_", "-")
    close = [dashed] if dashed in known else difflib.get_close_matches(dashed, known, n=3, cutoff=0.82)
    old = typed_text(context.args, word)
    ours = set(dashed.strip("-").split("-"))
    for name in sorted(known, key=lambda n: -len(ours & set(n.strip("-").split("-")))):
        choices = context.options.by_name[name].flag.choices or ()
        if old in choices and 2 * len(ours & set(name.strip("-").split("-"))) > len(ours) and name not in close:
            close.append(name)  # it takes the typed value and most of its words are the same
    out = [c for place, name in enumerate(close[:4]) for c in _renamed(word, name, 0.5 + 0.3 * place, context)]
    out = _foreign_candidates(word, context) or out  # what is known of a name beats what it looks like
    return [*out, Candidate((Edit("remove", word, typed_text(context.args, word), None),), None, None, REMOVE)]


def _stray_candidates(refused: str, context: Context) -> list[Candidate]:
    """Words behind a flag that it does not take: `--switch true`, `--flag two words`. The flag keeps what it takes."""
    refused_words = refused.split()
    out = []
    for option, name in context.options.typed(context.args).values():
        first, end = find_flag(context.args, name)[-1]
        if "=" in context.args[first]:
            continue
        words = list(context.args[first + 1 : end])
        taken = {"switch": 0, "value": 1, "optional": 1}.get(option.flag.kind)
        if taken is None or len(words) <= taken or not set(" ".join(words[taken:]).split()) <= set(refused_words):
            continue
        new = words[0] if taken else None
        out.append(Candidate((Edit("set", name, " ".join(words), new),), None, None, _STRAY))
    return out


def _foreign_candidates(word: str, context: Context) -> list[Candidate]:
    """What means the same as a flag of another server or release."""
    flag = find_foreign(word, context.profile)
    if flag is None:
        return []
    old = typed_text(context.args, word)
    if not flag.to:
        return [Candidate((Edit("remove", word, old, None),), None, None, _TOLD)]
    name = next((name for name in flag.to if name in context.options.by_name), None)
    if name is None:
        return []
    option = context.options.by_name[name]
    new = flag.value or (None if old is None else flag.values.get(old, old))
    kept = flag.exact and new == old  # the same setting as typed, under its name here
    if not (kept or context.is_free(option.field)) or (option.flag.kind == "switch") != (new is None):
        return []
    edits = (Edit("remove", word, old, None), Edit("add", name, None, new))
    return [Candidate(edits, None, None, _TOLD if flag.exact else 2 * _TOLD)]


def _renamed(word: str, name: str, cost: float, context: Context) -> list[Candidate]:
    """A flag under another name: it is removed and added."""
    option = context.options.by_name[name]
    old = typed_text(context.args, word)
    if option.flag.kind == "switch" and old is not None:
        return []
    return [Candidate((Edit("remove", word, old, None), Edit("add", name, None, old)), None, None, cost)]


def _repair_value(option: Option, spelling: str, context: Context) -> list[Candidate]:
    """The value that a typed one may have meant: a choice of nearly the same name, the number in it, else the default."""
    old = typed_text(context.args, spelling)
    field = option.field
    out = [Candidate((Edit("remove", spelling, old, None),), field, default_of(option), REMOVE)]
    texts: dict[str, float] = {}
    choices = list(option.flag.choices or ())
    close = difflib.get_close_matches(old or "", choices, n=3, cutoff=0.4)
    folded = [c for c in choices if c.lower().replace("_", "-") == (old or "").lower().replace("_", "-")]
    for place, choice in enumerate(dict.fromkeys([*folded, *close, *choices[:8]])):
        texts[choice] = SET - 2.5 + 0.3 * place
    digits = re.match(r"-?\d+", old or "")
    if option.flag.type == "int" and digits:
        texts[digits.group(0)] = SET - 2.5
    default = option.action.default
    if isinstance(default, str | int | float) and not isinstance(default, bool):
        texts.setdefault(str(default), SET)
    if option.flag.type == "loads":
        texts["{}"] = SET + 1.0
    return [*out, *(Candidate((Edit("set", spelling, old, t),), field, t, c) for t, c in texts.items() if t != old)]
