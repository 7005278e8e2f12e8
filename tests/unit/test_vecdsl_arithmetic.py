"""What the arithmetic of a loop's statements takes, as they were written."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dspgen.target.load import load_target
from dspgen.target.query.operations import OperationTable
from dspgen.vecdsl.analysis.arithmetic_bound import loop_arithmetic
from dspgen.vecdsl.ir.parser import parse_program

TARGET = load_target("ft_m7002")
TEXT = """
program p(x, y)
{{
  array x f32 4096
  array y f32 4096
  loop i start (const.i32 0) trip (const.i32 4) step {step} min 4 max 4 {{
    {body}
  }}
}}
"""
PRODUCT = "(mul.f32.v (ld.f32.v x [i] 1) (bcast.f32.v (ld.f32 x [i] 1)))"
BODIES = {  # vector operations
    "store.f32 y [i] 1 = (ld.f32.v x [i] 1)": Fraction(0),
    f"store.f32 y [i] 1 = (add.f32.v (ld.f32.v y [i] 1) {PRODUCT})": Fraction(1),
    f"store.f32 y [i] 1 = (add.f32.v {PRODUCT} {PRODUCT})": Fraction(2),
    "store.f32 y [i] 1 = (add.f32 (ld.f32 x [i] 1) (ld.f32 x [i + 1] 1))": Fraction(1, TARGET.lanes),
    f"store.f32 y [i] 1 = (reduce_add.f32 {PRODUCT})": Fraction(1),
}


@pytest.mark.parametrize("body", BODIES)
def test_operations_are_counted_at_full_lanes(body: str) -> None:
    forms = OperationTable(TARGET).forms("mac", "f32")
    units = max(len(f.instruction.units) for f in forms)
    program = parse_program(TEXT.format(step=16, body=body))
    assert loop_arithmetic(program, TARGET) == {"i": BODIES[body] / units / 16}
