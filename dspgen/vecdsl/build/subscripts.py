"""Where an access lies in memory: an address, the pattern of its lanes, and what must be computed at run time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from dspgen.errors import NoSchedule, Problem
from dspgen.vecdsl.analysis.integer_ranges import Ranges
from dspgen.vecdsl.build.affine_forms import add, affine, scale
from dspgen.vecdsl.build.expressions import dtype_of
from dspgen.vecdsl.build.lanes import Lanes, Pattern, constants, pattern, two_level
from dspgen.vecdsl.ir.constant_folding import make
from dspgen.vecdsl.ir.program import Address, Const, Term, VType
from dspgen.vecdsl.ir.terms import as_vector, integer
from plant_core.ir.func import Binary, Buf, Cast, Expr, Load, Unary, Val

# A name that no C identifier can be, for a statement's iterators while its subscripts are flattened.
_POINT = "%"
_LONG = ("i64", "u32")
SPARE_VECTORS = 4  # that may be read beyond an array's ends


@dataclass(frozen=True, slots=True)
class Located:
    """An access of one vector: the element of lane 0, where the other lanes' lie from it, and the part of the subscript
    that isn't affine (i32, in elements; a scalar where it is the same on all lanes)."""

    address: Address
    pattern: Pattern
    index: Term | None = None

    @property
    def uniform(self) -> bool:
        """Whether all lanes access the same element."""
        return self.pattern.uniform and (self.index is None or not self.index.type.vector)

    def inside(self, size: int, lanes: Lanes, ranges: Ranges) -> bool:
        """Whether the running lanes surely access elements of an array of `size`."""
        return self.index is None and self._within(self._offsets(lanes, lanes.running), ranges, size, 0)

    def near(self, size: int, lanes: Lanes, ranges: Ranges) -> bool:
        """Whether lanes that don't run access elements of an array of `size`, too, or some no further from an end of
        what the others access than a few vectors. Under a limit, only one lane is known to run, or none."""
        if self.index is not None:
            return False
        spare = SPARE_VECTORS * lanes.count
        every = self._offsets(lanes, lanes.count)
        running = every[: lanes.running] if lanes.present is None else every[:1]
        if lanes.limit is not None:
            running = [] if lanes.certain is None else [every[lanes.certain]]
        if running and min(every) >= min(running) - spare and max(every) <= max(running) + spare:
            return True
        return self._within(every, ranges, size, spare)

    def _offsets(self, lanes: Lanes, count: int) -> list[int]:
        period = self.pattern.period or lanes.count
        return [k % period * self.pattern.stride + k // period * self.pattern.jump for k in range(count)]

    def _within(self, offsets: list[int], ranges: Ranges, size: int, spare: int) -> bool:
        low, high = ranges.minimum(self.address), ranges.maximum(self.address)
        if low is None or high is None:
            return False
        return low + min(offsets) >= -spare and high + max(offsets) < size + spare


@dataclass(slots=True)
class _Sum:
    """A flattened subscript on its way: its affine part for each lane, and the rest."""

    address: Address
    offsets: list[int]
    rest: list[tuple[Expr, int]] = field(default_factory=list)


class Subscripts:
    """The accesses of one statement, flattened row-major."""

    def __init__(self, buffers: Mapping[str, Buf], iters: tuple[str, ...], ranges: Ranges) -> None:
        self.buffers = buffers
        self.symbols = {n: Address(0, ((_POINT + n, 1),)) for n in iters}
        self.ranges = ranges
        self.flat = dict[tuple[str, tuple[Expr, ...]], Address | None]()

    def locate(self, access: Load, lanes: Lanes, value: Callable[[Expr], Term]) -> Located:
        """`value` translates an integer expression at these lanes. Raises NoSchedule where its type has no code."""
        key = (access.buf, access.indices)
        if key not in self.flat:
            self.flat[key] = self._flatten(access)
        form = self.flat[key]
        if form is None:
            return self._located(access, lanes, value)
        address, steps = Address(form.constant), dict[str, int]()
        for name, coefficient in form.terms:
            if name.startswith(_POINT):
                steps[name[len(_POINT) :]] = coefficient
                address = add(address, lanes.first[name[len(_POINT) :]], coefficient)
            else:
                address = add(address, Address(0, ((name, 1),)), coefficient)
        if lanes.outer is None:
            return Located(address, Pattern())
        stride = 0 if lanes.inner is None else steps.get(lanes.inner, 0)
        jump = lanes.direction * steps.get(lanes.outer, 0)
        return Located(address, two_level(stride, jump, lanes.period, lanes.count))

    def _flatten(self, access: Load) -> Address | None:
        total = Address(0)
        for index, extent in zip(access.indices, self.buffers[access.buf].extents, strict=True):
            form = affine(index, self.symbols, Ranges())
            if form is None:
                return None
            total = add(scale(total, extent), form)
        return total

    def _located(self, access: Load, lanes: Lanes, value: Callable[[Expr], Term]) -> Located:
        """Subscripts that aren't affine: what is affine at each lane all the same, and a computed rest."""
        points = [lanes.at(k) for k in range(lanes.running)]
        total = _Sum(Address(0), [0] * lanes.running)
        factor = 1
        for index, extent in reversed(list(zip(access.indices, self.buffers[access.buf].extents, strict=True))):
            self._split(index, factor, points, total)
            factor *= extent
        shape = Pattern() if lanes.outer is None else pattern(total.offsets, lanes.count)
        parts = [self._part(access, expr, factor, value) for expr, factor in total.rest]
        if shape.table:
            parts, shape = [*parts, constants(shape.table)], Pattern()
        return Located(total.address, shape, _added(parts))

    def _split(self, expr: Expr, factor: int, points: list[dict[str, Address]], total: _Sum) -> None:
        forms = self._forms(expr, points)
        if forms is not None:
            total.address = add(total.address, forms[0], factor)
            total.offsets = [
                o + factor * (f.constant - forms[0].constant) for o, f in zip(total.offsets, forms, strict=True)
            ]
            return
        match expr:
            case Binary(op="add" | "sub"):
                self._split(expr.left, factor, points, total)
                self._split(expr.right, factor if expr.op == "add" else -factor, points, total)
            case Binary(op="mul", right=Val(value=int(times))):
                self._split(expr.left, factor * times, points, total)
            case Binary(op="mul", left=Val(value=int(times))):
                self._split(expr.right, factor * times, points, total)
            case Unary(op="neg"):
                self._split(expr.operand, -factor, points, total)
            case Cast(dtype="i32" | "u32" | "i64") if dtype_of(expr.operand) not in ("f32", "f64"):
                self._split(expr.operand, factor, points, total)
            case _:
                total.rest.append((expr, factor))

    def _forms(self, expr: Expr, points: list[dict[str, Address]]) -> list[Address] | None:
        """The expression's affine forms on the lanes, if they differ by constants."""
        found = list[Address]()
        for point in points:
            form = affine(expr, point, self.ranges)
            if form is None or (found and form.terms != found[0].terms):
                return None
            found.append(form)
        return found

    def _part(self, access: Load, expr: Expr, factor: int, value: Callable[[Expr], Term]) -> Term:
        term = value(_as_word(expr))
        if term.type.elem != "i32":
            message = f"a subscript of '{access.buf}' of type {term.type.elem} has no code here"
            raise NoSchedule(Problem("DG332", message, access.loc, "use an int, or --backend cpu"))
        if factor == 1:
            return term
        times = as_vector(integer(factor)) if term.type.vector else integer(factor)
        return make("mul", (term, times), term.type)


def _as_word(expr: Expr) -> Expr:
    """A long or unsigned sum in 32 bits: an address has no more."""
    match expr:
        case Binary(op="add" | "sub" | "mul", dtype=dtype) if dtype in _LONG:
            return replace(expr, left=_as_word(expr.left), right=_as_word(expr.right), dtype="i32")
        case Unary(op="neg", dtype=dtype) if dtype in _LONG:
            return replace(expr, operand=_as_word(expr.operand), dtype="i32")
        case Cast(dtype=dtype) if dtype in _LONG and dtype_of(expr.operand) not in ("f32", "f64"):
            return _as_word(expr.operand)
        case Val(value=int(value), dtype="i64") if -(1 << 31) <= value < 1 << 31:
            return Val(value, "i32")
        case _:
            return expr


def _added(parts: list[Term]) -> Term | None:
    """The sum, what is the same on all lanes first."""
    total: Term | None = None
    for part in sorted(parts, key=lambda p: p.type.vector):
        if total is None:
            total = part
            continue
        vector = total.type.vector or part.type.vector
        args = (as_vector(total), as_vector(part)) if vector else (total, part)
        total = make("add", args, VType("i32", vector))
    return None if isinstance(total, Const) and not total.value else total
