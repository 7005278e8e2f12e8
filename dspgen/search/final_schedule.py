"""The packets of the code that was chosen, made again with more patience than those of all the candidates before it."""

from __future__ import annotations

from dataclasses import replace

from dspgen.asmir.ir.function import instruction_count
from dspgen.backend.stages import Compiled
from dspgen.errors import NoSchedule
from dspgen.options import Options
from dspgen.sched.ir.packets import LoopReport, Scheduled
from dspgen.sched.modulo.modulo import GAVE_UP
from dspgen.sched.scheduler import schedule
from dspgen.target.isa.model import Target

FINAL_LOOK = 800_000
FINAL_TIMES = 4
LARGE = 2000  # instructions: the next schedule begins with what the first one lacked registers for


def polished(compiled: Compiled, target: Target, options: Options) -> Compiled:
    """The same, scheduled again with more patience (`--sched exact`: and with proofs) where that gains something."""
    before = compiled.scheduled
    if options.sched in ("list", "order") or (
        options.sched == "dp"
        and not (before.cut and any(not block.optimal for block in before.straight))
        and not any(_gave_up(loop) for loop in before.loops)
    ):
        return compiled
    # What such code lacks registers for takes many attempts to find.
    large = instruction_count(compiled.assembly.body) > LARGE
    try:
        after = schedule(
            compiled.assembly,
            target,
            pipeline=options.pipeline,
            method=options.sched,
            look=FINAL_LOOK,
            times=FINAL_TIMES,
            blocks=before.blocks,
            lessons=before.lessons if large else None,
            elsewhere=before.elsewhere if large else None,
        )
    except NoSchedule:
        return compiled
    if before.cycles is None or after.cycles is None:
        better = len(after.loops) == len(before.loops) and all(
            a.pipelined == b.pipelined and a.ii <= b.ii for a, b in zip(after.loops, before.loops, strict=True)
        )
    else:
        better = after.cycles <= before.cycles
    return replace(compiled, scheduled=after if better else outdone(before, after))


def outdone(before: Scheduled, after: Scheduled) -> Scheduled:
    """The better schedule, which tells of loops that have a shorter interval in the other one."""
    if before.cycles is None or after.cycles is None:
        return before
    others = {loop.label: loop for loop in after.loops}
    loops = []
    for loop in before.loops:
        other = others.get(loop.label)
        if loop.pipelined and other is not None and other.pipelined and other.ii < loop.ii:
            quicker = f"the function is quicker at {loop.ii}: {before.cycles} cycles against {after.cycles}"
            tried = (t for t in loop.tried if t[0] != other.ii)
            loop = replace(loop, tried=tuple(sorted((*tried, (other.ii, quicker)))))
        loops.append(loop)
    return replace(before, loops=tuple(loops))


def _gave_up(loop: LoopReport) -> bool:
    """Whether a shorter interval was given up, rather than refuted or without registers."""
    return loop.pipelined and not loop.optimal and any(why == GAVE_UP for _, why in loop.tried)
