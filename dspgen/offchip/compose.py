"""The road for data that lie off the chip: nests in blocks whose windows the DMA engine fetches and puts back.

`block_sizes` tells which nests are a block together, and how large the blocks of others are. Each kind of block is then
compiled as a function of its own, by the road for data on the chip.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from dspgen.asmir.dma.buffer_placement import moved, window_bytes
from dspgen.asmir.dma.kernel_dispatch import BlockedNest, Nest, OneOf, Piece, Round, lone_prefix, piece_prefix
from dspgen.asmir.dma.tile_loop import Blocked, composed
from dspgen.asmir.ir.function import Function
from dspgen.backend.stages import CANDIDATE_LOOK, Compiled, schedule_remarks
from dspgen.emit.needs import Room
from dspgen.errors import NoSchedule
from dspgen.options import Options
from dspgen.rewrite.optimize import Remark
from dspgen.sched.ir.packets import Lessons, Method, Packed, Scheduled
from dspgen.sched.scheduler import ATTEMPTS, schedule
from dspgen.search.final_schedule import FINAL_LOOK, FINAL_TIMES
from dspgen.target.isa.model import Target
from dspgen.vecdsl.ir.program import ArrayDecl, ScalarDecl
from plant_core.analysis.runtime_parameters import with_parameters
from plant_core.ir.accesses import all_bufs, integer
from plant_core.ir.func import Buf, Func
from plant_core.ir.symbolic_sizes import Size
from plant_core.scratchpad.buffers import Window
from plant_core.scratchpad.tiled_func import Around, Blocks, Either, Part, flat, of_first

_LARGER = "for larger arrays, "


def compile_blocked(
    parts: Sequence[Part],
    source: Func,
    target: Target,
    options: Options,
    compiled: Callable[[Blocks], list[Compiled]],
    sizes: Mapping[str, Size],
) -> Compiled:
    """`source` by its nests in blocks. `compiled` makes code for data on the chip, of the pieces of a nest; `sizes`: of
    the parameters of nests that are none of `source` their values.

    Raises NoSchedule.
    """
    made = flat(parts)
    pieces = [compiled(m) for m in made]
    blocked = _blocked(parts, source, pieces, sizes)
    function = composed(blocked, target)
    rooms = tuple(_room(w, source, sizes) for w in blocked.sized)
    lessons, known = Lessons(), dict[object, Packed]()
    for n, code in enumerate(pieces):
        for k, piece in enumerate(code):
            for prefix in (piece_prefix(n, k), lone_prefix(n, k)):
                lessons |= piece.scheduled.lessons.under(prefix)
            known.update(piece.scheduled.blocks)
    attempts = ATTEMPTS * sum(map(len, pieces))  # each piece may ask for less in its turn
    scheduled = _scheduled(function, target, options, attempts, lessons, known)
    later = [m for p in parts if isinstance(p, Either) for m in p.parts[1:]]
    names = [_LARGER * any(m is other for other in later) + _title(m) for m in made]
    titles = tuple(
        f"{name}: {', '.join(dict.fromkeys(t for c in code for t in c.tiles))}"
        for name, code in zip(names, pieces, strict=True)
    )
    remarks = tuple(Remark(m.func.comps[0].loc, "blocks", _told(name, m)) for name, m in zip(names, made, strict=True))
    inner = tuple(dict.fromkeys(r for code in pieces for c in code for r in c.remarks))
    choices = tuple(choice for code in pieces for c in code for choice in c.choices)
    found = replace(pieces[0][0], source=source, choices=choices, assembly=function, scheduled=scheduled, tiles=titles)
    found = replace(found, rooms=rooms)
    return replace(found, remarks=(*remarks, *inner, *schedule_remarks(scheduled)))


def whole_or_first(
    nests: tuple[Part, ...], compiled: Callable[[Sequence[Part]], Compiled]
) -> tuple[tuple[Part, ...], Compiled]:
    """Nests in blocks as one function; those for larger arrays are left out where the machine lacks what they need."""
    try:
        return nests, compiled(nests)
    except NoSchedule:
        if (first := of_first(nests)) == nests:
            raise
        return first, compiled(first)


def lost_loops(whole: Compiled, pieces: Sequence[Sequence[Compiled]]) -> bool:
    """Whether a loop is not pipelined that is in the code of its piece alone: code between blocks takes registers.
    `pieces`: the code of each nest's."""
    alone = {
        prefix + loop.label
        for n, code in enumerate(pieces)
        for k, piece in enumerate(code)
        for loop in piece.scheduled.loops
        for prefix in (piece_prefix(n, k), lone_prefix(n, k))
        if loop.pipelined
    }
    return any(not loop.pipelined and loop.label in alone for loop in whole.scheduled.loops)


def _scheduled(
    function: Function,
    target: Target,
    options: Options,
    attempts: int,
    lessons: Lessons,
    blocks: Mapping[object, Packed],
) -> Scheduled:
    """Packets of the whole: with patience at once, since the pieces tell what is to be had, and with less where that
    finds none."""
    ways: list[tuple[Method, int, int]] = [(options.sched, FINAL_LOOK, FINAL_TIMES)]
    if options.sched in ("dp", "exact"):
        ways.append(("dp", CANDIDATE_LOOK, 1))
    refusal: NoSchedule | None = None
    for method, look, times in ways:
        try:
            return schedule(
                function,
                target,
                pipeline=options.pipeline,
                method=method,
                attempts=attempts,
                look=look,
                times=times,
                lessons=lessons,
                blocks=blocks,
            )
        except NoSchedule as error:
            refusal = refusal or error
    assert refusal is not None
    raise refusal


def _room(window: Window, source: Func, sizes: Mapping[str, Size]) -> Room:
    """The largest array that there is room for."""
    declared = next((p.shape for p in source.params if isinstance(p, Buf) and p.name == window.buf), None)
    own = (d.extent.full if d.size is None else d.size for d in window.dims)
    values = {name: integer(size) if isinstance(size, int) else size for name, size in sizes.items()}
    shape = tuple(n if isinstance(n, int) else with_parameters(n, values) for n in declared or own)
    known = (n if isinstance(n, int) else None for n in shape)
    most = tuple(n if most is None else most for most, n in zip(window.room, known, strict=True))
    return Room(window.buf, shape, most)


def _title(made: Blocks) -> str:
    spans = ", ".join(f"{c.name} {c.span}" for c in made.counters if c.several)
    return f"blocks of {spans}" if spans else "one block"


def _told(title: str, made: Blocks) -> str:
    known = all(c.extent is None for c in made.counters)
    number = math.prod(c.trips for c in made.counters) if known else "as many as sizes tell"
    sizes = ", ".join(
        f"{w.name}{_turned(w)} {'up to ' * w.sized}{window_bytes(w)}{_places(w, made.outer)}" for w in made.windows
    )
    why = f"; not cut, as {made.why}" if made.why else ""
    return f"{title}, {number} of them; bytes on the chip: {sizes}{why}"


def _turned(window: Window) -> str:
    return "" if window.layout is None else f" ({window.array}, which the engine turns round)"


def _places(window: Window, outer: int) -> str:
    if window.in_step:
        return " in step with blocks"
    if window.places:
        return f" at {window.places} places that overlap"
    return " twice" if any(k >= outer for k in window.counters) else ""


def _blocked(
    parts: Sequence[Part],
    source: Func,
    pieces: Sequence[Sequence[Compiled]],
    sizes: Mapping[str, Size],
) -> Blocked:
    arrays = tuple(
        ArrayDecl(p.name, p.dtype, math.prod(n for n in p.shape if isinstance(n, int)), False, p.const)
        for p in source.params
        if isinstance(p, Buf)
    )
    scalars = tuple(ScalarDecl(p.name, p.dtype) for p in source.params if not isinstance(p, Buf))
    codes = iter(pieces)

    def nest(part: Part) -> Nest:
        if isinstance(part, Blocks):
            return _nest(part, next(codes))
        if isinstance(part, Around):
            return Round(part.counter, nests(part.parts))
        return OneOf(tuple(_nest(form, next(codes)) for form in part.parts))

    def nests(parts: Sequence[Part]) -> tuple[Nest, ...]:
        return tuple(nest(part) for part in parts)

    found = nests(parts)
    return Blocked(source.name, tuple(p.name for p in source.params), arrays, scalars, found, sizes)


def _nest(made: Blocks, pieces: Sequence[Compiled]) -> BlockedNest:
    shapes = {name: buf.shape for name, buf in all_bufs(made.func).items()}
    windows = tuple(moved(w, shapes[w.buf], made.counters, made.outer) for w in made.windows)
    inlined = []
    for piece, code in zip(made.pieces, pieces, strict=True):
        names = [p.name for p in piece.params]
        given = tuple(zip(code.assembly.parameters, names, strict=True))
        inlined.append(Piece(code.assembly, given))
    loc = made.func.comps[0].loc
    return BlockedNest(
        made.counters,
        windows,
        tuple(inlined),
        made.piece,
        made.origins,
        made.counts,
        made.kinds,
        made.outer,
        loc,
        made.left,
    )
