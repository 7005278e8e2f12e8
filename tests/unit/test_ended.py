"""Searches of any length, in parts as the frontend makes them and in one: the same results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dspgen.frontend.read import read_c
from plant_core.analysis.early_exits import with_whole_searches
from plant_core.analysis.rectangular_hull import Boxes, NoBlocks
from plant_core.interp.func import evaluate
from plant_core.scratchpad.tile_nest import blocks

FIRST = """void k(int n, const float a[n], int r[2]) { int at = -1;
  for (int i = 0; i < n; i++) if (a[i] > 0.5f) { at = i; break; } r[0] = at; }"""
LAST = """void k(int n, const float a[n], int r[2]) { int i;
  for (i = n - 1; i >= 0; i--) if (a[i] > 0.5f || a[i] < 0) break; r[0] = i; }"""
KNOWN = FIRST.replace("int n, ", "").replace("a[n]", "a[40]").replace("< n", "< 40")


@pytest.mark.parametrize("text", [FIRST, LAST])
def test_parts_of_unknown_length_are_joined(tmp_path: Path, text: str) -> None:
    path = tmp_path / "k.c"
    path.write_text(text)
    func = read_c(str(path), function="k")
    whole = with_whole_searches(func)
    assert [c.defines for c in func.comps if c.defines] and not [c for c in whole.comps if c.defines]
    assert len(whole.comps) == len(func.comps) - 3
    for n in (0, 1, 7, 8, 9, 40):
        for end in (None, 0, 7, 8, n - 1):
            a = np.zeros(n, np.float32)
            if n and end is not None and end < n:
                a[end] = 1
            given = {"n": n, "a": a, "r": np.zeros(2, np.int32)}
            np.testing.assert_array_equal(evaluate(whole, given)["r"], evaluate(func, given)["r"])


def test_parts_of_known_length_stay(tmp_path: Path) -> None:
    path = tmp_path / "k.c"
    path.write_text(KNOWN)
    func = read_c(str(path), function="k")
    assert [c.defines for c in func.comps if c.defines]
    assert with_whole_searches(func) == func


def test_blocks_of_a_nest_that_others_guard_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "k.c"
    path.write_text(FIRST)
    func = read_c(str(path), function="k")
    guarded = tuple(c for c in func.comps if str(c.domain).count("more > 0"))
    assert len(guarded) == 2
    with pytest.raises(NoBlocks, match="'more', which other statements compute"):
        blocks(Boxes(replace(func, comps=guarded), 4), (16,), (0,), reassoc=True)
