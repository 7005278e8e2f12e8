"""What values integer terms and addresses can take, by interval arithmetic over the iterators' bounds.

An iterator is bounded by affine forms of the names outside it, so that `k + i` with k below `N - i` is seen to stay
below N. A scalar parameter has no bounds, but it cancels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from dspgen.vecdsl.ir.program import Address, Const, If, Let, Load, Loop, Op, Program, Stmt, Term, covered
from dspgen.vecdsl.ir.terms import INTEGER, children, leaves, linear_address, own_terms

Number = int | Fraction
_MOST_FORMS = 8
_WORD = (-(1 << 31), (1 << 31) - 1)
_MODULAR = frozenset({"add", "sub", "mul", "shl"})


@dataclass(frozen=True, slots=True)
class Linear:
    """An affine form with rational coefficients; no coefficient is 0."""

    constant: Number
    terms: dict[str, Number] = field(default_factory=dict)

    @staticmethod
    def of(address: Address) -> Linear:
        return Linear(address.constant, dict(address.terms))

    def plus(self, other: Linear, factor: Number = 1) -> Linear:
        terms = dict(self.terms)
        for name, coefficient in other.terms.items():
            total = terms.get(name, 0) + factor * coefficient
            if total:
                terms[name] = total
            else:
                terms.pop(name, None)
        return Linear(self.constant + factor * other.constant, terms)

    def times(self, factor: Number) -> Linear:
        return Linear(0).plus(self, factor) if factor else Linear(0)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Affine forms that are each below (above) a value; empty where none is known."""

    lowers: tuple[Linear, ...] = ()
    uppers: tuple[Linear, ...] = ()


_ANY_WORD = Bounds((Linear(_WORD[0]),), (Linear(_WORD[1]),))


@dataclass(frozen=True, slots=True)
class Ranges:
    """The iterators and integer Lets in scope, outermost first."""

    iterators: tuple[str, ...] = ()
    bounds: dict[str, Bounds] = field(default_factory=dict)
    # Passes ask for the same scopes again and again.
    _scopes: dict[tuple[str, Term, Term, int, int | None], Ranges] = field(
        default_factory=dict, compare=False, repr=False
    )

    def inside(self, loop: Loop) -> Ranges:
        key = (loop.iterator, loop.start, loop.trip, loop.step, loop.max_trip)
        if key not in self._scopes:
            self._scopes[key] = self.bind(loop.iterator, self._iterator(loop))
        return self._scopes[key]

    def after(self, stmt: Stmt) -> Ranges:
        """With what a statement's name is known to be, for the statements after it."""
        if isinstance(stmt, Let) and stmt.value.type == INTEGER:
            key = (stmt.name, stmt.value, stmt.value, 0, None)
            if key not in self._scopes:
                self._scopes[key] = self.bind(stmt.name, self._value(stmt.value))
            return self._scopes[key]
        return self

    def bind(self, iterator: str, bounds: Bounds) -> Ranges:
        return Ranges((*self.iterators, iterator), {**self.bounds, iterator: bounds})

    def maximum(self, form: Linear | Address) -> int | None:
        """Return the largest whole number that interval reasoning allows the form, None where it is unbounded."""
        linear = Linear.of(form) if isinstance(form, Address) else form
        best = self._extreme(linear, len(self.iterators), True)
        return None if best is None else math.floor(best)

    def minimum(self, form: Linear | Address) -> int | None:
        linear = Linear.of(form) if isinstance(form, Address) else form
        best = self._extreme(linear, len(self.iterators), False)
        return None if best is None else math.ceil(best)

    def interval(self, term: Term) -> tuple[int | None, int | None]:
        """Return the least and the greatest value of a scalar integer term; none where it may wrap."""
        bounds = self._value(term)
        return (None, None) if bounds is _ANY_WORD else self._ends(bounds)

    def difference(self, left: Term, right: Term) -> tuple[int | None, int | None]:
        """Return the least and the greatest value of `left - right`, which nothing computes and so doesn't wrap."""
        return self._ends(_subtracted(self._value(left), self._value(right)))

    def _ends(self, bounds: Bounds) -> tuple[int | None, int | None]:
        lows = [v for form in bounds.lowers if (v := self.minimum(form)) is not None]
        highs = [v for form in bounds.uppers if (v := self.maximum(form)) is not None]
        return max(lows, default=None), min(highs, default=None)

    def term(self, term: Term) -> Bounds:
        """Return affine bounds of a number that a scalar integer term is congruent to modulo 2**32.

        It is the term's value if that doesn't wrap. What has no constant bound is taken not to.
        """
        exact = linear_address(term)
        if exact is not None:
            form = Linear.of(exact)
            return Bounds((form,), (form,))
        match term:
            case Op(name=name, args=(left, right)) if term.type == INTEGER:
                return self._operation(name, left, right)
            case _:
                return Bounds()

    def _value(self, term: Term) -> Bounds:
        """Return affine bounds of a scalar integer term's value, those of any word where it may wrap."""
        bounds = self.term(term)
        low, high = self._ends(bounds)
        wraps = (low is not None and low < _WORD[0]) or (high is not None and high > _WORD[1])
        return _ANY_WORD if wraps else bounds

    def _operation(self, name: str, left: Term, right: Term) -> Bounds:
        if name in _MODULAR:
            return _modular(name, self.term(left), self.term(right), right)
        a, b = self._value(left), self._value(right)
        match name:
            case "min":
                return Bounds(self._merge(a.lowers, b.lowers, False), (a.uppers + b.uppers)[:_MOST_FORMS])
            case "max":
                return Bounds((a.lowers + b.lowers)[:_MOST_FORMS], self._merge(a.uppers, b.uppers, True))
            case "shr" if isinstance(right, Const):
                return _quotient(a, 1 << (int(right.value) & 31))
            case "div" if isinstance(right, Const) and int(right.value) > 0:
                low = self._ends(a)[0]
                return Bounds() if low is None or low < 0 else _quotient(a, int(right.value))
            case "and" if isinstance(right, Const) and int(right.value) >= 0:
                return Bounds((Linear(0),), (Linear(int(right.value)),))
            case "lt" | "ltu" | "gt" | "le" | "ge" | "eq" | "ne":
                return Bounds((Linear(0),), (Linear(1),))
            case _:
                return Bounds()

    def _merge(self, first: tuple[Linear, ...], second: tuple[Linear, ...], largest: bool) -> tuple[Linear, ...]:
        """Return upper bounds of the larger (lower ones of the smaller) of two values, from such bounds of both: forms
        that dominate, else a constant."""
        kept = list[Linear]()
        for ours, others in ((first, second), (second, first)):
            for form in ours:
                gaps = [form.plus(o, -1) if largest else o.plus(form, -1) for o in others]
                if any(map(self._never_negative, gaps)):
                    kept.append(form)
        find = self.maximum if largest else self.minimum
        constants = [[v for f in forms if (v := find(f)) is not None] for forms in (first, second)]
        if all(constants):
            inner, outer = (min, max) if largest else (max, min)
            kept.append(Linear(outer(inner(c) for c in constants)))
        return tuple(kept[:_MOST_FORMS])

    def _never_negative(self, form: Linear) -> bool:
        """Whether a form that need not be a whole number is at least 0."""
        least = self._extreme(form, len(self.iterators), False)
        return least is not None and least >= 0

    def _iterator(self, loop: Loop) -> Bounds:
        start, trip = self._value(loop.start), self._value(loop.trip)
        most = trip.uppers if loop.max_trip is None else (*trip.uppers, Linear(loop.max_trip))
        far = tuple(f.plus(Linear(-1)).times(loop.step) for f in most)
        if loop.step > 0:
            return Bounds(start.lowers, _sums(start.uppers, far, 1))
        return Bounds(_sums(start.lowers, far, 1), start.uppers)

    def _extreme(self, form: Linear, depth: int, largest: bool) -> Number | None:
        while depth and self.iterators[depth - 1] not in form.terms:
            depth -= 1
        if not depth:
            return None if form.terms else form.constant
        name = self.iterators[depth - 1]
        coefficient = form.terms[name]
        bounds = self.bounds[name]
        options = bounds.uppers if (coefficient > 0) == largest else bounds.lowers
        rest = Linear(form.constant, {n: c for n, c in form.terms.items() if n != name})
        found = [self._extreme(rest.plus(o, coefficient), depth - 1, largest) for o in options]
        known = [v for v in found if v is not None]
        return (min(known) if largest else max(known)) if known else None


def _modular(name: str, a: Bounds, b: Bounds, right: Term) -> Bounds:
    """Return bounds of what depends on its operands modulo 2**32 only."""
    match name:
        case "add":
            return Bounds(_sums(a.lowers, b.lowers, 1), _sums(a.uppers, b.uppers, 1))
        case "sub":
            return _subtracted(a, b)
        case "mul" | "shl" if isinstance(right, Const):
            factor = int(right.value) if name == "mul" else 1 << (int(right.value) & 31)
            lowers = tuple(f.times(factor) for f in a.lowers)
            uppers = tuple(f.times(factor) for f in a.uppers)
            return Bounds(lowers, uppers) if factor >= 0 else Bounds(uppers, lowers)
        case _:
            return Bounds()


def _subtracted(a: Bounds, b: Bounds) -> Bounds:
    return Bounds(_sums(a.lowers, b.uppers, -1), _sums(a.uppers, b.lowers, -1))


def _sums(ours: tuple[Linear, ...], others: tuple[Linear, ...], sign: int) -> tuple[Linear, ...]:
    return tuple(a.plus(b, sign) for a in ours for b in others)[:_MOST_FORMS]


def _quotient(bounds: Bounds, divisor: int) -> Bounds:
    part = Fraction(1, divisor)
    lowers = tuple(f.plus(Linear(1 - divisor)).times(part) for f in bounds.lowers)
    return Bounds(lowers, tuple(f.times(part) for f in bounds.uppers))


def readable(program: Program) -> Callable[[str, Address, int, int], bool]:
    """A test whether elements `address + low .. address + high` of an array are always inside it.

    The address may use iterators of any loop nest of the program, whose names are unique.
    """
    everything = _all_iterators(program)
    sizes = {a.name: a.size for a in program.arrays}

    def inside(array: str, address: Address, low: int, high: int) -> bool:
        least, most = everything.minimum(address), everything.maximum(address)
        return least is not None and most is not None and least + low >= 0 and most + high < sizes[array]

    return inside


def in_word(program: Program) -> Callable[[Term], bool]:
    """A test whether a scalar integer term, computed exactly, always is a signed number of 32 bits."""
    everything = _all_iterators(program)

    def inside(term: Term) -> bool:
        low, high = everything.interval(term)
        return low is not None and high is not None and -(1 << 31) <= low and high < 1 << 31

    return inside


def over_reads(program: Program, lanes: int) -> dict[str, tuple[int, int]]:
    """For each array, how many elements before its start and past its end vector loads may touch.

    A vector load's first lane is an element that the C program reads, so only the lanes after it can be outside.
    A load with an index touches nothing outside.
    """
    ranges = _all_iterators(program)
    sizes = {a.name: a.size for a in program.arrays}
    found = dict.fromkeys(sizes, (0, 0))
    for load, paired in _loads(program.body):
        if load.index is not None:
            continue
        first, last = _extent(load, paired, lanes)
        least, most = ranges.minimum(load.address), ranges.maximum(load.address)
        size = sizes[load.array]
        before = -(max(0, least if least is not None else 0) + first)
        after = (min(size - 1, most if most is not None else size - 1)) + last - (size - 1)
        old = found[load.array]
        found[load.array] = (max(old[0], before), max(old[1], after))
    return found


def _extent(load: Load, paired: bool, lanes: int) -> tuple[int, int]:
    """The first and the last element touched, from the load's address."""
    if not load.type.vector:
        return 0, int(paired)
    if covered(load.elem) > 1:
        return 0, covered(load.elem) * lanes - 1
    if load.period:
        offsets = [k % load.period * load.stride + k // load.period * load.jump for k in range(lanes)]
        return min(offsets), max(offsets) + (load.period if paired else 0)
    reach = load.stride * (lanes - 1)
    if paired:
        reach += lanes if load.stride == 1 else 1
    return min(0, reach), max(0, reach)


def _loads(body: tuple[Stmt, ...]) -> list[tuple[Load, bool]]:
    found = list[tuple[Load, bool]]()

    def walk(term: Term) -> None:
        if isinstance(term, Op) and term.name == "ld_pair":
            found.extend((leaf, True) for leaf in leaves(term) if isinstance(leaf, Load))
            return
        if isinstance(term, Load):
            found.append((term, False))
        for part in children(term):
            walk(part)

    def block(stmts: tuple[Stmt, ...]) -> None:
        for stmt in stmts:
            for term in own_terms(stmt):
                walk(term)
            if isinstance(stmt, Loop):
                block(stmt.body)
                for carried in stmt.carried:
                    walk(carried.next)
            elif isinstance(stmt, If):
                block(stmt.then)

    block(body)
    return found


def _all_iterators(program: Program) -> Ranges:
    """Every loop of the program at once: sibling nests don't see each other, as their names differ."""
    return with_inner_loops(Ranges(), program.body)


def with_inner_loops(ranges: Ranges, body: Iterable[Stmt]) -> Ranges:
    """`ranges` with the iterators and integer Lets of all blocks under `body`, whose names are unique."""
    for stmt in body:
        match stmt:
            case Let():
                ranges = ranges.after(stmt)
            case Loop():
                ranges = with_inner_loops(ranges.inside(stmt), stmt.body)
            case If():
                ranges = with_inner_loops(ranges, stmt.then)
            case _:
                pass
    return ranges


def trip_range(ranges: Ranges, trip: Term) -> tuple[int, int | None]:
    """Bounds of a trip count, never below 0."""
    low, high = ranges.interval(trip)
    return max(low or 0, 0), None if high is None else max(high, 0)
