"""Spells out what no instruction of the machine does: accesses of any shape, and operations that it lacks.

Before: any Program of the vector DSL.
After:  an equal Program in which each vector access is one that a row does, perhaps under a mask, and each operation is
        one that a row, a macro, element registers or a word shuffle do. What is used several times has a Let.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from dspgen.asmir.legalize.capabilities import Abilities
from dspgen.asmir.legalize.element_pairs import interleaved, with_pairs
from dspgen.asmir.legalize.expand_operations import expanded, half_of, lane_of
from dspgen.asmir.legalize.lane_access import Group, dealt, flags, in_place, lane_offsets, shuffled, target_groups
from dspgen.asmir.legalize.lane_spill_slots import Slots
from dspgen.asmir.legalize.masked_store_emulation import Blends
from dspgen.asmir.legalize.store_granules import slid, whole_groups
from dspgen.asmir.select.access_rows import is_pair_term, loads_any, scalar_pair
from dspgen.asmir.select.access_streams import named_indices
from dspgen.vecdsl.analysis.congruence import Congruences
from dspgen.vecdsl.ir.program import (
    ELEM_BYTES,
    Address,
    Carried,
    Const,
    Elem,
    If,
    Let,
    Load,
    Loop,
    Op,
    Program,
    Stmt,
    Store,
    Term,
    Var,
    VType,
)
from dspgen.vecdsl.ir.terms import Names, address_term, children, integer, is_atom, second_half, statements

if TYPE_CHECKING:
    from dspgen.asmir.select.emitter import Emitter

I32, VI32 = VType("i32", False), VType("i32", True)
_Access = TypeVar("_Access", Load, Store)
_FEW_WINDOWS = 2  # that are merged where scalars could be loaded
Readable = Callable[[str, Address, int, int], bool]


def legalise(program: Program, emitter: Emitter, readable: Readable | None = None) -> Program:
    """The program with what `emitter`'s machine lacks spelled out. `readable(array, address, low, high)` tells whether
    elements `address + low` to `address + high` may be read, though the program may not."""
    worker = _Legaliser(program, Abilities(emitter), readable)
    body = worker.block(program.body)
    body = worker.slots.with_constants((*worker.blends.entry, *body))
    return replace(program, arrays=program.arrays + worker.slots.arrays(), body=body)


class _Legaliser:
    def __init__(self, program: Program, able: Abilities, readable: Readable | None) -> None:
        self.able = able
        self.lanes = able.lanes
        self.names = Names.of(program)
        self.inside: Readable = readable or (lambda array, address, low, high: False)
        self.congruences = Congruences(program)
        self.placing = named_indices(program.body)
        self.before: list[Stmt] = []
        self.done: dict[Term, Term] = {}
        self.legal: dict[int, tuple[Term, bool]] = {}
        self.loaded: dict[str, Load] = {}  # variables of this block that hold what memory still has
        self.slots = Slots(
            self.lanes, self.names, self.bound, lambda s: self.before.append(s), lambda a: self._forget({a})
        )
        place = self.inside, self._aligned
        self.blends = Blends(able, self.names, *place, self.bound, self.term, lambda s: self.before.append(s))

    # -- statements

    def block(self, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        saved = self.before, self.done, self.loaded
        self.before, self.done, self.loaded = out, {}, {}
        self._another_block()
        for stmt in with_pairs(body, self.able, self.congruences):
            self._stmt(stmt)
        self._another_block()
        self.before, self.done, self.loaded = saved
        return tuple(out)

    def _stmt(self, stmt: Stmt) -> None:
        match stmt:
            case Let(name, value):
                made = self.term(value)
                self._let(name, self.bound(made) if name in self.placing and not is_pair_term(made) else made)
            case Store():
                self._store(stmt)
                self._forget({stmt.array})
                self.blends.stored(stmt, self.before)
            case If():
                condition = self.term(stmt.condition)
                self.before.append(If(condition, self.block(stmt.then)))
                self._forget({s.array for s in statements(stmt.then) if isinstance(s, Store)})
            case Loop():
                self._loop(stmt)

    def _loop(self, stmt: Loop) -> None:
        start, trip = self.term(stmt.start), self.term(stmt.trip)
        inits = [self.term(c.init) for c in stmt.carried]
        saved = self.before, self.done, self.loaded
        body: list[Stmt] = []
        self.before, self.done, self.loaded = body, {}, {}
        self._another_block()
        for inner in with_pairs(stmt.body, self.able, self.congruences):
            self._stmt(inner)
        nexts = [self.term(c.next) for c in stmt.carried]
        self._another_block()
        self.before, self.done, self.loaded = saved
        carried = tuple(Carried(c.name, i, n) for c, i, n in zip(stmt.carried, inits, nexts, strict=True))
        self.before.append(replace(stmt, start=start, trip=trip, carried=carried, body=tuple(body)))
        self._forget({s.array for s in statements(stmt.body) if isinstance(s, Store)})

    def _another_block(self) -> None:
        self.slots.forget()
        self.blends.forget()

    def _forget(self, arrays: set[str]) -> None:
        """Loads of stored arrays must be done again."""
        self.done = {t: made for t, made in self.done.items() if not loads_any(t, arrays)}
        self.loaded = {name: load for name, load in self.loaded.items() if not loads_any(load, arrays)}

    def bound(self, term: Term) -> Term:
        """A term that may be used several times: a constant, a variable, or one value on all lanes."""
        if is_atom(term):
            return term
        if isinstance(term, Op) and term.name == "bcast":
            return Op("bcast", (self.bound(term.args[0]),), term.type)
        if is_pair_term(term):
            return Op("pair", tuple(self.bound(half_of(term, part)) for part in ("lo", "hi")), term.type)
        name = self.names.fresh("part")
        self._let(name, term)
        return Var(name, term.type)

    def _let(self, name: str, value: Term) -> None:
        self.before.append(Let(name, value))
        self.able.learn(name, value)
        if isinstance(value, Load):
            self.loaded[name] = value

    # -- terms

    def term(self, term: Term) -> Term:
        if self._is_legal(term):
            return term
        if term in self.done:
            return self.done[term]
        match term:
            case Load():
                made = self._load(term)
            case Op(name="ld_pair", args=(Load() as low,)):
                made = self._pair(low, term)
            case Op():
                args = tuple(self.term(a) for a in term.args)
                made = self._landed(self._operation(Op(term.name, args, term.type, term.imm)))
            case _:
                return term
        if not is_pair_term(made):
            made = self.bound(made)
        self.done[term] = made
        return made

    def _is_legal(self, term: Term) -> bool:
        """Whether the machine does all of the term as it stands."""
        known = self.legal.get(id(term))
        if known is None or known[0] is not term:
            match term:
                case Load():
                    fine = self.able.load(term) and self._aligned(term)
                case Op(name="ld_pair", args=(Load() as low,)):
                    fine = self.able.pair_load(low, term) and self._aligned(low, pair=True)
                case Op():
                    fine = self.able.direct(term) and not self.able.by_memory(term)
                case _:
                    fine = True
            inner = term.args[0] if isinstance(term, Op) and term.name == "ld_pair" else term
            fine = fine and all(self._is_legal(child) for child in children(inner))
            known = self.legal[id(term)] = (term, fine)
        return known[1]

    def _operation(self, op: Op) -> Term:
        if self.able.direct(op):
            return op
        op = Op(op.name, tuple(self.bound(a) for a in op.args), op.type, op.imm)
        if (made := expanded(op, self.able)) is not None:
            return made
        return self._by_lanes(op) if self.able.by_lanes(op) else op

    def _landed(self, term: Term) -> Term:
        """Without the moves of single lanes that only memory does."""
        if not isinstance(term, Op) or self._is_legal(term) or term.name == "ld_pair":
            return term
        op = Op(term.name, tuple(self._landed(a) for a in term.args), term.type, term.imm)
        return self.slots.through(op) if self.able.by_memory(op) else op

    def _by_lanes(self, op: Op) -> Term:
        """The operation on each lane by itself, on the scalar side."""
        columns = [self._lanes_of(a, self.lanes) for a in op.args]
        scalar, lanes = VType(op.type.elem, False), []
        for lane in range(self.lanes):
            args = tuple(c[lane] for c in columns)
            lanes.append(self.bound(self.term(Op(op.name, tuple(a for a in args if a is not None), scalar, op.imm))))
        return self.term(Op("vec", tuple(lanes), op.type))

    def _pair(self, low: Load, term: Op) -> Term:
        if self.able.pair_load(low, term) and self._aligned(low, pair=True):
            return term
        high = replace(low, address=low.address.plus(second_half(low, self.lanes)))
        return Op("pair", (self.bound(self.term(low)), self.bound(self.term(high))), term.type)

    def _aligned(self, access: Load | Store, *, pair: bool = False) -> bool:
        """Whether the row's demands on the address are met: those beyond the element's own size."""
        vector = (access.type if isinstance(access, Load) else access.value.type).vector
        if (not vector and not pair) or access.index is not None:
            return True
        needed = self.able.alignment(access, pair=pair)
        size = ELEM_BYTES[access.elem]
        return needed <= size or self.congruences.modulo(access.address, needed // size) == 0

    # -- loads

    def _load(self, load: Load) -> Term:
        index = None if load.index is None else self.bound(self.term(load.index))
        mask = None if load.mask is None else self.bound(self.term(load.mask))
        load = replace(load, index=index, mask=mask)
        if not load.type.vector:
            return self._scalar_load(load)
        if index is not None:
            return self.able.whole(load) or self._gather(load)
        if self.able.load(load) and self._aligned(load):
            return load
        offsets = lane_offsets(load, self.lanes)
        if mask is not None:
            if self.inside(load.array, load.address, min(offsets), max(offsets)):
                whole = self.bound(self.term(replace(load, mask=None)))
                return self.term(Op("select", (mask, whole, Const(0, load.type)), load.type))
            first = self.able.first_lanes(mask)
            if first is not None and len({o - k for k, o in enumerate(offsets[: first.imm[0]])}) > _FEW_WINDOWS:
                return self._one_by_one(replace(load, mask=first), offsets)
            if (merged := self._merged(load, offsets, masked=True)) is not None:
                return merged
            return self._one_by_one(load, offsets)
        if (window := slid(load, self.able, self.congruences)) is not None:
            return replace(window, args=tuple(map(self.bound, window.args)))
        if (groups := interleaved(load, self.able, self.congruences, self.inside)) is not None:
            return replace(groups, args=tuple(map(self.term, groups.args)))
        return self._merged(load, offsets, masked=False) or self._one_by_one(load, offsets)

    def _scalar_load(self, load: Load) -> Term:
        if load.mask is None or self.able.load(load):
            return load
        if self.inside(load.array, load.address, 0, 0) and load.index is None:
            return self.term(Op("select", (load.mask, replace(load, mask=None), Const(0, load.type)), load.type))
        # Where it isn't asked for, the array's first element is read.
        away = Op("neg", (address_term(load.address),), I32)
        index = Op("select", (load.mask, load.index or integer(0), away), I32)
        inner = replace(load, index=self.bound(self.term(index)), mask=None)
        return self.term(Op("select", (load.mask, inner, Const(0, load.type)), load.type))

    def _merged(self, load: Load, offsets: tuple[int, ...], *, masked: bool) -> Term | None:
        """Contiguous loads, merged under constant masks or by shuffles; None where single loads are better."""
        plain = replace(load, stride=1, period=0, jump=0, mask=None)
        low, high = (0, -1) if masked else (min(offsets), max(offsets))

        def allowed(start: int) -> bool:
            known = masked or (start >= low and start + self.lanes - 1 <= high)
            if not known and not self.inside(load.array, load.address, start, start + self.lanes - 1):
                return False
            window = replace(plain, address=load.address.plus(start))
            return self.able.load(window) and self._aligned(window)

        groups = in_place(offsets, allowed)
        if masked:
            fine = groups is not None and self.able.group == 1 and self.able.load(replace(plain, mask=load.mask))
            return self._overlaid(load, plain, groups) if fine and groups is not None else None
        if self.able.shuffles(load.type):
            other = shuffled(offsets, self.lanes, allowed)
            if other is not None and (groups is None or len(groups) > 2 * len(other)):
                return dealt(plain, load, other, self.lanes, self.bound) if len(other) <= self.lanes // 2 else None
        if groups is None or len(groups) > max(self.lanes // 2, 1) or not self.able.selects(load.type):
            return None
        return self._overlaid(load, plain, groups)

    def _overlaid(self, load: Load, plain: Load, groups: Sequence[Group]) -> Term:
        """Each lane has its element in the right place of one of the loads."""
        result: Term | None = None
        for group in groups:
            chosen: Term = self.members(group)
            window = replace(plain, address=load.address.plus(group.start))
            if load.mask is not None:
                chosen = self.bound(self.term(Op("select", (chosen, load.mask, Const(0, VI32)), VI32)))
                window = replace(window, mask=chosen)
            result = window if result is None else Op("select", (chosen, window, self.bound(result)), load.type)
        return Const(0, load.type) if result is None else result

    def members(self, group: Group) -> Term:
        """A constant mask of a group's lanes."""
        whole = len(group.lanes) == self.lanes
        return Const(1, VI32) if whole else self.bound(self.term(flags(group, self.lanes)))

    def _one_by_one(self, load: Load, offsets: tuple[int, ...]) -> Term:
        """Scalar loads, lane by lane."""
        scalar = VType(load.type.elem, False)
        masks = self._lanes_of(load.mask, self.lanes)
        index = self._scaled(load.index, load.elem)
        parts: list[Term] = []
        for lane, (offset, mask) in enumerate(zip(offsets, masks, strict=True)):
            if isinstance(mask, Const) and not mask.value:
                parts.append(Const(0, scalar))
                continue
            mask = None if isinstance(mask, Const) else mask
            place = None if index is None else self._index_lane(index, lane)
            part = Load(load.array, load.address.plus(offset), 1, load.elem, scalar, index=place, mask=mask)
            parts.append(part if mask is None else self.term(part))
        return self.term(Op("vec", tuple(parts), load.type))

    def _gather(self, load: Load) -> Term:
        load = self._folded(load)
        if load.mask is None or self.able.load(load):
            return load if self.able.load(load) else self._one_by_one(load, (0,) * self.lanes)
        # Lanes that aren't asked for read the array's first element.
        away = Op("bcast", (self.bound(self.term(Op("neg", (address_term(load.address),), I32))),), VI32)
        index = self.bound(self.term(Op("select", (load.mask, load.index or Const(0, VI32), away), VI32)))
        whole = self.bound(self._gather(replace(load, index=index, mask=None)))
        return self.term(Op("select", (load.mask, whole, Const(0, load.type)), load.type))

    def _folded(self, access: _Access) -> _Access:
        """A gather or scatter by its index alone: the lanes' fixed offsets are added to it."""
        offsets = lane_offsets(access, self.lanes)
        if access.index is None or not any(offsets):
            return replace(access, stride=0, period=0, jump=0)
        fixed = Op("vec", tuple(integer(o) for o in offsets), VI32)
        index = self.bound(self.term(Op("add", (access.index, fixed), VI32)))
        return replace(access, index=index, stride=0, period=0, jump=0)

    # -- stores

    def _store(self, stmt: Store) -> None:
        value = self.term(stmt.value)
        index = None if stmt.index is None else self.bound(self.term(stmt.index))
        mask = None if stmt.mask is None else self.bound(self.term(stmt.mask))
        stmt = replace(stmt, value=value, index=index, mask=mask)
        if is_pair_term(value):
            self._pair_store(stmt)
        elif not value.type.vector:
            self.before.append(stmt)
        elif not self.blends.first(stmt):
            self._vector_store(self._one_mask(stmt))

    def _one_mask(self, stmt: Store) -> Store:
        """With `active` and a mask: one mask for both."""
        if stmt.active is None or stmt.active >= self.lanes:
            return replace(stmt, active=None)
        lanes = Op("mask_first", (), VI32, (stmt.active,))
        if stmt.mask is None and not self.able.by_memory(lanes):
            return stmt
        first = self.bound(self.term(lanes))
        if stmt.mask is None:
            return replace(stmt, mask=first, active=None)
        mask = self.bound(self.term(Op("select", (first, stmt.mask, Const(0, VI32)), VI32)))
        return replace(stmt, mask=mask, active=None)

    def _pair_store(self, stmt: Store) -> None:
        whole = stmt.index is None and stmt.mask is None and stmt.active is None
        if whole and self.able.store(stmt) and self._aligned(stmt, pair=True):
            self.before.append(stmt)
            return
        low, high = (self.bound(half_of(stmt.value, part)) for part in ("lo", "hi"))
        second = stmt.address.plus(second_half(stmt, self.lanes))
        self._store(replace(stmt, value=low))
        self._store(replace(stmt, value=high, address=second))

    def _vector_store(self, stmt: Store) -> None:
        if stmt.index is not None:
            if (whole := self.able.whole(stmt)) is not None:
                self.before.append(whole)
                return
            stmt = self._folded(stmt)
            if self.able.store(plain := self._spelled_active(stmt)):
                self.before.append(plain)
            else:
                self._stores_one_by_one(stmt, (0,) * self.lanes)
            return
        if self.able.store(stmt) and self._aligned(stmt):
            self.before.append(replace(stmt, value=self.bound(stmt.value)) if self.blends.wanted(stmt) else stmt)
            return
        offsets = lane_offsets(stmt, self.lanes)
        if (groups := whole_groups(stmt, self.able)) is not None and self._aligned(groups):
            self.before.append(groups)
            self._stores_one_by_one(stmt, offsets, groups.active or 0)
            return
        wanted = [k for k in range(self.lanes) if stmt.active is None or k < stmt.active]
        if not self._scattered(stmt, offsets, wanted):
            self._stores_one_by_one(stmt, offsets)

    def _spelled_active(self, stmt: Store) -> Store:
        if stmt.active is None:
            return stmt
        mask = self.bound(self.term(Op("mask_first", (), VI32, (stmt.active,))))
        return replace(stmt, mask=mask, active=None)

    def _scattered(self, stmt: Store, offsets: tuple[int, ...], wanted: list[int]) -> bool:
        """Masked contiguous stores of the value, shuffled where its lanes lie elsewhere."""
        last = {offsets[k]: k for k in wanted}
        if len(last) < len(wanted) and stmt.mask is not None:
            return False
        plain = replace(stmt, stride=1, period=0, jump=0, mask=Const(1, VI32), active=None)

        def allowed(start: int) -> bool:
            window = replace(plain, address=stmt.address.plus(start))
            return self.able.store(window) and self._aligned(window) or self.blends.fits(window)

        straight = in_place(offsets, allowed, tuple(last.values()))
        dealt = None
        if self.able.shuffles(stmt.value.type):
            dealt = target_groups(offsets, self.lanes, allowed, tuple(last.values()))
        best = min((g for g in (straight, dealt) if g is not None), key=len, default=None)
        if best is None or len(best) > max(self.lanes // 2, 1) or self.able.group > 1:
            return False  # the windows' masks tell single lanes apart, which predicates of several lanes don't
        value = self.bound(stmt.value)
        for group in best:
            self._window_store(plain, replace(stmt, value=value), offsets, group, moved=best is dealt)
        return True

    def _window_store(self, plain: Store, stmt: Store, offsets: tuple[int, ...], group: Group, *, moved: bool) -> None:
        value, mask, places = stmt.value, stmt.mask, group.lanes
        if moved:
            source = {offsets[k] - group.start: k for k in group.lanes}
            pattern = tuple(source.get(k, -1) for k in range(self.lanes))
            value = Op("shuffle2", (value, value), value.type, pattern)
            if mask is not None:
                mask = self.bound(Op("shuffle2", (mask, mask), VI32, pattern))
            places = tuple(sorted(source))
        chosen: Term | None = None
        if len(places) < self.lanes:
            chosen = self.members(Group(group.start, places))
        if mask is not None and chosen is not None:
            chosen = self.bound(self.term(Op("select", (chosen, mask, Const(0, VI32)), VI32)))
        chosen = mask if chosen is None else chosen
        window = replace(plain, address=stmt.address.plus(group.start), value=self.term(value), mask=chosen)
        self.blends.masked(window) if self.blends.fits(window) else self.before.append(window)

    def _stores_one_by_one(self, stmt: Store, offsets: tuple[int, ...], first: int = 0) -> None:
        """Scalar stores, in the order of the lanes from `first` on."""
        count = self.lanes if stmt.active is None else min(stmt.active, self.lanes)
        masks = self._lanes_of(stmt.mask, count, first)
        values = self._lanes_of(self.bound(stmt.value), count, first)
        self._forget({stmt.array})
        index = self._scaled(stmt.index, stmt.elem)
        for lane, (value, mask) in enumerate(zip(values, masks, strict=True)):
            if value is None or isinstance(mask, Const) and not mask.value:
                continue
            mask = None if isinstance(mask, Const) else mask
            place = None if index is None else self.term(self._index_lane(index, lane))
            address = stmt.address.plus(offsets[lane])
            self.before.append(Store(stmt.array, address, 1, stmt.elem, value, None, stmt.loc, index=place, mask=mask))

    def _lanes_of(self, vector: Term | None, count: int, first: int = 0) -> list[Term | None]:
        """The lanes of a vector from `first` up to `count` as scalars, all read one after the other."""
        if vector is None:
            return [None] * count
        return [None] * first + [self.bound(self.term(lane_of(vector, lane))) for lane in range(first, count)]

    def _source(self, index: Term) -> Load | None:
        """Where in memory the index still lies, if its lanes can be loaded there in pairs on the scalar side."""
        load = self.loaded.get(index.name) if isinstance(index, Var) else None
        if load is None or not load.plain or load.stride != 1 or load.elem != "i32" or self.lanes % 2:
            return None
        pair = scalar_pair(load, 0)
        low = pair.args[0]
        fine = isinstance(low, Load) and self.able.pair_load(low, pair) and self._aligned(low, pair=True)
        return load if fine else None

    def _index_lane(self, index: Term, lane: int) -> Term:
        if (load := self._source(index)) is None:
            return lane_of(index, lane)
        return Op("hi" if lane % 2 else "lo", (scalar_pair(load, lane - lane % 2),), I32)

    def _scaled(self, index: Term | None, elem: Elem) -> Term | None:
        """The index; where its lanes are read one by one, its distances in bytes are computed on all lanes at once."""
        if isinstance(index, Var) and self._source(index) is None and (size := ELEM_BYTES[elem]) > 1:
            key = (index.name, size)
            if key not in self.able.emitter.distances:
                distances = Op("shl", (index, Const(size.bit_length() - 1, VI32)), VI32)
                self.able.emitter.distances[key] = self.bound(self.term(distances))
        return index
