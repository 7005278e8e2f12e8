"""Changes to linear assembly before scheduling: loops unrolled or flattened, address registers split or advanced.

A copy of a loop body for a later iteration has its stream offsets moved by the steps between; memory references keep
the loop's iterator, standing for its value at the first copy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from dspgen.asmir.ir.function import (
    UNKNOWN,
    If,
    Instr,
    Item,
    Jump,
    Loop,
    Mark,
    Mem,
    MemRef,
    OperandValue,
    Phys,
    Place,
    Predicate,
    Reg,
    VReg,
    reads,
    writes,
)
from dspgen.sched.graph.liveness import NOTHING, Live, live_before, registers
from dspgen.sched.graph.synthesized_instrs import Kit
from dspgen.sched.machine.target_facts import Facts, displaced


def is_innermost(loop: Loop) -> bool:
    return all(isinstance(item, Instr) for item in loop.body)


def instructions(items: Iterable[Item]) -> list[Instr]:
    return [item for item in items if isinstance(item, Instr)]


def touched(loop: Loop) -> frozenset[VReg]:
    """The registers that an innermost loop reads, writes and advances."""
    named = (r for i in instructions(loop.body) for r, _ in (*reads(i), *writes(i)))
    return frozenset((*named, *(s.base for s in loop.streams)))


def later_iteration(loop: Loop, count: int) -> list[Instr]:
    """The body as the `count`-th iteration from now would do it, address registers still standing where they are."""
    steps = {s.base: s.step * count for s in loop.streams}
    body = [
        replace(instr, operands=tuple(_moved(v, steps, loop.iterator, loop.step * count) for v in instr.operands))
        for instr in instructions(loop.body)
    ]
    return [_renewed(instr, f"{count}", loop) for instr in body] if count else body


def _moved(value: OperandValue, steps: dict[VReg, int], iterator: str, advance: int) -> OperandValue:
    if isinstance(value, Place):
        return replace(value, access=advanced(value.access, iterator, advance))
    if not isinstance(value, Mem):
        return value
    shift = steps.get(value.base, 0) if isinstance(value.base, VReg) else 0
    return Mem(value.base, value.offset + shift, advanced(value.access, iterator, advance))


def advanced(access: MemRef | None, iterator: str, advance: int) -> MemRef | None:
    """The reference with its iterator's value `advance` further."""
    if access is None:
        return None
    shift = dict(access.terms).get(iterator, 0) * advance
    return replace(access, constant=access.constant + shift) if shift else access


def next_iteration(loop: Loop, instrs: Iterable[Instr]) -> list[Instr]:
    """Instructions of a loop's body as the next iteration does them: what they touch in memory, and nothing else."""
    moved = (
        replace(instr, operands=tuple(_moved(v, {}, loop.iterator, loop.step) for v in instr.operands))
        for instr in instrs
    )
    return [_renewed(instr, "next", loop) for instr in moved]


def _renewed(instr: Instr, time: str, loop: Loop) -> Instr:
    """The instruction in another iteration of the loop around, where iterators of loops that are gone start anew."""

    def name(old: str) -> str:
        return f"{UNKNOWN}{time}{old}" if old.startswith(UNKNOWN) or old in loop.varying else old

    return _with_names(instr, name)


def _with_names(instr: Instr, name: Callable[[str], str]) -> Instr:
    operands: list[OperandValue] = []
    for value in instr.operands:
        access = value.access if isinstance(value, Mem | Place) else None
        if isinstance(value, Mem | Place) and access is not None:
            terms = tuple((name(n), c) for n, c in access.terms)
            if terms != access.terms:
                value = replace(value, access=replace(access, terms=terms))
        operands.append(value)
    return replace(instr, operands=tuple(operands))


def unrolled(loop: Loop, factor: int) -> Loop:
    """`factor` iterations in one; the trip count must be a multiple of it."""
    if not isinstance(loop.trip, int) or loop.trip % factor:
        raise ValueError("the trip count is not a multiple of the unroll factor")
    body = [instr for k in range(factor) for instr in later_iteration(loop, k)]
    streams = tuple(replace(s, step=s.step * factor) for s in loop.streams)
    trip = loop.trip // factor
    return replace(loop, step=loop.step * factor, trip=trip, min_trip=trip, streams=streams, body=tuple(body))


def flat_iterations(loop: Loop, count: int, kit: Kit) -> list[Instr]:
    """The next `count` iterations as straight code, address registers advanced after them. Where the iterator's first
    value is another one each time, references tell so: what they touch in different runs can't be compared."""
    body = [instr for k in range(count) for instr in later_iteration(loop, k)]
    if not loop.fixed:
        gone = loop.iterator
        body = [_with_names(i, lambda name: UNKNOWN + name if name == gone else name) for i in body]
    for stream in loop.streams:
        if stream.step * count:
            body += kit.add(stream.base, stream.base, stream.step * count)
    return body


def peeled(loop: Loop, count: int) -> Loop:
    """The loop that is left after `count` iterations were done in front of it."""
    if not isinstance(loop.trip, int):
        raise ValueError("only loops of known trip are peeled")
    shift = loop.step * count
    body = tuple(
        replace(i, operands=tuple(_moved(v, {}, loop.iterator, shift) for v in i.operands))
        for i in instructions(loop.body)
    )
    return replace(loop, trip=loop.trip - count, min_trip=loop.trip - count, body=body)


def with_explicit_streams(loop: Loop, streams: Iterable[VReg], kit: Kit) -> Loop:
    """Address additions at the end of the body in place of the given streams."""
    chosen = set(streams)
    extra: list[Item] = []
    for stream in loop.streams:
        if stream.base in chosen and stream.step:
            extra += kit.add(stream.base, stream.base, stream.step)
    kept = tuple(s for s in loop.streams if s.base not in chosen and s.step)
    return replace(loop, streams=kept, body=(*loop.body, *extra))


def with_bases_after(loop: Loop, live_out: Live, kit: Kit) -> Loop:
    """The loop as it is where nothing after it reads the addresses of its streams, else with additions for them."""
    bases = {s.base for s in loop.streams}
    return with_explicit_streams(loop, bases, kit) if bases & registers(live_out) else loop


def with_advances(loop: Loop, streams: Iterable[VReg], kit: Kit) -> tuple[Loop, tuple[Instr, ...]]:
    """The same for a loop without loops in it, and what it needs before it: the steps that are no immediates."""
    chosen = set(streams)
    advances: list[Instr] = []
    setup: list[Instr] = []
    known: dict[tuple[str, int], tuple[VReg, Instr]] = {}
    for stream in loop.streams:
        if stream.base not in chosen or not stream.step:
            continue
        key = stream.base.cls, stream.step
        if key not in known:
            *constants, advance = kit.add(stream.base, stream.base, stream.step)
            setup += constants
            known[key] = stream.base, advance
        first, advance = known[key]
        operands = tuple(Reg(stream.base) if v == Reg(first) else v for v in advance.operands)
        advances.append(replace(advance, operands=operands))
    kept = tuple(s for s in loop.streams if s.base not in chosen and s.step)
    return replace(loop, streams=kept, body=(*loop.body, *advances)), tuple(setup)


def with_conditional_apart(loop: Loop, kit: Kit) -> tuple[Loop, tuple[Instr, ...]] | None:
    """Registers of their own for the conditional accesses of streams that other accesses use, too.

    No access under a condition can advance a register, so far from the others these need an addition to do it.
    Returns the loop, and the copies that it needs before it; None where there are no such accesses.
    """
    users: dict[VReg, set[bool]] = {s.base: set() for s in loop.streams}
    for instr in instructions(loop.body):
        for value in instr.operands:
            if isinstance(value, Mem) and isinstance(value.base, VReg) and value.base in users:
                users[value.base].add(instr.predicate is not None)
    twins = {base: kit.fresh(base.cls, base.name) for base, kinds in users.items() if len(kinds) == 2}
    if not twins:
        return None
    body = [_on_twins(i, twins) if i.predicate is not None else i for i in instructions(loop.body)]
    streams = [replace(s, base=twins[s.base]) for s in loop.streams if s.base in twins]
    copies = [copy for base, twin in twins.items() for copy in kit.add(twin, base, 0)]
    return replace(loop, body=tuple(body), streams=(*loop.streams, *streams)), tuple(copies)


def _on_twins(instr: Instr, twins: dict[VReg, VReg]) -> Instr:
    def moved(value: OperandValue) -> OperandValue:
        if isinstance(value, Mem) and isinstance(value.base, VReg) and value.base in twins:
            return replace(value, base=twins[value.base])
        return value

    return replace(instr, operands=tuple(map(moved, instr.operands)))


def without_idle_streams(loop: Loop, live_out: Collection[VReg], facts: Facts) -> Loop:
    """The loop without the streams that nothing reads, in it or after it."""
    used = registers(live_before(loop.body, NOTHING, facts)) | set(live_out)
    return replace(loop, streams=tuple(s for s in loop.streams if s.base in used))


def flatten_short_loops(items: Sequence[Item], kit: Kit, limit: int) -> tuple[Item, ...]:
    """Short innermost loops of known trip become straight code, from the inside out."""
    result: list[Item] = []
    for item in items:
        match item:
            case Loop():
                loop = replace(item, body=flatten_short_loops(item.body, kit, limit))
                size = len(loop.body)
                if isinstance(loop.trip, int) and is_innermost(loop) and (loop.trip <= 1 or loop.trip * size <= limit):
                    result += flat_iterations(loop, loop.trip, kit)
                elif loop.trip == 1 and isinstance(loop.trip, int):
                    result += with_explicit_streams(loop, [s.base for s in loop.streams], kit).body
                else:
                    result.append(loop)
            case If():
                then, otherwise = (flatten_short_loops(x, kit, limit) for x in (item.then, item.otherwise))
                result.append(replace(item, then=then, otherwise=otherwise))
            case Instr() | Mark() | Jump():
                result.append(item)
    return tuple(result)


def count_loops(items: Iterable[Item]) -> int:
    count = 0
    for item in items:
        match item:
            case Loop(body=inner):
                count += 1 + count_loops(inner)
            case If(inside=inner):
                count += count_loops(inner)
            case Instr() | Mark() | Jump():
                pass
    return count


def legal_offsets(instrs: Sequence[Instr], facts: Facts, kit: Kit, streams: Iterable[VReg] = ()) -> list[Instr]:
    """Straight code whose constant offsets are in range: those that are not go through registers of their own."""
    free = set(streams)
    result: list[Instr] = []
    near: dict[VReg | Phys, list[tuple[int, VReg]]] = {}
    for instr in instrs:
        memory, changed = instr.instruction.memory, False
        if memory is not None:
            operands: list[OperandValue] = []
            for value in instr.operands:
                if isinstance(value, Mem) and value.base not in free:
                    if displaced(value.offset, memory.scale, memory.side, facts) is None:
                        value = _rebased(value, instr, facts, kit, near, result)
                        changed = True
                operands.append(value)
        result.append(replace(instr, operands=tuple(operands)) if changed else instr)
        if near:
            for register, _ in writes(instr):
                near.pop(register, None)
    return result


def _rebased(
    value: Mem,
    instr: Instr,
    facts: Facts,
    kit: Kit,
    near: dict[VReg | Phys, list[tuple[int, VReg]]],
    result: list[Instr],
) -> Mem:
    memory = instr.instruction.memory
    if memory is None:
        return value
    for offset, register in near.get(value.base, ()):
        if displaced(value.offset - offset, memory.scale, memory.side, facts) is not None:
            return Mem(register, value.offset - offset, value.access)
    cls = facts.target.address_modes.base_classes[memory.side]
    register = kit.fresh(cls, "base")
    result += kit.add(register, value.base, value.offset)
    near.setdefault(value.base, []).append((value.offset, register))
    return Mem(register, 0, value.access)


def copied_predicates(items: Sequence[Item], kit: Kit) -> tuple[Item, ...]:
    """Each run of predicated instructions gets a copy of its predicate, so that the original may be any register."""
    result: list[Item] = []
    original: VReg | None = None
    copy: VReg | None = None
    for item in items:
        match item:
            case Instr(predicate=Predicate() as predicate):
                if copy is None or predicate.register != original:
                    original = predicate.register
                    copy = kit.fresh(original.cls, "if")
                    result += kit.move(copy, original)
                result.append(replace(item, predicate=replace(predicate, register=copy)))
                written = [v.vreg for v in item.operands if isinstance(v, Reg)]
                if original in written:
                    copy = None
            case Jump(branch=Instr(predicate=Predicate() as predicate) as branch):
                copy = kit.fresh(predicate.register.cls, "if")
                result += kit.move(copy, predicate.register)
                result.append(replace(item, branch=replace(branch, predicate=replace(predicate, register=copy))))
                copy = None
            case Instr() | Mark() | Jump():
                result.append(item)
                copy = None
            case Loop():
                result.append(replace(item, body=copied_predicates(item.body, kit)))
                copy = None
            case If():
                then, otherwise = (copied_predicates(x, kit) for x in (item.then, item.otherwise))
                result.append(replace(item, then=then, otherwise=otherwise))
                copy = None
    return tuple(result)
