"""A block's packets: by list scheduling, and by search where that may have missed the shortest."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from dspgen.sched.graph.liveness import Live
from dspgen.sched.graph.rigid_sections import Section
from dspgen.sched.ir.packets import Method, Packed
from dspgen.sched.machine.operations import Op
from dspgen.sched.machine.target_facts import Facts
from dspgen.sched.straight.block_fingerprint import key_of
from dspgen.sched.straight.bounds import Bounds, bounds_of
from dspgen.sched.straight.downsets import BUDGET, Found, shortest
from dspgen.sched.straight.exact import proven
from dspgen.sched.straight.instance import Instance
from dspgen.sched.straight.list_scheduling import Block, Draft, Fitted, heights_of
from dspgen.sched.straight.register_pressure_order import frugal_order, versions_of
from dspgen.sched.straight.register_serialization import serial_edges

_LARGEST = 400  # operations of a block that is searched
_WIDEST = 256  # operations among which the order of a block that lacks registers is free


@dataclass(slots=True)
class Searches:
    """What the search may still look at, in operations, over all blocks; whether some of it was `cut` short for that;
    what it found for those seen before, and how blocks that looked the same were packed."""

    left: int = BUDGET
    cut: bool = False
    known: dict[object, tuple[Found | None, Found | None, int]] = field(default_factory=dict)
    bounds: dict[object, Bounds] = field(default_factory=dict)
    packed: dict[object, Packed] = field(default_factory=dict)
    earlier: Mapping[object, Packed] = field(default_factory=dict)  # by other searches

    def packets_of(self, key: object) -> Packed | None:
        """How a block that looks so was packed: by another search only if that was done with it."""
        if key not in self.packed and (found := self.earlier.get(key)) is not None and not found.cut:
            self.packed[key] = found
        return self.packed.get(key)

    def bounds_of(self, instance: Instance) -> Bounds:
        key = instance.dependences()
        if key not in self.bounds:
            self.bounds[key] = bounds_of(instance)
        return self.bounds[key]


class _Given:
    """The registers of each class that a block may have: `less` of some than there are, which was `told` once they did
    not suffice; and more where the caller's are saved."""

    def __init__(self, facts: Facts, less: Mapping[str, int], saved: Collection[str], *, told: bool) -> None:
        self.less, self.told = less, told
        kept = facts.untouchable.difference(saved)
        room = {c.name: len(set(c.names) - kept) - less.get(c.name, 0) for c in facts.target.registers}
        self.room = room | facts.predicates_without(kept)


def fit_block(
    ops: Sequence[Op],
    facts: Facts,
    *,
    head: Section | None = None,
    tail: Section | None = None,
    branch: Op | None = None,
    after: Live | None = None,
    without: Mapping[str, int] | None = None,
    saved: Collection[str] = (),
    in_text_order: bool = False,
    method: Method = "dp",
    searches: Searches | None = None,
) -> Fitted:
    """Schedule a block; `branch`, if any, ends it, with its delay slots filled by the rest.

    `after` are the registers read later. `without`: registers of each class that it must do without, where those there
    are did not suffice; `saved`: the caller's that it may have. `in_text_order`: none before the one that the text has
    before it.
    """
    searches = searches or Searches()
    given = _Given(facts, without or {}, saved, told=without is not None)
    key = key_of(ops, head, tail, branch, after), tuple(given.room.items()), given.told, in_text_order, method
    ends = (m[0] for section in (head, tail) if section is not None for m in section.members)
    everything = [*ops, *ends, *([] if branch is None else [branch])]
    packed = searches.packets_of(key)
    if packed is None:
        cut, searches.cut = searches.cut, False
        made = _fitted(Block(ops, facts, head, tail, branch), after, given, in_text_order, method, searches)
        number = {id(op): k for k, op in enumerate(everything)}
        cycles = [[(number[id(op)], unit) for op, unit in packet] for packet in made.cycles]
        searches.packed[key] = Packed(cycles, made.tail_at, made.bound, made.in_use, searches.cut)
        searches.cut |= cut
        return made
    packets = [[(everything[k], unit) for k, unit in packet] for packet in packed.cycles]
    return Fitted(packets, packed.tail_at, packed.bound, dict(packed.in_use))


def _fitted(
    block: Block,
    after: Live | None,
    given: _Given,
    in_text_order: bool,
    method: Method,
    searches: Searches,
) -> Fitted:
    ops, facts = block.ops, block.facts
    if in_text_order:
        return block.listed(range(len(ops)), window=1).packets()
    heights = heights_of(block)
    first = block.listed([-h for h in heights])
    if not ops:
        return first.packets()
    instance = block.instance()
    bounds = searches.bounds_of(instance)
    if after is not None:
        _limit_registers(instance, ops, facts, after, given)
    best = _Best(instance, bounds.length, first)
    best.offer(chain([first], _others(block, bounds, first.length)))
    searched, order = block, list(range(len(ops)))
    if after is not None and best.scarce:
        position = frugal_order(ops, block.graph, heights, facts, after, given.room)
        order.sort(key=position.__getitem__)
        kept: set[str] = set()
        while more := best.scarce - kept:
            kept |= more
            searched = block.serialised(order, serial_edges(order, instance.versions, instance.room, kept))
            listed = searched.listed([-h for h in heights_of(searched)])
            others = _others(searched, searches.bounds_of(searched.instance()), listed.length)
            best.offer(chain([listed], others), order)
        if best.lacking:
            best.offer(_in_windows(block, position, best))
    if method != "list" and best.draft.length > bounds.length and len(ops) <= _LARGEST:
        asked = instance if searched is block else searched.instance()
        question = (best.draft.length, best.lacking, asked.key(), instance.key())
        if question not in searches.known:
            searches.known[question] = _searched(asked, instance, bounds, best, method, searches)
        found, shorter, best.bound = searches.known[question]
        best.offer([searched.placed(found)] if found is not None else [], order)
        best.offer([block.placed(shorter)] if shorter is not None else [])
    return best.packets(given)


@dataclass(slots=True)
class _Best:
    """What lacks the fewest registers, and of that the shortest; `scarce` are the classes of which something else that
    was seen lacks some."""

    instance: Instance
    bound: int
    draft: Draft
    lacking: int = 1 << 30
    in_use: dict[str, int] = field(default_factory=dict)
    scarce: set[str] = field(default_factory=set)

    def offer(self, others: Iterable[Draft], order: Sequence[int] | None = None) -> None:
        """Look at others until none can be better; `order` gives their operations' numbers here."""
        for other in others:
            if not self.lacking and other.length >= self.draft.length:
                continue
            in_use = self._in_use(other, order)
            if self._lacking(in_use):
                other.sink()
                in_use = self._in_use(other, order)
            self.scarce.update(cls for cls, used in in_use.items() if used > self.instance.room[cls])
            lacking = self._lacking(in_use)
            if (lacking, other.length) < (self.lacking, self.draft.length):
                self.draft, self.lacking, self.in_use = other, lacking, in_use
            if not self.lacking and self.draft.length <= self.bound:
                return

    def _in_use(self, other: Draft, order: Sequence[int] | None) -> dict[str, int]:
        issue = list(other.issue)
        for k, at in zip(order or (), other.issue, strict=False):
            issue[k] = at
        return self.instance.in_use(issue, other.length)

    def _lacking(self, in_use: Mapping[str, int]) -> int:
        return max([0, *(used - self.instance.room[cls] for cls, used in in_use.items())])

    def packets(self, given: _Given) -> Fitted:
        """With a bound on their length, and with all registers that are in use in them."""
        made = self.draft.packets(few=not given.less)
        made.bound = self.bound
        made.in_use = {cls: used + given.room[cls] - self.instance.room[cls] for cls, used in self.in_use.items()}
        return made


def _searched(
    asked: Instance, instance: Instance, bounds: Bounds, best: _Best, method: Method, searches: Searches
) -> tuple[Found | None, Found | None, int]:
    """A shorter schedule of `asked`, which is `instance` or that with more dependences; one of `instance` that is
    shorter still, by proof; and a bound for the latter."""
    upper = best.draft.length
    allowed = searches.left // 2
    found, bound, spent = shortest(asked, searches.bounds_of(asked), upper, allowed)
    searches.left -= spent
    searches.cut |= spent >= allowed
    if asked is not instance:
        bound = bounds.length
    if method != "exact":
        return found, None, bound
    known = found if asked is instance else None
    shorter, bound = proven(instance, bounds, bound, known, found.length if found else upper)
    return found, shorter, bound


def _others(block: Block, bounds: Bounds, upper: int) -> Iterator[Draft]:
    """List schedules with what the units make of each path as urgency; round ends that stand where a shorter block
    would have them; and from the end, which makes values only when they are wanted."""
    rank = [-late for late in bounds.latest]
    yield block.listed(rank)
    if block.tail is not None or block.head is not None:
        yield from _shortest(bounds.length, upper, lambda length: block.listed_within(rank, bounds.latest, length))
    back = [-early for early in bounds.earliest]
    yield from _shortest(bounds.length, upper + 1, lambda length: block.listed_back(back, bounds.earliest, length))


def _in_windows(block: Block, position: Sequence[int], best: _Best) -> Iterator[Draft]:
    """List schedules ever closer to an order that needs few registers, until these suffice."""
    window = _WIDEST
    while window and best.lacking:
        yield block.listed(position, window=window)
        window //= 2


def _shortest(low: int, upper: int, at: Callable[[int], Draft | None]) -> Iterator[Draft]:
    """Ever shorter blocks, by halving the interval in which the shortest that `at` makes lies."""
    while low < upper:
        length = (low + upper) // 2 if upper - low > 2 else low
        found = at(length)
        if found is None:
            low = length + 1
        else:
            yield found
            upper = length


def _limit_registers(instance: Instance, ops: Sequence[Op], facts: Facts, after: Live, given: _Given) -> None:
    """Give the instance its values and the registers there are, where these could be too few."""
    versions, through = versions_of(ops, facts, after)
    room = {cls: amount - through.get(cls, 0) for cls, amount in given.room.items()}
    count: dict[str, int] = {}
    for version in versions:
        count[version.cls] = count.get(version.cls, 0) + 1
    scarce = {cls for cls, amount in count.items() if given.told or 4 * amount > 3 * room[cls]}
    instance.versions = tuple(v for v in versions if v.cls in scarce)
    instance.room = {cls: room[cls] for cls in sorted(scarce)}
