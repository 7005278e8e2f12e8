"""Hardware loops: text that has them runs and is refused as on the machine, and the scheduler makes loops of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspgen.driver.pipeline import compile_file, run_compiled
from dspgen.errors import SourceError
from dspgen.options import Options
from dspgen.sim.run import simulate
from dspgen.sim.text.parse import assemble
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target
from tests.support.random_isa import Variation, machine

NEST = """\
        .global f
f:      { r1 = #0; loop1(##outer,#3) }
outer:  { loop0(##inner,r0) }
inner:  { r1 = add(r1,#1) }:endloop0
        {
            r1 = add(r1,#100)
        }:endloop1
        { r0 = r1; jumpr r31 }
"""
SUMS = """\
void sums(int y[19], const int x[19][70]) {
#pragma scop
  for (int i = 0; i < 19; i++) {
    y[i] = i;
    for (int j = 0; j < 70; j++)
      y[i] += x[i][j] * x[i][69 - j];
  }
#pragma endscop
}
"""
ANY = """\
void any(int y[40], const int x[40], int n) {
#pragma scop
  for (int i = 0; i < n; i++)
    y[i] = x[i] + 1;
#pragma endscop
}
"""
QUAD = Variation("quad", loops=(2, 3, 2))


@pytest.fixture(scope="module")
def hexagon() -> Target:
    return load_target("hexagon_v66")


@pytest.fixture(scope="module")
def quad() -> Target:
    target, faults = machine(QUAD)
    assert target is not None and not [f for f in faults if f.severity == "error"], faults
    return target


@pytest.mark.parametrize("engine", ["native", "python"])
@pytest.mark.parametrize("times", [0, 1, 2, 7])
def test_a_nest(times: int, engine: str, hexagon: Target) -> None:
    result = simulate(NEST, hexagon, arguments=[("n", times)], engine=engine)
    assert result.result == 3 * (max(times, 1) + 100)
    assert result.packets == 1 + 3 * (2 + max(times, 1)) + 1


def test_an_end_belongs_to_its_packet(hexagon: Target) -> None:
    program = assemble(NEST, hexagon)
    assert [len(p.members) for p in program.packets] == [2, 1, 2, 2, 2]
    alone = assemble("f: { loop0(##f,#2) }\n{ }:endloop0\n{ jumpr r31 }", hexagon)
    assert [len(p.members) for p in alone.packets] == [1, 1, 1]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("f: { r0 = #1 }:endloop0", "no loop is begun above what ends here"),
        ("f: { loop1(##f,#2) }\n{ r0 = #1 }:endloop0", "no loop is begun above what ends here"),
        ("f: { loop0(##f,#2) }\n{ r1 = #1; if (r0!=#0) jump:nt f }:endloop0", "share units"),
        ("f: { loop0(##f,#2); r1 = #1; r2 = #1; r3 = #1 }", "a packet of 5 instructions"),
        ("f: { loop0(##f,#1024) }", "out of range"),
        ("f: :endloop0 { r0 = #1 }", "`:endloop0` is out of place"),
        ("f: { loop0(##f,#2) }\n{ r0 = #1; :endloop0 }", "`:endloop0` is out of place"),
    ],
)
def test_what_is_refused(text: str, told: str, hexagon: Target) -> None:
    with pytest.raises(SourceError, match=told):
        assemble(text, hexagon)


@pytest.mark.parametrize("engine", ["native", "python"])
def test_a_loop_that_was_begun_elsewhere(engine: str, hexagon: Target) -> None:
    text = """\
        .global f
f:      { loop0(##one,#3) }
one:    { r1 = #1; jump two }
other:  { loop0(##two,#3) }
two:    { r1 = #2 }:endloop0
        { jumpr r31 }
"""
    with pytest.raises(SourceError, match="where the loop above it does not begin"):
        simulate(text, hexagon, engine=engine)


FEW = Options(tiler="model", tile="one")


def source(folder: Path, text: str) -> str:
    path = folder / "sums.c"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_loops_of_a_nest(tmp_path: Path, hexagon: Target) -> None:
    """Inner and outer loop are the hardware's; nothing counts."""
    path = source(tmp_path, SUMS)
    compiled = compile_file(path, hexagon, FEW)
    assert run_compiled(compiled, path, hexagon, FEW).verified
    assert ":endloop0" in compiled.asm and ":endloop1" in compiled.asm and "jump:nt" not in compiled.asm


def test_exposed_with_delay_slots(tmp_path: Path, quad: Target) -> None:
    """Loops end without delay slots, and there are too many iterations for a number."""
    path = source(tmp_path, SUMS)
    compiled = compile_file(path, quad, FEW)
    assert ":hwend0" in compiled.asm and ":hwend1" in compiled.asm
    assert run_compiled(compiled, path, quad, FEW).verified


def test_iterations_that_a_register_tells(tmp_path: Path, quad: Target) -> None:
    path = source(tmp_path, ANY)
    compiled = compile_file(path, quad, FEW)
    assert ":hwend0" in compiled.asm
    for n in (0, 1, 2, 5, 37):
        assert run_compiled(compiled, path, quad, FEW, inputs={"n": n}).verified
