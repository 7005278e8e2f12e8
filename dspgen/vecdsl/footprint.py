"""Which elements an access touches, and whether two accesses can touch the same one: exact by address arithmetic
where the addresses differ by a constant, by the iterators' ranges elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from dspgen.vecdsl.ir import Address, Elem, If, Let, Load, Loop, Op, Stmt, Store, Term
from dspgen.vecdsl.ranges import Linear, Ranges
from dspgen.vecdsl.terms import own_terms


@dataclass(frozen=True, slots=True)
class Footprint:
    """Elements `address + k * stride` of `array`, k below `count`; scalars have count 1 and stride 1."""

    array: str
    address: Address
    stride: int
    count: int

    def moved(self, delta: int) -> Footprint:
        return Footprint(self.array, self.address.plus(delta), self.stride, self.count)


@dataclass(frozen=True, slots=True)
class Place:
    """What a load and a store must share to be the same register-sized piece of memory."""

    array: str
    address: Address
    stride: int
    elem: Elem
    vector: bool


class Overlap(Enum):
    NEVER = 0
    SAME = 1
    MAYBE = 2


def place_of_load(load: Load) -> Place:
    return Place(load.array, load.address, load.stride if load.type.vector else 1, load.elem, load.type.vector)


def place_of_store(store: Store) -> Place:
    vector = store.value.type.vector
    return Place(store.array, store.address, store.stride if vector else 1, store.elem, vector)


def of_place(place: Place, lanes: int, active: int | None = None) -> Footprint:
    count = (lanes if active is None else min(active, lanes)) if place.vector else 1
    return Footprint(place.array, place.address, place.stride, count)


def of_store(store: Store, lanes: int) -> Footprint:
    return of_place(place_of_store(store), lanes, store.active)


def of_load(load: Load, lanes: int, paired: bool = False) -> Footprint:
    if not paired:
        return of_place(place_of_load(load), lanes)
    if not load.type.vector:
        return Footprint(load.array, load.address, 1, 2)
    # All that lies between the first and the last element of the pair.
    reach = load.stride * (lanes - 1) + (lanes if load.stride == 1 else 1)
    return Footprint(load.array, load.address.plus(min(reach, 0)), 1, abs(reach) + 1)


def overlap(a: Footprint, b: Footprint, ranges: Ranges) -> Overlap:
    """Whether the two touch a common element, for equal values of the names they share."""
    if a.array != b.array:
        return Overlap.NEVER
    if a.address.terms == b.address.terms:
        distance = b.address.constant - a.address.constant
        if a.stride == 1 and b.stride == 1:
            # The common case: two contiguous pieces.
            if distance >= a.count or -distance >= b.count:
                return Overlap.NEVER
            return Overlap.SAME if distance == 0 and a.count == b.count else Overlap.MAYBE
        return _by_distance(a, b, distance)
    difference = Linear.of(b.address).plus(Linear.of(a.address), -1)
    if not difference.terms:
        return _by_distance(a, b, int(difference.constant))
    first, last = _reach(a)
    low, high = _reach(b)
    # b lies wholly after a, or wholly before it.
    least, most = ranges.minimum(difference), ranges.maximum(difference)
    if (least is not None and least + low > last) or (most is not None and most + high < first):
        return Overlap.NEVER
    steps = [int(c) for c in difference.terms.values()]
    divisor = math.gcd(*steps, a.stride if a.count > 1 else 0, b.stride if b.count > 1 else 0)
    return Overlap.MAYBE if int(difference.constant) % divisor == 0 else Overlap.NEVER


def _by_distance(a: Footprint, b: Footprint, distance: int) -> Overlap:
    if distance == 0 and a.count == b.count and (a.stride == b.stride or a.count == 1):
        return Overlap.SAME
    if a.count == 1 and b.count == 1:
        return Overlap.NEVER if distance else Overlap.SAME
    first, last = _reach(a)
    low, high = _reach(b)
    if distance + low > last or distance + high < first:
        return Overlap.NEVER
    ours = {k * a.stride for k in range(a.count)}
    return Overlap.MAYBE if any(distance + k * b.stride in ours for k in range(b.count)) else Overlap.NEVER


def _reach(f: Footprint) -> tuple[int, int]:
    far = f.stride * (f.count - 1)
    return min(0, far), max(0, far)


def contains(outer: Footprint, inner: Footprint) -> bool:
    """Whether every element of `inner` is one of `outer`."""
    if outer.array != inner.array or outer.address.terms != inner.address.terms:
        return False
    distance = inner.address.constant - outer.address.constant
    first, last = _reach(outer)
    low, high = _reach(inner)
    if distance + low < first or distance + high > last:
        return False
    ours = {k * outer.stride for k in range(outer.count)}
    return all(distance + k * inner.stride in ours for k in range(inner.count))


def term_loads(term: Term) -> Iterator[tuple[Load, bool]]:
    """The loads of a term, and whether each is a pair load."""
    stack = [term]
    while stack:
        node = stack.pop()
        match node:
            case Load():
                yield node, False
            case Op(name="ld_pair", args=(Load() as low,)):
                yield low, True
            case Op():
                stack.extend(reversed(node.args))


def loads_in(body: Iterable[Stmt]) -> Iterator[tuple[Load, bool]]:
    """Every load at any depth, `next` terms included."""
    for stmt in body:
        for term in own_terms(stmt):
            yield from term_loads(term)
        match stmt:
            case Loop():
                yield from loads_in(stmt.body)
                for carried in stmt.carried:
                    yield from term_loads(carried.next)
            case If():
                yield from loads_in(stmt.then)


def stores_in(body: Iterable[Stmt]) -> Iterator[Store]:
    for stmt in body:
        match stmt:
            case Store():
                yield stmt
            case Loop():
                yield from stores_in(stmt.body)
            case If():
                yield from stores_in(stmt.then)
            case Let():
                pass


def written_arrays(body: Iterable[Stmt]) -> frozenset[str]:
    return frozenset(s.array for s in stores_in(body))
