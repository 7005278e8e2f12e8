"""Straight code by constraint programming (OR-Tools' CP-SAT): the shortest packets, with a proof or a bound.

One worker and a deterministic clock: the same input always gets as far. Units of equal operations are one cumulative
resource for each set of units that some operations must share, which by Hall's theorem is exact where each operation
takes one unit for one cycle; other operations choose among their units by optional intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dspgen.sched.machine.group_limits import bits
from dspgen.sched.machine.solver_process import apart
from dspgen.sched.straight.bounds import MOST_SETS, Bounds, unit_sets
from dspgen.sched.straight.downsets import Found
from dspgen.sched.straight.instance import Instance
from dspgen.sched.straight.issue_groups import Kinds

EFFORT = 10.0  # in the solver's deterministic seconds
LARGEST = 300  # operations


def proven(
    instance: Instance, bounds: Bounds, lower: int, best: Found | None, upper: int, effort: float = EFFORT
) -> tuple[Found | None, int]:
    """A schedule shorter than `upper`, if there is one and it is found, and a length below which there is none.

    `best` is a schedule of length `upper`, to start from. Raises ModuleNotFoundError without OR-Tools.
    """
    if lower >= upper or instance.size > LARGEST:
        return None, lower
    return apart(solved, instance, bounds, lower, best, upper, effort)


def solved(
    instance: Instance, bounds: Bounds, lower: int, best: Found | None, upper: int, effort: float
) -> tuple[Found | None, int]:
    """The same as `proven`, in this process."""
    from ortools.sat.python import cp_model

    model = _Model(cp_model, instance, bounds, lower, upper - 1)
    if best is not None:
        for start, cycle in zip(model.starts, best.cycles, strict=True):
            model.model.add_hint(start, cycle)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = effort
    status = solver.solve(model.model)
    if status == cp_model.INFEASIBLE:
        return None, upper
    bound = max(lower, min(upper, round(solver.best_objective_bound)))
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, bound
    return model.found(solver), bound


class _Model:
    def __init__(self, cp_model: Any, instance: Instance, bounds: Bounds, lower: int, upper: int) -> None:
        self.instance, self.bounds, self.upper = instance, bounds, upper
        self.kinds = Kinds(instance)
        self.model = model = cp_model.CpModel()
        self.length = model.new_int_var(lower, upper, "length")
        self.starts = [
            model.new_int_var(bounds.earliest[k], upper - bounds.latest[k], f"t{k}")
            if bounds.earliest[k] <= upper - bounds.latest[k]
            else model.new_int_var_from_domain(cp_model.Domain.from_values([]), f"t{k}")
            for k in range(instance.size)
        ]
        for k, start in enumerate(self.starts):
            for t, latency in instance.successors[k]:
                model.add(self.starts[t] >= start + latency)
            if k == instance.pinned:
                model.add(start == self.length - instance.slack[k])
            else:
                model.add(start <= self.length - bounds.latest[k])
        self.chosen: dict[int, dict[int, Any]] = {}  # for some operations, whether each unit is the one taken
        self._units()
        self._issue()
        self._registers()
        model.minimize(self.length)

    def _ends(self, mask: int) -> list[Any]:
        """Intervals in which the block's ends take units of a mask, one for each unit and cycle."""
        fixed = []
        for table, at_end in ((self.instance.before, False), (self.instance.behind, True)):
            for cycle, taken in enumerate(table):
                for unit in bits(taken & mask):
                    start = self.length - cycle if at_end else cycle
                    fixed.append(self.model.new_fixed_size_interval_var(start, 1, f"end{unit}.{at_end}.{cycle}"))
        return fixed

    def _units(self) -> None:
        instance, model, kinds = self.instance, self.model, self.kinds
        sets = unit_sets(instance)
        apart = _told_apart(instance, kinds) if len(sets) < MOST_SETS else set(range(len(kinds.reservations)))
        for units in sets:
            if not units.mask:
                continue
            intervals = self._ends(units.mask)
            for k, (first, count) in _spans(units.work).items():
                intervals.append(model.new_fixed_size_interval_var(self.starts[k] + first, count, f"u{units.mask}.{k}"))
            model.add_cumulative(intervals, [1] * len(intervals), units.count)
        on_unit: dict[int, list[Any]] = {}
        for k, start in enumerate(self.starts):
            reservation = instance.reservations[k]
            if kinds.of[k] not in apart or not reservation.alternatives:
                continue
            chosen = self.chosen[k] = {u: model.new_bool_var(f"on{k}.{u}") for u in reservation.alternatives}
            model.add_exactly_one(chosen.values())
            for unit, present in chosen.items():
                interval = model.new_optional_fixed_size_interval_var(start, reservation.busy, present, f"i{k}.{unit}")
                on_unit.setdefault(unit, []).append(interval)
        for unit, intervals in on_unit.items():
            model.add_no_overlap([*intervals, *self._ends(1 << unit)])
        for limited, most in instance.limits.groups:
            intervals = self._ends(limited << instance.limits.shift)
            demands = [1] * len(intervals)
            for k, start in enumerate(self.starts):
                own = bits(kinds.units[kinds.of[k]] & limited)
                weights = [instance.limits.weight(unit, limited) for unit in own]
                if not kinds.units[kinds.of[k]] & ~limited and len({*weights}) == 1:
                    intervals.append(model.new_fixed_size_interval_var(start, 1, f"start{limited}.{k}"))
                    demands.append(weights[0])
                    continue
                for unit in own:
                    present = self.chosen[k][unit]
                    name = f"start{limited}.{k}.{unit}"
                    intervals.append(model.new_optional_fixed_size_interval_var(start, 1, present, name))
                demands += weights
            model.add_cumulative(intervals, demands, most)

    def _issue(self) -> None:
        instance, model = self.instance, self.model
        if not instance.few_slots:
            return
        intervals = [model.new_fixed_size_interval_var(s, 1, f"issue{k}") for k, s in enumerate(self.starts)]
        demands = [1] * len(intervals)
        for counts, at_end in ((instance.before_issued, False), (instance.behind_issued, True)):
            for cycle, count in enumerate(counts):
                if count:
                    start = self.length - cycle if at_end else cycle
                    intervals.append(model.new_fixed_size_interval_var(start, 1, f"issued{at_end}.{cycle}"))
                    demands.append(count)
        model.add_cumulative(intervals, demands, instance.issue)

    def _registers(self) -> None:
        instance, model = self.instance, self.model
        occupied: dict[str, list[Any]] = {}
        for v, version in enumerate(instance.versions):
            start: Any = 0 if version.writer < 0 else self.starts[version.writer] + version.landing
            size = model.new_int_var(1, self.upper + 1, f"size{v}")
            end = model.new_int_var(0, 2 * self.upper + 2, f"end{v}")
            for k in bits(version.readers):
                model.add(end >= self.starts[k] + 1)
            if version.outlives:
                model.add(end >= self.length)
            occupied.setdefault(version.cls, []).append(model.new_interval_var(start, size, end, f"v{v}"))
        for cls, intervals in occupied.items():
            model.add_cumulative(intervals, [1] * len(intervals), instance.room[cls])

    def found(self, solver: Any) -> Found:
        """The schedule of a solution, with units: those chosen, and of equal ones any that are free."""
        instance, kinds = self.instance, self.kinds
        cycles = [solver.value(start) for start in self.starts]
        units = [0] * instance.size
        length = solver.value(self.length)
        taken = instance.taken(length)
        assert taken is not None
        masks = [*taken[0], *[0] * (kinds.longest + 1)]
        for k, chosen in self.chosen.items():
            units[k] = next(u for u, present in chosen.items() if solver.value(present))
            _take(masks, kinds, k, cycles[k], units[k])
        rest = [k for k in range(instance.size) if k not in self.chosen]
        for cycle in sorted({cycles[k] for k in rest}):
            here = [k for k in rest if cycles[k] == cycle]
            matched = kinds.matched(tuple(kinds.usable(kinds.of[k], masks, cycle) for k in here), masks[cycle])
            assert matched is not None
            for k, unit in zip(here, matched, strict=True):
                units[k] = unit
                _take(masks, kinds, k, cycle, unit)
        return Found(cycles, units, length)


def _take(masks: list[int], kinds: Kinds, k: int, cycle: int, unit: int) -> None:
    masks[cycle] |= kinds.limits.start(unit)
    for at, mask in kinds.footprint(kinds.of[k], unit):
        masks[cycle + at] |= mask


def _told_apart(instance: Instance, kinds: Kinds) -> set[int]:
    """Kinds whose units have to be chosen: some operation of the same part holds a unit for longer than a cycle, and
    not all have the same units, all of them free at the block's ends; or some of its units count for a limit of
    packets, and others don't."""
    ends = 0
    for mask in (*instance.before, *instance.behind):
        ends |= mask
    found: set[int] = set()
    for part in set(kinds.part):
        members = [k for k, p in enumerate(kinds.part) if p == part]
        lasting = any(kinds.reservations[k].busy > 1 for k in members)
        alike = len({kinds.units[k] for k in members}) == 1 and not ends & kinds.units[members[0]]
        if (lasting and not alike) or any(instance.limits.divide(kinds.units[k]) for k in members):
            found.update(members)
    return found


def _spans(work: Sequence[tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """Of each operation, the first cycle after its issue and how many."""
    found: dict[int, tuple[int, int]] = {}
    for k, at in work:
        first, count = found.get(k, (at, 0))
        found[k] = min(first, at), count + 1
    return found
