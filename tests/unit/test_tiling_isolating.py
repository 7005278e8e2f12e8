"""Guarded nests cut into interiors and borders: the same values, and interiors that are boxes."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

from dspgen.frontend.read import read_c
from dspgen.offchip.loop_variants import grouped
from dspgen.options import Options
from dspgen.target.load import load_target
from dspgen.tiling.loops.loop_nests import nests
from dspgen.tiling.split.index_set_splitting import isolated
from plant_core.interp.func import evaluate
from plant_core.ir.func import Buf, Func
from plant_core.ir.printer import print_expr
from plant_core.normalize.pipeline import canonical
from tests.generators.guarded import random_guarded, random_guarded_of_any_size

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


def check_same(before: Func, after: Func, sizes: dict[str, int] | None = None) -> None:
    generator = np.random.default_rng(1)
    shapes = {
        p.name: tuple(n if isinstance(n, int) else eval(print_expr(n), {}, dict(sizes or {})) for n in p.shape)
        for p in before.params
        if isinstance(p, Buf)
    }
    inputs = {name: generator.integers(-9, 9, shape).astype(np.float32) for name, shape in shapes.items()}
    expected, got = evaluate(before, inputs | (sizes or {})), evaluate(after, inputs | (sizes or {}))
    for name in expected:
        np.testing.assert_array_equal(got[name], expected[name], err_msg=f"{name} {sizes}")


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


PADDED = """void f(int n, int m, const float x[n][m], const float f[3][3], float y[n][m]) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < m; j++) {
      y[i][j] = 0.0f;
      for (int k = 0; k < 3; k++)
        for (int l = 0; l < 3; l++)
          if (i + k - 1 >= 0 && i + k - 1 < n && j + l - 1 >= 0 && j + l - 1 < m)
            y[i][j] += x[i + k - 1][j + l - 1] * f[k][l];
    }
}"""
CAUSAL = """void f(int n, const float x[n], const float h[16], float y[n]) {
  for (int i = 0; i < n; i++) {
    y[i] = 0.0f;
    for (int k = 0; k < 16; k++) if (i >= k) y[i] += h[k] * x[i - k];
  }
}"""
SIZES = ((0, 5), (1, 40), (2, 2), (3, 3), (9, 2), (17, 9), (20, 36), (9, 70))


def symbolic(text: str, folder: Path) -> Func:
    path = folder / "f.c"
    path.write_text(text, encoding="utf-8")
    return canonical(read_c(str(path)), reassoc=False, symbolic=True)


def test_any_size_has_an_interior_and_borders_that_are_alike_are_one_nest(tmp_path: Path) -> None:
    func = symbolic(PADDED, tmp_path)
    cut = isolated(func, reassoc=False, any_size=True)
    assert cut is not None
    found = nests(cut)
    # The corners, the rows, the columns, the interior, and two nests for images of fewer than three rows or columns.
    assert sorted(len(n.comps) for n in found) == [2, 2, 2, 4, 4, 8]
    assert sum(not c.settled for n in found for c in n.comps) == 2
    assert all(c.loops[0].low is not None for n in found for c in n.comps)
    for n, m in SIZES:
        check_same(func, cut, {"n": n, "m": m})


def test_borders_of_one_side(tmp_path: Path) -> None:
    func = symbolic(CAUSAL, tmp_path)
    cut = isolated(func, reassoc=False, any_size=True)
    assert cut is not None and len(nests(cut)) == 3
    for n in (0, 1, 14, 15, 16, 17, 40):
        check_same(func, cut, {"n": n})


def test_borders_as_wide_as_another_size_tells(tmp_path: Path) -> None:
    func = symbolic(CAUSAL.replace("int n", "int n, int t").replace("16", "t"), tmp_path)
    cut = isolated(func, reassoc=False, any_size=True)
    assert cut is not None
    # The interior counts from 0; sizes that have none are apart.
    boxes = [n for n in nests(cut) if all(c.settled and c.loops[0].low == 0 for c in n.comps) and len(n.comps) == 2]
    assert len(boxes) == 1
    for n, t in ((0, 3), (1, 1), (5, 0), (5, 6), (5, 7), (16, 16), (17, 4), (40, 9), (9, 40)):
        check_same(func, cut, {"n": n, "t": t})


@pytest.mark.parametrize("seed", range(8))
def test_random_guarded_nests_of_any_size_compute_the_same(seed: int, tmp_path: Path) -> None:
    func = symbolic(random_guarded_of_any_size(Random(seed)), tmp_path)
    cut = isolated(func, reassoc=False, any_size=True)
    source = read_c(str(tmp_path / "f.c"))
    made = grouped(source, load_target("ft_m7002"), Options(fp="strict"), lambda dtype: True)
    for n, m in SIZES:
        for form in (cut, made):
            check_same(source, source if form is None else form, {"n": n, "m": m})
