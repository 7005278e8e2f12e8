"""Sizes for short runs of code whose trips are known at run time only."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import islpy as isl
import pytest

from dspgen.backend.probe_sizes import trial_sizes
from dspgen.backend.stages import cycles_of
from dspgen.driver.pipeline import compile_file
from dspgen.frontend.read import read_c
from dspgen.options import Options
from dspgen.target.isa.model import Target
from plant_core.ir.func import Binary, Expr, Param, ScalarParam, Val
from plant_core.normalize.pipeline import canonical
from plant_core.strip_mine.strips import in_groups

PRODUCT = """void f(int n, int m, int p, const float a[40][40], const float b[40][99], float c[40][99]) {
  for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) for (int l = 0; l < p; l++) c[i][j] += a[i][l] * b[l][j]; }"""


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        (PRODUCT, {"n": 3, "m": 70, "p": 40}),
        (PRODUCT.replace("99", "50"), {"n": 3, "m": 50, "p": 40}),
        (PRODUCT.replace("int m, int p", "int p").replace("j < m", "j < n"), {"n": 19, "p": 40}),
        ("void f(int n, int k, int x[20]) { for (int i = 0; i < n; i++) x[i] += k; }", {"n": 20, "k": 0}),
        ("void f(int n, int x[2000]) { for (int i = 1; i < n - 1; i++) x[i] += 2; }", {"n": 1500}),
    ],
)
def test_no_more_than_arrays_have(text: str, sizes: dict[str, int], tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text(text, encoding="utf-8")
    assert trial_sizes(read_c(str(path))) == sizes


def test_a_rest_behind_many_vectors_runs(tmp_path: Path) -> None:
    """Sizes that nothing bounds may be larger than what blocks are chosen for."""
    path = tmp_path / "f.c"
    path.write_text(
        """void f(int v, int m, const float x[9999], float y[4][4]) {
          for (int a = 0; a < 4; a++) for (int b = 0; b < 4; b++)
            for (int c = 0; c < v; c++) for (int d = 0; d < 16; d++) y[a][b] += x[16 * c + d];
          for (int k = 16 * v; k < m; k++) y[0][0] += x[k]; }""",
        encoding="utf-8",
    )
    sizes = trial_sizes(canonical(read_c(str(path)), reassoc=True, symbolic=True))
    assert sizes["v"] > 1 and sizes["m"] > 16 * sizes["v"]


def test_loops_run_over_groups_and_what_is_left(tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text(PRODUCT.replace("40", "99"), encoding="utf-8")
    func = read_c(str(path))
    grouped = in_groups(func, [[c.name for c in func.comps]], 16, reassoc=True)
    assert grouped is not None
    assert trial_sizes(grouped) == {"n": 19, "m": 99, "p": 19}  # two groups of 8 and 3 rows; two of 32 and more


def test_code_of_unknown_trips_is_compared_by_its_cycles(tmp_path: Path, ft_m7002: Target) -> None:
    path = tmp_path / "f.c"
    text = "void f(int n, const int x[99], int y[99]) { for (int i = 1; i < n; i++) y[i] = 3 * y[i - 1] + x[i]; }"
    path.write_text(text, encoding="utf-8")
    compiled = compile_file(str(path), ft_m7002, Options(tile="one"))
    assert compiled.scheduled.cycles is None
    best = min(t.cycles for c in compiled.choices for t in c.trials if t.cycles)
    assert 0.95 * best <= (cycles_of(compiled, ft_m7002) or 0) <= best  # packed once more, with more patience


def test_what_runs_for_some_parameters_only_does(tmp_path: Path) -> None:
    """The last groups of rows and of columns."""
    path = tmp_path / "f.c"
    path.write_text(
        "void f(int n, int m, const int x[n][m], int y[n][m]) "
        "{ for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) y[i][j] = x[i][j]; }",
        encoding="utf-8",
    )
    func = canonical(read_c(str(path)), reassoc=False, symbolic=True)
    made = in_groups(func, [[c.name for c in func.comps]], 16, reassoc=False)
    assert made is not None
    groups = [c.defines for c in made.comps if c.defines is not None]
    for comp in (c for c in made.comps if c.iters):
        params = (*made.params, *(ScalarParam(name, "i32") for name in groups))
        sizes = trial_sizes(replace(made, params=params, comps=(comp,)))
        domain = comp.domain
        for name, value in sizes.items():
            if (k := domain.find_dim_by_name(isl.dim_type.param, name)) >= 0:
                domain = domain.fix_val(isl.dim_type.param, k, isl.Val(value))
        assert not domain.is_empty(), sizes


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "min": min,
    "max": max,
}


def _value(expr: Expr, values: Mapping[str, int]) -> int:
    match expr:
        case Val(value):
            return int(value)
        case Param(name):
            return values[name]
        case Binary(op, left, right):
            return _OPERATIONS[op](_value(left, values), _value(right, values))
        case _:
            raise AssertionError(expr)


@pytest.mark.parametrize("sums", [False, True])
def test_each_part_runs_as_the_program_itself_counts_its_groups(sums: bool, tmp_path: Path) -> None:
    """Numbers of groups, of batches of either size, and of pairs of columns follow from the sizes: they are no more
    than these make them, and a part that asks for some of each has some."""
    path = tmp_path / "f.c"
    inner = "for (int l = 0; l < p; l++) y[i][j] += x[i][j + l];" if sums else "y[i][j] = x[i][j] + x[i][j + p];"
    path.write_text(
        f"""void f(int n, int m, int p, const int x[512][512], int y[512][512]) {{
          for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) {{ y[i][j] = 0; {inner} }} }}""",
        encoding="utf-8",
    )
    func = canonical(read_c(str(path)), reassoc=True, symbolic=True)
    made = in_groups(func, [[c.name for c in func.comps]], 16, reassoc=True, unit=lambda comp, count: 2)
    assert made is not None and any(c.defines == "units0" for c in made.comps)
    assert sums == any(c.defines == "larger0" for c in made.comps)
    definitions = tuple(c for c in made.comps if c.defines is not None)
    for comp in (c for c in made.comps if c.iters):
        values = trial_sizes(replace(made, comps=(*definitions, comp)))
        for definition in definitions:
            assert definition.defines is not None
            values[definition.defines] = _value(definition.value, values)
        domain = comp.domain
        for name, value in values.items():
            if (k := domain.find_dim_by_name(isl.dim_type.param, name)) >= 0:
                domain = domain.fix_val(isl.dim_type.param, k, isl.Val(value))
        assert not domain.is_empty(), (comp.name, values)
