"""Report -> Markdown. Text of a record goes into code spans and fences; prose is escaped; no raw HTML ever stands in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from triage.report.plain import show_code, show_line
from triage.report.view import Block, Bullets, Code, CodeLine, Item, Paragraph, Subject, Table, build_report

_SPECIAL = re.compile(r"[\\`*_\[\]|~#$@]")
_LINE_START = re.compile(r"^(\s*(?:\d{1,9}(?=[.)])|(?=[-+=])))")
_URL = re.compile(r"(?i):(?=//)|(?<=www)\.")


def render_markdown(subject: Subject) -> str:
    """The report with a final newline; the same record gives the same bytes."""
    report = build_report(subject)
    lines = [f"# {report.title}", "", f"**{escape_prose(report.headline)}**", ""]
    if report.about:
        lines += [escape_prose(report.about), ""]
    for section in report.sections:
        lines += [f"## {escape_prose(section.title)}", ""]
        for block in section.blocks:
            lines += [*_write(block), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def escape_prose(text: str) -> str:
    """One line of text that no Markdown reader takes for markup, a link or HTML."""
    line = show_line(text)
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    line = _SPECIAL.sub(r"\\\g<0>", line)
    line = _URL.sub(r"\\\g<0>", line)
    return _LINE_START.sub(r"\1\\", line)


def quote_code(text: str) -> str:
    """A code span that holds the line, whatever backticks it has; "" for an empty line."""
    line = show_line(text)
    if not line:
        return ""
    fence = "`" * (_longest_run(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _write(block: Block) -> Iterator[str]:
    match block:
        case Paragraph(text, tone):
            yield f"**Note:** {escape_prose(text)}" if tone == "warn" else escape_prose(text)
        case Code(lines, caption):
            if caption:
                yield from (f"{escape_prose(caption)}:", "")
            yield from _fence(lines)
        case Bullets(items):
            yield from (f"- {_write_item(item)}" for item in items)
        case Table(columns, rows):
            yield f"| {' | '.join(escape_prose(c) for c in columns)} |"
            yield f"|{'---|' * len(columns)}"
            yield from (f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows)


def _write_item(item: Item) -> str:
    parts = [escape_prose(item.text)] if item.text else []
    if item.code:
        parts.append(quote_code(item.code))
    return ": ".join(parts)


def _cell(text: str) -> str:
    """Tables split cells before they read code spans, so a bar needs its backslash inside the span too."""
    line = show_line(text)
    if "\\" in line and "|" in line:
        return escape_prose(line)  # inside a span, a backslash before the bar's own could not be told from it
    return quote_code(line).replace("|", "\\|")


def _fence(lines: tuple[CodeLine, ...]) -> Iterator[str]:
    shown = [_write_line(line) for line in lines]
    fence = "`" * max(3, _longest_run("\n".join(shown)) + 1)
    language = "diff" if any(line.change for line in lines) else "text"
    yield fence + language
    yield from shown
    yield fence


def _write_line(line: CodeLine) -> str:
    return line.margin + show_code(line.text)
