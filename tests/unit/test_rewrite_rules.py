"""Every rewrite row against the meaning of its operations, on random lanes, and the rows' conditions the other way."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from dspgen.rewrite.patterns import (
    FLOATS,
    Apply,
    Hole,
    Linear,
    LoadPattern,
    Number,
    Pattern,
    RuleError,
    apply_nodes,
    argument_elems,
    parse_side,
    parse_when,
    result_elem,
)
from dspgen.rewrite.rules import RULES, Instance, Rule, check_rule, instances_of, lane_rules
from dspgen.target.load import isa_names, load_target
from dspgen.vecdsl.ir import VType
from dspgen.vecdsl.semantics import DTYPES, IEEE, Ieee, Modular, Value, apply

LANES = 4
BASE = 40
MODULAR_OPS = frozenset(
    "add sub mul mac msub nmac neg mov bcast lane dup_lane align even odd reverse reduce_add pair lo hi bcast_pair ld "
    "ld_pair".split()
)
ALL = {r.name: r for r in (*RULES, *lane_rules(LANES))}


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
        self.instance = instance
        self.typed = instance.typed
        self.arithmetic = arithmetic
        self.rng = rng
        self.gentle = gentle
        self.sides = {s: rng.choice("sv") for s in {k.side for k in self._kinds()} if s not in ("s", "v")}
        self.names = self._integers()
        self.values = self._holes()
        self.memories: dict[str, np.ndarray] = {}

    def _kinds(self):
        return [*self.typed.roots, *(k for _, k in self.typed.holes), *self.typed.kinds.values()]

    def _integers(self) -> dict[str, int]:
        loads = [n for n in apply_nodes((*self.typed.left, *self.typed.right)) if isinstance(n, LoadPattern)]
        exprs = [e for n in loads for e in (n.offset, n.stride) if e is not None]
        exprs += [e for n in apply_nodes((*self.typed.left, *self.typed.right)) if isinstance(n, Apply) for e in n.imm]
        exprs += [e for c in self.typed.comparisons for e in (c.left, c.right)]
        free = sorted({name for e in exprs for name, _ in e.terms})
        immediate = {n for a in apply_nodes(self.typed.left) if isinstance(a, Apply) for e in a.imm for n, _ in e.terms}
        for _ in range(2000):
            names = {n: self.rng.randrange(self.lanes) if n in immediate else self.rng.randrange(-8, 8) for n in free}
            if all(self._holds(c, names) for c in self.typed.comparisons):
                return names
        raise AssertionError(f"no integers satisfy {self.instance.rule.name}")

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
        }
        values: dict[str, Value] = {}
        for name, kind in self.typed.holes:
            elem = kind.elem or self.instance.elem
            side = self.sides.get(kind.side, kind.side)
            values[name] = (self.draw(elem, side), self.draw(elem, side)) if name in pairs else self.draw(elem, side)
        for relation in self.typed.relations:
            first = relation.holes[0]
            kind = dict(self.typed.holes)[first]
            shape = () if self.sides.get(kind.side, kind.side) == "s" else (self.lanes,)
            power = self.rng.randrange(1, 31)
            constant: float = self.rng.choice([-3.0, 0.7, 5.0, 2.5])
            match relation.name:
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
                    drawn = (self.rng.randrange(-32768, 32768),)
            for hole, value in zip(relation.holes, drawn, strict=True):
                values[hole] = np.full(shape, value).astype(DTYPES[kind.elem])
        return values

    def draw(self, elem: str, side: str) -> np.ndarray:
        count = 1 if side == "s" else self.lanes
        if isinstance(self.arithmetic, Modular):
            values = [self.rng.randrange(self.arithmetic.modulus) for _ in range(count)]
            return np.array(values if side == "v" else values[0], dtype=np.int64)
        if elem in FLOATS:
            special = [0.0, -0.0, 1.0, -1.0, math.inf, 1e-40, 3.5, -1e30]
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
        return np.array(values if side == "v" else values[0], dtype=dtype)

    def evaluate(self, pattern: Pattern) -> Value:
        kind = self.typed.kind(pattern)
        match pattern:
            case Hole(name):
                return self.values[name]
            case Number(value):
                side = self.sides.get(kind.side, kind.side)
                return np.asarray(
                    self.arithmetic.register(np.full(() if side == "s" else (self.lanes,), value), kind.elem)
                )
            case LoadPattern():
                return self.load(pattern, self.own(pattern.elem))
            case Apply():
                wanted = argument_elems(pattern.op, self.own(pattern.elem))
                args = tuple(self.evaluate(a) for a in pattern.args)
                if self.arithmetic is IEEE:
                    args = tuple(_as_bits(a, e) for a, e in zip(args, wanted, strict=True))
                elem = result_elem(pattern.op, self.own(pattern.elem))
                vector = self.sides.get(kind.side, kind.side) == "v"
                imm = tuple(i.value(self.lanes, self.names) for i in pattern.imm)
                return apply(self.arithmetic, pattern.op, VType(elem, vector), imm, args, self.lanes)

    def own(self, elem: str) -> str:
        return self.instance.elem if elem == "T" else elem

    def load(self, pattern: LoadPattern, elem: str) -> Value:
        if pattern.memory not in self.memories:
            self.memories[pattern.memory] = np.array([self.draw(elem, "s") for _ in range(2 * BASE + 8 * self.lanes)])
        memory = self.memories[pattern.memory]
        start = BASE + pattern.offset.value(self.lanes, self.names)
        stride = None if pattern.stride is None else pattern.stride.value(self.lanes, self.names)

        def at(first: int) -> np.ndarray:
            lanes = [first] if stride is None else [first + stride * k for k in range(self.lanes)]
            assert all(0 <= i < len(memory) for i in lanes)
            return memory[lanes[0]] if stride is None else memory[lanes]

        if pattern.op == "ld":
            return at(start)
        return at(start), at(start + (self.lanes if stride == 1 else 1))


def differs(instance: Instance, trials: int = 40, lanes: int = LANES) -> str | None:
    """How the two sides of a rule differ on some sample, or None."""
    exact = instance.elem not in FLOATS or not set(parse_when(instance.rule.when).words) & {"reassoc", "contract"}
    ops = {n.op for n in apply_nodes((*instance.typed.left, *instance.typed.right))}
    estimated = bool(ops & {"rcp_est", "rsqrt_est"})
    modular = not exact and ops <= MODULAR_OPS and not instance.typed.relations
    for seed in range(trials):
        rng = random.Random(f"{instance.rule.name} {instance.elem} {seed}")
        sample = Sample(instance, Modular() if modular else IEEE, rng, gentle=not exact or estimated, lanes=lanes)
        lefts = [sample.evaluate(p) for p in instance.typed.left]
        for left, right in zip(lefts, (sample.evaluate(p) for p in instance.typed.right), strict=False):
            right = _as_bits(right, instance.elem) if isinstance(left, np.ndarray) and left.dtype.kind == "f" else right
            if ops & {"min", "max", "reduce_min", "reduce_max"}:
                left, right = _unsigned_zeros(left), _unsigned_zeros(right)
            if not _same(left, right, tolerant=not exact and not modular):
                return f"seed {seed}: {left} != {right} for {sample.values} {sample.names}"
    return None


def _as_bits(value: Value, elem: str) -> Value:
    """A float where an integer is wanted, or the reverse, is its bits."""
    if isinstance(value, tuple) or value.dtype.itemsize != DTYPES[elem].itemsize:
        return value
    return value.view(DTYPES[elem]) if (value.dtype.kind == "f") != (DTYPES[elem].kind == "f") else value


def _unsigned_zeros(value: Value) -> Value:
    """C leaves open which zero the least of +0 and -0 is."""
    return value + np.zeros_like(value)


def _same(left: Value, right: Value, *, tolerant: bool) -> bool:
    if isinstance(left, tuple) or isinstance(right, tuple):
        return all(_same(x, y, tolerant=tolerant) for x, y in zip(left, right, strict=True))
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


def instances(rule: Rule) -> list[Instance]:
    return instances_of(rule, ("i32", "f32", "f64"), "reassoc", LANES)


@pytest.mark.parametrize("name", list(ALL))
def test_sides_mean_the_same(name: str) -> None:
    found = instances(ALL[name])
    assert found
    for instance in found:
        assert differs(instance) is None, (instance.elem, differs(instance))


def test_names_are_unique() -> None:
    assert len(ALL) == len(RULES) + len(lane_rules(LANES))


@pytest.mark.parametrize("isa", isa_names())
def test_rows_of_the_isa_files_mean_the_same(isa: str) -> None:
    target = load_target(isa)
    lanes = target.lanes
    for row in target.rewrites:
        rule = Rule(row.name, row.left, row.right, row.when, row.why)
        assert check_rule(rule) is None
        for instance in instances_of(rule, ("i32", "f32", "f64"), "reassoc", lanes):
            assert differs(instance, 20, lanes) is None, (row.name, instance.elem, differs(instance, 20, lanes))


# A rule with one of its conditions taken away must be seen to be wrong: (name, the condition's text, a type).
CONDITIONS = [
    ("neg-as-sub", "reassoc", "f32"),
    ("add-zero", "reassoc", "f32"),
    ("mac-zero", "reassoc", "f32"),
    ("neg-sub", "reassoc", "f32"),
    ("mac", "contract", "f32"),
    ("msub-apart", "contract", "f32"),
    ("factor-left", "reassoc", "f32"),
    ("reduce-merge", "reassoc", "f32"),
    ("mac16", "short16 ?b", "i32"),
    ("sext16-of-short", "short16 ?a", "i32"),
]


@pytest.mark.parametrize(("name", "condition", "elem"), CONDITIONS)
def test_conditions_are_needed(name: str, condition: str, elem: str) -> None:
    rule = ALL[name]
    items = [w.strip() for w in rule.when.split(",")]
    assert condition in items
    bare = replace(rule, when=", ".join(w for w in items if w != condition))
    (instance,) = instances_of(bare, (elem,), "reassoc", LANES)
    assert differs(instance, 200) is not None


def test_comparisons_of_not_a_number_forbid_the_integer_row() -> None:
    (instance,) = instances_of(replace(ALL["le-as-not-lt"], when=""), ("f32",), "reassoc", LANES)
    sample = Sample(instance, IEEE, random.Random(1), gentle=False)
    sample.values = {name: np.full_like(v, np.nan) for name, v in sample.values.items()}
    assert not _same(sample.evaluate(instance.typed.left[0]), sample.evaluate(instance.typed.right[0]), tolerant=False)


MUTANTS = [
    ("mac", "(mac.T ?a ?b ?c)", "(mac.T ?a ?c ?b)"),
    ("nmac", "(nmac.T ?a ?b ?c)", "(msub.T ?a ?b ?c)"),
    ("sub-as-nmac", "(nmac.T ?b 1 ?a)", "(nmac.T ?a 1 ?b)"),
    ("factor-left", "(add.T ?b ?c)", "(sub.T ?b ?c)"),
    ("neg-as-xor", "-2147483648", "1073741824"),
    ("abs-as-and", "2147483647", "-2147483648"),
    ("pair-scalar", "(hi.T (ld_pair.T ?m ?c))", "(hi.T (ld_pair.T ?m ?c+1))"),
    ("pair-vector", "(hi.T (ld_pair.T ?m ?c 1))", "(lo.T (ld_pair.T ?m ?c 1))"),
    ("pair-stride-2", "(lo.T (ld_pair.T ?m ?c 2))", "(lo.T (ld_pair.T ?m ?c 1))"),
    ("pair-broadcast", "(hi.T (bcast_pair.T ?p))", "(lo.T (bcast_pair.T ?p))"),
    ("load-as-align", "(align.T.?k", "(align.T.1"),
    ("load-as-odd", "(odd.T", "(even.T"),
    ("load-as-reverse", "?c-lanes+1", "?c-lanes"),
    ("lane-of-load", "?c+?k", "?c"),
    ("select-not", "?c ?b ?a", "?c ?a ?b"),
    ("max-as-select", "(lt.T ?b ?a)", "(lt.T ?a ?b)"),
    ("div-as-shr", "(sub.i32 32 ?k)", "?k"),
    ("reduce-merge-sub", "(sub.T ?a ?b)", "(add.T ?a ?b)"),
    ("sext16-as-shifts", "(shl.i32 ?a 16) 16", "(shl.i32 ?a 15) 15"),
    ("le-as-or", "(or.i32", "(and.i32"),
    ("reduce-add-by-lanes", "lane.T.3", "lane.T.2"),
]


@pytest.mark.parametrize(("name", "old", "new"), MUTANTS)
def test_a_wrong_row_is_seen(name: str, old: str, new: str) -> None:
    rule = ALL[name]
    assert old in rule.right
    mutant = replace(rule, right=rule.right.replace(old, new))
    assert any(differs(i, 200) is not None for i in instances(mutant))


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Rule("r", "(add.T ?a ?b", "?a"), "`(` without `)`"),
        (Rule("r", "(plus.T ?a ?b)", "?a"), "unknown operation `plus`"),
        (Rule("r", "(add.T ?a)", "?a"), "takes 2 operands"),
        (Rule("r", "(add ?a ?b)", "?a"), "element type"),
        (Rule("r", "(add.T ?a ?b)", "?a", "sometimes"), "unknown condition"),
        (Rule("r", "(add.T ?a (bcast.T ?a))", "?a"), "a scalar and a vector"),
        (Rule("r", "(add.T ?a one)", "?a"), "neither ?name nor number"),
        (Rule("r", "?a", "?a"), "must be an operation"),
        (Rule("r", "(mul.T ?a ?c)", "(shl.T ?a ?k)", "int"), "?k"),
        (Rule("r", "(ld.T ?m)", "?a"), "a load is"),
        (Rule("r", "(add.T ?a ?b)", "?c"), "?c"),
        (Rule("r", "(lane.T.?k ?a)", "(lane.T.?j ?a)"), "?j"),
    ],
)
def test_wrong_text_is_told(rule: Rule, words: str) -> None:
    told = check_rule(rule)
    assert told is not None and "`r`" in told and words in told


def test_integer_expressions() -> None:
    (load,) = parse_side("(ld.T ?m ?c+2*lanes-1 1)")
    assert isinstance(load, LoadPattern)
    assert load.offset == Linear(-1, 2, (("?c", 1),))
    assert load.offset.value(16, {"?c": 5}) == 36
    with pytest.raises(RuleError):
        parse_side("(ld.T ?m ?c* 1)")


def test_strict_mode_leaves_out_what_rounds_otherwise() -> None:
    strict = {r.name for r in ALL.values() if instances_of(r, ("f32",), "strict")}
    assert not strict & {"mac", "msub", "nmac", "factor-left", "reduce-merge", "div-by-constant", "associate-left"}
    assert {"add-as-mac", "sub-as-msub", "mul-one", "pair-vector", "neg-as-xor"} <= strict
    assert instances_of(ALL["mac"], ("i32",), "strict")
