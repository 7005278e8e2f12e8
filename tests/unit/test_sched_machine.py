"""The reservation table's searches over cycles, against asking cycle by cycle; sinking against trying every cycle."""

from __future__ import annotations

import random

from dspgen.sched.machine.reservation_table import ReservationTable
from dspgen.sched.machine.target_facts import Facts, Reservation
from dspgen.sched.straight.late_placement import _worthwhile
from dspgen.target.load import load_target

FACTS = Facts(load_target("ft_m7002"))
RELATED = tuple(range(4))
KINDS = [Reservation(units, busy, (), RELATED) for units in ((0,), (0, 1), (1, 2, 3)) for busy in (1, 1, 2)]


def test_the_next_and_the_last_cycle_with_room_are_those_that_asking_one_by_one_finds() -> None:
    generator = random.Random(5)
    for _ in range(40):
        quick, slow = ReservationTable(FACTS), ReservationTable(FACTS)
        placed: list[int] = []
        for op in range(40):
            if placed and generator.random() < 0.2:
                gone = placed.pop(generator.randrange(len(placed)))
                quick.remove(gone)
                slow.remove(gone)
            at, kind = generator.randrange(12), generator.choice(KINDS)
            if generator.random() < 0.5:
                expected = next(c for c in range(at, 99) if slow.place(op, c, kind))
                assert quick.place_from(op, at, kind) == expected
            else:
                least = generator.randrange(4)
                expected = next((c for c in range(at, least - 1, -1) if slow.place(op, c, kind)), -1)
                assert quick.place_back(op, at, least, kind) == expected
            if expected >= 0:
                placed.append(op)
        assert quick.cycle_of == slow.cycle_of
        assert quick.unit_of == slow.unit_of


def test_an_operation_sinks_as_far_as_it_frees_more_than_it_holds() -> None:
    generator = random.Random(7)
    for _ in range(300):
        here, late, freed = 3, generator.randrange(3, 20), generator.randrange(1, 8)
        held = [(generator.randrange(-1, 20), generator.randrange(1, 5)) for _ in range(generator.randrange(4))]

        def gain(at: int, held: list[tuple[int, int]] = held, here: int = here, freed: int = freed) -> int:
            return freed * (at - here) - sum(worth * max(0, at - max(here, until)) for until, worth in held)

        expected = max((at for at in range(here + 1, late + 1) if gain(at) > 0), default=here)
        assert _worthwhile(freed, held, here, late) == expected
