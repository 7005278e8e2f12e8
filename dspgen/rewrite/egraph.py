"""Equality saturation. The only module that knows egglog, and it imports it on first use.

A term `add` of type f32 is `(add_f32 side a b)`: the element type is in the constructor's name, the side (0 scalar,
1 vector) and immediate integers are leading columns; a shuffle's pattern is one column of text. A load is `(ld_f32 side
memory constant stride)`, where `memory` numbers a `graph.Memory`, followed by period, jump, index and mask where its
name (`ld2xm`) has them; a constant or variable is `(const_f32 side text)`, a constant vector `(vec_f32 1 texts)`. Text
goes to egglog a line at a time: long programs parse in quadratic time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from dspgen.rewrite.graph import EGraph, Node, TermGraph, constant_text
from dspgen.rewrite.inference import Typed
from dspgen.rewrite.patterns import (
    INTEGER_LAST,
    RELATIONS,
    SHUFFLES,
    Apply,
    Comparison,
    Hole,
    Lanes,
    Linear,
    LoadPattern,
    Number,
    Pattern,
)
from dspgen.rewrite.rules import Instance
from dspgen.vecdsl.ir import Elem

_ENGINES_KEPT = 16
_TERM = "term_number"
_FAST = 1.5  # times the nodes of the round before


@dataclass(frozen=True, slots=True)
class Limits:
    """Budgets of one saturation, in work done. A single iteration is not interrupted, but one that makes over `runaway`
    nodes of a graph that grew fast before it does not count."""

    iterations: int = 8
    nodes: int = 4000
    runaway: int = 16_000


@dataclass(frozen=True, slots=True)
class Fact:
    """A relation among terms of the graph, by number, and integers; "same" is that two terms are equal."""

    relation: str
    nodes: tuple[int, ...]
    integers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Head:
    """A constructor: its name, integer columns after the side, arguments; kind "leaf", "load", "op" or "shuffle"."""

    name: str
    kind: str
    imm: int = 0
    arity: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """One saturation as plain data: the rules' text and their heads, terms, facts, budget."""

    lines: tuple[str, ...]
    heads: tuple[_Head, ...]
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
    return work(Job(*_program(rules, lanes), nodes, facts, limits))


def forget() -> None:
    """Drop the saturations that are remembered."""
    _remembered.cache_clear()


def saturated(job: Job, on_round: Callable[[EGraph], None] | None = None) -> EGraph:
    """What becomes of a job; `on_round` is told what there is after a round by which the graph has doubled."""
    nodes, limits = job.nodes, job.limits
    engine = _engine(job.lines, job.heads)
    run = engine.run
    run("(push)")
    pushed = 1
    try:
        for head in dict.fromkeys(_head(n) for n in nodes):
            if head not in engine.heads:
                run(_declaration(head))
        for number, node in enumerate(nodes):
            run(f"(set ({_TERM} {number}) {_node_text(node)})")
        for fact in job.facts:
            columns = [*(f"({_TERM} {n})" for n in fact.nodes), *(str(i) for i in fact.integers)]
            run(f"({'union' if fact.relation == 'same' else f'fact_{fact.relation}'} {' '.join(columns)})")
        reason: Literal["saturated", "budget"] = "budget"
        done, told, size, before = 0, len(nodes), len(nodes), len(nodes)
        for done in range(1, limits.iterations + 1):
            grown, before = done > 1 and size > _FAST * before, size
            if grown:
                run("(push)")
                pushed += 1
            if not run("(run dspgen_rules 1)")[0].report.updated:
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


# -- one egglog e-graph with its rules, kept for the next region that needs the same ones


class _Engine:
    def __init__(self, lines: Iterable[str], heads: tuple[_Head, ...]) -> None:
        from egglog import bindings

        self.graph = bindings.EGraph()
        self.heads = frozenset(heads)
        self.run("(sort Term)")
        self.run("(ruleset dspgen_rules)")
        self.run(f"(function {_TERM} (i64) Term :no-merge)")
        for name, arity in RELATIONS.items():
            columns = ["Term"] * (arity - 1) + ["i64" if name in INTEGER_LAST else "Term"]
            self.run(f"(relation fact_{name} ({' '.join(columns)}))")
        for head in heads:
            self.run(_declaration(head))
        for line in dict.fromkeys(lines):  # egglog refuses a rule twice
            self.run(line)

    def run(self, line: str) -> list[Any]:
        return self.graph.run_program(*self.graph.parse_program(line))

    def size(self) -> int:
        functions = self.graph.freeze().functions
        return sum(len(f.rows) for n, f in functions.items() if f.output_sort == "Term" and n != _TERM)


_local = threading.local()


def _engine(lines: tuple[str, ...], heads: tuple[_Head, ...]) -> _Engine:
    """The engine for these rules. An egglog e-graph belongs to the thread that made it."""
    kept: dict[tuple[tuple[str, ...], tuple[_Head, ...]], _Engine] | None = getattr(_local, "engines", None)
    if kept is None:
        kept = _local.engines = {}
    key = (lines, heads)
    if key not in kept:
        while len(kept) >= _ENGINES_KEPT:
            del kept[next(iter(kept))]
        kept[key] = _Engine(lines, heads)
    return kept[key]


def _declaration(head: _Head) -> str:
    match head.kind:
        case "leaf":
            columns = ["i64", "String"]
        case "shuffle":
            columns = ["i64", "String"] + ["Term"] * head.arity
        case _:
            columns = ["i64"] * (1 + head.imm) + ["Term"] * head.arity
    return f"(constructor {head.name} ({' '.join(columns)}) Term)"


# -- terms to text


def _head(node: Node) -> _Head:
    match node.kind:
        case "const" | "vec" | "var":
            return _Head(f"{node.kind}_{node.elem}", "leaf")
        case "ld" | "ld_pair":
            return _load_head(node.op, node.elem, 2 * bool(node.period), len(node.args))
        case _:
            return _op_head(node.op, node.elem, len(node.imm), len(node.args))


def _load_head(op: str, elem: str, levels: int, arity: int) -> _Head:
    return _Head(f"{op}_{elem}", "load", 3 + levels, arity)


def _op_head(op: str, elem: str, imm: int, arity: int) -> _Head:
    if op in SHUFFLES:
        return _Head(f"op_{op}_{elem}_0", "shuffle", 0, arity)
    return _Head(f"op_{op}_{elem}_{imm}", "op", imm, arity)


def _pattern_text(values: Sequence[int | float]) -> str:
    return f'"{",".join(str(int(v)) for v in values)}"'


def _node_text(node: Node) -> str:
    name = _head(node).name
    side = int(node.vector)
    match node.kind:
        case "const" | "vec" | "var":
            return f'({name} {side} "{node.text}")'
        case "ld" | "ld_pair":
            levels = [node.period, node.jump] if node.period else []
            columns = [str(i) for i in (node.memory, node.constant, node.stride, *levels)]
        case _:
            columns = [_pattern_text(node.imm)] if node.op in SHUFFLES else [str(i) for i in node.imm]
    return f"({name} {side} {' '.join([*columns, *(f'({_TERM} {a})' for a in node.args)])})"


# -- rules to text


@lru_cache(maxsize=256)
def _program(rules: tuple[Instance, ...], lanes: int) -> tuple[tuple[str, ...], tuple[_Head, ...]]:
    return tuple(line for r in rules for line in _RuleText(r, lanes).text()), _rule_heads(rules)


def _rule_heads(rules: Sequence[Instance]) -> tuple[_Head, ...]:
    found: dict[_Head, None] = {}
    for rule in rules:
        stack: list[Pattern] = [*rule.typed.left, *rule.typed.right]
        while stack:
            pattern = stack.pop()
            match pattern:
                case Apply():
                    elem = rule.elem if pattern.elem == "T" else pattern.elem
                    found[_op_head(pattern.op, elem, len(pattern.imm), len(pattern.args))] = None
                    stack.extend(pattern.args)
                case LoadPattern():
                    elem = rule.elem if pattern.elem == "T" else pattern.elem
                    found[_load_head(pattern.op, elem, len(pattern.levels), len(pattern.args))] = None
                    stack.extend(pattern.args)
                case Number():
                    found[_Head(f"const_{rule.typed.kind(pattern).elem}", "leaf")] = None
                case Lanes():
                    found[_Head(f"vec_{rule.typed.kind(pattern).elem}", "leaf")] = None
                case Hole():
                    pass
    return tuple(sorted(found, key=lambda h: h.name))


class _RuleText:
    """Writes one rule instance."""

    def __init__(self, instance: Instance, lanes: int) -> None:
        self.instance = instance
        self.typed: Typed = instance.typed
        self.elem = instance.elem
        self.lanes = lanes
        self.guards: list[str] = []
        self.fresh = 0
        self.lets: list[str] = []
        self.names: dict[str, str] = {}

    def text(self) -> list[str]:
        """The rule, after the declarations that it needs of its own."""
        typed = self.typed
        near, helpers = self.neighbours() if len(typed.left) > 2 else ({}, [])
        query = [
            near.get(i) or f"(= ?root{i} {self.pattern(p, left=True)})"
            for i, p in enumerate(typed.left)
            if near.get(i) != ""
        ]
        for relation in typed.relations:
            query.append(f"(fact_{relation.name} {' '.join((*relation.holes, relation.integer)).rstrip()})")
        guards = self.guards + [self.comparison(c) for c in typed.comparisons]
        actions = [f"(union ?root{i} {self.made(p)})" for i, p in enumerate(typed.right)]
        return [*helpers, self.rule(query + guards, self.lets + actions)]

    @staticmethod
    def rule(query: Sequence[str], actions: Sequence[str]) -> str:
        return f"(rule ({' '.join(query)}) ({' '.join(actions)}) :ruleset dspgen_rules)"

    def neighbours(self) -> tuple[dict[int, str], list[str]]:
        """Two loads at a fixed distance as one relation: sums are compared late, so three loads would join cubically.

        For the first the relation's text, for the second an empty one; and the relation's declaration and rule.
        """
        for i, first in enumerate(self.typed.left):
            for j, second in enumerate(self.typed.left):
                if not isinstance(first, LoadPattern) or not isinstance(second, LoadPattern) or i == j:
                    continue
                start, distance = first.offset.bare, replace(second.offset, terms=()).value(self.lanes, {})
                if start is None or second.offset.terms != ((start, 1),) or not distance:
                    continue
                if replace(first, offset=second.offset) != second or first.stride is None or first.stride.terms:
                    continue
                if first.levels or first.args:
                    continue
                name = f"near_{first.op}_{self.own(first.elem)}_{self.expression(first.stride)}_{distance}"
                columns = f"{first.memory} {start} ?root{i} ?root{j}"
                plain = _RuleText(self.instance, self.lanes)
                query = [f"(= ?root{n} {plain.pattern(p, left=True)})" for n, p in ((i, first), (j, second))]
                helper = self.rule(query + plain.guards, [f"({name} {columns})"])
                return {i: f"({name} {columns})", j: ""}, [f"(relation {name} (i64 i64 Term Term))", helper]
        return {}, []

    def made(self, pattern: Pattern) -> str:
        """A term of the right side; each operation gets a name, so that what is written twice is made once."""
        match pattern:
            case Apply():
                columns = self.columns(pattern, [self.made(a) for a in pattern.args], left=False)
            case LoadPattern():
                columns = self.load(pattern, [self.made(a) for a in pattern.args], left=False)
            case _:
                return self.pattern(pattern, left=False)
        if columns not in self.names:
            self.names[columns] = f"?made{len(self.names)}"
            self.lets.append(f"(let {self.names[columns]} {columns})")
        return self.names[columns]

    def pattern(self, pattern: Pattern, *, left: bool) -> str:
        match pattern:
            case Hole(name):
                return name
            case Number(value):
                kind = self.typed.kind(pattern)
                return f'(const_{kind.elem} {self.side(kind.side)} "{constant_text(value, kind.elem)}")'
            case Lanes(values):
                elem = self.typed.kind(pattern).elem
                return f'(vec_{elem} 1 "{" ".join(constant_text(v, elem) for v in values)}")'
            case LoadPattern():
                return self.load(pattern, [self.pattern(a, left=left) for a in pattern.args], left=left)
            case Apply():
                return self.columns(pattern, [self.pattern(a, left=left) for a in pattern.args], left=left)

    def load(self, pattern: LoadPattern, args: list[str], *, left: bool) -> str:
        scalar = pattern.stride is None
        places = [self.integer(e, left=left) for e in (pattern.offset, pattern.stride or Linear(), *pattern.levels)]
        head = f"{pattern.op}_{self.own(pattern.elem)}"
        return f"({' '.join([head, '0' if scalar else '1', pattern.memory, *places, *args])})"

    def columns(self, pattern: Apply, args: list[str], *, left: bool) -> str:
        name = _op_head(pattern.op, self.own(pattern.elem), len(pattern.imm), len(args)).name
        imm = [_pattern_text(i.values) if isinstance(i, Lanes) else self.integer(i, left=left) for i in pattern.imm]
        return f"({' '.join([name, self.side(self.typed.kind(pattern).side), *imm, *args])})"

    def own(self, elem: str) -> str:
        return self.elem if elem == "T" else elem

    @staticmethod
    def side(side: str) -> str:
        return {"s": "0", "v": "1"}.get(side, side)

    def integer(self, expr: Linear, *, left: bool) -> str:
        """An expression; on the left, one that is more than a name becomes a fresh name and a guard."""
        if expr.bare is not None:
            return expr.bare
        if not left or not expr.terms:
            return self.expression(expr)
        self.fresh += 1
        name = f"?int{self.fresh}"
        self.guards.append(f"(= {name} {self.expression(expr)})")
        return name

    def expression(self, expr: Linear) -> str:
        text = str(expr.constant + expr.lanes_factor * self.lanes)
        for name, factor in expr.terms:
            term = name if abs(factor) == 1 else f"(* {abs(factor)} {name})"
            text = f"({'+' if factor > 0 else '-'} {text} {term})"
        return text

    def comparison(self, comparison: Comparison) -> str:
        left, right = self.expression(comparison.left), self.expression(comparison.right)
        if comparison.op == "=" and comparison.left.bare is not None:
            left = comparison.left.bare
        return f"({comparison.op} {left} {right})"


# -- back to plain values


def _read_back(engine: _Engine, terms: int, reason: Literal["saturated", "budget"], iterations: int) -> EGraph:
    """Number the classes in the order of the graph's terms, then of the frozen rows, which is egglog's own order."""
    source = engine.graph
    functions = source.freeze().functions
    numbers: dict[Any, int] = {}
    of_node = []
    places = {source.value_to_i64(r.inputs[0]): r.output for r in functions[_TERM].rows}
    for number in range(terms):
        of_node.append(numbers.setdefault(places[number], len(numbers)))
    rows: list[tuple[str, list[Any], Any]] = []
    for name in sorted(functions):
        function = functions[name]
        if function.output_sort == "Term" and name != _TERM:
            rows += [(name, r.inputs, r.output) for r in function.rows if not r.subsumed]
    for _, _, output in rows:
        numbers.setdefault(output, len(numbers))
    classes: dict[int, dict[Node, None]] = {c: {} for c in range(len(numbers))}
    for name, inputs, output in rows:
        classes[numbers[output]][_node(source, name, inputs, numbers)] = None
    return EGraph({c: tuple(sorted(n, key=_order)) for c, n in classes.items()}, tuple(of_node), reason, iterations)


def _order(node: Node) -> tuple[Any, ...]:
    return (node.kind, node.op, node.elem, node.vector, node.args, node.imm, node.text, node.memory, node.constant,
            node.stride, node.period, node.jump)  # fmt: skip


def _node(source: Any, name: str, inputs: list[Any], numbers: dict[Any, int]) -> Node:
    integer = source.value_to_i64
    vector = bool(integer(inputs[0]))
    kind, _, rest = name.partition("_")
    if kind in ("const", "vec", "var"):
        return Node(kind, kind, _elem(rest), vector, text=source.value_to_string(inputs[1]))  # type: ignore[arg-type]
    if kind != "op":
        pair = rest.startswith("pair_")
        op = "ld_pair" if pair else kind
        count = 6 if "2" in op else 4
        places = [integer(v) for v in inputs[1:count]]
        args = tuple(numbers[v] for v in inputs[count:])
        return Node("ld_pair" if pair else "ld", op, _elem(rest.removeprefix("pair_")), vector, args, (), "", *places)
    op, elem_text, imm = rest.rsplit("_", 2)
    if op in SHUFFLES:
        imms = tuple(int(k) for k in source.value_to_string(inputs[1]).split(","))
        return Node("op", op, _elem(elem_text), vector, tuple(numbers[v] for v in inputs[2:]), imms)
    count = int(imm)
    imms = tuple(integer(v) for v in inputs[1 : 1 + count])
    args = tuple(numbers[v] for v in inputs[1 + count :])
    return Node("op", op, _elem(elem_text), vector, args, imms)


def _elem(text: str) -> Elem:
    return text  # type: ignore[return-value]
