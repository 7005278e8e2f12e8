"""The 2d+1 schedule of a Comp taken apart, the loop structure it stands for, and loops brought to unit steps.

Position ::= constants: int (one more than loops), loops: Line*     c0, line0, c1, line1, ..., cn
Line     ::= constant + sum(coefficient * name)                     over iterators and integer parameters
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import islpy as isl

from plant_core.ir.accesses import children, domain_of, from_linear, linear, rebuild, substitute, with_param
from plant_core.ir.c_semantics import dtype_of
from plant_core.ir.func import Cast, Comp, Effect, Expr, Func, Iter, Load
from plant_core.support.location import PlantError
from plant_core.support.memoize import by_identity

# How much an iterator counts by, and its first value: affine, keyed as `_stride` tells.
Step = tuple[int, tuple[tuple[int | str, int], ...]]


@dataclass(frozen=True, slots=True)
class Line:
    constant: int
    terms: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Position:
    constants: tuple[int, ...]
    loops: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of the program: `members` are the (Comp, its iterator) pairs that it encloses, in text order."""

    depth: int
    prefix: tuple[int, ...]
    members: tuple[tuple[str, str], ...]
    children: tuple[Loop, ...]


@by_identity
def position(comp: Comp | Effect) -> Position:
    """The Comp's place in time; PlantError where the schedule isn't of the 2d+1 form."""
    depth = len(comp.iters)
    piecewise = comp.schedule.as_pw_multi_aff()
    length = piecewise.dim(isl.dim_type.out)
    if piecewise.n_piece() != 1 or length < 2 * depth + 1:
        raise _not_static(comp)
    values = isl.MultiPwAff.from_pw_multi_aff(piecewise)
    lines = [_line(comp, values.get_at(k).get_pieces()[0][1]) for k in range(length)]
    constants = [lines[k] for k in range(0, 2 * depth + 1, 2)]
    if any(line.terms for line in constants) or any(line != Line(0, ()) for line in lines[2 * depth + 1 :]):
        raise _not_static(comp)
    return Position(tuple(line.constant for line in constants), tuple(lines[1 : 2 * depth : 2]))


def _line(comp: Comp | Effect, aff: isl.Aff) -> Line:
    if aff.dim(isl.dim_type.div) and aff.involves_dims(isl.dim_type.div, 0, aff.dim(isl.dim_type.div)):
        raise _not_static(comp)
    terms = [(name, aff.get_coefficient_val(isl.dim_type.in_, k)) for k, name in enumerate(comp.iters)]
    for k in range(aff.dim(isl.dim_type.param)):
        terms.append((aff.get_dim_name(isl.dim_type.param, k), aff.get_coefficient_val(isl.dim_type.param, k)))
    found = tuple((name, value.to_python()) for name, value in terms if not value.is_zero())
    constant = aff.get_constant_val()
    if not constant.is_int() or not all(isinstance(c, int) for _, c in found):
        raise _not_static(comp)
    return Line(constant.to_python(), found)


def _not_static(comp: Comp | Effect) -> PlantError:
    return PlantError(f"the schedule of {comp.name} is not of the form [c0, i, c1, j, c2, ...]", loc=comp.loc)


def line_value(comp: Comp | Effect, line: Line) -> isl.PwAff:
    """A Line as a function on the Comp's iteration space."""
    space = domain_of(comp).get_space()
    for name, _ in line.terms:
        if name not in comp.iters and space.find_dim_by_name(isl.dim_type.param, name) < 0:
            space = with_param(space, name)
    aff = isl.Aff.zero_on_domain(isl.LocalSpace.from_space(space)).set_constant_val(isl.Val(line.constant))
    for name, coefficient in line.terms:
        if name in comp.iters:
            aff = aff.set_coefficient_val(isl.dim_type.in_, comp.iters.index(name), isl.Val(coefficient))
        else:
            place = space.find_dim_by_name(isl.dim_type.param, name)
            aff = aff.set_coefficient_val(isl.dim_type.param, place, isl.Val(coefficient))
    return isl.PwAff.from_aff(aff)


def permuted(comp: Comp, place: Position, order: Sequence[str], constants: Sequence[int] | None = None) -> Position:
    """`place` with its loops in `order` and, if given, other textual positions."""
    loops = tuple(place.loops[comp.iters.index(name)] for name in order)
    return Position(tuple(constants) if constants is not None else place.constants, loops)


def schedule_map(comp: Comp | Effect, place: Position, length: int) -> isl.Map:
    """The isl map of a Position, zero-padded to `length` dimensions; it has no tuple name on its range."""
    lines: list[Line] = []
    for k, constant in enumerate(place.constants):
        lines.append(Line(constant, ()))
        if k < len(place.loops):
            lines.append(place.loops[k])
    lines += [Line(0, ())] * (length - len(lines))
    space = domain_of(comp).get_space()
    values = isl.PwAffList.alloc(space.get_ctx(), length)
    for line in lines:
        values = values.insert(values.n_pw_aff(), line_value(comp, line))
    target = isl.Space.alloc(space.get_ctx(), 0, len(comp.iters), length)
    target = target.set_tuple_name(isl.dim_type.in_, comp.name).align_params(space)
    return isl.Map.from_multi_pw_aff(isl.MultiPwAff.from_pw_aff_list(target, values))


def common_loops(func: Func) -> tuple[Loop, ...]:
    """The loop nests: Comps with equal constants down to a depth share the loops down to that depth."""
    places = [(comp, position(comp)) for comp in func.comps]
    return _loops_at(places, 0)


def every_loop(loops: Sequence[Loop]) -> Iterator[Loop]:
    """These and all within them, outer ones first."""
    for loop in loops:
        yield loop
        yield from every_loop(loop.children)


def _loops_at(places: list[tuple[Comp, Position]], depth: int) -> tuple[Loop, ...]:
    groups: dict[tuple[int, ...], list[tuple[Comp, Position]]] = {}
    for comp, place in places:
        if len(comp.iters) > depth:
            groups.setdefault(place.constants[: depth + 1], []).append((comp, place))
    return tuple(
        Loop(
            depth,
            prefix,
            tuple((comp.name, comp.iters[depth]) for comp, _ in group),
            _loops_at(group, depth + 1),
        )
        for prefix, group in sorted(groups.items(), key=lambda item: item[0])
    )


def shared_depth(a: Position, b: Position) -> int:
    """How many loops enclose both of two Comps."""
    depth = 0
    while depth < min(len(a.loops), len(b.loops)) and a.constants[depth] == b.constants[depth]:
        depth += 1
    return depth


# --- unit steps ---------------------------------------------------------------------------------------------------


def normalise_loops(func: Func) -> Func:
    """Give every loop of constant step s > 1 an iterator that counts by 1, so that tiles can cover it.

    Before: `for (i = 3; i < n; i += 2) a[i]`. After: `for (i = 0; 2*i + 3 < n; i++) a[2*i + 3]`.
    Requires: 2d+1 schedules. Ensures: the same instances in the same order. A loop whose Comps don't all have one
    step and start is left as it is.
    """

    def told(members: Sequence[tuple[Comp, str]], depth: int) -> Step | None:
        found = [_stride(comp, iterator, depth) for comp, iterator in members]
        return found[0] if all(other == found[0] for other in found) else None

    return restepped(func, told)


def restepped(func: Func, told: Callable[[Sequence[tuple[Comp, str]], int], Step | None]) -> Func:
    """Give loops, outer ones first, the steps and starts that `told` tells for their Comps with the iterators, and how
    deep they are; None leaves a loop as it is."""
    comps = {comp.name: comp for comp in func.comps}
    pending = list(common_loops(func))
    while pending:
        loop = pending.pop(0)
        pending[:0] = loop.children
        members = [(comps[name], iterator) for name, iterator in loop.members]
        if (step := told(members, loop.depth)) is not None:
            for comp, iterator in members:
                comps[comp.name] = _restep(comp, iterator, loop.depth, *step)
    if all(comps[c.name] is c for c in func.comps):
        return func
    return func.with_comps(tuple(comps[c.name] for c in func.comps))


def _stride(comp: Comp, iterator: str, depth: int) -> Step | None:
    """(step, start) of a loop; start is affine, keyed by outer loop number or parameter name, "" for the constant."""
    line = position(comp).loops[depth]
    if line.constant or [n for n, _ in line.terms] != [iterator] or abs(line.terms[0][1]) != 1:
        return None
    domain = domain_of(comp)
    index = comp.iters.index(iterator)
    info = domain.get_stride_info(index)
    step = info.get_stride().to_python()
    offset = info.get_offset()
    if step <= 1 or offset.dim(isl.dim_type.div):
        return None
    start: list[tuple[int | str, int]] = []
    for kind in (isl.dim_type.in_, isl.dim_type.param):
        for k in range(offset.dim(kind)):
            value = offset.get_coefficient_val(kind, k)
            if value.is_zero():
                continue
            if not value.is_int() or (kind == isl.dim_type.in_ and k >= depth):
                return None
            start.append((k if kind == isl.dim_type.in_ else offset.get_dim_name(kind, k), value.to_python()))
    constant = offset.get_constant_val()
    if not constant.is_int():
        return None
    least = domain.dim_min_val(index)
    base = least.to_python() if not start and least.is_int() else constant.to_python() % step
    return step, (*start, ("", base), ("sign", line.terms[0][1]))


def from_zero(comp: Comp, depth: int, start: tuple[int, dict[str, int]]) -> Comp:
    """Have the loop over an iterator, which counts by 1 from a value in parameters on, count from 0 on.

    Before: `for (i = n - 2; i < n; i++) a[i]`. After: `for (i = 0; i < 2; i++) a[i + n - 2]`.
    """
    return _restep(comp, comp.iters[depth], depth, 1, (*start[1].items(), ("", start[0]), ("sign", 1)))


def _restep(comp: Comp, iterator: str, depth: int, step: int, start: tuple[tuple[int | str, int], ...]) -> Comp:
    """Replace `iterator` by `start + step * iterator` throughout `comp`."""
    values = dict(start)
    constant, sign = values.pop(""), values.pop("sign")
    terms = {comp.iters[k] if isinstance(k, int) else k: c for k, c in values.items()}
    place = position(comp)
    length = comp.schedule.dim(isl.dim_type.out)
    space = domain_of(comp).get_space()
    local = isl.LocalSpace.from_space(space)
    moved = isl.PwAffList.alloc(space.get_ctx(), len(comp.iters))
    for k, name in enumerate(comp.iters):
        if name == iterator:
            part = line_value(comp, Line(constant, (*terms.items(), (iterator, step))))
        else:
            part = isl.PwAff.from_aff(isl.Aff.var_on_domain(local, isl.dim_type.set, k))
        moved = moved.insert(k, part)
    move = isl.MultiPwAff.from_pw_aff_list(space.map_from_set(), moved)
    domain = domain_of(comp).preimage_multi_pw_aff(move)
    replacement = from_linear((constant, {**terms, iterator: step}), set(comp.iters))
    new = replace(
        comp,
        domain=domain,
        target=_tidy_access(comp, comp.target, {iterator: replacement}),
        value=_tidy(comp, substitute(comp.value, {iterator: replacement})),
    )
    # Not on the domain alone, where isl would tell the place of a loop of one iteration by a constant.
    loops = tuple(Line(0, ((iterator, sign),)) if k == depth else line for k, line in enumerate(place.loops))
    return replace(new, schedule=schedule_map(new, Position(place.constants, loops), length))


def _tidy_access(comp: Comp, access: Load, names: dict[str, Expr]) -> Load:
    return replace(access, indices=tuple(_tidy(comp, substitute(i, names)) for i in access.indices))


def _tidy(comp: Comp, expr: Expr) -> Expr:
    """Affine subexpressions of iterators in one normal form."""
    plain = not isinstance(expr, Iter | Cast) and dtype_of(expr) == "i32"
    if plain and (form := linear(expr)) is not None and form[1]:
        if all(name in comp.iters for name in form[1]):
            return from_linear(form, set(comp.iters))
    parts = children(expr)
    return rebuild(expr, tuple(_tidy(comp, p) for p in parts)) if parts else expr
