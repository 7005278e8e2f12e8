"""Integer expressions of the program as exact isl sets and piecewise affine functions, or the reason why they aren't.

C's truncating `/` and `%` by constants, shifts, masks, minima and conditional expressions are all modelled exactly.
Signed arithmetic is taken not to overflow. Unsigned sums and products may go below zero on the way, as in
`x[n - 1 + i]`: what counts is the result modulo the width, and a subscript is inside its array. But where such a value
is compared, divided, widened or starts a loop, it must provably not wrap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import assert_never

import islpy as isl

from plant_core.ir.c_semantics import dtype_of, is_float, limits
from plant_core.ir.func import (
    Access,
    Binary,
    Call,
    Cast,
    DType,
    Expr,
    Iter,
    Load,
    Param,
    Ramp,
    Select,
    Unary,
    Val,
    Verbatim,
)
from plant_core.ir.printer import print_expr
from plant_core.ir.quasi_affine import constants_of

ISL_WORDS = frozenset(
    "and or not min max mod floor ceil floord ceild exists implies infty infinity nan NaN true false rat int abs"
    " exist all EXISTS AND OR NOT ALL IMPLIES".split()
)
"""Names that isl's own syntax takes."""


_LINEAR_BY_CONSTANTS = frozenset({"mul", "div", "mod", "floordiv", "shl", "shr", "and"})
_LARGEST = (1 << 31) - 1


class NotAffine(Exception):
    """`reason` completes the sentence "it isn't affine: ..."; `data` tells that it depends on the program's data."""

    def __init__(self, reason: str, *, data: bool = False, wraps: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.data = data
        self.wraps = wraps


@dataclass(frozen=True, slots=True)
class Nest:
    """The loops around a place in the program, outermost first, and the iterations that reach it."""

    iters: tuple[str, ...]
    domain: isl.Set

    @staticmethod
    def root(params: Sequence[tuple[str, DType]]) -> Nest:
        """No loops yet; unsigned and narrow parameters have their type's range."""
        space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=[], params=[name for name, _ in params])
        nest = Nest((), isl.Set.universe(space))
        for name, dtype in params:
            if dtype not in ("i32", "i64"):
                nest = nest.within(_fits(nest.variable(name), dtype))
        return nest

    def with_parameters(self, names: Sequence[str]) -> Nest:
        """The nest with more parameters, of which nothing is known."""
        domain = self.domain
        for name in names:
            position = domain.dim(isl.dim_type.param)
            domain = domain.add_dims(isl.dim_type.param, 1).set_dim_name(isl.dim_type.param, position, name)
        return Nest(self.iters, domain)

    def within(self, condition: isl.Set) -> Nest:
        return Nest(self.iters, self.domain.intersect(condition))

    def without(self, condition: isl.Set) -> Nest:
        return Nest(self.iters, self.domain.subtract(condition))

    def entered(self, iterator: str) -> Nest:
        """One loop deeper, its iterator not yet constrained."""
        depth = len(self.iters)
        domain = self.domain.add_dims(isl.dim_type.set, 1).set_dim_name(isl.dim_type.set, depth, iterator)
        return Nest((*self.iters, iterator), domain)

    def variable(self, name: str) -> isl.PwAff:
        space = self.domain.get_space()
        kind, position = isl.dim_type.param, space.find_dim_by_name(isl.dim_type.param, name)
        if name in self.iters:
            kind, position = isl.dim_type.set, self.iters.index(name)
        if position < 0:
            raise NotAffine(f"'{name}' isn't known here")
        return isl.PwAff.from_aff(isl.Aff.var_on_domain(isl.LocalSpace.from_space(space), kind, position))

    def constant(self, value: int) -> isl.PwAff:
        local = isl.LocalSpace.from_space(self.domain.get_space())
        return isl.PwAff.from_aff(isl.Aff.val_on_domain(local, isl.Val(value)))

    def universe(self) -> isl.Set:
        return isl.Set.universe(self.domain.get_space())


def exact(expr: Expr, nest: Nest) -> isl.PwAff:
    """The value of an integer expression at each point of the nest, which it takes in C too. Raises NotAffine."""
    if isinstance(expr, Val) and not is_float(expr.dtype):
        return nest.constant(int(expr.value))
    value = piecewise(expr, nest)
    return value if dtype_of(expr) != "u32" else _checked(value, "u32", expr, nest)


def piecewise(expr: Expr, nest: Nest) -> isl.PwAff:
    """The value of an integer expression, for unsigned types modulo their width. Raises NotAffine."""
    match expr:
        case Val(value, dtype):
            if is_float(dtype):
                raise NotAffine("it is a floating-point value")
            # `m + 4294967295u` is `m - 1`: upwards, sums are taken not to wrap.
            wraps = dtype == "u32" and value > _LARGEST
            return nest.constant(int(value) - (1 << 32 if wraps else 0))
        case Param(name, dtype) if is_float(dtype):
            raise NotAffine(f"'{name}' is a floating-point value", data=True)
        case Iter(name) | Param(name):
            return nest.variable(name)
        case Cast(dtype, operand):
            return _cast(dtype, operand, nest)
        case Unary():
            return _unary(expr, nest)
        case Binary():
            return _binary(expr, nest)
        case Select(condition_, true, false):
            chosen = condition(condition_, nest)
            return chosen.indicator_function().cond(
                piecewise(true, nest.within(chosen)), piecewise(false, nest.without(chosen))
            )
        case Load():
            raise NotAffine(f"'{print_expr(expr)}' is known only when the program runs", data=True)
        case Call(name):
            raise NotAffine(f"'{name}' is called", data=True)
        case Access() | Ramp() | Verbatim():
            raise NotAffine(f"'{print_expr(expr)}' has no value of its own", data=True)
        case _:
            assert_never(expr)


def condition(expr: Expr, nest: Nest) -> isl.Set:
    """The points of the nest's space at which the expression isn't zero. Raises NotAffine."""
    match expr:
        case Binary("land", left, right):
            first = condition(left, nest)
            return first.intersect(condition(right, nest.within(first)))
        case Binary("lor", left, right):
            first = condition(left, nest)
            return first.union(condition(right, nest.without(first)))
        case Unary("lnot", operand) if not is_float(dtype_of(operand)):
            return nest.universe().subtract(condition(operand, nest))
        case Binary("lt" | "le" | "gt" | "ge" | "eq" | "ne" as op, left, right):
            one, other = exact(left, nest), exact(right, nest)
            compared: isl.Set = getattr(one, f"{op}_set")(other)
            return compared
        case _:
            return exact(expr, nest).ne_set(nest.constant(0))


def is_data_dependent(expr: Expr) -> bool:
    """Whether an array, a variable or a float has a part in the value."""
    match expr:
        case Load() | Call() | Access() | Ramp() | Verbatim():
            return True
        case Val() | Iter():
            return False
        case Param(_, dtype):
            return is_float(dtype)
        case Cast(_, operand) | Unary(_, operand):
            return is_data_dependent(operand)
        case Binary(_, left, right):
            return is_data_dependent(left) or is_data_dependent(right)
        case Select(condition_, true, false):
            return any(is_data_dependent(e) for e in (condition_, true, false))
        case _:
            assert_never(expr)


def is_irregular(expr: Expr) -> bool:
    """Whether the value depends on the program's data, or isn't affine whatever the iterations: `i * j`, `n / m`."""
    match expr:
        case Load() | Call() | Access() | Ramp() | Verbatim():
            return True
        case Val() | Iter() | Param():
            return is_data_dependent(expr)
        case Cast(_, operand) | Unary(_, operand):
            return is_irregular(operand)
        case Binary("or" | "xor"):
            return not is_fixed(expr)
        case Binary("and", left, Val(mask, dtype)):
            plain = mask >= 0 and int(mask) & (int(mask) + 1) == 0
            return is_irregular(left) or not (plain or _low_bits(int(mask), dtype))
        case Binary(op, left, right):
            fixed = is_fixed(right) or (op == "mul" and is_fixed(left))
            return is_irregular(left) or is_irregular(right) or (op in _LINEAR_BY_CONSTANTS and not fixed)
        case Select(condition_, true, false):
            return any(is_irregular(e) for e in (condition_, true, false))
        case _:
            assert_never(expr)


def is_fixed(expr: Expr) -> bool:
    """Whether the expression has neither iterators nor parameters in it, nor anything from memory."""
    match expr:
        case Val():
            return True
        case Cast(_, operand) | Unary(_, operand):
            return is_fixed(operand)
        case Binary(_, left, right):
            return is_fixed(left) and is_fixed(right)
        case _:
            return False


def to_expr(aff: isl.Aff, nest: Nest) -> Expr:
    """An isl affine function as a sum: iterators outermost first, parameters, integer divisions, the constant."""
    denominator = aff.get_denominator_val()
    whole = aff.scale_val(denominator)
    total = _sum(whole, nest)
    scale = denominator.to_python()
    return total if scale == 1 else Binary("floordiv", total, Val(scale, "i32"), "i32")


def _sum(aff: isl.Aff, nest: Nest) -> Expr:
    terms: list[tuple[int, Expr]] = []
    kinds = isl.dim_type
    for position, name in enumerate(nest.iters):
        terms.append((aff.get_coefficient_val(kinds.in_, position).to_python(), Iter(name)))
    for position in range(aff.dim(kinds.param)):
        name = dim_name(aff, position)
        terms.append((aff.get_coefficient_val(kinds.param, position).to_python(), Param(name, "i32")))
    for position in range(aff.dim(kinds.div)):
        factor = aff.get_coefficient_val(kinds.div, position).to_python()
        if factor:
            terms.append((factor, to_expr(aff.get_div(position), nest)))
    constant = aff.get_constant_val().to_python()
    total: Expr | None = None
    for factor, term in sorted(terms, key=lambda t: t[0] < 0):
        if factor:
            total = _plus(total, factor, term)
    if total is None:
        return Val(constant, "i32")
    if constant:
        return Binary("add" if constant > 0 else "sub", total, Val(abs(constant), "i32"), "i32")
    return total


def _plus(total: Expr | None, factor: int, term: Expr) -> Expr:
    size = abs(factor)
    scaled = term if size == 1 else Binary("mul", Val(size, "i32"), term, "i32")
    if total is None:
        if factor > 0:
            return scaled
        return Unary("neg", term, "i32") if size == 1 else Binary("mul", Val(factor, "i32"), term, "i32")
    return Binary("add" if factor > 0 else "sub", total, scaled, "i32")


def dim_name(thing: isl.Aff | isl.Set | isl.Space, position: int) -> str:
    """The name of an isl parameter; here they all have one."""
    return str(thing.get_dim_name(isl.dim_type.param, position))


def proven(value: isl.PwAff, dtype: DType, nest: Nest) -> bool:
    """Whether the value is in its type's range at every point of the nest."""
    return bool(nest.domain.is_subset(_fits(value, dtype)))


def _fits(value: isl.PwAff, dtype: DType) -> isl.Set:
    low, high = limits(dtype)
    space = value.get_domain_space()
    zero = isl.PwAff.from_aff(isl.Aff.zero_on_domain(isl.LocalSpace.from_space(space)))
    inside: isl.Set = value.ge_set(zero.add_constant_val(isl.Val(low)))
    # 32 bits and more are taken not to overflow upwards where sizes bound them, as isl's integers don't.
    if dtype not in ("u32", "i32", "i64"):
        inside = inside.intersect(value.le_set(zero.add_constant_val(isl.Val(high))))
    return inside


def _leaves(value: isl.PwAff, dtype: DType, nest: Nest) -> bool:
    """Tell whether constant bounds of the value leave the type. Bounds that depend on sizes are taken not to."""
    low, high = limits(dtype)
    reached = value.intersect_domain(nest.domain)
    least, most = reached.min_val(), reached.max_val()
    return bool((least.is_int() and least.to_python() < low) or (most.is_int() and most.to_python() > high))


def _checked(value: isl.PwAff, dtype: DType, expr: Expr, nest: Nest) -> isl.PwAff:
    if dtype not in ("i32", "i64") and (not proven(value, dtype, nest) or _leaves(value, dtype, nest)):
        raise NotAffine(f"'{print_expr(expr)}' may wrap around in its type", wraps=True)
    return value


def _cast(dtype: DType, operand: Expr, nest: Nest) -> isl.PwAff:
    source = dtype_of(operand)
    if is_float(dtype) or is_float(source):
        raise NotAffine("it is computed in floating point", data=is_data_dependent(operand))
    if dtype in ("i32", "u32"):
        value = piecewise(operand, nest)
        if dtype == "i32" and source == "u32" and _leaves(value, dtype, nest):
            raise NotAffine(f"'{print_expr(operand)}' may be outside 'int'", wraps=True)
        return value
    return _checked(exact(operand, nest), dtype, operand, nest)


def _unary(expr: Unary, nest: Nest) -> isl.PwAff:
    if expr.op == "lnot":
        return condition(expr, nest).indicator_function()
    value = piecewise(expr.operand, nest)
    match expr.op:
        case "neg":
            return value.neg()
        case "not":
            return value.neg().sub(nest.constant(1))
        case "abs":
            return value.max(value.neg())
        case _:
            raise NotAffine(f"'{expr.op}' isn't linear")


def _binary(expr: Binary, nest: Nest) -> isl.PwAff:
    match expr.op:
        case "lt" | "le" | "gt" | "ge" | "eq" | "ne" | "land" | "lor":
            return condition(expr, nest).indicator_function()
    if is_float(expr.dtype):
        raise NotAffine("it is computed in floating point", data=is_data_dependent(expr))
    left, right = piecewise(expr.left, nest), piecewise(expr.right, nest)
    match expr.op:
        case "add":
            return left.add(right)
        case "sub":
            return left.sub(right)
        case "mul":
            if not left.is_cst() and not right.is_cst():
                raise NotAffine(f"'{print_expr(expr)}' multiplies two values that both vary")
            return left.mul(right)
    if expr.op not in ("shl", "and") and not _is_mask(expr):
        left, right = exact(expr.left, nest), exact(expr.right, nest)
    match expr.op:
        case "min":
            return left.min(right)
        case "max":
            return left.max(right)
    constants = constants_of(right)
    if not constants:
        raise NotAffine(f"'{print_expr(expr)}' has no constant on the right")
    pieces = (
        _by_constant(expr, left, value, nest.within(where)).intersect_domain(where)
        for where, value in constants
        if not where.is_disjoint(nest.domain)
    )
    return reduce(isl.PwAff.union_add, pieces, isl.PwAff.empty(right.get_space()))


def _by_constant(expr: Binary, left: isl.PwAff, value: int, nest: Nest) -> isl.PwAff:
    amount = nest.constant(value)
    match expr.op:
        case "mod" if _is_mask(expr):
            return left.mod_val(isl.Val(value))
        case "div" | "mod" if value != 0 and abs(value) <= _LARGEST:
            truncated = left.tdiv_q(nest.constant(abs(value)))
            quotient = truncated if value > 0 else truncated.neg()
            return quotient if expr.op == "div" else left.tdiv_r(nest.constant(abs(value)))
        case "floordiv" if value > 0:
            return left.div(amount).floor()
        case "shl" if 0 <= value < 31:
            return left.scale_val(isl.Val(1 << value))
        case "shr" if 0 <= value < 31:
            return left.scale_down_val(isl.Val(1 << value)).floor()
        case "and" if value > _LARGEST >> 1 and value & (value + 1) == 0:
            return _all_bits(expr, left, value, nest)
        case "and" if value >= 0 and value & (value + 1) == 0:
            return left.mod_val(isl.Val(value + 1))
        case "and" if (kept := _low_bits(value, expr.dtype)) is not None:
            return left.sub(left.mod_val(isl.Val(kept)))
    raise NotAffine(f"'{print_expr(expr)}' isn't linear")


def _is_mask(expr: Binary) -> bool:
    """Whether it is a remainder that only has the lowest bits, so that the dividend may wrap."""
    match expr:
        case Binary("mod", _, Val(value, "u32")):
            return 0 < value <= _LARGEST and int(value) & (int(value) - 1) == 0
        case _:
            return False


def _all_bits(expr: Binary, left: isl.PwAff, mask: int, nest: Nest) -> isl.PwAff:
    """What a mask of so many bits, whose remainder no number of the program tells, takes nothing from."""
    whole = expr.dtype == "u32" and mask > _LARGEST
    below = expr.dtype == "i32" or nest.domain.is_subset(left.le_set(nest.constant(mask)))
    if not whole and not (below and proven(left, "u32", nest)):
        raise NotAffine(f"'{print_expr(expr)}' isn't linear")
    return left


def _low_bits(mask: int, dtype: DType) -> int | None:
    """2**k for a mask that takes off the lowest k bits."""
    lowest = (1 << 32) - mask if dtype == "u32" and mask > 0 else -mask
    return lowest if lowest > 0 and lowest & (lowest - 1) == 0 else None
