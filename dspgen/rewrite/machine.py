"""What each operation costs on the target: the instruction that code selection would take, and its hold on units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dspgen.rewrite.graph import PAIR_OPS, Node
from dspgen.target.model import Instruction, Macro, RegisterClass, Target
from dspgen.target.operations import COMMUTATIVE, Form, OperationTable, bits_elem
from dspgen.vecdsl.ir import OPS, VType

_WORDS_MOVED = frozenset({"bcast", "lane", "mov", "dup_lane", "bcast_pair"})
_BITS_MOVED = _WORDS_MOVED | frozenset(
    {"align", "even", "odd", "zip_lo", "zip_hi", "reverse", "and", "or", "xor", "not", "insert"}
)
_FREE = frozenset({"lo", "hi", "pair"})


@dataclass(frozen=True, slots=True)
class Implementation:
    """Cycles on one unit of each set of alternatives; `serial` cycles in which macro instructions follow each other."""

    occupancy: tuple[tuple[tuple[str, ...], int], ...] = ()
    latency: int = 0
    serial: int = 0

    @property
    def total(self) -> int:
        return self.serial + sum(cycles for _, cycles in self.occupancy)


FREE = Implementation()


@dataclass(frozen=True, slots=True)
class Value:
    """What selection must know of an operand: its type, whether it is a pair, and its constants, if it can be one."""

    type: VType
    pair: bool
    constants: tuple[str, ...] = ()


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
        self.pairs = {c.pair_of: c.name for c in reversed(target.registers) if c.pair_of is not None}
        self.macros: dict[str, list[Macro]] = {}
        for macro in target.macros:
            self.macros.setdefault(macro.implements, []).append(macro)
        self._known: dict[tuple[str, str, bool, bool, tuple[Value, ...], tuple[int, ...]], Implementation | None] = {}

    # -- what exists at all, for choosing rules

    def has(self, op: str, elem: str, *, vector: bool) -> bool:
        """Whether some instruction or macro computes `op` of `elem` with its result (or operand) on that side."""
        if op in _FREE or op == "select":
            return True
        wanted = "vector" if vector else "scalar"
        if any(self._kind(m.result_class) == wanted for m in self.macros.get(self._macro_key(op, elem), ())):
            return True
        return any(self._side_fits(f, op, vector) for e in self._keys(op, elem) for f in self.table.forms(op, e))

    def has_load(self, op: str, stride: int, *, vector: bool) -> bool:
        """Whether a load (or `ld_pair`) with this stride exists for any memory type."""
        for elem in ("i8", "i16", "i32", "i64", "u8", "u16"):
            if self._load_forms(op == "ld_pair", elem, stride, vector):
                return True
        return False

    def load_alignment(self, memory_elem: str) -> int:
        """The least alignment, in bytes, that some contiguous vector load takes."""
        forms = self._load_forms(False, bits_elem(memory_elem), 1, True)
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
        """How code selection would do `node`; None if it can't. `alignment`: of a load's address, in bytes."""
        match node.kind:
            case "const" | "var":
                return FREE if self._class_of(Value(node.type, False)) is not None else None
            case "ld" | "ld_pair":
                return self._load(node, memory_elem, alignment)
            case "op":
                key = (node.op, node.elem, node.vector, node.pair, tuple(args), node.imm)
                if key not in self._known:
                    self._known[key] = self._operation(node, args)
                return self._known[key]

    def store(self, elem: str, stride: int, value: VType, alignment: int, *, partial: bool) -> Implementation | None:
        """A store of one value."""
        wanted = self._class_of(Value(value, False))
        shape = (stride, 0) if value.vector else ()
        for form in self.table.forms("vst" if value.vector else "st", bits_elem(elem)):
            fits = form.shape == shape and wanted in form.operand(1).classes
            if fits and _alignment(form.instruction) <= alignment:
                if partial and form.instruction.predicable == "none":
                    continue
                return self._of(form.instruction)
        return None

    def _load_forms(self, pair: bool, elem: str, stride: int, vector: bool) -> list[Form]:
        if not vector:
            forms = self.table.forms("ld_pair", elem) if pair else self.table.forms("ld", elem)
            return forms + self.table.forms("ld", "i64") if pair and elem == "i32" else forms
        if pair:
            shape: tuple[int, ...] = (stride, 0, stride, self.lanes if stride == 1 else 1)
            return [f for f in self.table.forms("vld_pair", elem) if f.shape == shape]
        return [f for f in self.table.forms("vld", elem) if f.shape == (stride, 0)]

    def _load(self, node: Node, memory_elem: str, alignment: int) -> Implementation | None:
        pair = node.kind == "ld_pair"
        wanted = self._class_of(Value(node.type, pair))
        for form in self._load_forms(pair, bits_elem(memory_elem), node.stride, node.vector):
            if wanted in form.result_operand.classes and _alignment(form.instruction) <= alignment:
                return self._of(form.instruction)
        return None

    def _operation(self, node: Node, args: Sequence[Value]) -> Implementation | None:
        if node.op in ("lo", "hi"):
            return FREE
        if node.op == "pair":
            return FREE if self._class_of(Value(node.type, True)) is not None else None
        if node.op == "select":
            return self._select(node, args)
        result = Value(node.type, node.op in PAIR_OPS)
        if (form := self._choose(node, args, result)) is not None:
            return self._of(form.instruction)
        for macro in self.macros.get(self._macro_key(node.op, node.elem), ()):
            taken = [cls for _, cls in macro.operands if cls in self.classes]
            if macro.result_class == self._class_of(result) and taken == [self._class_of(a) for a in args]:
                return self._macro(macro)
        return None

    def _choose(self, node: Node, args: Sequence[Value], result: Value) -> Form | None:
        wanted = self._class_of(result)
        classes = [self._class_of(a) for a in args]
        best: tuple[int, tuple[int, int, int, str]] | None = None
        chosen = None
        for key in self._keys(node.op, node.elem):
            for form in self.table.forms(node.op, key):
                if wanted not in form.result_operand.classes or len(form.args) != len(args) + len(node.imm):
                    continue
                if not self._imm_fits(form, len(args), node.imm):
                    continue
                for order in ((0, 1), (1, 0)) if node.op in COMMUTATIVE else (tuple(range(len(args))),):
                    made = _constants_made(form, [args[i] for i in order], [classes[i] for i in order])
                    if made is not None and (best is None or (made, form.preference) < best):
                        best, chosen = (made, form.preference), form
        return chosen

    @staticmethod
    def _imm_fits(form: Form, first: int, imm: tuple[int, ...]) -> bool:
        for index, value in enumerate(imm, start=first):
            limits = form.operand(index).imm
            if limits is None or not limits[0] <= value <= limits[1]:
                return False
        return True

    def _select(self, node: Node, args: Sequence[Value]) -> Implementation | None:
        """A move, and a predicated move over it."""
        cls = self._class_of(Value(node.type, False))
        lane = args[0].type.vector
        moves = [f for f in self.table.forms("mov", "i32") if self._moves(f, cls)]
        if cls is not None and not moves and (single := self.classes[cls].pair_of) is not None:
            moves = [f for f in self.table.forms("mov", "i32") if self._moves(f, single)]
        predicated = [f for f in moves if f.instruction.predicable == ("lane" if lane else "scalar")]
        if not predicated:
            return None
        first, second = self._of(moves[0].instruction), self._of(predicated[0].instruction)
        return Implementation(first.occupancy + second.occupancy, first.latency + second.latency)

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
                occupancy += self._of(found).occupancy
            latency += max(1, found.latency if found is not None else 1)
        return Implementation(tuple(occupancy), latency, latency if macro.ordered else 0)

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
            return ("i32",)
        return tuple(dict.fromkeys((elem, bits_elem(elem)))) if op in _BITS_MOVED else (elem,)

    @staticmethod
    def _macro_key(op: str, elem: str) -> str:
        if OPS[op].arity == 0:
            return op
        return f"{op}.{bits_elem(elem) if op in _BITS_MOVED else elem}"

    @staticmethod
    def _of(row: Instruction) -> Implementation:
        occupancy = [(row.units, row.busy)] if row.units else []
        occupancy += [((name,), cycles) for name, _, cycles in row.resources]
        return Implementation(tuple(occupancy), row.latency)


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
