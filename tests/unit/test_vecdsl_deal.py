"""Lanes over two loops by shuffles of whole vectors: the same results, in as few accesses as there can be."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from dspgen.target.load import load_target
from dspgen.vecdsl.ir.evaluate import evaluate
from dspgen.vecdsl.ir.program import Address, ArrayDecl, Load, Op, Program, Stmt, Store, Term, VType
from dspgen.vecdsl.ir.terms import statements, terms_in
from dspgen.vecdsl.ir.verify import verify
from dspgen.vecdsl.lanes.shuffle_gathers import deal

VF32 = VType("f32", True)
TARGETS = {lanes: load_target("ft_m7002", [("lanes", str(lanes))]) for lanes in (4, 8, 16)}
SIZE = 1024


def access(lanes: int, step: int, half: int, part: int, vector: int, array: str) -> Load:
    """Vector `vector` of the butterflies whose two inputs lie `half` apart, elements `step` wide: one input's part."""
    first = vector * lanes // half * 2 * half * step if half < lanes else 0
    start = first + part % step + part // step * half * step
    if half >= lanes:
        return Load(array, Address(start + vector * lanes * step), step, "f32", VF32)
    return Load(array, Address(start), step, "f32", VF32, half, 2 * half * step)


def stage(seed: int, lanes: int) -> Program:
    """A butterfly stage of complex or real elements, perhaps in place, perhaps of fewer lanes, its stores shuffled."""
    pick = random.Random(seed)
    step, half = pick.choice((1, 2)), 1 << pick.randrange(lanes.bit_length())
    vectors, in_place = pick.choice((1, 2)), pick.random() < 0.5
    active = pick.choice((None, None, half)) if half < lanes else None
    body: list[Stmt] = []
    for vector in range(vectors):
        inputs = [access(lanes, step, half, part, vector, "a") for part in range(2 * step)]
        stores = []
        for part, place in enumerate(inputs):
            other = inputs[(part + step) % (2 * step)]
            value: Term = Op("add" if part < step else "sub", (place, other), VF32)
            array = "a" if in_place else "b"
            stores.append(
                Store(array, place.address, place.stride, "f32", value, active, None, place.period, place.jump)
            )
        if not in_place:
            pick.shuffle(stores)
            body += stores
        else:
            # What one store writes, another one reads: in place a butterfly keeps its inputs by their old places.
            body += [replace(s, value=Op("neg", (inputs[k],), VF32)) for k, s in enumerate(stores)]
    arrays = tuple(ArrayDecl(name, "f32", SIZE, False) for name in "ab")
    return verify(Program("f", ("a", "b"), arrays, (), tuple(body)))


@pytest.mark.parametrize("lanes", TARGETS)
def test_stages_keep_their_results(lanes: int) -> None:
    for seed in range(60):
        program = stage(seed, lanes)
        dealt = verify(deal(program, TARGETS[lanes]))
        inputs = {n: np.random.default_rng(seed).standard_normal(SIZE).astype(np.float32) for n in "ab"}
        before, after = evaluate(program, lanes, inputs), evaluate(dealt, lanes, inputs, slack=SIZE)
        for name, values in before.items():
            np.testing.assert_array_equal(after[name], values, err_msg=f"{seed}: {name}")


def test_a_whole_stage_is_stored_in_pairs_of_whole_vectors() -> None:
    lanes, half = 16, 4
    inputs = [access(lanes, 2, half, part, 0, "a") for part in range(4)]
    values = [Op("add", (inputs[k], inputs[k ^ 2]), VF32) for k in range(4)]
    stores = [
        Store("b", p.address, p.stride, "f32", v, None, None, p.period, p.jump)
        for p, v in zip(inputs, values, strict=True)
    ]
    arrays = tuple(ArrayDecl(name, "f32", SIZE, False) for name in "ab")
    dealt = deal(Program("f", ("a", "b"), arrays, (), tuple(stores)), TARGETS[lanes])
    made = [s for s in statements(dealt.body) if isinstance(s, Store)]
    assert [(s.address.constant, s.stride, s.period) for s in made] == [(0, 2, 0), (32, 2, 0)]
    assert all(isinstance(s.value, Op) and s.value.name == "pair" for s in made)
    shuffles = sum(_count(t, "shuffle2") for t in terms_in(dealt.body))
    assert shuffles == 4 * 2 + 4  # every sum's two arguments, and the stored vectors


def _count(term: Term, name: str) -> int:
    if not isinstance(term, Op):
        return 0
    return (term.name == name) + sum(_count(a, name) for a in term.args)


def test_no_load_passes_a_store_to_its_elements() -> None:
    """The vector is loaded anew after a store to lanes of it that are used."""
    load = Load("a", Address(0), 1, "f32", VF32, 2, 4)
    store = Store("a", Address(0), 1, "f32", Op("neg", (Load("b", Address(0), 1, "f32", VF32),), VF32))
    use = Store("b", Address(64), 1, "f32", Op("add", (load, load), VF32))
    arrays = tuple(ArrayDecl(name, "f32", SIZE, False) for name in "ab")
    first = Store("b", Address(32), 1, "f32", load)
    program = verify(Program("f", ("a", "b"), arrays, (), (first, store, use)))
    dealt = deal(program, TARGETS[4])
    inputs = {n: np.arange(SIZE, dtype=np.float32) for n in "ab"}
    before, after = evaluate(program, 4, inputs), evaluate(dealt, 4, inputs, slack=SIZE)
    np.testing.assert_array_equal(after["b"], before["b"])


def test_stores_that_leave_gaps_stay_as_they_are() -> None:
    value = Load("a", Address(0), 1, "f32", VF32)
    stores = tuple(Store("b", Address(c), 1, "f32", value, None, None, 2, 8) for c in (0, 3))
    arrays = tuple(ArrayDecl(name, "f32", SIZE, False) for name in "ab")
    program = Program("f", ("a", "b"), arrays, (), stores)
    assert deal(program, TARGETS[8]) == program


def test_a_machine_without_shuffles_is_left_alone() -> None:
    target = replace(TARGETS[16], pattern_memory=None)
    program = stage(1, 16)
    assert deal(program, target) == program
