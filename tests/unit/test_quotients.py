"""Ends of loops and extents that are parts of parameters become parameters themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dspgen.frontend.read import read_c
from dspgen.options import Options
from dspgen.target.isa.model import Target
from plant_core.interp.func import evaluate
from plant_core.ir.c_semantics import integer_of
from plant_core.ir.func import Buf, Func
from plant_core.normalize.loops.derived_parameters import with_quotients
from plant_core.normalize.pipeline import canonical
from tests.support.any_size import verified_at

KERNELS = {
    "pairs": (
        """void f(int n, const float x[n], float y[n / 2]) {
             for (int i = 0; i < n / 2; i++) y[i] = x[2 * i] - x[2 * i + 1]; }""",
        {"part0": "n / 2"},
    ),
    "rounded up": (
        """void f(int n, const float x[n], float y[(n + 3) / 4]) {
             for (int i = 0; i < (n + 3) / 4; i++) y[i] = 2 * x[4 * i]; }""",
        {"part0": "(n + 3) / 4"},
    ),
    "turned round in place": (
        """void f(int n, float x[n], float y[n]) {
             for (int i = 0; i < n / 2; i++) { float t = x[i]; x[i] = x[n - 1 - i]; x[n - 1 - i] = t; } }""",
        {"part0": "n / 2"},
    ),
    "from 1 on": (
        """void f(int n, const float x[n], float y[n / 2 + 1]) {
             for (int i = 1; i <= n / 2; i++) y[i] = x[i - 1] + x[n - i]; }""",
        {"part0": "n / 2"},
    ),
    # Below 0, C rounds up: one iteration for n = -1, as there is for 0.
    "stays": ("void f(int n, float y[9]) { for (int i = 0; i <= n / 2 && i < 9; i++) y[i] = 1; }", {}),
    "thirds stay": ("void f(int n, float y[9]) { for (int i = 0; i < n / 3; i++) y[i] = 1; }", {}),
}


def shape_of(buf: Buf, sizes: dict[str, int]) -> tuple[int, ...]:
    return tuple(n if isinstance(n, int) else integer_of(n, sizes) for n in buf.shape)


@pytest.mark.parametrize("name", KERNELS)
def test_they_compute_the_same(name: str, tmp_path: Path) -> None:
    text, expected = KERNELS[name]
    path = tmp_path / "f.c"
    path.write_text(text, encoding="utf-8")
    func = canonical(read_c(str(path)), reassoc=False)
    made, parts = with_quotients(func)
    assert sorted(parts) == sorted(expected)
    for n in (-1, 0, 1, 2, 3, 8, 13, 17):
        sizes = {"n": n}
        if n < 0 and expected:
            continue  # arrays have no fewer than no elements
        check(func, made, sizes, {k: integer_of(v, sizes) for k, v in parts.items()})


def check(func: Func, made: Func, sizes: dict[str, int], parts: dict[str, int]) -> None:
    arrays = {p.name: np.arange(1.0, 1 + np.prod(s), dtype=np.float32).reshape(s)
              for p in func.params if isinstance(p, Buf) for s in [shape_of(p, sizes)]}  # fmt: skip
    expected, got = evaluate(func, {**arrays, **sizes}), evaluate(made, {**arrays, **sizes, **parts})
    for name in expected:
        np.testing.assert_array_equal(got[name], expected[name], err_msg=f"{name} {sizes}")


def test_arrays_of_parts_have_blocks(tmp_path: Path, ft_m7002: Target) -> None:
    text = """void pairs(int n, const float x[n], float low[n / 2], float high[n / 2]) {
      for (int i = 0; i < n / 2; i++) { low[i] = x[2 * i] + x[2 * i + 1]; high[i] = x[2 * i] - x[2 * i + 1]; } }"""
    sizes = [{"n": n} for n in (0, 1, 2, 3, 64, 1001, 300_000)]
    assert verified_at(text, tmp_path, ft_m7002, Options(data="ddr"), sizes).efficiency > 0.9
