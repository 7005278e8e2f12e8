"""What begins sums, in the loops of what adds to them: the same arrays, in one nest where that may be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dspgen.frontend.read import read_c
from plant_core.interp.func import evaluate
from plant_core.ir.func import Buf
from plant_core.ir.time_2d1 import position
from plant_core.normalize.pipeline import canonical
from plant_core.transform.fuse_reduction_init import with_sums_begun

NESTS = {  # and how many there are afterwards
    "for (int j = 0; j < m; j++) y[0][j] = 0; for (int i = 0; i < n; i++) for (int j = 0; j < m; j++)"
    " y[0][j] += a[i][j];": 2,  # not each subscript is a loop's
    "for (int j = 0; j < m; j++) z[j] = j; for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) z[j] += a[i][j];": 1,
    "for (int j = 0; j < m; j++) for (int i = 0; i < n; i++) y[i][j] = x[i]; for (int k = 0; k < n; k++)"
    " for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) y[i][j] -= a[i][k] * a[k][j];": 1,
    "for (int j = 0; j < m; j++) z[j] = j; for (int i = 0; i < n; i++) for (int j = 0; j < m; j++)"
    " z[j] = 2 * z[j] + a[i][j];": 2,  # no sum
    "for (int j = 0; j < m; j++) z[j] = j; for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) x[j] += z[i];": 2,
    "for (int j = 0; j < m; j++) z[j] = z[m - 1 - j]; for (int i = 0; i < n; i++) for (int j = 0; j < m; j++)"
    " z[j] += a[i][j];": 2,  # what the first nest reads, the second one overwrites
}


@pytest.mark.parametrize("number", range(len(NESTS)))
def test_sums_begin_in_the_loops_of_their_terms(number: int, tmp_path: Path) -> None:
    text, nests = list(NESTS.items())[number]
    path = tmp_path / "f.c"
    path.write_text(
        f"void f(int n, int m, const int a[9][9], int x[9], int y[9][9], int z[9]) {{ {text} }}", encoding="utf-8"
    )
    func = canonical(read_c(str(path)), reassoc=False, symbolic=True)
    made = with_sums_begun(func)
    assert len({position(c).constants[0] for c in made.comps}) == nests
    generator = np.random.default_rng(number)
    inputs = {p.name: generator.integers(-9, 9, p.extents).astype(np.int32) for p in func.params if isinstance(p, Buf)}
    for sizes in ({"n": 0, "m": 4}, {"n": 3, "m": 0}, {"n": 7, "m": 9}):
        expected, got = (evaluate(f, {**inputs, **sizes}) for f in (func, made))
        for array in expected:
            np.testing.assert_array_equal(got[array], expected[array], err_msg=f"{array} {sizes}")
