"""Random values for a rewrite rule's names, and what its two sides are under them."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np

from dspgen.rewrite.egraph.side_conditions import DIVIDING, MASKING, dividing, masking
from dspgen.rewrite.graph.patterns import (
    FLOATS,
    SHUFFLES,
    Apply,
    Hole,
    Lanes,
    LoadPattern,
    Number,
    Pattern,
    apply_nodes,
    argument_elems,
    integer_expressions,
    parse_when,
    result_elem,
)
from dspgen.rewrite.rules.table import Instance
from dspgen.vecdsl.ir.program import VType, lanes_of
from dspgen.vecdsl.ir.semantics import DTYPES, IEEE, Ieee, Modular, Value, apply

LANES = 4
SIZE = 400  # of each memory, its addresses counted from the middle
MODULAR_OPS = frozenset(
    "add sub mul mac msub nmac neg mov bcast lane dup_lane align even odd reverse reduce_add pair lo hi bcast_pair ld "
    "ld_pair zip_lo zip_hi shuffle shuffle2 transpose concat all_add vec".split()
)


class Sample:
    """Random values for a rule's names, and the value of its patterns under them."""

    def __init__(
        self,
        instance: Instance,
        arithmetic: Ieee | Modular,
        rng: random.Random,
        *,
        gentle: bool,
        lanes: int = LANES,
    ) -> None:
        self.lanes = lanes
        nodes = apply_nodes((*instance.typed.left, *instance.typed.right))
        self.divides = any(n.op in ("div", "mod") for n in nodes)
        self.converts = any(n.op in ("cvt_f32_i32", "cvt_f64_i32") for n in nodes)
        self.instance = instance
        self.typed = instance.typed
        self.arithmetic = arithmetic
        self.rng = rng
        self.gentle = gentle
        self.small, self.masks = _places(nodes)
        self.sides = {s: rng.choice("sv") for s in {k.side for k in self._kinds()} if s not in ("s", "v")}
        self.names = self._integers()
        self.values = self._holes()
        self.memories: dict[str, np.ndarray] = {}
        self.known: dict[int, Value] = {}

    def _kinds(self):
        return [*self.typed.roots, *(k for _, k in self.typed.holes), *self.typed.kinds.values()]

    def _integers(self) -> dict[str, int]:
        nodes = apply_nodes((*self.typed.left, *self.typed.right))
        exprs = [e for n in nodes for e in integer_expressions(n)]
        exprs += [e for c in self.typed.comparisons for e in (c.left, c.right)]
        free = sorted({name for e in exprs for name, _ in e.terms})
        immediate = {
            name: (n.op, len(n.args))
            for n in reversed(nodes)
            if isinstance(n, Apply)
            for e in integer_expressions(n)
            for name, _ in e.terms
        }
        self.patterns: dict[str, tuple[int, ...]] = {}
        for name, (op, count) in immediate.items():
            if op in SHUFFLES:
                width = 1 if any(isinstance(n, Apply) and n.op == "shuffle" for n in nodes) else count
                self.patterns[name] = tuple(self.rng.randrange(width * self.lanes) for _ in range(self.lanes))
        for _ in range(4000):
            names = {n: self._drawn(immediate.get(n, ("", 0))[0]) for n in free if n not in self.patterns}
            if all(self._holds(c, names) for c in self.typed.comparisons):
                return names
        raise AssertionError(f"no integers satisfy {self.instance.rule.name}")

    def _drawn(self, op: str) -> int:
        """An immediate of an operation, or a place."""
        if op == "transpose":
            return self.rng.choice([r for r in range(1, self.lanes + 1) if self.lanes % r == 0])
        return self.rng.randrange(self.lanes) if op else self.rng.randrange(-8, 8)

    def _holds(self, comparison, names: dict[str, int]) -> bool:
        left, right = comparison.left.value(self.lanes, names), comparison.right.value(self.lanes, names)
        if comparison.op == "=" and comparison.left.bare:
            names[comparison.left.bare] = right
            return True
        return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right, "=": left == right,
                "!=": left != right}[comparison.op]  # fmt: skip

    def _holes(self) -> dict[str, Value]:
        pairs = {
            a.args[0].name
            for a in apply_nodes((*self.typed.left, *self.typed.right))
            if isinstance(a, Apply) and a.op in ("lo", "hi", "bcast_pair") and isinstance(a.args[0], Hole)
        } | {
            arg.name
            for a in apply_nodes((*self.typed.left, *self.typed.right))
            if isinstance(a, Apply) and a.op in ("cmul", "cmul_re", "cmul_im", "cmac")
            for arg in a.args
            if isinstance(arg, Hole)
        }
        values: dict[str, Value] = {}
        for name, kind in self.typed.holes:
            elem = kind.elem or self.instance.elem
            side = self.sides.get(kind.side, kind.side)
            if name in pairs:
                values[name] = (self.draw(elem, side), self.draw(elem, side))
            elif name in self.small | self.masks:
                values[name] = self._place(name, side)
            else:
                values[name] = self.draw(elem, side)
        self._make_some_equal(values)
        numbers = {r.holes[0] for r in self.typed.relations if r.name == "number"}
        for relation in sorted(self.typed.relations, key=lambda r: r.name == "number"):
            first = relation.holes[0]
            kind = dict(self.typed.holes)[first]
            shape = () if self.sides.get(kind.side, kind.side) == "s" else (self.count(kind.elem),)
            power = self.rng.randrange(1, 4 if numbers else min(8 * DTYPES[kind.elem].itemsize - 1, 31))
            constant: float = self.rng.choice([-3.0, 0.7, 5.0, 2.5])
            match relation.name:
                case "factor" | "reused":
                    continue
                case "log2":
                    drawn: tuple[float, ...] = (1 << power, power)
                case "negated":
                    drawn = (constant, -constant)
                case "inverse":
                    drawn = (2.0 ** (power - 15), 2.0 ** (15 - power))
                case "reciprocal":
                    exact = float(np.asarray(constant, DTYPES[kind.elem]))
                    drawn = (exact, 1.0 / exact)
                case "short16":
                    drawn = (self.rng.choice([self.rng.randrange(-32768, 32768), -32768, 32767, -1]),)
                case "short31":
                    drawn = (self.rng.choice([self.rng.randrange(-9, 9), -(1 << 30), (1 << 30) - 1]),)
                case "flag":
                    drawn = (self.rng.randrange(2),)
                case "apart":
                    drawn = (self.rng.randrange(-32768, 32768) << 16, self.rng.randrange(1 << 16))
                case name if name in MASKING:
                    drawn = self._masked(name)
                case name if name in DIVIDING:
                    drawn = self._factor(name)
                case "number":
                    if first in values and any(first in r.holes for r in self.typed.relations if r is not relation):
                        self.names[relation.integer] = int(np.ravel(values[first])[0])
                        continue
                    drawn = (self.names.setdefault(relation.integer, self.rng.randrange(-8, 8)),)
            for hole, value in zip(relation.holes, drawn, strict=True):
                values[hole] = np.full(shape, value).astype(DTYPES[kind.elem])
        return values

    def _factor(self, relation: str) -> tuple[int, ...]:
        """A divisor, and how to divide by it."""
        edges = [3, 5, 7, 9, 10, 11, 13, 25, 125, 625, 641, 2**31 - 1, -7, -3]
        while True:
            constant = self.rng.choice([self.rng.choice(edges), self.rng.randrange(2, 2**31)])
            for name, *found in dividing(constant):
                if name == relation:
                    return tuple(found)

    def _masked(self, relation: str) -> tuple[int, ...]:
        """A mask, and what tells its bits."""
        while True:
            ends = sorted(self.rng.sample(range(33), 4 if relation == "several_bits" else 2))
            word = sum((1 << high) - (1 << low) for low, high in zip(ends[::2], ends[1::2], strict=True))
            for name, *found in masking((word + (1 << 31)) % (1 << 32) - (1 << 31)):
                if name == relation:
                    return tuple(found)

    def _make_some_equal(self, values: dict[str, Value]) -> None:
        """On half of the samples, one name has on some lanes what another has: comparisons tell these apart."""
        alike = [n for n, v in values.items() if isinstance(v, np.ndarray) and n not in self.small | self.masks]
        if len(alike) < 2 or self.rng.random() < 0.5:
            return
        first, second = self.rng.sample(alike, 2)
        source, target = values[first], values[second]
        if source.shape == target.shape and source.dtype == target.dtype:
            where = np.array([self.rng.random() < 0.5 for _ in range(source.size)]).reshape(source.shape)
            values[second] = np.where(where, source, target)

    def _place(self, name: str, side: str) -> np.ndarray:
        """An index, which stays near, or a mask."""
        choices = [0, 0, 1, 2, -1, 4] if name in self.masks else list(range(-6, 7))
        drawn = [self.rng.choice(choices) for _ in range(self.lanes)]
        return np.array(drawn if side == "v" else drawn[0], dtype=np.int32)

    def draw(self, elem: str, side: str) -> np.ndarray:
        count = 1 if side == "s" else self.count(elem)
        if isinstance(self.arithmetic, Modular):
            values = [self.rng.randrange(self.arithmetic.modulus) for _ in range(count)]
            return np.array(values if side == "v" else values[0], dtype=np.int64)
        if elem in FLOATS:
            special = [0.0, -0.0, 1.0, -1.0, math.inf, 1e-40, 3.5, -1e30, math.nan]
            if self.converts:  # C leaves open what becomes of numbers that don't fit
                special = [0.0, -0.0, 1.0, -1.0, 0.5, -1e-40, 32767.5, -(2.0**31), 2.0**31 - 128, 1e9, -123456.75]
            values = [self.rng.choice([self.rng.uniform(-4, 4), self.rng.choice(special)]) for _ in range(count)]
            if self.gentle:
                values = [self.rng.uniform(0.5, 4) for _ in range(count)]
        else:
            edges = [0, 1, -1, 2**31 - 1, -(2**31)]
            values = [
                self.rng.choice([self.rng.randrange(-(2**31), 2**31), self.rng.choice(edges), 3]) for _ in range(count)
            ]
            if elem.startswith("u"):
                values = [v % 2 ** int(elem[1:]) for v in values]
        if self.divides:
            values = [v or 7 for v in values]
        dtype = np.dtype(DTYPES[elem])
        if dtype.kind == "u":
            values = [v % (1 << 8 * dtype.itemsize) for v in values]
        return np.array(values if side == "v" else values[0]).astype(dtype)

    def count(self, elem: str) -> int:
        """The elements of a vector."""
        return lanes_of(VType(elem, True), self.lanes)

    def evaluate(self, pattern: Pattern) -> Value:
        if id(pattern) not in self.known:
            self.known[id(pattern)] = self._evaluated(pattern)
        return self.known[id(pattern)]

    def _evaluated(self, pattern: Pattern) -> Value:
        kind = self.typed.kind(pattern)
        match pattern:
            case Hole(name):
                return self.values[name]
            case Number(value):
                side = self.sides.get(kind.side, kind.side)
                return np.asarray(
                    self.arithmetic.register(np.full(() if side == "s" else (self.count(kind.elem),), value), kind.elem)
                )
            case Lanes(values):
                return np.asarray(self.arithmetic.register(np.array(values), kind.elem))
            case LoadPattern():
                return self.load(pattern, self.own(pattern.elem))
            case Apply():
                wanted = argument_elems(pattern.op, self.own(pattern.elem), len(pattern.args))
                args = tuple(self.evaluate(a) for a in pattern.args)
                if self.arithmetic is IEEE:
                    args = tuple(as_bits(a, e) for a, e in zip(args, wanted, strict=True))
                elem = result_elem(pattern.op, self.own(pattern.elem))
                vector = self.sides.get(kind.side, kind.side) == "v"
                return apply(
                    self.arithmetic, pattern.op, VType(elem, vector), self.immediates(pattern), args, self.lanes
                )

    def immediates(self, pattern: Apply) -> tuple[int, ...]:
        found: list[int] = []
        for i in pattern.imm:
            if isinstance(i, Lanes):
                found += [int(v) for v in i.values]
            elif i.bare in self.patterns:
                found += self.patterns[i.bare]
            else:
                found.append(i.value(self.lanes, self.names))
        return tuple(found)

    def own(self, elem: str) -> str:
        return self.instance.elem if elem == "T" else elem

    def load(self, pattern: LoadPattern, elem: str) -> Value:
        """As `dspgen.vecdsl.ir.evaluate` loads, with every place checked."""
        if pattern.memory not in self.memories:
            wanted = "index" if pattern.memory in self.small else elem
            drawn = [
                self._place(pattern.memory, "s") if wanted == "index" else self.draw(elem, "s") for _ in range(SIZE)
            ]
            self.memories[pattern.memory] = np.array(drawn)
        memory = self.memories[pattern.memory]
        scalar = pattern.stride is None
        stride = 0 if pattern.stride is None else pattern.stride.value(self.lanes, self.names)
        lane = np.arange(1 if scalar else self.lanes)
        if pattern.levels:
            period, jump = (e.value(self.lanes, self.names) for e in pattern.levels)
            where = lane % period * stride + lane // period * jump
        else:
            where = lane * stride
        where = where + SIZE // 2 + pattern.offset.value(self.lanes, self.names)
        args = [np.asarray(self.evaluate(a)).reshape(-1).astype(np.int64) for a in pattern.args]
        asked = args.pop() != 0 if "m" in pattern.op else np.ones(where.size, dtype=bool)
        if args:
            where = where + args.pop()
        assert all(0 <= i < len(memory) for i in where[asked]), "out of bounds"

        def at(places: np.ndarray) -> np.ndarray:
            found = np.where(asked, memory[np.where(asked, places, 0)], np.zeros((), memory.dtype))
            return found[0] if scalar else found

        if pattern.op != "ld_pair":
            return at(where)
        return at(where), at(where + (self.lanes if stride == 1 and not scalar else 1))


def _places(nodes: Sequence[Apply | LoadPattern]) -> tuple[set[str], set[str]]:
    """The names of what is used as an index, memories included, and of masks."""
    small: set[str] = set()
    masks: set[str] = set()
    for node in nodes:
        if isinstance(node, LoadPattern) and node.args:
            if "x" in node.op:
                small |= _names_within(node.args[0])
            if "m" in node.op:
                masks |= _names_within(node.args[-1])
    return small, masks


def _names_within(pattern: Pattern) -> set[str]:
    match pattern:
        case Hole(name):
            return {name}
        case LoadPattern():
            return {pattern.memory}
        case Apply():
            return {name for a in pattern.args for name in _names_within(a)}
        case _:
            return set()


def differs(instance: Instance, trials: int = 40, lanes: int = LANES) -> str | None:
    """How the two sides of a rule differ on some sample, or None."""
    exact = instance.elem not in FLOATS or not set(parse_when(instance.rule.when).words) & {"reassoc", "contract"}
    ops = {n.op for n in apply_nodes((*instance.typed.left, *instance.typed.right))}
    estimated = bool(ops & {"rcp_est", "rsqrt_est"})
    modular = not exact and ops <= MODULAR_OPS and all(r.name in ("factor", "reused") for r in instance.typed.relations)
    for seed in range(trials):
        rng = random.Random(f"{instance.rule.name} {instance.elem} {seed}")
        sample = Sample(instance, Modular() if modular else IEEE, rng, gentle=not exact or estimated, lanes=lanes)
        lefts = [sample.evaluate(p) for p in instance.typed.left]
        for left, right in zip(lefts, (sample.evaluate(p) for p in instance.typed.right), strict=False):
            right = as_bits(right, instance.elem) if isinstance(left, np.ndarray) and left.dtype.kind == "f" else right
            if ops & {"min", "max", "reduce_min", "reduce_max"}:
                left, right = _unsigned_zeros(left), _unsigned_zeros(right)
            if not same(left, right, tolerant=not exact and not modular):
                return f"seed {seed}: {left} != {right} for {sample.values} {sample.names}"
    return None


def as_bits(value: Value, elem: str) -> Value:
    """A float where an integer is wanted, or the reverse, is its bits."""
    if isinstance(value, tuple) or value.dtype.itemsize != DTYPES[elem].itemsize:
        return value
    return value.view(DTYPES[elem]) if (value.dtype.kind == "f") != (DTYPES[elem].kind == "f") else value


def _unsigned_zeros(value: Value) -> Value:
    """C leaves open which zero the least of +0 and -0 is."""
    return value + np.zeros_like(value)


def same(left: Value, right: Value, *, tolerant: bool) -> bool:
    if isinstance(left, tuple) or isinstance(right, tuple):
        return all(same(x, y, tolerant=tolerant) for x, y in zip(left, right, strict=True))
    if left.shape != right.shape:
        return False
    if tolerant:
        return np.allclose(left.astype(np.float64), right.astype(np.float64), rtol=1e-4, atol=1e-5)
    if left.dtype.kind == "f":
        numbers = ~(np.isnan(left) & np.isnan(right))
        return np.array_equal(
            left[numbers].view(f"i{left.dtype.itemsize}"), right[numbers].view(f"i{left.dtype.itemsize}")
        )
    return np.array_equal(left, right)
