"""Memory to registers: what a nest loads and stores over and over at one place becomes a carried variable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from dspgen.vecdsl.analysis.footprint import (
    Footprint,
    Overlap,
    Place,
    loads_in,
    of_load,
    of_place,
    of_store,
    overlap,
    place_of_load,
    place_of_store,
    stores_in,
    term_loads,
)
from dspgen.vecdsl.analysis.integer_ranges import Ranges, with_inner_loops
from dspgen.vecdsl.ir.constant_folding import make
from dspgen.vecdsl.ir.program import Carried, Const, If, Let, Load, Loop, Op, Program, Stmt, Store, Term, Var, VType
from dspgen.vecdsl.ir.terms import INTEGER, Names, index_names, integer, is_atom, map_terms, names_of, statements
from dspgen.vecdsl.loops.loop_carried_reuse import carry_recurrences
from dspgen.vecdsl.loops.simplify import drop_unused
from dspgen.vecdsl.loops.store_to_load_forwarding import (
    ALL_LANES,
    Forwarder,
    as_loaded,
    drop_dead_stores,
    load_of,
    map_demand,
    place_demands,
)

_LANE_BY_LANE = frozenset(
    {"add", "sub", "mul", "mac", "msub", "min", "max", "and", "or", "xor", "neg", "abs", "select"}
)


_NOWHERE: Mapping[Place, int | None] = MappingProxyType({})


def promote(program: Program, lanes: int) -> Program:
    """Keeps in registers what the program would pass through memory.

    Before: `for k { C[i] = C[i] + A[k] }`. After: `for k, c = C[i] { c' = c + A[k] }; C[i] = c`, and values stored
    just before are used in place of the load; local arrays that nothing loads any more are gone, and so are names that
    nobody needs.
    Requires: arrays don't overlap each other; `lanes` is the machine's. Ensures: the same final contents of every
    parameter array.
    """
    promoter = _Promoter(program, lanes)
    body = promoter.block(program.body, Ranges())
    local = frozenset(a.name for a in program.arrays if a.local)
    body = drop_dead_stores(body, lanes, Ranges(), local)
    program = drop_unused_arrays(replace(program, body=body))
    return replace(program, body=drop_unused(program.body))


def drop_unused_arrays(program: Program) -> Program:
    """Local arrays that nothing loads lose their stores and their declaration."""
    loaded = {load.array for load, _ in loads_in(program.body)}
    gone = {a.name for a in program.arrays if a.local and a.name not in loaded}
    if not gone:
        return program
    arrays = tuple(a for a in program.arrays if a.name not in gone)
    return replace(program, arrays=arrays, body=_without(program.body, gone))


def _without(body: tuple[Stmt, ...], arrays: set[str]) -> tuple[Stmt, ...]:
    kept = list[Stmt]()
    for stmt in body:
        match stmt:
            case Store() if stmt.array in arrays:
                continue
            case Loop():
                kept.append(replace(stmt, body=_without(stmt.body, arrays)))
            case If():
                kept.append(replace(stmt, then=_without(stmt.then, arrays)))
            case _:
                kept.append(stmt)
    return tuple(kept)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A place that a loop may keep in a register; `used` if the loop also loads it."""

    place: Place
    active: int | None
    store: Store
    used: bool


class _Accesses:
    """What a loop touches, each place once."""

    def __init__(self, lanes: int, stores: list[Store]) -> None:
        self.lanes = lanes
        self.writes = dict[Place, int]()
        self.reads = dict[Place, VType | None]()
        self.written = dict[str, dict[tuple[Footprint, Place | None], None]]()
        self.read = dict[str, dict[tuple[Footprint, Place | None], None]]()
        for store in stores:
            place = place_of_store(store)
            if place is not None:
                self.writes[place] = self.writes.get(place, 0) + 1
            self.written.setdefault(store.array, {})[of_store(store, lanes), place] = None

    def load(self, loads: Iterable[tuple[Load, bool]]) -> None:
        for load, paired in dict.fromkeys(loads):
            place = None if paired else place_of_load(load)
            if place is not None:
                # Two types of value at one place: None, and no register can hold both.
                same = self.reads.get(place, load.type) == load.type
                self.reads[place] = load.type if same else None
            self.read.setdefault(load.array, {})[of_load(load, self.lanes, paired), place] = None

    def alone(self, place: Place, active: int | None, ranges: Ranges) -> bool:
        """Whether nothing else in the loop can touch the place."""
        written, whole = of_place(place, self.lanes, active), of_place(place, self.lanes)
        if place in self.reads and self.reads[place] != load_of(place).type:
            return False
        for other, its in self.written.get(place.array, {}):
            if its != place and overlap(whole, other, ranges) != Overlap.NEVER:
                return False
        for other, source in self.read.get(place.array, {}):
            if source != place and overlap(written, other, ranges) != Overlap.NEVER:
                return False
        return True


def _touched(before: Sequence[Stmt]) -> dict[Place, int | None]:
    """The places that straight code surely writes, and how many of their lanes if not all."""
    stores = [s for s in before if isinstance(s, Store) and s.mask is None]
    found = {place: s.active for s in stores if (place := place_of_store(s)) is not None}
    return found | {p: None for s in stores if s.active is None and (p := place_of_store(s)) is not None}


class _Promoter:
    def __init__(self, program: Program, lanes: int) -> None:
        self.lanes = lanes
        self.names = Names.of(program)
        self.sizes = {a.name: a.size for a in program.arrays}
        self.indices = index_names(program)
        self.forwarder = Forwarder(lanes, self.names)

    def block(
        self, body: tuple[Stmt, ...], ranges: Ranges, touched: Mapping[Place, int | None] = _NOWHERE
    ) -> tuple[Stmt, ...]:
        """`touched`: places that were surely written before the block, so that they are inside their arrays, and how
        many of their lanes if not all."""
        done = list[Stmt]()
        outside = ranges
        for stmt in body:
            ranges = ranges.after(stmt)
            match stmt:
                case Loop():
                    inner, before = ranges.inside(stmt), {**touched, **_touched(done)}
                    loop = replace(stmt, body=self.block(stmt.body, inner, before))
                    loop = carry_recurrences(
                        loop, ranges, self.lanes, self.names, self.sizes, self.indices, self.forwarder.periods
                    )
                    done += self.loop(loop, ranges, before)
                case If():
                    done.append(replace(stmt, then=self.block(stmt.then, ranges, {**touched, **_touched(done)})))
                case _:
                    done.append(stmt)
        # Only straight runs of statements are looked at here, so one pass over the block is enough.
        forwarded = self.forwarder.block(tuple(done), outside)
        return drop_dead_stores(forwarded, self.lanes, outside, frozenset())

    def loop(self, loop: Loop, ranges: Ranges, touched: Mapping[Place, int | None]) -> list[Stmt]:
        """The loop with its places carried, and the stores after it. `touched` as for blocks."""
        steady, masks = self._steadily_masked(loop, ranges)
        steady = self._unmasked(steady, ranges, touched)
        candidates = self.candidates(steady, ranges)
        if masks.keys() <= {c.place for c in candidates}:
            loop = steady
        else:
            masks, loop = {}, self._unmasked(loop, ranges, touched)
            candidates = self.candidates(loop, ranges)
        if not candidates:
            return [loop]
        carried = {c.place: Var(self.names.fresh(f"{c.place.array}_reg"), load_of(c.place).type) for c in candidates}
        body, current = self._rewrite(loop.body, dict(carried))
        following = [Carried(c.name, c.init, _read_from(c.next, current)) for c in loop.carried]
        safe = loop.min_trip >= 1
        for candidate in candidates:
            place, variable = candidate.place, carried[candidate.place]
            initial: Term = load_of(place)
            if safe and not candidate.used:
                initial = Const(0.0 if variable.type.elem in ("f32", "f64") else 0, variable.type)
            following.append(Carried(variable.name, initial, current[place]))
            if candidate.active is not None:
                self.forwarder.demands[variable.name] = candidate.active
        after = [replace(c.store, value=carried[c.place], mask=masks.get(c.place)) for c in candidates]
        new = replace(loop, carried=tuple(following), body=tuple(body))

        def inside(c: _Candidate) -> bool:
            known = c.place in touched and touched[c.place] in (None, c.active)
            return known or self._inside(c.place, c.active, ranges)

        if safe or all(map(inside, candidates)):
            return [new, *after]
        # A place of a loop that may not run at all can lie outside its array.
        ran = make("ne", (loop.trip, integer(0)), INTEGER)
        return [If(ran, (replace(new, min_trip=1), *after))]

    def _steadily_masked(self, loop: Loop, ranges: Ranges) -> tuple[Loop, dict[Place, Term]]:
        """Stores under masks that stay the same, and whose old value only they use, lane by lane, lose these masks
        where a register may keep their value: what it has on other lanes is nobody's. The masks by place are those of
        the stores after the loop."""
        bound = {loop.iterator, *(c.name for c in loop.carried), *_bound_names(loop.body)}
        written = {s.array for s in stores_in(loop.body)}
        masks, plain = dict[Place, Term](), dict[Store, Store]()
        for store in loop.body:
            if not isinstance(store, Store) or store.mask is None:
                continue
            if bound.isdisjoint(names_of(store.mask)) and all(
                x.array not in written for x, _ in term_loads(store.mask)
            ):
                without = replace(store, mask=None)
                place = place_of_store(without)
                if place is not None and place.vector and store.active is None and _stays_on_lanes(store.value, place):
                    masks[place], plain[store] = store.mask, without
        if not plain:
            return loop, {}

        def dropped(stores: Mapping[Store, Store]) -> Loop:
            return replace(loop, body=tuple(stores.get(s, s) if isinstance(s, Store) else s for s in loop.body))

        others = tuple(s for s in loop.body if not (isinstance(s, Store) and s in plain))
        read = {place_of_load(x) for x, _ in loads_in((replace(loop, body=others),))}
        read |= {place_of_load(x) for c in loop.carried for x, _ in term_loads(c.next)}
        kept = {c.place for c in self.candidates(dropped(plain), ranges)} - read
        mine = [place_of_store(w) for w in plain.values()]
        plain = {s: w for (s, w), p in zip(plain.items(), mine, strict=True) if p in kept and mine.count(p) == 1}
        found = {place for place in map(place_of_store, plain.values()) if place is not None}
        return dropped(plain), {place: mask for place, mask in masks.items() if place in found}

    def _unmasked(self, loop: Loop, ranges: Ranges, touched: Mapping[Place, int | None]) -> Loop:
        """Masked stores choose from the old value instead, where a register may then keep it."""
        found = ((s, self._choosing(s, ranges, touched)) for s in loop.body if isinstance(s, Store))
        chosen = {store: new for store, new in found if new is not None}
        if not chosen:
            return loop
        trial = replace(loop, body=tuple(chosen.get(s, s) if isinstance(s, Store) else s for s in loop.body))
        kept = {c.place for c in self.candidates(trial, ranges)}
        chosen = {old: new for old, new in chosen.items() if place_of_store(new) in kept}
        return replace(loop, body=tuple(chosen.get(s, s) if isinstance(s, Store) else s for s in loop.body))

    def _choosing(self, store: Store, ranges: Ranges, touched: Mapping[Place, int | None]) -> Store | None:
        """None where a vector's other elements may lie outside their array."""
        if store.mask is None or not store.value.type.vector or store.active is not None:
            return None
        place = place_of_store(replace(store, mask=None))
        if place is None or not (touched.get(place, 0) is None or self._inside(place, None, ranges)):
            return None
        old = load_of(place)
        if old.type != store.value.type:
            return None
        return replace(store, mask=None, value=make("select", (store.mask, store.value, old), old.type))

    def _inside(self, place: Place, active: int | None, ranges: Ranges) -> bool:
        low, high = ranges.minimum(place.address), ranges.maximum(place.address)
        first, last = of_place(place, self.lanes, active).reach
        if low is None or high is None:
            return False
        return low + first >= 0 and high + last < self.sizes[place.array]

    def candidates(self, loop: Loop, ranges: Ranges) -> list[_Candidate]:
        direct = dict[Place, list[Store]]()
        for stmt in loop.body:
            if isinstance(stmt, Store) and (place := place_of_store(stmt)) is not None:
                direct.setdefault(place, []).append(stmt)
        bound = {loop.iterator, *_bound_names(loop.body)}
        direct = {p: s for p, s in direct.items() if not any(n in bound for n, _ in p.address.terms)}
        if not direct:
            return []
        body = (replace(loop, start=integer(0), trip=integer(0), carried=()),)
        accesses = _Accesses(self.lanes, list(stores_in(body)))
        accesses.load(loads_in(body))
        accesses.load(pair for c in loop.carried for pair in term_loads(c.next))
        inner = with_inner_loops(ranges, (loop,))
        partial = any(s.active is not None for stores in direct.values() for s in stores)
        demands = place_demands(loop) if partial else {}
        found = list[_Candidate]()
        for place, writes in direct.items():
            active = writes[0].active
            if any(w.active != active for w in writes):
                continue
            if active is not None and demands.get(place, 0) > active:
                continue
            # A store below a condition or in an inner loop would change the register at an unknown time.
            if accesses.writes[place] == len(writes) and accesses.alone(place, active, inner):
                found.append(_Candidate(place, active, writes[-1], place in accesses.reads))
        return found

    def _rewrite(self, body: tuple[Stmt, ...], current: dict[Place, Term]) -> tuple[list[Stmt], dict[Place, Term]]:
        done = list[Stmt]()
        for stmt in body:
            new = map_terms(stmt, lambda term, now=current: _read_from(term, now))  # type: ignore[misc]
            place = place_of_store(new) if isinstance(new, Store) else None
            if not isinstance(new, Store) or place is None or place not in current:
                done.append(new)
                continue
            value = new.value
            if not is_atom(value):
                name = self.names.fresh(f"{new.array}_new")
                done.append(Let(name, value))
                value = Var(name, value.type)
            kept = as_loaded(value, new.elem)
            if not is_atom(kept):
                name = self.names.fresh(f"{new.array}_kept")
                done.append(Let(name, kept))
                kept = Var(name, kept.type)
            current = {**current, place: kept}
        return done, current


def _stays_on_lanes(term: Term, place: Place) -> bool:
    """Whether what a term has on one lane depends on a place's old value on that lane at most."""
    if isinstance(term, Load) and place_of_load(term) == place and term.index is None:
        return True
    if not any(place_of_load(x) == place for x, _ in term_loads(term)):
        return True
    return (
        isinstance(term, Op)
        and term.type.vector
        and term.name in _LANE_BY_LANE
        and all(_stays_on_lanes(a, place) for a in term.args)
    )


def _bound_names(body: tuple[Stmt, ...]) -> list[str]:
    found = list[str]()
    for stmt in statements(body):
        match stmt:
            case Let():
                found.append(stmt.name)
            case Loop():
                found += [stmt.iterator, *(c.name for c in stmt.carried)]
            case _:
                pass
    return found


def _read_from(term: Term, current: dict[Place, Term]) -> Term:
    def change(load: Load, _: int) -> Term:
        place = place_of_load(load)
        return load if place is None else current.get(place, load)

    return map_demand(term, ALL_LANES, change)
