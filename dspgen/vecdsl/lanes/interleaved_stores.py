"""Stores to places that lie between each other, as stores of whole vectors.

Before: store a[0, 2, 4, ...] = x, then store a[1, 3, 5, ...] = y, in whatever pattern of lanes.
After:  store a[0 ..] and a[lanes ..], of the lanes of x and y in turn, where the last of the stores was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from dspgen.vecdsl.analysis.touched_elements import WORD, Place, Reach, elements_of, is_pair, lane_elements
from dspgen.vecdsl.ir.program import (
    ELEM_BYTES,
    Address,
    If,
    Let,
    Load,
    Loop,
    Op,
    Stmt,
    Store,
    Term,
    Var,
    VType,
    lanes_of,
)
from dspgen.vecdsl.ir.terms import Names, children, is_atom, own_terms
from dspgen.vecdsl.lanes.shuffle_network import Part, joined


def merged_stores(body: tuple[Stmt, ...], lanes: int, reaches: Sequence[Reach], names: Names) -> tuple[Stmt, ...]:
    """The block, and all below it, with irregular stores that together fill vectors merged."""
    out: list[Stmt] = []
    run: list[Let | Store] = []
    worker = _Merger(lanes, tuple(reaches), names)
    for stmt in body:
        if isinstance(stmt, Let | Store):
            run.append(stmt)
            continue
        out += worker.run(run)
        run = []
        inner = stmt.body if isinstance(stmt, Loop) else stmt.then
        inner = merged_stores(inner, lanes, reaches, names)
        out.append(replace(stmt, body=inner) if isinstance(stmt, Loop) else If(stmt.condition, inner))
    return (*out, *worker.run(run))


@dataclass(slots=True)
class Group:
    """Stores that may all be made where the last of them is: by element, which store writes it, on which lane."""

    members: list[int] = field(default_factory=list)
    writes: dict[int, tuple[int, int]] = field(default_factory=dict)


def store_groups(run: Sequence[Let | Store], lanes: int, member: Callable[[Store], bool]) -> Iterator[Group]:
    """The stores that `member` tells, in groups of one array and one variable part of the address."""
    open_: dict[Place, Group] = {}
    for number, stmt in enumerate(run):
        mine = None
        if isinstance(stmt, Store) and member(stmt):
            mine = (stmt.array, stmt.address.terms, stmt.elem)
        for access, touched in _touched(stmt, lanes):
            for key in [k for k in open_ if k[0] == access.array]:
                apart = key[1] == access.address.terms and touched is not None
                if not apart or not open_[key].writes.keys().isdisjoint(touched or ()):
                    yield open_.pop(key)
        if mine is not None and isinstance(stmt, Store):
            group = open_.setdefault(mine, Group())
            group.members.append(number)
            elements = lane_elements(stmt, active_lanes(stmt, lanes))
            group.writes.update({e: (number, k) for k, e in enumerate(elements)})
    yield from open_.values()


def _touched(stmt: Let | Store, lanes: int) -> Iterator[tuple[Load | Store, set[int] | None]]:
    """What the statement reads and writes, and which elements, where that is known."""
    for term in own_terms(stmt):
        yield from ((load, elements_of(load, pair, lanes)) for load, pair in _loads(term))
    if isinstance(stmt, Store):
        yield stmt, elements_of(stmt, is_pair(stmt.value), lanes)


@dataclass(frozen=True, slots=True)
class _Merger:
    lanes: int
    reaches: tuple[Reach, ...]
    names: Names

    def run(self, run: list[Let | Store]) -> list[Let | Store]:
        groups = [g for g in store_groups(run, self.lanes, self._irregular) if len(g.members) > 1]
        out: list[list[Let | Store]] = [[stmt] for stmt in run]
        for group in groups:
            self._merge(run, group, out)
        return [stmt for made in out for stmt in made]

    def _irregular(self, store: Store) -> bool:
        """Whether no one store of the machine does it, though its places are known."""
        if not store.value.type.vector or store.index is not None or store.mask is not None:
            return False
        if ELEM_BYTES[store.elem] != WORD or is_pair(store.value):
            return False
        plain = not store.period and any(r.stride == store.stride for r in self.reaches)
        return not plain or (store.stride != 1 and store.active is not None)

    # -- vectors that are filled

    def _merge(self, run: list[Let | Store], group: Group, out: list[list[Let | Store]]) -> None:
        members = set(group.members)
        first = run[group.members[0]]
        assert isinstance(first, Store)
        while len(members) > 1:
            writes = {e: w for e, w in group.writes.items() if w[0] in members}
            found = [p for r in self.reaches if (p := self._filled(writes, first, r)) is not None]
            best = min((p for p in found if not p.broken and p.sources <= self.lanes // 2), key=_cost, default=None)
            if best is not None:
                self._write(run, first, best, members, out)
                return
            broken = min((p.broken for p in found), key=len, default=None)
            if broken is None or not broken & members:
                return
            members -= broken

    def _filled(self, writes: dict[int, tuple[int, int]], like: Store, reach: Reach) -> _Plan | None:
        """The vectors that the elements fill; None where the machine can't store them so."""
        plan = _Plan(reach)
        residues: dict[int, list[int]] = {}
        for element in sorted(writes):
            residues.setdefault(element % reach.stride, []).append(element)
        for elements in residues.values():
            while elements:
                start = elements[0]
                end = start + reach.stride * self.lanes
                here = [e for e in elements if e < end]
                elements = elements[len(here) :]
                full = len(here) == self.lanes
                prefix = not reach.paired and here == list(range(start, start + len(here)))
                if not full and not prefix:
                    plan.broken |= {writes[e][0] for e in here}
                plan.vectors[start] = {(e - start) // reach.stride: writes[e] for e in here}
        if not reach.paired:
            return plan
        for start in list(plan.vectors):
            base = reach.base(start, like.address.terms)
            if base is None:
                return None
            if base not in plan.vectors or base + 1 not in plan.vectors:
                plan.broken |= {store for store, _ in plan.vectors[start].values()}
        return plan

    def _write(
        self, run: list[Let | Store], like: Store, plan: _Plan, members: set[int], out: list[list[Let | Store]]
    ) -> None:
        values: dict[int, Term] = {}
        for number in sorted(members):
            stmt = run[number]
            assert isinstance(stmt, Store)
            values[number] = stmt.value
            out[number] = []
            if not is_atom(stmt.value):
                name = self.names.fresh("dealt")
                values[number] = Var(name, stmt.value.type)
                out[number] = [Let(name, stmt.value)]
        last = run[max(members)]
        assert isinstance(last, Store)
        made = {start: self._vector(lanes, values) for start, lanes in plan.vectors.items()}
        for start in sorted(made):
            address = Address(start, like.address.terms)
            store = replace(last, address=address, stride=plan.reach.stride, period=0, jump=0, active=None)
            if not plan.reach.paired:
                count = len(plan.vectors[start])
                out[max(members)].append(
                    replace(store, value=made[start], active=None if count == self.lanes else count)
                )
            elif plan.reach.base(start, like.address.terms) == start:
                pair = Op("pair", (made[start], made[start + 1]), made[start].type)
                out[max(members)].append(replace(store, value=pair))

    def _vector(self, lanes: dict[int, tuple[int, int]], values: dict[int, Term]) -> Term:
        parts: dict[int, dict[int, int]] = {}
        for lane, (number, source) in lanes.items():
            parts.setdefault(number, {})[lane] = source
        type: VType = values[next(iter(parts))].type
        return joined([Part(values[n], places) for n, places in parts.items()], type, self.lanes)


@dataclass(slots=True)
class _Plan:
    """By their first elements, the vectors: for each lane which store's value goes there, and from which lane of it.
    `broken`: the stores of vectors that are not filled."""

    reach: Reach
    vectors: dict[int, dict[int, tuple[int, int]]] = field(default_factory=dict)
    broken: set[int] = field(default_factory=set)

    @property
    def sources(self) -> int:
        """How many stores' values there are in a vector at most."""
        return max(len({n for n, _ in lanes.values()}) for lanes in self.vectors.values())


def _cost(plan: _Plan) -> int:
    """Stores and shuffles."""
    sources = [len({n for n, _ in lanes.values()}) for lanes in plan.vectors.values()]
    return len(plan.vectors) // (2 if plan.reach.paired else 1) + sum(s - 1 or 1 for s in sources)


def active_lanes(store: Store, lanes: int) -> int:
    count = lanes_of(store.value.type, lanes)
    return count if store.active is None else min(store.active, count)


def _loads(term: Term, pair: bool = False) -> Iterator[tuple[Load, bool]]:
    if isinstance(term, Load):
        yield term, pair
    for child in children(term):
        yield from _loads(child, isinstance(term, Op) and term.name == "ld_pair")
