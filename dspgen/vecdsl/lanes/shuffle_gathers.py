"""Lanes over two loops, and far apart, by shuffles of whole vectors, on machines that have them.

Before: lanes 0 .. 3 load a[0 ..], lanes 4 .. 7 a[8 ..], and another load a[4 ..], a[12 ..]; stores likewise.
After:  a[0 ..] and a[lanes ..] are loaded once, and shuffled twice; stores that together fill vectors are shuffled into
        these, and each vector is stored once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from dspgen.target.isa.model import Target
from dspgen.target.query.crossing import word_shuffle
from dspgen.target.query.operations import OperationTable
from dspgen.vecdsl.analysis.demanded_lanes import demands, passes_lanes
from dspgen.vecdsl.analysis.integer_ranges import readable
from dspgen.vecdsl.analysis.touched_elements import WORD, Place, Reach, elements_of, is_pair, lane_elements
from dspgen.vecdsl.ir.program import ELEM_BYTES, Address, Carried, Let, Load, Loop, Op, Program, Stmt, Store, Term, Var
from dspgen.vecdsl.ir.terms import Names, own_terms, statements
from dspgen.vecdsl.lanes.interleaved_stores import merged_stores
from dspgen.vecdsl.lanes.shuffle_network import Part, joined

# A load of this stride or more is thought of as elements far apart.
_FAR = 8

Readable = Callable[[str, Address, int, int], bool]


@dataclass(frozen=True, slots=True)
class Dealer:
    """A machine's lanes, and its loads and stores of words."""

    lanes: int
    loads: tuple[Reach, ...]
    stores: tuple[Reach, ...]


def dealer(target: Target) -> Dealer | None:
    """None where the machine lacks shuffles by any pattern."""
    table = OperationTable(target)
    if word_shuffle(target, table) is None:
        return None
    kinds = [("vld", "vld_pair"), ("vst", "vst_pair")]
    loads, stores = (tuple(_reaches(table, single, pair, target.lanes)) for single, pair in kinds)
    return Dealer(target.lanes, loads, stores)


def _reaches(table: OperationTable, single: str, pair: str, lanes: int) -> Iterator[Reach]:
    yield Reach(1)
    found: dict[int, int] = {}
    for form in table.forms(pair, "i32"):
        memory = form.instruction.memory
        stride = form.shape[0]
        if memory is not None and stride > 1 and form.shape == (stride, 0, stride, 1):
            found[stride] = min(found.get(stride, memory.align), memory.align)
    for stride, align in sorted(found.items()):
        yield Reach(stride, True, max(align // WORD, 1))


def deal(program: Program, target: Target) -> Program:
    """The program with such accesses spelled out, as far as its machine shuffles. Requires: names unique."""
    machine = dealer(target)
    if machine is None:
        return program
    names = Names.of(program)
    loads = _Loads(machine, readable(program), demands(program, machine.lanes), names)
    body, _ = loads.block(program.body, ())
    return replace(program, body=merged_stores(body, machine.lanes, machine.stores, names))


def _irregular(load: Load) -> bool:
    """Whether its lanes lie in two levels, or far apart, at known places."""
    known = load.type.vector and load.index is None and load.mask is None and ELEM_BYTES[load.elem] == WORD
    return known and (bool(load.period) or load.stride >= _FAR)


def windows(elements: Sequence[int], stride: int, lanes: int) -> dict[int, int]:
    """For each of the elements, which lie a multiple of `stride` apart, where the vector begins that holds it."""
    found: dict[int, int] = {}
    start = None
    for element in sorted(set(elements)):
        if start is None or element > start + stride * (lanes - 1):
            start = element
        found[element] = start
    return found


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A load, and how many of its first lanes are of use."""

    load: Load
    count: int

    @property
    def elements(self) -> tuple[int, ...]:
        """Those of the lanes, counted from the variable part of the address."""
        return lane_elements(self.load, self.count)


@dataclass(slots=True)
class _Window:
    """A vector of memory under a name; `stale`: its elements that were written since, None for all."""

    name: str
    stale: set[int] | None = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Way:
    """How a load takes its lanes: from vectors that begin at `starts`, for each of its elements."""

    reach: Reach
    starts: dict[int, int]


_Key = tuple[Place, Reach, int]


class _Loads:
    """Works through blocks; the vectors that are loaded get names, and loads after stores to their other elements take
    them from there."""

    def __init__(self, machine: Dealer, inside: Readable, needed: dict[str, int], names: Names) -> None:
        self.machine = machine
        self.lanes = machine.lanes
        self.inside = inside
        self.needed = needed
        self.names = names
        self.ways: dict[_Wanted, _Way] = {}
        self.windows: dict[_Key, _Window] = {}
        self.out: list[Stmt] = []

    def block(self, body: tuple[Stmt, ...], ends: tuple[Term, ...]) -> tuple[tuple[Stmt, ...], tuple[Term, ...]]:
        """The statements, and terms that are evaluated after them."""
        saved = self.ways, self.windows, self.out
        wanted: dict[_Wanted, None] = {}
        for stmt in body:
            for term in own_terms(stmt):
                self._collect(term, self._count(stmt), wanted)
        for term in ends:
            self._collect(term, self.lanes, wanted)
        self.ways, self.windows, self.out = self._plan(list(wanted)), {}, []
        for stmt in body:
            self.out.append(self._stmt(stmt))
            for store in (s for s in statements((stmt,)) if isinstance(s, Store)):
                self._written(store, here=store is stmt)
        made = tuple(self._term(t, self.lanes) for t in ends)
        out = tuple(self.out)
        self.ways, self.windows, self.out = saved
        return out, made

    def _count(self, stmt: Stmt) -> int:
        """The lanes of a statement's terms that are of use."""
        if isinstance(stmt, Let):
            return self.needed.get(stmt.name, self.lanes)
        if isinstance(stmt, Store) and stmt.active is not None and stmt.value.type.vector:
            return min(stmt.active, self.lanes)
        return self.lanes

    def _stmt(self, stmt: Stmt) -> Stmt:
        count = self._count(stmt)
        match stmt:
            case Let():
                return Let(stmt.name, self._term(stmt.value, count))
            case Store():
                index, mask = (None if t is None else self._term(t, count) for t in (stmt.index, stmt.mask))
                return replace(stmt, value=self._term(stmt.value, count), index=index, mask=mask)
            case Loop():
                inits = [self._term(c.init, self.lanes) for c in stmt.carried]
                body, nexts = self.block(stmt.body, tuple(c.next for c in stmt.carried))
                carried = tuple(Carried(c.name, i, n) for c, i, n in zip(stmt.carried, inits, nexts, strict=True))
                return replace(stmt, carried=carried, body=body)
            case _:
                return replace(stmt, then=self.block(stmt.then, ())[0])

    def _written(self, store: Store, *, here: bool) -> None:
        """`here`: the store is one of this block, whose address means what it means for the windows."""
        for (place, _, _), window in self.windows.items():
            if place[0] != store.array:
                continue
            touched = elements_of(store, is_pair(store.value), self.lanes)
            if here and place[1] == store.address.terms and touched is not None and window.stale is not None:
                window.stale |= touched
            else:
                window.stale = None

    def _collect(self, term: Term, count: int, wanted: dict[_Wanted, None]) -> None:
        if isinstance(term, Load) and _irregular(term):
            wanted[_Wanted(term, count)] = None
        elif isinstance(term, Op) and term.name != "ld_pair":
            inner = count if passes_lanes(term) else self.lanes
            for arg in term.args:
                self._collect(arg, inner, wanted)

    def _term(self, term: Term, count: int) -> Term:
        if isinstance(term, Load):
            way = self.ways.get(_Wanted(term, count))
            return term if way is None else self._value(_Wanted(term, count), way)
        if not isinstance(term, Op) or term.name == "ld_pair":
            return term
        inner = count if passes_lanes(term) else self.lanes
        args = tuple(self._term(a, inner) for a in term.args)
        return term if all(a is b for a, b in zip(args, term.args, strict=True)) else replace(term, args=args)

    # -- which vectors to load

    def _plan(self, wanted: list[_Wanted]) -> dict[_Wanted, _Way]:
        """Loads of one array share vectors, as far as these begin at one distance from each other."""
        shared: dict[_Key, list[int]] = {}
        for one in wanted:
            for key in self._keys(one):
                shared.setdefault(key, []).extend(one.elements)
        starts = {key: windows(elements, key[1].stride, self.lanes) for key, elements in shared.items()}
        chosen: dict[_Wanted, _Key] = {}
        for one in wanted:
            ranked = [(rank, key) for key in self._keys(one) if (rank := self._rank(one, key, starts[key])) is not None]
            if ranked:
                chosen[one] = min(ranked, key=lambda r: r[0])[1]
        return {one: _Way(key[1], starts[key]) for one, key in chosen.items()}

    def _keys(self, wanted: _Wanted) -> list[_Key]:
        """The accesses by which all lanes may be reached."""
        load, elements = wanted.load, wanted.elements
        place = (load.array, load.address.terms, load.elem)
        found = [(place, reach, elements[0] % reach.stride) for reach in self.machine.loads]
        return [(p, r, residue) for p, r, residue in found if all(e % r.stride == residue for e in elements)]

    def _rank(self, wanted: _Wanted, key: _Key, starts: dict[int, int]) -> tuple[int, bool, int] | None:
        """Fewer vectors are better, and of these those that read only what is there; None for too many."""
        load, reach = wanted.load, key[1]
        needed = sorted({starts[e] for e in wanted.elements})
        if len(needed) > self.lanes // 2 or any(reach.base(s, load.address.terms) is None for s in needed):
            return None
        last = needed[-1] + reach.stride * (self.lanes - 1) + reach.paired
        inside = self.inside(load.array, Address(0, load.address.terms), needed[0] - reach.paired, last)
        return len(needed), not inside, -reach.stride

    def _value(self, wanted: _Wanted, way: _Way) -> Term:
        load, starts, parts = wanted.load, way.starts, []
        for start in dict.fromkeys(starts[e] for e in wanted.elements):
            places = {k: (e - start) // way.reach.stride for k, e in enumerate(wanted.elements) if starts[e] == start}
            here = {e for e in wanted.elements if starts[e] == start}
            parts.append(Part(self._window(load, start, way.reach, here), places))
        return joined(parts, load.type, self.lanes)

    def _window(self, load: Load, start: int, reach: Reach, elements: set[int]) -> Term:
        """The vector from `start` on, whose `elements` must be those of now."""
        key = ((load.array, load.address.terms, load.elem), reach, start)
        window = self.windows.get(key)
        if window is None or window.stale is None or window.stale & elements:
            window = self.windows[key] = _Window(self.names.fresh(f"{load.array}_whole"))
            self.out.append(Let(window.name, self._load(load, start, reach)))
        return Var(window.name, load.type)

    def _load(self, load: Load, start: int, reach: Reach) -> Term:
        base = reach.base(start, load.address.terms)
        assert base is not None
        low = Load(load.array, Address(base, load.address.terms), reach.stride, load.elem, load.type)
        if not reach.paired:
            return low
        return Op("lo" if base == start else "hi", (Op("ld_pair", (low,), load.type),), load.type)
