"""Every example with rewriting on and off: cycles, and whether both verify. Makes the table in docs/rewriting.md.

python bench/rewriting.py [--write] [NAMES]: of examples whose names begin so.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from tables import write_table

from dspgen.bench.outcomes import geometric_mean
from dspgen.driver.pipeline import RunResult, run_file
from dspgen.options import Options
from dspgen.target.load import load_target

ROOT = Path(__file__).parent.parent


def main() -> None:
    target = load_target("ft_m7002")
    only = tuple(a for a in sys.argv[1:] if not a.startswith("--"))
    rows, ratios = [], []
    for path in sorted((ROOT / "examples").glob("*.c")):
        if only and not path.stem.startswith(only):
            continue
        on, off = (run_file(str(path), target, replace(Options(), rewrite=r)) for r in ("full", "off"))
        ratios.append(off.cycles / on.cycles)
        rows.append(f"| {path.stem} | {_cell(on)} | {_cell(off)} | {ratios[-1]:.2f} |")
        print(rows[-1], flush=True)
    mean = geometric_mean(ratios)
    table = ["| example | cycles, on | cycles, off | off / on |", "|---|---|---|---|", *rows]
    table.append(f"| geometric mean | | | {mean:.2f} |")
    if "--write" in sys.argv:
        write_table("rewriting.md", "rewriting", table)


def _cell(result: RunResult) -> str:
    return f"{result.cycles}" if result.verified else f"{result.cycles} (wrong)"


if __name__ == "__main__":
    main()
