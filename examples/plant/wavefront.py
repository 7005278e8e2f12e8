"""A stencil over time, skewed so that time can be tiled; tiles on a diagonal run side by side."""

from __future__ import annotations

import numpy as np

from backends.cpu.kernel import compile_cpu
from plant_core.ir.loop_tree_printer import print_tree
from plant_core.lang import Function, iters
from plant_core.scan import scan


def wavefront() -> Function:
    f = Function("wavefront")
    t, i = iters("t i")

    # The algorithm, on two planes that take turns.
    n, steps = f.param("n"), f.param("steps")
    f.set_constraint(n > 2, steps > 0)
    a = f.output("a", "f64", (2, n))
    c = f.comp("c", {t: steps, i: (1, n - 1)})
    c.define((a[t % 2, i - 1] + a[t % 2, i] + a[t % 2, i + 1]) / 3).store(a, ((t + 1) % 2, i))

    # The computation schedule.
    c.skew(t, i, 1).tile({t: 16, i: 64})
    c.apply_sch("{ [t, i, ti, ii] -> [t + i, i, ti, ii] }", loops=("wave", "i_o", "t_i", "i_i"))
    c.tag("i_o", "parallel").tag("i_i", "vectorize")
    return f


def main() -> None:
    scheduled = wavefront().scheduled
    print(print_tree(scan(scheduled)))

    n, steps = 500, 50
    start = np.random.default_rng(0).random(n)
    a, expected = np.stack([start, start]), np.stack([start, start])
    compile_cpu(scheduled)(n=n, steps=steps, a=a)
    for step in range(steps):
        old, new = expected[step % 2], expected[(step + 1) % 2]
        new[1:-1] = (old[:-2] + old[1:-1] + old[2:]) / 3
    np.testing.assert_allclose(a, expected)
    print("wavefront: the output is NumPy's")


if __name__ == "__main__":
    main()
