"""GPAT's kernels, packed for caches small enough that it matters, compared with their C programs."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from dspgen import oracle
from dspgen.bench import polybench
from dspgen.driver.cpu import run_cpu
from dspgen.frontend.read import read_c
from dspgen.options import Options
from plant_core.schedule.packing import Caches

SMALL, WIDE = Caches((256, 8 << 10), 16, 64, 40), Caches((256, 24 << 10), 16, 128, 20)
TILED_CONTRACTION = "B at i_i [2, 1, 0], A at j_i [2, 0, 1]"


@pytest.fixture
def bench(root: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(root / "bench"))
    return importlib.import_module("packing")


@pytest.mark.parametrize(
    ("name", "caches", "packed"),
    [
        ("gemm", WIDE, ["", "A at j_o"]),
        ("gemm_blis", SMALL, ["B at i_o [1, 0]"]),
        ("2mm", SMALL, ["B at i [1, 0], C at i [1, 0]", "B at i_o [1, 0], C at i_i [1, 0]"]),
        (
            "3mm",
            SMALL,
            ["B at i [1, 0], D at i [1, 0], F at i [1, 0]", "B at i_i [1, 0], D at i_o [1, 0], F at i_o [1, 0]"],
        ),
        ("doitgen", SMALL, ["C4 at r [1, 0]", "C4 at r [1, 0]"]),
        ("gramschmidt", SMALL, ["Q at j [1, 0]"]),
        ("trmm", SMALL, ["A at j [1, 0]", "A at j_o [1, 0]"]),
        ("contract3d", WIDE, ["B at i [2, 1, 0], A at j [2, 0, 1]", TILED_CONTRACTION]),
    ],
)
def test_packed_schedules_compute_the_same(name: str, caches: Caches, packed: list[str], bench: ModuleType) -> None:
    """In the order of the text, tiled, and by default; what is packed doesn't change with the host."""
    case = replace(bench.CASES[name], tiles=(8,) if bench.CASES[name].tiles else ())
    defines = case.defines("odd")
    func = read_c(str(case.file), defines=defines)
    values = oracle.random_inputs(func, 0, oracle.default_inputs(str(case.file), func, defines))
    wanted = oracle.reference(str(case.file), func, values, defines)
    found = bench.plans(case, func, caches)
    assert [plan.chosen for plan in found if plan.name != "default"] == [p or "nothing" for p in packed]
    for plan in found:
        runner = bench.Runner(plan.packed, func, values)
        runner.seconds()
        verdict = oracle.compare(func, runner.outputs, wanted, "reassoc")
        assert verdict.verified, (plan.name, verdict.details)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kernel", ["2mm", "covariance", "doitgen", "gramschmidt", "adi"])
def test_the_road_with_packing(kernel: str, threads: int, examples: Path) -> None:
    options = Options(defines=polybench.defines(kernel, "odd"), pack="gpat")
    result = run_cpu(str(examples / "polybench" / f"{kernel}.c"), options, threads=threads, repeats=1, caches=SMALL)
    assert result.verified, result.details
