"""Machines made up for tests, each unlike the others in lanes, time, registers and packets, run the small examples."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspgen.driver.pipeline import run_file
from dspgen.options import Options
from dspgen.target.load import load_target

TESTS = Path(__file__).parents[1]
EXAMPLES = TESTS.parent / "examples"


@pytest.mark.parametrize("machine", ["quad", "broad", "few"])
@pytest.mark.parametrize(("kernel", "size", "least"), [("dot", 256, 0.1), ("saxpy", 256, 0.3), ("stencil3", 256, 0.05)])
def test_it_runs_and_has_lanes(machine: str, kernel: str, size: int, least: float) -> None:
    target = load_target(str(TESTS / "isa" / f"{machine}.toml"))
    result = run_file(str(EXAMPLES / f"{kernel}.c"), target, Options(defines=(("N", str(size)),), data="onchip"))
    assert result.verified, result.details
    assert any(r.kind == "vectorized" for r in result.remarks)
    assert least < result.efficiency <= 1


@pytest.mark.parametrize("machine", ["quad", "broad", "few"])
def test_matrix_products(machine: str) -> None:
    target = load_target(str(TESTS / "isa" / f"{machine}.toml"))
    result = run_file(str(EXAMPLES / "matmul.c"), target, Options(defines=(("N", "8"),)))
    assert result.verified, result.details


def test_what_has_no_predicate_registers_takes_no_predicates() -> None:
    """Vectors that end within a row are not stored under a predicate of lanes that the machine lacks."""
    target = load_target(str(TESTS / "isa" / "quad.toml"))
    assert {row.predicable for row in target.instructions} == {"scalar", "none"}
    stores = [row for row in target.instructions if row.memory is not None and row.memory.side == "vector"]
    assert stores and all(row.predicable == "none" for row in stores)


@pytest.mark.parametrize(("kernel", "size", "most"), [("matmul", 12, 1300), ("fir", 64, 1300), ("dot", 256, 400)])
def test_a_machine_without_vectors_has_register_tiles(kernel: str, size: int, most: int) -> None:
    target = load_target(str(TESTS / "isa" / "scalar.toml"))
    result = run_file(str(EXAMPLES / f"{kernel}.c"), target, Options(defines=(("N", str(size)),), data="onchip"))
    assert result.verified, result.details
    assert result.bound_cycles < result.cycles < most, "its bound counts scalar units"
