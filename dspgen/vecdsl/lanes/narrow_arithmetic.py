"""Arithmetic of narrow numbers on vectors that hold several of them on each lane.

Before: vectors in turn, each of words: store u8 y[0, 4, ...] = x[0, 4, ...] + x[1, 5, ...] >> 1, and the same for the
        elements 1, 5, ..., for 2, 6, ... and for 3, 7, ...
After:  store u8 y[0, 1, ...] = bytes that two vectors of halves have been joined into: x[0, 2, ...] + x[1, 3, ...] >> 1
        and x[1, 3, ...] + x[2, 4, ...] >> 1.

What is stored is narrow, and the low bits of sums, products and the like depend on the low bits of their operands only:
so what is made narrow goes from results to operands, as far as the machine has the operations. Right shifts,
comparisons, extrema and magnitudes need operands that lie within the narrow type, as their ranges tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from dspgen.target.isa.model import Target
from dspgen.target.query.operations import OperationTable
from dspgen.target.query.subword_access import Turns, in_word, turns
from dspgen.vecdsl.analysis.demanded_lanes import demands
from dspgen.vecdsl.analysis.integer_ranges import readable
from dspgen.vecdsl.analysis.lane_ranges import ValueRanges
from dspgen.vecdsl.ir.program import (
    ELEM_BYTES,
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
from dspgen.vecdsl.ir.terms import Names, children, leaves, names_of, own_terms, statements
from dspgen.vecdsl.lanes.interleaved_stores import active_lanes, store_groups
from dspgen.vecdsl.lanes.narrow_operations import Step, step_of
from dspgen.vecdsl.lanes.subword_access import HALF, VI32, Inside, halvings, in_turns, placed, reached, viewed

_Key = tuple[tuple[int, ...], Elem, int]  # terms of the program by identity
_Names = tuple[tuple[str, ...], Elem]
_Place = tuple[int, int]  # a block's number, and that of a statement in it


def narrowed(program: Program, target: Target) -> Program:
    """The program with what can be narrow so. Requires: names unique."""
    machine = turns(target)
    if not machine.packs or not any(_narrow_store(s) for s in statements(program.body)):
        return program
    failed: set[_Names] = set()
    while True:
        worker = _Narrower(program, machine, Able(target), failed)
        worker.search()
        if not worker.useless:
            return worker.rebuilt() if worker.replaced else program
        failed |= worker.useless


def _narrow_store(stmt: Stmt) -> bool:
    return isinstance(stmt, Store) and stmt.value.type == VI32 and in_word(stmt.elem) > 1


class Able:
    """What a machine does on vectors of narrow elements."""

    def __init__(self, target: Target) -> None:
        self._table = OperationTable(target)
        self._vectors = {c.name for c in target.registers if c.kind == "vector"}
        self._macros = {m.implements for m in target.macros if m.result_class in self._vectors}

    def __call__(self, name: str, elem: str) -> bool:
        """Whether some row or macro does an operation on vectors of the element."""
        forms = self._table.forms(name, elem)
        return f"{name}.{elem}" in self._macros or any(
            not self._vectors.isdisjoint(f.result_operand.classes) for f in forms
        )


@dataclass(frozen=True, slots=True)
class _Made:
    """A narrow vector, about how many operations it takes, and whether it is more than wide ones joined."""

    term: Term
    cost: int
    pushed: bool


@dataclass(slots=True)
class _Narrower:
    """One search. `failed`: names that loops carry, tried before in vain; `useless`: those that this one found so."""

    program: Program
    machine: Turns
    able: Able
    failed: set[_Names]
    useless: set[_Names] = field(default_factory=set)
    replaced: dict[_Place, list[Stmt]] = field(default_factory=dict)
    ranges: ValueRanges = field(init=False)
    names: Names = field(init=False)
    inside: Inside = field(init=False)
    needed: dict[str, int] = field(init=False)
    blocks: list[tuple[Stmt, ...]] = field(default_factory=list)
    places: dict[str, _Place] = field(default_factory=dict)
    lets: dict[str, Term] = field(default_factory=dict)
    carried: dict[str, tuple[Loop, Carried]] = field(default_factory=dict)
    after: dict[_Place, list[Stmt]] = field(default_factory=dict)
    more: dict[str, list[Carried]] = field(default_factory=dict)  # by a loop's iterator
    made: dict[_Key, _Made] = field(default_factory=dict)
    named: dict[_Names, Var | None] = field(default_factory=dict)
    weights: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ranges = ValueRanges(self.program)
        self.names = Names.of(self.program)
        self.inside = readable(self.program)
        self.needed = demands(self.program, self.machine.lanes)

    # -- what is stored

    def search(self) -> None:
        self._index(self.program.body)
        for number, body in enumerate(self.blocks):
            run: list[Let | Store] = []
            for position, stmt in enumerate((*body, None)):
                if isinstance(stmt, Let | Store):
                    run.append(stmt)
                elif run:
                    self._run(run, (number, position - len(run)))
                    run = []

    def _index(self, body: tuple[Stmt, ...]) -> None:
        number = len(self.blocks)
        self.blocks.append(body)
        for position, stmt in enumerate(body):
            match stmt:
                case Let(name, value):
                    self.places[name], self.lets[name] = (number, position), value
                case Loop():
                    self.carried |= {c.name: (stmt, c) for c in stmt.carried}
                    self._index(stmt.body)
                case If():
                    self._index(stmt.then)
                case Store():
                    pass

    def _run(self, run: list[Let | Store], start: _Place) -> None:
        def member(store: Store) -> bool:
            return _narrow_store(store) and reached(store, self.machine)

        for group in store_groups(run, self.machine.lanes, member):
            for members in in_turns(run, group, self.machine.lanes):
                stores = [stmt for k in members if isinstance(stmt := run[k], Store)]
                if not self._interferes(run[min(members) : max(members)], stores, stores):
                    self._group(stores, [(start[0], start[1] + k) for k in members])

    def _interferes(self, between: Iterable[Stmt], users: Sequence[Stmt], but: Sequence[Stmt] = ()) -> bool:
        """Whether what the users load may be stored between them."""
        stored = {s.array for s in statements(between) if isinstance(s, Store) and all(s is not b for b in but)}
        terms = (t for user in users for t in own_terms(user))
        return bool(stored) and any(
            isinstance(leaf, Load) and leaf.array in stored for t in terms for leaf in leaves(t)
        )

    def _group(self, stores: list[Store], places: list[_Place]) -> None:
        """Stores of vectors in turn as those of fewer vectors, of the elements in memory."""
        count = in_word(stores[0].elem)
        elems = halvings("i32", count)
        if len(stores) % count or not self.machine.packs.issuperset(elems):
            return
        turns_left = len(stores) // count
        lets, out, pushed = list[Stmt](), list[Store](), False
        for turn in range(turns_left):
            members = stores[turn::turns_left]
            lanes = sum(active_lanes(s, self.machine.lanes) for s in members)
            found = self.narrow(tuple(s.value for s in members), elems[-1], lanes)
            name, whole = self.names.fresh("narrow"), self.machine.lanes * count
            value, pushed = Var(name, found.term.type), pushed or found.cost < self._joined(members)
            lets.append(Let(name, found.term))
            active = None if lanes >= whole else lanes
            out.append(replace(members[0], stride=turns_left, value=value, active=active, loc=stores[-1].loc))
        if pushed and all(reached(s, self.machine) for s in out):
            self.replaced |= dict.fromkeys(places, [])
            self.replaced[max(places)] = [*lets, *out]

    def _joined(self, stores: Sequence[Store]) -> int:
        """What it takes to join the words that are stored."""
        return len(stores) - 1 + sum(self._weight(s.value) for s in stores)

    # -- narrow vectors

    def narrow(self, terms: tuple[Term, ...], elem: Elem, count: int) -> _Made:
        """The vector of the low bits of so many wide ones in turn; its first `count` elements are of use."""
        key = tuple(map(id, terms)), elem, count
        if key not in self.made:
            joined, found = self._raw(terms, elem, count), self._pushed(terms, elem, count)
            self.made[key] = found if found is not None and found.cost < joined.cost else joined
        return self.made[key]

    def _raw(self, terms: tuple[Term, ...], elem: Elem, count: int) -> _Made:
        """Wide vectors joined."""
        type = VType(elem, True)
        if len(terms) == 2:
            return _Made(Op("join", terms, type), 1 + sum(map(self._weight, terms)), False)
        half, wider = -(-count // 2), HALF[VI32.elem]
        parts = [self.narrow(terms[k::2], wider, half) for k in range(2)]
        pushed = any(p.pushed for p in parts)
        return _Made(Op("join", tuple(p.term for p in parts), type), 1 + sum(p.cost for p in parts), pushed)

    def _weight(self, term: Term) -> int:
        """About how many operations a wide term takes."""
        if id(term) not in self.weights:
            own = int(isinstance(term, Op) or isinstance(term, Load) and in_word(term.elem) > 1)
            self.weights[id(term)] = own + sum(map(self._weight, children(term)))
        return self.weights[id(term)]

    def _pushed(self, terms: tuple[Term, ...], elem: Elem, count: int) -> _Made | None:
        """The operation itself done on narrow vectors, or narrow elements of memory."""
        first, type = terms[0], VType(elem, True)
        match first:
            case Const():
                return self._constant(terms, type)
            case Load():
                return self._load(terms, type, count)
            case Var():
                names = tuple(t.name for t in terms if isinstance(t, Var))
                known = self._variable(names, elem) if len(names) == len(terms) else None
                return None if known is None else _Made(known, 0, True)
            case Op():
                ops = [t for t in terms if isinstance(t, Op)]
                made = step_of(ops, elem, self.ranges.of, self.able) if len(ops) == len(terms) else None
                return None if made is None else self._stepped(made, elem, count)

    def _stepped(self, step: Step, elem: Elem, count: int) -> _Made:
        parts = [self.narrow(column, elem, count) for column in step.args]
        term = step.made(tuple(p.term for p in parts))
        return _Made(term, step.cost + sum(p.cost for p in parts), True)

    def _constant(self, terms: tuple[Term, ...], type: VType) -> _Made | None:
        values = [int(t.value) for t in terms if isinstance(t, Const)]
        if len(values) < len(terms):
            return None
        bits = 8 * ELEM_BYTES[type.elem]
        if len(set(values)) == 1:
            return _Made(Const(_signed(values[0], bits), type), 0, True)
        word = sum((value & ((1 << bits) - 1)) << (bits * k) for k, value in enumerate(values))
        return _Made(viewed(Const(_signed(word, 32), VI32), type), 0, True)

    def _load(self, terms: tuple[Term, ...], type: VType, count: int) -> _Made | None:
        loads = [t for t in terms if isinstance(t, Load)]
        first, size = loads[0], len(terms)
        if len(loads) < size or first.stride % size or ELEM_BYTES[first.elem] > ELEM_BYTES[type.elem]:
            return None
        step = first.stride // size
        if any(t != replace(first, address=first.address.plus(k * step)) for k, t in enumerate(loads)):
            return None
        whole = replace(first, stride=step, type=type)
        if not placed(whole, count, self.machine, self.inside):
            return None
        return _Made(whole, int(ELEM_BYTES[first.elem] < ELEM_BYTES[type.elem]), True)

    # -- names

    def _variable(self, names: tuple[str, ...], elem: Elem) -> Var | None:
        """The narrow vector that stands for variables in turn; None where there is none of use."""
        key = names, elem
        if key not in self.named and key not in self.failed:
            if all(name in self.lets for name in names):
                self.named[key] = self._let(names, elem)
            elif all(name in self.carried for name in names):
                self._carry(names, elem)
        return self.named.get(key)

    def _count(self, names: tuple[str, ...]) -> int:
        return sum(self.needed.get(name, self.machine.lanes) for name in names)

    def _let(self, names: tuple[str, ...], elem: Elem) -> Var | None:
        places = [self.places[name] for name in names]
        first, last = min(places), max(places)
        between = self.blocks[last[0]][first[1] : last[1]]
        if first[0] != last[0] or self._interferes(between, [Let(n, self.lets[n]) for n in names]):
            return None
        found = self.narrow(tuple(self.lets[n] for n in names), elem, self._count(names))
        if not found.pushed:
            return None
        var = Var(self.names.fresh("narrow"), VType(elem, True))
        self.after.setdefault(last, []).append(Let(var.name, found.term))
        return var

    def _carry(self, names: tuple[str, ...], elem: Elem) -> None:
        key, (loop, _) = (names, elem), self.carried[names[0]]
        if any(self.carried[name][0] is not loop for name in names):
            return
        var = self.named[key] = Var(self.names.fresh("narrow"), VType(elem, True))
        carried, count = [self.carried[name][1] for name in names], self._count(names)
        init = self.narrow(tuple(c.init for c in carried), elem, count)
        following = self.narrow(tuple(c.next for c in carried), elem, count)
        if not following.pushed:
            self.useless.add(key)
        self.more.setdefault(loop.iterator, []).append(Carried(var.name, init.term, following.term))

    # -- the program again

    def rebuilt(self) -> Program:
        body = self._block(self.program.body, iter(range(len(self.blocks))))
        return replace(self.program, body=_without_dead(body))

    def _block(self, body: tuple[Stmt, ...], numbers: Iterable[int]) -> tuple[Stmt, ...]:
        number = next(iter(numbers))
        out = list[Stmt]()
        for position, stmt in enumerate(body):
            place = number, position
            match stmt:
                case Loop():
                    carried = (*stmt.carried, *self.more.get(stmt.iterator, ()))
                    out.append(replace(stmt, carried=carried, body=self._block(stmt.body, numbers)))
                case If():
                    out.append(replace(stmt, then=self._block(stmt.then, numbers)))
                case _:
                    out += self.replaced.get(place, [stmt])
            out += self.after.get(place, ())
        return tuple(out)


def _signed(value: int, bits: int) -> int:
    low = value & ((1 << bits) - 1)
    return low - ((low >> (bits - 1)) << bits)


def _without_dead(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The block without names that no store, bound or condition needs."""
    needs: dict[str, list[Term]] = {}
    wanted: list[str] = []
    for stmt in statements(body):
        match stmt:
            case Let(name, value):
                needs[name] = [value]
            case Store():
                wanted += [n for n, _ in stmt.address.terms] + [n for t in own_terms(stmt) for n in names_of(t)]
            case Loop():
                needs |= {c.name: [c.init, c.next] for c in stmt.carried}
                wanted += [*names_of(stmt.start), *names_of(stmt.trip)]
            case If():
                wanted += names_of(stmt.condition)
    live: set[str] = set()
    while wanted:
        if (name := wanted.pop()) not in live:
            live.add(name)
            wanted += [n for term in needs.get(name, ()) for n in names_of(term)]
    return _kept(body, live)


def _kept(body: tuple[Stmt, ...], live: set[str]) -> tuple[Stmt, ...]:
    out = list[Stmt]()
    for stmt in body:
        match stmt:
            case Let(name) if name not in live:
                continue
            case Loop():
                carried = tuple(c for c in stmt.carried if c.name in live)
                out.append(replace(stmt, body=_kept(stmt.body, live), carried=carried))
            case If():
                out.append(replace(stmt, then=_kept(stmt.then, live)))
            case _:
                out.append(stmt)
    return tuple(out)
