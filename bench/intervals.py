"""Every pipelined loop of Table 1's kernels and the examples: its initiation interval beside the bounds, and why not.

python bench/intervals.py [--write] [--exact] [NAMES]: makes the table in docs/scheduler.md, of kernels
whose names begin so. With --exact, functions in which an interval is longer than its bound are scheduled again with
proofs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tables import write_table

from dspgen.bench import breakdown
from dspgen.driver.pipeline import compile_file
from dspgen.errors import DspgenError
from dspgen.options import Options
from dspgen.sched.ir.packets import LoopReport
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target

ROOT = Path(__file__).parent.parent
QUICKER = re.compile(r"the (?:whole loop|function) is quicker at \d+: (\d+) cycles against (\d+)")
HEAD = [
    "| kernel | loop | trip | II | resources | recurrence | arithmetic | of the source | stages | why not MII |",
    "|---|" + "---|" * 9,
]


def kernels() -> Iterator[tuple[str, str, Options]]:
    """Name, file and options: the kernels of the paper's Table 1, then the examples."""
    for kernel in breakdown.KERNELS.values():
        yield kernel.name, kernel.source, Options(defines=kernel.defines)
    for path in sorted((ROOT / "examples").glob("*.c")):
        yield path.stem, str(path), Options()
    for path in sorted((ROOT / "examples" / "loops").glob("*.c")):
        for name in re.findall(r"^void (\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE):
            yield name, str(path), Options(function=name)


def in_the_way(loop: LoopReport) -> str:
    """Why the interval is not the least one that units and cycles of dependences allow."""
    if loop.ii <= loop.least:
        return ""
    if loop.optimal:
        return f"proven: there is no schedule at {loop.ii - 1}"
    reasons = dict(loop.tried)
    if (quicker := QUICKER.fullmatch(reasons.get(loop.least, ""))) is not None:
        return f"all of it quicker: {quicker[1]} against {quicker[2]} cycles at MII"
    why = "; ".join(dict.fromkeys(f"{ii}: {reason}" for ii, reason in reasons.items()))
    proven = f"; none up to {loop.refused}, proven" if loop.refused else ""
    return f"gap of {loop.ii - loop.bound}: {why}{proven}"


def row(name: str, loop: LoopReport) -> str:
    known = [loop.trip, loop.ii, loop.res_mii, loop.rec_mii, loop.arithmetic_mii, loop.source_mii, loop.stages]
    cells = " | ".join("-" if figure is None else str(figure) for figure in known)
    return f"| {name} | {loop.label} | {cells} | {in_the_way(loop)} |"


def loops_of(file: str, target: Target, options: Options, *, exact: bool) -> list[LoopReport]:
    """The pipelined loops; with `exact`, those that miss their bound are asked of the exact scheduler."""
    loops = [x for x in compile_file(file, target, options).scheduled.loops if x.pipelined]
    if exact and any(x.ii > x.least and not QUICKER.fullmatch(dict(x.tried).get(x.least, "")) for x in loops):
        loops = [x for x in compile_file(file, target, replace(options, sched="exact")).scheduled.loops if x.pipelined]
    return loops


def main() -> None:
    target = load_target("ft_m7002")
    only = [a for a in sys.argv[1:] if not a.startswith("--")]
    lines, loops = list(HEAD), list[LoopReport]()
    for name, file, options in kernels():
        if only and not any(name.startswith(o) for o in only):
            continue
        try:
            found = loops_of(file, target, options, exact="--exact" in sys.argv)
        except DspgenError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        loops += found
        for loop in found:
            lines.append(row(name, loop))
            print(lines[-1], flush=True)
    reasons = [in_the_way(x) for x in loops]
    lines += [
        "",
        f"{reasons.count('')} of {len(loops)} loops have their least interval (II = MII). Of the others: "
        f"least that there is, proven: {sum(r.startswith('proven') for r in reasons)}; "
        f"longer, since all of it ends sooner: {sum(r.startswith('all of it') for r in reasons)}; "
        f"with a gap: {sum(r.startswith('gap') for r in reasons)}.",
    ]
    print(lines[-1])
    if "--write" in sys.argv:
        write_table("scheduler.md", "intervals", lines)


if __name__ == "__main__":
    main()
