"""Loops round several pipelined loops: runs overlap round all of them, and the result stays that of the text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from dspgen.asmir.ir.function import Function, Imm, Instr, Loop, Mem, MemRef, Reg, Stream, VReg, loops_in
from dspgen.check.equivalence import check as against_packets
from dspgen.driver.pipeline import compile_file
from dspgen.emit.linear import emit_linear
from dspgen.emit.text import print_lines
from dspgen.options import Options
from dspgen.sched.graph.liveness import remove_dead
from dspgen.sched.graph.synthesized_instrs import Kit
from dspgen.sched.ir.packets import LabelLine, Lessons, Scheduled
from dspgen.sched.loops import loop_plans as plans
from dspgen.sched.loops.attempt_state import Settings
from dspgen.sched.loops.outer_loops import Nest, nest_of
from dspgen.sched.loops.prologue_copy_elision import with_biased_bases
from dspgen.sched.machine.target_facts import Facts
from dspgen.sched.modulo.address_streams import Access, Group
from dspgen.sched.scheduler import schedule
from dspgen.sim.run import simulate
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target
from tests.support.sched_programs import RandomProgram, Writer, assert_same, with_latencies
from tests.support.timed_machines import PIPELINES, PipelineKind, timed
from tests.unit.test_sched_loops import inputs, pointer

TARGET = load_target("ft_m7002")
DEEP = (3, 4, 9, 30)
TRIPS = (2, 3, 5, 9, 17, 24)


class RandomNests(RandomProgram):
    """Outer loops round one to three innermost ones, with straight code between them; some outer ones lie in others."""

    def loop(self, depth: int) -> None:
        w, rng = self.writer, self.random
        self.names += 1
        label = f"i{self.names}"
        outer, w.items = w.items, []
        self.straight(rng.randint(0, 3), {}, None)
        if depth == 0 and rng.random() < 0.2:
            self.loop(1)
        else:
            for _ in range(rng.choice((1, 2, 2, 3))):
                self.inner()
                self.straight(rng.choice((0, 0, 2, 5)), {}, None)
        body, w.items = tuple(w.items), outer
        trip = rng.choice((2, 3, 5))
        count: int | VReg = trip
        if self.dynamic and rng.random() < 0.7:
            count = self.fresh(w.scalar)
            w.op("add", "i32", Reg(count), rng.randint(0, 3), Reg(self.count))
        w.items.append(Loop(f"L{label}", label, 1, count, (), body, trip if count == trip else 0))

    def inner(self) -> None:
        w, rng = self.writer, self.random
        self.names += 1
        iterator = f"i{self.names}"
        streams: dict[str, list[tuple[VReg, int, int, int]]] = {"scalar": [], "vector": []}
        for side, most in (("scalar", 1), ("vector", 2)):
            for _ in range(rng.randint(0, most)):
                step = rng.choice((4, 8, 64, -4, -64) if side == "scalar" else (64, 128, 4, -64, 192))
                array, offset = rng.randint(0, 2), rng.randint(-8, 8) * 64
                streams[side].append((self.base(array, offset, side), step, array, offset))
        outer, w.items = w.items, []
        self.straight(rng.choice((3, 8, 14)), streams, iterator)
        listed = tuple(Stream(b, step, side) for side, found in streams.items() for b, step, _, _ in found)
        body, w.items = tuple(w.items), outer
        trip = rng.choice(TRIPS)
        w.items.append(Loop(f"L{iterator}", iterator, 1, trip, listed, body, trip))

    def conditional(self) -> None:
        """Nests have none."""


class RandomUnknownNests(RandomNests):
    """The same, the trips of most inner loops in registers, which are made outside the loops around them."""

    def loop(self, depth: int) -> None:
        self.unknown = [self.fresh(self.writer.scalar) for _ in range(2)]
        for register in self.unknown:
            self.writer.op("add", "i32", Reg(register), self.random.randint(0, 20), Reg(self.count))
        super().loop(depth)

    def inner(self) -> None:
        super().inner()
        loop = self.writer.items[-1]
        if isinstance(loop, Loop) and self.random.random() < 0.8:
            self.writer.items[-1] = replace(loop, trip=self.random.choice(self.unknown), min_trip=0)


def check(target: Target, seed: int, *, dynamic: bool = False) -> tuple[Scheduled, int]:
    function = RandomNests(target, seed, dynamic=dynamic).function()
    scheduled, result = assert_same(function, target, seed, seed % 3)
    return scheduled, result.cycles


class RandomDeepNests(RandomNests):
    """Loops round loops round these, their trips in registers that are made before all of them, or known."""

    def loop(self, depth: int) -> None:
        w, rng = self.writer, self.random
        if depth == 0:
            self.unknown = [self.fresh(w.scalar) for _ in range(4)]
            for k, register in enumerate(self.unknown):
                w.op("add", "i32", Reg(register), rng.randint(0, 3 if k < 2 else 12), Reg(self.count))
        self.names += 1
        label = f"i{self.names}"
        outer, w.items = w.items, []
        self.straight(rng.randint(0, 3), {}, None)
        inner = rng.choice(("deep", "deep", "beside", "flat")) if depth < 2 else "flat"
        if inner != "flat":
            self.loop(depth + 1)
            self.straight(rng.randint(0, 3), {}, None)
        if inner != "deep":
            self.inner()
            self.straight(rng.choice((0, 2, 5)), {}, None)
        body, w.items = tuple(w.items), outer
        trip = rng.choice(self.unknown[:2]) if self.dynamic and rng.random() < 0.5 else rng.choice((2, 3))
        w.items.append(Loop(f"L{label}", label, 1, trip, (), body, trip if isinstance(trip, int) else 0))

    def inner(self) -> None:
        super().inner()
        loop = self.writer.items[-1]
        if self.dynamic and isinstance(loop, Loop) and self.random.random() < 0.5:
            self.writer.items[-1] = replace(loop, trip=self.random.choice(self.unknown[2:]), min_trip=0)


def one_inner_loop(loop: Loop, inside: Callable[[Loop], bool]) -> Nest | None:
    """Only nests with one inner loop, for comparison."""
    nest = nest_of(loop, inside)
    return nest if nest is not None and len(nest.inner) == 1 else None


def without_rotation(target: Target, seed: int, *, dynamic: bool = False) -> int:
    with patch.object(plans, "nest_of", one_inner_loop):
        return check(target, seed, dynamic=dynamic)[1]


@pytest.mark.parametrize("seed", [2, 6, 10, 36])
def test_runs_of_several_loops_overlap(seed: int) -> None:
    assert check(with_latencies(TARGET, seed), seed)[1] < without_rotation(with_latencies(TARGET, seed), seed)


@pytest.mark.parametrize("seed", [117, 119, 127])
def test_outer_trips_in_registers(seed: int) -> None:
    target = TARGET if seed % 2 else with_latencies(TARGET, seed)
    assert check(target, seed, dynamic=True)[1] <= without_rotation(target, seed, dynamic=True)


@pytest.mark.parametrize("seed", [1, 10, 18, 30, 35, 122, 171])
def test_inner_trips_in_registers(seed: int) -> None:
    """Long enough for the kernels of all inner loops, or not; runs overlap where each kernel does one iteration, in two
    at a longer interval."""
    target = TARGET if seed % 2 else with_latencies(TARGET, seed)
    function = RandomUnknownNests(target, seed, dynamic=True).function()
    scheduled = schedule(function, target)
    for count in (0, 1, 7):
        assert_same(function, target, seed, count, scheduled=scheduled)
    labels = [line.name for line in scheduled.lines if isinstance(line, LabelLine)]
    assert any(label.endswith("_long") for label in labels) == (seed != 1)


@pytest.mark.parametrize("seed", DEEP)
def test_nests_in_nests(seed: int) -> None:
    """Runs overlap round all loops where trips are long enough; else as before."""
    target = TARGET if seed % 2 else with_latencies(TARGET, seed)
    function = RandomDeepNests(target, seed, dynamic=seed % 3 > 0).function()
    scheduled = schedule(function, target)
    for count in (0, 1, 7):
        _, result = assert_same(function, target, seed, count, scheduled=scheduled)
    assert any("_last_L" in line.name for line in scheduled.lines if isinstance(line, LabelLine))
    with patch.object(plans, "HIGHEST", 0):
        assert result.cycles < assert_same(function, target, seed, 7)[1].cycles


def once_around(loop: Loop) -> Loop:
    """The loop, all of its body in a loop that runs once."""
    once = Loop(f"{loop.label}_once", f"{loop.iterator}_once", 1, 1, (), loop.body, 1)
    return replace(loop, body=(once,))


@pytest.mark.parametrize("seed", [2, 6, 36])
def test_loops_that_run_once_are_none(seed: int) -> None:
    target = with_latencies(TARGET, seed)
    function = RandomNests(target, seed).function()
    body = tuple(once_around(i) if isinstance(i, Loop) and loops_in(i.body) else i for i in function.body)
    assert body != function.body
    changed = assert_same(replace(function, body=body), target, seed, seed % 3)[1]
    assert changed.cycles == assert_same(function, target, seed, seed % 3)[1].cycles


@pytest.mark.parametrize("kind", PIPELINES)
@pytest.mark.parametrize("seed", [10])
def test_pipelines_of_all_kinds(seed: int, kind: PipelineKind) -> None:
    """The branch of a kernel reads no counter that its decrement is on its way to, where that would wait or fault."""
    check(timed(TARGET, seed, kind, ports=seed % 4), seed, dynamic=seed % 4 == 0)


def stages(target: Target, outer: int, trips: Sequence[int]) -> Function:
    """Each inner loop raises vectors of its own part of `a` to the fifth power, and goes on where it was in the last
    run."""
    w = Writer(target)
    arguments = inputs(target, "a")
    width = 4 * target.lanes
    loops: list[Loop] = []
    start = 0
    for number, trip in enumerate(trips):
        stream = VReg(f"a{number}", w.address["vector"])
        pointer(w, stream, arguments[0][0], start)
        before, w.items = w.items, []
        x, power = VReg(f"x{number}", w.vector), VReg(f"power{number}", w.vector)
        terms = ((f"i{number}", width), ("t", width * trip))
        part = MemRef(f"part{number}", start, terms, 4, target.lanes, 4)
        w.memory("vld", "i32", Reg(x), Mem(stream, 0, part), (1, 0))
        w.op("mul", "i32", Reg(power), Reg(x), Reg(x))
        for _ in range(3):
            w.op("mul", "i32", Reg(power), Reg(power), Reg(x))
        w.memory("vst", "i32", Reg(power), Mem(stream, 0, part), (1, 0))
        streams = (Stream(stream, width, "vector"),)
        loops.append(Loop(f"stages_{number}", f"i{number}", 1, trip, streams, tuple(w.items), trip))
        w.items = before
        start += width * trip * outer
    w.items.append(Loop("stages_t", "t", 1, outer, (), tuple(loops), outer))
    return Function("stages", arguments, tuple(w.items))


def run_stages(target: Target, outer: int, trips: Sequence[int]) -> Scheduled:
    function = stages(target, outer, trips)
    values = np.random.default_rng(1).integers(-9, 9, outer * sum(trips) * target.lanes).astype(np.int32)
    scheduled = schedule(function, target)
    text = ".global stages\nstages:\n" + print_lines(scheduled.lines, target)
    result = simulate(text, target, function="stages", arguments=[("a", values.copy())], engine="python")
    np.testing.assert_array_equal(result.outputs["a"], values.astype(np.int64) ** 5)
    assert result.cycles == scheduled.cycles
    assert against_packets(emit_linear(function, target), text, target, [("a", values.copy())]).problems == ()
    return scheduled


@pytest.mark.parametrize("trips", [(2, 2), (3, 20), (20, 3), (9, 2, 15), (40, 40)])
def test_trips_fewer_than_the_stages_and_more(trips: tuple[int, ...]) -> None:
    """In whatever order; the machine has few address registers for it."""
    with ExitStack() as stack:
        stack.enter_context(patch("dspgen.sched.loops.loop_plans._MOST_FLAT", 0))
        stack.enter_context(patch("dspgen.sched.scheduler.flatten_short_loops", lambda body, *_: body))
        cycles = [run_stages(TARGET, outer, trips).cycles for outer in (4, 5)]
        with patch.object(plans, "nest_of", one_inner_loop):
            apart = [run_stages(TARGET, outer, trips).cycles for outer in (4, 5)]
    assert None not in cycles and None not in apart
    assert [c for c in cycles if c] < [c for c in apart if c]


def test_an_address_register_is_filled_as_a_loop_wants_it() -> None:
    """No second register waits beside it for what it begins with, which would keep runs from overlapping."""
    facts = Facts(TARGET)
    kit = Kit(facts)
    scalar, stream, base = VReg("s", kit.scalar), VReg("a", "ARV"), VReg("b", "ARV")
    group = Group(Stream(stream, 64, "vector"), base, 12, Access(0, 0, 12, 4, False, False, None), (), None)
    fill = Instr(next(i for i in TARGET.instructions if i.id == "SMVAGA32"), (Reg(scalar), Reg(stream)))
    code = with_biased_bases([fill, *kit.add(scalar, scalar, 1), *kit.add(base, stream, 12)], [group], facts, kit)
    after = remove_dead(code, facts.atoms(base), facts)
    assert [i.instruction.id for i in after] == ["SADD", "SMVAGA32"]
    assert after[0].operands[:2] == (Imm(12), Reg(scalar)) and after[1].operands[1] == Reg(base)
    lost = with_biased_bases([fill, *kit.add(stream, stream, 4), *kit.add(base, stream, 12)], [group], facts, kit)
    assert len(lost) == 3, "the register has another value by then"


def test_lessons_of_a_piece_are_those_of_the_whole_under_its_labels() -> None:
    lessons = Lessons(
        {"L": 5}, {"L": {"VR": 2}}, {"L": 1}, {"M": (9, "no registers")}, frozenset("L"), frozenset("N"), frozenset("M")
    )
    settings = Settings()
    settings.learn(lessons.under("b0.") | Lessons(copy_predicates=True))
    assert settings.least_interval == {"b0.L": 5} and settings.plain == {"b0.M": (9, "no registers")}
    assert settings.scarce == {"b0.L"} and settings.apart_runs == {"b0.N"} and settings.copy_predicates
    settings.squeeze["b0.L"]["VR"] += 1
    assert lessons.squeeze["L"]["VR"] == 2 and settings.lessons().squeeze["b0.L"]["VR"] == 3


def test_a_schedule_begins_with_what_was_learnt(examples: Path) -> None:
    function = compile_file(str(examples / "stencil3.c"), TARGET, Options()).assembly
    loop = next(x for x in schedule(function, TARGET).loops if x.pipelined)
    after = schedule(function, TARGET, lessons=Lessons(least_interval={loop.label: loop.ii + 9}))
    assert next(x for x in after.loops if x.label == loop.label).ii == loop.ii + 9
    assert after.lessons.least_interval == {loop.label: loop.ii + 9}
