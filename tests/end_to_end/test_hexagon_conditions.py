"""Instructions under a condition: the simulator does what QEMU does, in as many packets, and refuses what LLVM does."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from dspgen.errors import DspgenError, SourceError
from dspgen.sim.external import emulate
from dspgen.sim.run import Engine, simulate
from dspgen.sim.text.parse import assemble
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target

ENGINES = [e for e in get_args(Engine) if e != "auto"]
# r1 is 5, r2 7, r3 3, p0 false, p1 true; at the end r3 and r4 are stored.
BEFORE = """\
        .global f
f:      { r10 = r0; r1 = #5; r2 = #7 }
        { r3 = #3; p0 = cmp.eq(r1,r2); p1 = cmp.eq(r1,r1); r4 = memw(r10+#8) }
"""
AFTER = """
f_E:    { memw(r10+#0) = r3; memw(r10+#4) = r4 }
        { jumpr r31 }
.size f, .-f
"""
SKIP = "\n{ r3 = #99 }"
BODIES = [
    ("{ if (p0) r3 = r1; if (!p0) r4 = r2 }", 5, [3, 7, 42, 43]),
    ("{ if (p1) r3 = r1; if (!p1) r4 = r2 }", 5, [5, 42, 42, 43]),
    ("{ p0 = cmp.gt(r2,r1); if (p0.new) r3 = #9; if (!p0.new) r3 = #8; if (p0) r4 = #1 }", 5, [9, 42, 42, 43]),
    ("{ p1 = cmp.gt(r1,r2); if (!p1.new) r3 = add(r1,#2); if (p1) r4 = sub(r1,r2) }", 5, [7, -2, 42, 43]),
    ("{ p0 = cmp.gt(r2,r1); if (p0.new) r3 = memw(r10+#12); if (p0) r4 = memw(r10+#16) }", 5, [43, 42, 42, 43]),
    ("{ p0 = cmp.gt(r2,r1); if (p0.new) memw(r10+#12) = r1; if (!p0) memw(r10+#8) = r2 }", 5, [3, 42, 7, 5]),
    ("{ if (p0) memw(r10++#4) = r1 }", 5, [3, 42, 42, 43]),
    ("{ r3 = r1; memw(r10+#8) = r3; memw(r10+#12) = r2 }", 5, [5, 42, 3, 7]),
    ("{ if (p1) jump:nt f_E }" + SKIP, 5, [3, 42, 42, 43]),
    ("{ if (!p1) jump:t f_E }" + SKIP, 6, [99, 42, 42, 43]),
    ("{ p1 = cmp.eq(r1,r2); if (!p1.new) jump:nt f_E }" + SKIP, 5, [3, 42, 42, 43]),
    ("{ r1 = add(r1,#-5); if (cmp.eq(r1.new,#0)) jump:t f_E }" + SKIP, 5, [3, 42, 42, 43]),
    ("{ r1 = add(r1,#-4); if (cmp.eq(r1.new,#0)) jump:nt f_E }" + SKIP, 6, [99, 42, 42, 43]),
    ("{ r1 = add(r1,#-40); if (cmp.gtu(r2,r1.new)) jump:nt f_E }" + SKIP, 6, [99, 42, 42, 43]),
    ("{ r1 = add(r1,#-40); if (cmp.gt(r2,r1.new)) jump:nt f_E }" + SKIP, 5, [3, 42, 42, 43]),
    ("{ r1 = add(r1,#-40); if (tstbit(r1.new,#0)) jump:nt f_E }" + SKIP, 5, [3, 42, 42, 43]),
    ("f_L: { r1 = add(r1,#-1); r3 = add(r3,r1); if (!cmp.eq(r1.new,#0)) jump:t f_L }", 9, [18, 42, 42, 43]),
    ("f_L: { r1 = memw(r10++#4); if (!cmp.gt(r1.new,r2)) jump:t f_L }\n{ r10 = r0 }", 6, [3, 42, 42, 43]),
]


@pytest.fixture(scope="module")
def machine() -> Target:
    return load_target("hexagon_v66")


@pytest.mark.parametrize(("body", "packets", "ends"), BODIES)
def test_all_engines_agree(body: str, packets: int, ends: list[int], machine: Target) -> None:
    text = BEFORE + body + AFTER
    for engine in ENGINES:
        found = simulate(text, machine, arguments=[("x", np.arange(40, 56, dtype=np.int32))], engine=engine)
        assert (found.packets, found.outputs["x"][:4].tolist()) == (packets, ends)


@pytest.mark.needs_tool("hexagon_v66")
@pytest.mark.parametrize(("body", "packets", "ends"), BODIES)
def test_the_emulator_agrees(body: str, packets: int, ends: list[int], machine: Target) -> None:
    text = BEFORE + body + AFTER
    real = emulate(text, machine, "f", [("x", np.arange(40, 56, dtype=np.int32))])
    assert (real.packets, real.outputs["x"][:4].tolist()) == (packets, ends)


REFUSED = [
    "r1 = add(r1,#-1); if (cmp.eq(r1.new,#0)) jump:nt f; memw(r10+#0) = r3",
    "r1 = add(r1,#-1); if (cmp.eq(r1.new,#0)) jump:nt f; jump f",
    "r1 = add(r1,#-1); if (cmp.eq(r1.new,#0)) jump:nt f; v1 = vmemu(r10+#0)",
    "r1 = add(r1,#-1); if (cmp.eq(r2.new,#0)) jump:nt f",
    "if (p0) r1 = #3; if (cmp.eq(r1.new,#0)) jump:nt f",
    "r3 = #4; memw(r10+#0) = r2; memw(r10+#4) = r3.new",
    "memw(r10+#0) = r2; memw(r10+#4) = r3; r4 = memw(r10+#8)",
    "r2 = #1; memw(r10+#0) = r2.new; vmem(r11+#0) = v0",
    "if (p0.new) r1 = r2",
]


@pytest.mark.parametrize("packet", REFUSED)
def test_what_the_machine_refuses(packet: str, machine: Target) -> None:
    with pytest.raises(SourceError):
        assemble(f"f: {{ {packet} }}", machine)


@pytest.mark.needs_tool("hexagon_v66")
@pytest.mark.parametrize("packet", REFUSED)
def test_what_the_assembler_refuses(packet: str, machine: Target) -> None:
    with pytest.raises(DspgenError, match="fails with status"):
        emulate(f"        .global f\nf: {{ {packet} }}\n{{ jumpr r31 }}\n", machine, "f", [])
