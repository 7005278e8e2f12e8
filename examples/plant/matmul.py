"""Matrix multiplication in three layers: what is computed, in which order, and where the results are kept."""

from __future__ import annotations

import numpy as np

from backends.cpu.kernel import compile_cpu
from plant_core.ir.loop_tree_printer import print_tree
from plant_core.lang import Function, iters
from plant_core.scan import scan


def matmul(n: int, s: int, m: int) -> Function:
    f = Function("matmul", reassoc=True)
    i, j, k = iters("i j k")

    # The algorithm.
    a = f.input("a", "f32", (n, s))
    b = f.input("b", "f32", (s, m))
    c_init = f.comp("C_init", {i: n, j: m}, 0, dtype="f32")
    c = f.comp("C", {i: n, j: m, k: s})
    c.define(a[i, k] * b[k, j] + c[i, j, k - 1])

    # The computation schedule.
    c_init.tile(i, j, 32, 32)
    c.tile(i, j, 32, 32)
    c.after(c_init, "j_i")
    f.program["C_init", "C"].tag("i_o", "parallel")

    # The memory schedule.
    out = f.output("c", "f32", (n, m))
    c_init.store(out)
    c.store(out, (i, j))
    return f


def main() -> None:
    n, s, m = 100, 90, 80
    scheduled = matmul(n, s, m).scheduled
    print(print_tree(scan(scheduled)))

    rng = np.random.default_rng(0)
    a, b = rng.random((n, s), np.float32), rng.random((s, m), np.float32)
    c = np.empty((n, m), np.float32)
    compile_cpu(scheduled)(a=a, b=b, c=c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)
    print("matmul: the output is NumPy's")


if __name__ == "__main__":
    main()
