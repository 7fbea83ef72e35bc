"""Shared fixtures (lab hosts), and what makes one run of several processes: `pytest -n 2 --no-loadscope-reorder`."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from tests.abuse import faults_of
from tests.lab import LabHost, boot, find_labhost
from triage.protocols import Host

os.environ.setdefault("TRIAGE_CACHE", "off")  # a test never sees an answer that was made before
# the same examples in every run; `--hypothesis-profile=random` looks for others
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile("same")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "lab: needs root and lab hosts (TRIAGE_SHARED)")
    config.addinivalue_line("markers", "abuse(*numbers): shows that these faults of tests/ABUSE.md are survived")


def pytest_itemcollected(item: pytest.Item) -> None:
    """The faults that a test names (tests/abuse.py) go into every junit file, and `-m abuse` selects all such tests."""
    numbers = faults_of(item.nodeid, (int(n) for mark in item.iter_markers("abuse") for n in mark.args))
    if numbers:
        item.add_marker(pytest.mark.abuse(*numbers))
        item.user_properties.append(("abuse", " ".join(map(str, numbers))))


# ---------------------------------------------------------------- several processes
SHARES = ("e2e", "oracle")  # folders whose fixtures are made once for the whole run; the slow ones
_FIGURES = pytest.StashKey[list[str]]()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """To one process: the tests of a module, which share a lab host, and those of each folder of SHARES."""
    from xdist.scheduler import LoadFileScheduling

    class ByShare(LoadFileScheduling):  # type: ignore[misc, unused-ignore]
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return next((folder for folder in SHARES if f"/{folder}/" in file), file)

    return ByShare(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # the longest first, so that all processes end at about the same time
        items.sort(key=lambda item: item.path.parent.name not in SHARES)


class Sheet:
    """Takes the place of a terminal in a process that has none."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def section(self, title: str) -> None:
        self.lines.append(f"== {title}")

    def write_line(self, line: str) -> None:
        self.lines.append(line)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """The figures that the folders' conftest files show at the end leave this process for the one that has the terminal."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is None:
        return
    sheet = Sheet()
    given = {"terminalreporter": sheet, "config": session.config}
    for plugin in session.config.pluginmanager.get_plugins():
        path = str(getattr(plugin, "__file__", None) or "")
        if path.endswith("conftest.py") and path != __file__ and hasattr(plugin, "pytest_terminal_summary"):
            wanted = inspect.signature(plugin.pytest_terminal_summary).parameters
            plugin.pytest_terminal_summary(**{name: given[name] for name in wanted})
    output["figures"] = sheet.lines


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash.setdefault(_FIGURES, []).extend(getattr(node, "workeroutput", {}).get("figures", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(_FIGURES, []):
        terminalreporter.write_line(line)


# ---------------------------------------------------------------- lab hosts


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabHost]:
    """A host of the test module's own. Skips where there is no lab."""
    found = find_labhost()
    if isinstance(found, str):
        pytest.skip(found)
    with boot(tmp_path_factory.mktemp("lab")) as host:
        yield host


@pytest.fixture(scope="module")
def lab_root(lab: LabHost) -> Iterator[Host]:
    """The lab host by ssh as root."""
    host = lab.open()
    yield host
    host.close()
