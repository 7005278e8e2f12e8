"""Intervals that are refuted by units and dependences together: what must go between two operations takes its units
for a while, and so keeps these two apart, round a cycle of dependences for longer than the interval.

The bound for one pair is that of energetic reasoning (P. Baptiste, C. Le Pape, W. Nuijten, "Constraint-Based
Scheduling", 2001, chapter 3), on the distances that an interval asks for at least.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dspgen.sched.graph.dependence_graph import Graph
from dspgen.sched.machine.target_facts import Reservation
from dspgen.sched.modulo.slack import least_distances

_MOST = 96  # operations on cycles of dependences
_ROUNDS = 3
_WIDTHS = (0, 2, 4, 8, 16)  # how much more room than the tightest one those between two operations may have
_FAR = 1 << 18


def no_room(graph: Graph, reservations: Sequence[Reservation], interval: int) -> bool:
    """Whether it is proven that there is no schedule at this interval, whatever the registers."""
    reach = least_distances(graph, interval)
    if reach is None:
        return True
    mutual = (reach > -_FAR) & (reach.T > -_FAR)
    np.fill_diagonal(mutual, False)
    cyclic = np.flatnonzero(mutual.any(axis=0))
    if not 0 < len(cyclic) <= _MOST:
        return False
    reach, reservations = reach[np.ix_(cyclic, cyclic)], [reservations[k] for k in cyclic.tolist()]
    for _ in range(_ROUNDS):
        before = reach.copy()
        for units in sorted({r.alternatives for r in reservations}):
            members = [k for k, r in enumerate(reservations) if units and set(r.alternatives) <= set(units)]
            if len(members) > len(units):
                busy = np.array([reservations[k].busy for k in members])
                _keep_apart(reach, np.array(members), busy, len(units))
        for k in range(len(cyclic)):
            np.maximum(reach, reach[:, k : k + 1] + reach[k : k + 1, :], out=reach)
        if (np.diagonal(reach) > 0).any():
            return True
        if (reach == before).all():
            return False
    return False


def _keep_apart(reach: np.ndarray, members: np.ndarray, busy: np.ndarray, units: int) -> None:
    """Raise the distances between all pairs by what `members` take of their units between the two."""
    onward = reach[members, :]
    columns = np.arange(reach.shape[0])[None, :]
    for source in range(reach.shape[0]):
        after = np.broadcast_to(reach[source, members][:, None], onward.shape)
        between = (after > -_FAR) & (onward > -_FAR) & (members[:, None] != source) & (members[:, None] != columns)
        through = np.where(between, after + onward, -4 * _FAR)
        tightest = through.max(axis=0)
        for width in _WIDTHS:
            chosen = between & (through >= tightest - width)
            work = (busy[:, None] * chosen).sum(axis=0)
            longest = (busy[:, None] * chosen).max(axis=0, initial=0)
            first = np.where(chosen, after, 4 * _FAR).min(axis=0)
            last = np.where(chosen, onward, 4 * _FAR).min(axis=0)
            # The last of them to issue does so when all others have had their time, but for its own.
            apart = first + -(-work // units) - longest + last
            np.maximum(reach[source], np.where(work > 0, apart, -4 * _FAR), out=reach[source])
