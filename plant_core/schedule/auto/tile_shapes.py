"""The order, the vector loop and the register tile of one statement's nest, by a model of the innermost loop.

A Shape runs `outer` loops (tiled ones by their tiles), then the sequential loop `inner`, and in its body one register
tile: the `unroll`ed loops and `vector`, all written out. What doesn't move with `inner` stays in registers over it.
The model counts cycles for one pass through that body: arithmetic, memory instructions, the latency of what is
carried, and the cache lines that come in; after Wolf, Maydan and Chen (MICRO 1996) for the tile, and Kennedy and
McKinley's loop cost (ICS 1992) for the lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product
from math import prod

from plant_core.analysis.dependence_graph import Edge, Graph
from plant_core.analysis.statement_facts import Facts, Operation, Touch


@dataclass(frozen=True, slots=True)
class Machine:
    """What the model knows of a CPU: bytes of a vector, registers, caches in bytes, and rough costs in cycles.

    The defaults are those of a current x86 core with AVX-512.
    """

    vector_bytes: int = 64
    registers: int = 30
    first_cache: int = 32 << 10
    second_cache: int = 1 << 20
    third_cache: int = 32 << 20
    latency: float = 4.0
    gather: float = 1.2
    reduction: float = 8.0
    line: int = 64
    threads: int = 2

    @staticmethod
    def of(vector_bytes: int, threads: int) -> Machine:
        """A core whose vectors have `vector_bytes`: 64 come with 32 registers on x86, less with 16."""
        return Machine(vector_bytes, 30 if vector_bytes >= 64 else 14, threads=threads)


@dataclass(frozen=True, slots=True)
class Shape:
    """See the module. `unroll` has (loop, factor) pairs; `vectors` how many vectors lie side by side. `cost` is in
    cycles for one instance. `reduces`: the vector loop carries a reduction."""

    outer: tuple[str, ...]
    inner: str | None
    unroll: tuple[tuple[str, int], ...] = ()
    vector: str | None = None
    vectors: int = 1
    lanes: int = 1
    reduces: bool = False
    cost: float = 0.0


FACTORS = (1, 2, 4, 6, 8)
PAIRS = ((2, 2), (2, 4), (4, 2), (4, 4), (4, 6), (6, 4))
VECTORS = (1, 2, 3, 4, 6)
MOST_PERMUTED = 4


def shapes(
    graph: Graph, name: str, free: tuple[str, ...], edges: tuple[Edge, ...], around: tuple[str, ...], machine: Machine
) -> list[Shape]:
    """The legal Shapes of a statement whose loops `free` may be ordered as `edges` allow, inside loops `around`."""
    return list(_shapes(graph, graph.facts[name], free, edges, around, machine))


def best_shape(
    graph: Graph, name: str, free: tuple[str, ...], edges: tuple[Edge, ...], around: tuple[str, ...], machine: Machine
) -> Shape:
    """The cheapest of `shapes`, or the loops as they are in text."""
    facts = graph.facts[name]
    found = min(shapes(graph, name, free, edges, around, machine), key=lambda s: s.cost, default=None)
    return found or Shape(free[:-1], free[-1] if free else None, cost=plain_cost(facts, around, machine))


def plain_cost(facts: Facts, around: tuple[str, ...], machine: Machine, *, carried: bool = True) -> float:
    """Cycles for one instance by itself, in the innermost loop of `around`."""
    inner = around[-1] if around else None
    return cycles(facts, Shape(around[:-1], inner), around, machine, carried)


def _shapes(
    graph: Graph,
    facts: Facts,
    free: tuple[str, ...],
    edges: tuple[Edge, ...],
    around: tuple[str, ...],
    machine: Machine,
) -> Iterator[Shape]:
    strict = tuple(e for e in edges if not e.relaxed)
    width = machine.vector_bytes // facts.elem
    for vector in (None, *free):
        kind = _lane_kind(graph, free, edges, vector)
        if kind is None:
            continue
        for order in _orders(graph, free, strict):
            inner = order[-1] if order else None
            waits = any(not graph.aligned(e, inner, inner) for e in edges) if inner is not None else False
            for factors, vectors in _tiles(facts, order, vector, width, machine, waits):
                lanes = width if vector is not None else 1
                shape = Shape(order[:-1], inner, factors, vector, vectors, lanes, kind == "reduction")
                if not _tileable(graph, shape, strict):
                    continue
                cost = cycles(facts, shape, (*around, *order), machine, waits)
                if machine.threads > 1 and order and all(graph.aligned(e, order[0], order[0]) for e in edges):
                    cost /= machine.threads
                yield Shape(order[:-1], inner, factors, vector, vectors, lanes, kind == "reduction", cost)


def _lane_kind(graph: Graph, free: tuple[str, ...], edges: tuple[Edge, ...], vector: str | None) -> str | None:
    """Whether the loop may be innermost and across lanes: "parallel", "reduction", or None."""
    if vector is None:
        return "parallel"
    left: list[Edge] = []
    for edge in edges:
        kept: Edge | None = edge
        for loop in free:
            if loop != vector and kept is not None:
                kept = graph.inside(kept, loop, loop)
        if kept is not None:
            left.append(kept)
    if not left:
        return "parallel"
    reducible = all(e.relaxed for e in left) and graph.facts[left[0].source].reduction is not None
    return "reduction" if reducible else None


def _orders(graph: Graph, free: tuple[str, ...], strict: tuple[Edge, ...]) -> Iterator[tuple[str, ...]]:
    """The legal orders of the loops as they are walked, the vector loop's strips among them."""
    candidates = permutations(free) if len(free) <= MOST_PERMUTED else iter((free,))
    for order in candidates:
        if _legal(graph, order, strict):
            yield order


def _legal(graph: Graph, order: tuple[str, ...], strict: tuple[Edge, ...]) -> bool:
    left = list(strict)
    for loop in order:
        if not all(graph.kept(e, loop, loop) for e in left):
            return False
        left = [kept for e in left if (kept := graph.inside(e, loop, loop)) is not None]
    return True


def _tileable(graph: Graph, shape: Shape, strict: tuple[Edge, ...]) -> bool:
    """Whether the loops of the register tile may be cut into tiles that go inside `inner`."""
    cut = [name for name, factor in shape.unroll if factor > 1]
    if shape.vector is not None and shape.vector != shape.inner:
        cut.append(shape.vector)
    if not cut:
        return True
    first = min(shape.outer.index(name) for name in cut if name in shape.outer) if set(cut) & set(shape.outer) else None
    if first is None:
        return True
    left = list(strict)
    for loop in shape.outer[:first]:
        left = [kept for e in left if (kept := graph.inside(e, loop, loop)) is not None]
    moved = (*shape.outer[first:], *((shape.inner,) if shape.inner is not None else ()))
    return all(graph.kept(e, loop, loop) for e in left for loop in moved)


def _tiles(
    facts: Facts, order: tuple[str, ...], vector: str | None, width: int, machine: Machine, waits: bool
) -> Iterator[tuple[tuple[tuple[str, int], ...], int]]:
    """Register tiles worth a look: along loops that some access is still in, or that hide what `inner` waits for."""
    inner = order[-1] if order else None
    side = [name for name in order[:-1] if name != vector and facts.trips[name] > 1 and (waits or _reused(facts, name))]
    most_vectors = max(1, facts.trips[vector] // width) if vector is not None else 1
    for vectors in _widths(facts, inner, vector, waits):
        if vectors > most_vectors:
            break
        yield (), vectors
        for name in side:
            for factor in FACTORS[1:]:
                if factor <= facts.trips[name] and factor * vectors <= machine.registers:
                    yield ((name, factor),), vectors
        if vector is None or inner == vector:
            for a, b in product(side, side):
                if order.index(a) < order.index(b):
                    for first, second in PAIRS:
                        if first <= facts.trips[a] and second <= facts.trips[b]:
                            yield ((a, first), (b, second)), vectors


def _widths(facts: Facts, inner: str | None, vector: str | None, waits: bool) -> tuple[int, ...]:
    """How many vectors side by side are worth a look."""
    if vector is None or not all(abs(t.stride(vector)) in (0, facts.elem) for t in facts.touches if t.known):
        return (1,)
    return VECTORS if waits or _reused(facts, vector) else VECTORS[:2]


def _reused(facts: Facts, loop: str) -> bool:
    """Whether some access stays where it is as the loop advances."""
    return any(t.known and not t.stride(loop) and t.strides for t in facts.touches)


def _copies(touch: Touch, shape: Shape) -> int:
    """How many different vectors or elements one register tile reaches by this access."""
    count = prod(factor for name, factor in shape.unroll if touch.stride(name))
    return count * (shape.vectors if shape.vector is not None and touch.stride(shape.vector) else 1)


def cycles(facts: Facts, shape: Shape, order: tuple[str, ...], machine: Machine, carried: bool) -> float:
    """Cycles for one instance under `shape`; `order` has all the loops around the register tile."""
    lanes = shape.lanes
    tiles = prod(factor for _, factor in shape.unroll) * shape.vectors
    arithmetic = sum(_operation_cost(o, shape, facts) for o in facts.operations)
    trip = max(1, facts.trips[shape.inner]) if shape.inner is not None else 1
    memory, lines, live = 0.0, 0.0, 0
    for touch in facts.touches:
        copies = _copies(touch, shape)
        once = _memory_cost(touch, shape, facts, machine) * copies
        if touch.own:
            once *= 1.5
            live += copies
        still = shape.inner is not None and not touch.stride(shape.inner) and touch.known
        memory += once / trip if still else once
        lines += _line_cost(touch, shape, order, facts, machine) * copies
        live += 0 if touch.own else copies if still else min(copies, 4)
    if live > machine.registers:
        memory += 4.0 * (live - machine.registers)
    steps = 1 if facts.reduction is not None else sum(4 if o.kind == "slow" else 1 for o in facts.operations)
    chain = machine.latency * steps
    waiting = chain if carried else 0.0
    if shape.reduces:
        passes = max(1.0, trip / (lanes * shape.vectors)) if shape.inner == shape.vector else 1.0
        arithmetic += machine.reduction * sum(_copies(t, shape) for t in facts.touches if t.own) / passes
    parts = (arithmetic, memory, waiting, lines)
    # What waits for one thing hides most of the others.
    busiest = max(parts)
    cost = (busiest + 0.3 * (sum(parts) - busiest) + 0.5) / (tiles * lanes)
    return cost * _wasted(facts, shape) * (1 + tiles / LARGE_BODY)


def _wasted(facts: Facts, shape: Shape) -> float:
    """How many times the work there is that tiles of full size would do."""
    factors = dict(shape.unroll)
    if shape.vector is not None:
        factors[shape.vector] = shape.lanes * shape.vectors
    return prod(-(-facts.trips[n] // f) * f / max(1, facts.trips[n]) for n, f in factors.items())


LARGE_BODY = 1000
"""Copies of a statement that make its register tile cost twice as much, in code to fetch."""
_COSTS = {"fused": (0.5, 0.25), "slow": (16.0, 6.0), "call": (320.0, 20.0)}
"""Cycles of an operation on a vector and on a scalar."""


def _operation_cost(operation: Operation, shape: Shape, facts: Facts) -> float:
    """Cycles for all the copies of an operation in one register tile."""
    copies = prod(factor for name, factor in shape.unroll if name in operation.varies)
    wide, narrow = _COSTS[operation.kind]
    cost = copies * (wide * shape.vectors if shape.vector in operation.varies else narrow)
    still = shape.inner is not None and shape.inner not in operation.varies
    return cost / max(1, facts.trips[shape.inner]) if still and shape.inner is not None else cost


def _memory_cost(touch: Touch, shape: Shape, facts: Facts, machine: Machine) -> float:
    if not touch.known:
        return machine.gather * shape.lanes
    stride = touch.stride(shape.vector)
    if shape.vector is None or stride == 0:
        if touch.written and shape.vector is not None and not touch.own:
            return machine.gather * shape.lanes
        return 0.5
    if abs(stride) == facts.elem:
        return (1.0 if touch.written else 0.5) if stride > 0 else 2.0
    return machine.gather * shape.lanes


def _line_cost(touch: Touch, shape: Shape, order: tuple[str, ...], facts: Facts, machine: Machine) -> float:
    """Cycles waited for cache lines, for one copy of the access and one pass of the innermost loop."""
    if shape.inner is None or not touch.stride(shape.inner):
        return 0.0
    step = abs(touch.stride(shape.inner))
    if shape.inner == shape.vector:
        step *= shape.lanes  # one copy is one vector
    stride = abs(touch.stride(shape.vector)) if shape.vector is not None else 0
    wide = shape.lanes * facts.elem / machine.line if stride == facts.elem else 1.0
    if stride > facts.elem:
        wide = shape.lanes * min(1.0, stride / machine.line)
    if shape.inner == shape.vector and stride == facts.elem:
        lines = step / machine.line
    else:
        lines = wide * min(1.0, step / machine.line)
    fetch = _fetch(touch, order, facts, machine)
    sequential = step <= machine.line or (shape.inner == shape.vector and stride == facts.elem)
    pages = 1.0 if step >= 4096 and fetch > 0 else 0.0
    return lines * fetch * (0.5 if sequential else 1.0) * (2.0 if touch.written else 1.0) + pages


def _fetch(touch: Touch, order: tuple[str, ...], facts: Facts, machine: Machine) -> float:
    """Cycles for a line from where it was left when the loops last came by."""
    swept = 1.0
    for loop in reversed(order):
        stride = abs(touch.stride(loop))
        trip = max(1, facts.trips.get(loop, 1))
        if stride == 0 and swept > 1:
            break
        if stride:
            swept *= max(1.0, trip * min(1.0, stride / machine.line))
    held = swept * machine.line
    if held <= machine.first_cache:
        return 0.0
    if held <= machine.second_cache:
        return 2.0
    return 12.0 if held <= machine.third_cache else 30.0
