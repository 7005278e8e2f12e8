"""Terms of straight code that are waited for least: where values are waited for longer than any unit is busy, latency
decides, not occupancy."""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from dspgen.rewrite.extract.greedy import tree_costs
from dspgen.rewrite.extract.problem import Choice, CyclicChoice, Problem, restrict

Chosen = dict[int, Choice]


def depth(problem: Problem, chosen: Mapping[int, Choice]) -> int:
    """The latency of the longest path; `chosen` has operands first."""
    found: dict[int, int] = {}
    for number, choice in chosen.items():
        found[number] = choice.implementation.latency + max((found[a] for a in choice.node.args), default=0)
    return max((found[r] for r in problem.roots if r in found), default=0)


def shallow(problem: Problem, chosen: Mapping[int, Choice], limit: int) -> Chosen | None:
    """`chosen`, changed only where its paths are longer than `limit`, or than any term's must be; there the cheapest
    that is early enough. None where no choice is complete, or the cheapest ones contain each other."""
    times = _earliest(problem)
    if any(r not in times for r in problem.roots):
        return None
    limit = max(limit, max((times[r] for r in problem.roots), default=0))
    costs, _ = tree_costs(problem)
    due = dict.fromkeys(problem.roots, limit)
    pick: Chosen = {}
    heap = [(-limit, r) for r in due]
    while heap:
        late, number = heapq.heappop(heap)
        if -late != due[number]:
            continue
        ways = [c for c in problem.choices[number] if _in_time(c, times, due[number])]
        own = chosen.get(number)
        choice = own if own in ways else min(ways, key=lambda c: c.cost + sum(costs[a] for a in c.node.args))
        pick[number] = choice
        before = due[number] - choice.implementation.latency
        for arg in choice.node.args:
            if before < due.get(arg, before + 1):
                due[arg] = before
                heapq.heappush(heap, (-before, arg))
    try:
        return restrict(pick, problem.roots)
    except CyclicChoice:
        return None


def _in_time(choice: Choice, times: Mapping[int, int], due: int) -> bool:
    begin = due - choice.implementation.latency
    return begin >= 0 and all(times.get(a, due + 1) <= begin for a in choice.node.args)


def _earliest(problem: Problem) -> dict[int, int]:
    """For each class the latency of the longest path of its shallowest term."""
    times: dict[int, int] = {}
    changed = True
    while changed:
        changed = False
        for number, found in problem.choices.items():
            least = times.get(number)
            for choice in found:
                now = 0
                for arg in choice.node.args:
                    if arg not in times:
                        break
                    now = max(now, times[arg])
                else:
                    now += choice.implementation.latency
                    if least is None or now < least:
                        least = times[number] = now
                        changed = True
    return times
