"""Integer values at the instances of statements as quasi-affine functions, also where variables and choices tell.

In `k = i + lag; if (k >= 60) k -= 60; y[lag] += b[k];` what `k` is where `b[k]` is read is `i + lag` below 60, and
`i + lag - 60` from there on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import islpy as isl

from plant_core.analysis.dependence import Flow, flows
from plant_core.ir.accesses import access_key, domain_of, is_integer, linear, pw_binary, read_accesses, to_pw_aff
from plant_core.ir.c_semantics import dtype_of, limits
from plant_core.ir.func import Binary, Cast, Comp, DType, Expr, Func, Load, Select, Unary

_MOST_PIECES = 32  # of a value that is looked at


@dataclass(slots=True)
class KnownValues:
    """The values of one function, its flows of data looked at when they are first needed."""

    func: Func
    _flows: tuple[Flow, ...] | None = None
    _seen: dict[tuple[str, Expr], isl.PwAff | None] = field(default_factory=dict)

    def of(self, expr: Expr, comp: Comp) -> isl.PwAff | None:
        """The value on the statement's domain; None where it is not known to be quasi-affine.

        Requires: 2d+1 schedules. Signed arithmetic is taken not to overflow; what could wrap in other types has no
        value here.
        """
        key = comp.name, expr
        if key not in self._seen:
            self._seen[key] = None  # for what would ask for itself
            value = self._value(expr, comp)
            few = value is not None and value.n_piece() <= _MOST_PIECES
            self._seen[key] = value.intersect_domain(domain_of(comp)).coalesce() if value is not None and few else None
        return self._seen[key]

    def _value(self, expr: Expr, comp: Comp) -> isl.PwAff | None:
        if linear(expr) is not None:
            return to_pw_aff(expr, comp)
        match expr:
            case Load(indices=()):
                return self._variable(expr, comp)
            case Cast(dtype, operand) if is_integer(dtype) and is_integer(dtype_of(operand)):
                return _within(self.of(operand, comp), dtype, dtype_of(operand))
            case Unary("neg", operand, dtype) if is_integer(dtype):
                inner = self.of(operand, comp)
                return None if inner is None else _within(inner.neg(), dtype, dtype)
            case Binary(op, left, right, dtype) if is_integer(dtype) and is_integer(dtype_of(left)):
                a, b = self.of(left, comp), self.of(right, comp)
                return None if a is None or b is None else _within(pw_binary(op, a, b, linear(right)), dtype, dtype)
            case Select(condition, true, false, dtype) if is_integer(dtype):
                chosen = self._where(condition, comp)
                a, b = self.of(true, comp), self.of(false, comp)
                if chosen is None or a is None or b is None:
                    return None
                return a.intersect_domain(chosen).union_add(b.subtract_domain(chosen))
            case _:
                return None

    def _where(self, expr: Expr, comp: Comp) -> isl.Set | None:
        """The instances at which a condition holds."""
        match expr:
            case Binary("land" | "lor" as op, left, right):
                first, second = self._where(left, comp), self._where(right, comp)
                if first is None or second is None:
                    return None
                return first.intersect(second) if op == "land" else first.union(second)
            case Binary("lt" | "le" | "gt" | "ge" | "eq" | "ne" as op, left, right) if is_integer(dtype_of(left)):
                a, b = self.of(left, comp), self.of(right, comp)
                if a is None or b is None:
                    return None
                found: isl.Set = getattr(a, f"{op}_set")(b)
                return found
            case _:
                return None

    def _variable(self, load: Load, comp: Comp) -> isl.PwAff | None:
        """What a local variable was last given, wherever that was."""
        if self._flows is None:
            self._flows = flows(self.func, local=True)
        keys = [access_key(a) for a in read_accesses(comp)]
        if access_key(load) not in keys:
            return None
        number = keys.index(access_key(load))
        found: isl.PwAff | None = None
        for flow in self._flows:
            if flow.sink != comp.name or flow.access != number:
                continue
            source, back = self.func.comp(flow.source), flow.relation.reverse()
            value = self.of(source.value, source)
            if value is None or source.target.dtype != dtype_of(source.value) or not back.is_single_valued():
                return None
            here = value.pullback_pw_multi_aff(isl.PwMultiAff.from_map(back))
            if found is not None and not found.domain().is_disjoint(here.domain()):
                return None
            found = here if found is None else found.union_add(here)
        return found if found is not None and domain_of(comp).is_subset(found.domain()) else None


def _within(value: isl.PwAff | None, dtype: DType, source: DType) -> isl.PwAff | None:
    """The value of what is computed in one type in another one, where that has it."""
    if value is None or dtype == "i64" or (dtype == "i32" and source not in ("i64", "u32")):
        return value
    low, high = limits(dtype)
    least, most = value.min_val(), value.max_val()
    fits = least.is_int() and most.is_int() and low <= least.to_python() and most.to_python() <= high
    return value if fits else None
