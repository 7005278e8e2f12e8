"""Ragged nests in strips: the same values at every stage, whatever the rows' ends."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

from dspgen.driver.pipeline import compile_file, run_compiled, run_file
from dspgen.frontend.read import read_c
from dspgen.options import Options
from dspgen.target.load import load_target
from dspgen.target.query.operations import OperationTable
from dspgen.tiling.cost.unit_pressure import Machine
from dspgen.tiling.loops.loop_arrangements import spaced
from dspgen.tiling.loops.loop_nests import nests
from dspgen.tiling.loops.ragged_loops import ragged_loops
from dspgen.tiling.split.row_strips import Strips, in_strips
from dspgen.tiling.trapezoid_candidates import strip_candidates
from dspgen.vecdsl.build.program_builder import build
from dspgen.vecdsl.ir.evaluate import evaluate as evaluate_program
from plant_core.interp.func import evaluate
from plant_core.interp.tiled_loop_tree import evaluate_tree
from plant_core.ir.func import Buf, Func
from plant_core.ir.time_2d1 import normalise_loops
from plant_core.normalize.scalars.scalar_expansion import expand_scalars
from plant_core.scan.tile_plan_codegen import generate
from plant_core.support.location import IllegalSchedule
from plant_core.tile_plan.legality import check_legal
from plant_core.tile_plan.plan import Plan

_SIZE = 400


def func_of(text: str, folder: Path) -> Func:
    path = folder / "f.c"
    path.write_text(text, encoding="utf-8")
    return spaced(expand_scalars(normalise_loops(read_c(str(path)))))


def ragged_text(seed: int) -> str:
    """A sum of rows whose first or last iterations differ."""
    random = Random(seed)
    rows, slope = random.randint(5, 75), random.choice([-2, -1, -1, 1, 1, 2])
    first = random.choice([0, 0, 1, 3])
    moving = f"{random.choice([2, 1, 0]) + (-slope * (first + rows) if slope < 0 else 0)} + {slope} * i"
    low, high = ("0", moving) if random.random() < 0.6 else (moving, str(150 + random.randint(0, 40)))
    end = random.choice(["<", "<="])
    before = random.choice(["r[i] = 0;", "r[i] = y[i];", ""])
    after = random.choice(["", "", "r[i] = 3 * r[i];"])
    term = random.choice(["x[k] * y[k + i]", "x[k + i]", "x[k] * y[2 * k + i]", "(x[k] - y[i]) * y[k + i]"])
    body = f"for (int k = {low}; k {end} {high}; k++) r[i] {random.choice(['+=', '+=', '-='])} {term};"
    loop = f"for (int i = {first}; i < {first + rows}; i++) {{ {before} {body} {after} }}"
    if random.random() < 0.3:
        loop = f"for (int j = 0; j < 3; j++) {loop.replace('y[k + i]', 'y[k + i + j]')}"
    return f"void f(const int x[{_SIZE}], const int y[{2 * _SIZE}], int r[{_SIZE}]) {{ {loop} }}"


def any_size_text(seed: int) -> str:
    """The same, of a size that is known at run time only."""
    random = Random(seed)
    slope, first = random.choice([-2, -1, -1, 1, 1, 2]), random.choice([0, 0, 1, 3])
    moving = f"{random.choice([2, 1, 0])} + {slope} * i" + (f" + {-slope} * n" if slope < 0 else "")
    far = f"{random.choice(['', '2 * '])}n + {random.randint(0, 40)}"
    low, high = ("0", moving) if random.random() < 0.6 else (moving, far)
    before = random.choice(["r[i] = 0;", "r[i] = y[i];", ""])
    after = random.choice(["", "", "r[i] = 3 * r[i];"])
    term = random.choice(["x[k] * y[k + i]", "x[k + i]", "x[k] * y[2 * k + i]", "(x[k] - y[i]) * y[k + i]"])
    compared, added = random.choice(["<", "<="]), random.choice(["+=", "+=", "-="])
    body = f"for (int k = {low}; k {compared} {high}; k++) r[i] {added} {term};"
    loop = f"for (int i = {first}; i < n; i++) {{ {before} {body} {after} }}"
    if random.random() < 0.3:
        loop = f"for (int j = 0; j < 3; j++) {loop.replace('y[k + i]', 'y[k + i + j]')}"
    return f"void f(int n, const int x[{_SIZE}], const int y[{2 * _SIZE}], int r[{_SIZE}]) {{ {loop} }}"


def triangle_text(seed: int) -> str:
    """A product with a triangle, perhaps in place."""
    random = Random(seed)
    size, across = random.randint(5, 30), random.choice([7, 16, 33, 40])
    low, high = random.choice(
        [("0", "i"), ("0", "i + 1"), ("i + 1", str(size)), ("i", str(size)), ("0", f"{size} - i")]
    )
    before, after = random.choice(["c[i][j] = 0;", ""]), random.choice(["c[i][j] *= 3;", ""])
    other = random.choice(["b", "c"])
    body = f"for (int k = {low}; k < {high}; k++) c[i][j] += a[k][i] * {other}[k][j];"
    loops = f"for (int i = 0; i < {size}; i++) for (int j = 0; j < {across}; j++) {{ {before} {body} {after} }}"
    arrays = f"const int a[{size}][{size}], const int b[{size}][{across}], int c[{size}][{across}]"
    return f"void f({arrays}) {{ {loops} }}"


def inputs_of(func: Func) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(1)
    return {p.name: generator.integers(-9, 9, p.extents).astype(np.int32) for p in func.params if isinstance(p, Buf)}


def check_same(expected: dict[str, np.ndarray], got: dict[str, np.ndarray]) -> None:
    assert all(np.array_equal(value, np.asarray(got[name]).reshape(value.shape)) for name, value in expected.items())


@pytest.mark.parametrize("seed", range(24))
def test_strips_have_the_same_instances_in_the_same_order(seed: int, tmp_path: Path) -> None:
    func = func_of(ragged_text(seed), tmp_path)
    random = Random(seed)
    for ragged in ragged_loops(func.comps):
        digits = random.choice([1, 2, 3])
        made = in_strips(func, ragged, Strips(4 * digits, random.choice([1, 2, 4]), digits))
        if made is not None:
            check_same(evaluate(func, inputs_of(func)), evaluate(made[0], inputs_of(func)))


@pytest.mark.parametrize("seed", range(12))
def test_strips_of_any_size_have_the_same_instances(seed: int, tmp_path: Path) -> None:
    func = func_of(any_size_text(seed), tmp_path)
    random = Random(seed)
    for ragged in ragged_loops(func.comps):
        digits = random.choice([1, 2, 3])
        made = in_strips(func, ragged, Strips(4 * digits, random.choice([1, 2, 4]), digits))
        assert made is not None
        forms = [made[0]]
        for rest in ragged_loops([p.comp for p in made[1] if p.kind == "rows"]):
            smaller = in_strips(made[0], rest, Strips(3, random.choice([1, 2]), 1), before=made[1])
            assert smaller is not None
            forms.append(smaller[0])
            break
        for size in (0, 1, 5, 13, random.randint(31, 70)):
            inputs = {**inputs_of(func), "n": size}
            expected = evaluate(func, inputs)
            for form in forms:
                check_same(expected, evaluate(form, inputs))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("ordered", [False, True])
def test_candidates_in_strips_compute_the_same(seed: int, ordered: bool, tmp_path: Path) -> None:
    check_candidates(func_of(ragged_text(seed), tmp_path), ordered)


@pytest.mark.parametrize("seed", range(16))
def test_triangles_of_matrices_in_strips_compute_the_same(seed: int, tmp_path: Path) -> None:
    check_candidates(func_of(triangle_text(seed), tmp_path), ordered=seed % 2 == 1)


def check_candidates(func: Func, ordered: bool) -> None:
    """The best candidates' loop trees and vector programs."""
    target = load_target("ft_m7002")
    inputs = inputs_of(func)
    expected = evaluate(func, inputs)
    machine = Machine(target, OperationTable(target))
    for nest in nests(func):
        for candidate in strip_candidates(func, nest, target, machine, ordered=ordered)[:2]:
            assert candidate.form is not None
            plan = Plan(candidate.plans)
            try:
                check_legal(candidate.form, plan, reassoc=True, lanes=target.lanes)
            except IllegalSchedule:
                continue
            tree = generate(candidate.form, plan)
            check_same(expected, evaluate_tree(candidate.form, tree, inputs, lanes=target.lanes))
            program = build(candidate.form, tree, target.lanes)
            check_same(expected, evaluate_program(program, target.lanes, inputs, slack=64))


@pytest.mark.parametrize("text", [ragged_text(100), ragged_text(101), triangle_text(2)])
def test_what_runs_is_what_the_program_says(text: str, tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text(text, encoding="utf-8")
    assert run_file(str(path), load_target("ft_m7002"), Options()).verified


def test_no_statements_have_no_ragged_loops() -> None:
    assert list(ragged_loops([])) == []  # strips may leave no rows beside them


def test_autocorrelation_is_done_in_strips(tmp_path: Path) -> None:
    func = func_of(Path("examples/autocor.c").read_text(encoding="utf-8").replace("N 64", "N 256"), tmp_path)
    (ragged,) = ragged_loops(func.comps)
    made = in_strips(func, ragged, Strips(64, 32, 4))
    assert made is not None
    assert [p.kind for p in made[1]] == ["other", "common", "ragged"]


def test_autocorrelation_of_any_size_is_done_in_strips(tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text(
        """void f(int n, const float x[300], float r[300]) {
          for (int i = 0; i < n; i++) { r[i] = 0; for (int k = 0; k < n - i; k++) r[i] += x[k] * x[k + i]; } }""",
        encoding="utf-8",
    )
    target, options = load_target("ft_m7002"), Options(data="onchip")
    compiled = compile_file(str(path), target, options)
    runs = {n: run_compiled(compiled, str(path), target, options, inputs={"n": n}) for n in (-3, 0, 1, 15, 17, 65, 300)}
    assert all(run.verified for run in runs.values())
    assert runs[300].cycles < 2400


def test_conditions_tell_nothing_of_how_many_strips_there_are(tmp_path: Path) -> None:
    text = """void f(int n, const int x[64], const int y[800], int r[64]) { for (int i = 0; i < n; i++)
        for (int k = 0; k < n - i; k++) r[i] += y[k] > 0 ? x[k] : y[k + i]; }"""
    for body, bound in ((text, False), (text.replace("y[k] > 0 ? x[k] : ", "x[k] + "), True)):
        func = func_of(body, tmp_path)
        (ragged,) = ragged_loops(func.comps)
        made = in_strips(func, ragged, Strips(16, 4, 1))
        assert made is not None
        common = next(p.comp for p in made[1] if p.kind == "common")
        assert common.domain.dim_max_val(0).is_int() == bound
