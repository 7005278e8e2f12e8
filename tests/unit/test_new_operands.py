"""Operands that an instruction takes from its own packet, and results that some readers want early."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from dspgen.driver.pipeline import compile_file, run_compiled
from dspgen.errors import SourceError
from dspgen.options import Options
from dspgen.sim.run import Engine, simulate
from dspgen.sim.text.parse import assemble
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target

ENGINES = [e for e in get_args(Engine) if e != "auto"]
SAXPY = """\
void saxpy(int y[1024], const int x[1024], int a) {
#pragma scop
  for (int i = 0; i < 1024; i++)
    y[i] += a * x[i];
#pragma endscop
}
"""


@pytest.fixture(scope="module")
def machine() -> Target:
    return load_target("hexagon_v66")


def stored(body: str, machine: Target, engine: Engine) -> list[int]:
    text = f"        .global f\nf: {{ r10 = r0; r2 = #5 }}\n{body}\n   {{ jumpr r31 }}\n"
    array = np.zeros(64, dtype=np.int32)
    found = simulate(text, machine, arguments=[("x", array)], engine=engine)
    return [int(v) for v in found.outputs["x"][[0, 31]]]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("body", "ends"),
    [
        ("{ r2 = add(r2,#1); memw(r10+#0) = r2 }", [5, 0]),
        ("{ r2 = add(r2,#1); memw(r10+#0) = r2.new }", [6, 0]),
        ("{ memw(r10+#0) = r2.new; r2 = add(r2,#1) }", [6, 0]),
        ("{ v1 = vsplat(r2); r2 = #9 }\n{ v1.w = vadd(v1.w,v1.w); vmem(r10+#0) = v1.new }", [10, 10]),
        ("{ v1 = vsplat(r2); r2 = #9 }\n{ v1.w = vadd(v1.w,v1.w); vmem(r10+#0) = v1 }", [5, 5]),
    ],
)
def test_the_packet_s_own_result(body: str, ends: list[int], engine: Engine, machine: Target) -> None:
    assert stored(body, machine, engine) == ends


@pytest.mark.parametrize(
    "body",
    [
        "memw(r10+#0) = r2.new",
        "r3 = #1; memw(r10+#0) = r2.new",
        "v1 = vmem(r11+#0); vmem(r10+#0) = v1.new",
        "v1:0.w = vmpy(v2.h,v3.h); vmem(r10+#0) = v1.new",
    ],
)
def test_what_nothing_makes(body: str, machine: Target) -> None:
    with pytest.raises(SourceError, match="nothing in its packet makes"):
        assemble(f"f: {{ {body} }}", machine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("first", "second", "stalls"),
    [
        ("v1.w = vadd(v2.w,v3.w)", "v4.w = vadd(v1.w,v3.w)", 0),
        ("v1.w = vadd(v2.w,v3.w)", "v4.w = vmpyieo(v1.h,v3.h)", 1),
        ("v1.w = vadd(v2.w,v3.w)", "{ v5 = v6 }\n v4.w = vmpyieo(v1.h,v3.h)", 0),
        ("v1.w = vmpyieo(v2.h,v3.h)", "v1.w += vmpyie(v2.w,v3.uh)", 0),
        ("v1.w = vmpyieo(v2.h,v3.h)", "v4.w = vadd(v1.w,v3.w)", 0),
        ("v1 = vmem(r10+#0)", "v4.w = vasl(v1.w,v3.w)", 1),
    ],
)
def test_early_sources(first: str, second: str, stalls: int, engine: Engine, machine: Target) -> None:
    packets = "\n".join(second.split("\n ")[:-1])
    text = "        .global f\nf: { r10 = r0 }\n{ v2 = #0; v3 = #0 }\n{ v6 = #0 }\n"
    text += f"{{ {first} }}\n{packets}\n{{ {second.split(chr(10))[-1]} }}\n{{ jumpr r31 }}\n"
    found = simulate(text, machine, arguments=[("x", np.zeros(64, dtype=np.int32))], engine=engine)
    assert found.stalls == stalls


def test_stores_take_what_is_just_made(tmp_path: Path, machine: Target) -> None:
    path = tmp_path / "saxpy.c"
    path.write_text(SAXPY, encoding="utf-8")
    options = Options(tiler="model", tile="one")
    compiled = compile_file(str(path), machine, options)
    assert ".new" in compiled.asm
    assert run_compiled(compiled, str(path), machine, options).verified
