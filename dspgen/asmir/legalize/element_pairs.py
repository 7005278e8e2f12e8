"""Twos of elements at equal distances, on machines with two elements in each lane that access two such lanes at once.

Before: `store A [a] 2 = x; store A [a + 1] 2 = y`.
After: `store A [a] 1 period 2 jump 4 = pair(x0 y0 x2 y2 ..., x1 y1 x3 y3 ...)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dspgen.asmir.legalize.capabilities import Abilities
from dspgen.asmir.select.access_rows import is_pair_term
from dspgen.asmir.select.access_streams import arrays_read, own_terms
from dspgen.vecdsl.analysis.congruence import Congruences
from dspgen.vecdsl.ir.program import ELEM_BYTES, Address, If, Load, Loop, Op, Stmt, Store, Term

_TWO = 2  # lanes that one predicate governs, and a shuffle keeps together
Inside = Callable[[str, Address, int, int], bool]


def interleaved(load: Load, able: Abilities, congruences: Congruences, inside: Inside) -> Op | None:
    """A load of twos of elements at equal distances, or of one element for each two lanes, as half of a pair or a
    shuffle of twos; None where the machine doesn't do that."""
    if able.group != _TWO or load.index is not None or load.mask is not None:
        return None
    if load.stride == _TWO and not load.period:
        return _every_second(load, able, congruences, inside)
    if load.period != _TWO:
        return None
    last = load.jump * (able.lanes // _TWO - 1)
    if load.stride == 0:
        first = congruences.modulo(load.address, _TWO)
        if first is None or load.jump % _TWO or not inside(load.array, load.address, -first, last + 1 - first):
            return None
        whole = replace(load, address=load.address.plus(-first), stride=1)
        whole = replace(whole, period=0, jump=0) if load.jump == _TWO else whole
        spread = _side_by_side(whole, whole, able.lanes, first)
        return spread if able.direct(spread) else None
    past = congruences.modulo(load.address, 2 * _TWO)
    if load.stride != 1 or load.jump < 2 * _TWO or past not in (0, _TWO):
        return None
    pair = _pair_of(replace(load, address=load.address.plus(-past)), able, inside)
    return None if pair is None else Op("hi" if past else "lo", (pair,), load.type)


def _every_second(load: Load, able: Abilities, congruences: Congruences, inside: Inside) -> Op | None:
    first = congruences.modulo(load.address, 2 * _TWO)
    if first not in (0, 1):
        return None
    low = replace(load, address=load.address.plus(-first), stride=1, period=_TWO, jump=2 * _TWO)
    if (pair := _pair_of(low, able, inside)) is None:
        return None
    low_half, high_half = (Op(half, (pair,), load.type) for half in ("lo", "hi"))
    taken = _side_by_side(low_half, high_half, able.lanes, first)
    return taken if able.direct(taken) else None


def _pair_of(low: Load, able: Abilities, inside: Inside) -> Op | None:
    """The pair load whose low half is a load of twos, where its elements are in the array."""
    pair = Op("ld_pair", (low,), low.type)
    last = low.jump * (able.lanes // _TWO - 1) + 2 * _TWO - 1
    fine = able.pair_load(low, pair) and inside(low.array, low.address, 0, last) and _fits(low, able)
    return pair if fine else None


def with_pairs(body: Sequence[Stmt], able: Abilities, congruences: Congruences) -> list[Stmt]:
    """A block with stores of neighbours, alone or in twos, as stores of pairs, at the second one's place."""
    found: list[Stmt | None] = list(body)
    for k, stmt in enumerate(body) if able.group == _TWO else ():
        partner = _partner(stmt, k, found) if isinstance(stmt, Store) and found[k] is stmt else None
        if partner is None or not isinstance(stmt, Store):
            continue
        number, other = partner
        low, high = sorted((stmt, other), key=lambda s: s.address.constant)
        if (made := _pair(low, high, able, congruences)) is not None:
            found[k], found[number] = None, replace(made, loc=other.loc)
    return [s for s in found if s is not None]


def _partner(stmt: Store, number: int, body: Sequence[Stmt | None]) -> tuple[int, Store] | None:
    """The later store of the elements beside those of a store, up to which this one can wait, and its place."""
    if not _regular(stmt):
        return None
    step = _TWO if stmt.period else 1
    stored: set[str] = set()
    needed = arrays_read(stmt.value, {})
    for k in range(number + 1, len(body)):
        other = body[k]
        if other is None:
            continue
        if isinstance(other, Loop | If) or any(stmt.array in arrays_read(t, {}) for t in own_terms([other])):
            return None
        if not isinstance(other, Store):
            continue
        beside = abs(other.address.constant - stmt.address.constant) == step
        if beside and _regular(other) and _shape(other) == _shape(stmt):
            return None if stored & needed else (k, other)
        if other.array == stmt.array:
            return None
        stored.add(other.array)
    return None


def _regular(stmt: Store) -> bool:
    """Whether it stores elements, or twos of them, at equal distances, on all lanes."""
    plain = stmt.index is None and stmt.mask is None and stmt.active is None
    spread = stmt.stride == _TWO and not stmt.period or stmt.stride == 1 and stmt.period == _TWO
    return plain and spread and stmt.value.type.vector and not is_pair_term(stmt.value)


def _shape(stmt: Store) -> tuple[object, ...]:
    return stmt.array, stmt.address.terms, stmt.stride, stmt.elem, stmt.period, stmt.jump, stmt.value.type


def _pair(low: Store, high: Store, able: Abilities, congruences: Congruences) -> Store | None:
    if congruences.modulo(low.address, 2 * _TWO) != 0:
        return None
    values, store = (low.value, high.value), low
    if not low.period:
        values = _side_by_side(*values, able.lanes, 0), _side_by_side(*values, able.lanes, 1)
        store = replace(low, stride=1, period=_TWO, jump=2 * _TWO)
        if not all(map(able.direct, values)):
            return None
    made = replace(store, value=Op("pair", values, low.value.type))
    return made if able.store(made) and _fits(made, able) else None


def _fits(access: Load | Store, able: Abilities) -> bool:
    """Whether a pair access may begin at twice two elements."""
    return able.alignment(access, pair=True) <= 2 * _TWO * ELEM_BYTES[access.elem]


def _side_by_side(a: Term, b: Term, lanes: int, first: int) -> Op:
    """Of two vectors the even elements in turn (`first` 0), or the odd ones."""
    pattern = tuple((lanes if k % _TWO else 0) + k - k % _TWO + first for k in range(lanes))
    return Op("shuffle2", (a, b), a.type, pattern)
