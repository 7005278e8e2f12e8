"""The last iterations of a loop whose size is known at run time only, on copies of what they update: as many vectors as
a group has, the last of which end where the loop does.

Before: S[i] y[i] = y[i] + a * x[i] for 0 <= i < n, n being 16 at least
After:  from = max(n - 128, 0), start_k = min(from + 16 k, n - 16), whole = n / 128
        S_copied_k[i] copy[k][i] = y[start_k + i]                              for 0 <= i < 16, all k < 8
        S_last_k[i]   copy[k][i] = copy[k][i] + a * x[start_k + i]             for 0 <= i < 16, all k < 8
        S[g, i]       y[128 g + i] = y[128 g + i] + a * x[128 g + i]           for 0 <= g < whole, 0 <= i < 128
        S_back_k[i]   y[start_k + i] = copy[k][i]                              for 0 <= i < 16, all k < 8

Each iteration has elements of its own, so that those that are computed twice, from the same values, are the same. No
code tells apart how many vectors there are, and none masks their lanes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import islpy as isl

from plant_core.analysis.rectangular_hull import Boxes, in_text
from plant_core.analysis.runtime_parameters import definition_of
from plant_core.ir.accesses import add, children, integer, linear, rebuild, sub
from plant_core.ir.func import Binary, Buf, Comp, Expr, Iter, Load, Param
from plant_core.ir.names import fresh
from plant_core.ir.quasi_affine import parameters_of
from plant_core.ir.tile_loop import Counter
from plant_core.ir.time_2d1 import Line, Position

# Statements that a nest may become so.
_MOST = 64


def ends_of(
    boxes: Boxes, counter: Counter, iterators: Mapping[str, Sequence[str | None]], others: Collection[str]
) -> Ends | None:
    """The last iterations of a nest of the one loop `counter`, as many as a group has; None where iterations have more
    than an element of an array each, a group is no whole vectors, or it takes too many statements. `others`: the arrays
    that other nests use."""
    along = {name: found for name, (found, *_) in iterators.items() if found is not None}
    written = [boxes.bufs[n] for n in sorted(boxes.written)]
    vectors, comps = counter.group // boxes.granule, boxes.func.comps
    if any(c.iters != (along.get(c.name),) for c in comps) or any(len(b.shape) != 1 for b in written):
        return None
    if counter.batches is not None or counter.extent is None:
        return None
    if not vectors or counter.group % boxes.granule:
        return None  # groups of rows need not be of vectors
    taken = {*boxes.bufs, *(p.name for p in boxes.func.params)}

    def name(text: str) -> str:
        taken.add(made := fresh(text, taken))
        return made

    copies = {b.name: name(f"{b.name}_ends") for b in written}
    starts = tuple(name(f"start{k}") for k in range(vectors))
    outside = tuple(b.name for b in written if b.kind == "param" or b.name in others)
    made = Ends(boxes, along, counter.low, counter.extent, copies, outside, name("first"), starts)
    return made if made.statements <= _MOST else None


@dataclass(frozen=True, slots=True)
class Ends:
    """The last vectors of a nest of one loop: `along`, of each statement its iterator, `low` its first iteration,
    and `extent` how many there are. `copies`: the local array of each that is written; `outside`: the arrays
    among these that other code uses; `first`, `starts`: the parameters that tell where the first vector would begin,
    and where each does, counted from the first iteration."""

    boxes: Boxes
    along: Mapping[str, str]
    low: int
    extent: Expr
    copies: Mapping[str, str]
    outside: tuple[str, ...]
    first: str
    starts: tuple[str, ...]

    @property
    def vectors(self) -> int:
        return len(self.starts)

    @property
    def statements(self) -> int:
        """How many there are for all vectors."""
        each = len(self.boxes.func.comps) + sum(1 + self.boxes.is_live(name) for name in self.outside)
        return self.vectors * each

    def bufs(self) -> Iterator[Buf]:
        for name, copy in self.copies.items():
            buf = self.boxes.bufs[name]
            yield Buf(copy, buf.dtype, (self.vectors, self.boxes.granule), "local", False, buf.loc)

    def definitions(self) -> Iterator[Comp]:
        """The statements that define where vectors begin."""
        lanes, first, loc = self.boxes.granule, self.first, self.boxes.func.loc
        before = sub(self.extent, integer(self.vectors * lanes))
        yield definition_of(first, Binary("max", before, integer(0), "i32"), loc)
        last = sub(self.extent, integer(lanes))
        for k, name in enumerate(self.starts):
            here = add(Param(first, "i32"), integer(k * lanes)) if k else Param(first, "i32")
            yield definition_of(name, Binary("min", here, last, "i32"), loc)

    def before(self, number: int) -> Iterator[tuple[Comp, Position]]:
        """The copies of what the statements update, and these themselves on copies; `number`: the outermost constant
        of their places."""
        for at, name in enumerate(self.outside):
            copy = self.copies[name]
            if self.boxes.is_live(name):
                for k in range(self.vectors):
                    comp = self._moved(f"S_{copy}_{k}", name, copy, k, back=False)
                    yield comp, Position((number, at * self.vectors + k), (Line(0, (("i", 1),)),))
        for comp in self.boxes.func.comps:
            for k in range(self.vectors):
                yield self._last(comp, k, number)

    def after(self, number: int) -> Iterator[tuple[Comp, Position]]:
        """What brings copies back, each vector in a loop of its own, as they may have elements in common."""
        for at, name in enumerate(self.outside):
            copy = self.copies[name]
            for k in range(self.vectors):
                comp = self._moved(f"S_{copy}_back_{k}", name, copy, k, back=True)
                loops = tuple(Line(0, ((i, 1),)) for i in comp.iters)
                yield comp, Position((number, at * self.vectors + k, 0), loops)

    def _there(self) -> str:
        form = linear(self.extent)
        assert form is not None
        return f"{in_text(form)} >= {self.boxes.granule}"

    def _moved(self, made: str, name: str, copy: str, k: int, *, back: bool) -> Comp:
        (form,) = next(u for u in self.boxes.uses if u.access.buf == name).forms
        assert form is not None
        dtype = self.boxes.bufs[name].dtype
        far = Load(name, (self._at(form[0], k, "i"),), dtype)
        near = Load(copy, (integer(k), Iter("i")), dtype)
        lanes = f"0 <= i < {self.boxes.granule}"
        if back:
            return self._comp(made, ("once", "i"), ["once = 0", lanes], far, near)
        return self._comp(made, ("i",), [lanes], near, far)

    def _at(self, offset: int, k: int, name: str) -> Expr:
        here = add(Param(self.starts[k], "i32"), Iter(name))
        return add(here, integer(offset + self.low)) if offset + self.low else here

    def _comp(self, name: str, iters: tuple[str, ...], ranges: list[str], target: Load, value: Expr) -> Comp:
        main = self.boxes.main
        space = main.domain.get_space()
        params = parameters_of(space)
        where = " and ".join([*ranges, self._there()])
        domain = isl.Set(f"[{', '.join(params)}] -> {{ {name}[{', '.join(iters)}] : {where} }}")
        return Comp(name, iters, domain, main.schedule, target, value, main.loc)

    def _last(self, comp: Comp, k: int, number: int) -> tuple[Comp, Position]:
        """A statement on the lanes of one vector."""
        (i,) = comp.iters
        target = self._rewritten(comp.target, i, k)
        assert isinstance(target, Load)
        value = self._rewritten(comp.value, i, k)
        lanes = f"0 <= {i} < {self.boxes.granule}"
        made = self._comp(f"{comp.name}_{number}_{k}", comp.iters, [lanes], target, value)
        place = self.boxes.places[comp.name]
        # After the copies, which are in the same loop.
        inside = place.constants[1] + len(self.outside)
        return replace(made, loc=comp.loc), Position((number, self.vectors * inside + k), place.loops)

    def _rewritten(self, expr: Expr, along: str, k: int) -> Expr:
        match expr:
            case Load() if expr.buf in self.copies:
                return Load(self.copies[expr.buf], (integer(k), Iter(along)), expr.dtype)
            case Iter(name) if name == along:
                return self._at(0, k, name)
            case _:
                parts = tuple(self._rewritten(p, along, k) for p in children(expr))
                return rebuild(expr, parts) if parts else expr
