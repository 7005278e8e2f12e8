"""Random programs under random verbs: either refused, or with the results they had; and never refused for nothing."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plant_core.interp.func import evaluate
from plant_core.interp.loop_tree import Order, run_tree
from plant_core.ir.func import Buf, Func
from plant_core.ir.scheduled import Scheduled, as_written
from plant_core.scan import scan
from plant_core.schedule import legality as order
from plant_core.support.location import IllegalSchedule, PlantError
from tests.generators.verbs import draw_verbs, small_func
from tests.support.plant_times import Run, all_runs, is_legal, is_parallel, run, sharing

NIGHTLY = settings().max_examples > 100
PARTS = 4
RUNS = (50_000 if NIGHTLY else 500) // PARTS
TREES = (8_000 if NIGHTLY else 120) // PARTS
VERDICTS = (8_000 if NIGHTLY else 120) // PARTS
SEEDS = st.integers(0, 2**40)
parts = pytest.mark.parametrize("part", range(PARTS))


def _inputs(func: Func, rng: Random) -> dict[str, object]:
    generator = np.random.default_rng(rng.getrandbits(32))
    bufs = [p for p in func.params if isinstance(p, Buf)]
    return {"n": rng.randint(0, 5), **{b.name: generator.integers(-5, 6, b.extents).astype(np.int32) for b in bufs}}


def _same(want: dict[str, np.ndarray], got: dict[str, np.ndarray]) -> bool:
    return all(np.array_equal(want[name], got[name], equal_nan=want[name].dtype.kind == "f") for name in want)


@parts
@settings(max_examples=RUNS)
@given(seed=SEEDS)
def test_results_stay(part: int, seed: int) -> None:
    """Bit for bit: integers, whose reductions may change places, and floats without reassociation."""
    rng = Random(PARTS * seed + part)
    func = small_func(rng, rng.choice(["i32", "i32", "f32"]))
    scheduled = as_written(func)
    inputs = _inputs(func, rng)
    want = run(scheduled, inputs)
    trail = []
    for step, result in draw_verbs(rng, scheduled):
        if isinstance(result, PlantError):
            assert result.message and result.remedy and result.code in ("DG201", "DG210", "DG215"), step
        else:
            trail.append(step)
            scheduled = result
            assert _same(want, run(scheduled, inputs)), trail
    _any_order_of_a_parallel_loop(rng, scheduled, inputs, want)


def _any_order_of_a_parallel_loop(
    rng: Random, scheduled: Scheduled, inputs: dict[str, object], want: dict[str, np.ndarray]
) -> None:
    found = [(n.name, loop) for n in scheduled.nests for loop in n.loops if order.is_parallel(scheduled, n.name, loop)]
    if found:
        name, loop = rng.choice(found)
        dim = 2 * scheduled.nest(name).depth(loop) + 1
        inside = sharing(scheduled, name, loop)

        def backwards(one: Run) -> tuple[int, ...]:
            sign = -1 if one.statement in inside else 1
            return (*one.time[:dim], sign * one.time[dim], *one.time[dim + 1 :])

        runs = sorted(all_runs(scheduled, {"n": inputs["n"]}), key=backwards)  # type: ignore[dict-item]
        assert _same(want, run(scheduled, inputs, runs)), (name, loop)


@parts
@settings(max_examples=TREES)
@given(seed=SEEDS)
def test_loop_trees_of_loop_and_memory_verbs_keep_results(part: int, seed: int) -> None:
    """Through the loop generator, and in every order of the loops that are free to have any."""
    rng = Random(PARTS * seed + part)
    func = small_func(rng, rng.choice(["i32", "i32", "f32"]))
    scheduled = as_written(func)
    trail = []
    for step, result in draw_verbs(rng, scheduled, 5, memory=0.4):
        if isinstance(result, PlantError):
            assert result.message and result.remedy and result.code, step
        else:
            trail.append(step)
            scheduled = result
    order.check(scheduled)
    tree = scan(scheduled)
    inputs = _inputs(func, rng)
    want = evaluate(func, inputs)
    orders: tuple[Order, ...] = ("forward", "reversed", "random")
    for one in orders:
        assert _same(want, run_tree(scheduled.func, tree, inputs, order=one)), (one, trail)


@parts
@settings(max_examples=VERDICTS)
@given(seed=SEEDS)
def test_verdicts_are_exact(part: int, seed: int) -> None:
    """`check` and `is_parallel` against every pair of instances, for every value of the parameter."""
    rng = Random(PARTS * seed + part)
    func = small_func(rng, rng.choice(["i32", "f32"]))
    scheduled = _unchecked(rng, as_written(func, reassoc=rng.random() < 0.5))
    reorders = scheduled.reassoc or func.comps[0].target.dtype == "i32"
    expected = all(is_legal(scheduled, {"n": n}, reorders) for n in range(6))
    try:
        order.check(scheduled)
    except IllegalSchedule as error:
        assert not expected, error.message
        return
    assert expected
    for nest in scheduled.nests:
        for loop in nest.loops:
            exact = all(is_parallel(scheduled, {"n": n}, nest.name, loop) for n in range(6))
            assert order.is_parallel(scheduled, nest.name, loop) == exact, (nest.name, loop)


def _unchecked(rng: Random, scheduled: Scheduled) -> Scheduled:
    """The schedule after some verbs whose legality nobody looked at."""
    modules = ("loops", "statement_order", "tags")
    with pytest.MonkeyPatch.context() as patch:
        for module in modules:
            patch.setattr(f"plant_core.schedule.verbs.{module}.check", lambda scheduled, **options: None)
        for step, result in draw_verbs(rng, scheduled, 3):
            if step.verb == "inline" or (isinstance(result, Scheduled) and result.func is not scheduled.func):
                break
            if isinstance(result, Scheduled) and step.verb != "tag":
                scheduled = result
            elif isinstance(result, Scheduled):
                break
    return scheduled
