"""Every straight-line region of a program, saturated with the rules and extracted for the machine's busiest unit.

Before: a program of whatever operations the builder makes. After: operations that the target has, the same results.
Requires: names unique. Ensures: names that other regions read stay; stores stay, in their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from dspgen.errors import NoSchedule, Problem
from dspgen.rewrite import milp
from dspgen.rewrite.alignment import Congruence, of_address, of_iterator, of_term
from dspgen.rewrite.egraph import Limits, saturate
from dspgen.rewrite.emission import Names, Unplaceable, emit
from dspgen.rewrite.extract import Extraction, as_written, extract
from dspgen.rewrite.facts import Readable, facts_of, propose_loads
from dspgen.rewrite.graph import EGraph, Node, TermGraph, class_types, unsaturated
from dspgen.rewrite.machine import Implementation, Machine, Value, machine_of
from dspgen.rewrite.problem import Choices, Recurrence, make_problem
from dspgen.rewrite.region import Built, Region, build
from dspgen.rewrite.rules import FpMode
from dspgen.rewrite.selection import choose_rules
from dspgen.target.model import Target
from dspgen.vecdsl.ir import ELEM_BYTES, Const, If, Let, Loop, Op, Program, Stmt, Store, Term, Var
from plant_core.loc import Loc


@dataclass(frozen=True, slots=True)
class Remark:
    """Something to tell the user about a place in the C file."""

    loc: Loc | None
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Optimised:
    program: Program
    remarks: tuple[Remark, ...]


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

    def __init__(self, target: str, missing: Sequence[Missing]) -> None:
        remedy = "describe one in the ISA file, or add a rewrite row for it"
        super().__init__(
            *(
                Problem("DG300", f"{target} has no instruction for {m}, and no row expands it", m.loc, remedy)
                for m in missing
            )
        )
        self.missing = tuple(missing)


@dataclass(frozen=True, slots=True)
class Effort:
    """Budgets, in work done. A region of more than `terms` terms is extracted without saturation by gainful rules."""

    terms: int = 1200
    limits: Limits = Limits()
    milp: milp.Budget = milp.Budget()
    associate: bool = False


def optimise(
    program: Program,
    target: Target,
    *,
    fp: FpMode = "reassoc",
    rewrite: bool = True,
    readable: Readable | None = None,
    effort: Effort | None = None,
) -> Optimised:
    """Rewrite and select for `target`.

    `readable(array, address, low, high)` tells whether elements `address + low` to `address + high` may be read, though
    the program might not; without it, only what the region itself reads. With `rewrite` off, operations that the
    machine has stay as written. Raises MissingOperation.
    """
    worker = _Optimiser(program, machine_of(target), fp, rewrite, readable, effort or Effort())
    return worker.run()


@dataclass(frozen=True, slots=True)
class _Context:
    """What is known inside the loops around a region. `varying` is None outside of loops."""

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
    rewrite: bool
    readable: Readable | None
    effort: Effort
    remarks: list[Remark] = field(default_factory=list)
    readers: Counter[str] = field(default_factory=Counter)
    names: Names = field(default_factory=lambda: Names(set()))

    def run(self) -> Optimised:
        used: set[str] = set(self.program.params) | {s.name for s in self.program.scalars}
        for region_names in _region_names(self.program.body, ()):
            self.readers.update(region_names)
            used |= region_names
        used |= _bound_names(self.program.body)
        self.names = Names(used)
        body, _ = self._block(self.program.body, (), _Context({}))
        return Optimised(replace(self.program, body=body), tuple(self.remarks))

    # -- structure

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
        congruences = dict(context.congruences)
        congruences[loop.iterator] = of_iterator(of_term(loop.start, congruences), loop.step)
        varying = {loop.iterator, *(c.name for c in loop.carried)} | _bound_names(loop.body)
        inner = _Context(
            congruences,
            frozenset(varying),
            frozenset(_stored_arrays(loop.body)),
            tuple((c.name, c.next) for c in loop.carried),
            not any(isinstance(s, Loop) for s in loop.body),
            loop.loc or context.loc,
        )
        body, nexts = self._block(loop.body, tuple(c.next for c in loop.carried), inner)
        carried = tuple(
            replace(c, init=init, next=next_) for c, init, next_ in zip(loop.carried, inits, nexts, strict=True)
        )
        return replace(loop, carried=carried, body=body)

    # -- regions

    def _region(
        self, stmts: list[Let | Store], ends: tuple[Term, ...], context: _Context, *, last: bool = False
    ) -> tuple[tuple[Let | Store, ...], tuple[Term, ...]]:
        own = _names_of([s.value for s in stmts] + list(ends))
        kept = frozenset(s.name for s in stmts if isinstance(s, Let) and self.readers[s.name] > (s.name in own))
        region = Region(tuple(stmts), ends, kept)
        if not stmts and all(isinstance(e, Const | Var) for e in ends):
            return (), ends
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
        rewrite = owner.rewrite
        if rewrite and self.terms > owner.effort.terms:
            self._remark("rewriting", f"a region of {self.terms} terms is over the budget of {owner.effort.terms}")
            rewrite = False
        if not rewrite and plain is not None:
            return self._emit(plain_graph, plain)
        egraph = self._saturated(rewrite)
        best = self._extract(egraph, graph)
        if best is None:
            raise MissingOperation(owner.machine.target.name, self._missing(egraph))
        if plain is not None and plain.score.key <= best.score.key:
            egraph, best = plain_graph, plain
        self._tell(plain, best, egraph)
        try:
            return self._emit(egraph, best)
        except Unplaceable:
            if plain is None:
                raise
            self._remark("rewriting", "left as written: a rewritten load would cross a store")
            return self._emit(plain_graph, plain)

    def _saturated(self, rewrite: bool) -> EGraph:
        owner, graph = self.owner, self.built.graph
        if rewrite or any(n.kind == "ld" for n in graph.nodes):
            propose_loads(graph, owner.machine, owner.readable, self._alignment)
        rules = choose_rules(graph, owner.machine, owner.fp, rewrite=rewrite, associate=owner.effort.associate)
        if not rules:
            return unsaturated(graph)
        relations = frozenset(r.name for i in rules for r in i.typed.relations)
        facts = facts_of(graph, relations) if relations else []
        return saturate(graph, rules, facts, owner.machine.lanes, owner.effort.limits)

    def _emit(self, egraph: EGraph, best: Extraction) -> tuple[tuple[Let | Store, ...], tuple[Term, ...]]:
        types = class_types(egraph, self.built.graph)
        return emit(self.built, egraph.of_node, best.chosen, types, self.owner.names)

    # -- extraction

    def _extract(self, egraph: EGraph, graph: TermGraph) -> Extraction | None:
        machine = self.owner.machine
        types = class_types(egraph, graph)
        values = {
            c: Value(types[c], any(n.pair for n in nodes), tuple(n.text for n in nodes if n.kind == "const"))
            for c, nodes in egraph.classes.items()
            if nodes
        }

        def implement(number: int, node: Node) -> Implementation | None:
            if node.kind in ("ld", "ld_pair"):
                elem = graph.memories[node.memory].elem
                return machine.implementation(node, (), elem, self._alignment(node.memory, node.constant))
            return machine.implementation(node, [values[a] for a in node.args], "", 0)

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
        )
        self.choices = problem.choices
        if base is None:
            return None
        return (
            as_written(problem)
            if egraph.reason == "none"
            else extract(problem, self.owner.effort.milp, pipelined=self.context.innermost)
        )

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
        machine = self.owner.machine
        where = of_address(stmt.address.constant, stmt.address.terms, self.context.congruences)
        alignment = where.times(ELEM_BYTES[stmt.elem]).alignment
        partial_ = stmt.active is not None and stmt.active < machine.lanes
        return machine.store(stmt.elem, stmt.stride, stmt.value.type, alignment, partial=partial_)

    def _recurrences(self, roots: Sequence[int]) -> tuple[Recurrence, ...]:
        carried = self.context.carried
        if not (self.last and self.context.innermost and carried):
            return ()
        nexts = roots[len(roots) - len(carried) :]
        return tuple(Recurrence(name, root) for (name, _), root in zip(carried, nexts, strict=True))

    def _invariants(self, egraph: EGraph) -> frozenset[Node]:
        """Nodes that the loop around need not compute again in each iteration."""
        varying, stored = self.context.varying, self.context.stored
        if varying is None:
            return frozenset()
        memories = self.built.graph.memories
        classes: set[int] = set()
        found: dict[Node, None] = {}
        changed = True
        while changed:
            changed = False
            for number, nodes in egraph.classes.items():
                for node in nodes:
                    if node in found:
                        continue
                    match node.kind:
                        case "const":
                            still = True
                        case "var":
                            still = node.text not in varying
                        case "op":
                            still = all(a in classes for a in node.args)
                        case _:
                            memory = memories[node.memory]
                            still = memory.array not in stored and not any(n in varying for n, _ in memory.terms)
                    if still:
                        found[node] = None
                        classes.add(number)
                        changed = True
        return frozenset(found)

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
        if not self.context.innermost or not self.owner.rewrite:
            return
        after = max(best.score.resources, best.score.recurrence)
        if plain is None:
            self._remark("rewriting", f"replaced what the machine lacks; at least {after:g} cycles an iteration")
            return
        before = max(plain.score.resources, plain.score.recurrence)
        if after < before:
            stopped = "" if egraph.reason == "saturated" else "; stopped at the budget"
            self._remark("rewriting", f"at least {after:g} cycles an iteration, {before:g} as written{stopped}")

    def _remark(self, kind: str, message: str) -> None:
        self.owner.remarks.append(Remark(self._loc(), kind, message))


# -- names


def _names_of(terms: Iterable[Term]) -> set[str]:
    found: set[str] = set()
    seen: set[int] = set()
    stack = list(terms)
    while stack:
        term = stack.pop()
        if id(term) in seen:
            continue
        seen.add(id(term))
        if isinstance(term, Var):
            found.add(term.name)
        elif isinstance(term, Op):
            stack.extend(term.args)
    return found


def _region_names(body: tuple[Stmt, ...], ends: tuple[Term, ...]) -> Iterable[set[str]]:
    """The names that each region reads, divided as `_block` divides."""
    terms: list[Term] = []
    for stmt in body:
        match stmt:
            case Let() | Store():
                terms.append(stmt.value)
            case Loop():
                yield _names_of([*terms, stmt.start, stmt.trip, *(c.init for c in stmt.carried)])
                terms = []
                yield from _region_names(stmt.body, tuple(c.next for c in stmt.carried))
            case If():
                yield _names_of([*terms, stmt.condition])
                terms = []
                yield from _region_names(stmt.then, ())
    yield _names_of([*terms, *ends])


def _bound_names(body: Iterable[Stmt]) -> set[str]:
    found: set[str] = set()
    for stmt in body:
        match stmt:
            case Let(name):
                found.add(name)
            case Loop():
                found |= {stmt.iterator, *(c.name for c in stmt.carried)} | _bound_names(stmt.body)
            case If():
                found |= _bound_names(stmt.then)
            case Store():
                pass
    return found


def _stored_arrays(body: Iterable[Stmt]) -> set[str]:
    found: set[str] = set()
    for stmt in body:
        match stmt:
            case Store():
                found.add(stmt.array)
            case Loop():
                found |= _stored_arrays(stmt.body)
            case If():
                found |= _stored_arrays(stmt.then)
            case Let():
                pass
    return found
