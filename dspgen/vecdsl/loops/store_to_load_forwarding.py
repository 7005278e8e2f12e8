"""Stored values to the loads that would read them back, and stores that nothing reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from dspgen.vecdsl.analysis.footprint import (
    Footprint,
    Overlap,
    Place,
    contains,
    loads_in,
    of_load,
    of_store,
    overlap,
    place_of_load,
    place_of_store,
    stores_in,
    term_loads,
)
from dspgen.vecdsl.analysis.integer_ranges import Ranges, with_inner_loops
from dspgen.vecdsl.build.scans import lanes_read, picks, repeats
from dspgen.vecdsl.ir.constant_folding import make
from dspgen.vecdsl.ir.program import OPS, Carried, Const, Elem, If, Let, Load, Loop, Op, Stmt, Store, Term, Var, VType
from dspgen.vecdsl.ir.terms import Names, children, is_atom, own_terms, register_elem

ALL_LANES = 1 << 30
_KEPT_BITS: dict[Elem, str] = {"i8": "sext8", "u8": "zext8", "i16": "sext16", "u16": "zext16"}


def as_loaded(value: Term, elem: Elem) -> Term:
    """What a load of `elem` would give where `value` was stored."""
    return make(_KEPT_BITS[elem], (value,), value.type) if elem in _KEPT_BITS else value


def map_demand(term: Term, demand: int, change: Callable[[Load, int], Term]) -> Term:
    """`term` with loads replaced, those in indices and masks first; `change` is told how many first lanes of each load
    matter."""
    match term:
        case Load():
            return change(_map_places(term, change), demand)
        case Op(name="ld_pair"):
            return term
        case Op():
            inner = demand if OPS[term.name].kind in ("lane", "bits") else ALL_LANES
            args = tuple(map_demand(a, inner, change) for a in term.args)
            same = all(new is old for new, old in zip(args, term.args, strict=True))
            return term if same else Op(term.name, args, term.type, term.imm)
        case _:
            return term


def _map_places(load: Load, change: Callable[[Load, int], Term]) -> Load:
    # An element that is accessed at a wrong place may lie outside its array, whether it matters or not.
    index, mask = (None if t is None else map_demand(t, ALL_LANES, change) for t in (load.index, load.mask))
    return load if index is load.index and mask is load.mask else replace(load, index=index, mask=mask)


@dataclass(slots=True)
class _Stored:
    """A store whose value is known: `slot` holds the statements that stand for it, a Let among them once needed."""

    store: Store
    slot: list[Stmt]
    value: Term
    footprint: Footprint


class Forwarder:
    """Store-to-load forwarding through the blocks of one nest."""

    def __init__(self, lanes: int, names: Names) -> None:
        self.lanes = lanes
        self.names = names
        self.periods = dict[str, int]()
        self.demands = dict[str, int]()  # of carried variables, how many first lanes are ever of use, where not all

    def block(self, body: tuple[Stmt, ...], ranges: Ranges) -> tuple[Stmt, ...]:
        """Loads of what an earlier statement of the block stored, at the same place, become the stored value.

        Before: `A[i] = x; B[i] = A[i] + y`. After: `let a = x; A[i] = a; B[i] = a + y`.
        """
        return _flat(self._block(body, ranges, {}))

    def _block(self, body: tuple[Stmt, ...], ranges: Ranges, known: dict[Place, _Stored]) -> list[list[Stmt]]:
        slots = list[list[Stmt]]()
        for stmt in body:
            match stmt:
                case Let():
                    if isinstance(stmt.value, Load) and (period := repeats(stmt.value)):
                        self.periods[stmt.name] = period
                    slots.append([Let(stmt.name, self._term(stmt.value, known))])
                case Store():
                    new = self._store(stmt, known)
                    slots.append([new])
                    self._forget(known, [of_store(new, self.lanes)], ranges)
                    if (place := place_of_store(new)) is not None:
                        known[place] = _Stored(new, slots[-1], new.value, of_store(new, self.lanes))
                case If():
                    condition = self._term(stmt.condition, known)
                    slots.append([If(condition, _flat(self._block(stmt.then, ranges, dict(known))))])
                    self._forget_block(known, stmt.then, ranges)
                case Loop():
                    slots.append([self._loop(stmt, ranges, known)])
        return slots

    def _store(self, stmt: Store, known: dict[Place, _Stored]) -> Store:
        value = self._term(stmt.value, known, stmt.active or ALL_LANES)
        index, mask = (None if t is None else self._term(t, known) for t in (stmt.index, stmt.mask))
        if value is stmt.value and index is stmt.index and mask is stmt.mask:
            return self._chosen(stmt, known)
        return self._chosen(replace(stmt, value=value, index=index, mask=mask), known)

    def _chosen(self, store: Store, known: dict[Place, _Stored]) -> Store:
        """A masked store on top of one whose value is known chooses from both, so that the former is dead.

        Before: `A[i] = x; A[i] mask m = y`. After: `A[i] = x; A[i] = select(m, y, x)`.
        """
        if store.mask is None or not store.value.type.vector:
            return store
        plain = replace(store, mask=None)
        place = place_of_store(plain)
        entry = None if place is None else known.get(place)
        if entry is None or entry.store.active != store.active or entry.value.type != store.value.type:
            return store
        value = make("select", (store.mask, store.value, self._named(entry)), store.value.type)
        return replace(plain, value=value)

    def _named(self, entry: _Stored) -> Term:
        """A known value, as a name."""
        if not is_atom(entry.value):
            name = self.names.fresh(f"{entry.store.array}_new")
            entry.value = Var(name, entry.value.type)
            entry.slot[:] = [Let(name, entry.store.value), replace(entry.store, value=entry.value)]
        return entry.value

    def _loop(self, loop: Loop, ranges: Ranges, known: dict[Place, _Stored]) -> Loop:
        start, trip = self._term(loop.start, known), self._term(loop.trip, known)
        initial = [self._term(c.init, known, self.demands.get(c.name, ALL_LANES)) for c in loop.carried]
        self._forget_block(known, loop.body, ranges.inside(loop))
        inner = dict(known)
        if not inner and not any(isinstance(s, Store) for s in loop.body):
            body, following = loop.body, [c.next for c in loop.carried]
        else:
            slots = self._block(loop.body, ranges.inside(loop), inner)
            # The next values may still give names to values that the body stores.
            following = [self._term(c.next, inner) for c in loop.carried]
            body = _flat(slots)
        carried = tuple(Carried(c.name, i, n) for c, i, n in zip(loop.carried, initial, following, strict=True))
        return replace(loop, start=start, trip=trip, carried=carried, body=body)

    def _forget_block(self, known: dict[Place, _Stored], body: tuple[Stmt, ...], ranges: Ranges) -> None:
        written = [of_store(s, self.lanes) for s in stores_in(body)]
        if known and written:
            self._forget(known, written, with_inner_loops(ranges, body))

    def _forget(self, known: dict[Place, _Stored], written: list[Footprint], ranges: Ranges) -> None:
        for place, entry in list(known.items()):
            for footprint in written:
                if footprint.array == place.array and overlap(entry.footprint, footprint, ranges) != Overlap.NEVER:
                    del known[place]
                    break

    def _term(self, term: Term, known: dict[Place, _Stored], demand: int = ALL_LANES) -> Term:
        if not known:
            return term

        def change(load: Load, wanted: int) -> Term:
            place = place_of_load(load)
            entry = None if place is None else known.get(place)
            if entry is None and place is not None:
                return self._lanes_of(load, place, known)
            if entry is None or load.type != entry.value.type:
                return load
            active = entry.store.active
            if active is not None and active < wanted:
                return load
            return as_loaded(self._named(entry), load.elem)

        return map_demand(term, demand, change)

    def _lanes_of(self, load: Load, place: Place, known: dict[Place, _Stored]) -> Term:
        """Some elements of what a recurrence came to in one vector."""
        for stored, entry in known.items():
            pattern = lanes_read(stored, place, self.lanes) if entry.store.active is None else None
            value = picks(entry.store.value, pattern, load.type, self.periods) if pattern is not None else None
            if value is not None:
                return as_loaded(value, load.elem)
        return load


def _flat(slots: list[list[Stmt]]) -> tuple[Stmt, ...]:
    return tuple(s for slot in slots for s in slot)


def drop_dead_stores(body: tuple[Stmt, ...], lanes: int, ranges: Ranges, dead: frozenset[str]) -> tuple[Stmt, ...]:
    """Stores that are overwritten before anything reads them, or whose array is never read again, vanish.

    Before: `A[i] = 0; A[i] = x`. After: `A[i] = x`. `dead` are the arrays that nothing reads after `body`.
    """
    kept, _, _ = _Sweep(lanes).block(body, ranges, (), dead)
    return kept


Later = tuple[Footprint, ...]


class _Sweep:
    def __init__(self, lanes: int) -> None:
        self.lanes = lanes

    def block(
        self, body: tuple[Stmt, ...], ranges: Ranges, later: Later, dead: frozenset[str]
    ) -> tuple[tuple[Stmt, ...], Later, frozenset[str]]:
        """`later`: what is surely written again before any read of it."""
        kept = list[Stmt]()
        for stmt in reversed(body):
            match stmt:
                case Store():
                    written = of_store(stmt, self.lanes)
                    if stmt.array in dead or any(contains(f, written) for f in later):
                        continue
                    if not (written.whole or written.partial):
                        later = (*later, written)
                    loads = [pair for term in own_terms(stmt) for pair in term_loads(term)]
                    later, dead = self._read(loads, ranges, later, dead)
                    kept.append(stmt)
                case Let():
                    later, dead = self._read(list(term_loads(stmt.value)), ranges, later, dead)
                    kept.append(stmt)
                case If():
                    inside, _, _ = self.block(stmt.then, ranges, later, dead)
                    later, dead = self._read(list(loads_in([stmt])), with_inner_loops(ranges, [stmt]), later, dead)
                    kept.append(replace(stmt, then=inside))
                case Loop():
                    inner = with_inner_loops(ranges, [stmt])
                    later, dead = self._read(list(loads_in([stmt])), inner, later, dead)
                    # What the loop itself doesn't read is as dead inside it as it is after it.
                    inside, _, _ = self.block(stmt.body, ranges.inside(stmt), later, dead)
                    kept.append(replace(stmt, body=inside))
        return tuple(reversed(kept)), later, dead

    def _read(
        self, loads: list[tuple[Load, bool]], ranges: Ranges, later: Later, dead: frozenset[str]
    ) -> tuple[Later, frozenset[str]]:
        if not loads or not (later or dead):
            return later, dead
        arrays = {load.array for load, _ in loads}
        if any(f.array in arrays for f in later):
            wanted = {f.array for f in later}
            read = dict.fromkeys(of_load(load, self.lanes, p) for load, p in loads if load.array in wanted)
            later = tuple(f for f in later if all(overlap(f, r, ranges) == Overlap.NEVER for r in read))
        return later, dead - arrays


def place_demands(loop: Loop) -> dict[Place, int]:
    """How many first lanes of each place that the loop loads can matter to anything."""
    found, names = dict[Place, int](), dict[str, int]()

    def visit(term: Term, demand: int) -> None:
        match term:
            case Var():
                names[term.name] = max(names.get(term.name, 0), demand)
            case Load():
                if (place := place_of_load(term)) is not None:
                    found[place] = max(found.get(place, 0), demand)
                for part in children(term):
                    visit(part, ALL_LANES)
            case Op():
                inner = demand if OPS[term.name].kind in ("lane", "bits") else ALL_LANES
                for arg in term.args:
                    visit(arg, inner)
            case Const():
                pass

    for carried in loop.carried:
        visit(carried.next, ALL_LANES)
    for stmt in reversed(loop.body):
        match stmt:
            case Store():
                visit(stmt.value, stmt.active or ALL_LANES)
                for part in own_terms(stmt)[1:]:
                    visit(part, ALL_LANES)
            case Let():
                visit(stmt.value, names.get(stmt.name, 0))
            case Loop() | If():
                for term in _all_terms(stmt):
                    visit(term, ALL_LANES)
    return found


def _all_terms(stmt: Stmt) -> list[Term]:
    found = list(own_terms(stmt))
    match stmt:
        case Loop():
            found += [c.next for c in stmt.carried]
            found += [t for s in stmt.body for t in _all_terms(s)]
        case If():
            found += [t for s in stmt.then for t in _all_terms(s)]
        case _:
            pass
    return found


def load_of(place: Place) -> Load:
    """The load of a place, of its register type."""
    type = VType(register_elem(place.elem), place.vector)
    return Load(place.array, place.address, place.stride, place.elem, type, place.period, place.jump)
