"""From a schedule to the loop tree: isl's AST generator (Grosser, Verdoolaege and Cohen, TOPLAS 2015) on the nests.

Times, not instances, are what isl scans, so that an instance may have several; the statements' own iterators are
functions of the time. Where a value that the program computes bounds loops (PLANT, 3.4), the tree is made in steps:
the loops around its definition first, for any value of it, and their body with their iterators and the value as
symbolic constants. So what depends on the value is never tested before it is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import islpy as isl

from plant_core.ir.accesses import all_bufs, read_accesses
from plant_core.ir.func import Action, Expr, Memcpy, Param, ScalarParam
from plant_core.ir.loop_tree import Seq, Tree
from plant_core.ir.scheduled import Nest, Scheduled
from plant_core.normalize.bind_storage import resolve_scheduled
from plant_core.scan.convert_isl_ast import Converter, Misnamed, Own, Place, Reached, sequence, with_arrays
from plant_core.scan.schedule_tree import Item, Part, Planner, items, neighbours, pieces_in, schedule_tree
from plant_core.scan.statement_times import Piece, Step, defined_parameters, pieces_of, without_params
from plant_core.schedule.legality import carried_by
from plant_core.support.location import PlantError


def scan(scheduled: Scheduled, *, context: isl.Set | None = None) -> Tree:
    """The loop tree that runs every statement at its times, in their order.

    Each leaf has its Comp's `target` and `value` in the tree's iterators. `context` is more that is known of the
    integer parameters than `func.context` says. Raises PlantError where statements that share a loop disagree about
    its tag or option, where a loop can't be unrolled, and where a parameter that the program defines isn't known yet.
    """
    scheduled = resolve_scheduled(scheduled)
    func = scheduled.func
    known = isl.Set("{ : }") if func.context is None else func.context
    if context is not None:
        known = known.intersect(context)
    if known.is_empty():
        raise PlantError(
            "nothing fulfils what is said of the parameters",
            loc=func.loc,
            code="DG234",
            remedy="drop a constraint that contradicts the others",
        )
    defined = defined_parameters(func)
    pieces = pieces_of(scheduled, known)
    if not pieces:
        return Seq(())
    reserved = {p.name for p in func.params} | set(all_bufs(func)) | defined
    names: dict[str, Expr] = {p.name: Param(p.name, p.dtype) for p in func.params if isinstance(p, ScalarParam)}
    names |= {c.defines: Param(c.defines, c.target.dtype) for c in func.comps if c.defines is not None}
    depth = 2 + max(p.depth for p in pieces)
    prefix = "t"
    while any(f"{prefix}{k}" in reserved for k in range(depth)):
        prefix += "_"
    own = _own_arrays(scheduled)
    while True:
        scanner = _Scanner(scheduled, known, defined, prefix, depth, own)
        try:
            return with_arrays(own, scanner.outermost(pieces, Place(names, frozenset(reserved))))
        except Misnamed as found:
            own = tuple(replace(one, named=False) if one.buf == found.buf else one for one in own)


def _own_arrays(scheduled: Scheduled) -> tuple[Own, ...]:
    func = scheduled.func
    found: list[Own] = []
    for buf in all_bufs(func).values():
        if buf.alloc_at is not None and buf.kind == "local":
            statement, loop = buf.alloc_at
            users = {c.name for c in func.comps if any(a.buf == buf.name for a in (c.target, *read_accesses(c)))}
            users |= {e.name for e in func.effects if _copies(e.action, buf.name)}
            depth = scheduled.nest(statement).depth(loop)
            found.append(Own(buf.name, depth, loop, frozenset(users), func.loc))
    return tuple(found)


def _copies(action: Action, buf: str) -> bool:
    return isinstance(action, Memcpy) and buf in (action.to, action.source)


@dataclass(frozen=True, slots=True)
class _Scanner:
    scheduled: Scheduled
    known: isl.Set
    defined: frozenset[str]
    prefix: str
    depth: int
    own: tuple[Own, ...]
    reducing: dict[tuple[str, str], bool] = field(default_factory=dict)

    def outermost(self, pieces: tuple[Piece, ...], place: Place) -> Tree:
        planner = Planner(-1, self.defined)
        part = planner.inside(pieces, 0)
        return self._generate(part, -1, self.defined, self._context(self.known, self.defined), place)

    def _context(self, known: isl.Set, hidden: frozenset[str]) -> isl.Set:
        return without_params(known, sorted(hidden))

    def step(self, step: Step, reached: Reached, place: Place, hidden: frozenset[str]) -> Tree:
        """The body of the loops around `step`, one part after another as the values become known."""
        symbols = {self._symbol(k): value for k, value in enumerate(reached.values)}
        inside = Place({**place.values, **symbols}, place.used)
        known = self.known.intersect(self._as_params(reached.times, step.depth))
        found: list[Tree] = []
        waiting: list[list[Piece]] = []
        for group in neighbours(step.pieces, step.depth):
            waiting.append(group)
            defines = group[0].defines if group[0].depth == step.depth else None
            if defines is not None:
                found.append(self._run(waiting, step.depth, hidden, known, inside))
                waiting, hidden = [], hidden - {defines}
        if waiting:
            found.append(self._run(waiting, step.depth, hidden, known, inside))
        return sequence(found)

    def _run(self, groups: list[list[Piece]], depth: int, hidden: frozenset[str], known: isl.Set, place: Place) -> Tree:
        part = Planner(depth, hidden).children(groups, depth)
        return self._generate(part, depth, hidden, self._context(known, hidden), place)

    def _generate(self, part: Part, base: int, hidden: frozenset[str], context: isl.Set, place: Place) -> Tree:
        domains = {item.name: self._domain(item, base) for item in items(part)}
        node, reached = self._ast(part, base, domains, context, isolate=True)
        # isl's partition into full and partial tiles can lose instances of strided statements, and its builds tell.
        if not _covered(domains, context, reached):
            node, reached = self._ast(part, base, domains, context, isolate=False)
            if not _covered(domains, context, reached):
                raise PlantError("the loop generator lost instances of a statement", code="DG299")
        converter = Converter(
            self.prefix, reached, lambda step, at, where: self.step(step, at, where, hidden), self._reduces, self.own
        )
        return converter.tree(node, place)

    def _reduces(self, nest: Nest, loop: str) -> bool:
        key = nest.name, loop
        if key not in self.reducing:
            self.reducing[key] = any(d.reduction for d in carried_by(self.scheduled, nest.name, loop))
        return self.reducing[key]

    def _ast(
        self, part: Part, base: int, domains: Mapping[str, isl.Set], context: isl.Set, *, isolate: bool
    ) -> tuple[isl.AstNode, list[tuple[Item, isl.AstBuild]]]:
        """isl's AST, and what each of its leaves runs, by the number in its annotation."""
        found = {item.name: item for item in items(part)}
        reached: list[tuple[Item, isl.AstBuild]] = []

        def leaf(node: isl.AstNode, build: isl.AstBuild) -> isl.AstNode:
            name = node.user_get_expr().get_op_arg(0).get_id().get_name()
            reached.append((found[name], build.copy()))
            return node.set_annotation(isl.Id(str(len(reached) - 1)))

        # The handle keeps the callback alive.
        build, _handle = isl.AstBuild.from_context(context).set_at_each_domain(leaf)
        names = isl.IdList.alloc(context.get_ctx(), self.depth)
        for k in range(self.depth):
            names = names.insert(k, isl.Id(f"{self.prefix}{max(base, 0) + k}"))
        tree = schedule_tree(part, domains, isolate=isolate)
        try:
            return build.set_iterators(names).node_from_schedule(tree), reached
        except isl.Error as error:
            # isl can write out only what has a constant bound, and says so no better than this.
            unrolled = [p for p in pieces_in(part) if any(mark == "unroll" for _, mark in p.nest.options)]
            if not unrolled:
                raise PlantError("isl can't make loops of this schedule", code="DG299") from error
            raise PlantError(
                f"a loop of {unrolled[0].nest.name} can't be unrolled",
                loc=unrolled[0].statement.loc,
                code="DG232",
                remedy="unroll loops of a constant number of iterations: split them, or fix the parameters",
            ) from None

    def _domain(self, item: Item, base: int) -> isl.Set:
        """The item's times with the loops outside pinned to their symbols."""
        domain = item.times
        for k in range(max(base, 0)):
            domain = domain.add_dims(isl.dim_type.param, 1)
            last = domain.dim(isl.dim_type.param) - 1
            domain = domain.set_dim_name(isl.dim_type.param, last, self._symbol(k))
            domain = domain.equate(isl.dim_type.param, last, isl.dim_type.set, k)
        return domain

    def _as_params(self, times: isl.Set, depth: int) -> isl.Set:
        """What is known of the loops outside, as a set of parameters."""
        times = times.reset_tuple_id()
        for k in range(depth):
            place = times.find_dim_by_name(isl.dim_type.param, self._symbol(k))
            if place >= 0:
                times = times.equate(isl.dim_type.param, place, isl.dim_type.set, k)
                times = times.project_out(isl.dim_type.param, place, 1)
        start = times.dim(isl.dim_type.param)
        times = times.move_dims(isl.dim_type.param, start, isl.dim_type.set, 0, depth)
        for k in range(depth):
            times = times.set_dim_name(isl.dim_type.param, start + k, self._symbol(k))
        return times.params()

    def _symbol(self, k: int) -> str:
        return f"{self.prefix}{k}@"


def _covered(domains: Mapping[str, isl.Set], context: isl.Set, reached: Iterable[tuple[Item, isl.AstBuild]]) -> bool:
    """Whether every instance has a leaf."""
    found: dict[str, isl.Set] = {}
    for item, build in reached:
        there = isl.Map.from_union_map(build.get_schedule()).domain()
        found[item.name] = found[item.name].union(there) if item.name in found else there
    for name, domain in domains.items():
        domain = domain.intersect_params(context)
        if not (domain.is_subset(found[name]) if name in found else domain.is_empty()):
            return False
    return True
