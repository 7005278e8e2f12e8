"""Code for a machine with real tools: what its assembler takes and its emulator runs is what our simulator says."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dspgen import oracle
from dspgen.backend.stages import Compiled, arguments_of, simulate_kernel
from dspgen.driver.emulator import run_emulated
from dspgen.driver.pipeline import compile_file
from dspgen.errors import DspgenError
from dspgen.options import Options
from dspgen.sched.graph.synthesized_instrs import Kit
from dspgen.sched.machine.target_facts import Facts
from dspgen.sched.registers.spilling import Stack
from dspgen.sim.external import emulate
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target
from plant_core.support.location import PlantError
from tests.generators.narrow import narrow
from tests.generators.nests import Features, random_program
from tests.generators.rows import rows

INTEGERS = Features(types=("int", "unsigned int", "short", "unsigned short"))
SEEDS = [pytest.param(s, marks=() if 0 < s < 8 else pytest.mark.slow) for s in range(200)]  # 0 takes long
KERNELS = {
    "saxpy": (),
    "dot": (("N", "160"),),
    "matmul": (("N", "32"),),
    "fir": (("N", "64"), ("TAPS", "8")),
    "conv": (("N", "40"),),
}
QUICK = ("saxpy", "fir")


@pytest.fixture(scope="module")
def hexagon() -> Target:
    return load_target("hexagon_v66")


def agree(path: Path, target: Target, options: Options, given: dict[str, int]) -> None:
    """The emulator's arrays are the C program's, and its packets the simulator's."""
    same_arrays(compile_file(str(path), target, options), path, target, options, given)


def same_arrays(compiled: Compiled, path: Path, target: Target, options: Options, given: dict[str, int]) -> None:
    func = compiled.source
    values = oracle.random_inputs(func, 0, {**oracle.default_inputs(str(path), func, options.defines, ()), **given})
    found = emulate(compiled.asm, target, func.name, arguments_of(compiled, values))
    wanted = oracle.run_c(str(path), func, values, options.defines)
    assert all(np.array_equal(found.outputs[name], array) for name, array in wanted.items())
    assert found.packets == simulate_kernel(compiled, target, values).packets


@pytest.mark.needs_tool("hexagon_v66")
@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in KERNELS])
def test_kernels(name: str, examples: Path, hexagon: Target) -> None:
    agree(examples / "bench" / "hexagon" / f"{name}.c", hexagon, Options(defines=KERNELS[name]), {})


@pytest.mark.parametrize(
    ("name", "defines", "most"),
    [("autocor", (), 320), ("matmul", (("IN", "short"),), 4350)],
)
def test_packets(name: str, defines: tuple[tuple[str, str], ...], most: int, examples: Path, hexagon: Target) -> None:
    """Loops whose branch lacks a slot, and loops that lack registers, come near what the multipliers need: 241 and 4096
    packets."""
    path = examples / "bench" / "hexagon" / f"{name}.c"
    compiled = compile_file(str(path), hexagon, Options(defines=defines))
    values = oracle.random_inputs(compiled.source, 0, oracle.default_inputs(str(path), compiled.source, defines, ()))
    assert simulate_kernel(compiled, hexagon, values).packets <= most


@pytest.mark.needs_tool("hexagon_v66")
@pytest.mark.parametrize("seed", SEEDS)
def test_random_program(seed: int, tmp_path: Path, hexagon: Target) -> None:
    program = random_program(random.Random(seed), INTEGERS)
    path = tmp_path / "kernel.c"
    path.write_text(program.text, encoding="utf-8")
    try:
        compiled = compile_file(str(path), hexagon, Options())
    except (DspgenError, PlantError):
        pytest.skip("refused")
    same_arrays(compiled, path, hexagon, Options(), program.given)


@pytest.mark.needs_tool("hexagon_v66")
@pytest.mark.parametrize("seed", [pytest.param(s, marks=() if s < 3 else pytest.mark.slow) for s in range(40)])
def test_random_rows(seed: int, tmp_path: Path, hexagon: Target) -> None:
    path = tmp_path / "rows.c"
    path.write_text(rows(seed), encoding="utf-8")
    agree(path, hexagon, Options(tiler="model"), {})


@pytest.mark.needs_tool("hexagon_v66")
def test_runner(dspgen: Callable[..., tuple[int, str, str]], examples: Path, hexagon: Target) -> None:
    path = str(examples / "bench" / "hexagon" / "saxpy.c")
    status, out, _ = dspgen("run", path, "--isa", "hexagon_v66", "--runner", "qemu", "--json")
    found = json.loads(out)
    assert status == 0 and found["verified"] and found["cycles"] is None and found["runner"] == "qemu"
    assert found["bound_cycles"] < found["packets"] < 100


def test_a_machine_without_tools(examples: Path, ft_m7002: Target) -> None:
    with pytest.raises(DspgenError, match="names no assembler, linker and emulator"):
        run_emulated(str(examples / "saxpy.c"), ft_m7002, Options(defines=(("N", "64"),)))


@pytest.mark.needs_tool("hexagon_v66")
def test_bench(dspgen: Callable[..., tuple[int, str, str]], hexagon: Target) -> None:
    status, out, _ = dspgen("bench", "hexagon", "--only", "saxpy", "--jobs", "1", "--json")
    found = json.loads(out)
    (row,) = found["rows"]
    assert status == 0 and row["verified"] and row["agree"] and row["cycles"] is None
    assert row["packets"] <= row["best_peer"] == min(row["peers"].values())
    assert found["summary"]["behind"] == []


SOON = (0, 2, 3)  # those of the first that don't take long


@pytest.mark.needs_tool("hexagon_v66")
@pytest.mark.parametrize("seed", [pytest.param(s, marks=() if s in SOON else pytest.mark.slow) for s in range(100)])
def test_narrow_kernels(seed: int, tmp_path: Path, hexagon: Target) -> None:
    path = tmp_path / "k.c"
    path.write_text(narrow(seed))
    agree(path, hexagon, Options(tiler="model"), {})


@pytest.mark.needs_tool("hexagon_v66")
def test_arrays_of_any_length(tmp_path: Path, hexagon: Target) -> None:
    path, options = tmp_path / "k.c", Options(tiler="model", data="onchip")
    path.write_text("void k(const int *x, int *y, int n) { for (int i = 0; i < n; i++) y[i] = x[i] + 3; }")
    compiled = compile_file(str(path), hexagon, options)
    for n in (0, 1, 200):
        same_arrays(compiled, path, hexagon, options, {"n": n})


@pytest.mark.needs_tool("hexagon_v66")
def test_arguments_on_the_stack(tmp_path: Path, hexagon: Target) -> None:
    """Six come in registers; pointers and numbers beyond these lie above the stack pointer."""
    path = tmp_path / "many.c"
    path.write_text(
        """void many(const int a[70], int k, const int b[70], int m, const int c[70], int n, const int d[70], int q,
                     int r[70], int s[70], int t) {
             for (int i = 0; i < 70; i++) { r[i] = a[i] * k + b[i] * m + q; s[i] = c[i] - d[i] * n + t; } }""",
        encoding="utf-8",
    )
    agree(path, hexagon, Options(), {"k": 3, "m": -5, "n": 77, "q": 1 << 20, "t": -9})


def test_nothing_lies_below_the_stack_pointer(examples: Path, hexagon: Target) -> None:
    """What a signal handler may write over; the pointer is moved down at entry and back at exit."""
    compiled = compile_file(str(examples / "stencil3.c"), hexagon, Options())
    moved = [int(n) for n in re.findall(r"r29 = add\(r29,#(-?\d+)\)", compiled.asm)]
    places = [int(n) for n in re.findall(r"mem\w+\(r29\+#(-?\d+)\)", compiled.asm)]
    assert len(moved) == 2 and sum(moved) == 0 and moved[0] < 0 and moved[0] % 8 == 0
    assert places and all(0 <= place < -moved[0] for place in places)


def test_vectors_are_aligned_in_frames(hexagon: Target) -> None:
    facts = Facts(hexagon)
    stack = Stack(facts, Kit(facts), ())
    assert stack.frame("r29") is None
    stack.place("R")
    first = stack.frame("r29")
    assert first is not None and (first.size, first.alignment) == (8, 0)
    stack.place("V")
    second = stack.frame("r29")
    assert second is not None and second.alignment == 128 and second.size % 128 == 0 and second.size > 256


def test_doubles_are_refused(tmp_path: Path, hexagon: Target) -> None:
    path = tmp_path / "doubles.c"
    path.write_text(
        "void f(int r[8], const int a[8]) { for (int i = 0; i < 8; i++) r[i] = a[i] * 0.5; }", encoding="utf-8"
    )
    with pytest.raises(DspgenError) as found:
        compile_file(str(path), hexagon, Options())
    assert "computes no doubles: use float" in found.value.render()


@pytest.mark.needs_tool("hexagon_v66")
def test_what_remains_is_asked_for_patiently(tmp_path: Path, hexagon: Target) -> None:
    """A loop that finds its registers only after more tries than a candidate has: the nest as it is written is also one
    of the candidates."""
    path = tmp_path / "many.c"
    path.write_text(
        """void many(const int a[64], int k, int r[64]) {
             int s0 = 0, s1 = 1, s2 = 2, s3 = 3, s4 = 4, s5 = 5, s6 = 6, s7 = 7, s8 = 8, s9 = 9;
             for (int i = 0; i < 64; i++) {
               s0 = s1 * 3 + a[i]; s1 = s2 ^ s0; s2 = s3 - s1; s3 = s4 * k + s2; s4 = s5 ^ s3;
               s5 = s6 + s4; s6 = s7 * s5 - k; s7 = s8 ^ s6; s8 = s9 + s7; s9 = s0 - s8;
               r[i] = s9; } }""",
        encoding="utf-8",
    )
    agree(path, hexagon, Options(), {})
