"""The two sides of a rewrite rule as terms of a graph, with names in place of what the rule leaves open."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

from dspgen.rewrite.egraph.side_conditions import DIVIDING, MASKING
from dspgen.rewrite.graph.enodes import Memory, Node, TermGraph, constant_text
from dspgen.rewrite.graph.patterns import Apply, Hole, Lanes, LoadPattern, Number, Pattern
from dspgen.rewrite.rules.table import Instance
from dspgen.vecdsl.ir.semantics import IEEE
from tests.support.rule_samples import Sample


@dataclass
class Sides:
    """`lefts` and `rights` are numbers of nodes; constants and small values are what the rule's facts ask for."""

    instance: Instance
    lanes: int
    graph: TermGraph = field(default_factory=TermGraph)
    lefts: list[int] = field(default_factory=list)
    rights: list[int] = field(default_factory=list)
    memories: dict[str, int] = field(default_factory=dict)
    known: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rng = random.Random(self.instance.rule.name)
        self.sample = Sample(self.instance, IEEE, rng, gentle=True, lanes=self.lanes)
        for relation in self.instance.typed.relations:
            if relation.name == "reciprocal":
                given, made = relation.holes
                self.sample.values[made] = 1.0 / np.asarray(self.sample.values[given], np.float64)
        self.facts = {r.holes[0]: r.name for r in self.instance.typed.relations}
        self.facts |= {r.holes[1]: "low half" for r in self.instance.typed.relations if r.name == "apart"}
        self.constants = {h for r in self.instance.typed.relations for h in r.holes if r.name in _OF_CONSTANTS}
        self.lefts = [self.add(p) for p in self.instance.typed.left]
        self.rights = [self.add(p) for p in self.instance.typed.right]

    def side(self, pattern: Pattern) -> bool:
        side = self.instance.typed.kind(pattern).side
        return self.sample.sides.get(side, side) == "v"

    def add(self, pattern: Pattern) -> int:
        if id(pattern) not in self.known:
            self.known[id(pattern)] = self._added(pattern)
        return self.known[id(pattern)]

    def _added(self, pattern: Pattern) -> int:
        elem = self.instance.typed.kind(pattern).elem or self.instance.elem
        vector = self.side(pattern)
        match pattern:
            case Hole(name):
                return self.hole(name, dict(self.instance.typed.holes)[name].elem or self.instance.elem, vector)
            case Number(value):
                return self.graph.add(Node("const", "const", elem, vector, text=constant_text(value, elem)))
            case Lanes(values):
                text = " ".join(constant_text(v, elem) for v in values)
                return self.graph.add(Node("vec", "vec", elem, True, text=text))
            case LoadPattern():
                return self.load(pattern, vector)
            case Apply():
                args = tuple(self.add(a) for a in pattern.args)
                own = self.sample.own(pattern.elem)
                return self.graph.add(Node("op", pattern.op, own, vector, args, self.sample.immediates(pattern)))

    def hole(self, name: str, elem: str, vector: bool) -> int:
        """What stands for a name: a variable, a pair of two, a constant, or a value of known range."""
        value = self.sample.values[name]
        if isinstance(value, tuple):
            halves = tuple(self.graph.add(Node("var", "var", elem, vector, text=f"{name[1:]}{k}")) for k in (0, 1))
            return self.graph.add(Node("op", "pair", elem, vector, halves))
        if name in self.constants:
            number = np.ravel(value)[0].item()
            return self.graph.add(Node("const", "const", elem, vector, text=constant_text(number, elem)))
        variable = self.graph.add(Node("var", "var", elem, vector, text=name[1:]))
        match self.facts.get(name):
            case "flag":
                return self.graph.add(Node("op", "lt", "i32", vector, (variable, variable)))
            case "short16":
                return self.graph.add(Node("op", "sext16", "i32", vector, (variable,)))
            case "short31":
                one = self.graph.add(Node("const", "const", "i32", vector, text="1"))
                twice = self.graph.add(Node("op", "shl", "i32", vector, (variable, one)))
                return self.graph.add(Node("op", "shr", "i32", vector, (twice, one)))
            case "apart" | "low half" as half:
                count = self.graph.add(Node("const", "const", "i32", vector, text="16"))
                back, there = ("shl", "shru") if half == "low half" else ("shru", "shl")
                moved = self.graph.add(Node("op", back, "i32", vector, (variable, count)))
                return self.graph.add(Node("op", there, "i32", vector, (moved, count)))
            case _:
                return variable

    def load(self, pattern: LoadPattern, vector: bool) -> int:
        elem = self.sample.own(pattern.elem)
        memory = self.memories.get(pattern.memory)
        if memory is None:
            kept = Memory(f"A{len(self.memories)}", 0, (("i", 1),), elem)
            memory = self.memories[pattern.memory] = self.graph.memory(kept)
        names, lanes = self.sample.names, self.lanes
        args = tuple(self.add(a) for a in pattern.args)
        stride = 0 if pattern.stride is None else pattern.stride.value(lanes, names)
        levels = [e.value(lanes, names) for e in pattern.levels] or [0, 0]
        kind = "ld_pair" if pattern.op == "ld_pair" else "ld"
        place = pattern.offset.value(lanes, names)
        return self.graph.add(Node(kind, pattern.op, elem, vector, args, (), "", memory, place, stride, *levels))


_OF_CONSTANTS = frozenset({"log2", "negated", "inverse", "reciprocal", "number"}) | DIVIDING | MASKING
