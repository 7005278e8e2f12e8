"""Iterations of statements in blocks of loops of any size, where they are no box: a block is a part of a loop of which
all but few iterations before and behind it are left out.

Before: S[i, k] for 0 <= i < n, 0 <= k < 3, 0 <= i + k - 1 < n, in blocks of 16 iterations of i
After:  S[i, k] for i_before <= i < i_all - i_behind, 0 <= k < 3, 0 <= i + k - 1 < i_all
        where i_before = min(i_first, 1), i_behind = min(n - i_first - i_count, 1),
              i_all = i_before + i_count + i_behind

A guard that only looks at a loop's ends can't tell the difference; windows have room for `i_before` iterations, and lie
that much further on. Others, those of a triangle, are told by where the block begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import islpy as isl

from plant_core.analysis.rectangular_hull import Boxes, NoBlocks, in_text
from plant_core.ir.func import Comp
from plant_core.ir.quasi_affine import parameters_of
from plant_core.ir.tile_loop import Counter
from plant_core.scratchpad.buffers import Left


def origin_name(counter: Counter) -> str:
    """The parameter that tells the iteration with which a block begins."""
    return f"{counter.name}_first"


def count_name(counter: Counter) -> str:
    """The parameter that tells how many groups of iterations a block has, or larger batches of them."""
    return f"{counter.name}_count"


def before_name(counter: Counter) -> str:
    """The parameter that tells how many iterations before the block there are in what is left of the loop."""
    return f"{counter.name}_before"


def behind_name(counter: Counter) -> str:
    """The same of those behind the block."""
    return f"{counter.name}_behind"


def all_name(counter: Counter) -> str:
    """The parameter that tells how many iterations are left of the loop, the block's among them."""
    return f"{counter.name}_all"


def left_of(counter: Counter, most: tuple[int, int]) -> Left:
    return Left(before_name(counter), behind_name(counter), all_name(counter), most)


@dataclass(frozen=True, slots=True)
class Margins:
    """`domains`: of statements those of a block, where they aren't told by the loops' sizes alone; `most`: of counters
    how many iterations before and behind a block may be left of their loops."""

    domains: Mapping[str, isl.Set] = field(default_factory=dict)
    most: Mapping[int, tuple[int, int]] = field(default_factory=dict)


def margins_of(boxes: Boxes, counters: Sequence[Counter], iterators: Mapping[str, Sequence[str | None]]) -> Margins:
    """Requires: blocks have as many iterations of a loop as they are told. Raises NoBlocks where the loops that are
    counted have known sizes, or not all statements are in them."""
    exact = {c.name: _in_block(boxes, c, counters, iterators[c.name]) for c in boxes.func.comps}
    most: dict[int, tuple[int, int]] = {}
    known = isl.Set("{ : }")
    for k, counter in enumerate(counters):
        left = partial(_left, boxes, exact, {name: names[k] for name, names in iterators.items()}, counter)
        reach = _reach(left, counter)
        if reach is not None and (found := left(*reach)) is not None:
            exact, most[k] = found[0], reach
            known = known.intersect(found[1])
    domains = {name: _simple(domain, known) for name, domain in exact.items()}
    for comp in boxes.func.comps:
        for depth in (comp.iters.index(n) for n in iterators[comp.name] if n is not None):
            # Where the sum in a variable is one for each iteration, it matters that these are counted from 0.
            domains[comp.name] = domains[comp.name].lower_bound_val(isl.dim_type.set, depth, isl.Val(0))
    return Margins(domains, most)


def _reach(left: Callable[[int, int], object | None], counter: Counter) -> tuple[int, int] | None:
    """How many iterations before and behind a block matter; None where that tells nothing."""
    if counter.extent is None:
        return None
    before = _least(lambda most: left(most, counter.span) is not None, counter.span)
    if before is None:
        return None
    behind = _least(lambda most: left(before, most) is not None, counter.span)
    return None if behind is None or before > counter.span else (before, behind)


def _least(holds: Callable[[int], bool], most: int) -> int | None:
    """The least number up to `most` for which something holds that holds for all above it, too."""
    low, high = 0, 1
    while not holds(high - 1):
        if high > most:
            return None
        low, high = high, 2 * high
    while low < high - 1:
        middle = (low + high - 1) // 2
        low, high = (low, middle + 1) if holds(middle) else (middle + 1, high)
    return low


def _in_block(boxes: Boxes, comp: Comp, counters: Sequence[Counter], names: Sequence[str | None]) -> isl.Set:
    """The iterations of a statement in the block that begins with the origins."""
    where, inside, parameters = dict(zip(comp.iters, comp.iters, strict=True)), [], list(boxes.sizes)
    for counter, name in zip(counters, names, strict=True):
        if counter.extent is None and counter.several:
            raise NoBlocks(f"the iterations of {comp.name} are no box", loc=comp.loc)
        if name is None:
            raise NoBlocks(f"{comp.name} is in no loop over {counter.name}", loc=comp.loc)
        if not counter.several:
            where[name] = f"{name} + {counter.low}"
            inside.append(f"0 <= {name} < {counter.last}")
            continue
        origin, count = origin_name(counter), count_name(counter)
        parameters += [origin, count]
        where[name] = f"{name} + {origin}"
        inside += [
            f"0 <= {name} < {count}",
            f"{counter.low} <= {origin}",
            f"{origin} + {count} <= {_end(boxes, counter)}",
        ]
    head, every = f"[{', '.join(parameters)}] -> ", f"{comp.name}[{', '.join(comp.iters)}]"
    moved = isl.Map(f"{head}{{ {every} -> {comp.name}[{', '.join(where.values())}] : {' and '.join(inside)} }}")
    return moved.intersect_range(comp.domain).domain().coalesce()


def _end(boxes: Boxes, counter: Counter) -> str:
    """Behind the last iteration of a loop."""
    form = boxes.symbolic(boxes.main, boxes.main.iters.index(counter.name))
    assert form is not None
    return in_text((form[0] + 1, form[1]))


def _left(
    boxes: Boxes,
    domains: Mapping[str, isl.Set],
    names_of: Mapping[str, str | None],
    counter: Counter,
    most_before: int,
    most_behind: int,
) -> tuple[dict[str, isl.Set], isl.Set] | None:
    """The iterations by what is left of the loop, so many before and behind the block at most, and what is known of the
    parameters that tell that; None where they don't tell all."""
    origin, count, every = origin_name(counter), count_name(counter), all_name(counter)
    before, behind = before_name(counter), behind_name(counter)
    first, left = f"{origin} - {counter.low}", f"{_end(boxes, counter)} - {origin} - {count}"
    names = ", ".join(dict.fromkeys([*boxes.sizes, origin, count, before, behind]))
    told = isl.Set(
        f"[{names}] -> {{ : {count} >= 0 and {first} >= 0 and {left} >= 0"
        f" and {before} = min({first}, {most_before}) and {behind} = min({left}, {most_behind}) }}"
    )
    parts = isl.Set(f"[{every}, {count}, {before}, {behind}] -> {{ : {every} = {before} + {count} + {behind} }}")
    found = {}
    for comp in boxes.func.comps:
        exact = domains[comp.name].intersect_params(told)
        some = _without(exact, origin)
        if not some.intersect_params(told).is_equal(exact):
            return None
        where = ", ".join(f"{n} - {before}" if n == names_of[comp.name] else n for n in comp.iters)
        moved = isl.Map(f"[{before}] -> {{ {comp.name}[{', '.join(comp.iters)}] -> {comp.name}[{where}] }}")
        found[comp.name] = _without(moved.intersect_range(some).domain().intersect_params(parts), count)
    return found, _without(_without(told.intersect(parts), origin), count)


def _without(domain: isl.Set, name: str) -> isl.Set:
    """For any value of a parameter."""
    at = domain.find_dim_by_name(isl.dim_type.param, name)
    return domain.coalesce() if at < 0 else domain.project_out(isl.dim_type.param, at, 1).coalesce()


def _simple(domain: isl.Set, known: isl.Set) -> isl.Set:
    """The domain in few words, where what is `known` of parameters holds."""
    for name in parameters_of(domain):
        other = _without(domain, name)
        if other.intersect_params(known).is_equal(domain.intersect_params(known)):
            domain = other
    hull = isl.Set.from_basic_set(domain.simple_hull())
    if hull.intersect_params(known).is_equal(domain.intersect_params(known)):
        domain = hull
    return domain.gist_params(known).coalesce().remove_redundancies()
