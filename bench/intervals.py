"""Every pipelined loop of Table 1's kernels and the examples: its initiation interval beside the bounds, and why not.

python bench/intervals.py [--write] [--exact] [NAMES]: makes the table in docs/scheduler.md, of kernels
whose names begin so; with proofs of what the heuristics miss.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tables import write_table

from dspgen.bench import breakdown
from dspgen.errors import DspgenError
from dspgen.options import Options
from dspgen.pipeline import compile_file
from dspgen.sched.ir import LoopReport
from dspgen.target.load import load_target

ROOT = Path(__file__).parent.parent
HEAD = [
    "| kernel | loop | trip | II | resources | recurrence | arithmetic | of the source | stages | what is in the way |",
    "|---|" + "---|" * 9,
]


def kernels() -> Iterator[tuple[str, str, Options]]:
    """Name, file and options: the kernels of the paper's Table 1, then the examples."""
    for kernel in breakdown.KERNELS.values():
        yield kernel.name, breakdown.source(kernel), Options(defines=kernel.defines)
    for path in sorted((ROOT / "examples").glob("*.c")):
        yield path.stem, str(path), Options()
    for path in sorted((ROOT / "examples" / "loops").glob("*.c")):
        for name in re.findall(r"^void (\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE):
            yield name, str(path), Options(function=name)


def row(name: str, loop: LoopReport) -> str:
    why = "; ".join(dict.fromkeys(f"{ii}: {reason}" for ii, reason in loop.tried)) if loop.ii > loop.least else ""
    trip = loop.trip if loop.trip is not None else "unknown"
    if loop.optimal and loop.ii > loop.least:
        why = f"{loop.ii} is proven least"
    bounds = f"{loop.res_mii} | {loop.rec_mii} | {loop.arithmetic_mii} | {loop.source_mii}"
    return f"| {name} | {loop.label} | {trip} | {loop.ii} | {bounds} | {loop.stages} | {why} |"


def main() -> None:
    target = load_target("ft_m7002")
    only = [a for a in sys.argv[1:] if not a.startswith("--")]
    lines, loops, met, proven = list(HEAD), 0, 0, 0
    for name, file, options in kernels():
        if only and not any(name.startswith(o) for o in only):
            continue
        try:
            options = replace(options, sched="exact") if "--exact" in sys.argv else options
            reports = compile_file(file, target, options).scheduled.loops
        except DspgenError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        for loop in reports:
            if loop.pipelined:
                loops, met = loops + 1, met + (loop.ii <= loop.least)
                proven += loop.optimal and loop.ii > loop.least
                lines.append(row(name, loop))
                print(lines[-1], flush=True)
    lines += [
        "",
        f"{met} of {loops} loops meet their bound; {proven} more have the least interval that there is, proven.",
    ]
    print(lines[-1])
    if "--write" in sys.argv:
        write_table("scheduler.md", "intervals", lines)


if __name__ == "__main__":
    main()
