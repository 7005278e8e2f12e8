"""From the loop tree to C statements: leaves become stores, tags become what they promise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, assert_never

from backends.cpu.ir.alias_analysis import Ranges
from backends.cpu.ir.context import Lowering, assignment, value_of
from backends.cpu.ir.statements import Cell, Define, Effect, Guard, Loop, Note, Put, Stmt
from backends.cpu.passes.early_exits import leaves, left_early
from backends.cpu.vector.vectorize import vectorized
from plant_core.ir.accesses import add, integer
from plant_core.ir.func import Alloc, Iter
from plant_core.ir.loop_tree import Do, For, If, Leaf, Seq, Tree

_UNROLL = 8


def lower(low: Lowering, tree: Tree) -> tuple[Stmt, ...]:
    """The statements that run `tree`; loops tagged for a GPU are plain ones."""
    return _Lower(low).children(tree, {}, outermost=True, parallel=False)


@dataclass(frozen=True, slots=True)
class _Lower:
    low: Lowering

    def children(self, tree: Tree, ranges: Ranges, *, outermost: bool, parallel: bool) -> tuple[Stmt, ...]:
        """A body: a Seq in a Seq runs as if it were spelled out, unless names declared in it end with it."""
        parts = tree.children if isinstance(tree, Seq) else (tree,)
        made: list[Stmt] = []
        for part in parts:
            if isinstance(part, Seq):
                inner = self.children(part, ranges, outermost=outermost, parallel=parallel)
                made += [Guard(integer(1), inner)] if any(map(_declares, part.children)) else inner
            else:
                made += self.one(part, ranges, outermost=outermost, parallel=parallel)
        return tuple(made)

    def one(self, tree: For | If | Leaf | Do, ranges: Ranges, *, outermost: bool, parallel: bool) -> tuple[Stmt, ...]:
        match tree:
            case If(condition=condition, then=then):
                body = self.children(then, ranges, outermost=outermost, parallel=parallel)
                return (Guard(condition, body),) if body else ()
            case For():
                note = _origin(tree) if outermost else ()
                return (*note, *self.loop(tree, ranges, parallel))
            case Leaf():
                return self.leaf(tree)
            case Do(action=action, loc=loc):
                return (Effect(action, loc),)
            case _:
                assert_never(tree)

    def loop(self, loop: For, ranges: Ranges, parallel: bool) -> tuple[Stmt, ...]:
        if loop.tag == "vectorize":
            return vectorized(self.low, loop, ranges, lambda t, r: self.children(t, r, outermost=False, parallel=True))
        threads = loop.tag == "parallel" and self.low.threads and not parallel and not loop.reduction
        inside = {**ranges, loop.iterator: (loop.lower, loop.upper)}
        body = self.children(loop.body, inside, outermost=False, parallel=parallel or threads)
        if not body:
            return ()
        if not threads and (blocks := left_early(self.low, loop, body)) is not None:
            return blocks
        unroll = _UNROLL if loop.tag == "unroll" else 0
        kind: Literal["parallel", "plain"] = "parallel" if threads else "plain"
        return (Loop(loop.iterator, loop.lower, loop.upper, loop.step, body, kind, unroll),)

    def leaf(self, leaf: Leaf) -> tuple[Stmt, ...]:
        comp = leaf.comp
        spans = [(name, span) for name, span in zip(comp.iters, leaf.tile.spans, strict=True) if span != 1]
        if spans:
            return self.box(leaf, spans)
        target, value = assignment(leaf)
        if comp.defines is not None:
            return (Define(comp.defines, value_of(value)),)
        return (Put(Cell(target.buf, target.indices), value_of(value)),)

    def box(self, leaf: Leaf, spans: list[tuple[str, int]]) -> tuple[Stmt, ...]:
        """The points of a tile, the last iterator fastest."""
        names = {name: self.low.fresh(f"{name}_") for name, _ in spans}
        origin = tuple(
            add(o, Iter(names[n])) if n in names else o for n, o in zip(leaf.comp.iters, leaf.origin, strict=True)
        )
        tile = replace(leaf.tile, spans=tuple(1 for _ in leaf.tile.spans))
        body = self.leaf(replace(leaf, origin=origin, tile=tile, target=None, value=None))
        for name, span in reversed(spans):
            body = (Loop(names[name], integer(0), integer(span), 1, body),)
        return body


def _declares(tree: Tree) -> bool:
    match tree:
        case Leaf(comp=comp):
            return comp.defines is not None
        case Do(action=action):
            return isinstance(action, Alloc)
        case _:
            return False


def _origin(tree: Tree) -> tuple[Note, ...]:
    """Which statements of the user's text a nest runs."""
    found = {leaf.comp.name: leaf.comp.loc.line for leaf in leaves(tree)}
    text = ", ".join(f"{name} (line {line})" for name, line in list(found.items())[:8])
    return (Note(text + (", ..." if len(found) > 8 else "")),) if found else ()
