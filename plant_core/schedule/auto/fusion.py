"""Neighbouring nests that read the same large array are put inside one loop, so that it comes into the cache once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from plant_core.analysis.dependence_graph import Edge, Graph
from plant_core.analysis.statement_facts import GUESSED_EXTENT
from plant_core.ir.accesses import all_bufs
from plant_core.ir.c_semantics import size_of
from plant_core.ir.func import Func
from plant_core.schedule.auto.choose import Around, Choice, Nested, Row
from plant_core.schedule.auto.tile_shapes import Machine, Shape, shapes
from plant_core.transform.distribution_alignment import Seq, Shared


@dataclass(frozen=True, slots=True)
class _Run:
    """Nests to share a loop: each with the iterator that it gives, and its shape for each tile step."""

    nests: tuple[Nested, ...]
    loops: tuple[str, ...]
    step: int
    cost: float


STEPS = (1, 2, 4, 8)
NEARLY_EQUAL = 0.95
"""Loops are fused if the shortest has this share of the longest one's iterations."""


def fuse(func: Func, graph: Graph, edges: Sequence[Edge], choice: Choice, machine: Machine) -> Choice:
    """`choice` with runs of adjacent nests inside a common outermost loop where the model gains by it.

    Before: `for i { for j t[i] += A[i][j]*x[j]; }  for i { for j y[j] += A[i][j]*t[i]; }`.
    After:  `for i { for j t[i] += A[i][j]*x[j];  for j y[j] += A[i][j]*t[i]; }`. No dependence may go backwards in it.
    """
    sizes = {
        b.name: size_of(b.dtype) * prod(n if isinstance(n, int) else GUESSED_EXTENT for n in b.shape)
        for b in all_bufs(func).values()
    }
    return _Fuser(graph, tuple(edges), machine, sizes).visit(choice)


@dataclass(frozen=True, slots=True)
class _Fuser:
    graph: Graph
    edges: tuple[Edge, ...]
    machine: Machine
    sizes: dict[str, int]

    def visit(self, choice: Choice) -> Choice:
        match choice:
            case Row(children=children):
                return self.row([self.visit(child) for child in children])
            case Around(shared=shared, body=body, lanes=1):
                return Around(shared, self.visit(body), 1, choice.step)
            case _:
                return choice

    def row(self, children: list[Choice]) -> Choice:
        found: list[Choice] = []
        pending = list(children)
        while pending:
            first = pending.pop(0)
            run = self.start(first)
            while run is not None and pending:
                longer = self.extended(run, pending[0])
                if longer is None:
                    break
                run = longer
                pending.pop(0)
            found.append(first if run is None or len(run.nests) == 1 else self.fused(run))
        return found[0] if len(found) == 1 else Row(tuple(found))

    def start(self, choice: Choice) -> _Run | None:
        if not isinstance(choice, Nested) or not choice.shape.outer:
            return None
        return _Run((choice,), (), 1, self.total(choice, choice.shape))

    def total(self, nested: Nested, shape: Shape) -> float:
        return self.graph.facts[nested.name].points * shape.cost

    def extended(self, run: _Run, other: Choice) -> _Run | None:
        if not isinstance(other, Nested) or not other.shape.outer:
            return None
        saved = self.saving(run, other)
        if saved <= 0:
            return None
        before = run.cost + self.total(other, other.shape)
        options = [o for o in self.alignments(run, other) if o.cost - saved < before]
        return min(options, key=lambda o: o.cost, default=None)

    def saving(self, run: _Run, other: Nested) -> float:
        """Cycles for the lines of large arrays that both walk through."""
        mine = {t.buf for n in run.nests for t in self.graph.facts[n.name].touches}
        total = 0.0
        for touch in self.graph.facts[other.name].touches:
            size = self.sizes[touch.buf]
            if touch.buf in mine and size > self.machine.second_cache:
                per_line = 6.0 if size <= self.machine.third_cache else 15.0
                total += size / self.machine.line * per_line
        return total

    def alignments(self, run: _Run, other: Nested) -> list[_Run]:
        found = []
        firsts = [run.loops] if run.loops else [(loop,) for loop in run.nests[0].single.loops]
        for loops in firsts:
            for loop in other.single.loops:
                if self.legal(run, loops, other, loop):
                    found += self.stepped(run, loops, other, loop)
        return found

    def legal(self, run: _Run, loops: tuple[str, ...], other: Nested, loop: str) -> bool:
        trips = [self.graph.facts[n.name].trips[i] for n, i in zip(run.nests, loops, strict=True)]
        trips.append(self.graph.facts[other.name].trips[loop])
        if min(trips) < NEARLY_EQUAL * max(trips):
            return False
        members = {n.name: i for n, i in zip(run.nests, loops, strict=True)} | {other.name: loop}
        for edge in self.edges:
            if edge.source in members and edge.sink in members:
                if not edge.relaxed or edge.source != edge.sink:
                    if not self.graph.kept(edge, members[edge.source], members[edge.sink]):
                        return False
        return self.same_lines(run, members, other, loop)

    def same_lines(self, run: _Run, members: dict[str, str], other: Nested, loop: str) -> bool:
        """Whether one iteration of the loop meets the same part of some large array in both."""
        mine = self.graph.facts[other.name].touches
        theirs = [(t, members[n.name]) for n in run.nests for t in self.graph.facts[n.name].touches]
        return any(
            a.buf == b.buf
            and self.sizes[a.buf] > self.machine.second_cache
            and a.stride(loop) == b.stride(i)
            and abs(a.stride(loop)) > self.machine.line
            for a in mine
            for b, i in theirs
        )

    def stepped(self, run: _Run, loops: tuple[str, ...], other: Nested, loop: str) -> list[_Run]:
        found = []
        for step in STEPS if not run.loops else (run.step,):
            nests = []
            cost = 0.0
            for nested, first in (*zip(run.nests, loops, strict=True), (other, loop)):
                shape = self.shape(nested, first, step)
                if shape is None:
                    break
                nests.append(Nested(nested.name, shape, nested.single, first))
                cost += self.total(nested, shape)
            else:
                found.append(_Run(tuple(nests), (*loops, loop), step, cost))
        return found

    def shape(self, nested: Nested, first: str, step: int) -> Shape | None:
        options = [
            s
            for s in shapes(self.graph, nested.name, nested.single.loops, nested.single.edges, (), self.machine)
            if s.outer[:1] == (first,) and dict(s.unroll).get(first, 1) == step and s.vector != first
        ]
        return min(options, key=lambda s: s.cost, default=None)

    def fused(self, run: _Run) -> Around:
        members = {n.name: i for n, i in zip(run.nests, run.loops, strict=True)}
        inside = [e for e in self.edges if e.source in members and e.sink in members]
        parallel = all(self.graph.aligned(e, members[e.source], members[e.sink]) for e in inside)
        pairs = tuple(members.items())
        return Around(Shared(pairs, Seq(tuple(n.single for n in run.nests)), parallel), Row(run.nests), 1, run.step)
