"""Results of several vectors, each joined from all its lanes and stored next to the others, as one vector of results.

Before: store y[0] = reduce_add(a), store y[1] = reduce_add(b), ..
After:  ab = even(a, b) + odd(a, b), cd = .., abcd = even(ab, cd) + odd(ab, cd), .., store y[0 ..] = abcd..
        where each step leaves half as many lanes of each vector, until there is one

Where lanes are joined one after the other, a vector takes as long as it has lanes; so all take little more than two
shuffles each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dspgen.vecdsl.ir.program import OPS, If, Let, Load, Loop, Op, Program, Stmt, Store, Term, Var, VType
from dspgen.vecdsl.ir.terms import Names, as_vector, children

_FEWEST = 4  # results at once: as many shuffles as vectors of fewer lanes
_JOINING = {f"reduce_{op}": op for op in ("add", "min", "max")}


@dataclass(frozen=True, slots=True)
class _Result:
    """A store of one element, and its value; `name`: of that value, where it has one."""

    store: Store
    value: Term
    name: str | None = None


def with_joined_rows(program: Program, lanes: int) -> Program:
    """The program with such stores as whole vectors. Requires: a machine of `lanes` words that shuffles by any pattern
    and stores vectors at any place."""
    return replace(program, body=tuple(_block(program.body, lanes, Names.of(program))))


def _block(body: Sequence[Stmt], lanes: int, names: Names) -> Iterator[Stmt]:
    k = 0
    while k < len(body):
        found = _neighbours(body[k:], lanes)
        made: list[Stmt] = []
        while len(found) >= _FEWEST and not (made := _joined(found, lanes, names)):
            found = found[: len(found) // 2]
        if made:
            yield from made
            k += sum(1 if x.name is None else 2 for x in found)
            continue
        match body[k]:
            case Loop() as loop:
                yield replace(loop, body=tuple(_block(loop.body, lanes, names)))
            case If(condition, then):
                yield If(condition, tuple(_block(then, lanes, names)))
            case other:
                yield other
        k += 1


def _neighbours(body: Sequence[Stmt], lanes: int) -> list[_Result]:
    """The single elements that are stored there one after the other and lie side by side, as many as a power of two."""
    found: list[_Result] = []
    for result in _results_in(body):
        store, first = result.store, found[0].store if found else result.store
        beside = store.array == first.array and store.address == first.address.plus(len(found))
        if len(found) == lanes or not (beside and store.plain and not store.value.type.vector):
            break
        found.append(result)
    return found[: 1 << (len(found).bit_length() - 1)] if found else []


def _results_in(body: Sequence[Stmt]) -> Iterator[_Result]:
    k = 0
    while k < len(body):
        match body[k], body[k + 1] if k + 1 < len(body) else None:
            case Store() as store, _:
                yield _Result(store, store.value)
                k += 1
            case Let(name, value), Store(value=Var(same)) as store if same == name:
                yield _Result(store, value, name)
                k += 2
            case _:
                return


def _joined(found: Sequence[_Result], lanes: int, names: Names) -> list[Stmt]:
    """What stores all of them; nothing where that is no vector of results."""
    first = found[0].store
    if first.elem not in ("f32", "i32") or not any(_joins(x.value) for x in found):
        return []
    value = _side_by_side([x.value for x in found], first, lanes)
    if value is None:
        return []
    every = Var(names.fresh(f"{first.array}_rows"), value.type)
    store = replace(first, stride=1, value=every, active=len(found))
    scalar = VType(value.type.elem, False)
    each = (Let(x.name, Op("lane", (every,), scalar, (k,))) for k, x in enumerate(found) if x.name is not None)
    return [Let(every.name, value), store, *each]


def _joins(term: Term) -> bool:
    return isinstance(term, Op) and (term.name in _JOINING or any(map(_joins, term.args)))


def _side_by_side(terms: Sequence[Term], into: Store, lanes: int) -> Term | None:
    """The vector of these scalars; None where they are not alike, or read what other lanes are stored to."""
    first = terms[0]
    if first.type.elem not in ("f32", "i32"):
        return None
    if all(t == first for t in terms) and not _reads(first, into.array):
        return as_vector(first)
    type = VType(first.type.elem, True)
    if isinstance(first, Load):
        alike = all(t == replace(first, address=first.address.plus(k)) for k, t in enumerate(terms))
        same = first.array != into.array or first.address == into.address
        return (
            replace(first, stride=1, type=type) if alike and same and first.plain and first.elem == into.elem else None
        )
    ops = [t for t in terms if isinstance(t, Op) and t.name == getattr(first, "name", None) and not t.imm]
    if len(ops) < len(terms):
        return None
    if (op := _JOINING.get(ops[0].name)) is not None:
        vectors = [t.args[0] for t in ops]
        return None if any(_reads(v, into.array) for v in vectors) else _results(op, vectors, type, lanes)
    if OPS[ops[0].name].kind not in ("lane", "bits"):
        return None
    args = [_side_by_side(each, into, lanes) for each in zip(*(t.args for t in ops), strict=True)]
    found = [a for a in args if a is not None]
    return Op(ops[0].name, tuple(found), type) if len(found) == len(args) else None


def _reads(term: Term, array: str) -> bool:
    return (isinstance(term, Load) and term.array == array) or any(_reads(t, array) for t in children(term))


def _results(op: str, vectors: Sequence[Term], type: VType, lanes: int) -> Term:
    """Each vector's lanes joined, in the order of the vectors."""
    for _ in range(lanes.bit_length() - 1):
        pairs = zip(vectors[::2], vectors[1::2], strict=True) if len(vectors) > 1 else [(vectors[0], vectors[0])]
        vectors = [Op(op, (Op("even", pair, type), Op("odd", pair, type)), type) for pair in pairs]
    return vectors[0]
