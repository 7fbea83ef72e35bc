"""The text of a drop-in that changes some words of a unit's command and nothing else. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from triage.argv import EditedWord
from triage.errors import ServiceError
from triage.model import Edit
from triage.services.unitfile import (
    CommandLine,
    UnitSyntaxError,
    Word,
    expand_specifiers,
    expand_variables,
    parse_exec,
    parse_unit,
    quote_word,
    split_words,
    values_of,
)

HEADER = "# Written by triage. `triage undo` removes it.\n"
BASENAME = "zz-triage.conf"
_WRAP = 100  # characters


@dataclass(frozen=True)
class NewWord:
    """One word of the new command; `text` is set where triage wrote it."""

    raw: str
    text: str | None = None


def choose_basename(others: Sequence[str]) -> str:
    """A name that systemd reads after every other drop-in's name (they are sorted by bytes). Raises ServiceError."""
    last = max((name.encode("utf-8", "surrogateescape") for name in others), default=b"")
    name = BASENAME
    while name.encode() <= last:
        name = f"~{name}"
        if len(name) > 64:
            raise ServiceError(f"no drop-in can be named so that it is read after {last.decode('utf-8', 'replace')!a}")
    return name


def rebuild_words(
    words: Sequence[Word], expanded: Sequence[tuple[str, ...]], kept: int, edited: Sequence[EditedWord], variables: bool
) -> tuple[NewWord, ...]:
    """The command's words after edits of its arguments. `expanded` gives what each word becomes, `kept` how many of these
    arguments stand before the edited ones; `edited` counts from there. A word all of whose arguments stay keeps its raw text;
    one of which only some stay is spelled out.
    """
    target = [EditedWord("", i) for i in range(kept)] + [
        EditedWord(w.text, None if w.source is None else w.source + kept) for w in edited
    ]
    flat = [text for texts in expanded for text in texts]
    owner = [i for i, texts in enumerate(expanded) for _ in texts]
    begins = {i: owner.index(i) for i in set(owner)}
    out: list[NewWord] = []
    at = emitted = 0
    while at < len(target):
        source = target[at].source
        if source is None:
            out.append(NewWord(quote_word(target[at].text, variables), target[at].text))
            at += 1
            continue
        index = owner[source]
        # words that become no argument at all (an unset variable) keep their place
        out += [NewWord(words[i].raw) for i in range(emitted, index) if not expanded[i]]
        emitted = max(emitted, index + 1)
        whole = [begins[index] + k for k in range(len(expanded[index]))]
        if [w.source for w in target[at : at + len(whole)]] == whole:
            out.append(NewWord(words[index].raw))
            at += len(whole)
        else:
            out.append(NewWord(quote_word(flat[source], variables), flat[source]))
            at += 1
    out += [NewWord(words[i].raw) for i in range(emitted, len(words)) if not expanded[i]]
    return tuple(out)


def render_command(prefix: str, words: Sequence[NewWord]) -> str:
    """One Exec value; a long one goes on in further lines, one flag on each."""
    raws = [w.raw for w in words]
    line = prefix + " ".join(raws)
    if len(line) <= _WRAP:
        return line
    return prefix + raws[0] + "".join(f" \\\n  {raw}" if raw.startswith("--") else f" {raw}" for raw in raws[1:])


def render_dropin(exec_values: Sequence[str], environment: Sequence[str], unset: Sequence[str]) -> str:
    """The file. `environment` holds `K=V` texts; without exec values the command stays the unit's own."""
    lines = [HEADER, "[Service]\n"]
    if exec_values:
        lines += ["ExecStart=\n", *(f"ExecStart={value}\n" for value in exec_values)]
    # the value keeps its quotes in one word: Environment="K=V"
    lines += [f"Environment={quote_word(entry, variables=False)}\n" for entry in environment]
    lines += [f"UnsetEnvironment={name}\n" for name in unset]
    return "".join(lines)


def carry_environment(old_text: str, edits: Sequence[Edit]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(Environment entries, names to unset) of an earlier drop-in of ours, with the env edits on top."""
    old = parse_unit(old_text)
    entries = {
        name: value
        for v in values_of(old, "Service", "Environment")
        for name, _, value in (expand_specifiers(w.text, {}).partition("=") for w in split_words(v))
    }
    unset = dict.fromkeys(w.text for v in values_of(old, "Service", "UnsetEnvironment") for w in split_words(v))
    for edit in edits:
        if edit.action != "env":
            continue
        entries.pop(edit.name, None)
        unset.pop(edit.name, None)
        if edit.new is None:
            unset[edit.name] = None
        else:
            entries[edit.name] = edit.new
    return tuple(f"{k}={v}" for k, v in entries.items()), tuple(unset)


def verify_command(value: str, command: CommandLine, words: Sequence[NewWord]) -> None:
    """Raises ServiceError unless the written value reads back as exactly these words."""
    try:
        joined = values_of(parse_unit(f"[Service]\nExecStart={value}\n"), "Service", "ExecStart")
        read = parse_exec(joined[0]) if len(joined) == 1 else ()
        fine = len(read) == 1 and read[0].prefix == command.prefix and [w.raw for w in read[0].words] == [w.raw for w in words]
        for one, word in zip(read[0].words if fine else (), words, strict=False):
            if word.text is not None:
                text = expand_specifiers(one.text, {})
                fine = fine and (expand_variables(text, {}) if command.expands_variables else (text,)) == (word.text,)
    except UnitSyntaxError as error:
        raise ServiceError(f"the new command cannot be written into a unit: {error}") from error
    if not fine:
        raise ServiceError("the new command would not read back from a unit as it was meant; nothing is written")
