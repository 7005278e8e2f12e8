"""Operations under a predicate and under its complement: which dependences are between them."""

from __future__ import annotations

import numpy as np
import pytest

from dspgen.asmir.ir.function import Instr, Predicate, Reg, VReg
from dspgen.check.equivalence import check
from dspgen.driver.linear_asm import schedule_text
from dspgen.sched.graph.dependence_graph import all_edges, straight_graph
from dspgen.sched.graph.synthesized_instrs import Kit
from dspgen.sched.machine.target_facts import Facts
from dspgen.sched.straight.prepare import straight_ops
from dspgen.sim.linear_evaluator import evaluate
from dspgen.sim.run import simulate
from dspgen.target.load import load_target
from tests.support.sched_programs import Writer

TARGET = load_target("ft_m7002")
FACTS = Facts(TARGET)
P, Q, A, X, Y = (VReg(name, "R") for name in "pqaxy")


def edges(*rows: tuple[str, VReg, VReg, VReg, Predicate | None]) -> set[tuple[int, int]]:
    """Which instructions, `op first, second, result` each, depend on which."""
    w = Writer(TARGET)
    for op, first, second, result, predicate in rows:
        w.op(op, "i32", Reg(result), Reg(first), Reg(second), predicate=predicate)
    instrs = [item for item in w.items if isinstance(item, Instr)]
    ops = straight_ops(instrs, FACTS, Kit(FACTS), rename=False)
    return {(a, b) for a, b, _, _ in all_edges(straight_graph(ops, FACTS))}


IF, ELSE = Predicate(P), Predicate(P, negated=True)


def test_reads_and_writes_of_two_ways_do_not_wait() -> None:
    found = edges(
        ("add", A, A, X, None),
        ("add", X, A, Y, IF),
        ("add", A, A, X, ELSE),
        ("add", X, A, Y, ELSE),
    )
    assert (1, 2) not in found  # the one way reads x before the other writes it
    assert {(0, 1), (0, 2), (2, 3), (1, 3)} <= found


def test_a_value_passes_a_write_of_the_other_way() -> None:
    found = edges(("add", A, A, X, None), ("add", X, X, X, IF), ("add", X, A, Y, ELSE), ("sub", X, A, A, None))
    assert (1, 2) not in found and {(0, 2), (1, 3), (0, 1)} <= found


@pytest.mark.parametrize(
    "between",
    [("add", A, A, P, None), ("add", A, A, P, IF), ("add", A, A, P, Predicate(Q))],
    ids=["none", "if", "other"],
)
def test_the_predicate_is_of_one_value(between: tuple[str, VReg, VReg, VReg, Predicate | None]) -> None:
    found = edges(("add", X, A, Y, IF), between, ("add", A, A, X, ELSE))
    assert (0, 2) in found and {(0, 1), (1, 2)} <= found


def test_the_predicate_itself_is_read_in_any_case() -> None:
    assert (0, 1) in edges(("add", A, A, Y, IF), ("add", A, A, P, ELSE))


SCALAR = """
        .global f
        .no_mdep
        .input x1:x0, y1:y0, n
        .gen_var v, c, r, s
        .add_var p, q
        SMVAGA36 x1:x0, p
        SMVAGA36 y1:y0, q
.words: .loop
        SLDW *p++[1], v
        SLT 0, v, c
        [c]SMULIS 3, v, s
        [c]SADD 1, s, r
        [!c]SMULIS 5, v, s
        [!c]SSUB s, v, r
        SSTW r, *q++[1]
        SSUB 1, n, n
        [n]SBR .words
        .endloop
        .size f, .-f
"""
LANES = """
        .global f
        .no_mdep
        .input x1:x0, y1:y0, n
        .gen_var v, c, r, s, k, k0
        .add_var p, q
        SMOVIL 3, k0
        SVBCAST k0, k
        SMVAGA36 x1:x0, p
        SMVAGA36 y1:y0, q
.words: .loop
        VLDW *p++[16], v
        VSUB v, k, c
        [c]VMULIS k, v, s
        [c]VADD s, k, r
        [!c]VADD v, k, s
        [!c]VMULIS s, v, r
        VSTW r, *q++[16]
        SSUB 1, n, n
        [n]SBR .words
        .endloop
        .size f, .-f
"""


@pytest.mark.parametrize(("text", "recurrence"), [(SCALAR, 1), (LANES, 2)], ids=["scalar", "lanes"])
def test_two_halves_make_a_value(text: str, recurrence: int) -> None:
    """What both ways write is no value of the iteration before: only pointers, the counter, and the order of landings
    are carried. The checker sees that whatever was in the register before does not count."""
    (function,) = schedule_text(text, TARGET)
    (loop,) = [report for report in function.scheduled.loops if report.pipelined]
    assert loop.rec_mii <= recurrence
    for n in (1, 3, 8, 21):
        random = np.random.default_rng(n)
        arguments = [("x", random.integers(-3, 8, 640, np.int32)), ("y", np.zeros(640, np.int32)), ("n", n)]
        expected = evaluate(function.linear.sequence, TARGET, arguments, strict=False).outputs["y"]
        for engine in ("python", "native"):
            got = simulate(function.asm, TARGET, arguments=arguments, strict=False, engine=engine)
            np.testing.assert_array_equal(got.outputs["y"], expected)
        assert check(text, function.asm, TARGET, arguments).problems == ()
