"""One function out of functions for blocks of a nest: a loop over the blocks, and transfers of their windows.

Before: pieces, each the code for one kind of block, on windows in near memory.
After:  fetch the first block's windows; for each block: start to fetch the next one's, compute, start to put back what
        it wrote, wait for what was fetched. A window that moves has two places, and each block takes the other one.

The words that start a transfer, and the wait for its end, are in `descriptors.py`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce

from dspgen.asmir.dma.buffer_placement import Moved, Slid
from dspgen.asmir.dma.descriptors import I32, ONE, ZERO, Engine, amount, both_hold, end, low_half
from dspgen.asmir.dma.hoist_before_wait import ahead
from dspgen.asmir.dma.kernel_dispatch import BlockedNest, Dispatch, Nest, OneOf, has_place
from dspgen.asmir.dma.names import FINAL, ahead_of, at, both, following, fresh, last, near, stepping
from dspgen.asmir.dma.tile_counts import ALONE, NUMBER, alone, measured
from dspgen.asmir.ir.function import Function, If, Item, Loop, Reg, VReg
from dspgen.asmir.select.base_pointers import Pointers
from dspgen.asmir.select.code_sections import forget, section, set_variable
from dspgen.asmir.select.emitter import Emitter
from dspgen.target.isa.model import Dma, Side, Target
from dspgen.target.query.operations import OperationTable
from dspgen.vecdsl.ir.program import ArrayDecl, Const, Op, Program, ScalarDecl, Term, Var
from plant_core.ir.symbolic_sizes import Size
from plant_core.scratchpad.buffers import Window

_FRAME = "room of the blocks"
_FITS = "fits"
_ANY = "any"
_WAITING = 4  # one register of so many may keep a value until data are there
_STORES = 4  # that tell a whole transfer, two words at once


@dataclass(frozen=True, slots=True)
class Blocked:
    """A function of nests in blocks, one after the other. `arrays`: parameter arrays; `scalars`: the other parameters;
    `params`: all of them in the function's order; `sizes`: what is computed of them once. Windows of one array that is
    nowhere else are one place."""

    name: str
    params: tuple[str, ...]
    arrays: tuple[ArrayDecl, ...]
    scalars: tuple[ScalarDecl, ...]
    nests: tuple[Nest, ...]
    sizes: Mapping[str, Size]

    @property
    def all_nests(self) -> list[BlockedNest]:
        return _flat(self.nests)

    @property
    def sized(self) -> list[Window]:
        """Windows that must fit: those of nests in their last forms."""
        return _sized(_flat(self.nests, last=True))


def composed(blocked: Blocked, target: Target) -> Function:
    """The function. Raises NoSchedule where the machine has too few channels, or too little memory."""
    assert target.dma is not None  # data off the chip are refused without an engine
    return _Composer(blocked, target, target.dma).run()


class _Composer:
    def __init__(self, blocked: Blocked, target: Target, dma: Dma) -> None:
        self.blocked, self.target, self.dma = blocked, target, dma
        self.emitter = Emitter(target, OperationTable(target))
        self.nests = blocked.all_nests
        self.nest = self.nests[0]
        self.offsets: dict[tuple[int, str], int] = {}  # of a nest's window its place in the frame
        frame = max((b for n in self.nests for p in n.pieces for _, b in p.function.below), default=0)
        size = self._placed() + frame
        places = (ArrayDecl(_FRAME, "i32", -(-size // 4), True),)
        self.program = Program(blocked.name, blocked.params, (*blocked.arrays, *places), blocked.scalars, ())
        self.pointers = Pointers(self.program, target, self.emitter)
        self.engine: Engine
        self.number = 0

    def _placed(self) -> int:
        """Give each window its place: what lives on from nest to nest first. Returns the bytes of all."""
        rooms: dict[str, int] = {}
        for moved in (m for nest in self.nests for m in nest.windows if not m.window.outside):
            rooms[moved.window.buf] = max(rooms.get(moved.window.buf, 0), moved.room)
        kept = dict(zip(rooms, itertools.accumulate(rooms.values(), initial=0), strict=False))
        size = sum(rooms.values())
        most = size
        for number, nest in enumerate(self.nests):
            at = size
            for moved in nest.windows:
                if moved.window.outside:
                    self.offsets[number, moved.window.name] = at
                    at += moved.room
                else:
                    self.offsets[number, moved.window.name] = kept[moved.window.buf]
            most = max(most, at)
        return most

    def run(self) -> Function:
        inputs = self.pointers.inputs()
        items = self._section(self.pointers.enter)
        for name, size in self.blocked.sizes.items():
            self.emitter.names[name] = Reg(self.emitter.fresh(self.emitter.classes.scalar.name, name))
            items += self._section(partial(self._set, name, amount(size)))
        self.number = -1
        items += self._where_they_fit(self.blocked.sized, self._one_by_one(self.blocked.nests, 0))
        below: tuple[tuple[Side, int], ...] = (("vector", max(self.pointers.frame.values(), default=0)),)
        given = self.pointers.parameters
        return Function(
            self.blocked.name, inputs, tuple(items), below=below, parameters=given, entry=self.pointers.entry
        )

    def _first_that_fits(self, forms: Sequence[BlockedNest], depth: int) -> list[Item]:
        first = self._one_by_one(forms[:1], depth)
        if len(forms) == 1:
            return first
        return self._where_they_fit(_sized(forms[:1]), first, self._first_that_fits(forms[1:], depth))

    def _where_they_fit(self, windows: Sequence[Window], items: list[Item], others: Sequence[Item] = ()) -> list[Item]:
        """What is run if there is room for all of these, or nothing in them; else the others."""
        found: Term = ONE
        for window in windows:
            ends = [(d.size, most) for d, most in zip(window.dims, window.shape, strict=True) if d.size is not None]
            within = [Op("lt", (amount(e), Const(most + 1, I32)), I32) for e, most in ends]
            fits = reduce(lambda a, b: Op("and", (a, b), I32), within)
            if len(ends) > 1:  # a single extent of 0 fits anyway
                empty = [Op("lt", (amount(e), ONE), I32) for e, _ in ends]
                fits = reduce(lambda a, b: Op("or", (a, b), I32), [fits, *empty])
            found = fits if found is ONE else Op("and", (found, fits), I32)
        if found is ONE:
            return items
        register = self.emitter.fresh(self.emitter.classes.scalar.name, "fits")
        self.emitter.names[_FITS] = Reg(register)
        told = self._section(lambda: self._set(_FITS, found))
        return [*told, If(register, tuple(items), tuple(others))]

    def _one_by_one(self, nests: Sequence[Nest], depth: int) -> list[Item]:
        """`depth`: of the loops that go round these nests."""
        items: list[Item] = []
        for nest in nests:
            if isinstance(nest, BlockedNest):
                self.number, self.nest = self.number + 1, nest
                items += self._whole_nest()
                continue
            if isinstance(nest, OneOf):
                items += self._first_that_fits(nest.nests, depth)
                continue
            place, name = _round(depth), f"{self.blocked.name}_round{self.number + 1}_{depth}"
            self.emitter.names[place] = Reg(self.emitter.fresh(self.emitter.classes.scalar.name, place))
            up = partial(self._set, place, Op("add", (Var(place, I32), ONE), I32))
            body = (*self._one_by_one(nest.nests, depth + 1), *self._section(up))
            items += self._section(partial(self._set, place, ZERO))
            trips = nest.counter.trips
            items.append(Loop(name, f"{name}.k", 1, trips, (), body, min_trip=trips, pipeline=False, loc=self.nest.loc))
        return items

    def _whole_nest(self) -> list[Item]:
        nest, name = self.nest, f"{self.blocked.name}_blocks{self.number}"
        self.engine = Engine(name, nest.windows, nest.counters, self.target, self.dma, self.emitter, self.pointers)
        scalar = self.emitter.classes.scalar.name
        for k in range(len(nest.counters)):
            for made in (at(k), following(k), stepping(k), last(k)):
                self.emitter.names[made] = Reg(self.emitter.fresh(scalar, made))
        for k in range(nest.outer):
            self.emitter.names[at(k)] = self.emitter.names[following(k)] = self.emitter.names[_round(k)]
        self.emitter.names[_FRAME] = low_half(self.pointers.base[_FRAME], self.target)
        dispatch = self._dispatch(self._first_place)
        number = None if any(m.window.in_step for m in nest.windows) else dispatch.lone()
        lone = None if number is None else self._lone(dispatch, number)
        items: list[Item] = []
        trips: int | VReg = math.prod(c.trips for c in nest.counters[nest.outer :])
        if nest.open:
            items += self._section(self._measure)
            trips = self.emitter.names[NUMBER].vreg
        items += self._section(partial(self._begin, several=trips != 1))
        wait = self._section(lambda: self.engine.wait(self._moved(store=False), store=False, just=_STORES))
        block, stores = self._block(), self._moved(store=True)
        once = partial(self._put_back, [m for m in stores if not m.twice])
        if trips == 1:
            after = self._section(once)
            before, block = ahead(block, self._spare, after)
            items += [*before, *wait, *block, *after]
        else:
            body = (*self._section(self._fetch), *block, *self._section(self._go_on))
            least = trips if isinstance(trips, int) else 1
            items += wait
            items.append(Loop(name, f"{name}.k", 1, trips, (), body, min_trip=least, pipeline=False, loc=nest.loc))
            items += self._section(once)
        if lone is not None:
            told, code = lone
            items = [*told, If(self.emitter.names[ALONE].vreg, tuple(code), tuple(items))]
        just = int(lone is None and not any(m.twice or self.engine.shares(m, store=True) for m in stores))
        until = self._section(lambda: self.engine.wait(stores, store=True, just=just, beside=True))
        return self._unless_empty([*items, *until])

    def _unless_empty(self, items: list[Item]) -> list[Item]:
        """A nest's code, run if the loops whose blocks are single iterations have any."""
        found: Term = ONE
        for counter in self.nest.counters:
            if counter.single and counter.extent is not None:
                found = both_hold(found, Op("lt", (ZERO, amount(counter.extent)), I32))
        if found == ONE:
            return items
        register = self.emitter.fresh(self.emitter.classes.scalar.name, "any")
        self.emitter.names[_ANY] = Reg(register)
        return [*self._section(partial(self._set, _ANY, found)), If(register, tuple(items))]

    def _lone(self, dispatch: Dispatch, number: int) -> tuple[list[Item], list[Item]]:
        """What tells whether there is one short block only, and what runs there: sooner begun, as it looks for no
        other."""
        emitter, stores = self.emitter, self._moved(store=True)
        emitter.assumed = {name: ZERO for k in range(len(self.nest.counters)) for name in (at(k), end(k))}
        emitter.assumed |= {last(k): ONE for k in range(len(self.nest.counters))}
        told = dict(alone(self.nest.counters, self.nest.windows, self.dma))
        for name in told:
            emitter.names[name] = Reg(emitter.fresh(emitter.classes.scalar.name, name))
        items = [item for name, term in told.items() for item in self._section(partial(self._set, name, term))]
        block = dispatch.inlined(number, lone=True)
        wait = self._section(lambda: self.engine.wait(self._moved(store=False), store=False, beside=True))
        asked = [*self._section(self._ask), *self._section(partial(self._describe, stores))]
        after = self._section(partial(self._put_back, stores))
        before, block = ahead(block, self._spare, after)
        emitter.assumed = {}
        return items, [*asked, *before, *wait, *block, *after]

    def _describe(self, stores: Sequence[Moved]) -> None:
        """What can be told of the first block's windows that are put back before they are."""
        for moved in stores:
            if not self.engine.shares(moved, store=True):
                self.engine.describe(moved, self._first_place(moved), at, store=True)

    def _block(self) -> list[Item]:
        """A block with what is fetched right before it, and put back right after it, if it does anything. Windows of
        different arrays are put back at once, those of one array one after the other."""
        shared = [m for m in self.nest.windows if m.window.in_step]
        loads, stores = ([m for m in shared if m.moves(store=store)] for store in (False, True))

        def fetch() -> None:
            for moved in loads:
                self._start(moved, self._first_place(moved), at, store=False, first=True)
            self.engine.wait(loads, store=False)

        def put_back() -> None:
            of = [[m for m in stores if m.window.buf == buf] for buf in dict.fromkeys(m.window.buf for m in stores)]
            for turn in itertools.zip_longest(*of):
                together = [m for m in turn if m is not None]
                channels = {self.engine.channels[m.window.name, True] for m in together}
                alone = len(channels) < len(together)  # where channels are shared
                for each in [[m] for m in together] if alone else [together]:
                    for moved in each:
                        self._start(moved, self._first_place(moved), at, store=True, first=True)
                    self.engine.wait(each, store=True)

        return self._dispatch(self._place).items((self._section(fetch), self._section(put_back)) if shared else None)

    # -- code

    def _dispatch(self, place: Callable[[Moved], Term]) -> Dispatch:
        high = Reg(self.pointers.base[_FRAME].vreg, "hi") if self.pointers.narrow is None else None
        return Dispatch(self.nest, self.number, self.target, self.emitter, place, high)

    def _spare(self, cls: str) -> int:
        """The registers of a class that values may wait in until data are there."""
        return len(self.target.register_class(cls).names) // _WAITING

    def _measure(self) -> None:
        """Find out what is known of blocks when the function runs."""
        known = set[str]()
        for name, term in measured(self.nest.counters, self.nest.windows, self.dma):
            if name not in known:
                self.emitter.names[name] = Reg(self.emitter.fresh(self.emitter.classes.scalar.name, name))
                known.add(name)
            self._set(name, term)

    def _section(self, action: Callable[[], None]) -> list[Item]:
        return section(self.emitter, action)

    def _set(self, name: str, term: Term) -> None:
        set_variable(self.emitter, name, term)

    def _if(self, condition: Term, action: Callable[[], None]) -> None:
        register = self.emitter.whole(self.emitter.lower(condition))
        self.emitter.items.append(If(register, tuple(self._section(action))))
        forget(self.emitter)

    def _ask(self) -> None:
        """The first block's windows are asked for, each as soon as its words are there."""
        for moved in self._moved(store=False):
            self._start(moved, self._first_place(moved), at, store=False, first=True)

    def _begin(self, *, several: bool) -> None:
        """The first block's windows are asked for; then what can be told of those that are put back, and of the next
        block, while the first are on their way."""
        emitter = self.emitter
        for k in range(self.nest.outer, len(self.nest.counters)):
            self._set(at(k), ZERO)
        self._ask()
        for moved in self._moved(store=True):
            if moved.twice:
                self.engine.prepare(moved, store=True)
            else:
                self._describe([moved])
        for moved in self.nest.windows:
            if moved.twice:
                emitter.names[near(moved.window)] = Reg(emitter.fresh(emitter.classes.scalar.name, near(moved.window)))
                self._set(near(moved.window), self._first_place(moved))
                if moved.slid is not None:
                    for made in (fresh(moved.window), ahead_of(moved.window)):
                        emitter.names[made] = Reg(emitter.fresh(emitter.classes.scalar.name, made))
                else:
                    emitter.names[both(moved.window)] = Reg(emitter.fresh(emitter.classes.scalar.name, "both"))
                    twice = Op("add", (Var(near(moved.window), I32), Var(near(moved.window), I32)), I32)
                    self._set(both(moved.window), Op("add", (twice, Const(moved.place, I32)), I32))
        emitter.names[FINAL] = Reg(emitter.fresh(emitter.classes.scalar.name, FINAL))
        self._at_ends(next_=several)

    def _at_ends(self, *, next_: bool) -> None:
        """Of each counter whether this block is its last, whether the next block is another of it, and that one."""
        counters = self.nest.counters
        for k, counter in enumerate(counters):
            at_end = Var(end(k), I32) if self.nest.is_open(k) else Const(counter.trips - 1, I32)
            self._set(last(k), Op("eq", (Var(at(k), I32), at_end), I32))
        if not next_:
            return
        steps: Term = ONE
        for k in range(len(counters) - 1, self.nest.outer - 1, -1):
            self._set(stepping(k), steps)
            up = Op("add", (Var(at(k), I32), ONE), I32)
            inner = Op("select", (Var(last(k), I32), ZERO, up), I32)
            self._set(following(k), Op("select", (Var(stepping(k), I32), inner, Var(at(k), I32)), I32))
            steps = Op("and", (Var(stepping(k), I32), Var(last(k), I32)), I32)
        self._set(FINAL, steps)

    def _fetch(self) -> None:
        """Start to fetch what the next block needs anew; those first that need not wait for what is put back."""
        moving = [m for m in self._moved(store=False) if m.twice]
        for moved in sorted(moving, key=lambda m: m.window.store):
            whole = ONE if moved.slid is None else self._slide(moved, moved.slid)
            start = partial(self._start, moved, self._other(moved), following, store=False, whole=whole)
            if not moved.window.store and not self.engine.shares(moved, store=False):
                start(condition=self._renewed(moved))
            elif self._moves_always(moved) and not self.engine.shares(moved, store=False):
                self.engine.make_sure([moved], store=True)
                start(condition=self._renewed(moved))
            else:

                def one(moved: Moved = moved, start: Callable[[], None] = start) -> None:
                    if moved.window.store:
                        self.engine.wait([moved], store=True)
                    start()

                self._if(self._renewed(moved), one)

    def _go_on(self) -> None:
        """Start to put back what is not touched again, and go on to the next block, once all of it is there."""
        moving = [m for m in self._moved(store=True) if m.twice]
        always = [m for m in moving if self._moves_always(m) and not self.engine.shares(m, store=True)]
        self.engine.make_sure(always, store=True)
        for moved in always:
            self._start(moved, self._place(moved), at, store=True)
        for moved in moving:
            if moved not in always:

                def start(moved: Moved = moved) -> None:
                    self.engine.wait([moved], store=True)
                    self._start(moved, self._place(moved), at, store=True)

                self._if(Var(stepping(max(moved.window.counters)), I32), start)
        for moved in self.nest.windows:
            if moved.twice:
                here = Var(near(moved.window), I32)
                self._set(near(moved.window), Op("select", (self._renewed(moved), self._other(moved), here), I32))
        for k in range(self.nest.outer, len(self.nest.counters)):
            self._set(at(k), Var(following(k), I32))
        self._at_ends(next_=True)
        self.engine.make_sure([m for m in self._moved(store=False) if m.twice], store=False)

    def _put_back(self, stores: Sequence[Moved]) -> None:
        """Start to put back what is described."""
        for moved in stores:
            if self.engine.shares(moved, store=True):
                self._start(moved, self._first_place(moved), at, store=True)
            else:
                self.engine.go(moved, store=True, condition=self._if_any(moved, at))

    def _start(
        self,
        moved: Moved,
        place: Term,
        block: Callable[[int], str],
        *,
        store: bool,
        first: bool = False,
        condition: Term = ONE,
        whole: Term = ONE,
    ) -> None:
        """Start to move a window where the condition is 1, if there is anything to move."""
        condition = both_hold(both_hold(condition, self._if_any(moved, block)), has_place(moved.window))
        self.engine.start(moved, place, block, store=store, first=first, condition=condition, whole=whole)

    def _if_any(self, moved: Moved, block: Callable[[int], str]) -> Term:
        """Whether there is anything to move: 0 or 1."""
        return self.engine.some(moved, block) or ONE

    def _renewed(self, moved: Moved) -> Term:
        """Whether the next block has another window: 0 or 1."""
        goes_on = Op("xor", (Var(FINAL, I32), ONE), I32)
        return (
            goes_on if self._moves_always(moved) else both_hold(Var(stepping(max(moved.window.counters)), I32), goes_on)
        )

    def _moves_always(self, moved: Moved) -> bool:
        """Whether each block has another window."""
        return not any(c.several for c in self.nest.counters[max(moved.window.counters) + 1 :])

    def _slide(self, moved: Moved, slid: Slid) -> Term:
        """Find the place of the next block's window; whether all of it is to be fetched: 0 or 1."""
        here, first, new = near(moved.window), self._first_place(moved), fresh(moved.window)
        at_end: Term = Op("add", (first, Const(slid.last, I32)), I32)
        begins = Op("eq", (Var(following(slid.counter), I32), ZERO), I32)
        self._set(new, Op("or", (Op("eq", (Var(here, I32), at_end), I32), begins), I32))
        if slid.anew:
            beyond = Op("add", (first, Const(slid.apart, I32)), I32)
            first = Op("select", (Op("lt", (Var(here, I32), beyond), I32), at_end, first), I32)
        on = Op("add", (Var(here, I32), Const(slid.step, I32)), I32)
        self._set(ahead_of(moved.window), Op("select", (Var(new, I32), first, on), I32))
        return Var(new, I32)

    def _other(self, moved: Moved) -> Term:
        if moved.slid is not None:
            return Var(ahead_of(moved.window), I32)
        return Op("sub", (Var(both(moved.window), I32), Var(near(moved.window), I32)), I32)

    def _first_place(self, moved: Moved) -> Term:
        return Op("add", (Var(_FRAME, I32), Const(self.offsets[self.number, moved.window.name], I32)), I32)

    def _place(self, moved: Moved) -> Term:
        """Where the window of the block at hand is: a register tells of two places, what has one needs none."""
        return Var(near(moved.window), I32) if moved.twice else self._first_place(moved)

    def _moved(self, *, store: bool) -> list[Moved]:
        """What is not in step with blocks."""
        return [m for m in self.nest.windows if m.moves(store=store) and not m.window.in_step]


def _round(depth: int) -> str:
    """The variable that counts the iterations of a loop round several nests."""
    return f"round.{depth}"


def _flat(nests: Sequence[Nest], *, last: bool = False) -> list[BlockedNest]:
    """The nests in their order, each in all its forms or in its last one."""
    found: list[BlockedNest] = []
    for nest in nests:
        if isinstance(nest, BlockedNest):
            found.append(nest)
        else:
            found += _flat(nest.nests[-1:] if last and isinstance(nest, OneOf) else nest.nests, last=last)
    return found


def _sized(nests: Iterable[BlockedNest]) -> list[Window]:
    """Windows as large as sizes tell that are known at run time only; of each array those with different rooms."""
    found = (m.window for nest in nests for m in nest.windows if m.window.sized)
    return list({(w.buf, w.room): w for w in found}.values())
