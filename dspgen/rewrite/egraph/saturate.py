"""Equality saturation: a region's terms and the rules to classes of equal nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from dspgen.rewrite.egraph.engine import TERM, Engine, Fact, engine_of
from dspgen.rewrite.egraph.rule_text import RULESET, Head, program_of
from dspgen.rewrite.graph.enodes import EGraph, Node, NodeKind, TermGraph
from dspgen.rewrite.graph.patterns import SHUFFLES
from dspgen.rewrite.rules.table import Instance
from dspgen.vecdsl.ir.program import Elem

_FAST = 1.5  # times the nodes of the round before


@dataclass(frozen=True, slots=True)
class Limits:
    """Budgets of one saturation, in work done. A single iteration is not interrupted, but one that makes over `runaway`
    nodes of a graph that grew fast before it does not count; nor is one begun of a graph that grows
    ever faster, if at its last rate twice over it makes as many."""

    iterations: int = 8
    nodes: int = 4000
    runaway: int = 16_000


@dataclass(frozen=True, slots=True)
class Job:
    """One saturation as plain data: the rules' text and their heads, terms, facts, budget."""

    lines: tuple[str, ...]
    heads: tuple[Head, ...]
    nodes: tuple[Node, ...]
    facts: tuple[Fact, ...]
    limits: Limits


Work = Callable[[Job], EGraph]


def saturate(
    graph: TermGraph,
    rules: tuple[Instance, ...],
    facts: Sequence[Fact],
    lanes: int,
    limits: Limits,
    work: Work | None = None,
) -> EGraph:
    """Apply `rules` until nothing is new or the budget is spent; `work` does it, `saturated` if none is given.

    Requires: every rule instance of the element types in the graph. Ensures: plain classes, in a stable order.
    """
    names: dict[str, str] = {}
    for node in graph.nodes:
        if node.kind == "var":
            names.setdefault(node.text, f"v{len(names)}")
    nodes = tuple(replace(n, text=names[n.text]) if n.kind == "var" else n for n in graph.nodes)
    found = _remembered(nodes, rules, tuple(facts), lanes, limits, work or saturated)
    own = {short: name for name, short in names.items()}
    classes = {
        number: tuple(replace(n, text=own[n.text]) if n.kind == "var" else n for n in members)
        for number, members in found.classes.items()
    }
    return replace(found, classes=classes)


@lru_cache(maxsize=64)
def _remembered(
    nodes: tuple[Node, ...],
    rules: tuple[Instance, ...],
    facts: tuple[Fact, ...],
    lanes: int,
    limits: Limits,
    work: Work,
) -> EGraph:
    """Regions that differ only in names and arrays have one saturation."""
    return work(Job(*program_of(rules, lanes), nodes, facts, limits))


def forget() -> None:
    """Drop the saturations that are remembered."""
    _remembered.cache_clear()


def saturated(job: Job, on_round: Callable[[EGraph], None] | None = None) -> EGraph:
    """What becomes of a job; `on_round` is told what there is after a round by which the graph has doubled."""
    nodes, limits = job.nodes, job.limits
    engine = engine_of(job.lines, job.heads)
    run = engine.run
    width = engine.prepare(nodes, job.facts)
    run("(push)")
    pushed = 1
    try:
        engine.add(nodes, job.facts, width)
        reason: Literal["saturated", "budget"] = "budget"
        done, told, size, before = 0, len(nodes), len(nodes), len(nodes)
        growth = math.inf
        for done in range(1, limits.iterations + 1):
            slower, growth, before = growth, size / max(before, 1), size
            grown = done > 1 and growth > _FAST
            if done > 2 and growth > slower and size * growth**2 > limits.runaway:
                done -= 1
                break
            if grown:
                run("(push)")
                pushed += 1
            if not run(f"(run {RULESET} 1)")[0].report.updated:
                reason = "saturated"
                break
            size = engine.size()
            if grown and size > limits.runaway:
                run("(pop)")
                pushed -= 1
                done -= 1
                break
            if size > limits.nodes:
                break
            if on_round is not None and size > 2 * told and done < limits.iterations:
                told = size
                on_round(_read_back(engine, len(nodes), reason, done))
        return _read_back(engine, len(nodes), reason, done)
    finally:
        run(f"(pop {pushed})")


# -- back to plain values


def _read_back(engine: Engine, terms: int, reason: Literal["saturated", "budget"], iterations: int) -> EGraph:
    """Number the classes in the order of the graph's terms, then of the frozen rows, which is egglog's own order."""
    source = engine.graph
    functions = source.freeze().functions
    numbers: dict[Any, int] = {}
    of_node = []
    places = {source.value_to_i64(r.inputs[0]): r.output for r in functions[TERM].rows}
    for number in range(terms):
        of_node.append(numbers.setdefault(places[number], len(numbers)))
    tables = [(n, functions[n]) for n in sorted(functions) if n != TERM and functions[n].output_sort == "Term"]
    rows = [(name, [(r.inputs, r.output) for r in f.rows if not r.subsumed]) for name, f in tables]
    for _, found in rows:
        for _, output in found:
            numbers.setdefault(output, len(numbers))
    classes: list[list[Node]] = [[] for _ in numbers]
    for name, found in rows:
        made = _reader(source, name, numbers)
        for inputs, output in found:
            classes[numbers[output]].append(made(inputs))
    ordered = {c: tuple(sorted(nodes, key=_order)) for c, nodes in enumerate(classes)}
    return EGraph(ordered, tuple(of_node), reason, iterations)


def _order(node: Node) -> tuple[Any, ...]:
    return (node.kind, node.op, node.elem, node.vector, node.args, node.imm, node.text, node.memory, node.constant,
            node.stride, node.period, node.jump)  # fmt: skip


def _reader(source: Any, name: str, numbers: dict[Any, int]) -> Callable[[list[Any]], Node]:
    """What makes a node of the columns of a constructor's row."""
    integer, text = source.value_to_i64, source.value_to_string
    kind, _, rest = name.partition("_")
    if kind in ("const", "vec", "var"):
        own = _elem(rest)
        return lambda v: Node(kind, kind, own, bool(integer(v[0])), text=text(v[1]))  # type: ignore[arg-type]
    if kind != "op":
        pair = rest.startswith("pair_")
        op, count, own = "ld_pair" if pair else kind, 6 if "2" in kind else 4, _elem(rest.removeprefix("pair_"))
        which: NodeKind = "ld_pair" if pair else "ld"

        def load(v: list[Any]) -> Node:
            args = tuple(numbers[x] for x in v[count:])
            return Node(which, op, own, bool(integer(v[0])), args, (), "", *[integer(x) for x in v[1:count]])

        return load
    op, elem_text, imm = rest.rsplit("_", 2)
    own, first = _elem(elem_text), 1 + int(imm)

    def shuffle(v: list[Any]) -> Node:
        pattern = tuple(int(k) for k in text(v[1]).split(","))
        return Node("op", op, own, bool(integer(v[0])), tuple(numbers[x] for x in v[2:]), pattern)

    def operation(v: list[Any]) -> Node:
        imms = tuple(integer(x) for x in v[1:first])
        return Node("op", op, own, bool(integer(v[0])), tuple(numbers[x] for x in v[first:]), imms)

    return shuffle if op in SHUFFLES else operation


def _elem(text: str) -> Elem:
    return text  # type: ignore[return-value]
