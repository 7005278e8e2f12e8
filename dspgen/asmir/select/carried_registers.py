"""Registers of the variables that a loop's iterations hand on, and the exit of a loop that one of them ends."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dspgen.asmir.ir.function import Instr, Item, Jump, Label, Mark, Predicate, Reg, VReg
from dspgen.target.query.instructions import Index
from dspgen.vecdsl.ir.program import Carried, Const, Let, Loop, Op, Term, Var
from dspgen.vecdsl.ir.terms import children

if TYPE_CHECKING:
    from dspgen.asmir.select.emitter import Emitter


def begin_carried(stmt: Loop, emitter: Emitter) -> list[Reg]:
    """Carried variables in registers of their own. A constant that starts several is made once and copied, since
    copies may go on more units."""
    registers = []
    constants = [c.init for c in stmt.carried if isinstance(c.init, Const)]
    halves = _halves(stmt, emitter)
    for carried in stmt.carried:
        register = halves.get(carried.name) or Reg(emitter.fresh(emitter.classes.of_term(carried.init), "c"))
        if isinstance(carried.init, Const) and constants.count(carried.init) > 1:
            emitter.move(register, emitter.constant(carried.init))
        else:
            emitter.lower(carried.init, register)
        registers.append(register)
    for carried, register in zip(stmt.carried, registers, strict=True):
        emitter.names[carried.name] = register
    return registers


def _halves(stmt: Loop, emitter: Emitter) -> dict[str, Reg]:
    """Variables that go on as the two halves of a pair that takes the place of an operand are one register."""
    found: dict[str, Reg] = {}
    low: dict[Term, str] = {}
    for carried, made in _nexts(stmt):
        match made:
            case Op("lo", (Op() as pair,)) if _takes_a_place(pair, emitter):
                low[pair] = carried.name
            case Op("hi", (Op() as pair,)) if pair in low:
                register = emitter.fresh(emitter.classes.of_term(pair), "c")
                found |= {low.pop(pair): Reg(register, "lo"), carried.name: Reg(register, "hi")}
    return found


def _takes_a_place(op: Op, emitter: Emitter) -> bool:
    chosen = emitter.choose(op)
    return chosen is not None and chosen[0].result in chosen[0].args


def _nexts(stmt: Loop) -> list[tuple[Carried, Term]]:
    """Carried variables, and their next values as they are made in the loop's body."""
    lets = {s.name: s.value for s in stmt.body if isinstance(s, Let)}
    return [(c, lets.get(c.next.name, c.next) if isinstance(c.next, Var) else c.next) for c in stmt.carried]


def end_carried(stmt: Loop, registers: list[Reg], emitter: Emitter) -> None:
    """Assign all carried variables at once: those that others still read wait, and cycles go through copies."""
    pending: list[tuple[Reg, Term]] = []
    places: dict[VReg, list[tuple[str, Reg]]] = {}
    for register, (carried, made) in zip(registers, _nexts(stmt), strict=True):
        if register.part and register.vreg not in places and isinstance(made, Op):
            pending.append((Reg(register.vreg), made.args[0]))
        elif not register.part:
            pending.append((register, carried.next))
        places.setdefault(register.vreg, []).append((carried.name, register))
    reads = {id(n): _variables(n, emitter) for _, n in pending}
    while pending:
        for index, (register, term) in enumerate(pending):
            others = (reads[id(t)] for j, (_, t) in enumerate(pending) if j != index)
            if not any(register.vreg in read for read in others):
                emitter.lower(term, register)
                del pending[index]
                break
        else:
            register, term = pending[0]
            copy = Reg(emitter.fresh(register.vreg.cls))
            emitter.move(copy, register)
            for name, place in places[register.vreg]:
                emitter.names[name] = replace(place, vreg=copy.vreg)
            emitter.values = {t: r for t, r in emitter.values.items() if register.vreg not in _variables(t, emitter)}
            for _, later in pending[1:]:
                reads[id(later)] = reads[id(later)] - {register.vreg}
    for carried, register in zip(stmt.carried, registers, strict=True):
        emitter.names[carried.name] = register


def exit_of(stmt: Loop, registers: list[Reg], emitter: Emitter, name: str, body: list[Item]) -> Mark | None:
    """Append the branch out of the loop to its body, taken where no more iterations need to run. Returns the place of
    this name behind the loop to which it leads; None where nothing ends the loop."""
    if not stmt.going or stmt.max_trip == 1:
        return None
    going = next(r for c, r in zip(stmt.carried, registers, strict=True) if c.name == stmt.going)
    branch = Index(emitter.target).branch()
    if branch is None:
        raise emitter.missing("branch", "i32")
    predicate = emitter.fresh(going.vreg.cls, "going")
    saved, emitter.items = emitter.items, body
    emitter.move(Reg(predicate), going)
    emitter.items = saved
    jump = Instr(branch.instruction, (Label(name),), Predicate(predicate, negated=True))
    body.append(Jump(jump, tuple(dict.fromkeys(r.vreg for r in registers))))
    return Mark(name)


def _variables(term: Term, emitter: Emitter) -> frozenset[VReg]:
    """The registers that evaluating `term` now would read: of variables, not of values already computed."""
    found: set[VReg] = set()
    stack: list[Term] = [term]
    while stack:
        node = stack.pop()
        if isinstance(node, Var):
            found.add(emitter.names[node.name].vreg)
        elif node not in emitter.values:
            stack.extend(children(node))
    return frozenset(found)
