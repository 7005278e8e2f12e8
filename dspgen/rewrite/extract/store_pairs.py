"""Stores: what they cost, and two at neighbouring places as one of a pair.

The earlier of the two moves down to the later one, which it may where nothing between touches its elements. Its value
is still what it was at the old place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import replace

from dspgen.rewrite.cost.operation_costs import Access, Machine
from dspgen.rewrite.cost.scalarization_cost import Implementation
from dspgen.rewrite.graph.region import Region, Touched, load_touches, meet, store_touches
from dspgen.vecdsl.analysis.congruence import Congruence, of_address
from dspgen.vecdsl.ir.program import ELEM_BYTES, PAIRS, Const, Let, Load, Op, Store, Term, Var
from dspgen.vecdsl.ir.terms import children, own_terms

_Access = tuple[str, tuple[tuple[str, int], ...], Touched]
_Place = tuple[object, ...]


def store_cost(machine: Machine, congruences: Mapping[str, Congruence], stmt: Store) -> Implementation | None:
    """What the store occupies; None if the machine lacks it."""
    size = ELEM_BYTES[stmt.elem]
    where = of_address(stmt.address.constant, stmt.address.terms, dict(congruences))
    shift = (stmt.jump - stmt.period * stmt.stride) * size if stmt.period else 0
    return machine.store(
        Access(
            stmt.elem,
            stmt.value.type,
            stmt.stride,
            size if stmt.index is not None else math.gcd(where.times(size).alignment, shift),
            _is_pair(stmt.value),
            stmt.period,
            stmt.index is not None,
            stmt.mask is not None,
            stmt.active is not None and stmt.active < machine.lanes,
            isinstance(stmt.index, Op) and stmt.index.name == "bcast",
            stmt.jump,
        )
    )


def _is_pair(value: Term) -> bool:
    return isinstance(value, Op) and value.name in PAIRS


def pair_stores(
    region: Region, lanes: int, cost: Callable[[Store], Implementation | None], fresh: Callable[[], str]
) -> Region:
    """The region with each two stores merged whose pair store occupies less."""
    stmts = list(region.stmts)
    touches = [_touches(s, lanes) for s in stmts]
    waiting: dict[_Place, int] = {}
    bound = {s.name for s in stmts if isinstance(s, Let)}
    for later, stmt in enumerate(stmts):
        if not isinstance(stmt, Store) or not stmt.plain or stmt.active is not None or _is_pair(stmt.value):
            continue
        earlier = next((n for c in _neighbours(stmt, lanes) if (n := waiting.get(_place(stmt, c))) is not None), None)
        if earlier is None or not _moves(touches, earlier, later):
            waiting[_place(stmt, stmt.address.constant)] = later
            continue
        first = stmts[earlier]
        assert isinstance(first, Store)
        merged = _merged(first, stmt, name := fresh())
        if not _pays(cost, first, stmt, merged, _moved(first, bound) + _moved(stmt, bound)):
            waiting[_place(stmt, stmt.address.constant)] = later
            continue
        stmts[earlier], stmts[later] = Let(name, first.value), merged
        touches[later] += [t for t in touches[earlier] if t[0]]
        touches[earlier] = [t for t in touches[earlier] if not t[0]]
        del waiting[_place(first, first.address.constant)]
    return replace(region, stmts=tuple(stmts))


def _place(store: Store, constant: int) -> _Place:
    return (store.array, store.address.terms, store.stride, store.elem, store.value.type, constant)


def _neighbours(store: Store, lanes: int) -> tuple[int, int]:
    """Where the other half of a pair with this store lies."""
    apart = lanes if store.value.type.vector and store.stride == 1 else 1
    return store.address.constant - apart, store.address.constant + apart


def _merged(first: Store, later: Store, name: str) -> Store:
    """Both in the place of the later one, the earlier one's value by its name."""
    moved = Var(name, first.value.type)
    up = first.address.constant < later.address.constant
    halves = (moved, later.value) if up else (later.value, moved)
    low = first if up else later
    return replace(later, address=low.address, value=Op("pair", halves, later.value.type))


def _moved(store: Store, bound: Container[str]) -> bool:
    """Whether the value is in a register already, from which it must be moved into one of a pair."""
    return isinstance(store.value, Const) or isinstance(store.value, Var) and store.value.name not in bound


def _pays(
    cost: Callable[[Store], Implementation | None], first: Store, later: Store, merged: Store, moves: int
) -> bool:
    both, one, other = cost(merged), cost(first), cost(later)
    if both is None:
        return False
    return one is None or other is None or both.total + moves < one.total + other.total


# -- what statements touch: whether it is written, and what


_Touch = tuple[bool, _Access]


def _touches(stmt: Let | Store, lanes: int) -> list[_Touch]:
    found = [(False, access) for access in _loads(stmt, lanes)]
    if isinstance(stmt, Store):
        found.append((True, (stmt.array, stmt.address.terms, store_touches(stmt, lanes))))
    return found


def _loads(stmt: Let | Store, lanes: int) -> Iterator[_Access]:
    stack: list[tuple[Term, bool]] = [(t, False) for t in own_terms(stmt)]
    while stack:
        term, pair = stack.pop()
        if isinstance(term, Load):
            yield term.array, term.address.terms, load_touches(term, lanes, pair=pair)
        stack.extend((t, isinstance(term, Op) and term.name == "ld_pair") for t in children(term))


def _moves(touches: list[list[_Touch]], earlier: int, later: int) -> bool:
    """Whether what the earlier store writes is touched by nothing up to and with the later one."""
    (array, terms, written) = next(access for wrote, access in touches[earlier] if wrote)
    for between in touches[earlier + 1 : later + 1]:
        for _, (other, other_terms, touched) in between:
            if other == array and (other_terms != terms or meet(touched, written)):
                return False
    return True
