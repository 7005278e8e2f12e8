"""What a caller of the emitted code must see to: alignment, placement, interrupts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dspgen.sched.ir.packets import Address, CommentLine, LabelLine, Nop, Packet, Placed, Scheduled
from dspgen.target.isa.model import Target
from dspgen.target.query.hardware_loops import goes_back
from plant_core.ir.func import Extent

Line = LabelLine | CommentLine | Packet | Nop


@dataclass(frozen=True, slots=True)
class Room:
    """Of an array of such a `shape`, in the function's integer parameters, the largest that there is room for on the
    chip: of each dimension its elements, None for any number."""

    array: str
    shape: tuple[Extent, ...]
    most: tuple[int | None, ...]


def needs(
    scheduled: Scheduled,
    target: Target,
    *,
    apart: bool = True,
    arrays: bool = True,
    moved: bool = False,
    rooms: Sequence[Room] = (),
    padding: int = 0,
) -> tuple[str, ...]:
    """One sentence for each condition, in the order in which a reader wants them.

    `apart`: the code takes it that parameters point to different memory; `arrays`: that they are arrays of C; `moved`:
    the code moves them onto the chip itself; `rooms`: of arrays whose sizes are known at run time only the largest;
    `padding`: bytes that may be read before and after an array.
    """
    found = []
    if apart:
        found.append("array parameters do not overlap" if arrays else "different variables point to different memory")
    if arrays and (align := _alignment(scheduled)) > 1:
        found.append(f"each array starts at a multiple of {align} bytes")
    sides = {u.side for u in target.units}
    memories = [m.name for m in target.memories if m.onchip and sides <= set(m.sides)]
    if moved:
        far = ", ".join(m.name for m in target.memories if not m.onchip)
        found.append(f"arrays lie in memory off the chip ({far})")
        found += [f"{r.array} has at most {shape_text(r.most)} elements: else nothing is done" for r in rooms]
    elif arrays and memories:
        found.append(f"arrays lie in memory that every unit reaches ({', '.join(memories)})")
        found += [
            f"{r.array} has at most {shape_text(r.most)} elements, and may be read, and written back as it was, beyond "
            "its own"
            for r in rooms
        ]
    if arrays and padding:
        none = "" if rooms else "; none is written"
        found.append(f"up to {padding} bytes before and after each array may be read, whatever they hold{none}")
    if relies_on_old_values(scheduled.lines, target):
        found.append("interrupts are masked: registers are read while newer values of theirs are in flight")
    return tuple(found)


def shape_text(shape: Sequence[int | None]) -> str:
    """A shape in words; None stands for any number."""
    return " x ".join("any" if n is None else str(n) for n in shape)


def relies_on_old_values(lines: Sequence[Line], target: Target) -> bool:
    """Whether some instruction reads a register between the issue and the landing of a write to it.

    Looks along the text, and once more round each loop; code that an interrupt may enter must not do this.
    """
    if not (target.pipeline.exposed and target.pipeline.equals):
        return False
    halves = _halves(target)
    labels = {line.name: k for k, line in enumerate(lines) if isinstance(line, LabelLine)}
    paths: list[Sequence[Line]] = [lines]
    for at, line in enumerate(lines):
        for start in _branch_targets(line, labels):
            if start <= at:
                end = _after_delay(lines, at, target.pipeline.branch_delay)
                paths.append([*lines[start:end], *lines[start:end]])
    members = [[(m.instruction, m.operands) for m in _members([line])] for line in lines]
    for at, _, label in goes_back(members):
        loop = lines[labels[label] : at + 1] if label is not None else []
        paths.append([*loop, *loop])
    return any(_reads_in_flight(path, halves) for path in paths)


def _alignment(scheduled: Scheduled) -> int:
    aligns = [m.instruction.memory.align for m in _members(scheduled.lines) if m.instruction.memory is not None]
    return max(aligns, default=1)


def _members(lines: Iterable[Line]) -> Iterator[Placed]:
    for line in lines:
        if isinstance(line, Packet):
            yield from line.members


def _branch_targets(line: Line, labels: dict[str, int]) -> Iterator[int]:
    for member in _members([line]):
        if member.instruction.branch:
            yield from (
                labels[o.lstrip("@")] for o in member.operands if isinstance(o, str) and o.lstrip("@") in labels
            )


def _after_delay(lines: Sequence[Line], at: int, delay: int) -> int:
    """The index just after the delay slots of the branch in `lines[at]`."""
    left, end = delay, at + 1
    while end < len(lines) and left > 0:
        line = lines[end]
        left -= line.cycles if isinstance(line, Nop) else int(isinstance(line, Packet))
        end += 1
    return end


def _reads_in_flight(path: Iterable[Line], halves: dict[str, tuple[str, ...]]) -> bool:
    landing: dict[str, int] = {}
    cycle = 0
    for line in path:
        if isinstance(line, Nop):
            cycle += line.cycles
        elif isinstance(line, Packet):
            if any(landing.get(r, 0) > cycle for m in line.members for r in _reads(m, halves)):
                return True
            for member in line.members:
                for register, latency in _writes(member, halves):
                    landing[register] = max(landing.get(register, 0), cycle + latency)
            cycle += 1
    return False


def _halves(target: Target) -> dict[str, tuple[str, ...]]:
    """The single registers that each register's text stands for."""
    table: dict[str, tuple[str, ...]] = {}
    for cls in target.registers:
        base = target.register_class(cls.pair_of).names if cls.pair_of else ()
        for k, name in enumerate(cls.names):
            table[name] = (base[2 * k], base[2 * k + 1]) if base else (name,)
    return table


def _reads(member: Placed, halves: dict[str, tuple[str, ...]]) -> Iterator[str]:
    if member.predicate is not None:
        yield member.predicate
    yield from member.instruction.implicit_reads
    for operand, value in zip(member.instruction.operands, member.operands, strict=True):
        match value:
            case Address(base=base, offset=offset):
                yield base
                if isinstance(offset, str):
                    yield offset
            case str() if operand.read and operand.kind == "register":
                yield from halves.get(value, (value,))


def _writes(member: Placed, halves: dict[str, tuple[str, ...]]) -> Iterator[tuple[str, int]]:
    for operand, value in zip(member.instruction.operands, member.operands, strict=True):
        if isinstance(value, str) and operand.write:
            for register in halves.get(value, (value,)):
                yield register, operand.latency
