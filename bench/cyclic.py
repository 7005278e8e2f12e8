"""Random loop bodies with cycles of dependences: how many heuristics schedule at the least interval, proven.

python bench/cyclic.py [COUNT]: so many (300), for the figures in docs/scheduler.md.
"""

from __future__ import annotations

import itertools
import sys

from dspgen.sched.loops.loop_body import HEURISTICS
from dspgen.sched.machine.modulo_schedule import ModuloSchedule
from dspgen.sched.machine.target_facts import Facts
from dspgen.sched.modulo.exact import exact_modulo_schedule
from dspgen.target.load import load_target
from tests.support.cyclic_graphs import CyclicGraph, cyclic_graph

COUNT = 300


def least_found(body: CyclicGraph, facts: Facts) -> int:
    for interval in itertools.count(body.least):
        found = (find(body.graph, body.reservations, facts, interval) for find in HEURISTICS)
        if any(isinstance(f, ModuloSchedule) for f in found):
            return interval
    raise AssertionError


def gap(body: CyclicGraph, facts: Facts) -> tuple[int, bool]:
    """By how much the interval that is found is longer than the first that is not refuted, and whether there is one
    there."""
    found = least_found(body, facts)
    for interval in range(body.least, found):
        verdict = exact_modulo_schedule(body.graph, body.reservations, facts, interval)
        if verdict != "infeasible":
            return found - interval, isinstance(verdict, ModuloSchedule)
    return 0, True


def main() -> None:
    count = next((int(a) for a in sys.argv[1:] if a.isdigit()), COUNT)
    facts = Facts(load_target("ft_m7002"))
    gaps = {seed: gap(cyclic_graph(facts, seed), facts) for seed in range(count)}
    missed = {seed: found for seed, found in gaps.items() if found[0]}
    for seed, (longer, sure) in missed.items():
        print(f"seed {seed}: {longer} longer than {'the least' if sure else 'what is refuted'}")
    print(f"{count - len(missed)} of {count} have the least interval")


if __name__ == "__main__":
    main()
