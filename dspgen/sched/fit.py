"""A block's packets: by list scheduling, and by search where that may have missed the shortest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dspgen.sched.bounds import Bounds, bounds_of
from dspgen.sched.downsets import BUDGET, Found, shortest
from dspgen.sched.exact_straight import proven
from dspgen.sched.facts import Facts
from dspgen.sched.frugal import frugal_order, versions_of
from dspgen.sched.instance import Instance
from dspgen.sched.ir import Method
from dspgen.sched.list_sched import Block, Fitted, heights_of
from dspgen.sched.live import Live
from dspgen.sched.ops import Op
from dspgen.sched.sections import Section

_LARGEST = 400  # operations of a block that is searched


@dataclass(slots=True)
class Searches:
    """What the search may still look at, in operations, over all blocks; and what it found for those seen before."""

    left: int = BUDGET
    known: dict[object, tuple[Found | None, int]] = field(default_factory=dict)
    bounds: dict[object, Bounds] = field(default_factory=dict)


def fit_block(
    ops: Sequence[Op],
    facts: Facts,
    *,
    head: Section | None = None,
    tail: Section | None = None,
    branch: Op | None = None,
    after: Live | None = None,
    frugal: bool = False,
    in_text_order: bool = False,
    method: Method = "dp",
    searches: Searches | None = None,
) -> Fitted:
    """Schedule a block; `branch`, if any, ends it, with its delay slots filled by the rest.

    `after` are the registers read later. `frugal`: within the registers that there are, as far as the order in which
    operations issue can see to it. `in_text_order`: none before the one that the text has before it.
    """
    block = Block(ops, facts, head, tail, branch)
    if in_text_order:
        return block.listed(range(len(ops)), in_order=True)
    heights = heights_of(block)
    if frugal and after is not None:
        order = frugal_order(ops, block.graph, heights, facts, after, _room(facts))
        best = block.listed(order, in_order=True)
    else:
        best = block.listed([-h for h in heights])
    if not ops:
        return best
    searches = searches or Searches()
    instance = block.instance()
    key = instance.key()
    if key not in searches.bounds:
        searches.bounds[key] = bounds_of(instance)
    bounds = searches.bounds[key]
    if best.length > bounds.length and not frugal:
        best = _better(block, bounds, best)
    best.bound = bounds.length
    if method == "list" or best.length <= bounds.length or len(ops) > _LARGEST:
        return best
    if after is not None:
        _limit_registers(instance, ops, facts, after, frugal)
    question = (best.length, instance.key())
    if question not in searches.known:
        found, bound, spent = shortest(instance, bounds, best.length, searches.left // 2)
        searches.left -= spent
        if method == "exact":
            shorter, bound = proven(instance, bounds, bound, found, found.length if found else best.length)
            found = shorter or found
        searches.known[question] = found, bound
    found, bound = searches.known[question]
    if found is not None:
        best = block.placed(found)
    best.bound = bound
    return best


def _better(block: Block, bounds: Bounds, best: Fitted) -> Fitted:
    """By list scheduling with what the units make of each path as urgency; and round ends that stand where a shorter
    block would have them."""
    rank = [-late for late in bounds.latest]
    other = block.listed(rank)
    if other.length < best.length:
        best = other
    low = bounds.length
    while (block.tail is not None or block.head is not None) and low < best.length:
        length = (low + best.length) // 2
        within = block.listed_within(rank, bounds.latest, length)
        if within is None:
            low = length + 1
        else:
            best = within
    return best


def _room(facts: Facts) -> dict[str, int]:
    return {c.name: len(set(c.names) - facts.untouchable) for c in facts.target.registers}


def _limit_registers(instance: Instance, ops: Sequence[Op], facts: Facts, after: Live, frugal: bool) -> None:
    """Give the instance its values and the registers there are, where these could be too few."""
    versions, through = versions_of(ops, facts, after)
    room = {cls: amount - through.get(cls, 0) for cls, amount in _room(facts).items()}
    count: dict[str, int] = {}
    for version in versions:
        count[version.cls] = count.get(version.cls, 0) + 1
    scarce = {cls for cls, amount in count.items() if frugal or 4 * amount > 3 * room[cls]}
    instance.versions = tuple(v for v in versions if v.cls in scarce)
    instance.room = {cls: room[cls] for cls in sorted(scarce)}
