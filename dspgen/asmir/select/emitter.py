"""Lowers vector-DSL terms to instructions on virtual registers."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from dspgen.asmir.ir.function import Imm, Instr, Item, Mem, OperandValue, Predicate, Reg, VReg
from dspgen.asmir.select.access_rows import (
    is_pair_term,
    is_word,
    lane_constants,
    load_forms,
    macro_key,
    moves_bits,
    operand_elem,
    operand_vector,
    pair_load_forms,
    scattered,
    store_forms,
)
from dspgen.asmir.select.constants import Constants
from dspgen.asmir.select.lane_elements import LaneMoves, constant_lanes
from dspgen.asmir.select.macros import expand_macro, find_macro
from dspgen.asmir.select.shuffles import Shuffles, pattern_of
from dspgen.errors import NoSchedule, Problem, TooLarge
from dspgen.target.isa.model import Macro, Operand, RegisterClass, Target
from dspgen.target.query.crossing import elements_of, word_shuffle
from dspgen.target.query.instructions import remedy_without
from dspgen.target.query.operations import COMMUTATIVE, Form, OperationTable, bit_keys, word_keys
from dspgen.vecdsl.analysis.congruence import Congruences
from dspgen.vecdsl.ir.constant_folding import with_values
from dspgen.vecdsl.ir.program import ELEM_BYTES, Const, Load, Op, Store, Term, Var, VType
from plant_core.support.location import Loc

AddressOf = Callable[[Load, bool], Mem]


@dataclass(slots=True)
class Classes:
    """The register classes that values live in, found from the ABI and the kinds of the target's classes."""

    target: Target
    scalar: RegisterClass = field(init=False)
    vector: RegisterClass = field(init=False)  # the scalars' on machines without vectors, whose vectors have one lane

    def __post_init__(self) -> None:
        self.scalar = self.target.register_class(self.target.abi.scalar_class)
        self.vector = next((c for c in self.target.registers if c.kind == "vector" and c.pair_of is None), self.scalar)

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
        if is_pair_term(term):
            return self.pair_of(self.of_type(term.type))
        return self.of_type(term.type)

    def is_pair(self, name: str) -> bool:
        """Whether a class holds register pairs."""
        return self.target.register_class(name).pair_of is not None


class Emitter:
    """Appends to `items`; `values` remembers what each term's value is in, for reuse within a block.

    `address_of` gives the memory operand of a Load, of the pair load over it where the flag is set. Constants are made
    in `sink`, before the loops. Raises TooLarge where there are over `most` instructions.
    """

    def __init__(self, target: Target, table: OperationTable, most: int | None = None) -> None:
        self.target = target
        self.table = table
        self.most = most
        self.classes = Classes(target)
        self.items: list[Item] = []
        self.sink: list[Item] = []
        self.values: dict[Term, Reg] = {}
        self.arrays_read: dict[int, tuple[Term, frozenset[str]]] = {}  # see `accesses.arrays_read`
        self.constants: dict[tuple[str, int | float, str], Reg] = {}
        self.names: dict[str, Reg] = {}
        self.assumed: dict[str, Const] = {}  # variables whose values are known where code goes now
        self.prepared: set[str] = set()
        self.loc: Loc | None = None
        self.address_of: AddressOf | None = None
        self.congruences: Congruences | None = None
        self._fresh = self._emitted = 0
        self._constant_maker = Constants(target, self)
        elements, shuffle = elements_of(target, table), word_shuffle(target, table)
        self.moves = None if elements is None else LaneMoves(self, elements)
        self.shuffles = None if shuffle is None else Shuffles(self, shuffle)
        self.vectors: dict[tuple[str, tuple[int | float, ...]], Reg] = {}
        self.distances: dict[tuple[str, int], Term] = {}  # a vector of indices by name, and a size: their product

    def forget_registers(self) -> None:
        """What control registers hold is not known from here on."""
        if self.moves is not None:
            self.moves.forget()
        if self.shuffles is not None:
            self.shuffles.forget()

    def in_sink(self, action: Callable[[], Reg]) -> Reg:
        """What `action` emits is done before the loops."""
        saved, self.items = self.items, self.sink
        viewed = None if self.moves is None else self.moves.viewed
        self.forget_registers()
        result = action()
        self.forget_registers()
        self.items = saved
        if self.moves is not None:
            self.moves.viewed = viewed
        return result

    def count(self, more: int = 1) -> None:
        self._emitted += more
        if self.most is not None and self._emitted > self.most:
            raise TooLarge(Problem("DG308", f"the plan makes over {self.most} instructions", self.loc))

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
        self.count()
        if self.moves is not None:
            for operand, value in zip(form.instruction.operands, operands, strict=True):
                if operand.write and isinstance(value, Reg):
                    self.moves.written(value.vreg)

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
        what = f"{self.target.name} has no instruction for {kind} `{op}` of type {elem}, and no row expands it"
        return NoSchedule(Problem("DG300", what, self.loc, remedy_without(op, elem, self.target)))

    # -- terms

    def lower(self, term: Term, into: Reg | None = None) -> Reg:
        """The register that holds `term`; the given one, if `into` is given."""
        term = with_values(term, self.assumed)
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

    def _strictest(self, forms: list[Form], access: Load | Store) -> list[Form]:
        """The rows whose demands on the address are known to be met, the strictest first."""
        aligns = {f.instruction.id: f.instruction.memory.align for f in forms if f.instruction.memory is not None}
        least = min(aligns.values(), default=1)

        def met(form: Form) -> bool:
            units = aligns[form.instruction.id] // ELEM_BYTES[access.elem]
            if aligns[form.instruction.id] == least:
                return True
            if self.congruences is None or access.index is not None:
                return False
            return self.congruences.modulo(access.address, units) == 0

        if len(set(aligns.values())) < 2:
            return forms
        return sorted((f for f in forms if met(f)), key=lambda f: -aligns[f.instruction.id])

    def _load(self, term: Load, into: Reg | None) -> Reg:
        cls = self.classes.of_type(term.type)
        for form in self._strictest(load_forms(self.table, term), term):
            if cls not in form.result_operand.classes:
                continue
            if term.mask is not None:
                return self._masked_load(form, term, into, cls)
            return self._emit_load(form, term, into, cls)
        what = "gather" if scattered(term) else f"load with stride {term.stride}"
        raise self.missing(what, term.elem, vector=term.type.vector)

    def _masked_load(self, form: Form, term: Load, into: Reg | None, cls: str) -> Reg:
        """A predicated load over zero."""
        if term.mask is None or form.instruction.predicable != ("lane" if term.type.vector else "scalar"):
            raise self.missing("predicated load", term.elem, vector=term.type.vector)
        destination = Reg(self.fresh(cls))
        predicate = Predicate(self.whole(self.lower(term.mask)), lane=term.type.vector)
        values = self._load_operands(form, term, destination, pair=False)
        self.move(destination, self.constant(Const(0, term.type)))
        self.emit(form, values, predicate=predicate)
        return self._moved(destination, into)

    def _load_operands(self, form: Form, load: Load, destination: Reg, *, pair: bool) -> dict[str, OperandValue]:
        if self.address_of is None:
            raise self.missing("load", load.elem)
        values: dict[str, OperandValue] = {form.result: destination}
        if len(form.args) > 1 and load.index is not None:
            values[form.args[1]] = self.lower(load.index)
        values[form.args[0]] = self.address_of(load, pair)
        return values

    def _emit_load(self, form: Form, load: Load, into: Reg | None, cls: str, *, pair: bool = False) -> Reg:
        destination = into or Reg(self.fresh(cls))
        self.emit(form, self._load_operands(form, load, destination, pair=pair))
        return destination

    def _pair_load(self, term: Op, into: Reg | None) -> Reg:
        load = term.args[0]
        if not isinstance(load, Load):
            raise self.missing("ld_pair", term.type.elem)
        cls = self.classes.of_term(term)
        for form in self._strictest(pair_load_forms(self.table, load, self.target.lanes), load):
            if cls in form.result_operand.classes:
                return self._emit_load(form, load, into, cls, pair=True)
        raise self.missing(f"pair load with stride {load.stride}", load.elem, vector=load.type.vector)

    def _op(self, term: Op, into: Reg | None) -> Reg:
        match term.name:
            case "ld_pair":
                return self._pair_load(term, into)
            case "view" | "alike":
                return self._moved(self.lower(term.args[0]), into)
            case "lo" | "hi":
                pair = self.lower(term.args[0])
                return self._moved(Reg(pair.vreg, "lo" if term.name == "lo" else "hi"), into)
            case "pair":
                if into is None and (whole := self._whole_pair(term)) is not None:
                    return whole
                destination = into or Reg(self.fresh(self.classes.of_term(term)))
                self.lower(term.args[0], Reg(destination.vreg, "lo"))
                self.lower(term.args[1], Reg(destination.vreg, "hi"))
                return destination
            case "select":
                return self._select(term, into)
            case _:
                pass
        if (form := self.choose(term)) is not None:
            return self._machine_op(form, term, into)
        if (crossed := self._crossing(term, into)) is not None:
            return crossed
        if (macro := self.macro_for(term)) is not None:
            return self._by_macro(macro, term, into)
        raise self.missing(term.name, operand_elem(term), vector=operand_vector(term))

    def _whole_pair(self, term: Op) -> Reg | None:
        """The pair that both halves already lie in."""
        low, high = (self.names.get(a.name) if isinstance(a, Var) else self.values.get(a) for a in term.args)
        fits = low is not None and high is not None and low.vreg == high.vreg
        return (
            Reg(low.vreg)
            if fits and low is not None and (low.part, high.part if high else "") == ("lo", "hi")
            else None
        )

    def _by_macro(self, macro: Macro, term: Op, into: Reg | None) -> Reg:
        args = tuple(self.lower(a) for a in term.args)
        # The macro may write its result before it has read all of its operands.
        taken = into is None or any(a.vreg == into.vreg for a in args)
        destination = Reg(self.fresh(self.classes.of_term(term))) if taken or into is None else into
        expand_macro(self, macro, destination, args, term.imm)
        self.forget_registers()
        return self._moved(destination, into) if taken else destination

    def macro_for(self, term: Op) -> Macro | None:
        wanted, given = self.classes.of_term(term), [self.classes.of_term(a) for a in term.args]
        return find_macro(self, macro_key(term), wanted, given, term.imm)

    def _crossing(self, term: Op, into: Reg | None) -> Reg | None:
        """Operations between lanes by element registers and word shuffles; None where these can't do it."""
        lanes = self.target.lanes
        if (constants := lane_constants(term, lanes)) is not None and self.moves is not None:
            if self.macro_for(term) is None:
                return self._moved(self.constant_vector(constants, term.type), into)
        elif term.name == "lane" and self.moves is not None and self.moves.elements.reads:
            return self.moves.read(self.lower(term.args[0]), term.imm[0], into)
        elif term.name in ("vec", "insert") and self.moves is not None:
            return self._join(term, into)
        elif self.shuffles is not None and is_word(term.type) and (pattern := pattern_of(term, lanes)) is not None:
            first, second = self.lower(term.args[0]), self.lower(term.args[-1])
            destination = Reg(self.fresh(self.classes.of_type(term.type)))
            self.shuffles.emit(first, second, pattern, destination)
            return self._moved(destination, into)
        return None

    def constant_vector(self, values: tuple[int | float, ...], type: VType) -> Reg:
        """A vector of constants, made before the loops."""
        if all(v == values[0] for v in values):
            return self.constant(Const(values[0], type))
        key = (type.elem, tuple(_bit_key(Const(v, type)) for v in values))
        if key not in self.vectors:
            moves = self.moves
            if moves is None:
                raise self.missing("vec", type.elem, vector=True)
            self.vectors[key] = self.in_sink(lambda: constant_lanes(moves, values, type, self.constant))
        return self.vectors[key]

    def _join(self, term: Op, into: Reg | None) -> Reg:
        """Scalars to the lanes of a vector; constants come from a vector of them, where there are several."""
        moves, lanes = self.moves, self.target.lanes
        if moves is None:
            raise self.missing(term.name, term.type.elem, vector=True)
        if term.name == "insert":
            vector, value = (self.lower(a) for a in term.args)
            return moves.join([value] * lanes, term.type, into, vector, [k != term.imm[0] for k in range(lanes)])
        fixed = [isinstance(a, Const) for a in term.args]
        base = None
        if sum(fixed) > 1 and moves.elements.put is not None:
            values = tuple(a.value if isinstance(a, Const) else 0 for a in term.args)
            base = self.constant_vector(values, term.type)
        else:
            fixed = [False] * lanes
        unused = Reg(self.fresh(self.classes.scalar.name))
        parts = [unused if kept else self.lower(a) for a, kept in zip(term.args, fixed, strict=True)]
        return moves.join(parts, term.type, into, base, fixed)

    def _select(self, term: Op, into: Reg | None) -> Reg:
        """By a predicated move over the value of the other arm, else by a macro."""
        wanted = "lane" if term.args[0].type.vector else "scalar"
        moves = (f for f in self.table.forms("mov", "i32") if f.instruction.predicable == wanted)
        if not any(moves) and (macro := self.macro_for(term)) is not None:
            return self._by_macro(macro, term, into)
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

    def choose(self, term: Op) -> tuple[Form, bool] | None:
        """The best form whose operand classes fit, and whether its first two arguments are swapped."""
        wanted = self.classes.of_term(term)
        arguments = [self.classes.of_term(a) for a in term.args]
        elem = operand_elem(term)
        if term.name in ("bcast", "lane", "mov", "dup_lane", "bcast_pair"):
            keys = word_keys(elem)
        else:
            keys = bit_keys(elem) if moves_bits(term.name) else (elem,)
        best: tuple[int, tuple[int, int, int, str], Form, bool] | None = None
        for key in dict.fromkeys(keys):
            for form in self.table.forms(term.name, key):
                if wanted not in form.result_operand.classes or not form.takes(len(term.args), term.imm):
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
                if not self._spread_by(operand, arg):
                    return None
                made -= 1  # a vector less
            made += isinstance(arg, Const)
        return made

    def _spread_by(self, operand: Operand, arg: Term) -> bool:
        """Whether the operand is a scalar that the row itself gives to all lanes."""
        return isinstance(arg, Op) and arg.name == "bcast" and self.classes.of_term(arg.args[0]) in operand.classes

    def _machine_op(self, choice: tuple[Form, bool], term: Op, into: Reg | None) -> Reg:
        form, swap = choice
        args = (term.args[1], term.args[0]) if swap else term.args
        operands: dict[str, OperandValue] = {}
        for index, arg in enumerate(args):
            operand = form.operand(index)
            if isinstance(arg, Const) and _in_range(arg, operand.imm):
                operands[operand.name] = Imm(int(arg.value))
            elif isinstance(arg, Op) and self._spread_by(operand, arg):
                operands[operand.name] = self.lower(arg.args[0])
            else:
                operands[operand.name] = self.lower(arg)
        for index, value in enumerate(term.imm, start=len(args)):
            operands[form.args[index]] = Imm(value)
        if form.result in operands:
            return self._onto(form, operands, term, into)
        destination = into or Reg(self.fresh(self.classes.of_term(term)))
        operands[form.result] = destination
        self.emit(form, operands)
        return destination

    def _onto(self, form: Form, operands: dict[str, OperandValue], term: Op, into: Reg | None) -> Reg:
        """An instruction whose result takes the place of an operand: of a copy of it."""
        start = operands.pop(form.result)
        assert isinstance(start, Reg)
        taken = into is None or any(isinstance(o, Reg) and o.vreg == into.vreg for o in operands.values())
        destination = Reg(self.fresh(self.classes.of_term(term))) if taken or into is None else into
        if start != destination:
            self.move(destination, start)
        self.emit(form, {**operands, form.result: destination})
        return self._moved(destination, into) if taken else destination

    # -- stores

    def store(self, stmt: Store, value: Reg, memory: Mem, index: Reg | None, predicate: Predicate | None) -> None:
        """Store a value, or a pair of them; `index`: of a scatter's lanes."""
        cls = self.part_class(value)
        for form in self._strictest(store_forms(self.table, stmt, self.target.lanes), stmt):
            if cls not in form.operand(len(form.args) - 1).classes:
                continue
            if predicate is not None and form.instruction.predicable == "none":
                continue
            values: dict[str, OperandValue] = {form.args[0]: memory, form.args[-1]: value}
            if index is not None and len(form.args) > 2:
                values[form.args[1]] = index
            self.emit(form, values, predicate=predicate)
            return
        what = "scatter" if index is not None else f"store with stride {stmt.stride}"
        raise self.missing(what, stmt.elem, vector=stmt.value.type.vector)


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
