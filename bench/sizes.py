"""Code for any size against code for one: cycles of both on `ft_m7002`, of kernels whose extents are parameters.

python bench/sizes.py [--write] [--ddr] [--onchip] [NAMES]: makes the tables in docs/blocks.md, of kernels whose names
begin so, for data off or on the chip, or both. Each kernel is compiled once for any size, and once for each of its
sizes.
"""

from __future__ import annotations

import math
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tables import write_table

from dspgen.driver.pipeline import compile_file, run_compiled
from dspgen.errors import DspgenError
from dspgen.options import Data, Options
from dspgen.target.load import load_target

HEAD = ["| kernel | size | any size | one size | one / any |", "|---|---|---|---|---|"]
WANTED = 0.85  # of the efficiency that code for one size has


@dataclass(frozen=True, slots=True)
class Kernel:
    """`text`: the function, its size parameters left out; `names`: of these; `sizes`: their values."""

    text: str
    names: tuple[str, ...]
    sizes: tuple[tuple[int, ...], ...]

    def source(self, *, known: bool, room: Mapping[str, int] | None = None) -> str:
        """The C text, its sizes macros if they are `known`, else parameters; arrays have `room` for such sizes only."""
        head, body = self.text.split("{", 1)
        for name, most in (room or {}).items():
            head = re.sub(rf"\b{name}\b", str(most), head)
        first = "" if known else "".join(f"int {n}, " for n in self.names)
        return head.replace("(", f"({first}", 1) + "{" + body


KERNELS = {
    "product": Kernel(
        """void product(const float a[n][k], const float b[k][m], float c[n][m]) {
          for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) { c[i][j] = 0;
            for (int p = 0; p < k; p++) c[i][j] += a[i][p] * b[p][j]; } }""",
        ("n", "m", "k"),
        ((512, 512, 512), (127, 127, 127), (100, 100, 100), (30, 50, 20)),
    ),
    "product with its sum in a variable": Kernel(
        """void product(const float a[n][k], const float b[k][m], float c[n][m]) {
          for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) { float s = 0;
            for (int p = 0; p < k; p++) s += a[i][p] * b[p][j];
            c[i][j] = s; } }""",
        ("n", "m", "k"),
        ((512, 512, 512), (127, 127, 127), (100, 100, 100), (30, 50, 20)),
    ),
    "FIR filter": Kernel(
        """void fir(const float x[n + t], const float h[t], float y[n]) {
          for (int i = 0; i < n; i++) { y[i] = 0; for (int k = 0; k < t; k++) y[i] += h[k] * x[i + k]; } }""",
        ("n", "t"),
        ((8192, 64), (1000, 32), (777, 15), (100, 8)),
    ),
    "matrix times vector": Kernel(
        """void matvec(const float a[n][m], const float x[m], float y[n]) {
          for (int i = 0; i < n; i++) { y[i] = 0; for (int j = 0; j < m; j++) y[i] += a[i][j] * x[j]; } }""",
        ("n", "m"),
        ((1024, 512), (200, 300), (100, 120), (33, 47)),
    ),
    "transposed matrix times vector": Kernel(
        """void matvec(const float a[n][m], const float x[n], float y[m]) {
          for (int j = 0; j < m; j++) y[j] = 0;
          for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) y[j] += a[i][j] * x[i]; }""",
        ("n", "m"),
        ((1024, 512), (200, 300), (100, 120), (33, 47)),
    ),
    "convolution, 3 x 3": Kernel(
        """void conv(const float x[n + 2][m + 2], const float w[3][3], float y[n][m]) {
          for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) { y[i][j] = 0;
            for (int p = 0; p < 3; p++) for (int q = 0; q < 3; q++) y[i][j] += w[p][q] * x[i + p][j + q]; } }""",
        ("n", "m"),
        ((512, 512), (250, 333), (128, 128), (30, 50)),
    ),
    "stencil, 5 points": Kernel(
        """void stencil(const float x[n][m], float y[n][m]) {
          for (int i = 1; i < n - 1; i++) for (int j = 1; j < m - 1; j++)
            y[i][j] = 0.2f * (x[i][j] + x[i][j - 1] + x[i][j + 1] + x[i - 1][j] + x[i + 1][j]); }""",
        ("n", "m"),
        ((512, 512), (250, 333), (100, 120), (30, 50)),
    ),
    "saxpy": Kernel(
        """void saxpy(float a, const float x[n], float y[n]) {
          for (int i = 0; i < n; i++) y[i] += a * x[i]; }""",
        ("n",),
        ((65536,), (10001,), (1000,), (100,)),
    ),
    "dot product": Kernel(
        """void dot(const float x[n], const float y[n], float s[1]) {
          s[0] = 0; for (int i = 0; i < n; i++) s[0] += x[i] * y[i]; }""",
        ("n",),
        ((65536,), (10001,), (1000,), (100,)),
    ),
    "sums of rows": Kernel(
        """void rows(const float a[n][m], float s[n]) {
          for (int i = 0; i < n; i++) { s[i] = 0; for (int j = 0; j < m; j++) s[i] += a[i][j]; } }""",
        ("n", "m"),
        ((512, 512), (200, 300), (100, 120), (33, 47)),
    ),
    "rectifier": Kernel(
        """void relu(const float x[n][m], float y[n][m]) {
          for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) y[i][j] = x[i][j] > 0 ? x[i][j] : 0; }""",
        ("n", "m"),
        ((512, 512), (250, 333), (100, 120), (30, 50)),
    ),
}
MOST_ON_CHIP = 40_000  # elements of an array, where all are on the chip


def fits(kernel: Kernel, size: Sequence[int], data: Data) -> bool:
    """Whether the arrays have room in on-chip memory, where they are to be there."""
    return data == "ddr" or math.prod(sorted(size)[-2:] if len(size) > 1 else size) <= MOST_ON_CHIP


def rows(name: str, data: Data, folder: Path) -> Iterator[tuple[str, float]]:
    """A row of the table for each size, and how the cycles compare."""
    kernel, target, options = KERNELS[name], load_target("ft_m7002"), Options(data=data)
    sizes = [size for size in kernel.sizes if fits(kernel, size, data)]
    most = {n: max(size[k] for size in sizes) for k, n in enumerate(kernel.names)}
    paths = {known: folder / f"{'one' if known else 'any'}.c" for known in (False, True)}
    # Arrays on the chip are as large as they may be.
    paths[False].write_text(kernel.source(known=False, room=None if data == "ddr" else most), encoding="utf-8")
    paths[True].write_text(kernel.source(known=True), encoding="utf-8")
    any_size = compile_file(str(paths[False]), target, options)
    for size in sizes:
        given = dict(zip(kernel.names, size, strict=True))
        one = Options(data=data, defines=tuple((n, str(v)) for n, v in given.items()))
        found = run_compiled(any_size, str(paths[False]), target, options, inputs=given)
        fixed = run_compiled(compile_file(str(paths[True]), target, one), str(paths[True]), target, one)
        right = "" if found.verified and fixed.verified else " (wrong)"
        share = fixed.cycles / found.cycles
        cells = [name, " x ".join(map(str, size)), f"{found.cycles:,}{right}", f"{fixed.cycles:,}", f"{share:.2f}"]
        yield f"| {' | '.join(cells)} |", share


def table(data: Data, only: Sequence[str]) -> list[str]:
    """The rows for data there, and how many of them are as good as is wanted."""
    lines, shares = list(HEAD), list[float]()
    with tempfile.TemporaryDirectory() as folder:
        for name in KERNELS:
            if only and not any(name.startswith(o) for o in only):
                continue
            try:
                for line, share in rows(name, data, Path(folder)):
                    print(line, flush=True)
                    lines.append(line)
                    shares.append(share)
            except DspgenError as error:
                print(name, error.problems[0].message, flush=True)
    lines += ["", f"{sum(s >= WANTED for s in shares)} of {len(shares)} reach {WANTED} of the efficiency."]
    print(lines[-1])
    return lines


def main() -> None:
    arguments = sys.argv[1:]
    only = [a for a in arguments if not a.startswith("--")]
    places: tuple[Data, ...] = ("ddr", "onchip")
    lines: list[str] = []
    for data in [p for p in places if f"--{p}" in arguments] or places:
        lines += ["", f"Data {'off' if data == 'ddr' else 'on'} the chip:", "", *table(data, only)]
    if "--write" in arguments:
        write_table("blocks.md", "sizes", lines)


if __name__ == "__main__":
    main()
