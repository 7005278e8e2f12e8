"""Random inputs for a kernel, the same for the same seed on every machine."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

import islpy as isl
import numpy as np
import numpy.typing as npt

from dspgen.errors import DspgenError, Problem
from dspgen.frontend.scop.expr_walk import accesses, children, parameters
from plant_core.ir.c_semantics import INTEGERS, NUMPY, is_float, limits, shape_of
from plant_core.ir.func import Binary, Buf, Cast, DType, Expr, Func, Load, ScalarParam, Select

Array = npt.NDArray[Any]
_SPREAD = 1000
_SHIFT = 8


def random_inputs(
    func: Func, seed: int, given: Mapping[str, Array | int | float] | None = None
) -> dict[str, Array | int | float]:
    """A value for every parameter that isn't in `given`, whose values are taken over.

    Arrays have the extents that the integer parameters give them.
    Floats are uniform in [-1, 1); 8-bit integers take their whole range, wider ones up to 1000 either way. What is
    divided by is never zero, and shift counts are small; subscripts stay inside the array that they are used with.
    Raises DspgenError if an integer parameter that bounds loops or subscripts, or is an array's extent, isn't given, or
    an array that bounds loops or that subscripts are computed from: only the user knows what it may be.
    """
    known = dict(given or {})
    needed = _symbolic(func) - set(known)
    needed |= _unforeseen(func) - set(known)
    missing = [p for p in func.params if p.name in needed and (isinstance(p, ScalarParam) or p.shape)]
    if missing:
        raise DspgenError(*(_unknown(p) for p in missing))
    divisors, shifts = _names(func, ("div", "mod")), _names(func, ("shl", "shr"))
    integers = {p.name: int(known[p.name]) for p in func.params if p.name in known and _is_integer(p)}
    drawn = [p for p in func.params if isinstance(p, Buf) and p.name not in known]
    size = sum(8 * math.prod(shape_of(p, integers)) for p in drawn)
    if size > _memory():
        raise MemoryError(f"the arrays have {size} bytes")
    below = _subscripts(func, integers)
    found: dict[str, Array | int | float] = {}
    for position, param in enumerate(func.params):
        if param.name in known:
            found[param.name] = known[param.name]
            continue
        generator = np.random.default_rng([seed, position])
        shape = shape_of(param, integers) if isinstance(param, Buf) else ()
        values = _draw(generator, param.dtype, shape, param.name in divisors, param.name in shifts)
        if param.name in below and not is_float(param.dtype):
            values = np.asarray(values.astype(np.int64) % max(below[param.name], 1), NUMPY[param.dtype])
        found[param.name] = values if isinstance(param, Buf) else values.item()
    return found


def _memory() -> int:
    """How many bytes may be drawn: a share of this computer's memory, as results and copies take several times that."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4


def _is_integer(param: Buf | ScalarParam) -> bool:
    return isinstance(param, ScalarParam) and not is_float(param.dtype)


def _unknown(param: Buf | ScalarParam) -> Problem:
    message = f"the parameter '{param.name}' bounds loops or subscripts, so its value must be given"
    if isinstance(param, Buf):
        return Problem(
            "DG501", message, param.loc, f"give it with the inputs, or by a line @input {param.name} expr ..."
        )
    return Problem("DG501", message, param.loc, f"give it with the inputs, or fix it: -D {param.name}=...")


def _symbolic(func: Func) -> set[str]:
    names: set[str] = set()
    for comp in func.comps:
        count = comp.domain.dim(isl.dim_type.param)
        names |= {str(comp.domain.get_dim_name(isl.dim_type.param, k)) for k in range(count)}
        if comp.defines is not None:
            names |= {p.name for p in parameters(comp.value)}
        for access in (comp.target, *accesses(comp.value)):
            names |= {p.name for index in access.indices for p in parameters(index)}
    extents = [extent for buf in func.bufs for extent in buf.shape if not isinstance(extent, int)]
    return names | {p.name for extent in extents for p in parameters(extent)}


def _places(func: Func) -> Iterator[tuple[Load, int, Expr]]:
    """Every access, one of its axes, and what may give its subscript there."""
    for comp in func.comps:
        targets = (comp.target, *(a for index in comp.target.indices for a in accesses(index)))
        for access in (*targets, *accesses(comp.value)):
            for axis, index in enumerate(access.indices):
                for arm in _arms(index):
                    yield access, axis, arm


def _arms(index: Expr) -> Iterator[Expr]:
    match index:
        case Cast():
            yield from _arms(index.operand)
        case Select():
            yield from (*_arms(index.true), *_arms(index.false))
        case _:
            yield index


def _subscripts(func: Func, integers: Mapping[str, int]) -> dict[str, int]:
    """What the elements of arrays have to stay below that are subscripts themselves."""
    shapes = {buf.name: shape_of(buf, integers) for buf in func.bufs if buf.shape}
    below: dict[str, int] = {}
    for access, axis, index in _places(func):
        if isinstance(index, Load) and index.indices:
            below[index.buf] = min(below.get(index.buf, _SPREAD), shapes[access.buf][axis])
        elif _masked(index):
            for inner in accesses(index):
                below.setdefault(inner.buf, _SPREAD)
    return below


def _unforeseen(func: Func) -> set[str]:
    """Arrays that `func` only reads and whose elements bound loops, or are computed with for subscripts in ways that
    may leave the array."""
    found = {a.buf for c in func.comps if c.defines is not None for a in accesses(c.value)}
    for _, _, index in _places(func):
        if not isinstance(index, Load):
            found |= {a.buf for a in _summands(index)}
    return found - {c.target.buf for c in func.comps}


def _summands(index: Expr) -> Iterator[Load]:
    """The elements that a number is computed from, those of conditions aside."""
    match index:
        case Load():
            yield index
        case Select():
            yield from (*_summands(index.true), *_summands(index.false))
        case Binary(op="lt" | "le" | "gt" | "ge" | "eq" | "ne" | "land" | "lor"):
            return
        case _ if not _masked(index):
            for child in children(index):
                yield from _summands(child)


def _masked(index: Expr) -> bool:
    """Whether the low bits of something, which tell that the user took care of its range."""
    return isinstance(index, Binary) and index.op in ("and", "mod")


def _names(func: Func, operators: tuple[str, ...]) -> set[str]:
    """What is read on the right of an integer division or a shift."""
    found: set[str] = set()
    for comp in func.comps:
        for expr in _walk(comp.value):
            if isinstance(expr, Binary) and expr.op in operators and not is_float(expr.dtype):
                parts = list(_walk(expr.right))
                found |= {p.buf for p in parts if isinstance(p, Load)} | {p.name for p in parameters(expr.right)}
    return found


def _walk(expr: Expr) -> Iterator[Expr]:
    yield expr
    for child in children(expr):
        yield from _walk(child)


def _draw(generator: np.random.Generator, dtype: DType, shape: tuple[int, ...], divides: bool, shifts: bool) -> Array:
    if is_float(dtype):
        return np.asarray(generator.uniform(-1.0, 1.0, shape), NUMPY[dtype])
    low, high = limits(dtype)
    if INTEGERS[dtype][0] > 8:
        low, high = max(low, -_SPREAD), min(high, _SPREAD)
    if shifts:
        low, high = 1 if divides else 0, _SHIFT - 1
    values = generator.integers(low, high, shape, endpoint=True)
    if divides:
        values = np.where(values == 0, 1, values)
    return np.asarray(values, NUMPY[dtype])
