"""From a tiling plan to the loop tree, by isl's AST generator (Grosser, Verdoolaege and Cohen, TOPLAS 2015).

The tiles of each shape are a statement of their own, with one instance at each tile's origin; different shapes are
separated into different loops, so that no hot loop has a guard.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import islpy as isl

from plant_core.analysis.runtime_parameters import defined_parameters, defined_values, used_parameters
from plant_core.ir.accesses import add, extremum, from_ast, integer, negated, sub
from plant_core.ir.func import Binary, Comp, Expr, Func, Iter, Param, ScalarParam, Val
from plant_core.ir.loop_tree import For, If, Leaf, Seq, Tree
from plant_core.ir.time_2d1 import Position, permuted, position, schedule_map
from plant_core.strip_mine.version_dispatch import Nest, chosen
from plant_core.support.location import PlantError
from plant_core.tile_plan.plan import Plan, TileSet, tile_sets, validate_plan

_MOST_LEAVES_PER_TILE_SET = 64
_NAME = re.compile(r"[A-Za-z_]\w*")


# Beyond what a parameter of 32 bits can be.
_FAR = 1 << 40


@dataclass(frozen=True, slots=True)
class _Defined:
    """A parameter that is defined below `depth` loops. To the generator it is one more loop there, over all values, so
    that nothing is decided by it outside of these loops."""

    name: str
    depth: int


@dataclass(frozen=True, slots=True)
class _Statement:
    """The tiles of one shape, as a statement of the generated program."""

    name: str
    tiles: TileSet
    order: tuple[str, ...]
    place: Position
    defined: tuple[_Defined, ...] = ()


def generate(func: Func, plan: Plan, others: Sequence[Comp] = ()) -> Tree:
    """The loop tree that runs `plan`; each leaf is one tile. See `legality.check_legal` for whether it may be run.
    `others`: statements elsewhere, which may define some of its parameters."""
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
    definers: dict[str, list[Position]] = {}
    for statement in statements:
        if (defined := statement.tiles.comp.defines) is not None and statement.tiles.comp.iters:
            definers.setdefault(defined, []).append(statement.place)
    every = (*func.comps, *others)
    nests = [_nest(func, _with_defined(groups[constant], definers), names, every) for constant in sorted(groups)]
    if all(nest.known.plain_is_universe() for nest in nests):
        return _sequence(nest.tree for nest in nests)
    used = frozenset().union(*(used_parameters(s.tiles.comp) for s in statements))
    given = _given(func)

    def condition_of(known: isl.Set) -> Expr:
        return from_ast(isl.AstBuild.from_context(isl.Set("{ : }")).expr_from_set(known), given)

    return _sequence(chosen(nests, defined_values(every, used), condition_of))


def _given(func: Func) -> dict[str, Expr]:
    """What stands for parameters."""
    given: dict[str, Expr] = {p.name: Param(p.name, p.dtype) for p in func.params if isinstance(p, ScalarParam)}
    return given | {name: Param(name, "i32") for name in defined_parameters(func)}


def _shared(one: Position, other: Position) -> int:
    """How many loops two statements have in common."""
    most = min(len(one.loops), len(other.loops))
    return next((k for k in range(most) if one.constants[k] != other.constants[k]), most)


def _with_defined(statements: list[_Statement], definers: Mapping[str, Sequence[Position]]) -> list[_Statement]:
    """The statements with the parameters that they, or others in the same loops, get from definitions in loops which
    they share with these. A definition in loops of its own has been run before, so that loops may depend on it."""
    users: dict[_Defined, set[tuple[int, ...]]] = {}
    for statement in statements:
        for name in sorted(used_parameters(statement.tiles.comp) & set(definers)):
            depth = max(_shared(statement.place, place) for place in definers[name])
            if not depth:
                continue
            users.setdefault(_Defined(name, depth), set()).add(statement.place.constants[: depth + 1])
    return [
        replace(s, defined=tuple(d for d, prefixes in users.items() if s.place.constants[: d.depth + 1] in prefixes))
        for s in statements
    ]


def _nest(func: Func, statements: list[_Statement], names: _Names, every: Sequence[Comp]) -> Nest:
    """The tree of the statements that share the outermost textual position, and what parameters alone tell of all of
    them."""
    known = _condition(statements, _given(func))
    used = frozenset().union(*(used_parameters(s.tiles.comp) for s in statements))
    context = known.intersect(defined_values(every, used)).coalesce()
    separated = _build(func, statements, context, separate=True)
    limit = _MOST_LEAVES_PER_TILE_SET * len(statements)
    node = separated if _count_leaves(separated) <= limit else _build(func, statements, context, separate=False)
    tree = _Converter({s.name: s for s in statements}, names, _dimensions(statements)).tree(node, _given(func))
    return Nest(known, tree, defines=any(s.tiles.comp.defines is not None for s in statements))


def _condition(statements: list[_Statement], sizes: Collection[str]) -> isl.Set:
    """The constraints on parameters alone, one by one, that hold for all instances of the statements."""
    params = [s.tiles.comp.domain.params() for s in statements]
    found = isl.Set.universe(params[0].get_space())
    told = set[str].intersection(*(set(s.tiles.comp.sure) for s in statements))
    # Where a nest is a function of its own, it has the sizes that it uses only.
    if sure := [each for each in told if set(_NAME.findall(each)) <= set(sizes)]:
        found = isl.Set(f"[{', '.join(sizes)}] -> {{ : {' and '.join(sorted(sure))} }}").align_params(found.get_space())
        params = [p.align_params(found.get_space()) for p in params]
    if any(s.defined for s in statements):
        return found
    for piece in statements[0].tiles.comp.domain.get_basic_sets():
        count = piece.dim(isl.dim_type.set)
        for constraint in piece.get_constraints():
            alone = not any(constraint.involves_dims(isl.dim_type.set, k, 1) for k in range(count))
            if not alone or constraint.dim(isl.dim_type.div):
                continue
            holds = isl.Set.from_basic_set(isl.BasicSet.universe(piece.get_space()).add_constraint(constraint)).params()
            if all(p.is_subset(holds) for p in params):
                found = found.intersect(holds)
    return found


def _build(func: Func, statements: list[_Statement], known: isl.Set, *, separate: bool) -> isl.AstNode:
    length = 2 * max(len(s.place.loops) for s in statements) + 1
    dimensions = _dimensions(statements)
    text = {comp.name: k for k, comp in enumerate(func.comps)}
    times = isl.UnionMap("{ }")
    for statement in statements:
        time = schedule_map(statement.tiles.comp, statement.place, length).intersect_domain(statement.tiles.origins)
        if statement.tiles.last is not None:
            # One more argument of the statement, for which the generator finds an expression.
            ends = isl.Map.from_pw_aff(statement.tiles.last.intersect_domain(statement.tiles.origins))
            time = ends.domain_map().apply_range(time).flatten_domain()
        time = time.add_dims(isl.dim_type.out, 1)
        time = time.fix_val(isl.dim_type.out, length, isl.Val(text[statement.tiles.comp.name]))
        time = _with_values(time, statement, dimensions)
        times = times.union(time.set_tuple_name(isl.dim_type.in_, statement.name))
    build = isl.AstBuild.from_context(known)
    count = length + 1 + len(dimensions)
    ids = isl.IdList.alloc(times.get_ctx(), count)
    for k in range(count):
        ids = ids.insert(k, isl.Id(f"t{k}"))
    build = build.set_iterators(ids)
    if separate:
        dims = ", ".join(f"d{k}" for k in range(count))
        loops = [k for k in range(count) if _plain(k, dimensions) % 2 and k not in dimensions]
        choices = "; ".join(f"[{dims}] -> separate[{k}]" for k in loops if k < count - 1)
        if choices:
            build = build.set_options(isl.UnionMap(f"{{ {choices} }}"))
    return build.node_from_schedule_map(times)


def _dimensions(statements: list[_Statement]) -> dict[int, str]:
    """Where the defined parameters stand in time, each behind the textual position below the loops around it."""
    found = sorted({(d.depth, d.name) for s in statements for d in s.defined})
    return {2 * depth + 1 + k: name for k, (depth, name) in enumerate(found)}


def _plain(dimension: int, dimensions: Mapping[int, str]) -> int:
    """A dimension of time, counted without the defined parameters."""
    return dimension - sum(k < dimension for k in dimensions)


def _with_values(time: isl.Map, statement: _Statement, dimensions: Mapping[int, str]) -> isl.Map:
    """The time of a tile with the values of the parameters that it uses, which become arguments of the statement."""
    used = {d.name for d in statement.defined}
    for place, name in dimensions.items():
        time = time.insert_dims(isl.dim_type.out, place, 1)
        if name not in used:
            time = time.fix_val(isl.dim_type.out, place, isl.Val(2 * _FAR))
            continue
        number = time.dim(isl.dim_type.in_)
        param = time.find_dim_by_name(isl.dim_type.param, name)
        if param < 0:
            time = time.add_dims(isl.dim_type.in_, 1)
        else:
            time = time.move_dims(isl.dim_type.in_, number, isl.dim_type.param, param, 1)
        time = time.equate(isl.dim_type.in_, number, isl.dim_type.out, place)
        time = time.lower_bound_val(isl.dim_type.out, place, isl.Val(-_FAR))
        time = time.upper_bound_val(isl.dim_type.out, place, isl.Val(_FAR))
    return time


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
    dimensions: dict[int, str]

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
        if (parameter := self.dimensions.get(int(iterator[1:]))) is not None:
            return self._value(node, parameter, values | {iterator: Param(parameter, "i32")})
        if node.for_is_degenerate():
            return self.tree(node.for_get_body(), values | {iterator: lower})
        name = self.names.fresh(self._source_name(node, int(iterator[1:])))
        inner = values | {iterator: Iter(name)}
        condition = node.for_get_cond()
        upper = from_ast(condition.get_op_arg(1), values)
        if condition.get_op_type() == isl.ast_expr_op_type.le:
            upper = add(upper, integer(1))
        if any(isinstance(end, Val) and abs(int(end.value)) >= _FAR for end in (lower, upper)):
            raise PlantError("a loop is outside of the one in which its bounds are defined", code="DG299")
        step = _constant(from_ast(node.for_get_inc(), values))
        body = self.tree(node.for_get_body(), inner)
        return For(name, lower, _whole_steps(lower, upper, step), step, body)

    def _value(self, node: isl.AstNode, name: str, values: dict[str, Expr]) -> Tree:
        """A loop over all values of a parameter that is defined: it has one, and the loop's bounds are conditions."""
        body = self.tree(node.for_get_body(), values)
        value, lower = Param(name, "i32"), from_ast(node.for_get_init(), values)
        if node.for_is_degenerate():
            return body if _far(lower) else If(Binary("eq", value, lower, "i32"), body)
        condition = node.for_get_cond()
        upper = from_ast(condition.get_op_arg(1), values)
        if condition.get_op_type() != isl.ast_expr_op_type.le:
            upper = sub(upper, integer(1))
        if _constant(from_ast(node.for_get_inc(), values)) != 1:
            raise PlantError(f"a loop's instances have gaps that depend on '{name}'", code="DG299")
        checks: list[Expr] = [Binary("ge", value, low, "i32") for low in _operands("max", lower) if not _far(low)]
        checks += [Binary("le", value, high, "i32") for high in _operands("min", upper) if not _far(high)]
        for check in checks:
            body = If(check, body)
        return body

    def _source_name(self, node: isl.AstNode, dimension: int) -> str:
        statement = self.statements[_first_statement(node)]
        return statement.order[_plain(dimension, self.dimensions) // 2]

    def _leaf(self, node: isl.AstNode, values: dict[str, Expr]) -> Leaf:
        call = node.user_get_expr()
        statement = self.statements[call.get_op_arg(0).get_id().get_name()]
        given = call.get_op_n_arg() - len(statement.defined)
        args = tuple(from_ast(call.get_op_arg(k), values) for k in range(1, given))
        comp, tile = statement.tiles.comp, statement.tiles.tile
        if statement.tiles.last is None or tile.lane is None:
            return Leaf(comp, args, tile, guards=statement.tiles.guards)
        lane = comp.iters.index(tile.lane)
        left = add(sub(args[-1], args[lane]), integer(1))
        span = tile.spans[lane]
        count = left if 0 < _remainder_of(left) <= span else extremum("min", (left, integer(span)))
        if isinstance(count, Val):
            spans = (*tile.spans[:lane], int(count.value), *tile.spans[lane + 1 :])
            return Leaf(comp, args[:-1], replace(tile, spans=spans))
        return Leaf(comp, args[:-1], tile, count=count)


def _remainder_of(expr: Expr) -> int:
    """What an expression is a remainder by; 0 where it isn't one."""
    match expr:
        case Binary("sub", whole, Binary("mul", Val(number), Binary("floordiv", other, by))) if whole == other:
            return int(number) if by == integer(int(number)) else 0
        case _:
            return 0


def _operands(op: str, expr: Expr) -> list[Expr]:
    if isinstance(expr, Binary) and expr.op == op:
        return _operands(op, expr.left) + _operands(op, expr.right)
    return [expr]


def _far(bound: Expr) -> bool:
    """Whether every value of 32 bits keeps within a bound."""
    return isinstance(bound, Val) and abs(int(bound.value)) >= 1 << 31


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
