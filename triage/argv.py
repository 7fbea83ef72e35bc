"""Argument lists as people type them: pure edits on words. Knows no shell and no unit file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from triage.model import Edit

# "-1" and "-.5" are values, "-x" and "--x" are flags; a lone "-" is a value
_FLAG = re.compile(r"--|-[A-Za-z]")
_NUMBER = re.compile(r"-\d|-\.\d")


@dataclass(frozen=True)
class EditedWord:
    """One word of the result. `source` is its place in the words before the edits; None: the word is new or changed."""

    text: str
    source: int | None


def is_flag(word: str) -> bool:
    """Whether a word can only be a flag, never the value of the one before."""
    return bool(_FLAG.match(word))


def find_flag(args: Sequence[str], name: str) -> tuple[tuple[int, int], ...]:
    """Where the flag stands, as [first, end) of the flag's word and its values; all occurrences, `--flag=value` too."""
    found: list[tuple[int, int]] = []
    for i, word in enumerate(args):
        if word.startswith(f"{name}="):
            found.append((i, i + 1))
        elif word == name:
            end = i + 1
            while end < len(args) and not is_flag(args[end]):
                end += 1
            found.append((i, end))
    return tuple(found)


def edit_args(args: Sequence[str], edits: Sequence[Edit]) -> tuple[str, ...]:
    """The words after the edits, in order. `env` edits are not about words and are passed over.

    add: `--flag value` (two words) or a switch, at the end. remove: every occurrence with all its values. set: the last
    occurrence, in the form it has (`--flag=value` or two words); several values in place take `new` split at spaces.
    Raises ValueError where the flag of a remove or set does not stand in the words.
    """
    return tuple(word.text for word in edit_words(args, edits))


def edit_words(args: Sequence[str], edits: Sequence[Edit]) -> tuple[EditedWord, ...]:
    """As edit_args, and tells which words are the old ones, for callers that keep more than the text of each word."""
    words = [EditedWord(text, i) for i, text in enumerate(args)]
    for edit in edits:
        if edit.action == "env":
            continue
        if edit.action == "add":
            words += _spell(edit.name, None if edit.new is None else [edit.new])
            continue
        spans = find_flag([w.text for w in words], edit.name)
        if not spans:
            raise ValueError(f"{edit.name} does not stand in the launch")
        if edit.action == "remove":
            for first, end in reversed(spans):
                del words[first:end]
            continue
        first, end = spans[-1]
        flag, values = words[first], words[first + 1 : end]
        if edit.new is None:
            new = [flag if flag.text == edit.name else EditedWord(edit.name, None)]
        elif flag.text != edit.name:
            new = [EditedWord(f"{edit.name}={edit.new}", None)]
        else:
            spelled = _spell(edit.name, edit.new.split() if len(values) > 1 else [edit.new])
            new = [flag, *spelled[1:]] if len(spelled) > 1 else spelled
        words[first:end] = [w if w.source is not None else _kept(w, words[first:end]) for w in new]
    return tuple(words)


def _spell(name: str, values: list[str] | None) -> list[EditedWord]:
    """The words of a new flag; a value that would be taken for a flag goes behind `=`."""
    if values is None:
        return [EditedWord(name, None)]
    if len(values) == 1 and values[0].startswith("-") and values[0] != "-" and not _NUMBER.match(values[0]):
        return [EditedWord(f"{name}={values[0]}", None)]
    return [EditedWord(name, None), *(EditedWord(v, None) for v in values)]


def _kept(word: EditedWord, old: Sequence[EditedWord]) -> EditedWord:
    """The old word where it says the same: a set to the same value changes nothing."""
    return next((o for o in old if o.text == word.text), word)
