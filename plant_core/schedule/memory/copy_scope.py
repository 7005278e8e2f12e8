"""One loop of a statement's nest as the place for copies: its iterations, and what each of them touches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import islpy as isl

from plant_core.ir.accesses import access_map, domain_of
from plant_core.ir.func import Comp, Expr, Load
from plant_core.ir.scheduled import Nest, Scheduled, padded
from plant_core.schedule.memory.isl_expressions import in_context, pw_expr
from plant_core.support.location import PlantError


@dataclass(frozen=True, slots=True)
class Frame:
    """`outer`: the loops' names, from the outermost to the one that holds the copies. `values` maps instances of the
    statement to those loops' values, `prefixes` those values to the first dimensions of time, position included,
    and `first`/`last` a prefix to where in the loop the statement begins and ends. `iterations`: the loops' values."""

    comp: Comp
    nest: Nest
    outer: tuple[str, ...]
    values: isl.Map
    prefixes: isl.Map
    first: isl.Map
    last: isl.Map
    iterations: isl.Set

    @property
    def level(self) -> int:
        """The time dimension that has the positions inside the loop."""
        return 2 * len(self.outer)

    def footprint(self, access: Load) -> isl.Map:
        """Elements that an iteration of the loop accesses, from the outer loops' values; PlantError where unknown."""
        cells, exact = access_map(self.comp, access)
        if not exact:
            raise PlantError(
                f"a subscript of '{access.buf}' in {self.comp.name} isn't affine, so what it reads isn't known",
                loc=access.loc or self.comp.loc,
                code="DG214",
                remedy="cache the arrays whose subscripts are affine in the iterators and integer parameters",
            )
        return self.values.reverse().apply_range(cells).coalesce()

    def require_values(self) -> None:
        if not self.values.is_single_valued():
            raise PlantError(
                f"{self.comp.name} runs some instances in several iterations of '{self.outer[-1]}', so an instance "
                "has no place in one cache",
                loc=self.comp.loc,
                code="DG214",
                remedy="cache before its tiles overlap",
            )

    def of_instance(self, value: isl.PwAff) -> isl.PwAff:
        """A function of the outer loops' values as one of the statement's iterators."""
        return value.pullback_pw_multi_aff(self.values.as_pw_multi_aff())

    def to_expr(self, value: isl.PwAff) -> Expr | None:
        """A function on the statement's instances as an Expr over its iterators; None where it isn't a min or max."""
        domain = self.values.domain()
        simple = value.gist(domain.align_params(value.get_space())).coalesce()
        found = pw_expr(simple, self.comp.iters)
        if found is None:
            found = pw_expr(value.intersect_domain(domain).coalesce(), self.comp.iters)
        return found

    def loop_expr(self, number: int) -> Expr:
        """The value of an outer loop as an Expr over the statement's iterators."""
        values = isl.MultiPwAff.from_pw_multi_aff(self.values.as_pw_multi_aff())
        found = self.to_expr(values.get_at(number))
        if found is None:
            raise PlantError(
                f"the loop '{self.outer[number]}' isn't a minimum or maximum of affine functions of "
                f"{self.comp.name}'s iterators",
                loc=self.comp.loc,
                code="DG214",
                remedy="cache before the loop is separated or transformed piecewise",
            )
        return found


def frame(s: Scheduled, name: str, loop: str) -> Frame:
    """The iterations of loop `loop` of the Comp `name`; PlantError (DG210) where there is none."""
    nest = s.nest(name)
    comp = next((c for c in s.func.comps if c.name == name), None)
    if comp is None:
        raise PlantError(f"'{name}' computes nothing", code="DG210", remedy="name a computation")
    depth = nest.depth(loop)
    _refuse_unknown(s, comp, depth + 1)
    domain = in_context(domain_of(comp), s.func.context)
    relation = nest.relation.intersect_domain(domain)
    if relation.is_empty():
        raise PlantError(f"{name} never runs", loc=comp.loc, code="DG214", remedy="remove it")
    count = relation.dim(isl.dim_type.out)
    level = 2 * depth + 2
    if level >= count:
        relation = padded(relation, level + 1)
        count = level + 1
    near = relation.project_out(isl.dim_type.out, level + 1, count - level - 1)
    names = [f"t{k}" for k in range(level)]
    odd = ", ".join(names[1::2])
    pick = isl.Map(f"{{ [{', '.join(names)}] -> [{odd}] }}")
    place = isl.Map(f"{{ [{', '.join(names)}, p] -> [p] }}")
    front = isl.Map(f"{{ [{', '.join(names)}, p] -> [{', '.join(names)}] }}")
    region = near.range()
    prefix = front.intersect_domain(region).reverse().apply_range(place)
    values = near.apply_range(front).apply_range(pick).coalesce()
    prefixes = pick.intersect_domain(region.apply(front)).reverse().coalesce()
    first, last = prefix.lexmin().coalesce(), prefix.lexmax().coalesce()
    return Frame(comp, nest, nest.loops[: depth + 1], values, prefixes, first, last, values.range())


def joined(frames: Sequence[Frame]) -> Frame:
    """The first statement's frame with the iterations, beginnings and ends of several that share the loop.

    PlantError (DG210) where they don't share it, or no iteration of the first's has all of them.
    """
    result = frames[0]
    for other in frames[1:]:
        prefixes = result.prefixes.union(other.prefixes).coalesce()
        if len(other.outer) != len(result.outer) or not prefixes.is_single_valued():
            raise PlantError(
                f"{other.comp.name} isn't in the loop '{result.outer[-1]}' of {result.comp.name}",
                loc=other.comp.loc,
                code="DG210",
                remedy="name statements that share the loop",
            )
        result = replace(
            result,
            prefixes=prefixes,
            first=result.first.union(other.first).lexmin().coalesce(),
            last=result.last.union(other.last).lexmax().coalesce(),
            iterations=result.iterations.union(other.iterations).coalesce(),
        )
    return result


def _refuse_unknown(s: Scheduled, comp: Comp, depth: int) -> None:
    """What a parameter is isn't known outside of the loops of the computation that defines it."""
    for definer in s.func.comps:
        if definer.defines is None or definer.name == comp.name or len(s.nest(definer.name).loops) <= depth:
            continue
        place = comp.domain.find_dim_by_name(isl.dim_type.param, definer.defines)
        if place >= 0 and comp.domain.involves_dims(isl.dim_type.param, place, 1):
            raise PlantError(
                f"how much {comp.name} uses depends on '{definer.defines}', which is known only further in",
                loc=comp.loc,
                code="DG214",
                remedy=f"choose a loop inside of those that define '{definer.defines}'",
            )


def offset_expr(value: isl.PwAff, outer: tuple[str, ...]) -> Expr:
    """The start of an axis as an Expr over the outer loops' names."""
    found = pw_expr(value, outer)
    if found is None:
        raise PlantError("the start of a cached region isn't a minimum or maximum of affine functions", code="DG214")
    return found
