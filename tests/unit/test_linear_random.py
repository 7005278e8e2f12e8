"""Random linear assembly: packets do what the text does, one instruction after the other."""

from __future__ import annotations

import numpy as np
import pytest

from dspgen.check.equivalence import check as judge
from dspgen.driver.linear_asm import schedule_text
from dspgen.sim.linear_evaluator import evaluate
from dspgen.sim.run import simulate
from dspgen.target.load import load_target
from tests.support.linear_programs import WORDS, random_program

TARGET = "ft_m7002"


def check(seed: int, *, exclusive: bool = False) -> None:
    target = load_target(TARGET)
    text = random_program(seed, exclusive=exclusive)
    (function,) = schedule_text(text, target, method="list")
    for n in (1, 2, 4, 11):
        rng = np.random.default_rng(seed)
        x, y = (rng.integers(-100, 100, WORDS, dtype=np.int32) for _ in "xy")
        arguments = [("x", x), ("y", y), ("n", n)]
        expected = evaluate(function.linear.sequence, target, arguments, strict=False)
        got = simulate(function.asm, target, arguments=arguments, strict=False, engine="python")
        where = f"seed {seed}, n = {n}"
        assert got.result_bits & 0xFFFFFFFF == expected.result_bits & 0xFFFFFFFF, where
        for name, array in expected.outputs.items():
            np.testing.assert_array_equal(got.outputs[name], array, err_msg=f"{where}: {name}")
    judged = judge(text, function.asm, target, arguments, stack=4096)
    assert judged.problems == (), f"seed {seed}\n" + "\n".join(p.render() for p in judged.problems)


@pytest.mark.parametrize("first", range(0, 24, 6))
def test_packets_do_what_the_text_does(first: int) -> None:
    for seed in range(first, first + 6):
        check(seed)


@pytest.mark.parametrize("first", range(0, 24, 6))
def test_what_is_under_complementary_predicates(first: int) -> None:
    for seed in range(first, first + 6):
        check(seed, exclusive=True)


def test_more_conditions_than_lane_predicates() -> None:
    check(5044)


@pytest.mark.slow
def test_many_programs() -> None:
    for seed in range(1000, 1600):
        check(seed)
        check(seed, exclusive=True)


def test_loops_of_every_idiom_are_pipelined() -> None:
    target = load_target(TARGET)
    loops = [
        loop
        for seed in range(24)
        for loop in schedule_text(random_program(seed), target, method="list")[0].scheduled.loops
    ]
    assert sum(loop.pipelined for loop in loops) >= 8
