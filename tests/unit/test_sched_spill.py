"""More values alive at once than there are registers: they wait in memory, and nothing else changes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dspgen.asmir.ir.function import Function, If, Item, Loop, Mem, Phys, Predicate, Reg, VReg
from dspgen.backend.stages import schedule_remarks
from dspgen.emit.text import print_lines
from dspgen.errors import NoSchedule
from dspgen.sched.graph.liveness import NOTHING
from dspgen.sched.graph.lower_bound import TooSlow
from dspgen.sched.graph.synthesized_instrs import Kit
from dspgen.sched.ir.packets import Packet
from dspgen.sched.layout.function_layout import Layout
from dspgen.sched.loops.attempt_state import Settings
from dspgen.sched.machine.target_facts import Facts
from dspgen.sched.registers.spilling import Stack
from dspgen.sched.scheduler import schedule
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target
from tests.support.sched_programs import RandomProgram, Writer, assert_same, with_latencies

TARGET = load_target("ft_m7002")


class Crowded(RandomProgram):
    """Chains of values, all of them read after the last is made; a loop and a conditional in between."""

    def crowd(self, scalars: int, vectors: int, pairs: int, *, between: bool) -> Function:
        base = super().function()
        w, rng = self.writer, self.random
        w.items = list(base.body)
        s = [self.fresh(w.scalar) for _ in range(scalars)]
        v = [self.fresh(w.vector) for _ in range(vectors)]
        p = [self.fresh(w.vector_pair) for _ in range(pairs)]
        self.chain([Reg(r) for r in s], Reg(self.scalars[0]))
        self.chain([Reg(r) for r in v], Reg(self.vectors[0]))
        self.chain([Reg(r, part) for r in p for part in ("lo", "hi")], Reg(self.vectors[1]))
        if between:
            self.between(s, v)
        self.fold([Reg(r) for r in s], Reg(self.scalars[0]))
        self.fold([Reg(r) for r in v], Reg(self.vectors[0]))
        self.fold([Reg(r, part) for r in p for part in ("lo", "hi")], Reg(self.vectors[1]))
        for r in rng.sample(s, min(len(s), 5)):
            w.op("add", "i32", Reg(self.scalars[1]), Reg(self.scalars[1]), Reg(r), predicate=Predicate(s[-1]))
        self.save()
        return replace(base, body=tuple(w.items))

    def chain(self, values: list[Reg], seed: Reg) -> None:
        for k, value in enumerate(values):
            before = values[k - 1] if k else seed
            self.writer.op(self.random.choice(["add", "sub"]), "i32", value, before, seed if k % 2 else before)

    def fold(self, values: list[Reg], result: Reg) -> None:
        order = list(values)
        self.random.shuffle(order)
        for value in order[::-1] if order else []:
            self.writer.op("sub", "i32", result, result, value)

    def between(self, s: list[VReg], v: list[VReg]) -> None:
        w, rng = self.writer, self.random
        outer, w.items = w.items, []
        for _ in range(4):
            if s:
                a, b = rng.choice(s), rng.choice(s)
                w.op("add", "i32", Reg(a), Reg(a), Reg(b), predicate=Predicate(rng.choice(s)))
            if v:
                a, b = rng.choice(v), rng.choice(v)
                w.op("add", "i32", Reg(a), Reg(a), Reg(b))
        body: tuple[Item, ...] = tuple(w.items)
        self.names += 1
        outer.append(Loop(f"C{self.names}", f"j{self.names}", 1, 11, (), body, 11))
        bodies: list[tuple[Item, ...]] = []
        for name in ("sub", "xor"):
            w.items = []
            if s:
                w.op(name, "i32", Reg(s[0]), Reg(s[0]), Reg(s[-1]))
            bodies.append(tuple(w.items))
        outer.append(If(rng.choice(s) if s else self.scalars[0], *bodies))
        w.items = outer


def check(function: Function, target: Target, seed: int) -> str:
    scheduled, _ = assert_same(function, target, seed, seed % 7)
    members = [m for line in scheduled.lines if isinstance(line, Packet) for m in line.members]
    return "\n".join(m.comment for m in members)


@pytest.mark.parametrize("scalars", [48, 60, 80, 100])
@pytest.mark.parametrize("between", [False, True])
def test_many_scalars(scalars: int, between: bool) -> None:
    function = Crowded(TARGET, scalars).crowd(scalars, 0, 0, between=between)
    comments = check(function, TARGET, scalars)
    assert "reload" in comments


@pytest.mark.parametrize("vectors", [60, 75, 100])
@pytest.mark.parametrize("between", [False, True])
def test_many_vectors(vectors: int, between: bool) -> None:
    function = Crowded(TARGET, vectors).crowd(0, vectors, 0, between=between)
    check(function, TARGET, vectors)


@pytest.mark.parametrize("pairs", [31, 40])
def test_many_pairs(pairs: int) -> None:
    function = Crowded(TARGET, pairs).crowd(10, 10, pairs, between=True)
    assert "reload" in check(function, TARGET, pairs)


@pytest.mark.parametrize("seed", range(4))
def test_everything_at_once_with_other_latencies(seed: int) -> None:
    target = with_latencies(TARGET, seed)
    function = Crowded(target, seed, dynamic=seed % 2 == 0).crowd(60 + 9 * seed, 60, 10, between=True)
    assert "reload" in check(function, target, seed)


@pytest.mark.parametrize("seed", range(2))
def test_registers_that_change_at_issue(seed: int) -> None:
    target = replace(TARGET, pipeline=replace(TARGET.pipeline, equals=False))
    check(Crowded(target, seed).crowd(70, 70, 0, between=True), target, seed)


def test_same_bytes_every_time() -> None:
    function = Crowded(TARGET, 3).crowd(70, 70, 0, between=True)
    first, second = (print_lines(schedule(function, TARGET).lines, TARGET) for _ in range(2))
    assert first == second


class Rounds(RandomProgram):
    """Rounds of code, the second of them in a loop or not, before everything is saved."""

    def rounds(self, number: int, write: Callable[[], None], *, looped: bool) -> tuple[Item, ...]:
        w = self.writer
        outer = w.items
        for turn in range(number):
            w.items = []
            write()
            if looped and turn == 1:
                self.names += 1
                outer.append(Loop(f"C{self.names}", f"j{self.names}", 1, 9, (), tuple(w.items), 9))
            else:
                outer += w.items
        w.items = outer
        self.save()
        return tuple(w.items)


class Conditions(Rounds):
    """Many conditions alive at once, each looked at several times, one after the other."""

    def many(self, scalars: int, lanes: int, *, looped: bool) -> Function:
        base = super().function()
        w = self.writer
        w.items = list(base.body)
        s = [self.fresh(w.scalar) for _ in range(scalars)]
        v = [self.fresh(w.vector) for _ in range(lanes)]
        for table, variables in ((s, self.scalars), (v, self.vectors)):
            for k, r in enumerate(table):
                w.op("add", "i32", Reg(variables[k % 4]), Reg(variables[(k + 1) % 4]), Reg(variables[(k + 2) % 5]))
                test = "lt" if table is s else "sub"
                w.op(test, "i32", Reg(r), Reg(variables[k % 4]), Reg(variables[(k + 3) % 5]))

        def look() -> None:
            for table, variables, lane in ((s, self.scalars, False), (v, self.vectors, True)):
                for k in self.random.sample(range(len(table)), len(table)):
                    predicate = Predicate(table[k], self.random.random() < 0.5, lane)
                    w.op("add", "i32", Reg(variables[0]), Reg(variables[0]), Reg(variables[k % 5]), predicate=predicate)

        return replace(base, body=self.rounds(3, look, looped=looped))


@pytest.mark.parametrize("looped", [False, True])
@pytest.mark.parametrize("scalars, lanes", [(0, 12), (12, 0), (9, 15), (40, 0)])
def test_many_conditions(scalars: int, lanes: int, looped: bool) -> None:
    check(Conditions(TARGET, scalars + lanes).many(scalars, lanes, looped=looped), TARGET, scalars)


class Addressed(Rounds):
    """Many address registers alive at once: what they point to is changed twice, in another order each time."""

    def places(self, vectors: int, scalars: int, *, looped: bool) -> Function:
        base = super().function()
        w = self.writer
        w.items = list(base.body)
        found = [(self.base(1, 64 * k, "vector"), "vector") for k in range(vectors)]
        found += [(self.base(0, 4 * k, "scalar"), "scalar") for k in range(scalars)]

        def change() -> None:
            for register, side in self.random.sample(found, len(found)):
                vector = side == "vector"
                shape = (1, 0) if vector else ()
                value, total = (Reg((self.vectors if vector else self.scalars)[k]) for k in range(2))
                w.memory("vld" if vector else "ld", "i32", value, Mem(register, 0, None), shape)
                w.op("add", "i32", total, total, value)
                w.memory("vst" if vector else "st", "i32", total, Mem(register, 0, None), shape)

        return replace(base, body=self.rounds(2, change, looped=looped))


@pytest.mark.parametrize("looped", [False, True])
@pytest.mark.parametrize("vectors, scalars", [(7, 7), (12, 4), (4, 12), (15, 0)])
def test_addresses_wait_in_registers_of_other_classes(vectors: int, scalars: int, looped: bool) -> None:
    function = Addressed(TARGET, vectors).places(vectors, scalars, looped=looped)
    scheduled, _ = assert_same(function, TARGET, vectors, 3)
    crowded = max(vectors, scalars) > 8
    assert any("for a register of class A" in text for text in scheduled.waiting) is crowded


def test_places_lie_below_local_arrays_and_apart() -> None:
    facts = Facts(TARGET)
    stack = Stack(facts, Kit(facts), (("vector", 1000),))
    scalar = TARGET.abi.scalar_class
    vector = next(c for c in TARGET.registers if c.kind == "vector" and c.pair_of is None)
    size = vector.bits // 8 * TARGET.lanes
    assert [stack.place(vector.name) for _ in range(2)] == [-1024 - size, -1024 - 2 * size]
    assert [stack.place(scalar), stack.place(TARGET.abi.pointer_class), stack.place(scalar)] == [-4, -16, -20]


def test_what_waits_in_memory_is_told() -> None:
    scheduled = schedule(Crowded(TARGET, 80).crowd(100, 0, 0, between=False), TARGET)
    scalar = TARGET.abi.scalar_class
    assert any("on the stack" in text and f"class {scalar}" in text for text in scheduled.waiting)
    assert [r for r in schedule_remarks(scheduled) if r.kind == "spilled"]


def test_a_loop_that_is_not_pipelined_says_why() -> None:
    scheduled = schedule(Crowded(TARGET, 60).crowd(60, 0, 0, between=True), TARGET)
    (told,) = (r.message for r in schedule_remarks(scheduled) if r.kind == "not-pipelined")
    assert "predicate registers needed" in told


def test_a_loop_that_gave_up_its_pipeline_keeps_the_reason() -> None:
    facts = Facts(TARGET)
    writer = Writer(TARGET)
    value = Reg(VReg("x", writer.scalar))
    writer.op("add", "i32", value, value, value)
    layout = Layout(facts, Kit(facts), Settings(plain={"L": (7, "too few registers")}), "f")
    layout.body((Loop("L", "i", 1, 9, (), tuple(writer.items), 9),), NOTHING)
    assert [(r.pipelined, r.tried) for r in layout.laid.reports] == [(False, ((7, "too few registers"),))]


def test_code_that_lacks_registers_is_given_up_where_it_is_too_slow_or_large() -> None:
    crowded = Crowded(TARGET, 80).crowd(100, 0, 0, between=False)
    cycles = schedule(crowded, TARGET).cycles
    assert cycles is not None
    assert schedule(crowded, TARGET, limit=cycles + 1, largest=10_000).cycles == cycles
    with pytest.raises(TooSlow) as slow:
        schedule(crowded, TARGET, limit=10)
    assert 10 <= slow.value.cycles <= cycles
    with pytest.raises(NoSchedule):
        schedule(crowded, TARGET, largest=50)


def test_other_code_that_is_as_good_is_asked_for_once_before_values_wait_in_memory() -> None:
    crowded = Crowded(TARGET, 80).crowd(100, 0, 0, between=False)
    alone = schedule(crowded, TARGET)
    assert alone.cycles is not None and alone.waiting
    asked: list[float] = []

    def tells(cycles: float) -> Callable[[], float]:
        return lambda: asked.append(cycles) or cycles

    assert schedule(crowded, TARGET, instead=tells(math.inf)).lines == alone.lines
    with pytest.raises(TooSlow) as slow:
        schedule(crowded, TARGET, instead=tells(10.0))
    assert slow.value.cycles >= 10
    assert asked == [math.inf, 10.0]
    few = Crowded(TARGET, 80).crowd(4, 0, 0, between=False)
    assert schedule(few, TARGET, instead=tells(1.0)).lines == schedule(few, TARGET).lines
    assert len(asked) == 2


def test_a_stack_pointer_among_the_scalars_is_an_address(tmp_path: Path) -> None:
    """Where the class of addresses is some of the scalars, places far below the pointer are reached as elsewhere."""
    text = (Path(__file__).parents[1] / "isa" / "quad.toml").read_text(encoding="utf-8")
    path = tmp_path / "shared.toml"
    path.write_text(text.replace('names = "p{0..7}"', 'names = "r{20..27}"').replace('"p7"', '"r27"'))
    facts = Facts(load_target(str(path)))
    kit = Kit(facts)
    assert (kit.class_of("r27"), kit.class_of("r26")) == ("A", "S")
    made = kit.add(VReg("far", "A"), Phys("r27"), -44164)
    assert Phys("r27") in made[-1].operands
