"""What each operation costs on the target: the instruction that code selection would take, and its hold on units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from dspgen.rewrite.cost.scalarization_cost import FREE, Implementation, Lanewise, in_turn, of_row
from dspgen.rewrite.graph.enodes import Node
from dspgen.rewrite.graph.patterns import argument_elems
from dspgen.target.isa.model import Instruction, Macro, RegisterClass, Target
from dspgen.target.query.operations import COMMUTATIVE, Form, OperationTable, bit_keys, bits_elem, word_keys
from dspgen.vecdsl.ir.program import ELEM_BYTES, NARROW, OPS, PAIRS, Elem, VType

_WORDS_MOVED = frozenset({"bcast", "lane", "mov", "dup_lane", "bcast_pair"})
_BITS_MOVED = _WORDS_MOVED | frozenset(
    {"align", "even", "odd", "zip_lo", "zip_hi", "reverse", "and", "or", "xor", "not", "insert", "shuffle", "shuffle2"}
    | {"transpose", "concat", "vec", "zip", "unzip"}
)
_BITWISE = frozenset({"and", "or", "xor", "not"})
_TREES = {f"reduce_{op}": op for op in ("add", "min", "max", "mul", "and", "or", "xor")}
_SPREAD = {f"all_{op}": f"reduce_{op}" for op in ("add", "min", "max")}
_REARRANGED = frozenset(
    {"align", "even", "odd", "zip_lo", "zip_hi", "reverse", "shuffle", "shuffle2", "transpose", "concat"}
)
_MADE_ONCE = frozenset({"iota", "mask_first", "mask_period"})
_ALIGNED = 1 << 12
_FREE = frozenset({"lo", "hi", "pair", "view", "alike"})


@dataclass(frozen=True, slots=True)
class Value:
    """What selection must know of an operand: its type, whether it is a pair, its constants, if it can be one, whether
    all lanes have the value of a scalar that is at hand, and whether lanes that one predicate governs are alike."""

    type: VType
    pair: bool
    constants: tuple[str, ...] = ()
    uniform: bool = False
    alike: bool = False


@dataclass(frozen=True, slots=True)
class Access:
    """A memory access as the machine sees it. `alignment`: of the address in bytes, and of every piece of a period.

    `uniform`: the index is the same for all lanes. `active`: only the first lanes are stored.
    """

    elem: str
    type: VType
    stride: int = 0
    alignment: int = 1
    pair: bool = False
    period: int = 0
    indexed: bool = False
    masked: bool = False
    active: bool = False
    uniform: bool = False
    jump: int = 0

    @property
    def scattered(self) -> bool:
        """Whether each lane has a place of its own to find."""
        return self.indexed and not (self.uniform and self.type.vector)

    @property
    def partial(self) -> bool:
        return self.masked or self.active


_KEPT = 4
_machines: list[Machine] = []


def machine_of(target: Target) -> Machine:
    """The machine of a target; the last few are kept, as they learn."""
    for machine in _machines:
        if machine.target is target:
            return machine
    _machines.append(Machine(target))
    del _machines[:-_KEPT]
    return _machines[-1]


class Machine:
    """Implementations of e-nodes on one target."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.table = OperationTable(target)
        self.lanes = target.lanes
        self.classes = {c.name: c for c in target.registers}
        self.scalar = target.register_class(target.abi.scalar_class)
        self.vector = next((c for c in target.registers if c.kind == "vector" and c.pair_of is None), None)
        self.lanewise = Lanewise(
            target, self.table, self.scalar.name, self.vector.name if self.vector is not None else None
        )
        self.pairs = {c.pair_of: c.name for c in reversed(target.registers) if c.pair_of is not None}
        self.macros: dict[str, list[Macro]] = {}
        for macro in target.macros:
            self.macros.setdefault(macro.implements, []).append(macro)
        # The macro that shuffles by a pattern of its own: such windows are what these are for.
        slides = [m for m in target.macros if m.pattern and m.implements.split(".")[0] == "shuffle2"]
        self._slide = self._macro(slides[0]) if slides else None
        self._loads: dict[Access, Implementation | None] = {}
        self._known: dict[tuple[str, str, bool, bool, tuple[Value, ...], tuple[int, ...]], Implementation | None] = {}

    # -- what exists at all, for choosing rules

    @property
    def shuffles(self) -> bool:
        """Whether vectors are shuffled by any pattern."""
        return self.lanewise.shuffle is not None

    def has(self, op: str, elem: str, *, vector: bool) -> bool:
        """Whether some instruction or macro computes `op` of `elem` with its result (or operand) on that side."""
        if op in _FREE or op == "select":
            return True
        wanted = "vector" if vector else "scalar"
        macros = self.macros.get(self._macro_key(op, elem), ())
        if any(self._kind(m.result_class) == wanted and not m.pattern for m in macros):
            return True
        return any(self._side_fits(f, op, vector) for e in self._keys(op, elem) for f in self.table.forms(op, e))

    def cycles(self, op: str, elem: str) -> int | None:
        """The least that an instruction for `op` on vectors occupies; None if there is none."""
        forms = (f for e in self._keys(op, elem) for f in self.table.forms(op, e) if self._side_fits(f, op, True))
        return min((of_row(f.instruction).total for f in forms), default=None)

    def has_load(self, op: str, stride: int, *, vector: bool) -> bool:
        """Whether a load, of the name that `graph.load_op` gives it, with this stride is one access or nearly so."""
        if "2" in op or vector and "x" in op:
            return False
        for elem in ("i8", "i16", "i32", "i64", "u8", "u16"):
            if self._load_forms(op == "ld_pair", elem, stride, vector):
                return True
        return False

    def load_alignment(self, memory_elem: str) -> int:
        """The least alignment, in bytes, that some contiguous vector load takes."""
        forms = self._load_forms(False, bits_elem(memory_elem), 1, True)
        return min((_alignment(f.instruction) for f in forms), default=1)

    def store_alignment(self, memory_elem: str) -> int:
        """The least alignment, in bytes, that some contiguous vector store takes."""
        forms = (f for f in self.table.forms("vst", bits_elem(memory_elem)) if f.shape == (1, 0))
        return min((_alignment(f.instruction) for f in forms), default=1)

    def _side_fits(self, form: Form, op: str, vector: bool) -> bool:
        kinds = {self._kind(c) for c in form.result_operand.classes}
        return ("vector" if vector else "scalar") in kinds

    def _kind(self, name: str) -> str:
        cls = self.classes[name]
        return self.classes[cls.pair_of].kind if cls.pair_of is not None else cls.kind

    # -- e-nodes

    def implementation(
        self, node: Node, args: Sequence[Value], memory_elem: str, alignment: int
    ) -> Implementation | None:
        """How code selection would do `node`; None if it can't. `alignment`: see Access."""
        match node.kind:
            case "const" | "var" | "vec":
                return FREE if self._class_of(Value(node.type, False)) is not None else None
            case "ld" | "ld_pair":
                access = Access(
                    memory_elem,
                    node.type,
                    node.stride,
                    alignment,
                    node.kind == "ld_pair",
                    node.period,
                    node.indexed,
                    node.masked,
                    uniform=node.indexed and args[0].uniform,
                    jump=node.jump,
                )
                if access not in self._loads:
                    self._loads[access] = self._load(access)
                return self._loads[access]
            case "op":
                key = (node.op, node.elem, node.vector, node.pair, tuple(args), node.imm)
                if key not in self._known:
                    self._known[key] = self._operation(node, args)
                return self._known[key]

    def store(self, access: Access) -> Implementation | None:
        """A store of one value, or of a pair."""
        if (twos := self._in_twos(access, store=True)) is not None:
            return twos
        if access.period and (whole := self._by_periods(access, self._store)) is not None:
            return whole
        if not access.period and not access.scattered and (direct := self._store(access)) is not None:
            return in_turn(self.lanewise.address, direct) if access.indexed else direct
        if (blended := self._blended(access)) is not None:
            return blended
        single = self._scalar_store(access)
        if not access.type.vector or single is None:
            return single
        if access.pair or self._split(access.type):
            return None
        taken = 1 + access.indexed + access.masked
        return self.lanewise.spread(single, taken=taken, made=False)

    def _blended(self, access: Access) -> Implementation | None:
        """Some lanes put over what memory holds, where whole vectors only are stored."""
        if not access.type.vector or not access.partial or access.pair or access.period or access.scattered:
            return None
        whole = replace(access, active=False, masked=False)
        parts = self._direct_load(whole), self._masking(access.type), self._store(whole)
        return None if None in parts else in_turn(*parts)

    def _store(self, access: Access) -> Implementation | None:
        wanted = self._class_of(Value(access.type, access.pair))
        for form in self._store_forms(access):
            if wanted in form.operand(1).classes and _alignment(form.instruction) <= access.alignment:
                if access.partial and access.type.vector and form.instruction.predicable == "none":
                    continue  # a scalar's is jumped over
                return of_row(form.instruction)
        return None

    def _store_forms(self, access: Access) -> list[Form]:
        elem = bits_elem(access.elem)
        if not access.type.vector:
            forms = self.table.forms("st_pair" if access.pair else "st", elem)
            return forms + self.table.forms("st", "i64") if access.pair and elem == "i32" else forms
        if access.pair:
            s = access.stride
            shape: tuple[int, ...] = (s, 0, s, self.lanes if s == 1 else 1)
            return [f for f in self.table.forms("vst_pair", elem) if f.shape == shape]
        return self.table.lanes("vst", access.elem, access.stride)

    def _scalar_store(self, access: Access) -> Implementation | None:
        """The store of one lane, or of a scalar: at a computed place, and under a predicate, where asked."""
        single = replace(access, type=VType(access.type.elem, False), active=False, period=0)
        return in_turn(*([self.lanewise.address] if access.indexed else []), self._store(single))

    def _by_periods(self, access: Access, piece: Callable[[Access], Implementation | None]) -> Implementation | None:
        """A contiguous access for each period of the lanes, each under a mask of its own."""
        if access.stride != 1 or access.indexed or access.partial or not access.type.vector:
            return None
        one = piece(replace(access, period=0, masked=True))
        return None if one is None else one.times(-(-self.lanes // access.period))

    def _load_forms(self, pair: bool, elem: str, stride: int, vector: bool) -> list[Form]:
        bits = bits_elem(elem)
        if not vector:
            forms = self.table.forms("ld_pair", bits) if pair else self.table.forms("ld", bits)
            return forms + self.table.forms("ld", "i64") if pair and bits == "i32" else forms
        if pair:
            shape: tuple[int, ...] = (stride, 0, stride, self.lanes if stride == 1 else 1)
            return [f for f in self.table.forms("vld_pair", bits) if f.shape == shape]
        return self.table.lanes("vld", elem, stride)

    def _load(self, access: Access) -> Implementation | None:
        direct = None if access.period or access.scattered else self._direct_load(access)
        if direct is not None:
            direct = in_turn(self.lanewise.address, direct) if access.indexed else direct
            return in_turn(direct, self._masking(access.type)) if access.masked else direct
        if (twos := self._in_twos(access, store=False)) is not None:
            return twos
        if access.period and (whole := self._by_periods(access, self._load)) is not None:
            return whole
        if (slid := self._slid(access)) is not None:
            return slid
        single = in_turn(
            *([self.lanewise.address] if access.indexed else []),
            self._direct_load(replace(access, type=VType(access.type.elem, False))),
        )
        if access.masked and single is not None:
            single = in_turn(single, self._masking(VType(access.type.elem, False)))
        if not access.type.vector or single is None:
            return single
        if access.pair or self._split(access.type):
            return None
        if not access.period and not access.indexed and not access.masked and access.stride:
            whole = self._direct_load(replace(access, stride=1, alignment=ELEM_BYTES[access.elem]))
            if (windows := self.lanewise.windows(whole, access.stride)) is not None:
                return windows
        return self.lanewise.spread(single, taken=access.indexed + access.masked)

    def _in_twos(self, access: Access, *, store: bool) -> Implementation | None:
        """Twos of elements at a distance that the machine has, along with those beside them; or a shuffle of such."""
        if access.scattered or access.partial or access.pair or not access.type.vector or self.target.packed != 2:
            return None
        distance = access.jump if access.period else 2 * access.stride
        if (
            access.period != (0 if access.stride == 2 else 2)
            or access.stride not in (0, 1, 2)
            or (store and not access.stride)
        ):
            return None
        elem = bits_elem(access.elem)
        known = distance in self.table.twos(elem, store=store)
        forms = self.table.forms("vst_pair" if store else "vld_pair", elem) if known else []
        if access.stride == 0 and distance == 2:
            forms = self._load_forms(False, elem, 1, True)
        if not forms:
            return None
        whole = of_row(forms[0].instruction)
        return whole if access.stride == 1 else in_turn(whole, self._slide)

    def _slid(self, access: Access) -> Implementation | None:
        """A contiguous load at an address that no row takes: two beside it, and a shuffle that takes the window."""
        if access.scattered or access.partial or access.period or access.pair or access.stride != 1:
            return None
        if not access.type.vector or self._slide is None:
            return None
        aligned = self._direct_load(replace(access, alignment=_ALIGNED))
        return None if aligned is None else aligned.times(2).before(self._slide)

    def _direct_load(self, access: Access) -> Implementation | None:
        wanted = self._class_of(Value(access.type, access.pair))
        for form in self._load_forms(access.pair, access.elem, access.stride, access.type.vector):
            if wanted in form.result_operand.classes and _alignment(form.instruction) <= access.alignment:
                return of_row(form.instruction)
        return None

    def _masking(self, type: VType) -> Implementation | None:
        """Zero where a mask is 0: the predicated move of a value over zero."""
        flag, value = Value(VType("i32", type.vector), False), Value(type, False)
        return self._operation(Node("op", "select", type.elem, type.vector, (0, 1, 2)), (flag, value, value))

    def _operation(self, node: Node, args: Sequence[Value]) -> Implementation | None:
        if node.op in ("lo", "hi", "view", "alike"):
            return FREE
        if node.op == "pair":
            return FREE if self._class_of(Value(node.type, True)) is not None else None
        if node.op == "select" and (moved := self._select(node.type, args[0])) is not None:
            return moved
        result = Value(node.type, node.op in PAIRS)
        if (form := self._choose(node, args, result)) is not None:
            return of_row(form.instruction)
        for macro in self.macros.get(self._macro_key(node.op, node.elem), ()):
            taken = [cls for _, cls in macro.operands if cls in self.classes]
            if (
                macro.fits(node.imm)
                and macro.result_class == self._class_of(result)
                and taken == [self._class_of(a) for a in args]
            ):
                return self._macro(macro)
        return self._roundabout(node, args)

    def _roundabout(self, node: Node, args: Sequence[Value]) -> Implementation | None:
        """By other operations, as code selection does it where there is neither an instruction nor a macro."""
        if node.pair or self._split(node.type) or any(a.pair or self._split(a.type) for a in args):
            return None
        if node.elem in NARROW:
            return None
        by = self.lanewise
        match node.op:
            case "lane":
                return by.one()
            case "insert":
                return by.inserted()
            case "vec":
                return by.spread(FREE)
            case "dup_lane":
                return by.shuffle or in_turn(self._part(node, "lane", args), self._spreading(node))
            case op if op in _SPREAD:
                return in_turn(self._part(node, _SPREAD[op], args), self._spreading(node))
            case op if op in _TREES:
                return by.reduced(self._scalar(node, _TREES[op], 2))
            case op if op in _REARRANGED:
                return by.rearranged(len(args))
            case op if op in _MADE_ONCE:
                return by.spread(FREE)
            case op if node.vector and OPS[op].kind in ("lane", "bits"):
                taken = sum(1 for a in args if a.type.vector)
                return by.spread(self._scalar(node, op, len(args)), taken=taken)
            case _:
                return None

    def _part(self, node: Node, op: str, args: Sequence[Value]) -> Implementation | None:
        """An operation of a vector that gives a scalar."""
        imm = node.imm if op == "lane" else ()
        return self._operation(Node("op", op, node.elem, False, node.args, imm), args)

    def _scalar(self, node: Node, op: str, count: int) -> Implementation | None:
        elems = argument_elems(op, node.elem)
        args = [Value(VType(cast(Elem, e), False), False) for e in elems[:count]]
        return self._operation(Node("op", op, node.elem, False, tuple(range(count))), args)

    def _spreading(self, node: Node) -> Implementation | None:
        given = Value(VType(node.type.elem, False), False)
        return self._operation(Node("op", "bcast", node.type.elem, True, (0,)), [given])

    def _choose(self, node: Node, args: Sequence[Value], result: Value) -> Form | None:
        wanted = self._class_of(result)
        classes = [self._class_of(a) for a in args]
        best: tuple[int, tuple[int, int, int, str]] | None = None
        chosen = None
        for key in self._keys(node.op, node.elem):
            for form in self.table.forms(node.op, key):
                if wanted not in form.result_operand.classes or not form.takes(len(args), node.imm):
                    continue
                for order in ((0, 1), (1, 0)) if node.op in COMMUTATIVE else (tuple(range(len(args))),):
                    made = _constants_made(form, [args[i] for i in order], [classes[i] for i in order])
                    if made is not None and (best is None or (made, form.preference) < best):
                        best, chosen = (made, form.preference), form
        return chosen

    def _select(self, type: VType, condition: Value) -> Implementation | None:
        """A move, and a predicated move over it."""
        cls = self._class_of(Value(type, False))
        lane = condition.type.vector
        if lane and self.target.packed > 1 and not (condition.alike or condition.uniform or condition.constants):
            return None
        moves = [f for f in self.table.forms("mov", "i32") if self._moves(f, cls)]
        if cls is not None and not moves and (single := self.classes[cls].pair_of) is not None:
            moves = [f for f in self.table.forms("mov", "i32") if self._moves(f, single)]
        predicated = [f for f in moves if f.instruction.predicable == ("lane" if lane else "scalar")]
        if not predicated:
            return None
        return of_row(moves[0].instruction).before(of_row(predicated[0].instruction))

    @staticmethod
    def _moves(form: Form, cls: str | None) -> bool:
        return cls in form.result_operand.classes and cls in form.operand(0).classes

    def _macro(self, macro: Macro) -> Implementation:
        """Pressure and length of a macro's lines; ordered ones each wait for the one before."""
        rows: dict[str, Instruction] = {}
        for row in reversed(self.target.instructions):
            rows[row.mnemonic] = row
        occupancy: list[tuple[tuple[str, ...], int]] = []
        latency = 0
        for line in macro.body:
            found = next((rows[word] for word in line.replace(".", " ").split() if word in rows), None)
            if found is not None:
                occupancy += of_row(found).occupancy
            latency += max(1, found.latency if found is not None else 1)
        return Implementation(tuple(occupancy), latency, latency if macro.ordered else 0)

    def _split(self, type: VType) -> bool:
        """Whether a value lies in a register pair, or a lane of it in two lanes."""
        base = self.vector if type.vector else self.scalar
        return type.elem in ("f64", "i64") and (base is None or base.bits < 64)

    # -- classes and keys, as code selection has them

    def _class_of(self, value: Value) -> str | None:
        base: RegisterClass | None = self.vector if value.type.vector else self.scalar
        if base is None:
            return None
        wide = value.type.elem in ("f64", "i64") and base.bits < 64
        if value.pair or wide:
            return self.pairs.get(base.name) if not (value.pair and wide) else None
        return base.name

    @staticmethod
    def _keys(op: str, elem: str) -> tuple[str, ...]:
        if op in _WORDS_MOVED:
            return word_keys(elem)
        if op in _BITWISE:
            return bit_keys(elem)
        return tuple(dict.fromkeys((elem, bits_elem(elem)))) if op in _BITS_MOVED else (elem,)

    @staticmethod
    def _macro_key(op: str, elem: str) -> str:
        if OPS[op].arity == 0:
            return op
        if op == "select":
            return f"{op}.{word_keys(elem)[0]}"
        return f"{op}.{bits_elem(elem) if op in _BITS_MOVED else elem}"


def _alignment(row: Instruction) -> int:
    return row.memory.align if row.memory is not None else 1


def _constants_made(form: Form, args: Sequence[Value], classes: Sequence[str | None]) -> int | None:
    """How many operands would need a register for a constant, or None if an operand does not fit."""
    made = 0
    for index, (arg, cls) in enumerate(zip(args, classes, strict=True)):
        operand = form.operand(index)
        if operand.imm is not None and any(_in_range(text, arg.type, operand.imm) for text in arg.constants):
            continue
        if cls is None or cls not in operand.classes:
            return None
        made += bool(arg.constants)
    return made


def _in_range(text: str, type: VType, imm: tuple[int, int]) -> bool:
    return type.elem not in ("f32", "f64") and imm[0] <= int(text) <= imm[1]
