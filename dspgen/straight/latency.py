"""About how many cycles a program without loops takes: the more of its longest path and its busiest unit's work.

All read off the ISA file. An operation that no instruction does is taken as one scalar operation for each lane, by
way of the quickest moves there are; that is only to rank programs, the scheduler tells what they cost.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dspgen.target.isa.model import Target
from dspgen.target.query.operations import Form, OperationTable, bits_elem
from dspgen.vecdsl.ir.program import Const, Let, Load, Loop, Op, Program, Stmt, Store, Term, Var

_MOVE = 4  # cycles from one side of the machine to the other
_OVERLAP = 0.25  # the share of the lesser of path and work that isn't hidden


class Latency:
    def __init__(self, target: Target) -> None:
        self.lanes = target.lanes
        self.table = OperationTable(target)
        self.kinds = {c.name: c.kind for c in target.registers}
        self.kinds |= {c.name: self.kinds[c.pair_of] for c in target.registers if c.pair_of is not None}
        self.forms: dict[tuple[str, str, bool], Form | None] = {}

    def of(self, program: Program) -> float:
        """Cycles, of a program of Lets, Stores, and loops of these with constant trips."""
        run = _Run(self)
        run.block(program.body)
        work = max(run.work.values(), default=0.0)
        return max(run.end, work) + _OVERLAP * min(run.end, work)

    def form(self, name: str, elem: str, vector: bool) -> Form | None:
        """The quickest instruction for an operation on one side."""
        key = (name, elem, vector)
        if key not in self.forms:
            found = [f for e in dict.fromkeys((elem, bits_elem(elem))) for f in self.table.forms(name, e)]
            self.forms[key] = next((f for f in found if self._side(f) == ("vector" if vector else "scalar")), None)
        return self.forms[key]

    def _side(self, form: Form) -> str:
        operand = form.result_operand if form.result else form.operand(1)
        return next((self.kinds[c] for c in operand.classes if self.kinds.get(c) in ("vector", "scalar")), "")


@dataclass(slots=True)
class _Run:
    machine: Latency
    ready: dict[Term, float] = field(default_factory=dict)
    held: dict[str, float] = field(default_factory=dict)
    work: dict[str, float] = field(default_factory=dict)
    end: float = 0.0

    def block(self, body: tuple[Stmt, ...]) -> None:
        """A loop's iterations overlap: it takes the time of one, and the units' work of all."""
        for stmt in body:
            match stmt:
                case Let(name, value):
                    self.ready[Var(name, value.type)] = self.when(value)
                case Store():
                    self.store(stmt)
                case Loop(trip=Const(value=trip)):
                    before = dict(self.work)
                    self.block(stmt.body)
                    self.work = {u: b + trip * (w - b) for u, w in self.work.items() for b in (before.get(u, 0.0),)}

    def store(self, stmt: Store) -> None:
        vector = stmt.value.type.vector
        times = (stmt.active or self.machine.lanes) if vector and stmt.stride != 1 else 1
        start = self.when(stmt.value)
        done = start + self._spend("vst" if vector and times == 1 else "st", stmt.elem, vector and times == 1, times)
        self.held[stmt.array] = max(self.held.get(stmt.array, 0.0), done)
        self.end = max(self.end, done)

    def when(self, term: Term) -> float:
        """The cycle in which the term's value is there."""
        if isinstance(term, Const):
            return 0.0
        if term not in self.ready:
            self.ready[term] = self._made(term)
        return self.ready[term]

    def _made(self, term: Term) -> float:
        match term:
            case Load(type=type):
                times = self.machine.lanes if type.vector and term.stride != 1 else 1
                vector = type.vector and times == 1
                return self.held.get(term.array, 0.0) + self._spend("vld" if vector else "ld", term.elem, vector, times)
            case Op(name="vec", args=args):
                made = [self.when(a) for a in args if not isinstance(a, Const)]
                return max(made) + self._spend("mov", "i32", False, len(made)) + 2 * _MOVE if made else 0.0
            case Op(name="lane", args=args):
                return self.when(args[0]) + self._spend("mov", "i32", False, 1) + 2 * _MOVE
            case Op(name=name, args=args, type=type):
                start = max((self.when(a) for a in args), default=0.0)
                if not args or self.machine.form(name, type.elem, type.vector) is not None:
                    return start + self._spend(name, type.elem, type.vector, 1)
                times = self.machine.lanes if type.vector and name in ("div", "sqrt") else 1
                return start + self._spend("mul", type.elem, type.vector and times == 1, 3 * times)
            case _:
                return 0.0

    def _spend(self, name: str, elem: str, vector: bool, times: int) -> float:
        """Take the units; the cycles until the last result is there."""
        form = self.machine.form(name, elem, vector)
        if form is None:
            return float(_MOVE + times - 1)
        units = form.instruction.units
        for unit in units:
            self.work[unit] = self.work.get(unit, 0.0) + times * form.instruction.busy / len(units)
        return form.instruction.latency + (times - 1) / len(units)
