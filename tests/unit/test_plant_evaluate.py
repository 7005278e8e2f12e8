"""The reference evaluator on hand-made programs, and C's arithmetic on single values."""

from __future__ import annotations

import islpy as isl
import numpy as np
import pytest

from plant_core.interp.func import evaluate, run
from plant_core.interp.python_codegen import Array
from plant_core.ir import c_semantics as values
from plant_core.ir.func import Binary, Buf, Cast, Comp, Func, Iter, Load, Param, ScalarParam, Select, Val
from plant_core.support.location import Loc, PlantError

HERE = Loc("none.c", 1)


def program(*comps: Comp, scalars: tuple[ScalarParam, ...] = ()) -> Func:
    x, y = Buf("x", "f32", (6,), "param", const=True), Buf("y", "f32", (6,), "param")
    t = Buf("t", "f32", (), "local")
    return Func("k", (x, y, *scalars), (x, y, t), comps, HERE)


def comp(domain: str, schedule: str, target: Load, value: object) -> Comp:
    found = isl.Set(domain)
    names = tuple(found.get_dim_name(isl.dim_type.set, k) for k in range(found.dim(isl.dim_type.set)))
    return Comp(found.get_tuple_name(), names, found, isl.Map(schedule), target, value, HERE)  # type: ignore[arg-type]


def element(name: str, *indices: object) -> Load:
    return Load(name, indices, "f32")  # type: ignore[arg-type]


def test_order_is_the_schedule() -> None:
    i = Iter("i")
    before = Binary("sub", i, Val(1, "i32"), "i32")
    value = Binary("add", element("y", before), element("x", i), "f32")
    upward = comp("{ S0[i] : 1 <= i < 6 }", "{ S0[i] -> [0, i, 0] }", element("y", i), value)
    downward = comp("{ S0[i] : 1 <= i < 6 }", "{ S0[i] -> [0, -i, 0] }", element("y", i), value)
    ones = np.ones(6, np.float32)
    inputs = {"x": ones, "y": ones}
    np.testing.assert_array_equal(evaluate(program(upward), inputs)["y"], [1, 2, 3, 4, 5, 6])
    np.testing.assert_array_equal(evaluate(program(downward), inputs)["y"], [1, 2, 2, 2, 2, 2])
    np.testing.assert_array_equal(ones, 1)


def test_statements_interleave_and_parameters_bound() -> None:
    i = Iter("i")
    scalar = ScalarParam("n", "i32")
    first = comp("[n] -> { S0[i] : 0 <= i < n }", "[n] -> { S0[i] -> [0, i, 0] }", element("t"), element("x", i))
    doubled = Binary("mul", element("t"), Cast("f32", Param("n", "i32")), "f32")
    second = comp("[n] -> { S1[i] : 0 <= i < n }", "[n] -> { S1[i] -> [0, i, 1] }", element("y", i), doubled)
    func = program(first, second, scalars=(scalar,))
    inputs: dict[str, Array | int | float] = {"x": np.arange(6), "y": np.zeros(6), "n": 4}
    np.testing.assert_array_equal(evaluate(func, inputs)["y"], [0, 4, 8, 12, 0, 0])
    assert run(func, inputs)["t"] == 3
    with pytest.raises(PlantError, match="element 6 of 'x'"):
        evaluate(func, {**inputs, "n": 7})


def test_choice_is_lazy_and_locals_start_undefined() -> None:
    i = Iter("i")
    condition = Binary("lt", i, Val(3, "i32"), "i32")
    value = Select(condition, element("t"), element("x", i), "f32")
    func = program(comp("{ S0[i] : 0 <= i < 6 }", "{ S0[i] -> [0, i, 0] }", element("y", i), value))
    found = evaluate(func, {"x": np.arange(6), "y": np.zeros(6)})["y"]
    assert np.isnan(found[:3]).all()
    np.testing.assert_array_equal(found[3:], [3, 4, 5])


def test_wrong_inputs() -> None:
    func = program()
    with pytest.raises(PlantError, match="no input for the array 'y'"):
        evaluate(func, {"x": np.zeros(6)})
    with pytest.raises(PlantError, match="shape"):
        evaluate(func, {"x": np.zeros(6), "y": np.zeros((2, 3))})


@pytest.mark.parametrize(
    ("op", "left", "right", "dtype", "expected"),
    [
        ("add", 2**31 - 1, 1, "i32", -(2**31)),
        ("sub", 0, 1, "u32", 2**32 - 1),
        ("mul", 100, 3, "i8", 44),
        ("div", -7, 2, "i32", -3),
        ("mod", -7, 2, "i32", -1),
        ("floordiv", -7, 2, "i32", -4),
        ("shl", 1, 33, "i32", 2),
        ("shr", -8, 1, "i32", -4),
        ("lt", -1, 0, "i32", 1),
        ("land", 2, 4, "i32", 1),
    ],
)
def test_integer_operations(op: str, left: int, right: int, dtype: str, expected: int) -> None:
    assert values.apply_binary(op, left, right, dtype) == expected  # type: ignore[arg-type]


def test_conversions() -> None:
    assert values.convert(np.float32(3.9), "f32", "i32") == 3
    assert values.convert(np.float32(-3.9), "f32", "i32") == -3
    assert values.convert(np.float32(1e20), "f32", "i32") == -(2**31)
    assert values.convert(np.float64(np.nan), "f64", "i32") == -(2**31)
    assert values.convert(np.float32(300.5), "f32", "u8") == 44
    assert values.convert(2**24 + 1, "i32", "f32") == np.float32(2**24)
    assert values.convert(200, "i32", "i8") == -56
    assert values.apply_binary("min", np.float32(np.nan), np.float32(1), "f32") == 1
    with pytest.raises(PlantError):
        values.apply_binary("div", 1, 0, "i32")
