"""A small function of constant size with all its loops unrolled, where that takes fewer cycles than its loop nests."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import partial

import islpy as isl

from dspgen.backend.stages import Compiled, straight_program
from dspgen.errors import NoSchedule
from dspgen.options import REWRITE_MODES, Options
from dspgen.rewrite.optimize import Effort
from dspgen.search.candidate_search import Slower
from dspgen.search.plan_search import LARGEST_CANDIDATE
from dspgen.search.rewrite_variants import Variants, modes_up_to
from dspgen.straight.candidates import Straight, straight_programs
from dspgen.target.isa.model import Target
from dspgen.vecdsl.ir.program import Program, Store
from dspgen.vecdsl.ir.terms import statements
from plant_core.ir.accesses import access_map, read_accesses
from plant_core.ir.func import Func

MOST_CYCLES = 20_000  # of the loop nests, beyond which the function is no small one
GOOD = 0.25  # of the machine's bound: nests that reach it are left alone
CLOSE = 1.5  # times the least cycles without rewriting: forms that take more are not rewritten
WAITING = 1.1  # the same where units have nothing to do in most cycles: rules change latencies little
MOST_STATEMENTS = 600  # of all programs tried
EFFORT = Effort(terms=400, waiting=True)  # unrolled code is one large region


@dataclass(frozen=True, slots=True)
class Unrolled:
    """The best unrolled form: `title` is how its outputs lie in lanes. `plain` are the cycles of the best one without
    rewriting."""

    compiled: Compiled
    title: str
    plain: float

    @property
    def cycles(self) -> float:
        return self.compiled.scheduled.cycles or math.inf


def depends_on_parameters(func: Func) -> bool:
    """Whether integer parameters decide what is run, or where it reads and writes."""
    relations = (access_map(c, a)[0] for c in func.comps for a in (c.target, *read_accesses(c)))
    return any(r.involves_dims(isl.dim_type.param, 0, r.dim(isl.dim_type.param)) for r in relations)


def best_unrolled(source: Func, target: Target, options: Options, limit: float) -> Unrolled | None:
    """The unrolled form that takes the fewest cycles, by all rules or by fewer; None where none takes fewer than
    `limit`, or the function is too large or its control isn't known beforehand."""
    forms: list[tuple[Straight, Variants]] = []
    spent = 0
    # What is most in lanes is the smallest.
    for size, straight in sorted(_programs(source, target, options), key=lambda found: found[0]):
        if spent and spent + size > MOST_STATEMENTS:
            continue
        spent += size
        plan = partial(straight_program, source, straight.program, target)
        forms.append((straight, Variants(plan, target, options, LARGEST_CANDIDATE, EFFORT)))
    plain = math.inf
    tried: list[tuple[Straight, Variants, float]] = []
    for (straight, variants), following in itertools.zip_longest(forms, forms[1:]):
        if following is not None:
            following[1].begin(partial(Variants.told, mode=REWRITE_MODES[0], limit=CLOSE * plain))
        tried.append((straight, variants, variants.told(REWRITE_MODES[0], CLOSE * plain)))
        plain = min(plain, tried[-1][2])
    best: Unrolled | None = None
    between = modes_up_to(options.rewrite)[1:-1]  # by fewer rules only what is best by all, or by none
    tried.sort(key=lambda t: t[2])
    close = [(s, v) for s, v, cycles in tried if not _gain(v) * plain <= cycles < math.inf]
    for without in (between, ()) if between else ((),):
        for (straight, variants), following in itertools.zip_longest(close, close[1:]):
            if not without and best is not None and straight.title != best.title:
                continue
            if without and following is not None:
                following[1].begin(partial(Variants.least, mode=options.rewrite, limit=limit, without=without))
            try:
                compiled = variants.least(options.rewrite, limit=limit, without=without)
            except (NoSchedule, Slower):
                continue
            made = replace(compiled, tiles=(straight.title,))
            found = Unrolled(made, straight.title, plain)
            if found.cycles < limit:
                limit, best = found.cycles, found
    return best


def _gain(variants: Variants) -> float:
    """By how much more rules may shorten code, as a factor."""
    return WAITING if 2 * variants.busy(REWRITE_MODES[0]) < 1 else CLOSE


def _programs(source: Func, target: Target, options: Options) -> list[tuple[int, Straight]]:
    """The function unrolled in several ways, each after the number of its statements."""
    try:
        found = list(straight_programs(source, target, reassoc=options.fp == "reassoc"))
    except NoSchedule:
        return []
    fitting = [s for s in found if options.vectorize or not _laned(s.program)]
    return [(sum(1 for _ in statements(s.program.body)), s) for s in fitting]


def _laned(program: Program) -> bool:
    return any(isinstance(s, Store) and s.value.type.vector for s in statements(program.body))
