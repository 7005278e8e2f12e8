"""Which unit does what in which cycle: the reservation table, straight or wrapped around an initiation interval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations

from dspgen.sched.machine.group_limits import bits
from dspgen.sched.machine.target_facts import Facts, Reservation

# What ends an iteration: how many cycles before the branch it issues, and what it takes.
Closing = tuple[tuple[int, Reservation], ...]

_FREE = -1
_CLOSING = -2  # the number of a loop's branch, and down from there of what else ends its iterations
_MOST_EVICTED = 3  # operations of a packet, so that another one fits


class ReservationTable:
    """Rows of unit members. With `interval`, cycle c is row c modulo the interval; without, rows grow as needed.

    An operation of one busy cycle may be moved to another of its units to make room, so that a row is filled whenever
    a matching of operations to units within the packet's limits exists.
    """

    def __init__(self, facts: Facts, interval: int | None = None) -> None:
        self._width = len(facts.unit_names)
        self._issue_limit = facts.issue
        self._limits = facts.limits
        self._bits = [1 << unit | facts.limits.start(unit) for unit in range(self._width)]  # of an operation's start
        self.interval = interval
        self._rows: list[list[int]] = []
        # Of each row, the units that are taken, and what starts (`group_limits.py`): a bit set.
        self._busy: list[int] = []
        self._issued: list[int] = []
        # Of sets of units, the rows without room on them, both bit sets; so it stays until something is removed.
        self._full: dict[int, int] = {}
        self._reservation: dict[int, Reservation] = {}
        self._held: set[int] = set()  # by operations from before
        self.cycle_of: dict[int, int] = {}
        self.unit_of: dict[int, int] = {}
        if interval is not None:
            self._grow(interval)

    def place(self, op: int, cycle: int, reservation: Reservation) -> bool:
        """Reserve for operation number `op` at `cycle`, if that is possible."""
        row = self._row(cycle)
        if not reservation.simple:
            return self._placed(op, cycle, row, reservation)
        units = reservation.units
        if self._full.get(units, 0) >> row & 1:
            return False
        if self._placed(op, cycle, row, reservation):
            return True
        self._full[units] = self._full.get(units, 0) | 1 << row
        return False

    def pin(self, op: int, cycle: int, reservation: Reservation) -> None:
        """Reserve, if possible, for what is never evicted: `op` is below 0."""
        self.place(op, cycle, reservation)

    def reservation_of(self, op: int) -> Reservation:
        return self._reservation[op]

    def place_from(self, op: int, cycle: int, reservation: Reservation) -> int:
        """Reserve in the first cycle from this one on in which that is possible, in a table without an interval."""
        if not reservation.simple:
            while not self.place(op, cycle, reservation):
                cycle += 1
            return cycle
        units = reservation.units
        full = self._full.get(units, 0)
        while True:
            open_rows = ~(full >> cycle)
            cycle += (open_rows & -open_rows).bit_length() - 1
            if cycle >= len(self._rows):
                self._grow(cycle + 1)
            if self._placed(op, cycle, cycle, reservation):
                self._full[units] = full
                return cycle
            full |= 1 << cycle

    def place_back(self, op: int, cycle: int, least: int, reservation: Reservation) -> int:
        """Reserve in the last cycle up to this one in which that is possible, but not before `least`, in a table
        without an interval: that cycle, -1 where there is none."""
        if not reservation.simple:
            return next((at for at in range(cycle, least - 1, -1) if self.place(op, at, reservation)), -1)
        if cycle >= len(self._rows):
            self._grow(cycle + 1)
        units = reservation.units
        full = self._full.get(units, 0)
        open_rows = ((1 << cycle + 1) - 1) & ~full if cycle >= 0 else 0
        while (cycle := open_rows.bit_length() - 1) >= least:
            if self._placed(op, cycle, cycle, reservation):
                self._full[units] = full
                return cycle
            open_rows ^= 1 << cycle
            full |= 1 << cycle
        self._full[units] = full
        return -1

    def place_around(self, op: int, cycle: int, reservation: Reservation) -> int | None:
        """Reserve in the first cycle from this one on in which that is possible, in a table with an interval: that
        cycle, None where all rows are taken."""
        interval = len(self._rows)
        if not reservation.simple:
            return next((at for at in range(cycle, cycle + interval) if self.place(op, at, reservation)), None)
        units, row = reservation.units, cycle % interval
        full = self._full.get(units, 0)
        for at in range(cycle, cycle + interval):
            if not full >> row & 1:
                if self._placed(op, at, row, reservation):
                    self._full[units] = full
                    return at
                full |= 1 << row
            row = row + 1 if row + 1 < interval else 0
        self._full[units] = full
        return None

    def farthest(self, op: int, end: int, reservation: Reservation) -> int:
        """The cycle nearest to `end`, on the way from there to the one that the operation has, that has room for it
        too; its own where there is none. For tables with an interval."""
        found = here = self.cycle_of[op]
        self.remove(op)
        full = self._full.get(reservation.units, 0) if reservation.simple else 0
        interval = len(self._rows)
        for at in range(end, here, -1 if end > here else 1):
            if not full >> at % interval & 1 and self.place(op, at, reservation):
                self.remove(op)
                found = at
                break
        self.place(op, here, reservation)
        return found

    def _placed(self, op: int, cycle: int, row: int, reservation: Reservation) -> bool:
        if self._issued[row] >= self._issue_limit or (reservation.extras and not self._extras_free(reservation, cycle)):
            return False
        closed = self._limits.closed(self._busy[row]) if self._limits.groups else 0
        if reservation.busy > 1:
            for unit in reservation.alternatives:
                if not closed >> unit & 1 and self._unit_free(unit, cycle, reservation.busy):
                    self._take(op, unit, cycle, reservation)
                    return True
            return False
        busy = self._busy[row]
        taken = busy | closed
        if reservation.units & ~taken:
            for unit in reservation.alternatives:
                if not taken >> unit & 1:
                    if not reservation.simple:
                        self._take(op, unit, cycle, reservation)
                        return True
                    self._rows[row][unit] = op
                    self._busy[row] = busy | self._bits[unit]
                    self._issued[row] += 1
                    self.unit_of[op], self.cycle_of[op], self._reservation[op] = unit, cycle, reservation
                    return True
        if self._limits.groups:
            return self._rearranged(op, cycle, row, reservation)
        if reservation.reachable & ~busy:
            for unit in reservation.alternatives:
                if self._vacate(unit, row, {unit}):
                    self._take(op, unit, cycle, reservation)
                    return True
        return False

    def _rearranged(self, op: int, cycle: int, row: int, reservation: Reservation) -> bool:
        """Reserve after all operations of the row that may be moved have found units anew."""
        movable = [k for k in self._starting(row) if self._reservation[k].busy == 1]
        fixed = self._busy[row]
        for k in movable:
            fixed &= ~self._bits[self.unit_of[k]]
        masks = [r.units & ~fixed for r in (*(self._reservation[k] for k in movable), reservation)]
        found = self._limits.matched(masks, fixed)
        if found is None:
            return False
        for k in movable:
            self._rows[row][self.unit_of[k]] = _FREE
        self._busy[row] = fixed
        for k, unit in zip(movable, found, strict=False):
            self._start(k, unit, row)
        self._take(op, found[-1], cycle, reservation)
        return True

    def _starting(self, row: int) -> list[int]:
        """The operations that start in a row."""
        found = {op for op in self._rows[row] if op != _FREE and self._row(self.cycle_of[op]) == row}
        return sorted(op for op in found if op not in self._held)

    def remove(self, op: int) -> None:
        cycle, unit, reservation = self.cycle_of.pop(op), self.unit_of.pop(op), self._reservation.pop(op)
        for k in range(reservation.busy):
            self._free(unit, self._row(cycle + k))
        for resource, first, count in reservation.extras:
            for k in range(first, first + count):
                self._free(resource, self._row(cycle + k))
        self._issued[self._row(cycle)] -= 1

    def blockers(self, cycle: int, reservation: Reservation, worth: Sequence[int]) -> list[int] | None:
        """Operations to evict so that this one fits: those of the least worth on one unit, and those on the extras.
        None where something pinned is in the way."""
        found = self._blockers(cycle, reservation, worth)
        return None if any(op < 0 for op in found) else found

    def _blockers(self, cycle: int, reservation: Reservation, worth: Sequence[int]) -> list[int]:
        row = self._row(cycle)
        if self._limits.groups and reservation.simple and (few := self._fewest(row, reservation, worth)) is not None:
            return few
        best: list[int] | None = None
        price: tuple[int, int] | None = None
        for unit in reservation.alternatives:
            if self.interval is not None and reservation.busy > self.interval:
                continue
            found: dict[int, None] = {}
            for k in range(reservation.busy):
                holder = self._rows[self._row(cycle + k)][unit]
                if holder != _FREE:
                    found[holder] = None
            self._crowding(self._row(cycle), unit, found, worth)
            if any(op < 0 for op in found) and best is not None:
                continue
            cost = (len(found), sum(worth[op] for op in found if op >= 0))
            if price is None or cost < price:
                best, price = list(found), cost
        blocking = dict.fromkeys(best or [])
        for resource, first, count in reservation.extras:
            for k in range(first, first + count):
                holder = self._rows[self._row(cycle + k)][resource]
                if holder != _FREE:
                    blocking[holder] = None
        row = self._row(cycle)
        if not blocking and self._issued[row] >= self._issue_limit:
            blocking = dict.fromkeys(op for op, at in self.cycle_of.items() if self._row(at) == row and op >= 0)
        return list(blocking)

    def _fewest(self, row: int, reservation: Reservation, worth: Sequence[int]) -> list[int] | None:
        """The fewest operations of a row, and of these those of the least worth, without which the limits let this one
        in beside the others; None where it takes more than a few, or what holds a unit from before."""
        here = [k for k in self._starting(row) if self._reservation[k].busy == 1]
        fixed = self._busy[row]
        for k in here:
            fixed &= ~self._bits[self.unit_of[k]]
        others = self._issued[row] - len(here)
        masks = {k: self._reservation[k].units & ~fixed for k in here}
        mine = reservation.units & ~fixed
        free = sorted((k for k in here if k >= 0), key=lambda k: (worth[k], k))
        for size in range(1, min(len(free), _MOST_EVICTED) + 1):
            if others + len(here) - size >= self._issue_limit:
                continue
            for gone in sorted(combinations(free, size), key=lambda some: sum(worth[k] for k in some)):
                if self._limits.matched([*(masks[k] for k in here if k not in gone), mine], fixed) is not None:
                    return list(gone)
        return None

    def _crowding(self, row: int, unit: int, found: dict[int, None], worth: Sequence[int]) -> None:
        """Add to `found` those of the least worth that have to go for the limits to let one start on `unit`."""
        for units, most in self._limits.groups:
            if units >> unit & 1:
                here = [k for k in self._starting(row) if units >> self.unit_of[k] & 1 and k not in found]
                here.sort(key=lambda k: (k < 0, worth[k], k))
                found.update(dict.fromkeys(here[: max(len(here) + 1 - most, 0)]))

    def fits(self, members: Sequence[tuple[int, int, int, Reservation]], shift: int) -> bool:
        """Whether a rigid block of (op, cycle, unit, reservation) fits when moved by `shift`, on its own units."""
        added: dict[int, int] = {}
        starts: dict[int, int] = {}
        for _, cycle, unit, reservation in members:
            at = cycle + shift
            if not self._unit_free(unit, at, reservation.busy) or not self._extras_free(reservation, at):
                return False
            row = self._row(at)
            added[row] = added.get(row, 0) + 1
            if self._issued[row] + added[row] > self._issue_limit:
                return False
            starts[row] = starts.get(row, self._busy[row]) | self._limits.start(unit)
            if not self._limits.keep(starts[row]):
                return False
        return True

    def take(self, op: int, cycle: int, unit: int, reservation: Reservation) -> None:
        """Reserve on a given unit, which must be free."""
        self._row(cycle)
        self._take(op, unit, cycle, reservation)

    def hold(self, op: int, cycle: int, unit: int) -> None:
        """Reserve for an operation that holds a unit from earlier on."""
        self._hold(op, unit, cycle)
        self._held.add(op)
        self.cycle_of[op] = cycle
        self.unit_of[op] = unit
        self._reservation[op] = Reservation((unit,), 1, ())

    def _start(self, op: int, unit: int, row: int) -> None:
        self._rows[row][unit] = op
        self._busy[row] |= self._bits[unit]
        self.unit_of[op] = unit

    def _take(self, op: int, unit: int, cycle: int, reservation: Reservation) -> None:
        row = self._row(cycle)
        self._start(op, unit, row)
        if not reservation.simple:
            for k in range(1, reservation.busy):
                self._hold(op, unit, cycle + k)
            for resource, first, count in reservation.extras:
                for k in range(first, first + count):
                    self._hold(op, resource, cycle + k)
        self._issued[row] += 1
        self.cycle_of[op] = cycle
        self._reservation[op] = reservation

    def _hold(self, op: int, unit: int, cycle: int) -> None:
        row = self._row(cycle)
        self._rows[row][unit] = op
        self._busy[row] |= 1 << unit

    def _free(self, unit: int, row: int) -> None:
        self._rows[row][unit] = _FREE
        self._busy[row] &= ~self._bits[unit]
        for units, rows in self._full.items():
            if rows >> row & 1:
                self._full[units] = rows & ~(1 << row)

    def _unit_free(self, unit: int, cycle: int, busy: int) -> bool:
        if self.interval is not None and busy > self.interval:
            return False
        return not any(self._busy[self._row(cycle + k)] >> unit & 1 for k in range(busy))

    def _extras_free(self, reservation: Reservation, cycle: int) -> bool:
        for resource, first, count in reservation.extras:
            if self.interval is not None and count > self.interval:
                return False
            if any(self._busy[self._row(cycle + k)] >> resource & 1 for k in range(first, first + count)):
                return False
        return True

    def _vacate(self, unit: int, row: int, tried: set[int]) -> bool:
        """Move the operation on `unit` to another of its units in the same row, moving others in turn."""
        holder = self._rows[row][unit]
        reservation = self._reservation[holder]
        if reservation.busy != 1 or self._row(self.cycle_of[holder]) != row or self.unit_of[holder] != unit:
            return False
        for other in reservation.alternatives:
            if other in tried:
                continue
            tried.add(other)
            if not self._busy[row] >> other & 1 or self._vacate(other, row, tried):
                self._rows[row][unit] = _FREE
                self._rows[row][other] = holder
                self._busy[row] = self._busy[row] & ~(1 << unit) | 1 << other
                self.unit_of[holder] = other
                return True
        return False

    def _row(self, cycle: int) -> int:
        if self.interval is not None:
            return cycle % self.interval
        if cycle >= len(self._rows):
            self._grow(cycle + 1)
        return cycle

    def _grow(self, length: int) -> None:
        while len(self._rows) < length:
            self._rows.append([_FREE] * self._width)
            self._busy.append(0)
            self._issued.append(0)


def loop_table(facts: Facts, interval: int, closing: Closing, *, backward: bool = False) -> ReservationTable:
    """A table for an interval in which what ends an iteration has its place: for a branch in the last cycle that is
    early enough; in the first one, if the iteration runs `backward`."""
    table = ReservationTable(facts, interval)
    for number, (before, reservation) in enumerate(closing):
        at = before if backward else interval - 1 - facts.branch_delay - before
        table.pin(_CLOSING - number, at % interval, reservation)
    return table


def table_like(other: ReservationTable, facts: Facts, interval: int) -> ReservationTable:
    """A table in which what ends an iteration has the place it has in another one, and nothing else has one."""
    table = ReservationTable(facts, interval)
    for op, cycle in other.cycle_of.items():
        if op < 0:
            table.take(op, cycle, other.unit_of[op], other.reservation_of(op))
    return table


def resource_bound(reservations: Sequence[Reservation], facts: Facts) -> Fraction:
    """The least cycles per iteration that the units allow: over sets of units, the work that only they can do."""
    return binding_units(reservations, facts)[0]


def binding_units(reservations: Sequence[Reservation], facts: Facts) -> tuple[Fraction, tuple[str, ...]]:
    """The bound of the units, and the fewest units and resources that make it; none where it is the packets' width."""
    return busiest(Counter(reservations), facts)


def busiest(times: Mapping[Reservation, int], facts: Facts) -> tuple[Fraction, tuple[str, ...]]:
    """The least cycles in which the units can do each of these so many times, and what makes it (`binding_units`)."""
    demand: dict[frozenset[int], int] = {}
    extras: dict[int, int] = {}
    for reservation, number in times.items():
        if reservation.alternatives:
            key = frozenset(reservation.alternatives)
            demand[key] = demand.get(key, 0) + number * reservation.busy
        for resource, _, count in reservation.extras:
            extras[resource] = extras.get(resource, 0) + number * count
    unions: dict[frozenset[int], None] = {}
    for key in demand:
        for other in list(unions):
            if len(unions) < 4096:
                unions[other | key] = None
        unions[key] = None
    bound, binding = Fraction(sum(times.values()), facts.issue), frozenset[int]()
    for union in unions:
        rate = Fraction(sum(amount for key, amount in demand.items() if key <= union), len(union))
        if rate > bound or (rate == bound and len(union) < (len(binding) or facts.issue)):
            bound, binding = rate, union
    for limited, most in facts.limits.groups:
        members = frozenset(bits(limited))
        rate = Fraction(sum(n for r, n in times.items() if r.alternatives and members.issuperset(r.alternatives)), most)
        if rate > bound:
            bound, binding = rate, members
    for resource, amount in extras.items():
        if amount > bound:
            bound, binding = Fraction(amount), frozenset((resource,))
    return bound, tuple(facts.unit_names[k] for k in sorted(binding))


def group_bounds(reservations: Sequence[Reservation], facts: Facts) -> tuple[tuple[str, int], ...]:
    """For each group of equal units, the cycles that the work only it can do takes at least."""
    bounds = []
    first = 0
    for unit in facts.target.units:
        members = frozenset(range(first, first + unit.count))
        first += unit.count
        work = sum(r.busy for r in reservations if r.alternatives and members.issuperset(r.alternatives))
        if work:
            bounds.append((unit.name, -(-work // unit.count)))
    return tuple(bounds)
