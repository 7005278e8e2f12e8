"""Loops that count down, as loops that count up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dspgen.frontend.read import read_c
from plant_core.interp.func import evaluate
from plant_core.ir.time_2d1 import Line, normalise_loops, position
from plant_core.normalize.loops.loop_reversal import ascending, turned

HEAD = "void f(int n, const int a[9][9], int x[9]) { "
UP = {
    "one": "for (int i = n - 1; i >= 0; i--) x[i] += a[i][0];",
    "of a triangle": "for (int i = 8; i >= 0; i--) for (int j = 8; j > i; j--) x[i] -= a[i][j] * x[j];",
    "within one that counts up": "for (int i = 0; i < 9; i++) { x[i] = i; "
    "for (int j = i; j >= 2; j--) x[i] += a[i][j]; }",
    "of several statements": "for (int i = 8; i > 0; i--) { x[i] += 2; for (int j = 0; j < i; j++) x[j] += x[i]; }",
    "in twos": "for (int i = 8; i > 0; i -= 2) x[i] += x[i - 1];",
}
STAY = {
    "all count up": "for (int i = 0; i < n; i++) x[i] += 1;",
}


@pytest.mark.parametrize("name", [*UP, *STAY])
def test_the_same_in_the_same_order(name: str, tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text(f"{HEAD}{(UP | STAY)[name]} }}", encoding="utf-8")
    func = normalise_loops(read_c(str(path)))
    made = ascending(func)
    assert (made is func) == (name in STAY)
    lines = [(line, n) for c in made.comps for line, n in zip(position(c).loops, c.iters, strict=True)]
    assert all(line == Line(0, ((n, 1),)) for line, n in lines)
    generator = np.random.default_rng(1)
    arrays = {"a": generator.integers(-9, 9, (9, 9)), "x": generator.integers(-9, 9, 9)}
    for size in (0, 1, 9):
        inputs = {**{k: v.astype(np.int32) for k, v in arrays.items()}, "n": size}
        np.testing.assert_array_equal(evaluate(made, inputs)["x"], evaluate(func, inputs)["x"])


TURNED = {
    "alone": ("for (int i = n - 1; i >= 0; i--) x[i] = a[i][0];", True),
    "inside": ("for (int i = 1; i < n; i++) for (int j = n - 1; j >= 0; j--) x[j] += a[i][j] * x[j];", True),
    "read before it is written": ("for (int i = n - 2; i >= 0; i--) x[i + 1] = x[i];", False),
    "read after it is written": ("for (int i = n - 2; i >= 0; i--) x[i] = x[i + 1];", False),
    "one element": ("for (int i = n - 1; i >= 0; i--) x[0] = 2 * x[0] + a[i][1];", False),
}


@pytest.mark.parametrize("name", TURNED)
def test_loops_turn_where_their_order_is_of_no_matter(name: str, tmp_path: Path) -> None:
    text, turns = TURNED[name]
    path = tmp_path / "f.c"
    path.write_text(f"{HEAD}{text} }}", encoding="utf-8")
    func = normalise_loops(read_c(str(path)))
    made = turned(func)
    assert (made is not func) == turns
    a, x = np.arange(81, dtype=np.int32).reshape(9, 9), np.arange(9, dtype=np.int32) * 7
    found = [evaluate(form, {"a": a, "x": x, "n": 9})["x"] for form in (made, func)]
    np.testing.assert_array_equal(*found)


def test_subscripts_that_fall_rise(tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text(f"{HEAD}while (n > 0) {{ x[9 - n] = a[9 - n][2]; n--; }} }}", encoding="utf-8")
    func = normalise_loops(read_c(str(path)))
    (comp,) = ascending(func, straightening=True).comps
    assert position(comp).loops[0] == Line(0, ((comp.iters[0], 1),))
    path.write_text(f"{HEAD}for (int i = n - 1; i >= 0; i--) x[i] = a[i][2]; }}", encoding="utf-8")
    func = normalise_loops(read_c(str(path)))
    assert ascending(func, straightening=True) is func
