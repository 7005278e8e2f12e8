"""What the default schedule has to know of each statement: its loops, their trips, strides, and arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

import islpy as isl

from plant_core.analysis.dependence import Reduction, reduction_of
from plant_core.ir.accesses import access_key, accesses, all_bufs, children, domain_of, linear
from plant_core.ir.c_semantics import is_float, size_of
from plant_core.ir.func import Binary, Buf, Call, Comp, Expr, Func, Iter, Load, Select, Unary
from plant_core.ir.time_2d1 import position

GUESSED_EXTENT = 1000
"""The value that a parameter is taken to have where nothing is known of it."""


@dataclass(frozen=True, slots=True)
class Touch:
    """One access of a statement. `strides`: bytes from one iteration to the next, for each iterator that moves it.
    `known` is False where a subscript isn't affine. `own`: the target of a reduction, read and written."""

    buf: str
    strides: dict[str, int]
    written: bool
    own: bool
    known: bool

    def stride(self, iterator: str | None) -> int:
        return self.strides.get(iterator, 0) if iterator is not None else 0


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation and the iterators that its value depends on. A product that is added at once counts with the sum."""

    kind: Literal["fused", "slow", "call"]
    varies: frozenset[str]


@dataclass(frozen=True, slots=True)
class Facts:
    """`signs`: -1 for an iterator that counts down. `firsts`: where a loop begins, in the direction it counts, if that
    is one number. `trips`: the most iterations of each loop, `points` an estimate of
    the instances. `elem`: bytes of the widest element."""

    comp: Comp
    signs: dict[str, int]
    firsts: dict[str, int]
    trips: dict[str, int]
    points: float
    touches: tuple[Touch, ...]
    operations: tuple[Operation, ...]
    elem: int
    reduction: Reduction | None

    @property
    def name(self) -> str:
        return self.comp.name

    @property
    def iters(self) -> tuple[str, ...]:
        return self.comp.iters


def facts_of(func: Func) -> dict[str, Facts] | None:
    """Facts of every Comp, or None where a schedule has other loops than the iterators themselves."""
    bufs = all_bufs(func)
    found = {}
    for comp in func.comps:
        signs = _signs(comp)
        if signs is None:
            return None
        found[comp.name] = _facts(comp, bufs, signs)
    return found


def _signs(comp: Comp) -> dict[str, int] | None:
    signs: dict[str, int] = {}
    for k, line in enumerate(position(comp).loops):
        if not line.terms:
            # A loop of one iteration, which isl writes as its number.
            signs[comp.iters[k]] = 1
        elif len(line.terms) != 1 or line.terms[0][0] not in comp.iters or abs(line.terms[0][1]) != 1 or line.constant:
            return None
        else:
            signs[line.terms[0][0]] = line.terms[0][1]
    return signs if len(signs) == len(comp.iters) else None


def _facts(comp: Comp, bufs: dict[str, Buf], signs: dict[str, int]) -> Facts:
    trips, points = _sizes(comp)
    reduction = reduction_of(comp)
    own = access_key(comp.target) if reduction is not None else None
    touches = [_touch(comp, comp.target, bufs, written=True, own=own is not None)]
    seen = {own}
    for access in accesses(comp.value):
        key = access_key(access)
        if key not in seen:
            seen.add(key)
            touches.append(_touch(comp, access, bufs, written=False, own=False))
    operations: list[Operation] = []
    _operations(comp.value, set(comp.iters), operations)
    elem = max(size_of(bufs[t.buf].dtype) for t in touches)
    return Facts(
        comp,
        signs,
        _firsts(comp, signs),
        trips,
        points,
        tuple(touches),
        tuple(operations),
        elem=elem,
        reduction=reduction,
    )


def _firsts(comp: Comp, signs: dict[str, int]) -> dict[str, int]:
    """The iterations that a loop begins with whatever the other loops do."""
    domain = domain_of(comp)
    found = {}
    for k, name in enumerate(comp.iters):
        end = domain.dim_min_val(k) if signs[name] > 0 else domain.dim_max_val(k).neg()
        if end.is_int() and not _depends(domain, k):
            found[name] = end.to_python()
    return found


def _sizes(comp: Comp) -> tuple[dict[str, int], float]:
    domain = domain_of(comp)
    for k in range(domain.dim(isl.dim_type.param)):
        fixed = domain.fix_val(isl.dim_type.param, k, isl.Val(GUESSED_EXTENT))
        domain = fixed if not fixed.is_empty() else domain
    if domain.is_empty():
        return dict.fromkeys(comp.iters, 0), 0.0
    trips = {}
    for k, name in enumerate(comp.iters):
        low, high = domain.dim_min_val(k), domain.dim_max_val(k)
        known = low.is_int() and high.is_int()
        trips[name] = high.sub(low).to_python() + 1 if known else GUESSED_EXTENT
    # A loop whose bounds move with another one is half full.
    dependent = sum(_depends(domain, k) for k in range(len(comp.iters)))
    return trips, prod(map(float, trips.values())) / 2 ** min(dependent, 2)


def _depends(domain: isl.Set, dim: int) -> bool:
    for basic in domain.get_basic_sets():
        for constraint in basic.get_constraints():
            if constraint.get_coefficient_val(isl.dim_type.set, dim).is_zero():
                continue
            if any(not constraint.get_coefficient_val(isl.dim_type.set, other).is_zero() for other in range(dim)):
                return True
    return False


def _touch(comp: Comp, access: Load, bufs: dict[str, Buf], *, written: bool, own: bool) -> Touch:
    buf = bufs[access.buf]
    extents = [n if isinstance(n, int) else GUESSED_EXTENT for n in buf.shape]
    strides: dict[str, int] = {}
    known = True
    for dim, index in enumerate(access.indices):
        form = linear(index)
        if form is None:
            known = False
            continue
        row = size_of(buf.dtype) * prod(extents[dim + 1 :])
        for name, coefficient in form[1].items():
            if name in comp.iters:
                strides[name] = strides.get(name, 0) + coefficient * row
    return Touch(buf.name, {n: s for n, s in strides.items() if s}, written, own, known)


def _operations(expr: Expr, iters: set[str], found: list[Operation], *, added: bool = False) -> frozenset[str]:
    """Lists the operations of `expr`, and gives the iterators that it depends on."""
    if isinstance(expr, Iter):
        return frozenset({expr.name} & iters)
    summed = isinstance(expr, Binary) and expr.op in ("add", "sub")
    parts = [_operations(p, iters, found, added=summed) for p in children(expr)]
    varies = frozenset().union(*parts)
    match expr:
        case Binary(op="mul") if added:
            pass
        case Binary(op="div", dtype=dtype) if is_float(dtype):
            found.append(Operation("slow", varies))
        case Unary(op="sqrt"):
            found.append(Operation("slow", varies))
        case Call():
            found.append(Operation("call", varies))
        case Binary() | Unary() | Select():
            found.append(Operation("fused", varies))
        case _:
            pass
    return varies
