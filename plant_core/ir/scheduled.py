"""The computation schedule: for every statement of a Func, the loops that run it. See PLANT, 3.1 and 3.3.

    Scheduled ::= func, nests: Nest*, reassoc, origin
    Nest      ::= name, loops: str*, relation: isl map, tags, options

A Nest's `relation` maps the instances of its statement to time, `S[i, j] -> [c0, t0, c1, t1, ..., cn]`: one dimension
for each loop, named in `loops` from the outermost in, and a position among neighbours before, between and after them.
A position is piecewise constant: `separate` gives the two parts of a loop different ones. Statements share the loops
down to the first position in which they differ. An instance with several times runs at each of them (overlapped
tiles); no time has two instances of one statement.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import islpy as isl

from plant_core.ir.func import Comp, Effect, Func
from plant_core.ir.loop_tree import Tag
from plant_core.ir.time_2d1 import position, schedule_map
from plant_core.support.location import PlantError

AstOption = Literal["separate", "atomic", "unroll", "isolate"]


@dataclass(frozen=True, slots=True)
class Nest:
    """`tags` and `options` are (loop name, mark) pairs, one of each at most for a loop.

    The options are isl's for the loop's AST: `separate` keeps domains of different statements apart, `atomic` keeps
    them together, `unroll` writes every iteration out, and `isolate` splits off the iterations whose marked loops
    inside (those consecutive ones that also say `isolate`) run their full, constant extent.
    """

    name: str
    loops: tuple[str, ...]
    relation: isl.Map
    tags: tuple[tuple[str, Tag], ...] = ()
    options: tuple[tuple[str, AstOption], ...] = ()

    def tag(self, loop: str) -> Tag | None:
        return dict(self.tags).get(loop)

    def option(self, loop: str) -> AstOption | None:
        return dict(self.options).get(loop)

    def depth(self, loop: str) -> int:
        """Which loop of the nest it is, from 0; PlantError where there is none of this name."""
        if loop in self.loops:
            return self.loops.index(loop)
        raise PlantError(
            f"{self.name} has no loop '{loop}'",
            code="DG210",
            remedy=f"its loops are: {', '.join(self.loops) or 'none'}",
        )


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A program and the order it runs in. `origin` is the same program in the order that defines its meaning; verbs
    keep every dependence of it. `reassoc`: reductions of floats may be reordered."""

    func: Func
    nests: tuple[Nest, ...]
    reassoc: bool = False
    origin: Scheduled | None = None

    def nest(self, name: str) -> Nest:
        found = next((n for n in self.nests if n.name == name), None)
        if found is None:
            known = ", ".join(n.name for n in self.nests) or "none"
            raise PlantError(f"there is no statement '{name}'", code="DG210", remedy=f"the statements are: {known}")
        return found

    def with_nest(self, nest: Nest) -> Scheduled:
        return replace(self, nests=tuple(nest if n.name == nest.name else n for n in self.nests))


def as_written(func: Func, *, reassoc: bool = False) -> Scheduled:
    """The order of the source text, each loop named as the iterator it is."""
    nests = (*map(_as_written, func.comps), *map(_as_written, func.effects))
    return Scheduled(func, nests, reassoc)


def _as_written(statement: Comp | Effect) -> Nest:
    place = position(statement)
    length = 2 * len(statement.iters) + 1
    return Nest(statement.name, statement.iters, schedule_map(statement, place, length))


def padded(relation: isl.Map, length: int) -> isl.Map:
    """A relation to time with zeros after shorter times, up to `length` dimensions."""
    count = relation.dim(isl.dim_type.out)
    relation = relation.add_dims(isl.dim_type.out, max(0, length - count))
    for k in range(count, length):
        relation = relation.fix_val(isl.dim_type.out, k, isl.Val(0))
    return relation
