"""Copies of arrays, moved so that vector loads from them begin where the machine's loads may begin.

Where vector loads must begin at a multiple of several elements, other windows take shuffles or a load for each lane. An
array of which many such windows are read is copied once, some elements further on, and these windows come from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from dspgen.vecdsl.analysis.congruence import Congruences
from dspgen.vecdsl.analysis.integer_ranges import Ranges, with_inner_loops
from dspgen.vecdsl.ir.program import (
    ELEM_BYTES,
    Address,
    ArrayDecl,
    Const,
    Elem,
    If,
    Load,
    Loop,
    Program,
    Stmt,
    Store,
    Term,
    Var,
    VType,
)
from dspgen.vecdsl.ir.terms import Names, integer, leaves, map_leaves, map_terms, own_terms, statements

GAIN = 2  # windows for each vector of the copy that make it worth while
_UNKNOWN_TRIP = 8
Place = tuple[str, int]


@dataclass(slots=True)
class _Windows:
    """The windows of one array that lie `shift` elements past a granule: how often they are read, and where from."""

    elem: Elem
    type: VType
    count: int = 0
    low: int = 0
    high: int = 0
    known: bool = True
    addresses: list[Address] = field(default_factory=list)


def skew(program: Program, lanes: int, granule: Callable[[str], int], room: int) -> Program:
    """Moves what is read out of step into copies of its own.

    Before: `for k { use A[k + 1] }`. After: `for v { B[v] = A[v + 1] }; for k { use B[k] }`, all of them vectors.
    Requires: arrays don't overlap; `granule(type)` is how many elements lie between two places where vector loads may
    begin; `room` is how many bytes copies may take. Ensures: the same stores to the arrays there were.
    """
    if all(granule(a.elem) == 1 for a in program.arrays):
        return program
    found = _windows(program, granule)
    everything = with_inner_loops(Ranges(), program.body)
    sizes = {a.name: a.size for a in program.arrays}
    names = Names.of(program)
    copies: dict[Place, tuple[str, int]] = {}
    arrays: list[ArrayDecl] = []
    loops: list[Stmt] = []
    for (array, shift), windows in found.items():
        low, high = _span(windows, everything, lanes, sizes[array])
        first = low - low % granule(windows.elem)
        vectors = -(-(high - shift - first) // lanes)
        size = vectors * lanes
        if windows.count < GAIN * vectors or size * ELEM_BYTES[windows.elem] > room:
            continue
        room -= size * ELEM_BYTES[windows.elem]
        name = names.fresh(f"{array}_{shift}")
        copies[array, shift] = (name, shift + first)
        arrays.append(ArrayDecl(name, windows.elem, size, True))
        loops.append(_copy(array, name, shift + first, vectors, lanes, windows, names.fresh(f"v_{name}")))
    if not copies:
        return program
    congruences = Congruences(program)

    def moved(leaf: Var | Load) -> Term:
        if isinstance(leaf, Var) or not _is_window(leaf):
            return leaf
        shift = congruences.modulo(leaf.address, granule(leaf.elem))
        copy = copies.get((leaf.array, shift or 0))
        return leaf if copy is None else replace(leaf, array=copy[0], address=leaf.address.plus(-copy[1]))

    body = tuple(map_terms(s, lambda t: map_leaves(t, moved)) for s in program.body)
    return replace(program, arrays=(*program.arrays, *arrays), body=(*loops, *body))


def _is_window(load: Load) -> bool:
    return load.type.vector and load.plain and load.stride == 1


def _windows(program: Program, granule: Callable[[str], int]) -> dict[Place, _Windows]:
    """The windows out of step of arrays that the program only reads."""
    congruences = Congruences(program)
    stored = {s.array for s in statements(program.body) if isinstance(s, Store)}
    found: dict[Place, _Windows] = {}
    for load, times in _loads(program.body, 1):
        if not _is_window(load) or load.array in stored:
            continue
        shift = congruences.modulo(load.address, granule(load.elem))
        if shift:
            windows = found.setdefault((load.array, shift), _Windows(load.elem, load.type))
            windows.count += times
            windows.addresses.append(load.address)
    return found


def _span(windows: _Windows, ranges: Ranges, lanes: int, size: int) -> tuple[int, int]:
    """The elements that the windows cover, the end exclusive; those past the array's end are nobody's."""
    lows = [ranges.minimum(a) for a in windows.addresses]
    highs = [ranges.maximum(a) for a in windows.addresses]
    low = min((v for v in lows if v is not None), default=0) if None not in lows else 0
    high = max((v for v in highs if v is not None), default=size) + lanes if None not in highs else size + lanes
    return max(low, 0), min(high, size + lanes)


def _copy(array: str, name: str, first: int, vectors: int, lanes: int, windows: _Windows, iterator: str) -> Loop:
    along = ((iterator, 1),)
    value = Load(array, Address(first, along), 1, windows.elem, windows.type)
    store = Store(name, Address(0, along), 1, windows.elem, value)
    return Loop(iterator, integer(0), integer(vectors), lanes, (), (store,), vectors, vectors)


def _in(term: Term) -> Iterator[Load]:
    return (leaf for leaf in leaves(term) if isinstance(leaf, Load))


def _loads(body: tuple[Stmt, ...], times: int) -> Iterator[tuple[Load, int]]:
    """Every load of the program, with how often it is done at a guess."""
    for stmt in body:
        for term in own_terms(stmt):
            yield from ((load, times) for load in _in(term))
        match stmt:
            case Loop():
                trip = int(stmt.trip.value) if isinstance(stmt.trip, Const) else stmt.max_trip or _UNKNOWN_TRIP
                yield from _loads(stmt.body, times * trip)
                for carried in stmt.carried:
                    yield from ((load, times * trip) for load in _in(carried.next))
            case If():
                yield from _loads(stmt.then, times)
            case _:
                pass
