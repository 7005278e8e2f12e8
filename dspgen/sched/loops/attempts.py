"""Schedules of one loop at one interval and the next ones, and the registers they take."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dspgen.asmir.ir.function import VReg
from dspgen.sched.graph.budget import Budget
from dspgen.sched.graph.synthesized_instrs import Kit
from dspgen.sched.loops.loop_body import HEURISTICS, Prepared, scheduled, sparing
from dspgen.sched.machine.modulo_schedule import ModuloSchedule
from dspgen.sched.machine.target_facts import Facts
from dspgen.sched.modulo.address_streams import Group, merge_groups, split_stream, stream_accesses
from dspgen.sched.modulo.exact import Solution, exact_modulo_schedule
from dspgen.sched.modulo.modulo import longest_path, shorten_lifetimes
from dspgen.sched.modulo.modulo_expansion import (
    NO_ROOM_FOR_BRANCH,
    NO_ROOM_FOR_COUNTER,
    Body,
    Shape,
    choose_shape,
    expand,
)
from dspgen.sched.modulo.pressure import lifetimes, register_excess

MOST_OPERATIONS = 256  # in an unrolled body
NO_LEADER = "no access can advance its address register"
_MOST_WHOLE = 8  # longer intervals tried for a loop with more stages than iterations
# Intervals are longer by up to one in so many, for kernels that leave no iterations over; in nests, where runs of such
# kernels overlap.
_LEFT_OVER = 8
_LEFT_OVER_IN_NESTS = 6
_FEW = 16  # iterations of a loop of unknown trip
_AROUND = 8  # cycles that the loop over those that are left over takes besides them
_MOST_UNKNOWN = 2  # intervals left undecided by the exact scheduler before it stops

Found = tuple[Body, Shape]


class FewRegisters(str):
    """What a schedule lacks where that is registers, in words; and how many of which class."""

    cls: str
    lacking: int

    def __new__(cls, text: str, of: str = "", lacking: int = 0) -> FewRegisters:
        made = super().__new__(cls, text)
        made.cls, made.lacking = of, lacking
        return made


@dataclass(frozen=True, slots=True)
class Attempts:
    """To schedule one loop: `through` are registers of each class that are occupied across it without being used in
    it, `live_out` what is read after it; where registers are `scarce`, schedules whose values wait least come first.
    `nested`: whether runs of the loop may overlap."""

    facts: Facts
    kit: Kit
    through: Mapping[str, int]
    live_out: Collection[VReg]
    budget: Budget
    scarce: bool
    nested: bool = False

    def at_interval(self, prepared: Prepared, interval: int) -> Found | list[str]:
        """A schedule with its registers, or what each of the heuristics lacks."""
        failures = []
        for found in self._schedules(prepared, interval):
            if not isinstance(found, str):
                return found
            failures.append(found)
        return failures

    def quicker(self, prepared: Prepared, found: Found) -> tuple[Found, list[tuple[int, str]]]:
        """A schedule at the same or a longer interval by which the loop as a whole takes fewer cycles, if there is one;
        and the intervals that were passed over."""
        known = isinstance(prepared.loop.trip, int)
        return self._quicker_whole(prepared, found) if known else self._quicker_for_few(prepared, found)

    def _quicker_whole(self, prepared: Prepared, found: Found) -> tuple[Found, list[tuple[int, str]]]:
        """For a loop with more stages than iterations: the schedule that takes the fewest cycles from the first
        operation to the last, at intervals up to the one at which there are no longer more, or none can be quicker;
        and the smaller intervals, which are worse."""
        trip = prepared.loop.trip
        first = found[0].schedule.interval
        if not isinstance(trip, int) or found[0].schedule.stages <= trip or self.scarce:
            return found, []
        whole: dict[int, int] = {}
        for interval in range(first, first + _MOST_WHOLE):
            if (trip - 1) * interval + longest_path(prepared.graph, interval) >= _whole(found[0], trip):
                break
            tried = self._schedules(prepared, interval)
            made = [f for f in tried if not isinstance(f, str)]
            found = min([found, *made], key=lambda f: _whole(f[0], trip))
            if made:
                whole[interval] = min(_whole(body, trip) for body, _ in made)
            if any(body.schedule.stages <= trip for body, _ in made):
                break
        least, best = _whole(found[0], trip), found[0].schedule.interval
        worse = [(ii, cycles) for ii, cycles in whole.items() if ii < best]
        return found, [
            (ii, f"the whole loop is quicker at {best}: {least} cycles against {cycles}") for ii, cycles in worse
        ]

    def _quicker_for_few(self, prepared: Prepared, found: Found) -> tuple[Found, list[tuple[int, str]]]:
        """For a loop of unknown trip: the schedule, at this interval or one that is hardly longer, that takes the
        fewest cycles for a few iterations, from the first operation to the last, those included that a kernel leaves
        over which does several at once: nothing overlaps with these. In nests, whose runs overlap, the first one whose
        kernel leaves none. And the intervals that were passed over."""
        first = found[0].schedule.interval
        fewest = -(-longest_path(prepared.graph, first) // first)
        if found[1].unroll == 1 and (self.nested or found[0].schedule.stages <= fewest + 1):
            return found, []
        best = found
        longer = first // (_LEFT_OVER_IN_NESTS if self.nested else _LEFT_OVER)
        for interval in range(first, first + longer + 1):
            for made in self._schedules(prepared, interval):
                if isinstance(made, str):
                    continue
                if self.nested and made[1].unroll == 1:
                    passed = range(first, interval)
                    return made, [(ii, f"a kernel at {interval} leaves no iterations over") for ii in passed]
                if _for_few(made) < _for_few(best):
                    best = made
        chosen = best[0].schedule.interval
        return best, [(ii, f"few iterations are quicker at {chosen}") for ii in range(first, chosen)]

    def missed(
        self,
        prepared: Prepared,
        found: Found,
        least_interval: int,
        known: dict[object, Solution],
    ) -> tuple[Found, int]:
        """A schedule at a smaller interval, if the exact scheduler finds one that the registers allow; else the same.
        And an interval up to which there is proven to be none, 0 where nothing is proven."""
        trip = prepared.loop.trip if isinstance(prepared.loop.trip, int) else None
        reservations = [op.reservation for op in prepared.ops]
        refused, unknown, sure = 0, 0, True
        if len(reservations) > MOST_OPERATIONS:
            return found, 0
        for interval in range(prepared.least_interval, found[0].schedule.interval):
            if unknown == _MOST_UNKNOWN:
                break
            schedule = exact_modulo_schedule(prepared.graph, reservations, self.facts, interval, known=known)
            if schedule == "infeasible" and sure:
                refused = interval
            if isinstance(schedule, str):
                sure &= schedule == "infeasible"
                unknown += schedule == "unknown"
                continue
            sure = False
            if interval < least_interval:
                continue
            shorten_lifetimes(prepared.graph, reservations, schedule, lifetimes(prepared.values, interval))
            attempt = self._attempt(prepared, schedule, trip)
            if not isinstance(attempt, str):
                return attempt, refused
        return found, refused

    def _schedules(self, prepared: Prepared, interval: int) -> Iterator[Found | str]:
        """What each of the heuristics finds, and the same with values that wait less: that first where registers are
        `scarce`, as other code showed, else where the schedule itself lacks some. Then, for each that lacked registers
        of some class, the same with values of that class made late. Where the branch found no room, all of that with
        places kept for what ends an iteration. Last, why others were not found."""
        facts, kit = self.facts, self.kit
        missed: list[str] = []
        lacking: list[tuple[object, ModuloSchedule, str]] = []
        trip = prepared.loop.trip if isinstance(prepared.loop.trip, int) else None
        crowded_out = False
        for again in (False, True):
            some = False
            for less in (self.scarce, not self.scarce):
                for number in range(len(HEURISTICS)):
                    if (again and not crowded_out) or (some and number == len(HEURISTICS) - 1):
                        continue  # the last one is for what the others don't find
                    asked = number + len(HEURISTICS) * again
                    made = scheduled(prepared, interval, asked, facts, self.budget, less=less, closing=kit.closing)
                    if isinstance(made, str):
                        missed.append(made)
                        continue
                    some = True
                    attempt = self._attempt(prepared, made, trip)
                    yield attempt
                    if isinstance(attempt, FewRegisters):
                        lacking.append(((interval, asked, less), made, attempt.cls))
                    crowded_out |= bool(kit.closing) and attempt in (NO_ROOM_FOR_BRANCH, NO_ROOM_FOR_COUNTER)
        for key, made, cls in lacking:
            if (spared := sparing(prepared, made, cls, facts, key=key)) is not None:
                yield self._attempt(prepared, spared, trip)
        yield from missed

    def _attempt(self, prepared: Prepared, schedule: ModuloSchedule, trip: int | None) -> Found | str:
        """Streams, copies and registers for a schedule, or what is lacking."""
        facts, kit, interval = self.facts, self.kit, schedule.interval
        groups: list[Group] = []
        unled: list[VReg] = []
        for stream in prepared.loop.streams:
            accesses = stream_accesses(prepared.ops, schedule.cycles, {stream.base}).get(stream.base, [])
            split = split_stream(
                stream, accesses, interval, trip, facts, prepared.loop.label, keep=stream.base in self.live_out
            )
            if split is None:
                unled.append(stream.base)
            groups += split or ()
        prepared.scattered.update(dict.fromkeys(unled))
        if unled:
            prepared.scattered.update(_several(groups))
            return NO_LEADER
        if groups and interval < facts.update:
            return f"an access can advance its address every {facts.update} cycles"
        several = _several(groups)
        groups = self._merged(groups, prepared, interval, trip)
        least = max(facts.target.packets.minimum_ii, 1 if kit.loops else facts.branch_delay + 1)
        body = Body(prepared.loop.label, prepared.ops, prepared.values, schedule, groups, least)
        shape = choose_shape(body, facts, trip)
        if shape is None:
            return f"without a trip count, no power of two of copies fits {schedule.stages} stages"
        if (excess := register_excess(body, facts, kit, self.through, trip)) is not None:
            cls, text, lacking = excess
            prepared.scattered.update((base, None) for base in several if base.cls == cls)
            return FewRegisters(text, cls, lacking)
        if isinstance(made := expand(body, shape, facts, kit, passes=shape.passes), str):
            return made
        return body, shape

    def _merged(
        self,
        groups: list[Group],
        prepared: Prepared,
        interval: int,
        trip: int | None,
    ) -> list[Group]:
        """Address groups within the registers that the loop has for them."""
        room: dict[str, int] = {}
        for cls in self.facts.target.registers:
            if cls.kind in ("address", "offset"):
                others = sum(1 for w in prepared.values.webs if w.register.cls == cls.name)
                room[cls.name] = self.kit.room(cls.name) - others - self.through.get(cls.name, 0)
        return merge_groups(groups, interval, room, room, self.facts, prepared.loop.label, trip)


def _whole(body: Body, trip: int) -> int:
    return (trip - 1) * body.schedule.interval + max(body.schedule.cycles, default=0) + 1


def _for_few(found: Found) -> float:
    """The cycles for a few iterations of a loop of unknown trip, as they are on average."""
    body, shape = found
    length = max(body.schedule.cycles, default=0) + 1
    return (_FEW - 1) * body.schedule.interval + length + (shape.unroll - 1) / 2 * (length + _AROUND)


def _several(groups: Sequence[Group]) -> dict[VReg, None]:
    """Streams whose accesses are on more than one register."""
    bases = [g.stream.base for g in groups]
    return {base: None for base in bases if bases.count(base) > 1}
