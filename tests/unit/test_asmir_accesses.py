"""Accesses of every shape and operations that a machine lacks: evaluated, and run as assembly."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dspgen.asmir.legalize.legalize import legalise
from dspgen.asmir.lower import lower
from dspgen.asmir.select.emitter import Emitter
from dspgen.asmir.select.shuffles import pattern_of
from dspgen.errors import NoSchedule
from dspgen.sim.run import Engine
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target
from dspgen.target.query.operations import OperationTable
from dspgen.vecdsl.analysis.integer_ranges import readable
from dspgen.vecdsl.ir.evaluate import evaluate
from dspgen.vecdsl.ir.program import (
    Address,
    ArrayDecl,
    Const,
    Let,
    Load,
    Loop,
    Op,
    Program,
    Stmt,
    Store,
    Term,
    Var,
    VType,
)
from tests.support.access_programs import Accesses, inputs_for, run_assembly
from tests.support.random_machine import random_machine

ROOT = Path(__file__).resolve().parents[2]
I32, VI32, VF32 = VType("i32", False), VType("i32", True), VType("f32", True)
LANES = {count: load_target("ft_m7002", [("lanes", str(count))]) for count in (4, 8, 16, 32)}
# Rows that another machine might have.
ROWS = """
[instructions.XGATHER]
units = "VLDST"
operands = { m = "memory", x = "VR", d = "VR" }
semantics = "d = gather.i32(m, x)"
latency = 9
memory = { scale = 4, bytes = "4*lanes", align = 4 }
label = "assumed"
source = "a test"

[instructions.XSCATTER]
units = "VLDST"
operands = { a = "VR", x = "VR", m = "memory" }
semantics = "scatter.i32(m, x, a)"
memory = { scale = 4, bytes = "4*lanes", align = 4 }
label = "assumed"
source = "a test"

[instructions.XADDS]
units = "VMAC"
operands = { a = "VR", b = "VR", d = "VR" }
semantics = "d = add_sat.i32(a, b)"
label = "assumed"
source = "a test"

[instructions.XSUBS]
units = "VMAC"
operands = { a = "VR", b = "VR", d = "VR" }
semantics = "d = sub_sat.i32(a, b)"
label = "assumed"
source = "a test"

[instructions.XSAT]
units = "VMAC"
operands = { a = "VR", d = "VR" }
semantics = "d = satu8.i32(a)"
label = "assumed"
source = "a test"

[instructions.XCONCAT]
units = "VIEU"
operands = { a = "VR", b = "VR", k = { imm = [0, 31] }, d = "VR" }
semantics = "d = concat.i32(a, b, k)"
label = "assumed"
source = "a test"

[instructions.XALL]
units = "VIEU"
operands = { a = "VR", d = "VR" }
semantics = "d = all_max.i32(a)"
label = "assumed"
source = "a test"

[instructions.XREDUCE]
units = "SIEU"
operands = { a = "VR", d = "R" }
semantics = "d = reduce_xor.i32(a)"
label = "assumed"
source = "a test"

[instructions.XPERIOD]
units = "VIEU"
operands = { p = { imm = [1, 31] }, l = { imm = [0, 31] }, h = { imm = [0, 31] }, d = "VR" }
semantics = "d = mask_period.i32(p, l, h)"
label = "assumed"
source = "a test"

[instructions.XTRANSPOSE]
units = "VIEU"
operands = { a = "VR", r = { imm = [1, 32] }, d = "VR" }
semantics = "d = transpose.i32(a, r)"
label = "assumed"
source = "a test"
"""


def check(program: Program, target: Target, seed: int = 0, **options: object) -> None:
    inputs = inputs_for(program, seed)
    expected = evaluate(program, target.lanes, inputs)
    found = run_assembly(program, target, inputs, **options)  # type: ignore[arg-type]
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


@pytest.mark.parametrize(("lanes", "seed"), [*itertools.product((4,), range(12)), (8, 1), (8, 2), (16, 305)])
def test_random_accesses(lanes: int, seed: int) -> None:
    check(Accesses(seed, lanes).program(), LANES[lanes], seed)


@pytest.mark.parametrize("seed", range(1000, 1060))
def test_what_is_spelled_out_is_equal(seed: int) -> None:
    """Without assembly: many more shapes."""
    lanes = random.Random(seed).choice((4, 8))
    program, target = Accesses(seed, lanes).program(), LANES[lanes]
    inputs = inputs_for(program, seed)
    expected = evaluate(program, lanes, inputs)
    found = evaluate(legalise(program, Emitter(target, OperationTable(target)), readable(program)), lanes, inputs)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


@pytest.mark.parametrize("seed", range(20))
def test_other_machines(seed: int) -> None:
    """On machines with any share of the operations, what is not refused is right."""
    target = random_machine(LANES[4], seed, random.Random(seed).choice((0.3, 0.7, 1.0)))
    program = Accesses(seed, 4).program()
    inputs = inputs_for(program, seed)
    try:
        spelled_out = legalise(program, Emitter(target, OperationTable(target)), readable(program))
        lower(program, target)
    except NoSchedule:
        return
    for name, values in evaluate(spelled_out, 4, inputs).items():
        np.testing.assert_array_equal(values, evaluate(program, 4, inputs)[name], err_msg=name)


def arrays(*names: str) -> tuple[ArrayDecl, ...]:
    kinds = {"x": "f32", "y": "f32", "n": "i32", "m": "i32"}
    return tuple(ArrayDecl(name, kinds[name], 512, False) for name in names)  # type: ignore[arg-type]


def program(*body: Stmt) -> Program:
    return Program("f", ("x", "y", "n", "m"), arrays("x", "y", "n", "m"), (), body)


def at(constant: int, **terms: int) -> Address:
    return Address(constant, tuple(sorted(terms.items())))


@pytest.fixture(scope="module")
def richer(tmp_path_factory: pytest.TempPathFactory) -> Target:
    path = tmp_path_factory.mktemp("isa") / "richer.toml"
    path.write_text((ROOT / "isa" / "ft_m7002.toml").read_text() + ROWS)
    return load_target(str(path), [("lanes", "4")])


def uses(program: Program, target: Target, row: str) -> bool:
    return f"id='{row}'" in repr(lower(program, target))


@pytest.mark.parametrize("engine", ["python", "native"])
def test_rows_for_gathers_and_saturation(richer: Target, engine: Engine) -> None:
    index = Load("n", at(100, i=4), 1, "i32", VI32)
    gathered = Load("m", at(100, i=1), 0, "i32", VI32, index=index)
    masked = replace(gathered, mask=Op("lt", (index, Const(0, VI32)), VI32))
    value = Op("add_sat", (gathered, Op("satu8", (masked,), VI32)), VI32)
    body = (
        Store("n", at(200, i=4), 0, "i32", value, index=index),
        Store("n", at(300, i=4), 0, "i32", value, 3, index=index),
        Store("m", at(400, i=4), 1, "i32", Op("concat", (value, index), VI32, (3,))),
        Store("m", at(300, i=4), 1, "i32", Op("sub_sat", (Op("all_max", (value,), VI32), index), VI32)),
        Store("m", at(450, i=1), 1, "i32", Op("reduce_xor", (value,), I32)),
        Store("m", at(460, i=4), 1, "i32", Op("transpose", (value,), VI32, (2,))),
        Store("m", at(480, i=4), 1, "i32", Op("mask_period", (), VI32, (4, 1, 3))),
    )
    whole = program(Loop("i", Const(0, I32), Const(3, I32), 1, (), body, 3, 3))
    assert all(uses(whole, richer, row) for row in ("XGATHER", "XSCATTER", "XADDS", "XSAT", "XPERIOD"))
    check(whole, richer, engine=engine)


def test_complex_products_have_rows() -> None:
    pairs = tuple(Op("ld_pair", (Load("x", at(start), 2, "f32", VF32),), VF32) for start in (0, 64))
    product = Op("cmac", (*pairs, pairs[0]), VF32)
    whole = program(Store("y", at(0), 2, "f32", product))
    assert uses(whole, LANES[16], "VFCREAL32") and uses(whole, LANES[16], "VSTDWM16")
    check(whole, LANES[16])


def test_saturation_at_the_ends() -> None:
    numbers = np.array([0, 1, -1, 2**31 - 1, -(2**31), 2**30, -(2**30), 40000], np.int64)
    pairs = np.array(list(itertools.product(numbers, numbers))).astype(np.int32)
    n = np.zeros(512, np.int32)
    n[:64], n[64:128] = pairs[:, 0], pairs[:, 1]
    a, b = (Load("n", at(start, i=16), 1, "i32", VI32) for start in (0, 64))
    for name in ("add_sat", "sub_sat", "lt", "le", "ltu", "sat16", "satu16", "sat8", "min", "zext8"):
        args = (a,) if name in ("sat16", "satu16", "sat8", "zext8") else (a, b)
        body = (Store("m", at(0, i=16), 1, "i32", Op(name, args, VI32)),)
        whole = program(Loop("i", Const(0, I32), Const(4, I32), 1, (), body, 4, 4))
        inputs = inputs_for(whole, 0) | {"n": n}
        expected = evaluate(whole, 16, inputs)
        np.testing.assert_array_equal(run_assembly(whole, LANES[16], inputs)["m"], expected["m"], err_msg=name)


@pytest.mark.parametrize("name", ["div", "cvt_i32_f32", "sqrt"])
def test_lane_by_lane(name: str) -> None:
    """What only the scalar side has is done on each lane by itself, where that side has it in one row."""
    machine = LANES[4]
    scalar, vector = machine.abi.scalar_class, "VR"
    row = replace(machine.instruction("SFADDS32"), id="X", mnemonic="X", semantics=_only(name))
    if name != "div":
        row = replace(row, operands=(row.operands[0], row.operands[2]))
    machine = replace(machine, instructions=(*machine.instructions, row), macros=(), rewrites=())
    x = Load("x", at(0), 1, "f32", VF32)
    args: tuple[Term, ...] = (x, Const(3.0, VF32)) if name == "div" else (x,)
    if name == "cvt_i32_f32":
        args = (Load("n", at(0), 1, "i32", VI32),)
    assert scalar != vector
    check(program(Store("y", at(0), 1, "f32", Op(name, args, VF32))), machine)


def _only(name: str) -> tuple[object, ...]:
    from dspgen.target.isa.semantics import parse

    return parse(f"d = {name}.f32({'a, b' if name == 'div' else 'a'})", 4)


def test_one_pattern_is_chosen_before_the_loop() -> None:
    body = (Store("y", at(0, i=16), 1, "f32", Op("reverse", (Load("x", at(0, i=16), 1, "f32", VF32),), VF32)),)
    whole = program(Loop("i", Const(0, I32), Const(8, I32), 1, (), body, 8, 8))
    (loop,) = [item for item in lower(whole, LANES[16]).body if type(item).__name__ == "Loop"]
    assert "SMR" not in repr([getattr(item, "operands", ()) for item in loop.body])
    check(whole, LANES[16])


def test_stores_to_the_array_that_is_gathered_from() -> None:
    """Each iteration sees what the ones before it stored, wherever that was."""
    index = Load("n", at(256, i=1), 1, "i32", VI32)
    value = Op("add", (Load("m", at(256), 0, "i32", VI32, index=index), Const(1, VI32)), VI32)
    body = (Store("m", at(258), 0, "i32", value, index=index),)
    check(program(Loop("i", Const(0, I32), Const(9, I32), 1, (), body, 9, 9)), LANES[4])
    scalar = Load("n", at(256, i=1), 1, "i32", I32)
    value = Op("add", (Load("m", at(256), 1, "i32", I32, index=scalar), Const(1, I32)), I32)
    body = (Store("m", at(257), 1, "i32", value, index=Var("i", I32)),)
    check(program(Loop("i", Const(0, I32), Const(9, I32), 1, (), body, 9, 9)), LANES[4])


def test_a_scatter_over_its_own_indices() -> None:
    """All indices count as they were before the statement."""
    index = Load("n", at(256), 1, "i32", VI32)
    store = Store("n", at(258), 0, "i32", Load("m", at(0, i=4), 1, "i32", VI32), index=index)
    check(program(Loop("i", Const(0, I32), Const(5, I32), 1, (), (store,), 5, 5)), LANES[4])


def test_indices_in_memory_are_loaded_as_scalars() -> None:
    index = Load("n", at(64, i=16), 1, "i32", VI32)
    store = Store("y", at(0, i=16), 1, "f32", Load("x", at(100), 0, "f32", VF32, index=index))
    whole = program(Loop("i", Const(0, I32), Const(3, I32), 1, (), (store,), 3, 3))
    assert uses(whole, LANES[16], "SLDDW")
    check(whole, LANES[16])


@pytest.mark.parametrize("lanes", [4, 16])
def test_rows_at_computed_places_are_loaded_and_stored_whole(lanes: int) -> None:
    """One place for all lanes: no lane's own is computed."""
    place = Op("bcast", (Load("n", at(64, i=1), 1, "i32", I32),), VI32)
    row = Load("m", at(100), 1, "i32", VI32, index=place)
    body = (
        Store("m", at(300), 1, "i32", Op("add", (row, Const(1, VI32)), VI32), index=place),
        Store("y", at(0, i=lanes), 1, "f32", Load("x", at(100, i=1), 1, "f32", VF32, index=place)),
    )
    whole = program(Loop("i", Const(0, I32), Const(5, I32), 1, (), body, 5, 5))
    assert not uses(whole, LANES[lanes], "VMVCGC") and not uses(whole, LANES[lanes], "VMVCCG")
    check(whole, LANES[lanes])


def test_a_computed_place_is_what_it_was_when_it_was_computed() -> None:
    count = Load("n", at(64, i=1), 1, "i32", I32)
    place = Op("bcast", (Op("add", (count, Const(3, I32)), I32),), VI32)
    body = (
        Let("first", place),
        Let("again", Var("first", VI32)),
        Store("n", at(64, i=1), 1, "i32", Const(0, I32)),
        Store("y", at(0, i=4), 1, "f32", Load("x", at(100), 1, "f32", VF32, index=Var("again", VI32))),
    )
    whole = program(Loop("i", Const(0, I32), Const(5, I32), 1, (), body, 5, 5))
    assert not uses(whole, LANES[4], "VMVCGC")
    check(whole, LANES[4])


def test_patterns() -> None:
    assert pattern_of(Op("transpose", (), VI32, (2,)), 4) == (0, 2, 1, 3)
    assert pattern_of(Op("concat", (), VI32, (3,)), 4) == (0, 1, 2, 4)
    assert pattern_of(Op("zip_hi", (), VI32), 4) == (2, 6, 3, 7)
