"""What memory each access touches, as far as the text tells: for exact dependences between accesses.

An access is `root + constant` bytes, plus a step for each iteration of its loop. Two with one root and one step are
exact. Others may overlap, unless the program says that what different variables point to never does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace

from dspgen.asmir.ir.function import PATTERNS, Instr, MemRef, Phys, Place
from dspgen.lasm.values import State, Sum
from dspgen.target.isa.model import Instruction, SemExpr, Target

_ANYWHERE = 1 << 40
_WHOLE = "memory"

Entered = Callable[[Hashable], Sum | None]
Steps = Callable[[Hashable], int | None]


@dataclass(slots=True)
class Memory:
    """Makes the references of a function. `apart`: what different variables point to never overlaps."""

    target: Target
    apart: bool
    _names: dict[Hashable, str] = field(default_factory=dict)

    def known(
        self, instr: Instr, state: State, iterator: str = "", steps: Steps | None = None, entered: Entered | None = None
    ) -> Instr:
        """The instruction with what its memory operand touches, before it has done anything.

        In a loop over `iterator`, `steps` tells how many bytes a root moves in an iteration (None: who knows) and
        `entered` what it is where the loop is entered.
        """
        memory = instr.instruction.memory
        place = next((v for v in instr.operands if isinstance(v, Place)), None)
        if memory is None or place is None:
            return instr
        address = state.address(place, memory.scale)
        step = 0
        if steps is not None and address is not None:
            moved = steps(address.root)
            step, address = (0, None) if moved is None else (moved, address)
        if entered is not None and address is not None:
            start = entered(address.root)
            address = None if start is None else Sum(start.root, start.offset + address.offset)
        access = self._reference(instr.instruction, place, address, iterator, step)
        operands = tuple(replace(v, access=access) if v is place else v for v in instr.operands)
        return replace(instr, operands=operands)

    def _reference(
        self, row: Instruction, place: Place, address: Sum | None, iterator: str, step: int
    ) -> MemRef | None:
        base = place.base.name
        name = base if self.apart else _WHOLE
        reach = footprint(row)
        if address is None or reach is None:
            if self.apart and not isinstance(place.base, Phys):
                return MemRef(name, -_ANYWHERE, (), 0, 1, 2 * _ANYWHERE)
            return None
        patterns = self.target.pattern_memory
        constant = address.constant
        if patterns is not None and constant is not None and not step:
            room = next((m for m in self.target.memories if m.base <= constant < m.base + m.size), None)
            if room is not None and room.purpose == "patterns":
                low, high = reach
                return MemRef(PATTERNS, constant - patterns.base + low, (), 0, 1, high - low)
        low, high = reach
        memory = row.memory
        if memory is not None and memory.force_align and (address.offset % memory.align or step % memory.align):
            low -= memory.align - 1  # the address is rounded down, no one knows from where
        terms: tuple[tuple[str, int], ...] = ((self._name(address.root), 1),)
        terms += ((iterator, step),) if step else ()
        terms += ((f"~{low}", 1),) if low else ()  # such references start elsewhere than at their address
        return MemRef(name, address.offset + low, terms, 0, 1, high - low, shared=not self.apart)

    def _name(self, root: Hashable) -> str:
        return self._names.setdefault(root, f"@{len(self._names)}")


def footprint(row: Instruction) -> tuple[int, int] | None:
    """The bytes from its address that an instruction may touch, from the first to behind the last; None: anywhere."""
    low, high = 0, 0
    for statement in row.semantics:
        for expr in _accesses(statement.value):
            found = _reach(expr, row)
            if found is None:
                return None
            low, high = min(low, found[0]), max(high, found[1])
    return low, high


def _accesses(expr: SemExpr) -> list[SemExpr]:
    own = [expr] if expr.op in ("ld", "st", "vld", "vst", "gather", "scatter") else []
    return own + [e for a in expr.args for e in _accesses(a)]


def _reach(expr: SemExpr, row: Instruction) -> tuple[int, int] | None:
    size = int(expr.type[1:]) // 8
    if expr.op in ("ld", "st"):
        return 0, size
    if expr.op in ("gather", "scatter") or row.memory is None:
        return None
    stride, first = expr.args[1].value, expr.args[2].value
    parts = len(row.semantics)
    lanes = max(row.memory.bytes // (size * parts), 1)
    ends = (first * size, (first + stride * (lanes - 1)) * size)
    return min(ends), max(ends) + size
