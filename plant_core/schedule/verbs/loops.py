"""Verbs on the loops of a statement: split, fuse, reorder, tile, skew, shift, separate and apply_sch.

Each returns a new schedule, and raises PlantError for arguments that make no sense and IllegalSchedule where the new
order breaks a dependence. `name` is a statement, or several of them that change together: that is how loops that
statements share stay shared. After PLANT, Table 3.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import islpy as isl

from plant_core.analysis.symbolic_offsets import iterators_of
from plant_core.ir.accesses import linear
from plant_core.ir.func import Expr, Func
from plant_core.ir.scheduled import Nest, Scheduled
from plant_core.schedule.legality import check
from plant_core.schedule.memory_conflicts import IN, OUT, PARAM
from plant_core.schedule.verbs.time_maps import (
    Names,
    bad,
    bounds,
    chosen,
    dims,
    integer_parameters,
    make_room,
    moved,
    new_name,
    opened,
    positions,
    positive,
    renamed_marks,
    same_depth,
    split_marks,
    time_map,
    together,
    whole,
    words,
)

_MOST_PIECES = 8


def split(
    scheduled: Scheduled, name: Names, loop: str, factor: int, *, outer: str | None = None, inner: str | None = None
) -> Scheduled:
    """Make two nested loops of one: `factor` iterations in the inner one.

    Before: `for (i = 0; i < n; i++) S(i);`
    After: `for (i_o = 0; i_o < ceil(n / f); i_o++) for (i_i = 0; i_i < min(f, n - f*i_o); i_i++) S(f*i_o + i_i);`

    The loops are called `i_o` and `i_i` unless `outer` and `inner` name them. Iteration i goes to i_o = floor(i / f):
    a loop that doesn't start at a multiple of `f` begins with a part of f iterations. A mark `vectorize` or `unroll`
    goes to the inner loop, any other to the outer.
    """
    result = _split(scheduled, name, loop, factor, outer, inner)
    check(result)
    return result


def _split(
    scheduled: Scheduled, name: Names, loop: str, factor: int, outer: str | None, inner: str | None
) -> Scheduled:
    factor = positive(factor, "the factor")
    for nest in chosen(scheduled, name):
        depth = nest.depth(loop)
        rest = [n for n in nest.loops if n != loop]
        first = new_name(scheduled.func, nest, outer, f"{loop}_o", rest)
        second = new_name(scheduled.func, nest, inner, f"{loop}_i", [*rest, first])
        before = dims(nest.relation.dim(OUT))
        time = before[2 * depth + 1]
        quotient = f"floor({time} / {factor})"
        after = [*before[: 2 * depth + 1], quotient, "0", f"{time} - {factor} * {quotient}", *before[2 * depth + 2 :]]
        loops = [*nest.loops[:depth], first, second, *nest.loops[depth + 1 :]]
        changed = moved(nest, time_map(before, after), loops, **split_marks(nest, loop, first, second))
        scheduled = scheduled.with_nest(changed)
    return scheduled


def fuse(scheduled: Scheduled, name: Names, outer: str, inner: str, *, into: str | None = None) -> Scheduled:
    """Make one loop of two, the second right inside the first and with a constant number of iterations.

    Before: `for (i = 0; i < n; i++) for (j = 0; j < 8; j++) S(i, j);`
    After: `for (i_j = 0; i_j < 8*n; i_j++) S(i_j / 8, i_j % 8);`

    The loop is called `i_j` unless `into` names it. PlantError where the inner loop's iterations vary in number.
    """
    nests = chosen(scheduled, name)
    depth = same_depth(nests, outer)
    for nest in nests:
        if nest.depth(inner) != depth + 1:
            raise bad(None, f"'{inner}' is not the loop right inside '{outer}' in {nest.name}", "reorder them first")
    times = together(scheduled, nests, depth + 1)
    extent, low = _constant_extent(times, inner)
    for nest in nests:
        if len(positions(scheduled, nest, 2 * depth + 2)) > 1:
            raise bad(None, f"'{inner}' of {nest.name} is in several parts", "fuse before the loop is separated")
        rest = [n for n in nest.loops if n not in (outer, inner)]
        both = new_name(scheduled.func, nest, into, f"{outer}_{inner}", rest)
        count = nest.relation.dim(OUT)
        before = dims(count)
        first, second = before[2 * depth + 1], before[2 * depth + 3]
        value = f"{extent} * {first} + {second} - low"
        after = [*before[: 2 * depth + 1], value, *before[2 * depth + 4 :]]
        change = _beside(low, count).apply_range(time_map([*before, "low"], after))
        marks = renamed_marks(nest, lambda loop, _: None if loop in (outer, inner) else loop)
        loops = [*nest.loops[:depth], both, *nest.loops[depth + 2 :]]
        scheduled = scheduled.with_nest(moved(nest, change, loops, **marks))
    check(scheduled)
    return scheduled


def _constant_extent(times: isl.Set, loop: str) -> tuple[int, isl.Map]:
    low, high = bounds(times)
    if times.is_empty():
        return 1, low
    extent = high.as_pw_multi_aff().get_at(0).sub(low.as_pw_multi_aff().get_at(0)).as_map().range()
    least, most = extent.dim_min_val(0), extent.dim_max_val(0)
    if not (least.is_int() and most.is_int() and least.eq(most)):
        raise bad(
            None,
            f"the number of iterations of '{loop}' is not one constant",
            "fuse loops of which the inner one always has the same number of iterations",
        )
    return most.to_python() + 1, low


def _beside(value: isl.Map, count: int) -> isl.Map:
    """`{ [d] -> [d, value] }` for a value of the first dimensions of time."""
    value = value.add_dims(IN, count - value.dim(IN))
    time = isl.Space.alloc(value.get_ctx(), 0, count, count)
    return isl.Map.identity(time).flat_range_product(value)


def reorder(scheduled: Scheduled, name: Names, *loops: str) -> Scheduled:
    """Give the named loops, in this order, the places that they hold together.

    Before: `for (i) for (j) for (k) S(i, j, k);`
    After `reorder(s, "S", "k", "i")`: `for (k) for (j) for (i) S(i, j, k);`
    """
    result = _reorder(scheduled, name, loops)
    check(result)
    return result


def _reorder(scheduled: Scheduled, name: Names, loops: Sequence[str]) -> Scheduled:
    loops = words(loops, "loops")
    if len(set(loops)) != len(loops) or not loops:
        raise bad(None, "the loops to reorder have to be named, each once", "name every loop that is to move")
    for nest in chosen(scheduled, name):
        old = [nest.depth(loop) for loop in loops]
        source = list(range(len(nest.loops)))
        for place, depth in zip(sorted(old), old, strict=True):
            source[place] = depth
        before = dims(nest.relation.dim(OUT))
        after = [before[2 * source[k // 2] + 1] if k % 2 else before[k] for k in range(len(before))]
        scheduled = scheduled.with_nest(moved(nest, time_map(before, after), [nest.loops[d] for d in source]))
    return scheduled


def tile(
    scheduled: Scheduled,
    name: Names,
    *loops: str | int | Mapping[str, int],
    names: Mapping[str, tuple[str, str]] | None = None,
) -> Scheduled:
    """Split consecutive loops, and put the outer parts around the inner ones.

    `tile(s, "S", "i", "j", 32, 8)` or `tile(s, "S", {"i": 32, "j": 8})`; `names={"i": ("it", "ii")}` names the parts,
    otherwise as `split` does.

    Before: `for (i) for (j) S(i, j);`
    After: `for (i_o) for (j_o) for (i_i < 32) for (j_i < 8) S(32*i_o + i_i, 8*j_o + j_i);`
    """
    factors = _factors(loops)
    given = _part_names(names, factors)
    nests = chosen(scheduled, name)
    for nest in nests:
        depths = [nest.depth(loop) for loop in factors]
        if depths != list(range(depths[0], depths[0] + len(depths))):
            raise bad(
                None,
                f"{', '.join(factors)} are not consecutive loops of {nest.name}, from the outermost in",
                f"reorder them first; its loops are {', '.join(nest.loops)}",
            )
    for nest in nests:
        outers, inners = [], []
        for loop, factor in factors.items():
            outer, inner = given.get(loop, (None, None))
            depth = scheduled.nest(nest.name).depth(loop)
            scheduled = _split(scheduled, nest.name, loop, factor, outer, inner)
            parts = scheduled.nest(nest.name).loops
            outers.append(parts[depth])
            inners.append(parts[depth + 1])
        scheduled = _reorder(scheduled, nest.name, [*outers, *inners])
    check(scheduled)
    return scheduled


def _part_names(names: object, factors: Mapping[str, int]) -> dict[str, tuple[str, str]]:
    given: dict[str, tuple[str, str]] = {}
    if names is not None and not isinstance(names, Mapping):
        raise bad(None, f"{names!r} doesn't name parts", 'give two names for a loop, as in names={"i": ("it", "ii")}')
    for loop, parts in (names or {}).items():
        if loop not in factors:
            raise bad(None, f"'{loop}' has names for its parts, and isn't tiled", "name the parts of tiled loops only")
        both = words(parts, "the two parts of a loop")
        if len(both) != 2:
            raise bad(None, f"'{loop}' has two parts, not {len(both)}", 'name both, as in names={"i": ("it", "ii")}')
        given[loop] = both[0], both[1]
    return given


def _factors(loops: Sequence[str | int | Mapping[str, int]]) -> dict[str, int]:
    match loops:
        case [Mapping() as found]:
            factors = {n: positive(f, f"the factor of '{n}'") for n, f in found.items()}
        case _:
            half = len(loops) // 2
            names, numbers = loops[:half], loops[half:]
            if len(loops) % 2 or not all(isinstance(n, str) for n in names) or len(set(names)) != half:
                raise bad(None, "the loops to tile come first, then a factor for each", 'as in tile("i", "j", 32, 8)')
            factors = {str(n): positive(f, f"the factor of '{n}'") for n, f in zip(names, numbers, strict=True)}
    if not factors:
        raise bad(None, "there is no loop to tile", 'name loops and factors, as in tile({"i": 32, "j": 8})')
    return factors


def skew(scheduled: Scheduled, name: Names, outer: str, inner: str, factor: int) -> Scheduled:
    """Add `factor` times one loop to another one.

    Before: `for (i = 0; i < n; i++) for (j = 0; j < m; j++) S(i, j);`
    After: `for (i = 0; i < n; i++) for (j = f*i; j < f*i + m; j++) S(i, j - f*i);`
    """
    factor = whole(factor, "the factor")
    if outer == inner:
        raise bad(None, f"'{outer}' can't be skewed by itself", "name two different loops")
    for nest in chosen(scheduled, name):
        before = dims(nest.relation.dim(OUT))
        first, second = 2 * nest.depth(outer) + 1, 2 * nest.depth(inner) + 1
        after = [f"d{k} + {factor} * d{first}" if k == second else d for k, d in enumerate(before)]
        scheduled = scheduled.with_nest(moved(nest, time_map(before, after), nest.loops))
    check(scheduled)
    return scheduled


def shift(scheduled: Scheduled, name: Names, loop: str, amount: int | Expr) -> Scheduled:
    """Add a number, or an affine Expr of integer parameters, to a loop.

    Before: `for (i = 0; i < n; i++) S(i);`    After: `for (i = a; i < n + a; i++) S(i - a);`
    """
    if isinstance(amount, int):
        constant, terms = whole(amount, "the amount"), dict[str, int]()
    else:
        form = linear(amount)
        known = integer_parameters(scheduled.func)
        if form is None or not set(form[1]) <= set(known) or any(iterators_of(amount)):
            raise bad(
                None,
                "the amount of a shift is not an affine expression of integer parameters",
                f"the parameters are: {', '.join(known) or 'none'}",
            )
        constant, terms = form
    for nest in chosen(scheduled, name):
        before = dims(nest.relation.dim(OUT))
        place = 2 * nest.depth(loop) + 1
        scheduled = scheduled.with_nest(moved(nest, _later(before, place, constant, terms), nest.loops))
    check(scheduled)
    return scheduled


def _later(before: Sequence[str], place: int, constant: int, terms: Mapping[str, int]) -> isl.Map:
    """Time with an amount added to one dimension; made without isl's text, in which not every name can stand."""
    amount = isl.Aff.zero_on_domain(isl.Space.alloc(isl.DEFAULT_CONTEXT, 0, len(before), 0).domain())
    for name in sorted(terms):
        amount = amount.add_dims(PARAM, 1).set_dim_name(PARAM, amount.dim(PARAM), name)
        amount = amount.add_coefficient_val(PARAM, amount.dim(PARAM) - 1, isl.Val(str(terms[name])))
    shifted = amount.add_constant_val(isl.Val(str(constant))).add_coefficient_val(IN, place, isl.Val(1))
    rest = time_map(before, [d for k, d in enumerate(before) if k != place])
    both = rest.flat_range_product(isl.Map.from_aff(shifted))
    names = [f"e{k}" for k in range(len(before))]
    return both.apply_range(time_map(names, [*names[:place], names[-1], *names[place:-1]]))


def separate(scheduled: Scheduled, name: Names, loop: str, factor: int) -> Scheduled:
    """Split a loop into the part whose number of iterations `factor` divides, and the rest after it.

    Before: `for (i = 0; i < n; i++) S(i);`
    After: `for (i = 0; i < n / f * f; i++) S(i); for (i = n / f * f; i < n; i++) S(i);`

    Both parts are loops of the same name. Statements that stay in the loop when others leave it share the first part.
    PlantError where the loop's bounds are in so many pieces that deciding about the result would take minutes.
    """
    factor = positive(factor, "the factor")
    nests = chosen(scheduled, name)
    depth = same_depth(nests, loop)
    low, high = bounds(together(scheduled, nests, depth))
    if low.n_basic_map() * high.n_basic_map() > _MOST_PIECES:
        raise bad(
            None,
            f"the loop '{loop}' of {nests[0].name} begins and ends at {low.n_basic_map()} and {high.n_basic_map()} "
            "different functions of the loops around it, too many to tell its whole parts from the rest",
            "separate it before the loops around it are skewed and tiled, or give it the option 'isolate'",
        )
    found = sorted({p for nest in nests for p in positions(scheduled, nest, 2 * depth)})
    scheduled = make_room(scheduled, nests, 2 * depth, found)
    for nest in nests:
        count = nest.relation.dim(OUT)
        before = dims(count)
        limits = _beside(low, count).apply_range(_beside(high, count + 1))
        place, time = before[2 * depth], before[2 * depth + 1]
        end = f"low + {factor} * floor((high - low + 1) / {factor})"
        change: isl.Map | None = None
        for position in found:
            for step, where in ((0, f"{time} < {end}"), (1, f"{time} >= {end}")):
                new = str(opened(position, found) + step)
                after = [new if k == 2 * depth else d for k, d in enumerate(before)]
                piece = time_map([*before, "low", "high"], after, where=f"{place} = {position} and {where}")
                change = piece if change is None else change.union(piece)
        scheduled = scheduled.with_nest(moved(nest, limits.apply_range(change), nest.loops))
    check(scheduled, rearranged=True)
    return scheduled


def apply_sch(scheduled: Scheduled, name: Names, change: str | isl.Map, *, loops: Sequence[str] = ()) -> Scheduled:
    """Apply an affine map of all loops, such as `{ [i, j] -> [j, i + j] }`, which keeps iterations apart.

    Before: `for (i) for (j) S(i, j);`    After the map above: `for (t0 = j) for (t1 = i + j) S(t1 - t0, t0);`

    `loops` names the loops of the result; without it they take the names of the map's own dimensions, where an output
    is one of the inputs, and t0, t1, ... elsewhere. Every other verb here is a case of this one.
    """
    function = _parsed(change, scheduled.func)
    names = words(loops, "loops")
    for nest in chosen(scheduled, name):
        if function.dim(IN) != len(nest.loops):
            raise bad(
                None,
                f"the map has {function.dim(IN)} dimensions in, and {nest.name} has {len(nest.loops)} loops",
                f"its loops are: {', '.join(nest.loops) or 'none'}",
            )
        results = _result_names(scheduled.func, nest, function, names)
        marks = renamed_marks(nest, lambda loop, _, kept=tuple(results): loop if loop in kept else None)  # type: ignore[misc]
        scheduled = scheduled.with_nest(moved(nest, _on_time(function), results, **marks))
    check(scheduled)
    return scheduled


def _parsed(change: object, func: Func) -> isl.Map:
    remedy = "give a map of all loops to the new ones, such as { [i, j] -> [j, i + j] }"
    if isinstance(change, str):
        try:
            change = isl.Map(change)
        except isl.Error as error:
            raise bad(None, f"'{change}' is not a map that isl can read", remedy) from error
    if not isinstance(change, isl.Map) or change.domain_is_wrapping() or change.range_is_wrapping():
        raise bad(None, f"{change!s} is not a map of loops", remedy)
    known = integer_parameters(func)
    for k in range(change.dim(PARAM)):
        if change.get_dim_name(PARAM, k) not in known:
            what = f"'{change.get_dim_name(PARAM, k)}' in the map is no integer parameter of {func.name}"
            raise bad(None, what, f"the parameters are: {', '.join(known) or 'none'}")
    if change.dim(OUT) == 0 or not change.is_single_valued():
        raise bad(None, "the map doesn't give one new time for an iteration", remedy)
    return change.reset_tuple_id(IN).reset_tuple_id(OUT)


def _result_names(func: Func, nest: Nest, function: isl.Map, given: Sequence[str]) -> list[str]:
    count = function.dim(OUT)
    if given:
        if len(given) != count:
            raise bad(None, f"{len(given)} names are given for {count} loops", "name every loop of the result")
        names: list[str] = []
        for name in given:
            names.append(new_name(func, nest, name, name, names))
        return names
    kept: list[str | None] = []
    for k in range(count):
        same = (i for i, n in enumerate(nest.loops) if n not in kept and _passes(function, i, k))
        found = next(same, None)
        kept.append(None if found is None else nest.loops[found])
    names = [n for n in kept if n is not None]
    result = []
    for k, same_name in enumerate(kept):
        result.append(same_name or new_name(func, nest, None, f"t{k}", names))
        names.append(result[-1])
    return result


def _passes(function: isl.Map, source: int, result: int) -> bool:
    """Output `result` is input `source`."""
    return bool(function.is_subset(isl.Map.universe(function.get_space()).equate(IN, source, OUT, result)))


def _on_time(function: isl.Map) -> isl.Map:
    """The map of loops as one of times: the positions stay at their levels, with zeros for further ones."""
    count, taken = function.dim(IN), function.dim(OUT)
    before = dims(2 * count + 1)
    kept = [before[0], *(before[2 * k] if k < count else "0" for k in range(1, taken)), before[-1]]
    parts = time_map(before, kept).flat_range_product(time_map(before, before[1::2]).apply_range(function))
    pieces = dims(2 * taken + 1)
    order = [pieces[0]]
    for k in range(taken):
        order += [pieces[1 + taken + k], pieces[1 + k]]
    return parts.apply_range(time_map(pieces, order))
