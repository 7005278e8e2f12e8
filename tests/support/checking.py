"""The schedule checker on what a test has compiled."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dspgen.check.check import Checked, Reference, against, reference
from dspgen.check.machine import TooLong
from dspgen.emit.linear import emit_linear
from dspgen.sim.parse import assemble
from dspgen.stages import Compiled, arguments_of, stack_of
from dspgen.target.model import Target

STEPS = 20_000  # of linear text: longer runs repeat the same loops

Values = Mapping[str, "np.ndarray | int | float"]


def reference_of(compiled: Compiled, target: Target, values: Values, steps: int = STEPS) -> Reference:
    """Raises TooLong for a linear text that runs longer than `steps`."""
    program = assemble(compiled.asm, target)
    linear = emit_linear(compiled.assembly, target)
    arguments = arguments_of(compiled, values)
    return reference(linear, program, target, arguments, stack=stack_of(compiled), steps=steps)


def checked(compiled: Compiled, target: Target, values: Values) -> Checked | None:
    """None for a run too long to be checked."""
    try:
        wanted = reference_of(compiled, target, values)
    except TooLong:
        return None
    return against(wanted, assemble(compiled.asm, target), target)


def assert_checked(compiled: Compiled, target: Target, values: Values) -> None:
    found = checked(compiled, target, values)
    assert found is None or not found.problems, "\n".join(p.render() for p in found.problems)
