"""Lines that a terminal, a person's paste or an escape has torn or joined -> the lines as they were written.

A terminal's scrollback cuts lines at its width; Markdown eats underscores, tags and line ends; some tools write a
traceback with `\\n` for its newlines. Only what shows signs of these is changed.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from triage.analysis.carriers import Carried
from triage.analysis.framing import TRANSPORTS, is_prefix, name_layers, strip_layers
from triage.analysis.tracebacks import CHAIN_PHRASES, HEADER

_MIN_WIDTH, _MAX_WIDTH = 40, 400
_JOIN_CHARS = 20_000
_STAMP = r"\[\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?(?: [A-Za-z_]{1,24}=?\d{1,6}){0,8}\] "
_BEGINS = re.compile(
    rf'    |\s*(?:\| *)?File "|[│╭╰┌└|]|{re.escape(HEADER)}|{CHAIN_PHRASES[0][:30]}|{CHAIN_PHRASES[1][:30]}'
    r"|(?:DEBUG|INFO|WARNING|ERROR)\b|usage: "
)
_INSIDE = re.compile(r' {4,200}[\^~]|  File "')
_NAMED_FRAME = re.compile(r'File "[^"]*", line \d+, in \S+$')
_WHOLE_FRAME = re.compile(r'File "[^"]*", line \d+(?:, in \S.*)?\s*$')
_FRAME = re.compile(
    r'File ["“](?P<path>[^"”\n]{0,4096})["”], line (?P<line>\d{1,9})(?:, in(?: (?P<function>[^\s"]{1,300}))?(?= |$))?'
)
_ERROR = re.compile(
    r"(?:^|(?<=\s))(?:[A-Za-z_]\w{0,80}\.){0,12}[A-Z]\w{0,100}(?:Error|Exception|Exit|Interrupt|Warning|Timeout)(?=: |\s*$)"
)
_ERROR_LINE = re.compile(r"(?:[A-Za-z_]\w{0,80}\.){0,12}[A-Z]\w{0,100}(?:Error|Exception|Exit|Interrupt|Warning|Timeout)(?:: |$)")
_SAMPLE = 2000  # lines that tell which layers are common
_CLOCK = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,]\d{3,9}")
_BOLD = re.compile(r"\*\*([A-Za-z]\w{0,60})\*\*")
_TAG_LOST = re.compile(r'File "[^"]{0,4096}", line \d{1,9}, in\s*$')
_DUNDERS = (
    "init|new|call|post_init|enter|exit|aenter|aexit|iter|next|getattr|getattribute|setattr|getitem|setitem|contains|len|del"
    "|repr|str|hash|eq|bool|await|init_subclass|set_name|get|set|prepare|import|main"
)
_FUNCTION_EATEN = re.compile(rf", in (?:\w+\.)*(?P<name>{_DUNDERS})\s*$")
_FILE_EATEN = re.compile(r"(?<=/)(init|main)\.py(?=\")")


def restore_lines(lines: Sequence[Carried]) -> list[Carried]:
    """The lines as they were written, each with the raw line that it began on."""
    unescaped = [part for line in lines for part in _split_one(line)]
    restored = _unmark(_unwrap(unescaped))
    return restored[::-1] if _is_reversed(restored) else restored


def _is_reversed(lines: Sequence[Carried]) -> bool:
    """Whether the newest line comes first, as viewers of collected logs give them: by the clock in front of each line, or
    where a traceback stands on its head."""
    clocks = [match[0] for line in lines if (match := _CLOCK.search(line.text[:80]))]
    if clocks and clocks[0][:19] < clocks[-1][:19]:
        return False
    told = len(clocks) >= 5 and len(clocks) * 10 >= sum(bool(line.text.strip()) for line in lines) * 9
    if told and clocks[0] > clocks[-1] and all(a >= b for a, b in pairwise(clocks)):
        return True
    return _stands_on_its_head([line.text for line in lines[-_SAMPLE:]])


def _stands_on_its_head(texts: Sequence[str]) -> bool:
    """Whether frames stand between an exception's line above and the header below, and nowhere the other way round."""
    files = [i for i, text in enumerate(texts) if 'File "' in text]
    headers = [i for i, text in enumerate(texts) if HEADER in text]
    near = set(files)
    if not headers or any({i + 1, i + 2, i + 3} & near for i in headers):
        return False
    first = next((i for i in files if i < headers[0]), None)
    above = [strip_layers(text) for text in texts[max(0, first - 3) : first]] if first is not None else []
    return any(_ERROR_LINE.match(text) for text in above) and bool({headers[0] - 1, headers[0] - 2, headers[0] - 3} & near)


# ---------------------------------------------------------------- many lines in one
def _split_one(line: Carried) -> Iterable[Carried]:
    text = line.text
    place = text.find(HEADER)
    if place < 0 or "File " not in text[place:]:
        return (line,)
    if "\\n" in text[place + len(HEADER) :][:8]:
        parts = text.replace("\\n", "\n").replace('\\"', '"').replace("\\'", "'").replace("\\\\", "\\").split("\n")
        return (replace(line, text=parts[0]), *(Carried(line.number, part) for part in parts[1:]))
    parts = list(_split_joined(text))
    return (replace(line, text=parts[0]), *(Carried(line.number, part) for part in parts[1:]))


def _split_joined(text: str) -> Iterator[str]:
    """A traceback whose lines were joined with blanks; best guesses where a source line ends."""
    for stamped in _split_at(text, re.compile(rf"(?<=\s)(?={_STAMP})")):
        if "File " not in stamped:
            yield stamped.strip()
            continue
        for part in _split_at(stamped, re.compile("|".join(rf"(?={re.escape(chain)})" for chain in CHAIN_PHRASES))):
            chain = next((c for c in CHAIN_PHRASES if part.startswith(c)), None)
            if chain is not None:
                yield chain
                part = part[len(chain) :].strip()
            place = part.find(HEADER)
            if place >= 0:
                yield part[: place + len(HEADER)]
                part = part[place + len(HEADER) :]
            yield from _split_frames(part)


def _split_at(text: str, pattern: re.Pattern[str]) -> list[str]:
    cuts = [0, *(match.start() for match in pattern.finditer(text)), len(text)]
    return [text[a:b] for a, b in pairwise(cuts) if text[a:b].strip()]


def _split_frames(text: str) -> Iterator[str]:
    frames = list(_FRAME.finditer(text))
    if not frames:
        if text.strip():
            yield text.strip()
        return
    if text[: frames[0].start()].strip():
        yield text[: frames[0].start()].strip()
    for frame, after in zip(frames, [*frames[1:], None], strict=True):
        yield "  " + frame.group(0).replace("“", '"').replace("”", '"')
        rest = text[frame.end() : after.start() if after else len(text)].strip()
        if after is None:
            error = _ERROR.search(rest)
            source, rest = (rest[: error.start()], rest[error.start() :]) if error else (rest, "")
        else:
            source, rest = rest, ""
        source = _strip_carets(source)
        if source:
            yield f"    {source}"
        if rest:
            yield rest


def _strip_carets(source: str) -> str:
    """A source line without the marks that were printed under it."""
    bare = source.rstrip(" ^~")
    return source if source[len(bare) : len(bare) + 1] in ("^", "~") else bare


# ---------------------------------------------------------------- a terminal's width
def _unwrap(lines: list[Carried]) -> list[Carried]:
    width = _find_width(lines)
    if width is None:
        return lines
    out: list[Carried] = []
    last = 0  # cells of the piece that was added last
    for line in lines:
        cells = _cells(line.text)
        if out and last and len(out[-1].text) < _JOIN_CHARS and line.text.strip() and not _begins(line.text, out[-1].text):
            gap = width - last
            # A blank at the end of a full row is not kept by the terminal.
            if gap == 0 or (gap == 1 and not line.text.startswith(" ") and not _WHOLE_FRAME.search(out[-1].text)):
                out[-1] = replace(out[-1], text=out[-1].text + " " * gap + line.text)
                last = cells
                continue
        out.append(line)
        last = cells
    return out


def _find_width(lines: Sequence[Carried]) -> int | None:
    """The terminal's width where lines were cut at it, else None.

    No line is longer, several have exactly this width, and after these hardly a line stands that could only begin a
    message; or a line of a traceback is cut just there.
    """
    if any(len(line.text) > _MAX_WIDTH for line in lines):
        return None
    width = max((_cells(line.text) for line in lines), default=0)
    if not _MIN_WIDTH <= width <= _MAX_WIDTH:
        return None
    full: set[str] = set()
    begun = inside = 0  # of the full lines: before one that begins a message; cut inside a word
    torn = False
    transports = TRANSPORTS | _common_layers(lines)
    for line, after, third in zip(lines, lines[1:], [*lines[2:], Carried(0, "")], strict=False):
        text = line.text
        if len(text) < width - 1 or not after.text.strip():
            continue
        cells = _cells(text)
        if cells < width - 1:
            continue
        bare, bare_third = strip_layers(text), strip_layers(third.text)
        if 'File "' in text and not _WHOLE_FRAME.search(text) and _WHOLE_FRAME.search(text + " " * (width - cells) + after.text):
            torn = True
        elif not after.text.startswith("  ") and not name_layers(after.text):
            # Neither a transport's lines nor a traceback go on after a line without prefix and indentation.
            torn = torn or bool(name_layers(text) & transports)
            torn = torn or (cells == width and bare.startswith("    ") and bool(_INSIDE.match(bare_third)))
            torn = torn or (cells == width and bare.startswith('  File "') and bare_third.startswith("    "))
        if cells == width and not _NAMED_FRAME.search(text):  # a frame's line ends by itself, its source follows
            full.add(text)
            inside += (text[-1] + after.text[0]).isalnum()
            begun += _begins(after.text, text)
    if len(full) < 5:
        return width if torn or (len(full) >= 2 and inside >= len(full) and not begun) else None
    return width if torn or (begun * 4 <= len(full) <= inside * 3) else None


def _common_layers(lines: Sequence[Carried]) -> frozenset[str]:
    """The layers that most lines have."""
    some = [line.text for line in lines[-_SAMPLE:] if line.text.strip()]
    seen = Counter(name for text in some for name in name_layers(text))
    return frozenset(name for name, count in seen.items() if count * 10 >= len(some) * 7)


def _begins(text: str, before: str) -> bool:
    """Whether a line cannot be the rest of the one before it."""
    if _ERROR_LINE.match(text) and strip_layers(before).startswith("    "):
        return True
    layers = name_layers(text)
    sure = any(not name.endswith("?") for name in layers)
    return sure or bool(layers & name_layers(before)) or bool(_BEGINS.match(text) and not is_prefix(before))


def _cells(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


# ---------------------------------------------------------------- Markdown
def _unmark(lines: list[Carried]) -> list[Carried]:
    """Frame lines as they were before Markdown or HTML; nothing where none shows such a sign."""
    frames = [line.text for line in lines if 'File "' in line.text or "File &quot;" in line.text or "File “" in line.text]
    entities = any("&quot;" in text or "&lt;" in text for text in frames)
    quotes = any("File “" in text for text in frames)
    bold = any(_BOLD.search(text) for text in frames)
    lost = any(_TAG_LOST.search(text) or 'File "", line' in text for text in frames)
    if not (entities or quotes or bold or lost):
        return lines
    out: list[Carried] = []
    for line in lines:
        text = html.unescape(line.text) if entities else line.text
        text = text.replace("“", '"').replace("”", '"') if quotes else text
        text = _BOLD.sub(r"__\1__", text) if bold else text
        if lost and 'File "' in text:
            text = _TAG_LOST.sub(lambda m: m[0].rstrip() + " <module>", text).replace('File "", line', 'File "<unknown>", line')
            text = _FUNCTION_EATEN.sub(lambda m: m[0].rstrip()[: -len(m["name"])] + f"__{m['name']}__", text)
            text = _FILE_EATEN.sub(r"__\1__.py", text)
        out.append(replace(line, text=text) if text != line.text else line)
    return out
