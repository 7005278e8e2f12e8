"""How far list scheduling and the search are from the shortest packets, proven by the exact solver.

python bench/straight.py [--random] [--write]: random blocks, half of them chosen because list scheduling misses their
optimum, and (without --random) the blocks of the examples; with --write the table in docs/scheduler.md. Seconds are of
processor time.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tables import write_table

from dspgen.driver.pipeline import compile_file
from dspgen.errors import DspgenError
from dspgen.options import Options
from dspgen.sched.machine.operations import Op
from dspgen.sched.machine.target_facts import Facts
from dspgen.sched.straight.block_packing import Searches, fit_block
from dspgen.sched.straight.bounds import Bounds
from dspgen.sched.straight.exact import proven
from dspgen.sched.straight.list_scheduling import Block, Fitted
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target
from tests.support.straight_blocks import Blocks

ROOT = Path(__file__).parent.parent
MACHINES = ("ft_m7002", "ft_mt3000")
MISSED, OTHERS = 130, 120  # blocks of each machine: those that list scheduling misses, and any others
SOON, LATER = 0.5, 2.0
LOOK = 800_000
EFFORT = 2.0  # of the solver without our bounds, in its deterministic seconds


@dataclass(frozen=True, slots=True)
class Row:
    """One block: lengths, the seconds that the search took, and whether the solver needed no bound of ours."""

    operations: int
    listed: int
    found: int
    optimum: int | None
    seconds: float
    alone: bool


def random_row(blocks: Blocks, seed: int) -> Row:
    ops = blocks.block(seed)
    listed = fit_block(ops, blocks.facts, method="list")
    started = time.process_time()
    found = fit_block(ops, blocks.facts, method="dp", searches=Searches(2 * LOOK))
    seconds = time.process_time() - started
    exact = fit_block(ops, blocks.facts, method="exact", searches=Searches(2 * LOOK))
    instance = Block(ops, blocks.facts, None, None, None).instance()
    plain = Bounds((), instance.release, instance.slack, 0)
    _, bound = proven(instance, plain, 0, None, exact.length, EFFORT)
    optimum = exact.length if exact.length <= max(exact.bound, bound) else None
    return Row(len(ops), listed.length, found.length, optimum, seconds, bound >= exact.length)


def chosen(blocks: Blocks) -> list[Row]:
    """The first blocks that list scheduling misses, and the first that it does not."""
    missed: list[int] = []
    others: list[int] = []
    seed = 0
    while len(missed) < MISSED or len(others) < OTHERS:
        ops = blocks.block(seed)
        listed = fit_block(ops, blocks.facts, method="list")
        shortest = listed if listed.length <= listed.bound else fit_block(ops, blocks.facts, method="exact")
        (missed if shortest.length < listed.length else others).append(seed)
        seed += 1
    print(f"{seed} blocks seen, {len(missed)} missed by list scheduling", flush=True)
    return [random_row(blocks, s) for s in (*missed[:MISSED], *others[:OTHERS])]


def example_rows(target: Target) -> Iterator[Row]:
    """The straight blocks of every example, as they lie between its loops."""
    folders = (ROOT / "examples", ROOT / "examples" / "irregular", ROOT / "examples" / "loops")
    for path in sorted(p for folder in folders for p in folder.glob("*.c")):
        for name in re.findall(r"^void (\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE):
            for ops, facts, given in captured(path, name, target):
                listed = fit_block(ops, facts, **given, method="list")
                started = time.process_time()
                found = fit_block(ops, facts, **given, method="dp", searches=Searches(2 * LOOK))
                seconds = time.process_time() - started
                exact = fit_block(ops, facts, **given, method="exact", searches=Searches(2 * LOOK))
                optimum = exact.length if exact.length <= exact.bound else None
                yield Row(len(ops), listed.length, found.length, optimum, seconds, False)
                if found.length != optimum:
                    lengths = f"{listed.length} {found.length} {exact.length} {exact.bound}"
                    print(f"{name}: {len(ops)} operations, {lengths}, {seconds:.2f} s", flush=True)


def captured(path: Path, name: str, target: Target) -> list[tuple[list[Op], Facts, dict[str, Any]]]:
    """What the blocks of a function are scheduled from, once its plan is chosen: only then the exact method is used."""
    found: dict[object, tuple[list[Op], Facts, dict[str, Any]]] = {}

    def capture(ops: list[Op], facts: Facts, **given: Any) -> Fitted:
        exact = given["method"] == "exact"
        if exact:
            given["method"] = "dp"
        fitted = fit_block(ops, facts, **given)
        if exact and ops and fitted.bound:
            ends = {key: given[key] for key in ("head", "tail", "branch", "after", "without")}
            block = Block(ops, facts, given["head"], given["tail"], given["branch"])
            found[str(given["without"]), block.instance().key()] = ops, facts, ends
        return fitted

    with patch("dspgen.sched.layout.appender.fit_block", capture):
        try:
            compile_file(str(path), target, replace(Options(), function=name, sched="exact"))
        except DspgenError as error:
            print(f"{name}: {error}", flush=True)
    return list(found.values())


def line(title: str, rows: Sequence[Row]) -> str:
    known = [r for r in rows if r.optimum is not None]
    of = len(known)
    listed = sum(r.listed == r.optimum for r in known)
    soon = sum(r.found == r.optimum and r.seconds <= SOON for r in known)
    later = sum(r.found == r.optimum and r.seconds <= LATER for r in known)
    worse = sum(r.found > r.listed for r in rows)
    cells = [title, len(rows), of, sum(r.alone for r in rows), f"{listed / of:.1%}"]
    cells += [f"{soon / of:.1%}", f"{later / of:.1%}", worse, f"{max(r.seconds for r in rows):.2f}"]
    return "| " + " | ".join(map(str, cells)) + " |"


def main() -> None:
    table = [
        "| blocks | number | optimum proven | without our bounds | list optimal | search optimal in 0.5 s | in 2 s "
        "| search longer than list | longest search, s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for isa in MACHINES:
        table.append(line(f"random, {isa}", chosen(Blocks(load_target(isa)))))
        print(table[-1], flush=True)
    for isa in MACHINES if "--random" not in sys.argv else ():
        table.append(line(f"examples, {isa}", list(example_rows(load_target(isa)))))
        print(table[-1], flush=True)
    if "--write" in sys.argv:
        write_table("scheduler.md", "straight", table)


if __name__ == "__main__":
    main()
