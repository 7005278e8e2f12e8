"""Which array to pack at which loop in which layout: four stages, each of which tells what it found.

A candidate (L, T) is a copy of what a loop L touches of an array T, made just before L. It goes through

1. reuse: every iteration of L touches the same elements of T;
2. residency: the copy, and twice what one iteration touches of all other arrays, fit the target cache, which is the
   largest that doesn't hold all arrays of the nest;
3. goals: the copy's layout makes the innermost loop's steps shorter, or what needed more TLB entries than there are
   needs no more than that;
4. selection: by TLB entries saved over bytes copied; what is chosen holds no other loop's copy of the same array, and
   keeps one of its goals beside those chosen before.

After Rohwedder et al., "To Pack or Not to Pack" (CC 2023), section 3.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

import islpy as isl

from plant_core.ir.func import Buf
from plant_core.schedule.packing.caches import Caches
from plant_core.schedule.packing.nests import (
    Loop,
    NotStatic,
    Region,
    Use,
    deepest,
    elem,
    fixed,
    static_extents,
    steps,
    strides,
)

_IN = isl.dim_type.in_
Stage = Literal["reuse", "residency", "goals", "selection", "packed"]
WRITTEN_OUT = ("vectorize", "unroll", "unroll_explicit")
LINES = 2
"""A copy is worth its time for shorter steps where the innermost loop walks over as many lines of it."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """`stage`: where it was dropped, or "packed"; `reasons`: what each stage found, the last being why it ended there.

    `shape` is that of the copy in the order of the array's dimensions, `order` the dimensions of the copy, the
    slowest first. `benefit` is in TLB entries, `cost` in bytes, both for one run of the loop.
    """

    loop: Loop
    array: Buf
    written: bool
    stage: Stage = "reuse"
    reasons: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    order: tuple[int, ...] = ()
    shorter: bool = False
    benefit: int = 0
    cost: int = 0

    def at(self, stage: Stage, reason: str) -> Candidate:
        return replace(self, stage=stage, reasons=(*self.reasons, reason))

    @property
    def layout(self) -> tuple[int, ...]:
        """The copy's extents as they lie in memory."""
        return tuple(self.shape[k] for k in self.order)

    @property
    def text(self) -> str:
        """What became of it, and why, stage by stage."""
        verdict = "packed" if self.stage == "packed" else "not packed"
        shape = " x ".join(map(str, self.layout))
        laid = f" as {shape} in the order {list(self.order)}" if self.stage == "packed" else ""
        return f"'{self.array.name}' before the loop {self.loop.name}: {verdict}{laid}: {'; '.join(self.reasons)}"


@dataclass(frozen=True, slots=True)
class Packing:
    """All that was decided of one loop nest. `level`: the target cache, from 0; None where nothing is worth packing."""

    loops: tuple[Loop, ...]
    footprint: int
    level: int | None
    candidates: tuple[Candidate, ...]
    refusal: str = ""

    @property
    def packed(self) -> tuple[Candidate, ...]:
        return tuple(c for c in self.candidates if c.stage == "packed")


def candidates(region: Region, caches: Caches) -> Packing:
    """The candidates of a nest that reach one goal, and why the others don't: the first three stages."""
    try:
        footprint = sum(prod(static_extents(b)) * elem(b) for b in region.tensors)
        level = caches.target(footprint)
        if level is None:
            return Packing(region.loops, footprint, None, (), f"all arrays fit the first cache: {footprint} bytes")
        found = [
            _judged(region, Candidate(loop, array, any(u.written for u in uses)), uses, caches, caches.sizes[level])
            for loop in region.loops
            for array in region.tensors
            if (uses := region.uses(loop, array.name))
        ]
    except NotStatic as problem:
        return Packing(region.loops, 0, None, (), str(problem))
    return Packing(region.loops, footprint, level, tuple(found))


def _judged(region: Region, c: Candidate, uses: list[Use], caches: Caches, size: int) -> Candidate:
    c = _reused(region, c, uses)
    if c.stage == "reuse":
        return c
    c = _resident(region, c, size)
    if c.stage == "residency":
        return c
    return _reaches(region, c, uses, caches)


# --- 1: reuse -----------------------------------------------------------------------------------------------------


def _reused(region: Region, c: Candidate, uses: list[Use]) -> Candidate:
    if any(not u.exact for u in uses):
        return c.at("reuse", "a subscript isn't affine")
    if any(region_loop.tag in WRITTEN_OUT and region_loop.holds(c.loop) for region_loop in region.loops):
        return c.at("reuse", "the loop is part of a vector or a register tile")
    if region.trips(c.loop) < 2:
        return c.at("reuse", "the loop runs once")
    for use in uses:
        if not _same_each_time(use, c.loop.depth):
            return c.at("reuse", f"{use.statement}'s elements move with {c.loop.name}")
    return c.at("residency", f"the same elements in each of {region.trips(c.loop)} iterations of {c.loop.name}")


def _same_each_time(use: Use, depth: int) -> bool:
    """Whether the elements touched don't depend on the loop, nor on loops inside whose bounds depend on it."""
    touched = fixed(use.cells, depth + 1)
    others = fixed(use.cells, depth).insert_dims(_IN, depth, 1)
    return bool(others.intersect_domain(touched.domain()).is_subset(touched))


# --- 2: residency -------------------------------------------------------------------------------------------------


def _resident(region: Region, c: Candidate, size: int) -> Candidate:
    shape = region.working_set(c.array.name, c.loop)
    own = prod(shape) * elem(c.array)
    others = sum(region.size(b.name, c.loop, once=True) for b in region.tensors if b.name != c.array.name)
    c = replace(c, shape=shape, order=tuple(range(len(shape))), cost=own * (2 if c.written else 1))
    said = f"{own} bytes and twice {others} of the others, in {size}"
    return c.at("goals", f"stays: {said}") if own + 2 * others <= size else c.at("residency", f"is driven out: {said}")


# --- 3: goals -----------------------------------------------------------------------------------------------------


def _reaches(region: Region, c: Candidate, uses: list[Use], caches: Caches) -> Candidate:
    c = replace(c, order=layout(uses))
    shorter = _shorter_steps(region, c, uses, caches)
    fewer = fewer_entries(region, c, (), caches)
    c = replace(c, shorter=bool(shorter), benefit=fewer.saved)
    reasons = [r for r in (shorter, fewer.text) if r]
    if not reasons:
        return c.at("goals", "no step gets shorter, no loop gets within the TLB")
    return c.at("selection", "; ".join(reasons))


def layout(uses: Sequence[Use]) -> tuple[int, ...]:
    """Dimensions by the depth of the innermost loop that each moves with; as they are where accesses differ."""
    found = {tuple(sorted(range(len(depths)), key=depths.__getitem__)) for depths in map(deepest, uses)}
    return found.pop() if len(found) == 1 else tuple(range(len(uses[0].load.indices)))


def _shorter_steps(region: Region, c: Candidate, uses: list[Use], caches: Caches) -> str:
    if c.order == tuple(range(len(c.order))):
        return ""
    before, packed = strides(static_extents(c.array)), strides(c.layout)
    after = tuple(packed[c.order.index(k)] for k in range(len(c.order)))
    text, walked = "", 0
    for use in uses:
        placed = next(p for p in region.placed if p.comp.name == use.statement)
        inner = next(o for o in region.loops if o.key == placed.key)
        moves = steps(use, inner.depth)
        if moves is None:
            return ""
        was, now = (abs(sum(m * s for m, s in zip(moves, by, strict=True))) for by in (before, after))
        if now > was:
            return ""
        if now < was:
            text = f"steps of {inner.name} get shorter: {was} to {now}"
            walked = max(walked, region.size(c.array.name, inner))
    return text if walked >= LINES * caches.line else ""


@dataclass(frozen=True, slots=True)
class Entries:
    """TLB entries that a copy saves in one run of its loop, and in which loops, in words."""

    saved: int = 0
    text: str = ""


def fewer_entries(region: Region, c: Candidate, chosen: Sequence[Candidate], caches: Caches) -> Entries:
    """The loops that need more TLB entries than there are, and no more than that with the copy; others are packed as
    `chosen`."""
    saved, told = 0, list[str]()
    for loop in region.inside(c.loop):
        before = after = 0
        for array in region.tensors:
            if region.uses(loop, array.name):
                known = next((o for o in chosen if o.array.name == array.name and o.loop.holds(loop)), None)
                count = _entries(region, loop, array, known, caches)
                before += count
                after += _entries(region, loop, array, c, caches) if array.name == c.array.name else count
        if before > caches.entries >= after:
            saved += (before - after) * region.runs(loop, c.loop)
            told.append(f"{loop.name} {before} to {after}")
    return Entries(saved, f"TLB entries of {', '.join(told)}, of {caches.entries}") if told else Entries()


def _entries(region: Region, loop: Loop, array: Buf, copy: Candidate | None, caches: Caches) -> int:
    part = region.working_set(array.name, loop)
    if copy is None:
        return caches.pages(part, static_extents(array), elem(array))
    return caches.pages(tuple(part[k] for k in copy.order), copy.layout, elem(array))


# --- 4: selection -------------------------------------------------------------------------------------------------


def ranked(found: Sequence[Candidate]) -> list[Candidate]:
    """Those that reach a goal, by benefit over cost; loops further out first among equals."""
    left = [c for c in found if c.stage == "selection"]
    return sorted(left, key=lambda c: (-c.benefit / c.cost, c.loop.depth))


def in_the_way(region: Region, c: Candidate, chosen: Sequence[Candidate], caches: Caches) -> str:
    """Why a candidate isn't chosen beside those that are; empty where it is."""
    for other in chosen:
        if other.array.name == c.array.name and (other.loop.holds(c.loop) or c.loop.holds(other.loop)):
            return f"'{c.array.name}' is packed at {other.loop.name} already"
    if not c.shorter and not fewer_entries(region, c, chosen, caches).text:
        return "with what is packed already, no loop gets within the TLB"
    return ""
