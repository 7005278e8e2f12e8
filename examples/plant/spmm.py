"""A sparse matrix (CSR: ptr, idx, val) times a dense one, the row's indices and values cached in pieces of 32."""

from __future__ import annotations

import numpy as np

from plant_core.interp.loop_tree import run_tree
from plant_core.ir.loop_tree_printer import print_tree
from plant_core.lang import Function, iters
from plant_core.scan import scan


def spmm() -> Function:
    f = Function("spmm", reassoc=True)
    i, p, j = iters("i p j")

    # The algorithm.
    m, n, nonzeros, inner = f.param("m"), f.param("n"), f.param("nonzeros"), f.param("inner")
    ptr = f.input("ptr", "i32", (m + 1,))
    idx, val = f.input("idx", "i32", (nonzeros,)), f.input("val", "f64", (nonzeros,))
    b = f.input("b", "f64", (inner, n))
    out = f.output("y", "f64", (m, n))
    f.comp("Y_init", {i: m, j: n}, 0).store(out)
    b0 = f.parameter("b0", {i: m}, ptr[i])
    b1 = f.parameter("b1", {i: m}, ptr[i + 1])
    y = f.comp("Y", {i: m, p: b1 - b0, j: n})
    y.define(val[p + b0] * b[idx[p + b0], j] + y[i, p - 1, j]).store(out, (i, j))
    f.set_constraint(m > 0, n > 0, b0 >= 0, b1 > b0, b1 <= nonzeros)

    # The computation schedule.
    y.split(p, 32)

    # The memory schedule: at most 32 elements of each are read in an iteration of p_o.
    y.cache_identity(val, "p_o")
    y.cache_identity(idx, "p_o")
    return f


def main() -> None:
    scheduled = spmm().scheduled
    tree = scan(scheduled)
    print(print_tree(tree))

    rng = np.random.default_rng(0)
    dense = np.where(rng.random((5, 200)) < 0.4, rng.random((5, 200)), 0)
    rows, columns = np.nonzero(dense)
    b = rng.random((200, 4))
    inputs = {
        "m": 5,
        "n": 4,
        "nonzeros": len(rows),
        "inner": 200,
        "ptr": np.searchsorted(rows, np.arange(6)).astype(np.int32),
        "idx": columns.astype(np.int32),
        "val": dense[rows, columns],
        "b": b,
        "y": np.zeros((5, 4)),
    }
    got = run_tree(scheduled.func, tree, inputs)["y"]
    np.testing.assert_allclose(got, dense @ b)
    print("spmm: the output is NumPy's")


if __name__ == "__main__":
    main()
