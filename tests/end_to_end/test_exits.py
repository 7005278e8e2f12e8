"""Loops that the data end, on the machines and on this computer: against the host's compiler."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dspgen.cpu_road import run_cpu
from dspgen.options import Options
from dspgen.pipeline import compile_file, run_compiled
from dspgen.target.load import load_target

SEARCH = """void k(const float a[640], float r[1]) { float at = -1;
  for (int i = 0; i < 640; i++) if (a[i] > 0.5f) { at = i; break; } r[0] = at; }"""
PROGRAMS = {
    "copied up to there": """void k(const float a[75], float b[75], float r[2]) { float s = 0; int i;
      for (i = 0; i < 75; i++) { if (a[i] > 0.5f) { s += 5; break; } s += b[i]; b[i] = a[i] + 1; }
      r[0] = s; r[1] = i; }""",
    "two tests": """void k(const float a[75], const int b[75], int r[2]) { int c = 0, i = 74;
      while (i >= 0) { if (a[i] > 0.5f) { c = 1; break; } if (b[i] > 3) { c = b[i]; break; } i--; }
      r[0] = c; r[1] = i; }""",
    "in each row": """void k(const float a[5][15], float b[5], int r[5]) {
      for (int j = 0; j < 5; j++) { int at = -1; for (int i = 0; i < 15; i++) if (a[j][i] > 0.5f) { at = i; break; }
        r[j] = at; b[j] += at; } }""",
    "a largest that is enough": """void k(const float a[75], float r[2]) { float m = 0; int at = -1;
      for (int i = 0; i < 75; i++) { if (a[i] > m) { m = a[i]; at = i; } if (m > 0.5f) break; }
      r[0] = m; r[1] = at; }""",
}


def elements(size: int, end: int | None) -> np.ndarray:
    a = np.full(size, 0.25, np.float32)
    if end is not None:
        a[end] = 0.75
    return a


def given(name: str, end: int | None) -> dict[str, np.ndarray]:
    a = elements(75, end)
    return {"a": a.reshape(5, 15) if name == "in each row" else a}


@pytest.mark.parametrize("name", PROGRAMS)
def test_on_this_computer(tmp_path: Path, name: str) -> None:
    path = tmp_path / "k.c"
    path.write_text(PROGRAMS[name])
    for end in (None, 0, 7, 8, 40, 74):
        result = run_cpu(str(path), Options(function="k"), cache=tmp_path, inputs=given(name, end), repeats=1)
        assert result.verified, (end, result.details)


@pytest.mark.parametrize(
    ("name", "machine"),
    [("copied up to there", "ft_m7002"), ("two tests", "hexagon_v66"), ("in each row", "ft_m7002"),
     ("a largest that is enough", "hexagon_v66")],
)  # fmt: skip
def test_on_machines(tmp_path: Path, name: str, machine: str) -> None:
    path, target, options = tmp_path / "k.c", load_target(machine), Options(function="k", data="onchip")
    path.write_text(PROGRAMS[name])
    compiled = compile_file(str(path), target, options)
    for end in (None, 0, 7, 8, 40, 74):
        result = run_compiled(compiled, str(path), target, options, inputs=given(name, end))
        assert result.verified, (end, result.details)
        assert result.bound_cycles <= result.cycles


def test_a_search_ends_where_it_has_found_something(tmp_path: Path) -> None:
    path, target, options = tmp_path / "k.c", load_target("ft_m7002"), Options(function="k", data="onchip")
    path.write_text(SEARCH)
    compiled = compile_file(str(path), target, options)
    cycles = []
    for end in (0, None):
        result = run_compiled(compiled, str(path), target, options, inputs={"a": elements(640, end)})
        assert result.verified, result.details
        cycles.append(result.cycles)
    assert cycles[0] < 60
    assert cycles[1] < 640
