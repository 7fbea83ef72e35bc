"""Shared fixtures: lab hosts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab import LabHost, boot, find_labhost
from triage.protocols import Host


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "lab: needs root and lab hosts (TRIAGE_SHARED)")


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
