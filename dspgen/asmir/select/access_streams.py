"""Finds the memory accesses of a loop body and groups them into address streams.

Accesses of one array with equal iterator coefficients differ by constants only, so one address register with
immediate offsets serves them all, as far as the offset range of the machine reaches.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dspgen.asmir.select.access_rows import scattered
from dspgen.target.isa.model import Side, Target
from dspgen.vecdsl.ir.program import ELEM_BYTES, Address, Const, If, Let, Load, Loop, Stmt, Store, Term, Var
from dspgen.vecdsl.ir.terms import children, statements, terms_in

_COMPUTED = 2  # address registers kept free for computed addresses
# The share of the offset range that one stream uses: what is left is for the steps that pipelining is ahead.
_NEAR = 0.5
_FAR = 0.9  # where there are too many streams otherwise


@dataclass(frozen=True, slots=True)
class Access:
    """One array place as an instruction reaches it; `address` in elements of `elem`. `indexed`: a computed distance is
    added to it."""

    array: str
    address: Address
    elem: str
    side: Side
    indexed: bool = False

    @property
    def bytes(self) -> int:
        return self.address.constant * ELEM_BYTES[self.elem]

    @property
    def byte_terms(self) -> tuple[tuple[str, int], ...]:
        return tuple((n, c * ELEM_BYTES[self.elem]) for n, c in self.address.terms)


@dataclass(frozen=True, slots=True, order=True)
class StreamKey:
    """Accesses that share an address register: array, byte coefficients, side, whether a computed distance is added,
    and the cluster's lowest byte."""

    array: str
    terms: tuple[tuple[str, int], ...]
    side: Side
    low: int
    indexed: bool = False


def loads_of(term: Term, seen: set[int] | None = None) -> Iterator[Load]:
    """Each Load node of a term once, those in the index and mask of another included."""
    seen = set() if seen is None else seen
    if id(term) in seen:
        return
    seen.add(id(term))
    if isinstance(term, Load):
        yield term
    for child in children(term):
        yield from loads_of(child, seen)


def arrays_read(term: Term, known: dict[int, tuple[Term, frozenset[str]]]) -> frozenset[str]:
    """The arrays that a term's loads read. `known` are those of terms seen before, by their number, and the terms, so
    that the numbers stay theirs."""
    found = known.get(id(term))
    if found is None:
        arrays = frozenset[str]().union(*(arrays_read(child, known) for child in children(term)))
        found = known[id(term)] = term, arrays | {term.array} if isinstance(term, Load) else arrays
    return found[1]


def own_terms(body: Iterable[Stmt]) -> Iterator[Term]:
    """The terms evaluated in a body itself, not in loops below it (their inits, starts and trips are)."""
    for stmt in body:
        match stmt:
            case Let(value=value):
                yield value
            case Store(value=value, index=index, mask=mask):
                yield from (term for term in (value, index, mask) if term is not None)
            case Loop():
                yield stmt.start
                yield stmt.trip
                for carried in stmt.carried:
                    yield carried.init
            case If():
                yield stmt.condition
                yield from own_terms(stmt.then)


def named_indices(body: Sequence[Stmt]) -> set[str]:
    """The variables that are indices of accesses, and those that they are copies of."""
    every = list(statements(body))
    indices = [load.index for term in terms_in(body) for load in loads_of(term)]
    indices += [stmt.index for stmt in every if isinstance(stmt, Store)]
    found = {index.name for index in indices if isinstance(index, Var)}
    for stmt in reversed(every):
        if isinstance(stmt, Let) and stmt.name in found and isinstance(stmt.value, Var):
            found.add(stmt.value.name)
    return found


def own_stores(body: Iterable[Stmt]) -> Iterator[Store]:
    for stmt in body:
        match stmt:
            case Store():
                yield stmt
            case If():
                yield from own_stores(stmt.then)
            case _:
                pass


def loops_of(body: Iterable[Stmt]) -> Iterator[Loop]:
    """The loops directly in a body, through Ifs."""
    for stmt in body:
        match stmt:
            case Loop():
                yield stmt
            case If():
                yield from loops_of(stmt.then)
            case _:
                pass


def load_access(load: Load) -> Access:
    return _access(load, load.type.vector)


def store_access(store: Store) -> Access:
    return _access(store, store.value.type.vector)


def _access(place: Load | Store, vector: bool) -> Access:
    side: Side = "vector" if vector else "scalar"
    return Access(place.array, place.address, place.elem, side, place.index is not None and not scattered(place))


def body_accesses(loop_nexts: Iterable[Term], body: tuple[Stmt, ...]) -> list[Access]:
    """The distinct accesses of a body and of the terms that end its iteration, in order of appearance."""
    found: dict[Access, None] = {}
    for term in [*own_terms(body), *loop_nexts]:
        for load in loads_of(term):
            found[load_access(load)] = None
    for store in own_stores(body):
        found[store_access(store)] = None
    return list(found)


def cluster(accesses: Iterable[Access], target: Target, *, share: float) -> dict[Access, StreamKey]:
    """Assigns each access its stream; `share` of the positive offset range is used within one stream."""
    groups: dict[tuple[str, tuple[tuple[str, int], ...], Side, bool], list[Access]] = {}
    for access in accesses:
        groups.setdefault((access.array, access.byte_terms, access.side, access.indexed), []).append(access)
    keys: dict[Access, StreamKey] = {}
    scales: dict[tuple[Side, str], int] = {}
    for (array, terms, side, indexed), members in groups.items():
        members.sort(key=lambda a: (a.bytes, a.elem))
        low: int | None = None
        for access in members:
            if (side, access.elem) not in scales:
                scales[side, access.elem] = _scale(access, target)
            scale = scales[side, access.elem]
            reach = int(target.address_modes.plus_imm[side][1] * share) * scale
            if low is None or access.bytes - low > reach or (access.bytes - low) % scale:
                low = access.bytes
            keys[access] = StreamKey(array, terms, side, low, indexed)
    return keys


def with_registers(
    accesses: Sequence[Access], iterator: str, registers: Mapping[Side, int], target: Target, *, sums: Container[Side]
) -> dict[Access, StreamKey]:
    """The streams of a loop that have address registers of their own; those with the fewest accesses go without where
    there are too many. `sums`: the sides whose address registers can also be read as numbers."""
    keys = cluster(accesses, target, share=_NEAR)
    found = _with_registers(keys, iterator, registers, sums=sums)
    if len(found) == len(keys):
        return found
    for key, members in _by_key(cluster(accesses, target, share=_FAR)).items():
        if sum(k.side == key.side for k in set(keys.values())) > registers[key.side]:
            keys.update(dict.fromkeys(members, key))
    wide = _with_registers(keys, iterator, registers, sums=sums)
    return wide if len(wide) == len(keys) else found


def _by_key(keys: Mapping[Access, StreamKey]) -> dict[StreamKey, list[Access]]:
    found: dict[StreamKey, list[Access]] = {}
    for access, key in keys.items():
        found.setdefault(key, []).append(access)
    return found


def _with_registers(
    keys: dict[Access, StreamKey], iterator: str, registers: Mapping[Side, int], *, sums: Container[Side]
) -> dict[Access, StreamKey]:
    spare: set[StreamKey] = set()
    for side, most in registers.items():
        uses: dict[StreamKey, int] = {}
        for key in keys.values():
            if key.side == side:
                uses[key] = uses.get(key, 0) + 1
        computed = [k for k in uses if k.indexed]
        most -= _COMPUTED if computed else 0
        # Such a register is read as a number, which one that advances with the loop can't be.
        moving = [k for k in computed if side not in sums or dict(k.terms).get(iterator)]
        spare.update(moving)
        uses = {k: n for k, n in uses.items() if k not in moving}
        if len(uses) > most:
            ranked = sorted(uses, key=lambda k: (-uses[k], k))
            spare |= set(ranked[max(most - 1, 0) :])
    return {access: key for access, key in keys.items() if key not in spare}


def _scale(access: Access, target: Target) -> int:
    """The bytes that 1 in the immediate of such an access stands for, at least."""
    size = ELEM_BYTES[access.elem]
    rows = (i.memory for i in target.instructions if i.memory is not None and i.compile)
    return min((m.scale for m in rows if m.side == access.side and m.scale >= size), default=size)


def accesses_below(loop: Loop) -> list[Access]:
    found = body_accesses([c.next for c in loop.carried], loop.body)
    for inner in loops_of(loop.body):
        found += accesses_below(inner)
    return found


def made_below(body: tuple[Stmt, ...]) -> Iterator[str]:
    """The names of values that are made anew each time: of definitions, and of loops that run once from there on."""
    for stmt in body:
        match stmt:
            case Let(name):
                yield name
            case Loop(iterator=name, start=start, trip=Const(value=1), body=inner) if not isinstance(start, Const):
                yield name
                yield from made_below(inner)
            case Loop(body=inner) | If(then=inner):
                yield from made_below(inner)


def stores_below(body: tuple[Stmt, ...]) -> list[Store]:
    found: list[Store] = []
    for stmt in body:
        match stmt:
            case Store():
                found.append(stmt)
            case Loop():
                found += stores_below(stmt.body)
            case If():
                found += stores_below(stmt.then)
            case _:
                pass
    return found


def uses_value(loop: Loop, name: str) -> bool:
    """Whether the iterator is read as a number anywhere in the loop (addresses aside)."""
    terms = [*own_terms(loop.body), *(c.next for c in loop.carried)]
    for inner in loops_of(loop.body):
        if uses_value(inner, name):
            return True
    return any(mentions(t, name) for t in terms)


def mentions(term: Term, name: str) -> bool:
    match term:
        case Var(found):
            return found == name
        case _:
            return any(mentions(child, name) for child in children(term))
