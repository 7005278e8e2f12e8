"""Sums of products with common factors, wherever these stand, come out with each factor once."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from dspgen.rewrite.factoring import propose_factors
from dspgen.rewrite.graph.enodes import Node, TermGraph
from dspgen.rewrite.optimize import optimise
from dspgen.target.load import load_target
from dspgen.vecdsl.ir.evaluate import evaluate
from dspgen.vecdsl.ir.printer import print_program
from dspgen.vecdsl.ir.program import Address, ArrayDecl, Const, Load, Loop, Op, Program, Store, Term, VType
from dspgen.vecdsl.ir.verify import verify

LANES = 4
MACHINE = load_target("ft_m7002", [("lanes", str(LANES))])
F = VType("f32", True)
S = VType("f32", False)
N = VType("i32", False)


def value(graph: TermGraph, number: int, leaves: dict[str, int]) -> int:
    """What an integer term is, modulo 2**32."""
    node = graph.nodes[number]
    if node.kind == "var":
        return leaves[node.text]
    a, b, c = (*(value(graph, n, leaves) for n in node.args), 0, 0)[:3]
    made: dict[str, Callable[[], int]] = {
        "add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b, "neg": lambda: -a,
        "mac": lambda: a * b + c, "nmac": lambda: c - a * b, "msub": lambda: a * b - c,
    }  # fmt: skip
    return made[node.op]() % 2**32


@pytest.mark.parametrize("seed", range(30))
def test_any_sum_stays_the_same(seed: int) -> None:
    source = random.Random(seed)
    graph = TermGraph()
    names = [graph.add(Node("var", "var", "i32", True, text=f"x{n}")) for n in range(5)]

    def term(depth: int) -> int:
        if depth == 0:
            return graph.add(Node("op", "mul", "i32", True, (source.choice(names), source.choice(names))))
        op = source.choice(("add", "sub", "mac", "nmac", "msub"))
        args = (
            (term(depth - 1), term(depth - 1)) if op in ("add", "sub") else (*source.sample(names, 2), term(depth - 1))
        )
        return graph.add(Node("op", op, "i32", True, args))

    graph.roots = [term(source.randrange(1, 5)) for _ in range(2)]
    found = propose_factors(graph, reassoc=False)
    for fact in found:
        for _ in range(8):
            leaves = {f"x{n}": source.getrandbits(32) for n in range(5)}
            old, new = (value(graph, n, leaves) for n in fact.nodes)
            assert old == new
    assert found or seed


def symmetric(taps: int) -> Program:
    """y[i] += c[k] * x[i+k] over all taps in order, where the program reads c[min(k, taps-1-k)]."""

    def x(constant: int) -> Load:
        return Load("X", Address(constant, (("i", LANES),)), 1, "f32", F)

    total: Term = Load("Y", Address(0, (("i", LANES),)), 1, "f32", F)
    for tap in range(taps):
        c = Op("bcast", (Load("C", Address(min(tap, taps - 1 - tap)), 1, "f32", S),), F)
        total = Op("add", (total, Op("mul", (c, x(tap)), F)), F)
    arrays = tuple(ArrayDecl(n, "f32", 256, False) for n in "XCY")
    body = (Store("Y", Address(0, (("i", LANES),)), 1, "f32", total),)
    return Program("p", ("X", "C", "Y"), arrays, (), (Loop("i", Const(0, N), Const(32, N), 1, (), body, 32, 32),))


@pytest.mark.parametrize("taps", [4, 9, 16])
def test_a_symmetric_filter_halves_its_products(taps: int) -> None:
    given = symmetric(taps)
    changed = verify(optimise(given, MACHINE).program)
    text = print_program(changed)
    products = sum(text.count(f"({op}.f32.v ") for op in ("mul", "mac", "nmac", "msub"))
    ones = text.count("(const.f32.v 1.0)")
    assert products - ones == (taps + 1) // 2
    values = np.random.default_rng(3)
    inputs = {a.name: values.uniform(-2, 2, a.size).astype(np.float32) for a in given.arrays}
    before, after = evaluate(given, LANES, inputs), evaluate(changed, LANES, inputs, slack=8 * LANES)
    np.testing.assert_allclose(after["Y"], before["Y"], rtol=1e-4, atol=1e-4)


def test_floats_are_left_where_rounding_counts() -> None:
    text = print_program(optimise(symmetric(4), MACHINE, fp="strict").program)
    assert text.count("(mul.f32.v ") == 4
