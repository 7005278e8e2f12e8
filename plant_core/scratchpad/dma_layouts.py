"""Views of arrays in which what neighbouring iterations read or write lies side by side, for transfers to lay out.

Before: for i, j, k: c[i][j] += a[i][k] * b[j][k];
After:  for i, j, k: c[i][j] += a[i][k] * b_by_0[k][j];       b_by_0[k][j] is b[j][k]

Before: for i: y[i] = x[2 * i] * x[2 * i + 1];
After:  for i: y[i] = x_in_2[0][i] * x_in_2[1][i];            x_in_2[r][q] is x[2 * q + r]

A view has all of an array's elements, each in one place. What is only read may be near in several of them; an array
that is written is in one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from plant_core.analysis.rectangular_hull import accesses_of
from plant_core.ir.accesses import Linear, access_key, all_bufs, children, from_linear, integer, linear, rebuild
from plant_core.ir.array_views import Layout
from plant_core.ir.func import Buf, Comp, Expr, Extent, Func, Load
from plant_core.ir.time_2d1 import position
from plant_core.scratchpad.buffers import times

_T = TypeVar("_T")
_MOST_DEALT = 8  # remainders of a dimension that is dealt out


@dataclass(frozen=True, slots=True)
class Turn:
    """The dimension of an array that comes last. Of every `deal` elements along it one is in the view's rows; which of
    them tells the view's first dimension, where there are several."""

    last: int
    deal: int = 1


@dataclass(frozen=True, slots=True)
class Turned:
    """A function on views, which are parameters, too, and the layout of each view by its name."""

    func: Func
    layouts: Mapping[str, Layout]


_Key = tuple[str, tuple[str, tuple[Expr, ...]]]  # a statement's access
_Loop = tuple[int, ...]  # the constants of the schedule that all statements in a loop have


def layouts(func: Func) -> Iterator[Turned]:
    """The function on such views as one of its loops would want if lanes lay along it; none where there is a loop that
    wants no views, and whose iterations write elements of their own.

    Requires: 2d+1 schedules. Ensures: the same contents of every parameter.
    """
    if func.effects or any(c.defines for c in func.comps):
        return
    ways = list(_ways(func))
    if any(_side_by_side(func, lanes) for lanes in ways):
        return
    seen: list[Mapping[_Key, Turn]] = []
    for lanes in ways:
        turns = _agreed(func, {k: t for c in func.comps if c.name in lanes for k, t in _wanted(func, c, lanes[c.name])})
        if turns and turns not in seen:
            seen.append(turns)
            yield _Views(func, turns).made()


def _ways(func: Func) -> Iterator[dict[str, str]]:
    """For each loop its iterator in each statement that it has; then with the innermost loops of the other
    statements, too."""
    places = {c.name: position(c).constants for c in func.comps}
    found: dict[_Loop, dict[str, str]] = {}
    for comp in func.comps:
        for depth, name in enumerate(comp.iters):
            found.setdefault(places[comp.name][: depth + 1], {})[comp.name] = name
    yield from found.values()
    innermost = {c.name: c.iters[-1] for c in func.comps if c.iters}
    for members in found.values():
        if len(members) < len(innermost):
            yield {**innermost, **members}


def _side_by_side(func: Func, lanes: Mapping[str, str]) -> bool:
    """Whether with these lanes each statement finds all elements side by side, sums up nothing, and needs none of what
    its other instances write."""

    def plain(comp: Comp) -> bool:
        along = lanes.get(comp.name)
        if along is None or any(linear(i) is None for a in accesses_of(comp) for i in a.indices):
            return False
        if any(a.buf == comp.target.buf and access_key(a) != access_key(comp.target) for a in accesses_of(comp)):
            return False
        inner = [form[1].get(along, 0) for a in accesses_of(comp) if a.indices and (form := linear(a.indices[-1]))]
        target = linear(comp.target.indices[-1]) if comp.target.indices else None
        return target is not None and target[1].get(along) == 1 and set(inner) <= {0, 1, -1}

    return all(plain(c) and not list(_wanted(func, c, lanes[c.name])) for c in func.comps)


def _wanted(func: Func, comp: Comp, along: str) -> Iterator[tuple[_Key, Turn]]:
    """The accesses of a statement that step through rows or leave out elements as the iterator moves on, turned so that
    they do not."""
    for access in accesses_of(comp):
        buf = all_bufs(func)[access.buf]
        forms = [linear(index) for index in access.indices]
        if buf.kind != "param" or not forms or any(f is None for f in forms):
            continue
        steps = [abs(form[1].get(along, 0)) for form in forms if form is not None]
        if sum(map(bool, steps)) != 1:
            continue
        turn = Turn(next(d for d, step in enumerate(steps) if step), max(steps))
        if turn.deal > 1 and not (turn.last == len(steps) - 1 and _deals(buf, access, turn)):
            continue
        if turn != Turn(len(steps) - 1):
            yield (comp.name, access_key(access)), turn


def _deals(buf: Buf, access: Load, turn: Turn) -> bool:
    """Whether each access is to one of the remainders."""
    extent, form = buf.shape[turn.last], linear(access.indices[turn.last])
    if turn.deal > _MOST_DEALT or not isinstance(extent, int) or extent % turn.deal or form is None:
        return False
    return all(factor % turn.deal == 0 for factor in form[1].values())


def _agreed(func: Func, wanted: Mapping[_Key, Turn]) -> dict[_Key, Turn]:
    """What is wanted, of each array that is written one turn for all accesses, what its writes want, or else none."""
    found = dict(wanted)
    for buf in dict.fromkeys(c.target.buf for c in func.comps):
        mine = [(c, a) for c in func.comps for a in accesses_of(c) if a.buf == buf]
        writes = {wanted.get((c.name, access_key(a))) for c, a in mine if a is c.target}
        turn = next(iter(writes)) if len(writes) == 1 else None
        if turn is not None and turn.deal > 1 and not all(_deals(func.buf(buf), a, turn) for _, a in mine):
            turn = None
        for comp, access in mine:
            key = comp.name, access_key(access)
            found.pop(key, None)
            if turn is not None:
                found[key] = turn
    return found


@dataclass(slots=True)
class _Views:
    func: Func
    turns: Mapping[_Key, Turn]

    def made(self) -> Turned:
        taken = {*all_bufs(self.func), *(p.name for p in self.func.params), *(c.name for c in self.func.comps)}
        names: dict[tuple[str, Turn], str] = {}
        for (_, (buf, _)), turn in self.turns.items():
            if (buf, turn) not in names:
                fresh = f"{buf}_in_{turn.deal}" if turn.deal > 1 else f"{buf}_by_{turn.last}"
                while fresh in taken:
                    fresh += "_"
                taken.add(fresh)
                names[buf, turn] = fresh
        views = {name: _view(self.func.buf(buf), turn, name) for (buf, turn), name in names.items()}
        comps = tuple(self._comp(c, names) for c in self.func.comps)
        bufs = tuple(view for view, _ in views.values())
        func = replace(self.func, params=(*self.func.params, *bufs), bufs=(*self.func.bufs, *bufs), comps=comps)
        return Turned(func, {name: layout for name, (_, layout) in views.items()})

    def _comp(self, comp: Comp, names: Mapping[tuple[str, Turn], str]) -> Comp:
        def instead(expr: Expr) -> Expr:
            parts = tuple(instead(p) for p in children(expr))
            made = rebuild(expr, parts) if parts else expr
            if isinstance(expr, Load) and (turn := self.turns.get((comp.name, access_key(expr)))) is not None:
                assert isinstance(made, Load)
                indices = _indices(made.indices, turn, comp.iters)
                return replace(made, buf=names[expr.buf, turn], indices=indices)
            return made

        target = instead(comp.target)
        assert isinstance(target, Load)
        return replace(comp, target=target, value=instead(comp.value))


def _view(buf: Buf, turn: Turn, name: str) -> tuple[Buf, Layout]:
    strides: list[Extent] = [1]
    for extent in reversed(buf.shape[1:]):
        strides.insert(0, times(strides[0], extent))
    shape, strides = _moved(buf.shape, turn), _moved(strides, turn)
    if turn.deal > 1:
        extent = shape[-1]
        assert isinstance(extent, int)
        shape = [turn.deal, *shape[:-1], extent // turn.deal]
        strides = [strides[-1], *strides[:-1], times(strides[-1], turn.deal)]
    return replace(buf, name=name, shape=tuple(shape)), Layout(buf.name, tuple(shape), tuple(strides))


def _indices(indices: Sequence[Expr], turn: Turn, iters: Sequence[str]) -> tuple[Expr, ...]:
    found = _moved(indices, turn)
    if turn.deal == 1:
        return tuple(found)
    form = linear(found[-1])
    assert form is not None
    whole: Linear = form[0] // turn.deal, {n: factor // turn.deal for n, factor in form[1].items()}
    return integer(form[0] % turn.deal), *found[:-1], from_linear(whole, iters)


def _moved(items: Sequence[_T], turn: Turn) -> list[_T]:
    return [*items[: turn.last], *items[turn.last + 1 :], items[turn.last]]
