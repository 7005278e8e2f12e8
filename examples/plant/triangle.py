"""A loop nest that isn't a rectangle: only what lies inside the triangle is computed and read."""

from __future__ import annotations

import numpy as np

from plant_core.interp.loop_tree import run_tree
from plant_core.ir.loop_tree_printer import print_tree
from plant_core.lang import Function, iters
from plant_core.scan import scan


def triangle() -> Function:
    f = Function("triangle")
    r, x = iters("r x")

    # The algorithm: x runs from r on.
    n = f.param("n")
    source = f.input("source", "f64", (n,))
    out = f.output("out", "f64", (n, n))
    f.set_constraint(n > 0)
    t = f.comp("T", {r: n, x: n}, source[x] - source[r], where=x >= r).store(out)

    # The computation schedule.
    t.tile(r, x, 8, 8)
    t.option("r_i", "isolate").option("x_i", "isolate")
    t.tag("r_o", "parallel")
    return f


def main() -> None:
    scheduled = triangle().scheduled
    tree = scan(scheduled)
    print(print_tree(tree))

    n = 37
    source = np.random.default_rng(0).random(n)
    got = run_tree(scheduled.func, tree, {"n": n, "source": source, "out": np.zeros((n, n))})["out"]
    np.testing.assert_array_equal(got, np.triu(source[None, :] - source[:, None]))
    print("triangle: the output is NumPy's")


if __name__ == "__main__":
    main()
