"""Packing: the four stages on the paper's own example, what each of them drops, and the copies that are made."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import islpy as isl
import numpy as np
import pytest

from dspgen.frontend.read import read_c
from plant_core.interp.func import evaluate
from plant_core.interp.loop_tree import run_tree
from plant_core.ir.func import Buf, Func
from plant_core.ir.loop_tree_printer import print_tree
from plant_core.ir.scheduled import Scheduled, as_written
from plant_core.lang.program import Program
from plant_core.scan import scan
from plant_core.schedule.auto import Machine, default_schedule
from plant_core.schedule.legality import check
from plant_core.schedule.memory.isl_expressions import span
from plant_core.schedule.packing import Caches, Candidate, Packing, analyse, apply, pack
from plant_core.schedule.packing.analyse import candidates
from plant_core.schedule.packing.nests import Region, Use, regions
from tests.support.plant_random import random_func, random_inputs

CORE_I5 = Caches((32 << 10, 256 << 10, 9 << 20))
SMALL = Caches((256, 2 << 10), 16, 128, 8)


def read(folder: Path, text: str) -> Func:
    path = folder / "kernel.c"
    path.write_text(text, encoding="utf-8")
    return read_c(str(path))


def agree(func: Func, s: Scheduled) -> None:
    rng = np.random.default_rng(1)
    given: dict[str, object] = {p.name: 2.0 for p in func.params if not isinstance(p, Buf)}
    given |= {b.name: rng.integers(-5, 6, b.extents).astype(np.float32) for b in func.bufs if b.kind == "param"}
    check(s)
    wanted, got = evaluate(func, given), run_tree(s.func, scan(s), given)
    for name, array in wanted.items():
        assert np.array_equal(array, got[name]), name


def decided(packings: tuple[Packing, ...]) -> dict[tuple[str, str], Candidate]:
    return {(c.array.name, c.loop.name): c for p in packings for c in p.candidates}


# --- the paper's listing 1 ----------------------------------------------------------------------------------------


@pytest.fixture
def contraction(examples: Path) -> Func:
    return read_c(str(examples / "packing" / "contract3d.c"), defines=(("DATA_TYPE", "double"),))


@pytest.fixture
def region(contraction: Func) -> Region:
    (found,) = regions(as_written(contraction))
    return found


def test_working_sets_are_those_beside_the_listing(region: Region) -> None:
    i, j, k, l = region.loops  # noqa: E741
    assert region.working_set("A", i) == (80, 100, 50)
    assert region.working_set("A", i, once=True) == region.working_set("A", j) == (80, 100, 1)
    assert region.working_set("A", j, once=True) == (80, 100, 1)
    assert region.working_set("A", k, once=True) == region.working_set("A", l) == (1, 100, 1)
    assert region.working_set("A", l, once=True) == (1, 1, 1)
    assert region.working_set("B", j, once=True) == (100, 80, 1) and region.working_set("C", j, once=True) == (1, 1)


def test_four_candidates_have_reuse(region: Region) -> None:
    found = decided((candidates(region, CORE_I5),))
    assert len(found) == 12
    reused = {pair for pair, c in found.items() if c.stage != "reuse"}
    assert reused == {("A", "j"), ("B", "i"), ("C", "k"), ("C", "l")}
    assert found["A", "i"].reasons == ("S0's elements move with i",)


def test_the_target_is_the_largest_cache_that_holds_less_than_all(region: Region) -> None:
    packing = candidates(region, CORE_I5)
    assert packing.footprint == 8 * (80 * 100 * 50 + 100 * 80 * 60 + 50 * 60)
    assert packing.level == 1
    assert candidates(region, replace(CORE_I5, sizes=(32 << 10, 256 << 10, 1 << 20))).level == 2


def test_what_stays_in_the_cache(region: Region) -> None:
    found = decided((candidates(region, CORE_I5),))
    left = {pair for pair, c in found.items() if c.stage not in ("reuse", "residency")}
    assert left == {("A", "j"), ("C", "k"), ("C", "l")}
    own, others = 8 * 80 * 100, 8 * (100 * 80 + 1)
    assert found["A", "j"].reasons[1] == f"stays: {own} bytes and twice {others} of the others, in {256 << 10}"
    exact = own + 2 * others
    fits = decided((candidates(region, replace(CORE_I5, sizes=(exact,))),))["A", "j"]
    misses = decided((candidates(region, replace(CORE_I5, sizes=(exact - 1,))),))["A", "j"]
    assert (fits.stage, misses.stage) == ("selection", "residency")


def test_the_layout_makes_steps_of_fifty_steps_of_one(region: Region) -> None:
    found = decided((candidates(region, CORE_I5),))
    assert {pair for pair, c in found.items() if c.stage == "selection"} == {("A", "j")}
    a = found["A", "j"]
    assert (a.order, a.shape, a.layout) == ((2, 0, 1), (80, 100, 1), (1, 80, 100))
    assert a.shorter and a.reasons[2] == "steps of l get shorter: 50 to 1"
    assert found["C", "k"].reasons[-1] == "no step gets shorter, no loop gets within the TLB"


def test_tlb_entries_of_the_text() -> None:
    """Each entry addresses 50 elements: 100 entries for what l walks over, and two once it is packed."""
    caches = replace(CORE_I5, page=50 * 8)
    assert caches.pages((1, 100, 1), (80, 100, 50), 8) == 100
    assert caches.pages((1, 1, 100), (1, 80, 100), 8) == 2


def test_one_array_is_packed_at_one_loop_and_the_code_is_listing_2(contraction: Func) -> None:
    scheduled, packings = pack(as_written(contraction), CORE_I5)
    assert [(c.array.name, c.loop.name, c.order) for p in packings for c in p.packed] == [("A", "j", (2, 0, 1))]
    assert scheduled.func.buf("packed_A").shape == (1, 80, 100)
    assert print_tree(scan(scheduled)).strip() == (
        "for (i = 0; i < 50; i++) {\n"
        "  for (x0 = 0; x0 < 80; x0++)\n"
        "    for (x1 = 0; x1 < 100; x1++)\n"
        "      packed_A[0][x0][x1] = A[x0][x1][i];\n"
        "  for (j = 0; j < 60; j++)\n"
        "    for (k = 0; k < 80; k++)\n"
        "      for (l = 0; l < 100; l++)\n"
        "        C[i][j] = C[i][j] + packed_A[0][k][l] * B[l][k][j];\n"
        "}"
    )


# --- TLB entries, benefit over cost, greedy choice ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "whole", "entries"),
    [
        ((1,), (1000,), 1),
        ((1000,), (1000,), 32),
        ((4, 4), (4, 4), 1),
        ((4, 32), (4, 32), 4),  # rows that touch
        ((4, 8), (4, 20), 3),  # rows with less than a page between them: pages in a row
        ((4, 8), (4, 400), 4),  # rows further apart
        ((3, 4, 64), (3, 100, 400), 24),
        ((2, 2, 1), (2, 1000, 40), 4),
    ],
)
def test_pages_of_a_box(part: tuple[int, ...], whole: tuple[int, ...], entries: int) -> None:
    assert SMALL.pages(part, whole, 4) == entries


PANELS = """
void panels(const float A[64][256], const float B[64][256], float C[64][16])
{
  for (int i = 0; i < 64; i++)
    for (int t = 0; t < 5; t++)
      for (int k = 0; k < 16; k++)
        for (int j = 0; j < 16; j++)
          C[i][j] += A[k][j] * B[k][j];
}
"""


def test_the_copy_that_serves_longest_saves_most(tmp_path: Path) -> None:
    """t and k reach 16 rows of A, and of B, each in a page of its own, and a row of C; packed, 8 pages."""
    func = read(tmp_path, PANELS)
    caches = Caches((512, 16 << 10), 16, 128, 26)
    scheduled, packings = pack(as_written(func), caches)
    found = decided(packings)
    runs_of_t, runs_of_k, cost = 64, 64 * 5, 16 * 16 * 4
    assert (found["A", "i"].benefit, found["A", "i"].cost) == (8 * (runs_of_t + runs_of_k), cost)
    assert (found["A", "t"].benefit, found["A", "t"].cost) == (8 * (1 + 5), cost)
    assert {pair for pair, c in found.items() if c.stage == "packed"} == {("A", "i")}
    assert not found["A", "i"].shorter and found["A", "i"].order == (0, 1)
    assert "TLB entries of t 33 to 25, k 33 to 25, of 26" in found["A", "i"].reasons
    assert found["A", "t"].reasons[-1].endswith("'A' is packed at i already")
    assert found["B", "i"].reasons[-1].endswith("with what is packed already, no loop gets within the TLB")
    agree(func, scheduled)


def test_one_copy_alone_has_to_get_a_loop_within_the_tlb(tmp_path: Path) -> None:
    func = read(tmp_path, PANELS)
    _, packings = pack(as_written(func), Caches((512, 16 << 10), 16, 128, 20))
    assert {c.stage for p in packings for c in p.candidates} == {"reuse", "goals"}


def test_a_copy_that_is_written_costs_twice_and_goes_back(tmp_path: Path) -> None:
    text = PANELS.replace("C[i][j] += A[k][j] * B[k][j]", "C[j][i] = C[j][i] + A[k][j]").replace(
        "C[64][16]", "C[16][64]"
    )
    func = read(tmp_path, text)
    scheduled, packings = pack(as_written(func), Caches((512, 16 << 10), 16, 128, 64))
    c = decided(packings)["C", "t"]
    assert (c.stage, c.order, c.layout, c.written) == ("packed", (1, 0), (1, 16), True)
    assert c.cost == 2 * 16 * 4
    assert "      C[x0][i] = packed_C[0][x0];" in print_tree(scan(scheduled)).replace("\n    C", "\n      C")
    agree(func, scheduled)


# --- what is left alone -------------------------------------------------------------------------------------------


def loops(t: str = "0; t < 9", i: str = "0; i < 40", j: str = "0; j < 40") -> str:
    return f"for (int t = {t}; t++) for (int i = {i}; i++) for (int j = {j}; j++)"


UNREACHED = "no step gets shorter, no loop gets within the TLB"


@pytest.mark.parametrize(
    ("text", "stage", "reason"),
    [
        (f"{loops()} y[j] += x[j][t];", "reuse", "S0's elements move with t"),
        (f"{loops(i='t; i < 40')} y[j] += x[j][i];", "reuse", "S0's elements move with t"),  # through i's bounds
        (f"{loops()} y[j] += x[j][i * j % 7];", "reuse", "a subscript isn't affine"),
        (f"{loops(t='0; t < 1')} y[j] += x[j][i];", "reuse", "the loop runs once"),
        (f"{loops()} y[j] += x[i][j];", "goals", UNREACHED),
        (f"{loops(j='0; j < 7')} y[j] += x[j][i];", "goals", UNREACHED),  # less than two lines
        (f"{loops()} y[j] += x[j][i] * x[i][j];", "goals", UNREACHED),  # two orders, so as it is
        (f"{loops()} x[j][i] = x[j][i] + x[i][j] + y[i];", "goals", UNREACHED),
        (f"{loops()} y[j] += x[j][i];", "packed", "0 TLB entries for 6400 bytes copied"),
    ],
)
def test_what_is_not_packed(text: str, stage: str, reason: str, tmp_path: Path) -> None:
    func = read(tmp_path, f"void f(float x[80][80], float y[40]) {{ {text} }}")
    scheduled, packings = pack(as_written(func), Caches((1 << 10, 8 << 10), 16))
    c = decided(packings)["x", "t"]
    assert (c.stage, c.reasons[-1]) == (stage, reason)
    agree(func, scheduled)


def test_what_would_be_driven_out_is_not_packed(tmp_path: Path) -> None:
    func = read(tmp_path, f"void f(float x[40][40], float y[40][40]) {{ {loops()} y[i][j] += x[j][i]; }}")
    own = 40 * 40 * 4
    scheduled, packings = pack(as_written(func), replace(CORE_I5, sizes=(1 << 10, 2 * own - 1)))
    assert (
        decided(packings)["x", "t"].reasons[-1]
        == f"is driven out: {own} bytes and twice {own} of the others, in {2 * own - 1}"
    )
    assert scheduled.func is func


def test_arrays_that_fit_the_first_cache_stay_where_they_are(contraction: Func) -> None:
    scheduled, (packing,) = pack(as_written(contraction), replace(CORE_I5, sizes=(8 << 20,)))
    assert (packing.level, packing.candidates) == (None, ())
    assert packing.refusal == "all arrays fit the first cache: 7064000 bytes"
    assert scheduled.func is contraction


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"void f(int n, float x[n][n], float y[n]) {{ {loops()} y[j] += x[j][i]; }}",
         "the extents of 'y' depend on parameters"),
        ("void f(const int at[9], float y[64]) { for (int i = 0; i < 8; i++) for (int j = at[i]; j < at[i + 1]; j++) "
         "y[j] += 1; }", "loops are bounded by data, or memory is managed by hand"),
    ],
)  # fmt: skip
def test_what_is_not_static_is_told(text: str, reason: str, tmp_path: Path) -> None:
    func = read(tmp_path, text)
    scheduled, (packing,) = pack(as_written(func), SMALL)
    assert packing.refusal == reason and scheduled.func is func


def test_a_copy_that_a_verb_refuses_is_told(tmp_path: Path) -> None:
    """S0 uses `x` in no iteration of i in which S1 does, so that neither could own one copy."""
    text = """
    void f(const float x[40][40], float y[40]) {
      for (int i = 0; i < 20; i++)
        for (int t = 0; t < 9; t++) {
          for (int j = 0; j < 40; j++) { if (i < 10) y[i] += x[j][i]; }
          for (int j = 0; j < 40; j++) { if (i >= 10) y[i] -= x[j][i]; }
        }
    }"""
    func = read(tmp_path, text)
    scheduled, packings = pack(as_written(func), Caches((1 << 10, 1 << 20), 16))
    c = decided(packings)["x", "t"]
    assert c.stage == "selection" and "no statement runs in every iteration" in c.reasons[-1]
    agree(func, scheduled)


@pytest.mark.parametrize("seed", [15, 17, 24, 69])
def test_whatever_is_chosen_keeps_every_value(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every candidate with reuse, in any order of dimensions. At 17 and 24 a copy round a nest follows copies inside;
    at 69 isl can't follow the values, so that the copy is refused."""
    rng = random.Random(1)

    def any_order(region: Region, c: Candidate, uses: list[Use], caches: Caches) -> Candidate:
        order = rng.sample(range(len(c.shape)), len(c.shape))
        return replace(c, order=tuple(order), shorter=True, benefit=rng.randrange(50)).at("selection", "any")

    monkeypatch.setattr(analyse, "_reaches", any_order)
    monkeypatch.setattr(Caches, "target", lambda self, footprint: 0)
    func = random_func(seed)
    given = random_inputs(func, seed)
    wanted = evaluate(func, given)
    for s in (as_written(func), default_schedule(func, reassoc=False, machine=Machine(threads=1), panels=False)):
        scheduled, packings = pack(s, Caches((1 << 30,)))
        assert any(p.packed for p in packings)
        got = run_tree(scheduled.func, scan(scheduled), given)
        assert all(np.array_equal(array, got[name]) for name, array in wanted.items())


def test_work_without_end_is_refused(contraction: Func, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "OPERATIONS", 50)
    scheduled, (packing,) = pack(as_written(contraction), CORE_I5)
    assert "operations on integer sets are needed" in packing.refusal and scheduled.func is contraction


def test_extents_of_tiles_with_strides() -> None:
    """isl refuses the difference of this relation's bounds."""
    cells = isl.Map(
        "{ [i] -> A[o, 2] : i mod 6 = 0 and o mod 4 = 0 and -5 <= i <= 1199 and -3 <= o <= 1199 and o <= 5 + i }"
    )
    assert (span(cells, 0), span(cells, 1)) == (1196, 0)
    assert span(isl.Map("{ [i] -> A[o] : o >= i }"), 0) is None


# --- schedules that were transformed ------------------------------------------------------------------------------


def test_tiles_show_more_to_pack(examples: Path) -> None:
    """gemm tiled in BLIS's order of loops: panels of B and A, each at the loop that goes over it again."""
    func = read_c(str(examples / "polybench" / "gemm.c"), defines=(("NI", "40"), ("NJ", "48"), ("NK", "56")))
    p = Program(func, reassoc=True)
    p["S1"].after("S0", None)
    p["S1"].tile({"i": 8, "k": 8, "j": 16}).reorder("j_o", "k_o", "i_o", "j_i", "i_i", "k_i")
    scheduled, packings = pack(p.scheduled, Caches((256, 8 << 10), 16, 128, 8))
    assert [(c.array.name, c.loop.name, c.layout) for x in packings for c in x.packed] == [("B", "i_o", (16, 8))]
    agree(func, scheduled)


def test_what_nothing_writes_is_copied_in_whole_boxes(tmp_path: Path) -> None:
    """Only x[j][i] with j <= i is used; a row of four is one move where all of it is copied."""
    text = """
    void f(const float x[40][40], float y[40]) {
      for (int b = 0; b < 10; b++)
        for (int t = 0; t < 9; t++)
          for (int i = 0; i < 4; i++)
            for (int j = 0; j <= i; j++)
              y[j] += x[4 * b + j][4 * b + i];
    }"""
    func = read(tmp_path, text)
    scheduled, packings = pack(as_written(func), Caches((64, 1 << 10), 4, 128, 64))
    assert decided(packings)["x", "t"].stage == "packed"
    assert scheduled.func.comp("load_packed_x").domain.count_val().to_python() == 10 * 4 * 4
    agree(func, scheduled)


def test_register_tiles_are_left_whole(contraction: Func) -> None:
    p = Program(contraction, reassoc=True)
    p["S0"].tag("j", "vectorize")
    _, packings = pack(p.scheduled, CORE_I5)
    assert decided(packings)["A", "j"].reasons == ("the loop is part of a vector or a register tile",)


def test_statements_that_share_a_loop_share_its_copy(examples: Path) -> None:
    func = read_c(str(examples / "polybench" / "gramschmidt.c"), defines=(("M", "16"), ("N", "12")))
    scheduled, packings = pack(as_written(func), Caches((256, 4 << 10), 16, 128, 64))
    assert [(c.array.name, c.loop.name, c.layout) for p in packings for c in p.packed] == [("Q", "j", (1, 16))]
    assert [n.name for n in scheduled.nests if n.name.startswith("load_")] == ["load_packed_Q"]
    assert [n.name for n in scheduled.nests if "packed_Q" in str(scheduled.func.comp(n.name).value)] == ["S5", "S6"]
