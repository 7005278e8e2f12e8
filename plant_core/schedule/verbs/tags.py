"""Verbs that leave the order as it is: tag, option, and set_constraint."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import get_args

import islpy as isl

from plant_core.ir.func import Func
from plant_core.ir.loop_tree import Tag
from plant_core.ir.scheduled import AstOption, Scheduled
from plant_core.schedule.legality import check
from plant_core.schedule.memory_conflicts import PARAM
from plant_core.schedule.verbs.time_maps import Names, bad, chosen, integer_parameters

_WORD = re.compile(r"[A-Za-z_]\w*")
_ISL_WORDS = frozenset({"and", "or", "not", "mod", "floor", "floord", "ceil", "ceild", "min", "max", "exists", "true",
                        "false", "implies"})  # fmt: skip


def tag(scheduled: Scheduled, name: Names, loop: str, tag: Tag | None) -> Scheduled:
    """Bind a loop to the machine: `parallel`, `vectorize`, `unroll`, `gpu_block_x`, ...; None takes the tag off.

    Before: `for (i) S(i);`    After `tag(s, "S", "i", "parallel")`: `parallel for (i) S(i);`

    IllegalSchedule where the loop carries a dependence: any for parallel and gpu loops; for vectors, any but updates
    of a reduction that may be reassociated, and an innermost loop's own reads before writes.
    """
    if tag is not None and tag not in get_args(Tag):
        raise bad(None, f"there is no tag {tag!r}", f"the tags are: {', '.join(get_args(Tag))}")
    for nest in chosen(scheduled, name):
        nest.depth(loop)
        tags = tuple(pair for pair in nest.tags if pair[0] != loop)
        scheduled = scheduled.with_nest(replace(nest, tags=(*tags, (loop, tag)) if tag is not None else tags))
    check(scheduled)
    return scheduled


def option(scheduled: Scheduled, name: Names, loop: str, option: AstOption | None) -> Scheduled:
    """Tell the loop generator how to write a loop (see `Nest`); None takes it back.

    Before: `for (i = 0; i < n; i++) { if (i < m) S(i); T(i); }`
    After `separate`: `for (i = 0; i < m; i++) { S(i); T(i); } for (i = m; i < n; i++) T(i);`
    """
    if option is not None and option not in get_args(AstOption):
        raise bad(None, f"there is no option {option!r}", f"the options are: {', '.join(get_args(AstOption))}")
    for nest in chosen(scheduled, name):
        nest.depth(loop)
        options = tuple(pair for pair in nest.options if pair[0] != loop)
        options = (*options, (loop, option)) if option is not None else options
        scheduled = scheduled.with_nest(replace(nest, options=options))
    check(scheduled)
    return scheduled


def set_constraint(scheduled: Scheduled, constraint: str | isl.Set) -> Scheduled:
    """Tell what is known of the integer parameters: `"n > 0 and m mod 4 = 0"`, or a set of parameters.

    Before: `for (i = 0; i < m / 4 * 4; i++) S(i); for (i = m / 4 * 4; i < m; i++) S(i);`
    After `m mod 4 = 0`: `for (i = 0; i < m; i++) S(i);`
    """
    known = _known(scheduled.func)
    found = _parsed(constraint) if isinstance(constraint, str) else constraint
    if not isinstance(found, isl.Set):
        raise bad(None, f"{constraint!r} is not a constraint", 'write it as in "n > 0 and m mod 4 = 0"')
    found = found.params()
    names = [found.get_dim_name(PARAM, k) for k in range(found.dim(PARAM))]
    unknown = [n for n in names if n not in known]
    if unknown:
        remedy = f"the parameters are: {', '.join(known) or 'none'}"
        raise bad(None, f"'{unknown[0]}' is no integer parameter of {scheduled.func.name}", remedy)
    result = _constrained(scheduled, found)
    if result.func.context is not None and result.func.context.is_empty():
        raise bad(None, f"no parameters satisfy the constraint {found}", "check it against earlier constraints")
    check(result)
    return result


def _known(func: Func) -> list[str]:
    return [*integer_parameters(func)] + [c.defines for c in func.comps if c.defines is not None]


def _parsed(text: str) -> isl.Set:
    names = sorted({word for word in _WORD.findall(text) if word not in _ISL_WORDS})
    whole = text if text.lstrip().startswith(("[", "{")) else f"[{', '.join(names)}] -> {{ : {text} }}"
    try:
        return isl.Set(whole)
    except isl.Error as error:
        raise bad(
            None, f"'{text}' is not a constraint that isl can read", 'write it as in "n > 0 and m mod 4 = 0"'
        ) from error


def _constrained(scheduled: Scheduled, found: isl.Set) -> Scheduled:
    func = scheduled.func
    context = found if func.context is None else func.context.params().intersect(found)
    origin = scheduled.origin
    return replace(
        scheduled,
        func=replace(func, context=context),
        origin=None if origin is None else replace(origin, func=replace(origin.func, context=context)),
    )
