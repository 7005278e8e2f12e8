"""What running a loop tree makes of vectors and barriers."""

from __future__ import annotations

from dataclasses import replace

import islpy as isl
import numpy as np
import pytest

from plant_core.interp.func import evaluate
from plant_core.interp.loop_tree import Order, run_tree
from plant_core.ir.func import Effect, Verbatim
from plant_core.ir.loop_tree import For
from plant_core.ir.scheduled import as_written
from plant_core.scan import scan
from plant_core.schedule import verbs
from plant_core.support.location import Loc, PlantError
from tests.support.plant_builder import Builder

ORDERS: tuple[Order, ...] = ("forward", "reversed", "random")


@pytest.mark.parametrize("order", ORDERS)
def test_all_lanes_read_before_any_writes(order: Order) -> None:
    builder = Builder({"A": (20,), "B": (20,)}, dtype="i32").comp("i", "0 <= i < 9", [0, "i", 0], "A[i] = A[i + 1]")
    func = builder.comp("i", "0 <= i < 9", [0, "i", 1], "B[0] = B[0] + A[i]").func()
    inputs = {"A": np.arange(20, dtype=np.int32), "B": np.arange(20, dtype=np.int32)}
    tree = scan(verbs.tag(as_written(func), "S0", "i", "vectorize"))
    found = run_tree(func, tree, inputs, order=order)
    for name, array in evaluate(func, inputs).items():
        assert np.array_equal(found[name], array)


def test_barriers_stand_between_loops_of_threads() -> None:
    builder = Builder({"A": (20,)}, dtype="i32").comp("i", "0 <= i < 9", [0, "i", 0], "A[i] = i")
    barrier = Effect(
        "b", ("i",), isl.Set("{ b[i] : 0 <= i < 9 }"), isl.Map("{ b[i] -> [0, i, 1] }"),
        Verbatim("__syncthreads();"), Loc("t.c", 9),
    )  # fmt: skip
    func = replace(builder.func(), effects=(barrier,))
    tree = scan(as_written(func))
    inputs = {"A": np.zeros(20, np.int32)}
    assert list(run_tree(func, tree, inputs)["A"][:9]) == list(range(9))
    assert isinstance(tree, For)
    with pytest.raises(PlantError, match="barrier inside of a loop of threads"):
        run_tree(func, replace(tree, tag="gpu_thread_x"), inputs)
