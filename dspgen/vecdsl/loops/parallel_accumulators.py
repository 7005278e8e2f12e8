"""Sums that take several terms in each iteration, as several sums side by side.

Before: `carry s = a { let b = s + x; let c = b + y; next s = c }`. After, in two parts:
`carry p = a, q = 0 { let b = p + x; let c = q + y; next p = b, next q = c }; let s = p + q`.
Requires: names unique; sums of floats may be regrouped. Ensures: the same results, but for rounding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from dspgen.vecdsl.ir.program import Carried, Const, Elem, If, Let, Loop, Op, Program, Stmt, Term, Var
from dspgen.vecdsl.ir.terms import Names, Substitution, names_of, own_terms

# How many parts a loop's sums of so many terms are to be made in.
Parts = Callable[[Loop, int, Elem], int]
_FLOATS = ("f32", "f64")


def shorten_chains(program: Program, parts: Parts, *, floats: bool) -> Program:
    """The sums of innermost loops, in as many parts as `parts` tells; without `floats`, only integers, which are
    exact."""
    names = Names.of(program)
    return replace(program, body=_block(program.body, parts, floats, names))


def _block(body: tuple[Stmt, ...], parts: Parts, floats: bool, names: Names) -> tuple[Stmt, ...]:
    done: list[Stmt] = []
    for stmt in body:
        match stmt:
            case Loop() if any(isinstance(s, Loop | If) for s in stmt.body):
                done.append(replace(stmt, body=_block(stmt.body, parts, floats, names)))
            case Loop():
                done += _loop(stmt, parts, floats, names)
            case If():
                done.append(replace(stmt, then=_block(stmt.then, parts, floats, names)))
            case _:
                done.append(stmt)
    return tuple(done)


@dataclass(frozen=True, slots=True)
class _Link:
    """One term of a sum: the Let that adds it, to the sum of the name `before`."""

    name: str
    before: str


def _loop(loop: Loop, parts: Parts, floats: bool, names: Names) -> list[Stmt]:
    read = Counter(n for s in loop.body for t in own_terms(s) for n in names_of(t))
    read.update(n for c in loop.carried for n in names_of(c.next))
    made = {s.name: s.value for s in loop.body if isinstance(s, Let)}
    carried: list[Carried] = []
    changed: dict[str, Term] = {}
    after: list[Stmt] = []
    for c in loop.carried:
        links = _links(c, made, read) if floats or c.init.type.elem not in _FLOATS else []
        count = min(parts(loop, len(links), c.init.type.elem), len(links)) if len(links) > 1 else 1
        if count < 2:
            carried.append(c)
            continue
        zero = Const(0.0 if c.init.type.elem in _FLOATS else 0, c.init.type)
        sums: list[Term] = [Var(names.fresh(f"{c.name}_part"), c.init.type) for _ in range(count)]
        latest = list(sums)
        for number, link in enumerate(links):
            known = {link.before: latest[number % count]}
            changed[link.name] = Substitution(known, {}).term(made[link.name])
            latest[number % count] = Var(link.name, c.init.type)
        for k, (sum_, last) in enumerate(zip(sums, latest, strict=True)):
            assert isinstance(sum_, Var)
            carried.append(Carried(sum_.name, c.init if k == 0 else zero, last))
        while len(sums) > 1:
            sums = [*sums[2:], Op("add", (sums[0], sums[1]), c.init.type)]
        after.append(Let(c.name, sums[0]))
    if not after:
        return [loop]
    body = tuple(
        replace(s, value=changed[s.name]) if isinstance(s, Let) and s.name in changed else s for s in loop.body
    )
    return [replace(loop, carried=tuple(carried), body=body), *after]


def _links(carried: Carried, made: Mapping[str, Term], read: Mapping[str, int]) -> list[_Link]:
    """The Lets that add to a sum, the first one first; none where the sum is looked at in between."""
    found: list[_Link] = []
    term = carried.next
    while True:
        if not isinstance(term, Var):
            return []
        if term.name == carried.name:
            return found[::-1]
        # The last one is read by the next iteration's value alone.
        step = _added(made.get(term.name))
        if step is None or read[step[0]] != step[1] or (not found and read[term.name] != 1):
            return []
        found.append(_Link(term.name, step[0]))
        term = Var(step[0], carried.init.type)


def _added(term: Term | None) -> tuple[str, int] | None:
    """The name of the sum that a term adds to, under a condition or not, and how often it names it."""
    if not isinstance(term, Op):
        return None
    if term.name == "select":
        _, new, old = term.args
        inner = _added(new)
        if not isinstance(old, Var) or inner is None or inner != (old.name, 1) or old.name in names_of(term.args[0]):
            return None
        return old.name, 2
    if term.name not in ("add", "sub"):
        return None
    first, second = term.args
    if isinstance(first, Var) and first.name not in names_of(second):
        return first.name, 1
    if term.name == "add" and isinstance(second, Var) and second.name not in names_of(first):
        return second.name, 1
    return None
