"""Builds the vector program of a tiled function: loops stay loops, each point of a leaf's box becomes one store."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from dspgen.errors import NoSchedule, Problem
from dspgen.vecdsl.affine import Opaque, add, affine, integer_term, scale
from dspgen.vecdsl.bounds import Scope, bounds_of, counted, not_negative
from dspgen.vecdsl.expressions import Translator, dtype_of, lift, stored
from dspgen.vecdsl.fold import make
from dspgen.vecdsl.ir import (
    Address,
    ArrayDecl,
    Elem,
    If,
    Load,
    Loop,
    Op,
    Program,
    ScalarDecl,
    Stmt,
    Store,
    Term,
    VType,
)
from dspgen.vecdsl.ranges import Bounds, Linear, Ranges, trip_range
from dspgen.vecdsl.reductions import (
    ACROSS_LANES,
    Path,
    accesses,
    check,
    has_quotient,
    identity,
    iterators_of,
    plan,
    reduced_iterators,
    same_element,
)
from dspgen.vecdsl.terms import (
    INTEGER,
    SCALAR_STRIDE,
    Names,
    as_vector,
    integer,
    linear_address,
    make_address,
    register_elem,
)
from plant_core.ir import Buf, Comp, Expr, Func
from plant_core.ir import Load as MemoryLoad
from plant_core.loc import Loc
from plant_core.tree import Do, For, Leaf, Seq, Tree
from plant_core.tree import If as TreeIf

# Names that no C identifier can be, for the iterators of a statement while its subscripts are flattened.
_POINT = "%"
_LANE = "%lane"


def build(func: Func, tree: Tree, lanes: int) -> Program:
    """The program that runs `tree`.

    Before: leaves are boxes of statement instances. After: each point (each vector of points, where the tile has a
    lane iterator) is one Store; a subscript that stays the same across lanes is a broadcast scalar load.
    Requires: a legal tree of `func`. Ensures: `verify` passes; reduction tiles accumulate in local arrays that start
    at the operator's identity and are added to their target after the loop. Raises NoSchedule (DG33x).
    """
    builder = _Builder(func, lanes, tree)
    body = builder.visit(tree, Scope(), ())
    arrays = tuple(ArrayDecl(b.name, b.dtype, _size(b), b.kind == "local", b.const) for b in _buffers(func))
    scalars = tuple(ScalarDecl(p.name, p.dtype) for p in func.params if not isinstance(p, Buf))
    params = tuple(p.name for p in func.params)
    return Program(func.name, params, (*arrays, *builder.partials), scalars, tuple(body))


@dataclass(frozen=True, slots=True)
class _Flat:
    """An access at a leaf's origin, and how far one step of each iterator of the statement moves it."""

    base: Address
    steps: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Partial:
    """Statements around the loop that hosts a leaf's partial sums, and the targets they touch."""

    before: tuple[Stmt, ...]
    after: tuple[Store, ...]


class _Builder:
    def __init__(self, func: Func, lanes: int, tree: Tree) -> None:
        self.lanes = lanes
        self.buffers = {b.name: b for b in _buffers(func)}
        self.names = Names([*self.buffers, *(p.name for p in func.params)])
        self.plan = plan(tree)
        self.quotients = any(has_quotient(a) for c in func.comps for a in (c.target, *accesses(c.value)))
        self.partials = list[ArrayDecl]()
        self.hosted = dict[Path, list[_Partial]]()

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
        body = tuple(self.visit(tree.body, inner, (*path, 0)))
        loop = Loop(name, start, trip, step, (), body, low, high, _first_loc(tree))
        hosted = self.hosted.pop(path, [])
        if not hosted:
            return [loop]
        before = tuple(s for p in hosted for s in p.before)
        after = tuple(s for p in hosted for s in p.after)
        around = (*before, loop, *after)
        # A loop that may not run says nothing about its targets being inside their arrays.
        if low == 0 and not all(self._inside(s, scope.ranges) for s in after):
            return [If(make("ne", (trip, integer(0)), INTEGER), around)]
        return list(around)

    def _inside(self, store: Store, ranges: Ranges) -> bool:
        low, high = ranges.minimum(store.address), ranges.maximum(store.address)
        count = (store.active or self.lanes) if store.value.type.vector else 1
        reach = store.stride * (count - 1)
        size = _size(self.buffers[store.array])
        return low is not None and high is not None and low + min(0, reach) >= 0 and high + max(0, reach) < size

    def leaf(self, leaf: Leaf, scope: Scope, path: Path) -> list[Stmt]:
        point = _LeafBuilder(self, leaf, scope)
        if path not in self.plan.hosts:
            return point.around(point.stores())
        if point.opened:
            raise point.refuse("the origin of a partial sum's tile is not affine")
        stores, partial = point.accumulate()
        host = self.plan.hosts[path]
        if host is None:
            return [*partial.before, *stores, *partial.after]
        self.hosted.setdefault(host, []).append(partial)
        return list(stores)


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


class _Point:
    """One point of a leaf, and the names of its subscripts that aren't affine.

    An address may use loop iterators only, so such a subscript becomes the iterator of a loop of one iteration.
    """

    def __init__(
        self,
        iterators: dict[str, Address],
        lane: str | None,
        direction: int,
        ranges: Ranges,
        loc: Loc,
        names: Names,
    ) -> None:
        self.iterators = iterators
        self.lane = lane
        self.direction = direction
        self.ranges = ranges
        self.loc = loc
        self.names = names
        self.opened = dict[Expr, tuple[str, Term]]()

    def translator(self, read: Callable[[MemoryLoad], Term]) -> Translator:
        return Translator(self.iterators, self.lane, read, self.ranges, self.loc, self.direction)

    def index(self, expr: Expr) -> Address | None:
        """A name for an integer expression that is the same on all lanes, else None."""
        if self.lane in tuple(iterators_of(expr)):
            return None
        if expr not in self.opened:
            value = self.translator(self._refuse).value(expr)
            if value.type != INTEGER:
                return None
            self.opened[expr] = (self.names.fresh("index"), value)
        return Address(0, ((self.opened[expr][0], 1),))

    def around(self, stmt: Stmt) -> Stmt:
        for name, value in reversed(self.opened.values()):
            stmt = Loop(name, value, integer(1), 1, (), (stmt,), 1, 1)
        return stmt

    def _refuse(self, access: MemoryLoad) -> Term:
        message = f"a subscript depends on what '{access.buf}' holds"
        raise NoSchedule(Problem("DG332", message, access.loc, "use --backend cpu"))


class _LeafBuilder:
    """One leaf: its origin, its accesses flattened there, and the points of its box."""

    def __init__(self, builder: _Builder, leaf: Leaf, scope: Scope) -> None:
        self.builder = builder
        self.lanes = builder.lanes
        self.comp: Comp = leaf.comp
        self.leaf = leaf
        self.lane = leaf.tile.lane
        self.direction = -1 if leaf.tile.flip else 1
        self.ranges = scope.ranges
        self.opened = list[tuple[str, Term]]()
        self.origin = {name: self._origin(expr, scope) for name, expr in zip(leaf.comp.iters, leaf.origin, strict=True)}
        self.spans = dict(zip(leaf.comp.iters, leaf.tile.spans, strict=True))
        self.flat = dict[tuple[str, tuple[Expr, ...]], _Flat | None]()

    def _origin(self, expr: Expr, scope: Scope) -> Address:
        """An origin with a quotient in it gets a name: that of the iterator of a loop of one iteration."""
        form = affine(expr, scope.iterators, scope.ranges)
        if form is not None:
            return form
        name = self.builder.names.fresh("at")
        self.opened.append((name, integer_term(expr, scope.iterators, scope.ranges, self.comp.loc)))
        return Address(0, ((name, 1),))

    def around(self, stmts: list[Stmt]) -> list[Stmt]:
        """The statements below the loops that name origins."""
        for name, value in reversed(self.opened):
            stmts = [Loop(name, value, integer(1), 1, (), tuple(stmts), 1, 1)]
        return stmts

    def refuse(self, message: str) -> NoSchedule:
        return NoSchedule(Problem("DG332", message, self.comp.loc))

    def offsets(self) -> list[dict[str, int]]:
        """The points of the box, last iterator fastest; the lane iterator in whole vectors."""
        steps = [range(0, self.spans[n], self.lanes if n == self.lane else 1) for n in self.comp.iters]
        return [dict(zip(self.comp.iters, point, strict=True)) for point in itertools.product(*steps)]

    def active(self, offset: dict[str, int]) -> int | None:
        if self.lane is None:
            return None
        rest = self.spans[self.lane] - offset[self.lane]
        return rest if rest < self.lanes else None

    def first_lane(self, offset: dict[str, int]) -> dict[str, int]:
        """The point on lane 0: the last iteration of the vector where the tile is flipped."""
        if self.lane is None or self.direction > 0:
            return offset
        return {**offset, self.lane: offset[self.lane] + (self.active(offset) or self.lanes) - 1}

    def stores(self) -> list[Stmt]:
        stores = list[Stmt]()
        target = self.comp.target
        for offset in self.offsets():
            point = self.point(offset)
            address, stride = self.locate(target, offset, point)
            if self.lane is not None and stride == 0:
                raise self.refuse(f"all lanes write the same element of '{target.buf}'")
            value = self.value(offset, point, None)
            vector = self.lane is not None
            value = as_vector(value) if vector else value
            active = self.active(offset)
            step = stride if vector else SCALAR_STRIDE
            store = Store(target.buf, address, step, self._elem(target), value, active, self.comp.loc)
            stores.append(point.around(store))
        return stores

    def point(self, offset: dict[str, int]) -> _Point:
        iterators = {n: self.origin[n].plus(o) for n, o in self.first_lane(offset).items()}
        return _Point(iterators, self.lane, self.direction, self.ranges, self.comp.loc, self.builder.names)

    def value(self, offset: dict[str, int], point: _Point, partial: Term | None) -> Term:
        """The statement's value at a point; `partial` stands for the target's old value."""

        def read(access: MemoryLoad) -> Term:
            if partial is not None and same_element(access, self.comp.target):
                return partial
            address, stride = self.locate(access, offset, point)
            return self.load(access, address, stride)

        translator = point.translator(read)
        dtype = self.builder.buffers[self.comp.target.buf].dtype
        value = translator.cast(translator.value(self.comp.value), dtype_of(self.comp.value), dtype)
        return stored(value, dtype) if partial is None else value

    def load(self, access: MemoryLoad, address: Address, stride: int) -> Load:
        elem = self._elem(access)
        vector = self.lane is not None and stride != 0
        step = stride if vector else SCALAR_STRIDE
        return Load(access.buf, address, step, elem, VType(register_elem(elem), vector))

    def _elem(self, access: MemoryLoad) -> Elem:
        return self.builder.buffers[access.buf].dtype

    def locate(self, access: MemoryLoad, offset: dict[str, int], point: _Point | None = None) -> tuple[Address, int]:
        """The flattened element at a point, and its stride across lanes."""
        key = (access.buf, access.indices)
        if key not in self.flat:
            self.flat[key] = self._flatten(access)
        flat = self.flat[key]
        if flat is None:
            return self._locate_point(access, offset, point.index if point else None)
        delta = sum(flat.steps.get(n, 0) * o for n, o in self.first_lane(offset).items())
        return flat.base.plus(delta), self.direction * flat.steps.get(self.lane, 0) if self.lane else 0

    def _flatten(self, access: MemoryLoad) -> _Flat | None:
        symbols = {n: Address(0, ((_POINT + n, 1),)) for n in self.comp.iters}
        form = self._row_major(access, symbols, Ranges())
        if form is None:
            return None
        base = Address(form.constant)
        steps = dict[str, int]()
        for name, coefficient in form.terms:
            if name.startswith(_POINT):
                steps[name[len(_POINT) :]] = coefficient
                base = add(base, self.origin[name[len(_POINT) :]], coefficient)
            else:
                base = add(base, Address(0, ((name, 1),)), coefficient)
        return _Flat(base, steps)

    def _locate_point(self, access: MemoryLoad, offset: dict[str, int], opaque: Opaque | None) -> tuple[Address, int]:
        # A quotient in a subscript: affine perhaps at each point of the tile, though not over the whole domain.
        iterators = {n: self.origin[n].plus(o) for n, o in self.first_lane(offset).items()}
        ranges = self.ranges
        if self.lane is not None:
            last = (self.active(offset) or self.lanes) - 1
            iterators[self.lane] = add(iterators[self.lane], Address(0, ((_LANE, self.direction),)))
            ranges = ranges.bind(_LANE, Bounds((Linear(0),), (Linear(last),)))
        form = self._row_major(access, iterators, ranges, opaque)
        if form is None:
            problem = Problem("DG332", f"a subscript of '{access.buf}' is not affine in this tile", access.loc)
            raise NoSchedule(problem)
        stride = form.coefficient(_LANE)
        return make_address(form.constant, {n: c for n, c in form.terms if n != _LANE}), stride

    def _row_major(
        self, access: MemoryLoad, iterators: dict[str, Address], ranges: Ranges, opaque: Opaque | None = None
    ) -> Address | None:
        total = Address(0)
        for index, extent in zip(access.indices, self.builder.buffers[access.buf].extents, strict=True):
            form = affine(index, iterators, ranges, opaque)
            if form is None:
                return None
            total = add(scale(total, extent), form)
        return total

    def accumulate(self) -> tuple[list[Stmt], _Partial]:
        """The stores to partial sums, and what comes before and after the loop around them."""
        family = check(self.leaf)
        reduced = set(reduced_iterators(self.leaf))
        target, vector = self.comp.target, self.lane is not None
        dtype = self.builder.buffers[target.buf].dtype
        type = VType(register_elem(dtype), vector)
        array = self.builder.names.fresh(f"{target.buf}_part")
        width = self.lanes if vector else 1
        groups = dict[tuple[int, ...], list[tuple[Load, dict[str, int]]]]()
        before, stores = list[Stmt](), list[Stmt]()
        start = identity(family, dtype)
        for number, offset in enumerate(self.offsets()):
            cell = Load(array, Address(number * width), SCALAR_STRIDE, type.elem, type)
            point = self.point(offset)
            value = self.value(offset, point, cell)
            active = self.active(offset)
            if vector:
                value = as_vector(value)
            if self.leaf.tile.reduce and active is not None:
                mask = Op("mask_first", (), VType("i32", True), (active,))
                value = Op("select", (mask, value, cell), type)
            first = as_vector(start) if vector else start
            before.append(Store(array, cell.address, SCALAR_STRIDE, type.elem, first, None, self.comp.loc))
            store = Store(array, cell.address, SCALAR_STRIDE, type.elem, value, None, self.comp.loc)
            stores.append(point.around(store))
            group = tuple(0 if n in reduced else o for n, o in offset.items())
            groups.setdefault(group, []).append((cell, offset))
        self.builder.partials.append(ArrayDecl(array, type.elem, len(stores) * width, True))
        after = tuple(self._combined(family, [c for c, _ in g], g[0][1]) for g in groups.values())
        return stores, _Partial(tuple(before), after)

    def _combined(self, family: str, cells: list[Load], offset: dict[str, int]) -> Store:
        """The target updated by the partial sums of one of its elements (one vector of them)."""
        target = self.comp.target
        dtype = self.builder.buffers[target.buf].dtype
        level: list[Term] = list(cells)
        while len(level) > 1:
            pairs = [lift(family, (a, b), dtype) for a, b in zip(level[::2], level[1::2], strict=False)]
            level = pairs + level[len(level) - len(level) % 2 :]
        total = level[0]
        if self.leaf.tile.reduce:
            total = Op(ACROSS_LANES[family], (total,), VType(total.type.elem, False))
        address, stride = self.locate(target, offset)
        vector = total.type.vector
        old = self.load(target, address, stride)
        if vector and stride == 0:
            raise self.refuse(f"all lanes write the same element of '{target.buf}'")
        value = stored(lift(family, (old, total), dtype), dtype)
        active = self.active(offset) if vector else None
        step = stride if vector else SCALAR_STRIDE
        return Store(target.buf, address, step, self._elem(target), value, active, self.comp.loc)


def _buffers(func: Func) -> list[Buf]:
    found = {p.name: p for p in func.params if isinstance(p, Buf)}
    for buf in func.bufs:
        found.setdefault(buf.name, buf)
    return list(found.values())


def _size(buf: Buf) -> int:
    size = 1
    for extent in buf.extents:
        size *= extent
    return size
