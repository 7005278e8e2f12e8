"""Functions at values of their integer parameters."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dspgen.frontend.read import read_c
from plant_core.interp.func import evaluate
from plant_core.ir.func import ScalarParam
from plant_core.normalize.loops.specialize_sizes import at_sizes


def test_a_function_at_sizes_does_the_same(tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    text = """void f(int n, int m, float k, const float x[n + m][m], float y[m][n]) {
      for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) y[j][i] = k * x[i + m][j] + n; }"""
    path.write_text(text, encoding="utf-8")
    func = read_c(str(path))
    sizes = {"n": 3, "m": 4}
    found = at_sizes(func, sizes)
    assert [p.name for p in found.params if isinstance(p, ScalarParam)] == ["k"]
    assert found.buf("x").shape == (7, 4)
    given = {"k": 2.0, "x": np.arange(28, dtype=np.float32).reshape(7, 4), "y": np.zeros((4, 3), np.float32)}
    assert np.array_equal(evaluate(found, given)["y"], evaluate(func, given | sizes)["y"])
