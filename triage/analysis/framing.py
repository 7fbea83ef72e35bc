"""What stands in front of a log message on its line, and what must not reach a display.

A layer is one prefix: a stamp that a logger writes once for a record, or a tag that a transport (journal, docker, ray)
writes on every line. Some layers can be either; `choose_layers` decides that once for a file, from the lines that
only ever continue a record: the frame lines of tracebacks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

PREFIX_CHARS = 512  # prefixes are looked for in this much of a line; longer ones are content
_MAX_LAYERS = 6

_ESCAPES = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]{0,256}[ -/]{0,16}[@-~]?"  # CSI
    "|(?:\x1b\\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)?"  # OSC: titles, hyperlinks
    "|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c]*(?:\x1b\\\\|\x9c)?"  # DCS, SOS, PM, APC
    "|\x1b[ -/]{0,16}[0-~]?"
)
_HIDDEN = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)

_DATE = r"\d{4}[-/]\d\d[-/]\d\d"
_TIME = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_ZONE = r"(?:Z|[+-]\d\d:?\d\d)?"
_HOST = r"(?:[^\s\[\]:]{1,255} )?(?P<stream>[^\s\[\]:]{1,64}\[\d{1,10}\]|kernel): ?"
_JOURNAL_CLOCK = (
    r"(?:[^\W\d]{1,12}\.? {1,2}\d{1,2} \d\d:\d\d:\d\d(?:\.\d{1,6})?"  # short, short-precise; the month in any language
    rf"|{_DATE}T{_TIME}[+-]\d\d:?\d\d"  # short-iso, and syslog files
    rf"|(?:[^\W\d]{{1,12}}\.? )?{_DATE} {_TIME} (?!DEBUG|INFO|WARN|ERROR|CRIT|FATAL)[A-Z+-][A-Z0-9]{{1,5}}"  # short-full
    r"|\d{9,11}\.\d{6}"  # short-unix
    r"|\[ {0,12}\d{1,12}\.\d{6}\])"  # short-monotonic
)
_LEVELS = r"DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL|TRACE|SUCCESS|NOTICE"

# Every pattern is anchored and made of bounded or disjoint parts, so none can be made to backtrack far.
_PATTERNS: tuple[tuple[str, str], ...] = (
    ("journal", rf"(?P<clock>{_JOURNAL_CLOCK}) {_HOST}"),
    ("cri", rf"(?P<clock>{_DATE}T{_TIME}{_ZONE}) (?P<stream>stdout|stderr) [FP] "),
    ("pod", r"\[(?P<stream>pod/[^\]\s]{1,300})\] ?"),
    ("ray", r"\((?P<stream>(?:[\w.:<>-]{1,120} )?pid=\d{1,10}(?:, ip=[\w.:%-]{1,64})?)\) ?"),
    ("launcher", r"\[(?P<stream>default\d{1,6}|\d{1,6},\d{1,6})\](?:<std(?:out|err)>)?:"),
    ("torchrank", r"\[(?P<rank>rank\d{1,6})\]: ?(?!\[)"),
    (
        "sglang",
        rf"\[(?P<clock>{_DATE}[ T]{_TIME})(?P<tags>(?: [A-Za-z_]{{1,24}}(?:=?\d{{1,6}}|\[\d{{1,6}}\]|(?<=_server))){{0,8}})\] ?",
    ),
    ("gpu", r"\[(?P<tags>gpu(?:_id)?=\d{1,6})\] ?"),
    ("ranktag", r"\[(?P<tags>(?:[A-Z_]{2,12}\d{1,6})(?: [A-Z_]{2,12}\d{1,6}){0,7})\] ?"),
    (
        "loguru",
        rf"(?P<clock>{_DATE} {_TIME}) \| (?P<level>[A-Z]{{4,8}}) {{0,8}}\| [^\s|]{{1,200}} -(?: |$)",
    ),
    (
        "pylogging",
        rf"(?P<clock>{_DATE} {_TIME})(?: - [\w.<>]{{1,120}})? - (?P<level>{_LEVELS}) -(?: |$)",
    ),
    ("collector", rf"(?P<level>{_LEVELS}) {{1,8}}(?P<clock>{_DATE}[ T]{_TIME}{_ZONE})(?: |$)"),
    ("vllm", rf"(?P<level>{_LEVELS}) (?P<clock>\d\d-\d\d {_TIME}) \[?[\w./]{{1,80}}\.py:\d{{1,6}}\] "),
    ("iso", rf"\[?(?P<clock>{_DATE}[ T]{_TIME}{_ZONE})\]?(?: |$)"),
    ("rich", rf"\[(?P<clock>\d\d/\d\d/\d\d {_TIME})\] (?P<level>{_LEVELS}) {{1,8}}"),
    ("short", rf"\[(?P<clock>\d\d-\d\d {_TIME})(?P<tags>(?: [A-Za-z_]{{1,24}}=?\d{{1,6}}){{0,8}})\] ?"),
    ("level", rf"(?P<level>{_LEVELS}):(?: {{1,8}}|(?=[\w.]{{1,64}}:))"),
    ("compose", r"(?P<stream>[A-Za-z0-9][\w.-]{0,62}) {0,40}\| ?"),
    ("slurm", r"(?P<stream>\d{1,5}): ?"),
    ("quote", r">(?: |$)(?!File )"),
)
_COMPILED = tuple((name, re.compile(pattern)) for name, pattern in _PATTERNS)
# What a layer can begin with: "d"igit, "a" letter, or the character itself. Spares most lines most of the patterns.
_BEGINS = {
    "journal": "da[",
    "cri": "d",
    "pod": "[",
    "ray": "(",
    "launcher": "[",
    "torchrank": "[",
    "sglang": "[",
    "gpu": "[",
    "ranktag": "[",
    "loguru": "d",
    "pylogging": "d",
    "collector": "a",
    "vllm": "a",
    "iso": "d[",
    "rich": "[",
    "short": "[",
    "level": "a",
    "compose": "da",
    "slurm": "d",
    "quote": ">",
}
TRANSPORTS = frozenset({"journal", "cri", "pod", "ray", "torchrank", "launcher"})  # on every line by their nature
_WEAK = frozenset({"compose", "slurm", "quote"})  # looks like content; believed only where most lines have it
_LOGGERS = frozenset({"sglang", "loguru", "pylogging", "vllm"})  # a logger's own stamp, even where every line has it
_NEVER = frozenset({"level"})  # once a record by its nature
_SUPERVISOR = re.compile(rf"{_DATE} {_TIME} DEBG '[^']{{1,200}}' std(?:out|err) output:\s*$")
JSON_MARK = re.compile(r"\{\s*\"")  # where a JSON object may begin
_BAR = re.compile(r"\d{1,3}%(?:\||  ?Completed| \d)")
_FRAME_LINE = re.compile(r'\s*(?:\| *)?File "[^"]+", line \d')


@dataclass(frozen=True)
class Line:
    """One line without its framing. `stream` and `rank` say who wrote it; `stamp` is None where no record begins."""

    text: str
    stamp: str | None = None
    rank: str | None = None
    stream: str = ""
    level: str | None = None
    tick: str | None = None  # clock of a per-line layer that is a stamp elsewhere; equal ticks belong together
    single: bool = False  # written by a process that never continues a record on the next line (systemd, the kernel)
    empty: bool = False  # framing without content, to be dropped


def clean_text(text: str) -> str:
    """Without escape sequences, control, bidi and zero-width characters; tabs become spaces."""
    if text.isprintable():
        return text
    return _HIDDEN.sub("", _ESCAPES.sub("", text)).replace("\t", "    ")


def split_carriage(text: str) -> list[str]:
    """What a terminal would still show of a line with carriage returns; all but progress where one holds a traceback header."""
    if "\r" not in text:
        return [text]
    parts = [part for part in text.split("\r") if part.strip()]
    if len(parts) > 1 and "Traceback (most recent call last)" in text:
        return [part for part in parts if not _BAR.search(part)] or parts
    return parts[-1:] or [""]


_Table = dict[str, tuple[tuple[str, re.Pattern[str]], ...]]


def _make_table(allowed: frozenset[str]) -> _Table:
    return {
        begin: tuple((name, pattern) for name, pattern in _COMPILED if name in allowed and begin in _BEGINS[name])
        for begin in "da[(>"
    }


def is_prefix(text: str) -> bool:
    """Whether all of `text` is layers: what a transport or a logger writes before a message."""
    return not _peel(text[:PREFIX_CHARS], _ALL)[1].strip()


def name_layers(text: str) -> frozenset[str]:
    """The names of the layers that a line might begin with; weak ones with a "?" at the end."""
    return frozenset(f"{name}?" if name in _WEAK else name for name, _ in _peel(text[:PREFIX_CHARS], _ALL)[0])


def _peel(text: str, table: _Table) -> tuple[list[tuple[str, re.Match[str]]], str]:
    layers: list[tuple[str, re.Match[str]]] = []
    head, rest = text[:PREFIX_CHARS], text[PREFIX_CHARS:]
    while head and len(layers) < _MAX_LAYERS:
        first = head[0]
        begin = "d" if first.isdigit() else "a" if first.isalpha() else first
        for name, pattern in table.get(begin, ()):
            match = pattern.match(head)
            if match:
                layers.append((name, match))
                head = head[match.end() :]
                break
        else:
            break
    return layers, head + rest


_ALL = _make_table(frozenset(_BEGINS))


def strip_layers(text: str) -> str:
    """The text behind all that might be layers."""
    return _peel(text, _ALL)[1]


_RAY_REPEAT = re.compile(r" ?\[repeated \d{1,9}x across cluster\](?: \(Ray deduplicates .*)?$")


@dataclass(frozen=True)
class Framing:
    """The layers of one file: those in `table` are stripped, those in `each_line` do not begin a record."""

    table: _Table
    each_line: frozenset[str]

    def split(self, text: str) -> Line:
        """`text` (already clean) without its layers."""
        if " output:" in text[:PREFIX_CHARS] and _SUPERVISOR.match(text[:PREFIX_CHARS]):
            return Line("", empty=True)
        layers, rest = _peel(text, self.table)
        if rest.endswith("   "):  # a screen's padding
            rest = rest.rstrip()
        if not layers:
            return Line(rest)
        stamp: str | None = None
        tick: str | None = None
        level: str | None = None
        ranks: list[str] = []
        streams: list[str] = []
        for name, match in layers:
            found = match.groupdict()
            tags = (found.get("tags") or found.get("rank") or "").strip()
            if tags:
                ranks.append(tags)
            level = found.get("level") or level
            clock = found.get("clock") or match.group(0).strip()
            if name in self.each_line:
                streams.append(found.get("stream") or tags)
                if name in _LOGGERS:
                    tick = clock
            else:
                stamp = stamp or clock
        stream = "/".join(s for s in streams if s)
        single = any(name == "journal" and m["stream"].split("[")[0] in ("systemd", "kernel") for name, m in layers)
        if stamp is not None and not rest.strip():
            stamp = None
        if rest.endswith(("]", ")")) and " across cluster]" in rest[-400:]:
            rest = rest[:-400] + _RAY_REPEAT.sub("", rest[-400:])
        return Line(rest, stamp, ranks[-1] if ranks else None, stream, _level_name(level), tick, single)


def choose_layers(sample: Iterable[str]) -> Framing:
    """The framing of a file, from clean lines of it.

    A layer that also stands in front of traceback frames is written on every line. Without frames, a weak layer counts
    when three lines in five have it, another when nearly all have it and indented lines too.
    """
    lines = frames = 0
    seen: dict[str, int] = {}
    before_indent: set[str] = set()
    on_frames: dict[str, int] = {}
    for text in sample:
        if not text.strip():
            continue
        lines += 1
        layers, rest = _peel(text, _ALL)
        names = {name for name, _ in layers}
        is_frame = bool(_FRAME_LINE.match(rest[:PREFIX_CHARS]))
        frames += is_frame
        for name in names:
            seen[name] = seen.get(name, 0) + 1
            if rest.startswith("  "):
                before_indent.add(name)
            if is_frame:
                on_frames[name] = on_frames.get(name, 0) + 1
    each_line = set(TRANSPORTS)
    for name, count in seen.items():
        if name in _NEVER:
            continue
        if frames:
            every = on_frames.get(name, 0) * 2 >= frames
        elif name in _WEAK:
            every = count * 5 >= lines * 3
        else:
            every = name in before_indent and count * 20 >= lines * 19
        if every:
            each_line.add(name)
    weak = _WEAK - each_line
    return Framing(_make_table(frozenset(_BEGINS) - weak), frozenset(each_line))


def _level_name(level: str | None) -> str | None:
    if level is None:
        return None
    return {"WARN": "WARNING", "FATAL": "CRITICAL", "NOTICE": "INFO", "SUCCESS": "INFO", "TRACE": "DEBUG"}.get(level, level)
