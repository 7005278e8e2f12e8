"""The extents of arrays that C declares without one, from what the program accesses.

Before: `void fir(const short *x, ..., int nh, int nr)`, read as `x[?]`, with accesses x[j + i], i < nh and j < nr.
After:  the Buf x has the shape (nr + nh - 1,).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import islpy as isl

from dspgen.errors import Problem, SourceError
from dspgen.frontend.desugar.pipeline import Lowered
from dspgen.frontend.scop.affine_sets import Nest, NotAffine, is_data_dependent, piecewise, to_expr
from dspgen.frontend.scop.c_types import is_open
from dspgen.frontend.scop.check_bounds import outside
from dspgen.frontend.scop.expr_walk import accesses, parameters
from plant_core.analysis.runtime_parameters import with_parameters
from plant_core.ir.func import Binary, Buf, Comp, Expr, Extent, Func, Load, Val
from plant_core.ir.printer import print_expr


def infer_extents(func: Func, lowered: Lowered) -> Func:
    """The program with every open extent found, and every recovered dimension proven.

    An extent is the largest subscript that any iteration has, and one, as a maximum of affine functions of the integer
    parameters; of an array that nothing accesses, one. Raises SourceError where there is no such function.
    """
    problems: list[Problem] = []
    bufs: dict[str, Buf] = {}
    for buf in func.bufs:
        if buf.shape and is_open(buf.shape[0]):
            found = _extent(func, buf)
            if isinstance(found, Problem):
                problems.append(found)
                continue
            buf = replace(buf, shape=(found, *buf.shape[1:]))
        if buf.name in lowered.flat_arrays:
            problems += _unproven(func, buf)
        bufs[buf.name] = buf
    if problems:
        raise SourceError(*problems)
    params = tuple(bufs[p.name] if isinstance(p, Buf) else p for p in func.params)
    return replace(func, params=params, bufs=tuple(bufs[b.name] for b in func.bufs))


def _accesses(func: Func, name: str) -> Iterator[tuple[Comp, Nest, Load]]:
    for comp in func.comps:
        found = [a for a in (comp.target, *accesses(comp.value)) if a.buf == name]
        if found:
            nest = Nest(comp.iters, comp.domain.reset_tuple_id())
            yield from ((comp, nest, access) for access in dict.fromkeys(found))


def _remedy(buf: Buf, index: Expr) -> str:
    """What helps with a subscript that isn't affine: sizes that are fixed, if it has any, or dimensions."""
    if is_data_dependent(index):
        return f"give it in the declaration, such as '{buf.name}[n]'"
    sizes = " ".join(f"-D {name}=64" for name in dict.fromkeys(p.name for p in parameters(index)))
    declared = f"declare '{buf.name}' with its rows, such as '{buf.name}[N][M]', and write a subscript for each"
    return f"fix the sizes, such as {sizes}, or {declared}" if sizes else declared


def _problem(buf: Buf, reason: str, access: Load | None, remedy: str | None = None) -> Problem:
    return Problem(
        "DG007",
        f"the extent of '{buf.name}' can't be found: {reason}",
        access.loc if access is not None else buf.loc,
        remedy or f"give it in the declaration, such as '{buf.name}[n]'",
    )


def _extent(func: Func, buf: Buf) -> Extent | Problem:
    reached: isl.Set | None = None
    once = [c for c in func.comps if c.defines is not None and not c.iters]
    sizes = {c.defines: c.value for c in once if c.defines is not None and not is_data_dependent(c.value)}
    defined = {c.defines for c in func.comps if c.defines is not None} - set(sizes)
    for _, nest, access in _accesses(func, buf.name):
        try:
            value = piecewise(access.indices[0], nest)
        except NotAffine:
            return _problem(buf, f"'{print_expr(access)}' isn't affine", access, _remedy(buf, access.indices[0]))
        part = isl.Map.from_pw_aff(value).intersect_domain(nest.domain).range()
        for position in range(part.dim(isl.dim_type.param) - 1, -1, -1):
            if str(part.get_dim_name(isl.dim_type.param, position)) in defined:
                part = part.project_out(isl.dim_type.param, position, 1)
                if not part.is_empty() and not part.dim_has_upper_bound(isl.dim_type.set, 0):
                    return _problem(buf, f"that of '{print_expr(access)}' depends on the program's data", access)
        reached = part if reached is None else reached.union(part)
    if reached is None:
        return 1
    reached = reached.coalesce()
    if reached.is_empty():
        return 1
    largest = reached.dim_max(0).coalesce()
    found = _simple(largest)
    if found is None:
        forms = dict.fromkeys(_behind(aff, Nest((), largest.domain())) for _, aff in largest.get_pieces())
        told = " or ".join(print_expr(form) for form in forms)
        return _problem(buf, f"by the parameters' values it is {told}, which isn't their maximum", None)
    return int(found.value) if isinstance(found, Val) else with_parameters(found, sizes)


def _simple(largest: isl.PwAff) -> Expr | None:
    """The extent where the function is the maximum of a few of its pieces."""
    domain = largest.domain()
    affs: list[isl.Aff] = []
    for _, aff in largest.get_pieces():
        if not any(isl.PwAff.from_aff(aff).is_equal(isl.PwAff.from_aff(a)) for a in affs):
            affs.append(aff)
    nest = Nest((), domain)
    for count in range(1, min(len(affs), 4) + 1):
        for chosen in itertools.combinations(affs, count):
            whole = isl.PwAff.from_aff(chosen[0])
            for aff in chosen[1:]:
                whole = whole.max(isl.PwAff.from_aff(aff))
            if domain.is_subset(whole.eq_set(largest)):
                terms = [_behind(aff, nest) for aff in chosen]
                total = terms[0]
                for term in terms[1:]:
                    total = Binary("max", total, term, "i32")
                return total
    return None


def _behind(last: isl.Aff, nest: Nest) -> Expr:
    return to_expr(last.add_constant_val(isl.Val(1)), nest)


def _unproven(func: Func, buf: Buf) -> list[Problem]:
    """The accesses that may leave their row: there the array can't have the dimensions that its subscripts suggest."""
    inner = buf.shape[1:]
    shape = "".join(f"[{n if isinstance(n, int) else print_expr(n)}]" for n in inner)
    for _, nest, access in _accesses(func, buf.name):
        row = replace(access, indices=access.indices[1:])
        try:
            inside = outside(row, inner, nest).is_empty()
        except NotAffine:
            inside = False
        if not inside:
            return [
                Problem(
                    "DG011",
                    f"the rows of '{buf.name}' are taken to be {shape}, and '{print_expr(access)}' may leave its row",
                    access.loc,
                    "declare the array with its dimensions, and subscript each of them inside its extent",
                )
            ]
    return []
