"""`dspgen sim` warns, with lines, of what works by luck in text that people wrote."""

from __future__ import annotations

import numpy as np

from dspgen.sim.run import simulate
from dspgen.target.load import load_target

TARGET = load_target("ft_m7002")


def warnings(text: str, **arguments: object) -> tuple[str, ...]:
    return simulate(text, TARGET, arguments=list(arguments.items()), strict=False, engine="python", file="f.s").warnings


def test_a_read_that_depends_on_the_way_to_it() -> None:
    text = """.global f
f:  SMVAGA36.M1 R11:R10,AR10
|   SMOV.M2 R12,R1
    SMOVIL 7,R20
    SNOP 1
[R1] SBR .skip
    SNOP 5
    SLDW *AR10,R20
    SNOP 6
.skip:
    SADD R20,R20,R10
    SNOP 6
    SBR R62
    SNOP 6
"""
    found = warnings(text, x=np.ones(4, np.int32), n=1)
    assert found == (
        "f.s:11:5: SADD reads R20 on one way before and on another after the result of line 8 lands there",
    )
    settled = text.replace("    SNOP 5\n    SLDW *AR10,R20\n", "    SLDW *AR10,R20\n    SNOP 5\n")
    assert warnings(settled, x=np.ones(4, np.int32), n=1) == ()


def test_an_old_value_that_every_turn_reads_is_meant() -> None:
    text = """.global f
f:  SMVAGA36.M1 R11:R10,AR10
    SMOVIL 7,R20
    SLDW *AR10,R20
    SADD R20,R20,R10
    SNOP 4
    SADD R20,R10,R10
    SBR R62
    SNOP 6
"""
    assert warnings(text, x=np.ones(4, np.int32)) == ()


def test_two_branches_in_flight() -> None:
    text = """.global f
f:  SMOV.M1 R10,R1
    SNOP 1
[R1] SBR .one
[!R1] SBR .one
    SNOP 6
.one: SBR R62
    SNOP 6
"""
    assert warnings(text, n=1) == (
        "f.s:5:7: SBR stands in the delay slots of another branch; both must not be taken",
    )  # fmt: skip


def test_registers_that_a_caller_relies_on() -> None:
    text = ".global f\nf: SMOVIL 3,R30\n SMVCGC.L R30,VLR\n SBR R62\n SNOP 6\n"
    assert [w.split()[0] for w in warnings(text)] == ["R30", "VLR"]
