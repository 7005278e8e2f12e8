"""Rewrite rules as egglog's text, and the constructors that terms have there.

A term `add` of type f32 is `(add_f32 side a b)`: the element type is in the constructor's name, the side (0 scalar,
1 vector) and immediate integers are leading columns; a shuffle's pattern is one column of text. A load is `(ld_f32 side
memory constant stride)`, where `memory` numbers a `graph.Memory`, followed by period, jump, index and mask where its
name (`ld2xm`) has them; a constant or variable is `(const_f32 side text)`, a constant vector `(vec_f32 1 texts)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from dspgen.rewrite.graph.enodes import Node, constant_text
from dspgen.rewrite.graph.patterns import (
    SHUFFLES,
    Apply,
    Comparison,
    Hole,
    Lanes,
    Linear,
    LoadPattern,
    Number,
    Pattern,
    all_nodes,
)
from dspgen.rewrite.rules.table import Instance
from dspgen.rewrite.rules.type_inference import Typed

RULESET = "dspgen_rules"


@dataclass(frozen=True, slots=True)
class Head:
    """A constructor: its name, integer columns after the side, arguments; kind "leaf", "load", "op" or "shuffle"."""

    name: str
    kind: str
    imm: int = 0
    arity: int = 0


def declaration(head: Head) -> str:
    match head.kind:
        case "leaf":
            columns = ["i64", "String"]
        case "shuffle":
            columns = ["i64", "String"] + ["Term"] * head.arity
        case _:
            columns = ["i64"] * (1 + head.imm) + ["Term"] * head.arity
    return f"(constructor {head.name} ({' '.join(columns)}) Term)"


def head_of(node: Node) -> Head:
    match node.kind:
        case "const" | "vec" | "var":
            return Head(f"{node.kind}_{node.elem}", "leaf")
        case "ld" | "ld_pair":
            return _load_head(node.op, node.elem, 2 * bool(node.period), len(node.args))
        case _:
            return _op_head(node.op, node.elem, len(node.imm), len(node.args))


def _load_head(op: str, elem: str, levels: int, arity: int) -> Head:
    return Head(f"{op}_{elem}", "load", 3 + levels, arity)


def _op_head(op: str, elem: str, imm: int, arity: int) -> Head:
    if op in SHUFFLES:
        return Head(f"op_{op}_{elem}_0", "shuffle", 0, arity)
    return Head(f"op_{op}_{elem}_{imm}", "op", imm, arity)


def pattern_text(values: Sequence[int | float]) -> str:
    return f'"{",".join(str(int(v)) for v in values)}"'


@lru_cache(maxsize=256)
def program_of(rules: tuple[Instance, ...], lanes: int) -> tuple[tuple[str, ...], tuple[Head, ...]]:
    """The rules as egglog has them; another program for each number of lanes: vectors of scalars differ in arity."""
    lines = (line for r in rules for line in _RuleText(r, lanes).text())
    return (f"(ruleset lanes_{lanes})", *lines), _rule_heads(rules)


def _rule_heads(rules: Sequence[Instance]) -> tuple[Head, ...]:
    found: dict[Head, None] = {}
    for rule in rules:
        for pattern in all_nodes((*rule.typed.left, *rule.typed.right)):
            match pattern:
                case Apply():
                    elem = rule.elem if pattern.elem == "T" else pattern.elem
                    found[_op_head(pattern.op, elem, len(pattern.imm), len(pattern.args))] = None
                case LoadPattern():
                    elem = rule.elem if pattern.elem == "T" else pattern.elem
                    found[_load_head(pattern.op, elem, len(pattern.levels), len(pattern.args))] = None
                case Number():
                    found[Head(f"const_{rule.typed.kind(pattern).elem}", "leaf")] = None
                case Lanes():
                    found[Head(f"vec_{rule.typed.kind(pattern).elem}", "leaf")] = None
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
        self.terms: dict[int, str] = {}  # of the right side, what is made already

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
        return f"(rule ({' '.join(query)}) ({' '.join(actions)}) :ruleset {RULESET})"

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
        if id(pattern) not in self.terms:
            self.terms[id(pattern)] = self._made(pattern)
        return self.terms[id(pattern)]

    def _made(self, pattern: Pattern) -> str:
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
        imm = [pattern_text(i.values) if isinstance(i, Lanes) else self.integer(i, left=left) for i in pattern.imm]
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
