"""Sums of columns, and filters, of any size: batches of many vectors, of few, and one vector after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspgen.driver.pipeline import compile_file, run_compiled
from dspgen.options import Options
from dspgen.target.load import load_target

# Sizes at the ends of batches, and with the last ones the cycles that they may take on the chip and off it: one vector
# at a time a filter took 681, columns 681, and off the chip, begun in blocks of their own, 1,097.
KERNELS = {
    "filter": (
        """void f(int n, int t, const float x[n + t], const float h[t], float y[n]) {
          for (int i = 0; i < n; i++) { y[i] = 0; for (int k = 0; k < t; k++) y[i] += h[k] * x[i + k]; } }""",
        ("n", "t"),
        ((0, 3), (15, 3), (63, 3), (64, 3), (70, 0), (191, 3), (192, 3), (257, 3), (100, 8)),
        {"onchip": 350, "ddr": 450},
    ),
    "columns": (
        """void f(int n, int m, const float a[n][m], const float x[n], float y[m]) {
          for (int j = 0; j < m; j++) y[j] = 0;
          for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) y[j] += a[i][j] * x[i]; }""",
        ("n", "m"),
        ((0, 40), (5, 0), (5, 31), (5, 32), (5, 95), (5, 96), (5, 129), (33, 47)),
        {"onchip": 640, "ddr": 1000},
    ),
}

ROOM = {"n + t": 1040, "t": 40, "n": 300, "m": 260}  # of arrays on the chip


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("columns", "onchip"),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in (("filter", "onchip"), ("columns", "ddr"), ("filter", "ddr"))
        ),
    ],
)
def test_batches_end_where_the_loop_does(name: str, data: str, tmp_path: Path) -> None:
    text, names, sizes, most = KERNELS[name]
    path = tmp_path / "f.c"
    if data == "onchip":
        head, body = text.split("{", 1)
        for extent, room in ROOM.items():
            head = head.replace(f"[{extent}]", f"[{room}]")
        text = head + "{" + body
    path.write_text(text, encoding="utf-8")
    target, options = load_target("ft_m7002"), Options(data="ddr" if data == "ddr" else "onchip")
    compiled = compile_file(str(path), target, options)
    for size in sizes:
        run = run_compiled(compiled, str(path), target, options, inputs=dict(zip(names, size, strict=True)))
        assert run.verified, (size, run.details)
    assert run.cycles < most[data]
