"""Loops that the data end, on the machines and on this computer: against the host's compiler."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dspgen.driver.cpu import run_cpu
from dspgen.driver.pipeline import compile_file, run_compiled
from dspgen.options import Options
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
    "of any length": """void k(int n, const float a[n], int r[2]) { int at = -1; r[1] = 0;
      for (int i = 0; i < n; i++) if (a[i] > 0.5f) { at = i; r[1] = 1; break; } r[0] = at; }""",
    "a sum of any length": """void k(int n, const float a[n], float r[2]) { float s = 0; int i;
      for (i = 0; i < n; i++) { s += a[i]; if (a[i] - s > 0.5f) return; r[1] = s; if (s > 40) break; } r[0] = i; }""",
    "down, from within": """void k(const float a[75], float r[2]) { r[0] = 1;
      for (int j = 0; j < 3; j++) for (int i = 24; i >= 0; i--) { if (a[25 * j + i] > 0.5f) { r[1] = i; return; } }
      r[0] = 2; }""",
    "the last iteration whole": """void k(const float a[75], float b[75], float r[2]) { int going = 1; float s = 0;
      for (int i = 0; i < 75; i++) if (going) { if (a[i] > 0.5f) going = 0; b[i] = a[i] + 1; s += 1; }
      r[0] = s; r[1] = going; }""",
    "a largest that is enough": """void k(const float a[75], float r[2]) { float m = 0; int at = -1;
      for (int i = 0; i < 75; i++) { if (a[i] > m) { m = a[i]; at = i; } if (m > 0.5f) break; }
      r[0] = m; r[1] = at; }""",
}


def elements(size: int, end: int | None) -> np.ndarray:
    a = np.full(size, 0.25, np.float32)
    if end is not None:
        a[end] = 0.75
    return a


def given(name: str, end: int | None) -> dict[str, np.ndarray | int]:
    a = elements(75, end)
    n = {"n": 75} if "of any length" in name else {}
    return {"a": a.reshape(5, 15) if name == "in each row" else a, **n}


@pytest.mark.parametrize("name", PROGRAMS)
def test_on_this_computer(tmp_path: Path, name: str) -> None:
    path = tmp_path / "k.c"
    path.write_text(PROGRAMS[name])
    for end in (None, 0, 7, 8, 40, 74):
        result = run_cpu(str(path), Options(function="k"), cache=tmp_path, inputs=given(name, end), repeats=1)
        assert result.verified, (end, result.details)


def test_rows_on_this_computer(tmp_path: Path) -> None:
    """Each row is left by itself, in its first iterations and behind blocks."""
    path = tmp_path / "k.c"
    path.write_text("""void k(int n, const float a[7][n], int r[7]) { for (int j = 0; j < 7; j++) { int at = -1;
      for (int i = 0; i < n; i++) if (a[j][i] > 0.5f) { at = i; break; } r[j] = at; } }""")
    for n in (1, 8, 75, 200):
        a = np.stack([elements(n, end if end is None or end < n else None) for end in (0, 7, 8, 71, 72, 199, None)])
        result = run_cpu(str(path), Options(function="k"), cache=tmp_path, inputs={"a": a, "n": n}, repeats=1)
        assert result.verified, (n, result.details)


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


def cycles_of(tmp_path: Path, text: str, ends: tuple[int | None, ...], length: int, **sizes: int) -> list[int]:
    path, target, options = tmp_path / "k.c", load_target("ft_m7002"), Options(function="k", data="onchip")
    path.write_text(text)
    compiled = compile_file(str(path), target, options)
    cycles = []
    for end in ends:
        result = run_compiled(compiled, str(path), target, options, inputs={"a": elements(length, end), **sizes})
        assert result.verified, result.details
        assert result.bound_cycles <= result.cycles
        cycles.append(result.cycles)
    return cycles


def test_a_search_of_any_length_leaves_behind_the_group_that_hits(tmp_path: Path) -> None:
    text = SEARCH.replace("const float a[640]", "int n, const float a[n]").replace("i < 640", "i < n")
    at_once, soon, late, never = cycles_of(tmp_path, text, (0, 40, 1100, None), 1200, n=1200)
    assert at_once < 90
    assert soon < 500
    assert soon < late <= never


def test_a_loop_with_a_flag_leaves_behind_its_group(tmp_path: Path) -> None:
    text = """void k(const float a[320], float r[1]) { float s = 0;
      for (int i = 0; i < 320; i++) { s += a[i]; if (s > 4) break; } r[0] = s; }"""
    soon, never = cycles_of(tmp_path, text.replace("> 4", "> 2"), (0,), 320)[0], 320 * 7
    assert 4 * soon < never
