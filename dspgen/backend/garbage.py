"""How seldom Python looks for garbage while code is made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

COLLECTIONS = 300_000  # new objects before Python looks for garbage
_YOUNG = 1  # the generation of what is new since garbage was last looked for in all objects


@contextmanager
def seldom_collecting() -> Iterator[None]:
    """Collect garbage in cycles at the end rather than again and again, which would take a sixth of the time.

    Only the objects made meanwhile are looked at: all that was there before counts as old.
    """
    before = gc.get_threshold()
    gc.set_threshold(COLLECTIONS, *before[1:])
    try:
        yield
    finally:
        gc.collect(_YOUNG)
        gc.set_threshold(*before)
