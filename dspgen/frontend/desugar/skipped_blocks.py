"""Statements without the jumps that skip the rest of a block: what is skipped goes into the branches that come to it.

Before: `{ A; if (c) JUMP; B; }`
After:  `{ A; if (!c) B; }`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pycparser import c_ast

from dspgen.frontend.parse.assigned_names import names
from dspgen.frontend.parse.syntax_tree import LOOPS, cloned, items, size

REPEATED = 400
"""How large a piece of the program may be that is written twice, in syntax nodes."""

Exit = type[c_ast.Break] | type[c_ast.Continue] | type[c_ast.Return] | type[c_ast.Goto]
Leave = Callable[[c_ast.Node], list[c_ast.Node]]


def nothing(_: c_ast.Node) -> list[c_ast.Node]:
    return []


def has(node: c_ast.Node, kind: Exit) -> bool:
    """Whether the statement leaves the loop or `switch` around it in this way."""
    if isinstance(node, kind):
        return True
    if isinstance(node, LOOPS) or (isinstance(node, c_ast.Switch) and kind is c_ast.Break):
        return False
    return any(has(child, kind) for _, child in node.children())


def always(nodes: Sequence[c_ast.Node], kind: Exit) -> bool:
    """Whether control never comes out at the end, as far as is easily seen."""
    if not nodes:
        return False
    match nodes[-1]:
        case c_ast.Return() | c_ast.Goto():
            return True
        case c_ast.Continue() | c_ast.Break():
            return isinstance(nodes[-1], kind)
        case c_ast.Compound():
            return always(items(nodes[-1]), kind)
        case c_ast.If():
            return always(items(nodes[-1].iftrue), kind) and always(items(nodes[-1].iffalse), kind)
    return False


def hides(block: Sequence[c_ast.Node], others: Sequence[c_ast.Node]) -> bool:
    """Whether the block declares what the other statements name, so that they mean something else behind it."""
    parts = [part for node in block for part in (node.decls if isinstance(node, c_ast.DeclList) else [node])]
    own = {str(part.name) for part in parts if isinstance(part, c_ast.Decl | c_ast.Typedef)}
    return any(isinstance(p, c_ast.Typedef) for p in parts) or any(own & names(node) for node in others)


def skipped(nodes: Sequence[c_ast.Node], kind: Exit, leave: Leave) -> list[c_ast.Node] | None:
    """The statements without exits of this kind: `leave` takes their place, and what they skip is in other branches.

    None where that can't be done.
    """
    for position, node in enumerate(nodes):
        if isinstance(node, kind):
            return [*nodes[:position], *leave(node)]
        if not has(node, kind):
            continue
        rest = list(nodes[position + 1 :])
        match node:
            case c_ast.Compound():
                own = items(node)
                if always(own, kind) or not rest:
                    found = skipped(own, kind, leave)
                elif hides(own, rest):
                    return None
                else:
                    found, rest = skipped([*own, *rest], kind, leave), []
                return None if found is None else [*nodes[:position], c_ast.Compound(found, node.coord)]
            case c_ast.If():
                branch = _branched(node, rest, kind, leave)
                return None if branch is None else [*nodes[:position], branch]
            case _:
                return None
    return list(nodes)


def _branched(node: c_ast.If, rest: list[c_ast.Node], kind: Exit, leave: Leave) -> c_ast.Node | None:
    """The rest of the block in those branches that come to it."""
    arms = [items(node.iftrue), items(node.iffalse)]
    open_arms = [arm for arm in arms if not always(arm, kind)]
    if len(open_arms) > 1 and sum(size(n) for n in rest) > REPEATED:
        return None
    arms = [
        [c_ast.Compound(arm, node.coord)] if hides(arm, rest) and not any(has(n, kind) for n in arm) else arm
        for arm in arms
    ]
    if any(hides(arm, rest) for arm in arms if not always(arm, kind)):
        return None
    found: list[list[c_ast.Node]] = []
    for arm in arms:
        more = [] if always(arm, kind) else [cloned(n) for n in rest]
        inner = skipped([*arm, *more], kind, leave)
        if inner is None:
            return None
        found.append(inner)
    coord = node.coord
    true, false = (c_ast.Compound(part, coord) for part in found)
    if not found[0]:
        return c_ast.If(c_ast.UnaryOp("!", node.cond, coord), false, None, coord)
    return c_ast.If(node.cond, true, false if found[1] else None, coord)
