"""The kernels of PolyBench on this computer, compared with their C programs."""

from __future__ import annotations

from typing import Literal

import pytest

from dspgen.bench import polybench
from dspgen.driver.cpu import run_cpu
from dspgen.options import Options


def check(kernel: str, size: str, *, threads: int, fp: Literal["strict", "reassoc"] = "reassoc") -> None:
    options = Options(defines=polybench.defines(kernel, size), fp=fp)
    result = run_cpu(polybench.source(kernel), options, threads=threads, repeats=1)
    assert result.details == ()
    assert result.verified


@pytest.mark.parametrize("kernel", [k for k in polybench.KERNELS if k != "gramschmidt"])
def test_at_mini(kernel: str) -> None:
    check(kernel, "mini", threads=2)


def test_dependent_columns_are_ill_conditioned() -> None:
    """20 rows have 20 independent columns; rounding alone makes the ten further ones of Q."""
    options = Options(defines=polybench.defines("gramschmidt", "mini"))
    result = run_cpu(polybench.source("gramschmidt"), options, threads=2, repeats=1)
    assert not result.verified and result.wrong == {} and result.ill_conditioned == {"Q": 20 * 10}
    assert result.max_error < 1e-4


@pytest.mark.parametrize("kernel", ["2mm", "adi", "gramschmidt", "ludcmp", "nussinov", "symm"])
def test_at_odd_sizes(kernel: str) -> None:
    check(kernel, "odd", threads=1)


@pytest.mark.parametrize("kernel", ["correlation", "fdtd-2d", "gemm", "seidel-2d", "syr2k", "trisolv"])
def test_strict_is_bit_for_bit(kernel: str) -> None:
    check(kernel, "odd", threads=2, fp="strict")


@pytest.mark.slow
@pytest.mark.parametrize("kernel", polybench.KERNELS)
def test_in_double(kernel: str) -> None:
    # Most of the suite's sizes give gramschmidt more columns than rows: what is left of the last ones is rounding.
    size = "odd" if kernel == "gramschmidt" else "small"
    functions = (("SQRT_FUN", "sqrt"), ("EXP_FUN", "exp"), ("POW_FUN", "pow"))
    element = () if kernel in ("floyd-warshall", "nussinov") else (("DATA_TYPE", "double"), *functions)
    result = run_cpu(polybench.source(kernel), Options(defines=(*polybench.defines(kernel, size), *element)))
    assert result.verified, result.details
