"""Calls on Hexagon as other compilers make them: where arguments lie, which registers the caller finds again."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from dspgen import oracle
from dspgen.backend.stages import simulate_kernel
from dspgen.driver.emulator import emulate_kernel
from dspgen.driver.pipeline import compile_file
from dspgen.errors import SourceError
from dspgen.options import Options
from dspgen.sim.external import emulate_c
from dspgen.sim.run import Engine, simulate
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target

WIDE = """\
void wide(int r[40], const int a[40], int k, double d, int m, long long e, int n, float f, double g, int q) {
  for (int i = 0; i < 40; i++) r[i] = a[i] * k + m - n * q + (int)f;
}
"""
CALLER = """\
void wide(int *r, const int *a, int k, double d, int m, long long e, int n, float f, double g, int q);
void caller(int *r, const int *a) {
  wide(r, a, 7, 0.5, -3, 0x123456789abcdefLL, 11, 2.0f, -1.5, 100);
}
"""
# The first argument of `keeps` is where it puts what the kernel leaves in the registers; the others are the kernel's.
KEEPS = """\
    .text
    .global keeps
keeps:
    {{ allocframe(#64) }}
    {{ memd(r29+#0) = r17:16 }}
    {{ memd(r29+#8) = r19:18 }}
    {{ memd(r29+#16) = r21:20 }}
    {{ memd(r29+#24) = r23:22 }}
    {{ memd(r29+#32) = r25:24 }}
    {{ memd(r29+#40) = r27:26 }}
    {{ memw(r29+#48) = r0; r0 = r1; r1 = r2; r2 = r3 }}
    {{ memw(r29+#52) = r30; r3 = r4 }}
{set}
    {{ call {function} }}
    {{ r0 = memw(r29+#48) }}
    {{ r1 = memw(r29+#52) }}
    {{ r30 = sub(r30,r1) }}
    {{ memw(r0+#0) = r30; r30 = r1 }}
{get}
    {{ r17:16 = memd(r29+#0) }}
    {{ r19:18 = memd(r29+#8) }}
    {{ r21:20 = memd(r29+#16) }}
    {{ r23:22 = memd(r29+#24) }}
    {{ r25:24 = memd(r29+#32) }}
    {{ r27:26 = memd(r29+#40) }}
    {{ dealloc_return }}
"""
# Twelve rows are multiplied with each other before any is stored: all are live at once.
ROWS = """\
void rows(int a[12][32], int k, int r[12][32]) {
  for (int i = 0; i < 32; i++) {
    int p = a[0][i], q = a[1][i], u = a[2][i], s = a[3][i], t = a[4][i], v = a[5][i];
    int w = a[6][i], x = a[7][i], y = a[8][i], z = a[9][i], o = a[10][i], e = a[11][i];
    a[0][i] = p * e - w; a[1][i] = q * o - x; a[2][i] = u * z - y;
    a[3][i] = s * y - z; a[4][i] = t * x - o; a[5][i] = v * w - e;
    r[0][i] = p * w + o; r[1][i] = q * x + z; r[2][i] = u * y + e;
    r[3][i] = s * z + p; r[4][i] = t * o + q; r[5][i] = v * e + k * u;
  }
}
"""
# Eight numbers go through the loop, pipelined, more than the registers that are not the caller's.
SUMS = """\
void sums(const int a[64], int k, int r[64]) {
  int s0 = 0, s1 = 1, s2 = 2, s3 = 3, s4 = 4, s5 = 5, s6 = 6, s7 = 7;
  for (int i = 0; i < 64; i++) {
    s0 = s1 * 3 + a[i]; s1 = s2 ^ s0; s2 = s3 - s1; s3 = s4 * k + s2; s4 = s5 ^ s3;
    s5 = s6 + s4; s6 = s7 * s5 - k; s7 = s0 ^ s6;
    r[i] = s7;
  }
}
"""


@pytest.fixture(scope="module")
def hexagon() -> Target:
    return load_target("hexagon_v66")


def kept(text: str, target: Target, folder: Path, function: str) -> np.ndarray:
    """What is left of the numbers -1, -2, ... in r16 to r27, after how far r30 moved; arrays are checked too."""
    path = folder / "kernel.c"
    path.write_text(text, encoding="utf-8")
    compiled = compile_file(str(path), target, Options())
    values = oracle.random_inputs(compiled.source, 0, {})
    wanted = oracle.run_c(str(path), compiled.source, values, ())
    found = emulate_kernel(compiled, target, values)
    assert found.packets == simulate_kernel(compiled, target, values).packets
    numbers = range(16, 28)
    put = "\n".join(f"    {{ r{n} = #{15 - n} }}" for n in numbers)
    get = "\n".join(f"    {{ memw(r0+#{4 * (n - 15)}) = r{n} }}" for n in numbers)
    tools = target.toolchain
    assert tools is not None
    parts = [
        (tools.assemble, "inner.s", compiled.asm),
        (tools.assemble, "keeps.s", KEEPS.format(set=put, get=get, function=function)),
    ]
    arguments = [("registers", np.ones(13, np.int32)), *((p.name, values[p.name]) for p in compiled.source.params)]
    ran = emulate_c("", tools.compile, target, "keeps", arguments, parts)
    assert all(np.array_equal(ran.outputs[name], array) for name, array in wanted.items())
    return ran.outputs["registers"]


@pytest.mark.needs_tool("hexagon_v66")
def test_arguments_of_64_bits(tmp_path: Path, hexagon: Target) -> None:
    """They take pairs, passing over odd registers, and lie on the stack at multiples of eight bytes; clang calls."""
    path = tmp_path / "wide.c"
    path.write_text(WIDE, encoding="utf-8")
    compiled = compile_file(str(path), hexagon, Options())
    given = {"k": 7, "m": -3, "n": 11, "q": 100, "f": 2.0}
    values = oracle.random_inputs(compiled.source, 0, given)
    wanted = oracle.run_c(str(path), compiled.source, values, ())["r"]
    assert np.array_equal(simulate_kernel(compiled, hexagon, values).outputs["r"], wanted)
    assert np.array_equal(emulate_kernel(compiled, hexagon, values).outputs["r"], wanted)
    tools = hexagon.toolchain
    assert tools is not None
    arrays = [(name, values[name]) for name in ("r", "a")]
    parts = [(tools.assemble, "inner.s", compiled.asm)]
    assert np.array_equal(emulate_c(CALLER, tools.compile, hexagon, "caller", arrays, parts).outputs["r"], wanted)


@pytest.mark.needs_tool("hexagon_v66")
def test_the_caller_s_registers(tmp_path: Path, hexagon: Target) -> None:
    assert list(kept(SUMS, hexagon, tmp_path, "sums")) == [0, *range(-1, -13, -1)]


@pytest.mark.needs_tool("hexagon_v66")
def test_spilled_vectors(tmp_path: Path) -> None:
    target = load_target("hexagon_v66", [("registers.V.names", "v{0..9}")])
    assert list(kept(ROWS, target, tmp_path, "rows")) == [0, *range(-1, -13, -1)]


@pytest.mark.parametrize("engine", [e for e in get_args(Engine) if e != "auto"])
@pytest.mark.parametrize(("place", "refused"), [(-8, True), (-4, True), (0, False)])
def test_writes_below_the_stack_pointer(place: int, refused: bool, engine: Engine) -> None:
    """Reads are let be: what is below isn't kept, but nothing is harmed."""
    target = load_target("hexagon_v66")
    moved = "{ r29 = add(r29,#-8) }" if place == 0 else "{ r1 = memw(r29+#-8) }"
    text = f".global f\nf: {moved}\n{{ r1 = #5 }}\n{{ memw(r29+#{place}) = r1 }}\n{{ jumpr r31 }}\n"
    if refused:
        with pytest.raises(SourceError, match="below the stack pointer"):
            simulate(text, target, engine=engine)
    else:
        simulate(text, target, engine=engine)
