"""A block's packets: by list scheduling, and by search where that may have missed the shortest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

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
from dspgen.sched.serial import serial_edges

_LARGEST = 400  # operations of a block that is searched


@dataclass(slots=True)
class Searches:
    """What the search may still look at, in operations, over all blocks; and what it found for those seen before."""

    left: int = BUDGET
    known: dict[object, tuple[Found | None, Found | None, int]] = field(default_factory=dict)
    bounds: dict[object, Bounds] = field(default_factory=dict)

    def bounds_of(self, instance: Instance) -> Bounds:
        key = instance.dependences()
        if key not in self.bounds:
            self.bounds[key] = bounds_of(instance)
        return self.bounds[key]


def fit_block(
    ops: Sequence[Op],
    facts: Facts,
    *,
    head: Section | None = None,
    tail: Section | None = None,
    branch: Op | None = None,
    after: Live | None = None,
    without: Mapping[str, int] | None = None,
    in_text_order: bool = False,
    method: Method = "dp",
    searches: Searches | None = None,
) -> Fitted:
    """Schedule a block; `branch`, if any, ends it, with its delay slots filled by the rest.

    `after` are the registers read later. `without`: registers of each class that it must do without, where those there
    are did not suffice. `in_text_order`: none before the one that the text has before it.
    """
    block = Block(ops, facts, head, tail, branch)
    if in_text_order:
        return block.listed(range(len(ops)), in_order=True)
    heights = heights_of(block)
    first = block.listed([-h for h in heights])
    if not ops:
        return first
    searches = searches or Searches()
    instance = block.instance()
    bounds = searches.bounds_of(instance)
    if after is not None:
        _limit_registers(instance, ops, facts, after, without)
    best = _Best(instance, bounds.length, first)
    best.offer(chain([first], _others(block, bounds, first.length)))
    searched, order = block, list(range(len(ops)))
    if after is not None and best.scarce:
        position = frugal_order(ops, block.graph, heights, facts, after, _room(facts, without))
        order.sort(key=position.__getitem__)
        kept: set[str] = set()
        while more := best.scarce - kept:
            kept |= more
            searched = block.serialised(order, serial_edges(order, instance.versions, instance.room, kept))
            listed = searched.listed([-h for h in heights_of(searched)])
            others = _others(searched, searches.bounds_of(searched.instance()), listed.length)
            best.offer(chain([listed], others), order)
        if best.lacking:
            best.offer([block.listed(position, in_order=True)])
    if method != "list" and best.fitted.length > bounds.length and len(ops) <= _LARGEST:
        asked = instance if searched is block else searched.instance()
        question = (best.fitted.length, best.lacking, asked.key(), instance.key())
        if question not in searches.known:
            searches.known[question] = _searched(asked, instance, bounds, best, method, searches)
        found, shorter, best.bound = searches.known[question]
        best.offer([searched.placed(found)] if found is not None else [], order)
        best.offer([block.placed(shorter)] if shorter is not None else [])
    return best.told(facts, without)


@dataclass(slots=True)
class _Best:
    """The packets that lack the fewest registers, and of these the shortest; `scarce` are the classes of which others
    that were seen lack some."""

    instance: Instance
    bound: int
    fitted: Fitted
    lacking: int = 1 << 30
    scarce: set[str] = field(default_factory=set)

    def offer(self, others: Iterable[Fitted], order: Sequence[int] | None = None) -> None:
        """Look at packets until there can be no better ones; `order` gives their operations' numbers here."""
        for other in others:
            if order is not None:
                issue = list(other.issue)
                for k, at in zip(order, other.issue, strict=False):
                    issue[k] = at
                other.issue = issue
            other.in_use = self.instance.in_use(other.issue, other.length)
            short = {cls: used - self.instance.room[cls] for cls, used in other.in_use.items()}
            lacking = max([0, *short.values()])
            self.scarce.update(cls for cls, amount in short.items() if amount > 0)
            if (lacking, other.length) < (self.lacking, self.fitted.length):
                self.fitted, self.lacking = other, lacking
            if not self.lacking and self.fitted.length <= self.bound:
                return

    def told(self, facts: Facts, without: Mapping[str, int] | None) -> Fitted:
        """The packets, with a bound on their length, and with all registers that are in use in them."""
        self.fitted.bound = self.bound
        for cls, amount in _room(facts, without).items():
            if cls in self.fitted.in_use:
                self.fitted.in_use[cls] += amount - self.instance.room[cls]
        return self.fitted


def _searched(
    asked: Instance, instance: Instance, bounds: Bounds, best: _Best, method: Method, searches: Searches
) -> tuple[Found | None, Found | None, int]:
    """A shorter schedule of `asked`, which is `instance` or that with more dependences; one of `instance` that is
    shorter still, by proof; and a bound for the latter."""
    upper = best.fitted.length
    found, bound, spent = shortest(asked, searches.bounds_of(asked), upper, searches.left // 2)
    searches.left -= spent
    if asked is not instance:
        bound = bounds.length
    if method != "exact":
        return found, None, bound
    known = found if asked is instance else None
    shorter, bound = proven(instance, bounds, bound, known, found.length if found else upper)
    return found, shorter, bound


def _others(block: Block, bounds: Bounds, upper: int) -> Iterator[Fitted]:
    """List schedules with what the units make of each path as urgency; round ends that stand where a shorter block
    would have them; and from the end, which makes values only when they are wanted."""
    rank = [-late for late in bounds.latest]
    yield block.listed(rank)
    if block.tail is not None or block.head is not None:
        yield from _shortest(bounds.length, upper, lambda length: block.listed_within(rank, bounds.latest, length))
    back = [-early for early in bounds.earliest]
    yield from _shortest(bounds.length, upper + 1, lambda length: block.listed_back(back, bounds.earliest, length))


def _shortest(low: int, upper: int, at: Callable[[int], Fitted | None]) -> Iterator[Fitted]:
    """Ever shorter blocks, by halving the interval in which the shortest that `at` makes lies."""
    while low < upper:
        length = (low + upper) // 2 if upper - low > 2 else low
        found = at(length)
        if found is None:
            low = length + 1
        else:
            yield found
            upper = length


def _room(facts: Facts, without: Mapping[str, int] | None) -> dict[str, int]:
    without = without or {}
    return {c.name: len(set(c.names) - facts.untouchable) - without.get(c.name, 0) for c in facts.target.registers}


def _limit_registers(
    instance: Instance, ops: Sequence[Op], facts: Facts, after: Live, without: Mapping[str, int] | None
) -> None:
    """Give the instance its values and the registers there are, where these could be too few."""
    versions, through = versions_of(ops, facts, after)
    room = {cls: amount - through.get(cls, 0) for cls, amount in _room(facts, without).items()}
    count: dict[str, int] = {}
    for version in versions:
        count[version.cls] = count.get(version.cls, 0) + 1
    scarce = {cls for cls, amount in count.items() if without is not None or 4 * amount > 3 * room[cls]}
    instance.versions = tuple(v for v in versions if v.cls in scarce)
    instance.room = {cls: room[cls] for cls in sorted(scarce)}
