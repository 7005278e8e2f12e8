"""Extends 32-bit integers that lie in wider registers, where an operation's result depends on their upper bits.

Before: any legal Program; the rows for its integer operations compute on wider registers (see
`dspgen.target.query.views`).
After:  comparisons, right shifts, addresses, conditions and the like read integers whose upper bits are copies of the
        sign bit (zeros, for a right shift that fills with them). Sums, products and the like need no such operands.
Ensures: the same values. What is known to be extended (loads, flags, values in range) is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from dspgen.target.isa.model import Target
from dspgen.target.query.views import LOW_BITS, WORD
from dspgen.vecdsl.ir.program import (
    OPS,
    Carried,
    Const,
    If,
    Let,
    Load,
    Loop,
    Op,
    Program,
    Stmt,
    Store,
    Term,
    Var,
    VType,
)
from dspgen.vecdsl.ir.terms import COMPARISONS, INTEGER

InWord = Callable[[Term], bool]
_WIDE = 2 * WORD
_NARROWED = frozenset({"sext8", "sext16", "zext8", "zext16", "mac16", "mul16"})  # read some low bits only
_SUMS = frozenset({"reduce_add", "reduce_mul", "all_add"})
_KEEP = frozenset({"and", "or", "xor", "not", "mov", "min", "max", "reduce_min", "reduce_max", "all_min", "all_max"})
_SMALL = COMPARISONS | frozenset({"sext8", "sext16", "zext8", "zext16", "iota", "mask_first", "mask_period", "shr"})


def extend(program: Program, target: Target, in_word: InWord | None = None) -> Program:
    """The program for a target of which some rows are `widened`; of another, as it is. `in_word` tells whether a scalar
    integer term, computed exactly, always is a signed number of 32 bits."""
    if not any(row.widened for row in target.instructions):
        return program
    vector = next((c for c in target.registers if c.kind == "vector" and c.pair_of is None), None)
    wide = vector is not None and vector.bits > WORD
    worker = _Extension(wide, target.packed > 1, in_word or (lambda term: False))
    worker.learn(program.body)
    return replace(program, body=worker.block(program.body))


@dataclass(slots=True)
class _Extension:
    """`loose`: the variables whose upper bits may be anything. `lanes`: whether lanes are wider than words too;
    `packed`: whether they hold several, so that the upper bits of one that is read are its neighbour."""

    lanes: bool
    packed: bool
    in_word: InWord
    loose: set[str] = field(default_factory=set)

    def learn(self, body: Sequence[Stmt]) -> None:
        """Every variable counts as extended until one of its values is found that may not be."""
        before = -1
        while before < len(self.loose):
            before = len(self.loose)
            self._learn(body)

    def _learn(self, body: Sequence[Stmt]) -> None:
        for stmt in body:
            match stmt:
                case Let(name, value):
                    if not self.extended(value):
                        self.loose.add(name)
                case Loop():
                    self._learn(stmt.body)
                    for c in stmt.carried:
                        if not self.extended(c.init) or not self.extended(c.next):
                            self.loose.add(c.name)
                case If():
                    self._learn(stmt.then)
                case Store():
                    pass

    def concerns(self, type: VType) -> bool:
        """Whether values of the type are integers in wider registers."""
        return type.elem not in ("f32", "f64", "i64") and (self.lanes or not type.vector)

    def extended(self, term: Term) -> bool:
        """Whether the upper bits are known to be copies of the sign bit."""
        if not self.concerns(term.type):
            return True
        match term:
            case Const() | Load():
                return True
            case Var(name):
                return name not in self.loose
            case Op():
                return self._extended_op(term)

    def _extended_op(self, op: Op) -> bool:
        if op.name in _SMALL or op.name.startswith("cvt_"):
            return True
        if any(a.type.elem in ("f32", "f64") for a in op.args) or (op.name == "lane" and self.packed):
            return False
        if op.name == "and" and any(isinstance(a, Const) and a.value >= 0 for a in op.args):
            return True
        if op.name == "shru" and isinstance(op.args[1], Const) and 0 < op.args[1].value < WORD:
            return True
        if op.name == "select":
            return all(self.extended(a) for a in op.args[1:])
        if op.name in _KEEP or OPS[op.name].kind in ("cross", "pair") and op.name not in _SUMS:
            return all(self.extended(a) for a in op.args)
        if op.type == INTEGER:
            return self.in_word(op)
        return False

    # -- the program

    def block(self, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        return tuple(self._stmt(stmt) for stmt in body)

    def _stmt(self, stmt: Stmt) -> Stmt:
        match stmt:
            case Let(name, value):
                return Let(name, self.term(value))
            case Store():
                index = None if stmt.index is None else self.read(stmt.index)
                mask = None if stmt.mask is None else self.read(stmt.mask)
                return replace(stmt, value=self.term(stmt.value), index=index, mask=mask)
            case If():
                return If(self.read(stmt.condition), self.block(stmt.then))
            case Loop():
                body = self.block(stmt.body)
                carried = tuple(Carried(c.name, self.term(c.init), self.term(c.next)) for c in stmt.carried)
                start, trip = self.read(stmt.start), self.read(stmt.trip)
                return replace(stmt, start=start, trip=trip, carried=carried, body=body)

    def read(self, term: Term) -> Term:
        """The term with its upper bits right."""
        made = self.term(term)
        return made if self.extended(term) else _shifted(made, "shr", _wide_number(made, 0))

    def term(self, term: Term) -> Term:
        """The term with its low bits right."""
        match term:
            case Const() | Var():
                return term
            case Load():
                index = None if term.index is None else self.read(term.index)
                mask = None if term.mask is None else self.read(term.mask)
                return term if index is term.index and mask is term.mask else replace(term, index=index, mask=mask)
            case Op("shru", (value, amount)) if self.concerns(term.type):
                return self._filled_with_zeros(term, value, amount)
            case Op("shr", (value, Const() as amount)) if self.concerns(term.type):
                if self.extended(value) or not 0 <= amount.value < WORD:
                    return replace(term, args=(self.read(value), amount))
                made = self.term(value)
                return _shifted(made, "shr", _wide_number(made, int(amount.value)))
            case Op():
                return self._operation(term)

    def _operation(self, op: Op) -> Term:
        args = [self.read(a) if self._reads_all(op, k) else self.term(a) for k, a in enumerate(op.args)]
        return op if all(new is old for new, old in zip(args, op.args, strict=True)) else replace(op, args=tuple(args))

    @staticmethod
    def _reads_all(op: Op, place: int) -> bool:
        """Whether the upper bits of an operand count."""
        if op.name in ("shl", "select"):
            return place == (1 if op.name == "shl" else 0)
        if op.name in LOW_BITS or op.name in _NARROWED or op.name in _SUMS:
            return False
        if op.name.startswith("cvt_") and not op.type.vector:
            return False
        return op.name not in OPS or OPS[op.name].kind == "lane" or op.name in _KEEP

    def _filled_with_zeros(self, op: Op, value: Term, amount: Term) -> Term:
        """The word is brought to the top, and down again by so much more."""
        made = self.term(value)
        if isinstance(amount, Const) and 0 <= amount.value < WORD:
            return _shifted(made, "shru", _wide_number(made, int(amount.value)))
        cleared = _shifted(made, "shru", _wide_number(made, 0))
        return replace(op, args=(cleared, self.read(amount)))


def _wide_number(term: Term, amount: int) -> Const:
    return Const(_WIDE - WORD + amount, VType("i64", term.type.vector))


def _shifted(term: Term, down: str, amount: Const) -> Op:
    """The low word at the top of the register, and shifted down."""
    top = Op("shl", (term, replace(amount, value=_WIDE - WORD)), amount.type)
    return Op(down, (top, amount), amount.type)
