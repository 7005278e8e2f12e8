"""Lowers vector-DSL terms to instructions on virtual registers."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from dspgen.asmir.constants import Constants
from dspgen.asmir.ir import Imm, Instr, Item, Mem, OperandValue, Predicate, Reg, VReg
from dspgen.asmir.lanes import lower_lanes
from dspgen.asmir.macros import expand_macro, find_macro
from dspgen.errors import NoSchedule, Problem
from dspgen.target.model import RegisterClass, Target
from dspgen.target.operations import COMMUTATIVE, Form, OperationTable, bits_elem
from dspgen.vecdsl.ir import Const, Load, Op, Term, Var, VType
from plant_core.loc import Loc

AddressOf = Callable[[Load, bool], Mem]


@dataclass(slots=True)
class Classes:
    """The register classes that values live in, found from the ABI and the kinds of the target's classes."""

    target: Target
    scalar: RegisterClass = field(init=False)
    vector: RegisterClass = field(init=False)

    def __post_init__(self) -> None:
        self.scalar = self.target.register_class(self.target.abi.scalar_class)
        self.vector = next(c for c in self.target.registers if c.kind == "vector" and c.pair_of is None)

    def pair_of(self, name: str) -> str:
        pair = next((c.name for c in self.target.registers if c.pair_of == name), None)
        if pair is None:
            raise NoSchedule(Problem("DG301", f"register class {name} has no pairs on {self.target.name}"))
        return pair

    def of_type(self, type: VType) -> str:
        base = self.vector if type.vector else self.scalar
        wide = type.elem in ("f64", "i64")
        return self.pair_of(base.name) if wide and base.bits < 64 else base.name

    def of_term(self, term: Term) -> str:
        if isinstance(term, Op) and term.name in ("ld_pair", "bcast_pair", "pair"):
            return self.pair_of(self.of_type(term.type))
        return self.of_type(term.type)

    def is_pair(self, name: str) -> bool:
        return self.target.register_class(name).pair_of is not None


class Emitter:
    """Appends to `items`; `values` remembers what each term's value is in, for reuse within a block.

    `address_of` gives the memory operand of a Load, of the pair load over it where the flag is set. Constants are made
    in `sink`, before the loops.
    """

    def __init__(self, target: Target, table: OperationTable) -> None:
        self.target = target
        self.table = table
        self.classes = Classes(target)
        self.items: list[Item] = []
        self.sink: list[Item] = []
        self.values: dict[Term, Reg] = {}
        self.constants: dict[tuple[str, int | float, str], Reg] = {}
        self.names: dict[str, Reg] = {}
        self.prepared: set[str] = set()
        self.loc: Loc | None = None
        self.address_of: AddressOf | None = None
        self._fresh = 0
        self._constant_maker = Constants(target, self)

    # -- registers and instructions

    def fresh(self, cls: str, hint: str = "t") -> VReg:
        self._fresh += 1
        return VReg(f"{hint}{self._fresh}", cls)

    def emit(
        self,
        form: Form,
        args: dict[str, OperandValue],
        *,
        predicate: Predicate | None = None,
        into: list[Item] | None = None,
    ) -> None:
        operands = tuple(args[o.name] for o in form.instruction.operands)
        instr = Instr(form.instruction, operands, predicate, self.loc)
        (self.items if into is None else into).append(instr)

    def move(self, destination: Reg, source: Reg, *, predicate: Predicate | None = None) -> None:
        cls = self.part_class(destination)
        source_cls = self.part_class(source)
        for form in self.table.forms("mov", "i32"):
            if form.instruction.predicable == "none" and predicate is not None:
                continue
            if cls in form.result_operand.classes and source_cls in form.operand(0).classes:
                self.emit(form, {form.result: destination, form.args[0]: source}, predicate=predicate)
                return
        if self.classes.is_pair(cls) and cls == source_cls:
            self.move(Reg(destination.vreg, "lo"), Reg(source.vreg, "lo"), predicate=predicate)
            self.move(Reg(destination.vreg, "hi"), Reg(source.vreg, "hi"), predicate=predicate)
            return
        raise self.missing("mov", f"{source_cls} to {cls}")

    def part_class(self, reg: Reg) -> str:
        cls = self.target.register_class(reg.vreg.cls)
        return cls.pair_of if reg.part and cls.pair_of else cls.name

    def missing(self, op: str, elem: str, *, vector: bool = False) -> NoSchedule:
        kind = "vector" if vector else "scalar"
        return NoSchedule(
            Problem(
                "DG300",
                f"{self.target.name} has no instruction for {kind} `{op}` of type {elem}, and no row expands it",
                self.loc,
                "describe one in the ISA file, or add a rewrite row for it",
            )
        )

    # -- terms

    def lower(self, term: Term, into: Reg | None = None) -> Reg:
        """The register that holds `term`; the given one, if `into` is given."""
        if into is None and (known := self.values.get(term)) is not None:
            return known
        match term:
            case Const():
                result = self.constant(term, into)
            case Var(name):
                result = self._moved(self.names[name], into)
            case Load():
                result = self._load(term, into)
            case Op():
                known = self.values.get(term)
                result = self._moved(known, into) if known is not None else self._op(term, into)
        if not isinstance(term, Const | Var) and into is None:
            self.values[term] = result
        return result

    def _moved(self, source: Reg, into: Reg | None) -> Reg:
        if into is None or into == source:
            return source
        self.move(into, source)
        return into

    def constant(self, term: Const, into: Reg | None = None) -> Reg:
        cls = self.classes.of_type(term.type)
        if into is not None:
            self._constant_maker.make(term, into, self.items)
            return into
        key = (term.type.elem, _bit_key(term), cls)
        if key not in self.constants:
            reg = Reg(self.fresh(cls, "k"))
            self._constant_maker.make(term, reg, self.sink)
            self.constants[key] = reg
        return self.constants[key]

    def _load(self, term: Load, into: Reg | None) -> Reg:
        cls = self.classes.of_type(term.type)
        op = "vld" if term.type.vector else "ld"
        shape = (term.stride, 0) if term.type.vector else ()
        for form in self.table.forms(op, bits_elem(term.elem)):
            if form.shape == shape and cls in form.result_operand.classes:
                return self._emit_load(form, term, into, cls)
        raise self.missing(f"load with stride {term.stride}", term.elem, vector=term.type.vector)

    def _emit_load(self, form: Form, load: Load, into: Reg | None, cls: str, *, pair: bool = False) -> Reg:
        destination = into or Reg(self.fresh(cls))
        if self.address_of is None:
            raise self.missing("load", load.elem)
        self.emit(form, {form.result: destination, form.args[0]: self.address_of(load, pair)})
        return destination

    def _pair_load(self, term: Op, into: Reg | None) -> Reg:
        load = term.args[0]
        if not isinstance(load, Load):
            raise self.missing("ld_pair", term.type.elem)
        cls = self.classes.of_term(term)
        elem = bits_elem(load.elem)
        if load.type.vector:
            s = load.stride
            shape = (s, 0, s, self.target.lanes if s == 1 else 1)
            forms = [f for f in self.table.forms("vld_pair", elem) if f.shape == shape]
        else:
            forms = self.table.forms("ld_pair", elem) + (self.table.forms("ld", "i64") if elem == "i32" else [])
        for form in forms:
            if cls in form.result_operand.classes:
                return self._emit_load(form, load, into, cls, pair=True)
        raise self.missing(f"pair load with stride {load.stride}", load.elem, vector=load.type.vector)

    def _op(self, term: Op, into: Reg | None) -> Reg:
        match term.name:
            case "ld_pair":
                return self._pair_load(term, into)
            case "lo" | "hi":
                pair = self.lower(term.args[0])
                return self._moved(Reg(pair.vreg, "lo" if term.name == "lo" else "hi"), into)
            case "pair":
                destination = into or Reg(self.fresh(self.classes.of_term(term)))
                self.lower(term.args[0], Reg(destination.vreg, "lo"))
                self.lower(term.args[1], Reg(destination.vreg, "hi"))
                return destination
            case "select":
                return self._select(term, into)
            case _:
                pass
        if (form := self._choose(term)) is not None:
            return self._machine_op(form, term, into)
        wanted, given = self.classes.of_term(term), [self.classes.of_term(a) for a in term.args]
        if (macro := find_macro(self, _macro_key(term), wanted, given)) is not None:
            destination = into or Reg(self.fresh(self.classes.of_term(term)))
            expand_macro(self, macro, destination, tuple(self.lower(a) for a in term.args), term.imm)
            return destination
        if (by_lanes := lower_lanes(self, term, into)) is not None:
            return by_lanes
        raise self.missing(term.name, operand_elem(term), vector=operand_vector(term))

    def _select(self, term: Op, into: Reg | None) -> Reg:
        """By a predicated move over the value of the other arm."""
        lane = term.args[0].type.vector
        condition = self.lower(term.args[0])
        true = self.lower(term.args[1])
        false = self.lower(term.args[2])
        destination = Reg(self.fresh(self.classes.of_type(term.type)))
        self.move(destination, false)
        self.move(destination, true, predicate=Predicate(self.whole(condition), lane=lane))
        return self._moved(destination, into)

    def whole(self, reg: Reg) -> VReg:
        """A register of its own for a value that may be half of a pair."""
        if not reg.part:
            return reg.vreg
        copy = Reg(self.fresh(self.part_class(reg)))
        self.move(copy, reg)
        return copy.vreg

    def _choose(self, term: Op) -> tuple[Form, bool] | None:
        """The best form whose operand classes fit, and whether its first two arguments are swapped."""
        wanted = self.classes.of_term(term)
        arguments = [self.classes.of_term(a) for a in term.args]
        elem = "i32" if term.name in ("bcast", "lane", "mov", "dup_lane", "bcast_pair") else operand_elem(term)
        best: tuple[int, tuple[int, int, int, str], Form, bool] | None = None
        for key in dict.fromkeys((elem, bits_elem(elem)) if _moves_bits(term.name) else (elem,)):
            for form in self.table.forms(term.name, key):
                if wanted not in form.result_operand.classes or len(form.args) != len(term.args) + len(term.imm):
                    continue
                for swap in (False, True) if term.name in COMMUTATIVE else (False,):
                    order = [1, 0] if swap else list(range(len(term.args)))
                    made = self._fits(form, [term.args[i] for i in order], [arguments[i] for i in order])
                    if made is not None and (best is None or (made, form.preference) < best[:2]):
                        best = (made, form.preference, form, swap)
        return None if best is None else (best[2], best[3])

    def _fits(self, form: Form, args: list[Term], classes: list[str]) -> int | None:
        """How many constants would have to be made, or None if an operand does not fit."""
        made = 0
        for index, (arg, cls) in enumerate(zip(args, classes, strict=True)):
            operand = form.operand(index)
            if isinstance(arg, Const) and _in_range(arg, operand.imm):
                continue
            if cls not in operand.classes:
                return None
            made += isinstance(arg, Const)
        return made

    def _machine_op(self, choice: tuple[Form, bool], term: Op, into: Reg | None) -> Reg:
        form, swap = choice
        args = (term.args[1], term.args[0]) if swap else term.args
        operands: dict[str, OperandValue] = {}
        for index, arg in enumerate(args):
            operand = form.operand(index)
            if isinstance(arg, Const) and _in_range(arg, operand.imm):
                operands[operand.name] = Imm(int(arg.value))
            else:
                operands[operand.name] = self.lower(arg)
        for index, value in enumerate(term.imm, start=len(args)):
            operands[form.args[index]] = Imm(value)
        destination = into or Reg(self.fresh(self.classes.of_term(term)))
        operands[form.result] = destination
        self.emit(form, operands)
        return destination

    # -- stores

    def store(
        self, *, elem: str, vector: bool, stride: int, value: Reg, memory: Mem, predicate: Predicate | None
    ) -> None:
        cls = self.part_class(value)
        shape = (stride, 0) if vector else ()
        for form in self.table.forms("vst" if vector else "st", bits_elem(elem)):
            if form.shape == shape and cls in form.operand(1).classes:
                if predicate is not None and form.instruction.predicable == "none":
                    continue
                self.emit(form, {form.args[0]: memory, form.args[1]: value}, predicate=predicate)
                return
        raise self.missing(f"store with stride {stride}", elem, vector=vector)


def operand_elem(term: Op) -> str:
    """The type that names the operation: that of the operands for comparisons, else the result's."""
    if term.name in ("lt", "ltu", "gt", "le", "ge", "eq", "ne") and term.args:
        return term.args[0].type.elem
    return term.type.elem


def operand_vector(term: Op) -> bool:
    return term.type.vector or any(a.type.vector for a in term.args)


def _macro_key(term: Op) -> str:
    return (
        term.name
        if not term.args
        else f"{term.name}.{bits_elem(operand_elem(term)) if _moves_bits(term.name) else operand_elem(term)}"
    )


def _moves_bits(name: str) -> bool:
    return name in (
        "bcast", "lane", "mov", "dup_lane", "align", "even", "odd", "zip_lo", "zip_hi", "reverse", "and", "or", "xor",
        "not", "bcast_pair", "insert",
    )  # fmt: skip


def _in_range(arg: Const, imm: tuple[int, int] | None) -> bool:
    if imm is None or arg.type.vector and arg.type.elem == "f32":
        return False
    return isinstance(arg.value, int) and arg.type.elem not in ("f32", "f64") and imm[0] <= arg.value <= imm[1]


def _bit_key(term: Const) -> int | float:
    if term.type.elem == "f32":
        return int(struct.unpack("<i", struct.pack("<f", float(term.value)))[0])
    if term.type.elem == "f64":
        return int(struct.unpack("<q", struct.pack("<d", float(term.value)))[0])
    return int(term.value)
