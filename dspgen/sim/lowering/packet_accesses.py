"""What the members of a packet touch of memory: a load beside a store of one address may get either value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dspgen.sim.ir.program import Node, Op, Slot


@dataclass(frozen=True, slots=True)
class Pair:
    """A load and a store of one packet, and the bytes that each covers, first and past the last, from its address."""

    load: Op
    store: Op
    loaded: tuple[int, int]
    stored: tuple[int, int]

    def meet(self, load: int, store: int) -> bool:
        """Whether they share bytes, at these addresses."""
        return load + self.loaded[0] < store + self.stored[1] and store + self.stored[0] < load + self.loaded[1]


def pairs(slot: Slot) -> tuple[Pair, ...]:
    """Loads beside stores. Where an access leaves gaps between its elements, they count as touched."""
    loads = [(op, extent) for op in slot.ops if (extent := _extent(_loads(op)))]
    stores = [(op, extent) for op in slot.ops if (extent := _extent(_stores(op)))]
    return tuple(Pair(a, b, low, high) for a, low in loads for b, high in stores if a.uid != b.uid)


def far(op: Op, address: int) -> bool:
    """Whether an access leaves the memories that its side is made for."""
    home = op.access.home if op.access is not None else ()
    return bool(home) and not any(low <= address < high for low, high in home)


def span(size: int, lanes: int, stride: int, first: int) -> tuple[int, int]:
    """First byte and the byte after the last that an access covers, from its address."""
    ends = (first, first + stride * (lanes - 1))
    return min(ends) * size, (max(ends) + 1) * size


def _extent(spans: Iterator[tuple[int, int]]) -> tuple[int, int] | None:
    found = list(spans)
    return (min(s[0] for s in found), max(s[1] for s in found)) if found else None


def _loads(op: Op) -> Iterator[tuple[int, int]]:
    todo: list[Node] = [w.value for w in op.writes]
    while todo:
        node = todo.pop()
        todo += node.args
        if node.op == "load":
            yield span(node.width // 8, max(node.lanes, 1), *node.imm)


def _stores(op: Op) -> Iterator[tuple[int, int]]:
    for store in op.stores:
        if store.index is None:
            yield span(store.value.width // 8, max(store.value.lanes, 1), store.stride, store.first)
