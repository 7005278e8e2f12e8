"""Nests with guards that hold in their interior, cut so that the interior is a nest of its own (index-set splitting).

Before: for i < 259: for j < 259: for k < 4: if (0 <= i - k < 256 && j < 256) out[i][j] += in[i - k][j] * f[k];
After:  for i < 3: ...;
        for 3 <= i < 256: for j < 256: for k < 4: ...;              no guard is left here
        for 3 <= i < 256: for 256 <= j < 259: ...;
        for 256 <= i < 259: ...;

A loop is cut where all statements in it keep the iterations of their other loops from one of its iterations to the
next, for long enough. The pieces of a loop follow each other as its iterations do; those of an inner one are taken out
of the loops around it, into loops of their own, as far as all dependences are kept.

Where sizes are parameters, pieces have the sizes for which those of a loop follow each other, and the nest as it was
has the others. What isn't in an interior counts from 0, and borders that are alike are one nest:
Before: for i < n: for k < 3: if (0 <= i + k - 1 < n) out[i] += in[i + k - 1] * f[k];
After:  for i < 1: { for 1 <= k < 3: out[0] += ..; for k < 2: out[i + n - 1] += ..; }       if n >= 3
        for 1 <= i < n - 1: for k < 3: ..;
        for i < n: ..                                                                       if n <= 2
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import islpy as isl

from dspgen.tiling.loops.loop_nests import Nest, nests
from dspgen.tiling.split.interior_cuts import Cuts, cuts_of, with_values
from dspgen.tiling.split.loop_fission import fresh, named
from plant_core.analysis.dependence import Dependence, memory_dependences
from plant_core.analysis.rectangular_hull import in_text
from plant_core.analysis.runtime_parameters import aligned
from plant_core.ir.accesses import Linear, accesses, children, is_integer, rebuild
from plant_core.ir.func import Buf, Comp, Expr, Func, Iter, Load
from plant_core.ir.quasi_affine import parameters_of
from plant_core.ir.time_2d1 import Line, Position, from_zero, position, schedule_map, shared_depth
from plant_core.support.isl_budget import at_most
from plant_core.support.location import PlantError

# Pieces without guards have one of so many iterations.
_SHARE = 2
# Nests that one nest may become, of known size and of any size, when those for small sizes come on top.
_MOST_NESTS = 9
_MOST_OF_ANY_SIZE = 12
# Of isl's, for one function.
_MOST_OPERATIONS = 3_000_000
# Elements of a local array that each nest may have for itself.
_MOST_ELEMENTS = 65536


def isolated(func: Func, *, reassoc: bool, any_size: bool = False) -> Func | None:
    """`func` with its guarded nests cut, those whose sizes are parameters if they may be of `any_size`; None where that
    leaves no large nests without guards.

    Requires: 2d+1 schedules. Ensures: the same contents of every parameter.
    """
    if func.effects or any(c.defines for c in func.comps):
        return None
    if any_size:
        func = replace(func, comps=aligned(func.comps))
    changed = func
    for nest in nests(func):
        known = not any(c.comp.domain.dim(isl.dim_type.param) for c in nest.comps)
        if not (known or any_size) or not _guarded(nest):
            continue
        try:
            with at_most(_MOST_OPERATIONS):
                after = _Cutter(changed, nest.names, reassoc).cut()
        except PlantError:
            continue
        if after is not None and _gains(nest, after):
            changed = after
    return None if changed is func else changed


def _guarded(nest: Nest) -> bool:
    """Whether statements have no boxes, or not the same iterations of a loop that they share."""
    if not all(x.known for c in nest.comps for x in c.loops):
        return not all(c.settled for c in nest.comps) or not _alike(nest)
    loops = {(x.id, x.low, x.high) for c in nest.comps for x in c.loops}
    return len({id for id, _, _ in loops}) < len(loops) or not all(c.box for c in nest.comps)


def _alike(nest: Nest) -> bool:
    """Whether statements have the same iterations of each loop that they share."""
    found: dict[tuple[int, ...], isl.Set] = {}
    for info in nest.comps:
        for depth, loop in enumerate(info.loops):
            number = len(info.loops)
            here = info.comp.domain.project_out(isl.dim_type.set, depth + 1, number - depth - 1)
            here = here.project_out(isl.dim_type.set, 0, depth).reset_tuple_id()
            if not here.is_equal(found.setdefault(loop.id, here)):
                return False
    return True


def _gains(nest: Nest, after: Func) -> bool:
    """Whether nests without guards have a good share of the iterations."""
    names = {c.comp.loc for c in nest.comps}
    found = [n for n in nests(after) if {c.comp.loc for c in n.comps} & names]
    whole = nest.heaviest.volume
    known = all(x.known for c in nest.comps for x in c.loops)
    most = _MOST_NESTS if known else _MOST_OF_ANY_SIZE
    return len(found) <= most and _SHARE * sum(n.heaviest.volume for n in found if not _guarded(n)) >= whole


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of the statement `of`, and its textual positions."""

    of: Comp
    name: str
    domain: isl.Set
    constants: tuple[int, ...]
    loops: tuple[Line, ...]
    starts: tuple[tuple[int, Linear], ...] = ()  # of loops that are to count from 0, by depth
    home: int = 0  # which nest it was in before nests became one

    @property
    def depth(self) -> int:
        return len(self.loops)


class _Cutter:
    """Cuts the nest of the statements `names`."""

    def __init__(self, func: Func, names: Collection[str], reassoc: bool) -> None:
        self.func = func
        self.reassoc = reassoc
        self.taken = {c.name for c in func.comps}
        self.pieces: dict[str, _Piece] = {}
        for comp in func.comps:
            place = position(comp)
            self.pieces[comp.name] = _Piece(comp, comp.name, comp.domain, place.constants, place.loops)
        self.names = set(names)
        self.values = {p.name: p.values for p in func.params if not isinstance(p, Buf) and p.values}
        self.cuts = 0
        self.where: list[isl.Set] = []  # the parameters for which there are the pieces, all of these
        self.known: list[Dependence] | None = None

    def cut(self) -> Func | None:
        """The function after that; None where nothing was cut."""
        if all(_plain(self.pieces[n]) for n in self.names):
            self._visit(self.names, 0)
        if not self.cuts:
            return None
        self.pieces = {name: replace(p, home=p.constants[0]) for name, p in self.pieces.items()}
        if self.where:
            if not self.values:  # or those at either end of a loop don't have the same blocks
                self._fuse()
            self._add_other_sizes()
        bufs, names = self._private()
        comps = [self._made(piece, names.get(piece.home, {})) for piece in self.pieces.values()]
        return replace(self.func, comps=tuple(comps), bufs=(*self.func.bufs, *bufs))

    # --- cutting --------------------------------------------------------------------------------------------------

    def _visit(self, names: Collection[str], depth: int) -> None:
        """Cut the loops at this depth that hold these pieces alone, and then those in the interiors."""
        loops: dict[tuple[int, ...], list[str]] = {}
        for name in sorted(names):
            piece = self.pieces[name]
            if piece.depth > depth:
                loops.setdefault(piece.constants[: depth + 1], []).append(name)
        for prefix in sorted(loops):
            members = [self.pieces[n] for n in loops[prefix]]
            cuts = cuts_of([p.domain for p in members], depth, self.values)
            if cuts is None:
                self._visit(loops[prefix], depth + 1)
                continue
            made = self._split(members, depth, cuts)
            self.cuts += 1
            if cuts.where is not None and not any(cuts.where.is_equal(w) for w in self.where):
                self.where.append(cuts.where)
            if depth and all(_moves(p.of, depth) for p in members):
                self._take_out(made, depth)
            for here, span in zip(made, cuts.spans, strict=True):
                if span.interior or cuts.where is not None:
                    self._visit(here, depth + 1)

    def _split(self, members: Sequence[_Piece], depth: int, cuts: Cuts) -> list[list[str]]:
        """The members in so many loops, one after the other; their names."""
        spans = cuts.spans
        around = members[0].constants[:depth]
        mine = {p.name for p in members}
        made: list[list[str]] = [[] for _ in spans]
        found: dict[str, _Piece] = {}
        for piece in self.pieces.values():
            constants = list(piece.constants)
            if piece.constants[:depth] == around and len(constants) > depth:
                constants[depth] *= len(spans)
            moved = replace(piece, constants=tuple(constants))
            if piece.name not in mine:
                found[piece.name] = moved
                continue
            for number, span in enumerate(spans):
                domain = span.of(piece.domain, depth)
                domain = domain if cuts.where is None else domain.intersect_params(cuts.where)
                domain = with_values(domain, self.values) if self.values else domain
                domain = domain.coalesce().remove_redundancies()
                if domain.is_empty():
                    continue
                name = piece.name
                if name in found:
                    name = fresh(f"{piece.of.name}_{number}", self.taken)
                    self.taken.add(name)
                here = (*constants[:depth], constants[depth] + number, *constants[depth + 1 :])
                starts = piece.starts
                if cuts.where is not None and (span.low[1] or not span.interior):
                    starts = (*starts, (depth, span.low))
                found[name] = replace(moved, name=name, domain=domain, constants=here, starts=starts)
                made[number].append(name)
        self.pieces = found
        return made

    def _take_out(self, made: Sequence[Sequence[str]], depth: int) -> None:
        """The loops of these pieces, which follow each other at this depth, each in copies of the loops around it, as
        many of these as dependences allow."""
        for level in reversed(range(depth)):
            first = self.pieces[next(n for names in made for n in names)]
            around = first.constants[: level + 1]
            inside = [p for p in self.pieces.values() if p.constants[: level + 1] == around and p.depth > level]
            mine = {n for names in made for n in names}
            place = first.constants[level + 1]
            others = [p for p in inside if p.name not in mine]
            before = [p.name for p in others if p.constants[level + 1] < place]
            after = [p.name for p in others if p.constants[level + 1] >= place]
            for order in _orders(len(made)):
                parts = [before, *(made[k] for k in order), after]
                groups = {n: number for number, names in enumerate(parts) for n in names}
                if self._keeps(groups, level):
                    break
            else:
                return
            for piece in self.pieces.values():
                if piece.constants[:level] == around[:level] and len(piece.constants) > level:
                    number = groups.get(piece.name, 0)
                    constants = list(piece.constants)
                    constants[level] = constants[level] * (len(made) + 2) + number
                    self.pieces[piece.name] = replace(piece, constants=tuple(constants))

    def _fuse(self) -> None:
        """Borders that have the same iterations as one nest, where nothing depends on what moves."""
        mine: dict[int, list[_Piece]] = {}
        for piece in sorted(self.pieces.values(), key=lambda p: p.constants):
            if piece.of.name in self.names:
                mine.setdefault(piece.constants[0], []).append(piece)
        for first, second in itertools.combinations(sorted(mine), 2):
            if first not in mine or second not in mine or not _alike_borders(mine[first], mine[second]):
                continue
            passed = [p for p in self.pieces.values() if first <= p.constants[0] < second]
            if self._independent(mine[second], passed):
                depth = _shared(mine[second])
                around, last = mine[first][0].constants[:depth], mine[first][-1].constants[depth]
                for piece in mine.pop(second):
                    constants = (*around, last + 1 + piece.constants[depth], *piece.constants[depth + 1 :])
                    self.pieces[piece.name] = replace(piece, constants=constants)
                    mine[first].append(self.pieces[piece.name])

    def _independent(self, pieces: Sequence[_Piece], others: Sequence[_Piece]) -> bool:
        """Whether no dependence is between any of the pieces and any of the others."""
        names, rest = {p.name for p in pieces}, {p.name for p in others}
        if not {p.of.name for p in others} <= self.names:
            return False
        for dependence, source, sink in self._pairs():
            if (source.name in names and sink.name in rest) or (source.name in rest and sink.name in names):
                if not self._free(dependence) and not _between(dependence, source, sink, 0).is_empty():
                    return False
        return True

    def _add_other_sizes(self) -> None:
        """The statements as they were for parameters that the pieces aren't for, in nests of their own behind these."""
        mine = [p for p in self.pieces.values() if p.of.name in self.names]
        rest, others = isl.Set.universe(self.where[0].get_space()), list[isl.Set]()
        for where in self.where:
            others += rest.subtract(where).make_disjoint().get_basic_sets()
            rest = rest.intersect(where)
        last = max(p.constants[0] for p in mine)
        for name, piece in self.pieces.items():
            moved = (piece.constants[0] * (len(others) + 1), *piece.constants[1:])
            domain = piece.domain
            if piece in mine:
                domain = domain.intersect_params(rest).remove_redundancies()
            self.pieces[name] = replace(piece, domain=domain, constants=moved)
        for name in sorted(self.names):
            comp = self.func.comp(name)
            place = position(comp)
            for number, other in enumerate(others):
                domain = comp.domain.intersect_params(other).coalesce().remove_redundancies()
                if not domain.is_empty():
                    name = fresh(f"{comp.name}_small", self.taken)
                    self.taken.add(name)
                    constants = (last * (len(others) + 1) + number + 1, *place.constants[1:])
                    self.pieces[name] = _Piece(comp, name, domain, constants, place.loops, home=-1 - number)

    # --- dependences ----------------------------------------------------------------------------------------------

    def _keeps(self, groups: Mapping[str, int], level: int) -> bool:
        """Whether the pieces may run in these groups, one after the other, in each iteration of the `level` outermost
        loops."""
        for dependence, source, sink in self._pairs():
            if source.name not in groups or sink.name not in groups:
                continue
            if groups[source.name] <= groups[sink.name] or self._free(dependence):
                continue
            if not _between(dependence, source, sink, level).is_empty():
                return False
        return True

    def _free(self, dependence: Dependence) -> bool:
        target = self.func.comp(dependence.source).target
        return dependence.reduction and (self.reassoc or is_integer(target.dtype))

    def _pairs(self) -> Iterator[tuple[Dependence, _Piece, _Piece]]:
        """The dependences of the function's statements, for each two pieces of these."""
        if self.known is None:
            found = memory_dependences(self.func, of=self.names)
            self.known = [d for d in found if {d.source, d.sink} <= self.names]
        pieces: dict[str, list[_Piece]] = {}
        for piece in self.pieces.values():
            pieces.setdefault(piece.of.name, []).append(piece)
        for dependence in self.known:
            for source, sink in itertools.product(pieces[dependence.source], pieces[dependence.sink]):
                yield dependence, source, sink

    # --- the function ---------------------------------------------------------------------------------------------

    def _private(self) -> tuple[list[Buf], dict[int, dict[str, str]]]:
        """Local arrays of which no nest reads what another wrote are others in each nest: these, and by the nests'
        homes their names."""
        mine = [p for p in self.pieces.values() if p.of.name in self.names]
        used = {n: [p for p in mine if n in _buffers(p.of)] for n in {n for p in mine for n in _buffers(p.of)}}
        outside = {n for p in self.pieces.values() if p.of.name not in self.names for n in _buffers(p.of)}
        shared = {
            d.buf
            for d, source, sink in self._pairs()
            if d.kind == "flow" and source.home != sink.home
            and not _between(d, source, sink, 0).is_empty()
        }  # fmt: skip
        taken = {*(b.name for b in self.func.bufs), *(p.name for p in self.func.params)}
        bufs: list[Buf] = []
        names: dict[int, dict[str, str]] = {}
        for buf in self.func.bufs:
            if buf.kind != "local" or buf.name not in used or buf.name in outside | shared:
                continue
            places = sorted({p.home for p in used[buf.name]})
            known = all(isinstance(n, int) for n in buf.shape)
            if known and len(places) * math.prod(buf.extents) > _MOST_ELEMENTS:
                continue
            for place in places[1:]:
                name = fresh(f"{buf.name}_{len(bufs)}", taken)
                taken.add(name)
                bufs.append(replace(buf, name=name))
                names.setdefault(place, {})[buf.name] = name
        return bufs, names

    def _made(self, piece: _Piece, names: Mapping[str, str]) -> Comp:
        """The piece as a statement, its arrays under these names."""
        comp = replace(piece.of, name=piece.name, domain=named(piece.domain, piece.name))
        if names:
            target, value = _renamed(comp.target, names), _renamed(comp.value, names)
            assert isinstance(target, Load)
            comp = replace(comp, target=target, value=value)
        # Not on the domain alone, where isl would tell the place of a loop of one iteration by a constant.
        place = Position(piece.constants, piece.loops)
        comp = replace(comp, schedule=schedule_map(comp, place, piece.of.schedule.dim(isl.dim_type.out)))
        for depth, start in piece.starts:
            comp = from_zero(comp, depth, start)
        return comp


def _plain(piece: _Piece) -> bool:
    """Whether its loops run upwards over its iterators, in their order."""
    return all(x == Line(0, ((i, 1),)) for i, x in zip(piece.of.iters, piece.loops, strict=True))


def _moves(comp: Comp, depth: int) -> bool:
    """Whether the loop at this depth moves what the statement writes."""
    return any(x == Iter(comp.iters[depth]) for index in comp.target.indices for x in _within(index))


def _within(expr: Expr) -> Iterator[Expr]:
    yield expr
    for part in children(expr):
        yield from _within(part)


def _shared(pieces: Sequence[_Piece]) -> int:
    """How many loops are around all of the pieces."""
    places = [Position(p.constants, p.loops) for p in pieces]
    return min(shared_depth(places[0], place) for place in places)


def _alike_borders(first: Sequence[_Piece], second: Sequence[_Piece]) -> bool:
    """Whether a nest is of the statements that another one begins with, in loops of the same iterations from their
    starts on."""
    pairs = list(zip(first, second, strict=False))
    depth = _shared(second)
    if not all(p.starts for p in second) or len(first) < len(second) or _shared(first) != depth:
        return False
    return all(a.of is b.of and _from_starts(a, depth).is_equal(_from_starts(b, depth)) for a, b in pairs)


def _from_starts(piece: _Piece, depth: int) -> isl.Set:
    """The iterations of so many loops around a piece."""
    around = piece.domain.project_out(isl.dim_type.set, depth, piece.depth - depth).reset_tuple_id()
    iterators = [f"i{k}" for k in range(depth)]
    starts = {k: in_text(start) for k, start in piece.starts}
    moved = [f"{name} - ({starts[k]})" if k in starts else name for k, name in enumerate(iterators)]
    return around.apply(
        isl.Map(f"[{', '.join(parameters_of(around))}] -> {{ [{', '.join(iterators)}] -> [{', '.join(moved)}] }}")
    )


def _buffers(comp: Comp) -> set[str]:
    return {comp.target.buf, *(a.buf for index in comp.target.indices for a in accesses(index)),
            *(a.buf for a in accesses(comp.value))}  # fmt: skip


def _renamed(expr: Expr, names: Mapping[str, str]) -> Expr:
    parts = children(expr)
    changed = rebuild(expr, tuple(_renamed(p, names) for p in parts)) if parts else expr
    if isinstance(changed, Load) and changed.buf in names:
        return replace(changed, buf=names[changed.buf])
    return changed


def _orders(count: int) -> Iterator[tuple[int, ...]]:
    """Orders of the pieces of a loop: as they are, the other way round, each of them last, each of them first."""
    numbers = tuple(range(count))
    yield numbers
    yield numbers[::-1]
    for k in numbers:
        yield (*(n for n in numbers if n != k), k)
        yield (k, *(n for n in numbers if n != k))


def _between(dependence: Dependence, source: _Piece, sink: _Piece, level: int) -> isl.Map:
    """The pairs of these two pieces, in the same iteration of the `level` outermost loops."""
    pairs = dependence.relation.intersect_domain(named(source.domain, source.of.name))
    pairs = pairs.intersect_range(named(sink.domain, sink.of.name))
    for k in range(level):
        pairs = pairs.equate(isl.dim_type.in_, k, isl.dim_type.out, k)
    return pairs
