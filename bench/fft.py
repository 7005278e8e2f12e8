"""Fourier transforms in three forms and all sizes on a DSP: which stages run across lanes, and their cycles.

python bench/fft.py [--write] [FORM]...: makes the table in docs/vectorizer.md.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tables import write_table

from dspgen.driver.pipeline import run_file
from dspgen.options import Options
from dspgen.target.load import load_target
from dspgen.tiling.candidates import Choice

ROOT = Path(__file__).parent.parent / "examples"
SIZES = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
FORMS = ("affine", "split", "interleaved")
HEAD = [
    "| form | points | verified | cycles | bound | stages in lanes | reordering | compile s |",
    "|---|---|---|---|---|---|---|---|",
]


def row(form: str, size: int) -> str:
    path = ROOT / "bench" / f"fft_{size}.c" if form == "affine" else ROOT / "fft" / f"{form}.c"
    defines = () if form == "affine" else (("N", str(size)),)
    seen: dict[str, object] = {}
    started = time.process_time()
    options = Options(defines=defines)
    result = run_file(str(path), load_target("ft_m7002"), options, on_stage=lambda k, v: seen.update({k: v}))
    seconds = time.process_time() - started
    stages, order = _stages(result.tiles, seen.get("plan", ()), size.bit_length() - 1, form)
    yes = "yes" if result.verified else "NO"
    return f"| {form} | {size} | {yes} | {result.cycles} | {result.bound_cycles} | {stages} | {order} | {seconds:.1f} |"


def _stages(tiles: Sequence[str], choices: object, count: int, form: str) -> tuple[str, str]:
    """How many stages run across lanes, and whether the reordering before them does."""
    if tiles[0].startswith("unrolled") or not isinstance(choices, tuple):
        return tiles[0], ""
    nests: list[Choice] = list(choices)
    order = ""
    if form != "affine":
        order = "lanes" if _across(nests.pop(0)) else "scalar"
    assert len(nests) == count
    return f"{sum(map(_across, nests))} of {count}", order


def _across(choice: Choice) -> bool:
    return len(choice.candidate.laned) == len(choice.comps)


def main() -> None:
    table = list(HEAD)
    chosen = [a for a in sys.argv[1:] if not a.startswith("--")] or FORMS
    for form in chosen:
        for size in SIZES:
            table.append(row(form, size))
            print(table[-1], flush=True)
    if "--write" in sys.argv:
        write_table("vectorizer.md", "fft", table)


if __name__ == "__main__":
    main()
