"""Vectors that take turns, by whole words and interleaving, on machines whose accesses are contiguous only.

Before: loads of 16-bit elements a[0, 2, 4, ...] and a[1, 3, 5, ...], stores of words to b[0, 2, ...] and b[1, 3, ...].
After:  the words at a[0], a[2], ... are loaded once, and each vector takes one half of them; the vectors that are
        stored are interleaved into contiguous ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from dspgen.target.model import Target
from dspgen.target.turns import WHOLE, Turns, in_word, turns
from dspgen.vecdsl.demand import demands, lanes_wanted, passes_lanes
from dspgen.vecdsl.ir import (
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
)  # fmt: skip
from dspgen.vecdsl.merge import Group, active_lanes, store_groups
from dspgen.vecdsl.ranges import readable
from dspgen.vecdsl.terms import Names, is_atom, own_terms
from dspgen.vecdsl.turn_numbers import turn_numbers

_BITS = 32
VI32 = VType("i32", True)
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
    def group(self) -> tuple[str, tuple[tuple[str, int], ...], Elem, int]:
        return self.load.array, self.load.address.terms, self.load.elem, self.load.stride


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

    def _of(self, name: str) -> _Use:
        return _Use(self.needed.get(name, self.machine.lanes), self.numbers.get(name))

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
                return [(stmt.value, self._of(stmt.name))]
            case Store():
                count = active_lanes(stmt, whole.count) if stmt.value.type.vector else whole.count
                return [(term, _Use(count, self.stored.get(stmt))) for term in own_terms(stmt)]
            case Loop():
                return [(stmt.start, whole), (stmt.trip, whole), *((c.init, self._of(c.name)) for c in stmt.carried)]
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
                ends = tuple((c.next, self._of(c.name)) for c in stmt.carried)
                body, nexts = self.block(stmt.body, ends)
                carried = tuple(Carried(c.name, i, n) for c, i, n in zip(stmt.carried, made[2:], nexts, strict=True))
                return replace(stmt, start=made[0], trip=made[1], carried=carried, body=body)
            case If():
                return If(made[0], self.block(stmt.then, ())[0])

    def _collect(self, term: Term, use: _Use, wanted: dict[_Wanted, None]) -> None:
        if isinstance(term, Load):
            if term.type.vector and term.plain and self.machine.reaches(term.elem, term.stride, store=False):
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
                if one.use.factor and one.use.turn is not None and self.machine.by_halves(one.load.elem):
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
        """Where each vector of words begins that is loaded, and how many of its lanes are of use."""
        load, lanes, size = wanted.load, self.machine.lanes, in_word(wanted.load.elem)
        words = (load.address.constant - start + load.stride * (wanted.count - 1)) // size + 1
        turns = range(load.stride // size)
        return [(start + k * size * lanes, max(min(words - k * lanes, lanes), 1)) for k in turns]

    def _shift(self, wanted: _Wanted, start: int, count: int) -> int | None:
        """How many lanes earlier a vector begins, so that all of it may be read; None where there is no such place."""
        load, lanes, size = wanted.load, self.machine.lanes, in_word(wanted.load.elem)
        place = Address(0, load.address.terms)
        for shift in range(lanes - count + 1 if self.machine.slides else 1):
            first = start - size * shift
            if self.inside(load.array, place, first, first + size * lanes - 1):
                return shift
        return None

    def _value(self, wanted: _Wanted, start: int) -> Term:
        load, size = wanted.load, in_word(wanted.load.elem)
        vectors = [self._vector(wanted, first, count) for first, count in self._pieces(wanted, start)]
        turn = load.address.constant - start
        words = every(vectors, turn // size, load.type)
        return words if size == 1 else part_of(words, turn % size, load.elem)

    def _vector(self, wanted: _Wanted, first: int, count: int) -> Term:
        load, size = wanted.load, in_word(wanted.load.elem)
        shift = self._shift(wanted, first, count) or 0
        elem = load.elem if size == 1 else WHOLE[ELEM_BYTES[load.elem]]
        whole = Load(load.array, Address(first - size * shift, load.address.terms), size, elem, load.type)
        return whole if not shift else Op("align", (whole, whole), load.type, (shift,))


def _count(starts: dict[_Wanted, int]) -> int:
    return len(set(starts.values()))


def part_of(words: Term, turn: int, elem: Elem) -> Term:
    """The narrow elements number `turn` of the words of a vector, extended."""
    bits = 8 * ELEM_BYTES[elem]
    low, signed = bits * turn, elem in _SIGNED
    shifted = words if not low else Op("shr" if signed else "shru", (words, Const(low, VI32)), VI32)
    return shifted if low + bits == _BITS else Op(f"{'sext' if signed else 'zext'}{bits}", (shifted,), VI32)


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
            for members in self._in_turns(run, group):
                self._merge(run, members, out)
        return [stmt for made in out for stmt in made]

    def _member(self, store: Store) -> bool:
        plain = store.value.type.vector and store.plain and isinstance(store.value, Var | Op | Load | Const)
        return plain and self.machine.reaches(store.elem, store.stride, store=True)

    def _in_turns(self, run: list[Let | Store], group: Group) -> list[list[int]]:
        """Members at neighbouring elements, one for each turn, whose vectors are as long as the last one's or have one
        lane more."""
        stores = {k: stmt for k in group.members if isinstance(stmt := run[k], Store)}
        left = sorted(stores, key=lambda k: (stores[k].stride, stores[k].address.constant))
        found = []
        while left:
            first = stores[left[0]]
            here = left[: first.stride]
            lengths = [active_lanes(stores[k], self.machine.lanes) for k in here]
            places = [(first.stride, first.address.constant + turn) for turn in range(first.stride)]
            falling = sorted(lengths, reverse=True) == lengths and lengths[0] - lengths[-1] <= 1
            if [(stores[k].stride, stores[k].address.constant) for k in here] == places and falling:
                found.append(here)
                left = left[len(here) :]
            else:
                left = left[1:]
        return found

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
        shifts = (0, lanes - active) if self.machine.slides else (0,)
        starts = [start - size * shift for shift in shifts]
        place = Address(0, first.address.terms)
        return not active or any(self.inside(first.array, place, s, s + size * lanes - 1) for s in starts)

    def _contiguous(self, first: Store, values: list[Term], count: int) -> list[Store]:
        """Contiguous stores of the first `count` elements of the values in turns: by words, and what is left over."""
        size, lanes, found = in_word(first.elem), self.machine.lanes, list[Store]()
        words = [packed(values[k : k + size], first.elem) for k in range(0, len(values), size)]
        elem = first.elem if size == 1 else WHOLE[ELEM_BYTES[first.elem]]
        for k, value in enumerate(interleaved(words, first.value.type)):
            here = min(count // size - k * lanes, lanes)
            if here > 0:
                place = first.address.plus(k * lanes * size)
                active = None if here == lanes else here
                found.append(replace(first, address=place, stride=size, elem=elem, value=value, active=active))
        for element in range(count - count % size, count):
            turn, number = element % first.stride, element // first.stride
            lane = Op("lane", (values[turn],), VType("i32", False), (number,))
            found.append(replace(first, address=first.address.plus(element), stride=1, value=lane, active=None))
        return found


def packed(values: Sequence[Term], elem: Elem) -> Term:
    """Words of the low bits of so many vectors, the first one's lowest."""
    bits = 8 * ELEM_BYTES[elem]
    found = values[0] if len(values) == 1 else Op(f"zext{bits}", (values[0],), VI32)
    for turn, value in enumerate(values[1:], start=1):
        part = value if turn + 1 == len(values) else Op(f"zext{bits}", (value,), VI32)
        found = Op("or", (found, Op("shl", (part, Const(bits * turn, VI32)), VI32)), VI32)
    return found
