"""From a tiling plan to the loop tree, by isl's AST generator (Grosser, Verdoolaege and Cohen, TOPLAS 2015).

The tiles of each shape are a statement of their own, with one instance at each tile's origin; different shapes are
separated into different loops, so that no hot loop has a guard.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import islpy as isl

from plant_core.affine import add, from_ast, integer, negated
from plant_core.ir import Expr, Func, Iter, Param, ScalarParam, Val
from plant_core.loc import PlantError
from plant_core.schedule import Position, permuted, position, schedule_map
from plant_core.tiles import Plan, TileSet, tile_sets, validate_plan
from plant_core.tree import For, If, Leaf, Seq, Tree

_MOST_LEAVES_PER_TILE_SET = 64


@dataclass(frozen=True, slots=True)
class _Statement:
    """The tiles of one shape, as a statement of the generated program."""

    name: str
    tiles: TileSet
    order: tuple[str, ...]
    place: Position


def generate(func: Func, plan: Plan) -> Tree:
    """The loop tree that runs `plan`; each leaf is one tile. See `legality.check_legal` for whether it may be run."""
    validate_plan(func, plan)
    statements: list[_Statement] = []
    for comp in func.comps:
        comp_plan = plan.for_comp(comp)
        place = permuted(comp, position(comp), comp_plan.order, comp_plan.constants)
        for tiles in tile_sets(comp, comp_plan):
            statements.append(_Statement(f"T{len(statements)}", tiles, comp_plan.order, place))
    names = _Names(func)
    groups: dict[int, list[_Statement]] = {}
    for statement in statements:
        groups.setdefault(statement.place.constants[0], []).append(statement)
    children = [_nest(func, groups[constant], names) for constant in sorted(groups)]
    return _sequence(children)


def _nest(func: Func, statements: list[_Statement], names: _Names) -> Tree:
    """The tree of the statements that share the outermost textual position."""
    separated = _build(func, statements, separate=True)
    limit = _MOST_LEAVES_PER_TILE_SET * len(statements)
    node = separated if _count_leaves(separated) <= limit else _build(func, statements, separate=False)
    given: dict[str, Expr] = {p.name: Param(p.name, p.dtype) for p in func.params if isinstance(p, ScalarParam)}
    return _Converter({s.name: s for s in statements}, names).tree(node, given)


def _build(func: Func, statements: list[_Statement], *, separate: bool) -> isl.AstNode:
    length = 2 * max(len(s.place.loops) for s in statements) + 1
    text = {comp.name: k for k, comp in enumerate(func.comps)}
    times = isl.UnionMap("{ }")
    for statement in statements:
        time = schedule_map(statement.tiles.comp, statement.place, length).intersect_domain(statement.tiles.origins)
        time = time.add_dims(isl.dim_type.out, 1)
        time = time.fix_val(isl.dim_type.out, length, isl.Val(text[statement.tiles.comp.name]))
        times = times.union(time.set_tuple_name(isl.dim_type.in_, statement.name))
    build = isl.AstBuild.from_context(isl.Set("{ : }"))
    ids = isl.IdList.alloc(times.get_ctx(), length + 1)
    for k in range(length + 1):
        ids = ids.insert(k, isl.Id(f"t{k}"))
    build = build.set_iterators(ids)
    if separate:
        dims = ", ".join(f"d{k}" for k in range(length + 1))
        choices = "; ".join(f"[{dims}] -> separate[{k}]" for k in range(1, length, 2))
        if choices:
            build = build.set_options(isl.UnionMap(f"{{ {choices} }}"))
    return build.node_from_schedule_map(times)


def _count_leaves(node: isl.AstNode) -> int:
    kinds = isl.ast_node_type
    match node.get_type():
        case kinds.for_:
            return _count_leaves(node.for_get_body())
        case kinds.if_:
            other = _count_leaves(node.if_get_else_node()) if node.if_has_else_node() else 0
            return _count_leaves(node.if_get_then_node()) + other
        case kinds.block:
            return sum(_count_leaves(child) for child in _block(node))
        case _:
            return 1


def _block(node: isl.AstNode) -> list[isl.AstNode]:
    nodes = node.block_get_children()
    return [nodes.get_at(k) for k in range(nodes.n_ast_node())]


class _Names:
    """Iterator names, unique in a tree: the C name for its first loop, then `i_1`, `i_2`, ..."""

    def __init__(self, func: Func) -> None:
        self._used = {p.name for p in func.params} | {b.name for b in func.bufs}
        self._used |= {p.name for p in func.params if isinstance(p, ScalarParam)}

    def fresh(self, name: str) -> str:
        candidate, number = name, 0
        while candidate in self._used:
            number += 1
            candidate = f"{name}_{number}"
        self._used.add(candidate)
        return candidate


@dataclass(slots=True)
class _Converter:
    statements: dict[str, _Statement]
    names: _Names

    def tree(self, node: isl.AstNode, values: dict[str, Expr]) -> Tree:
        kinds = isl.ast_node_type
        match node.get_type():
            case kinds.block:
                return _sequence(self.tree(child, values) for child in _block(node))
            case kinds.if_:
                return self._branch(node, values)
            case kinds.for_:
                return self._loop(node, values)
            case kinds.user:
                return self._leaf(node, values)
            case other:
                raise PlantError(f"the loop generator made a node that a loop tree lacks: {other}", code="DG299")

    def _branch(self, node: isl.AstNode, values: dict[str, Expr]) -> Tree:
        condition = from_ast(node.if_get_cond(), values)
        then = If(condition, self.tree(node.if_get_then_node(), values))
        if not node.if_has_else_node():
            return then
        other = self.tree(node.if_get_else_node(), values)
        return _sequence((then, If(negated(condition), other)))

    def _loop(self, node: isl.AstNode, values: dict[str, Expr]) -> Tree:
        iterator = node.for_get_iterator().get_id().get_name()
        lower = from_ast(node.for_get_init(), values)
        if node.for_is_degenerate():
            return self.tree(node.for_get_body(), values | {iterator: lower})
        name = self.names.fresh(self._source_name(node, int(iterator[1:])))
        inner = values | {iterator: Iter(name)}
        condition = node.for_get_cond()
        upper = from_ast(condition.get_op_arg(1), values)
        if condition.get_op_type() == isl.ast_expr_op_type.le:
            upper = add(upper, integer(1))
        step = _constant(from_ast(node.for_get_inc(), values))
        body = self.tree(node.for_get_body(), inner)
        return For(name, lower, _whole_steps(lower, upper, step), step, body)

    def _source_name(self, node: isl.AstNode, dimension: int) -> str:
        statement = self.statements[_first_statement(node)]
        return statement.order[dimension // 2]

    def _leaf(self, node: isl.AstNode, values: dict[str, Expr]) -> Leaf:
        call = node.user_get_expr()
        statement = self.statements[call.get_op_arg(0).get_id().get_name()]
        origin = tuple(from_ast(call.get_op_arg(k), values) for k in range(1, call.get_op_n_arg()))
        return Leaf(statement.tiles.comp, origin, statement.tiles.tile)


def _first_statement(node: isl.AstNode) -> str:
    kinds = isl.ast_node_type
    while True:
        match node.get_type():
            case kinds.for_:
                node = node.for_get_body()
            case kinds.if_:
                node = node.if_get_then_node()
            case kinds.block:
                node = node.block_get_children().get_at(0)
            case _:
                name: str = node.user_get_expr().get_op_arg(0).get_id().get_name()
                return name


def _constant(expr: Expr) -> int:
    value = getattr(expr, "value", None)
    if isinstance(value, int) and value > 0:
        return value
    raise PlantError("the loop generator made a loop without a constant step", code="DG299")


def _whole_steps(lower: Expr, upper: Expr, step: int) -> Expr:
    """A constant upper bound moved up to where the last step ends, which is easier to read."""
    if isinstance(lower, Val) and isinstance(upper, Val):
        first = int(lower.value)
        return integer(first + -((first - int(upper.value)) // step) * step)
    return upper


def _sequence(children: Iterable[Tree]) -> Tree:
    flat: list[Tree] = []
    for child in children:
        flat += child.children if isinstance(child, Seq) else [child]
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))
