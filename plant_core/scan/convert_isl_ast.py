"""isl's AST as a loop tree: named loops with their tags, and statements in the tree's own iterators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import islpy as isl

from plant_core.ir.accesses import accesses, add, children, combined, from_ast, integer, negated, rebuild, to_pw_aff
from plant_core.ir.func import Alloc, Binary, Comp, Expr, Iter, Load, Memcpy, Param, Val
from plant_core.ir.loop_tree import Do, For, If, Leaf, Seq, Tag, Tile, Tree
from plant_core.ir.scheduled import Nest
from plant_core.scan.statement_times import Piece, Step
from plant_core.support.location import Loc, PlantError


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the tree: what each identifier stands for, and the names that a new loop can't have."""

    values: Mapping[str, Expr]
    used: frozenset[str]


@dataclass(frozen=True, slots=True)
class Reached:
    """A Step's place in the tree: the values of the loops around it, and what is known of them there."""

    values: tuple[Expr, ...]
    times: isl.Set


@dataclass(frozen=True, slots=True)
class Own:
    """An array that each iteration of the loop number `depth`, called `loop`, has to itself, and what uses it.

    `named` tells that the loop has that name in the tree, so that the array's `alloc_at` finds it; where it hasn't, the
    tree says itself where the array is made.
    """

    buf: str
    depth: int
    loop: str
    users: frozenset[str]
    loc: Loc
    named: bool = True


@dataclass(frozen=True, slots=True)
class Misnamed(Exception):
    """The loop that makes `buf` has another name in the tree."""

    buf: str


@dataclass(frozen=True, slots=True)
class Converter:
    """`reached` has for each leaf what runs there, and the build that knows where it is; `step` makes a Step's tree;
    `reduces` tells whether a nest's loop carries updates of reductions."""

    prefix: str
    reached: Sequence[tuple[Piece | Step, isl.AstBuild]]
    step: Callable[[Step, Reached, Place], Tree]
    reduces: Callable[[Nest, str], bool]
    own: tuple[Own, ...] = ()

    def tree(self, node: isl.AstNode, place: Place) -> Tree:
        kinds = isl.ast_node_type
        match node.get_type():
            case kinds.block:
                return sequence(self.tree(child, place) for child in _block(node))
            case kinds.mark:
                return self.tree(node.mark_get_node(), place)
            case kinds.if_:
                return self._branch(node, place)
            case kinds.for_:
                return self._loop(node, place)
            case kinds.user:
                return self._leaf(node, place)
            case other:
                raise PlantError(f"the loop generator made a node that a loop tree lacks: {other}", code="DG299")

    def _branch(self, node: isl.AstNode, place: Place) -> Tree:
        condition = _expr(node.if_get_cond(), place.values)
        then = If(condition, self.tree(node.if_get_then_node(), place))
        if not node.if_has_else_node():
            return then
        other = self.tree(node.if_get_else_node(), place)
        return sequence((then, If(negated(condition), other)))

    def _loop(self, node: isl.AstNode, place: Place) -> Tree:
        iterator = node.for_get_iterator().get_id().get_name()
        lower = _expr(node.for_get_init(), place.values)
        body = node.for_get_body()
        depth = int(iterator[len(self.prefix) :])
        pieces = self._pieces(body)
        if node.for_is_degenerate():
            return self.tree(body, Place({**place.values, iterator: lower}, place.used))
        name = _fresh(pieces[0].nest.loops[depth], place.used)
        names = {p.nest.name for p in pieces}
        for own in self.own:
            if own.named and own.users & names and (own.depth == depth) != (own.loop == name):
                raise Misnamed(own.buf)
        inner = Place({**place.values, iterator: Iter(name)}, place.used | {name})
        condition = node.for_get_cond()
        upper = _expr(condition.get_op_arg(1), place.values)
        if condition.get_op_type() == isl.ast_expr_op_type.le:
            upper = add(upper, integer(1))
        step = _expr(node.for_get_inc(), place.values)
        if not isinstance(step, Val):
            raise PlantError("the loop generator made a loop without a constant step", code="DG299")
        tag, piece = _tag(pieces, depth)
        reduction = tag not in _ONE_BY_ONE and self.reduces(piece.nest, piece.nest.loops[depth])
        inside = with_arrays([own for own in self.own if own.depth >= depth], self.tree(body, inner))
        return For(name, lower, upper, int(step.value), inside, tag, reduction)

    def _pieces(self, node: isl.AstNode) -> list[Piece]:
        """What runs inside a node, in text order."""
        kinds = isl.ast_node_type
        match node.get_type():
            case kinds.for_:
                return self._pieces(node.for_get_body())
            case kinds.if_:
                other = self._pieces(node.if_get_else_node()) if node.if_has_else_node() else []
                return _in_order(self._pieces(node.if_get_then_node()) + other)
            case kinds.block:
                return _in_order([p for child in _block(node) for p in self._pieces(child)])
            case kinds.mark:
                return self._pieces(node.mark_get_node())
            case _:
                item, _build = self._reached(node)
                return [item] if isinstance(item, Piece) else list(item.pieces)

    def _reached(self, node: isl.AstNode) -> tuple[Piece | Step, isl.AstBuild]:
        return self.reached[int(node.get_annotation().get_name())]

    def _leaf(self, node: isl.AstNode, place: Place) -> Tree:
        item, build = self._reached(node)
        if isinstance(item, Step):
            call = node.user_get_expr()
            values = tuple(_expr(call.get_op_arg(k), place.values) for k in range(1, call.get_op_n_arg()))
            times = isl.Map.from_union_map(build.get_schedule()).domain()
            return self.step(item, Reached(values, times), place)
        if not isinstance(item.statement, Comp):
            return Do(item.statement.action, item.statement.loc)
        times = isl.PwMultiAff.from_map(isl.Map.from_union_map(build.get_schedule()).reverse())
        return _Statement(item.statement, item.instance, times, build, place.values).leaf()


def _expr(expr: isl.AstExpr, values: Mapping[str, Expr]) -> Expr:
    return from_ast(expr, values, truncating=True)


def _in_order(pieces: Iterable[Piece]) -> list[Piece]:
    return [p for _, p in sorted({p.number: p for p in pieces}.items())]


def _block(node: isl.AstNode) -> list[isl.AstNode]:
    nodes = node.block_get_children()
    return [nodes.get_at(k) for k in range(nodes.n_ast_node())]


def sequence(parts: Iterable[Tree]) -> Tree:
    flat: list[Tree] = []
    for part in parts:
        flat += part.children if isinstance(part, Seq) else [part]
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def with_arrays(arrays: Iterable[Own], tree: Tree) -> Tree:
    """The tree with an Alloc before it for each of the arrays, of those not found by name, that it uses without one."""
    missing = [own for own in arrays if not own.named and _uses(tree, own.buf)]
    return sequence((*(Do(Alloc(own.buf), own.loc) for own in missing), tree)) if missing else tree


def _uses(tree: Tree, buf: str) -> bool:
    match tree:
        case Seq(children=children):
            return Alloc(buf) not in [c.action for c in children if isinstance(c, Do)] and any(
                _uses(child, buf) for child in children
            )
        case For(body=inner) | If(then=inner):
            return _uses(inner, buf)
        case Leaf(target=target, value=value):
            read = [] if value is None else accesses(value)
            return any(a.buf == buf for a in (*read, *([] if target is None else accesses(target))))
        case Do(action=Memcpy(to=to, source=source)):
            return buf in (to, source)
        case _:
            return False


def _fresh(name: str, used: frozenset[str]) -> str:
    candidate, number = name, 0
    while candidate in used:
        number += 1
        candidate = f"{name}_{number}"
    return candidate


_ONE_BY_ONE: tuple[Tag | None, ...] = (None, "unroll", "unroll_explicit")


def _tag(pieces: Sequence[Piece], depth: int) -> tuple[Tag | None, Piece]:
    """The tag of the loop that the pieces share, and the first of them that gives it."""
    tags: dict[Tag | None, Piece] = {}
    for piece in pieces:
        tags.setdefault(piece.nest.tag(piece.nest.loops[depth]), piece)
    given = {tag: piece for tag, piece in tags.items() if tag is not None}
    if len(given) > 1:
        (one, first), (two, second) = list(given.items())[:2]
        raise PlantError(
            f"{first.nest.name} and {second.nest.name} share a loop, and tag it '{one}' and '{two}'",
            loc=second.statement.loc,
            code="DG230",
            remedy="tag it for one of them, or the same for both",
        )
    return next(iter((given or tags).items()))


# --- statements ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Statement:
    """A statement at a leaf: its iterators as functions of its times, and those as functions of the loops around."""

    comp: Comp
    instance: isl.PwMultiAff
    times: isl.PwMultiAff
    build: isl.AstBuild
    values: Mapping[str, Expr]

    def leaf(self) -> Leaf:
        count = len(self.comp.iters)
        origin = tuple(self._from(self.instance.get_pw_aff(k)) for k in range(count))
        names = dict(zip(self.comp.iters, origin, strict=True))
        target = replace(self.comp.target, indices=tuple(self._index(i, names) for i in self.comp.target.indices))
        return Leaf(self.comp, origin, Tile((1,) * count), target, self._value(self.comp.value, names))

    def _from(self, value: isl.PwAff) -> Expr:
        """A function of the times. Of a loop that runs once isl knows what its one value leaves over when divided,
        and would say everything by that; then the value itself is the simpler text."""
        found = self._in_loops(value.pullback_pw_multi_aff(self.times))
        if not _divides(found):
            return found
        plain = self._plain(value)
        return found if plain is None else plain

    def _in_loops(self, value: isl.PwAff) -> Expr:
        return _expr(self.build.expr_from_pw_aff(value), self.values)

    def _plain(self, value: isl.PwAff) -> Expr | None:
        """A function that is one sum of multiples of the times everywhere, term for term."""
        if value.n_piece() != 1:
            return None
        (_, aff), *_ = value.get_pieces()
        if aff.dim(isl.dim_type.div) or not aff.get_denominator_val().is_one():
            return None
        parts: list[tuple[Expr, int]] = [(integer(aff.get_constant_val().to_python()), 1)]
        for k in range(aff.dim(isl.dim_type.in_)):
            factor = aff.get_coefficient_val(isl.dim_type.in_, k)
            if not factor.is_zero():
                parts.append((self._in_loops(self.times.get_pw_aff(k)), factor.to_python()))
        for k in range(aff.dim(isl.dim_type.param)):
            factor = aff.get_coefficient_val(isl.dim_type.param, k)
            if not factor.is_zero():
                name = aff.get_dim_name(isl.dim_type.param, k)
                parts.append((self.values.get(name) or Param(name, "i32"), factor.to_python()))
        return combined(*parts)

    def _value(self, expr: Expr, names: Mapping[str, Expr]) -> Expr:
        match expr:
            case Iter(name=name):
                return names.get(name, expr)
            case Load(indices=indices):
                return replace(expr, indices=tuple(self._index(i, names) for i in indices))
        parts = children(expr)
        return rebuild(expr, tuple(self._value(p, names) for p in parts)) if parts else expr

    def _index(self, expr: Expr, names: Mapping[str, Expr]) -> Expr:
        """A subscript by way of isl, which knows the loops around and so finds the simplest text."""
        match expr:
            case Val():
                return expr
            case Iter(name=name):
                return names.get(name, expr)
        value = to_pw_aff(expr, self.comp)
        if value is None:
            return self._value(expr, names)
        found = self._from(value.pullback_pw_multi_aff(self.instance))
        if not _divides(found):
            return found
        return min(found, self._value(expr, names), key=_length)


def _length(expr: Expr) -> tuple[int, int]:
    """Divisions in an expression, those that round down twice; then its parts."""
    own = {"div": 1, "mod": 1, "floordiv": 2}.get(expr.op, 0) if isinstance(expr, Binary) else 0
    parts = [_length(part) for part in children(expr)]
    return own + sum(n for n, _ in parts), 1 + sum(n for _, n in parts)


def _divides(expr: Expr) -> bool:
    if isinstance(expr, Binary) and expr.op in ("div", "mod", "floordiv"):
        return True
    return any(map(_divides, children(expr)))
