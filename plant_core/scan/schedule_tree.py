"""The shape of the loop tree before isl fills it in: sequences of neighbours and loops, as an isl schedule tree.

A Part is a Sequence of Parts, a Band (one loop around a Part), one Piece, or a Step whose AST is made later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Many
from dataclasses import dataclass

import islpy as isl

from plant_core.ir.func import Alloc, Effect
from plant_core.scan.full_tile_isolation import isolated
from plant_core.scan.statement_times import Piece, Step, involved, prefix, without_params
from plant_core.support.location import PlantError

Item = Piece | Step


@dataclass(frozen=True, slots=True)
class Band:
    """The loop number `depth` of all pieces in `body`."""

    depth: int
    body: Part


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Part, ...]


Part = Band | Sequence | Piece | Step


@dataclass(slots=True)
class Planner:
    """Makes the Part of some pieces. `hidden`: the defined parameters whose values aren't known yet; `base`: the
    number of loops outside, whose iterators are known; `outside` pins their dimensions to them."""

    base: int
    hidden: frozenset[str]
    steps: int = 0

    def inside(self, pieces: Many[Piece], depth: int) -> Part:
        """What `depth` loops around `pieces` enclose."""
        children = neighbours(pieces, depth)
        if depth > self.base and self._needs_step(children, depth):
            return self._sequence(self._split(pieces, depth))
        return self.children(children, depth)

    def children(self, children: Iterable[Many[Piece]], depth: int) -> Part:
        return self._sequence([self._child(group, depth) for group in children])

    def _child(self, group: Many[Piece], depth: int) -> Part:
        if group[0].depth == depth:
            return self._shown(group[0])
        return Band(depth, self.inside(group, depth + 1))

    def _shown(self, piece: Piece) -> Piece:
        hidden = involved(piece.times, self.hidden)
        if hidden:
            raise PlantError(
                f"{piece.nest.name} depends on '{hidden[0]}', which isn't known where it runs",
                loc=piece.statement.loc,
                code="DG231",
                remedy=f"run it after the statement that defines '{hidden[0]}', in the same iterations of its loops",
            )
        return piece

    def _sequence(self, parts: Many[Part]) -> Part:
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _needs_step(self, children: Iterable[Many[Piece]], depth: int) -> bool:
        """Whether some value or buffer comes to life here, whose later neighbours depend on it."""
        here = [group[0] for group in children if group[0].depth == depth]
        if any(piece.defines for piece in here):
            return True
        allocs = [piece for piece in here if _allocates(piece)]
        if not allocs:
            return False
        whole = self._whole([piece for group in children for piece in group], depth)
        return any(not whole.is_subset(prefix(piece.times, depth)) for piece in allocs)

    def _whole(self, pieces: Iterable[Piece], depth: int) -> isl.Set:
        """The iterations of the loops around in which some of the pieces run."""
        pieces = tuple(pieces)
        result: isl.Set | None = None
        for piece in pieces:
            part = prefix(piece.times, depth)
            for name in involved(piece.times, self.hidden):
                part = part.intersect(self._defined(pieces, name, depth, piece))
            part = without_params(part, sorted(self.hidden))
            result = part if result is None else result.union(part)
        if result is None:
            raise PlantError("a loop of a schedule has no statement")
        return result.coalesce()

    def _defined(self, pieces: Iterable[Piece], name: str, depth: int, user: Piece) -> isl.Set:
        parts = [prefix(p.times, depth) for p in pieces if p.defines == name]
        if not parts:
            self._shown(user)
        result = parts[0]
        for part in parts[1:]:
            result = result.union(part)
        return result

    def _split(self, pieces: Many[Piece], depth: int) -> list[Part]:
        """Steps for the iterations in which the same parameters and buffers come to life."""
        cells = [self._whole(pieces, depth)]
        for piece in pieces:
            if piece.depth == depth and (piece.defines or _allocates(piece)):
                there = without_params(prefix(piece.times, depth), sorted(self.hidden))
                cells = [c for cell in cells for c in (cell.intersect(there), cell.subtract(there)) if not c.is_empty()]
        found: list[Part] = []
        for cell in cells:
            name = f"G{self.steps}"
            self.steps += 1
            inner = tuple(p for p in pieces if not prefix(p.times, depth).intersect(cell).is_empty())
            times = cell.coalesce().set_tuple_name(name)
            found.append(Step(name, depth, inner[0].constants[:depth], times, inner))
        return found


def _allocates(piece: Piece) -> bool:
    return isinstance(piece.statement, Effect) and isinstance(piece.statement.action, Alloc)


def neighbours(pieces: Iterable[Piece], depth: int) -> list[list[Piece]]:
    """The pieces that are children of one loop body, in order: each alone, or with those it shares a loop with."""
    groups: dict[tuple[int, int], list[Piece]] = {}
    for piece in pieces:
        # Statements that end at one position have no order among themselves; the text's is taken.
        key = (piece.constants[depth], piece.number if piece.depth == depth else -1)
        groups.setdefault(key, []).append(piece)
    order = sorted(groups, key=lambda key: (key[0], groups[key][0].number))
    return [groups[key] for key in order]


# --- to isl -------------------------------------------------------------------------------------------------------


def items(part: Part) -> list[Item]:
    match part:
        case Band(body=body):
            return items(body)
        case Sequence(parts=parts):
            return [item for p in parts for item in items(p)]
        case _:
            return [part]


def pieces_in(part: Part) -> list[Piece]:
    return [p for item in items(part) for p in (item.pieces if isinstance(item, Step) else (item,))]


def schedule_tree(part: Part, domains: Mapping[str, isl.Set], *, isolate: bool) -> isl.Schedule:
    """The isl schedule tree of `part`; `domains` has the instances of each item by name. `isolate`: with the option to
    keep full tiles apart, where nests ask for it."""
    whole = _union(domains[item.name] for item in items(part))
    root = isl.Schedule.from_domain(whole).get_root().child(0)
    return _Builder(domains, isolate).insert(root, part, ()).get_schedule()


def _union(sets: Iterable[isl.Set]) -> isl.UnionSet:
    result: isl.UnionSet | None = None
    for domain in sets:
        result = domain.to_union_set() if result is None else result.union(domain.to_union_set())
    if result is None:
        raise PlantError("there is nothing to scan")
    return result


@dataclass(frozen=True, slots=True)
class _Builder:
    domains: Mapping[str, isl.Set]
    isolate: bool

    def insert(self, node: isl.ScheduleNode, part: Part, outer: tuple[int, ...]) -> isl.ScheduleNode:
        """Put `part` at a leaf of the schedule tree, inside the loops `outer`; the node returned is where it was."""
        match part:
            case Band(depth=depth, body=body):
                node = self._band(node, part, outer)
                return self.insert(node.child(0), body, (*outer, depth)).parent()
            case Sequence(parts=parts):
                filters = isl.UnionSetList.alloc(node.get_ctx(), len(parts))
                for k, child in enumerate(parts):
                    whole = _union(isl.Set.universe(self.domains[i.name].get_space()) for i in items(child))
                    filters = filters.insert(k, whole)
                node = node.insert_sequence(filters)
                for k, child in enumerate(parts):
                    node = self.insert(node.child(k).child(0), child, outer).parent().parent()
                return node
            case _:
                return node

    def _band(self, node: isl.ScheduleNode, part: Band, outer: tuple[int, ...]) -> isl.ScheduleNode:
        members = items(part)
        spaces = [self.domains[item.name].get_space() for item in members]
        values = [isl.Aff.var_on_domain(isl.LocalSpace.from_space(s), isl.dim_type.set, part.depth) for s in spaces]
        result = isl.UnionPwAff.from_pw_aff(isl.PwAff.from_aff(values[0]))
        for value in values[1:]:
            result = result.union_add(isl.UnionPwAff.from_pw_aff(isl.PwAff.from_aff(value)))
        node = node.insert_partial_schedule(isl.MultiUnionPwAff.from_union_pw_aff(result))
        if self.isolate:
            whole = isolated(members, self.domains, outer, part.depth)
            if whole is not None:
                node = node.band_set_ast_build_options(whole.to_union_set())
        kind = _loop_type(part, part.depth)
        if kind is not None:
            node = node.band_member_set_ast_loop_type(0, kind)
            node = node.band_member_set_isolate_ast_loop_type(0, kind)
        return node


_KINDS = {
    "separate": isl.ast_loop_type.separate,
    "atomic": isl.ast_loop_type.atomic,
    "unroll": isl.ast_loop_type.unroll,
}


def _loop_type(part: Part, depth: int) -> isl.ast_loop_type | None:
    found = {p.nest.name: p.nest.option(p.nest.loops[depth]) for p in pieces_in(part)}
    marks = {mark: name for name, mark in found.items() if mark in _KINDS}
    if len(marks) > 1:
        (one, first), (two, second) = sorted(marks.items(), key=lambda pair: str(pair[0]))[:2]
        raise PlantError(
            f"{first} and {second} share a loop, and want it '{one}' and '{two}'",
            loc=pieces_in(part)[0].statement.loc,
            code="DG230",
            remedy="give the option to one of them, or the same to both",
        )
    return _KINDS[next(iter(marks))] if marks else None
