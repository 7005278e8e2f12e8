"""Straight code by dynamic programming over the downsets of its dependence graph.

    state       what has issued (a downset), the earliest cycle of each operation left, units taken from this cycle on,
                values in registers and on their way to them
    transition  one packet: a group of ready operations to which none can be added
    question    is there a schedule of this length? asked of lengths between a lower bound and what a list gives

The states of a cycle make the next cycle's. Of two that have issued the same, one goes where the other is nowhere
later (Pareto dominance); and a state goes where the paths or the units make it too late. What is left is cut to a beam,
which is widened as long as the budget, counted in operations looked at, lasts: without a cut the answer is a proof.

The formulation is our own. Deng et al. ("dynamic programming scheduling" of FT-Matrix code, public in abstract only)
name the method; its nearest relatives are Held and Karp's states over subsets, the downset ("ideal") states of
Mohring's order-theoretic scheduling, and the one-cycle-at-a-time branch and bound of Heffernan, Wilken and Liu
("Data-dependency graph transformations for superblock scheduling", 2006).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dspgen.sched.straight.bounds import Bounds, UnitSet, feasible, longest_paths
from dspgen.sched.straight.instance import Instance
from dspgen.sched.straight.issue_groups import Chooser, Group, Kinds

BUDGET = 1_000_000  # operations looked at
_WIDTHS = ((1, 1), (4, 2), (24, 4), (120, 8), (600, 12), (3000, 24))  # states of a cycle, groups of one part
_DEAR = [4096 // (slack + 1) ** 2 for slack in range(64)]


@dataclass(slots=True)
class Found:
    """Cycle and unit of each operation."""

    cycles: list[int]
    units: list[int]
    length: int


@dataclass(slots=True, eq=False)
class _State:
    done: int
    earliest: list[int]
    held: tuple[int, ...]  # taken this cycle, the next, ...
    late: tuple[tuple[int, int], ...]  # deadlines that operations issued before their predecessors brought
    live: tuple[int, ...]  # registers of each class
    flying: tuple[tuple[int, int], ...]  # landing cycle and value
    cost: int
    parent: _State | None
    group: Group


def shortest(instance: Instance, bounds: Bounds, upper: int, budget: int = BUDGET) -> tuple[Found | None, int, int]:
    """The shortest schedule below `upper` that is found, a length below which there is none, and the budget spent."""
    search = _Search(instance, bounds, budget)
    best: Found | None = None
    lower = bounds.length
    for width, fan in _WIDTHS:
        low = lower
        while low < upper:
            # A wide gap is halved, a narrow one tried from below, where the answer mostly lies.
            length = low if upper - low <= 4 or low == lower else (low + upper) // 2
            found, complete = search.at(length, width, fan)
            if found is not None:
                best, upper = found, length
                continue
            if complete and length == lower:
                lower += 1
            low = length + 1
            if search.left <= 0:
                break
        if lower >= upper or search.left <= 0:
            break
    return best, lower if search.proves else bounds.length, budget - search.left


class _Search:
    def __init__(self, instance: Instance, bounds: Bounds, budget: int) -> None:
        self.instance, self.bounds, self.left = instance, bounds, budget
        size = instance.size
        self.everything = (1 << size) - 1
        self.kinds = Kinds(instance)
        self.hard = [0] * size  # predecessors that must have issued
        self.soft = [0] * size  # those that may issue in the same cycle or later
        for k in range(size):
            for s, latency in instance.predecessors[k]:
                if latency > 0:
                    self.hard[k] |= 1 << s
                else:
                    self.soft[k] |= 1 << s
        self.paths = longest_paths(instance) if any(self.soft) else []
        self.registers = _Registers(instance) if instance.versions else None
        above = [0] * size if self.registers is not None else self._above()
        # An operation that takes more than one unit for one cycle may be in the way of others: it need not issue as
        # soon as it could. Which of its units it takes is not varied.
        self.lasting = sum(1 << k for k in range(size) if not self.kinds.simple[self.kinds.of[k]])
        self.proves = self.registers is None and not self.lasting
        self.chooser = Chooser(self.kinds, above, instance.issue)

    def _above(self) -> list[int]:
        """For each operation those of its kind that every successor wants at least as urgently."""
        instance = self.instance
        size = instance.size
        entangled = 0
        for k in range(size):
            if self.soft[k]:
                entangled |= self.soft[k] | 1 << k
        wants = [dict(edges) for edges in instance.successors]
        above = [0] * size
        for k in range(size):
            if entangled >> k & 1 or k == instance.pinned:
                continue
            for other in range(size):
                if other == k or self.kinds.of[other] != self.kinds.of[k] or entangled >> other & 1:
                    continue
                if other == instance.pinned or instance.slack[other] < instance.slack[k]:
                    continue
                theirs = wants[other]
                if all(theirs.get(t, -1 << 30) >= latency for t, latency in wants[k].items()):
                    if other < k or instance.slack[other] > instance.slack[k] or theirs != wants[k]:
                        above[k] |= 1 << other
        return above

    def at(self, length: int, width: int, fan: int) -> tuple[Found | None, bool]:
        """A schedule of this length; else whether it is certain that there is none."""
        instance, bounds = self.instance, self.bounds
        earliest = list(bounds.earliest)
        if instance.pinned >= 0:
            earliest[instance.pinned] = length - instance.slack[instance.pinned]
        taken = instance.taken(length)
        if taken is None or not feasible(instance, bounds.sets, earliest, bounds.latest, length):
            return None, True
        span = [0] * (self.kinds.longest + 1)
        masks, issued = [*taken[0], *span], [*taken[1], *span]
        deadline = [length - late for late in bounds.latest]
        demands = _demands(instance, bounds.sets, deadline, masks, issued, length)
        live, flying = self.registers.start() if self.registers is not None else ((), ())
        layer = [_State(0, earliest, (0,) * self.kinds.longest, (), live, flying, 0, None, ())]
        complete = True
        for cycle in range(length):
            if not self.everything:
                break
            children: dict[int, list[_State]] = {}
            for state in layer:
                made, all_made = self._expand(state, cycle, fan, deadline, masks, issued[cycle], demands)
                complete = complete and all_made
                for child in made:
                    if child.done == self.everything:
                        return self._found(child, cycle, length), True
                    _keep(children.setdefault(child.done, []), child)
            layer = [state for some in children.values() for state in some]
            if len(layer) > width:
                complete = False
                layer.sort(key=lambda s: s.cost)
                del layer[width:]
            if not layer or self.left <= 0:
                return None, complete and self.left > 0
        return None, complete

    def _expand(
        self,
        state: _State,
        cycle: int,
        fan: int,
        deadline: list[int],
        masks: list[int],
        issued: int,
        demands: Sequence[tuple[int, int, list[int]]],
    ) -> tuple[list[_State], bool]:
        if state.late:
            deadline = list(deadline)
            for k, last in state.late:
                deadline[k] = min(deadline[k], last)
        rest = self.everything & ~state.done
        ready: list[int] = []
        forced, optional = 0, self.lasting
        earliest = state.earliest
        walk = rest
        while walk:
            low = walk & -walk
            walk ^= low
            k = low.bit_length() - 1
            if earliest[k] <= cycle and not self.hard[k] & rest:
                ready.append(k)
                if deadline[k] <= cycle:
                    forced |= low
                if self.soft[k] & rest:
                    optional |= low
        ready.sort(key=lambda k: deadline[k])
        held = [mask | more for mask, more in zip(masks[cycle:], state.held, strict=False)]
        registers = self.registers
        if registers is not None:
            optional |= registers.crowding(state.live, state.flying, ready)
        groups, complete = (
            self.chooser.groups(ready, forced, optional, held, 0, self.instance.issue - issued, fan)
            if ready
            else ([()], True)
        )
        self.left -= rest.bit_count() * max(len(groups), 1)
        made = []
        for group in groups:
            child = self._child(state, group, cycle, deadline, demands, rest)
            if child is not None:
                made.append(child)
        return made, complete

    def _child(
        self,
        state: _State,
        group: Group,
        cycle: int,
        deadline: list[int],
        demands: Sequence[tuple[int, int, list[int]]],
        rest: int,
    ) -> _State | None:
        instance = self.instance
        earliest = list(state.earliest)
        issued = 0
        for k, _ in group:
            issued |= 1 << k
        done = state.done | issued
        rest &= ~issued
        late = state.late
        for k, _ in group:
            for t, latency in instance.successors[k]:
                if cycle + latency > earliest[t]:
                    earliest[t] = cycle + latency
            if self.soft[k] & rest:
                late = self._with_deadlines(late, k, cycle, rest)
        if late is not state.late:
            deadline = list(deadline)
            for k, last in late:
                deadline[k] = min(deadline[k], last)
        for mask, weight, room in demands:
            if (mask & rest).bit_count() * weight > room[cycle]:
                return None
        cost = 0
        following = cycle + 1
        walk = rest
        while walk:
            low = walk & -walk
            walk ^= low
            k = low.bit_length() - 1
            at = earliest[k]
            if at < following:
                at = earliest[k] = following
            slack = deadline[k] - at
            if slack < 64:
                if slack < 0:
                    return None
                cost += _DEAR[slack]
        held = state.held[1:] + (0,)
        for k, unit in group:
            kind = self.kinds.of[k]
            if not self.kinds.simple[kind]:
                masks = list(held)
                for at, mask in self.kinds.footprint(kind, unit):
                    if at:
                        masks[at - 1] |= mask
                held = tuple(masks)
        live, flying = state.live, state.flying
        if self.registers is not None:
            after = self.registers.after(state.live, state.flying, done, group, cycle)
            if after is None:
                return None
            live, flying = after
        if late:
            late = tuple((k, last) for k, last in late if rest >> k & 1)
        return _State(done, earliest, held, late, live, flying, cost, state, group)

    def _with_deadlines(
        self, late: tuple[tuple[int, int], ...], k: int, cycle: int, rest: int
    ) -> tuple[tuple[int, int], ...]:
        """Operations left that `k`, issued before them, must not be far behind."""
        found = dict(late)
        for s, latency in self.instance.predecessors[k]:
            if not rest >> s & 1:
                continue
            last = cycle - latency
            found[s] = min(found.get(s, last), last)
            for before in range(s):
                path = self.paths[before][s]
                if rest >> before & 1 and path > -(1 << 29):
                    found[before] = min(found.get(before, last - path), last - path)
        return tuple(sorted(found.items()))

    def _found(self, state: _State, cycle: int, length: int) -> Found:
        cycles = [0] * self.instance.size
        units = [0] * self.instance.size
        step: _State | None = state
        while step is not None and step.parent is not None:
            for k, unit in step.group:
                cycles[k], units[k] = cycle, unit
            cycle -= 1
            step = step.parent
        return Found(cycles, units, length)


def _keep(kept: list[_State], new: _State) -> None:
    """Add a state to those that have issued the same, unless one of them is nowhere worse; those go that are."""
    for old in kept:
        if _dominates(old, new):
            return
    if kept:
        kept[:] = [old for old in kept if not _dominates(new, old)]
    kept.append(new)


def _dominates(a: _State, b: _State) -> bool:
    if a.cost > b.cost and not (a.late or b.late):
        return False
    if a.late != b.late and not set(a.late) <= set(b.late):
        return False
    if a.live != b.live or a.flying != b.flying:
        return False
    if any(x & ~y for x, y in zip(a.held, b.held, strict=True)):
        return False
    rest = ~a.done
    return all(x <= y for k, (x, y) in enumerate(zip(a.earliest, b.earliest, strict=True)) if rest >> k & 1)


def _demands(
    instance: Instance,
    sets: Sequence[UnitSet],
    deadline: Sequence[int],
    masks: Sequence[int],
    issued: Sequence[int],
    length: int,
) -> list[tuple[int, int, list[int]]]:
    """(operations, what each takes, what there is after each cycle): work that must be done by some cycle."""
    found: list[tuple[int, int, list[int]]] = []
    for units in sets:
        pieces: dict[int, list[int]] = {}
        for k, at in units.work:
            pieces.setdefault(k, []).append(at)
        free = [
            units.count - ((m & units.mask).bit_count() if units.mask else n)
            for m, n in zip(masks, issued, strict=False)
        ]
        for weight in sorted({len(p) for p in pieces.values()}):
            ends: dict[int, int] = {}
            for k, offsets in pieces.items():
                if len(offsets) >= weight:
                    end = deadline[k] + sorted(offsets)[weight - 1]
                    ends[end] = ends.get(end, 0) | 1 << k
            mask = 0
            for end in sorted(ends):
                mask |= ends[end]
                total = sum(free[: end + 1])
                # Only where all slots but a few are needed can a choice of packets be wrong.
                room = []
                for cycle in range(length):
                    total -= free[cycle] if cycle <= end else 0
                    room.append(total)
                if mask.bit_count() > 1:
                    found.append((mask, weight, room))
    return found


class _Registers:
    """Registers in use, cycle by cycle: a value from its landing to the cycle of its last read."""

    def __init__(self, instance: Instance) -> None:
        self.versions = instance.versions
        self.classes = sorted({v.cls for v in instance.versions})
        number = {cls: k for k, cls in enumerate(self.classes)}
        self.cls = [number[v.cls] for v in instance.versions]
        self.room = [instance.room[cls] for cls in self.classes]
        self.written: list[list[int]] = [[] for _ in range(instance.size)]
        self.read: list[list[int]] = [[] for _ in range(instance.size)]
        for v, version in enumerate(instance.versions):
            if version.writer >= 0:
                self.written[version.writer].append(v)
            for k in range(instance.size):
                if version.readers >> k & 1:
                    self.read[k].append(v)

    def start(self) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
        live = [0] * len(self.classes)
        for v, version in enumerate(self.versions):
            if version.writer < 0:
                live[self.cls[v]] += 1
        return tuple(live), ()

    def crowding(self, live: tuple[int, ...], flying: tuple[tuple[int, int], ...], ready: Sequence[int]) -> int:
        """Ready operations that write to a class of which few registers are left."""
        used = list(live)
        for _, v in flying:
            used[self.cls[v]] += 1
        found = 0
        for k in ready:
            if any(4 * used[self.cls[v]] >= 3 * self.room[self.cls[v]] for v in self.written[k]):
                found |= 1 << k
        return found

    def after(
        self,
        live: tuple[int, ...],
        flying: tuple[tuple[int, int], ...],
        done: int,
        group: Group,
        cycle: int,
    ) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]] | None:
        """After a packet: None where, in the next cycle, more registers would be in use than there are."""
        used = list(live)
        ended: dict[int, None] = {}
        for k, _ in group:
            for v in self.read[k]:
                version = self.versions[v]
                if not version.outlives and not version.readers & ~done:
                    ended[v] = None
        in_flight = {v for _, v in flying}
        for v in ended:
            if v not in in_flight:
                used[self.cls[v]] -= 1
        landing = [(at, v) for at, v in flying if v not in ended]
        for k, _ in group:
            for v in self.written[k]:
                landing.append((cycle + self.versions[v].landing, v))
        still = []
        for at, v in landing:
            if at <= cycle + 1:
                used[self.cls[v]] += 1
            else:
                still.append((at, v))
        if any(u > room for u, room in zip(used, self.room, strict=True)):
            return None
        # A value that nobody reads is in the way for the one cycle of its landing.
        for at, v in landing:
            if at <= cycle + 1 and not self.versions[v].outlives and not self.versions[v].readers:
                used[self.cls[v]] -= 1
        return tuple(used), tuple(sorted(still))
