"""Vectors that are chosen by masks, accesses under masks, of any stride and element: on every machine that there is, as
evaluated and as linear assembly."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dspgen.asmir.ir.verify import verify
from dspgen.asmir.legalize.legalize import legalise
from dspgen.asmir.lower import lower
from dspgen.asmir.select.emitter import Emitter
from dspgen.errors import NoSchedule
from dspgen.sim.linear_evaluator import evaluate as run_linear
from dspgen.target.isa.model import Target
from dspgen.target.load import isa_names, load_target
from dspgen.target.query.operations import OperationTable
from dspgen.target.query.views import views
from dspgen.vecdsl.analysis.integer_ranges import in_word, readable
from dspgen.vecdsl.ir.evaluate import evaluate
from dspgen.vecdsl.ir.program import Address, ArrayDecl, Load, Op, Program, Store, VType
from tests.support.access_programs import Conditional, inputs_for, run_assembly
from tests.support.random_isa import FOLDER, machine, varied
from tests.support.random_machine import random_machine

QUICK, ALL = 2, 200
ELEMS = (
    *(("i32",), ("f32",), ("f64",), ("i32", "f32"), ("f64", "i32"), ("i16", "i32", "f32")),
    ("i8", "u8", "u16", "i16", "i32"),
)
SEEDS = [pytest.param(seed, marks=() if seed < QUICK else pytest.mark.slow) for seed in range(ALL)]
MACHINES = (*isa_names(), *sorted(str(path) for path in FOLDER.glob("*.toml") if path.stem != "scalar"))
GRANULE = 64  # bytes that loads may touch beyond an array, where they take whole aligned granules


def check(seed: int, target: Target) -> None:
    """What a machine doesn't refuse is right in each of its views. Frames are made later, by the scheduler: local
    arrays are below the stack pointer yet."""
    target = replace(target, abi=replace(target.abi, red_zone=None))
    elems = random.Random(seed).choice(ELEMS)
    for view in views(target):
        if view.lanes < 2:
            continue
        program, inputs = Conditional(seed, view.lanes, elems).drawn()
        expected = evaluate(program, view.lanes, inputs)
        try:
            legal = legalise(program, Emitter(view, OperationTable(view)), readable(program))
            function = verify(lower(program, view, readable=readable(program), in_word=in_word(program)), view)
        except NoSchedule:
            continue
        same(expected, evaluate(legal, view.lanes, inputs, slack=GRANULE), "legal")
        arguments = [(name, inputs[name].copy()) for name in program.params]
        room = max((size for _, size in function.below), default=0)
        same(expected, run_linear(function, target, arguments, stack=room).outputs, "linear assembly")


def same(expected: dict[str, np.ndarray], found: dict[str, np.ndarray], stage: str) -> None:
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=f"{name}, {stage}")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", MACHINES, ids=lambda name: Path(name).stem)
def test_conditional_accesses(name: str, seed: int) -> None:
    few = random.Random(seed).choice((4, 4, 8, None)) if name.startswith("ft_") else None
    check(seed, load_target(name, [("lanes", str(few))] if few else []))


@pytest.mark.parametrize("seed", SEEDS)
def test_on_machines_near_those_that_there_are(seed: int) -> None:
    target, _ = machine(varied(random.Random(seed)))
    if target is not None:
        check(seed, target)


@pytest.mark.parametrize("seed", SEEDS)
def test_on_machines_of_some_operations(seed: int) -> None:
    share = random.Random(seed).choice((0.3, 0.7, 1.0))
    check(seed, random_machine(load_target("ft_m7002", [("lanes", "4")]), seed, share))


@pytest.mark.parametrize("count", [1, 4, 13, 31])
def test_first_lanes_that_no_predicate_governs_together(count: int) -> None:
    """Of two numbers in a lane, the first one alone is among the first 13."""
    target = next(v for v in views(load_target("ft_mt3000")) if v.packed == 2)
    mask = Op("mask_first", (), VType("i32", True), (count,))
    load = Load("a", Address(0), 1, "f32", VType("f32", True))
    arrays = (ArrayDecl("a", "f32", 32, False, True), ArrayDecl("b", "f32", 64, False))
    program = Program("f", ("a", "b"), arrays, (), (Store("b", Address(0), 2, "f32", load, mask=mask),))
    inputs = inputs_for(program, 1)
    same(evaluate(program, target.lanes, inputs), run_assembly(program, target, inputs), "packets")
