"""Nests read off schedules, candidate register tiles, the search over them, and the lower bound on cycles."""

from __future__ import annotations

from pathlib import Path

import islpy as isl
import pytest

from dspgen.errors import NoSchedule, Problem
from dspgen.frontend.read import read_c
from dspgen.target.model import Target
from dspgen.target.operations import OperationTable
from dspgen.tiling.bound import bound, count
from dspgen.tiling.candidates import Candidate, candidates, lane_choices, scalar_candidate
from dspgen.tiling.machine import Machine
from dspgen.tiling.nests import nests
from dspgen.tiling.search import search
from plant_core.ir import Func
from plant_core.legality import check_legal
from plant_core.tiles import Plan

MATMUL = """
void f(const float A[20][30], const float B[30][40], float C[20][40])
{
  for (int i = 0; i < 20; i++)
    for (int j = 0; j < 40; j++) {
      C[i][j] = 0.0f;
      for (int k = 0; k < 30; k++)
        C[i][j] += A[i][k] * B[k][j];
    }
}
"""
LAGS = """
void f(const float x[64], float r[32])
{
  for (int i = 0; i < 32; i++) {
    r[i] = 0.0f;
    for (int k = 32; k < 64; k++)
      r[i] += x[k] * x[k - i];
  }
}
"""
SCALE = "void f(const float x[64], float y[64]) { for (int i = 0; i < 64; i++) y[i] = 2.0f * x[i]; }"


def func_of(text: str, folder: Path) -> Func:
    path = folder / "f.c"
    path.write_text(text, encoding="utf-8")
    return read_c(str(path))


@pytest.fixture
def machine(ft_m7002: Target) -> Machine:
    return Machine(ft_m7002, OperationTable(ft_m7002))


def test_nest_of_a_product(tmp_path: Path) -> None:
    (nest,) = nests(func_of(MATMUL, tmp_path))
    assert nest.names == ("S0", "S1")
    start, update = nest.comps
    assert [x.id for x in start.loops] == [x.id for x in update.loops[:2]]
    assert [x.extent for x in update.loops] == [20, 40, 30]
    assert nest.heaviest is update


def test_lanes_of_a_product(tmp_path: Path, machine: Machine) -> None:
    """Columns across lanes, or the sum; not rows, whose stride the machine can't load."""
    (nest,) = nests(func_of(MATMUL, tmp_path))
    found = [{n: (x.iterator, x.reduce) for n, x in lanes.items()} for lanes in lane_choices(nest, machine)]
    assert {"S0": ("j", False), "S1": ("j", False)} in found
    assert not any(lanes.get("S1", ("", False))[0] == "i" for lanes in found)


def test_descending_strides_ask_for_a_flip(tmp_path: Path, machine: Machine) -> None:
    (nest,) = nests(func_of(LAGS, tmp_path))
    assert any(all(x.flip for x in lanes.values()) and len(lanes) == 2 for lanes in lane_choices(nest, machine))


@pytest.mark.parametrize("text", [MATMUL, LAGS, SCALE])
def test_candidates_are_legal(text: str, tmp_path: Path, ft_m7002: Target, machine: Machine) -> None:
    func = func_of(text, tmp_path)
    (nest,) = nests(func)
    found = candidates(nest, ft_m7002, machine, 8)
    assert found and found == sorted(found, key=lambda c: c.rank)
    for candidate in found:
        check_legal(func, Plan(candidate.plans), reassoc=True, lanes=ft_m7002.lanes)


def test_the_search_takes_the_fewest_cycles_and_says_what_it_refused(tmp_path: Path) -> None:
    (nest,) = nests(func_of(SCALE, tmp_path))
    cycles = {"a": 50.0, "b": 30.0}

    def evaluate(candidate: Candidate) -> float:
        if candidate.title not in cycles:
            raise NoSchedule(Problem("DG303", "no registers"))
        return cycles[candidate.title]

    finalists = [Candidate((), 40.0, t) for t in ("a", "b", "c")] + [Candidate((), 400.0, "d")]
    choice = search(finalists, scalar_candidate(nest), evaluate)
    assert choice.candidate.title == "b"
    assert [(t.title, t.cycles) for t in choice.trials] == [("a", 50.0), ("b", 30.0), ("c", None), ("d", None)]
    assert choice.trials[2].refused == "no registers"


def test_the_fallback_is_tried_last(tmp_path: Path) -> None:
    (nest,) = nests(func_of(SCALE, tmp_path))
    seen: list[str] = []

    def evaluate(candidate: Candidate) -> float:
        seen.append(candidate.title)
        if candidate.title != "scalar":
            raise NoSchedule(Problem("DG303", "no registers"))
        return 1.0

    assert search([Candidate((), 1.0, "a")], scalar_candidate(nest), evaluate).candidate.title == "scalar"
    assert seen == ["a", "scalar"]


def test_bound_of_a_product(tmp_path: Path, ft_m7002: Target, machine: Machine) -> None:
    """20*40*30 multiply-adds on 3 units of 16 lanes; elements read once and written once at the memory's peak."""
    found = bound(func_of(MATMUL, tmp_path), ft_m7002, machine, data="onchip", values={})
    peak = ft_m7002.memory("AM").bytes_per_cycle
    assert found.arithmetic == 20 * 40 * 30 // 48
    assert found.memory == -(-4 * (20 * 30 + 30 * 40 + 20 * 40) // peak)


def test_an_element_written_first_is_not_read(tmp_path: Path, ft_m7002: Target, machine: Machine) -> None:
    text = "void f(float y[64]) { for (int i = 0; i < 64; i++) { y[i] = 1.0f; y[i] = y[i] + 2.0f; } }"
    peak = ft_m7002.memory("AM").bytes_per_cycle
    assert bound(func_of(text, tmp_path), ft_m7002, machine, data="onchip", values={}).memory == 64 * 4 // peak


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("{ S[i, j] : 0 <= i < 2000 and 0 <= j < 3000 }", 6_000_000),
        ("{ S[i, j] : 0 <= i < 100 and i <= j < 100 }", 5050),
        ("{ S[i] : 0 <= i < 10 and i mod 3 = 0 }", 4),
        ("{ S[i] : 1 = 0 }", 0),
        ("{ S[] }", 1),
    ],
)
def test_count(text: str, points: int) -> None:
    assert count(isl.Set(text)) == points
