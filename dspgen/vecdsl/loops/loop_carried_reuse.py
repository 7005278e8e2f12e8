"""Values that a loop stores and loads again some iterations later, carried in registers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from dspgen.vecdsl.analysis.footprint import (
    Footprint,
    Overlap,
    Place,
    of_load,
    of_place,
    of_store,
    overlap,
    place_of_load,
    place_of_store,
    stores_in,
    term_loads,
)
from dspgen.vecdsl.analysis.integer_ranges import Ranges
from dspgen.vecdsl.build.scans import lanes_read, picks
from dspgen.vecdsl.ir.program import Address, Carried, If, Let, Load, Loop, Stmt, Store, Term, Var, VType
from dspgen.vecdsl.ir.terms import Names, Substitution, is_atom, linear_address, own_terms, register_elem
from dspgen.vecdsl.loops.store_to_load_forwarding import ALL_LANES, as_loaded, load_of, map_demand

MOST_ITERATIONS = 4
MOST_VALUES = 8
UNKNOWN = Ranges()  # nothing is known of any name


def carry_recurrences(
    loop: Loop,
    ranges: Ranges,
    lanes: int,
    names: Names,
    sizes: dict[str, int],
    indices: frozenset[str],
    periods: Mapping[str, int],
) -> Loop:
    """Loads of what a former iteration stored become carried variables.

    Before: `for i { y[i] = y[i-1] * a + x[i] }`. After: `for i, h = y[start-1] { h' = h * a + x[i]; y[i] = h' }`.
    Requires: forwarding within the body is done; `periods` has the vectors that repeat themselves. Ensures: the stores
    stay; only loads go.
    """
    start = linear_address(loop.start)
    if start is None or any(n not in indices for n, _ in start.terms):
        return loop
    finder = _Finder(loop, lanes, periods)
    sources = dict[Place, tuple[int, int]]()
    for position, stmt in enumerate(loop.body):
        for term in own_terms(stmt):
            for load, paired in term_loads(term):
                place = place_of_load(load)
                if (
                    not paired
                    and place is not None
                    and place not in sources
                    and (found := finder.source(load, position))
                ):
                    sources[place] = found
    deepest = dict[int, int]()
    for store, distance in sources.values():
        deepest[store] = max(deepest.get(store, 0), distance)
    kept = dict[int, int]()
    for store, depth in sorted(deepest.items()):
        if sum(kept.values()) + depth <= MOST_VALUES and _readable(loop, store, depth, start, ranges, lanes, sizes):
            kept[store] = depth
    sources = {p: s for p, s in sources.items() if s[0] in kept}
    at_start = Substitution({}, {loop.iterator: start})
    loop = _carry_scans(loop, finder, at_start, ranges, sizes, names)
    return _carry(loop, sources, kept, names, at_start) if sources else loop


class _Finder:
    """Which store of a loop's body wrote what a load reads, and how many iterations ago."""

    def __init__(self, loop: Loop, lanes: int, periods: Mapping[str, int]) -> None:
        self.loop = loop
        self.lanes = lanes
        self.direct: dict[str, list[tuple[int, Store, Footprint]]] = {}  # by array, with what they write
        for number, stmt in enumerate(loop.body):
            if isinstance(stmt, Store):
                self.direct.setdefault(stmt.array, []).append((number, stmt, of_store(stmt, lanes)))
        nested = [s for stmt in loop.body if isinstance(stmt, Loop | If) for s in stores_in((stmt,))]
        self.closed = {s.array for s in nested}
        self.periods = periods

    def source(self, load: Load, position: int) -> tuple[int, int] | None:
        """(the store's position, the distance), None where that isn't certain."""
        move = load.address.coefficient(self.loop.iterator) * self.loop.step
        stores = self.direct.get(load.array, [])
        if not stores or not move or load.array in self.closed:
            return None
        if load.type != VType(register_elem(load.elem), load.type.vector):
            return None
        if any(s.address.terms != load.address.terms for _, s, _ in stores):
            return None
        read = of_load(load, self.lanes)
        for distance in range(MOST_ITERATIONS + 1):
            for number, store, footprint in reversed(stores):
                if distance == 0 and number >= position:
                    continue
                written = footprint.moved(-move * distance)
                if overlap(written, read, UNKNOWN) == Overlap.NEVER:
                    continue
                place = place_of_store(store)
                former = None if place is None else replace(place, address=written.address)
                certain = distance > 0 and store.active is None and former is not None and former == place_of_load(load)
                return (number, distance) if certain else None
        return None

    def scan(self, load: Load, place: Place, position: int) -> Term | None:
        """What the load reads in the following iteration, if a recurrence's vector of this one has it."""
        move = load.address.coefficient(self.loop.iterator) * self.loop.step
        stores = self.direct.get(load.array, [])
        if not move or load.array in self.closed or any(s.address.terms != load.address.terms for _, s, _ in stores):
            return None
        read = of_load(load, self.lanes)
        if any(n < position and overlap(written, read, UNKNOWN) != Overlap.NEVER for n, _, written in stores):
            return None
        for _, store, written in reversed(stores):
            if overlap(written.moved(-move), read, UNKNOWN) == Overlap.NEVER:
                continue
            stored = place_of_store(store)
            if stored is None or store.active is not None:
                return None
            pattern = lanes_read(replace(stored, address=stored.address.plus(-move)), place, self.lanes)
            value = self._defined(store.value)
            return None if pattern is None else picks(value, pattern, load.type, self.periods)
        return None

    def _defined(self, value: Term) -> Term:
        lets = {s.name: s.value for s in self.loop.body if isinstance(s, Let)}
        return lets.get(value.name, value) if isinstance(value, Var) else value


def _carry_scans(
    loop: Loop, finder: _Finder, at_start: Substitution, ranges: Ranges, sizes: dict[str, int], names: Names
) -> Loop:
    """Loads of a few elements of what a recurrence came to in the former iteration become carried variables.

    Before: `for i { let c = y[16*i-1]; y[16*i ..] = b + bcast(c) }`.
    After: `for i, h = y[16*start-1] { let c = h; y[16*i ..] = b + bcast(c); h' = lane.15(b) + c }`.
    """
    found = dict[Place, Carried]()
    for position, stmt in enumerate(loop.body):
        if not isinstance(stmt, Let) or not isinstance(stmt.value, Load) or stmt.value.mask is not None:
            continue
        load, place = stmt.value, place_of_load(stmt.value)
        following = None if place is None or place in found else finder.scan(load, place, position)
        if place is None or following is None:
            continue
        first = replace(load, address=at_start.address(load.address))
        if loop.min_trip < 1 and not _inside(of_load(first, finder.lanes), ranges, sizes):
            continue
        found[place] = Carried(names.fresh(f"{load.array}_ago"), first, as_loaded(following, load.elem))
    if not found:
        return loop

    def change(load: Load, _: int) -> Term:
        place = place_of_load(load)
        carried = None if place is None else found.get(place)
        return load if carried is None else Var(carried.name, carried.init.type)

    body = tuple(_map_own(s, change) if isinstance(s, Let) else s for s in loop.body)
    return replace(loop, carried=(*loop.carried, *found.values()), body=body)


def _inside(footprint: Footprint, ranges: Ranges, sizes: dict[str, int]) -> bool:
    low, high = ranges.minimum(footprint.address), ranges.maximum(footprint.address)
    first, last = footprint.reach
    return low is not None and high is not None and low + first >= 0 and high + last < sizes[footprint.array]


def _readable(
    loop: Loop, store: int, depth: int, start: Address, ranges: Ranges, lanes: int, sizes: dict[str, int]
) -> bool:
    """Whether the values stored before the loop's first iterations may be loaded ahead of it."""
    if loop.min_trip >= depth:
        return True
    stmt = loop.body[store]
    place = place_of_store(stmt) if isinstance(stmt, Store) else None
    if not isinstance(stmt, Store) or place is None:
        return False
    here = Substitution({}, {loop.iterator: start}).address(stmt.address)
    move = stmt.address.coefficient(loop.iterator) * loop.step
    first, last = of_place(place, lanes).reach
    for distance in range(1, depth + 1):
        low, high = ranges.minimum(here.plus(-move * distance)), ranges.maximum(here.plus(-move * distance))
        if low is None or high is None or low + first < 0 or high + last >= sizes[stmt.array]:
            return False
    return True


def _carry(
    loop: Loop,
    sources: dict[Place, tuple[int, int]],
    depths: dict[int, int],
    names: Names,
    at_start: Substitution,
) -> Loop:
    chains = dict[int, list[Var]]()
    for number, depth in depths.items():
        place = _stored_place(loop.body[number])
        chains[number] = [Var(names.fresh(f"{place.array}_ago{d + 1}"), load_of(place).type) for d in range(depth)]

    def change(load: Load, _: int) -> Term:
        place = place_of_load(load)
        found = None if place is None else sources.get(place)
        return load if found is None else chains[found[0]][found[1] - 1]

    body, carried = list[Stmt](), list[Carried]()
    for number, stmt in enumerate(loop.body):
        new = _map_own(stmt, change)
        if number not in chains or not isinstance(new, Store):
            body.append(new)
            continue
        value = new.value
        if not is_atom(value):
            value = Var(names.fresh(f"{new.array}_new"), value.type)
            body.append(Let(value.name, new.value))
        body.append(replace(new, value=value))
        move = new.address.coefficient(loop.iterator) * loop.step
        place = _stored_place(new)
        chain = chains[number]
        for distance, variable in enumerate(chain, 1):
            ago = replace(place, address=at_start.address(place.address).plus(-move * distance))
            following = as_loaded(value, new.elem) if distance == 1 else chain[distance - 2]
            carried.append(Carried(variable.name, load_of(ago), following))
    return replace(loop, carried=(*loop.carried, *carried), body=tuple(body))


def _stored_place(stmt: Stmt) -> Place:
    place = place_of_store(stmt) if isinstance(stmt, Store) else None
    if place is None:
        raise ValueError("the values of such a statement can't be carried")
    return place


def _map_own(stmt: Stmt, change: Callable[[Load, int], Term]) -> Stmt:
    def term(t: Term) -> Term:
        return map_demand(t, ALL_LANES, change)

    match stmt:
        case Let():
            return Let(stmt.name, term(stmt.value))
        case Store():
            index, mask = (None if t is None else term(t) for t in (stmt.index, stmt.mask))
            return replace(stmt, value=term(stmt.value), index=index, mask=mask)
        case If():
            return replace(stmt, condition=term(stmt.condition))
        case Loop():
            carried = tuple(Carried(c.name, term(c.init), c.next) for c in stmt.carried)
            return replace(stmt, start=term(stmt.start), trip=term(stmt.trip), carried=carried)
