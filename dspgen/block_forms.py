"""A function in the forms in which its nests are cut into blocks, or its loops of unknown size into groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dspgen.block_sizes import MEANS, Means
from dspgen.options import Options
from dspgen.target.model import Target
from dspgen.tiling.nests import nests
from plant_core.canonical.passes import canonical
from plant_core.distribution import distributed
from plant_core.groups import in_groups
from plant_core.ir import DType, Func
from plant_core.transposed import with_transposed_copies

_COPIES = 4  # copies of arrays take a part of the memory that is one in so many, at most


def forms(source: Func, func: Func, target: Target, options: Options) -> Iterator[tuple[Means, Func]]:
    """Ways to cut a function into blocks, those first that keep transfers beside computation."""
    reassoc = options.fp == "reassoc"
    transposing = target.dma is not None and target.dma.transpose
    if not transposing and (copies := with_copies(source, target, options)) is not None:
        yield MEANS[0], copies
    yield MEANS[0], func
    # A scalar of each iteration is no help where its iterations are no block.
    yield MEANS[0], (plain := canonical(source, reassoc=reassoc))
    found = [f for f in (distributed(func, reassoc=reassoc), func, distributed(plain, reassoc=reassoc), plain) if f]
    yield MEANS[0], found[0]
    for means in MEANS[1:]:
        for form in found:
            yield means, form


def grouped(source: Func, target: Target, options: Options, anywhere: Callable[[DType], bool]) -> Func | None:
    """The function with its loops of unknown size in groups of iterations; None where there is nothing to gain.
    `anywhere` tells whether vectors of a type may be stored at any place."""
    if not options.vectorize:
        return None
    func = canonical(source, reassoc=options.fp == "reassoc", symbolic=True)
    names, reassoc = [n.names for n in nests(func)], options.fp == "reassoc"
    registers = max((len(c.names) for c in target.registers if c.kind == "vector" and c.pair_of is None), default=0)
    return in_groups(func, names, target.lanes, reassoc=reassoc, anywhere=anywhere, registers=registers)


def with_copies(source: Func, target: Target, options: Options) -> Func | None:
    """The function in canonical form with copies of arrays in which lanes lie side by side, if that is worth while."""
    if not options.vectorize:
        return None
    func = canonical(source, reassoc=options.fp == "reassoc", symbolic=options.data == "ddr")
    return with_transposed_copies(func, target.memory(target.abi.stack_memory).size // _COPIES)
