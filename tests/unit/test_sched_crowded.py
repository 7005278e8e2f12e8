"""Blocks that lack registers are told of all at once, and what a prolog makes for itself takes none before it."""

from __future__ import annotations

import random
from functools import partial

import pytest

from dspgen.asmir.ir.function import Predicate, VReg
from dspgen.sched.graph.rigid_sections import Envelope, Section
from dspgen.sched.graph.synthesized_instrs import Kit
from dspgen.sched.layout.function_layout import Layout
from dspgen.sched.loops.attempt_state import Settings
from dspgen.sched.machine.target_facts import Atom, Facts
from dspgen.sched.registers.allocation import allocate
from dspgen.sched.registers.occupancy import Occupancy
from dspgen.sched.straight.list_scheduling import Block, EndsCollide
from dspgen.sched.straight.prepare import straight_ops
from dspgen.target.load import load_target

TARGET = load_target("ft_m7002")
FACTS = Facts(TARGET)
CLASS = next(c for c in TARGET.registers if c.kind == "address")


def _atoms(count: int) -> list[Atom]:
    return [FACTS.atoms(VReg(f"a{k}", CLASS.name))[0] for k in range(count)]


def test_every_crowded_block_is_told_the_worst_first() -> None:
    most = len(CLASS.names)
    atoms = _atoms(most + 2)
    everything, one_less, few = (1 << most + 2) - 1, (1 << most + 1) - 1, 7
    found = Occupancy(atoms, partial(list, [0] * len(atoms)), 0, [[few, one_less], [few], [everything, few], []])
    failures = allocate(found, FACTS, inputs={}, predicates={}, avoid=frozenset())
    assert isinstance(failures, list)
    assert [(f.block, f.needed, f.available) for f in failures] == [(2, most + 2, most), (0, most + 1, most)]


def test_values_of_a_prolog_are_its_own() -> None:
    own, needed = _atoms(2)
    layout = Layout(FACTS, Kit(FACTS), Settings(), "f")
    prolog = Section([], 4, Envelope(reads={own: 2, needed: 2}, lands={own: 1, needed: 1}))
    assert layout._own_values(prolog, {needed}) == {own}


def _arcs(rng: random.Random, length: int, most: int, paired: float) -> list[tuple[list[int], int]]:
    """Cycles (of a loop that is `length` long) and width of values that at most `most` registers hold at once."""
    load = [0] * length
    found = []
    while sum(load) < 0.9 * most * length and len(found) < 300:
        width = 2 if rng.random() < paired else 1
        start, size = rng.randrange(length), rng.randint(1, length // 3 + 1)
        cycles = [(start + k) % length for k in range(size)]
        while cycles and max(load[c] for c in cycles) + width > most:
            cycles.pop()
        for c in cycles:
            load[c] += width
        if cycles:
            found.append((cycles, width))
    return found


def _together(registers: list[VReg], lives: list[list[int]], length: int) -> tuple[list[Atom], list[int], list[int]]:
    """Atoms of registers occupied in these cycles; of each those occupied with it, and of each cycle the occupied."""
    atoms = [a for r in registers for a in FACTS.atoms(r)]
    spans = [cycles for r, cycles in zip(registers, lives, strict=True) for _ in FACTS.atoms(r)]
    occupied = [sum(1 << k for k, span in enumerate(spans) if c in span) for c in range(length)]
    near = [0] * len(atoms)
    for mask in occupied:
        for k in range(len(atoms)):
            near[k] |= mask & ~(1 << k) if mask >> k & 1 else 0
    return atoms, near, occupied


@pytest.mark.parametrize("paired, most_over", [(0.0, 0.5), (0.3, 1.2)])
def test_values_round_a_loop_take_few_registers_more_than_are_live_at_once(paired: float, most_over: float) -> None:
    single = next(c for c in TARGET.registers if c.kind == "vector" and c.pair_of is None)
    pair = next(c for c in TARGET.registers if c.pair_of == single.name)
    names = [n for n in single.names if n not in FACTS.untouchable]
    over: list[int] = []
    for seed in range(20):
        rng = random.Random(seed)
        length, most = rng.randint(6, 40), rng.choice([8, 16, 24])
        arcs = _arcs(rng, length, most, paired)
        registers = [VReg(f"v{k}", pair.name if width == 2 else single.name) for k, (_, width) in enumerate(arcs)]
        atoms, near, occupied = _together(registers, [cycles for cycles, _ in arcs], length)
        live = max(mask.bit_count() for mask in occupied)
        for more in range(len(names)):
            avoid = FACTS.untouchable | set(names[live + more :])
            found = allocate(
                Occupancy(atoms, partial(list, near), 0, [occupied]),
                FACTS,
                inputs={},
                predicates={},
                avoid=frozenset(avoid),
            )
            if isinstance(found, dict):
                place = {atom: name for r in registers for atom, name in zip(FACTS.atoms(r), found[r], strict=True)}
                assert all(
                    place[atoms[a]] != place[atoms[b]] for a in range(len(atoms)) for b in range(a) if near[a] >> b & 1
                )
                over.append(more)
                break
    assert len(over) == 20 and sum(over) / 20 <= most_over


def test_too_many_predicates_are_told_whatever_else_finds_no_place_at_first() -> None:
    single = next(c for c in TARGET.registers if c.kind == "vector" and c.pair_of is None)
    pair = next(c for c in TARGET.registers if c.pair_of == single.name)
    conditions = [VReg(f"p{k}", "R") for k in range(len(TARGET.predicates.scalar) + 1)]
    most = sum(n not in FACTS.untouchable for n in single.names)
    for seed in range(10):
        rng = random.Random(seed)
        length = rng.randint(6, 40)
        arcs = _arcs(rng, length, most, 0.3)
        registers = [VReg(f"v{k}", pair.name if width == 2 else single.name) for k, (_, width) in enumerate(arcs)]
        lives = [*(cycles for cycles, _ in arcs), *([0, 1] for _ in conditions)]
        atoms, near, occupied = _together([*registers, *conditions], lives, length)
        found = allocate(
            Occupancy(atoms, partial(list, near), 0, [occupied]),
            FACTS,
            inputs={},
            predicates=dict.fromkeys(conditions, False),
            avoid=FACTS.untouchable,
        )
        assert isinstance(found, list) and found[0].predicate


@pytest.mark.parametrize("full", [True, False])
def test_a_branch_that_finds_no_room_in_a_rigid_end_is_told(full: bool) -> None:
    facts = Facts(load_target("hexagon_v66"))
    kit = Kit(facts)
    scalar = kit.scalar
    constants = [i for k in range(4) for i in kit.constant(VReg(f"s{k}", scalar), k)]
    ops = straight_ops(constants[: 4 if full else 3], facts, kit, rename=False)
    units = [ops[0].reservation.alternatives[k] for k in range(len(ops))]
    tail = Section([(op, 1, unit) for op, unit in zip(ops, units, strict=True)], 2, Envelope())
    (branch,) = straight_ops([kit.branch("top", Predicate(VReg("n", scalar)))], facts, kit, rename=False)
    block = Block([], facts, None, tail, branch)
    if full:
        with pytest.raises(EndsCollide):
            block.listed([])
    else:
        assert block.listed([]).length == 2
