"""Roots and quotients that Hexagon makes of estimates are the host's, bit for bit, at the ends of ranges too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dspgen import oracle
from dspgen.backend.stages import simulate_kernel
from dspgen.driver.emulator import emulate_kernel
from dspgen.driver.pipeline import compile_file
from dspgen.options import Options
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target

COUNT = 4096
SIGNED = "(a[i] / b[i]) ^ (a[i] % b[i] << 7)"
UNSIGNED = "(a[i] / b[i]) * 31 + a[i] % b[i]"


@pytest.fixture(scope="module")
def hexagon() -> Target:
    return load_target("hexagon_v66")


def same(text: str, arrays: dict[str, np.ndarray], target: Target, folder: Path) -> None:
    path = folder / "k.c"
    path.write_text(text, encoding="utf-8")
    compiled = compile_file(str(path), target, Options())
    values = {**oracle.random_inputs(compiled.source, 0, {}), **arrays}
    wanted = oracle.run_c(str(path), compiled.source, values, ())["r"]
    for found in (simulate_kernel(compiled, target, values), emulate_kernel(compiled, target, values)):
        got = found.outputs["r"]
        both_nan = (got != got) & (wanted != wanted)
        assert np.array_equal(got.view(np.uint32)[~both_nan], wanted.view(np.uint32)[~both_nan])


@pytest.mark.needs_tool("hexagon_v66")
def test_square_roots(tmp_path: Path, hexagon: Target) -> None:
    random = np.random.default_rng(0)
    bits = random.integers(0, 1 << 32, COUNT, dtype=np.uint32)
    ends = [0, 0x80000000, 1, 0x80000001, 0x7FFFFF, 0x800000, 0x0F7FFFFF, 0x0F800000, 0x7F7FFFFF, 0x7F800000]
    bits[: len(ends) + 3] = [*ends, 0xFF800000, 0x7FC00000, 0xFFC00001]
    text = f"""#include <math.h>
void k(float r[{COUNT}], const float a[{COUNT}]) {{ for (int i = 0; i < {COUNT}; i++) r[i] = sqrtf(a[i]); }}"""
    same(text, {"a": bits.view(np.float32)}, hexagon, tmp_path)


@pytest.mark.needs_tool("hexagon_v66")
@pytest.mark.parametrize("type", ["int", "unsigned"])
def test_quotients(type: str, tmp_path: Path, hexagon: Target) -> None:
    random = np.random.default_rng(0)
    number = np.int32 if type == "int" else np.uint32
    a, b = (random.integers(0, 1 << 32, COUNT, dtype=np.uint32) for _ in range(2))
    b >>= random.integers(0, 32, COUNT, dtype=np.uint32)
    near = random.integers(0, 1 << 32, COUNT, dtype=np.uint32)
    a[::3] = (near // np.maximum(b, 1) * b)[::3] - (near & 1)[::3]
    ends = [1, 2, 3, 0xFFFF, 0x10000, 0xFFFFFF, 0x1000001, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFF80, 0xFFFFFFFF]
    pairs = [(x, y) for x in ends for y in ends if (x, y) != (0x80000000, 0xFFFFFFFF)]
    a[: len(pairs)], b[: len(pairs)] = zip(*pairs, strict=True)
    b[b == 0] = 1
    value = SIGNED if type == "int" else UNSIGNED
    text = f"void k({type} r[{COUNT}], const {type} a[{COUNT}], const {type} b[{COUNT}]) {{\n"
    text += f"  for (int i = 0; i < {COUNT}; i++) r[i] = {value}; }}"
    same(text, {"a": a.view(number), "b": b.view(number)}, hexagon, tmp_path)
