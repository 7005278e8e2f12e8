"""`dspgen bench table2`: machines of other widths, and how much faster the same kernels are on them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dspgen.bench import plots, programs, table2
from dspgen.driver.pipeline import run_file
from dspgen.errors import DspgenError
from dspgen.options import Options
from dspgen.target.load import isa_names, load_target
from dspgen.target.query.operations import OperationTable

Run = Callable[..., tuple[int, str, str]]


def multiplies(isa: str) -> bool:
    """Whether its lanes have a multiply-add of floats."""
    try:
        table2.multiplier(load_target(isa))
    except DspgenError:
        return False
    return True


def test_the_paper_tells_of_each_kernel_at_each_point() -> None:
    assert set(table2.SEED) == set(table2.KERNELS)
    assert all(tuple(found) == table2.POINTS and found[1, 1] == 1 for found in table2.SEED.values())
    assert all(Path(kernel.source).is_file() for kernel in table2.KERNELS.values())


@pytest.mark.parametrize("isa", [name for name in isa_names() if multiplies(name)])
def test_any_machine_gets_wider(isa: str) -> None:
    """Lanes and units are as asked for, packets have room for them, memory off the chip keeps up."""
    before = load_target(isa)
    unit = table2.multiplier(before)
    machines = [load_target(t.isa, t.sets) for t in table2.tasks([programs.matmul(8)], isa, ())]
    for target, (lanes, units) in zip(machines, table2.POINTS, strict=True):
        more = units - next(u.count for u in before.units if u.name == unit)
        assert target.lanes == lanes and len(target.unit_members) == len(before.unit_members) + more
        assert target.packets.issue == before.packets.issue + more
        assert {m.bytes_per_cycle for m in target.memories if not m.onchip} <= {2 * lanes}


def test_a_machine_without_multiply_adds_is_refused() -> None:
    rows = OperationTable(load_target("ft_m7002")).forms("mac", "f32")
    without = tuple((f"instructions.{form.instruction.id}.compile", "false") for form in rows)
    with pytest.raises(DspgenError) as refused:
        table2.tasks([programs.matmul(8)], "ft_m7002", without)
    assert "error[DG520]: `ft_m7002` has no multiply-add of floats on its lanes" in refused.value.render()


def test_rows_of_small_kernels() -> None:
    dot = programs.Kernel("dot_64", "dot.c", 64, (("N", "64"),))
    wanted = table2.tasks([dot, programs.matmul(4)], "ft_m7002", (), ((1, 1), (4, 2)))
    told: list[str] = []
    rows = table2.measure(wanted, 1, lambda t: told.append(t.title), lambda k, e: pytest.fail(f"{k}: {e.render()}"))
    assert told == ["dot_64, 1/1", "dot_64, 4/2", "matmul_4, 1/1", "matmul_4, 4/2"]
    assert [(r["kernel"], r["lanes"], r["macs"], r["linear"]) for r in rows] == [
        ("dot_64", 1, 1, 1),
        ("dot_64", 4, 2, 8),
        ("matmul_4", 1, 1, 1),
        ("matmul_4", 4, 2, 8),
    ]
    assert [r["data"] for r in rows] == ["onchip", "onchip", "ddr", "ddr"]
    for one, wide in (rows[:2], rows[2:]):
        assert one["verified"] and wide["verified"]
        assert one["speedup"] == 1 < wide["speedup"] == one["cycles"] / wide["cycles"] <= wide["speedup_limit"]
        assert one["seed_speedup"] is None and one["refused"] is None
    assert table2.summary(rows)["baseline_efficiency"] == min(rows[0]["efficiency"], rows[2]["efficiency"])


def test_a_summary_names_what_the_paper_does_better() -> None:
    def row(lanes: int, macs: int, speedup: float | None) -> dict[str, Any]:
        facts = {"kernel": "k", "lanes": lanes, "macs": macs, "speedup": speedup, "seed_speedup": 10.0}
        return facts | {"efficiency": 0.5, "verified": True, "refused": None, "compile_seconds": 1.0}

    found = table2.summary([row(1, 1, 1.0), row(16, 2, 9.9), row(32, 4, 10.0), row(64, 4, None)])
    assert found["below_seed"] == ["k 1/1", "k 16/2"] and found["baseline_efficiency"] == 0.5
    assert found["kernels"] == found["verified"] == 4 and found["wrong"] == found["refused"] == 0


def test_the_command(dspgen: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table2, "KERNELS", programs.by_name([programs.matmul(2)]))
    status, out, err = dspgen("bench", "table2", "--points", "2/1", "--jobs", "1", "--json")
    assert (status, err) == (0, "")
    (row,) = json.loads(out)["rows"]
    assert row["verified"] and (row["lanes"], row["macs"]) == (2, 1) and row["speedup"] is None
    status, _, err = dspgen("bench", "table2", "--points", "16x2")
    assert status == 2 and "--points 16x2: not lanes/units" in err


@pytest.mark.needs_tool("matplotlib")
def test_the_picture(tmp_path: Path) -> None:
    rows = [
        {"kernel": "k", "linear": linear, "speedup": speedup, "seed_speedup": told}
        for linear, speedup, told in ((1.0, 1.0, 1.0), (32.0, 30.0, 28.7), (128.0, None, None))
    ]
    (made,) = plots.table2_plots(rows, tmp_path)
    assert made.name == "scaling.svg" and "<svg" in made.read_text(encoding="utf-8")


def test_rows_of_different_lengths_on_one_lane(examples: Path) -> None:
    """A vector of one lane is never cut short."""
    target = load_target(
        "ft_m7002", (("lanes", "1"), (f"units.{table2.multiplier(load_target('ft_m7002'))}.count", "1"))
    )
    options = Options(defines=(("N", "24"),), data="onchip", tiler="model")
    assert run_file(str(examples / "autocor.c"), target, options).verified


@pytest.mark.parametrize("length", [67, 100, 127])
def test_masks_of_more_lanes_than_a_word_has_bits(length: int, examples: Path) -> None:
    target = load_target("ft_m7002", (("lanes", "64"),))
    result = run_file(str(examples / "saxpy.c"), target, Options(defines=(("N", str(length)),), data="onchip"))
    assert result.verified, result.details
    assert any(r.kind == "vectorized" for r in result.remarks)
