"""Garbage while code is made, and after."""

from __future__ import annotations

import gc

from dspgen.collecting import COLLECTIONS, seldom_collecting


def test_garbage_is_seldom_looked_for_and_not_all_at_once_in_the_end() -> None:
    before, enabled = gc.get_threshold(), gc.isenabled()
    with seldom_collecting():
        assert gc.get_threshold()[0] == COLLECTIONS
        kept = [[k] for k in range(10_000)]
        assert gc.get_count()[0] >= len(kept)
    assert (gc.get_threshold(), gc.isenabled()) == (before, enabled)
    assert max(gc.get_count()) < len(kept) // 2
    assert gc.get_freeze_count() == 0
