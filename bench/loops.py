"""Each loop of examples/loops on a DSP: verified, vectorized or why not, cycles beside those of scalar code.

python bench/loops.py [--write]: makes the table in docs/vectorizer.md.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tables import write_table

from dspgen.bench.outcomes import geometric_mean
from dspgen.driver.pipeline import RunResult, run_file
from dspgen.options import Options
from dspgen.target.load import load_target

ROOT = Path(__file__).parent.parent
ISA = "ft_m7002"


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel: `shares` are its loops that were vectorized, and all that remarks speak of."""

    text: str
    gain: float
    vectorized: int
    loops: int


def kernels() -> Iterator[tuple[Path, str]]:
    for path in sorted((ROOT / "examples" / "loops").glob("*.c")):
        for name in re.findall(r"^void (\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE):
            yield path, name


def row(path: Path, name: str) -> Row:
    target = load_target(ISA)
    options = replace(Options(), function=name)
    fast = run_file(str(path), target, options)
    slow = run_file(str(path), target, replace(options, vectorize=False))
    done = [r.message for r in fast.remarks if r.kind == "vectorized"]
    missed = [r.message for r in fast.remarks if r.kind == "not-vectorized"]
    gain = slow.cycles / fast.cycles
    said = "; ".join(dict.fromkeys([*done, *missed]))
    text = f"| {path.stem} | {name} | {_verified(fast, slow)} | {fast.cycles} | {slow.cycles} | {gain:.1f} | {said} |"
    return Row(text, gain, len(done), len(done) + len(missed))


def _verified(fast: RunResult, slow: RunResult) -> str:
    return "yes" if fast.verified and slow.verified else "NO"


def main() -> None:
    rows = []
    for path, name in kernels():
        rows.append(row(path, name))
        print(rows[-1].text, flush=True)
    mean = geometric_mean(r.gain for r in rows)
    vectorized, loops = sum(r.vectorized for r in rows), sum(r.loops for r in rows)
    table = ["| class | loop | verified | cycles | scalar | gain | remarks |", "|---|---|---|---|---|---|---|"]
    table += [r.text for r in rows]
    table += ["", f"{vectorized} of {loops} loops are vectorized; the geometric mean of the gains is {mean:.1f}."]
    print("\n".join(table[-2:]))
    if "--write" in sys.argv:
        write_table("vectorizer.md", "loops", table)


if __name__ == "__main__":
    main()
