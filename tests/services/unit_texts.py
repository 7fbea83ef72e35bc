"""Units as people may write them, made together with what they mean: each word's spelling comes with the text it stands for.

So the meaning is known without any parser. It is that of systemd.service(5) and systemd.unit(5): quotes, C escapes, `%`
specifiers, `$NAME` alone (split) and `${NAME}` inside (not split), `$$`, `%%`, `;` alone, continuation lines with comments in
between, prefixes, resets by an empty assignment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from triage.model import Edit

NAMES = ("--port", "--model", "--json-text", "--size", "--mode", "--list", "--path")
ENTRY = ("-m", "srv.launch")
ENV = {"ONE": "first value", "TWO": "2", "SPACED": "two words", "ARGS": "--alpha 2 'quoted word' --beta"}
SPLIT = {"$ARGS": ("--alpha", "2", "quoted word", "--beta"), "$SPACED": ("two", "words"), "$UNSET": ()}
ENVIRONMENT = "Environment=\"ONE=first value\" TWO=2\nEnvironment='SPACED=two words' \"ARGS=--alpha 2 'quoted word' --beta\"\n"


@dataclass(frozen=True)
class MadeWord:
    """`raw`: as written; `loaded`: as systemd has it after quotes, escapes and specifiers; `final`: the arguments it becomes."""

    raw: str
    loaded: str
    final: tuple[str, ...]


@dataclass(frozen=True)
class MadeOption:
    """One flag of the server: where its words stand among the server's arguments, [first, end), and how many values it has."""

    name: str
    joined: bool  # --name=value
    first: int
    end: int


@dataclass(frozen=True)
class MadeUnit:
    """`files`: the fragment's text, then drop-ins by name; `commands`: prefix and words of each command that acts, in order."""

    fragment: str
    dropins: tuple[tuple[str, str], ...]
    commands: tuple[tuple[str, tuple[MadeWord, ...]], ...]
    server: int  # which of the commands
    args: tuple[str, ...]  # what the server gets behind its entry
    options: tuple[MadeOption, ...]

    @property
    def argv(self) -> tuple[str, ...]:
        prefix, words = self.commands[self.server]
        if "@" in prefix:
            words = (words[0], *words[2:])
        return tuple(t for w in words for t in w.final)


def _same(text: str) -> tuple[str, str, str]:
    return text, text, text


PLAIN = st.text("abcXYZ019._/:=,+", min_size=1, max_size=6).map(_same)
ODD = st.sampled_from(
    [
        (r"\x41", "A", "A"), (r"\101", "A", "A"), (r"\u00e9", "é", "é"), (r"\s", " ", " "), (r"\\", "\\", "\\"),
        (r"\t", "\t", "\t"), (r"\n", "\n", "\n"), (r"\'", "'", "'"), (r"\"", '"', '"'), ("%%", "%", "%"), ("%%n", "%n", "%n"),
        ("%t", "/run", "/run"),
        ("$$", "$$", "$"), ("$$$$", "$$$$", "$$"), ("${TWO}", "${TWO}", "2"), ("${ONE}", "${ONE}", "first value"),
        ("${UNSET}", "${UNSET}", ""), ("a$5", "a$5", "a$5"), _same("é日"), _same("{"), _same("}"), _same("#"), _same("a;b"),
        _same("[1]"), ("%S", "/var/lib", "/var/lib"),
    ]
)  # fmt: skip
IN_DOUBLE = st.sampled_from([_same(t) for t in (" ", "  ", "it's", " ; ", "#x", "\t", "{", "}", ": ")]) | ODD | PLAIN
IN_SINGLE = st.sampled_from([_same(t) for t in (" ", '"', '{"a": ', "}", " ; ", "[1, -2]")]) | ODD | PLAIN


def _join(parts: Sequence[tuple[str, str, str]], quote: str = "") -> tuple[str, str, str]:
    raw, loaded, final = ("".join(p[i] for p in parts) for i in range(3))
    return quote + raw + quote, loaded, final


DOUBLE = st.lists(IN_DOUBLE, max_size=4).map(lambda parts: _join(parts, '"'))
SINGLE = st.lists(IN_SINGLE, max_size=4).map(lambda parts: _join(parts, "'"))
PIECES = st.lists(PLAIN | ODD | DOUBLE | SINGLE, max_size=4)
HEADS = st.sampled_from([_same("v"), _same("7"), _same("/srv"), ('"q"', "q", "q"), ("${TWO}", "${TWO}", "2"), ("$$", "$$", "$")])


@st.composite
def values(draw: st.DrawFn, colon: bool) -> MadeWord:
    """A word that no parser takes for a flag; `colon`: variables are not expanded in this command."""
    special = draw(st.integers(0, 9))
    if special == 0:
        raw = draw(st.sampled_from(["-1", "-.5", "''", '""', r"\;", '";"']))
        text = {"''": "", '""': "", r"\;": ";", '";"': ";"}.get(raw, raw)
        return MadeWord(raw, text, (text,))
    if special == 1:
        raw = draw(st.sampled_from(["$SPACED", '"$SPACED"', "$UNSET"]))
        text = raw.strip('"')
        return MadeWord(raw, text, (text,) if colon else SPLIT[text])
    raw, loaded, final = _join([draw(HEADS), *draw(PIECES)])
    return MadeWord(raw, loaded, (loaded if colon else final,))


def plain_word(text: str) -> st.SearchStrategy[MadeWord]:
    """One text in some of its spellings."""
    spellings = [text, f'"{text}"', f"'{text}'", f'{text[:3]}"{text[3:]}"', f"{text[:2]}\\x{ord(text[2]):02x}{text[3:]}"]
    return st.sampled_from(spellings).map(lambda raw: MadeWord(raw, text, (text,)))


@st.composite
def servers(draw: st.DrawFn) -> tuple[str, tuple[MadeWord, ...], tuple[str, ...], tuple[MadeOption, ...]]:
    """Prefix, words, arguments behind the entry, options."""
    prefix = draw(st.sampled_from(["", "", "", "-", "+", "!", ":", "@", "-:", "-@", "!!", ":@"]))
    colon = ":" in prefix
    words = [draw(plain_word("/usr/bin/python3"))]
    if "@" in prefix:
        words.append(MadeWord("shown-name", "shown-name", ("shown-name",)))
    words += [MadeWord(w, w, (w,)) for w in ENTRY]
    args: list[str] = []
    options: list[MadeOption] = []
    for _ in range(draw(st.integers(1, 6))):
        kind = draw(st.integers(0, 6))
        if kind == 0:
            raw = draw(st.sampled_from(["$ARGS", "'$ARGS'", "$UNSET"]))
            text = raw.strip("'")
            if colon:
                continue
            words.append(MadeWord(raw, text, SPLIT[text]))
            args += SPLIT[text]
            continue
        name, first = draw(st.sampled_from(NAMES)), len(args)
        if kind == 1:
            raw, loaded, final = _join([_same(f"{name}="), *draw(PIECES)])
            words.append(MadeWord(raw, loaded, (loaded if colon else final,)))
        else:
            words.append(draw(plain_word(name)))
            words += [draw(values(colon)) for _ in range(draw(st.sampled_from([0, 1, 1, 1, 2])))]
        args = [t for w in words[len(ENTRY) + 1 + ("@" in prefix) :] for t in w.final]
        options.append(MadeOption(name, kind == 1, first, len(args)))
    return prefix, tuple(words), tuple(args), tuple(options)


SIBLINGS = st.sampled_from(
    [
        ("", (MadeWord("/bin/true", "/bin/true", ("/bin/true",)), MadeWord('"a b"', "a b", ("a b",)))),
        ("-", (MadeWord("/bin/echo", "/bin/echo", ("/bin/echo",)), MadeWord("%%x", "%x", ("%x",)), MadeWord("$$", "$$", ("$",)))),
    ]
)
GAPS = st.sampled_from([" ", " ", " ", "  ", "\t", " \\\n", " \\\n  ", "\\\n\t", " \\\n# a comment\n  ", " \\\n; another \\\n "])
NOISE = st.sampled_from(
    ["", "", "# comment with ExecStart=/no\n", "\n", "; other\n", "Restart=no\n", "Nonsense\n", "X-Own=\\\n y\n"]
)


@st.composite
def units(draw: st.DrawFn) -> MadeUnit:
    """A whole unit: fragment, drop-ins, several commands in one value or in several."""
    prefix, words, args, options = draw(servers())
    before, after = draw(st.lists(SIBLINGS, max_size=1)), draw(st.lists(SIBLINGS, max_size=1))
    commands = [*before, (prefix, words), *after]

    def write(command: tuple[str, tuple[MadeWord, ...]]) -> str:
        text = command[0] + command[1][0].raw
        for word in command[1][1:]:
            text += draw(GAPS) + word.raw
        return text

    lines, pending = "", ""
    for i, command in enumerate(commands):
        pending += (" ; " if pending else "") + write(command)
        if i + 1 == len(commands) or draw(st.booleans()):
            lines += f"{draw(NOISE)}{draw(st.sampled_from(['ExecStart=', 'ExecStart = ', '  ExecStart=  ']))}{pending}\n"
            pending = ""
    kind = "Type=oneshot\n"
    head = draw(
        st.sampled_from(["", "[Unit]\nDescription=a %n $x 'unclosed\n", "# top\n\n[Unit]\nAfter=a.service \\\n b.service\n"])
    )
    tail = draw(st.sampled_from(["", "\n[Install]\nWantedBy=multi-user.target\n", "[X-Own]\nExecStart=/no\n"]))
    dropins: tuple[tuple[str, str], ...] = ()
    match draw(st.integers(0, 3)):
        case 0:
            service = f"{kind}{ENVIRONMENT}ExecStart=/bin/false old\n"
            dropins = (("10-own.conf", f"[Service]\nExecStart=\n{lines}"),)
        case 1:
            service = f"{kind}{lines}"
            dropins = (("20-env.conf", f"[Service]\n{ENVIRONMENT}"), ("zz-last.conf", "# nothing\n[Service]\nNice=1\n"))
        case _:
            service = f"{kind}{ENVIRONMENT}{lines}"
    fragment = f"{head}[Service]\n{service}{tail}"
    if draw(st.integers(0, 7)) == 0:
        fragment = fragment.replace("\n", "\r\n")
        dropins = tuple((name, text.replace("\n", "\r\n")) for name, text in dropins)
    if draw(st.integers(0, 9)) == 0:
        fragment = fragment.rstrip("\r\n")
    return MadeUnit(fragment, dropins, tuple(commands), len(before), args, options)


SPECIAL = st.sampled_from(
    ["%n", "%%", "%", "$ONE", "${TWO}", "$$", "$", "\\", "\\x41", "'", '"', ";", " ", "\n", "\t", "#", "é", "="]
)
ANY_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
NEW_VALUES = (ANY_TEXT | st.lists(SPECIAL, max_size=5).map("".join)).map(lambda text: f"n{text}")


@st.composite
def edited_units(draw: st.DrawFn) -> tuple[MadeUnit, Edit, tuple[str, ...]]:
    """A unit, an edit of one flag, and the server's arguments after it, worked out from how the unit was made."""
    unit = draw(units())
    args = list(unit.args)
    last = {o.name: o for o in unit.options}
    settable = [o for o in last.values() if o.joined or o.end - o.first == 2]
    kind = draw(st.sampled_from(["add", "remove", "set"]))
    if kind == "set" and settable:
        option, new = draw(st.sampled_from(settable)), draw(NEW_VALUES)
        args[option.first : option.end] = [f"{option.name}={new}"] if option.joined else [option.name, new]
        return unit, Edit("set", option.name, None, new), tuple(args)
    if kind == "remove" and unit.options:
        name = draw(st.sampled_from(unit.options)).name
        gone = {i for o in unit.options if o.name == name for i in range(o.first, o.end)}
        return unit, Edit("remove", name), tuple(a for i, a in enumerate(args) if i not in gone)
    new = draw(NEW_VALUES)
    return unit, Edit("add", "--added", None, new), (*args, "--added", new)
