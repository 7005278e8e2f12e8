"""Copies of arrays in which what neighbouring iterations read lies side by side.

Before: for i, j, k: c[i][j] += a[i][k] * b[j][k];
After:  for k, j: t[k][j] = b[j][k];   for i, j, k: c[i][j] += a[i][k] * t[k][j];

Lanes lie along the loop in which elements that are written lie side by side. An array that is only read, whose rows
that loop steps through, is copied where it is read many times over (packing, as GPAT has it for caches; the choice of
what is worth a copy is by reuse alone).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import TypeVar

import islpy as isl

from plant_core.ir.accesses import all_bufs, children, linear, read_accesses, rebuild
from plant_core.ir.c_semantics import size_of
from plant_core.ir.func import Buf, Comp, Expr, Func, Iter, Load
from plant_core.ir.time_2d1 import Line, Position, position, schedule_map

_T = TypeVar("_T")
_REUSE = 32  # times that each element is read, at least


def with_transposed_copies(func: Func, most: int) -> Func | None:
    """`func` with such copies, of at most `most` bytes together; None where there is nothing to copy.

    Requires: 2d+1 schedules. Ensures: the same contents of every parameter.
    """
    if func.effects or any(c.defines for c in func.comps):
        return None
    copies = _Copies(func, most)
    comps = tuple(copies.rewritten(c) for c in func.comps)
    if not copies.made:
        return None
    moved = tuple(_later(c, len(copies.made)) for c in comps)
    bufs = tuple(buf for buf, _ in copies.made.values())
    return replace(func, comps=(*(c for _, c in copies.made.values()), *moved), bufs=(*func.bufs, *bufs))


@dataclass(slots=True)
class _Copies:
    """The copies made so far: by array and the dimension that comes last."""

    func: Func
    most: int
    made: dict[tuple[str, int], tuple[Buf, Comp]] = field(default_factory=dict)

    def rewritten(self, comp: Comp) -> Comp:
        """The comp, reading copies where that is worth while."""
        across = _neighbours(comp)
        if across is None:
            return comp
        runs = _runs(comp)
        instead: dict[Load, Load] = {}
        for access in read_accesses(comp):
            place = self._stepped(comp, access, across)
            if place is None or runs < _REUSE * prod(self._buf(access).extents):
                continue
            copy = self._copy(comp, access.buf, place)
            if copy is not None:
                instead[access] = replace(access, buf=copy, indices=_last(access.indices, place))
        return replace(comp, value=_exchanged(comp.value, instead)) if instead else comp

    def _buf(self, access: Load) -> Buf:
        return all_bufs(self.func)[access.buf]

    def _stepped(self, comp: Comp, access: Load, across: str) -> int | None:
        """The dimension, not the last, in which an access to an array that is only read moves by one as the iterator
        does, and in no other."""
        buf = self._buf(access)
        if buf.kind != "param" or not all(isinstance(n, int) for n in buf.shape):
            return None
        if any(c.target.buf == buf.name for c in self.func.comps):
            return None
        forms = [linear(index) for index in access.indices]
        if any(form is None for form in forms):
            return None
        steps = [form[1].get(across, 0) for form in forms if form is not None]
        if len(steps) < 2 or sum(map(bool, steps)) != 1 or steps[-1] or 1 not in steps:
            return None
        inner = forms[-1]
        return steps.index(1) if inner is not None and any(n in comp.iters for n in inner[1]) else None

    def _copy(self, comp: Comp, name: str, place: int) -> str | None:
        """The copy's name; None where there is no room for it."""
        if (name, place) in self.made:
            return self.made[name, place][0].name
        original = all_bufs(self.func)[name]
        room = self.most - sum(_bytes(buf) for buf, _ in self.made.values())
        length = comp.schedule.dim(isl.dim_type.out)
        if _bytes(original) > room or length < 2 * len(original.shape) + 1:
            return None
        taken = {*all_bufs(self.func), *(p.name for p in self.func.params), *(c.name for c in self.func.comps)}
        fresh = f"{name}_by_{place}"
        while fresh in taken:
            fresh += "_"
        shape = _last(original.extents, place)
        buf = Buf(fresh, original.dtype, shape, "local", loc=comp.loc)
        iters = tuple(f"t{k}" for k in range(len(shape)))
        bounds = " and ".join(f"0 <= {i} < {n}" for i, n in zip(iters, shape, strict=True))
        domain = isl.Set(f"{{ {fresh}[{', '.join(iters)}] : {bounds} }}")
        target = Load(fresh, tuple(Iter(i) for i in iters), original.dtype, comp.loc)
        source = [Iter(i) for i in iters[:-1]]
        source.insert(place, Iter(iters[-1]))
        value = Load(name, tuple(source), original.dtype, comp.loc)
        made = Comp(fresh, iters, domain, isl.Map("{ [] -> [] }"), target, value, comp.loc)
        first = Position((len(self.made), *(0 for _ in iters)), tuple(Line(0, ((i, 1),)) for i in iters))
        made = replace(made, schedule=schedule_map(made, first, length).intersect_domain(domain))
        self.made[name, place] = buf, made
        return fresh


def _neighbours(comp: Comp) -> str | None:
    """The iterator along which elements that are written lie side by side, and along which lanes may lie."""
    forms = [linear(index) for index in comp.target.indices]
    if not forms or any(form is None for form in forms):
        return None
    steps: list[Mapping[str, int]] = [form[1] for form in forms if form is not None]
    names = [n for n in comp.iters if steps[-1].get(n) == 1 and not any(n in step for step in steps[:-1])]
    return names[0] if len(names) == 1 else None


def _runs(comp: Comp) -> int:
    """How often the comp runs, at most; 0 where that is not known."""
    runs = 1
    for k in range(len(comp.iters)):
        low, high = comp.domain.dim_min_val(k), comp.domain.dim_max_val(k)
        if not (low.is_int() and high.is_int()):
            return 0
        runs *= max(high.to_python() - low.to_python() + 1, 0)
    return runs


def _last(items: tuple[_T, ...], place: int) -> tuple[_T, ...]:
    return (*items[:place], *items[place + 1 :], items[place])


def _exchanged(expr: Expr, instead: Mapping[Load, Load]) -> Expr:
    if isinstance(expr, Load):
        return instead.get(expr, expr)
    parts = children(expr)
    return rebuild(expr, tuple(_exchanged(part, instead) for part in parts)) if parts else expr


def _later(comp: Comp, by: int) -> Comp:
    place = position(comp)
    constants = (place.constants[0] + by, *place.constants[1:])
    length = comp.schedule.dim(isl.dim_type.out)
    schedule = schedule_map(comp, Position(constants, place.loops), length)
    return replace(comp, schedule=schedule.intersect_domain(comp.domain))


def _bytes(buf: Buf) -> int:
    return prod(buf.extents) * size_of(buf.dtype)
