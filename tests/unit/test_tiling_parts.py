"""Statements in parts: the same values, operations that lanes lack alone, and nothing computed that must not be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dspgen.driver.pipeline import run_file
from dspgen.frontend.read import read_c
from dspgen.options import Options
from dspgen.search.lane_support import Lacking
from dspgen.target.isa.model import Target
from dspgen.tiling.split.statement_splitting import Parted, in_parts
from plant_core.interp.func import evaluate
from plant_core.ir.func import Binary, Buf, Expr, Func, Load, Val
from plant_core.ir.time_2d1 import normalise_loops
from plant_core.normalize.scalars.scalar_expansion import expand_scalars

PARAMS = "int a[20][6], int b[20][6], int c[20][6], int x[20][6]"


def func_of(body: str, folder: Path, params: str = PARAMS) -> Func:
    path = folder / "f.c"
    loops = f"for (int i = 0; i < 20; i++) for (int j = 1; j < 6; j++) {{ {body} }}"
    path.write_text(f"void f({params}) {{ {loops} }}", encoding="utf-8")
    return expand_scalars(normalise_loops(read_c(str(path))))


def divides(expr: Expr) -> bool:
    return isinstance(expr, Binary) and expr.op in ("div", "mod")


def parted(func: Func) -> Parted | None:
    return in_parts(func, {c.name for c in func.comps}, divides)


def check_same(before: Func, after: Func) -> None:
    generator = np.random.default_rng(1)
    inputs = {
        p.name: generator.integers(1, 99, p.extents).astype(np.int32) for p in before.params if isinstance(p, Buf)
    }
    expected, got = evaluate(before, inputs), evaluate(after, inputs)
    assert all(np.array_equal(expected[name], got[name]) for name in expected)


@pytest.mark.parametrize(
    ("body", "parts"),
    [
        ("x[i][j] = (a[i][j] * b[i][j] + 7) / (c[i][j] * 3 + 1) + a[i][j] * 5 - b[i][j];", 4),
        ("x[i][j] = a[i][j] / c[i][j] + a[i][j] * 5 - b[i][j];", 2),
        ("x[i][j] = (a[i][j] * 3 + 1) / c[i][j];", 2),
        ("x[i][j] = (a[i][j] * 3 + 7 - b[i][j]) / c[i][j] % b[i][j];", 2),
        ("x[i][j] = x[i][j - 1] + (a[i][j] + b[i][j] * 7 - 3 * c[i][j]) / b[i][j];", 3),
        ("x[i][j] = a[i][j] * a[i][j] + b[i][j] * 7; c[i][j] = (x[i][j] * 3 + 9) / a[i][j] * 2 + b[i][j];", 4),
        ("x[i][j] = a[i][j] > 9 ? (a[i][j] * 3 + 7) / b[i][j] : c[i][j] * 3 + 2;", 3),
    ],
)
def test_operations_get_statements_of_their_own(body: str, parts: int, tmp_path: Path) -> None:
    func = func_of(body, tmp_path)
    found = parted(func)
    assert found is not None
    check_same(func, found.func)
    assert len(found.func.comps) == parts
    divided = {c.name for c in found.func.comps if any(divides(e) for e in _within(c.value))}
    assert divided == set(found.single)


def _within(expr: Expr) -> list[Expr]:
    inside = (expr.left, expr.right) if isinstance(expr, Binary) else ()
    return [expr, *(e for part in inside for e in _within(part))]


@pytest.mark.parametrize(
    "body",
    [
        "x[i][j] = a[i][j] / b[i][j];",  # nothing is left
        "x[i][j] = a[i][j] * 3 + 1 - b[i][j];",  # nothing is lacked
    ],
)
def test_statements_stay_whole_where_nothing_is_gained(body: str, tmp_path: Path) -> None:
    assert parted(func_of(body, tmp_path)) is None


def test_what_may_lie_outside_an_array_is_not_read_before_its_condition(tmp_path: Path) -> None:
    func = func_of("x[i][j] = b[i][j] < 6 ? (a[i][b[i][j]] * 3 + 7 - c[i][j]) / b[i][j] : c[i][j] * 3 + 2;", tmp_path)
    assert parted(func) is None


def test_what_lanes_lack_is_found_by_compiling_it(ft_m7002: Target) -> None:
    lacks = Lacking(ft_m7002, Options())
    x, y = (Load(name, (), "f64") for name in "xy")
    assert lacks(Binary("div", x, y, "f64"))
    assert not lacks(Binary("mul", x, y, "f64"))
    k = Load("k", (), "i32")
    assert lacks(Binary("xor", k, k, "i32"))
    assert not lacks(Binary("and", k, Val(255, "i32"), "i32"))


def test_divisions_run_one_by_one_between_loops_on_lanes(ft_m7002: Target, tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text(
        "void f(const double a[64], const double b[64], const double c[64], double x[64]) {\n"
        "for (int i = 0; i < 64; i++)\n"
        "  x[i] = (a[i] * b[i] + c[i] * 2.0) / (b[i] * b[i] + a[i] * c[i] * c[i] + 1.0) + c[i] * c[i] * a[i]; }"
    )
    result = run_file(str(path), ft_m7002, Options())
    assert result.verified
    verdict = next(r.message for r in result.remarks if r.kind == "vectorized")
    assert verdict.startswith("in part: across i: 16 lanes") and "no vector `div` of type f64" in verdict
