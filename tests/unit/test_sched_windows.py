"""Shuffles whose modes follow each other in a loop: in any order, each with its own mode."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dspgen.asmir.ir.function import Function, Instr, Jump, Label, Loop, Mark, Phys, Predicate, VReg, loops_in
from dspgen.asmir.lower import lower
from dspgen.sched.graph.implicit_registers import free_after, with_own_values
from dspgen.sched.machine.target_facts import Facts
from dspgen.sched.scheduler import schedule
from dspgen.target.load import load_target
from dspgen.target.query.instructions import Index
from dspgen.vecdsl.analysis.integer_ranges import readable
from dspgen.vecdsl.ir import program as v
from dspgen.vecdsl.ir.evaluate import evaluate
from tests.support.access_programs import inputs_for, run_assembly

TARGET = load_target("ft_m7002")
FACTS = Facts(TARGET)
VF32, I32 = v.VType("f32", True), v.VType("i32", False)
MODE = TARGET.pattern_memory.mode_register if TARGET.pattern_memory is not None else ""


def op(name: str, *args: v.Term) -> v.Op:
    return v.Op(name, args, VF32)


def program(trip: int) -> v.Program:
    """y = a chain of products and shuffles of x, a vector in each iteration."""
    x = v.Load("x", v.Address(0, (("i", TARGET.lanes),)), 1, "f32", VF32)
    value: v.Term = op("reverse", x)
    for name in ("zip_lo", "zip_hi", "even"):
        value = op(name, op("mul", value, value), x)
    value = op("add", op("mul", value, op("reverse", value)), op("reverse", op("mul", x, x)))
    store = v.Store("y", v.Address(0, (("i", TARGET.lanes),)), 1, "f32", value)
    loop = v.Loop("i", v.Const(0, I32), v.Const(trip, I32), 1, (), (store,), trip, trip)
    arrays = tuple(v.ArrayDecl(name, "f32", trip * TARGET.lanes, False) for name in ("x", "y"))
    return v.Program("chain", ("x", "y"), arrays, (), (loop,))


def lowered(trip: int) -> Function:
    return lower(program(trip), TARGET, readable=readable(program(trip)))


def loop_of(function: Function) -> Loop:
    (loop,) = loops_in(function.body)
    return loop


@pytest.mark.parametrize("trip", [3, 20, 33])
def test_results_are_right(trip: int) -> None:
    inputs = inputs_for(program(trip), 1)
    expected = evaluate(program(trip), TARGET.lanes, inputs)["y"]
    np.testing.assert_array_equal(run_assembly(program(trip), TARGET, inputs)["y"], expected)


def test_shuffles_do_not_wait_for_those_before_them() -> None:
    (found,) = schedule(lowered(64), TARGET).loops
    assert found.ii == found.res_mii and found.rec_mii == 0
    assert found.stages > 4


def test_what_is_read_later_stays_in_order() -> None:
    function = lowered(64)
    loop = loop_of(function)
    (atom,) = FACTS.physical(MODE)
    assert free_after(function.body, FACTS)[loop.label] == {atom}
    (reader,) = [i for i in loop.body if isinstance(i, Instr) and MODE in i.instruction.implicit_reads][-1:]
    assert not free_after((*function.body, reader), FACTS)[loop.label]
    assert free_after((replace(loop, label="outer", body=(loop, reader)),), FACTS)[loop.label] == frozenset()


def test_each_reader_gets_a_value() -> None:
    loop = loop_of(lowered(64))
    (atom,) = FACTS.physical(MODE)
    found = with_own_values(loop, {atom}, FACTS)
    assert found is not None and found[1] == {atom}
    body = [i for i in found[0].body if isinstance(i, Instr)]
    for before, instr in zip(body, body[1:], strict=False):
        if MODE in instr.instruction.implicit_reads:
            assert Phys(MODE) in before.operands
    # A value that an iteration hands on is no reader's own.
    assert with_own_values(replace(loop, body=loop.body[::-1]), {atom}, FACTS) is None


def test_what_is_read_where_control_goes_back_to_stays_in_order() -> None:
    function = lowered(64)
    loop = loop_of(function)
    (atom,) = FACTS.physical(MODE)
    (reader,) = [i for i in loop.body if isinstance(i, Instr) and MODE in i.instruction.implicit_reads][-1:]
    branch = Index(TARGET).branch()
    assert branch is not None
    predicate = Predicate(VReg("again", "R"))

    def back(to: str) -> Jump:
        return Jump(Instr(branch.instruction, (Label(to),), predicate), ())

    around_marks = (Mark("first"), reader, Mark("second"), *function.body)
    assert free_after((*around_marks, back("second")), FACTS)[loop.label] == {atom}
    assert not free_after((*around_marks, back("first")), FACTS)[loop.label]
