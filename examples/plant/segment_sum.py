"""Sums of segments whose number and bounds are read when the program runs.

`m`, `b0` and `b1` are values in memory, and parameters to the polyhedral model: bounds and subscripts may use them.
"""

from __future__ import annotations

import numpy as np

from plant_core.interp.loop_tree import run_tree
from plant_core.ir.loop_tree_printer import print_tree
from plant_core.lang import Function, iters
from plant_core.scan import scan


def segment_sum(*, separate: bool, fours: bool = False) -> Function:
    f = Function("segment_sum")
    i, j = iters("i j")

    # The algorithm.
    n, total = f.param("n"), f.param("total")
    num_segments = f.input("num_segments", "i32", (1,))
    offsets = f.input("offsets", "i32", (n + 1,))
    x = f.input("x", "f64", (total,))
    out = f.output("y", "f64", (n,))
    m = f.parameter("m", (), num_segments[0])
    b0 = f.parameter("b0", {i: m}, offsets[i])
    b1 = f.parameter("b1", {i: m}, offsets[i + 1])
    f.comp("Y_init", {i: m}, 0).store(out)
    y = f.comp("Y", {i: m, j: b1 - b0})
    y.define(x[j + b0] + y[i, j - 1]).store(out, (i,))
    f.set_constraint(m > 0, b0 >= 0, b1 > b0)
    if fours:
        f.set_constraint(m % 4 == 0)

    # The computation schedule: whole groups of four segments, then the rest.
    if separate:
        f.program["b0", "b1", "Y_init", "Y"].separate("i", 4).split("i", 4)
    return f


def run(f: Function, segments: int) -> None:
    scheduled = f.scheduled
    tree = scan(scheduled)
    print(print_tree(tree))

    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 9, segments))]).astype(np.int32)
    x = rng.random(offsets[-1])
    inputs = {
        "n": segments,
        "total": len(x),
        "num_segments": np.array([segments], np.int32),
        "offsets": offsets,
        "x": x,
        "y": np.zeros(segments),
    }
    got = run_tree(scheduled.func, tree, inputs)["y"]
    np.testing.assert_allclose(got, np.add.reduceat(x, offsets[:-1]))


def main() -> None:
    run(segment_sum(separate=False), 7)
    run(segment_sum(separate=True), 7)
    run(segment_sum(separate=True, fours=True), 8)
    print("segment_sum: the outputs are NumPy's")


if __name__ == "__main__":
    main()
