"""`dspgen sim` warns, with lines, of what works by luck in text that people wrote."""

from __future__ import annotations

import numpy as np
import pytest

from dspgen.sim.run import Engine, simulate
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


@pytest.mark.parametrize("engine", ["python", "native"])
@pytest.mark.parametrize(
    ("store", "load", "said"),
    [
        ("VSTW VR0,*AR0", "VLDW *+AR0[15],VR1", True),
        ("VSTW VR0,*AR0", "VLDW *+AR0[16],VR1", False),
        ("VSTW VR0,*+AR0[16]", "VLDDW *AR0,VR3:VR2", True),
        ("[VR0] VSTW VR0,*AR0", "VLDW *+AR0[3],VR1", True),
        ("VSTDW VR3:VR2,*AR0++", "VLDW *AR1,VR1", True),
    ],
)
def test_a_load_beside_a_store_of_one_address(store: str, load: str, said: bool, engine: Engine) -> None:
    text = f""".global f
f:  SMVAGA36.M1 R11:R10,AR0
|   SMVAGA36.M2 R11:R10,AR1
    VMOVIL 1,VR0
    VMOVIL 1,VR2
    VMOVIL 1,VR3
    SNOP 3
    {store}
|   {load}
    SNOP 7
    SBR R62
    SNOP 6
"""
    found = simulate(
        text, TARGET, arguments=[("x", np.ones(64, np.int32))], strict=False, engine=engine, file="f.s"
    ).warnings
    mnemonic = store.removeprefix("[VR0] ").split()[0]
    told = f"loads what {mnemonic} of line 8 stores in the same packet; it gets the old value here"
    assert [w.split(": ", 1)[1] for w in found] == ([f"{load.split()[0]} {told}"] if said else [])


@pytest.mark.parametrize("engine", ["python", "native"])
def test_a_load_beside_a_store_that_is_off(engine: Engine) -> None:
    text = """.global f
f:  SMVAGA36.M1 R11:R10,AR0
    VMOVIL 0,VR0
    SNOP 3
[VR0] VSTW VR0,*AR0
|   VLDW *AR0,VR1
    SNOP 7
    SBR R62
    SNOP 6
"""
    run = simulate(text, TARGET, arguments=[("x", np.ones(16, np.int32))], strict=False, engine=engine, file="f.s")
    assert run.warnings == ()


@pytest.mark.parametrize("engine", ["python", "native"])
def test_vectors_off_the_chip(engine: Engine) -> None:
    text = """.global f
f:  SMVAGA36.M1 R11:R10,AR0
|   SMVAGA36.M2 R11:R10,AR10
    SNOP 3
    VLDW *AR0,VR1
|   SLDW *AR10,R20
    SNOP 7
    SBR R62
    SNOP 6
"""
    for place, said in (("AM", ()), ("DDR", ("f.s:5:5: VLDW reaches memory off the chip",))):
        run = simulate(
            text, TARGET, arguments=[("x", np.ones(16, np.int32))], placement={"x": place}, strict=False,
            engine=engine, file="f.s",
        )  # fmt: skip
        assert tuple(w.split(";")[0] for w in run.warnings) == said
