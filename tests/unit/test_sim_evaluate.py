"""Linear assembly run in order gives what the packets made of it give, and what C gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dspgen.asmir.ir.function import Function, If, Loop, Mem, Reg, Stream, VReg
from dspgen.backend.stages import simulate_kernel
from dspgen.driver.pipeline import compile_file
from dspgen.errors import SourceError
from dspgen.frontend.read import read_c
from dspgen.options import Options
from dspgen.oracle.inputs import random_inputs
from dspgen.sim.linear_evaluator import evaluate
from dspgen.target.load import isa_names, load_target
from tests.support.examples import defines
from tests.support.sched_programs import RandomProgram, Writer, assert_same, random_memory

TARGET = load_target("ft_m7002")
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("isa", "name"), [*((isa, "dot") for isa in isa_names()), ("ft_m7002", "biquad"), ("ft_m7002", "matvec")]
)
def test_examples_before_and_after_scheduling(name: str, isa: str) -> None:
    target = load_target(isa)
    options = Options(defines=defines(name), tile="one")
    path = str(EXAMPLES / f"{name}.c")
    compiled = compile_file(path, target, options)
    values = random_inputs(read_c(path, function=None, defines=options.defines), 3)
    packets = simulate_kernel(compiled, target, values, engine="python").outputs
    arguments = [(p.name, np.array(values[p.name])) for p in compiled.source.params]
    below = max((size for _, size in compiled.assembly.below), default=0)
    in_order = evaluate(compiled.assembly, target, arguments, stack=below + 8192).outputs
    assert list(in_order) == list(packets)
    for array, found in in_order.items():
        assert found.tobytes() == packets[array].tobytes()


@pytest.mark.parametrize("seed", range(400, 408))
def test_random_programs(seed: int) -> None:
    function = RandomProgram(TARGET, seed, dynamic=seed % 2 == 0, scalar_streams=2).function()
    memory = random_memory(seed)
    in_order = evaluate(function, TARGET, [*memory.items(), ("n", seed % 7)])
    _, packets = assert_same(function, TARGET, seed, seed % 7)
    for name in memory:
        np.testing.assert_array_equal(in_order.outputs[name], packets.outputs[name])


def counted(trip: int | VReg) -> Function:
    """The sum of the first words of an array, stored behind them, each turn a word further."""
    w = Writer(TARGET)
    pair, count = VReg("x", TARGET.abi.pointer_class), VReg("n", w.scalar)
    base, total, word = VReg("at", w.address["scalar"]), VReg("total", w.scalar), VReg("word", w.scalar)
    w.pointer(Reg(base), Reg(pair))
    w.constant(Reg(total), 0)
    outer, w.items = w.items, []
    w.memory("ld", "i32", Reg(word), Mem(base, 0, None))
    w.op("add", "i32", Reg(total), Reg(total), Reg(word))
    w.memory("st", "i32", Reg(total), Mem(base, 64, None))
    outer.append(Loop("L", "i", 1, trip, (Stream(base, 4, "scalar"),), tuple(w.items)))
    names = TARGET.register_class(TARGET.abi.pointer_class).names
    single = TARGET.register_class(w.scalar).names
    first, second = TARGET.abi.arguments[:2]
    return Function("f", ((pair, names[single.index(first) // 2]), (count, second)), tuple(outer))


@pytest.mark.parametrize(("trip", "n", "times"), [(5, 0, 5), (VReg("n", "R"), 3, 3), (VReg("n", "R"), -2, 0)])
def test_trips(trip: int | VReg, n: int, times: int) -> None:
    x = np.arange(1, 33, dtype=np.int32)
    found = evaluate(counted(trip), TARGET, [("x", x), ("n", n)]).outputs["x"]
    assert found[16 : 16 + times].tolist() == np.cumsum(x[:times]).tolist()
    assert found[16 + times] == x[16 + times]


def test_a_register_never_written_is_refused() -> None:
    function = counted(2)
    body = tuple(item for item in function.body if isinstance(item, Loop))
    with pytest.raises(SourceError, match="never written"):
        evaluate(replace(function, body=body), TARGET, [("x", np.zeros(32, np.int32)), ("n", 1)])


def test_too_long_a_run_ends() -> None:
    with pytest.raises(SourceError, match="still runs"):
        evaluate(counted(1000), TARGET, [("x", np.zeros(2000, np.int32)), ("n", 1)], limit=100)


@pytest.mark.parametrize(("number", "stored"), [(3, 7), (0, 9)])
def test_either_side_of_a_condition(number: int, stored: int) -> None:
    function = counted(1)
    w = Writer(TARGET)
    (base,) = (s.base for item in function.body if isinstance(item, Loop) for s in item.streams)
    count = function.inputs[1][0]
    sides = []
    for value in (7, 9):
        word = VReg(f"word{value}", w.scalar)
        w.items = []
        w.constant(Reg(word), value)
        w.memory("st", "i32", Reg(word), Mem(base, 64, None))
        sides.append(tuple(w.items))
    made = replace(function, body=(*function.body[:-1], If(count, *sides)))
    memory = np.zeros(32, np.int32)
    assert evaluate(made, TARGET, [("x", memory), ("n", number)]).outputs["x"][16] == stored
