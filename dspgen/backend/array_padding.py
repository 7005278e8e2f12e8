"""Padding of arrays: how far compiled code may read beyond an array's ends. Stores never leave their array."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dspgen.backend.stages import Padding, load_granule
from dspgen.target.isa.model import Target
from dspgen.target.query.views import views
from dspgen.vecdsl.analysis.integer_ranges import over_reads
from dspgen.vecdsl.ir.program import ELEM_BYTES, Program


def vector_bytes(target: Target) -> int:
    """Return the bytes of a vector register, at least a word a lane."""
    bits = [c.bits for c in target.registers if c.kind == "vector" and c.pair_of is None]
    return target.lanes * max(bits, default=32) // 8


def padding_of(program: Program, target: Target, sized: Collection[str]) -> Mapping[str, Padding]:
    """Compute the padding of each array: a vector less a byte, or what vector loads of the program touch if that is
    more, up to the next place where a load may begin. `sized`: arrays whose sizes are known at run time only."""
    least = vector_bytes(target.real) - 1
    lanes = max(view.lanes for view in views(target))
    found = {}
    touched = over_reads(program, lanes)
    blended = not stores_by_lanes(target.real)
    for array in program.arrays:
        bytes_each = ELEM_BYTES[array.elem]
        granule = load_granule(target, array.elem) * bytes_each
        before, after = (max(least, n * bytes_each + granule - 1) for n in touched[array.name])
        found[array.name] = Padding(array.size * bytes_each, before, after, blended and array.name in sized)
    return found


def stores_by_lanes(target: Target) -> bool:
    """Tell whether stores of some lanes leave the others alone, by a lane predicate."""
    return any(i.predicable == "lane" and i.memory is not None and i.memory.store for i in target.instructions)


def widest(padding: Mapping[str, Padding], names: Mapping[str, object]) -> int:
    """Return the most bytes of padding among some of the arrays."""
    return max((max(p.before, p.after) for name, p in padding.items() if name in names), default=0)
