"""How long loops take to schedule: random bodies of 100 to 200 operations, in seconds of processor time.

python bench/loop_speed.py [--write] [COUNT]: so many bodies for each machine (40); with --write the table in
docs/scheduler.md.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tables import write_table

from dspgen.asmir.ir.function import Function, Instr, Loop, Mem, MemRef, OperandValue, Reg, Stream, VReg
from dspgen.errors import NoSchedule
from dspgen.sched.scheduler import schedule
from dspgen.target.isa.model import Side, Target
from dspgen.target.load import load_target
from tests.support.straight_blocks import Blocks

MACHINES = ("ft_m7002", "ft_mt3000")
COUNT = 40
SMALLEST, LARGEST = 100, 200
TRIP = 64
MOST = 2.0  # seconds that a loop may take


@dataclass(frozen=True, slots=True)
class Row:
    seed: int
    operations: int
    seconds: float
    interval: int | None  # None: not pipelined
    least: int


class Bodies(Blocks):
    """Random loops of one machine: layers as in the random blocks, a few arrays, values of the iteration before."""

    def loop(self, seed: int) -> Function:
        rng = random.Random(seed)
        size = rng.randint(SMALLEST, LARGEST)
        palette = rng.sample(self.rows, min(len(self.rows), rng.randint(4, 24)))
        width = rng.randint(4, 24)
        carried = rng.choice([0.0, 0.02, 0.1])
        made: dict[str, list[tuple[VReg, int]]] = {}
        self.streams: dict[VReg, Stream] = {}
        body: list[Instr] = []
        for k in range(size):
            found = self._instr(rng, rng.choice(palette), k, k // width, made)
            body.append(replace(found, operands=tuple(self._operand(v, rng, carried, made) for v in found.operands)))
        streams = tuple(self.streams.values())
        loop = Loop("body", "i", 1, TRIP, streams, (*body, *self._results(made)), TRIP)
        pointers = tuple((s.base, self.target.register_class(s.base.cls).names[k]) for k, s in enumerate(streams))
        return Function("f", pointers, (loop,))

    def _operand(
        self, value: OperandValue, rng: random.Random, carried: float, made: dict[str, list[tuple[VReg, int]]]
    ) -> OperandValue:
        if isinstance(value, Mem) and isinstance(value.base, VReg):
            side: Side = "scalar" if value.base.cls == self.target.address_modes.base_classes["scalar"] else "vector"
            base, step = VReg(f"{side}{rng.randint(0, 2)}", value.base.cls), 1024
            self.streams.setdefault(base, Stream(base, step, side))
            size = value.access.size if value.access is not None else 4
            offset = size * rng.randint(0, 12)
            return Mem(base, offset, MemRef(base.name, offset, (("i", step),), size, 1, size))
        if isinstance(value, Reg) and value.vreg.name.startswith("in"):
            known = made.get(value.vreg.cls, ())
            if known and rng.random() < carried:
                return Reg(VReg(f"carried.{value.vreg.cls}", value.vreg.cls))
            return Reg(VReg(f"in{rng.randint(0, 3)}", value.vreg.cls))
        return value

    def _results(self, made: dict[str, list[tuple[VReg, int]]]) -> Iterator[Instr]:
        """The last values of some classes go on to the next iteration."""
        for cls, values in made.items():
            try:
                yield from self.kit.move(VReg(f"carried.{cls}", cls), values[-1][0])
            except NoSchedule:
                continue


def measured(bodies: Bodies, seed: int) -> Row | str:
    function = bodies.loop(seed)
    size = max(len(i.body) for i in function.body if isinstance(i, Loop))
    started = time.process_time()
    try:
        found = schedule(function, bodies.target)
    except NoSchedule as error:
        return f"seed {seed}, {size} operations: {error} ({time.process_time() - started:.2f} s)"
    seconds = time.process_time() - started
    loop = found.loops[0]
    return Row(seed, size, seconds, loop.ii if loop.pipelined else None, loop.least)


def table(target: Target, count: int) -> str:
    rows = []
    bodies = Bodies(target)
    for seed in range(count):
        row = measured(bodies, seed)
        print(row, flush=True)
        if isinstance(row, Row):
            rows.append(row)
    pipelined = [r for r in rows if r.interval is not None]
    least = sum(r.interval == r.least for r in pipelined)
    seconds = sorted(r.seconds for r in rows)
    over = sum(s > MOST for s in seconds)
    middle, worst = seconds[len(seconds) // 2], seconds[-1]
    figures = f"{len(rows)} | {len(pipelined)} | {least} | {middle:.2f} | {worst:.2f} | {over}"
    return f"| random, {target.name} | {figures} |"


def main() -> None:
    counts = [int(a) for a in sys.argv[1:] if a.isdigit()]
    lines = [
        "| bodies | number | pipelined | II = MII | median, s | longest, s | over 2 s |",
        "|---|" + "---|" * 6,
        *(table(load_target(name), counts[0] if counts else COUNT) for name in MACHINES),
    ]
    print("\n".join(lines))
    if "--write" in sys.argv:
        write_table("scheduler.md", "loop_speed", lines)


if __name__ == "__main__":
    main()
