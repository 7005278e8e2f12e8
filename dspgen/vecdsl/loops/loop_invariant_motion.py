"""Loop-invariant terms move in front of their loop, as many as registers are set aside for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dspgen.vecdsl.analysis.footprint import (
    Footprint,
    Overlap,
    of_load,
    of_store,
    overlap,
    stores_in,
    term_loads,
)
from dspgen.vecdsl.analysis.integer_ranges import Ranges, with_inner_loops
from dspgen.vecdsl.ir.program import Carried, Const, If, Let, Load, Loop, Op, Program, Stmt, Store, Term, Var
from dspgen.vecdsl.ir.terms import Names, children, names_of, own_terms, statements, used_names

VECTORS = 24
SCALARS = 16


def hoist(program: Program, lanes: int, *, vectors: int = VECTORS, scalars: int = SCALARS) -> Program:
    """Names subterms that a loop computes anew in each iteration, before the loop.

    Before: `for k { A[k] = bcast(b[0]) * A[k] }`. After: `let b0 = bcast(b[0]); for k { A[k] = b0 * A[k] }`.
    Requires: `lanes` is the machine's. `vectors` and `scalars` are how many values of each kind may be live through
    a loop, carried ones and those of the loops around it included. Ensures: the same stores; a load moves only where
    it was to run anyway, or where it is always inside its array.
    """
    mover = _Mover(program, lanes, {True: vectors, False: scalars})
    return replace(program, body=mover.block(program.body, Ranges(), {True: 0, False: 0}))


@dataclass(slots=True)
class _Candidate:
    """An invariant term of a loop: where it first occurs, how often, and what hoisting it saves an iteration."""

    term: Term
    order: int
    uses: int
    cost: int


@dataclass(frozen=True, slots=True)
class _LoopFacts:
    bound: frozenset[str]
    written: tuple[Footprint, ...]
    ranges: Ranges
    runs: bool


class _Mover:
    def __init__(self, program: Program, lanes: int, limits: dict[bool, int]) -> None:
        self.names = Names.of(program)
        self.lanes = lanes
        self.limits = limits
        self.sizes = {a.name: a.size for a in program.arrays}

    def block(self, body: tuple[Stmt, ...], ranges: Ranges, live: dict[bool, int]) -> tuple[Stmt, ...]:
        """`live`: how many values of each kind live through this block because of the loops around it."""
        done = list[Stmt]()
        for stmt in body:
            ranges = ranges.after(stmt)
            match stmt:
                case If():
                    done.append(replace(stmt, then=self.block(stmt.then, ranges, live)))
                case Loop():
                    done += self.loop(stmt, ranges, live)
                case _:
                    done.append(stmt)
        return tuple(done)

    def loop(self, loop: Loop, ranges: Ranges, live: dict[bool, int]) -> list[Stmt]:
        inside = dict(live)
        for carried in loop.carried:
            inside[carried.init.type.vector] += 1
        loop = replace(loop, body=self.block(loop.body, ranges.inside(loop), inside))
        bound = frozenset(_bound_in(loop))
        written = tuple(dict.fromkeys(of_store(s, self.lanes) for s in stores_in(loop.body)))
        facts = _LoopFacts(bound, written, with_inner_loops(ranges, (loop,)), loop.min_trip >= 1)
        outer = _invariants_used(loop, facts.bound)
        for vector in outer.values():
            inside[vector] += 1
        moved, loop = self._move_lets(loop, facts, inside)
        chosen = self._choose(_candidates(loop, facts, self), inside)
        if not chosen:
            return [*moved, loop]
        names = {term: Var(self.names.fresh(_wanted_name(term)), term.type) for term in chosen}
        lets: list[Stmt] = [Let(v.name, t) for t, v in names.items()]
        return [*moved, *lets, _replace_in(loop, names)]

    def _move_lets(self, loop: Loop, facts: _LoopFacts, inside: dict[bool, int]) -> tuple[list[Stmt], Loop]:
        """Whole Lets of the body that are invariant, as far as registers go: they were live in the body anyway."""
        moved, kept = list[Stmt](), list[Stmt]()
        bound = set(facts.bound)
        for stmt in loop.body:
            if isinstance(stmt, Let):
                now = replace(facts, bound=frozenset(bound))
                kind = stmt.value.type.vector
                if self.invariant(stmt.value, now) and inside[kind] < self.limits[kind]:
                    inside[kind] += 1
                    bound.discard(stmt.name)
                    moved.append(stmt)
                    continue
            kept.append(stmt)
        return moved, replace(loop, body=tuple(kept)) if moved else loop

    def invariant(self, term: Term, facts: _LoopFacts, conditional: bool = False) -> bool:
        if any(name in facts.bound for name in names_of(term)):
            return False
        for load, paired in term_loads(term):
            read = of_load(load, self.lanes, paired)
            if any(w.array == load.array and overlap(read, w, facts.ranges) != Overlap.NEVER for w in facts.written):
                return False
            fixed = load.index is None and load.mask is None
            if (conditional or not facts.runs) and not (fixed and self._inside(load, facts.ranges)):
                return False
        return True

    def _inside(self, load: Load, ranges: Ranges) -> bool:
        # The lanes after the first may be in the slack behind the array, as they are in the loop.
        low, high = ranges.minimum(load.address), ranges.maximum(load.address)
        return low is not None and high is not None and low >= 0 and high < self.sizes[load.array]

    def _choose(self, found: list[_Candidate], inside: dict[bool, int]) -> list[Term]:
        chosen = list[_Candidate]()
        waiting = sorted(found, key=lambda c: (-c.uses * c.cost, c.order))
        for candidate in waiting:
            kind = candidate.term.type.vector
            if inside[kind] < self.limits[kind]:
                inside[kind] += 1
                chosen.append(candidate)
            elif kind and isinstance(candidate.term, Op) and candidate.term.name == "bcast":
                # No room for the vector: its scalar saves the load at least.
                scalar = candidate.term.args[0]
                if _cost(scalar) and inside[False] < self.limits[False]:
                    inside[False] += 1
                    chosen.append(replace(candidate, term=scalar))
        chosen.sort(key=lambda c: c.order)
        return list(dict.fromkeys(c.term for c in chosen))


def _candidates(loop: Loop, facts: _LoopFacts, mover: _Mover) -> list[_Candidate]:
    """The maximal invariant subterms of the loop, each once, in order of occurrence."""
    found = dict[Term, _Candidate]()
    checked = dict[tuple[Term, bool], bool]()

    def visit(term: Term, conditional: bool) -> None:
        if isinstance(term, Const | Var):
            return
        key = (term, conditional)
        worth = checked.get(key)
        if worth is None:
            worth = checked[key] = mover.invariant(term, facts, conditional) and _cost(term) > 0
        if worth:
            if (known := found.get(term)) is not None:
                known.uses += 1
            else:
                found[term] = _Candidate(term, len(found), 1, _cost(term))
        elif not (isinstance(term, Op) and term.name == "ld_pair"):
            for arg in children(term):
                visit(arg, conditional)

    def block(body: tuple[Stmt, ...], conditional: bool) -> None:
        for stmt in body:
            for term in own_terms(stmt):
                visit(term, conditional)
            match stmt:
                case Loop():
                    maybe = conditional or stmt.min_trip < 1
                    block(stmt.body, maybe)
                    for carried in stmt.carried:
                        visit(carried.next, maybe)
                case If():
                    block(stmt.then, True)
                case _:
                    pass

    block(loop.body, False)
    for carried in loop.carried:
        visit(carried.next, False)
    return list(found.values())


def _cost(term: Term) -> int:
    """What computing the term takes, roughly in instructions; constants are made where the machine wants them."""
    match term:
        case Const() | Var():
            return 0
        case Load():
            return 2 + sum(_cost(t) for t in children(term))
        case Op(name="ld_pair"):
            return 2
        case Op(name="iota" | "mask_first" | "mask_period"):
            return 2
        case Op(name="vec") if all(isinstance(a, Const) for a in term.args):
            return 2
        case Op():
            inner = sum(_cost(a) for a in term.args)
            return inner if term.name == "bcast" and isinstance(term.args[0], Const) else inner + 1


def _replace_in(loop: Loop, names: dict[Term, Var]) -> Loop:
    def change(term: Term) -> Term:
        if term in names:
            return names[term]
        if isinstance(term, Load):
            index, mask = (None if t is None else change(t) for t in (term.index, term.mask))
            return term if index is term.index and mask is term.mask else replace(term, index=index, mask=mask)
        if not isinstance(term, Op) or term.name == "ld_pair":
            return term
        args = tuple(change(a) for a in term.args)
        same = all(new is old for new, old in zip(args, term.args, strict=True))
        return term if same else Op(term.name, args, term.type, term.imm)

    def stmt(s: Stmt) -> Stmt:
        match s:
            case Let():
                return Let(s.name, change(s.value))
            case Store():
                index, mask = (None if t is None else change(t) for t in (s.index, s.mask))
                return replace(s, value=change(s.value), index=index, mask=mask)
            case If():
                return If(change(s.condition), tuple(map(stmt, s.then)))
            case Loop():
                carried = tuple(Carried(c.name, change(c.init), change(c.next)) for c in s.carried)
                body = tuple(map(stmt, s.body))
                return replace(s, start=change(s.start), trip=change(s.trip), carried=carried, body=body)

    carried = tuple(Carried(c.name, c.init, change(c.next)) for c in loop.carried)
    return replace(loop, carried=carried, body=tuple(map(stmt, loop.body)))


def _bound_in(loop: Loop) -> list[str]:
    found = [loop.iterator, *(c.name for c in loop.carried)]
    for stmt in statements(loop.body):
        match stmt:
            case Let():
                found.append(stmt.name)
            case Loop():
                found += [stmt.iterator, *(c.name for c in stmt.carried)]
            case _:
                pass
    return found


def _invariants_used(loop: Loop, bound: frozenset[str]) -> dict[str, bool]:
    """The names from outside that the loop uses as values, and whether each is a vector."""
    used = set(used_names(loop.body)) | {n for c in loop.carried for n in names_of(c.next)}
    found = dict[str, bool]()
    if not used - bound:
        return found
    for stmt in statements((loop,)):
        terms = list(own_terms(stmt)) if stmt is not loop else []
        if isinstance(stmt, Loop):
            terms += [c.next for c in stmt.carried]
        for term in terms:
            for var in _variables(term):
                if var.name not in bound:
                    found[var.name] = var.type.vector
    return found


def _variables(term: Term) -> list[Var]:
    match term:
        case Var():
            return [term]
        case _:
            return [v for a in children(term) for v in _variables(a)]


def _wanted_name(term: Term) -> str:
    for load, _ in term_loads(term):
        return f"{load.array}_inv"
    return "inv"
