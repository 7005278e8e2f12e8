"""The places in a Comp's text where memory is read, by number, and how to replace them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import get_args

from plant_core.ir.accesses import children, rebuild, substitute
from plant_core.ir.func import Access, Buf, Comp, Effect, Expr, Func, Load, Location, Ramp
from plant_core.support.location import PlantError

Site = Load | Access
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def sites(comp: Comp) -> tuple[Site, ...]:
    """Every Load and Access that an instance evaluates, in text order; a site's number is its place here."""
    return (*_walk(comp.value), *(s for index in comp.target.indices for s in _walk(index)))


def _walk(expr: Expr) -> Iterator[Site]:
    if isinstance(expr, Load | Access):
        yield expr
    for part in children(expr):
        yield from _walk(part)


def replaced(comp: Comp, new: Callable[[int, Site], Expr | None]) -> Comp:
    """`comp` with each site for which `new(number, site)` isn't None replaced by that, subscripts included."""
    counter = -1

    def rewrite(expr: Expr) -> Expr:
        nonlocal counter
        found: Expr | None = None
        if isinstance(expr, Load | Access):
            counter += 1
            found = new(counter, expr)
            if found is not None:
                counter += sum(1 for index in expr.indices for _ in _walk(index))
                return found
        parts = children(expr)
        if not parts:
            return expr
        fresh = tuple(rewrite(p) for p in parts)
        return expr if fresh == parts else rebuild(expr, fresh)

    value = rewrite(comp.value)
    indices = tuple(rewrite(index) for index in comp.target.indices)
    return replace(comp, value=value, target=replace(comp.target, indices=indices))


def as_load(func: Func, site: Site) -> Load:
    """Where a site reads: itself, or its computation's place with its own subscripts for the iterators."""
    if isinstance(site, Load):
        return site
    producer = next((c for c in func.comps if c.name == site.comp), None)
    if producer is None:
        raise PlantError(f"there is no computation '{site.comp}'", loc=site.loc, code="DG210")
    names = dict(zip(producer.iters, site.indices, strict=True))
    indices = tuple(substitute(index, names) for index in producer.target.indices)
    return Load(producer.target.buf, indices, site.dtype, site.loc)


def refuse_vectors(comp: Comp, bufs: frozenset[str]) -> None:
    """A Ramp reads elements that no subscript names, so its array can't be moved under it."""
    stack: list[Expr] = [comp.value, *comp.target.indices]
    while stack:
        expr = stack.pop()
        if isinstance(expr, Ramp) and expr.load.buf in bufs:
            raise PlantError(
                f"{comp.name} reads a vector of '{expr.load.buf}', whose storage can't be changed then",
                loc=expr.load.loc or comp.loc,
                code="DG212",
                remedy="do memory scheduling before writing vectors out",
            )
        stack.extend(children(expr))


def usable(buf: object) -> Buf:
    """The array, if it could stand in a program; else PlantError."""
    if not isinstance(buf, Buf):
        raise PlantError(f"{buf!r} is no array", code="DG211", remedy="give a Buf, or the name of an array")
    refuse_name(buf.name)
    if any(not isinstance(n, int | Expr) or isinstance(n, bool) or (isinstance(n, int) and n < 1) for n in buf.shape):
        raise PlantError(
            f"an extent of '{buf.name}' is neither a number from 1 on nor an expression",
            loc=buf.loc,
            code="DG211",
            remedy="give every dimension its extent, in elements",
        )
    return buf


def refuse_name(name: object) -> None:
    """PlantError unless it can name an array in C, and in isl."""
    if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name):
        raise PlantError(
            f"{name!r} can't name an array",
            code="DG211",
            remedy="a name is letters, digits and _, the first not a digit",
        )


def expressions(given: object, what: str) -> tuple[Expr, ...]:
    """Several subscripts."""
    if isinstance(given, Sequence) and all(isinstance(e, Expr) for e in given):
        return tuple(given)
    raise PlantError(f"{given!r} are no subscripts for {what}", code="DG211", remedy="give a tuple of expressions")


def refuse_location(location: object) -> None:
    if location not in get_args(Location):
        memories = ", ".join(get_args(Location))
        raise PlantError(f"there is no memory '{location}'", code="DG216", remedy=f"the memories are: {memories}")


def buffer(func: Func, name: str) -> Buf:
    for buf in (*func.bufs, *(p for p in func.params if isinstance(p, Buf))):
        if buf.name == name:
            return buf
    known = ", ".join(b.name for b in func.bufs) or "none"
    raise PlantError(f"there is no array '{name}'", code="DG210", remedy=f"the arrays are: {known}")


def statements(func: Func) -> list[Comp | Effect]:
    return [*func.comps, *func.effects]


def computation(func: Func, name: str) -> Comp:
    for comp in func.comps:
        if comp.name == name:
            return comp
    known = ", ".join(c.name for c in func.comps) or "none"
    raise PlantError(f"there is no computation '{name}'", code="DG210", remedy=f"the computations are: {known}")


def fresh(func: Func, wanted: str) -> str:
    """`wanted`, or with a number after it where that name is taken in `func`."""
    taken = {b.name for b in func.bufs} | {p.name for p in func.params}
    taken |= {c.name for c in func.comps} | {e.name for e in func.effects}
    if wanted not in taken:
        return wanted
    number = 2
    while f"{wanted}_{number}" in taken:
        number += 1
    return f"{wanted}_{number}"
