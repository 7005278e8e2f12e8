"""Values that a loop stores and loads again some iterations later, carried in registers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dspgen.vecdsl.footprint import (
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
from dspgen.vecdsl.forward import ALL_LANES, as_loaded, load_of, map_demand
from dspgen.vecdsl.ir import Address, Carried, If, Let, Load, Loop, Stmt, Store, Term, Var, VType
from dspgen.vecdsl.ranges import Ranges
from dspgen.vecdsl.terms import Names, Substitution, is_atom, linear_address, own_terms, register_elem

MOST_ITERATIONS = 4
MOST_VALUES = 8


def carry_recurrences(
    loop: Loop, ranges: Ranges, lanes: int, names: Names, sizes: dict[str, int], indices: frozenset[str]
) -> Loop:
    """Loads of what a former iteration stored become carried variables.

    Before: `for i { y[i] = y[i-1] * a + x[i] }`. After: `for i, h = y[start-1] { h' = h * a + x[i]; y[i] = h' }`.
    Requires: forwarding within the body is done. Ensures: the stores stay; only loads go.
    """
    start = linear_address(loop.start)
    if start is None or any(n not in indices for n, _ in start.terms):
        return loop
    finder = _Finder(loop, lanes)
    sources = dict[Place, tuple[int, int]]()
    for position, stmt in enumerate(loop.body):
        for term in own_terms(stmt):
            for load, paired in term_loads(term):
                place = place_of_load(load)
                if not paired and place not in sources and (found := finder.source(load, position)):
                    sources[place] = found
    deepest = dict[int, int]()
    for store, distance in sources.values():
        deepest[store] = max(deepest.get(store, 0), distance)
    kept = dict[int, int]()
    for store, depth in sorted(deepest.items()):
        if sum(kept.values()) + depth <= MOST_VALUES and _readable(loop, store, depth, start, ranges, lanes, sizes):
            kept[store] = depth
    sources = {p: s for p, s in sources.items() if s[0] in kept}
    return _carry(loop, sources, kept, names, Substitution({}, {loop.iterator: start})) if sources else loop


class _Finder:
    """Which store of a loop's body wrote what a load reads, and how many iterations ago."""

    def __init__(self, loop: Loop, lanes: int) -> None:
        self.loop = loop
        self.lanes = lanes
        self.direct = [(n, s) for n, s in enumerate(loop.body) if isinstance(s, Store)]
        nested = [s for stmt in loop.body if isinstance(stmt, Loop | If) for s in stores_in((stmt,))]
        self.closed = {s.array for s in nested}

    def source(self, load: Load, position: int) -> tuple[int, int] | None:
        """(the store's position, the distance), None where that isn't certain."""
        move = load.address.coefficient(self.loop.iterator) * self.loop.step
        stores = [(n, s) for n, s in self.direct if s.array == load.array]
        if not stores or not move or load.array in self.closed:
            return None
        if load.type != VType(register_elem(load.elem), load.type.vector):
            return None
        if any(s.address.terms != load.address.terms for _, s in stores):
            return None
        read = of_load(load, self.lanes)
        for distance in range(MOST_ITERATIONS + 1):
            for number, store in reversed(stores):
                if distance == 0 and number >= position:
                    continue
                written = of_store(store, self.lanes).moved(-move * distance)
                if overlap(written, read, Ranges()) == Overlap.NEVER:
                    continue
                former = replace(place_of_store(store), address=written.address)
                certain = distance > 0 and store.active is None and former == place_of_load(load)
                return (number, distance) if certain else None
        return None


def _readable(
    loop: Loop, store: int, depth: int, start: Address, ranges: Ranges, lanes: int, sizes: dict[str, int]
) -> bool:
    """Whether the values stored before the loop's first iterations may be loaded ahead of it."""
    if loop.min_trip >= depth:
        return True
    stmt = loop.body[store]
    if not isinstance(stmt, Store):
        return False
    here = Substitution({}, {loop.iterator: start}).address(stmt.address)
    move = stmt.address.coefficient(loop.iterator) * loop.step
    count = of_place(place_of_store(stmt), lanes).count
    reach = stmt.stride * (count - 1)
    for distance in range(1, depth + 1):
        low, high = ranges.minimum(here.plus(-move * distance)), ranges.maximum(here.plus(-move * distance))
        if low is None or high is None or low + min(reach, 0) < 0 or high + max(reach, 0) >= sizes[stmt.array]:
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
        stmt = loop.body[number]
        type = load_of(place_of_store(stmt)).type if isinstance(stmt, Store) else VType("i32", False)
        base = stmt.array if isinstance(stmt, Store) else ""
        chains[number] = [Var(names.fresh(f"{base}_ago{d + 1}"), type) for d in range(depth)]

    def change(load: Load, _: int) -> Term:
        found = sources.get(place_of_load(load))
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
        place = place_of_store(new)
        chain = chains[number]
        for distance, variable in enumerate(chain, 1):
            ago = replace(place, address=at_start.address(place.address).plus(-move * distance))
            following = as_loaded(value, new.elem) if distance == 1 else chain[distance - 2]
            carried.append(Carried(variable.name, load_of(ago), following))
    return replace(loop, carried=(*loop.carried, *carried), body=tuple(body))


def _map_own(stmt: Stmt, change: Callable[[Load, int], Term]) -> Stmt:
    def term(t: Term) -> Term:
        return map_demand(t, ALL_LANES, change)

    match stmt:
        case Let():
            return Let(stmt.name, term(stmt.value))
        case Store():
            return replace(stmt, value=term(stmt.value))
        case If():
            return replace(stmt, condition=term(stmt.condition))
        case Loop():
            carried = tuple(Carried(c.name, term(c.init), c.next) for c in stmt.carried)
            return replace(stmt, start=term(stmt.start), trip=term(stmt.trip), carried=carried)
