"""Nests read off schedules, candidate register tiles, the search over them, and the lower bound on cycles."""

from __future__ import annotations

from pathlib import Path

import islpy as isl
import pytest

from dspgen.errors import NoSchedule, Problem
from dspgen.frontend.read import read_c
from dspgen.search.candidate_search import search
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target
from dspgen.target.query.operations import OperationTable
from dspgen.target.query.views import views
from dspgen.tiling.candidates import Candidate, candidates
from dspgen.tiling.cost.lower_bound import bound, count
from dspgen.tiling.cost.unit_pressure import Machine
from dspgen.tiling.loops.lane_loops import Lane, LegalLanes, lane_choices
from dspgen.tiling.loops.loop_arrangements import Arrangement, arrangements, spaced
from dspgen.tiling.loops.loop_nests import Nest, nests
from dspgen.tiling.scalar_remainder import scalar_candidates
from plant_core.analysis.dependence import memory_dependences
from plant_core.ir.func import Func
from plant_core.ir.time_2d1 import position
from plant_core.normalize.scalars.scalar_expansion import expand_scalars
from plant_core.support.isl_budget import at_most
from plant_core.support.location import IllegalSchedule, PlantError
from plant_core.tile_plan.legality import check_legal
from plant_core.tile_plan.plan import CompPlan, Plan

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


def arranged(func: Func) -> list[Arrangement]:
    """All arrangements of the only nest."""
    (nest,) = nests(func)
    return list(arrangements(nest, func, memory_dependences(func), reassoc=True))


def found_candidates(func: Func, target: Target, machine: Machine) -> list[Candidate]:
    def kept(plans: tuple[tuple[str, CompPlan], ...]) -> bool:
        try:
            check_legal(func, Plan(plans), reassoc=True, lanes=target.lanes)
        except IllegalSchedule:
            return False
        return True

    return candidates(arranged(func), target, machine, 8, memory_dependences(func), kept=kept)


def laned(nest: Nest, lanes: int = 16) -> list[dict[str, tuple[str, bool]]]:
    return [{n: (x.iterator, x.reduce) for n, x in found.items()} for found in lane_choices(nest, lanes)]


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


def test_lanes_of_a_product(tmp_path: Path) -> None:
    """Columns, rows or the sum across lanes."""
    (nest,) = nests(func_of(MATMUL, tmp_path))
    found = laned(nest)
    assert {"S0": ("j", False), "S1": ("j", False)} in found
    assert {"S0": ("i", False), "S1": ("i", False)} in found
    assert any(lanes.get("S1") == ("k", True) for lanes in found)


def test_descending_strides_ask_for_a_flip(tmp_path: Path) -> None:
    (nest,) = nests(func_of(LAGS, tmp_path))
    assert any(all(x.flip for x in lanes.values()) and len(lanes) == 2 for lanes in lane_choices(nest, 16))


@pytest.mark.parametrize("text", [MATMUL, LAGS, SCALE])
def test_candidates_are_legal(text: str, tmp_path: Path, ft_m7002: Target, machine: Machine) -> None:
    func = func_of(text, tmp_path)
    found = found_candidates(func, ft_m7002, machine)
    assert found and found == sorted(found, key=lambda c: c.rank)
    for candidate in found:
        check_legal(func, Plan(candidate.plans), reassoc=True, lanes=ft_m7002.lanes)


def test_the_search_takes_the_fewest_cycles_and_says_what_it_refused(tmp_path: Path) -> None:
    (nest,) = nests(func_of(SCALE, tmp_path))
    cycles = {"a": 50.0, "b": 30.0}

    def evaluate(candidate: Candidate, limit: float) -> float:
        if candidate.title not in cycles:
            raise NoSchedule(Problem("DG303", "no registers"))
        return cycles[candidate.title]

    finalists = [Candidate((), 40.0, t) for t in ("a", "b", "c")] + [Candidate((), 400.0, "d")]
    choice = search(finalists, scalar_candidates(nest), evaluate)
    assert choice.candidate.title == "b"
    assert [(t.title, t.cycles) for t in choice.trials] == [("a", 50.0), ("b", 30.0), ("c", None), ("d", None)]
    assert choice.trials[2].refused == "no registers"


def test_the_fallback_is_tried_last(tmp_path: Path) -> None:
    (nest,) = nests(func_of(SCALE, tmp_path))
    seen: list[str] = []

    def evaluate(candidate: Candidate, limit: float) -> float:
        seen.append(candidate.title)
        if candidate.title != "scalar":
            raise NoSchedule(Problem("DG303", "no registers"))
        return 1.0

    assert search([Candidate((), 1.0, "a")], scalar_candidates(nest), evaluate).candidate.title == "scalar"
    assert seen == ["a", "scalar"]


def test_bound_of_a_product(tmp_path: Path, ft_m7002: Target) -> None:
    """20*40*30 multiply-adds on 3 units of 16 lanes; elements read once and written once at the memory's peak."""
    found = bound(func_of(MATMUL, tmp_path), ft_m7002, data="onchip", values={})
    peak = ft_m7002.memory("AM").bytes_per_cycle
    assert found.arithmetic == 20 * 40 * 30 // 48
    assert found.memory == -(-4 * (20 * 30 + 30 * 40 + 20 * 40) // peak)


def test_an_element_written_first_is_not_read(tmp_path: Path, ft_m7002: Target) -> None:
    text = "void f(float y[64]) { for (int i = 0; i < 64; i++) { y[i] = 1.0f; y[i] = y[i] + 2.0f; } }"
    peak = ft_m7002.memory("AM").bytes_per_cycle
    assert bound(func_of(text, tmp_path), ft_m7002, data="onchip", values={}).memory == 64 * 4 // peak


def test_the_fastest_way_off_the_chip_bounds_what_is_moved(tmp_path: Path) -> None:
    func = func_of("void f(const float x[64], float y[64]) { for (int i = 0; i < 64; i++) y[i] = x[i]; }", tmp_path)
    for sets in ((("dma.bytes_per_cycle", "128"),), (("memories.DDR.bytes_per_cycle", "128"),)):
        assert bound(func, load_target("ft_m7002", sets), data="ddr", values={}).memory == 2 * 64 * 4 // 128


def test_accesses_by_data_may_all_be_to_one_element(tmp_path: Path, ft_m7002: Target) -> None:
    text = "void f(const int p[64], const float x[64], float y[64]) { for (int i = 0; i < 64; i++) y[p[i]] = x[p[i]]; }"
    peak = ft_m7002.memory("AM").bytes_per_cycle
    found = bound(func_of(text, tmp_path), ft_m7002, data="onchip", values={})
    assert found.memory == -(-64 * 4 // peak)


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


# --- nests whose loops bound each other ---------------------------------------------------------------------------

TRIANGULAR = """
void f(const float A[30][20], float B[30][40])
{
  for (int i = 0; i < 20; i++)
    for (int j = 0; j < 40; j++) {
      for (int k = i + 1; k < 20; k++)
        B[i][j] += A[k][i] * B[k][j];
      B[i][j] *= 3.0f;
    }
}
"""
LU = """
void f(float A[24][24])
{
  for (int i = 0; i < 24; i++) {
    for (int j = 0; j < i; j++) {
      for (int k = 0; k < j; k++)
        A[i][j] -= A[i][k] * A[k][j];
      A[i][j] /= A[j][j];
    }
    for (int j = i; j < 24; j++)
      for (int k = 0; k < i; k++)
        A[i][j] -= A[i][k] * A[k][j];
  }
}
"""


def test_a_vectorised_plan_without_unrolling_is_among_the_candidates(
    tmp_path: Path, machine: Machine, ft_m7002: Target
) -> None:
    """Unrolled tiles of the two statements begin at different rows here; rows of vectors alone keep the order."""
    func = func_of(TRIANGULAR, tmp_path)
    legal = []
    for candidate in found_candidates(func, ft_m7002, machine):
        try:
            check_legal(func, Plan(candidate.plans), reassoc=True, lanes=ft_m7002.lanes)
        except IllegalSchedule:
            continue
        legal.append(candidate)
    assert any("j*" in c.title and c.unrolled == "none" for c in legal)


def test_loops_that_carry_a_dependence_are_not_lanes(tmp_path: Path, ft_m7002: Target) -> None:
    """In the first j loop the division feeds later iterations of the sum above it; the second j loop is free."""
    func = func_of(LU, tmp_path)
    written = arranged(func)[0]
    allowed = LegalLanes(written.nest, memory_dependences(func), ft_m7002.lanes).under(written)
    comps = written.nest.comps
    found = {c.comp.name: [i for i in c.comp.iters if allowed(c, Lane(i))] for c in comps}
    assert "j" not in found["S0"] and "j" not in found["S1"] and "j" in found["S2"]
    choices = list(lane_choices(written.nest, 16, allowed))
    assert not any(lanes[n].iterator == "j" for lanes in choices for n in ("S0", "S1") if n in lanes)


def test_no_tile_holds_iterations_that_use_one_array_one_after_the_other(
    tmp_path: Path, machine: Machine, ft_m7002: Target
) -> None:
    """Each plane has its sums in the same local array: in a tile of two planes the second would begin its own there
    before the first has put its own away. Rows and columns have elements of their own."""
    text = """void f(const float x[9][16][32], float y[9][16][32]) { float s[16][32];
        for (int l = 0; l < 9; l++) for (int i = 0; i < 16; i++) for (int j = 0; j < 32; j++) { s[i][j] = 0;
          for (int k = 0; k < 5; k++) s[i][j] += x[l][i][j] * x[k][i][j]; y[l][i][j] = s[i][j]; } }"""
    func = func_of(text, tmp_path)
    written = arranged(func)[0]
    dependences = LegalLanes(written.nest, memory_dependences(func), ft_m7002.lanes)
    heavy = written.nest.heaviest
    assert [i for i in heavy.comp.iters if not dependences.at_once(heavy, i, written)] == ["l"]
    titles = [c.title for c in found_candidates(func, ft_m7002, machine)]
    assert any("i:8" in t for t in titles) and all(" l:1" in t.replace("(", " ") for t in titles if "*" in t)
    assert not any(f" l{span}" in t.replace("(", " ") for t in titles for span in ("*", ":2", ":3", ":4", ":9"))


def test_tiles_of_several_vectors_come_early_where_rows_are_long(
    tmp_path: Path, machine: Machine, ft_m7002: Target
) -> None:
    """A lag has few products towards the end: tiles of many lags pay where there are many more."""
    text = "void f(const float x[512], float r[512]) { for (int i = 0; i < 512; i++) { r[i] = 0.0f;"
    text += " for (int k = 0; k < 512 - i; k++) r[i] += x[k] * x[k + i]; } }"
    first = found_candidates(func_of(text, tmp_path), ft_m7002, machine)[:3]
    assert "S0(i*:64) S1(i*:64 k:1) cut" in [c.title for c in first]


def test_shared_loops_are_exchanged_where_rows_have_registers(
    tmp_path: Path, machine: Machine, ft_m7002: Target
) -> None:
    """Rows of few vectors end soon; down the columns there is more to pipeline, if each row has an address register."""
    text = "void f(const float a[128][128], const float h[4][4], float r[125][125]) {"
    text += " for (int i = 0; i < 125; i++) for (int j = 0; j < 125; j++) { r[i][j] = 0.0f;"
    text += " for (int k = 0; k < 4; k++) for (int l = 0; l < 4; l++) r[i][j] += a[i + k][j + l] * h[k][l]; } }"
    titles = [c.title for c in found_candidates(func_of(text, tmp_path), ft_m7002, machine)]
    assert "S0(j*:32 i:2) S1(j*:32 i:2 k:4 l:4)" in titles
    assert not any("(j*:16 i:4)" in t or "(j*:16 i:3)" in t for t in titles)


def test_division_and_update_meet_where_columns_may_be_lanes(
    tmp_path: Path, machine: Machine, ft_m7002: Target
) -> None:
    """Taken apart and together again by their dependences, both sums of LU have their columns across the lanes."""
    found = found_candidates(func_of(LU, tmp_path), ft_m7002, machine)
    assert any(c.title.count("j*") == 2 for c in found)


def test_lanes_may_lie_across_a_loop_whose_dependence_the_inner_loop_keeps(tmp_path: Path, ft_m7002: Target) -> None:
    text = "void f(float A[40][40]) { for (int j = 0; j < 39; j++) for (int k = %s) A[k + 1][j + 1] = A[k][j]; }"
    for loop, kept in (("0; k < 39; k++", True), ("38; k >= 0; k--", False)):
        func = func_of(text % loop, tmp_path)
        written = arranged(func)[0]
        allowed = LegalLanes(written.nest, memory_dependences(func), ft_m7002.lanes).under(written)
        assert (allowed(written.nest.comps[0], Lane("j")) is not None) == kept


@pytest.mark.parametrize(("distance", "width"), [(1, None), (3, 2), (4, 4), (15, 8), (16, 16)])
def test_near_dependences_make_short_vectors(
    distance: int, width: int | None, tmp_path: Path, machine: Machine, ft_m7002: Target
) -> None:
    text = f"void f(float b[99]) {{ for (int i = {distance}; i < 99; i++) b[i] = b[i - {distance}] * 2.0f; }}"
    func = spaced(func_of(text, tmp_path))
    found = [c for c in found_candidates(func, ft_m7002, machine) if "*" in c.title]
    spans = {s.span for c in found for _, p in c.plans for shape in p.shapes[:1] for _, s in shape}
    assert bool(found) == (width is not None)
    assert width is None or width == 16 or spans == {width}


def test_sets_have_a_budget() -> None:
    """It ends while text is read, too, where isl speaks of syntax."""

    def some_work() -> bool:
        return bool(isl.Set("{ [i, j] : 0 <= i <= j < 100 }").subtract(isl.Set("{ [i, j] : 2 * i <= j }")).is_empty())

    for most in range(1, 40):
        with pytest.raises(PlantError, match="operations on integer sets"), at_most(most):
            some_work()
    with at_most(100_000):
        assert not some_work()
    with pytest.raises(isl.Error), at_most(100_000):
        isl.Set("{ [i] : ")


def test_large_tiles_must_be_expected_to_win(tmp_path: Path) -> None:
    """Where the schedule takes longer than the model says, so will a large tile; another kind of small one may not."""
    (nest,) = nests(func_of(SCALE, tmp_path))
    finalists = [
        Candidate((("S0", CompPlan(("i",))),), 100.0, "first"),
        Candidate((), 150.0, "other"),
        Candidate((), 95.0, "large", points=1000),
    ]
    tried: list[str] = []

    def evaluate(candidate: Candidate, limit: float) -> float:
        tried.append(candidate.title)
        return 2 * candidate.cycles

    search(finalists, scalar_candidates(nest), evaluate)
    assert tried == ["first", "other"]


def test_comps_taken_apart(tmp_path: Path, machine: Machine, ft_m7002: Target) -> None:
    """Lags across lanes: the triangle's corner is left to single instances, which the last statement must wait for."""
    text = """
    void f(const float x[64], float r[32])
    {
      for (int l = 0; l < 32; l++) {
        float s = 0;
        for (int i = l; i < 64; i++)
          s += x[i] * x[i - l];
        r[l] = s;
      }
    }
    """
    func = spaced(expand_scalars(func_of(text, tmp_path)))
    assert any("*" in c.title and ";" in c.title for c in found_candidates(func, ft_m7002, machine))


SWAPPED = """
void f(float a[100], const float b[100], float c[100])
{
  for (int i = 1; i < 99; i++) {
    a[i] = c[i - 1] + b[i];
    c[i] = c[i] * b[i];
  }
}
"""


def test_statements_change_places(tmp_path: Path, machine: Machine, ft_m7002: Target) -> None:
    """The second statement's values reach the first one an iteration later: it goes first, in a loop of its own."""
    found = found_candidates(spaced(func_of(SWAPPED, tmp_path)), ft_m7002, machine)
    best = [c for c in found if "S0(i*" in c.title and "S1(i*" in c.title]
    assert best and all(c.title.index("S1") < c.title.index("S0") for c in best)


def test_a_short_inner_loop_shares_the_lanes(tmp_path: Path, machine: Machine, ft_m7002: Target) -> None:
    text = """
    void f(const float x[64], const float w[4], float y[64])
    {
      for (int i = 0; i < 16; i++)
        for (int j = 0; j < 4; j++)
          y[4 * i + j] = x[4 * i + j] * w[j];
    }
    """
    func = spaced(func_of(text, tmp_path))
    (nest,) = nests(func)
    found = list(lane_choices(nest, 16))
    assert {"S0": Lane("i", inner="j", period=4)} in found
    assert any("j'" in c.title for c in found_candidates(func, ft_m7002, machine))


def test_a_loop_that_is_short_for_some_only_shares_no_lanes(tmp_path: Path) -> None:
    """Statements share a loop, in which one has 2 iterations and the other 22: no groups of these are lanes."""
    loops = "for (int i = 0; i < 24; i++) for (int j = 0; j < 40; j++)"
    text = f"void f(float x[24][40]) {{ {loops} {{ if (i >= 22) x[i][j] = 2; if (i < 22) x[i][j] = 1; }} }}"
    (nest,) = nests(func_of(text, tmp_path))
    found = list(lane_choices(nest, 16))
    assert found and all(lane.inner is None for lanes in found for lane in lanes.values())


def test_rows_of_a_triangle_may_be_cut(tmp_path: Path, machine: Machine, ft_m7002: Target) -> None:
    func = func_of(TRIANGULAR, tmp_path)
    cut = [c for c in found_candidates(func, ft_m7002, machine) if c.title.endswith("cut")]
    assert cut and any(s.cut for c in cut for _, p in c.plans for shape in p.shapes for _, s in shape)


def test_data_dependent_subscripts_may_lie_across_lanes(tmp_path: Path) -> None:
    text = "void f(const int p[64], const float x[64], float y[64]) { for (int i = 0; i < 64; i++) y[i] = x[p[i]]; }"
    (nest,) = nests(func_of(text, tmp_path))
    assert {"S0": ("i", False)} in laned(nest)
    assert [a.buf for a in nest.heaviest.accesses if a.varies] == ["x"]


def test_windows_that_drift_through_lanes_of_two_elements_are_not_tiled_widely(tmp_path: Path) -> None:
    """Such an access begins in the midst of a lane in every other iteration, unless two are unrolled."""
    text = """void f(const float x[1055], const float h[32], float y[1024]) {
      for (int i = 0; i < 1024; i++) { y[i] = 0; for (int k = 0; k < 32; k++) y[i] += h[k] * x[i + 31 - k]; } }"""
    func = func_of(text, tmp_path)
    for view in views(load_target("ft_mt3000")):
        found = found_candidates(func, view, Machine(view, OperationTable(view)))
        wide = [c for c in found if c.points > 8 and "i*" in c.title]
        assert wide
        assert any("k:1)" in c.title for c in wide) == (view.packed == 1)


def test_spacing_keeps_positions_of_odd_domains(tmp_path: Path) -> None:
    """An equality between iterators must not turn one of them into a quotient of the other in the schedule."""
    text = """
    void f(const float x[20], float y[20])
    {
      for (int i = 0; i < 20; i++)
        for (int j = 0; j < 12; j++)
          if (i - 2 * j + 1 == 0)
            y[j] = x[i];
    }
    """
    func = func_of(text, tmp_path)
    assert [position(c).loops for c in spaced(func).comps] == [position(c).loops for c in func.comps]


def test_few_lanes_of_elements_that_lie_apart_come_late(tmp_path: Path, machine: Machine, ft_m7002: Target) -> None:
    text = (
        "void f(const float w[256], float y[512]) { for (int i = 0; i < 64; i++) for (int k = 0; k < 2; k++) {"
        " y[8 * i + 2 * k + 4] = y[8 * i + 2 * k] - w[2 * k]; y[8 * i + 2 * k + 5] = y[8 * i + 2 * k + 1] - w[k]; } }"
    )
    first = found_candidates(func_of(text, tmp_path), ft_m7002, machine)[0]
    assert all(x.lane == (name == "i") for _, plan in first.plans for name, x in plan.shapes[0])


def test_rows_that_are_joined_together_come_first(tmp_path: Path, machine: Machine, ft_m7002: Target) -> None:
    """A row by itself takes as many cycles as there are lanes to be joined, each time; eight together little more."""
    text = """void f(const float a[32][32], const float x[32], float y[32]) { for (int i = 0; i < 32; i++) {
      y[i] = 0; for (int j = 0; j < 32; j++) y[i] += a[i][j] * x[j]; } }"""
    best = found_candidates(func_of(text, tmp_path), ft_m7002, machine)[0]
    assert best.title == "S0(i:8) S1(i:8 j*:32)"


def test_rows_that_go_on_in_another_loop_come_one_at_a_time(tmp_path: Path, machine: Machine, ft_m7002: Target) -> None:
    """Six vectors are enough to be in registers; of two, several may be."""
    text = """void f(int n, int m, const float a[9][960], float y[960]) { for (int g = 0; g < n; g++)
      for (int j = 0; j < 96; j++) for (int i = 0; i < m; i++) y[96 * g + j] += a[i][96 * g + j]; }"""
    for row, most in ((96, 1), (32, 4)):
        found = found_candidates(func_of(text.replace("96 ", f"{row} "), tmp_path), ft_m7002, machine)
        shapes = [dict(shape) for c in found for _, plan in c.plans for shape in plan.shapes]
        spans = {shape["g"].span if "g" in shape else 1 for shape in shapes if "j" in shape and shape["j"].lane}
        assert max(spans) == most


def test_a_tile_knows_the_one_with_twice_as_many_iterations_of_a_loop(
    tmp_path: Path, machine: Machine, ft_m7002: Target
) -> None:
    text = """void f(const float a[33][20], const float b[20][17], float c[33][17]) { for (int i = 0; i < 33; i++)
      for (int j = 0; j < 17; j++) for (int k = 0; k < 20; k++) c[i][j] += a[i][k] * b[k][j]; }"""
    found = found_candidates(func_of(text, tmp_path), ft_m7002, machine)
    two = next(c for c in found if c.title == "S0(i:11 j*:17 k:2)")
    assert two.doubled is not None and two.doubled.title == "S0(i:11 j*:17 k:4)"
    assert all(c.doubled is None or c.doubled.points == 2 * c.points for c in found)


def test_vectors_of_constant_length_come_before_those_cut_short(
    ft_m7002: Target, machine: Machine, tmp_path: Path
) -> None:
    text = """
void f(int n, int d, const float a[8][256], const float b[256][512], float y[8][512])
{
  for (int g = 0; g < n; g++)
    for (int i = 0; i < 8; i++)
      for (int j = 0; j < 64; j++)
        for (int k = 0; k < d; k++)
          y[i][64 * g + j] += (a[i][k] - b[k][64 * g + j]) * (a[i][k] - b[k][64 * g + j]);
}
"""
    best = found_candidates(func_of(text, tmp_path), ft_m7002, machine)[0]
    assert "j*:" in best.title and not best.title.endswith("cut")
