"""Lanes whose vectors take turns, for arrays of elements that are narrower than a lane."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from dspgen.tiling.cost.unit_pressure import Machine
from dspgen.tiling.loops.lane_loops import Allowed, Lane
from dspgen.tiling.loops.loop_nests import CompInfo, Nest


def in_turns(
    nest: Nest, choices: Iterable[dict[str, Lane]], machine: Machine, allowed: Allowed
) -> Iterator[dict[str, Lane]]:
    """The choices of lanes, with as many vectors in turns as the narrowest elements want that lie side by side: where
    the machine has no other vector access to these, and dependences allow it."""
    for lanes in choices:
        yield _dealt(nest, lanes, machine, allowed) or lanes


def _dealt(nest: Nest, lanes: dict[str, Lane], machine: Machine, allowed: Allowed) -> dict[str, Lane] | None:
    comps = {c.comp.name: c for c in nest.comps}
    deal = max((_deal(comps[name], lane, machine) for name, lane in lanes.items()), default=1)
    fine = all(lane.plain and comps[name].loop(lane.iterator).free for name, lane in lanes.items())
    if deal == 1 or not fine:
        return None
    found: dict[str, Lane] = {}
    for name, lane in lanes.items():
        dealt = allowed(comps[name], replace(lane, deal=deal))
        if dealt is None:
            return None
        found[name] = dealt
    return found


def _deal(comp: CompInfo, lane: Lane, machine: Machine) -> int:
    along = [a for a in comp.accesses if lane.iterator not in a.varies and a.coefficient(lane.iterator) == 1]
    return max((machine.turns.takes(a.elem, store=a.write) for a in along), default=1)
