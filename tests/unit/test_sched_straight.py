"""Straight blocks: the search is never worse than a list, reaches the proven optimum, keeps to units and registers."""

from __future__ import annotations

import math
from dataclasses import replace
from unittest.mock import patch

import pytest

from dspgen.asmir.ir.function import Function, Instr, Predicate, Reg, VReg, renamed
from dspgen.errors import DspgenError
from dspgen.sched.ir.packets import CommentLine
from dspgen.sched.machine.operations import Op, make_op, remade
from dspgen.sched.machine.solver_process import apart
from dspgen.sched.machine.target_facts import Facts, Reservation
from dspgen.sched.scheduler import schedule
from dspgen.sched.straight.block_packing import Searches, fit_block
from dspgen.sched.straight.bounds import Bounds, bounds_of
from dspgen.sched.straight.downsets import Found, shortest
from dspgen.sched.straight.exact import proven
from dspgen.sched.straight.instance import Instance, Version
from dspgen.sched.straight.issue_groups import Chooser, Kinds
from dspgen.sched.straight.list_scheduling import Block, heights_of
from dspgen.sched.straight.register_pressure_order import versions_of
from dspgen.sched.straight.register_serialization import serial_edges
from dspgen.target.load import isa_names, load_target
from tests.support.sched_programs import Writer
from tests.support.straight_blocks import Blocks

BLOCKS = {name: Blocks(load_target(name)) for name in isa_names()}


def check(instance: Instance, found: Found) -> None:
    """Dependences, releases, the block's end, and units, looked at one by one."""
    assert all(at >= least for at, least in zip(found.cycles, instance.release, strict=True))
    assert all(at <= found.length - late for at, late in zip(found.cycles, instance.slack, strict=True))
    for k, edges in enumerate(instance.successors):
        assert all(found.cycles[t] >= found.cycles[k] + latency for t, latency in edges)
    taken: set[tuple[int, int]] = set()
    for at, unit, reservation in zip(found.cycles, found.units, instance.reservations, strict=True):
        assert unit in reservation.alternatives
        spans = [(unit, 0, reservation.busy), *reservation.extras]
        places = [(resource, at + k) for resource, first, count in spans for k in range(first, first + count)]
        assert taken.isdisjoint(places)
        taken.update(places)
    assert all(found.cycles.count(at) <= instance.issue for at in found.cycles)


@pytest.mark.parametrize("isa", BLOCKS)
def test_the_search_keeps_the_rules_and_is_never_longer_than_a_list(isa: str) -> None:
    blocks = BLOCKS[isa]
    gained = 0
    for seed in range(230, 300):
        ops = blocks.block(seed)
        listed = fit_block(ops, blocks.facts, method="list")
        found = fit_block(ops, blocks.facts)
        assert listed.bound <= found.bound <= found.length <= listed.length
        instance = Block(ops, blocks.facts, None, None, None).instance()
        at = {id(op): (cycle, unit) for cycle, packet in enumerate(found.cycles) for op, unit in packet}
        cycles, units = zip(*(at[id(op)] for op in ops), strict=True)
        check(instance, Found(list(cycles), list(units), found.length))
        gained += found.length < listed.length
    assert gained


@pytest.mark.needs_tool("ortools")
@pytest.mark.parametrize("isa", BLOCKS)
def test_the_search_reaches_the_proven_optimum(isa: str) -> None:
    blocks = BLOCKS[isa]
    for seed in range(25):
        ops = blocks.block(seed)[:18]
        found = fit_block(ops, blocks.facts)
        instance = Block(ops, blocks.facts, None, None, None).instance()
        plain = Bounds((), instance.release, instance.slack, 0)  # nothing that our own bounds say
        optimum, bound = proven(instance, plain, 0, None, found.length + 1, 8.0)
        assert optimum is not None and optimum.length == found.length, seed
        check(instance, optimum)
        assert found.bound <= bound or bound < optimum.length


def _instance(size: int, edges: list[tuple[int, int, int]], kinds: list[Reservation], **more: object) -> Instance:
    successors: list[list[tuple[int, int]]] = [[] for _ in range(size)]
    predecessors: list[list[tuple[int, int]]] = [[] for _ in range(size)]
    for a, b, latency in edges:
        successors[a].append((b, latency))
        predecessors[b].append((a, latency))
    made = Instance(size, successors, predecessors, [0] * size, [1] * size, kinds, 8)
    return replace(made, **more)  # type: ignore[arg-type]


ONE, OTHER = Reservation((0,), 1, ()), Reservation((1,), 1, ())


def test_units_taken_by_the_ends_are_left_alone() -> None:
    instance = _instance(
        2, [], [ONE, ONE], before=[1, 0, 0], before_issued=[1, 0, 0], behind=[0, 1], behind_issued=[0, 1]
    )
    bounds = bounds_of(instance)
    found, bound, _ = shortest(instance, bounds, 9)
    assert found is not None and (found.length, bound) == (4, 4) and sorted(found.cycles) == [1, 2]


def test_the_ends_take_slots_of_narrow_packets() -> None:
    instance = _instance(2, [], [ONE, OTHER], issue=2, before=[4], before_issued=[1])
    found, bound, _ = shortest(instance, bounds_of(instance), 9)
    assert found is not None and (found.length, bound) == (2, 2) and sorted(found.cycles) == [0, 1]


def test_an_operation_may_issue_before_one_that_reads_what_it_overwrites() -> None:
    """The write lands three cycles on: it may go first where that shortens the block, but not by more than that."""
    instance = _instance(3, [(0, 1, -2), (1, 2, 5)], [ONE, ONE, ONE])
    found, _, _ = shortest(instance, bounds_of(instance), 9)
    assert found is not None and found.length == 6 and found.cycles[:2] == [1, 0]


def test_a_branch_stands_where_its_delay_slots_end_the_block() -> None:
    instance = _instance(3, [(0, 2, 4)], [ONE, ONE, OTHER], pinned=2, slack=[1, 1, 3], least=3)
    found, _, _ = shortest(instance, bounds_of(instance), 20)
    assert found is not None and found.length == 7 and found.cycles[2] == 4


def test_an_operation_that_holds_its_unit_may_wait() -> None:
    """The long one is ready first; issued then, it would keep the unit from the start of a chain."""
    long = Reservation((0,), 6, ())
    instance = _instance(4, [(1, 2, 1), (2, 3, 5)], [long, OTHER, ONE, OTHER], slack=[6, 1, 1, 1])
    found, _, _ = shortest(instance, bounds_of(instance), 13)
    assert found is not None and found.length == 8 and found.cycles[0] == 2


def test_registers_are_part_of_the_state() -> None:
    """Four values made two at a time and read in pairs: with two registers, those of one pair are made first."""
    reader = (4, 5, 5, 4)
    edges = [(k, reader[k], 1) for k in range(4)]
    versions = tuple(Version("R", k, 1, 1 << reader[k], False) for k in range(4))
    free = _instance(6, edges, [Reservation((0, 2), 1, ())] * 4 + [OTHER] * 2)
    crowded = replace(free, versions=versions, room={"R": 2})
    lengths = []
    for instance in (free, crowded):
        found, _, _ = shortest(instance, bounds_of(instance), 12)
        assert found is not None
        lengths.append(found.length)
        live = [
            sum(
                found.cycles[v.writer] + 1 <= t <= max(found.cycles[r] for r in range(6) if v.readers >> r & 1)
                for v in versions
            )
            for t in range(found.length)
        ]
        assert instance is free or max(live) <= 2
    assert lengths == [3, 3]
    none, _, _ = shortest(replace(crowded, room={"R": 1}), bounds_of(crowded), 40)
    assert none is None


@pytest.mark.parametrize("isa", BLOCKS)
def test_what_is_serialised_needs_no_more_registers_than_the_order_given(isa: str) -> None:
    blocks = BLOCKS[isa]
    shorter = 0
    for seed in range(30):
        ops = blocks.block(seed)
        block = Block(ops, blocks.facts, None, None, None)
        versions, _ = versions_of(ops, blocks.facts, frozenset())
        instance = replace(block.instance(), versions=tuple(versions), room={v.cls: 0 for v in versions})
        order = list(range(len(ops)))
        textual = block.listed(order, window=1)
        # One operation after the other: a value is in its register from the landing of the last one before it.
        apart_issue = [64 * k for k in order]
        needed = instance.in_use(apart_issue, 64 * len(ops))
        made = block.serialised(order, serial_edges(order, versions, needed, needed))
        listed = made.listed([-h for h in heights_of(made)])
        back = made.listed_back(order, [0] * len(ops), 4 * textual.length)
        assert back is not None
        for found in (listed, back):
            used = instance.in_use(found.issue, found.length)
            assert all(used[cls] <= needed[cls] for cls in needed), seed
        shorter += listed.length < textual.length
    assert shorter


@pytest.mark.parametrize("isa", BLOCKS)
def test_windows_lead_from_the_order_given_to_free_lists(isa: str) -> None:
    blocks = BLOCKS[isa]
    for seed in range(10):
        block = Block(blocks.block(seed), blocks.facts, None, None, None)
        order = range(len(block.ops))
        free = block.listed(order).issue
        assert block.listed(order, window=len(block.ops)).issue == free
        for window in (1, 4, 16):
            issue = block.listed(order, window=window).issue
            assert all(issue[k] >= max(issue[: k - window + 1]) for k in order if k >= window)
            for k in order:
                assert all(issue[t] >= issue[k] + latency for t, latency, _ in block.graph.successors[k])


def _renamed(ops: list[Op], facts: Facts, prefix: str) -> list[Op]:
    registers = {a[0] for op in ops for a, _ in (*op.reads, *op.writes) if isinstance(a[0], VReg)}
    names = {r: VReg(prefix + r.name, r.cls) for r in registers}
    made = []
    for op in ops:
        guard = op.predicate and replace(op.predicate, register=names[op.predicate.register])
        made.append(remade(op, tuple(renamed(v, names) for v in op.operands), guard, facts))
    return made


@pytest.mark.parametrize("isa", BLOCKS)
def test_blocks_that_differ_in_names_are_packed_once(isa: str) -> None:
    blocks = BLOCKS[isa]
    for seed in range(10):
        ops = blocks.block(seed)
        searches = Searches()
        first = fit_block(ops, blocks.facts, after=frozenset(), searches=searches)
        others = _renamed(ops, blocks.facts, "other_")
        again = fit_block(others, blocks.facts, after=frozenset(), searches=searches)
        assert len(searches.packed) == 1
        assert (again.length, again.bound, again.in_use) == (first.length, first.bound, first.in_use)
        number = {id(op): k for found in (ops, others) for k, op in enumerate(found)}
        told = [[[(number[id(op)], unit) for op, unit in packet] for packet in f.cycles] for f in (first, again)]
        assert told[0] == told[1]
        # What is read later, what memory is touched, and registers that are the same matter.
        fit_block(others, blocks.facts, after=frozenset(a for op in others for a, _ in op.writes), searches=searches)
        fit_block([*others, others[0].copy()], blocks.facts, after=frozenset(), searches=searches)
        fit_block([*others[1:], others[0]], blocks.facts, after=frozenset(), searches=searches)
        assert len(searches.packed) == 4


def test_packets_by_another_search_are_taken_unless_it_was_cut() -> None:
    blocks = BLOCKS["ft_m7002"]
    for seed in range(40):
        ops = blocks.block(seed)
        hasty = Searches(left=0)
        fit_block(ops, blocks.facts, after=frozenset(), searches=hasty)
        patient = Searches(earlier=hasty.packed)
        fit_block(ops, blocks.facts, after=frozenset(), searches=patient)
        (key,) = hasty.packed
        assert (patient.packed[key] is hasty.packed[key]) != hasty.packed[key].cut
        if hasty.packed[key].cut:
            return
    pytest.fail("no search was cut short")


def test_a_block_that_is_crowded_needs_fewer_registers() -> None:
    fewer = 0
    for blocks in BLOCKS.values():
        room = {c.name: len(set(c.names) - blocks.facts.untouchable) for c in blocks.facts.target.registers}
        for seed in range(20):
            ops = blocks.block(seed)
            free = fit_block(ops, blocks.facts, after=frozenset(), without={})
            lacking = {cls: room[cls] - max(1, used - 1) for cls, used in free.in_use.items()}
            tight = fit_block(ops, blocks.facts, after=frozenset(), without=lacking)
            assert all(tight.in_use[cls] <= used for cls, used in free.in_use.items())
            fewer += any(tight.in_use[cls] < used for cls, used in free.in_use.items())
    assert fewer


@pytest.mark.parametrize("lane", [False, True])
def test_no_more_predicates_are_alive_than_there_are(lane: bool) -> None:
    facts = BLOCKS["ft_m7002"].facts
    w = Writer(facts.target)
    cls = w.vector if lane else w.scalar
    one, other = VReg("one", cls), VReg("other", cls)
    conditions = [VReg(f"c{k}", cls) for k in range(12)]
    for k, condition in enumerate(conditions):
        result = Reg(VReg(f"r{k}", cls))
        w.op("sub" if lane else "lt", "i32", Reg(condition), Reg(one), Reg(other))
        w.op("add", "i32", result, Reg(one), Reg(other), predicate=Predicate(condition, lane=lane))
    ops = [make_op(item, facts) for item in w.items if isinstance(item, Instr)]
    most = facts.predicates_without(facts.untouchable)[facts.predicate_class(lane)]
    made = fit_block(ops, facts, after=frozenset(a for op in ops for a, _ in op.writes if a[0] not in conditions))
    issue = {id(op): at for at, packet in enumerate(made.cycles) for op, _ in packet}
    lives = []
    for maker, reader in zip(ops[::2], ops[1::2], strict=True):
        ((_, latency),) = maker.writes
        lives.append(range(issue[id(maker)] + facts.landing(latency), issue[id(reader)] + 1))
    assert most == 3
    assert max(sum(at in life for life in lives) for at in range(made.length)) <= most


def test_groups_are_those_to_which_nothing_can_be_added() -> None:
    instance = _instance(4, [], [Reservation((0, 1), 1, ()), ONE, ONE, OTHER])
    chooser = Chooser(Kinds(instance), [0] * 4, 8)
    groups, complete = chooser.groups([0, 1, 2, 3], 0, 0, [0], 0, 8, 50)
    assert complete and sorted(sorted(k for k, _ in g) for g in groups) == [[0, 1], [0, 2], [0, 3], [1, 3], [2, 3]]
    groups, _ = chooser.groups([0, 1, 2, 3], 0b0100, 0, [0], 0, 8, 50)
    assert all(any(k == 2 for k, _ in g) for g in groups)
    groups, _ = chooser.groups([0, 1, 2, 3], 0, 0, [0b10], 0, 8, 50)
    assert sorted(k for g in groups for k, _ in g) == [0, 1, 2]


def test_the_budget_bounds_the_search_and_its_answer_is_always_the_same() -> None:
    blocks = BLOCKS["ft_m7002"]
    ops = next(
        o
        for o in map(blocks.block, range(500))
        if fit_block(o, blocks.facts).length < fit_block(o, blocks.facts, method="list").length
    )
    unsearched = fit_block(ops, blocks.facts, searches=Searches(0))
    assert unsearched.length >= fit_block(ops, blocks.facts).length
    texts = [[[(op.instruction.id, u) for op, u in p] for p in fit_block(ops, blocks.facts).cycles] for _ in range(2)]
    assert texts[0] == texts[1]


def test_packets_say_whether_they_are_proven_optimal() -> None:
    target = load_target("ft_m7002")
    writer = Writer(target)
    registers = [Reg(VReg(f"r{k}", writer.scalar)) for k in range(6)]
    for k, register in enumerate(registers):
        writer.constant(register, k)
    for a, b in zip(registers, registers[1:], strict=False):
        writer.op("mul", "i32", a, a, b)
    scheduled = schedule(Function("f", (), tuple(writer.items)), target)
    assert any(isinstance(line, CommentLine) and "proven optimal" in line.text for line in scheduled.lines)
    (report,) = scheduled.straight
    assert report.optimal and report.cycles == scheduled.cycles


def test_calls_in_another_process_return_and_raise() -> None:
    assert apart(math.gcd, 12, 18) == 6
    with pytest.raises(ValueError):
        apart(math.sqrt, -1.0)
    assert apart(math.gcd, 4, 6) == 2


def test_the_exact_method_without_its_solver_is_refused() -> None:
    from dspgen.cli.options import sched_mode

    with patch("dspgen.cli.options.find_spec", return_value=None), pytest.raises(DspgenError) as refused:
        sched_mode("exact")
    assert "DG515" in refused.value.render()
