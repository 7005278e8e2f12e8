"""The embedded language: algorithm, computation schedule and memory schedule of a function, written in Python.

    n, m, s = 1024, 1024, 1024
    f = Function("matmul")
    i, j, k = iters("i j k")

    a, b = f.input("a", "f32", (n, s)), f.input("b", "f32", (s, m))     # the algorithm
    c_init = f.comp("C_init", {i: n, j: m}, 0)
    c = f.comp("C", {i: n, j: m, k: s})
    c.define(a[i, k] * b[k, j] + c[i, j, k - 1])

    c_init.tile("i", "j", 32, 32)                                       # the computation schedule
    c.tile("i", "j", 32, 32).after(c_init, "j_i").tag("i_o", "parallel")

    out = f.output("c", "f32", (n, m))                                  # the memory schedule
    c_init.store(out)
    c.store(out, (i, j))

After PLANT, chapters 2 and 3. Computations run in the order of their definition, each in loops of its own, until verbs
say otherwise. `/` and `%` are C's, rounding towards zero; `//` rounds down.
"""

from plant_core.lang.function import Buffer, Computation, Function, Parameter, Together
from plant_core.lang.terms import (
    Term,
    call,
    cast,
    exp,
    iterator,
    iters,
    maximum,
    minimum,
    ramp,
    sqrt,
    val,
    verbatim,
    where,
)

__all__ = [
    "Buffer", "Computation", "Function", "Parameter", "Term", "Together", "call", "cast", "exp", "iterator", "iters",
    "maximum", "minimum", "ramp", "sqrt", "val", "verbatim", "where",
]  # fmt: skip
