"""A function in the forms in which its nests are cut into blocks, or its loops of unknown size into groups."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial

import islpy as isl

from dspgen.errors import NoSchedule
from dspgen.offchip.cost_model import Judge
from dspgen.offchip.layout_candidates import Estimate
from dspgen.offchip.tile_search import MEANS, Means, Parts, in_turn
from dspgen.options import Options
from dspgen.search.full_unroll import depends_on_parameters
from dspgen.search.lane_support import Lacking
from dspgen.target.isa.model import Target
from dspgen.target.query.operations import OperationTable
from dspgen.tiling.cost.cycle_model import pair_unit
from dspgen.tiling.cost.unit_pressure import Machine
from dspgen.tiling.loops.loop_nests import nests
from dspgen.tiling.split.index_set_splitting import isolated
from dspgen.tiling.split.statement_splitting import operations
from plant_core.ir.func import DType, Func
from plant_core.normalize.loops.loop_reversal import ascending
from plant_core.normalize.pipeline import canonical
from plant_core.strip_mine.strips import in_groups
from plant_core.transform.boundary_padding import unfolded
from plant_core.transform.fuse_reduction_init import with_sums_begun
from plant_core.transform.loop_distribution import distributed
from plant_core.transform.pack_transposed import with_transposed_copies
from plant_core.transform.scalar_replacement import with_elements_held

_COPIES = 4  # copies of arrays take a part of the memory that is one in so many, at most


def cuts(
    source: Func, func: Func, target: Target, options: Options, judge: Judge | None, estimate: Estimate
) -> Iterator[Iterator[Parts]]:
    """Ways to cut a function into blocks, each with others of its kind to compare it with, those first that keep
    transfers beside computation; where there are none, others in the order of the cycles that are expected. Raises
    NoSchedule where there is no way at all."""
    refusal: NoSchedule | None = None
    fits, others = False, list[tuple[float, Iterator[Parts]]]()
    for means, form in forms(source, func, target, options):
        if fits and means != MEANS[0]:
            return  # other blocks would not give the machine what it lacks
        try:
            turns = in_turn(form, source, target, options, judge, means, estimate)
            first = next(turns)
        except NoSchedule as error:
            refusal = refusal or error
        else:
            found = itertools.chain((first,), turns)
            if means == MEANS[0]:
                fits = True
                yield found
            else:
                others.append((first.cycles, found))
    if not others and not fits:
        assert refusal is not None
        raise refusal
    yield from (found for _, found in sorted(others, key=lambda each: each[0]))


def forms(source: Func, func: Func, target: Target, options: Options) -> Iterator[tuple[Means, Func]]:
    """Ways to cut a function into blocks, those first that keep transfers beside computation."""
    reassoc = options.fp == "reassoc"
    transposing = target.dma is not None and target.dma.transpose
    if not transposing and (copies := with_copies(source, target, options)) is not None:
        yield MEANS[0], copies
    yield MEANS[0], func
    # A scalar of each iteration is no help where its iterations are no block.
    yield MEANS[0], (plain := canonical(source, reassoc=reassoc))
    # Blocks are of loops that count up.
    if (up := ascending(func)) is not func:
        yield MEANS[0], up
    # An array of a variable's values, one for each iteration, takes room that updates in memory don't.
    func = ascending(canonical(source, reassoc=reassoc, symbolic=True, updates=True))
    plain = ascending(canonical(source, reassoc=reassoc, updates=True))
    found: list[Func] = []
    for form in (distributed(func, reassoc=reassoc), func, distributed(plain, reassoc=reassoc), plain):
        if form is not None and form not in found:
            found.append(form)
    yield MEANS[0], found[0]
    for form in found:
        yield MEANS[1], form


def in_few_nests(source: Func, options: Options) -> Func:
    """The function as it is cut into blocks first: where sizes are known at run time only, sums begin in the nests that
    add to them, so that one block does both."""
    func = canonical(source, reassoc=options.fp == "reassoc", symbolic=True)
    return with_elements_held(with_sums_begun(func)) if depends_on_parameters(func) else func


def grouped(source: Func, target: Target, options: Options, anywhere: Callable[[DType], bool]) -> Func | None:
    """The function with its loops of unknown size in groups of iterations; None where there is nothing to gain.
    `anywhere` tells whether vectors of a type may be stored at any place."""
    if not options.vectorize or not any(c.domain.dim(isl.dim_type.param) for c in source.comps):
        return None  # or all sizes are known
    reassoc = options.fp == "reassoc"
    func = with_sums_begun(canonical(source, reassoc=reassoc, symbolic=True))
    if (cut := isolated(func, reassoc=reassoc, any_size=True)) is not None:
        func = cut
    names = [n.names for n in nests(func)]
    registers = max((len(c.names) for c in target.registers if c.kind == "vector" and c.pair_of is None), default=0)
    machine = Machine(target, OperationTable(target))
    unit = partial(pair_unit, machine)
    lacking = Lacking(target, options)
    return in_groups(
        func,
        names,
        target.lanes,
        reassoc=reassoc,
        anywhere=anywhere,
        unit=unit,
        on_lanes=lambda comp: not any(map(lacking, operations(comp.value))),
        registers=registers,
    )


def with_ends(source: Func, target: Target, options: Options) -> Func | None:
    """The function with copies of arrays that go on behind their ends, if subscripts that wrap round or stop there make
    that worth while."""
    if not options.vectorize:
        return None
    return unfolded(source, target.memory(target.abi.stack_memory).size // _COPIES)


def with_copies(source: Func, target: Target, options: Options) -> Func | None:
    """The function in canonical form with copies of arrays in which lanes lie side by side, if that is worth while."""
    if not options.vectorize:
        return None
    func = canonical(source, reassoc=options.fp == "reassoc", symbolic=options.data == "ddr")
    return with_transposed_copies(func, target.memory(target.abi.stack_memory).size // _COPIES)
