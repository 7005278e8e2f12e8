"""Linear assembly for scheduler tests, made from a target's own instructions, and its meaning by direct evaluation."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np

from dspgen.asmir.ir.function import (
    Function,
    If,
    Imm,
    Instr,
    Item,
    Loop,
    Mem,
    MemRef,
    OperandValue,
    Predicate,
    Reg,
    Stream,
    VReg,
)
from dspgen.check.equivalence import check as against_packets
from dspgen.emit.linear import emit_linear
from dspgen.emit.text import print_lines
from dspgen.sched.ir.packets import Scheduled
from dspgen.sched.scheduler import schedule
from dspgen.sim.run import SimResult, simulate
from dspgen.target.isa.model import Instruction, Target
from dspgen.target.query.operations import Form, OperationTable
from plant_core.support.memoize import few_by_identity


class Writer:
    """Appends instructions found by what they do to `items`."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.table = OperationTable(target)
        self.items: list[Item] = []
        self.meaning: dict[str, str] = {}
        self.scalar = target.abi.scalar_class
        self.vector = next(c.name for c in target.registers if c.kind == "vector" and c.pair_of is None)
        self.vector_pair = next(c.name for c in target.registers if c.pair_of == self.vector)
        self.address = target.address_modes.base_classes

    def form(
        self, op: str, elem: str, result: str | None, args: tuple[str | int, ...], *, predicated: bool = False
    ) -> Form:
        for form in self.table.forms(op, elem):
            if result is not None and result not in form.result_operand.classes:
                continue
            if len(form.args) != len(args) or (predicated and form.instruction.predicable == "none"):
                continue
            fits = True
            for k, arg in enumerate(args):
                operand = form.operand(k)
                if isinstance(arg, int):
                    fits &= operand.imm is not None and operand.imm[0] <= arg <= operand.imm[1]
                elif arg != "memory":
                    fits &= arg in operand.classes
            if fits:
                return form
        raise LookupError(f"{op}.{elem} {result} {args}")

    def op(self, op: str, elem: str, target: Reg, *args: Reg | int, predicate: Predicate | None = None) -> None:
        classes = tuple(a if isinstance(a, int) else self.cls(a) for a in args)
        form = self.form(op, elem, self.cls(target), classes, predicated=predicate is not None)
        values: dict[str, OperandValue] = {form.result: target}
        for name, arg in zip(form.args, args, strict=True):
            values[name] = Imm(arg) if isinstance(arg, int) else arg
        self._emit(form, values, f"{op}.{elem}", predicate)

    def cls(self, reg: Reg) -> str:
        base = self.target.register_class(reg.vreg.cls).pair_of
        return base if reg.part and base else reg.vreg.cls

    def memory(self, op: str, elem: str, data: Reg, mem: Mem, shape: tuple[int, ...] = ()) -> None:
        for form in self.table.forms(op, elem):
            operand = form.result_operand if form.result else form.operand(1)
            if form.shape == shape and self.cls(data) in operand.classes:
                values: dict[str, OperandValue] = {form.args[0]: mem, operand.name: data}
                self._emit(form, values, f"{op}.{elem}", None)
                return
        raise LookupError(f"{op}.{elem}")

    def constant(self, target: Reg, value: int) -> None:
        """A small constant, by the instruction that sign-extends an immediate."""
        for instruction in self.target.instructions:
            found = instruction.semantics[0].value if len(instruction.semantics) == 1 else None
            if found is not None and found.op == "sext" and len(instruction.operands) == 2 and instruction.compile:
                amount, result = instruction.operands
                if amount.kind == "immediate" and self.cls(target) in result.classes:
                    self._raw(instruction, (Imm(value), target), "const")
                    return
        raise LookupError("constant")

    def pointer(self, target: Reg, pair: Reg) -> None:
        self.op("addr", "", target, pair)

    def _emit(self, form: Form, values: dict[str, OperandValue], meaning: str, predicate: Predicate | None) -> None:
        instr = Instr(form.instruction, tuple(values[o.name] for o in form.instruction.operands), predicate)
        self.items.append(replace(instr, comment=meaning))

    def _raw(self, instruction: Instruction, operands: tuple[OperandValue, ...], meaning: str) -> None:
        self.items.append(Instr(instruction, operands, comment=meaning))


def evaluate(function: Function, target: Target, memory: dict[str, np.ndarray], arguments: dict[str, int]) -> None:
    """Run linear assembly in order on integer arrays; `arguments` are the scalar inputs."""
    _Evaluator(function, target, memory, arguments).run()


class _Evaluator:
    BASE = 1 << 20

    def __init__(
        self, function: Function, target: Target, memory: dict[str, np.ndarray], arguments: dict[str, int]
    ) -> None:
        self.function, self.target, self.memory = function, target, memory
        self.arrays = {self.BASE * (k + 1): a for k, a in enumerate(memory.values())}
        self.state: dict[tuple[VReg, str], np.ndarray | int] = {}
        addresses = dict(zip(memory, self.arrays, strict=True))
        for register, _ in function.inputs:
            if register.name in addresses:
                self.state[(register, "lo")], self.state[(register, "hi")] = addresses[register.name], 0
            else:
                self.state[(register, "")] = arguments[register.name]

    def run(self) -> None:
        self.items(self.function.body)

    def items(self, items: tuple[Item, ...]) -> None:
        for item in items:
            match item:
                case Instr():
                    self.instr(item)
                case Loop():
                    trip = item.trip if isinstance(item.trip, int) else int(self.state[(item.trip, "")])
                    for _ in range(trip):
                        self.items(item.body)
                        for s in item.streams:
                            self.state[(s.base, "")] = int(self.state[(s.base, "")]) + s.step
                case If():
                    self.items(item.then if self.state[(item.condition, "")] else item.otherwise)

    def instr(self, instr: Instr) -> None:
        predicate = instr.predicate
        lanes: np.ndarray | None = None
        if predicate is not None:
            value = self.state[(predicate.register, "")]
            if predicate.lane:
                lanes = (np.asarray(value) == 0) if predicate.negated else (np.asarray(value) != 0)
            elif bool(value) == predicate.negated:
                return
        values = {o.name: v for o, v in zip(instr.instruction.operands, instr.operands, strict=True)}
        results = [(s.target, self.value(s.value, values, lanes)) for s in instr.instruction.semantics]
        for place, result in results:
            if place is None:
                continue
            register = values[place.name]
            assert isinstance(register, Reg)
            key = (register.vreg, place.part or register.part)
            if key[1] == "" and self.target.register_class(register.vreg.cls).pair_of:
                self.state[(register.vreg, "lo")] = result & 0xFFFFFFFF
                self.state[(register.vreg, "hi")] = result >> 32
            elif lanes is not None:
                self.state[key] = np.where(lanes, result, self.state[key])
            else:
                self.state[key] = result

    def value(self, expr: object, values: dict[str, OperandValue], lanes: np.ndarray | None) -> object:
        match expr.op:
            case "int":
                return expr.value
            case "place":
                operand = values[expr.name]
                if isinstance(operand, Imm):
                    return operand.value
                part = expr.part or operand.part
                pair = self.target.register_class(operand.vreg.cls).pair_of
                if pair and not part:
                    return self.state[(operand.vreg, "lo")]
                return self.state[(operand.vreg, part)]
            case "ld" | "vld":
                array, at = self.place(values[expr.args[0].name])
                if expr.op == "ld":
                    return int(array[at])
                stride, first = expr.args[1].value, expr.args[2].value
                return array[at + first + stride * np.arange(self.target.lanes)].astype(np.int64)
            case "st":
                array, at = self.place(values[expr.args[0].name])
                array[at] = self.value(expr.args[1], values, lanes)
                return None
            case "vst":
                array, at = self.place(values[expr.args[0].name])
                stride, first = expr.args[1].value, expr.args[2].value
                data = np.broadcast_to(self.value(expr.args[3], values, lanes), self.target.lanes)
                for k in range(self.target.lanes):
                    if lanes is None or lanes[k]:
                        array[at + first + stride * k] = data[k]
                return None
            case _:
                args = [self.value(a, values, lanes) for a in expr.args]
                return _wrapped(_OPERATIONS[expr.op](*args), expr.type)

    def place(self, mem: OperandValue) -> tuple[np.ndarray, int]:
        assert isinstance(mem, Mem) and isinstance(mem.base, VReg)
        address = int(self.state[(mem.base, "")]) + mem.offset
        base = address // self.BASE * self.BASE
        return self.arrays[base], (address - base) // 4


def _wrapped(value: object, kind: str) -> object:
    if kind != "i32":
        return value
    return (np.asarray(value, dtype=np.int64) + (1 << 31)) % (1 << 32) - (1 << 31)


_OPERATIONS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "lt": lambda a, b: np.asarray(a < b).astype(np.int64),
    "eq": lambda a, b: np.asarray(a == b).astype(np.int64),
    "max": np.maximum,
    "mac16": lambda a, b, c: _half(a) * _half(b) + c,
    "sext": lambda a, bits: (a + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1)),
    "set_high": lambda a, b: (a & 0xFFFF) | ((b & 0xFFFF) << 16),
    "bcast": lambda a: a,
    "addr": lambda a: a,
    "mov": lambda a: a,
    "zext": lambda a, bits: a % (1 << bits),
}


def _half(value: object) -> object:
    return (np.asarray(value, dtype=np.int64) + 0x8000) % 0x10000 - 0x8000


class RandomProgram:
    """A program over three arrays: straight code, loops of streams and carried values, predicates, conditionals."""

    WORDS = 1 << 14

    def __init__(self, target: Target, seed: int, *, dynamic: bool = False, scalar_streams: int = 1) -> None:
        self.random = random.Random(seed)
        self.target = target
        self.writer = w = Writer(target)
        self.dynamic = dynamic
        self.scalar_streams = scalar_streams
        self.scalars = [VReg(f"s{k}", w.scalar) for k in range(5)]
        self.predicates = [VReg(f"p{k}", w.scalar) for k in range(2)]
        self.vectors = [VReg(f"v{k}", w.vector) for k in range(5)]
        self.pairs = [VReg(f"vp{k}", w.vector_pair) for k in range(2)]
        self.pointers = [VReg(n, target.abi.pointer_class) for n in "abc"]
        self.count = VReg("n", w.scalar)
        self.names = 0

    def fresh(self, cls: str) -> VReg:
        self.names += 1
        return VReg(f"t{self.names}", cls)

    def function(self) -> Function:
        w = self.writer
        for k, r in enumerate([*self.scalars, *self.predicates, *self.vectors]):
            w.constant(Reg(r), self.random.randint(-9, 9) if k % 3 else 3)
        for r in self.pairs:
            for part in ("lo", "hi"):
                w.constant(Reg(r, part), self.random.randint(-9, 9))
        for _ in range(self.random.randint(1, 3)):
            self.straight(self.random.randint(0, 5), {}, None)
            self.loop(0)
        self.straight(3, {}, None)
        self.save()
        names = self.target.abi.arguments
        pairs = self.target.register_class(self.target.abi.pointer_class)
        single = self.target.register_class(pairs.pair_of or pairs.name).names
        inputs = []
        for k, pointer in enumerate(self.pointers):
            inputs.append((pointer, pairs.names[single.index(names[k]) // 2] if pairs.pair_of else names[k]))
        inputs.append((self.count, names[3]))
        return Function("program", tuple(inputs), tuple(w.items))

    def save(self) -> None:
        """Everything that is in registers goes to the end of the third array."""
        base = self.base(2, -16384, "scalar")
        for k, r in enumerate([*self.scalars, *self.predicates]):
            self.writer.memory("st", "i32", Reg(r), Mem(base, 4 * k, None))
        base = self.base(2, -16000, "vector")
        for k, r in enumerate(self.vectors):
            self.writer.memory("vst", "i32", Reg(r), Mem(base, 64 * k, None), (1, 0))
        for k, r in enumerate(self.pairs):
            for h, part in enumerate(("lo", "hi")):
                self.writer.memory("vst", "i32", Reg(r, part), Mem(base, 320 + 128 * k + 64 * h, None), (1, 0))

    def base(self, array: int, offset: int, side: str) -> VReg:
        """An address register at `offset` bytes from the middle of an array."""
        w = self.writer
        pair, amount = self.fresh(self.target.abi.pointer_class), self.fresh(w.scalar)
        w.constant(Reg(amount), 32768 // 2 + offset // 2)
        w.op("add", "i32", Reg(amount), Reg(amount), Reg(amount))
        pointer = self.pointers[array]
        w.op("add", "i32", Reg(pair, "lo"), Reg(pointer, "lo"), Reg(amount))
        w.op("mov", "i32", Reg(pair, "hi"), Reg(pointer, "hi"))
        register = self.fresh(w.address[side])
        w.pointer(Reg(register), Reg(pair))
        return register

    def loop(self, depth: int) -> None:
        w, rng = self.writer, self.random
        trip = rng.choice([1, 2, 3, 5, 7, 8, 13, 16, 21]) if depth == 0 else rng.choice([1, 2, 4, 6, 9, 17])
        self.names += 1
        iterator = f"i{self.names}"
        streams: dict[str, list[tuple[VReg, int, int, int]]] = {"scalar": [], "vector": []}
        for side in ("scalar", "vector"):
            for _ in range(rng.randint(0, 3 if side == "vector" else self.scalar_streams)):
                step = rng.choice([4, 8, 64, 128, -4, -64, 320] if side == "scalar" else [64, 128, 4, -64, 192, 1088])
                array, offset = rng.randint(0, 2), rng.randint(-8, 8) * 64
                streams[side].append((self.base(array, offset, side), step, array, offset))
        outer = w.items
        w.items = []
        nested = depth < 2 and rng.random() < (0.5 if depth == 0 else 0.3)
        self.straight(rng.randint(1, 12), streams, iterator)
        if nested:
            self.loop(depth + 1)
            self.straight(rng.randint(0, 6), streams, iterator)
        count: int | VReg = trip
        if self.dynamic and rng.random() < 0.7:
            count = self.fresh(w.scalar)
            body, w.items = w.items, outer
            w.op("add", "i32", Reg(count), rng.randint(0, 20), Reg(self.count))
            w.items = body
        listed = tuple(Stream(b, step, side) for side, found in streams.items() for b, step, _, _ in found)
        w.items, body = outer, tuple(w.items)
        w.items.append(Loop(f"L{iterator}", iterator, 1, count, listed, body, trip if count == trip else 0))
        if rng.random() < 0.3:
            self.straight(2, streams, None)

    def straight(self, size: int, streams: dict[str, list[tuple[VReg, int, int, int]]], iterator: str | None) -> None:
        for _ in range(size):
            self.random.choice(
                [self.scalar_op, self.vector_op, self.vector_op, self.predicated, self.pair_op]
                + ([self.access] * 3 if streams else [])
            )(streams, iterator)
            if not streams and self.random.random() < 0.05:
                self.conditional()

    def conditional(self) -> None:
        w = self.writer
        outer, bodies = w.items, list[tuple[Item, ...]]()
        for _ in range(self.random.choice((1, 2))):
            w.items = []
            self.scalar_op({}, None)
            self.vector_op({}, None)
            bodies.append(tuple(w.items))
        w.items = outer
        w.items.append(If(self.random.choice(self.scalars), *bodies))

    def scalar_op(self, streams: object, iterator: str | None) -> None:
        rng = self.random
        op = rng.choice(["add", "sub", "mul", "xor", "lt", "max", "and"])
        d, a, b = (rng.choice(self.scalars) for _ in range(3))
        self.writer.op(op, "i32", Reg(d), Reg(a), Reg(b))

    def vector_op(self, streams: object, iterator: str | None) -> None:
        rng = self.random
        d, a, b, c = (rng.choice(self.vectors) for _ in range(4))
        kind = rng.choice(["add", "sub", "mul", "mac16", "bcast", "mov"])
        if kind == "mac16":
            acc = rng.choice([d, d, c])
            self.writer.op("mac16", "i32", Reg(d), Reg(a), Reg(b), Reg(acc))
        elif kind == "bcast":
            self.writer.op("bcast", "i32", Reg(d), Reg(rng.choice(self.scalars)))
        elif kind == "mov":
            self.writer.op("mov", "i32", Reg(d), Reg(a))
        else:
            self.writer.op(kind, "i32", Reg(d), Reg(a), Reg(b))

    def predicated(self, streams: object, iterator: str | None) -> None:
        rng = self.random
        p = rng.choice(self.predicates)
        if rng.random() < 0.4:
            self.writer.op("lt", "i32", Reg(p), Reg(rng.choice(self.scalars)), Reg(rng.choice(self.scalars)))
        else:
            d, a, b = (rng.choice(self.scalars) for _ in range(3))
            predicate = Predicate(p, negated=rng.random() < 0.5)
            self.writer.op("add", "i32", Reg(d), Reg(a), Reg(b), predicate=predicate)

    def pair_op(self, streams: object, iterator: str | None) -> None:
        rng = self.random
        pair, part = rng.choice(self.pairs), rng.choice(["lo", "hi"])
        v, u = rng.choice(self.vectors), rng.choice(self.vectors)
        if rng.random() < 0.5:
            self.writer.op("add", "i32", Reg(pair, part), Reg(v), Reg(u))
        else:
            self.writer.op("add", "i32", Reg(v), Reg(pair, part), Reg(u))

    def access(self, streams: dict[str, list[tuple[VReg, int, int, int]]], iterator: str | None) -> None:
        rng = self.random
        side = rng.choice(["scalar", "vector"])
        if not streams.get(side):
            return
        base, step, array, start = rng.choice(streams[side])
        name = "abc"[array]
        offset = rng.choice([0, 0, 1, 2, 3, 5, 16, 17, 31]) * (4 if side == "scalar" else rng.choice([4, 64]))
        lanes = self.target.lanes if side == "vector" else 1
        kind = rng.choice(["load", "load", "store", "pair load"])
        reach = 2 * lanes if kind == "pair load" and side == "vector" else lanes
        reference = MemRef(name, start + offset, ((iterator, step),) if iterator else (), 4, reach, 4)
        mem = Mem(base, offset, reference if rng.random() < 0.85 else None)
        w = self.writer
        if side == "scalar":
            register = Reg(rng.choice(self.scalars))
            w.memory("st" if kind == "store" else "ld", "i32", register, mem)
        elif kind == "pair load" and offset % 8 == 0 and step % 8 == 0:
            w.memory("vld_pair", "i32", Reg(rng.choice(self.pairs)), mem, (1, 0, 1, lanes))
        else:
            register = Reg(rng.choice(self.vectors))
            w.memory("vst" if kind == "store" else "vld", "i32", register, mem, (1, 0))


def random_memory(seed: int) -> dict[str, np.ndarray]:
    """The arrays of a random program."""
    random = np.random.default_rng(seed)
    return {name: random.integers(-100, 100, RandomProgram.WORDS).astype(np.int32) for name in "abc"}


def assert_same(
    function: Function,
    target: Target,
    seed: int,
    count: int,
    *,
    pipeline: bool = True,
    scheduled: Scheduled | None = None,
) -> tuple[Scheduled, SimResult]:
    """A random program's packets do what its text does when run in order, by the simulator on random arrays and by the
    schedule checker, in as many cycles as the scheduler tells. `scheduled`: its packets, if they are at hand."""
    memory = random_memory(seed)
    expected = {name: array.copy() for name, array in memory.items()}
    evaluate(function, target, expected, {"n": count})
    scheduled = scheduled or schedule(function, target, pipeline=pipeline)
    text = _packets_text(scheduled, target)
    arguments = [*memory.items(), ("n", count)]
    result = simulate(text, target, function="program", arguments=arguments, engine="python", limit=500_000)
    for name, array in expected.items():
        np.testing.assert_array_equal(result.outputs[name], array, err_msg=name)
    assert result.stalls == 0
    if scheduled.cycles is not None:
        assert scheduled.cycles == result.cycles
    assert against_packets(_linear_text(function, target), text, target, arguments).problems == ()
    return scheduled, result


@few_by_identity
def _packets_text(scheduled: Scheduled, target: Target) -> str:
    return ".global program\nprogram:\n" + print_lines(scheduled.lines, target)


@few_by_identity
def _linear_text(function: Function, target: Target) -> str:
    return emit_linear(function, target)


def with_latencies(target: Target, seed: int) -> Target:
    """The same machine with other latencies."""
    rng = random.Random(seed)
    changed = []
    for instruction in target.instructions:
        latency = rng.randint(1, 11)
        operands = tuple(replace(o, latency=latency) for o in instruction.operands)
        changed.append(replace(instruction, operands=operands))
    pipeline = replace(target.pipeline, branch_delay=rng.randint(0, 9))
    return replace(target, instructions=tuple(changed), pipeline=pipeline)
