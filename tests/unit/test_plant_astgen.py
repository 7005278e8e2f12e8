"""Loop trees: their text, and that a tiled program computes what the plain one does."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dspgen.frontend.read import read_c
from plant_core.analysis.runtime_parameters import definition_of
from plant_core.interp.func import evaluate
from plant_core.interp.tiled_loop_tree import evaluate_tree
from plant_core.ir.accesses import floordiv, integer
from plant_core.ir.func import Binary, Param
from plant_core.ir.loop_tree_printer import print_tree
from plant_core.ir.time_2d1 import normalise_loops
from plant_core.normalize.scalars.scalar_expansion import expand_scalars
from plant_core.scan.tile_plan_codegen import generate
from plant_core.support.location import IllegalSchedule, PlantError
from plant_core.tile_plan.legality import check_legal
from plant_core.tile_plan.plan import CompPlan, LoopShape, Plan, plan_default
from tests.support.plant_builder import Builder, matmul
from tests.support.plant_random import random_func, random_inputs, random_plan


def _text(func, plans):
    return print_tree(generate(func, Plan.of(plans)))


def test_the_default_plan_is_the_program_itself():
    assert print_tree(generate(matmul(3, 4, 5), plan_default(matmul(3, 4, 5)))) == (
        "for (i = 0; i < 3; i++)\n"
        "  for (j = 0; j < 4; j++) {\n"
        "    S0(i, j);\n"
        "    for (k = 0; k < 5; k++)\n"
        "      S1(i, j, k);\n"
        "  }\n"
    )


def test_shapes_become_loops_of_their_own_without_guards():
    lanes = ("j", LoopShape(64, lane=True))
    shapes = ((("i", LoopShape(6)), lanes), (("i", LoopShape(4)), lanes))
    assert _text(matmul(64, 128, 8), {"S0": CompPlan(("i", "j"), shapes), "S1": CompPlan(("i", "j", "k"), shapes)}) == (
        "for (i = 0; i < 60; i += 6)\n"
        "  for (j = 0; j < 128; j += 64) {\n"
        "    S0{6x64:j}(i, j);\n"
        "    for (k = 0; k < 8; k++)\n"
        "      S1{6x64x1:j}(i, j, k);\n"
        "  }\n"
        "for (j_1 = 0; j_1 < 128; j_1 += 64) {\n"
        "  S0{4x64:j}(60, j_1);\n"
        "  for (k_1 = 0; k_1 < 8; k_1++)\n"
        "    S1{4x64x1:j}(60, j_1, k_1);\n"
        "}\n"
    )


def test_a_symbolic_extent_has_a_loop_of_full_tiles_and_a_rest():
    b = Builder({"a": (100,)}, params=("n",)).comp("i", "0 <= i < n", [0, "i", 0], "a[i] = 1")
    assert _text(b.func(), {"S0": CompPlan(("i",), ((("i", LoopShape(8, lane=True)),),))}) == (
        "for (i = 0; i < n - 7; i += 8)\n"
        "  S0{8:i}(i);\n"
        "if (n >= 1)\n"
        "  for (i_1 = 8 * (n // 8); i_1 < n; i_1++)\n"
        "    S0(i_1);\n"
    )


def test_definitions_elsewhere_tell_what_never_runs():
    b = Builder({"a": (100,)}, params=("n", "whole")).comp("i", "0 <= i < n", [0, "i", 0], "a[i] = 1")
    func = b.comp("i", "0 <= i < 8*whole and n <= i", [0, "i", 1], "a[i] = 2").func()
    whole = definition_of("whole", Binary("max", floordiv(Param("n", "i32"), 8), integer(0), "i32"), func.loc)
    assert "S1(" in print_tree(generate(func, plan_default(func)))
    text = print_tree(generate(func, plan_default(func), [whole]))
    assert text == "for (i = 0; i < n; i++)\n  S0(i);\n"


def test_iterator_names_avoid_arrays_and_parameters():
    b = Builder({"i": (100,)}, params=("i_1",)).comp("i", "0 <= i < i_1", [0, "i", 0], "i[i + 0] = 1")
    tree = generate(b.func(), plan_default(b.func()))
    assert "for (i_2 = 0; i_2 < i_1; i_2++)" in print_tree(tree)


def test_reduction_tiles_are_shown_and_summed():
    func = matmul(2, 2, 23)
    plan = Plan.of({"S1": CompPlan(("i", "j", "k"), ((("k", LoopShape(8, lane=True, reduce=True)),),))})
    check_legal(func, plan, reassoc=True)
    tree = generate(func, plan)
    assert "S1{1x1x8:k reduce}(i, j, k)" in print_tree(tree)
    generator = np.random.default_rng(0)
    inputs = {b.name: generator.random(b.shape, np.float32) for b in func.bufs}
    expected = evaluate(func, inputs)["C"]
    assert np.allclose(evaluate_tree(func, tree, inputs, lanes=4)["C"], expected, rtol=1e-5)


@pytest.mark.parametrize("n", [0, 1, 5, 6, 7, 23, 40])
@pytest.mark.parametrize("m", [0, 3, 6, 41])
def test_symbolic_programs_run_for_every_size(n, m):
    b = Builder({"A": (50, 50), "C": (50,)}, params=("n", "m"), dtype="i32")
    b.comp("i", "0 <= i < n", [0, "i", 0], "C[i] = i")
    b.comp("i,k", "0 <= i < n and m <= k < n", [0, "i", 1, "k", 0], "C[i] = C[i] + A[i, k] * A[k, i]")
    func = b.func()
    six, four = ("i", LoopShape(6)), ("i", LoopShape(4))
    shapes = ((six, ("k", LoopShape(4, split=True))), (six,), (four,))
    plan = Plan.of({"S0": CompPlan(("i",), ((six,), (four,))), "S1": CompPlan(("i", "k"), shapes)})
    check_legal(func, plan, reassoc=False)
    inputs = {**random_inputs(func, n), "n": n, "m": m}
    got = evaluate_tree(func, generate(func, plan), inputs, lanes=4)
    assert np.array_equal(got["C"], evaluate(func, inputs)["C"])


_ROW = (("j", LoopShape(4, lane=True, cut=True)),)


@pytest.mark.parametrize("domain", ["0 <= j < i", "i <= j < n", "2 * i <= j < n + 3", "i <= j < n and j >= m"])
@pytest.mark.parametrize(
    "full", [(), ((("j", LoopShape(4, lane=True)),),), ((("j", LoopShape(4, lane=True, row=True)),),)]
)
def test_rows_of_any_length(domain, full):
    b = Builder({"A": (50, 50), "C": (50, 50)}, params=("n", "m"), dtype="i32")
    func = b.comp("i,j", f"0 <= i < n and {domain}", [0, "i", 0, "j", 0], "C[i, j] = A[j, i] + C[i, j] * 3").func()
    plan = Plan.of({"S0": CompPlan(("i", "j"), (*full, _ROW))})
    check_legal(func, plan, reassoc=False)
    tree = generate(func, plan)
    assert "S0(" not in print_tree(tree)
    for n, m in ((0, 0), (1, 1), (5, 2), (17, 9)):
        inputs = {**random_inputs(func, n), "n": n, "m": m}
        got = evaluate_tree(func, tree, inputs, lanes=4)
        assert np.array_equal(got["C"], evaluate(func, inputs)["C"])


def test_reductions_over_rows_of_any_length():
    b = Builder({"A": (50, 50), "C": (50,)}, params=("n",), dtype="i32")
    func = b.comp("i,j", "0 <= i < n and 0 <= j <= i", [0, "i", 0, "j", 0], "C[i] = C[i] + A[i, j]").func()
    row = (("j", LoopShape(4, lane=True, reduce=True, cut=True)),)
    plan = Plan.of({"S0": CompPlan(("i", "j"), (row,))})
    check_legal(func, plan, reassoc=False)
    inputs = {**random_inputs(func, 1), "n": 19}
    got = evaluate_tree(func, generate(func, plan), inputs, lanes=4)
    assert np.array_equal(got["C"], evaluate(func, inputs)["C"])


@pytest.mark.parametrize("half", [1, 2, 4])
@pytest.mark.parametrize("groups", [1, 2, 3, 7])
def test_butterflies_across_lanes_of_two_loops(half, groups):
    b = Builder({"y": (64,), "t": (64,)}, dtype="i32")
    place = [0, "i", 0, "j"]
    domain = f"0 <= i < {groups} and 0 <= j < {half}"
    b.comp("i,j", domain, [*place, 0], f"t[{half} * i + j] = y[{2 * half} * i + j + {half}] * 3")
    b.comp("i,j", domain, [*place, 1], f"y[{2 * half} * i + j + {half}] = y[{2 * half} * i + j] - t[{half} * i + j]")
    b.comp("i,j", domain, [*place, 2], f"y[{2 * half} * i + j] = y[{2 * half} * i + j] + t[{half} * i + j]")
    func = b.func()
    shapes = tuple((("i", LoopShape(n, lane=True)), ("j", LoopShape(half, inner=True))) for n in (3, 1))
    plan = Plan.of({c.name: CompPlan(("i", "j"), shapes) for c in func.comps})
    check_legal(func, plan, reassoc=False, lanes=4)
    inputs = random_inputs(func, 1)
    tree = generate(func, plan)
    assert ":i,j}" in print_tree(tree)
    assert np.array_equal(evaluate_tree(func, tree, inputs, lanes=4)["y"], evaluate(func, inputs)["y"])


def test_the_same_plan_gives_the_same_text():
    func = random_func(5)
    texts = {print_tree(generate(func, random_plan(func, 3))) for _ in range(3)}
    assert len(texts) == 1


@pytest.mark.parametrize("seed", range(0, 90))
def test_legal_tilings_of_random_programs_compute_the_same(seed):
    func = random_func(seed)
    inputs = random_inputs(func, seed)
    expected = evaluate(func, inputs)
    for number, program in enumerate((func, expand_scalars(normalise_loops(func)))):
        plan = random_plan(program, 10 * seed + number, rows=number == 1, deal=1 + seed % 3)
        try:
            check_legal(program, plan, reassoc=True)
        except IllegalSchedule:
            plan = plan_default(program)
            check_legal(program, plan, reassoc=False)
        tree = generate(program, plan)
        for lanes in (3, 4):
            got = evaluate_tree(program, tree, inputs, lanes=lanes)
            assert all(np.array_equal(got[name], expected[name]) for name in expected)


DEFINED = {
    "one iteration around": """for (int i = 0; i < 1; i++) { int s = 0;
        for (int j = i; j < p[1]; j++) s += j; r[i] = s; }""",
    "one iteration of two": """for (int i = 2; i < 3; i++) for (int k = 0; k < 1; k++)
        for (int j = p[k]; j < p[i]; j++) r[k] += j;""",
    "rows": "for (int i = 0; i < 3; i++) for (int j = p[i]; j < p[i + 1]; j++) r[i] += j;",
}


@pytest.mark.parametrize("name", DEFINED)
def test_loops_whose_bounds_are_computed_in_any_legal_order(name, tmp_path):
    """A loop that is moved out of those in which its bound is computed still ends there, if these run once."""
    path = tmp_path / "f.c"
    path.write_text(f"void f(const int p[8], int r[8]) {{ {DEFINED[name]} }}")
    func = expand_scalars(read_c(str(path)))
    inputs = {"p": np.array([0, 4, 5, 9, 9, 9, 9, 9], np.int32), "r": np.zeros(8, np.int32)}
    expected, ran = evaluate(func, inputs)["r"], 0
    for order in itertools.permutations(range(max(len(c.iters) for c in func.comps))):
        for apart in (False, True):
            plans = {
                c.name: CompPlan(
                    tuple(c.iters[k] for k in order if k < len(c.iters)),
                    constants=(number, *[0] * len(c.iters)) if apart else None,
                )
                for number, c in enumerate(func.comps)
            }
            plan = Plan.of(plans)
            try:
                check_legal(func, plan, reassoc=False)
            except IllegalSchedule:
                continue
            try:
                tree = generate(func, plan)
            except PlantError:
                assert not apart  # a loop of the definition's own can't be shared by its users
                continue
            ran += 1
            assert np.array_equal(evaluate_tree(func, tree, inputs, lanes=4)["r"], expected), print_tree(tree)
    assert ran >= (1 if name == "rows" else 2)


def test_more_iterations_than_32_bits_count(tmp_path):
    """A constant bound is no value that a definition could have had."""
    path = tmp_path / "f.c"
    path.write_text("void f(int x[1]) { for (long i = 0; i < 5000000000L; i++) x[0] += 1; }")
    func = read_c(str(path))
    assert "5000000000" in print_tree(generate(func, plan_default(func)))
