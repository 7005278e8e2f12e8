"""Each pass keeps what a program computes, bit for bit, on random programs that alias a lot."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspgen.vecdsl.carry import carry_loads
from dspgen.vecdsl.evaluate import evaluate
from dspgen.vecdsl.hoist import hoist
from dspgen.vecdsl.ir import Program
from dspgen.vecdsl.promote import promote
from dspgen.vecdsl.simplify import simplify
from dspgen.vecdsl.verify import verify
from tests.support.vector_programs import LANES, random_inputs, random_program

PASSES: dict[str, Callable[[Program], Program]] = {
    "simplify": simplify,
    "promote": lambda p: promote(p, LANES),
    "hoist": lambda p: hoist(p, LANES, vectors=3, scalars=3),
    "carry": lambda p: carry_loads(p, vectors=3, scalars=4),
    "all": lambda p: simplify(carry_loads(hoist(promote(simplify(p), LANES), LANES), vectors=2, scalars=2)),
}


def same(program: Program, changed: Program, seed: int) -> None:
    inputs = random_inputs(program, seed)
    before = evaluate(program, LANES, inputs)
    after = evaluate(changed, LANES, inputs, slack=LANES * 4)
    for name, values in before.items():
        np.testing.assert_array_equal(after[name], values, err_msg=name)


@pytest.mark.parametrize("name", PASSES)
@given(seed=st.integers(0, 10**9))
def test_pass_keeps_the_results(name: str, seed: int) -> None:
    program = verify(random_program(seed))
    changed = verify(PASSES[name](program))
    same(program, changed, seed)
    assert PASSES[name](program) == changed
