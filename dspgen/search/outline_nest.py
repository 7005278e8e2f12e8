"""Loop nests of a function as functions of their own, and a function with some of its nests in another form or plan."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace

from dspgen.tiling.candidates import Choice
from dspgen.tiling.loops.loop_nests import Nest
from plant_core.analysis.runtime_parameters import aligned, extent_parameters, known_only, used_parameters
from plant_core.ir.accesses import read_accesses
from plant_core.ir.func import Buf, Comp, Func, ScalarParam
from plant_core.tile_plan.plan import CompPlan, Plan


def alone(func: Func, nest: Nest, most: int) -> Func:
    """One nest as a function of its own: what it shares with others becomes parameters, so that its values count.

    Where there are over `most` parameters, what can be computed from others is, and single values stay local, those
    first that it only reads.
    """
    comps = known_only([c for c in func.comps if c.name in nest.names])
    found = _alone(func, comps, most)
    if len(found.params) <= most:
        return found
    inside = _computed(func, comps)
    other = _alone(func, tuple(c for c in func.comps if c.name in nest.names or c.defines in inside), most)
    return other if len(other.params) < len(found.params) else found


def _computed(func: Func, comps: Iterable[Comp]) -> set[str]:
    """The parameters that statements use and that others compute from parameters alone."""
    makers = {c.defines: c for c in func.comps if c.defines is not None and not c.iters and not any(read_accesses(c))}
    found: set[str] = set()
    pending = list(comps)
    while pending:
        names = used_parameters(pending.pop()) & makers.keys() - found
        found |= names
        pending += map(makers.__getitem__, names)
    return found


def _alone(func: Func, comps: tuple[Comp, ...], most: int) -> Func:
    names = {c.name for c in comps}
    shared = _touched(comps) & _touched(c for c in func.comps if c.name not in names)
    arrays = [b.name for b in func.bufs if b.name in _touched(comps) and (b.kind == "param" or b.name in shared)]
    inside = {c.defines for c in comps}
    wanted = {c.defines for c in func.comps if c.defines is not None and c.defines not in inside}
    used = {name for c in comps for name in used_parameters(c)}
    used |= extent_parameters(b for b in func.bufs if b.name in _touched(comps))
    given = sorted(wanted & used)
    own = (p for p in func.params if not isinstance(p, Buf) and p.name in used)
    scalars = (*own, *(ScalarParam(n, "i32") for n in given))
    written = {c.target.buf for c in comps}
    rank = {b.name: (not b.shape, b.name not in written) for b in func.bufs}
    order = sorted(arrays, key=lambda name: rank[name])
    room = max(most - len(scalars), sum(not single for single, _ in map(rank.__getitem__, arrays)))
    passed = set(order[:room])
    bufs = tuple(replace(b, kind="param") if b.name in passed else b for b in func.bufs)
    params = tuple(b for b in bufs if b.name in passed)
    # It may run at any sizes, of which nothing is sure.
    comps = tuple(replace(c, sure=()) for c in comps)
    return replace(func, params=(*params, *scalars), bufs=bufs, comps=comps)


def in_forms(func: Func, choices: tuple[Choice, ...]) -> Func:
    """`func` with the nests in strips that are chosen so."""
    forms = {c.comps: c.candidate.form for c in choices if c.candidate.form is not None}
    if not forms:
        return func
    instead = {names[0]: form.comps for names, form in forms.items()}
    gone = {name for names in forms for name in names}
    comps = (instead.get(c.name, () if c.name in gone else (c,)) for c in func.comps)
    known = {b.name for b in func.bufs}
    own = (b for form in forms.values() for b in form.bufs if b.name not in known)
    return replace(func, bufs=(*func.bufs, *own), comps=aligned(tuple(itertools.chain.from_iterable(comps))))


def modest(choice: Choice) -> Choice:
    """The nest in small tiles, if it was in large ones."""
    return choice if choice.modest is None or not choice.candidate.laned else replace(choice, candidate=choice.modest)


def light(choice: Choice) -> Choice:
    """The nest in smaller tiles that are about as good."""
    other = choice.light
    return choice if other is None or other.form is not choice.candidate.form else replace(choice, candidate=other)


def scalar(choice: Choice) -> Choice:
    """The nest as it is written: a plan leaves such comps alone."""
    return replace(choice, candidate=replace(choice.candidate, plans=(), title="scalar"))


def plan_of(choices: tuple[Choice, ...]) -> Plan:
    """That of a function with its nests as they were chosen."""
    merged: list[tuple[str, CompPlan]] = [p for c in choices for p in c.candidate.plans]
    return Plan(tuple(merged))


def _touched(comps: Iterable[Comp]) -> set[str]:
    return {name for c in comps for name in (c.target.buf, *(a.buf for a in read_accesses(c)))}
