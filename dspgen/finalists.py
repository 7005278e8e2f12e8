"""The plans of one nest that are worth compiling, the model's best first."""

from __future__ import annotations

import itertools
from collections.abc import Collection

from dspgen.options import Options
from dspgen.stages import CANDIDATE_SETS
from dspgen.target.model import Target
from dspgen.tiling.arrange import arrangements
from dspgen.tiling.candidates import Candidate, candidates
from dspgen.tiling.machine import Machine
from dspgen.tiling.nests import Nest
from dspgen.tiling.ragged import strip_candidates
from dspgen.tiling.register_tiles import Plans
from dspgen.tiling.search import PATIENT
from dspgen.tiling.whole import whole_candidates
from plant_core.budget import at_most
from plant_core.dependence import Dependence
from plant_core.ir import Func
from plant_core.legality import check_legal
from plant_core.loc import PlantError
from plant_core.tiles import Plan

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
