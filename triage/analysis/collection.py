"""Python's own garbage collection, held off while much is built of which nearly all is kept."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def hold_collection() -> Iterator[None]:
    """No collection inside the block; whether one runs after it is as before."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
