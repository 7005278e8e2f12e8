"""Which operations can issue together in one cycle: every way, best first, in which no more of them would fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from dspgen.sched.machine.target_facts import Reservation
from dspgen.sched.straight.instance import Instance

Group = tuple[tuple[int, int], ...]  # operations and their units


class Kinds:
    """Operations with the same reservation are of one kind; kinds that share units or resources are of one part."""

    def __init__(self, instance: Instance) -> None:
        number: dict[Reservation, int] = {}
        self.of = [number.setdefault(r, len(number)) for r in instance.reservations]
        self.reservations = list(number)
        self.units = [sum(1 << u for u in r.alternatives) for r in number]
        extras = [sum(1 << u for u, _, _ in r.extras) for r in number]
        self.simple = [r.busy == 1 and not r.extras for r in number]
        self.longest = max((max([r.busy, *(f + c for _, f, c in r.extras)]) for r in number), default=1)
        masks = [u | e for u, e in zip(self.units, extras, strict=True)]
        self.limits = instance.limits
        for limited, _ in self.limits.groups:
            masks = [m | limited if u & limited else m for m, u in zip(masks, self.units, strict=True)]
        part = list(range(len(masks)))
        limited = instance.few_slots
        for a in range(len(masks)):
            for b in range(a):
                if part[a] != part[b] and (limited or masks[a] & masks[b]):
                    part = [part[b] if p == part[a] else p for p in part]
        self.part = part
        self.clash = [[_clash(a, b) for b in number] for a in number]
        self.clashing = any(map(any, self.clash))
        self._matched: dict[tuple[int, ...], tuple[int, ...] | None] = {}

    def usable(self, kind: int, taken: Sequence[int], cycle: int) -> int:
        """The units on which an operation of a kind can issue, given what is taken from `cycle` on."""
        closed = self.limits.closed(taken[cycle])
        if self.simple[kind]:
            return self.units[kind] & ~taken[cycle] & ~closed
        reservation = self.reservations[kind]
        for resource, first, count in reservation.extras:
            if any(taken[cycle + at] >> resource & 1 for at in range(first, first + count)):
                return 0
        free = self.units[kind] & ~closed
        for at in range(reservation.busy):
            free &= ~taken[cycle + at]
        return free

    def footprint(self, kind: int, unit: int) -> Iterator[tuple[int, int]]:
        """What an operation takes: cycles after its issue, and a mask."""
        reservation = self.reservations[kind]
        for at in range(reservation.busy):
            yield at, 1 << unit
        for resource, first, count in reservation.extras:
            for at in range(first, first + count):
                yield at, 1 << resource

    def matched(self, masks: tuple[int, ...], taken: int) -> tuple[int, ...] | None:
        """One unit of each mask, all different, in a packet that has what is taken; None where there are none."""
        if self.limits.groups:
            return self.limits.matched(masks, taken)
        if masks not in self._matched:
            self._matched[masks] = _matching(masks)
        return self._matched[masks]


def _clash(a: Reservation, b: Reservation) -> bool:
    """Whether two operations of these kinds in one packet want one extra resource at once."""
    cycles = {(r, first + k) for r, first, count in a.extras for k in range(count)}
    return any((r, first + k) in cycles for r, first, count in b.extras for k in range(count))


def _matching(masks: Sequence[int]) -> tuple[int, ...] | None:
    holder: dict[int, int] = {}

    def assign(k: int, tried: list[int]) -> bool:
        free = masks[k] & ~tried[0]
        while free:
            low = free & -free
            tried[0] |= low
            if low not in holder or assign(holder[low], tried):
                holder[low] = k
                return True
            free = masks[k] & ~tried[0]
        return False

    for k in range(len(masks)):
        if not assign(k, [0]):
            return None
    units = [0] * len(masks)
    for bit, k in holder.items():
        units[k] = bit.bit_length() - 1
    return tuple(units)


class Chooser:
    """Groups for one cycle. `above[k]` are operations of k's kind that can stand in for it wherever it is placed: a
    group with k and without one of them that is ready is as good as another that has it in k's place."""

    def __init__(self, kinds: Kinds, above: Sequence[int], issue: int) -> None:
        self.kinds, self.above, self.issue = kinds, above, issue
        self.before = 0  # what is taken in the cycle

    def groups(
        self, ready: Sequence[int], forced: int, optional: int, taken: Sequence[int], cycle: int, room: int, fan: int
    ) -> tuple[list[Group], bool]:
        """Up to `fan` groups of each part, combined, from operations in order of preference; and whether these are
        all. `forced` must be in every group, `optional` may be missing though they would fit; `room` issue slots."""
        self.before = taken[cycle]
        parts: dict[int, list[int]] = {}
        for k in ready:
            parts.setdefault(self.kinds.part[self.kinds.of[k]], []).append(k)
        complete = True
        choices: list[list[Group]] = []
        for members in parts.values():
            found, all_found = self._of_part(members, forced, optional, taken, cycle, room, fan)
            complete = complete and all_found
            if not found:
                return [], complete
            choices.append(found)
        if len(choices) == 1:
            return choices[0], complete
        total = 1
        for found in choices:
            total *= len(found)
        if total == 1:
            return [tuple(pair for found in choices for pair in found[0])], complete
        if total > 8 * fan:
            complete = False
            while total > 8 * fan:
                longest = max(choices, key=len)
                total = total // len(longest) * (len(longest) - 1)
                longest.pop()
        combined = sorted(product(*(range(len(found)) for found in choices)), key=sum)
        if len(combined) > 2 * fan:
            complete = False
        return [
            tuple(pair for found, at in zip(choices, ranks, strict=True) for pair in found[at])
            for ranks in combined[: 2 * fan]
        ], complete

    def _of_part(
        self, members: Sequence[int], forced: int, optional: int, taken: Sequence[int], cycle: int, room: int, fan: int
    ) -> tuple[list[Group], bool]:
        kinds = self.kinds
        usable = {kind: kinds.usable(kind, taken, cycle) for kind in {kinds.of[k] for k in members}}
        candidates = [k for k in members if usable[kinds.of[k]]]
        masks = [usable[kinds.of[k]] for k in candidates]
        if any(forced >> k & 1 and not usable[kinds.of[k]] for k in members):
            return [], True
        if len(candidates) == 1 and room and not optional:
            return [((candidates[0], (masks[0] & -masks[0]).bit_length() - 1),)], True
        found: list[Group] = []
        complete = self._extend(candidates, masks, 0, [], [], 0, forced, optional, room, fan, found)
        return found, complete

    def _fits(self, taken: Sequence[int], masks: Sequence[int], room: int) -> bool:
        """Whether these operations, of which all but the last fit, do so on units of these masks."""
        if len(taken) > room:
            return False
        if self.kinds.clashing and taken:
            clash, of = self.kinds.clash, self.kinds.of
            last = clash[of[taken[-1]]]
            if any(last[of[k]] for k in taken[:-1]):
                return False
        return self.kinds.matched(tuple(masks), self.before) is not None

    def _extend(
        self,
        candidates: Sequence[int],
        masks: Sequence[int],
        at: int,
        taken: list[int],
        of_taken: list[int],
        left_out: int,
        forced: int,
        optional: int,
        room: int,
        fan: int,
        found: list[Group],
    ) -> bool:
        """Choose among the candidates from `at` on, after those `taken` on units of the masks `of_taken`; False where
        groups were left out for their number."""
        if len(found) >= fan:
            return False
        if at == len(candidates):
            if missing := left_out & ~optional:
                for candidate, mask in zip(candidates, masks, strict=True):
                    if missing >> candidate & 1 and self._fits([*taken, candidate], [*of_taken, mask], room):
                        return True
            units = self.kinds.matched(tuple(of_taken), self.before)
            assert units is not None
            found.append(tuple(zip(taken, units, strict=True)))
            return True
        candidate = candidates[at]
        complete = True
        if not self.above[candidate] & left_out:
            taken.append(candidate)
            of_taken.append(masks[at])
            if self._fits(taken, of_taken, room):
                complete = self._extend(
                    candidates, masks, at + 1, taken, of_taken, left_out, forced, optional, room, fan, found
                )
            taken.pop()
            of_taken.pop()
        if not forced >> candidate & 1:
            left_out |= 1 << candidate
            complete = (
                self._extend(candidates, masks, at + 1, taken, of_taken, left_out, forced, optional, room, fan, found)
                and complete
            )
        return complete
