"""A straight-line region of a program as a term graph, and a choice of nodes as statements again.

Loads carry a version of memory, so that one term means one value: a load after a store that may write what it reads
is another term than the same load before. Stores to other arrays, or to other elements at the same variable part of
the address, don't matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dspgen.rewrite.graph import Memory, Node, TermGraph, constant_text
from dspgen.rewrite.patterns import COMPARISONS
from dspgen.vecdsl.ir import Const, Let, Load, Op, Store, Term, Var


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
    """`roots` in program order: of the kept Lets, the stores, then the ends. `scalar_stride` is how loads write it."""

    region: Region
    graph: TermGraph
    roots: tuple[Root, ...]
    lanes: int
    scalar_stride: int


def elements(constant: int, stride: int, *, vector: bool, pair: bool, lanes: int) -> frozenset[int]:
    """The elements that a load touches, counted from the variable part of its address."""
    if not vector:
        return frozenset((constant, constant + 1) if pair else (constant,))
    if not pair:
        return frozenset(range(constant, constant + stride * lanes, stride))
    if stride == 1:
        return frozenset(range(constant, constant + 2 * lanes))
    return frozenset(constant + stride * k + half for k in range(lanes) for half in (0, 1))


def _stored(store: Store, lanes: int) -> frozenset[int]:
    count = (store.active if store.active is not None else lanes) if store.value.type.vector else 1
    step = store.stride if store.value.type.vector else 1
    return frozenset(store.address.constant + step * k for k in range(count))


class Writes:
    """The region's stores, for asking which of them may write what a load reads."""

    def __init__(self, region: Region, lanes: int) -> None:
        self.lanes = lanes
        self.stores: dict[str, list[tuple[int, tuple[tuple[str, int], ...], frozenset[int]]]] = {}
        for index, stmt in enumerate(region.stmts):
            if isinstance(stmt, Store):
                entry = (index, stmt.address.terms, _stored(stmt, lanes))
                self.stores.setdefault(stmt.array, []).append(entry)

    def _touching(self, array: str, terms: tuple[tuple[str, int], ...], read: frozenset[int]) -> Iterator[int]:
        for index, stored_terms, stored in self.stores.get(array, ()):
            if stored_terms != terms or not stored.isdisjoint(read):
                yield index

    def version(self, array: str, terms: tuple[tuple[str, int], ...], read: frozenset[int], position: int) -> int:
        """1 + the last store before `position` that may write an element of `read`; 0 for none."""
        return max((i + 1 for i in self._touching(array, terms, read) if i < position), default=0)

    def deadline(self, memory: Memory, read: frozenset[int], default: int) -> int:
        """The first store from `memory.version` on that may write an element of `read`: the last place to load it."""
        later = (i for i in self._touching(memory.array, memory.terms, read) if i >= memory.version)
        return min(later, default=default)


def build(region: Region, lanes: int) -> Built:
    """The terms of the region, each once, with the names that it binds replaced by their values."""
    maker = _Maker(region, lanes)
    roots = []
    for position, stmt in enumerate(region.stmts):
        node = maker.term(stmt.value, position)
        if isinstance(stmt, Let):
            maker.names[stmt.name] = node
            if stmt.name in region.kept:
                roots.append(Root(position, node))
        else:
            roots.append(Root(position, node))
            maker.after_store()
    roots += [Root(len(region.stmts), maker.term(t, len(region.stmts))) for t in region.ends]
    maker.graph.roots = [r.node for r in roots]
    return Built(
        region, maker.graph, tuple(roots), lanes, maker.scalar_stride if maker.scalar_stride is not None else 1
    )


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
            if isinstance(term, Op) and term.name != "ld_pair":
                missing = [a for a in term.args if id(a) not in self.known]
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
                return self._load(term, position, pair=False)
            case Op(name="ld_pair", args=(Load() as low,)):
                return self._load(low, position, pair=True)
            case Op(name, args, type, imm):
                elem = args[0].type.elem if name in COMPARISONS else type.elem
                numbers = tuple(self.known[id(a)] for a in args)
                if name == "bcast" and (scalar := self.graph.nodes[numbers[0]]).kind == "const":
                    return self.graph.add(Node("const", "const", scalar.elem, True, text=scalar.text))
                return self.graph.add(Node("op", name, elem, type.vector, numbers, imm))

    def _load(self, load: Load, position: int, *, pair: bool) -> int:
        vector = load.type.vector
        if not vector and self.scalar_stride is None:
            self.scalar_stride = load.stride
        stride = load.stride if vector else 0
        read = elements(load.address.constant, stride, vector=vector, pair=pair, lanes=self.lanes)
        version = self.writes.version(load.array, load.address.terms, read, position)
        memory = self.graph.memory(Memory(load.array, version, load.address.terms, load.elem))
        kind = "ld_pair" if pair else "ld"
        return self.graph.add(
            Node(kind, kind, load.type.elem, vector, memory=memory, constant=load.address.constant, stride=stride)  # type: ignore[arg-type]
        )


def load_elements(node: Node, lanes: int) -> frozenset[int]:
    """The elements that a load node touches."""
    return elements(node.constant, node.stride, vector=node.vector, pair=node.kind == "ld_pair", lanes=lanes)


def reads(memories: Sequence[Memory], lanes: int) -> Callable[[Node], tuple[Memory, frozenset[int]]]:
    """A function from a load node to its memory and elements, remembering what it computed."""
    known: dict[Node, frozenset[int]] = {}

    def read(node: Node) -> tuple[Memory, frozenset[int]]:
        if node not in known:
            known[node] = load_elements(node, lanes)
        return memories[node.memory], known[node]

    return read
