"""Two forms of one program leave the same arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from plant_core.interp.func import evaluate
from plant_core.ir.func import Buf, Func


def check_same(before: Func, after: Func, given: Mapping[str, np.ndarray | int]) -> None:
    """On numbers of one digit, but for what is given."""
    generator = np.random.default_rng(2)
    arrays = {
        p.name: generator.integers(-9, 9, p.extents).astype(np.int32) for p in before.params if isinstance(p, Buf)
    }
    inputs = {**arrays, **given}
    expected, got = evaluate(before, inputs), evaluate(after, inputs)
    for name in expected:
        np.testing.assert_array_equal(got[name], expected[name], err_msg=name)
