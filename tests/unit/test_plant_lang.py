"""The embedded language: what it builds, its types, its default order, and its errors with their places."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from random import Random

import islpy as isl
import numpy as np
import pytest

from dspgen.frontend.read import read_c
from plant_core.interp.func import evaluate
from plant_core.interp.loop_tree import run_tree
from plant_core.ir.c_semantics import NUMPY, is_float
from plant_core.ir.func import DType, Func, Memcpy
from plant_core.ir.loop_tree_printer import print_tree
from plant_core.ir.parser import parse_func
from plant_core.ir.printer import print_expr, print_func
from plant_core.lang import (
    Computation,
    Function,
    Term,
    call,
    cast,
    exp,
    iters,
    maximum,
    minimum,
    ramp,
    sqrt,
    val,
    verbatim,
    where,
)
from plant_core.normalize.bind_storage import resolve
from plant_core.scan import scan
from plant_core.support.location import IllegalSchedule, PlantError

i, j, k = iters("i j k")


def value_text(func: Func, name: str) -> str:
    return print_expr(func.comp(name).value)


def matmul(n: int, m: int, s: int) -> tuple[Function, Computation, Computation]:
    f = Function("matmul")
    a, b = f.input("a", "f32", (n, s)), f.input("b", "f32", (s, m))
    out = f.output("c", "f32", (n, m))
    c_init = f.comp("C_init", {i: n, j: m}, 0)
    c = f.comp("C", {i: n, j: m, k: s})
    c.define(a[i, k] * b[k, j] + c[i, j, k - 1])
    c_init.store(out)
    c.store(out, (i, j))
    return f, c_init, c


def test_matmul() -> None:
    func = matmul(4, 5, 6)[0].build()
    assert value_text(func, "C") == "a[i][k] * b[k][j] + C(i, j, k - 1)"
    assert value_text(resolve(func), "C") == "a[i][k] * b[k][j] + c[i][j]"
    assert value_text(func, "C_init") == "0.0f"
    assert func.comp("C").domain.is_equal(isl.Set("{ C[i, j, k] : 0 <= i < 4 and 0 <= j < 5 and 0 <= k < 6 }"))
    rng = np.random.default_rng(1)
    a, b = rng.random((4, 6), np.float32), rng.random((6, 5), np.float32)
    got = evaluate(resolve(func), {"a": a, "b": b, "c": np.zeros((4, 5))})["c"]
    assert np.allclose(got, a @ b)


def test_verbs_and_results() -> None:
    f, c_init, c = matmul(40, 50, 6)
    c_init.tile(i, j, 32, 32)
    assert c.tile("i", "j", 32, 32).after(c_init, "j_i").tag("i_o", "parallel") is c
    scheduled = f.scheduled
    tree = scan(scheduled)
    assert print_tree(tree).startswith("parallel for (i_o = 0; i_o < 2; i_o++)")
    rng = np.random.default_rng(1)
    a, b = rng.random((40, 6), np.float32), rng.random((6, 50), np.float32)
    got = run_tree(scheduled.func, tree, {"a": a, "b": b, "c": np.zeros((40, 50))})["c"]
    assert np.allclose(got, a @ b)


def test_places_are_the_users_lines() -> None:
    frame = inspect.currentframe()
    assert frame is not None
    f = Function("f")
    out = f.output("o", "f32", (4,))
    a = f.comp("A", {i: 4}, 1.0)
    b = f.comp("B", {i: 4}, a[i]).store(out)
    first = frame.f_lineno - 4
    func = f.build()
    assert [c.loc.line for c in func.comps] == [first + 2, first + 3]
    assert func.loc.line == first and func.loc.file == __file__
    with pytest.raises(PlantError) as error:
        b.split("q", 4)
    assert error.value.loc is not None and error.value.loc.line == frame.f_lineno - 1
    with pytest.raises(AttributeError):
        b.spilt("i", 4)


# --- types ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "text", "dtype"),
    [
        (lambda v: v["f"] * 0.5, "f[i] * 0.5f", "f32"),
        (lambda v: v["d"] + v["f"], "d[i] + (f64)f[i]", "f64"),
        (lambda v: v["b"] + 1, "(i32)b[i] + 1", "i32"),
        (lambda v: 2 * v["l"] - v["u"], "2i64 * l[i] - (i64)u[i]", "i64"),
        (lambda v: v["u"] + i, "u[i] + (u32)i", "u32"),
        (lambda v: i * 0.5, "(f64)i * 0.5", "f64"),
        (lambda v: i // 2 % 3, "i // 2 % 3", "i32"),
        (lambda v: -v["b"], "-(i32)b[i]", "i32"),
        (lambda v: abs(v["f"]), "abs(f[i])", "f32"),
        (lambda v: sqrt(i), "sqrt((f64)i)", "f64"),
        (lambda v: exp(v["f"]), "exp(f[i])", "f32"),
        (lambda v: v["f"] ** 2, "pow(f[i], 2.0f)", "f32"),
        (lambda v: 2 ** v["d"], "pow(2.0, d[i])", "f64"),
        (lambda v: call("hypot", v["f"], v["d"]), "hypot((f64)f[i], d[i])", "f64"),
        (lambda v: minimum(v["f"], 0, v["d"]), "min((f64)min(f[i], 0.0f), d[i])", "f64"),
        (lambda v: maximum(v["u"], 3), "max(u[i], 3u32)", "u32"),
        (lambda v: where((i > 0) & (v["f"] < 1), v["f"], 0), "i > 0 && f[i] < 1.0f ? f[i] : 0.0f", "f32"),
        (lambda v: where(~(i == 2) | (i >= 3), 1, 2), "!(i == 2) || i >= 3 ? 1 : 2", "i32"),
        (lambda v: where(v["b"], 1, 2.0), "b[i] != 0i8 ? 1.0 : 2.0", "f64"),
        (lambda v: v["u"] & 255, "u[i] & 255u32", "u32"),
        (lambda v: (v["b"] << 3) ^ ~v["b"], "(i32)b[i] << 3 ^ ~(i32)b[i]", "i32"),
        (lambda v: cast("u8", v["f"]) >> 1, "(i32)(u8)f[i] >> 1", "i32"),
        (lambda v: val(0.1, "f64") * v["f"], "0.1 * (f64)f[i]", "f64"),
        (lambda v: ramp(v["f"], 2, 8), "ramp(f[i], 2, 8)", "f32"),
        (lambda v: verbatim("now()", "f64") + v["f"], "verbatim('now()') + (f64)f[i]", "f64"),
        (lambda v: 1 - v["f"], "1.0f - f[i]", "f32"),
        (lambda v: 1 / v["f"], "1.0f / f[i]", "f32"),
        (lambda v: 7 // i + 7 % i, "7 // i + 7 % i", "i32"),
        (lambda v: (1 & v["u"]) | (1 | v["u"]), "1u32 & u[i] | (1u32 | u[i])", "u32"),
    ],
)
def test_types(make: Callable[[dict[str, Term]], Term], text: str, dtype: DType) -> None:
    f = Function("f")
    kinds: dict[str, DType] = {"f": "f32", "d": "f64", "b": "i8", "u": "u32", "l": "i64"}
    elements = {name: f.input(name, kind, (9,))[i] for name, kind in kinds.items()}
    f.comp("S", {i: 9}, make(elements))
    func = f.build()
    assert value_text(func, "S") == text
    assert func.comp("S").target.dtype == dtype
    assert print_func(parse_func(print_func(func))) == print_func(func)


def test_types_of_computations() -> None:
    f = Function("f")
    x, out = f.input("x", "i16", (8,)), f.output("y", "f32", (8,))
    a = f.comp("a", {i: 8}, x[i])
    b = f.comp("b", {i: 8})
    b.define(where(i > 0, b[i - 1], 0) + a[i])
    c = f.comp("c", {i: 8}, b[i]).store(out)
    d = f.comp("d", {i: 8}, c[i] * 2, dtype="i8")
    func = f.build()
    assert [func.comp(n).target.dtype for n in "abcd"] == ["i16", "i32", "f32", "i8"]
    assert value_text(func, "c") == "(f32)b(i)" and value_text(func, "d") == "(i8)(c(i) * 2.0f)"
    assert d.dtype == "i8"
    a2 = Function("g")
    loop = a2.comp("loop", {i: 8})
    loop.define(loop[i - 1])
    with pytest.raises(PlantError, match="the type of 'loop' isn't known"):
        a2.build()


# --- domains and storage ----------------------------------------------------------------------------------------------


def test_domains() -> None:
    f = Function("f")
    n = f.param("n")
    f.comp("triangle", {i: n, j: (i, n)}, 0)
    f.comp("steps", {i: (1, 10, 3)}, 0)
    f.comp("conditions", (i, j), 0, where=[(i >= 0) & (i < 4), (j >= i) & (j <= 2 * i), ~(j == 3) | (i == 2)])
    f.comp("halves", {i: n // 2}, 0)
    f.comp("point", (), 0)
    func = f.build()
    want = {
        "triangle": "[n] -> { triangle[i, j] : 0 <= i < n and i <= j < n }",
        "steps": "{ steps[1]; steps[4]; steps[7] }",
        "conditions": "{ conditions[i, j] : 0 <= i < 4 and i <= j <= 2i and (j != 3 or i = 2) }",
        "halves": "[n] -> { halves[i] : 0 <= i < floor(n / 2) }",
        "point": "{ point[] }",
    }
    for name, text in want.items():
        assert func.comp(name).domain.is_equal(isl.Set(text)), name
    shapes = {b.name: [e if isinstance(e, int) else print_expr(e) for e in b.shape] for b in func.bufs}
    assert shapes == {"triangle": ["n", "n"], "steps": [7], "conditions": [4, 7], "halves": ["n // 2"], "point": []}
    assert print_expr(func.comp("steps").target) == "steps[i - 1]"


def test_numpy_numbers() -> None:
    f = Function("f")
    n = np.int64(4)
    x = f.input("x", "f32", n)  # type: ignore[arg-type]
    f.comp("a", {i: (0, n, np.int32(2))}, x[i] * np.float32(0.5) + np.int8(1))  # type: ignore[dict-item]
    func = f.build()
    assert value_text(func, "a") == "x[i] * 0.5f + 1.0f"
    assert func.comp("a").domain.is_equal(isl.Set("{ a[0]; a[2] }")) and func.buf("x").shape == (4,)


def test_order_of_definition_and_effects() -> None:
    f = Function("f")
    a = f.comp("a", {i: 4, j: 4}, 1)
    f.comp("b", {i: 4, j: 4}, a[j, i])
    f.local("t", "i32", (4,))
    f.local("u", "i32", (4,), location="stack")
    f.effect("copy", (), Memcpy("t", "u"))
    func = f.build()
    assert str(func.effects[0].schedule) == "{ copy[] -> [2, 0, 0, 0, 0] }"
    assert func.buf("u").location == "stack"


def segment_sum(constraints: bool = True) -> Function:
    f = Function("segment_sum")
    n = f.param("n")
    count, offsets = f.input("count", "i32", (1,)), f.input("offsets", "i32", (n + 1,))
    x, out = f.input("x", "f64", (20,)), f.output("y", "f64", (n,))
    m = f.parameter("m", (), count[0])
    b0 = f.parameter("b0", {i: m}, offsets[i])
    b1 = f.parameter("b1", {i: m}, offsets[i + 1])
    f.comp("y_init", {i: m}, 0).store(out)
    y = f.comp("Y", {i: m, j: b1 - b0})
    y.define(x[j + b0] + y[i, j - 1]).store(out, (i,))
    if constraints:
        f.set_constraint(m > 0, b0 >= 0, b1 > b0)
    return f


def test_parameters_known_at_run_time() -> None:
    f = segment_sum()
    func = f.build()
    assert [c.defines for c in func.comps] == ["m", "b0", "b1", None, None]
    times = [str(c.schedule.range()).split("[")[-1].split("]")[0] for c in func.comps]
    assert [t.split(", ")[0] for t in times] == ["0", "1", "1", "1", "1"]
    assert [t.split(", ")[2] for t in times[1:]] == ["0", "1", "2", "3"]
    assert func.context is not None
    assert func.context.is_equal(isl.Set("[m, b0, b1] -> { : m > 0 and b0 >= 0 and b1 > b0 }"))
    scheduled = f.scheduled
    x = np.arange(20.0)
    offsets = np.array([0, 3, 4, 9], np.int32)
    inputs = {"n": 3, "count": np.array([3], np.int32), "offsets": offsets, "x": x, "y": np.zeros(3)}
    got = run_tree(scheduled.func, scan(scheduled), inputs)["y"]
    assert np.array_equal(got, np.add.reduceat(x[:9], offsets[:-1]))


# --- errors -----------------------------------------------------------------------------------------------------------


def _cases() -> dict[str, tuple[str, str, Callable[[Function], object]]]:
    def access_not_affine(f: Function) -> object:
        a = f.comp("a", {i: 4}, 0)
        idx = f.input("idx", "i32", (4,))
        f.comp("b", {i: 4}, a[idx[i]])
        return f.build()

    def quadratic(f: Function) -> object:
        a = f.comp("a", {i: 16}, 0)
        f.comp("b", {i: 4}, a[i * i])
        return f.build()

    def data_extent(f: Function) -> object:
        f.comp("b", {i: f.input("n", "i32", (1,))[0]}, 0)
        return f.build()

    def unknown_iterator(f: Function) -> object:
        f.comp("a", {i: 4}, j + 1)
        return f.build()

    def in_bounds(f: Function) -> object:
        f.comp("a", {i: j, j: 4}, 0, where=k < 2)
        return f.build()

    def foreign_parameter(f: Function) -> object:
        f.comp("a", {i: Function("g").param("n")}, 0)
        return f.build()

    def foreign_buffer(f: Function) -> object:
        f.comp("a", {i: 4}, Function("g").input("x", "f32", (4,))[i])
        return f.build()

    def float_extent(f: Function) -> object:
        f.comp("a", {i: f.param("n", "f32")}, 0)
        return f.build()

    def redefined(f: Function) -> object:
        f.input("a", "f32", (4,))
        return f.comp("a", {i: 4}, 0)

    def twice(f: Function) -> object:
        return f.comp("a", {i: 4}, 0).define(1)

    def no_value(f: Function) -> object:
        f.comp("a", {i: 4})
        return f.build()

    def unbounded(f: Function) -> object:
        f.comp("a", (i,), 0, where=i >= 0)
        return f.build()

    def outside(f: Function) -> object:
        a = f.comp("a", {i: 4}, 0)
        f.comp("b", {i: 4}, a[i - 1])
        return f.build()

    def other_loop(f: Function) -> object:
        b0 = f.parameter("b0", {i: 4}, 2)
        f.comp("a", {j: 4, i: b0}, 0)
        return f.build()

    def not_defined_there(f: Function) -> object:
        b0 = f.parameter("b0", {i: 4}, 2)
        f.comp("a", {i: 5, j: b0}, 0).store(f.local("t", "i32", (9, 9)))
        return f.build()

    def between(f: Function) -> object:
        b0 = f.parameter("b0", {i: 4}, 2)
        f.comp("z", {k: 4}, 0)
        f.comp("a", {i: 4, j: b0}, 0).store(f.local("t", "i32", (9, 9)))
        return f.build()

    def integers(f: Function) -> object:
        f.comp("a", {i: 4}, sqrt(i) % 2)
        return f.build()

    def store_rank(f: Function) -> object:
        return f.comp("a", {i: 2}, 0).store(f.output("o", "f32", (2, 2)))

    def float_subscript(f: Function) -> object:
        f.comp("a", {i: 4}, f.input("x", "f32", (4,))[i * 0.5])
        return f.build()

    def no_size(f: Function) -> object:
        m = f.parameter("m", (), f.input("count", "i32", (1,))[0])
        f.comp("a", {i: m}, 0)
        return f.build()

    def stored_elsewhere(f: Function) -> object:
        f.comp("a", {i: 4}, 0).store(Function("g").output("o", "f32", (4,)))
        return f.build()

    def iterator_and_parameter(f: Function) -> object:
        f.param("i")
        f.comp("a", {i: 4}, 0)
        return f.build()

    def late(f: Function) -> object:
        f.comp("a", {i: 4}, 0).split("i", 2)
        return f.comp("b", {i: 4}, 0)

    def read_too_early(f: Function) -> object:
        b = f.comp("b", {i: 4}, dtype="f32")
        a = f.comp("a", {i: 4}, 1.0)
        b.define(a[i])
        return f.build()

    def itself(f: Function) -> object:
        c = f.comp("c", {i: 4}, dtype="f32")
        c.define(where(i < 3, c[i + 1], 0)).store(f.output("o", "f32", (4,)))
        return f.build()

    def overwritten(f: Function) -> object:
        a = f.comp("a", {i: 4}, 1.0).store(f.local("t", "f64", ()), ())
        f.comp("b", {i: 4}, a[i])
        return f.scheduled

    def outside_array(f: Function) -> object:
        f.comp("a", {i: 5}, f.input("x", "f32", (4,))[i])
        return f.build()

    def outside_symbolic(f: Function) -> object:
        n = f.param("n")
        f.comp("a", {i: n}, 1.0).store(f.output("o", "f64", (n,)), (i + 1,))
        return f.build()

    def constraint(f: Function) -> object:
        f.set_constraint(i > 3)
        return f.build()

    def unknown_array(f: Function) -> object:
        f.effect("e", {}, Memcpy("a", "b"))
        return f.build()

    def other_iterator(f: Function) -> object:
        return f.comp("b", {j: 4}, 0, after=(f.comp("a", {i: 4}, 0), i)) and f.build()

    def no_pair(f: Function) -> object:
        return f.comp("b", {i: 4}, 0, after=f.comp("a", {i: 4}, 0))  # type: ignore[arg-type]

    def not_its_iterator(f: Function) -> object:
        return f.comp("b", {i: 4}, 0, after=(f.comp("a", {i: 4}, 0), j))

    def strange_action(f: Function) -> object:
        return f.effect("e", {}, 3)  # type: ignore[arg-type]

    a = "a"
    return {
        "read too early": ("DG228", r"b\[0\] reads a\[0\], which is computed later", read_too_early),
        "reads what comes later": ("DG228", r"c\[0\] reads c\[1\], which is computed later", itself),
        "overwritten": ("DG228", r"b\[0\] reads a\[0\] from 't', where a\[\d\] is written in between", overwritten),
        "outside the array": ("DG211", r"a\[4\] has 4 as subscript 0 of 'x', which is outside", outside_array),
        "outside for all sizes": ("DG211", r"as subscript 0 of 'o', which is outside", outside_symbolic),
        "constraint of an iterator": ("DG227", "'i' is no parameter of 'f'", constraint),
        "effect of no array": ("DG227", "'e' uses 'a', which is no buffer", unknown_array),
        "no action": ("DG226", "3 is nothing that a statement does", strange_action),
        "after in another loop": ("DG228", "'b' has to share loop 0 with 'a'", other_iterator),
        "after a computation alone": ("DG227", "after= names a computation and one of its iterators", no_pair),
        "after in no loop": ("DG227", "'j' is no iterator of 'a'", not_its_iterator),
        "no domain": ("DG227", "is no domain", lambda f: f.comp("a", i, 0)),  # type: ignore[arg-type]
        "no memory": ("DG216", "no memory 'moon'", lambda f: f.output("o", "f32", 4).set_loc("moon")),  # type: ignore[arg-type]
        "local in no memory": ("DG216", "no memory 'moon'", lambda f: f.local("o", "f32", 4, location="moon")),  # type: ignore[arg-type]
        "negative extent": ("DG225", "-3 is no extent", lambda f: f.input("x", "f32", -3)),
        "cast to no type": ("DG226", "there is no type 'float'", lambda f: cast("float", i)),  # type: ignore[arg-type]
        "no lanes": ("DG226", "can't have 0 lanes", lambda f: ramp(f.input("x", "f32", 4)[i], 1, 0)),
        "subscript read from memory": ("DG225", r"subscript of 'a' 'idx\[i\]' isn't affine", access_not_affine),
        "quadratic": ("DG225", r"subscript of 'a' 'i \* i' isn't affine", quadratic),
        "extent read from memory": ("DG225", r"the bound 'n\[0\]' isn't affine", data_extent),
        "float extent": ("DG225", "the bound .* isn't affine", float_extent),
        "unknown iterator": ("DG227", "'j' is no iterator of 'a'", unknown_iterator),
        "iterator in bounds": ("DG227", "'k' is no iterator of 'a'", in_bounds),
        "other function's parameter": ("DG227", "'n' is no parameter of 'f'", foreign_parameter),
        "other function's buffer": ("DG227", "'x' belongs to another function, 'g'", foreign_buffer),
        "redefinition": ("DG224", "'a' is declared already, at .*test_plant_lang.py:", redefined),
        "value twice": ("DG224", "'a' has a value already", twice),
        "no value": ("DG228", "'a' has no value", no_value),
        "unbounded": ("DG225", "iterator 'i' has no bound on each side", unbounded),
        "read outside": ("DG228", r"'b' reads a\[-1\], which no instance of 'a' computes", outside),
        "parameter of another loop": ("DG228", "'a' has to share loop 0 with 'b0'", other_loop),
        "parameter not defined there": ("DG228", r"where it isn't defined: there is no b0\[4\]", not_defined_there),
        "between parameter and use": ("DG228", "'z' has to share loop 0 with 'b0'", between),
        "after the first verb": ("DG224", "the schedule has begun", late),
        "rank": ("DG223", "buffer 'x' has 2 dimensions, but 1", lambda f: f.input("x", "f32", (2, 2))[i]),
        "rank of computation": ("DG223", "computation 'a' has 1 iterator, but 2", lambda f: f.comp(a, {i: 2}, 0)[i, j]),
        "size known late": ("DG225", "the size of an array for 'a' depends on 'm'", no_size),
        "stored elsewhere": ("DG227", "'o' belongs to another function", stored_elsewhere),
        "stored nowhere": ("DG226", "'o' is no buffer", lambda f: f.comp(a, {i: 2}, 0).store("o")),  # type: ignore[arg-type]
        "stored to an input": ("DG224", "is an input", lambda f: f.comp(a, {i: 2}, 0).store(f.input("x", "f32", (2,)))),
        "rank of store": ("DG223", "buffer 'o' has 2", store_rank),
        "truth value": ("DG229", "no truth value in Python", lambda f: f.comp(a, (i,), 0, where=[0 <= i < 4])),  # type: ignore[list-item]
        "iteration": ("DG229", "can't be iterated over", lambda f: list(f.input("x", "f32", (4,)))),  # type: ignore[call-overload]
        "name": ("DG224", "'mod' can't be a name", lambda f: f.param("mod")),
        "no name": ("DG224", "'a b' can't be a name", lambda f: f.param("a b")),
        "float parameter": ("DG226", "parameters are integers", lambda f: f.parameter("p", (), 1, dtype="f32")),
        "operand": ("DG226", "'x' is no expression", lambda f: i + "x"),  # type: ignore[operator]
        "no iterator": ("DG227", "is no iterator", lambda f: f.comp("a", {"i": 4}, 0)),  # type: ignore[dict-item]
        "step": ("DG225", "doesn't bound 'i'", lambda f: f.comp("a", {i: (0, 4, 0)}, 0)),
        "twice an iterator": ("DG224", "'i' is twice among", lambda f: f.comp("a", (i, i), 0)),
        "iterator and parameter": ("DG224", "'i' is an iterator of 'a' and a parameter", iterator_and_parameter),
        "no type": ("DG226", "there is no type 'float'", lambda f: f.input("x", "float", (2,))),  # type: ignore[arg-type]
        "no extent": ("DG225", "2.5 is no extent", lambda f: f.input("x", "f32", (2.5,))),  # type: ignore[arg-type]
        "no statement": ("DG210", "there is no statement 'q'", lambda f: f["q"]),
        "integer operators": ("DG226", "'mod' is for integers", integers),
        "float subscript": ("DG226", "subscript must be an integer", float_subscript),
        "ramp": ("DG226", "a ramp starts at", lambda f: ramp(i + 1, 1, 4)),
    }  # fmt: skip


@pytest.mark.parametrize("name", _cases())
def test_errors(name: str) -> None:
    code, message, run = _cases()[name]
    with pytest.raises(PlantError, match=message) as error:
        run(Function("f"))
    assert error.value.code == code
    assert error.value.loc is not None and error.value.loc.file == __file__


def test_short_circuits_guard_what_they_guard() -> None:
    f = Function("f")
    a = f.comp("a", {i: 4}, 1.0)
    f.comp("b", {i: 5}, where((i > 0) & (a[i - 1] > 0), a[i - 1], 0))
    f.comp("c", {i: 5}, where((i == 4) | (a[i] > 0), 0, a[i]))
    f.build()


def test_several_computations_at_once() -> None:
    f = Function("f")
    a = f.comp("a", {i: 8}, 1.0)
    b = f.comp("b", {i: 8}, a[i] * 2, after=(a, i)).store(f.output("o", "f64", 8))
    f[a, "b"].split(i, 4).tag("i_i", "vectorize")
    assert a.loops == b.loops == ("i_o", "i_i") and b.nest.tag("i_i") == "vectorize"
    assert print_tree(scan(f.scheduled)).count("for") == 2
    with pytest.raises(PlantError, match="no statement 'c'"):
        f["a", "c"].split(i, 2)
    with pytest.raises(AttributeError):
        f["a", "b"].loops2(i)


def test_inlined_and_stored_after_the_schedule() -> None:
    """Padding that is never kept in memory, in the order algorithm, computation schedule, memory schedule."""
    f = Function("convolution")
    x, y = iters("x y")
    image, weights = f.input("image", "f32", (5, 6)), f.input("weights", "f32", (3, 3))
    inside = (i >= 1) & (i - 1 < 5) & (j >= 1) & (j - 1 < 6)
    padded = f.comp("padded", {i: 7, j: 8}, where(inside, image[i - 1, j - 1], 0))
    zero = f.comp("zero", {i: 5, j: 6}, 0, dtype="f32")
    sums = f.comp("sums", {i: 5, j: 6, x: 3, y: 3})
    sums.define(weights[x, y] * padded[i + x, j + y] + sums[i, j, x, y - 1])
    padded.inline()
    sums.after(zero, "j")
    out = f.output("out", "f32", (5, 6))
    zero.store(out)
    sums.store(out, (i, j))
    scheduled = f.scheduled
    rng = np.random.default_rng(3)
    a, w = rng.random((5, 6), np.float32), rng.random((3, 3), np.float32)
    got = run_tree(scheduled.func, scan(scheduled), {"image": a, "weights": w, "out": np.zeros((5, 6))})["out"]
    around = np.pad(a, 1)
    want = sum(w[p, q] * around[p : p + 5, q : q + 6] for p in range(3) for q in range(3))
    assert np.allclose(got, want)
    assert [b.name for b in scheduled.func.bufs] == ["image", "weights", "out"]


def test_illegal_schedule_names_the_lines() -> None:
    f = Function("f")
    out = f.output("o", "i32", (10,))
    a = f.comp("a", {i: (1, 10)}, out[i - 1]).store(out)
    with pytest.raises(IllegalSchedule) as error:
        a.tag("i", "parallel")
    assert error.value.loc is not None and error.value.loc.file == __file__


# --- conversions are C's ----------------------------------------------------------------------------------------------

C_TYPES: dict[DType, str] = {
    "f32": "float", "f64": "double", "i8": "signed char", "i16": "short", "i32": "int", "i64": "long",
    "u8": "unsigned char", "u16": "unsigned short", "u32": "unsigned int",
}  # fmt: skip


def pair(rng: Random, elements: dict[DType, Term], depth: int) -> tuple[Term, str, bool]:
    """An expression in the language and in C, and whether it is an integer."""
    if depth == 0:
        dtype = rng.choice(list(elements))
        if rng.random() < 0.2:
            return val(3, dtype), f"(({C_TYPES[dtype]})3)", not is_float(dtype)
        return elements[dtype], f"x_{dtype}[i]", not is_float(dtype)
    a, x, whole = pair(rng, elements, depth - 1)
    b, y, also = pair(rng, elements, depth - 1)
    whole = whole and also
    match rng.randrange(8 if whole else 4):
        case 0:
            op = rng.choice("+-*")
            return {"+": a + b, "-": a - b, "*": a * b}[op], f"({x} {op} {y})", whole
        case 1:
            condition, text, _ = pair(rng, elements, depth - 1)
            return where(condition, a, b), f"({text} ? {x} : {y})", whole
        case 2:
            op = rng.choice(["<", ">=", "=="])
            return {"<": a < b, ">=": a >= b, "==": a == b}[op], f"({x} {op} {y})", True
        case 3:
            dtype = rng.choice(list(C_TYPES))
            return cast(dtype, a) + b, f"(({C_TYPES[dtype]}){x} + {y})", also and not is_float(dtype)
        case 4:
            op = rng.choice("&|^")
            text = f"({x} {op} {y})"
            logical = {"&": "&&", "|": "||"}.get(op, op)
            conditions = all(t.op in ("lt", "ge", "eq", "land", "lor", "lnot") for t in (a, b))
            text = f"({x} {logical} {y})" if conditions else text
            return {"&": a & b, "|": a | b, "^": a ^ b}[op], text, True
        case 5:
            return a << 2, f"({x} << 2)", True
        case 6:
            condition = a.op in ("lt", "ge", "eq", "land", "lor", "lnot")
            return ~a, f"({'!' if condition else '~'}{x})", True
        case _:
            return -(a >> 1), f"(-({x} >> 1))", True


@pytest.mark.parametrize("seed", range(60))
def test_conversions_are_those_of_c(seed: int, tmp_path: Path) -> None:
    rng = Random(seed)
    f = Function("k")
    elements = {dtype: f.input(f"x_{dtype}", dtype, (8,))[i] for dtype in C_TYPES}
    result = rng.choice(list(C_TYPES))
    out = f.output("out", result, (8,))
    term, text, _ = pair(rng, elements, 3)
    f.comp("S", {i: 8}, term).store(out)

    arrays = ", ".join(f"const {c} x_{dtype}[8]" for dtype, c in C_TYPES.items())
    path = tmp_path / "k.c"
    path.write_text(
        f"void k({arrays}, {C_TYPES[result]} out[8]) {{\n  for (int i = 0; i < 8; i++)\n    out[i] = {text};\n}}\n"
    )
    numbers = np.random.default_rng(seed)
    inputs = {f"x_{d}": numbers.integers(0 if d[0] == "u" else -9, 90, 8).astype(NUMPY[d]) for d in C_TYPES}
    inputs["out"] = np.zeros(8, NUMPY[result])
    want = evaluate(read_c(str(path)), inputs)["out"]
    assert np.array_equal(evaluate(resolve(f.build()), inputs)["out"], want, equal_nan=is_float(result))
