"""Builds the vector program of a tiled function: loops stay loops, each point of a leaf's box becomes one store."""

from __future__ import annotations

from dataclasses import replace

from dspgen.errors import NoSchedule, Problem
from dspgen.vecdsl.analysis.footprint import of_store
from dspgen.vecdsl.analysis.integer_ranges import Bounds, Linear, Ranges, trip_range
from dspgen.vecdsl.build.affine_forms import add, integer_term
from dspgen.vecdsl.build.leaf import LeafBuilder, Partial, size_of
from dspgen.vecdsl.build.loop_bounds import Scope, bounds_of, counted, not_negative
from dspgen.vecdsl.build.parameter_definitions import with_definitions
from dspgen.vecdsl.build.reduction_tiles import Path, accesses, has_quotient, plan
from dspgen.vecdsl.ir.constant_folding import make
from dspgen.vecdsl.ir.program import Address, ArrayDecl, Const, If, Loop, Program, ScalarDecl, Stmt, Store
from dspgen.vecdsl.ir.terms import INTEGER, Names, integer, linear_address, names_of
from plant_core.analysis.symbolic_offsets import Starts, with_names
from plant_core.ir.func import Buf, Func
from plant_core.ir.loop_tree import Do, For, Leaf, Seq, Tree
from plant_core.ir.loop_tree import If as TreeIf
from plant_core.support.location import Loc


def build(func: Func, tree: Tree, lanes: int) -> Program:
    """The program that runs `tree`.

    Before: leaves are boxes of statement instances. After: each point (each vector of points, where the tile has a
    lane iterator) is one Store; a subscript that stays the same across lanes is a broadcast scalar load.
    Requires: a legal tree of `func`. Ensures: `verify` passes; reduction tiles accumulate in local arrays that start
    at the operator's identity and are added to their target after the loop. Raises NoSchedule (DG33x).
    """
    names = Names([*(b.name for b in _buffers(func)), *(p.name for p in func.params)])
    tree = with_definitions(tree, frozenset(c.defines for c in func.comps if c.defines is not None), names)
    tree, starts = with_names(tree, names.fresh)
    builder = _Builder(func, lanes, tree, names, starts)
    body = builder.visit(tree, Scope(), ())
    arrays = tuple(ArrayDecl(b.name, b.dtype, size_of(b), b.kind == "local", b.const) for b in _buffers(func))
    scalars = tuple(ScalarDecl(p.name, p.dtype) for p in func.params if not isinstance(p, Buf))
    params = tuple(p.name for p in func.params)
    return Program(func.name, params, (*arrays, *builder.partials), scalars, tuple(body))


class _Builder:
    def __init__(self, func: Func, lanes: int, tree: Tree, names: Names, starts: Starts) -> None:
        self.lanes = lanes
        self.buffers = {b.name: b for b in _buffers(func)}
        self.names = names
        self.starts = starts
        self.plan = plan(tree)
        self.quotients = any(has_quotient(a) for c in func.comps for a in (c.target, *accesses(c.value)))
        self.partials = list[ArrayDecl]()
        self.hosted = dict[Path, list[Partial]]()

    def visit(self, tree: Tree, scope: Scope, path: Path) -> list[Stmt]:
        match tree:
            case For():
                return self.loop(tree, scope, path)
            case TreeIf():
                condition = integer_term(tree.condition, scope.iterators, scope.ranges)
                return [If(condition, tuple(self.visit(tree.then, scope, (*path, 0))))]
            case Seq():
                return [s for n, child in enumerate(tree.children) for s in self.visit(child, scope, (*path, n))]
            case Leaf():
                return self.leaf(tree, scope, path)
            case Do():
                raise NoSchedule(Problem("DG311", "memory management has no code here", tree.loc))

    def loop(self, tree: For, scope: Scope, path: Path) -> list[Stmt]:
        start, trip, bounds = bounds_of(tree, scope)
        low, high = trip_range(scope.ranges, trip)
        if low == high:
            trip = integer(low)
        else:
            trip = not_negative(trip, scope.ranges)
        name = self.names.fresh(tree.iterator)
        value, step = Address(0, ((name, 1),)), tree.step
        first = linear_address(start)
        if step != 1 and self.quotients and first is not None:
            # Counting the iterations shows what the iterator's quotients by its step are.
            value = add(first, Address(0, ((name, step),)))
            start, step = integer(0), 1
            bounds = Bounds((Linear(0),), tuple(counted(u, first, tree.step) for u in bounds.uppers))
        inner = Scope({**scope.iterators, tree.iterator: value}, scope.ranges.bind(name, bounds))
        opened = list[Loop]()
        for what, given in self.starts.get(path, {}).items():
            begin = integer_term(what, inner.iterators, inner.ranges, _first_loc(tree))
            opened.append(Loop(given, begin, integer(1), 1, (), (), 1, 1))
            inner = replace(inner, ranges=inner.ranges.inside(opened[-1]))
        body = tuple(self.visit(tree.body, inner, (*path, 0)))
        for named in reversed(opened):
            body = (replace(named, body=body),)
        loop = Loop(name, start, trip, step, (), body, low, high, _first_loc(tree))
        hosted = self.hosted.pop(path, [])
        if not hosted:
            return [_within_names(loop)]
        before = tuple(s for p in hosted for s in p.before)
        after = tuple(s for p in hosted for s in p.after)
        around = (*before, loop, *after)
        # A loop that may not run says nothing about its targets being inside their arrays.
        if low == 0 and not all(self._inside(s, scope.ranges) for s in after):
            return [If(make("ne", (trip, integer(0)), INTEGER), around)]
        return list(around)

    def _inside(self, store: Store, ranges: Ranges) -> bool:
        low, high = ranges.minimum(store.address), ranges.maximum(store.address)
        first, last = of_store(store, self.lanes).reach
        if store.index is not None or low is None or high is None:
            return False
        return low + first >= 0 and high + last < size_of(self.buffers[store.array])

    def leaf(self, leaf: Leaf, scope: Scope, path: Path) -> list[Stmt]:
        builder = LeafBuilder(leaf, scope, self.buffers, self.names, self.lanes)
        if path not in self.plan.hosts:
            stmts = builder.around(builder.stores())
            return stmts if leaf.comp.defines is None else [*stmts, builder.definition(leaf.comp.defines)]
        stores, partial = builder.accumulate()
        stores = builder.around(stores)
        self.partials.append(partial.array)
        host = self.plan.hosts[path]
        if host is None:
            return [*partial.before, *stores, *partial.after]
        self.hosted.setdefault(host, []).append(partial)
        return stores


def _within_names(loop: Loop) -> Loop:
    """The loop inside of a loop of one iteration that was all in it, if that names what the loop doesn't change."""
    match loop.body:
        case (Loop(trip=Const(value=1), carried=()) as named,) if loop.iterator not in names_of(named.start):
            return replace(named, body=(replace(loop, body=named.body),))
        case _:
            return loop


def _first_loc(tree: Tree) -> Loc | None:
    """Where the first statement of a tree stands."""
    match tree:
        case For(body=inner) | TreeIf(then=inner):
            return _first_loc(inner)
        case Seq(children=children):
            return next((x for x in map(_first_loc, children) if x is not None), None)
        case Leaf(comp=comp):
            return comp.loc
        case Do(loc=loc):
            return loc


def _buffers(func: Func) -> list[Buf]:
    found = {p.name: p for p in func.params if isinstance(p, Buf)}
    for buf in func.bufs:
        found.setdefault(buf.name, buf)
    return list(found.values())
