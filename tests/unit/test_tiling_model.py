"""What the model tells of tiles: values that stay in registers, and loops that statements share."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspgen.frontend.read import read_c
from dspgen.target.isa.model import Target
from dspgen.target.query.operations import OperationTable
from dspgen.tiling.candidates import Candidate, candidates
from dspgen.tiling.cost.unit_pressure import Across, Machine
from dspgen.tiling.loops.loop_arrangements import arrangements, spaced
from dspgen.tiling.loops.loop_nests import FlatAccess, nests
from plant_core.analysis.dependence import memory_dependences
from plant_core.ir.func import Func
from plant_core.normalize.scalars.scalar_expansion import expand_scalars


def func_of(text: str, folder: Path) -> Func:
    path = folder / "f.c"
    path.write_text(text, encoding="utf-8")
    return spaced(expand_scalars(read_c(str(path))))


def found_candidates(func: Func, target: Target) -> list[Candidate]:
    (nest,) = nests(func)
    known = memory_dependences(func)
    arranged = list(arrangements(nest, func, known, reassoc=True))
    return candidates(arranged, target, Machine(target, OperationTable(target)), 8, known)


def test_values_of_one_iteration_are_registers(tmp_path: Path, ft_m7002: Target) -> None:
    """A difference in a variable, which is an array's element once statements are apart, costs no load and no store."""
    direct = "y[i] = x[2 * i] - x[2 * i + 1]; z[i] = x[2 * i] - x[2 * i + 1];"
    passed = "float t = x[2 * i] - x[2 * i + 1]; y[i] = t; z[i] = t * t;"
    found = {}
    for body in (direct, passed):
        text = (
            f"void f(const float x[512], float y[256], float z[256]) {{ for (int i = 0; i < 256; i++) {{ {body} }} }}"
        )
        func = func_of(text, tmp_path)
        (nest,) = nests(func)
        best = found_candidates(func, ft_m7002)[0]
        found[body] = len(nest.own), best.cycles
        assert ";" not in best.title
    assert found[direct][0] == 0 and found[passed][0] == 1
    assert found[passed][1] <= found[direct][1]


@pytest.mark.parametrize(
    "body",
    [
        "for (int i = 0; i < 64; i++) { y[i] = t[i] + x[i]; t[i] = x[i]; }",  # what was there before is read
        "for (int i = 0; i < 64; i++) { t[i] = x[i]; if (i > 0) y[i] = t[i - 1]; }",  # another iteration's
        "for (int i = 0; i < 64; i++) { t[i] = x[i]; y[i] = t[i]; } for (int i = 0; i < 64; i++) y[i] += t[i];",
    ],
)
def test_what_others_read_is_in_memory(body: str, tmp_path: Path) -> None:
    text = f"void f(const float x[64], float y[64]) {{ float t[64]; {body} }}"
    assert not any(nest.own for nest in nests(func_of(text, tmp_path)))


def test_loops_that_statements_share_begin_once(tmp_path: Path, ft_m7002: Target) -> None:
    """Two statements in one loop take less than twice what one of them takes."""
    found = []
    for body in ("y[i] = 2 * x[i];", "y[i] = 2 * x[i]; z[i] = 3 * x[i];"):
        text = (
            f"void f(const float x[256], float y[256], float z[256]) {{ for (int i = 0; i < 256; i++) {{ {body} }} }}"
        )
        best = found_candidates(func_of(text, tmp_path), ft_m7002)
        found.append(min(c.cycles for c in best if c.laned and not c.whole and ";" not in c.title))
    assert found[1] < 1.5 * found[0]


def test_runs_that_lie_far_apart_are_no_vectors(ft_m7002: Target) -> None:
    """Two runs of eight elements each hold a vector's lanes where the elements of a run lie side by side, not where
    these are rows apart."""
    machine = Machine(ft_m7002, OperationTable(ft_m7002))
    access = FlatAccess("x", 0, (), "f32", write=False)
    for stride, apart in ((2, False), (160, True)):
        how = Across(stride, 2, stride * 7 + 1000)
        assert machine.lane_by_lane(access, how, written=False, read=True) == apart


ROWS = """
void f(float A[N][N])
{
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < i; j++) {
      for (int k = 0; k < j; k++)
        A[i][j] -= A[i][k] * A[k][j];
      A[i][j] /= A[j][j];
    }
    for (int j = i; j < N; j++)
      for (int k = 0; k < i; k++)
        A[i][j] -= A[i][k] * A[k][j];
  }
}
"""


def test_rows_that_differ_in_length_do_so_in_every_arrangement(tmp_path: Path, ft_m7002: Target) -> None:
    """Loops in an order of their own keep the domain that they had, so that what is left of a row is cut."""
    func = func_of("#define N 40\n" + ROWS, tmp_path)
    (nest,), known = nests(func), memory_dependences(func)
    arranged = list(arrangements(nest, func, known, reassoc=True))
    assert any(a.moved for a in arranged) and not any(c.settled for a in arranged for c in a.nest.comps)
    laned = [c for c in found_candidates(func, ft_m7002) if c.laned]
    assert laned and all(any(x.cut for _, plan in c.plans for s in plan.shapes for _, x in s) for c in laned[:5])
