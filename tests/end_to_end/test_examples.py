"""Every example compiles, and its assembly computes on the simulator what the C program computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dspgen import oracle
from dspgen.backend.stages import Compiled, simulate_kernel
from dspgen.driver.pipeline import compile_file, run_compiled, run_file
from dspgen.options import Options
from dspgen.target.isa.model import Target
from dspgen.target.load import isa_names, load_target
from tests.support.examples import SMALL, defines

# The examples, those that take long to compile in `make nightly` only; `test_verified` has all of them.
LONG = ("autocor_history", "conv2d_valid", "fft256", "fir16")
QUICK = [pytest.param(n, marks=pytest.mark.slow if n in LONG else ()) for n in SMALL]
SLOW_MATMUL = pytest.param("matmul", marks=pytest.mark.slow)
BY_ALL_ENGINES = ("conv2d_full", "matmul")

# What share of the machine's bound the examples reach at their default sizes, at least.
EFFICIENCY = {"autocor_history": 0.75, "conv2d_valid": 0.68, "fir": 0.75, "matmul": 0.92, "saxpy": 0.5}


def test_every_example_has_a_small_size(examples: Path) -> None:
    assert sorted(path.stem for path in examples.glob("*.c")) == sorted(SMALL)


@pytest.mark.parametrize("name", SMALL)
def test_verified(name: str, examples: Path, ft_m7002: Target) -> None:
    path, options = str(examples / f"{name}.c"), Options(defines=defines(name))
    compiled = compile_file(path, ft_m7002, options)
    result = run_compiled(compiled, path, ft_m7002, options)
    assert result.verified
    assert result.bound_cycles <= result.cycles
    if name in BY_ALL_ENGINES:
        assert_engines_agree(compiled, ft_m7002)


def assert_engines_agree(compiled: Compiled, target: Target) -> None:
    """The generated C and the plain Python machine give the same arrays, in the same cycles, as foretold if known."""
    values = oracle.random_inputs(compiled.source, 3)
    python, native = (simulate_kernel(compiled, target, values, engine=e) for e in ("python", "native"))
    assert python.cycles == native.cycles
    assert compiled.scheduled.cycles in (None, python.cycles)
    assert python.unit_busy == native.unit_busy
    for array in python.outputs:
        assert np.array_equal(python.outputs[array], native.outputs[array], equal_nan=True)


@pytest.mark.parametrize("isa", isa_names())
def test_verified_on_every_machine(isa: str, examples: Path) -> None:
    result = run_file(str(examples / "dot.c"), load_target(isa), Options(defines=defines("dot")))
    assert result.verified
    assert result.bound_cycles <= result.cycles


@pytest.mark.slow
@pytest.mark.parametrize("isa", isa_names())
@pytest.mark.parametrize("name", SMALL)
def test_all_verified_on_every_machine(name: str, isa: str, examples: Path) -> None:
    assert run_file(str(examples / f"{name}.c"), load_target(isa), Options(defines=defines(name))).verified


@pytest.mark.parametrize("name", QUICK)
def test_verified_without_rewriting(name: str, examples: Path, ft_m7002: Target) -> None:
    options = Options(defines=defines(name), rewrite="off")
    assert run_file(str(examples / f"{name}.c"), ft_m7002, options).verified


@pytest.mark.parametrize("name", QUICK)
def test_verified_without_pipelining(name: str, examples: Path, ft_m7002: Target) -> None:
    options = Options(defines=defines(name), pipeline=False)
    assert run_file(str(examples / f"{name}.c"), ft_m7002, options).verified


@pytest.mark.parametrize("name", [*(p for p in QUICK if p.values != ("matmul",)), SLOW_MATMUL])
def test_strict_is_bit_for_bit(name: str, examples: Path, ft_m7002: Target) -> None:
    result = run_file(str(examples / f"{name}.c"), ft_m7002, Options(defines=defines(name), fp="strict"))
    assert result.verified


@pytest.mark.parametrize("name", QUICK)
def test_verified_at_full_size(name: str, examples: Path, ft_m7002: Target) -> None:
    result = run_file(str(examples / f"{name}.c"), ft_m7002, Options())
    assert result.verified
    assert result.bound_cycles <= result.cycles
    assert result.efficiency >= EFFICIENCY.get(name, 0.0)
