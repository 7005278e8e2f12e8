"""What is told of the tiles that were chosen, and of loops that were unrolled as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dspgen.backend.stages import Compiled
from dspgen.options import Options
from dspgen.remarks.vectorization_report import Verdict, explain_lanes, one_for_each
from dspgen.rewrite.optimize import Remark
from dspgen.sched.ir.packets import Packet, Scheduled
from dspgen.search.full_unroll import Unrolled
from dspgen.target.isa.model import Target
from dspgen.tiling.loops.loop_nests import nests
from plant_core.analysis.dependence import memory_dependences
from plant_core.ir.accesses import accesses
from plant_core.ir.func import Func
from plant_core.ir.time_2d1 import position
from plant_core.support.location import Loc


def tile_remarks(
    source: Func,
    func: Func,
    compiled: Compiled,
    target: Target,
    options: Options,
    singles: Mapping[str, str],
) -> tuple[Remark, ...]:
    """What was chosen for each nest, out of how many that were scheduled, and what runs across lanes or why not.
    `singles`: statements that lanes lack an operation for, and which."""
    found = []
    choices, emitted = compiled.choices, on_vector_units(compiled.scheduled, target)
    if options.vectorize:
        verdicts: list[Verdict] = []
        reassoc, meanings = options.fp == "reassoc", {b.name: b.meaning for b in func.bufs if b.meaning}
        for nest, choice in zip(nests(func), choices, strict=True):
            known = memory_dependences(func.with_comps(tuple(func.comp(name) for name in nest.names)))
            verdicts += explain_lanes(
                nest, choice, known, target, reassoc=reassoc, meanings=meanings, singles=singles, emitted=emitted
            )  # fmt: skip
        loops = _loops_of(source)
        verdicts = [replace(v, loc=loops.get(v.loc, v.loc)) for v in verdicts]
        found += [Remark(v.loc, v.kind, v.message) for v in one_for_each(verdicts)]
    for choice in choices:
        scheduled = sum(t.cycles is not None for t in choice.trials)
        loc = func.comp(choice.comps[0]).loc
        found.append(Remark(loc, "tile", f"{choice.candidate.title}, the best of {scheduled} that were scheduled"))
        found += [Remark(loc, "refused", f"{t.title}: {t.refused}") for t in choice.trials if t.cycles is None]
    return tuple(found)


def on_vector_units(scheduled: Scheduled, target: Target) -> dict[Loc, float]:
    """The places of the C text that packets have instructions of, and the share of these that run on vector units."""
    units = {name for unit in target.units if unit.side == "vector" for name in unit.members}
    found: dict[Loc, list[bool]] = {}
    for line in scheduled.lines:
        for placed in line.members if isinstance(line, Packet) else ():
            if placed.loc is not None:
                found.setdefault(placed.loc, []).append(placed.unit in units)
    return {loc: sum(there) / len(there) for loc, there in found.items()}


def unrolled_remarks(source: Func, unrolled: Unrolled, instead: str, target: Target) -> tuple[Remark, ...]:
    """One verdict for each loop that holds statements; `instead` tells what the nests take. Statements share vectors
    in code without loops."""
    lanes = any(on_vector_units(unrolled.compiled.scheduled, target).values())
    kind, title = ("vectorized", unrolled.title) if lanes else ("not-vectorized", "unrolled, nothing of it on lanes")
    message = f"{title}: {unrolled.compiled.scheduled.cycles} cycles{instead}"
    return tuple(Remark(loc, kind, message) for loc in dict.fromkeys(_loops_of(source).values()))


def copy_remarks(source: Func, func: Func) -> tuple[Remark, ...]:
    """What is told of arrays that a function has more than its source, with what they are copies of."""
    known = {b.name for b in source.bufs}
    found = {c.target.buf: (a.buf, c.loc) for c in func.comps for a in accesses(c.value)
             if c.target.buf not in known and a.buf in known}  # fmt: skip
    texts = {
        of: f"a copy of '{of}' goes on behind its ends, as subscripts wrap round or stop there"
        for of, _ in found.values()
    }
    return tuple(Remark(loc, "copied", texts[of]) for of, loc in found.values())


def _loops_of(source: Func) -> dict[Loc | None, Loc]:
    """For each statement in a loop the place of the first one that the same loop holds."""
    firsts: dict[tuple[int, ...], Loc] = {}
    found: dict[Loc | None, Loc] = {}
    for comp in source.comps:
        if comp.iters and comp.loc is not None:
            loop = position(comp).constants[: len(comp.iters)]
            found.setdefault(comp.loc, firsts.setdefault(loop, comp.loc))
    return found
