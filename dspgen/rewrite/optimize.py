"""Every straight-line region of a program, saturated with the rules and extracted for the machine's busiest unit.

Before: a program of whatever operations the builder makes. After: operations that the target has, the same results.
Requires: names unique. Ensures: names that other regions read stay; stores stay, in their order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import get_args

from dspgen.errors import NoSchedule, Problem
from dspgen.rewrite.cost.operation_costs import Machine, Value, machine_of
from dspgen.rewrite.cost.scalarization_cost import Implementation
from dspgen.rewrite.egraph.saturate import Limits, saturate
from dspgen.rewrite.egraph.saturate import forget as egraph_forget
from dspgen.rewrite.egraph.saturation_process import MEGABYTES, expect, may_grow, saturated_apart
from dspgen.rewrite.egraph.side_conditions import facts_of
from dspgen.rewrite.extract import milp
from dspgen.rewrite.extract.emission import Names, Unplaceable, emit
from dspgen.rewrite.extract.extract import Extraction, as_written, extract
from dspgen.rewrite.extract.extract import forget as extract_forget
from dspgen.rewrite.extract.problem import Choices, Recurrence, make_problem
from dspgen.rewrite.extract.store_pairs import pair_stores, store_cost
from dspgen.rewrite.factoring import propose_factors
from dspgen.rewrite.graph.enodes import LOADS, EGraph, Node, TermGraph, class_types, unsaturated
from dspgen.rewrite.graph.loop_invariants import invariant_nodes
from dspgen.rewrite.graph.reassociation_limit import regrouped
from dspgen.rewrite.graph.region import Built, Region, build
from dspgen.rewrite.graph.region_names import addressing_names, bound_names, names_of, region_names, stored_arrays
from dspgen.rewrite.rules.load_candidates import Readable, propose_loads
from dspgen.rewrite.rules.selection import choose_rules
from dspgen.rewrite.rules.table import FpMode, RewriteMode
from dspgen.target.isa.model import Target
from dspgen.target.query.instructions import remedy_without
from dspgen.vecdsl.analysis.congruence import Congruence, Congruences, of_address
from dspgen.vecdsl.ir.program import ELEM_BYTES, Const, If, Let, Loop, Program, Stmt, Store, Term, Var
from dspgen.vecdsl.ir.terms import own_terms
from plant_core.support.fork_join import forks
from plant_core.support.location import Loc


@dataclass(frozen=True, slots=True)
class Remark:
    """Something to tell the user about a place in the C file."""

    loc: Loc | None
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Optimised:
    """`nodes`: how many the e-graphs of the regions came to."""

    program: Program
    remarks: tuple[Remark, ...]
    nodes: int = 0


@dataclass(frozen=True, slots=True)
class Missing:
    """An operation that the machine lacks and no rule replaces."""

    op: str
    elem: str
    vector: bool
    loc: Loc | None = None

    def __str__(self) -> str:
        return f"{'vector' if self.vector else 'scalar'} `{self.op}` of type {self.elem}"


class MissingOperation(NoSchedule):
    """The machine can't do the program; `missing` tells which operations, most basic first."""

    def __init__(self, target: Target, missing: Sequence[Missing]) -> None:
        without = f"{target.name} has no instruction for"
        super().__init__(
            *(
                Problem("DG300", f"{without} {m}, and no row expands it", m.loc, remedy_without(m.op, m.elem, target))
                for m in missing
            )
        )
        self.missing = tuple(missing)


OUTSIDE = ""  # of all loops
_MODES: tuple[RewriteMode, ...] = get_args(RewriteMode)  # each with all rules of the ones before
_STOPPED = {
    "saturated": "saturated in {rounds} rounds",
    "budget": "stopped at the budget after {rounds} rounds",
    "memory": "stopped for memory after {rounds} rounds",
    "none": "no rule applies",
}


@dataclass(frozen=True, slots=True)
class Effort:
    """Budgets, in work done. A region of more than `terms` terms is extracted without saturation by gainful rules.
    Sums are regrouped where that makes about `regrouped` nodes at most. `waiting`: nothing runs beside the region of a
    program without loops, so that its longest path may count."""

    terms: int = 1200
    limits: Limits = Limits()
    milp: milp.Budget = milp.Budget()
    regrouped: int = 0
    waiting: bool = False


def optimise(
    program: Program,
    target: Target,
    *,
    fp: FpMode = "reassoc",
    rewrite: RewriteMode = "full",
    readable: Readable | None = None,
    effort: Effort | None = None,
    fewer: Mapping[str, RewriteMode] | None = None,
) -> Optimised:
    """Rewrite and select for `target`.

    `readable(array, address, low, high)` tells whether elements `address + low` to `address + high` may be read, though
    the program might not; without it, only what the region itself reads. For `rewrite` see `choose_rules`; loops with
    the iterators `fewer`, and what is OUTSIDE of all loops, are rewritten by no more than the rules given there.
    Raises MissingOperation.
    """
    worker = _Optimiser(program, machine_of(target), fp, rewrite, readable, effort or Effort(), fewer or {})
    return worker.run()


def forget() -> None:
    """Saturations and extractions are remembered; this drops them, for measuring."""
    egraph_forget()
    extract_forget()


@dataclass(frozen=True, slots=True)
class _Context:
    """What is known inside the loops around a region; `congruences` are those of the program. `varying` is None outside
    of loops."""

    congruences: dict[str, Congruence]
    varying: frozenset[str] | None = None
    stored: frozenset[str] = frozenset()
    carried: tuple[tuple[str, Term], ...] = ()
    innermost: bool = False
    loc: Loc | None = None


@dataclass(slots=True)
class _Optimiser:
    program: Program
    machine: Machine
    fp: FpMode
    most: RewriteMode
    readable: Readable | None
    effort: Effort
    fewer: Mapping[str, RewriteMode]
    rewrite: RewriteMode = "full"  # here
    remarks: list[Remark] = field(default_factory=list)
    nodes: int = 0
    readers: Counter[str] = field(default_factory=Counter)
    addressing: set[str] = field(default_factory=set)
    names: Names = field(default_factory=lambda: Names(set()))

    def run(self) -> Optimised:
        used: set[str] = set(self.program.params) | {s.name for s in self.program.scalars}
        for found in region_names(self.program.body, ()):
            self.readers.update(found)
            used |= found
        used |= bound_names(self.program.body)
        self.addressing = addressing_names(self.program.body)
        self.names = Names(used)
        self.rewrite = self._rules(OUTSIDE)
        body, _ = self._block(self.program.body, (), _Context(Congruences(self.program).names))
        return Optimised(replace(self.program, body=body), tuple(self.remarks), self.nodes)

    # -- structure

    def _rules(self, place: str) -> RewriteMode:
        return min(self.most, self.fewer.get(place, self.most), key=_MODES.index)

    def _block(
        self, body: tuple[Stmt, ...], ends: tuple[Term, ...], context: _Context
    ) -> tuple[tuple[Stmt, ...], tuple[Term, ...]]:
        """A block's statements, with `ends` evaluated after them, region by region."""
        out: list[Stmt] = []
        straight: list[Let | Store] = []
        for stmt in body:
            match stmt:
                case Let() | Store():
                    straight.append(stmt)
                case Loop():
                    wanted = (stmt.start, stmt.trip, *(c.init for c in stmt.carried))
                    made, (start, trip, *inits) = self._region(straight, wanted, context)
                    straight = []
                    out += made
                    out.append(self._loop(replace(stmt, start=start, trip=trip), inits, context))
                case If():
                    made, (condition,) = self._region(straight, (stmt.condition,), context)
                    straight = []
                    out += made
                    then, _ = self._block(stmt.then, (), replace(context, carried=(), innermost=False))
                    out.append(If(condition, then))
        made, done = self._region(straight, ends, context, last=True)
        return (*out, *made), done

    def _loop(self, loop: Loop, inits: Sequence[Term], context: _Context) -> Loop:
        varying = {loop.iterator, *(c.name for c in loop.carried)} | bound_names(loop.body)
        inner = _Context(
            context.congruences,
            frozenset(varying),
            frozenset(stored_arrays(loop.body)),
            tuple((c.name, c.next) for c in loop.carried),
            not any(isinstance(s, Loop) for s in loop.body),
            loop.loc or context.loc,
        )
        before = self.rewrite
        if context.varying is None:
            self.rewrite = self._rules(loop.iterator)
        body, nexts = self._block(loop.body, tuple(c.next for c in loop.carried), inner)
        self.rewrite = before
        carried = tuple(
            replace(c, init=init, next=next_) for c, init, next_ in zip(loop.carried, inits, nexts, strict=True)
        )
        return replace(loop, carried=carried, body=body)

    # -- regions

    def _region(
        self, stmts: list[Let | Store], ends: tuple[Term, ...], context: _Context, *, last: bool = False
    ) -> tuple[tuple[Let | Store, ...], tuple[Term, ...]]:
        own = names_of([*(t for s in stmts for t in own_terms(s)), *ends])
        bound = (s.name for s in stmts if isinstance(s, Let))
        kept = frozenset(n for n in bound if n in self.addressing or self.readers[n] > (n in own))
        region = Region(tuple(stmts), ends, kept)
        if not stmts and all(isinstance(e, Const | Var) for e in ends):
            return (), ends
        if self.rewrite != "off":
            cost = partial(store_cost, self.machine, context.congruences)
            region = pair_stores(region, self.machine.lanes, cost, self.names.fresh)
        built = build(region, self.machine.lanes)
        work = _RegionWork(self, built, context, last)
        return work.run()


@dataclass(slots=True)
class _RegionWork:
    """One region's way through saturation, extraction and emission."""

    owner: _Optimiser
    built: Built
    context: _Context
    last: bool
    alignments: dict[tuple[int, int], int] = field(default_factory=dict)
    choices: Choices = field(default_factory=dict)
    terms: int = 0

    def run(self) -> tuple[tuple[Let | Store, ...], tuple[Term, ...]]:
        owner, graph = self.owner, self.built.graph
        self.terms = len(graph.nodes)
        plain_graph = unsaturated(graph)
        plain = self._extract(plain_graph, graph)
        mode = owner.rewrite
        if mode != "off" and self.terms > owner.effort.terms:
            self._remark("budget", f"a region of {self.terms} terms is over the budget of {owner.effort.terms}")
            mode = "off"
        found = [(plain_graph, plain)]
        saturated = self._saturated(mode)
        if saturated.reason != "none":
            found.append((saturated, self._extract(saturated, graph)))
        if mode != "off" and saturated.reason in ("budget", "memory"):
            simple = self._saturated("off")
            found.append((simple, self._extract(simple, graph)))
        done = [(egraph, best) for egraph, best in found if best is not None]
        if not done:
            self._extract(saturated, graph)
            raise MissingOperation(owner.machine.target, self._missing(saturated))
        egraph, best = min(done, key=lambda d: d[1].score.key)
        self._tell(plain, best, saturated)
        for tried, extraction in ((egraph, best), *done):
            try:
                return self._emit(tried, extraction)
            except Unplaceable:
                self._remark("rewriting", "left as written: a rewritten load would cross a store")
        raise Unplaceable

    def _saturated(self, mode: RewriteMode) -> EGraph:
        owner, graph = self.owner, self.built.graph
        if mode != "off" or any(n.kind == "ld" for n in graph.nodes):
            propose_loads(graph, owner.machine, owner.readable, self._alignment)
        same = propose_factors(graph, reassoc=owner.fp == "reassoc") if mode != "off" else []
        rules = choose_rules(
            graph, owner.machine, owner.fp, mode=mode, associate=regrouped(graph, owner.effort.regrouped)
        )
        if not rules:
            return unsaturated(graph)
        relations = frozenset(r.name for i in rules for r in i.typed.relations)
        still = self._invariants(unsaturated(graph)) if "reused" in relations else {}
        facts = [*same, *(facts_of(graph, relations, still.keys()) if relations else [])]
        own = self._own_rows()
        # egglog has threads, which a fork leaves behind.
        work = saturated_apart if forks() or may_grow(rules, own) else None
        if mode == "off" and any(i.rule.name in own for i in rules):
            expect()  # these rows, and all rules
        egraph = saturate(graph, rules, facts, owner.machine.lanes, owner.effort.limits, work)
        owner.nodes += egraph.size
        if egraph.reason == "memory":
            message = f"the ISA file's rows grow beyond {MEGABYTES} MiB; stopped after {egraph.iterations} rounds"
            self._remark("budget", message)
        return egraph

    def _own_rows(self) -> frozenset[str]:
        return frozenset(r.name for r in self.owner.machine.target.rewrites)

    def _emit(self, egraph: EGraph, best: Extraction) -> tuple[tuple[Let | Store, ...], tuple[Term, ...]]:
        types = class_types(egraph, self.built.graph)
        return emit(self.built, egraph.of_node, best.chosen, types, self.owner.names)

    # -- extraction

    def _extract(self, egraph: EGraph, graph: TermGraph) -> Extraction | None:
        machine = self.owner.machine
        types = class_types(egraph, graph)
        values = {
            c: Value(
                types[c],
                any(n.pair for n in nodes),
                tuple(n.text for n in nodes if n.kind == "const"),
                any(n.op == "bcast" for n in nodes),
                any(n.op == "alike" for n in nodes),
            )
            for c, nodes in egraph.classes.items()
            if nodes
        }

        # Nodes that differ only in classes whose values are alike have one implementation.
        alike: dict[Value, int] = {}
        kinds = {c: alike.setdefault(v, len(alike)) for c, v in values.items()}
        known: dict[tuple[object, ...], Implementation | None] = {}

        def implement(number: int, node: Node) -> Implementation | None:
            args = node.args
            if node.kind in ("ld", "ld_pair"):
                elem = graph.memories[node.memory].elem
                alignment = ELEM_BYTES[elem] if node.indexed else self._alignment(node.memory, node.constant)
                shift = (node.jump - node.period * node.stride) * ELEM_BYTES[elem] if node.period else 0
                return machine.implementation(node, [values[a] for a in args], elem, math.gcd(alignment, shift))
            key = (node.kind, node.op, node.elem, node.vector, node.imm, *[kinds[a] for a in args])
            if key not in known:
                known[key] = machine.implementation(node, [values[a] for a in args], "", 0)
            return known[key]

        roots = [egraph.of_node[r.node] for r in self.built.roots]
        base = self._stores()
        problem = make_problem(
            egraph,
            roots,
            implement,
            self._invariants(egraph),
            base or (),
            self._recurrences(roots),
            machine.target.packets.issue,
            self._places(egraph),
        )
        self.choices = problem.choices
        if base is None:
            return None
        effort = self.owner.effort
        waiting = effort.waiting and not any(isinstance(x, Loop) for x in self.owner.program.body)
        return (
            as_written(problem)
            if egraph.reason == "none"
            else extract(problem, effort.milp, pipelined=self.context.innermost, waiting=waiting)
        )

    def _places(self, egraph: EGraph) -> set[int]:
        """The classes that tell where loads and stores of vectors are."""
        loads = (n for nodes in egraph.classes.values() for n in nodes if n.kind in LOADS and n.vector and n.indexed)
        return {n.args[0] for n in loads} | {egraph.of_node[node] for node in self.built.places}

    def _stores(self) -> list[Implementation] | None:
        """The occupancy of the region's stores; None if the machine lacks one."""
        found = []
        for stmt in self.built.region.stmts:
            if isinstance(stmt, Store):
                made = self._store(stmt)
                if made is None:
                    return None
                found.append(made)
        return found

    def _store(self, stmt: Store) -> Implementation | None:
        return store_cost(self.owner.machine, self.context.congruences, stmt)

    def _recurrences(self, roots: Sequence[int]) -> tuple[Recurrence, ...]:
        carried = self.context.carried
        if not (self.last and self.context.innermost and carried):
            return ()
        nexts = roots[len(roots) - len(carried) :]
        return tuple(Recurrence(name, root) for (name, _), root in zip(carried, nexts, strict=True))

    def _invariants(self, egraph: EGraph) -> dict[int, tuple[Node, ...]]:
        varying = self.context.varying
        if varying is None:
            return {}
        return invariant_nodes(egraph, self.built.graph.memories, varying, self.context.stored)

    def _alignment(self, memory: int, constant: int) -> int:
        key = (memory, constant)
        if key not in self.alignments:
            what = self.built.graph.memories[memory]
            where = of_address(constant, what.terms, self.context.congruences)
            self.alignments[key] = where.times(ELEM_BYTES[what.elem]).alignment
        return self.alignments[key]

    # -- what to say

    def _missing(self, egraph: EGraph) -> list[Missing]:
        """The stores, and the terms as written, that can't be done though their operands can."""
        graph = self.built.graph
        found: dict[Missing, None] = {}
        for stmt in self.built.region.stmts:
            if isinstance(stmt, Store) and self._store(stmt) is None:
                found[Missing(f"store with stride {stmt.stride}", stmt.elem, stmt.value.type.vector, stmt.loc)] = None
        for node, number in zip(graph.nodes[: self.terms], egraph.of_node, strict=False):
            args = [egraph.of_node[a] for a in node.args]
            if self.choices.get(number, True) or not all(self.choices.get(a) for a in args):
                continue
            elem = graph.memories[node.memory].elem if node.memory >= 0 else node.elem
            name = f"load with stride {node.stride}" if node.kind == "ld" and node.vector else node.op
            vector = node.vector or any(graph.nodes[a].vector for a in node.args)
            found[Missing(name, elem, vector, self._loc())] = None
        return list(found)

    def _loc(self) -> Loc | None:
        stores = (s.loc for s in self.built.region.stmts if isinstance(s, Store) and s.loc is not None)
        return next(stores, self.context.loc)

    def _tell(self, plain: Extraction | None, best: Extraction, egraph: EGraph) -> None:
        if not self.context.innermost or self.owner.rewrite == "off":
            return
        after = max(best.score.resources, best.score.recurrence)
        if plain is None:
            found = f"replaced what the machine lacks; at least {after:g} cycles an iteration"
        else:
            before = max(plain.score.resources, plain.score.recurrence)
            found = f"at least {after:g} cycles an iteration, {before:g} as written"
        self._remark("rewriting", f"{found}; {_STOPPED[egraph.reason].format(rounds=egraph.iterations)}")

    def _remark(self, kind: str, message: str) -> None:
        self.owner.remarks.append(Remark(self._loc(), kind, message))
