"""How few cycles instructions could take: chains, units, and never more than a real schedule."""

from __future__ import annotations

import numpy as np
import pytest

from dspgen.backend.stages import arguments_of, stack_of
from dspgen.bench.programs import program
from dspgen.check.lower_bound import Least, least_cycles
from dspgen.driver.pipeline import compile_file
from dspgen.options import Options
from dspgen.oracle.inputs import random_inputs
from dspgen.sim.text.parse import assemble
from dspgen.target.load import load_target

TARGET = load_target("ft_m7002")
RETURN = "        SBR R62\n        SNOP 6\n"


def least(body: str) -> Least:
    text = ".global f\nf:\n" + "".join(f"        {line}\n" for line in body.splitlines()) + RETURN
    found = least_cycles(assemble(text, TARGET), TARGET, [("x", np.arange(4, dtype=np.int32))])
    assert found is not None
    return found


def test_a_return_and_its_delay_slots() -> None:
    assert least("SNOP 1") == Least(7, 1, ())


def test_a_chain_through_registers_and_memory() -> None:
    load, multiply = (max(i.latency for i in TARGET.instructions if i.mnemonic == m) for m in ("SLDW", "SFMULS32"))
    body = (
        "SMVAGA36.M1 R11:R10, AR10\nSNOP 2\nSLDW *AR10, R20\nSNOP 5\nSFMULS32.M1 R20, R20, R21\nSNOP 3\nSSTW R21, *AR10"
    )
    moved = next(i.latency for i in TARGET.instructions if i.mnemonic == "SMVAGA36")
    assert least(body).chain == moved + load + multiply + 1
    stored = least(f"{body}\nSNOP 5\nSLDW *AR10, R22\nSNOP 5\nSFMULS32.M1 R22, R22, R23")
    assert stored.chain >= least(body).chain + load


def test_a_unit_that_many_need() -> None:
    body = "SMVAGA36.M1 R11:R10, AR10\nSNOP 2\n" + "\n".join(f"SLDW *AR10, R{20 + k}" for k in range(12))
    found = least(body)
    assert found.units == ("SLDST",) and found.cycles >= 12 > found.chain


def test_an_element_waits_for_itself_alone() -> None:
    body = "SMVCGC R10, SVR0\nSMVCGC R10, SVR1\nSNOP 2\nSMVCCG SVR1, R20\nSNOP 1\nSMVCGC R20, SVR0\n"
    assert least(body + "SMVCCG SVR1, R21").chain < least(body + "SNOP 2\nSMVCCG SVR0, R21").chain


def test_registers_used_again_make_nobody_wait() -> None:
    one = "SMOVIL 1, R20\nSADD.M1 R20, R20, R21"
    assert least(f"{one}\n{one}\n{one}").chain == least(one).chain


@pytest.mark.parametrize("name", ["dot.c", "stencil3.c", "matmul.c"])
def test_real_schedules_take_no_fewer(name: str) -> None:
    options = Options(defines=(("N", "16"),), tile="one")
    compiled = compile_file(program(name), TARGET, options)
    arguments = arguments_of(compiled, random_inputs(compiled.source, 0))
    found = least_cycles(assemble(compiled.asm, TARGET), TARGET, arguments, stack=stack_of(compiled))
    assert found is not None and compiled.scheduled.cycles is not None
    assert found.chain <= found.cycles <= compiled.scheduled.cycles
