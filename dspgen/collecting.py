"""How seldom Python looks for garbage while code is made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

COLLECTIONS = 1_000_000  # new objects before Python looks for garbage


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """Looking for garbage in cycles, of which there is little, would take a sixth of the time. What is there in the end
    counts as old, so that it is not all looked at for the next new object."""
    before = gc.get_threshold()
    gc.set_threshold(COLLECTIONS, *before[1:])
    try:
        yield
    finally:
        gc.freeze()
        gc.unfreeze()
        gc.set_threshold(*before)
