"""The schedule checker on what a test has compiled."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dspgen.asmir.ir.function import Function
from dspgen.backend.stages import Compiled, arguments_of, stack_of
from dspgen.check.equivalence import Checked, Reference, against, reference
from dspgen.check.machine import TooLong
from dspgen.emit.linear import emit_linear
from dspgen.sim.ir.program import Assembled
from dspgen.sim.run import UNNAMED, assembled_once
from dspgen.target.isa.model import Target
from plant_core.support.memoize import few_by_identity

STEPS = 20_000  # of linear text: longer runs repeat the same loops

Values = Mapping[str, "np.ndarray | int | float"]


@few_by_identity
def _linear(function: Function, target: Target) -> str:
    return emit_linear(function, target)


def _program(compiled: Compiled, target: Target) -> Assembled:
    """As the simulator reads it, so that it is read once."""
    return assembled_once(compiled.asm, target.real, UNNAMED)


def reference_of(compiled: Compiled, target: Target, values: Values, steps: int = STEPS) -> Reference:
    """Raises TooLong for a linear text that runs longer than `steps`."""
    program = _program(compiled, target)
    linear = _linear(compiled.assembly, target)
    arguments = arguments_of(compiled, values)
    return reference(linear, program, target, arguments, stack=stack_of(compiled), steps=steps)


def checked(compiled: Compiled, target: Target, values: Values) -> Checked | None:
    """None for a run too long to be checked."""
    try:
        wanted = reference_of(compiled, target, values)
    except TooLong:
        return None
    return against(wanted, _program(compiled, target), target)


def assert_checked(compiled: Compiled, target: Target, values: Values) -> None:
    found = checked(compiled, target, values)
    assert found is None or not found.problems, "\n".join(p.render() for p in found.problems)
