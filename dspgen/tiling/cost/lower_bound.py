"""The lower bound on cycles that efficiency is measured against: it looks at the program and the machine alone.

The larger of (a) the arithmetic of the iteration domains at full lanes on the vector units that can do it (on scalar
units, where a machine has no vectors), a multiply and the add that takes it counting as one, and (b) the bytes that
must move, each once, over the memory's bandwidth.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import islpy as isl

from dspgen.target.isa.model import Target
from dspgen.target.query.operations import OperationTable
from dspgen.target.query.views import views
from dspgen.tiling.cost.cycle_model import operation_counts
from dspgen.tiling.cost.unit_pressure import Machine
from plant_core.analysis.dependence import live_in
from plant_core.analysis.early_exits import unavoidable
from plant_core.analysis.runtime_parameters import defined_parameters, used_parameters
from plant_core.ir.accesses import access_map
from plant_core.ir.c_semantics import size_of
from plant_core.ir.func import Buf, Func

_FEW = 4096  # points that are counted one by one
_MOST_PIECES = 8  # of a set, to be made disjoint
_ARITHMETIC = ("mac", "mul", "add", "sub")


@dataclass(frozen=True, slots=True)
class Bound:
    """Both sides of the bound, in cycles."""

    arithmetic: int
    memory: int

    @property
    def cycles(self) -> int:
        return max(self.arithmetic, self.memory, 1)


def bound(func: Func, target: Target, *, data: str, values: dict[str, int]) -> Bound:
    """The bound for `func` with its integer parameters at `values`, on the machine itself where `target` is a view.
    Statements that run as often as the data tells count for nothing, loops that the data may end for one iteration."""
    defined = set(defined_parameters(func))
    sure = tuple(c for c in func.comps if not defined & used_parameters(c))
    unsure = {c.target.buf for c in func.comps if c not in sure}
    func = func.with_comps(unavoidable(func, sure))
    arithmetic = math.ceil(arithmetic_cycles(func, target, values))
    return Bound(arithmetic, _memory(func, target, data, values, unsure))


def arithmetic_cycles(func: Func, target: Target, values: Mapping[str, int]) -> float:
    """The arithmetic of all iterations at full lanes on all units that can do it, on the machine's best view."""
    machines = [Machine(view, OperationTable(view)) for view in views(target.real)]
    cycles = 0.0
    for comp in func.comps:
        elem = comp.target.dtype
        points = count(_fixed(comp.domain, values))
        for op, times in operation_counts(comp.value).items():
            if op not in _ARITHMETIC:
                continue
            if rate := max(_rate(machine, op, elem) for machine in machines):
                cycles += points * times / rate
    return cycles


def _rate(machine: Machine, op: str, elem: str) -> int:
    """Elements that the units can do the operation on in a cycle; 0 where vectors can't do it, on machines with any."""
    forms = [machine.form(o, elem, vector=machine.vectors) for o in ("mac", op, "mul", "add")]
    return machine.lanes * max((len(f.instruction.units) for f in forms if f is not None), default=0)


def _memory(func: Func, target: Target, data: str, values: dict[str, int], unsure: set[str]) -> int:
    """Elements of array parameters read before they are written, once; elements written, once. What is read of an
    `unsure` array may have been written.

    Accesses whose place depends on data count for nothing, as they may all be to one element.
    """
    bytes_moved = 0
    for buf in func.bufs:
        if buf.kind == "param" and buf.shape:
            live = 0 if buf.name in unsure else _live_in(func, buf, values)
            bytes_moved += (live + _written(func, buf, values)) * size_of(buf.dtype)
    rates = [m.bytes_per_cycle for m in target.memories if m.onchip == (data == "onchip")]
    if data != "onchip" and target.dma is not None:
        rates.append(target.dma.bytes_per_cycle)
    return math.ceil(bytes_moved / max(rates))


def _written(func: Func, buf: Buf, values: dict[str, int]) -> int:
    targets = (access_map(c, c.target) for c in func.comps if c.target.buf == buf.name)
    return _union_count([relation for relation, exact in targets if exact], values)


def _live_in(func: Func, buf: Buf, values: dict[str, int]) -> int:
    """Elements whose first access is a read."""
    elements = live_in(func, buf.name)
    return 0 if elements is None else count(_fixed(elements, values))


def _union_count(maps: list[isl.Map], values: dict[str, int]) -> int:
    if not maps:
        return 0
    elements = maps[0].range()
    for relation in maps[1:]:
        elements = elements.union(relation.range())
    return count(_fixed(elements, values))


def _fixed(found: isl.Set, values: Mapping[str, int]) -> isl.Set:
    for name, value in values.items():
        position = found.find_dim_by_name(isl.dim_type.param, name)
        if position >= 0:
            found = found.fix_val(isl.dim_type.param, position, isl.Val.int_from_si(found.get_ctx(), value))
    return found.project_out(isl.dim_type.param, 0, found.dim(isl.dim_type.param))


def count(points: isl.Set) -> int:
    """The number of integer points of a set without parameters; boxes in closed form, others a dimension at a time."""
    if points.is_empty():
        return 0
    dims = points.dim(isl.dim_type.set)
    if dims == 0:
        return 1
    lows = [int(points.dim_min_val(d).to_python()) for d in range(dims)]
    highs = [int(points.dim_max_val(d).to_python()) for d in range(dims)]
    volume = math.prod(h - lo + 1 for lo, h in zip(lows, highs, strict=True))
    if isl.Set.universe(points.get_space()).is_equal(points) or _box(points, lows, highs).is_subset(points):
        return volume
    if dims == 1 or volume <= _FEW:
        return int(points.count_val().to_python())
    if len(parts := _pieces(points)) > 1:
        return sum(map(count, parts))
    if len(apart := _independent(points)) > 1:
        rest = [[d for d in range(dims) if d not in part] for part in apart]
        return math.prod(count(_without(points, gone)) for gone in rest)
    return sum(
        _summed(points, first, number, min(number, dims)) for first, number in _chambers(points, lows[0], highs[0])
    )


def _summed(points: isl.Set, first: int, number: int, known: int) -> int:
    """The points of `number` slices, which are a polynomial in where the slice is: `known` of them tell it, by Newton's
    forward differences."""
    found = 0
    differences = [
        count(
            points.fix_val(isl.dim_type.set, 0, isl.Val.int_from_si(points.get_ctx(), first + k)).project_out(
                isl.dim_type.set, 0, 1
            )
        )
        for k in range(known)
    ]
    for degree in range(known):
        found += differences[0] * math.comb(number, degree + 1)
        differences = [b - a for a, b in itertools.pairwise(differences)]
    return found


def _chambers(points: isl.Set, low: int, high: int) -> list[tuple[int, int]]:
    """Runs of slices along the first dimension, by their first one and number, in each of which the number of points
    is one polynomial, of a degree below the number of dimensions.

    Where all bounds are on one dimension or the difference of two, all slices have corners at integers only, so that
    this is so between two corners of the whole (Ehrhart's theorem with a parameter; Clauss, ICS 1996). Other slices are
    a run each.
    """
    each = [(v, 1) for v in range(low, high + 1)]
    parts = points.coalesce().get_basic_sets()
    if len(parts) != 1 or parts[0].dim(isl.dim_type.div):
        return each
    dims = range(points.dim(isl.dim_type.set))
    for constraint in parts[0].get_constraints():
        factors = [int(constraint.get_coefficient_val(isl.dim_type.set, d).to_python()) for d in dims]
        if sorted(f for f in factors if f) not in ([], [1], [-1], [-1, 1]):
            return each
    corners = {low, high}
    parts[0].compute_vertices().foreach_vertex(lambda v: corners.add(_at(v.get_expr())))
    ends = sorted(corners)
    return [*((a, b - a) for a, b in itertools.pairwise(ends)), (high, 1)]


def _at(corner: isl.MultiAff) -> int:
    return int(corner.get_at(0).get_constant_val().to_python())


def _pieces(points: isl.Set) -> list[isl.Set]:
    """Sets without points in common that are this one together, such as the sides of a frame; itself where it has
    some that are told by more than inequalities."""
    parts = points.coalesce().get_basic_sets()
    if not 1 < len(parts) <= _MOST_PIECES or any(p.dim(isl.dim_type.div) for p in parts):
        return [points]
    return [isl.Set.from_basic_set(p) for p in points.coalesce().make_disjoint().get_basic_sets()]


def _independent(points: isl.Set) -> list[set[int]]:
    """Groups of dimensions that no constraint ties to each other; the set is the product of its projections on them."""
    points = points.coalesce()
    dims = range(points.dim(isl.dim_type.set))
    if points.n_basic_set() != 1 or (basic := points.get_basic_sets()[0]).dim(isl.dim_type.div):
        return [set(dims)]
    groups = [{d} for d in dims]
    for constraint in basic.get_constraints():
        tied = {d for d in dims if constraint.involves_dims(isl.dim_type.set, d, 1)}
        joined = set[int]().union(*(g for g in groups if g & tied))
        groups = [*(g for g in groups if not g & tied), *([joined] if joined else [])]
    return groups


def _without(points: isl.Set, dims: list[int]) -> isl.Set:
    for d in reversed(dims):
        points = points.project_out(isl.dim_type.set, d, 1)
    return points


def _box(points: isl.Set, lows: list[int], highs: list[int]) -> isl.Set:
    box = isl.Set.universe(points.get_space())
    for d, (low, high) in enumerate(zip(lows, highs, strict=True)):
        box = box.lower_bound_val(isl.dim_type.set, d, isl.Val.int_from_si(points.get_ctx(), low))
        box = box.upper_bound_val(isl.dim_type.set, d, isl.Val.int_from_si(points.get_ctx(), high))
    return box
