"""Parameters that the program itself defines: a name of its own for each definition in the loop tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dspgen.errors import NoSchedule, Problem
from dspgen.vecdsl.ir.terms import Names
from plant_core.ir.func import Binary, Call, Cast, Expr, Load, Param, Select, Unary
from plant_core.ir.loop_tree import Do, For, If, Leaf, Seq, Tree
from plant_core.support.location import Loc

_Known = Mapping[str, str]


def with_definitions(tree: Tree, defined: frozenset[str], names: Names) -> Tree:
    """`tree` with every use of a defined parameter under the name of the definition before it in its block.

    Before: `n = a[i]; for (j < n) ..`, where the first leaf `defines` n. After: the leaf defines `n_1`, and the loop
    runs to `n_1`. Ensures: the same tree structure. Raises NoSchedule where no definition is sure to have run.
    """
    return _Renaming(defined, names).tree(tree, {}) if defined else tree


@dataclass(frozen=True, slots=True)
class _Renaming:
    defined: frozenset[str]
    names: Names

    def tree(self, tree: Tree, known: _Known) -> Tree:
        match tree:
            case Seq():
                return Seq(self.block(tree.children, known))
            case For():
                lower, upper = self.expr(tree.lower, known), self.expr(tree.upper, known)
                return replace(tree, lower=lower, upper=upper, body=self.tree(tree.body, known))
            case If():
                return If(self.expr(tree.condition, known), self.tree(tree.then, known))
            case Leaf():
                return self.leaf(tree, known)
            case Do():
                return tree

    def block(self, trees: tuple[Tree, ...], known: _Known) -> tuple[Tree, ...]:
        done = []
        for child in trees:
            new = self.tree(child, known)
            done.append(new)
            known = {name: value for name, value in known.items() if not _defines(child, name)}
            if isinstance(child, Leaf) and isinstance(new, Leaf) and child.comp.defines and new.comp.defines:
                known[child.comp.defines] = new.comp.defines
        return tuple(done)

    def leaf(self, leaf: Leaf, known: _Known) -> Leaf:
        comp, loc = leaf.comp, leaf.comp.loc
        if comp.defines is not None and max(leaf.tile.spans, default=1) > 1:
            raise _refuse(comp.defines, loc)
        target, value = self.expr(comp.target, known, loc), self.expr(comp.value, known, loc)
        assert isinstance(target, Load)
        defines = None if comp.defines is None else self.names.fresh(comp.defines)
        origin = tuple(self.expr(o, known, loc) for o in leaf.origin)
        count = None if leaf.count is None else self.expr(leaf.count, known, loc)
        guards = tuple(self.expr(g, known, loc) for g in leaf.guards)
        comp = replace(comp, target=target, value=value, defines=defines)
        return replace(leaf, comp=comp, origin=origin, count=count, guards=guards)

    def expr(self, expr: Expr, known: _Known, loc: Loc | None = None) -> Expr:
        def inside(part: Expr) -> Expr:
            return self.expr(part, known, loc)

        match expr:
            case Param(name=name) if name in self.defined:
                if name not in known:
                    raise _refuse(name, loc)
                return replace(expr, name=known[name])
            case Cast() | Unary():
                return replace(expr, operand=inside(expr.operand))
            case Binary():
                return replace(expr, left=inside(expr.left), right=inside(expr.right))
            case Select():
                arms = inside(expr.true), inside(expr.false)
                return replace(expr, condition=inside(expr.condition), true=arms[0], false=arms[1])
            case Call():
                return replace(expr, args=tuple(map(inside, expr.args)))
            case Load():
                return replace(expr, indices=tuple(map(inside, expr.indices)))
            case _:
                return expr


def _defines(tree: Tree, name: str) -> bool:
    match tree:
        case Leaf(comp=comp):
            return comp.defines == name
        case For(body=inner) | If(then=inner):
            return _defines(inner, name)
        case Seq(children=inner):
            return any(_defines(child, name) for child in inner)
        case Do():
            return False


def _refuse(name: str, loc: Loc | None) -> NoSchedule:
    return NoSchedule(Problem("DG332", f"'{name}' is used where it may not have a value yet", loc))
