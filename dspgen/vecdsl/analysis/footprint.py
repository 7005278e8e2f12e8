"""Which elements an access touches, and whether two accesses can touch the same one: exact by address arithmetic
where the addresses differ by a constant, by the iterators' ranges elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache

from dspgen.vecdsl.analysis.integer_ranges import Linear, Ranges
from dspgen.vecdsl.ir.program import Address, Elem, If, Let, Load, Loop, Op, Stmt, Store, Term, covered
from dspgen.vecdsl.ir.terms import children, gives_pair, own_terms


@dataclass(frozen=True, slots=True)
class Footprint:
    """Elements `address + k * stride` of `array`, k below `count`; scalars have count 1 and stride 1.

    With a `period` p: `address + (k % p) * stride + (k // p) * jump`. `whole`: any element of the array instead.
    `partial`: perhaps not all of these.
    """

    array: str
    address: Address
    stride: int
    count: int
    period: int = 0
    jump: int = 0
    whole: bool = False
    partial: bool = False

    def moved(self, delta: int) -> Footprint:
        return replace(self, address=self.address.plus(delta))

    @property
    def reach(self) -> tuple[int, int]:
        """The least and the greatest element, from the address on; meaningless where `whole`."""
        if self.period:
            offsets = _offsets(self.stride, self.count, self.period, self.jump)
            return min(offsets), max(offsets)
        far = self.stride * (self.count - 1)
        return min(0, far), max(0, far)

    @property
    def offsets(self) -> frozenset[int]:
        return _offsets(self.stride, self.count, self.period, self.jump)

    @property
    def steps(self) -> tuple[int, ...]:
        """Numbers whose sums of multiples all offsets are."""
        return (self.stride, self.jump) if self.count > 1 else ()


@lru_cache(maxsize=4096)
def _offsets(stride: int, count: int, period: int, jump: int) -> frozenset[int]:
    if not period:
        return frozenset(k * stride for k in range(count))
    return frozenset(k % period * stride + k // period * jump for k in range(count))


@dataclass(frozen=True, slots=True)
class Place:
    """What a load and a store must share to be the same register-sized piece of memory."""

    array: str
    address: Address
    stride: int
    elem: Elem
    vector: bool
    period: int = 0
    jump: int = 0


class Overlap(Enum):
    NEVER = 0
    SAME = 1
    MAYBE = 2


def place_of_load(load: Load) -> Place | None:
    """None where address and strides don't tell the elements."""
    if load.index is not None or load.mask is not None:
        return None
    return _place(load, load.type.vector)


def place_of_store(store: Store) -> Place | None:
    """None where a load of the same address and strides wouldn't read each lane's own value back."""
    vector = store.value.type.vector
    if store.index is not None or store.mask is not None or gives_pair(store.value):
        return None
    apart = abs(store.jump) >= store.period * abs(store.stride) > 0 if store.period else store.stride != 0
    return _place(store, vector) if apart or not vector else None


def _place(access: Load | Store, vector: bool) -> Place:
    stride = access.stride if vector else 1
    return Place(access.array, access.address, stride, access.elem, vector, access.period, access.jump)


def of_place(place: Place, lanes: int, active: int | None = None) -> Footprint:
    count = (lanes if active is None else min(active, lanes)) if place.vector else 1
    if (words := covered(place.elem)) > 1:
        return Footprint(place.array, place.address, 1, count * words)
    return Footprint(place.array, place.address, place.stride, count, place.period, place.jump)


def of_store(store: Store, lanes: int) -> Footprint:
    if gives_pair(store.value):
        return _of_pair(store, store.value.type.vector, lanes)
    return _of_access(store, store.value.type.vector, lanes, store.active)


def of_load(load: Load, lanes: int, paired: bool = False) -> Footprint:
    return _of_pair(load, load.type.vector, lanes) if paired else _of_access(load, load.type.vector, lanes, None)


def _of_access(access: Load | Store, vector: bool, lanes: int, active: int | None) -> Footprint:
    found = of_place(_place(access, vector), lanes, active)
    if access.index is None and access.mask is None:
        return found
    return replace(found, whole=access.index is not None, partial=True)


def _of_pair(access: Load | Store, vector: bool, lanes: int) -> Footprint:
    if not vector:
        return Footprint(access.array, access.address, 1, 2)
    if access.stride == 1:
        return Footprint(access.array, access.address, 1, 2 * lanes)
    return Footprint(access.array, access.address, 1, 2 * lanes, 2, access.stride)


def overlap(a: Footprint, b: Footprint, ranges: Ranges) -> Overlap:
    """Whether the two touch a common element, for equal values of the names they share."""
    if a.array != b.array:
        return Overlap.NEVER
    if a.whole or b.whole:
        return Overlap.MAYBE
    if a.address.terms == b.address.terms:
        distance = b.address.constant - a.address.constant
        if a.stride == 1 and b.stride == 1 and not a.period and not b.period:
            # The common case: two contiguous pieces.
            if distance >= a.count or -distance >= b.count:
                return Overlap.NEVER
            return _exactly(a, b) if distance == 0 and a.count == b.count else Overlap.MAYBE
        return _by_distance(a, b, distance)
    difference = Linear.of(b.address).plus(Linear.of(a.address), -1)
    if not difference.terms:
        return _by_distance(a, b, int(difference.constant))
    first, last = a.reach
    low, high = b.reach
    # b lies wholly after a, or wholly before it.
    least, most = ranges.minimum(difference), ranges.maximum(difference)
    if (least is not None and least + low > last) or (most is not None and most + high < first):
        return Overlap.NEVER
    steps = [int(c) for c in difference.terms.values()]
    divisor = math.gcd(*steps, *a.steps, *b.steps)
    return Overlap.MAYBE if int(difference.constant) % divisor == 0 else Overlap.NEVER


def _by_distance(a: Footprint, b: Footprint, distance: int) -> Overlap:
    if distance == 0 and (a.count == b.count == 1 or (a.count, *a.steps, a.period) == (b.count, *b.steps, b.period)):
        return _exactly(a, b)
    first, last = a.reach
    low, high = b.reach
    if distance + low > last or distance + high < first:
        return Overlap.NEVER
    ours = a.offsets
    return Overlap.MAYBE if any(distance + offset in ours for offset in b.offsets) else Overlap.NEVER


def _exactly(a: Footprint, b: Footprint) -> Overlap:
    return Overlap.MAYBE if a.partial or b.partial else Overlap.SAME


def contains(outer: Footprint, inner: Footprint) -> bool:
    """Whether every element of `inner` is surely one of `outer`."""
    if (
        outer.whole
        or outer.partial
        or inner.whole
        or outer.array != inner.array
        or outer.address.terms != inner.address.terms
    ):
        return False
    distance = inner.address.constant - outer.address.constant
    first, last = outer.reach
    low, high = inner.reach
    if distance + low < first or distance + high > last:
        return False
    ours = outer.offsets
    return all(distance + offset in ours for offset in inner.offsets)


def term_loads(term: Term) -> Iterator[tuple[Load, bool]]:
    """The loads of a term, those in their indices and masks too, and whether each is a pair load."""
    stack = [term]
    while stack:
        node = stack.pop()
        match node:
            case Load():
                yield node, False
                stack.extend(children(node))
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
