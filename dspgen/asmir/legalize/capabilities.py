"""What code selection can do as it stands, asked before anything is emitted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from dspgen.asmir.legalize.lane_spill_slots import CROSSING
from dspgen.asmir.select.access_rows import (
    is_pair_term,
    is_word,
    lane_constants,
    load_forms,
    pair_load_forms,
    store_forms,
)
from dspgen.asmir.select.shuffles import pattern_of
from dspgen.errors import NoSchedule
from dspgen.target.query.operations import Form
from dspgen.vecdsl.ir.program import ELEM_BYTES, OPS, Address, Const, Load, Op, Store, Term, Var, VType

if TYPE_CHECKING:
    from dspgen.asmir.select.emitter import Emitter

_Access = TypeVar("_Access", Load, Store)
_Key = tuple[str, VType, tuple[int, ...], tuple[tuple[VType, bool, bool], ...], bool]


class Abilities:
    """Answers about one machine, by an emitter that is asked only."""

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter
        self.lanes = emitter.target.lanes
        self.group = emitter.target.packed  # lanes that one predicate governs
        self._alike: set[str] = set()  # variables whose lanes are alike in each group
        self._spread: dict[str, Term] = {}  # what all lanes of variables are
        self._first: dict[str, Op] = {}  # variables that are masks of so many lanes
        self._direct: dict[_Key, bool] = {}

    # -- accesses

    def load(self, load: Load) -> bool:
        """Whether some row does the load, with its index and mask, if it has them."""
        found = self._fits(load_forms(self.emitter.table, load), load.type)
        if load.mask is not None:
            wanted = "lane" if load.type.vector else "scalar"
            found = [f for f in found if f.instruction.predicable == wanted and self.governs(load.mask)]
        return bool(found)

    def pair_load(self, low: Load, term: Op) -> bool:
        """Whether some row does the pair load."""
        try:
            cls = self.emitter.classes.of_term(term)
        except NoSchedule:
            return False
        forms = pair_load_forms(self.emitter.table, low, self.lanes)
        return any(cls in f.result_operand.classes for f in forms)

    def store(self, stmt: Store) -> bool:
        """Whether some row does the store as it is, masked where it must be."""
        partial = stmt.mask is not None or (stmt.active is not None and stmt.active < self.lanes)
        if partial and (stmt.active or 0) % self.group or (stmt.mask is not None and not self.governs(stmt.mask)):
            return False
        try:
            cls = self.emitter.classes.of_term(stmt.value)
        except NoSchedule:
            return False
        for form in store_forms(self.emitter.table, stmt, self.lanes):
            if cls in form.operand(len(form.args) - 1).classes and (
                not partial or form.instruction.predicable == ("lane" if stmt.value.type.vector else "scalar")
            ):
                return True
        return False

    def governs(self, condition: Term) -> bool:
        """Whether a condition can be a predicate: of lanes, it is then alike in those that one predicate governs."""
        match condition:
            case Const() | Op(name="bcast" | "alike"):
                return True
            case Var(name):
                return self.group == 1 or not condition.type.vector or name in self._alike
            case _:
                return self.group == 1 or not condition.type.vector

    def learn(self, name: str, value: Term) -> None:
        """A variable has this value."""
        match value:
            case Op("bcast", (Const() | Var() as place,)):
                self._spread[name] = place
            case Var(other) if other in self._spread:
                self._spread[name] = self._spread[other]
        match value:
            case Op(name="mask_first"):
                self._first[name] = value
            case Var(other) if other in self._first:
                self._first[name] = self._first[other]
        if isinstance(value, Op) and value.name == "alike" or isinstance(value, Var) and value.name in self._alike:
            self._alike.add(name)

    def first_lanes(self, mask: Term) -> Op | None:
        """The mask as that of the first lanes, so many as is known, if it is."""
        return self._first.get(mask.name) if isinstance(mask, Var) else None

    def lane_predicates(self, stmt: Store) -> bool:
        """Whether some row does the vector store on lanes of one's choice."""
        return any(f.instruction.predicable == "lane" for f in store_forms(self.emitter.table, stmt, self.lanes))

    def whole(self, access: _Access) -> _Access | None:
        """The access of a vector at one computed place, its index that of all lanes, if some row does it anywhere."""
        match access.index:
            case Op("bcast", (place,)):
                pass
            case Var(name) if name in self._spread:
                place = self._spread[name]
            case _:
                return None
        found = replace(access, index=place)
        able = self.load(found) if isinstance(found, Load) else self.store(found)
        return found if able and self.alignment(found, pair=False) <= ELEM_BYTES[found.elem] else None

    def alignment(self, access: Load | Store, *, pair: bool) -> int:
        """The alignment in bytes that an access has to have; the least, where there are several rows for it."""
        table = self.emitter.table
        if isinstance(access, Load):
            forms = pair_load_forms(table, access, self.lanes) if pair else load_forms(table, access)
        else:
            forms = store_forms(table, access, self.lanes)
        return min((f.instruction.memory.align for f in forms if f.instruction.memory is not None), default=1)

    def _fits(self, forms: list[Form], type: VType) -> list[Form]:
        try:
            cls = self.emitter.classes.of_type(type)
        except NoSchedule:
            return []
        return [f for f in forms if cls in f.result_operand.classes]

    # -- operations

    def shuffles(self, type: VType) -> bool:
        """Whether any pattern of two vectors can be done."""
        return self.emitter.shuffles is not None and is_word(type)

    def selects(self, type: VType) -> bool:
        """Whether `select` on values of the type is done as it stands."""
        condition = VType("i32", type.vector)
        return self.direct(Op("select", (Var("c", condition), Var("a", type), Var("b", type)), type))

    def direct(self, op: Op) -> bool:
        """Whether `op` on registers is done by a row, a macro, element registers or a shuffle."""
        key = (
            op.name,
            op.type,
            op.imm,
            tuple((a.type, is_pair_term(a), isinstance(a, Const)) for a in op.args) if op.name != "vec" else (),
            op.name == "select" and self.governs(op.args[0]),
        )
        if key not in self._direct or op.name == "vec":
            try:
                self._direct[key] = self._does(op)
            except NoSchedule:
                self._direct[key] = False
        return self._direct[key]

    def _does(self, op: Op) -> bool:
        emitter = self.emitter
        match op.name:
            case "lo" | "hi" | "view" | "alike":
                return True
            case "pair":
                return bool(emitter.classes.of_term(op))
            case "select":
                return self._predicated_move(op) or emitter.macro_for(op) is not None
            case _:
                pass
        if op.name in CROSSING:
            return self._by_registers(op) or self.in_memory(op.args[0].type if op.name == "lane" else op.type)
        if emitter.choose(op) is not None or emitter.macro_for(op) is not None:
            return True
        return self.shuffles(op.type) and pattern_of(op, self.lanes) is not None

    def _by_registers(self, op: Op) -> bool:
        """Whether one of the operations of `CROSSING` needs no memory."""
        emitter = self.emitter
        if emitter.choose(op) is not None or emitter.macro_for(op) is not None:
            return True
        elements = None if emitter.moves is None else emitter.moves.elements
        if op.name == "lane":
            return elements is not None and elements.reads
        if op.name == "insert":
            return elements is not None and elements.writes and elements.put is not None
        constants = lane_constants(op, self.lanes)
        same = constants is not None and all(c == constants[0] for c in constants)
        return same or (elements is not None and elements.writes)

    def by_memory(self, op: Op) -> bool:
        """Whether the operation moves single lanes and only memory does that."""
        if op.name not in CROSSING or not self.direct(op):
            return False
        try:
            return not self._by_registers(op)
        except NoSchedule:
            return True

    def in_memory(self, type: VType) -> bool:
        """Whether vectors of the type, and scalars of their elements, can be stored and loaded again."""
        place, elem = Address(0), type.elem
        return all(
            self.load(Load("", place, 1, elem, t)) and self.store(Store("", place, 1, elem, Var("x", t)))
            for t in (VType(elem, True), VType(elem, False))
        )

    def _predicated_move(self, op: Op) -> bool:
        if not self.governs(op.args[0]):
            return False
        emitter = self.emitter
        cls = emitter.classes.of_type(op.type)
        single = emitter.target.register_class(cls).pair_of or cls
        wanted = "lane" if op.args[0].type.vector else "scalar"
        for form in emitter.table.forms("mov", "i32"):
            known = (cls, single)
            fits = any(c in form.result_operand.classes and c in form.operand(0).classes for c in known)
            if fits and form.instruction.predicable == wanted:
                return True
        return False

    def by_lanes(self, op: Op) -> bool:
        """Whether a vector operation can be done lane by lane on the scalar side."""
        if not op.type.vector:
            return False
        if OPS[op.name].kind not in ("lane", "bits") or any(is_pair_term(a) or not a.type.vector for a in op.args):
            return False
        args: tuple[Term, ...] = tuple(
            Const(a.value, VType(a.type.elem, False)) if isinstance(a, Const) else Var("x", VType(a.type.elem, False))
            for a in op.args
        )
        crossed = (
            *(
                Op("lane", (a,), VType(a.type.elem, False), (k,))
                for a in op.args
                if not isinstance(a, Const)
                for k in range(self.lanes)
            ),
            Op("vec", tuple(Var("x", VType(op.type.elem, False)) for _ in range(self.lanes)), op.type),
        )
        if not all(self.direct(move) for move in crossed):
            return False
        return self.possible(Op(op.name, args, VType(op.type.elem, False), op.imm))

    def possible(self, op: Op) -> bool:
        """Whether the operation is done as it stands, or spelled out."""
        from dspgen.asmir.legalize.expand_operations import expanded

        return self.direct(op) or expanded(op, self) is not None or self.by_lanes(op)
