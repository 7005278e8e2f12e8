"""Caches: what a statement uses of an array inside one of its loops, copied to a small array of its own first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import islpy as isl

from plant_core.ir.accesses import access_key, combined, floordiv, substitute, to_pw_aff
from plant_core.ir.func import Access, Buf, Comp, Expr, Func, Iter, Load, Location
from plant_core.ir.scheduled import Scheduled
from plant_core.schedule.memory import last_writer as flows
from plant_core.schedule.memory.access_sites import (
    as_load,
    buffer,
    computation,
    expressions,
    fresh,
    refuse_location,
    refuse_name,
    refuse_vectors,
    sites,
)
from plant_core.schedule.memory.copy_scope import Frame, frame, joined, offset_expr
from plant_core.schedule.memory.dense_layout import Axis, Layout, Piece, box_round, layout, pieces
from plant_core.schedule.memory.insert_copies import Copy, Plan, install
from plant_core.schedule.verbs.time_maps import Names, words
from plant_core.support.location import PlantError


@dataclass(frozen=True, slots=True)
class _Uses:
    """The different accesses to cache, each with its statement, and which of them each site of a statement is;
    `targets`: those that are the statements' results."""

    buf: Buf
    accesses: tuple[tuple[str, Load], ...]
    sites: dict[str, dict[int, int]]
    targets: dict[str, int]


def cache_identity(
    s: Scheduled,
    name: Names,
    of: str,
    loop: str,
    *,
    location: Location = "stack",
    into: str | None = None,
    exact: bool = True,
    order: Sequence[int] | None = None,
) -> Scheduled:
    """In each iteration of `loop`, copy what `name` uses of `of` to a local array, and use that.

    Before: `for i { for j in 0..32 { y[i] += a[32*i + j] } }`. After `cache_identity(s, "y", "a", "i")`:
    `for i { for x0 in 0..32 { cache_a[x0] = a[32*i + x0] }; for j in 0..32 { y[i] += cache_a[j] } }`.

    `name` may be several statements that share `loop`, which is the first one's; they use one copy. `order` has the
    array's dimensions as they lie in the copy, the slowest first; by default as they are.
    `of` is an array, or a computation (then only Accesses of it are cached, unless `name` writes its array). The
    copies are `load_<cache>`, one for each piece, and `store_<cache>` where `name` writes the array; their own loops
    are `x0`, `x1`, ... `into` names the local array, `cache_<of>` by default.
    Ensures: exactly the elements used are copied (without `exact`, a whole box round those read, which for stencils
    is simpler code, never outside the array); the local array's extents are the largest that any iteration needs, with
    strides and gaps between pieces packed: `c(i)`, `c(i + 1)`, `c(i + 6)`, `c(i + 7)` take 4 elements. "gpu_shared":
    the block's threads share the copying, and barriers stand before the use and before the next overwrite.
    Errors: IllegalSchedule (DG201) where a value would go astray; PlantError (DG214) where no constant bounds the
    size. Source: PLANT, 3.2 and codes 3.7, 3.8.
    """
    _refuse_unusable(location, into)
    uses = _uses(s.func, _several(name), of)
    order = _order(order, len(uses.buf.shape))
    frames = _frames(s, uses, loop)
    place = joined(tuple(frames.values()))
    footprints = [frames[comp].footprint(load) for comp, load in uses.accesses]
    found = pieces(footprints, frozenset(uses.targets.values()), place.outer, place.comp.loc, uses.buf.name)
    shape = layout(found, order)
    local = _local(s.func, uses.buf, into or f"cache_{of}", shape.shape, location, _owner(frames, place))
    taken = {name for frame in frames.values() for name in frame.nest.loops}
    copies = _copies(s.func, place.outer, taken, uses, local, found, shape, footprints, exact=exact)
    new = [_packed(frames[comp], local, load, found, shape, k) for k, (comp, load) in enumerate(uses.accesses)]
    use = {comp: {site: new[k] for site, k in numbers.items()} for comp, numbers in uses.sites.items()}
    return install(s, place, Plan(uses.buf.name, local, copies, use, {c: new[k] for c, k in uses.targets.items()}))


def _several(name: Names) -> tuple[str, ...]:
    names = words((name,) if isinstance(name, str) else name, "statements")
    if names and len(set(names)) == len(names):
        return names
    raise PlantError(
        f"{name!r} doesn't name statements, each once", code="DG210", remedy="name those that use the copy"
    )


def _order(given: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    if given is None:
        return tuple(range(rank))
    if isinstance(given, Sequence) and sorted(given) == list(range(rank)):
        return tuple(given)
    raise PlantError(
        f"{given!r} is no order of {rank} dimensions", code="DG211", remedy="name each dimension once, from 0 on"
    )


def _frames(s: Scheduled, uses: _Uses, loop: str) -> dict[str, Frame]:
    """Each statement's frame at the depth at which the first has `loop`."""
    depth = s.nest(next(iter(uses.sites))).depth(loop)
    found = {}
    for comp in uses.sites:
        loops = s.nest(comp).loops
        if depth >= len(loops):
            raise PlantError(f"{comp} isn't in the loop '{loop}'", code="DG210", remedy="name those that are")
        found[comp] = frame(s, comp, loops[depth])
        found[comp].require_values()
    return found


def _owner(frames: dict[str, Frame], place: Frame) -> tuple[str, str]:
    """A statement that runs in every iteration which has a copy, and its name for the loop."""
    for name, own in frames.items():
        if place.iterations.is_subset(own.iterations):
            return name, own.outer[-1]
    raise PlantError(
        f"no statement runs in every iteration of '{place.outer[-1]}' in which one of them does",
        loc=place.comp.loc,
        code="DG214",
        remedy="cache for each statement by itself",
    )


def _refuse_unusable(location: Location, into: str | None) -> None:
    refuse_location(location)
    if into is not None:
        refuse_name(into)


def _extents(given: object, what: str) -> tuple[int, ...]:
    if isinstance(given, Sequence) and all(isinstance(n, int) and not isinstance(n, bool) for n in given):
        return tuple(given)
    raise PlantError(f"{given!r} are no extents for {what}", code="DG211", remedy="give whole numbers from 1 on")


def _uses(func: Func, names: tuple[str, ...], of: str) -> _Uses:
    comps = [computation(func, name) for name in names]
    arrays = {b.name: b for b in func.bufs}
    only = None if of in arrays else of
    buf = buffer(func, of) if only is None else buffer(func, computation(func, of).target.buf)
    uses = _Uses(buf, (), {}, {})
    for comp in comps:
        uses = _with_uses(func, comp, uses, only)
    return uses


def _with_uses(func: Func, comp: Comp, uses: _Uses, only: str | None) -> _Uses:
    buf = uses.buf
    refuse_vectors(comp, frozenset({buf.name}))
    if comp.defines is not None and comp.target.buf == buf.name:
        raise PlantError(f"{comp.name} defines the parameter '{comp.defines}', which can't be cached", loc=comp.loc)
    flows.refuse_moving(func, buf)
    accesses = list(uses.accesses)
    known: dict[object, int] = {}
    found: dict[int, int] = {}
    own = comp.target.buf == buf.name

    def number(load: Load) -> int:
        if access_key(load) not in known:
            known[access_key(load)] = len(accesses)
            accesses.append((comp.name, load))
        return known[access_key(load)]

    for place, site in enumerate(sites(comp)):
        load = as_load(func, site)
        if load.buf == buf.name and (own or only is None or (isinstance(site, Access) and site.comp == only)):
            found[place] = number(load)
    targets = uses.targets | ({comp.name: number(comp.target)} if own else {})
    if not known:
        raise PlantError(
            f"{comp.name} doesn't use '{only or buf.name}'",
            loc=comp.loc,
            code="DG210",
            remedy=f"it uses: {', '.join(sorted({as_load(func, x).buf for x in sites(comp)})) or 'nothing'}",
        )
    return _Uses(buf, tuple(accesses), {**uses.sites, comp.name: found}, targets)


def _local(
    func: Func, of: Buf, name: str, shape: tuple[int, ...], location: Location, at: tuple[str, str] | None
) -> Buf:
    return Buf(fresh(func, name), of.dtype, shape, "local", loc=of.loc, location=location, alloc_at=at)


def _own_loops(taken: set[str], count: int) -> tuple[str, ...]:
    found: list[str] = []
    number = 0
    while len(found) < count:
        if f"x{number}" not in taken:
            found.append(f"x{number}")
        number += 1
    return tuple(found)


def _copies(
    func: Func,
    outer: tuple[str, ...],
    taken: set[str],
    uses: _Uses,
    local: Buf,
    found: list[Piece],
    shape: Layout,
    footprints: list[isl.Map],
    *,
    exact: bool,
) -> tuple[Copy, ...]:
    iters = _own_loops({*outer, *taken}, len(uses.buf.shape))
    read = {k for numbers in uses.sites.values() for k in numbers.values()}
    written = set(uses.targets.values())
    loads: list[Copy] = []
    stores: list[Copy] = []
    for number, piece in enumerate(found):
        extents = tuple(axis.extent for axis in piece.axes)
        whole = tuple(
            combined((offset_expr(axis.offset, outer), 1), (Iter(e), axis.stride))
            for axis, e in zip(piece.axes, iters, strict=True)
        )
        array = Load(uses.buf.name, whole, uses.buf.dtype)
        packed = Load(local.name, shape.subscripts(number, extents, tuple(map(Iter, iters))), local.dtype)
        needed = [footprints[k] for k in piece.members if k in read]
        if needed:
            name = _numbered(func, f"load_{local.name}", len(loads))
            cells = _joined(needed) if exact else box_round(_joined(needed))
            loads.append(Copy(name, iters, extents, packed, array, False, cells))
        stored = [footprints[k] for k in piece.members if k in written]
        if stored:
            name = _numbered(func, f"store_{local.name}", len(stores))
            stores.append(Copy(name, iters, extents, array, packed, True, _joined(stored)))
    return (*loads, *stores)


def _numbered(func: Func, name: str, number: int) -> str:
    return fresh(func, name if number == 0 else f"{name}_{number + 1}")


def _joined(footprints: list[isl.Map]) -> isl.Map:
    result = footprints[0]
    for other in footprints[1:]:
        result = result.union(other)
    return result.coalesce()


def _packed(place: Frame, local: Buf, access: Load, found: list[Piece], shape: Layout, number: int) -> Load:
    """The place in the cache of an access, over the statement's iterators."""
    which, piece = next((k, p) for k, p in enumerate(found) if number in p.members)
    coordinates: list[Expr] = []
    for axis, index in zip(piece.axes, access.indices, strict=True):
        value = to_pw_aff(index, place.comp)
        if value is None:
            raise PlantError(f"a subscript of '{access.buf}' isn't affine", loc=place.comp.loc, code="DG214")
        distance = value.sub(place.of_instance(axis.offset))
        found_expr = place.to_expr(distance.scale_down_val(isl.Val(axis.stride)))
        coordinates.append(_written_out(place, axis, index) if found_expr is None else found_expr)
    extents = tuple(axis.extent for axis in piece.axes)
    return Load(local.name, shape.subscripts(which, extents, tuple(coordinates)), local.dtype, access.loc)


def _written_out(place: Frame, axis: Axis, index: Expr) -> Expr:
    """A coordinate from its parts, where isl's own simplification has lost the form of a min or max."""
    loops = {name: place.loop_expr(k) for k, name in enumerate(place.outer)}
    start = substitute(offset_expr(axis.offset, place.outer), loops)
    return floordiv(combined((index, 1), (start, -1)), axis.stride)


# --- a layout of the user's own -----------------------------------------------------------------------------------


def cache(
    s: Scheduled,
    name: str,
    of: str,
    loop: str,
    *,
    shape: Sequence[int],
    iters: Mapping[str, int],
    to: Sequence[Expr],
    source: Sequence[Expr],
    use: Sequence[Expr],
    location: Location = "stack",
    into: str | None = None,
    exact: bool = True,
    align: int = 0,
) -> Scheduled:
    """As `cache_identity`, in a layout of the caller's own: transposed, padded, interleaved for vectors.

    In each iteration of `loop`, `cache[to] = of[source]` for `iters` (names and extents) in their box; then `name`
    reads `cache[use]`. `to` and `source` are over `iters` and the loops down to `loop`; `use` is over those loops,
    `name`'s iterators, and `x0`, `x1`, ..., the subscripts that an access of `of` has now.
    Before: `... b[k, j] ...` in `for jo { for k { for ji } }`. After `shape=(K, 48), iters={"p": K, "q": 48},
    to=(p, q), source=(p, 48*jo + q), use=(x0, x1 - 48*jo)`: `... cache[k, ji] ...`, copied in each `jo`.
    Requires: `name` doesn't write `of`. `exact`: only elements that are used are copied; else the whole box is.
    Ensures: each use reads the place that the copy of its element wrote, else IllegalSchedule (DG201).
    Errors: PlantError for subscripts of the wrong number, not affine, or outside the arrays. Source: PLANT, 3.2.
    """
    _refuse_unusable(location, into)
    to, source, use = expressions(to, "`to`"), expressions(source, "`source`"), expressions(use, "`use`")
    shape = _extents(shape, "`shape`")
    if not isinstance(iters, Mapping):
        raise PlantError(f"{iters!r} are no loops of a copy", code="DG211", remedy='as in iters={"p": 8, "q": 48}')
    _extents(tuple(iters.values()), "`iters`")
    for iterator in iters:
        refuse_name(iterator)
    uses = _uses(s.func, (name,), of)
    place = frame(s, name, loop)
    place.require_values()
    _validate_layout(place, uses, shape, iters, to, source, use)
    local = _local(s.func, uses.buf, into or f"cache_{of}", tuple(shape), location, (name, loop))
    local = Buf(
        local.name, local.dtype, local.shape, "local", loc=local.loc, location=location, align=align,
        alloc_at=local.alloc_at,
    )  # fmt: skip
    cells = _joined([place.footprint(a) for _, a in uses.accesses]) if exact else None
    copy = Copy(
        _numbered(s.func, f"load_{local.name}", 0),
        tuple(iters),
        tuple(iters.values()),
        Load(local.name, tuple(to), local.dtype),
        Load(uses.buf.name, tuple(source), uses.buf.dtype),
        False,
        cells,
    )
    loops = {n: place.loop_expr(k) for k, n in enumerate(place.outer)}
    new = []
    for _, access in uses.accesses:
        names = {**{i: Iter(i) for i in place.comp.iters}, **loops}
        names |= {f"x{k}": index for k, index in enumerate(access.indices)}
        load = Load(local.name, tuple(substitute(e, names) for e in use), local.dtype, access.loc)
        if any(to_pw_aff(e, place.comp) is None for e in load.indices):
            raise PlantError(
                f"a new subscript of '{of}' isn't affine in {name}'s iterators", loc=place.comp.loc, code="DG214"
            )
        new.append(load)
    places = {comp: {site: new[k] for site, k in numbers.items()} for comp, numbers in uses.sites.items()}
    plan = Plan(uses.buf.name, local, (copy,), places, {})
    return install(s, place, plan)


def _validate_layout(
    place: Frame,
    uses: _Uses,
    shape: Sequence[int],
    iters: Mapping[str, int],
    to: Sequence[Expr],
    source: Sequence[Expr],
    use: Sequence[Expr],
) -> None:
    problem = ""
    if uses.targets:
        problem = f"{place.comp.name} writes '{uses.buf.name}'; only what is read can have a layout of its own"
    elif any(n < 1 for n in (*shape, *iters.values())):
        problem = "every extent has to be at least 1"
    elif len(to) != len(shape) or len(use) != len(shape):
        problem = f"`to` and `use` need {len(shape)} subscripts each, one for each extent of `shape`"
    elif len(source) != len(uses.buf.shape):
        problem = f"`source` needs {len(uses.buf.shape)} subscripts, one for each dimension of '{uses.buf.name}'"
    elif set(iters) & {*place.nest.loops}:
        problem = f"the copy's loops can't have the names of {place.comp.name}'s: {', '.join(place.nest.loops)}"
    if problem:
        raise PlantError(problem, loc=place.comp.loc, code="DG211", remedy="see the example of `cache`")
