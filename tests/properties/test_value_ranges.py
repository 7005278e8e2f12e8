"""Ranges of the numbers on lanes, against the values that the reference semantics give."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dspgen.rewrite.egraph.side_conditions import _ranges, _set_bits
from dspgen.rewrite.graph.enodes import Memory, Node, TermGraph
from dspgen.vecdsl.analysis.intervals import NARROW_MEMORY, WORD, Interval, interval_of
from dspgen.vecdsl.analysis.lane_ranges import ValueRanges
from dspgen.vecdsl.ir.evaluate import evaluate
from dspgen.vecdsl.ir.program import (
    Address,
    ArrayDecl,
    Carried,
    Const,
    Let,
    Load,
    Loop,
    Op,
    Program,
    Stmt,
    Store,
    Term,
    Var,
    VType,
)
from dspgen.vecdsl.ir.semantics import IEEE, apply
from dspgen.vecdsl.ir.terms import integer

NIGHTLY = settings().max_examples > 100
SEEDS = st.integers(0, 2**40)
VECTOR = VType("i32", True)
LANES = 8
UNARY = ("neg", "abs", "sext8", "zext8", "sext16", "zext16", "sat8", "satu8", "sat16", "satu16", "mov", "not")
BINARY = ("add", "sub", "mul", "min", "max", "and", "or", "xor", "lt", "ltu", "gt", "le", "ge", "eq", "ne", "mul16",
          "minu", "maxu", "div", "mod", "absdu", "add_sat", "sub_sat", "mulhi")  # fmt: skip
SHIFTS = ("shl", "shr", "shru")
COUNTS = (0, 1, 2, 4, 7, 8, 15, 16, 24, 30, 31, 32, 33, -1)
CONSTANTS = (0, 1, 2, 3, 7, 15, 63, 127, 128, 255, 256, 4095, 32767, 32768, 65535, 65536, 1 << 30, WORD[1], -1, -2, -8,
             -128, -129, -256, -32768, -65536, WORD[0])  # fmt: skip


def _interval(rng: random.Random) -> Interval:
    if rng.random() < 0.3:
        return rng.choice(list(NARROW_MEMORY.values()))
    ends = [c + rng.randint(-2, 2) if rng.random() < 0.5 else c for c in rng.choices(CONSTANTS, k=2)]
    low, high = (min(max(e, WORD[0]), WORD[1]) for e in sorted(ends))
    return (low, low) if rng.random() < 0.2 else (low, high)


def check_operation(seed: int) -> None:
    """One operation on all pairs of a few values of its operands' intervals."""
    rng = random.Random(seed)
    name = rng.choice((*UNARY, *BINARY, *SHIFTS, *SHIFTS, "select"))
    count = 1 if name in UNARY else 3 if name == "select" else 2
    given = [None if rng.random() < 0.15 else _interval(rng) for _ in range(count)]
    if name in SHIFTS and rng.random() < 0.9:
        given[1] = (rng.choice(COUNTS),) * 2
    values = []
    for known in given:
        low, high = known or WORD
        inside = [low, high, *(rng.randint(low, high) for _ in range(6)), *(c for c in CONSTANTS if low <= c <= high)]
        values.append(np.array(inside, np.int64).astype(np.int32))
    found = interval_of(name, "i32", given)
    if found is not None:
        grid = tuple(g.ravel() for g in np.meshgrid(*values))
        result = np.asarray(apply(IEEE, name, VECTOR, (), grid, LANES)).astype(np.int64)
        assert found[0] <= result.min() and result.max() <= found[1], (name, given, found, result.min(), result.max())


def _term(rng: random.Random, names: list[str], depth: int) -> Term:
    def part() -> Term:
        return _term(rng, names, depth - 1)

    if depth == 0 or rng.random() < 0.1:
        if names and rng.random() < 0.5:
            return Var(rng.choice(names), VECTOR)
        if rng.random() < 0.6:
            elem = rng.choice(("u8", "i8", "u16", "i16", "i32"))
            mask = part() if depth and rng.random() < 0.2 else None
            return Load(elem, Address(rng.randint(0, 4)), 1, elem, VECTOR, mask=mask)  # type: ignore[arg-type]
        return Const(rng.choice(CONSTANTS), VECTOR)
    name = rng.choice((*UNARY, *BINARY, "add", "sub", "min", "max", "and", *SHIFTS, "select", "pick"))
    if name in UNARY:
        return Op(name, (part(),), VECTOR)
    if name == "select":
        return Op(name, (part(), part(), part()), VECTOR)
    if name == "pick":
        a, b = part(), part()
        if rng.random() < 0.4:
            b = Const(0, VECTOR)
        first, second = (a, b) if rng.random() < 0.5 else (b, a)
        arms = [a, b, Op("neg", (a,), VECTOR)]
        condition = Op(rng.choice(("lt", "le", "gt", "ge")), (first, second), VECTOR)
        return Op("select", (condition, rng.choice(arms), rng.choice(arms)), VECTOR)
    right = Const(rng.choice(COUNTS), VECTOR) if name in SHIFTS else part()
    return Op(name, (part(), right), VECTOR)


def _next(rng: random.Random, name: str, names: list[str]) -> Term:
    """What is carried on: a sum or an extremum, mostly."""
    other = _term(rng, names, 2)
    kind = rng.choice(("add", "sub", "min", "max", "add", "term"))
    if kind == "term":
        return _term(rng, [name, *names], 2)
    made = Op(kind, (Var(name, VECTOR), other), VECTOR)
    return Op("add", (made, _term(rng, names, 1)), VECTOR) if rng.random() < 0.2 else made


def _body(rng: random.Random, names: list[str], depth: int, count: list[int]) -> list[Stmt]:
    """Lets, and loops that carry values; each name is stored, so that its values are seen."""
    made = list[Stmt]()
    for _ in range(rng.randint(1, 2)):
        count[0] += 1
        number = count[0]
        if depth and rng.random() < 0.6:
            trip, name = rng.randint(0, 3), f"c{number}"
            start, inside = _term(rng, names, 1), [*names, name]
            body = _body(rng, inside, depth - 1, count)
            lets = [s.name for s in body if isinstance(s, Let)]
            following = _next(rng, name, [*names, *lets])
            loop = Loop(f"i{number}", integer(0), integer(trip), 1, (Carried(name, start, following),), tuple(body))
            made.append(loop)
        else:
            name = f"t{number}"
            made.append(Let(name, _term(rng, names, 3)))
        names.append(name)
    return made


def check_program(seed: int) -> None:
    """Each name, at each place that it is in scope at its last run."""
    rng = random.Random(seed)
    count = [0]
    body = _body(rng, [], 2, count)

    def watched(stmts: list[Stmt]) -> tuple[list[Stmt], list[str]]:
        done, seen = list[Stmt](), list[str]()
        for stmt in stmts:
            match stmt:
                case Let(name):
                    done += [stmt, _store(name)]
                    seen.append(name)
                case Loop():
                    inner, names = watched(list(stmt.body))
                    own = [_store(c.name) for c in stmt.carried] if rng.random() < 0.5 else []
                    after = [] if own else [_store(c.name) for c in stmt.carried]
                    done += [Loop(stmt.iterator, stmt.start, stmt.trip, 1, stmt.carried, (*own, *inner)), *after]
                    seen += [*names, *(c.name for c in stmt.carried)]
        return done, seen

    def _store(name: str) -> Store:
        return Store(f"o{name}", Address(0), 1, "i32", Var(name, VECTOR))

    stmts, names = watched(body)
    elems = ("u8", "i8", "u16", "i16", "i32")
    arrays = [*(ArrayDecl(e, e, LANES + 4, False, True) for e in elems)]  # type: ignore[arg-type]
    arrays += [ArrayDecl(f"o{n}", "i32", LANES, False) for n in names]
    program = Program("f", tuple(a.name for a in arrays), tuple(arrays), (), tuple(stmts))
    generator = np.random.default_rng(seed)
    inputs: dict[str, object] = {}
    for elem in elems:
        low, high = NARROW_MEMORY.get(elem, WORD)
        values = generator.integers(low, high + 1, LANES + 4)
        inputs[elem] = np.where(generator.random(LANES + 4) < 0.5, generator.choice([low, high]), values)
    # An unused mark tells what was stored from what was not.
    inputs |= {f"o{n}": np.full(LANES, WORD[0] + 12345) for n in names}
    results, ranges = evaluate(program, LANES, inputs), ValueRanges(program)
    for name in names:
        known, got = ranges.of(Var(name, VECTOR)), results[f"o{name}"].astype(np.int64)
        if known is not None and got[0] != WORD[0] + 12345:
            assert known[0] <= got.min() and got.max() <= known[1], (name, known, got, program)


def check_facts(seed: int) -> None:
    """The ranges and the bits of a rewriting rule's nodes."""
    rng = random.Random(seed)
    graph, values = TermGraph(), list[np.ndarray]()
    for _ in range(rng.randint(2, 9)):
        if not values or rng.random() < 0.35:
            if rng.random() < 0.5:
                constant = rng.choice(CONSTANTS)
                node, value = (
                    Node("const", "const", "i32", True, text=str(constant)),
                    np.full(LANES, constant, np.int32),
                )
            else:
                elem = rng.choice(("u8", "i8", "u16", "i16"))
                memory = graph.memory(Memory(elem, 0, (), elem))  # type: ignore[arg-type]
                node = Node("ld", "ld", "i32", True, memory=memory, constant=rng.randint(0, 99))
                low, high = NARROW_MEMORY[elem]
                value = np.array([rng.choice([low, high, rng.randint(low, high)]) for _ in range(LANES)], np.int32)
        else:
            name = rng.choice((*UNARY, *BINARY, "or", "xor", "and", "shl", "shl", "select", *SHIFTS))
            arity = 1 if name in UNARY else 3 if name == "select" else 2
            args = [rng.randrange(len(values)) for _ in range(arity)]
            if name in SHIFTS:
                count = rng.choice(COUNTS)
                args[1] = graph.add(Node("const", "const", "i32", True, text=str(count)))
                if args[1] == len(values):
                    values.append(np.full(LANES, count, np.int32))
            node = Node("op", name, "i32", True, args=tuple(args))
            value = np.asarray(apply(IEEE, name, VECTOR, (), tuple(values[a] for a in args), LANES)).astype(np.int32)
        if graph.add(node) == len(values):
            values.append(value)
    ranges = _ranges(graph)
    for node, span, bits, value in zip(graph.nodes, ranges, _set_bits(graph, ranges), values, strict=True):
        assert span is None or (span[0] <= value.min() and value.max() <= span[1]), (graph.nodes, node, span, value)
        assert not (int(np.bitwise_or.reduce(value.view(np.uint32))) & ~bits), (graph.nodes, node, hex(bits), value)


@settings(max_examples=60_000 if NIGHTLY else 400)
@given(seed=SEEDS)
def test_operations(seed: int) -> None:
    check_operation(seed)


@settings(max_examples=30_000 if NIGHTLY else 80)
@given(seed=SEEDS)
def test_names_and_loops(seed: int) -> None:
    check_program(seed)


@settings(max_examples=30_000 if NIGHTLY else 150)
@given(seed=SEEDS)
def test_facts_of_rules(seed: int) -> None:
    check_facts(seed)
