"""Copies between host and GPU memory, placed where the program's GPU parts need them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import islpy as isl

from plant_core.ir.accesses import access_map
from plant_core.ir.func import Buf, Comp, Effect, Expr, Func, Load, Memcpy
from plant_core.ir.scheduled import Nest, Scheduled
from plant_core.schedule.memory import last_writer as flows
from plant_core.schedule.memory.access_sites import Site, as_load, fresh, replaced, sites
from plant_core.schedule.memory.isl_expressions import box, in_context, maps_of, values_at
from plant_core.schedule.memory.rebase import rebased, with_slots
from plant_core.support.location import PlantError


@dataclass(slots=True)
class _Part:
    """What the statements at one position of the outermost level do with an array."""

    device: list[Comp] = field(default_factory=list)
    host: list[Comp] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Move:
    """A copy of the whole array at a position of the outermost level, before or after what is there."""

    place: int
    before: bool
    to_device: bool


def auto_transfer(s: Scheduled) -> Scheduled:
    """Give every host array that GPU statements use a copy in GPU memory, and keep the two in step.

    Before: `for i (gpu_block_x) { y[i] = x[i] }`. After: `memcpy(x_gpu, x); for i (gpu_block_x) { y_gpu[i] =
    x_gpu[i] }; memcpy(y, y_gpu)`. An array goes to the GPU before its first use there unless it is wholly written
    first, back after its last, and to and fro where host statements between use it. Local arrays that only GPU
    statements use just move. GPU statements are those with a loop tagged gpu_block or gpu_thread.
    Errors: PlantError (DG217) where host and GPU statements inside one outermost loop share an array. Source: PLANT,
    Table 3.2.
    """
    device = {n.name for n in s.nests if any(tag.startswith("gpu_") for _, tag in n.tags)}
    func = s.func
    moves: dict[str, list[_Move]] = {}
    homes: dict[str, Buf] = {}
    for buf in func.bufs:
        if buf.location not in ("heap", "stack"):
            continue
        parts = _parts(s, buf, device)
        if not any(p.device for p in parts.values()):
            continue
        if buf.kind == "local" and not any(p.host for p in parts.values()):
            moved = replace(buf, location="gpu_global", alloc_at=None)
            func = replace(func, bufs=tuple(moved if b.name == buf.name else b for b in func.bufs))
            continue
        moves[buf.name] = _moves(s, buf, parts)
        twin = Buf(fresh(func, f"{buf.name}_gpu"), buf.dtype, buf.shape, "local", loc=buf.loc, location="gpu_global")
        homes[buf.name] = twin
        func = replace(func, bufs=(*func.bufs, twin))
    comps = tuple(_at_home(s.func, c, homes, c.name in device) for c in func.comps)
    return _placed(s, replace(func, comps=comps), moves, homes)


def _parts(s: Scheduled, buf: Buf, device: set[str]) -> dict[int, _Part]:
    found: dict[int, _Part] = {}
    for comp in s.func.comps:
        if comp.target.buf != buf.name and all(as_load(s.func, x).buf != buf.name for x in sites(comp)):
            continue
        for place in values_at(_times(s, comp), 0):
            part = found.setdefault(place, _Part())
            (part.device if comp.name in device else part.host).append(comp)
    for part in found.values():
        if part.device and part.host:
            first, second = part.device[0], part.host[0]
            raise PlantError(
                f"{first.name} (line {first.loc.line}) on the GPU and {second.name} (line {second.loc.line}) on the "
                f"host use '{buf.name}' in one loop nest",
                loc=second.loc,
                code="DG217",
                remedy="move both to the GPU, or place them in nests of their own with `after`",
            )
    return dict(sorted(found.items()))


def _times(s: Scheduled, comp: Comp) -> isl.Set:
    domain = in_context(comp.domain.set_tuple_name(comp.name), s.func.context)
    return s.nest(comp.name).relation.intersect_domain(domain).range()


def _moves(s: Scheduled, buf: Buf, parts: dict[int, _Part]) -> list[_Move]:
    found: list[_Move] = []
    on_host, on_device = True, False
    last = 0
    for place, part in parts.items():
        writes = any(c.target.buf == buf.name for c in (*part.device, *part.host))
        if part.device:
            last = place
            if not on_device and _needed(s, buf, part):
                found.append(_Move(place, True, True))
            on_device = True
            on_host = on_host and not writes
        else:
            if not on_host:
                found.append(_Move(place, True, False))
            on_host = True
            on_device = on_device and not writes
    if not on_host and buf.kind == "param":
        found.append(_Move(last, False, False))
    return found


def _needed(s: Scheduled, buf: Buf, part: _Part) -> bool:
    """Whether the GPU part sees earlier contents: it reads some, or leaves some that are copied back."""
    names = {c.name for c in part.device}
    unknown = flows.run_time(s.func)
    covered = isl.Set.empty(box(buf).get_space())
    for comp in part.device:
        if comp.target.buf == buf.name:
            cells, exact = access_map(comp, comp.target)
            params = {cells.get_dim_name(isl.dim_type.param, k) for k in range(cells.dim(isl.dim_type.param))}
            if exact and not params & unknown:
                covered = covered.union(in_context(cells.domain(), s.func.context).apply(cells))
    if not in_context(box(buf), s.func.context).is_subset(covered):
        return True
    for flow in maps_of(flows.flow(s, frozenset({buf.name}))):
        if flows.reader_of(flow).split("#")[0] in names and flow.get_tuple_name(isl.dim_type.out) not in names:
            return True
    return False


def _at_home(func: Func, comp: Comp, homes: dict[str, Buf], device: bool) -> Comp:
    """GPU statements use the GPU's copies, host statements the host's, whoever computed the value."""

    def place(_: int, site: Site) -> Expr | None:
        load = as_load(func, site)
        if load.buf not in homes:
            return None
        indices = tuple(replaced(replace(comp, value=i, target=_NOWHERE), place).value for i in load.indices)
        return Load(homes[load.buf].name if device else load.buf, indices, load.dtype, load.loc)

    moved = replaced(comp, place)
    if device and moved.target.buf in homes:
        moved = replace(moved, target=replace(moved.target, buf=homes[moved.target.buf].name))
    return moved


_NOWHERE = Load("", (), "i32")


def _placed(s: Scheduled, func: Func, moves: dict[str, list[_Move]], homes: dict[str, Buf]) -> Scheduled:
    before: dict[int, int] = {}
    after: dict[int, int] = {}
    order: list[tuple[str, _Move, int]] = []
    for name, found in moves.items():
        for move in found:
            side = before if move.before else after
            order.append((name, move, side.get(move.place, 0)))
            side[move.place] = side.get(move.place, 0) + 1
    nests, place = with_slots(s.nests, 0, before, after)
    new = []
    for name, move, number in order:
        twin = homes[name].name
        first = place[move.place] - before[move.place] if move.before else place[move.place] + 1
        action = Memcpy(twin, name) if move.to_device else Memcpy(name, twin)
        label = fresh(func, f"{name}_{'to' if move.to_device else 'from'}_gpu")
        domain = isl.Set(f"{{ {label}[] }}")
        times = isl.Map(f"{{ {label}[] -> [{first + number}] }}")
        effect = Effect(label, (), domain, times, action, homes[name].loc or func.loc)
        func = replace(func, effects=(*func.effects, effect))
        new.append(Nest(label, (), times))
    return rebased(s, func, (*nests, *new))
