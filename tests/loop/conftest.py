"""Fixtures of the loop's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab import boot, find_labhost
from tests.loop.toyhost import Recorder, ToyLab


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture(scope="module")
def toy_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToyLab]:
    """A lab host of the module's own. Skips where there is no lab."""
    found = find_labhost()
    if isinstance(found, str):
        pytest.skip(found)
    with boot(tmp_path_factory.mktemp("lab"), 60, 99) as inside:
        host = inside.open()
        yield ToyLab(inside, host)
        host.close()
