"""Ways in which a log reaches a person that keep its text but not its lines: carriers, terminals, loggers, pastes.

Each takes the plain text of a log and gives the bytes of the reshaped one.
"""

from __future__ import annotations

import html
import io
import json
import re
import struct
from collections.abc import Callable

Reshape = Callable[[str], bytes]
_FRAME = re.compile(r'  File "(?P<path>[^"]+)", line (?P<line>\d+), in (?P<name>.+)')


def lines_of(text: str) -> list[str]:
    return text.rstrip("\n").split("\n")


def export(text: str) -> bytes:
    """`journalctl -o export`: messages that are not plain text are binary fields."""
    out = io.BytesIO()
    for i, line in enumerate(lines_of(text)):
        out.write(f"__CURSOR=s=1;i={i}\n__REALTIME_TIMESTAMP=17785418{i:08d}\n_PID=4711\nPRIORITY=6\n".encode())
        if i % 3 == 0:
            raw = f"\x1b[31m{line}\x1b[0m".encode()
            out.write(b"MESSAGE\n" + struct.pack("<Q", len(raw)) + raw + b"\n")
        else:
            out.write(f"MESSAGE={line}\n".encode())
        out.write(b"_SYSTEMD_UNIT=sglang.service\n\n")
    return out.getvalue()


def export_of_blocks(text: str) -> bytes:
    """The same where one entry holds many lines."""
    raw = text.rstrip("\n").encode()
    return b"__CURSOR=s=1;i=1\n_PID=4711\nMESSAGE\n" + struct.pack("<Q", len(raw)) + raw + b"\nPRIORITY=6\n\n"


def verbose(text: str) -> bytes:
    head = "Mon 2026-05-11 23:23:32.123456 UTC [s=0123456789abcdef;i={i:x};b=fedcba9876543210;m=1;t=2;x=3]"
    fields = "    PRIORITY=6\n    _PID=4711\n    MESSAGE={line}\n    _CMDLINE=python -m sglang.launch_server"
    return "\n".join(head.format(i=i) + "\n" + fields.format(line=line) for i, line in enumerate(lines_of(text))).encode()


def verbose_of_blocks(text: str) -> bytes:
    head = (
        "Mon 2026-05-11 23:23:32.123456 UTC [s=0123456789abcdef;i=1;b=fedcba9876543210;m=1;t=2;x=3]\n    _PID=4711\n    MESSAGE="
    )
    return (head + ("\n" + " " * 12).join(lines_of(text)) + "\n    PRIORITY=6\n").encode()


def json_pretty(text: str) -> bytes:
    return "\n".join(json.dumps({"_PID": "4711", "MESSAGE": line}, indent="\t") for line in lines_of(text)).encode()


def json_seq(text: str) -> bytes:
    return "\n".join("\x1e" + json.dumps({"_PID": "4711", "MESSAGE": line}) for line in lines_of(text)).encode()


def docker_file(text: str) -> bytes:
    """A json-file in which every line was too long for one entry."""
    pad = " " * 16384  # white space at line ends is all that the log may gain
    out = []
    for line in lines_of(text):
        for part in (line + pad, "\n"):
            out.append(json.dumps({"log": part, "stream": "stderr", "time": "2026-05-11T23:23:32.1Z"}))
    return "\n".join(out).encode()


def cri_partial(text: str) -> bytes:
    """containerd's files, where long lines come in pieces and another stream writes between."""
    out = []
    for line in lines_of(text):
        pieces = [line[i : i + 50] for i in range(0, len(line), 50)] or [""]
        for piece in pieces[:-1]:
            out.append(f"2026-05-11T23:23:32.123456789Z stderr P {piece}")
            out.append("2026-05-11T23:23:32.123456789Z stdout F ping")
        out.append(f"2026-05-11T23:23:32.123456789Z stderr F {pieces[-1]}")
    return "\n".join(out).encode()


def json_logger(text: str) -> bytes:
    """A logger that writes one object a record, the traceback in a field of its own, behind kubectl's time."""
    head, mark, trace = text.partition("Traceback (most recent call last):")
    made = [{"asctime": "2026-05-11 23:23:32", "levelname": "INFO", "message": line} for line in head.split("\n")[:-1]]
    made.append(
        {
            "asctime": "2026-05-11 23:23:33",
            "levelname": "ERROR",
            "message": "launch failed",
            "exc_info": mark + trace.rstrip("\n"),
        }
    )
    return "\n".join(f"2026-05-11T23:23:32.123456789Z {json.dumps(one)}" for one in made).encode()


def loguru(text: str) -> bytes:
    """loguru's own traceback: blank lines between frames, an arrow at the one that caught, values under the source."""
    out = ["2026-05-11 23:23:32.123 | ERROR    | __main__:<module>:19 - launch failed:"]
    marked = False
    for line in lines_of(text[text.index("Traceback (") :]):
        if _FRAME.match(line):
            out += ["", line if marked else "> " + line.lstrip()]
            marked = True
        elif line.startswith("    ") and set(line.strip()) <= {"^", "~", " "}:
            out += ["    │    └ <function load at 0x7f00>", "    └ 3"]
        elif line.startswith(" "):
            out.append(line)
        else:
            out += ["", line] if out[-1].startswith(" ") else [line]
    return "\n".join(out).encode()


def rich_box(text: str, width: int = 90, lead: str = "") -> bytes:
    """rich's box with wrapped paths and messages (as rich 15 prints it for files that it can read)."""
    out: list[str] = []
    lines = lines_of(text[text.index("Traceback (") :])
    inner = width - 4
    i = 0
    while i < len(lines):
        line = lines[i]
        match = _FRAME.match(line)
        if line.startswith("Traceback ("):
            title = " Traceback (most recent call last) "
            left = (width - 2 - len(title)) // 2
            out.append("╭" + "─" * left + title + "─" * (width - 2 - len(title) - left) + "╮")
        elif match and match["path"].startswith("<"):
            out += [f"│ {row:<{inner}} │" for row in (f"in {match['name']}:{match['line']}", "")]
        elif match:
            head = f"{match['path']}:{match['line']} in {match['name']}"
            rows = [head[k : k + inner] for k in range(0, len(head), inner)]
            number = int(match["line"])
            if i + 1 < len(lines) and lines[i + 1].startswith("    "):
                shown = [(number - 1, "  ", "before = 1"), (number, "❱ ", lines[i + 1].strip()), (number + 1, "  ", "after = 2")]
                rows += ["", *(f"{mark}{n:>5} │   {code}"[:inner] for n, mark, code in shown), ""]
            out += [f"│ {row:<{inner}} │" for row in rows]
        elif not line.startswith("  "):
            if out[-1].startswith("│"):
                out.append("╰" + "─" * (width - 2) + "╯")
            out += wrap_words(line, width)
        i += 1
    return "\n".join(lead + row if row else row for row in out).encode()


def wrap_words(line: str, width: int) -> list[str]:
    rows = [""]
    for word in line.split(" "):
        if len(rows[-1]) + len(word) + 1 > width and rows[-1]:
            rows.append(word)
        else:
            rows[-1] = f"{rows[-1]} {word}" if rows[-1] else word
    return rows


def rich_handler(text: str) -> bytes:
    head = "[05/11/26 23:23:32] ERROR    launch failed                                       engine.py:23\n"
    return head.encode() + rich_box(text, 80, " " * 29)


def terminal(text: str, width: int = 80) -> bytes:
    """A terminal's scrollback: rows of at most `width` cells, blanks at their ends not kept."""
    rows = []
    for line in lines_of(text):
        rows += [line[i : i + width].rstrip() for i in range(0, len(line), width)] or [""]
    return "\n".join(rows).encode()


def flat(text: str) -> bytes:
    return "\n".join(line.strip() for line in lines_of(text)).encode()


def rendered(text: str) -> bytes:
    """Pasted as Markdown, then copied from the page: tags, double underscores and indentation are gone."""
    text = re.sub(r"<(frozen )?[a-z]+>", "", text)
    return flat(re.sub(r"\b__(\w+?)__(?=\b)", r"\1", text))


def markdown_bold(text: str) -> bytes:
    return re.sub(r"\b__(\w+?)__\b", r"**\1**", text).encode()


def quoted(text: str) -> bytes:
    return "\n".join(f"> {line}" for line in lines_of(text)).encode()


def entities(text: str) -> bytes:
    return html.escape(text).encode()


def curly(text: str) -> bytes:
    return re.sub(r'"([^"\n]*)"', "“\\1”", text).encode()


def one_line(text: str) -> bytes:
    return " ".join(line.strip() for line in lines_of(text)).encode()


def escaped(text: str) -> bytes:
    """One line with backslashes for newlines, as a tool shows a string."""
    return ("error: " + json.dumps(text.rstrip("\n"))[1:-1]).encode()


def newest_first(text: str) -> bytes:
    """As a viewer of collected logs shows them, with its own clock and level."""
    lines = [f"ERROR 2026-05-11T23:23:{i // 60:02d}.{i:06d}Z {line}".rstrip() for i, line in enumerate(lines_of(text))]
    return "\n".join(reversed(lines)).encode()


def newest_first_without_clock(text: str) -> bytes:
    return "\n".join(reversed(lines_of(text[text.rindex("Traceback (") :]))).encode()


RESHAPINGS: dict[str, Reshape] = {
    "export": export,
    "export-blocks": export_of_blocks,
    "verbose": verbose,
    "verbose-blocks": verbose_of_blocks,
    "json-pretty": json_pretty,
    "json-seq": json_seq,
    "docker-file": docker_file,
    "cri-partial": cri_partial,
    "json-logger": json_logger,
    "loguru": loguru,
    "rich-box": rich_box,
    "rich-handler": rich_handler,
    "terminal-80": terminal,
    "terminal-133": lambda text: terminal(text, 133),
    "terminal-57": lambda text: terminal(text, 57),
    "flat": flat,
    "rendered": rendered,
    "markdown-bold": markdown_bold,
    "quoted": quoted,
    "entities": entities,
    "curly": curly,
    "one-line": one_line,
    "escaped": escaped,
    "newest-first": newest_first,
}
