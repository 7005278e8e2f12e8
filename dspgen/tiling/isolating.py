"""Nests with guards that hold in their interior, cut so that the interior is a nest of its own (index-set splitting).

Before: for i < 259: for j < 259: for k < 4: if (0 <= i - k < 256 && j < 256) out[i][j] += in[i - k][j] * f[k];
After:  for i < 3: ...;
        for 3 <= i < 256: for j < 256: for k < 4: ...;              no guard is left here
        for 3 <= i < 256: for 256 <= j < 259: ...;
        for 256 <= i < 259: ...;

A loop is cut where all statements in it keep the iterations of their other loops from one of its iterations to the
next, for long enough. The pieces of a loop follow each other as its iterations do; those of an inner one are taken out
of the loops around it, into loops of their own, as far as all dependences are kept.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import islpy as isl

from dspgen.tiling.nests import Nest, nests
from dspgen.tiling.splitting import fresh, named
from plant_core.affine import accesses, children, is_integer, rebuild
from plant_core.budget import at_most
from plant_core.dependence import Dependence, memory_dependences
from plant_core.ir import Buf, Comp, Expr, Func, Iter, Load
from plant_core.loc import PlantError
from plant_core.schedule import Line, Position, position, schedule_map

# An interior has so many iterations, and one in so many of those of its loop; other pieces are looked at for interiors
# of their own where they have one in so many.
_FEWEST = 2
_SHARE = 2
_REST = 4
# Nests that one nest may become.
_MOST_NESTS = 9
# Of isl's, for one function.
_MOST_OPERATIONS = 3_000_000
# Elements of a local array that each nest may have for itself.
_MOST_ELEMENTS = 65536

Span = tuple[int, int]


def isolated(func: Func, *, reassoc: bool) -> Func | None:
    """`func` with its guarded nests cut; None where that leaves no large nests without guards.

    Requires: 2d+1 schedules. Ensures: the same contents of every parameter.
    """
    if func.effects or any(c.defines for c in func.comps):
        return None
    changed = func
    for nest in nests(func):
        if not _guarded(nest):
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
    """Whether sizes are known, and statements have no boxes, or not the same iterations of a loop that they share."""
    if not all(x.known for c in nest.comps for x in c.loops):
        return False
    loops = {(x.id, x.low, x.high) for c in nest.comps for x in c.loops}
    return len({id for id, _, _ in loops}) < len(loops) or not all(c.box for c in nest.comps)


def _gains(nest: Nest, after: Func) -> bool:
    """Whether nests without guards have a good share of the iterations."""
    names = {c.comp.loc for c in nest.comps}
    found = [n for n in nests(after) if {c.comp.loc for c in n.comps} & names]
    whole = nest.heaviest.volume
    return len(found) <= _MOST_NESTS and _SHARE * sum(n.heaviest.volume for n in found if not _guarded(n)) >= whole


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of the statement `of`, and its textual positions."""

    of: Comp
    name: str
    domain: isl.Set
    constants: tuple[int, ...]
    loops: tuple[Line, ...]

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
        self.cuts = 0
        self.known: list[Dependence] | None = None

    def cut(self) -> Func | None:
        """The function after that; None where nothing was cut."""
        if all(_plain(self.pieces[n]) for n in self.names):
            self._visit(self.names, 0)
        if not self.cuts:
            return None
        bufs, names = self._private()
        comps = [self._made(piece, names.get(piece.constants[0], {})) for piece in self.pieces.values()]
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
            spans = _spans([p.domain for p in members], depth)
            if len(spans) < 2:
                self._visit(loops[prefix], depth + 1)
                continue
            made = self._split(members, depth, [s for s, _ in spans])
            self.cuts += 1
            if depth and all(_moves(p.of, depth) for p in members):
                self._take_out(made, depth)
            for here, (_, interior) in zip(made, spans, strict=True):
                if interior:
                    self._visit(here, depth + 1)

    def _split(self, members: Sequence[_Piece], depth: int, spans: Sequence[Span]) -> list[list[str]]:
        """The members in so many loops, one after the other; their names."""
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
            for number, (low, high) in enumerate(spans):
                domain = piece.domain.lower_bound_val(isl.dim_type.set, depth, isl.Val(low))
                domain = domain.upper_bound_val(isl.dim_type.set, depth, isl.Val(high))
                domain = domain.coalesce().remove_redundancies()
                if domain.is_empty():
                    continue
                name = piece.name
                if name in found:
                    name = fresh(f"{piece.of.name}_{number}", self.taken)
                    self.taken.add(name)
                here = (*constants[:depth], constants[depth] + number, *constants[depth + 1 :])
                found[name] = replace(moved, name=name, domain=domain, constants=here)
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
        textual positions their names."""
        mine = [p for p in self.pieces.values() if p.of.name in self.names]
        used = {n: [p for p in mine if n in _buffers(p.of)] for n in {n for p in mine for n in _buffers(p.of)}}
        outside = {n for p in self.pieces.values() if p.of.name not in self.names for n in _buffers(p.of)}
        shared = {
            d.buf
            for d, source, sink in self._pairs()
            if d.kind == "flow" and source.constants[0] != sink.constants[0]
            and not _between(d, source, sink, 0).is_empty()
        }  # fmt: skip
        taken = {*(b.name for b in self.func.bufs), *(p.name for p in self.func.params)}
        bufs: list[Buf] = []
        names: dict[int, dict[str, str]] = {}
        for buf in self.func.bufs:
            if buf.kind != "local" or buf.name not in used or buf.name in outside | shared:
                continue
            places = sorted({p.constants[0] for p in used[buf.name]})
            if len(places) * math.prod(buf.extents) > _MOST_ELEMENTS:
                continue
            for place in places[1:]:
                name = fresh(f"{buf.name}_{len(bufs)}", taken)
                taken.add(name)
                bufs.append(replace(buf, name=name))
                names.setdefault(place, {})[buf.name] = name
        return bufs, names

    def _made(self, piece: _Piece, names: Mapping[str, str]) -> Comp:
        """The piece as a statement, its arrays under these names."""
        domain = piece.domain
        comp = replace(piece.of, name=piece.name, domain=named(domain, piece.name))
        if names:
            target, value = _renamed(comp.target, names), _renamed(comp.value, names)
            assert isinstance(target, Load)
            comp = replace(comp, target=target, value=value)
        place = Position(piece.constants, piece.loops)
        schedule = schedule_map(comp, place, piece.of.schedule.dim(isl.dim_type.out))
        return replace(comp, schedule=schedule.intersect_domain(comp.domain))


def _plain(piece: _Piece) -> bool:
    """Whether its loops run upwards over its iterators, in their order, and its sizes are known."""
    known = piece.domain.dim(isl.dim_type.param) == 0
    return known and all(x == Line(0, ((i, 1),)) for i, x in zip(piece.of.iters, piece.loops, strict=True))


def _moves(comp: Comp, depth: int) -> bool:
    """Whether the loop at this depth moves what the statement writes."""
    return any(x == Iter(comp.iters[depth]) for index in comp.target.indices for x in _within(index))


def _within(expr: Expr) -> Iterator[Expr]:
    yield expr
    for part in children(expr):
        yield from _within(part)


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


# --- interiors ----------------------------------------------------------------------------------------------------


def _spans(domains: Sequence[isl.Set], depth: int) -> list[tuple[Span, bool]]:
    """The pieces of a loop in their order, and which of them are interiors."""
    low = min(int(d.dim_min_val(depth).to_python()) for d in domains)
    high = max(int(d.dim_max_val(depth).to_python()) for d in domains)
    return _parts_of(domains, depth, (low, high), _SHARE)


def _parts_of(domains: Sequence[isl.Set], depth: int, span: Span, share: int) -> list[tuple[Span, bool]]:
    low, high = span
    count = high - low + 1
    best: Span | None = None
    for at in dict.fromkeys((low + count // 2, low + count // 4, low + 3 * count // 4)):
        found = _steady(domains, depth, at, span)
        if best is None or found[1] - found[0] > best[1] - best[0]:
            best = found
        if share * (best[1] - best[0] + 1) >= count:
            break
    if best is None or best[1] - best[0] + 1 < _FEWEST or share * (best[1] - best[0] + 1) < count:
        return [(span, False)]
    made = [(best, True)]
    if low < best[0]:
        made = [*_parts_of(domains, depth, (low, best[0] - 1), _REST), *made]
    if best[1] < high:
        made += _parts_of(domains, depth, (best[1] + 1, high), _REST)
    return made


def _steady(domains: Sequence[isl.Set], depth: int, at: int, span: Span) -> Span:
    """The iterations around `at` that have the same iterations of all other loops as this one."""
    low, high = span
    for domain in domains:
        here = domain.fix_val(isl.dim_type.set, depth, isl.Val(at)).eliminate(isl.dim_type.set, depth, 1).coalesce()
        here = _within_span(here, depth, (low, high))
        domain = _within_span(domain, depth, (low, high))
        other = domain.subtract(here).union(here.subtract(domain))
        # isl takes 0 for the least value of an empty part of a set, unless it knows that the part is empty.
        before = other.upper_bound_val(isl.dim_type.set, depth, isl.Val(at - 1)).coalesce()
        after = other.lower_bound_val(isl.dim_type.set, depth, isl.Val(at + 1)).coalesce()
        if not before.is_empty():
            low = int(before.dim_max_val(depth).to_python()) + 1
        if not after.is_empty():
            high = int(after.dim_min_val(depth).to_python()) - 1
    return low, high


def _within_span(domain: isl.Set, depth: int, span: Span) -> isl.Set:
    domain = domain.lower_bound_val(isl.dim_type.set, depth, isl.Val(span[0]))
    return domain.upper_bound_val(isl.dim_type.set, depth, isl.Val(span[1]))
