"""Register tiles that hold loops whose bounds depend on each other as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspgen.frontend.read import read_c
from dspgen.target.load import load_target
from dspgen.target.query.operations import OperationTable
from dspgen.tiling import masked_tiles as whole
from dspgen.tiling.cost.cycle_model import nest_cycles
from dspgen.tiling.cost.unit_pressure import Machine
from dspgen.tiling.loops.loop_arrangements import arrangements, spaced
from dspgen.tiling.loops.loop_nests import nests
from plant_core.analysis.dependence import memory_dependences
from plant_core.normalize.pipeline import canonical


def test_ways_to_tile_do_not_multiply_with_the_number_of_statements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statements in loops of their own, whose vectors one could choose one by one."""
    number = 6
    arrays = ", ".join(f"float y{k}[12][60]" for k in range(number))
    sums = " ".join(f"float t{k} = x[i][j] * {k} + x[i - 1][j];" for k in range(number))
    even, odd = (" ".join(f"y{k}[i][j] = t{(k + n) % number};" for k in range(number)) for n in (0, 1))
    path = tmp_path / "f.c"
    path.write_text(
        f"""void f(const float x[12][60], {arrays}) {{
          for (int i = 1; i < 12; i++)
            for (int j = 0; j < 60; j++) {{ {sums} if ((i & 1) == 0) {{ {even} }} else {{ {odd} }} }} }}""",
        encoding="utf-8",
    )
    func = spaced(canonical(read_c(str(path)), reassoc=True))
    (nest,) = nests(func)
    target = load_target("ft_m7002")
    machine, known = Machine(target, OperationTable(target)), memory_dependences(func)
    asked = 0

    def counted(*args: object) -> float | None:
        nonlocal asked
        asked += 1
        return nest_cycles(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(whole, "nest_cycles", counted)
    arranged = tuple(arrangements(nest, func, known, reassoc=True))
    whole.whole_candidates(arranged, target, machine, known, scalars=(), kept=lambda plans: True)
    assert 0 < asked <= 100 * len(arranged)
