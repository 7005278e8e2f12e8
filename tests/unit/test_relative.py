"""Loops that follow an outer one at few iterations' distance, counted from there: the same arrays."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspgen.frontend.read import read_c
from plant_core.ir.time_2d1 import normalise_loops
from plant_core.normalize.loops.rebase_loops import relative
from tests.support.same_arrays import check_same

LOOPS = {  # and the iterations of the inner loop afterwards, those of all together where it stays as it is
    "for (int i = 0; i < 40; i++) for (int j = (i > 1 ? i - 1 : 0); j <= (i < 38 ? i + 1 : 39); j++)"
    " y[i] += 3 * x[j] - j;": (0, 2),
    "for (int i = 0; i < 40; i++) for (int j = i; j < i + 5; j++) y[i] += x[j];": (0, 4),
    "for (int i = 0; i < n; i++) for (int j = (i > 3 ? i - 3 : 0); j <= i; j++) y[i] += x[j] * j;": (0, 3),
    "for (int i = 0; i < 40; i++) for (int j = 0; j < 40; j++) if (j - i < 2 && i - j < 2) y[i] -= x[j];": (0, 2),
    "for (int i = 0; i < 40; i++) for (int j = 0; j <= i; j++) y[i] += x[j];": (0, 39),
    "for (int i = 0; i < 4; i++) for (int j = i; j < i + 5; j++) y[i] += x[j];": (0, 7),  # few in any case
    "for (int i = 0; i < 40; i++) for (int j = i; j < i + 5; j++) { y[i] += x[j]; z[j] = z[j] + y[i]; }": (0, 4),
    "for (int i = 0; i < 20; i++) for (int k = 0; k < 2; k++) for (int j = 2 * i; j < 2 * i + 4; j++) y[i] += x[j];":
        (0, 41),
}  # fmt: skip


@pytest.mark.parametrize("text", LOOPS)
def test_loops_count_from_where_an_outer_one_is(text: str, tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text(f"void f(int n, const int x[50], int y[50], int z[50]) {{ {text} }}", encoding="utf-8")
    func = normalise_loops(read_c(str(path)))
    made = relative(func)
    for comp in made.comps:
        depth = len(comp.iters) - 1
        assert (comp.domain.dim_min_val(depth).to_python(), comp.domain.dim_max_val(depth).to_python()) == LOOPS[text]
    for n in (0, 1, 40):
        check_same(func, made, {"n": n})
