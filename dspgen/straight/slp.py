"""Scalar operations of a traced function packed into vectors, from the outputs down.

A group is one node for each lane, `None` where anything will do and `ZERO` where it must be 0. It becomes one vector
term: equal nodes a broadcast; elements of memory a load, or a window of a copy in the frame (`layout`), or a merge of
a few such pieces; equal operations one vector operation on the groups of their operands; sums one sum of slots
(`sums`). What has none of these forms is put together from scalars, lane by lane; scalars come from packed lanes
where they are there, or are computed on the scalar side.

After Diospyros (VanHattum et al., ASPLOS 2021) for what is packed, and superword-level parallelism (Larsen and
Amarasinghe, PLDI 2000) for following operands from seeds; the copies in the frame stand for Diospyros' shuffles.

Exactness: a lane that lacks a summand of its group keeps its sum by a selection; with `reassoc`, where one factor is
an element of memory and the other one value for all lanes, it adds 0 times that value instead, which takes the value
as finite. Without `reassoc`, order and rounding are C's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dspgen.straight.operand_layout import Cells, Layout, Layouts
from dspgen.straight.signed_sums import Slot, Summand, align, align_ordered, is_sum, regular, summands
from dspgen.straight.trace import Node, Trace, refused
from dspgen.target.query.operations import COMMUTATIVE
from dspgen.vecdsl.ir.constant_folding import make
from dspgen.vecdsl.ir.program import Address, Const, Let, Load, Op, Term, Var, VType
from dspgen.vecdsl.ir.terms import Names, as_vector

Group = tuple[int | None, ...]
FLOATS = ("f32", "f64")
Operand = Callable[[Group], Term]
ZERO = -1
"""In a group: the lane must be 0."""

MASK = VType("i32", True)
MOST_PIECES = 4  # that a vector is merged of


@dataclass(frozen=True, slots=True)
class Style:
    """How code is made of the same graph. `chains`: how many parts of a long sum run side by side; `extract`: single
    lanes of packed vectors are taken out, rather than computed again, where that saves more operations than this."""

    reassoc: bool
    fused: frozenset[tuple[str, VType]]  # the multiply-adds that the machine has
    chains: int = 1
    extract: int = 2


@dataclass(frozen=True, slots=True)
class Window:
    """A statement that waits for the layouts: `name` is what the window holds."""

    name: str
    number: int
    cells: Cells
    type: VType


@dataclass(frozen=True, slots=True)
class _Part:
    """One or two factors to be added with a sign, on the lanes of `mask` only."""

    factors: tuple[Term, ...]
    sign: int
    mask: Term | None


@dataclass(slots=True)
class Packer:
    trace: Trace
    lanes: int
    style: Style
    names: Names
    most: int | None = None  # statements, in all
    made: int = 0
    body: list[Let | Window] = field(default_factory=list)
    layouts: Layouts = field(default_factory=Layouts)
    copied: Sequence[Layout] = ()  # what is loaded from copies though it need not be, for all groups to be alike
    vectors: dict[Group, Term] = field(default_factory=dict)
    scalars: dict[int, Term] = field(default_factory=dict)
    lane_of: dict[int, tuple[Term, int]] = field(default_factory=dict)
    pending: set[Group] = field(default_factory=set)
    costs: dict[Group, float] = field(default_factory=dict)
    uses: list[int] = field(init=False)
    alive: list[bool] = field(init=False)
    at_home: dict[tuple[str, int, int], int] = field(init=False)

    def __post_init__(self) -> None:
        self.uses = self.trace.uses()
        self.alive = self.trace.live()
        self.at_home = {
            (*w.element, w.version): node for node, w in self.trace.written.items() if self.alive[node]
        }  # fmt: skip

    def forget(self) -> None:
        """Make what comes next from the beginning, sharing nothing with what was made."""
        for memo in (self.vectors, self.scalars, self.lane_of):
            memo.clear()

    # -- scalars

    def scalar(self, node: int) -> Term:
        """The node's value in a scalar."""
        here = self.trace.nodes[node]
        if here.leaf is not None:
            return here.leaf
        if node not in self.scalars:
            self.scalars[node] = self._scalar(node, here)
        return self.scalars[node]

    def _scalar(self, node: int, here: Node) -> Term:
        if node in self.lane_of and self._missing(node) > self.style.extract:
            vector, lane = self.lane_of[node]
            return self._let("s", Op("lane", (vector,), here.type, (lane,)))
        if is_sum(self.trace, node) and self._free(here.type):
            parts = summands(self.trace, self.uses, node, ordered=False)
            if parts != (Summand(1, (node,)),):
                slots = [Slot((p,)) for p in parts]
                return self._let("s", self._sum(slots, [True], here.type, self._scalar_operand))
        return self._let("s", make(here.name, tuple(self.scalar(a) for a in here.args), here.type))

    def _missing(self, node: int) -> int:
        """How many scalar operations computing the node would take, as far as that matters."""
        seen: set[int] = set()
        pending = [node]
        while pending and len(seen) <= self.style.extract:
            here = pending.pop()
            if here in seen or here in self.scalars or self.trace.nodes[here].leaf is not None:
                continue
            seen.add(here)
            pending += self.trace.nodes[here].args
        return len(seen)

    def _scalar_operand(self, group: Group) -> Term:
        (node,) = group
        assert node is not None
        return self.scalar(node)

    # -- vectors

    def vector(self, group: Group) -> Term:
        """The vector whose lane k is `group[k]`."""
        filled = self._filled(group)
        group = group if filled in self.pending else filled
        if len(same := _distinct(group)) == 1 and same[0] != ZERO:
            group = (same[0],) * self.lanes
        if group not in self.vectors:
            self.pending.add(group)
            self.vectors[group] = self._vector(group)
            self.pending.discard(group)
        return self.vectors[group]

    def _vector(self, group: Group) -> Term:
        distinct = _distinct(group)
        type = self._type(group)
        if len(distinct) == 1:
            return self._uniform(distinct[0], type)
        if all(n == ZERO or self.trace.constant(n) for n in distinct):
            scalar = VType(type.elem, False)
            zero = _number(0, scalar)
            lanes = (zero if n is None or n == ZERO else self.trace.constant(n) or zero for n in group)
            return Op("vec", tuple(lanes), type)
        if all(n == ZERO or self.trace.element(n) for n in distinct):
            return self._memory(group, type)
        if ZERO not in distinct and (packed := self._operation(group, distinct, type)) is not None:
            vector = self._let("v", packed)
            for lane, node in enumerate(group):
                if node is not None:
                    self.lane_of.setdefault(node, (vector, lane))
            return vector
        return self._pieces(group, type) or self._apart(group, type) or self._gathered(group, type)

    def _uniform(self, node: int, type: VType) -> Term:
        value = as_vector(self.scalar(node))
        return value if isinstance(value, Const) else self._let("b", value)

    def _type(self, group: Group) -> VType:
        node = next((n for n in group if n is not None and n != ZERO), None)
        assert node is not None
        return VType(self.trace.nodes[node].type.elem, True)

    def _filled(self, group: Group) -> Group:
        """The lanes that don't matter as neighbours in the array that the others are stored to, where these are
        values of the same step: a later scalar may want them."""
        if None not in group or ZERO in group or not _distinct(group):
            return group
        first, node = next((k, n) for k, n in enumerate(group) if n is not None)
        home = self.trace.written.get(node)
        if home is None or self.trace.nodes[node].leaf is not None:
            return group
        (array, element), version = home.element, home.version
        extents = self.trace.func.buf(array).extents
        row = extents[-1] if extents else 1
        filled: list[int | None] = []
        for lane, own in enumerate(group):
            there = element + lane - first
            other = self.at_home.get((array, there, version)) if there // row == element // row else None
            if own is not None and own != other:
                return group
            same = other is not None and self.trace.nodes[other].name == self.trace.nodes[node].name
            filled.append(other if same else own)
        return tuple(filled)

    # -- operations

    def _operation(self, group: Group, distinct: list[int], type: VType) -> Term | None:
        nodes = [self.trace.nodes[n] for n in distinct]
        if 2 * sum(is_sum(self.trace, n) for n in distinct) >= len(distinct):
            if (total := self._vector_sum(group, type)) is not None:
                return total
        heads = {(n.name, tuple(self.trace.nodes[a].type for a in n.args)) for n in nodes}
        if len(heads) > 1 or nodes[0].leaf is not None:
            return None
        args = self._operands(group, nodes[0])
        # What differs on lanes comes first: its lanes may then serve the scalars.
        terms: dict[int, Term] = {}
        for side in sorted(range(len(args)), key=lambda k: len(_distinct(args[k])) == 1):
            terms[side] = self.vector(args[side])
        return make(nodes[0].name, tuple(terms[k] for k in range(len(args))), type)

    def _operands(self, group: Group, head: Node) -> list[Group]:
        """Groups of operands; those of a commutative operation turned so that lanes resemble the first one."""
        columns: list[list[int | None]] = [[] for _ in head.args]
        for node in group:
            args = [None] * len(head.args) if node is None else list(self.trace.nodes[node].args)
            if node is not None and head.name in COMMUTATIVE and self._unlike(args, head.args):
                args.reverse()
            for column, arg in zip(columns, args, strict=True):
                column.append(arg)
        return [tuple(c) for c in columns]

    def _unlike(self, args: Sequence[int | None], model: Sequence[int]) -> bool:
        straight = sum(self._alike(a, m) for a, m in zip(args, model, strict=True))
        return sum(self._alike(a, m) for a, m in zip(reversed(args), model, strict=True)) > straight

    def _alike(self, node: int | None, model: int) -> int:
        if node is None or node == model:
            return 3
        here, there = self.trace.element(node), self.trace.element(model)
        if here is not None and there is not None:
            return 2 if here[0] == there[0] else 1
        return int(self.trace.nodes[node].name == self.trace.nodes[model].name)

    # -- sums

    def _free(self, type: VType) -> bool:
        """Whether sums of this type may be done in any order."""
        return self.style.reassoc or type.elem not in FLOATS

    def _vector_sum(self, group: Group, type: VType) -> Term | None:
        free = self._free(type)
        sums = self._sums(group, ordered=not free)
        if free and not regular(self.trace, sums) and regular(self.trace, own := self._sums(group, shallow=True)):
            sums = own
        if all(s is None or s == (Summand(1, (n,)),) for s, n in zip(sums, group, strict=True) if n is not None):
            return None
        slots = align(self.trace, sums, self.cost) if free else align_ordered(sums)
        return None if slots is None else self._sum(slots, [n is not None for n in group], type, self.vector)

    def _sums(self, group: Group, *, ordered: bool = False, shallow: bool = False) -> list[tuple[Summand, ...] | None]:
        return [
            None if n is None else summands(self.trace, self.uses, n, ordered=ordered, shallow=shallow) for n in group
        ]

    def _sum(self, slots: Sequence[Slot], wanted: Sequence[bool], type: VType, operand: Operand) -> Term:
        """The sum of all slots: some chains of multiply-adds side by side, and a tree of their ends."""
        free = self._free(type)
        if free:
            # What is added comes before what is subtracted, then in one order for all groups.
            slots = sorted(slots, key=lambda s: (-1 in s.signs, s.width, min(x.factors for x in s.lanes if x)))
        parts = [self._part(slot, wanted, type, operand, free) for slot in slots]
        chains = min(self.style.chains, max(1, len(parts) // 2)) if free else 1
        ends: list[Term] = []
        for first in range(chains):
            total: Term | None = None
            for part in parts[first::chains]:
                total = self._let("t", self._added(total, part, type, free))
            assert total is not None
            ends.append(total)
        while len(ends) > 1:
            pairs: list[Term] = [Op("add", (a, b), type) for a, b in zip(ends[::2], ends[1::2], strict=False)]
            ends = pairs + ends[len(ends) & ~1 :]
        return ends[0]

    def _part(self, slot: Slot, wanted: Sequence[bool], type: VType, operand: Operand, free: bool) -> _Part:
        lacking = [w and s is None for w, s in zip(wanted, slot.lanes, strict=True)]
        groups: list[Group] = [slot.factor(side) for side in range(slot.width)]
        mask = None
        if any(lacking) and (side := self._padded(groups, free)) is not None:
            groups[side] = tuple(ZERO if lack else n for n, lack in zip(groups[side], lacking, strict=True))
        elif any(lacking):
            mask = mask_of([s is not None for s in slot.lanes])
        factors = [operand(g) for g in groups]
        signs = {s for s in slot.signs if s is not None}
        if len(signs) > 1:
            scalar = VType(type.elem, False)
            lanes = tuple(_number(1 if s is None else s, scalar) for s in slot.signs)
            factors[0] = self._let("t", Op("mul", (factors[0], Op("vec", lanes, type)), type))
        factors = [f for f in factors if not isinstance(f, Const) or f.value != 1] or factors[:1]
        return _Part(tuple(factors), -1 if signs == {-1} else 1, mask)

    def _padded(self, groups: Sequence[Group], free: bool) -> int | None:
        """The factor that is 0 on the lanes that lack the summand: elements of memory, the other factor being one
        value on all lanes, so that no lane has a factor of no meaning. None where the sum must be masked."""
        if not free:
            return None
        for side, group in enumerate(groups):
            others = [g for k, g in enumerate(groups) if k != side]
            memory = all(n is None or self.trace.element(n) for n in group)
            if memory and all(len(_distinct(g)) == 1 for g in others):
                return side
        return None

    def _added(self, total: Term | None, part: _Part, type: VType, free: bool) -> Term:
        made: Term
        name = "add" if part.sign > 0 else "sub"
        fused = "mac" if part.sign > 0 else "nmac"
        if total is None:
            made = make("mul", part.factors, type) if len(part.factors) > 1 else part.factors[0]
            made = made if part.sign > 0 else Op("neg", (made,), type)
            return made if part.mask is None else Op("select", (part.mask, made, _number(0, type)), type)
        if len(part.factors) == 1:
            made = Op(name, (total, *part.factors), type)
        elif free and (fused, type) in self.style.fused:
            made = Op(fused, (*part.factors, total), type)
        else:
            made = Op(name, (total, Op("mul", part.factors, type)), type)
        return made if part.mask is None else Op("select", (part.mask, made, total), type)

    # -- memory

    def _memory(self, group: Group, type: VType) -> Term:
        elements = [None if n is None or n == ZERO else self.trace.element(n) for n in group]
        known = [(k, e) for k, e in enumerate(elements) if e is not None]
        copied = any(layout.zeros() and all(e in layout.places for _, e in known) for layout in self.copied)
        if ZERO not in group and not copied and (load := self._direct(known, group, type)) is not None:
            return load
        cells: Cells = tuple(False if n == ZERO else e for n, e in zip(group, elements, strict=True))
        rising = all(a[0] != b[0] or a[1] < b[1] for (_, a), (_, b) in zip(known, known[1:], strict=False))
        one_array = len({e[0] for _, e in known}) == 1
        if rising and one_array and (number := self.layouts.ask(cells)) is not None:
            name = self.names.fresh("w")
            self.body.append(Window(name, number, cells, type))
            return Var(name, type)
        if copied and ZERO not in group and (load := self._direct(known, group, type)) is not None:
            return load
        return self._pieces(group, type) or self._gathered(group, type)

    def _direct(self, known: list[tuple[int, tuple[str, int]]], group: Group, type: VType) -> Term | None:
        """One load of the array itself, its first lane inside, its last one near enough."""
        (lane, (array, number)), (last, (_, end)) = known[0], known[-1]
        if last == lane or any(e[0] != array for _, e in known):
            return None
        stride, rest = divmod(end - number, last - lane)
        first = number - lane * stride
        if rest or any(e[1] != first + k * stride for k, e in known):
            return None
        size = self._size(array)
        reach = first + stride * (self.lanes - 1)
        inside = 0 <= first < size and 0 <= reach and reach < size + (self.lanes if stride == 1 else 0)
        if not inside or stride == 0:
            return None
        leaf = self.trace.nodes[next(n for n in group if n is not None)].leaf
        assert isinstance(leaf, Load)
        return Load(array, Address(first), stride, leaf.elem, type)

    def _size(self, array: str) -> int:
        size = 1
        for extent in self.trace.func.buf(array).extents:
            size *= extent
        return size

    # -- what has no form of its own

    def _pieces(self, group: Group, type: VType) -> Term | None:
        """A merge of a few groups that each are uniform or contiguous, from lane 0 on."""
        cuts = self._cuts(group)
        if not 2 <= len(cuts) <= min(MOST_PIECES, sum(n is not None for n in group) // 2):
            return None
        ends = [*cuts[1:], len(group)]
        pieces = [
            tuple(n if a <= k < b else None for k, n in enumerate(group)) for a, b in zip(cuts, ends, strict=True)
        ]
        merged = self._piece(pieces[-1], type)
        for piece, end in zip(pieces[-2::-1], ends[-2::-1], strict=True):
            merged = self._let(
                "m", Op("select", (Op("mask_first", (), MASK, (end,)), self._piece(piece, type), merged), type)
            )
        return merged

    def _cuts(self, group: Group) -> list[int]:
        """The lanes that pieces start at."""
        cuts, start, step = [0], next(k for k, n in enumerate(group) if n is not None), None
        for lane in range(start + 1, len(group)):
            node = group[lane]
            if node is None:
                continue
            before = next(k for k in range(lane - 1, -1, -1) if group[k] is not None)
            now = self._step(group[before], node, lane - before)
            if now is None or (step is not None and now != step):
                cuts.append(lane)
                step = None
            else:
                step = now
        return cuts

    def _step(self, left: int | None, right: int, apart: int) -> int | None:
        """0 where two lanes are the same, 1 where they are neighbours in memory as in lanes."""
        if left == right:
            return 0
        if left is None or ZERO in (left, right):
            return None
        a, b = self.trace.element(left), self.trace.element(right)
        return 1 if a is not None and b is not None and b == (a[0], a[1] + apart) else None

    def _apart(self, group: Group, type: VType) -> Term | None:
        """The lanes of the commonest operation, and the others, each as a group of their own."""
        heads: dict[str, list[int]] = {}
        for lane, node in enumerate(group):
            if node is not None:
                heads.setdefault(self._head(node), []).append(lane)
        if len(heads) < 2:
            return None
        most = max(heads.values(), key=len)
        if len(most) < 3:
            return None
        inside = tuple(n if k in most else None for k, n in enumerate(group))
        outside = tuple(None if k in most else n for k, n in enumerate(group))
        mask = mask_of([k in most for k in range(len(group))])
        first = self._piece(inside, type)
        return self._let("m", Op("select", (mask, first, self._piece(outside, type)), type))

    def _piece(self, group: Group, type: VType) -> Term:
        return self.vector(group) if any(n not in (None, ZERO) for n in group) else _number(0, type)

    def _head(self, node: int) -> str:
        if node == ZERO or self.trace.constant(node):
            return "const"
        return "add" if is_sum(self.trace, node) else self.trace.nodes[node].name

    def _gathered(self, group: Group, type: VType) -> Term:
        zero = _number(0, VType(type.elem, False))
        lanes = tuple(zero if n is None or n == ZERO else self.scalar(n) for n in group)
        return self._let("g", Op("vec", lanes, type))

    # -- costs

    def cost(self, group: Group) -> float:
        """About how many instructions a group costs, in units of one vector operation."""
        if group not in self.costs:
            self.costs[group] = self._cost(group)
        return self.costs[group]

    def _cost(self, group: Group) -> float:
        distinct = [n for n in _distinct(group) if n != ZERO]
        if len(distinct) <= 1 and ZERO not in group:
            # What has many readers is broadcast once for all of them.
            return 0.25 + 1.0 / (1.0 + self.uses[distinct[0]] / self.lanes) if distinct else 0.0
        elements = [None if n is None or n == ZERO else self.trace.element(n) for n in group]
        known = [(k, e) for k, e in enumerate(elements) if e is not None]
        if len(known) == sum(n is not None and n != ZERO for n in group):
            steps = {(b[1] - a[1]) / (k - j) for (j, a), (k, b) in zip(known, known[1:], strict=False) if a[0] == b[0]}
            if steps == {1.0}:
                return 1.0 if ZERO not in group else 1.2
            if len({e for _, e in known}) == len(known) and all(s >= 1 for s in steps):
                return 2.0
            pieces = len(self._cuts(group))
            return 2.0 * pieces if pieces <= min(MOST_PIECES, len(known) // 2) else 2.0 * len(distinct)
        if len({self._head(n) for n in distinct}) == 1:
            return 3.0
        return 2.0 * len(distinct)

    def _let(self, prefix: str, value: Term) -> Term:
        if isinstance(value, Const | Var):
            return value
        name = self.names.fresh(prefix)
        self.body.append(Let(name, value))
        self.made += 1
        if self.most is not None and self.made > self.most:
            raise refused(f"unrolled, it has over {self.most} statements", self.trace.func)
        return Var(name, value.type)


def _distinct(group: Group) -> list[int]:
    return [n for n in dict.fromkeys(group) if n is not None]


def _number(value: int, type: VType) -> Const:
    return Const(float(value) if type.elem in FLOATS else value, type)


def mask_of(chosen: Sequence[bool]) -> Term:
    """1 on the lanes that are chosen, else 0."""
    count = sum(chosen)
    if all(chosen[:count]):
        return Op("mask_first", (), MASK, (count,))
    return Op("vec", tuple(Const(int(c), VType("i32", False)) for c in chosen), MASK)
