"""Rows whose number is computed, loaded and stored as whole vectors."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspgen.driver.pipeline import run_file
from dspgen.options import Options
from dspgen.target.load import load_target

SOURCE = """
void rows(const int id[9], const float t[16][M], float y[9][M], float z[16][M]) {
  for (int i = 0; i < 9; i++)
    for (int j = 0; j < M; j++)
      y[i][j] = t[id[i] & 15][j];
  for (int i = 0; i < 9; i++)
    for (int j = 0; j < M; j++)
      z[id[i] & 15][j] = t[i][j];
}
"""


@pytest.mark.parametrize(("isa", "columns"), [("ft_m7002", 37), ("ft_lite", 64), ("hexagon_v66", 64)])
def test_rows_of_computed_number(isa: str, columns: int, tmp_path: Path) -> None:
    """Lane by lane they take some thousand cycles."""
    path = tmp_path / "rows.c"
    path.write_text(SOURCE, encoding="utf-8")
    ran = run_file(str(path), load_target(isa), Options(tiler="model", defines=(("M", str(columns)),)))
    assert ran.verified
    assert ran.cycles is not None
    assert ran.cycles < 300
