"""Report -> text for a terminal, through rich. Only plain ASCII is added to what the records say."""

from __future__ import annotations

import io
from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from triage.report.plain import show_code, show_line
from triage.report.view import Block, Bullets, Code, CodeLine, Item, Paragraph, Report, Subject, Table, build_report

STACK_BELOW = 70  # columns: narrower than this, table rows become stacked lines
MIN_WIDTH = 12
CHANGE_STYLE = {"": "", "+": "green", "-": "red"}
GOOD = frozenset({"fixed", "healthy", "patch", "passes"})


def render_text(subject: Subject, width: int = 100, colour: bool = False) -> str:
    """The report as lines of at most `width` columns, with a final newline; escape sequences only where `colour` is true."""
    return draw_report(build_report(subject), width, colour)


def draw_report(report: Report, width: int = 100, colour: bool = False) -> str:
    """As render_text, for a report that is built already."""
    width = max(width, MIN_WIDTH)
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
        _environ={},
    )
    with console.capture() as captured:
        console.print(build_renderable(report, width))
    return "\n".join(line.rstrip() for line in captured.get().split("\n"))


def build_renderable(report: Report, width: int) -> RenderableType:
    """The report for a console of `width` columns; holds Text only, so markup in a record stays text."""
    parts: list[RenderableType] = [Text(report.headline, "bold green" if report.outcome in GOOD else "bold yellow")]
    if report.about:
        parts.append(Text(show_line(report.about), "dim", overflow="fold"))
    for section in report.sections:
        parts.append(Text(f"\n{section.title}", "bold"))
        for block in section.blocks:
            body = Group(*_draw(block, width - 2))
            parts.append(Padding(body, (0, 0, 0, 2), expand=False))
    return Group(*parts)


def _draw(block: Block, width: int) -> Iterator[RenderableType]:
    match block:
        case Paragraph(text, tone):
            yield Text(show_line(text), "yellow" if tone == "warn" else "", overflow="fold")
        case Code(lines, caption):
            if caption:
                yield Text(f"{show_line(caption)}:", "dim", overflow="fold")
            yield from (_draw_line(line) for line in lines)
        case Bullets(items):
            yield from (_draw_item(item) for item in items)
        case Table(columns, rows):
            yield _draw_table(columns, rows) if width >= STACK_BELOW else _stack_table(columns, rows)


def _draw_line(line: CodeLine) -> Text:
    style = "bold red" if line.marked else CHANGE_STYLE[line.change]
    return Text(line.margin + show_code(line.text), style, overflow="fold")


def _draw_item(item: Item) -> RenderableType:
    grid = Grid.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=1)
    grid.add_column(overflow="fold")
    text = Text(show_line(item.text), overflow="fold")
    if item.code:
        text.append(": " if item.text else "")
        text.append(show_line(item.code), "cyan")
    grid.add_row(Text("-"), text)
    return grid


def _draw_table(columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> RenderableType:
    grid = Grid(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for column in columns:
        grid.add_column(Text(column), overflow="fold")
    for row in rows:
        grid.add_row(*(Text(show_line(cell), overflow="fold") for cell in row))
    return grid


def _stack_table(columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> RenderableType:
    lines = []
    for row in rows:
        first = True
        for column, cell in zip(columns, row, strict=True):
            if cell:
                lines.append(Text(f"{'- ' if first else '  '}{column}: {show_line(cell)}", overflow="fold"))
                first = False
    return Group(*lines)
