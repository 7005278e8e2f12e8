"""Sums, least and greatest values that conditions add to: joined across lanes once, behind the last of these.

Before: let s = a + reduce_add(v); store y [0] = s
        if (c) { A; let t = s + reduce_add(w); store y [0] = t }
After:  loop once for c times, u = v { A; u' = u + w }
        let s = a + reduce_add(u); store y [0] = s

What runs once or not at all, and has results, is a loop of at most one iteration.
Requires: names unique; arrays don't overlap each other. Ensures: the same contents of every parameter array, but for
the order of additions, which that of a sum across lanes is anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace

from dspgen.vecdsl.analysis.footprint import loads_in, stores_in, term_loads
from dspgen.vecdsl.ir.program import Carried, If, Let, Loop, Op, Program, Stmt, Store, Term, Var, VType
from dspgen.vecdsl.ir.terms import COMPARISONS, Names, integer, is_atom, names_of, used_names

_JOINS = {"add": "reduce_add", "min": "reduce_min", "max": "reduce_max"}


def join_once(program: Program) -> Program:
    """The program with each sum joined as late, and so seldom, as can be."""
    names = Names.of(program)
    apart = _apart(program.body, names)
    made = _block(apart, names)
    return program if made == apart else replace(program, body=made)


@dataclass(frozen=True, slots=True)
class _Joined:
    """The value of a variable: a vector joined by `op`, with what it is added to. Both are names or constants."""

    op: str
    base: Term | None
    vector: Term
    type: VType

    @property
    def value(self) -> Term:
        joined: Term = Op(_JOINS[self.op], (self.vector,), self.type)
        return joined if self.base is None else Op(self.op, (self.base, joined), self.type)

    def adds_to(self, other: _Joined) -> bool:
        """Whether vectors of both may be added up in lanes."""
        return (self.op, self.type, self.vector.type) == (other.op, other.type, other.vector.type)


def _joined(value: Term) -> _Joined | None:
    for op, join in _JOINS.items():
        match value:
            case Op(name, (vector,)) if name == join:
                found = _Joined(op, None, vector, value.type)
            case Op(name, (base, Op(inner, (vector,)))) if name == op and inner == join:
                found = _Joined(op, base, vector, value.type)
            case _:
                continue
        return found if vector.type == VType(value.type.elem, True) else None
    return None


def _apart(body: Iterable[Stmt], names: Names) -> tuple[Stmt, ...]:
    """Statements in which vectors that are joined, and what that is added to, are names or constants, so that they may
    be read later on; and so is what is stored of these."""
    out: list[Stmt] = []

    def named(term: Term) -> Term:
        if is_atom(term):
            return term
        name = names.fresh("joined")
        out.append(Let(name, term))
        return Var(name, term.type)

    for stmt in body:
        match stmt:
            case Loop():
                out.append(replace(stmt, body=_apart(stmt.body, names)))
            case If():
                out.append(replace(stmt, then=_apart(stmt.then, names)))
            case Let() | Store() if (found := _joined(stmt.value)) is not None:
                base = None if found.base is None else named(found.base)
                value = replace(found, base=base, vector=named(found.vector)).value
                out.append(replace(stmt, value=value if isinstance(stmt, Let) else named(value)))
            case _:
                out.append(stmt)
    return tuple(out)


@dataclass(frozen=True, slots=True)
class _Sum:
    """A variable that is joined, and stored."""

    let: Let
    joined: _Joined
    store: Store


@dataclass(frozen=True, slots=True)
class _More:
    """What a condition adds to a sum: the sum as it is then, and the condition behind that adds yet more."""

    sum: _Sum
    condition: If | None
    more: _More | None


def _block(body: Sequence[Stmt], names: Names, carried: Sequence[Carried] = ()) -> tuple[Stmt, ...]:
    """`carried`: what the loop round a block carries on from its end."""
    out: list[Stmt] = []
    ahead = {name for c in carried for name in names_of(c.next)}
    for k, stmt in enumerate(body):
        match stmt:
            case Loop():
                out.append(replace(stmt, body=_block(stmt.body, names, stmt.carried)))
            case If():
                out = _behind(out, stmt, {*used_names(body[k + 1 :]), *ahead}, names)
            case _:
                out.append(stmt)
    return tuple(out)


def _behind(before: list[Stmt], stmt: If, later: Set[str], names: Names) -> list[Stmt]:
    """The statements before a condition and itself, what both add up joined behind it; `later`: what is read then."""
    sums = [(s, _more(stmt, s)) for s in _sums(before) if s.let.name not in later]
    found = [(s, more) for s, more in sums if more is not None]
    if not found:
        return [*before, replace(stmt, then=_block(stmt.then, names))]
    gone = [x for s, _ in found for x in (s.let, s.store)]
    loop, values = _once(stmt, [more for _, more in found], [s.joined.vector for s, _ in found], names)
    out = [s for s in before if s not in gone]
    out.append(loop)
    for (s, _), vector in zip(found, values, strict=True):
        out += [Let(s.let.name, replace(s.joined, vector=vector).value), s.store]
    return out


def _sums(before: Sequence[Stmt]) -> list[_Sum]:
    """What is joined and stored last, and not read since."""
    lets = {s.name: s for s in before if isinstance(s, Let)}
    found: list[_Sum] = []
    for k, store in enumerate(before):
        let = lets.get(store.value.name) if isinstance(store, Store) and isinstance(store.value, Var) else None
        if not isinstance(store, Store) or let is None or not store.plain or (joined := _joined(let.value)) is None:
            continue
        others = [*before[:k], *before[k + 1 :]]
        if not _touches(before[k + 1 :], store.array) and let.name not in used_names(others):
            found.append(_Sum(let, joined, store))
    return found


def _more(stmt: If, old: _Sum) -> _More | None:
    """What a condition adds to a sum; None where it does anything else with it, or with the array that has it."""
    body, array = stmt.then, old.store.array
    at = next((k for k, s in enumerate(body) if isinstance(s, Store) and s.array == array), None)
    store = None if at is None else body[at]
    if at is None or not isinstance(store, Store) or not _alike(store, old.store):
        return None
    let = next((s for s in body[:at] if isinstance(s, Let) and store.value == Var(s.name, s.value.type)), None)
    joined = None if let is None else _joined(let.value)
    if let is None or joined is None or joined.base != old.store.value or not joined.adds_to(old.joined):
        return None
    found, own = _Sum(let, joined, store), {old.let.name, let.name}
    if own & {*names_of(stmt.condition)} or any(load.array == array for load, _ in term_loads(stmt.condition)):
        return None
    others = [s for s in body if s not in (let, store)]
    touching = [s for s in others if _touches([s], array) or own & {*used_names([s])}]
    if not touching:
        return _More(found, None, None)
    last = touching[0]
    if len(touching) > 1 or not isinstance(last, If) or body.index(last) < at or old.let.name in used_names([last]):
        return None
    more = _more(last, found)
    return None if more is None else _More(found, last, more)


def _alike(one: Store, other: Store) -> bool:
    """Whether both store at the same place, of the same type."""
    return replace(one, value=other.value, loc=other.loc) == other


def _once(stmt: If, sums: Sequence[_More], vectors: Sequence[Term], names: Names) -> tuple[Loop, list[Term]]:
    """A condition as a loop of at most one iteration that carries the vectors of sums; and what they are behind it."""
    lanes = [Var(names.fresh(f"{s.sum.let.name}_lanes"), v.type) for s, v in zip(sums, vectors, strict=True)]
    nexts: list[Term] = [
        Op(s.sum.joined.op, (v, s.sum.joined.vector), v.type) for s, v in zip(sums, lanes, strict=True)
    ]
    gone = [x for s in sums for x in (s.sum.let, s.sum.store)]
    body: list[Stmt] = []
    for inner in (s for s in stmt.then if s not in gone):
        more = {n: s.more for n, s in enumerate(sums) if s.more is not None and s.condition == inner}
        if isinstance(inner, If) and more:
            loop, values = _once(inner, [*more.values()], [nexts[n] for n in more], names)
            body.append(loop)
            for n, value in zip(more, values, strict=True):
                nexts[n] = value
        else:
            body.append(inner)
    carried = tuple(Carried(v.name, begun, n) for v, begun, n in zip(lanes, vectors, nexts, strict=True))
    trip = stmt.condition
    if not (isinstance(trip, Op) and trip.name in COMPARISONS):
        trip = Op("ne", (trip, integer(0)), trip.type)
    made = Loop(names.fresh("once"), integer(0), trip, 1, carried, _block(body, names, carried), 0, 1)
    return made, [*lanes]


def _touches(body: Iterable[Stmt], array: str) -> bool:
    return any(load.array == array for load, _ in loads_in(body)) or any(s.array == array for s in stores_in(body))
