"""Partial sums in place of one: the same results, exactly for integers, and shorter recurrences."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dspgen.backend.stages import plan_program
from dspgen.bench.programs import program as program_path
from dspgen.driver.pipeline import run_file
from dspgen.frontend.read import read_c
from dspgen.options import Options
from dspgen.target.isa.model import Target
from dspgen.vecdsl.ir.evaluate import evaluate
from dspgen.vecdsl.ir.parser import parse_program
from dspgen.vecdsl.ir.program import Loop, Program
from dspgen.vecdsl.ir.terms import integer, statements
from dspgen.vecdsl.ir.verify import verify
from dspgen.vecdsl.loops.partial_sums import split_sums
from plant_core.tile_plan.plan import CompPlan, LoopShape, Plan
from tests.support.vector_programs import LANES

HEAD = "program p(A, C)\n{\n  array A i32 200\n  array C i32 200\n"


def _loop(body: str, *, trip: int = 12) -> Program:
    text = f"  loop i start (const.i32 3) trip (const.i32 {trip}) step 2 min {trip} max {trip} {{\n{body}  }}\n"
    return verify(parse_program(f"{HEAD}{text}  store.i32 C [0] 1 = s:i32\n}}\n"))


SUM = "    carry s = (const.i32 5)\n    let t = (sub.i32 s:i32 (ld.i32 A [3*i + 1] 1))\n    next s = t:i32\n"
BESIDE = (
    "    carry s = (const.i32 5)\n    carry o = (const.i32 1)\n    store.i32 C [i] 1 = o:i32\n"
    "    next s = (add.i32 (mul.i32 o:i32 i:i32) s:i32)\n    next o = (mul.i32 o:i32 (ld.i32 A [i] 1))\n"
)
READ = "    carry s = (const.i32 5)\n    store.i32 C [i] 1 = s:i32\n    next s = (add.i32 s:i32 (ld.i32 A [i] 1))\n"
PRODUCT = "    carry s = (const.i32 5)\n    next s = (mul.i32 s:i32 (ld.i32 A [i] 1))\n"


@pytest.mark.parametrize(("body", "carried"), [(SUM, 3), (BESIDE, 4)], ids=["sum", "beside others"])
def test_sums_are_split_and_other_values_run_on(body: str, carried: int) -> None:
    program = _loop(body)
    split = verify(split_sums(program, 3, floats=False))
    (loop,) = (s for s in statements(split.body) if isinstance(s, Loop))
    assert (len(loop.carried), loop.step) == (carried, 6)
    inputs = {n: np.arange(200, dtype=np.int32) * 7 % 13 for n in ("A", "C")}
    wanted, found = (evaluate(p, LANES, inputs) for p in (program, split))
    assert np.array_equal(wanted["C"], found["C"])


def test_a_known_trip_is_all_that_is_known_of_it() -> None:
    (loop,) = (s for s in statements(_loop(SUM).body) if isinstance(s, Loop))
    program = replace(_loop(SUM), body=(replace(loop, min_trip=2, max_trip=99),))
    (split,) = (s for s in statements(split_sums(program, 3, floats=False).body) if isinstance(s, Loop))
    assert (split.trip, split.min_trip, split.max_trip) == (integer(4), 4, 4)


@pytest.mark.parametrize("body", [SUM, BESIDE], ids=["sum", "beside others"])
@pytest.mark.parametrize("trip", [0, 1, 4, 7, 40, 43])
def test_sums_of_unknown_length(body: str, trip: int) -> None:
    head = "program p(n, A, C)\n{\n  array A i32 400\n  array C i32 400\n  scalar n i32\n"
    loop = f"  loop i start (const.i32 3) trip n:i32 step 2 min 0 max 60 {{\n{body}  }}\n"
    program = verify(parse_program(f"{head}{loop}  store.i32 C [0] 1 = s:i32\n}}\n"))
    split = verify(split_sums(program, 5, floats=False))
    first, second = (s for s in statements(split.body) if isinstance(s, Loop))
    assert (first.step, first.max_trip, second.step, second.max_trip) == (2, 3, 8, 15)
    inputs = {n: np.arange(400, dtype=np.int32) * 7 % 13 for n in ("A", "C")} | {"n": np.int32(trip)}
    wanted, found = (evaluate(p, LANES, inputs) for p in (program, split))
    assert np.array_equal(wanted["C"], found["C"])
    assert split_sums(program, 1, floats=False) == program


@pytest.mark.parametrize("body", [READ, PRODUCT], ids=["read inside", "a product"])
def test_what_is_no_plain_sum_stays(body: str) -> None:
    assert split_sums(_loop(body), 4, floats=True) == _loop(body)


def test_trips_that_nothing_divides_and_floats_that_may_not_be_regrouped_stay() -> None:
    assert split_sums(_loop(SUM, trip=11), 4, floats=False) == _loop(SUM, trip=11)
    text = "    carry s = (const.f32 0.0)\n    next s = (add.f32 s:f32 (ld.f32 A [i] 1))\n"
    whole = f"  loop i start (const.i32 0) trip (const.i32 8) step 1 min 8 max 8 {{\n{text}  }}\n"
    program = parse_program(f"{HEAD.replace('i32 200', 'f32 200')}{whole}  store.f32 C [0] 1 = s:f32\n}}\n")
    assert split_sums(program, 4, floats=False) == program
    assert split_sums(program, 4, floats=True) != program


def _random_loop(rng: random.Random) -> Program:
    """A loop with sums, other carried values, stores and names; some of the sums are read elsewhere too."""
    atoms = ["i:i32", "(ld.i32 A [i + 2] 1)", "(ld.i32 C [2*i] 1)", "(const.i32 3)"]
    carried = [f"c{k}" for k in range(rng.randint(1, 3))]
    lines = ["    carry s = (const.i32 1)", *(f"    carry {c} = (const.i32 2)" for c in carried)]
    atoms += [f"{c}:i32" for c in rng.sample(carried, rng.randint(0, len(carried)))]
    for k in range(rng.randint(0, 3)):
        lines.append(f"    let t{k} = (mul.i32 {rng.choice(atoms)} {rng.choice(atoms)})")
        atoms.append(f"t{k}:i32")
        if rng.random() < 0.4:
            lines.append(f"    store.i32 C [i + {rng.randint(0, 9)}] 1 = {rng.choice(atoms)}")
    for name in ("s", *carried):
        left, right = rng.choice(((f"{name}:i32", rng.choice(atoms)), (rng.choice(atoms), f"{name}:i32")))
        lines.append(f"    next {name} = ({rng.choice(('add', 'add', 'sub'))}.i32 {left} {right})")
    return _loop("".join(f"{line}\n" for line in lines), trip=rng.choice((4, 6, 9, 10)))


def test_random_loops_keep_their_results() -> None:
    changed = 0
    inputs = {n: np.arange(200, dtype=np.int32) * 7 % 13 for n in ("A", "C")}
    for seed in range(60):
        program = _random_loop(random.Random(seed))
        split = verify(split_sums(program, 4, floats=False))
        changed += split != program
        wanted, found = (evaluate(p, LANES, inputs) for p in (program, split))
        assert np.array_equal(wanted["C"], found["C"]), seed
    assert changed > 20


def test_a_product_without_tiles_waits_for_its_sums_no_more(ft_m7002: Target) -> None:
    path, defines = program_path("matmul.c"), (("N", "16"),)
    off, full = (run_file(path, ft_m7002, Options(defines=defines, tile="one", rewrite=m)) for m in ("off", "full"))
    assert off.verified and full.verified
    assert full.cycles < 0.8 * off.cycles


def test_rows_of_unknown_length_wait_for_their_sums_no_more(ft_m7002: Target) -> None:
    result = run_file(program_path("autocor.c"), ft_m7002, Options(defines=(("N", "256"),)))
    assert result.verified and result.cycles < 4700  # 5072 with additions apart from the products


@pytest.mark.parametrize("size", ["n", "40"])
def test_terms_of_one_iteration_are_sums_side_by_side_where_trips_are_unknown(
    size: str, tmp_path: Path, ft_m7002: Target
) -> None:
    """A row's two products are added to sums of their own, which need not wait for each other."""
    path = tmp_path / "f.c"
    path.write_text(
        "void f(int n, const float a[40][16], const float x[40], float y[16]) {\n"
        f"  for (int j = 0; j < 16; j++) for (int i = 0; i < {size}; i++) y[j] += a[i][j] * x[i]; }}\n",
        encoding="utf-8",
    )
    shapes = tuple((("j", LoopShape(16, lane=True)), ("i", LoopShape(span))) for span in (2, 1))
    func = read_c(str(path))
    plan = Plan(((func.comps[0].name, CompPlan(("j", "i"), shapes)),))
    program = plan_program(func, plan, ft_m7002, Options()).promoted
    carried = [len(s.carried) for s in statements(program.body) if isinstance(s, Loop) and s.carried]
    assert max(carried) == (2 if size == "n" else 1)
