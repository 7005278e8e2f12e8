"""Parameters that the program itself defines (`Comp.defines`), as analyses of all instances at once have to see them.

isl's parameters have one value. One that is defined once has, too; one that is defined in a loop has another value in
each iteration, so that it may stand for itself only among statements of one iteration of these loops.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import islpy as isl

from plant_core.ir.accesses import children, read_accesses, rebuild, sub, to_pw_aff
from plant_core.ir.func import Buf, Comp, Expr, Func, Load, Param, ScalarParam
from plant_core.ir.symbolic_sizes import is_sum, products
from plant_core.support.location import Loc

_MOST_CASES = 2  # of a definition that is told


def defined_parameters(func: Func) -> dict[str, int]:
    """The parameters that the program defines, with the number of loops around their definitions."""
    found: dict[str, int] = {}
    for comp in func.comps:
        if comp.defines is not None:
            found[comp.defines] = max(found.get(comp.defines, 0), len(comp.iters))
    return found


def varying_parameters(func: Func) -> frozenset[str]:
    """Those that are defined in a loop."""
    return frozenset(name for name, depth in defined_parameters(func).items() if depth)


def defined_values(comps: Sequence[Comp], names: Collection[str]) -> isl.Set:
    """What definitions outside of loops, those of `comps`, tell of some parameters, and of others by which these are
    computed; nothing of one by many cases, with which generators of loops have more work than use."""
    known, pending = isl.Set("{ : }"), set(names)
    definitions = {c.defines: c for c in comps if c.defines is not None and not c.iters}
    while wanted := sorted(pending & set(definitions)):
        name = wanted[0]
        comp = definitions.pop(name)
        pending |= used_parameters(comp)
        difference = to_pw_aff(sub(comp.value, Param(name, "i32")), comp)
        if difference is not None and (value := difference.zero_set().params().coalesce()).n_basic_set() <= _MOST_CASES:
            known = known.intersect(value)
    return known.coalesce()


def used_parameters(comp: Comp) -> frozenset[str]:
    """The parameters that decide on which instances there are, or that stand in target and value."""
    domain = comp.domain
    found = {
        str(domain.get_dim_name(isl.dim_type.param, k))
        for k in range(domain.dim(isl.dim_type.param))
        if domain.involves_dims(isl.dim_type.param, k, 1)
    }
    return frozenset(found | _named((comp.target, comp.value)))


def extent_parameters(bufs: Iterable[Buf]) -> set[str]:
    """The parameters that stand in extents."""
    return _named(n for buf in bufs for n in buf.shape if not isinstance(n, int))


def with_parameters(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """`expr` with each parameter named in `values` replaced."""
    if isinstance(expr, Param):
        return values.get(expr.name, expr)
    return rebuild(expr, tuple(with_parameters(part, values) for part in children(expr)))


def _named(exprs: Iterable[Expr]) -> set[str]:
    found, pending = set[str](), list(exprs)
    while pending:
        expr = pending.pop()
        if isinstance(expr, Param):
            found.add(expr.name)
        pending += children(expr)
    return found


def definition_of(name: str, value: Expr, loc: Loc) -> Comp:
    """The statement, in no loop, that defines a parameter."""
    domain, schedule = isl.Set(f"{{ S_{name}[] }}"), isl.Map(f"{{ S_{name}[] -> [0] }}")
    return Comp(f"S_{name}", (), domain, schedule, Load(name, (), "i32"), value, loc, name)


def with_sizes(func: Func) -> tuple[Func, dict[str, Expr]]:
    """The function with sizes that it computes at its start as parameters of its own; and their values. A size is a sum
    of products of parameters, and nothing reads it but as a parameter."""
    given = {p.name for p in func.params}
    read = {access.buf for c in func.comps for access in read_accesses(c)}
    found = {
        c.defines: c.value
        for c in func.comps
        if c.defines is not None and c.defines not in read and not c.iters and c.domain.plain_is_universe()
        if is_sum(c.value) and products(c.value) and used_parameters(c) <= given
    }
    params = (*func.params, *(ScalarParam(name, "i32") for name in found))
    bufs = tuple(b for b in func.bufs if b.name not in found)
    comps = tuple(c for c in func.comps if c.defines not in found)
    return replace(func, params=params, bufs=bufs, comps=comps), found


def aligned(comps: Sequence[Comp]) -> tuple[Comp, ...]:
    """The statements, all of which know of the same parameters."""
    every = isl.Set("{ : }").get_space()
    for comp in comps:
        every = every.align_params(comp.domain.get_space().params())
    return tuple(
        replace(c, domain=c.domain.align_params(every), schedule=c.schedule.align_params(every)) for c in comps
    )


def known_only(comps: Sequence[Comp]) -> tuple[Comp, ...]:
    """The statements, whose iterations know of no parameters but those that tell any of them."""
    return aligned([replace(c, domain=_involved(c.domain), schedule=_involved(c.schedule)) for c in comps])


def _involved(of: isl.Set | isl.Map) -> isl.Set | isl.Map:
    for k in reversed(range(of.dim(isl.dim_type.param))):
        if not of.involves_dims(isl.dim_type.param, k, 1):
            of = of.project_out(isl.dim_type.param, k, 1)
    return of


def for_any_value(func: Func) -> Func:
    """The program with the instances that any values of its varying parameters give it."""
    names = varying_parameters(func)
    if not names:
        return func
    return func.with_comps(tuple(replace(c, domain=without_parameters(c.domain, names)) for c in func.comps))


def without_parameters(domain: isl.Set, names: frozenset[str]) -> isl.Set:
    """The set for any value of these parameters."""
    for k in range(domain.dim(isl.dim_type.param) - 1, -1, -1):
        if domain.get_dim_name(isl.dim_type.param, k) in names:
            domain = domain.project_out(isl.dim_type.param, k, 1)
    return domain
