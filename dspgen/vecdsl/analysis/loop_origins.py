"""Which loops of a program come of which comps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dspgen.vecdsl.ir.program import If, Loop, Program, Stmt
from plant_core.ir import loop_tree as t


def outermost_loops(tree: t.Tree, program: Program) -> dict[str, frozenset[str]]:
    """The comps in each outermost loop of the program that was built of the tree, by the loop's iterator."""
    loops, written = list(_loops(program.body)), list(_trees(tree))
    if len(loops) != len(written):
        return {}
    return {loop.iterator: frozenset(_comps(of)) for loop, of in zip(loops, written, strict=True)}


def _loops(body: Iterable[Stmt]) -> Iterator[Loop]:
    for stmt in body:
        if isinstance(stmt, Loop):
            yield stmt
        elif isinstance(stmt, If):
            yield from _loops(stmt.then)


def _trees(tree: t.Tree) -> Iterator[t.For]:
    match tree:
        case t.For():
            yield tree
        case t.If(then=then):
            yield from _trees(then)
        case t.Seq(children=children):
            for child in children:
                yield from _trees(child)


def _comps(tree: t.Tree) -> Iterator[str]:
    match tree:
        case t.Leaf(comp=comp):
            yield comp.name
        case t.For(body=inner) | t.If(then=inner):
            yield from _comps(inner)
        case t.Seq(children=children):
            for child in children:
                yield from _comps(child)
