"""Sums of signed products, and how the sums of several lanes lie on each other.

Several lanes' sums become one vector sum by a list of `Slot`s: one summand, or none, from each lane. Under
reassociation a sum is a bag, and the slots are chosen for operands that are cheap to have in lanes: first the factor
that most lanes share, which is one broadcast, then position by position. This is anti-unification of sums modulo
associativity and commutativity, done greedily. In strict mode a sum is a sequence, and slots keep every lane's order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter

from dspgen.straight.trace import Trace

Factors = tuple[int, ...]
"""One node, or the two nodes of a product."""


@dataclass(frozen=True, slots=True)
class Summand:
    sign: int
    factors: Factors


@dataclass(frozen=True, slots=True)
class Slot:
    """One summand of each lane, None where a lane has none. All have one factor or all have two, in matching order."""

    lanes: tuple[Summand | None, ...]

    def factor(self, side: int) -> tuple[int | None, ...]:
        return tuple(None if s is None else s.factors[side] for s in self.lanes)

    @property
    def signs(self) -> tuple[int | None, ...]:
        return tuple(None if s is None else s.sign for s in self.lanes)

    @property
    def width(self) -> int:
        return next(len(s.factors) for s in self.lanes if s is not None)


Sums = Sequence[tuple[Summand, ...] | None]
"""For each lane its summands, None for a lane whose value doesn't matter."""

Cost = Callable[[tuple[int | None, ...]], float]


def summands(
    trace: Trace, uses: Sequence[int], root: int, *, ordered: bool, shallow: bool = False
) -> tuple[Summand, ...]:
    """The node as a sum. Inner sums with other readers stay whole; with `shallow`, all inner ones.

    `ordered`: only the leftmost path is taken apart, so that adding up from the first summand on rounds as written.
    """
    found: list[Summand] = []
    pending = [(1, root)]
    while pending:
        sign, node = pending.pop()
        here = trace.nodes[node]
        own = node == root or (uses[node] == 1 and not shallow)
        if here.name in ("add", "sub") and own:
            left, right = here.args
            second = -sign if here.name == "sub" else sign
            if ordered:
                found.append(_summand(trace, uses, second, right))
                pending.append((sign, left))
            else:
                pending += [(second, right), (sign, left)]
        elif here.name == "neg" and own and not ordered:
            pending.append((-sign, here.args[0]))
        else:
            found.append(_summand(trace, uses, sign, node))
    if ordered:
        return tuple(reversed(found))
    kept = [s for s in found if len(s.factors) > 1 or not _is_zero(trace, s.factors[0])]
    return tuple(kept or found[:1])


def _is_zero(trace: Trace, node: int) -> bool:
    constant = trace.constant(node)
    return constant is not None and constant.value == 0


def _summand(trace: Trace, uses: Sequence[int], sign: int, node: int) -> Summand:
    here = trace.nodes[node]
    if here.name == "mul" and uses[node] == 1:
        # Of one kind on one side, so that products meet in matching order.
        return Summand(sign, tuple(sorted(here.args, key=lambda f: _kind(trace, f))))
    return Summand(sign, (node,))


def _kind(trace: Trace, node: int) -> str:
    element = trace.element(node)
    return trace.nodes[node].name if element is None else f"load {element[0]}"


def is_sum(trace: Trace, node: int) -> bool:
    return trace.nodes[node].name in ("add", "sub", "mul", "neg")


def regular(trace: Trace, sums: Sums) -> bool:
    """Whether the lanes' sums resemble each other, or are of elements of memory only: then taking sums apart helps."""
    some = [s for s in sums if s is not None]
    shapes = {tuple(sorted(len(x.factors) for x in s)) for s in some}
    return len(shapes) == 1 or all(trace.nodes[f].leaf is not None for s in some for x in s for f in x.factors)


def align(trace: Trace, sums: Sums, cost: Cost) -> list[Slot]:
    """Slots for sums whose order is free: the cheapest of some ways, factors of one kind shared in each."""
    factors = dict.fromkeys(f for s in sums for x in s or () if len(x.factors) == 2 for f in x.factors)
    ways = _ways(tuple(sums), tuple((f, _kind(trace, f)) for f in factors))
    return list(min(ways, key=lambda slots: sum(_cost(slot, cost) for slot in slots)))


@lru_cache(maxsize=512)
def _ways(sums: tuple[tuple[Summand, ...] | None, ...], factors: tuple[tuple[int, str], ...]) -> list[list[Slot]]:
    """Ways to lay the sums on each other; `factors` are those of products, and the kind of each."""
    kinds = dict.fromkeys(kind for _, kind in factors)
    ways = [_by_shared_factors(sums, {f for f, own in factors if own == kind}) for kind in kinds]
    ways.append(_by_shared_factors(sums, {f for f, _ in factors}))
    ways.append(_by_position(sums))
    return [way for k, way in enumerate(ways) if way not in ways[:k]]


def _cost(slot: Slot, cost: Cost) -> float:
    signs = {s for s in slot.signs if s is not None}
    return len(signs) + sum(cost(slot.factor(side)) for side in range(slot.width))


def _by_shared_factors(sums: Sums, factors: Collection[int]) -> list[Slot]:
    """Always the one of `factors` that most lanes have left, the first of these; the rest by position."""
    rest: list[list[Summand]] = [list(s or ()) for s in sums]
    left: dict[int, Counter[int]] = {}  # by factor, the lanes that have products of it, and how many
    for lane, own in enumerate(rest):
        for summand in own:
            for factor in _shareable(summand, factors):
                left.setdefault(factor, Counter())[lane] += 1
    slots: list[Slot] = []
    while (most := max(map(len, left.values()), default=0)) > 1:
        products = (f for own in rest for s in own for f in _shareable(s, factors))
        shared = next(f for f in products if len(left[f]) == most)
        lanes: list[Summand | None] = [None] * len(rest)
        for lane in tuple(left[shared]):
            lanes[lane] = taken = _take(rest[lane], shared)
            for factor in dict.fromkeys(taken.factors):
                if factor in left:
                    left[factor][lane] -= 1
                    if not left[factor][lane]:
                        del left[factor][lane]
        slots.append(Slot(tuple(lanes)))
    return slots + _in_order(rest)


def _shareable(summand: Summand, factors: Collection[int]) -> tuple[int, ...]:
    """The product's factors that are among `factors`, each once."""
    if len(summand.factors) != 2:
        return ()
    return tuple(dict.fromkeys(f for f in summand.factors if f in factors))


def _take(own: list[Summand], shared: int) -> Summand:
    """The lane's first product by `shared`, which comes first in it."""
    index = next(i for i, s in enumerate(own) if len(s.factors) == 2 and shared in s.factors)
    first, second = own[index].factors
    sign = own.pop(index).sign
    return Summand(sign, (shared, second if first == shared else first))


def _by_position(sums: Sums) -> list[Slot]:
    return _in_order([list(s or ()) for s in sums])


def _in_order(rest: list[list[Summand]]) -> list[Slot]:
    """The k-th products on each other, and the k-th other summands."""
    slots: list[Slot] = []
    for width in (1, 2):
        columns = [[s for s in own if len(s.factors) == width] for own in rest]
        for number in range(max(map(len, columns), default=0)):
            slots.append(Slot(tuple(c[number] if number < len(c) else None for c in columns)))
    return slots


def align_ordered(sums: Sums) -> list[Slot] | None:
    """Slots that keep the order of every lane's summands, the first one a summand of every lane; or None.

    Summands meet by a shared factor. None where the lanes' orders contradict each other.
    """
    lanes_with = _lanes_with(sums)
    keyed = [None if s is None else _keys(s, lanes_with) for s in sums]
    order = _merged([keys for keys in keyed if keys is not None])
    if order is None:
        return None
    slots: list[Slot] = []
    for key in order:
        lanes: list[Summand | None] = []
        for own, keys in zip(sums, keyed, strict=True):
            at = keys.index(key) if own is not None and keys is not None and key in keys else -1
            lanes.append(None if own is None or at < 0 else _turned(own[at], key))
        slots.append(Slot(tuple(lanes)))
    first = slots[0].lanes
    return slots if all((a is None) == (b is None) for a, b in zip(first, sums, strict=True)) else None


Key = tuple[int, int, int]
"""The number of factors, the factor that is shared (-1: none), and a number that makes keys of one lane differ."""


def _keys(own: tuple[Summand, ...], lanes_with: Mapping[tuple[int, int], int]) -> list[Key]:
    """Each summand's key. The factor that more lanes have counts as the shared one."""
    keys: list[Key] = []
    like: Counter[tuple[int, int]] = Counter()
    for summand in own:
        width = len(summand.factors)
        lanes, shared = max(((lanes_with[width, f], f) for f in summand.factors), key=itemgetter(0))
        chosen = shared if lanes > 1 else -1
        keys.append((width, chosen, like[width, chosen]))
        like[width, chosen] += 1
    return keys


def _lanes_with(sums: Sums) -> Mapping[tuple[int, int], int]:
    """By the number of factors and a factor, how many lanes have such a summand."""
    return Counter(pair for own in sums for pair in {(len(s.factors), f) for s in own or () for f in s.factors})


def _turned(summand: Summand, key: Key) -> Summand:
    if key[0] == 2 and summand.factors[1] == key[1]:
        return Summand(summand.sign, (summand.factors[1], summand.factors[0]))
    return summand


def _merged(sequences: list[list[Key]]) -> list[Key] | None:
    """One sequence that has each of these in its order; None where they contradict each other."""
    merged: list[Key] = []
    rest = [list(s) for s in sequences]
    while any(rest):
        heads = dict.fromkeys(s[0] for s in rest if s)
        later = {key for s in rest for key in s[1:]}
        free = next((h for h in heads if h not in later), None)
        if free is None:
            return None
        merged.append(free)
        rest = [s[1:] if s and s[0] == free else s for s in rest]
    return merged
