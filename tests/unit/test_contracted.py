"""Local arrays with an element for each iteration become as small as what one iteration has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dspgen.frontend.read import read_c
from plant_core.interp.func import evaluate
from plant_core.ir.func import Func
from plant_core.normalize.pipeline import canonical
from plant_core.transform.array_contraction import contracted


def nest_of(body: str, folder: Path) -> Func:
    path = folder / "f.c"
    path.write_text(f"void f(int n, int m, const float x[n][m], float y[n][m]) {{ {body} }}", encoding="utf-8")
    return canonical(read_c(str(path)), reassoc=False, symbolic=True)


def same(before: Func, after: Func) -> bool:
    x = np.random.default_rng(3).integers(-9, 9, (7, 11)).astype(np.float32)
    inputs = {"n": 7, "m": 11, "x": x, "y": np.zeros_like(x)}
    return bool(np.array_equal(evaluate(before, inputs)["y"], evaluate(after, inputs)["y"]))


@pytest.mark.parametrize(
    ("body", "shapes"),
    [
        (
            """for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) {
                 float s = 1; for (int k = 0; k < 3; k++) s = s * x[i][j] + k; y[i][j] = s > 0 ? s : 2 * s; }""",
            [(1, 1)],
        ),
        # One value for each row, which all its columns use.
        (
            """for (int i = 0; i < n; i++) { float s = 0; for (int k = 0; k < 3; k++) s = s * x[i][k] + k;
                 for (int j = 0; j < m; j++) y[i][j] = s * x[i][j]; }""",
            [(1,)],
        ),
    ],
)
def test_what_one_iteration_has(body: str, shapes: list[tuple[int, ...]], tmp_path: Path) -> None:
    func = nest_of(body, tmp_path)
    names = [b.name for b in func.bufs if b.kind == "local"]
    made = contracted(func, names)
    assert [b.shape for b in made.bufs if b.kind == "local"] == shapes
    assert same(func, made)


@pytest.mark.parametrize(
    "body",
    [
        # Iterations come back to an element after others.
        """float s[200]; for (int i = 0; i < 7; i++) s[i] = 0;
           for (int j = 0; j < m; j++) for (int i = 0; i < 7; i++) { s[i] += x[i][j]; y[i][j] = s[i]; }""",
        # Two elements in one iteration.
        """float s[200]; for (int i = 0; i < 7; i++) s[i] = 0;
           for (int i = 1; i < 7; i++) for (int j = 0; j < m; j++) { s[i] = s[i - 1] + x[i][j]; y[i][j] = s[i]; }""",
    ],
)
def test_values_that_last_stay(body: str, tmp_path: Path) -> None:
    func = nest_of(body, tmp_path)
    assert contracted(func, ["s"]) is func
