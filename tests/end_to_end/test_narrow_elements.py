"""Elements that are narrower than a lane, on vectors of words: kernels of odd sizes agree with C, and use the lanes."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspgen.driver.pipeline import run_file
from dspgen.options import Options
from dspgen.target.load import load_target

# The source, and the most cycles; scalar code takes at least ten times as many of the first ones.
KERNELS = {
    "dot": ("""void f(int r[restrict 1], const short x[777], const short y[777]) {
  r[0] = 0;
  for (int i = 0; i < 777; i++) r[0] += x[i] * y[i];
}""", 150),
    "filter": ("""void f(unsigned char y[restrict 5][126], const unsigned char x[6][128]) {
  for (int i = 0; i < 5; i++)
    for (int j = 0; j < 126; j++) y[i][j] = (x[i][j] + x[i][j + 2] + 2 * x[i + 1][j + 1]) >> 2;
}""", 300),
    "taps": ("""void f(int y[restrict 100], const short x[104], const short h[5]) {
  for (int i = 0; i < 100; i++) {
    y[i] = 0;
    for (int k = 0; k < 5; k++) y[i] += x[i + k] * h[k];
  }
}""", 200),
    "mixed": ("""void f(short y[restrict 150], const short x[150], const signed char z[150]) {
  for (int i = 0; i < 150; i++) y[i] = x[i] * 3 + z[i];
}""", 400),
    "differences": ("""void f(int y[restrict 90], const unsigned char x[180]) {
  for (int i = 0; i < 90; i++) y[i] = x[2 * i] - x[2 * i + 1];
}""", 500),
    "halves": ("""void f(unsigned char y[restrict 6][126], const unsigned char x[8][128]) {
  for (int i = 0; i < 6; i++)
    for (int j = 0; j < 126; j++) {
      int a = x[i][j] + 2 * x[i][j + 1] + x[i][j + 2] - x[i + 2][j] - 2 * x[i + 2][j + 1] - x[i + 2][j + 2];
      a = a < 0 ? -a : a;
      y[i][j] = a > 255 ? 255 : a;
    }
}""", 150),
    "bytes": ("""void f(unsigned char y[restrict 512], const unsigned char x[512], const unsigned char z[512]) {
  for (int i = 0; i < 512; i++) y[i] = x[i] > z[i] ? x[i] - z[i] : z[i] - x[i];
}""", 60),
    "choice": ("""void f(short y[restrict 300], const short x[300], const unsigned char z[300]) {
  for (int i = 0; i < 300; i++) y[i] = x[i] < z[i] ? x[i] >> 2 : z[i] - 5;
}""", 400),
    "sizes": ("""void f(short y[restrict 100], const short x[100], unsigned z[restrict 100]) {
  short t[100];
  for (int i = 0; i < (int)(sizeof t / sizeof *t); i++) t[i] = x[i] * 3;
  for (int i = 0; i < 100; i++) {
    y[i] = t[i] + sizeof(x[0]) * x[i];
    z[i] = (sizeof(x[0]) - t[i]) ^ 0xFFFFFFFFFFLL;
  }
}""", 1000),
    "recurrence": ("""void f(short x[100]) {
  for (int i = 1; i < 100; i++) x[i] = x[i] + x[i - 1];
}""", 1000),
}  # fmt: skip


SLOW = ("filter",)  # "halves" has bytes in rows as well


@pytest.mark.parametrize("name", [pytest.param(k, marks=pytest.mark.slow if k in SLOW else ()) for k in KERNELS])
def test_narrow_elements(name: str, tmp_path: Path) -> None:
    text, most = KERNELS[name]
    path = tmp_path / "k.c"
    path.write_text(text)
    result = run_file(str(path), load_target("hexagon_v66"), Options(tiler="model"))
    assert result.verified and result.cycles is not None and result.cycles <= most


def test_narrow_constants_are_in_all_parts_of_a_word(tmp_path: Path) -> None:
    """What is subtracted is known at compile time, and half of what it is subtracted from."""
    path = tmp_path / "f.c"
    path.write_text("""static const short c[1] = {1};
void f(const short x[2], short y[70]) {
  short v = x[0];
  for (int i = 0; i < 70; i++) { y[i] = v - c[0]; v = c[0]; }
}""")
    assert run_file(str(path), load_target("hexagon_v66"), Options(data="onchip")).verified
