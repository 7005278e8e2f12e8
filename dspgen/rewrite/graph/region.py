"""A straight-line region of a program as a term graph, and a choice of nodes as statements again.

Loads carry a version of memory, so that one term means one value: a load after a store that may write what it reads
is another term than the same load before. Stores to other arrays, or to other elements at the same variable part of
the address, don't matter. An access with an index may touch its whole array; a mask only takes elements away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dspgen.rewrite.graph.enodes import Memory, Node, TermGraph, constant_text, load_op
from dspgen.rewrite.graph.patterns import COMPARISONS
from dspgen.vecdsl.ir.program import PAIRS, Const, Let, Load, Op, Store, Term, Var, covered
from dspgen.vecdsl.ir.terms import children, own_terms


@dataclass(frozen=True, slots=True)
class Region:
    """`ends` are terms evaluated after the statements; `kept` names of Lets that others read."""

    stmts: tuple[Let | Store, ...]
    ends: tuple[Term, ...]
    kept: frozenset[str]


@dataclass(frozen=True, slots=True)
class Root:
    """A term that must be there at a position: before statement `position`, or after all for the number of them."""

    position: int
    node: int


@dataclass(frozen=True, slots=True)
class Built:
    """`roots` in program order: of the kept Lets, the stores (value, index, mask), then the ends.

    `scalar_stride` is how loads write it. `places` are the nodes of vector stores' indices.
    """

    region: Region
    graph: TermGraph
    roots: tuple[Root, ...]
    lanes: int
    scalar_stride: int
    places: tuple[int, ...] = ()


# The elements that an access touches, counted from the variable part of its address; None for any of the array.
Touched = frozenset[int] | None


def lane_offset(lane: int, stride: int, period: int, jump: int) -> int:
    """How far from its address an access touches for a lane."""
    return lane * stride if not period else lane % period * stride + lane // period * jump


def _touched(access: Load | Store, *, vector: bool, pair: bool, count: int) -> Touched:
    if access.index is not None:
        return None
    if not vector:
        return frozenset(range(access.address.constant, access.address.constant + 1 + pair))
    base, stride = access.address.constant, access.stride
    if (words := covered(access.elem)) > 1:
        return frozenset(range(base, base + words * count))
    begins = (base, base + (count if stride == 1 else 1)) if pair else (base,)
    if stride and not access.period:
        return frozenset().union(*(range(b, b + count * stride, stride) for b in begins))
    offsets = [lane_offset(k, stride, access.period, access.jump) for k in range(count)]
    return frozenset(b + offset for offset in offsets for b in begins)


def store_touches(store: Store, lanes: int) -> Touched:
    """The elements that a store writes, counted from the variable part of its address."""
    pair = isinstance(store.value, Op) and store.value.name in PAIRS
    count = lanes if store.active is None or pair else min(store.active, lanes)
    return _touched(store, vector=store.value.type.vector, pair=pair, count=count)


def load_touches(load: Load, lanes: int, *, pair: bool) -> Touched:
    """The elements that a load reads, counted likewise."""
    return _touched(load, vector=load.type.vector, pair=pair, count=lanes)


def meet(one: Touched, other: Touched) -> bool:
    """Whether two accesses at the same variable address touch a common element."""
    return one is None or other is None or not one.isdisjoint(other)


class Writes:
    """The region's stores, for asking which of them may write what a load reads."""

    def __init__(self, region: Region, lanes: int) -> None:
        self.lanes = lanes
        self.stores: dict[str, list[tuple[int, tuple[tuple[str, int], ...], Touched]]] = {}
        for index, stmt in enumerate(region.stmts):
            if isinstance(stmt, Store):
                entry = (index, stmt.address.terms, store_touches(stmt, lanes))
                self.stores.setdefault(stmt.array, []).append(entry)

    def _touching(self, array: str, terms: tuple[tuple[str, int], ...], read: Touched) -> Iterator[int]:
        for index, stored_terms, stored in self.stores.get(array, ()):
            if stored_terms != terms or meet(stored, read):
                yield index

    def version(self, array: str, terms: tuple[tuple[str, int], ...], read: Touched, position: int) -> int:
        """1 + the last store before `position` that may write an element of `read`; 0 for none."""
        return max((i + 1 for i in self._touching(array, terms, read) if i < position), default=0)

    def deadline(self, memory: Memory, read: Touched, default: int) -> int:
        """The first store from `memory.version` on that may write an element of `read`: the last place to load it."""
        later = (i for i in self._touching(memory.array, memory.terms, read) if i >= memory.version)
        return min(later, default=default)


def build(region: Region, lanes: int) -> Built:
    """The terms of the region, each once, with the names that it binds replaced by their values."""
    maker = _Maker(region, lanes)
    roots, places = list[Root](), list[int]()
    for position, stmt in enumerate(region.stmts):
        nodes = [maker.term(t, position) for t in own_terms(stmt)]
        if isinstance(stmt, Let):
            (maker.names[stmt.name],) = nodes
        if isinstance(stmt, Store) or stmt.name in region.kept:
            roots += [Root(position, node) for node in nodes]
        if isinstance(stmt, Store):
            places += nodes[1:2] if stmt.index is not None and stmt.value.type.vector else ()
            maker.after_store()
    roots += [Root(len(region.stmts), maker.term(t, len(region.stmts))) for t in region.ends]
    maker.graph.roots = [r.node for r in roots]
    stride = maker.scalar_stride if maker.scalar_stride is not None else 1
    return Built(region, maker.graph, tuple(roots), lanes, stride, tuple(places))


class _Maker:
    def __init__(self, region: Region, lanes: int) -> None:
        self.graph = TermGraph()
        self.names: dict[str, int] = {}
        self.writes = Writes(region, lanes)
        self.lanes = lanes
        self.scalar_stride: int | None = None
        self.known: dict[int, int] = {}  # by identity: the region keeps its terms alive

    def after_store(self) -> None:
        self.known.clear()

    def term(self, root: Term, position: int) -> int:
        """The root's node number; the walk keeps its own stack, as terms may be deep."""
        stack: list[Term] = [root]
        while stack:
            term = stack[-1]
            if id(term) in self.known:
                stack.pop()
                continue
            inner = children(term.args[0]) if isinstance(term, Op) and term.name == "ld_pair" else children(term)
            missing = [a for a in inner if id(a) not in self.known]
            if missing:
                stack.extend(reversed(missing))
                continue
            self.known[id(term)] = self._number(term, position)
            stack.pop()
        return self.known[id(root)]

    def _number(self, term: Term, position: int) -> int:
        match term:
            case Const(value, type):
                return self.graph.add(
                    Node("const", "const", type.elem, type.vector, text=constant_text(value, type.elem))
                )
            case Var(name, type):
                if name in self.names:
                    return self.names[name]
                return self.graph.add(Node("var", "var", type.elem, type.vector, text=name))
            case Load():
                return self._load(term, position)
            case Op(name="ld_pair", args=(Load() as low,)):
                return self._load_pair(term, low, position)
            case Op(name="vec", args=args, type=type) if all(isinstance(a, Const) for a in args):
                texts = [constant_text(a.value, type.elem) for a in args if isinstance(a, Const)]
                kind: Literal["const", "vec"] = "const" if len(set(texts)) == 1 else "vec"
                text = texts[0] if kind == "const" else " ".join(texts)
                return self.graph.add(Node(kind, kind, type.elem, True, text=text))
            case Op(name, args, type, imm):
                elem = args[0].type.elem if name in COMPARISONS else type.elem
                numbers = tuple(self.known[id(a)] for a in args)
                if name == "bcast" and (scalar := self.graph.nodes[numbers[0]]).kind == "const":
                    # A narrow one is in each part of a word, where the scalar is in the lowest part only.
                    if type.elem == scalar.elem:
                        return self.graph.add(Node("const", "const", scalar.elem, True, text=scalar.text))
                return self.graph.add(Node("op", name, elem, type.vector, numbers, imm))

    def _load(self, load: Load, position: int) -> int:
        vector = load.type.vector
        stride, period, jump = (load.stride, load.period, load.jump) if vector else (0, 0, 0)
        stride, period, jump = _simplest(stride, period, jump, self.lanes)
        args = tuple(self.known[id(t)] for t in children(load))
        op = load_op(period, indexed=load.index is not None, masked=load.mask is not None)
        memory = self._memory(load, position, pair=False)
        return self.graph.add(
            Node("ld", op, load.type.elem, vector, args, (), "", memory, load.address.constant, stride, period, jump)
        )

    def _load_pair(self, pair: Op, low: Load, position: int) -> int:
        vector, address = low.type.vector, low.address
        if low.plain:
            memory = self._memory(low, position, pair=True)
            stride = low.stride if vector else 0
            return self.graph.add(
                Node("ld_pair", "ld_pair", low.type.elem, vector, (), (), "", memory, address.constant, stride)
            )
        second = replace(low, address=address.plus(self.lanes if vector and low.stride == 1 else 1))
        halves = (self._load(low, position), self._load(second, position))
        return self.graph.add(Node("op", "pair", pair.type.elem, vector, halves))

    def _memory(self, load: Load, position: int, *, pair: bool) -> int:
        if not load.type.vector and self.scalar_stride is None:
            self.scalar_stride = load.stride
        read = load_touches(load, self.lanes, pair=pair)
        version = self.writes.version(load.array, load.address.terms, read, position)
        return self.graph.memory(Memory(load.array, version, load.address.terms, load.elem))


def _simplest(stride: int, period: int, jump: int, lanes: int) -> tuple[int, int, int]:
    """The same elements with one level of lanes, where that is enough."""
    if not period or period >= lanes:
        return stride, 0, 0
    if period == 1:
        return jump, 0, 0
    return (stride, 0, 0) if jump == period * stride else (stride, period, jump)


def load_elements(node: Node, lanes: int, words: int = 1) -> Touched:
    """The elements that a load node touches, `words` in a row on each lane."""
    if node.indexed:
        return None
    if not node.vector:
        return frozenset(range(node.constant, node.constant + 1 + node.pair))
    first = [lane_offset(k, node.stride, node.period, node.jump) for k in range(lanes)]
    halves = (0, lanes if node.stride == 1 else 1) if node.pair else (0,)
    parts = range(words) if words > 1 else halves
    return frozenset(node.constant + offset + part for offset in first for part in parts)


def reads(memories: Sequence[Memory], lanes: int) -> Callable[[Node], tuple[Memory, Touched]]:
    """A function from a load node to its memory and elements, remembering what it computed."""
    known: dict[Node, Touched] = {}

    def read(node: Node) -> tuple[Memory, Touched]:
        if node not in known:
            known[node] = load_elements(node, lanes, covered(memories[node.memory].elem))
        return memories[node.memory], known[node]

    return read
