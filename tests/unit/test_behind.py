"""What lies behind a short block's data, so that iterations in excess come to nothing: the same sums."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dspgen.frontend.read import read_c
from plant_core.analysis.rectangular_hull import Boxes
from plant_core.interp.func import evaluate
from plant_core.ir.func import Buf, Func
from plant_core.normalize.pipeline import canonical
from plant_core.scratchpad.tile_nest import blocks
from plant_core.scratchpad.tiled_func import Blocks
from tests.support.block_runs import run_blocks, with_sizes

GRANULE, SPAN = 4, 32
LEAST = -(2**31)


def read(text: str, folder: Path) -> Func:
    path = folder / "f.c"
    path.write_text(text, encoding="utf-8")
    return canonical(read_c(str(path)), reassoc=True, symbolic=True)


def nest(body: str, folder: Path, dtype: str = "int") -> Func:
    head = f"int n, {dtype} c, const {dtype} x[200], const {dtype} y[200], {dtype} z[200], {dtype} s[3]"
    return read(f"void f({head}) {{ for (int i = 0; i < n; i++) {{ {body} }} }}", folder)


def in_blocks(func: Func, *, reassoc: bool = True) -> Blocks:
    return blocks(Boxes(func, GRANULE), (SPAN,), (0,), reassoc=reassoc)


def behind(made: Blocks) -> dict[str, float]:
    """What short blocks store behind the data of arrays."""
    piece = max(made.pieces, key=lambda p: len(p.comps))
    return {c.target.buf: c.value.value for c in piece.comps if c.name.startswith("S_behind")}  # type: ignore[union-attr]


SUMS = {
    "s[0] += x[i] * y[i];": {"x": 0, "y": 0},
    "s[0] -= x[i + 2] * x[i + 2];": {"x": 0},
    "s[0] += x[i] * y[i]; s[1] += x[i]; s[2] += y[i] > 0 ? y[i] : -y[i];": {"x": 0, "y": 0},
    "s[0] += x[i] * c;": {"x": 0},
    "s[0] |= x[i];": {"x": 0},
    "s[0] &= x[i];": {"x": -1},
    "s[0] = s[0] > x[i] ? s[0] : x[i];": {"x": LEAST},
    "s[0] = s[0] < x[i] ? s[0] : x[i];": {"x": -LEAST - 1},
    "s[0] += x[i] > 3;": {"x": 0},
    "z[i] = y[i] + 1; s[0] += x[i];": {"x": 0},
    "s[0] += x[i] + y[i];": {"x": 0, "y": 0},
}
OTHERS = [
    "s[0] += x[i] + 1;",  # 0 would have to be -1
    "s[0] += x[i] * x[i + 1];",  # what is behind one is another's
    "s[0] += z[i]; z[i] = y[i];",  # what is behind it is written meanwhile
    "s[0] += x[2 * i];",
    "s[0] += x[n - 1 - i];",
    "s[0] += i;",
    "s[0] += 12 / (x[i] | 1);",
    "s[0] += x[i]; s[1] = s[1] > x[i] ? s[1] : x[i];",  # 0 for one, the least for the other
    "s[0] += x[i]; z[0] = y[i];",
    "s[0] += x[i] * y[n];",
    "s[0] += x[i]; z[i] = y[x[i] & 7];",  # what is behind data tells of no place
    "s[0] += x[i]; z[i] = z[0] + 1;",
]


@pytest.mark.parametrize("body", SUMS)
def test_what_comes_to_nothing_is_stored_behind_data(body: str, tmp_path: Path) -> None:
    func = nest(body, tmp_path)
    made = in_blocks(func)
    assert behind(made) == SUMS[body]
    generator = np.random.default_rng(1)
    inputs = {p.name: generator.integers(-9, 9, p.extents).astype(np.int32) for p in func.params if isinstance(p, Buf)}
    for n in (0, 1, 7, 16, 17, 31, 32, 33, 64, 95, 100):
        expected = evaluate(func, inputs | {"n": n, "c": 3})
        got = run_blocks(with_sizes(made, {"n": n}), inputs, {"n": n, "c": 3})
        for name in expected:
            np.testing.assert_array_equal(got[name], expected[name], err_msg=f"{name} of {n}")


@pytest.mark.parametrize("body", OTHERS)
def test_other_loops_have_the_iterations_that_they_have(body: str, tmp_path: Path) -> None:
    assert behind(in_blocks(nest(body, tmp_path))) == {}


def test_floats_have_zeros_behind_them_where_all_factors_are_data(tmp_path: Path) -> None:
    """A scalar may be no number, and nothing times that is none either; and sums keep their order where they must."""
    func = nest("s[0] += x[i] * y[i];", tmp_path, "float")
    assert behind(in_blocks(func)) == {"x": 0, "y": 0}
    assert behind(in_blocks(func, reassoc=False)) == {}
    assert behind(in_blocks(nest("s[0] += x[i] * c;", tmp_path, "float"))) == {}
    assert behind(in_blocks(nest("s[0] = s[0] > x[i] ? s[0] : x[i];", tmp_path, "float"))) in ({}, {"x": float("-inf")})
