"""Forward substitution: two computations that need each other's values, and so share a loop from the start."""

from __future__ import annotations

import numpy as np

from backends.cpu.kernel import compile_cpu
from plant_core.ir.loop_tree_printer import print_tree
from plant_core.lang import Function, iters
from plant_core.scan import scan


def triangular_solve() -> Function:
    f = Function("triangular_solve", reassoc=True)
    i, j = iters("i j")

    # The algorithm: row i needs every x before it, and x[i] needs the whole row.
    n = f.param("n")
    matrix, rhs = f.input("matrix", "f64", (n, n)), f.input("rhs", "f64", n)
    x = f.output("x", "f64", n)
    f.set_constraint(n > 0)
    f.comp("start", {i: n}, rhs[i]).store(x)
    row = f.comp("row", {i: n, j: i})
    solved = f.comp("solved", {i: n}, row[i, i - 1] / matrix[i, i], after=(row, i)).store(x)
    row.define(row[i, j - 1] - matrix[i, j] * solved[j]).store(x, i)

    # The computation schedule: the sums on vectors.
    row.tag(j, "vectorize")
    return f


def main() -> None:
    scheduled = triangular_solve().scheduled
    print(print_tree(scan(scheduled)))

    n = 100
    rng = np.random.default_rng(0)
    matrix, rhs, x = np.tril(rng.random((n, n))) + n * np.eye(n), rng.random(n), np.empty(n)
    compile_cpu(scheduled)(n=n, matrix=matrix, rhs=rhs, x=x)
    np.testing.assert_allclose(x, np.linalg.solve(matrix, rhs))
    print("triangular_solve: the output is NumPy's")


if __name__ == "__main__":
    main()
