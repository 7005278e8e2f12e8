"""Single precision in place of double: the same bits, on values of all sizes, subnormal ones and infinities too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dspgen.frontend.read import read_c
from plant_core.interp.func import evaluate
from plant_core.ir.accesses import children
from plant_core.ir.func import Expr
from plant_core.normalize.scalars.narrow_floats import in_singles

COUNT = 400


def doubles_in(expr: Expr) -> bool:
    return getattr(expr, "dtype", "i32") == "f64" or any(doubles_in(c) for c in children(expr))


def values(seed: int) -> np.ndarray:
    source = np.random.default_rng(seed)
    found = source.integers(0, 1 << 32, COUNT, dtype=np.uint64).astype(np.uint32).view(np.float32).copy()
    found[::7] = source.choice(np.array([0, -0.0, 1, np.inf, -np.inf, 1e-45, 1.5e-39, 3.4e38, 2**-126], "f4"), 58)
    close = source.integers(0, 1 << 24, COUNT).astype(np.float32) * np.float32(2.0**-140)
    found[3::5] = close[3::5]
    return np.where(np.isnan(found), np.float32(2.5), found)


def check(tmp_path: Path, value: str, *, narrow: bool) -> None:
    path = tmp_path / "k.c"
    head = f"void f(const float a[{COUNT}], const float b[{COUNT}], const short n[{COUNT}], float r[{COUNT}])"
    loop = f"for (int i = 0; i < {COUNT}; i++) r[i] = {value};"
    path.write_text(f"#include <math.h>\n{head}\n{{\n#pragma scop\n{loop}\n#pragma endscop\n}}\n")
    func = read_c(str(path))
    new = in_singles(func)
    assert doubles_in(func.comps[0].value)
    assert not doubles_in(new.comps[0].value) == narrow
    for seed in range(3):
        short = np.random.default_rng(seed).integers(-32768, 32768, COUNT).astype(np.int16)
        inputs = {"a": values(seed), "b": values(seed + 9), "n": short, "r": np.zeros(COUNT, "f4")}
        before, after = evaluate(func, inputs)["r"], evaluate(new, inputs)["r"]
        np.testing.assert_array_equal(before.view("u4")[~np.isnan(before)], after.view("u4")[~np.isnan(before)])


@pytest.mark.parametrize(
    "value",
    [
        "a[i] * 0.5", "a[i] / 3.0", "1.0 / a[i]", "(double)a[i] + b[i]", "(double)a[i] - b[i]", "(double)a[i] * b[i]",
        "(double)a[i] / b[i]", "sqrt(fabs(a[i]))", "a[i] > 0.0 ? a[i] : 0.0", "fabs(a[i])", "n[i] * 0.25",
        "-(double)a[i]", "a[i] < 0.5 ? a[i] * 2.0 : b[i] - 1.0", "(double)a[i] > b[i] ? 1.0f : 2.0f",
    ],
)  # fmt: skip
def test_one_rounding_is_as_good_as_two(tmp_path, value):
    check(tmp_path, value, narrow=True)


@pytest.mark.parametrize("value", ["a[i] * 0.1", "a[i] * 0.5 + b[i]", "a[i] > 0.1 ? a[i] : b[i]", "a[i] * 1e60"])
def test_what_would_differ_stays_double(tmp_path, value):
    check(tmp_path, value, narrow=False)
