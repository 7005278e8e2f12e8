"""Where local arrays live: at the loop that has them to itself, or in the function."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from backends.cpu.ir.context import assignment
from plant_core.ir.accesses import accesses, all_bufs
from plant_core.ir.func import Alloc, Buf, Free, Func, Memcpy, Verbatim
from plant_core.ir.loop_tree import Do, For, If, Leaf, Seq, Tree
from plant_core.support.location import Loc


def place_locals(func: Func, tree: Tree, private: Collection[str] = ()) -> Tree:
    """Every local that the tree uses and doesn't allocate itself, allocated; the `private` ones by each iteration of
    the parallel loop around them.

    Before: `parallel i { t[0] = ...; }`. After: `parallel i { alloc t; t[0] = ...; }` where `t` is for each `i`, else
    `alloc t; parallel i { ... }`. Requires: nothing. Ensures: the same tree otherwise.
    """
    bufs = all_bufs(func)
    given = set(_allocated(tree))
    defined = {comp.defines for comp in func.comps if comp.defines is not None}
    used = _used(tree)
    outside: list[Tree] = []
    for name, buf in bufs.items():
        if buf.kind != "local" or name in given or name in defined or (name not in used and not _has_text(tree)):
            continue
        new = _at(buf, func.loc, tree, None) if name in private else _in_loop(buf, func.loc, tree)
        if new is None:
            outside.append(Do(Alloc(name), func.loc))
        else:
            tree = new
    return Seq((*outside, *_children(tree))) if outside else tree


def _children(tree: Tree) -> tuple[Tree, ...]:
    return tree.children if isinstance(tree, Seq) else (tree,)


def _allocated(tree: Tree) -> Iterable[str]:
    match tree:
        case Do(action=Alloc(buf=buf)):
            yield buf
        case _:
            for child in _inside(tree):
                yield from _allocated(child)


def _inside(tree: Tree) -> tuple[Tree, ...]:
    match tree:
        case For(body=inner) | If(then=inner):
            return (inner,)
        case Seq(children=children):
            return children
        case _:
            return ()


def _used(tree: Tree) -> set[str]:
    match tree:
        case Leaf():
            target, value = assignment(tree)
            return {a.buf for e in (target, value) for a in accesses(e)}
        case Do(action=Memcpy(to=to, source=source)):
            return {to, source}
        case Do(action=Free(buf=buf)):
            return {buf}
        case _:
            return {name for child in _inside(tree) for name in _used(child)}


def _has_text(tree: Tree) -> bool:
    match tree:
        case Do(action=Verbatim()):
            return True
        case _:
            return any(map(_has_text, _inside(tree)))


def _in_loop(buf: Buf, loc: Loc, tree: Tree) -> Tree | None:
    """`buf` allocated in each loop that is to have it, or None where some use of it is in no such loop."""
    if buf.alloc_at is None:
        return None
    # A loop of one iteration isn't in the tree; the parallel one around still needs an array for each thread.
    return _at(buf, loc, tree, buf.alloc_at[1]) or _at(buf, loc, tree, None)


def _at(buf: Buf, loc: Loc, tree: Tree, loop: str | None) -> Tree | None:
    if buf.name not in _used(tree):
        return tree
    match tree:
        case For(body=body) if tree.tag == "parallel" if loop is None else _is_loop(tree, loop):
            return replace(tree, body=Seq((Do(Alloc(buf.name), loc), *_children(body))))
        case For(body=body):
            inner = _at(buf, loc, body, loop)
            return None if inner is None else replace(tree, body=inner)
        case If(then=then):
            inner = _at(buf, loc, then, loop)
            return None if inner is None else replace(tree, then=inner)
        case Seq(children=children):
            parts = [_at(buf, loc, child, loop) for child in children]
            done = tuple(p for p in parts if p is not None)
            return Seq(done) if len(done) == len(parts) else None
        case _:
            return None


def _is_loop(tree: For, name: str) -> bool:
    """Whether the loop is the one named; a second loop of a name has a number after it."""
    rest = tree.iterator.removeprefix(name)
    return tree.iterator.startswith(name) and (not rest or (rest[0] == "_" and rest[1:].isdigit()))
