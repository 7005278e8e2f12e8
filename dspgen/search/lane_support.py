"""Which operations a machine does on scalars only, found out by compiling each by itself."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import islpy as isl

from dspgen.backend.stages import assemble, plan_program, rewrite
from dspgen.errors import NoSchedule, Problem
from dspgen.options import Options
from dspgen.rewrite.optimize import Effort
from dspgen.target.isa.model import Target
from dspgen.target.query.instructions import is_unknown, remedy_without
from plant_core.ir.accesses import all_bufs, children, from_linear, read_accesses, rebuild
from plant_core.ir.func import Binary, Buf, Call, Cast, Comp, Expr, Func, Iter, Load, Select, Unary, Val, Verbatim
from plant_core.support.location import Loc, PlantError
from plant_core.tile_plan.plan import CompPlan, LoopShape, Plan

# Instructions for each lane, from which on a vector's operation is done lane by lane: one takes the lane out, one does
# the operation, and one puts it back.
_EACH = 2

_NOWHERE = Loc("", 0, 0)


def refuse_unknown_types(source: Func, target: Target) -> None:
    """Raises NoSchedule where arrays have elements of a type that the machine has no instructions on."""
    found: dict[str, Problem] = {}
    arrays = {b.name for b in all_bufs(source).values() if b.shape}
    for comp in source.comps:
        for access in (comp.target, *read_accesses(comp)):
            elem = access.dtype
            if access.buf in arrays and elem not in found and is_unknown(elem, target):
                what = f"{target.name} can't load or store elements of '{access.buf}', of type {elem}"
                found[elem] = Problem("DG300", what, access.loc or comp.loc, remedy_without("ld", elem, target))
    if found:
        raise NoSchedule(*found.values())


@dataclass(slots=True)
class Lacking:
    """Whether an operation has no code on lanes, or goes lane by lane, as a function of expressions; of their operands
    only types matter, and constants."""

    target: Target
    options: Options
    known: dict[Expr, bool] = field(default_factory=dict)

    def __call__(self, expr: Expr) -> bool:
        if not isinstance(expr, Binary | Unary | Cast | Select):
            return False
        parts = tuple(_leaf(k, part) for k, part in enumerate(children(expr)))
        alone = rebuild(expr, parts)
        if alone not in self.known:
            self.known[alone] = self._lacks(alone, parts)
        return self.known[alone]

    def _lacks(self, alone: Expr, parts: tuple[Expr, ...]) -> bool:
        lanes = self.target.lanes
        loads = [p for p in parts if isinstance(p, Load)]
        if not loads or isinstance(alone, Call | Iter | Verbatim):
            return False
        result = Buf("y", alone.dtype, (lanes,), "param")
        bufs = (*(Buf(x.buf, x.dtype, (lanes,), "param") for x in loads), result)
        domain = isl.Set(f"{{ S[i] : 0 <= i < {lanes} }}")
        schedule = isl.Map("{ S[i] -> [0, i, 0] }").intersect_domain(domain)
        comp = Comp("S", ("i",), domain, schedule, Load("y", (Iter("i"),), alone.dtype), alone, _NOWHERE)
        func = Func("operation", bufs, bufs, (comp,), _NOWHERE)
        plan = Plan((("S", CompPlan(("i",), (((("i", LoopShape(lanes, lane=True))),),))),))
        options = replace(self.options, tile="one")
        try:
            planned = plan_program(func, plan, self.target, options)
            assemble(planned, rewrite(planned, self.target, options, Effort()), self.target, options, _EACH * lanes)
        except (NoSchedule, PlantError):
            return True
        return False


def _leaf(number: int, part: Expr) -> Expr:
    """The operand as an array's element, unless it is a constant."""
    if isinstance(part, Val):
        return part
    dtype = "i32" if isinstance(part, Iter | Verbatim) else part.dtype
    return Load(f"x{number}", (from_linear((0, {"i": 1})),), dtype)
