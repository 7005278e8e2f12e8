"""Sizes that are a part of parameters, as parameters of their own.

Before: float y[n / 2]; for 2 * i <= n - 2: y[i] = x[2 * i] + x[2 * i + 1];
After:  part0 = n / 2; float y[part0]; for i < part0: y[i] = x[2 * i] + x[2 * i + 1];
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import islpy as isl

from plant_core.analysis.rectangular_hull import in_text
from plant_core.analysis.runtime_parameters import aligned
from plant_core.ir.accesses import Linear, children, from_linear, integer, linear, rebuild
from plant_core.ir.func import Binary, Buf, Comp, Expr, Func, Param, ScalarParam
from plant_core.ir.quasi_affine import parameters_of
from plant_core.ir.time_2d1 import position, schedule_map

_Key = tuple[tuple[tuple[str, int], ...], int, int]  # of what is divided the terms and the constant, and by how much


def with_quotients(func: Func) -> tuple[Func, dict[str, Expr]]:
    """The function with ends of loops and extents that are affine values over powers of two, as parameters more; and
    their values, rounded towards 0. Requires: 2d+1 schedules. Ensures: the same contents of every parameter."""
    if func.effects or any(c.defines for c in func.comps):
        return func, {}
    maker = _Maker({p.name for p in func.params} | {b.name for b in func.bufs})
    comps = [maker.comp(c) for c in func.comps]
    bufs = [maker.buf(b) for b in func.bufs]
    params = [maker.buf(p) if isinstance(p, Buf) else p for p in func.params]
    if not maker.names:
        return func, {}
    new = [ScalarParam(name, "i32") for name in maker.names.values()]
    made = replace(func, params=(*params, *new), bufs=tuple(bufs), comps=aligned(comps))
    return made, {name: _value(key) for key, name in maker.names.items()}


def _value(key: _Key) -> Expr:
    terms, constant, divisor = key
    return Binary("div", from_linear((constant, dict(terms)), ()), integer(divisor), "i32")


@dataclass(slots=True)
class _Maker:
    taken: set[str]
    names: dict[_Key, str] = field(default_factory=dict)

    def quotient(self, of: Linear, divisor: int) -> Linear:
        """What is rounded as a parameter and a constant."""
        more, rest = divmod(of[0], divisor)
        key = tuple(sorted(of[1].items())), rest, divisor
        if key not in self.names:
            number = len(self.names)
            while f"part{number}" in self.taken:
                number += 1
            self.names[key] = f"part{number}"
            self.taken.add(self.names[key])
        return more, {self.names[key]: 1}

    def buf(self, buf: Buf) -> Buf:
        shape = tuple(n if isinstance(n, int) else self.expr(n) for n in buf.shape)
        return buf if shape == buf.shape else replace(buf, shape=shape)

    def expr(self, expr: Expr) -> Expr:
        """An extent with parameters in place of quotients."""
        if isinstance(expr, Binary) and expr.op in ("div", "floordiv"):  # alike where there are any elements
            above, below = linear(expr.left), linear(expr.right)
            if above is not None and above[1] and below is not None and not below[1] and _is_power(below[0]):
                if 0 <= above[0] < below[0]:
                    _, (name,) = self.quotient(above, below[0])
                    return Param(name, "i32")
        parts = children(expr)
        return rebuild(expr, tuple(self.expr(p) for p in parts)) if parts else expr

    def comp(self, comp: Comp) -> Comp:
        """The statement, its loops up to parameters."""
        parts = comp.domain.get_basic_sets()
        if len(parts) != 1:
            return comp
        domain, ends = isl.BasicSet.universe(parts[0].get_space()), list[str]()
        for constraint in parts[0].get_constraints():
            end = self._end(constraint, comp)
            if end is None:
                domain = domain.add_constraint(constraint)
            else:
                ends.append(end)
        if not ends:
            return comp
        head = ", ".join([*parameters_of(domain), *self.names.values()])
        within = isl.Set(f"[{head}] -> {{ {comp.name}[{', '.join(comp.iters)}] : {' and '.join(ends)} }}")
        whole = domain.to_set().set_tuple_name(comp.name).intersect(within)
        made = replace(comp, domain=whole)
        length = comp.schedule.dim(isl.dim_type.out)
        return replace(made, schedule=schedule_map(made, position(comp), length).intersect_domain(whole))

    def _end(self, constraint: isl.Constraint, comp: Comp) -> str | None:
        """The end of a loop that a constraint tells, if that is a quotient."""
        kind = isl.dim_type
        factors = [int(constraint.get_coefficient_val(kind.set, k).to_python()) for k in range(len(comp.iters))]
        (k, factor), *others = [(k, f) for k, f in enumerate(factors) if f] or [(0, 0)]
        if constraint.is_equality() or others or not _is_power(-factor):
            return None
        names = [str(constraint.get_dim_name(kind.param, n)) for n in range(constraint.dim(kind.param))]
        terms = {n: int(constraint.get_coefficient_val(kind.param, d).to_python()) for d, n in enumerate(names)}
        terms = {n: f for n, f in terms.items() if f}
        divs = constraint.dim(kind.div)
        if not terms or (divs and constraint.involves_dims(kind.div, 0, divs)):
            return None
        constant = int(constraint.get_constant_val().to_python())
        low = comp.domain.dim_min_val(k)
        if not low.is_int() or low.to_python() <= constant // -factor:
            return None  # the loop might run where the dividend is below 0, and is rounded up
        end = self.quotient((constant, terms), -factor)
        return f"{comp.iters[k]} <= {in_text(end)}"


def _is_power(number: int) -> bool:
    return number > 1 and number & (number - 1) == 0
