"""Values of integer parameters for a short run that tells code by its cycles: some vectors and a rest along inner
loops, few iterations of those around them."""

from __future__ import annotations

from collections.abc import Mapping

import islpy as isl

from plant_core.analysis.rectangular_hull import NoBlocks, ends_of, largest, unbounded
from plant_core.analysis.runtime_parameters import defined_parameters
from plant_core.ir.accesses import Linear, children, linear, read_accesses, sub, to_pw_aff
from plant_core.ir.c_semantics import is_float
from plant_core.ir.func import Binary, Comp, Expr, Func, Param, ScalarParam
from plant_core.ir.quasi_affine import affine_in_parameters, parameters_of
from plant_core.support.memoize import few_by_identity

# Iterations of the loops of a statement, outermost first, by how many it has; of deeper ones the outer have few.
_CAPS = {1: (300,), 2: (37, 70), 3: (3, 70, 45)}
_ALONE = 1500  # of loops where none is within another: partial sums need so many to win
_OUTER = 3
_MOST = 40_000  # runs of a statement, where loops of known size are inside
_FEWEST = 2
_GROUPS = 2  # that parameters count which the program itself computes
_ALIKE = {1: 300, 2: 50, 3: 19}  # where one parameter bounds several loops
_TRIANGLE = 150  # where these are two, and the inner one's iterations differ: strips of rows need so many to win
_SEVERAL = 8  # iterations: borders may meet in loops of fewer
_REST = 7  # iterations of what whole groups leave over


def trial_sizes(func: Func) -> dict[str, int]:
    """See `_trial_sizes`; found once for a function."""
    return dict(_trial_sizes(func))


@few_by_identity
def _trial_sizes(func: Func) -> dict[str, int]:
    """A value for each integer parameter: no more than arrays of known size allow; 0 for those that bound no loop."""
    found = {p.name: 0 for p in func.params if isinstance(p, ScalarParam) and not is_float(p.dtype)}
    if not found:
        return {}
    most = {name: value for name, value in largest(func).items() if value < unbounded(func)}
    defined = defined_parameters(func)
    caps: dict[str, set[tuple[int, int]]] = {}  # by parameter, depth and cap
    # Parameters, the first iteration of a loop that tells of others, and its cap.
    later: list[tuple[str, Linear, int]] = []
    deepest = max((len(comp.iters) for comp in func.comps), default=0)
    for comp in func.comps:
        count = len(comp.iters)
        inner = (_ALONE,) if deepest == count == 1 else _CAPS.get(min(count, 3), ())
        for depth, limit in enumerate((_OUTER,) * (count - len(inner)) + inner):
            low, high = _bounds(comp, depth)
            fewer = {n: -factor for n, factor in high.items() if factor < 0}
            for name in high.keys() & found.keys():
                if fewer and low is None:
                    if high[name] == 1:
                        later.append((name, (0, fewer), _REST))
                elif low is None:
                    caps.setdefault(name, set()).add((depth, limit))
                else:
                    later.append((name, low, limit))
    ragged = any(map(_is_ragged, func.comps))
    for name, known in caps.items():
        alike = len({depth for depth, _ in known}) > 1
        cap = max(limit for _, limit in known)
        if alike:
            cap = _TRIANGLE if deepest == 2 and ragged else _ALIKE[min(deepest, 3)]
        found[name] = max(min(most.get(name, cap), cap), 0)
    values = found | dict.fromkeys(defined, _GROUPS)
    for name, (constant, factors), limit in later:
        least = constant + sum(factor * values[n] for n, factor in factors.items()) + limit
        found[name] = max(found[name], min(most.get(name, least), least))
    lessened = found.keys() - {name for name, _, _ in later}
    for comp in func.comps:
        while (runs := _runs(comp, found | dict.fromkeys(defined, _GROUPS))) is not None and runs[0] > _MOST:
            names = {n for n in runs[1] & lessened if found[n] > _FEWEST}
            if not names:
                break
            # Loops around others first.
            name = min(names, key=lambda n: (found[n] > _OUTER, -found[n], n))
            found[name] = max(found[name] * 2 // 3, _FEWEST)
    for comp in func.comps:
        found |= _inside(comp, found)
    small = []  # statements that run for smaller values only
    running: dict[str, isl.Set] = {}
    for comp in func.comps:
        other = _running(comp, func, found, most, running)
        if any(value < found[name] for name, value in other.items()):
            small.append(comp)
        else:
            found |= other
    for comp in small if len(small) == len([c for c in func.comps if c.iters]) else ():
        found |= _running(comp, func, found, most, running)
    return found


def runs_at_several(comp: Comp, sizes: Mapping[str, int]) -> bool:
    """Whether a statement may run where no size is as small as a few iterations, or smaller than given."""
    params = comp.domain.params()
    for k, name in enumerate(parameters_of(params)):
        if name in sizes:
            params = params.lower_bound_val(isl.dim_type.param, k, isl.Val(min(sizes[name], _SEVERAL)))
    return not params.is_empty()


def _inside(comp: Comp, found: Mapping[str, int]) -> dict[str, int]:
    """Of the parameters that subscripts count from an end with, `min(.., n - 32)`, the least values, no less than
    these, that leave no such part negative."""
    made: dict[str, int] = {}
    pending: list[Expr] = [index for a in (comp.target, *read_accesses(comp)) for index in a.indices]
    while pending:
        expr = pending.pop()
        pending += children(expr)
        if isinstance(expr, Binary) and expr.op == "min":
            for constant, factors in filter(None, map(linear, (expr.left, expr.right))):
                value = constant + sum(k * made.get(n, found.get(n, 0)) for n, k in factors.items())
                name = next((n for n, k in factors.items() if k > 0 and n in found), None)
                if value < 0 and name is not None:
                    made[name] = made.get(name, found[name]) + -(value // factors[name])
    return made


def _is_ragged(comp: Comp) -> bool:
    """Whether some loop's bounds depend on another loop."""
    count = range(len(comp.iters))
    return any(
        sum(c.involves_dims(isl.dim_type.set, k, 1) for k in count) > 1
        for piece in comp.domain.get_basic_sets()
        for c in piece.get_constraints()
    )


def _running(
    comp: Comp, func: Func, found: Mapping[str, int], most: Mapping[str, int], known: dict[str, isl.Set]
) -> dict[str, int]:
    """Of the parameters on which it depends whether a statement runs at all the values, no less than these where that
    can be, for which it does, some groups of it if there can be; none if it does already, or can't with no more than
    the `most`. `known`: what was found of statements that run for the same parameters."""
    key = str(comp.domain.params())
    if key not in known:
        known[key] = _as_defined(comp, func, found)
    params = known[key]
    names = parameters_of(params)
    for k, name in enumerate(names):
        if name in most and name in found:
            params = params.upper_bound_val(isl.dim_type.param, k, isl.Val(max(most[name], found[name])))
    for k, name in enumerate(names):
        if name not in found:
            several = params.lower_bound_val(isl.dim_type.param, k, isl.Val(_GROUPS))
            params = params if several.is_empty() else several
    here = params
    less = []
    for k, name in enumerate(names):
        if name in found:
            more = params.lower_bound_val(isl.dim_type.param, k, isl.Val(found[name]))
            less += [k] if more.is_empty() else []
            params = params if more.is_empty() else more
            here = here.fix_val(isl.dim_type.param, k, isl.Val(found[name]))
    if params.is_empty() or not here.is_empty():
        return {}
    for k in less:
        largest = isl.Set.from_params(params).move_dims(isl.dim_type.set, 0, isl.dim_type.param, k, 1).dim_max_val(0)
        params = params.fix_val(isl.dim_type.param, k, largest)
    point = isl.Set.from_params(params).move_dims(isl.dim_type.set, 0, isl.dim_type.param, 0, len(names)).lexmin()
    return {n: int(point.dim_min_val(k).to_python()) for k, n in enumerate(names) if n in found}


def _as_defined(comp: Comp, func: Func, found: Mapping[str, int]) -> isl.Set:
    """The parameters for which a statement runs, where others than these are what the program makes them; some groups
    where that is not quasi-affine."""
    params = comp.domain.params()
    for name in (n for n in parameters_of(params) if n not in found):
        definition = next((c for c in func.comps if c.defines == name and not c.iters), None)
        apart = None if definition is None else to_pw_aff(sub(definition.value, Param(name, "i32")), definition)
        if apart is not None:
            params = params.intersect_params(apart.zero_set().params())
        else:
            k = params.find_dim_by_name(isl.dim_type.param, name)
            params = params.fix_val(isl.dim_type.param, k, isl.Val(_GROUPS))
    return params


def _runs(comp: Comp, values: Mapping[str, int]) -> tuple[int, set[str]] | None:
    """How often a statement runs, and the parameters that tell; None where its loops' bounds are not so simple."""
    runs, names = 1, set[str]()
    for depth in range(len(comp.iters)):
        low, high = comp.domain.dim_min(depth), comp.domain.dim_max(depth)
        forms = [affine_in_parameters(x) for x in (low, high)]
        if forms[0] is None or forms[1] is None:
            return None
        first, last = (f[0] + sum(k * values.get(n, 0) for n, k in f[1].items()) for f in (forms[0], forms[1]))
        runs *= max(last - first + 1, 0)
        names |= set(forms[1][1])
    return runs, names


def _bounds(comp: Comp, depth: int) -> tuple[Linear | None, dict[str, int]]:
    """The first iteration of a loop, where it is no constant, and how the last one depends on parameters; the first
    that it depends on, where it is the least of several."""
    try:
        form = ends_of(comp, depth)[2]
    except NoBlocks:
        low, form = (affine_in_parameters(x) for x in (comp.domain.dim_min(depth), comp.domain.dim_max(depth)))
        if low is not None and form is not None:
            return low, form[1]
        form = None
    if form is None and comp.domain.dim(isl.dim_type.param):
        ends = (isl.PwAff.from_aff(aff) for _, aff in comp.domain.dim_max(depth).get_pieces())
        form = next((f for f in map(affine_in_parameters, ends) if f is not None and f[1]), None)
    return None, {} if form is None else form[1]
