"""`goto` as branches and loops.

Before: `if (c) goto L; A; L: B;`
After:  `if (!c) A; B;`

Before: `for (...) { if (x[i] > t) { k = i; goto L; } } A; L: B;`
After:  `int jumped = 0; for (...) if (x[i] > t) { k = i; jumped = 1; break; } if (!jumped) A; B;`

Before: `L: A; if (c) goto L;`
After:  `do A; while (c);`

A jump into a block, or into the middle of a loop, stays as it is, for the reader to refuse. So does one that skips a
declaration whose variable is used behind the label.
"""

from __future__ import annotations

from collections import Counter

from pycparser import c_ast

from dspgen.frontend.desugar.skipped_blocks import hides, nothing, skipped
from dspgen.frontend.parse.assigned_names import walk
from dspgen.frontend.parse.syntax_tree import LOOPS, assign, items, rebuilt, variable
from dspgen.frontend.parse.unique_names import Fresh


class _Jump(c_ast.Goto):  # type: ignore[misc]
    """A `goto` whose label comes next, once the rest of the block is skipped."""

    __slots__ = ("name", "coord")


def without_gotos(function: c_ast.FuncDef, fresh: Fresh) -> None:
    """Changes the function's body in place."""
    lowering = _Lowering(fresh, Counter(n.name for n in walk(function.body) if isinstance(n, c_ast.Goto)))
    function.body.block_items = lowering.block(function.body.block_items or [])


def _uses(node: c_ast.Node, label: str) -> int:
    return sum(isinstance(n, c_ast.Goto) and n.name == label for n in walk(node))


def _labelled(nodes: list[c_ast.Node]) -> list[c_ast.Node]:
    """Every label as a statement of its own, before the one that it marks."""
    found: list[c_ast.Node] = []
    for node in nodes:
        while isinstance(node, c_ast.Label):
            inner = node.stmt
            found.append(c_ast.Label(node.name, c_ast.EmptyStatement(node.coord), node.coord))
            node = inner
        found.append(node)
    return found


class _Lowering:
    """`jumps` has how often each label is jumped to, in all of the function."""

    def __init__(self, fresh: Fresh, jumps: Counter[str]) -> None:
        self._fresh = fresh
        self._jumps = jumps

    def block(self, nodes: list[c_ast.Node]) -> list[c_ast.Node]:
        nodes = _labelled(nodes)
        for label in self._labels(nodes):
            nodes = self._repeated(nodes, label)
        nodes = [self._inner(node) for node in nodes]
        for label in self._labels(nodes):
            nodes = self._ahead(nodes, label)
        return nodes

    def _labels(self, nodes: list[c_ast.Node]) -> list[str]:
        return [node.name for node in nodes if isinstance(node, c_ast.Label)]

    def _inner(self, node: c_ast.Node) -> c_ast.Node:
        if isinstance(node, c_ast.Compound):
            node.block_items = self.block(node.block_items or [])
            return node
        for field in ("stmt", "iftrue", "iffalse"):
            inner = getattr(node, field, None)
            if isinstance(inner, c_ast.Label):
                inner = c_ast.Compound([inner], inner.coord)
            if isinstance(inner, c_ast.Node) and not isinstance(node, c_ast.Label):
                setattr(node, field, self._inner(inner))
        return node

    def _repeated(self, nodes: list[c_ast.Node], label: str) -> list[c_ast.Node]:
        """The label and what follows, up to the only jump back to it, as a loop."""
        start = _position(nodes, label)
        if self._jumps[label] != 1:
            return nodes
        for end in range(start + 1, len(nodes)):
            node = nodes[end]
            if not _uses(node, label):
                continue
            if not isinstance(node, c_ast.If) or node.iffalse is not None:
                break
            rest, last = items(node.iftrue)[:-1], items(node.iftrue)[-1]
            if not isinstance(last, c_ast.Goto):
                break
            body = nodes[start + 1 : end]
            if end == start + 1:
                loop = c_ast.While(node.cond, c_ast.Compound(rest, node.coord), node.coord)
            elif rest or hides(body, nodes[end:]):
                break
            else:
                loop = c_ast.DoWhile(node.cond, c_ast.Compound(body, node.coord), node.coord)
            if any(isinstance(n, c_ast.Break | c_ast.Continue) for part in items(loop.stmt) for n in _exits(part)):
                break
            self._jumps[label] = 0
            return [*nodes[:start], loop, *nodes[end + 1 :]]
        return nodes

    def _ahead(self, nodes: list[c_ast.Node], label: str) -> list[c_ast.Node]:
        """The label gone, with what the jumps to it skip in other branches."""
        end = _position(nodes, label)
        jumping = [k for k, node in enumerate(nodes) if _uses(node, label)]
        if not jumping:
            return [*nodes[:end], *nodes[end + 1 :]] if not self._jumps[label] else nodes
        first, last = jumping[0], jumping[-1]
        if last > end or sum(_uses(nodes[k], label) for k in jumping) != self._jumps[label]:
            return nodes
        region = nodes[first:end]
        if hides(region, nodes[end:]):
            return nodes
        flag = self._fresh("jumped", f"whether 'goto {label}' was taken")
        parts: list[c_ast.Node] = []
        for node in region:
            found = self._marked(node, label, flag, False)
            if found is None:
                return nodes
            parts += found
        flagged = any(isinstance(n, c_ast.ID) and n.name == flag for part in parts for n in walk(part))
        shorter = skipped(parts, _Jump, nothing)
        if shorter is None:
            return nodes
        start = [variable(flag, c_ast.Constant("int", "0", region[0].coord), region[0].coord)] if flagged else []
        self._jumps[label] = 0
        # The branches may jump on to labels that come later.
        made = [*start, *shorter]
        for other in {n.name for node in region for n in walk(node) if isinstance(n, c_ast.Goto)} - {label}:
            before = sum(_uses(node, other) for node in region)
            self._jumps[other] += sum(_uses(node, other) for node in made) - before
        return [*nodes[:first], *made, *nodes[end + 1 :]]

    def _marked(self, node: c_ast.Node, label: str, flag: str, deep: bool) -> list[c_ast.Node] | None:
        """The statement with jumps of this block alone, those out of loops as `break` and a flag; a copy."""
        if not _uses(node, label):
            return [node]
        coord = node.coord
        match node:
            case c_ast.Goto():
                if not deep:
                    return [_Jump(label, coord)]
                return [assign(flag, c_ast.Constant("int", "1", coord), coord), c_ast.Break(coord)]
            case c_ast.Compound():
                inner = [self._marked(item, label, flag, deep) for item in items(node)]
                parts = [part for found in inner if found is not None for part in found]
                return None if None in inner else [c_ast.Compound(parts, coord)]
            case c_ast.If():
                arms = [self._marked(arm, label, flag, deep) for arm in (node.iftrue, node.iffalse) if arm is not None]
                if None in arms:
                    return None
                bodies = [c_ast.Compound(arm, coord) for arm in arms]
                return [c_ast.If(node.cond, bodies[0], bodies[1] if len(bodies) > 1 else None, coord)]
            case c_ast.For() | c_ast.While() | c_ast.DoWhile():
                body = self._marked(node.stmt, label, flag, True)
                if body is None:
                    return None
                whole = c_ast.Compound(body, coord)
                loop = rebuilt(node, lambda part: whole if part is node.stmt else part)
                leave = c_ast.Break(coord) if deep else _Jump(label, coord)
                return [loop, c_ast.If(c_ast.ID(flag, coord), c_ast.Compound([leave], coord), None, coord)]
        return None


def _position(nodes: list[c_ast.Node], label: str) -> int:
    return next(k for k, node in enumerate(nodes) if isinstance(node, c_ast.Label) and node.name == label)


def _exits(node: c_ast.Node) -> list[c_ast.Node]:
    """What leaves the loop around the statement, or ends its round."""
    if isinstance(node, c_ast.Break | c_ast.Continue):
        return [node]
    if isinstance(node, LOOPS):
        return []
    return [found for _, child in node.children() for found in _exits(child)]
