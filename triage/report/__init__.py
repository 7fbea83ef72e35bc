"""What a person or a program reads: one view of a Diagnosis or a Session, four renderers over it.

Every string that a record holds is hostile. It is cleaned and escaped in the renderers, at one place for each format.
The renderers are imported when they are called: a program that wants JSON does not wait for rich and jinja2.
"""

from __future__ import annotations

from typing import Literal, get_args

from triage.report.view import Subject

FormatName = Literal["text", "md", "html", "json"]
FORMATS: tuple[FormatName, ...] = get_args(FormatName)

__all__ = ["FORMATS", "FormatName", "Subject", "render_html", "render_json", "render_markdown", "render_report", "render_text"]


def render_report(subject: Subject, format_name: FormatName, width: int = 100, colour: bool = False) -> str:
    """The report in one of FORMATS, ending in a newline. `width` (columns) and `colour` matter to "text" only."""
    match format_name:
        case "text":
            return render_text(subject, width, colour)
        case "md":
            return render_markdown(subject)
        case "html":
            return render_html(subject)
        case "json":
            return render_json(subject)


def render_text(subject: Subject, width: int = 100, colour: bool = False) -> str:
    """Lines of at most `width` columns for a terminal; escape sequences only where `colour` is true."""
    from triage.report.terminal import render_text

    return render_text(subject, width, colour)


def render_markdown(subject: Subject) -> str:
    """Markdown without raw HTML: the same record gives the same bytes."""
    from triage.report.markdown import render_markdown

    return render_markdown(subject)


def render_html(subject: Subject) -> str:
    """One self-contained page without scripts: the same record gives the same bytes."""
    from triage.report.html import render_html

    return render_html(subject)


def render_json(subject: Subject) -> str:
    """The object of the interface contract as ASCII: the same record gives the same bytes."""
    from triage.report.objects import render_json

    return render_json(subject)
