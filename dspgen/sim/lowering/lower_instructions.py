"""Turns placed instructions into `Op`s: operands become register cells, semantics become typed nodes.

Before: an instruction on x, y, z with semantics `d = add.i32(a, b)`. After: `Write(cell of z, add(read x, read y))`.
Requires: every operand fits its instruction (the assembler checked it). Ensures: both machines agree on its meaning.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from dspgen.errors import IsaError, Problem
from dspgen.sched.ir.packets import Address, Placed
from dspgen.sim.ir.derived_operations import meaning
from dspgen.sim.ir.nodes import cast, const, splat, words
from dspgen.sim.ir.program import Access, Again, Node, Op, PredicateRead, Store, Write
from dspgen.sim.ir.registers import Place, RegisterFile
from dspgen.sim.ir.semantics import OPERATIONS
from dspgen.sim.ir.symbols import signed, split_symbol, symbol_value
from dspgen.target.isa.model import Instruction, MemoryAccess, Operand, SemExpr, Side, Target
from plant_core.support.location import Loc
from plant_core.support.memoize import few_by_identity

MASK64 = (1 << 64) - 1
COMPARISONS = frozenset({"lt", "ltu", "gt", "le", "ge", "eq", "ne"})
BITS = frozenset({"and", "or", "xor", "not", "mov", "select"})
# Operations between lanes: how many arguments come before their compile-time integers.
CROSS_IMM = {
    "lane": 1, "insert": 2, "dup_lane": 1, "align": 2, "shuffle": 1, "shuffle2": 2, "transpose": 1, "concat": 2,
    "all_add": 1, "all_min": 1, "all_max": 1,
}  # fmt: skip
_OTHERWISE = "pairs are loaded half by half: `d.lo = ld.i32(m); d.hi = ld.i32(m, 1)`"
COMPLEX = frozenset({"cmul", "cmul_re", "cmul_im", "cmac"})


def lower_one(placed: Placed, uid: int, target: Target, registers: RegisterFile, labels: dict[str, int]) -> Op:
    """One instruction, on registers of one's own; branches go to what `labels` gives."""
    mask = registers.cell_of(target.mask_register) if target.mask_register else None
    return Lowering(placed, target, registers, {}, labels).op(uid, mask)


def predicate_read(name: str | None, negated: bool, target: Target, registers: RegisterFile) -> PredicateRead | None:
    if name is None:
        return None
    cell = registers.cell_of(name)
    if cell is None:
        raise IsaError(Problem("DG192", f"predicate register {name} is not in any register class"))
    return PredicateRead(cell, name in target.predicates.lane, negated)


def _is_masked(instruction: Instruction, target: Target) -> bool:
    """The lane mask governs the instructions that list it as read; all of the vector side where none does."""
    vector = _masked_units(target)
    if vector is None:
        return target.mask_register in instruction.implicit_reads
    return any(u in vector for u in instruction.units)


@few_by_identity
def _masked_units(target: Target) -> frozenset[str] | None:
    """The units that the lane mask governs; None where rows list it as read."""
    if any(target.mask_register in i.implicit_reads for i in target.instructions):
        return None
    return frozenset(m for u in target.units if u.side == "vector" for m in u.members)


@dataclass(slots=True)
class Lowering:
    placed: Placed
    target: Target
    registers: RegisterFile
    symbols: dict[str, int]
    labels: dict[str, int]
    back: str = ""  # the label that a loop's end goes back to
    cells_read: dict[tuple[int, int], None] = field(default_factory=dict)
    lanes_read: dict[int, set[int | None]] = field(default_factory=dict)  # of each cell
    cycle: int = 0  # at which the operand at hand is read
    timed: bool = False  # whether reads tell their cycle
    early: dict[int, int] = field(default_factory=dict)
    new: dict[int, None] = field(default_factory=dict)

    @property
    def instruction(self) -> Instruction:
        return self.placed.instruction

    def fail(self, what: str, remedy: str = "") -> IsaError:
        return IsaError(Problem("DG193", f"instruction {self.instruction.id}: {what}", None, remedy))

    def op(self, uid: int, mask: int | None) -> Op:
        ins, placed = self.instruction, self.placed
        predicate = predicate_read(placed.predicate, placed.negated, self.target, self.registers)
        masked = mask is not None and _is_masked(ins, self.target)
        address, access, writes = self._memory(ins.memory)
        condition = self._expr(ins.condition, 0) if ins.condition is not None else None
        given = zip(ins.operands, placed.operands, strict=True)
        self.timed = any(o.read_cycle > 0 and isinstance(value, str) for o, value in given)
        stores: list[Store] = []
        branch: int | Node | None = None
        again: Again | None = None
        for statement in ins.semantics:
            if statement.target is not None:
                writes += self._assign(statement.target, statement.value, masked or bool(predicate and predicate.lane))
            elif statement.value.op == "branch":
                self.timed = False
                branch = self._branch(statement.value.args[0])
            elif statement.value.op == "repeat":
                branch, again, count = self._repeat(*statement.value.args)
                writes.append(count)
            else:
                stores.append(self._store(statement.value, masked or bool(predicate and predicate.lane)))
        return Op(
            uid=uid,
            text=ins.mnemonic,
            loc=placed.loc or Loc("<text>", 0),
            predicate=predicate,
            masked=masked,
            address=address,
            access=access,
            writes=tuple(writes),
            stores=tuple(stores),
            branch=branch,
            reads=tuple(cell for cell, cycle in self.cells_read if not cycle),
            unit=placed.unit,
            busy=ins.busy,
            resources=ins.resources,
            late=tuple(sorted(((c, at) for c, at in self.cells_read if at), key=lambda read: (read[1], read[0]))),
            again=again,
            early=tuple(self.early.items()),
            new=tuple((cell, -1, -1) for cell in self.new),
            condition=condition,
            parts=tuple(
                (cell, lane) for cell, (lane, *more) in self.lanes_read.items() if lane is not None and not more
            ),
        )

    # Operands

    def _value_of(self, operand: Operand) -> str | int | Address:
        return self.placed.operands[self.instruction.operands.index(operand)]

    def _memory(self, memory: MemoryAccess | None) -> tuple[Node | None, Access | None, list[Write]]:
        operand = next((o for o in self.instruction.operands if o.kind == "memory"), None)
        if operand is None or memory is None:
            return None, None, []
        address = self._value_of(operand)
        if not isinstance(address, Address):
            raise self.fail(f"operand {operand.name} is no memory operand")
        base = self._place(address.base)
        cell = self.registers.cells[base.cells[0]]
        old = self._read(cell.index, None)
        effective = moved = old
        if address.mode != "none":
            moved = self._moved(old, address, memory.scale, cell.bits)
            if address.mode not in ("post_inc", "post_dec"):
                effective = moved
        word = self.target.register_class(self.target.abi.scalar_class).bits // 8
        access = Access(memory.side, memory.align, memory.force_align, min(memory.align, word), self._home(memory.side))
        updates = []
        if address.mode not in ("none", "plus", "minus"):
            latency = self.target.address_modes.update_latency
            updates = [Write(cell.index, None, latency, cast(moved, f"u{cell.storage}"), False)]
        return effective, access, updates

    def _home(self, side: Side) -> tuple[tuple[int, int], ...]:
        """The memories on chip that vectors reach: what an access to others does is known of no machine."""
        found = [m for m in self.target.memories if m.onchip and m.purpose == "data" and side in m.sides]
        return tuple((m.base, m.base + m.size) for m in found) if side == "vector" else ()

    def _moved(self, old: Node, address: Address, scale: int, bits: int) -> Node:
        elem = old.elem
        if isinstance(address.offset, str):
            offset = cast(self._read(self._place(address.offset).cells[0], None), elem)
        else:
            offset = const(address.offset, elem)
        if scale != 1:
            offset = Node("mul", elem, 0, (offset, const(scale, elem)))
        op = "sub" if address.mode in ("minus", "post_dec", "pre_dec") else "add"
        return self._wrapped(Node(op, elem, 0, (old, offset)), bits)

    @staticmethod
    def _wrapped(node: Node, bits: int) -> Node:
        if bits == node.width:
            return node
        return Node("and", node.elem, node.lanes, (node, splat(const((1 << bits) - 1, node.elem), node.lanes)))

    def _place(self, name: str, classes: tuple[str, ...] | None = None) -> Place:
        place = self.registers.place(name, classes)
        if place is None:
            raise self.fail(f"{name} is not a register of {', '.join(classes or ())}")
        return place

    def _read(self, index: int, lane: int | None) -> Node:
        cell = self.registers.cells[index]
        self.cells_read[index, self.cycle] = None
        self.lanes_read.setdefault(index, set()).add(lane)
        sign = "i" if cell.bits == cell.storage else "u"
        when = (self.cycle,) if self.timed else ()
        if lane is not None:
            return Node("read_lane", f"{sign}{cell.storage}", 0, (), index, (lane, *when))
        return Node("read", f"{sign}{cell.storage}", cell.lanes, (), index, when)

    def _read_place(self, place: Place, part: str) -> Node:
        if len(place.cells) == 1:
            return self._read(place.cells[0], place.lane)
        if part:
            return self._read(place.cells[part == "hi"], None)
        low, high = self._read(place.cells[0], None), self._read(place.cells[1], None)
        return self._cat(low, high)

    def _cat(self, low: Node, high: Node) -> Node:
        if low.width > 32 or high.width != low.width or low.lanes != high.lanes:
            raise self.fail("cat needs two halves of one width, at most 32 bits each")
        return Node("cat", f"i{2 * low.width}", low.lanes, (low, high))

    def _symbol(self, text: str) -> int:
        name, addend = split_symbol(text)
        return self.symbols[name] + addend

    # Expressions

    def _expr(self, expr: SemExpr, total: int) -> Node:
        """`total`: the bits of the vector that is wanted, for operations whose width their arguments don't tell."""
        match expr.op:
            case "int":
                return const(expr.value, "i64")
            case "place":
                return self._leaf(expr)
            case "ld" | "vld":
                return self._load(expr, total)
            case "gather":
                return self._gather(expr)
            case "cat":
                return self._cat(self._narrow(expr.args[0], total), self._narrow(expr.args[1], total))
            case "addr":
                node = self._expr(expr.args[0], total)
                return node if node.width == 64 else Node("cast", "u64", node.lanes, (cast(node, f"u{node.width}"),))
            case "trunc":
                return self._expr(expr.args[0], total)
            case "sext" | "zext" | "bits" | "set_high":
                return self._bits(expr, total)
            case "perm":
                return self._perm(expr, total)
            case "rotate":
                turned = self._typed(expr.args[0], expr.type, total)
                return Node("rotate", turned.elem, turned.lanes, (turned, self._typed(expr.args[1], "i32", 0)))
            case "slide":
                a, b = (self._typed(arg, expr.type, total) for arg in expr.args[:2])
                return Node("slide", a.elem, a.lanes, (a, b, self._typed(expr.args[2], "i32", 0)))
            case _:
                return self._operation(expr, total)

    def _narrow(self, expr: SemExpr, total: int) -> Node:
        node = self._expr(expr, total)
        return cast(node, "i32") if node.op == "const" else node

    def _leaf(self, expr: SemExpr) -> Node:
        operand = next((o for o in self.instruction.operands if o.name == expr.name), None)
        if operand is None:
            return self._read_place(self._place(expr.name), expr.part)
        value = self._value_of(operand)
        if isinstance(value, int):
            return const(value, "i64")
        if isinstance(value, Address):
            raise self.fail(f"memory operand {expr.name} outside a load or store")
        if value.startswith("@"):
            return const(symbol_value(operand, self._symbol(value)), "i64")
        place = self._place(value, operand.classes or None)
        if operand.read_cycle < 0:
            self.early |= {cell: max(self.early.get(cell, 0), -operand.read_cycle) for cell in place.cells}
        if operand.new:
            self.new |= dict.fromkeys(place.cells)
            (cell,) = (self.registers.cells[c] for c in place.cells)
            return Node("new", f"{'i' if cell.bits == cell.storage else 'u'}{cell.storage}", cell.lanes, (), cell.index)
        self.cycle = max(operand.read_cycle, 0)
        node = self._read_place(place, expr.part)
        self.cycle = 0
        return node

    def _load(self, expr: SemExpr, total: int) -> Node:
        elem = expr.type.replace("f", "i")
        if expr.op == "ld":
            return Node("load", elem, 0, (), 0, (1, self._int(expr.args[1]) if len(expr.args) > 1 else 0))
        stride, first = self._int(expr.args[1]), self._int(expr.args[2])
        lanes = self.target.lanes
        if total and int(elem[1:]) * lanes > total:
            lanes = total // int(elem[1:])
        return Node("load", elem, lanes, (), 0, (stride, first))

    def _gather(self, expr: SemExpr) -> Node:
        index = self._typed(expr.args[1], "i32", 0)
        return Node("gather", expr.type.replace("f", "i"), index.lanes, (index,))

    def _int(self, expr: SemExpr) -> int:
        if expr.op == "int":
            return expr.value
        node = self._expr(expr, 0)
        if node.op != "const":
            raise self.fail("a number is needed where the semantics have a register")
        return signed(node.value, 64)

    def _bits(self, expr: SemExpr, total: int) -> Node:
        x = self._expr(expr.args[0], total)
        if expr.op == "set_high":
            y = cast(self._expr(expr.args[1], total), f"i{x.width}")
            lanes = max(x.lanes, y.lanes)
            return Node("set_high", x.elem, lanes, (splat(x, lanes), splat(y, lanes)))
        if expr.op == "bits":
            high, low = self._int(expr.args[1]), self._int(expr.args[2])
            return Node("bits", f"u{x.width}", x.lanes, (x,), 0, (high, low))
        amount = self._int(expr.args[1])
        sign = "i" if expr.op == "sext" else "u"
        width = 64 if x.lanes == 0 else x.width
        wide = x if x.width == width else Node("cast", f"u{width}", x.lanes, (cast(x, f"u{x.width}"),))
        return Node(expr.op, f"{sign}{width}", x.lanes, (wide,), 0, (amount,))

    def _perm(self, expr: SemExpr, total: int) -> Node:
        patterns = self.target.pattern_memory
        if patterns is None:
            raise self.fail("perm without a pattern memory")
        elem = expr.type.replace("f", "i")
        a, b = (self._typed(e, elem, total) for e in expr.args[:2])
        mode = cast(self._expr(expr.args[2], total), "u64")
        return Node("perm", elem, a.lanes, (a, b, mode), patterns.base, (patterns.bytes_per_mode,))

    def _typed(self, expr: SemExpr, elem: str, total: int) -> Node:
        return self._retype(self._expr(expr, total), elem)

    def _retype(self, node: Node, elem: str) -> Node:
        width = int(elem[1:])
        if node.lanes and node.op in ("read", "new", "cat", "load") and node.width > width:
            return Node("view", elem, node.lanes * node.width // width, (node,))
        if node.width != width and node.elem[0] == "f":
            raise self.fail(f"{node.elem} value used as {elem}")
        return cast(node, elem)

    def _operation(self, expr: SemExpr, total: int) -> Node:
        op, elem = expr.op, expr.type
        if (other := meaning(expr)) is not None:
            return self._expr(other, total)
        if op.startswith("cvt_"):
            _, source, result = op.split("_")
            return Node(op, result, *self._one(expr.args[0], source, total))
        if op in ("lo", "hi"):
            node = self._expr(expr.args[0], 0)
            return Node(op, f"i{node.width // 2}", node.lanes, (node,))
        if op == "view":
            node = self._expr(expr.args[0], total)
            return Node("view", elem, node.lanes * node.width // int(elem[1:]), (node,))
        if op == "pair":
            low, high = (words(self._narrow(a, total // 2), total // 2, self.target.lanes) for a in expr.args)
            return self._cat(low, high)
        if op in ("bcast", "iota", "mask_first", "mask_period"):
            return self._spread(expr, total)
        if op in CROSS_IMM or op.startswith("reduce_"):
            return self._cross(expr, total)
        if op in COMPLEX:
            return self._complex(expr)
        if op == "bcast_pair":
            pair = self._expr(expr.args[0], 0)
            halves = [Node(part, f"i{pair.width // 2}", 0, (pair,)) for part in ("lo", "hi")]
            return self._cat(*(splat(h, self.target.lanes) for h in halves))
        if op in BITS:
            elem = "i" + elem[1:]
        sources = [elem] * len(expr.args)
        if op == "ltu":
            sources = ["u" + elem[1:]] * 2
        args = [self._typed(a, s, total) for a, s in zip(expr.args, sources, strict=True)]
        lanes = max((a.lanes for a in args), default=0)
        if any(a.lanes not in (0, lanes) for a in args):
            raise self.fail(f"{op}.{elem}: operands of {sorted({a.lanes for a in args})} lanes")
        if op not in OPERATIONS and op != "ltu":
            raise self.fail(f"the simulator can't do `{op}`", _OTHERWISE)
        result = "i32" if op in COMPARISONS else elem
        kind = "lt" if op == "ltu" else op
        return Node(kind, result, lanes, tuple(splat(a, lanes) for a in args))

    def _one(self, expr: SemExpr, elem: str, total: int) -> tuple[int, tuple[Node, ...]]:
        node = self._typed(expr, elem, total)
        return node.lanes, (node,)

    def _spread(self, expr: SemExpr, total: int) -> Node:
        elem = expr.type
        lanes = total // int(elem[1:]) if total else self.target.lanes
        if expr.op == "bcast":
            node = self._typed(expr.args[0], elem, total)
            return splat(node, lanes) if node.lanes == 0 else node
        imm = tuple(self._int(a) for a in expr.args)
        return Node(expr.op, elem, lanes, (), 0, imm)

    def _cross(self, expr: SemExpr, total: int) -> Node:
        count = CROSS_IMM.get(expr.op, 1)
        args = tuple(self._typed(a, expr.type, total) for a in expr.args[:count])
        imm = tuple(self._int(a) for a in expr.args[count:])
        scalar = expr.op == "lane" or expr.op.startswith("reduce_")
        if expr.op in ("reduce_and", "reduce_or", "reduce_xor"):
            args = tuple(cast(a, "i" + a.elem[1:]) for a in args)
        return Node(expr.op, expr.type, 0 if scalar else args[0].lanes, args, 0, imm)

    def _complex(self, expr: SemExpr) -> Node:
        """Products of complex numbers in register pairs, the real part low; each product and each sum is rounded."""
        elem = expr.type
        halves = []
        for arg in expr.args:
            halves.append([self._retype(half, elem) for half in self._halves(arg)])

        def make(op: str, a: Node, b: Node) -> Node:
            return Node(op, elem, max(a.lanes, b.lanes), (a, b))

        (ar, ai), (br, bi) = halves[:2]
        real = make("sub", make("mul", ar, br), make("mul", ai, bi))
        imaginary = make("add", make("mul", ar, bi), make("mul", ai, br))
        if expr.op in ("cmul_re", "cmul_im"):
            return real if expr.op == "cmul_re" else imaginary
        if expr.op == "cmac":
            real, imaginary = make("add", real, halves[2][0]), make("add", imaginary, halves[2][1])
        return self._cat(cast(real, f"i{real.width}"), cast(imaginary, f"i{imaginary.width}"))

    def _halves(self, expr: SemExpr) -> tuple[Node, Node]:
        """The low and the high half of a pair, which may be wider together than any element."""
        if expr.op == "place" and not expr.part:
            return self._leaf(replace(expr, part="lo")), self._leaf(replace(expr, part="hi"))
        pair = self._expr(expr, 0)
        low, high = (Node(p, f"i{pair.width // 2}", pair.lanes, (pair,)) for p in ("lo", "hi"))
        return low, high

    # Effects

    def _branch(self, expr: SemExpr) -> int | Node:
        operand = next((o for o in self.instruction.operands if o.name == expr.name), None)
        value = self._value_of(operand) if operand else None
        if isinstance(value, str) and value.startswith("@"):
            name = value[1:]
            return self.labels[name] if name in self.labels else const(self.symbols[name], "u64")
        return cast(self._expr(expr, 0), "u64")

    def _repeat(self, start: SemExpr, count: SemExpr) -> tuple[int, Again, Write]:
        """Where iterations begin, whether another one comes, and the count after this one."""
        cells = [self._place(place.name).cells[0] for place in (start, count)]
        self._read(cells[0], None)
        left, bits = self._read(cells[1], None), self.registers.cells[cells[0]].bits
        unsigned = f"u{left.width}"
        more = Node("lt", "i32", 0, (const(1, unsigned), cast(left, unsigned)))
        fewer = Node("sub", unsigned, 0, (cast(left, unsigned), cast(more, unsigned)))
        again = Again(cells[0], self.symbols[self.back] & ((1 << bits) - 1), cells[1])
        return self.labels[self.back], again, Write(cells[1], None, 1, fewer, False)

    def _store(self, expr: SemExpr, masked: bool) -> Store:
        elem = expr.type.replace("f", "i")
        stride, first = 1, 0
        if expr.op == "vst":
            stride, first = self._int(expr.args[1]), self._int(expr.args[2])
        elif expr.op == "st" and len(expr.args) > 2:
            first = self._int(expr.args[1])
        lane_bits = next((c.bits for c in self.target.registers if c.kind == "vector"), 32)
        index = self._typed(expr.args[1], "i32", 0) if expr.op == "scatter" else None
        value = self._expr(expr.args[-1], lane_bits * self.target.lanes if expr.op != "st" else 0)
        value = cast(value, elem)
        if expr.op != "st":
            value = splat(value, value.lanes or self.target.lanes)
        memory = self.instruction.memory
        latency = memory.store_latency if memory else 1
        return Store(value, stride, first, latency, masked and expr.op != "st", index)

    def _assign(self, place_expr: SemExpr, expr: SemExpr, masked: bool) -> list[Write]:
        operand = next((o for o in self.instruction.operands if o.name == place_expr.name), None)
        if operand is None:
            place = self._place(place_expr.name)
            latency = self.instruction.latency or 1
        else:
            place = self._place(str(self._value_of(operand)), operand.classes or None)
            latency = operand.latency
        cells = [self.registers.cells[c] for c in place.cells]
        if place_expr.part and len(cells) == 2:
            cells = [cells[place_expr.part == "hi"]]
        lanes = cells[0].lanes if place.lane is None else 0
        total = lanes * cells[0].storage * len(cells)
        value = self._expr(expr, total)
        if len(cells) == 2:
            wide = self._fit(value, lanes, 2 * cells[0].storage)
            parts = [Node(part, f"u{cells[0].storage}", lanes, (wide,)) for part in ("lo", "hi")]
        else:
            parts = [self._wrapped(self._fit(value, lanes, cells[0].storage), cells[0].bits)]
        return [Write(c.index, place.lane, latency, v, masked and lanes > 0) for c, v in zip(cells, parts, strict=True)]

    def _fit(self, node: Node, lanes: int, width: int) -> Node:
        """The node as `lanes` unsigned elements of `width` bits."""
        if node.lanes == lanes:
            if node.elem[0] == "f" and node.width < width:
                node = cast(node, f"u{node.width}")
                return Node("cast", f"u{width}", lanes, (node,))
            if node.width < width and node.elem[0] == "i":
                return cast(cast(node, f"i{width}"), f"u{width}")
            return cast(node, f"u{width}")
        if node.lanes == 0:
            return splat(self._fit(node, 0, width), lanes)
        if node.lanes * node.width == lanes * width:
            return Node("view", f"u{width}", lanes, (node,))
        if not lanes:
            raise self.fail(f"a vector of {node.lanes} lanes of {node.width} bits goes into {width} bits")
        raise self.fail(f"{node.lanes} lanes of {node.width} bits into {lanes} of {width}")
