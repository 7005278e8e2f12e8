"""Loops that end early, on this computer: dspgen's code against gcc -O3's for the same text, call by call.

python bench/exits.py [LENGTH]
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from backends.cpu.build import build
from dspgen.driver.cpu import compile_cpu
from dspgen.options import Options

HEAD = "void k(int n, float a[n], float b[n], int r[2])"
KERNELS = {
    "first above": "{ int at = -1; for (int i = 0; i < n; i++) if (a[i] > 0.5f) { at = i; break; } r[0] = at; }",
    "first negative": "{ int i = 0; while (i < n && a[i] >= 0) i++; r[0] = i; }",
    "mismatch": "{ int i; for (i = 0; i < n; i++) if (a[i] != b[i]) break; r[0] = i; }",
    "compare": """{ int c = 0;
      for (int i = 0; i < n; i++) { if (a[i] < b[i]) { c = -1; break; } if (a[i] > b[i]) { c = 1; break; } }
      r[0] = c; }""",
    "return": """{ r[1] = 0; for (int i = 0; i < n; i++) if (a[i] > 0.5f) { r[0] = i; return; } r[1] = 1; }""",
    "copied up to there": "{ int i; for (i = 0; i < n; i++) { if (a[i] > 0.5f) break; b[i] = a[i]; } r[0] = i; }",
    "argmax, early stop": """{ float m = -1; int at = -1;
      for (int i = 0; i < n; i++) { if (a[i] > m) { m = a[i]; at = i; } if (m > 0.5f) break; } r[0] = at; }""",
}
DRIVER = """#include <time.h>
typedef void kernel(int, float *, float *, int *);
double timed(kernel *k, int n, float *a, float *b, int *r, int times) {
  double best = 1e9; struct timespec x, y;
  for (int t = 0; t < 7; t++) {
    clock_gettime(CLOCK_MONOTONIC, &x);
    for (int c = 0; c < times; c++) k(n, a, b, r);
    clock_gettime(CLOCK_MONOTONIC, &y);
    double s = ((y.tv_sec - x.tv_sec) + 1e-9 * (y.tv_nsec - x.tv_nsec)) / times;
    if (s < best) best = s;
  }
  return best * 1e9;
}
"""


def shared(source: Path) -> ctypes.CDLL:
    library = source.with_suffix(".so")
    subprocess.run(["gcc", "-O3", "-march=native", "-shared", "-fPIC", source, "-o", library], check=True)
    return ctypes.CDLL(str(library))


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
    folder = Path(tempfile.mkdtemp())
    (folder / "driver.c").write_text(DRIVER)
    timed = shared(folder / "driver.c").timed
    timed.restype = ctypes.c_double
    print(f"| loop, {n} iterations | ends at | gcc ns | dspgen ns | dspgen over gcc |\n|---|---|---|---|---|")
    for number, (name, body) in enumerate(KERNELS.items()):
        path = folder / f"k{number}.c"
        path.write_text(f"{HEAD}\n{body}\n")
        theirs = shared(path).k
        compiled = compile_cpu(str(path), Options(function="k"))
        ours = ctypes.CDLL(str(build(compiled.cpp, fp="reassoc", cache_dir=folder))).k
        for at in (0, 5, 50, n // 2, None):
            a, b, r = np.zeros(n, np.float32), np.zeros(n, np.float32), np.zeros(2, np.int32)
            if at is not None:
                a[at] = -1 if "negative" in name else 1
            pointers = [x.ctypes.data_as(ctypes.c_void_p) for x in (a, b, r)]
            times = 20000 if at is not None and at <= 50 else 300
            spent = [timed(k, n, *pointers, times) for k in (theirs, ours)]
            end = "never" if at is None else at
            print(f"| {name} | {end} | {spent[0]:.1f} | {spent[1]:.1f} | {spent[1] / spent[0]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
