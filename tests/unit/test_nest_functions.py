"""Nests as functions of their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dspgen.frontend.read import read_c
from dspgen.search.outline_nest import alone
from dspgen.tiling.loops.loop_nests import nests
from plant_core.analysis.dependence import memory_dependences
from plant_core.analysis.runtime_parameters import known_only
from plant_core.ir.quasi_affine import parameters_of
from plant_core.normalize.pipeline import canonical
from plant_core.strip_mine.strips import in_groups

CONVOLUTION = """void f(int h, int w, int p, int q, const float x[99][99], const float k[4][4], float y[90][90]) {
  for (int i = 0; i < h; i++) for (int j = 0; j < w; j++) { y[i][j] = 0;
    for (int u = 0; u < p; u++) for (int v = 0; v < q; v++) y[i][j] += k[u][v] * x[i + u][j + v]; } }"""


SHIFTED = """void f(int n, int m, int k, const float a[40][90], float y[40][90]) {
  for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) y[i][j] = a[i][j + k]; }"""


def test_counts_know_of_what_only_subscripts_are_told(tmp_path: Path) -> None:
    # As blocks tell pieces where they begin. Relations between statements, some of which count, are of one space.
    path = tmp_path / "f.c"
    path.write_text(SHIFTED, encoding="utf-8")
    func = canonical(read_c(str(path)), reassoc=True, symbolic=True)
    func = replace(func, comps=known_only(func.comps))
    assert "k" not in parameters_of(func.comps[0].domain)
    grouped = in_groups(func, [n.names for n in nests(func)], 16, reassoc=True)
    assert grouped is not None
    assert len({tuple(parameters_of(c.domain)) for c in grouped.comps}) == 1
    memory_dependences(grouped)


def test_counts_are_computed_where_there_would_be_too_many_parameters(tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text(CONVOLUTION, encoding="utf-8")
    func = canonical(read_c(str(path)), reassoc=True, symbolic=True)
    grouped = in_groups(func, [n.names for n in nests(func)], 16, reassoc=True)
    assert grouped is not None
    counts = {c.defines for c in grouped.comps if c.defines is not None}
    given = computed = 0
    for nest in nests(grouped):
        free, few = alone(grouped, nest, 99), alone(grouped, nest, 8)
        assert not any(c.defines for c in free.comps if c.name not in nest.names)
        assert len(few.params) <= 8
        assert set(nest.names) <= {c.name for c in few.comps}
        given += any(p.name in counts for p in free.params)
        computed += len(few.comps) > len(free.comps)
    assert 0 < computed <= given
