"""Loads that repeat what the iteration before loaded, carried in registers (predictive commoning)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dspgen.vecdsl.footprint import term_loads, written_arrays
from dspgen.vecdsl.forward import ALL_LANES, map_demand
from dspgen.vecdsl.ir import Address, Carried, If, Let, Load, Loop, Program, Stmt, Term, Var
from dspgen.vecdsl.terms import (
    Names,
    Substitution,
    index_names,
    linear_address,
    map_terms,
    own_terms,
)

DEEPEST = 8


def carry_loads(program: Program, *, vectors: int = 0, scalars: int = 8) -> Program:
    """Keeps loaded values for the iterations that load them again.

    Before: `for i { y[i] = x[i] + x[i+1] }`. After: `for i, h = x[start] { let f = x[i+1]; y[i] = h + f; h' = f }`.
    Requires: `vectors` and `scalars` are how many more values of each kind each loop may carry. Ensures: the same
    stores; only arrays that a loop doesn't write are looked at, and nothing is loaded that wasn't.
    """
    carrier = _Carrier(Names.of(program), index_names(program), {True: vectors, False: scalars})
    return replace(program, body=carrier.block(program.body))


@dataclass(frozen=True, slots=True)
class _Chain:
    """Equal loads but for constants that are one iteration's move apart, first in time last."""

    loads: tuple[Load, ...]


class _Carrier:
    def __init__(self, names: Names, indices: frozenset[str], limits: dict[bool, int]) -> None:
        self.names = names
        self.indices = indices
        self.limits = limits

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        done = list[Stmt]()
        for stmt in body:
            match stmt:
                case Loop():
                    done.append(self.loop(replace(stmt, body=self.block(stmt.body))))
                case If():
                    done.append(replace(stmt, then=self.block(stmt.then)))
                case _:
                    done.append(stmt)
        return tuple(done)

    def loop(self, loop: Loop) -> Loop:
        start = linear_address(loop.start)
        if start is None or loop.min_trip < 1 or any(n not in self.indices for n, _ in start.terms):
            return loop
        room = dict(self.limits)
        chosen = list[_Chain]()
        for chain in _chains(loop):
            vector, need = chain.loads[0].type.vector, len(chain.loads) - 1
            if need <= room[vector]:
                room[vector] -= need
                chosen.append(chain)
        return self._carry(loop, chosen, start) if chosen else loop

    def _carry(self, loop: Loop, chains: list[_Chain], start: Address) -> Loop:
        at_start = Substitution({}, {loop.iterator: start})
        known, lets, carried = dict[Load, Term](), list[Stmt](), list[Carried]()
        for chain in chains:
            newest = chain.loads[0]
            following = Var(self.names.fresh(f"{newest.array}_now"), newest.type)
            lets.append(Let(following.name, newest))
            known[newest] = following
            for load in chain.loads[1:]:
                variable = Var(self.names.fresh(f"{load.array}_then"), load.type)
                first = replace(load, address=at_start.address(load.address))
                carried.append(Carried(variable.name, first, following))
                known[load] = following = variable

        def change(term: Term) -> Term:
            return map_demand(term, ALL_LANES, lambda load, _: known.get(load, load))

        body = tuple(map_terms(s, change) for s in loop.body)
        kept = tuple(Carried(c.name, c.init, change(c.next)) for c in loop.carried)
        return replace(loop, carried=(*kept, *carried), body=(*lets, *body))


def _chains(loop: Loop) -> list[_Chain]:
    written = written_arrays(loop.body)
    groups = dict[Load, dict[int, Load]]()
    terms = [t for s in loop.body for t in own_terms(s)] + [c.next for c in loop.carried]
    for term in terms:
        for load, paired in term_loads(term):
            fixed = load.index is None and load.mask is None
            if load.array not in written and not paired and fixed and load.address.coefficient(loop.iterator):
                key = replace(load, address=replace(load.address, constant=0))
                groups.setdefault(key, {})[load.address.constant] = load
    found = list[_Chain]()
    for key, loads in groups.items():
        move = key.address.coefficient(loop.iterator) * loop.step
        for constant in sorted(loads, reverse=move > 0):
            run = [loads[constant]]
            if constant + move in loads:
                continue
            while len(run) <= DEEPEST and constant - len(run) * move in loads:
                run.append(loads[constant - len(run) * move])
            if len(run) > 1:
                found.append(_Chain(tuple(run)))
    return found
