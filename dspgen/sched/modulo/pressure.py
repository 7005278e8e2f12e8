"""How long the values of a scheduled loop body wait, and how many registers that takes."""

from __future__ import annotations

from collections.abc import Mapping

from dspgen.sched.graph.synthesized_instrs import Kit
from dspgen.sched.graph.values import Values
from dspgen.sched.machine.target_facts import Facts
from dspgen.sched.modulo.modulo_expansion import Body, live_ranges


def lifetimes(values: Values, interval: int) -> list[tuple[int, int, list[tuple[int, int]]]]:
    """Written values with all their reads, those of the next iteration included."""
    found: dict[int, tuple[int, int, list[tuple[int, int]]]] = {}
    for index, version in enumerate(values.versions):
        if version.writer >= 0:
            found[index] = (version.writer, version.latency, [])
    for index, version in enumerate(values.versions):
        if version.writer >= 0:
            found[index][2].extend(version.readers)
        elif index in values.inherited and values.inherited[index] in found:
            found[values.inherited[index]][2].extend((r, c + interval) for r, c in version.readers)
    return list(found.values())


def register_excess(
    body: Body, facts: Facts, kit: Kit, through: Mapping[str, int], trip: int | None
) -> tuple[str, str, int] | None:
    """The class of which the kernel needs more registers than there are, if it does, how many in words, and how many
    it lacks: the most that are live in any cycle count."""
    interval = body.schedule.interval
    live: dict[str, list[int]] = {}
    conditions = {op.predicate.register: op.predicate.lane for op in body.ops if op.predicate is not None}
    # One predicate register is the loop counter's.
    held = {False: [1] * interval, True: [0] * interval}
    for web, ranges in zip(body.values.webs, live_ranges(body, facts), strict=True):
        base = facts.counted_as(web.register.cls)
        rows = [live.setdefault(base, [through.get(base, 0)] * interval)]
        if web.register in conditions:
            rows.append(held[conditions[web.register]])
        for low, high in ranges.values():
            whole, part = divmod(interval if web.fixed or web.invariant else high - low + 1, interval)
            if trip is not None and whole >= trip:
                whole, part = trip, 0
            for row in rows:
                for cycle in range(interval) if whole else ():
                    row[cycle] += whole
                for cycle in range(low, low + part):
                    row[cycle % interval] += 1
    for lane, names in ((False, facts.target.predicates.scalar), (True, facts.target.predicates.lane)):
        if max(held[lane]) > len(names):
            return (
                "",
                f"{max(held[lane])} predicate registers needed, {len(names)} available",
                max(held[lane]) - len(names),
            )
    for group in body.groups:
        base = group.base.cls
        row = live.setdefault(base, [through.get(base, 0)] * interval)
        for cycle in range(interval):
            row[cycle] += 1
    steps = {g.step_register for g in body.groups if g.step_register is not None}
    for register in sorted(steps | {r for g in body.groups for _, r, _ in g.guests}):
        row = live.setdefault(register.cls, [through.get(register.cls, 0)] * interval)
        for cycle in range(interval):
            row[cycle] += 1
    for cls, row in sorted(live.items()):
        room = kit.room(cls)
        if max(row) > room:
            return cls, f"{max(row)} registers of class {cls} needed, {room} available", max(row) - room
    return None
