"""Domains, default order and implicit storage of the language's computations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import islpy as isl

from plant_core.ir.accesses import add, children, from_ast, integer, sub, to_pw_aff
from plant_core.ir.c_semantics import COMPARISONS, dtype_of, is_float
from plant_core.ir.func import Binary, BinaryOp, Comp, Expr, Extent, Iter, Load, Param, Unary, Val
from plant_core.ir.printer import print_expr
from plant_core.support.location import Loc, PlantError

_OPPOSITE: dict[BinaryOp, BinaryOp] = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}


def parts_of(expr: Expr) -> Iterator[Expr]:
    """`expr` and all that is in it."""
    yield expr
    for part in children(expr):
        yield from parts_of(part)


def space_of(name: str, iters: Sequence[str]) -> Comp:
    """A statement whose domain isn't constrained, to write sets over its iterators."""
    point = f"{name}[{', '.join(iters)}]"
    nowhere = Load("", (), "i32")
    return Comp(
        name, tuple(iters), isl.Set(f"{{ {point} }}"), isl.Map(f"{{ {point} -> [] }}"), nowhere, nowhere, Loc("", 1)
    )


def affine(expr: Expr, space: Comp, loc: Loc | None, what: str) -> isl.PwAff:
    """The value of an integer expression on `space`. Raises PlantError DG225 where it isn't affine."""
    floats = any(is_float(dtype_of(p)) for p in parts_of(expr))
    try:
        found = None if floats else to_pw_aff(expr, space)
    except isl.Error:
        found = None
    if found is None:
        data = any(isinstance(p, Load) for p in parts_of(expr))
        raise PlantError(
            f"{what} '{print_expr(expr)}' isn't affine in iterators and integer parameters",
            loc=loc,
            code="DG225",
            remedy="name a value that is read from memory with parameter()"
            if data
            else "use sums, multiples by constants, and // or % by positive constants",
        )
    return found


def condition_set(expr: Expr, space: Comp, loc: Loc | None) -> isl.Set:
    """Where in `space` an affine condition holds."""
    match expr:
        case Binary(op="land", left=left, right=right):
            return condition_set(left, space, loc).intersect(condition_set(right, space, loc))
        case Binary(op="lor", left=left, right=right):
            return condition_set(left, space, loc).union(condition_set(right, space, loc))
        case Unary(op="lnot", operand=Binary(op=op, left=left, right=right)) if op in _OPPOSITE:
            return condition_set(Binary(_OPPOSITE[op], left, right, "i32"), space, loc)
        case Unary(op="lnot", operand=operand):
            return condition_set(operand, space, loc).complement()
        case Binary(op=op, left=left, right=right) if op in COMPARISONS:
            a, b = affine(left, space, loc, "the bound"), affine(right, space, loc, "the bound")
            return getattr(a, f"{op}_set")(b)
        case Val(value=value):
            universe = space.domain
            return universe if value else universe.subtract(universe)
        case _:
            return affine(expr, space, loc, "the condition").ne_set(affine(integer(0), space, loc, ""))


# --- the order of definition ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Placed:
    """A statement to be given its place: `needs` has the outer loops that it must share with earlier statements."""

    name: str
    iters: tuple[str, ...]
    needs: tuple[tuple[str, int], ...]
    loc: Loc


def default_order(statements: Sequence[Placed]) -> dict[str, tuple[int, ...]]:
    """The constants of each statement's 2d+1 schedule: each is a nest of its own, in the order of definition, except
    that a statement which uses a parameter, or is defined `after` another, shares the loops in which that is defined,
    with all between the two.

    Raises PlantError DG228 where those have no such loop.
    """
    found: dict[str, list[int]] = {s.name: [] for s in statements}
    _order(list(statements), 0, found)
    return {s.name: tuple((found[s.name] + [0] * (len(s.iters) + 1))[: len(s.iters) + 1]) for s in statements}


def _order(statements: list[Placed], depth: int, found: dict[str, list[int]]) -> None:
    for number, group in enumerate(_groups(statements, depth)):
        for statement in group:
            found[statement.name].append(number)
        if len(group) == 1:
            continue
        first = group[0]
        for statement in group:
            if len(statement.iters) <= depth or statement.iters[depth] != first.iters[depth]:
                raise PlantError(
                    f"'{statement.name}' has to share loop {depth} with '{first.name}', but has another iterator there",
                    loc=statement.loc,
                    code="DG228",
                    remedy="statements between two that share loops (a parameter and its use, or by after=) run in "
                    "those loops: give this one the same outer iterators, or define it before",
                )
        _order(group, depth + 1, found)


def _groups(statements: list[Placed], depth: int) -> list[list[Placed]]:
    """Consecutive runs that nothing linked is torn apart by."""
    place = {s.name: k for k, s in enumerate(statements)}
    reach = list(range(len(statements)))
    for k, statement in enumerate(statements):
        linked = [place[name] for name, loops in statement.needs if loops > depth and name in place]
        for j in range(min([*linked, k]), k):
            reach[j] = max(reach[j], k)
    groups: list[list[Placed]] = []
    end = -1
    for k, statement in enumerate(statements):
        if k > end:
            groups.append([])
        groups[-1].append(statement)
        end = max(end, reach[k])
    return groups


# --- implicit storage -----------------------------------------------------------------------------------------------


def bounding_box(
    domain: isl.Set, iters: Sequence[str], dtypes: Mapping[str, str], loc: Loc
) -> tuple[tuple[Extent, ...], tuple[Expr, ...]]:
    """The shape of an array with an element for each point of the domain's bounding box, and the subscripts there.

    Extents that depend on parameters are Exprs of them. Raises PlantError DG225 for an unbounded domain.
    """
    shape: list[Extent] = []
    indices: list[Expr] = []
    box = domain.coalesce()
    for k, name in enumerate(iters):
        if not (box.dim_has_lower_bound(isl.dim_type.set, k) and box.dim_has_upper_bound(isl.dim_type.set, k)):
            raise PlantError(
                f"iterator '{name}' has no bound on each side", loc=loc, code="DG225", remedy="give it an extent"
            )
        if box.is_empty():
            shape.append(1)
            indices.append(Iter(name))
            continue
        low = _extreme(box.dim_min(k), dtypes)
        extent = add(sub(_extreme(box.dim_max(k), dtypes), low), integer(1))
        shape.append(int(extent.value) if isinstance(extent, Val) else extent)
        indices.append(sub(Iter(name), low))
    return tuple(shape), tuple(indices)


def _extreme(bound: isl.PwAff, dtypes: Mapping[str, str]) -> Expr:
    build = isl.AstBuild.from_context(bound.domain().params())
    names: dict[str, Expr] = {name: Param(name, dtype) for name, dtype in dtypes.items()}  # type: ignore[arg-type]
    return from_ast(build.expr_from_pw_aff(bound.coalesce()), names)


def with_loc(error: PlantError, loc: Loc) -> PlantError:
    """The error, at `loc` if it has no place of its own."""
    if error.loc is None:
        error.loc = loc
    return error


def sample_text(points: isl.Set) -> str:
    """One of the points, as `S[0, 4]`."""
    point = points.sample_point()
    place = [point.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(points.dim(isl.dim_type.set))]
    return f"{points.get_tuple_name()}[{', '.join(map(str, place))}]"
