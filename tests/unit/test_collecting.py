"""Garbage while code is made, and after."""

from __future__ import annotations

import gc
import weakref

from dspgen.backend.garbage import COLLECTIONS, seldom_collecting


class Cycle:
    """Is garbage only to who looks for cycles."""

    def __init__(self) -> None:
        self.own = self


def test_garbage_made_meanwhile_is_gone_in_the_end_and_older_is_not_looked_for() -> None:
    before = Cycle()
    gc.collect()
    old = weakref.ref(before)
    del before
    with seldom_collecting():
        made = weakref.ref(Cycle())
        assert made() is not None
    assert made() is None and old() is not None
    gc.collect()
    assert old() is None


def test_garbage_is_seldom_looked_for_and_not_all_at_once_in_the_end() -> None:
    before, enabled = gc.get_threshold(), gc.isenabled()
    with seldom_collecting():
        assert gc.get_threshold()[0] == COLLECTIONS
        kept = [[k] for k in range(10_000)]
        assert gc.get_count()[0] >= len(kept)
    assert (gc.get_threshold(), gc.isenabled()) == (before, enabled)
    assert max(gc.get_count()) < len(kept) // 2
    assert gc.get_freeze_count() == 0
