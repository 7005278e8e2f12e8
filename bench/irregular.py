"""Small irregular functions on a DSP: cycles, how they were vectorized, and what their loop nests would take.

python bench/irregular.py [--write] [NAMES]: makes the table in docs/vectorizer.md, of functions whose names begin so.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tables import write_table

from dspgen.driver.pipeline import run_file
from dspgen.options import Options
from dspgen.target.load import load_target

ROOT = Path(__file__).parent.parent
HEAD = ["| function | cycles | by loops | compile s | verified | how |", "|---|---|---|---|---|---|"]


def shapes() -> Iterator[tuple[str, dict[str, int]]]:
    for image, kernel in (("3x3", "2x2"), ("3x5", "3x3"), ("4x4", "3x3"), ("8x8", "3x3"), ("10x10", "2x2"),
                          ("10x10", "3x3"), ("10x10", "4x4"), ("16x16", "4x4")):  # fmt: skip
        sizes = (int(n) for n in (*image.split("x"), *kernel.split("x")))
        yield "conv_full", dict(zip(("H", "W", "FH", "FW"), sizes, strict=True))
    for shape in ((2, 2, 2), (2, 3, 3), (3, 3, 3), (4, 4, 4), (8, 8, 8), (10, 10, 10), (16, 16, 16)):
        yield "matmul_small", dict(zip("MNK", shape, strict=True))
    yield "quaternion", {}
    for size in (3, 4):
        yield "qr_householder", {"N": size}
        yield "qr_givens", {"N": size}


def row(name: str, sizes: dict[str, int]) -> str:
    options = Options(defines=tuple((k, str(v)) for k, v in sizes.items()))
    result = run_file(str(ROOT / "examples" / "irregular" / f"{name}.c"), load_target("ft_m7002"), options)
    verdicts = [r for r in result.remarks if r.kind in ("vectorized", "not-vectorized")]
    loops = next((m[1] for r in verdicts if (m := re.search(r"((?:about |over )?\d+) by loops", r.message))), "")
    how = "; ".join(dict.fromkeys(result.tiles)) if loops or not verdicts else verdicts[0].message
    lanes = "" if all(r.kind == "vectorized" for r in verdicts) else " (no lanes)"
    title = f"{name} {'x'.join(map(str, sizes.values()))}".strip()
    yes = "yes" if result.verified else "NO"
    return f"| {title} | {result.cycles} | {loops} | {result.compile_seconds:.1f} | {yes} | {how}{lanes} |"


def main() -> None:
    only = tuple(a for a in sys.argv[1:] if not a.startswith("--"))
    table = list(HEAD)
    for name, sizes in shapes():
        if only and not name.startswith(only):
            continue
        table.append(row(name, sizes))
        print(table[-1], flush=True)
    if "--write" in sys.argv:
        write_table("vectorizer.md", "irregular", table)


if __name__ == "__main__":
    main()
