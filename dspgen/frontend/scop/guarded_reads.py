"""One C assignment as one or more statements of the polyhedral program, none of which reads what C wouldn't.

Before: `y[i] = i > 0 ? x[i - 1] : 0;` with i from 0.
After:  `y[i] = x[i - 1];` for i > 0, and `y[i] = 0;` for i = 0.

A conditional expression stays as it is unless an access needs its condition. Subscripts that are affine in pieces, such
as `x[i > 0 ? i - 1 : 0]`, are split into their pieces too. Ensures: every index is a sum in the form of
`affine.to_expr`, and every access that is known to leave its array is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import islpy as isl

from dspgen.errors import Problem
from dspgen.frontend.scop import check_bounds
from dspgen.frontend.scop.affine_sets import Nest, NotAffine, condition, is_irregular, piecewise, to_expr
from dspgen.frontend.scop.expr_walk import accesses, children, rebuild
from plant_core.ir.func import Binary, Expr, Extent, Load, Select, Val

_CHOSEN = "a condition on data doesn't keep it from being read, as elements are read ahead of it"
Shapes = Mapping[str, tuple[Extent, ...]]


@dataclass(frozen=True, slots=True)
class Case:
    nest: Nest
    target: Load
    value: Expr


def cases(nest: Nest, target: Load, value: Expr, shapes: Shapes) -> tuple[list[Case], list[Problem]]:
    """The statements, with disjoint domains that together are the nest's, and the accesses that leave their arrays."""
    found = list(_split(nest, target, value, shapes))
    problems = []
    for case in found:
        inner = (a for index in case.target.indices for a in accesses(index))
        chosen = _chosen(case.value)
        for access, writes in [(case.target, True), *((a, False) for a in (*inner, *accesses(case.value)))]:
            wrong = check_bounds.problem(access, shapes[access.buf], case.nest, writes=writes)
            if wrong is not None:
                if access in chosen and not writes:
                    wrong = replace(wrong, remedy=f"{wrong.remedy}; {_CHOSEN}")
                problems.append(wrong)
    return found, problems


def _chosen(value: Expr) -> set[Load]:
    """The accesses that a condition chooses, which is no affine one here."""
    found = (
        {a for branch in (value.true, value.false) for a in accesses(branch)} if isinstance(value, Select) else set()
    )
    return found.union(*(_chosen(child) for child in children(value)))


def _split(nest: Nest, target: Load, value: Expr, shapes: Shapes) -> Iterator[Case]:
    if nest.domain.is_empty():
        return
    value = _decided(value, nest)
    border = _border(target, nest, shapes)
    if border is None:
        border = _border(value, nest, shapes)
    if border is None:
        yield Case(nest, replace(target, indices=_indices(target, nest)), _canonical(value, nest))
        return
    yield from _split(_tidy(nest.within(border)), target, value, shapes)
    yield from _split(_tidy(nest.without(border)), target, value, shapes)


def _tidy(nest: Nest) -> Nest:
    return Nest(nest.iters, nest.domain.coalesce())


def _affine(expr: Expr, nest: Nest) -> isl.Set | None:
    if is_irregular(expr):
        return None
    try:
        return condition(expr, nest)
    except NotAffine:
        return None


def _outcome(expr: Expr, nest: Nest) -> bool | None:
    """How a condition comes out wherever the nest reaches, if always in the same way."""
    chosen = _affine(expr, nest)
    if chosen is None:
        return None
    if nest.domain.is_subset(chosen):
        return True
    return False if nest.domain.is_disjoint(chosen) else None


def _decided(expr: Expr, nest: Nest) -> Expr:
    """Without the conditions whose outcome is the same at every point of the nest."""
    match expr:
        case Load():
            return expr
        case Select(chosen, true, false):
            outcome = _outcome(chosen, nest)
            if outcome is not None:
                return _decided(true if outcome else false, nest)
        case Binary("land" | "lor" as op, left, right):
            outcome = _outcome(left, nest)
            if outcome is not None:
                return _decided(right, nest) if outcome == (op == "land") else Val(int(op == "lor"), "i32")
    return rebuild(expr, lambda e: _decided(e, nest))


def _border(expr: Expr, nest: Nest, shapes: Shapes) -> isl.Set | None:
    """A set that some access needs to be told apart from the rest of the nest."""
    match expr:
        case Load():
            own = next((s for index in expr.indices if (s := _first_piece(index, nest)) is not None), None)
            if own is not None:
                return own
        case Select(chosen, true, false):
            kept = _affine(chosen, nest)
            if kept is not None and (
                _needs(true, kept, nest, shapes) or _needs(false, _rest(kept, nest), nest, shapes)
            ):
                return kept
        case Binary("land" | "lor" as op, left, right):
            kept = _affine(left, nest)
            if kept is not None and _needs(right, kept if op == "land" else _rest(kept, nest), nest, shapes):
                return kept
    return next((s for child in children(expr) if (s := _border(child, nest, shapes)) is not None), None)


def _rest(kept: isl.Set, nest: Nest) -> isl.Set:
    return nest.domain.subtract(kept)


def _needs(expr: Expr, kept: isl.Set, nest: Nest, shapes: Shapes) -> bool:
    """Whether some access is inside its array only thanks to the condition."""
    for access in accesses(expr):
        try:
            if not check_bounds.outside(access, shapes[access.buf], nest).is_subset(kept):
                return True
        except NotAffine:
            return True
    return False


def _pieces(index: Expr, nest: Nest) -> list[tuple[isl.Set, isl.Aff]]:
    pieces = piecewise(index, nest).coalesce().get_pieces()
    if len(pieces) == 1:
        return list(pieces)
    found = [(s, a) for s, a in pieces if not s.is_disjoint(nest.domain)]
    # Several pieces may be one function where they meet the nest.
    alone = [(s, a) for s, a in found if _agrees(a, found, nest)]
    return alone[:1] or found


def _agrees(aff: isl.Aff, pieces: list[tuple[isl.Set, isl.Aff]], nest: Nest) -> bool:
    whole = isl.PwAff.from_aff(aff)
    return all(s.intersect(nest.domain).is_subset(whole.eq_set(isl.PwAff.from_aff(other))) for s, other in pieces)


def _first_piece(index: Expr, nest: Nest) -> isl.Set | None:
    if is_irregular(index):
        return None
    pieces = _pieces(index, nest)
    return pieces[0][0] if len(pieces) > 1 else None


def _indices(access: Load, nest: Nest) -> tuple[Expr, ...]:
    return tuple(
        _canonical(index, nest) if is_irregular(index) else to_expr(_pieces(index, nest)[0][1], nest)
        for index in access.indices
    )


def _canonical(expr: Expr, nest: Nest) -> Expr:
    if isinstance(expr, Load):
        return replace(expr, indices=_indices(expr, nest))
    return rebuild(expr, lambda e: _canonical(e, nest))
