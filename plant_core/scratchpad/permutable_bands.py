"""Nests made ready for tiles that several of their loops share, though dependences go back along these in the text:
time loops whose tiles are parallelograms, decompositions in panels.

A band is a row of axes. On each axis every statement has a coordinate, an affine form of its iterators, such that no
dependence goes back along any axis; so tiles, boxes of coordinates, may follow each other in any order of the axes
(Irigoin and Triolet, POPL 1988), while in a tile iterations keep the order of the text.

Before: for t { for i B[i] = A[i-1] + A[i+1]; for i A[i] = B[i] }
After:  for t { for i B[i-2t] = A[i-2t-1] + A[i-2t+1]; for i A[i-2t-1] = B[i-2t-1] },  axes t and i
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import islpy as isl

from plant_core.analysis.dependence import Dependence, memory_dependences
from plant_core.analysis.rectangular_hull import Axis, in_text
from plant_core.ir.accesses import Linear, children, from_linear, is_integer, linear, rebuild
from plant_core.ir.func import Comp, Expr, Func, Iter, Load
from plant_core.ir.time_2d1 import Line, Position, position, schedule_map, shared_depth

_SKEWS = 4  # the most that an axis goes on with each step of the first one
_SHIFT = 16  # the most that a statement's coordinates lie behind another's
_TRIES = 400  # choices of iterators that are looked at


@dataclass(frozen=True, slots=True)
class Band:
    """`func` does what the nest did, its iterators being coordinates where they can; `axes`: of each the coordinates
    by statement."""

    func: Func
    axes: tuple[Axis, ...]


def bands(func: Func, *, reassoc: bool) -> list[Band]:
    """The bands of a nest of known size: along its outermost loop, its two outermost ones, and so on."""
    search = _Search(func, memory_dependences(func), reassoc)
    found = []
    for number in range(1, len(search.axes()) + 1):
        if (band := search.band(search.axes()[:number])) is not None:
            found.append(band)
    return found


@dataclass(frozen=True, slots=True)
class _Coordinate:
    """`iterator + shift + skew * (the coordinate on the first axis)`; without an iterator the rest of it."""

    iterator: str | None
    shift: int
    skew: int


_Coordinates = dict[str, _Coordinate]


@dataclass(slots=True)
class _Search:
    func: Func
    known: Sequence[Dependence]
    reassoc: bool
    tries: int = 0
    _axes: list[_Coordinates] | None = None
    _apart: dict[tuple[int, str | None, str | None], isl.Set] = field(default_factory=dict)

    def axes(self) -> list[_Coordinates]:
        """As many as there are, for the loops round the statement with the most, the outermost first."""
        if self._axes is None:
            self._axes = []
            main = max(self.func.comps, key=lambda c: len(c.iters))
            plain = all(
                line == Line(0, ((name, 1),))
                for c in self.func.comps
                for name, line in zip(c.iters, position(c).loops, strict=True)
            )
            for depth in range(len(main.iters) if plain else 0):
                found = next(filter(None, (self._axis(main, depth, s) for s in range(_SKEWS if depth else 1))), None)
                if found is None:
                    break
                self._axes.append(found)
        return self._axes

    def _free(self, dependence: Dependence) -> bool:
        bufs = {b.name: b for b in self.func.bufs}
        return dependence.reduction and (self.reassoc or is_integer(bufs[dependence.buf].dtype))

    def _axis(self, main: Comp, depth: int, skew: int) -> _Coordinates | None:
        """Iterators for all statements, the main one's of a depth, with which nothing goes back."""
        assert self._axes is not None
        used = {c.name: [axis[c.name].iterator for axis in self._axes or ()] for c in self.func.comps}
        comps = [main, *(c for c in self.func.comps if c is not main)]

        def candidates(comp: Comp) -> list[str | None]:
            if comp is main:
                return [main.iters[depth]]
            shared = shared_depth(position(main), position(comp)) > depth
            own = [comp.iters[depth]] if shared else []
            new = [name for name in comp.iters if name not in used[comp.name]]
            return list(dict.fromkeys([*own, *new, *comp.iters, None]))

        def extended(chosen: dict[str, str | None]) -> Iterator[_Coordinates]:
            self.tries += 1
            if self.tries > _TRIES or (shifts := self._shifts(chosen, skew)) is None:
                return
            if len(chosen) == len(comps):
                yield {name: _Coordinate(chosen[name], shifts[name], skew) for name in chosen}
                return
            comp = comps[len(chosen)]
            for name in candidates(comp):
                yield from extended({**chosen, comp.name: name})

        return next(extended({}), None)

    def _shifts(self, chosen: Mapping[str, str | None], skew: int) -> dict[str, int] | None:
        """The least shifts with which no dependence among the chosen statements goes back; None where there are
        none, or large ones."""
        edges = []
        for number, d in enumerate(self.known):
            if d.source in chosen and d.sink in chosen and not self._free(d):
                least = self._least(number, chosen[d.source], chosen[d.sink], skew)
                if least is None:
                    return None
                edges.append((d.source, d.sink, least))
        shifts = dict.fromkeys(chosen, 0)
        for _ in range(len(chosen) + 1):
            changed = False
            for source, sink, least in edges:
                if shifts[source] - least > shifts[sink]:
                    shifts[sink], changed = shifts[source] - least, True
            if not changed:
                return shifts if max(shifts.values(), default=0) <= _SHIFT else None
        return None

    def _least(self, number: int, source: str | None, sink: str | None, skew: int) -> int | None:
        """How far the sink is ahead of the source at least, without shifts."""
        key = number, source, sink
        if key not in self._apart:
            d = self.known[number]
            ends = []
            for name, iterator in ((d.source, source), (d.sink, sink)):
                comp = self.func.comp(name)
                first = in_text(_first(self._axes[0][name])) if self._axes else "0"
                text = f"{{ {name}[{', '.join(comp.iters)}] -> [{first}, {iterator or '0'}] }}"
                ends.append(isl.Map(text))
            self._apart[key] = d.relation.apply_domain(ends[0]).apply_range(ends[1]).deltas().coalesce()
        value = self._apart[key].apply(isl.Map(f"{{ [t, x] -> [x + {skew} * t] }}")).coalesce().dim_min_val(0)
        return int(value.to_python()) if value.is_int() else None

    def band(self, axes: Sequence[_Coordinates]) -> Band | None:
        """None where statements in a common loop would change places."""
        moves = {c.name: _Move.of(c, [axis[c.name] for axis in axes]) for c in self.func.comps}
        comps = tuple(moves[c.name].moved(c) for c in self.func.comps)
        times = {c.name: c.schedule for c in comps}
        for d in self.known:
            pairs = d.relation.apply_domain(moves[d.source].relation).apply_range(moves[d.sink].relation)
            if not self._free(d) and not pairs.intersect(times[d.source].lex_ge_map(times[d.sink])).is_empty():
                return None
        func = self.func.with_comps(comps)
        return Band(func, tuple({name: m.coordinates[k] for name, m in moves.items()} for k in range(len(axes))))


def _first(at: _Coordinate) -> Linear:
    return at.shift, {} if at.iterator is None else {at.iterator: 1}


@dataclass(frozen=True, slots=True)
class _Move:
    """What becomes of a statement's iterators. `olds`: each as a form of the new ones; `coordinates` are such forms,
    too."""

    relation: isl.Map
    olds: Mapping[str, Linear]
    coordinates: tuple[Linear, ...]

    @staticmethod
    def of(comp: Comp, axes: Sequence[_Coordinate]) -> _Move:
        olds: dict[str, Linear] = {}
        news = {name: name for name in comp.iters}
        coordinates: list[Linear] = []
        for at in axes:
            first = coordinates[0] if coordinates else (0, {})
            constant, terms = at.shift + at.skew * first[0], {n: at.skew * f for n, f in first[1].items() if at.skew}
            if at.iterator is None:
                coordinates.append((constant, terms))
            elif at.iterator in olds:
                old = olds[at.iterator]
                names = dict.fromkeys((*terms, *old[1]))
                sums = {n: terms.get(n, 0) + old[1].get(n, 0) for n in names}
                coordinates.append((constant + old[0], {n: f for n, f in sums.items() if f}))
            else:
                olds[at.iterator] = -constant, {at.iterator: 1, **{n: -f for n, f in terms.items()}}
                coordinates.append((0, {at.iterator: 1}))
                before = _first(axes[0])
                skewed = f" + {at.skew} * ({in_text(before)})" if at.skew else ""
                news[at.iterator] = f"{at.iterator} + {at.shift}{skewed}"
        for name in comp.iters:
            olds.setdefault(name, (0, {name: 1}))
        every = ", ".join(comp.iters)
        relation = isl.Map(f"{{ {comp.name}[{every}] -> {comp.name}[{', '.join(news.values())}] }}")
        return _Move(relation, olds, tuple(coordinates))

    def moved(self, comp: Comp) -> Comp:
        place = position(comp)
        domain = comp.domain.apply(self.relation).coalesce()
        target = self._rewritten(comp.target, comp)
        assert isinstance(target, Load)
        comp = replace(comp, domain=domain, target=target, value=self._rewritten(comp.value, comp))
        loops = tuple(Line(0, ((name, 1),)) for name in comp.iters)
        time = schedule_map(comp, Position(place.constants, loops), comp.schedule.dim(isl.dim_type.out))
        return replace(comp, schedule=time.intersect_domain(domain))

    def _rewritten(self, expr: Expr, comp: Comp) -> Expr:
        match expr:
            case Iter(name):
                return from_linear(self.olds[name], comp.iters)
            case Load():
                indices = tuple(self._rewritten(i, comp) for i in expr.indices)
                forms = [linear(i) for i in indices]
                tidy = (i if f is None else from_linear(f, comp.iters) for i, f in zip(indices, forms, strict=True))
                return replace(expr, indices=tuple(tidy))
            case _:
                parts = tuple(self._rewritten(p, comp) for p in children(expr))
                return rebuild(expr, parts) if parts else expr
