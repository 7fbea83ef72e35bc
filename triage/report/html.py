"""Report -> one self-contained HTML page: no script, nothing fetched, every value escaped by the template engine."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, StrictUndefined, Template

from triage.report.plain import show_code, show_line
from triage.report.view import Bullets, Code, Paragraph, Subject, Table, build_report

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{{ report.title | line }}</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.headline { font-weight: bold; } .about, figcaption { opacity: .7; }
figure { margin: 1rem 0; }
pre { overflow-x: auto; padding: .7rem; border: 1px solid #8886; border-radius: 4px; margin: .2rem 0; }
pre span { display: block; white-space: pre; } .marked { background: #f003; font-weight: bold; }
.add { background: #0a03; } .del { background: #f003; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0; }
th { font-weight: normal; opacity: .7; } code { overflow-wrap: anywhere; }
.warn { border-left: 4px solid #c80; padding-left: .7rem; }
</style>
</head>
<body>
<h1>{{ report.title | line }}</h1>
<p class="headline">{{ report.headline | line }}</p>
{%- if report.about %}
<p class="about">{{ report.about | line }}</p>
{%- endif %}
{%- for section in report.sections %}
<h2>{{ section.title | line }}</h2>
{%- for block in section.blocks %}
{%- if block is paragraph %}
<p{% if block.tone == "warn" %} class="warn"{% endif %}>{{ block.text | line }}</p>
{%- elif block is code %}
<figure>
{%- if block.caption %}
<figcaption>{{ block.caption | line }}</figcaption>
{%- endif %}
<pre>
{%- for line in block.lines -%}
<span class="{{ 'marked' if line.marked else {'': 'plain', '+': 'add', '-': 'del'}[line.change] }}">
{{- line.margin }}{{ line.text | code }}</span>
{%- endfor -%}
</pre>
</figure>
{%- elif block is bullets %}
<ul>
{%- for item in block.items %}
<li>{{ item.text | line }}{% if item.code %}{% if item.text %}: {% endif %}<code>{{ item.code | line }}</code>{% endif %}</li>
{%- endfor %}
</ul>
{%- else %}
<table>
<tr>{% for column in block.columns %}<th>{{ column | line }}</th>{% endfor %}</tr>
{%- for row in block.rows %}
<tr>{% for cell in row %}<td><code>{{ cell | line }}</code></td>{% endfor %}</tr>
{%- endfor %}
</table>
{%- endif %}
{%- endfor %}
{%- endfor %}
</body>
</html>
"""


def render_html(subject: Subject) -> str:
    """A whole page with a final newline; the same record gives the same bytes."""
    return _template().render(report=build_report(subject)) + "\n"


@cache
def _template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.filters.update(line=show_line, code=show_code)
    for name, kind in {"paragraph": Paragraph, "code": Code, "bullets": Bullets, "table": Table}.items():
        environment.tests[name] = lambda block, kind=kind: isinstance(block, kind)
    return environment.from_string(_PAGE)
