"""The figures of the run, printed at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.oracle.judge import HEAD

_ROWS = pytest.StashKey[list[str]]()


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Adds a line to the table of the terminal summary."""
    return request.config.stash.setdefault(_ROWS, []).append


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    rows: Iterator[str] = iter(sorted(config.stash.get(_ROWS, [])))
    lines = list(rows)
    if lines:
        terminalreporter.section("the real code against triage")
        terminalreporter.write_line(f"{'':26}{HEAD}")
        for line in lines:
            terminalreporter.write_line(line)
