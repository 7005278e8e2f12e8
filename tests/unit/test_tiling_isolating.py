"""Guarded nests cut into interiors and borders: the same values, and interiors that are boxes."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

from dspgen.frontend.read import read_c
from dspgen.tiling.isolating import isolated
from dspgen.tiling.nests import nests
from plant_core.canonical.passes import canonical
from plant_core.evaluate import evaluate
from plant_core.ir import Buf, Func
from tests.generators.guarded import random_guarded

FILTER = """void f(const float x[20][24], const float f[3][3], float y[22][26]) {
  for (int i = 0; i < 22; i++)
    for (int j = 0; j < 26; j++) {
      y[i][j] = 0.0f;
      for (int k = 0; k < 3; k++)
        for (int l = 0; l < 3; l++)
          if (i - k >= 0 && i - k < 20 && j - l >= 0 && j - l < 24) y[i][j] += x[i - k][j - l] * f[k][l];
    }
}"""
IN_PLACE = """void f(const float x[20][24], float y[20][24]) {
  for (int i = 0; i < 20; i++)
    for (int j = 0; j < 24; j++)
      if (i > 0 && j > 0 && j < 23) y[i][j] = y[i - 1][j + 1] + x[i][j]; else y[i][j] = x[i][j];
}"""


def func_of(text: str, folder: Path) -> Func:
    path = folder / "f.c"
    path.write_text(text, encoding="utf-8")
    return canonical(read_c(str(path)), reassoc=False)


def check_same(before: Func, after: Func) -> None:
    generator = np.random.default_rng(1)
    inputs = {
        p.name: generator.integers(-9, 9, p.extents).astype(np.float32) for p in before.params if isinstance(p, Buf)
    }
    expected, got = evaluate(before, inputs), evaluate(after, inputs)
    assert all(np.array_equal(expected[name], got[name]) for name in expected)


def test_a_filter_over_borders_has_an_interior_that_is_a_box(tmp_path: Path) -> None:
    func = func_of(FILTER, tmp_path)
    cut = isolated(func, reassoc=False)
    assert cut is not None
    found = nests(cut)
    assert len(found) == 5
    interior = max(found, key=lambda n: n.heaviest.volume)
    assert all(c.box for c in interior.comps)
    assert interior.heaviest.volume == 18 * 22 * 9
    check_same(func, cut)


def test_updates_in_place_keep_their_order(tmp_path: Path) -> None:
    func = func_of(IN_PLACE, tmp_path)
    cut = isolated(func, reassoc=False)
    check_same(func, func if cut is None else cut)


@pytest.mark.parametrize(
    "body",
    [
        "for (int i = 0; i < 20; i++) for (int j = 0; j < 24; j++) y[i][j] = x[i][j];",
        "for (int i = 0; i < 20; i++) for (int j = 0; j <= i; j++) y[i][j] = x[i][j];",
    ],
)
def test_boxes_and_triangles_stay(body: str, tmp_path: Path) -> None:
    func = func_of(f"void f(const float x[20][24], float y[20][24]) {{ {body} }}", tmp_path)
    assert isolated(func, reassoc=False) is None


@pytest.mark.parametrize("seed", range(12))
def test_random_guarded_nests_compute_the_same(seed: int, tmp_path: Path) -> None:
    func = func_of(random_guarded(Random(seed)), tmp_path)
    cut = isolated(func, reassoc=False)
    check_same(func, func if cut is None else cut)
