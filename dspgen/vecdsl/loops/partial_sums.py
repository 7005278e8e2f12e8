"""Sums that wait for themselves: several partial sums in place of one, added up after the loop.

Before: `carry s = a; next s = s + x[i]`, for `trip` iterations. After, for a factor of 2: `carry p = a, q = 0;
next p = p + x[i], next q = q + x[i + step]` for half as many iterations, then `let s = p + q`. Other carried values
run on from one copy of the body to the next. Where the trip is known at run time only, the iterations that the factor,
a power of two then, leaves over go before in a loop of their own.
Requires: names unique; sums of floats may be regrouped. Ensures: the same results, but for rounding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from dspgen.vecdsl.ir.program import Address, Carried, Const, If, Let, Loop, Op, Program, Stmt, Term, Var
from dspgen.vecdsl.ir.terms import Names, Substitution, integer, names_of, own_terms, statements

_FLOATS = ("f32", "f64")
_LONG = 8  # iterations, with all partial sums in each, that a loop of unknown trip may have at least


def split_sums(program: Program, factor: int, *, floats: bool) -> Program:
    """Loops without branches and loops inside, `factor` partial sums for each sum, or as many as divide the trip.
    Without `floats` only sums of integers, which are exact."""
    names = Names.of(program)
    return replace(program, body=_block(program.body, factor, floats, names))


def adds_products(program: Program) -> bool:
    """Whether a loop adds products to a sum by an addition of its own: a fused one would wait longer for the sum."""
    for loop in (s for s in statements(program.body) if isinstance(s, Loop)):
        made = {s.name: s.value for s in loop.body if isinstance(s, Let)}
        carried = {c.name for c in loop.carried}
        for c in loop.carried:
            term = _seen(c.next, made)
            if isinstance(term, Op) and term.name in ("add", "sub"):
                args = [_seen(a, made) for a in term.args]
                sums = any(isinstance(a, Var) and a.name in carried for a in args)
                if sums and any(isinstance(a, Op) and a.name == "mul" for a in args):
                    return True
    return False


def _seen(term: Term, made: Mapping[str, Term]) -> Term:
    while isinstance(term, Var) and term.name in made:
        term = made[term.name]
    return term


def _block(body: tuple[Stmt, ...], factor: int, floats: bool, names: Names) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for stmt in body:
        match stmt:
            case Loop() if any(isinstance(s, Loop | If) for s in stmt.body):
                out.append(replace(stmt, body=_block(stmt.body, factor, floats, names)))
            case Loop():
                out += _loop(stmt, factor, floats, names)
            case If():
                out.append(replace(stmt, then=_block(stmt.then, factor, floats, names)))
            case _:
                out.append(stmt)
    return tuple(out)


def _loop(loop: Loop, most: int, floats: bool, names: Names) -> list[Stmt]:
    read = Counter(n for s in loop.body for t in own_terms(s) for n in names_of(t))
    read.update(n for c in loop.carried for n in names_of(c.next))
    made = {s.name: s.value for s in loop.body if isinstance(s, Let) and read[s.name] == 1}
    sums = {c.name for c in loop.carried if read[c.name] == 1 and _is_sum(c.next, c.name, made, floats)}
    if not sums:
        return [loop]
    if isinstance(loop.trip, Const):
        known = int(loop.trip.value)
        factor = next((f for f in range(most, 1, -1) if known % f == 0), 1)
        return [loop] if factor in (1, known) else _split(loop, factor, integer(known // factor), sums, names)
    bits = most.bit_length() - 1
    if not bits or loop.max_trip is None or loop.max_trip < _LONG << bits:
        return [loop]
    count = loop.trip.type
    trip, rest = Var(names.fresh("trip"), count), Var(names.fresh("rest"), count)
    before = replace(_renamed(loop, names), trip=rest, min_trip=0, max_trip=(1 << bits) - 1)
    gone = Op("mul", (rest, integer(loop.step)), loop.start.type)
    begun = zip(loop.carried, before.carried, strict=True)
    after = replace(
        loop,
        start=Op("add", (loop.start, gone), loop.start.type),
        carried=tuple(replace(c, init=Var(b.name, b.init.type)) for c, b in begun),
    )
    return [
        Let(trip.name, Op("max", (loop.trip, integer(0)), count)),
        Let(rest.name, Op("and", (trip, integer((1 << bits) - 1)), count)),
        before,
        *_split(after, 1 << bits, Op("shr", (trip, integer(bits)), count), sums, names),
    ]


def _renamed(loop: Loop, names: Names) -> Loop:
    """The loop with names of its own for all that it binds."""
    iterator = names.fresh(loop.iterator)
    known: dict[str, Term] = {loop.iterator: Var(iterator, loop.start.type)}
    known |= {c.name: Var(names.fresh(c.name), c.init.type) for c in loop.carried}
    change = Substitution(known, {loop.iterator: Address(0, ((iterator, 1),))})
    body: list[Stmt] = []
    for stmt in loop.body:
        copied = change.stmt(stmt)
        if isinstance(copied, Let):
            known[copied.name] = Var(names.fresh(copied.name), copied.value.type)
            copied = Let(_name_of(known[copied.name]), copied.value)
        body.append(copied)
    carried = tuple(Carried(_name_of(known[c.name]), c.init, change.term(c.next)) for c in loop.carried)
    return replace(loop, iterator=iterator, carried=carried, body=tuple(body))


def _name_of(term: Term) -> str:
    assert isinstance(term, Var)
    return term.name


def _split(loop: Loop, factor: int, trip: Term, sums: set[str], names: Names) -> list[Stmt]:
    """The loop with `factor` times its body for each of `trip` iterations, and as many partial sums of each sum."""
    parts = {name: [names.fresh(f"{name}_part") for _ in range(factor)] for name in sums}
    known: dict[str, Term] = {}
    body: list[Stmt] = []
    nexts: dict[str, Term] = {}
    for copy in range(factor):
        shift = copy * loop.step
        known |= {c.name: Var(parts[c.name][copy], c.init.type) for c in loop.carried if c.name in sums}
        if shift:
            known[loop.iterator] = Op("add", (Var(loop.iterator, loop.start.type), integer(shift)), loop.start.type)
        change = Substitution(known, {loop.iterator: Address(shift, ((loop.iterator, 1),))})
        for stmt in loop.body:
            copied = change.stmt(stmt)
            if isinstance(copied, Let) and copy:
                fresh = names.fresh(copied.name)
                known[copied.name] = Var(fresh, copied.value.type)
                copied = Let(fresh, copied.value)
            body.append(copied)
        values = {c.name: change.term(c.next) for c in loop.carried}
        if copy < factor - 1:
            # What they load may be stored to in the next copy.
            kept = {c.name: Var(names.fresh(c.name), c.init.type) for c in loop.carried}
            body += [Let(kept[name].name, value) for name, value in values.items()]
            values = dict[str, Term](kept)
        for name, value in values.items():
            nexts[parts[name][copy] if name in sums else name] = value
            if name not in sums:
                known[name] = value
    carried: list[Carried] = []
    after: list[Stmt] = []
    for c in loop.carried:
        if c.name not in sums:
            carried.append(Carried(c.name, c.init, nexts[c.name]))
            continue
        zero = Const(0.0 if c.init.type.elem in _FLOATS else 0, c.init.type)
        carried += [Carried(p, c.init if k == 0 else zero, nexts[p]) for k, p in enumerate(parts[c.name])]
        terms: list[Term] = [Var(p, c.init.type) for p in parts[c.name]]
        while len(terms) > 1:
            terms = [*terms[2:], Op("add", (terms[0], terms[1]), c.init.type)]
        after.append(Let(c.name, terms[0]))
    least, most = loop.min_trip // factor, None if loop.max_trip is None else loop.max_trip // factor
    if isinstance(trip, Const):
        least = most = int(trip.value)
    made_loop = replace(
        loop,
        trip=trip,
        step=loop.step * factor,
        carried=tuple(carried),
        body=tuple(body),
        min_trip=least,
        max_trip=most,
    )
    return [made_loop, *after]


def _is_sum(term: Term, name: str, made: Mapping[str, Term], floats: bool) -> bool:
    """Whether the term is `name` with others added to it or subtracted from it; `made` are names read only once."""
    if isinstance(term, Var):
        return term.name == name or (term.name in made and _is_sum(made[term.name], name, made, floats))
    if not isinstance(term, Op) or term.name not in ("add", "sub") or (term.type.elem in _FLOATS and not floats):
        return False
    first, second = term.args
    return _is_sum(first, name, made, floats) or (term.name == "add" and _is_sum(second, name, made, floats))
