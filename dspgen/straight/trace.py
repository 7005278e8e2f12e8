"""A small function run on symbols: one graph of scalar operations, and the node that each stored element ends as.

Loops of constant bounds unroll into their instances, in schedule order; guards are in the domains. Stores go to a
table by element and loads read it back, so local arrays and intermediate values vanish into edges of the graph. Equal
operations are one node. This is the form that Diospyros (ASPLOS 2021) lifts its kernels to before it vectorizes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import islpy as isl

from dspgen.errors import NoSchedule, Problem
from dspgen.vecdsl.analysis.integer_ranges import Ranges
from dspgen.vecdsl.build.expressions import Translator, dtype_of
from dspgen.vecdsl.ir.constant_folding import make
from dspgen.vecdsl.ir.program import Address, Const, Elem, Load, Op, Term, Var, VType
from dspgen.vecdsl.ir.terms import INTEGER, integer, leaves, register_elem
from plant_core.ir.accesses import Linear, all_bufs, linear
from plant_core.ir.func import Buf, Comp, Expr, Func
from plant_core.ir.func import Load as MemoryLoad

Element = tuple[str, int]
"""An array, and the row-major number of an element in it."""

_NODE = "%"  # no C identifier starts with it
_MOST_TERMS = 48  # of the subscripts of one load


@dataclass(frozen=True, slots=True)
class Node:
    """An operation of `dspgen.vecdsl.ir.program.OPS` on scalar nodes; or a leaf, whose `leaf` has its term."""

    name: str
    args: tuple[int, ...]
    type: VType
    leaf: Const | Var | Load | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """Where a node's value was last stored: the element, and how many stores that element had got by then."""

    element: Element
    version: int


@dataclass(slots=True)
class Trace:
    """`nodes` in an order in which operands come first; `outputs` the last value of each element of a parameter."""

    func: Func
    nodes: list[Node] = field(default_factory=list)
    outputs: dict[Element, int] = field(default_factory=dict)
    written: dict[int, Written] = field(default_factory=dict)

    def element(self, node: int) -> Element | None:
        """The element of memory, as it was on entry, that a node loads."""
        leaf = self.nodes[node].leaf
        return (leaf.array, leaf.address.constant) if isinstance(leaf, Load) and leaf.index is None else None

    def constant(self, node: int) -> Const | None:
        leaf = self.nodes[node].leaf
        return leaf if isinstance(leaf, Const) else None

    def live(self) -> list[bool]:
        """Which nodes an output depends on."""
        found = [False] * len(self.nodes)
        for output in self.outputs.values():
            found[output] = True
        for number in range(len(self.nodes) - 1, -1, -1):
            if found[number]:
                for arg in self.nodes[number].args:
                    found[arg] = True
        return found

    def operations(self, outputs: Iterable[int]) -> set[int]:
        """The nodes that these depend on, leaves apart."""
        found: set[int] = set()
        pending = list(outputs)
        while pending:
            node = pending.pop()
            if node not in found and self.nodes[node].leaf is None:
                found.add(node)
                pending += self.nodes[node].args
        return found

    def depth(self) -> int:
        """The most operations in a chain."""
        found: list[int] = []
        for node in self.nodes:
            found.append(1 + max((found[a] for a in node.args), default=0))
        return max(found, default=0)

    def uses(self) -> list[int]:
        """How many live nodes and outputs read each node."""
        live, counts = self.live(), [0] * len(self.nodes)
        for number, node in enumerate(self.nodes):
            for arg in node.args if live[number] else ():
                counts[arg] += 1
        for output in self.outputs.values():
            counts[output] += 1
        return counts


def trace(func: Func, *, most: int) -> Trace:
    """The graph of `func`'s operations. Raises NoSchedule where `func` has parametric or over `most` instances, or a
    subscript that isn't a constant at each of them, but for reads of what it never writes."""
    return _Tracer(func).run(_instances(func, most))


def refused(message: str, func: Func) -> NoSchedule:
    return NoSchedule(Problem("DG334", message, func.loc))


def _instances(func: Func, most: int) -> list[tuple[Comp, tuple[int, ...]]]:
    """Every instance of every statement, in order of execution."""
    if func.effects or any(c.defines is not None for c in func.comps):
        raise refused("a loop bound is read from memory, or memory is managed", func)
    found: list[tuple[tuple[int, ...], int, tuple[int, ...]]] = []
    for comp in func.comps:
        if _box_size(comp.domain, most if comp.domain.is_box() else 8 * most) is None:
            raise refused(f"the loops have over {most} instances, or bounds that aren't constant", func)
    for number, comp in enumerate(func.comps):
        points = _without_parameters(comp.schedule.intersect_domain(comp.domain).wrap())
        if points is None:
            raise refused("a loop bound isn't constant", func)
        size, width = len(comp.iters), points.dim(isl.dim_type.set)

        def keep(point: isl.Point, number: int = number, size: int = size, width: int = width) -> None:
            values = tuple(point.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(width))
            found.append((values[size:], number, values[:size]))

        points.foreach_point(keep)
        if len(found) > most:
            raise refused(f"the loops have over {most} instances", func)
    return [(func.comps[number], point) for _, number, point in sorted(found)]


def _without_parameters(points: isl.Set) -> isl.Set | None:
    """The same set in a space without parameters; None where it depends on them."""
    fixed = points.project_out(isl.dim_type.param, 0, points.dim(isl.dim_type.param))
    return fixed if fixed.align_params(points.get_space()).is_equal(points) else None


def _box_size(domain: isl.Set, most: int) -> int | None:
    """The number of points of the box around a set; None where there is none, or it has over `most`."""
    if domain.dim(isl.dim_type.param):
        domain = domain.project_out(isl.dim_type.param, 0, domain.dim(isl.dim_type.param))
    size = 1
    for k in range(domain.dim(isl.dim_type.set)):
        if domain.is_empty():
            return 0
        low, high = domain.dim_min_val(k), domain.dim_max_val(k)
        if not low.is_int() or not high.is_int():
            return None
        size *= high.to_python() - low.to_python() + 1
    return size if size <= most else None


class _Tracer:
    def __init__(self, func: Func) -> None:
        self.trace = Trace(func)
        self.buffers: dict[str, Buf] = all_bufs(func)
        self.numbers: dict[Node, int] = {}
        self.memory: dict[Element, int] = {}
        self.versions: dict[Element, int] = {}
        self.stored = {comp.target.buf for comp in func.comps}
        self.forms: dict[int, tuple[MemoryLoad, list[Linear] | None]] = {}  # of subscripts, by the access's identity
        self.left = 0  # terms that the subscripts of a load may still be made of

    def run(self, instances: list[tuple[Comp, tuple[int, ...]]]) -> Trace:
        for comp, point in instances:
            self._statement(comp, point)
        order = {b.name: k for k, b in enumerate(self.trace.func.params)}
        ends = [(e, n) for e, n in self.memory.items() if self.buffers[e[0]].kind == "param"]
        self.trace.outputs = dict(sorted(ends, key=lambda end: (order[end[0][0]], end[0][1])))
        return self.trace

    def _statement(self, comp: Comp, point: tuple[int, ...]) -> None:
        iterators = {name: Address(value) for name, value in zip(comp.iters, point, strict=True)}
        translator = Translator(iterators, {}, lambda access: self._read(access, translator), Ranges(), comp.loc)
        dtype = self.buffers[comp.target.buf].dtype
        value = self._intern(translator.cast(translator.value(comp.value), dtype_of(comp.value), dtype))
        element = self._element(comp.target, translator)
        self.memory[element] = value
        self.versions[element] = self.versions.get(element, 0) + 1
        self.trace.written[value] = Written(element, self.versions[element])

    def _subscripts(self, access: MemoryLoad, translator: Translator) -> list[int] | None:
        """The subscripts where they are sums of multiples of iterators."""
        if id(access) not in self.forms:
            forms = [linear(index) for index in access.indices]
            known = [f for f in forms if f is not None and f[1].keys() <= translator.iterators.keys()]
            self.forms[id(access)] = access, known if len(known) == len(forms) else None
        found = self.forms[id(access)][1]
        at = translator.iterators
        return None if found is None else [c + sum(k * at[n].constant for n, k in terms.items()) for c, terms in found]

    def _element(self, access: MemoryLoad, translator: Translator) -> Element:
        buf, number = self.buffers[access.buf], 0
        known = self._subscripts(access, translator)
        for place, (index, extent) in enumerate(zip(access.indices, buf.extents, strict=True)):
            value = self._number(index, translator) if known is None else known[place]
            if not 0 <= value < extent:
                raise refused(f"a subscript of '{access.buf}' is outside the array", self.trace.func)
            number = number * extent + value
        return access.buf, number

    def _number(self, index: Expr, translator: Translator) -> int:
        value = translator.value(index)
        if isinstance(value, Const):
            return int(value.value)
        found = self.trace.constant(self._intern(value))
        if found is None:
            raise refused("a subscript is known at run time only", self.trace.func)
        return int(found.value)

    def _read(self, access: MemoryLoad, translator: Translator) -> Term:
        if access.buf not in self.stored and (load := self._computed(access, translator)) is not None:
            return Var(f"{_NODE}{self._number_of(Node('load', (), load.type, load))}", load.type)
        element = self._element(access, translator)
        node = self.memory.get(element)
        if node is None:
            buf = self.buffers[access.buf]
            if buf.kind == "local":
                raise refused(f"'{access.buf}' is read before it is set", self.trace.func)
            elem: Elem = buf.dtype
            load = Load(access.buf, Address(element[1]), 1, elem, VType(register_elem(elem), False))
            node = self._number_of(Node("load", (), load.type, load))
        return self.trace.constant(node) or Var(f"{_NODE}{node}", self.trace.nodes[node].type)

    def _computed(self, access: MemoryLoad, translator: Translator) -> Load | None:
        """A load at a place that is known at run time only, made of what there is on entry; None where it is known."""
        if self._subscripts(access, translator) is not None:
            return None
        constant, self.left = 0, _MOST_TERMS
        rest: Term | None = None
        buf = self.buffers[access.buf]
        for index, extent in zip(access.indices, buf.extents, strict=True):
            constant *= extent
            if rest is not None:
                rest = make("mul", (rest, integer(extent)), INTEGER)
            value: Term = self._on_entry(translator.value(index), access)
            while isinstance(value, Op) and value.name == "add" and isinstance(value.args[1], Const):
                constant, value = constant + int(value.args[1].value), value.args[0]
            if isinstance(value, Const):
                constant += int(value.value)
            else:
                rest = value if rest is None else make("add", (rest, value), INTEGER)
        type = VType(register_elem(buf.dtype), False)
        return None if rest is None else Load(access.buf, Address(constant), 1, buf.dtype, type, index=rest)

    def _on_entry(self, term: Term, access: MemoryLoad) -> Term:
        """An integer term with nodes replaced by what they load on entry, or compute from that. What is shared comes
        once for each use, so that there may be many of a place that is chosen step by step."""
        self.left -= 1
        if self.left < 0:
            raise refused(f"a subscript of '{access.buf}' is made of too many terms", self.trace.func)
        if isinstance(term, Var) and term.name.startswith(_NODE):
            node = self.trace.nodes[int(term.name[len(_NODE) :])]
            if node.leaf is not None:
                return node.leaf
            args = tuple(Var(f"{_NODE}{a}", self.trace.nodes[a].type) for a in node.args)
            return self._on_entry(Op(node.name, args, node.type), access)
        if isinstance(term, Op):
            term = make(term.name, tuple(self._on_entry(a, access) for a in term.args), term.type)
        if term.type != INTEGER or any(isinstance(x, Load) and x.array in self.stored for x in leaves(term)):
            raise refused(f"a subscript of '{access.buf}' is known at run time only", self.trace.func)
        return term

    def _intern(self, term: Term) -> int:
        """The node of a term whose variables are nodes and parameters."""
        match term:
            case Const():
                return self._number_of(Node("const", (), term.type, term))
            case Var():
                if term.name.startswith(_NODE):
                    return int(term.name[len(_NODE) :])
                return self._number_of(Node("param", (), term.type, term))
            case Op(name="select", args=(Const(value=value), true, false)):
                return self._intern(true if value else false)
            case Op() if not term.imm:
                return self._number_of(Node(term.name, tuple(self._intern(a) for a in term.args), term.type))
            case _:
                raise refused("an operation on more than single elements", self.trace.func)

    def _number_of(self, node: Node) -> int:
        if node not in self.numbers:
            self.numbers[node] = len(self.trace.nodes)
            self.trace.nodes.append(node)
        return self.numbers[node]
