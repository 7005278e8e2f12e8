"""The plans of one nest that are worth compiling, the model's best first."""

from __future__ import annotations

import itertools
from collections.abc import Collection

from dspgen.backend.stages import CANDIDATE_SETS
from dspgen.options import Options
from dspgen.search.candidate_search import PATIENT
from dspgen.target.isa.model import Target
from dspgen.tiling.candidates import Candidate, candidates
from dspgen.tiling.cost.unit_pressure import Machine
from dspgen.tiling.loops.loop_arrangements import arrangements
from dspgen.tiling.loops.loop_nests import Nest
from dspgen.tiling.masked_tiles import whole_candidates
from dspgen.tiling.register_tiles import Plans
from dspgen.tiling.trapezoid_candidates import strip_candidates
from plant_core.analysis.dependence import Dependence
from plant_core.ir.func import Func
from plant_core.support.isl_budget import at_most
from plant_core.support.location import PlantError
from plant_core.tile_plan.legality import check_legal
from plant_core.tile_plan.plan import Plan

FINALISTS = 8
STRIPS = 3  # ways of strips that are tried


def finalists(
    nest: Nest,
    alone: Func,
    known: tuple[Dependence, ...],
    target: Target,
    machine: Machine,
    options: Options,
    scalars: Collection[str],
) -> list[Candidate]:
    """Those of a nest, which is `alone` as a function of its own, with its dependences. None of the comps `scalars` has
    lanes."""
    reassoc = options.fp == "reassoc"

    def keeps(plans: Plans, form: Func | None = None) -> bool:
        """Whether the plans, of the nest or of another form of it, keep all dependences, found out at little cost."""
        told = known if form is None else None
        try:
            with at_most(CANDIDATE_SETS):
                check_legal(form or alone, Plan(plans), reassoc=reassoc, lanes=target.lanes, known=told)
        except PlantError:
            return False
        return True

    arranged = tuple(arrangements(nest, alone, known, reassoc=reassoc))
    found = candidates(
        arranged,
        target,
        machine,
        FINALISTS,
        known,
        scalars=scalars,
        kept=keeps,
        single=options.tile == "one",
        vectorize=options.vectorize,
        every=options.tiler in PATIENT,
    )
    if all(c.box for c in nest.comps) or not options.vectorize or options.tile != "search":
        return found
    whole = whole_candidates(arranged, target, machine, known, scalars=scalars, kept=keeps)
    strips = strip_candidates(alone, nest, target, machine, ordered=options.fp == "strict")
    kept = (c for c in strips if c.form is not None and keeps(c.plans, c.form))
    return [*whole, *itertools.islice(kept, STRIPS), *found]
