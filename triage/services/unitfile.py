"""Unit files as systemd reads them, losslessly: each word of a command line keeps the text that it was written with. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_BLANK = " \t\n\r"
_SIMPLE = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, '"': 34, "'": 39, "s": 32}
_PLAIN = re.compile(r"[A-Za-z0-9_./:=,@+-]+\Z")
_PREFIX = "-@:+!|"
_LINE_END = re.compile(r"\r\n|\n\r|[\n\r\0]")  # as systemd ends a line, whatever the editor wrote
_REFERENCE = re.compile(r"\$(\$|\{([A-Za-z_][A-Za-z0-9_]*)\})")


@dataclass(frozen=True)
class Assignment:
    """`Key=value` of one section; `value` is the logical line (continuations joined), `line` where it begins, from 1."""

    section: str
    key: str
    value: str
    line: int


@dataclass(frozen=True)
class Word:
    """`raw`: as written, quotes and escapes included; `text`: unquoted and unescaped, `%` and `$` not yet expanded."""

    raw: str
    text: str


@dataclass(frozen=True)
class CommandLine:
    """One command of an Exec line: prefix characters, then the program and its arguments."""

    prefix: str
    words: tuple[Word, ...]

    @property
    def expands_variables(self) -> bool:
        return ":" not in self.prefix

    def render(self) -> str:
        """The words as written, one space between."""
        return self.prefix + " ".join(w.raw for w in self.words)


class UnitSyntaxError(ValueError):
    """A line that systemd would refuse, or that this parser does not read as systemd does."""


def parse_unit(text: str) -> tuple[Assignment, ...]:
    """Every assignment in order. Comment lines are passed over, inside a continuation too; a line without `=` is ignored."""
    found: list[Assignment] = []
    section, pending, began = "", None, 0
    for number, raw in enumerate(_LINE_END.split(text.removeprefix("\ufeff")), 1):
        line = raw.lstrip(_BLANK)
        if line[:1] in ("#", ";"):
            continue
        if pending is None:
            began = number
        line = line if pending is None else pending + line
        if _ends_open(line):
            pending = line[:-1] + " "
            continue
        pending = None
        section = _take_line(line, section, began, found)
    if pending is not None:
        _take_line(pending, section, began, found)
    return tuple(found)


def _take_line(line: str, section: str, number: int, found: list[Assignment]) -> str:
    line = line.strip(_BLANK)
    if line.startswith("["):
        return line[1:-1] if line.endswith("]") else ""
    key, equals, value = line.partition("=")
    if equals and section:
        found.append(Assignment(section, key.strip(_BLANK), value.strip(_BLANK), number))
    return section


def _ends_open(line: str) -> bool:
    """An odd number of backslashes at the end: the next line goes on."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def values_of(assignments: tuple[Assignment, ...], section: str, key: str) -> tuple[str, ...]:
    """Values of a key that collects, after the last empty assignment (which resets it)."""
    found: list[str] = []
    for one in assignments:
        if one.section == section and one.key == key:
            found = [*found, one.value] if one.value else []
    return tuple(found)


def parse_exec(value: str) -> tuple[CommandLine, ...]:
    """The commands of one Exec value; a lone `;` separates them. Raises UnitSyntaxError."""
    commands: list[CommandLine] = []
    at = 0
    while True:
        word, at = _next_word(value, at)
        if word is None:
            break
        prefix = word.raw[: len(word.raw) - len(word.raw.lstrip(_PREFIX))]
        if not word.text.startswith(prefix) or len(word.text) == len(prefix):
            raise UnitSyntaxError("the command has no program, or its prefix characters stand in quotes")
        words = [Word(word.raw[len(prefix) :], word.text[len(prefix) :])]
        while True:
            at = _skip_blank(value, at)
            if _is_separator(value, at, ";"):
                at += 1
                break
            if _is_separator(value, at, "\\;"):
                words.append(Word("\\;", ";"))
                at += 2
                continue
            word, at = _next_word(value, at)
            if word is None:
                break
            words.append(word)
        commands.append(CommandLine(prefix, tuple(words)))
    return tuple(commands)


def split_words(value: str) -> tuple[Word, ...]:
    """Words of Environment= and the like: the same quoting, no separators. Raises UnitSyntaxError."""
    words: list[Word] = []
    at = 0
    while True:
        word, at = _next_word(value, at)
        if word is None:
            return tuple(words)
        words.append(word)


def _skip_blank(value: str, at: int) -> int:
    while at < len(value) and value[at] in _BLANK:
        at += 1
    return at


def _is_separator(value: str, at: int, mark: str) -> bool:
    end = at + len(mark)
    return value.startswith(mark, at) and (end == len(value) or value[end] in _BLANK)


def _next_word(value: str, at: int) -> tuple[Word | None, int]:
    """The word at or after `at`, and where to go on; quotes may begin and end anywhere in a word."""
    at = start = _skip_blank(value, at)
    if at == len(value):
        return None, at
    out = bytearray()
    quote = ""
    while at < len(value):
        char = value[at]
        if char == "\\":
            at = _take_escape(value, at + 1, out)
            continue
        if quote:
            if char == quote:
                quote = ""
            else:
                out += char.encode("utf-8", "surrogateescape")
        elif char in "'\"":
            quote = char
        elif char in _BLANK:
            break
        else:
            out += char.encode("utf-8", "surrogateescape")
        at += 1
    if quote:
        raise UnitSyntaxError("a quote is not closed")
    return Word(value[start:at], out.decode("utf-8", "surrogateescape")), at


def _take_escape(value: str, at: int, out: bytearray) -> int:
    """What follows a backslash; one that systemd does not know stays as it is."""
    if at >= len(value):
        out += b"\\"
        return at
    char = value[at]
    if char in _SIMPLE:
        out.append(_SIMPLE[char])
        return at + 1
    for lead, digits, base in (("x", 2, 16), ("u", 4, 16), ("U", 8, 16), ("", 3, 8)):
        if lead and char != lead:
            continue
        first = at + len(lead)
        number = value[first : first + digits]
        allowed = "01234567" if base == 8 else "0123456789abcdefABCDEF"
        if len(number) < digits or any(c not in allowed for c in number):
            continue
        code = int(number, base)
        wide = lead in ("u", "U")
        if code == 0 or (not wide and code > 255) or code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            continue
        out += chr(code).encode() if wide else bytes([code])
        return first + digits
    out += b"\\" + char.encode("utf-8", "surrogateescape")
    return at + 1


# ---------------------------------------------------------------- expansion
def expand_specifiers(text: str, specifiers: Mapping[str, str]) -> str:
    """`%i` and the like; `%%` is a percent sign, and systemd leaves what it does not know. Raises UnitSyntaxError for a
    specifier that systemd knows but `specifiers` does not hold.
    """
    out: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char != "%" or at + 1 == len(text):
            out.append(char)
            at += 1
            continue
        name = text[at + 1]
        if name == "%":
            out.append("%")
        elif name in specifiers:
            out.append(specifiers[name])
        elif name in "aAbBcCdDEfgGhHiIjJlLmMnNopPqrRsStTuUvVwWyY":
            raise UnitSyntaxError(f"%{name} cannot be expanded here")
        else:
            out.append(f"%{name}")
        at += 2
    return "".join(out)


def expand_variables(text: str, env: Mapping[str, str]) -> tuple[str, ...]:
    """The words that one argument becomes: `$NAME` alone is split at spaces (none if unset), `${NAME}` is put in, `$$` is `$`."""
    if len(text) > 1 and text[0] == "$" and text[1] not in "{$":
        return tuple(w.text for w in _split_relaxed(env.get(text[1:], "")))
    return (_REFERENCE.sub(lambda m: "$" if m[1] == "$" else env.get(m[2], ""), text),)


def _split_relaxed(value: str) -> tuple[Word, ...]:
    """A variable's words: quotes group, a backslash takes the next character as it is, an open quote ends at the end."""
    words: list[Word] = []
    at = 0
    while (at := _skip_blank(value, at)) < len(value):
        start, quote, out = at, "", ""
        while at < len(value) and (quote or value[at] not in _BLANK):
            char = value[at]
            if char == "\\" and at + 1 < len(value):
                at += 1
                out += value[at]
            elif quote and char == quote:
                quote = ""
            elif not quote and char in "'\"":
                quote = char
            else:
                out += char
            at += 1
        words.append(Word(value[start:at], out))
    return tuple(words)


def names_variables(text: str) -> tuple[str, ...]:
    """Variables that an argument refers to."""
    if len(text) > 1 and text[0] == "$" and text[1] not in "{$":
        return (text[1:],)
    return tuple(m[2] for m in _REFERENCE.finditer(text) if m[2])


# ---------------------------------------------------------------- writing
def quote_word(text: str, variables: bool = True) -> str:
    """The text as one word of an Exec line (`variables`: `$` is special there) or, with False, of Environment=.

    Raises UnitSyntaxError for a NUL.
    """
    if "\0" in text:
        raise UnitSyntaxError("a word cannot hold a NUL character")
    if _PLAIN.match(text):
        return text
    out: list[str] = []
    for char in text:
        code = ord(char)
        if 0xDC80 <= code <= 0xDCFF:
            out.append(f"\\x{code - 0xDC00:02x}")
        elif code < 32 or code == 127:
            out.append({"\n": "\\n", "\t": "\\t"}.get(char, f"\\x{code:02x}"))
        elif 0x80 <= code < 0xA0 or code in (0x2028, 0x2029):
            out.append(f"\\u{code:04x}")
        elif char in '\\"':
            out.append("\\" + char)
        elif char == "%" or (char == "$" and variables):
            out.append(char * 2)
        else:
            out.append(char)
    return '"' + "".join(out) + '"'


def parse_env_file(text: str) -> dict[str, str]:
    """EnvironmentFile= text: `NAME=value` lines, shell-like quotes, `\\` continuation, comments by `#` or `;`."""
    env: dict[str, str] = {}
    at, size = 0, len(text)
    while at < size:
        while at < size and text[at] in _BLANK:
            at += 1
        if at < size and text[at] in "#;":
            while at < size and text[at] != "\n":
                at += 2 if text[at] == "\\" else 1
            continue
        key_end = at
        while key_end < size and text[key_end] not in "=\n":
            key_end += 1
        if key_end >= size or text[key_end] == "\n":
            at = key_end + 1
            continue
        key = text[at:key_end].strip(_BLANK)
        value, at = _env_value(text, key_end + 1)
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
            env[key] = value
    return env


def _env_value(text: str, at: int) -> tuple[str, int]:
    size = len(text)
    while at < size and text[at] in " \t\r":
        at += 1
    out, quote, keep = "", "", 0
    while at < size:
        char = text[at]
        if quote:
            if char == quote:
                quote, keep = "", len(out)
            elif char == "\\" and quote == '"' and at + 1 < size:
                at += 1
                if text[at] in '"\\`$':
                    out += text[at]
                elif text[at] != "\n":
                    out += "\\" + text[at]
            else:
                out += char
        elif char == "\n":
            at += 1
            break
        elif char == "\\" and at + 1 < size:
            at += 1
            if text[at] != "\n":
                out += text[at]
                keep = len(out)
        elif char in "'\"" and len(out) == keep:
            quote = char
        else:
            out += char
            if char not in _BLANK:
                keep = len(out)
        at += 1
    return out if quote else out[:keep] + out[keep:].rstrip(_BLANK), at
