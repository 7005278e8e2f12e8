"""Vectors that take turns, by whole words and interleaving, on machines whose accesses are contiguous only.

Before: loads of 16-bit elements a[0, 2, 4, ...] and a[1, 3, 5, ...], stores of words to b[0, 2, ...] and b[1, 3, ...].
After:  the words at a[0], a[2], ... are loaded once, and each vector takes one half of them; the vectors that are
        stored are interleaved into contiguous ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from dspgen.target.isa.model import Target
from dspgen.target.query.subword_access import WHOLE, Turns, in_element, in_word, moved_as, turns
from dspgen.vecdsl.analysis.demanded_lanes import demands, lanes_wanted, passes_lanes
from dspgen.vecdsl.analysis.integer_ranges import readable
from dspgen.vecdsl.ir.program import (
    ELEM_BYTES,
    NARROW,
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
    lanes_of,
)  # fmt: skip
from dspgen.vecdsl.ir.terms import Names, is_atom, own_terms
from dspgen.vecdsl.lanes.interleaved_stores import Group, active_lanes, store_groups
from dspgen.vecdsl.lanes.subword_phases import turn_numbers

_BITS = 32
VI32, I32 = VType("i32", True), VType("i32", False)
HALF: dict[str, Elem] = {"i32": "i16", "i16": "i8"}
_PRODUCTS = frozenset({"mul", "mac", "msub", "nmac"})
_SIGNED = ("i8", "i16")

Inside = Callable[[str, Address, int, int], bool]


def by_words(program: Program, target: Target) -> Program:
    """The program with such accesses spelled out. Requires: names unique."""
    machine = turns(target)
    if not (machine.loads or machine.stores or machine.spreads or machine.joins):
        return program
    names, inside = Names.of(program), readable(program)
    loads = _Loads(machine, inside, demands(program, machine.lanes), *turn_numbers(program))
    body, _ = loads.block(program.body, ())
    return replace(program, body=_Stores(machine, inside, names).block(body))


# -- loads


@dataclass(frozen=True, slots=True)
class _Use:
    """How many first lanes of a term are of use, the number of the vector in turn that it belongs to, if there is one,
    and whether it is a factor."""

    count: int
    turn: int | None = None
    factor: bool = False


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A load, and what it is for."""

    load: Load
    use: _Use

    @property
    def count(self) -> int:
        return self.use.count

    @property
    def group(self) -> tuple[str, tuple[tuple[str, int], ...], Elem, int, VType]:
        return self.load.array, self.load.address.terms, self.load.elem, self.load.stride, self.load.type


@dataclass(slots=True)
class _Loads:
    """Works through blocks. `starts`: where the words (or the vectors that are taken apart) begin that hold a load's
    elements, which load by load agree as far as they can."""

    machine: Turns
    inside: Inside
    needed: dict[str, int]
    numbers: dict[str, int]
    stored: dict[Store, int]
    starts: dict[_Wanted, int] = field(default_factory=dict)

    def block(self, body: tuple[Stmt, ...], ends: tuple[tuple[Term, _Use], ...]) -> tuple[tuple[Stmt, ...], list[Term]]:
        """The statements, and terms that are evaluated after them, for these uses."""
        wanted: dict[_Wanted, None] = {}
        for stmt in body:
            for term, use in self._terms(stmt):
                self._collect(term, use, wanted)
        for term, use in ends:
            self._collect(term, use, wanted)
        saved, self.starts = self.starts, self._plan(list(wanted))
        out = tuple(self._stmt(stmt) for stmt in body)
        made = [self._term(term, use) for term, use in ends]
        self.starts = saved
        return out, made

    def _of(self, name: str, type: VType) -> _Use:
        return _Use(self.needed.get(name, lanes_of(type, self.machine.lanes)), self.numbers.get(name))

    def _arguments(self, op: Op, use: _Use) -> list[tuple[Term, _Use]]:
        """An operation's arguments, and what they are for."""
        counts = (lanes_wanted(op, k, use.count, self.machine.lanes) for k in range(len(op.args)))
        turn = use.turn if passes_lanes(op) else None
        return [(arg, _Use(c, turn, op.name in _PRODUCTS)) for arg, c in zip(op.args, counts, strict=True)]

    def _terms(self, stmt: Stmt) -> list[tuple[Term, _Use]]:
        """The terms of a statement, and what they are for."""
        whole = _Use(self.machine.lanes)
        match stmt:
            case Let():
                return [(stmt.value, self._of(stmt.name, stmt.value.type))]
            case Store():
                count = active_lanes(stmt, whole.count) if stmt.value.type.vector else whole.count
                return [(term, _Use(count, self.stored.get(stmt))) for term in own_terms(stmt)]
            case Loop():
                return [
                    (stmt.start, whole),
                    (stmt.trip, whole),
                    *((c.init, self._of(c.name, c.init.type)) for c in stmt.carried),
                ]
            case If():
                return [(stmt.condition, whole)]

    def _stmt(self, stmt: Stmt) -> Stmt:
        made = [self._term(term, use) for term, use in self._terms(stmt)]
        match stmt:
            case Let():
                return Let(stmt.name, made[0])
            case Store():
                rest = iter(made[1:])
                index = None if stmt.index is None else next(rest)
                mask = None if stmt.mask is None else next(rest)
                return replace(stmt, value=made[0], index=index, mask=mask)
            case Loop():
                ends = tuple((c.next, self._of(c.name, c.init.type)) for c in stmt.carried)
                body, nexts = self.block(stmt.body, ends)
                carried = tuple(Carried(c.name, i, n) for c, i, n in zip(stmt.carried, made[2:], nexts, strict=True))
                return replace(stmt, start=made[0], trip=made[1], carried=carried, body=body)
            case If():
                return If(made[0], self.block(stmt.then, ())[0])

    def _collect(self, term: Term, use: _Use, wanted: dict[_Wanted, None]) -> None:
        if isinstance(term, Load):
            if reached(term, self.machine):
                wanted[_Wanted(term, use)] = None
        elif isinstance(term, Op) and term.name != "ld_pair":
            for arg, inner in self._arguments(term, use):
                self._collect(arg, inner, wanted)

    def _term(self, term: Term, use: _Use) -> Term:
        if isinstance(term, Load):
            wanted = _Wanted(term, use)
            return term if wanted not in self.starts else self._value(wanted, self.starts[wanted])
        if not isinstance(term, Op) or term.name == "ld_pair":
            return term
        args = tuple(self._term(arg, inner) for arg, inner in self._arguments(term, use))
        return term if all(a is b for a, b in zip(args, term.args, strict=True)) else replace(term, args=args)

    def _plan(self, wanted: list[_Wanted]) -> dict[_Wanted, int]:
        groups: dict[object, list[_Wanted]] = {}
        for one in wanted:
            groups.setdefault(one.group, []).append(one)
        found: dict[_Wanted, int] = {}
        for members in groups.values():
            stride = members[0].load.stride
            tried = [{one: self._start(one, phase) for one in members} for phase in range(stride)]
            best = min(
                tried, key=lambda starts: (sum(not self._placed(w, s) for w, s in starts.items()), _count(starts))
            )
            for one in members:
                options = [best[one], *(starts[one] for starts in tried)]
                words = one.load.type == VI32 and self.machine.by_halves(one.load.elem)
                if words and one.use.factor and one.use.turn is not None:
                    # Vectors in turn are multiplied at once where they lie in one word.
                    options.insert(0, one.load.address.constant - one.use.turn)
                start = next((s for s in options if self._placed(one, s)), None)
                if start is not None:
                    found[one] = start
        return found

    @staticmethod
    def _start(wanted: _Wanted, phase: int) -> int:
        place, stride = wanted.load.address.constant, wanted.load.stride
        return place - (place - phase) % stride

    def _placed(self, wanted: _Wanted, start: int) -> bool:
        return all(self._shift(wanted, first, count) is not None for first, count in self._pieces(wanted, start))

    def _pieces(self, wanted: _Wanted, start: int) -> list[tuple[int, int]]:
        """Where each vector begins that is loaded, and how many of its lanes are of use."""
        load, lanes, size = wanted.load, lanes_of(wanted.load.type, self.machine.lanes), _size(wanted.load)
        reach = (load.address.constant - start + load.stride * (wanted.count - 1)) // size + 1
        turns = range(load.stride // size)
        return [(start + k * size * lanes, max(min(reach - k * lanes, lanes), 1)) for k in turns]

    def _shift(self, wanted: _Wanted, start: int, count: int) -> int | None:
        """How many lanes earlier a vector begins, so that all of it may be read; None where there is no such place."""
        load, lanes, size = wanted.load, lanes_of(wanted.load.type, self.machine.lanes), _size(wanted.load)
        place, slides = Address(0, load.address.terms), moved_as(load.type) in self.machine.slides
        for shift in range(lanes - count + 1 if slides else 1):
            first = start - size * shift
            if self.inside(load.array, place, first, first + size * lanes - 1):
                return shift
        return None

    def _value(self, wanted: _Wanted, start: int) -> Term:
        load, size = wanted.load, _size(wanted.load)
        vectors = [self._vector(wanted, first, count) for first, count in self._pieces(wanted, start)]
        turn = load.address.constant - start
        whole = every(vectors, turn // size, load.type)
        return whole if size == 1 else part_of(whole, turn % size, load.elem)

    def _vector(self, wanted: _Wanted, first: int, count: int) -> Term:
        load, size = wanted.load, in_word(wanted.load.elem)
        shift = self._shift(wanted, first, count) or 0
        place = Address(first - _size(load) * shift, load.address.terms)
        elem = load.elem if size == 1 else WHOLE[ELEM_BYTES[load.elem]]
        type = VI32 if load.type.elem in NARROW else load.type
        whole = viewed(Load(load.array, place, size, elem, type), load.type)
        return whole if not shift else Op("align", (whole, whole), load.type, (shift,))


def reached(access: Load | Store, machine: Turns) -> bool:
    """Whether a vector's elements of memory are reached by words."""
    type, store = (access.type, False) if isinstance(access, Load) else (access.value.type, True)
    return type.vector and access.plain and machine.reaches(access.elem, access.stride, store=store, type=type)


def placed(load: Load, count: int, machine: Turns, inside: Inside) -> bool:
    """Whether the first `count` elements of a vector can be loaded by words that lie inside their array."""
    loads, wanted = _Loads(machine, inside, {}, {}, {}), _Wanted(load, _Use(count))
    starts = (loads._start(wanted, phase) for phase in range(load.stride))
    return reached(load, machine) and any(loads._placed(wanted, start) for start in starts)


def _size(access: Load) -> int:
    return in_element(access.elem, access.type)


def viewed(term: Term, type: VType) -> Term:
    """The same bits as elements of another width."""
    if term.type == type:
        return term
    if isinstance(term, Op) and term.name == "view":
        return viewed(term.args[0], type)
    return Op("view", (term,), type)


def _count(starts: dict[_Wanted, int]) -> int:
    return len(set(starts.values()))


def part_of(whole: Term, turn: int, elem: Elem) -> Term:
    """The narrow elements number `turn` of those that each element of a vector holds, extended."""
    bits, type = 8 * ELEM_BYTES[elem], whole.type
    low, signed = bits * turn, elem in _SIGNED
    shifted = whole if not low else Op("shr" if signed else "shru", (whole, Const(low, type)), type)
    above = 8 * ELEM_BYTES[type.elem] - low - bits
    if not above or type == VI32:
        return shifted if not above else Op(f"{'sext' if signed else 'zext'}{bits}", (shifted,), type)
    if not signed:
        return Op("and", (shifted, Const((1 << bits) - 1, type)), type)
    by = Const(above, type)
    return Op("shr", (Op("shl", (whole, by), type), by), type)


def every(vectors: Sequence[Term], turn: int, type: VType) -> Term:
    """Of the concatenation of n vectors, the lanes `turn`, `turn` + n, ..."""
    if len(vectors) == 1:
        return vectors[0]
    half = [Op("odd" if turn % 2 else "even", (a, b), type) for a, b in zip(vectors[::2], vectors[1::2], strict=True)]
    return every(half, turn // 2, type)


def interleaved(vectors: Sequence[Term], type: VType) -> list[Term]:
    """The n vectors whose concatenation has these n vectors' lanes in turns."""
    if len(vectors) == 1:
        return list(vectors)
    pairs = zip(interleaved(vectors[::2], type), interleaved(vectors[1::2], type), strict=True)
    return [Op(name, (a, b), type) for a, b in pairs for name in ("zip_lo", "zip_hi")]


# -- stores


@dataclass(frozen=True, slots=True)
class _Stores:
    machine: Turns
    inside: Inside
    names: Names

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        run: list[Let | Store] = []
        for stmt in body:
            if isinstance(stmt, Let | Store):
                run.append(stmt)
                continue
            out += self._run(run)
            run = []
            inner = self.block(stmt.body if isinstance(stmt, Loop) else stmt.then)
            out.append(replace(stmt, body=inner) if isinstance(stmt, Loop) else replace(stmt, then=inner))
        return (*out, *self._run(run))

    def _run(self, run: list[Let | Store]) -> list[Let | Store]:
        out: list[list[Let | Store]] = [[stmt] for stmt in run]
        for group in store_groups(run, self.machine.lanes, self._member):
            for members in in_turns(run, group, self.machine.lanes):
                self._merge(run, members, out)
        return [stmt for made in out for stmt in made]

    def _member(self, store: Store) -> bool:
        return reached(store, self.machine)

    def _merge(self, run: list[Let | Store], members: list[int], out: list[list[Let | Store]]) -> None:
        stores = [stmt for k in members if isinstance(stmt := run[k], Store)]
        count = sum(active_lanes(s, self.machine.lanes) for s in stores)
        first = replace(stores[0], loc=stores[-1].loc)
        if in_word(first.elem) > 1 and not self._fits(first, count // in_word(first.elem)):
            return
        values: list[Term] = []
        for k, store in zip(members, stores, strict=True):
            out[k] = []
            if is_atom(store.value):
                values.append(store.value)
                continue
            name = self.names.fresh("turn")
            out[k] = [Let(name, store.value)]
            values.append(Var(name, store.value.type))
        out[max(members)] += self._contiguous(first, values, count)

    def _fits(self, first: Store, words: int) -> bool:
        """Whether the last vector of words is a whole one, or may be stored with what lies beyond or before it."""
        lanes, size = self.machine.lanes, in_word(first.elem)
        active = words % lanes
        start = first.address.constant + size * (words - active)
        shifts = (0, lanes - active) if "i32" in self.machine.slides else (0,)
        starts = [start - size * shift for shift in shifts]
        place = Address(0, first.address.terms)
        return not active or any(self.inside(first.array, place, s, s + size * lanes - 1) for s in starts)

    def _contiguous(self, first: Store, values: list[Term], count: int) -> list[Store]:
        """Contiguous stores of the first `count` elements of the values in turns: by words, and what is left over."""
        type, word, lanes, found = first.value.type, in_word(first.elem), self.machine.lanes, list[Store]()
        size = in_element(first.elem, type)
        whole = [self._packed(values[k : k + size], first.elem) for k in range(0, len(values), size)]
        elem = first.elem if word == 1 else WHOLE[ELEM_BYTES[first.elem]]
        made = [viewed(v, VI32) if word > 1 else v for v in interleaved(whole, type)]
        for k, value in enumerate(made):
            here = min(count // word - k * lanes, lanes)
            if here > 0:
                place = first.address.plus(k * lanes * word)
                active = None if here == lanes else here
                found.append(replace(first, address=place, stride=word, elem=elem, value=value, active=active))
        bits, left = 8 * ELEM_BYTES[first.elem], count - count % word
        for element in range(left, count):
            vector, lane = divmod(left // word, lanes)
            part: Term = Op("lane", (made[vector],), I32, (lane,))
            if element > left:
                part = Op("shru", (part, Const(bits * (element - left), I32)), I32)
            found.append(replace(first, address=first.address.plus(element), stride=1, value=part, active=None))
        return found

    def _packed(self, values: Sequence[Term], elem: Elem) -> Term:
        """One vector of the low bits of so many in turns, of their type."""
        type = values[0].type
        if not self.machine.packs.issuperset(halvings(type.elem, len(values))):
            return packed(values, elem)
        for half in halvings(type.elem, len(values)):
            count = len(values) // 2
            values = [Op("join", (values[k], values[count + k]), VType(half, True)) for k in range(count)]
        return viewed(values[0], type)


def halvings(elem: Elem, count: int) -> list[Elem]:
    """The elements that vectors of `elem` become, joined again and again until one of `count` is left."""
    found = list[Elem]()
    while count > 1:
        elem, count = HALF[elem], count // 2
        found.append(elem)
    return found


def in_turns(run: Sequence[Let | Store], group: Group, lanes: int) -> list[list[int]]:
    """Members at neighbouring elements, one for each turn, whose vectors are as long as the last one's or have one
    lane more."""
    stores = {k: stmt for k in group.members if isinstance(stmt := run[k], Store)}
    left = sorted(stores, key=lambda k: (stores[k].stride, stores[k].address.constant))
    found = []
    while left:
        first = stores[left[0]]
        here = left[: first.stride]
        lengths = [active_lanes(stores[k], lanes) for k in here]
        places = [(first.stride, first.address.constant + turn) for turn in range(first.stride)]
        falling = sorted(lengths, reverse=True) == lengths and lengths[0] - lengths[-1] <= 1
        if [(stores[k].stride, stores[k].address.constant) for k in here] == places and falling:
            found.append(here)
            left = left[len(here) :]
        else:
            left = left[1:]
    return found


def packed(values: Sequence[Term], elem: Elem) -> Term:
    """Words of the low bits of so many vectors, the first one's lowest."""
    bits = 8 * ELEM_BYTES[elem]
    found = values[0] if len(values) == 1 else Op(f"zext{bits}", (values[0],), VI32)
    for turn, value in enumerate(values[1:], start=1):
        part = value if turn + 1 == len(values) else Op(f"zext{bits}", (value,), VI32)
        found = Op("or", (found, Op("shl", (part, Const(bits * turn, VI32)), VI32)), VI32)
    return found
