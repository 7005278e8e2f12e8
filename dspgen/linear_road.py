"""The road from linear assembly to packets: text, functions, schedules, text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePath

from dspgen.emit.asm import emit_scheduled
from dspgen.errors import NoSchedule
from dspgen.lasm.function import Linear, linear_functions
from dspgen.options import SchedMode
from dspgen.rewrite.optimise import Remark
from dspgen.sched.ir import Scheduled
from dspgen.sched.schedule import schedule
from dspgen.sim.names import refuse_registers, with_plain_labels
from dspgen.stages import schedule_remarks
from dspgen.target.model import Target


@dataclass(frozen=True, slots=True)
class ScheduledLinear:
    """One function of a linear assembly file as packets; `remarks` tell what became of its loops."""

    linear: Linear
    scheduled: Scheduled
    asm: str
    remarks: tuple[Remark, ...]

    @property
    def name(self) -> str:
        return self.linear.program.name


def schedule_text(
    text: str | bytes, target: Target, *, file: str = "<text>", method: SchedMode = "dp", pipeline: bool = True
) -> tuple[ScheduledLinear, ...]:
    """Every function of a linear assembly text. Raises SourceError (DG34x), or NoSchedule (DG30x)."""
    functions = linear_functions(text, target, file)
    for linear in functions:
        refuse_registers(linear.program.name, target, "DG340", linear.program.loc)
    return tuple(_scheduled(linear, target, file, method, pipeline) for linear in functions)


def _scheduled(linear: Linear, target: Target, file: str, method: SchedMode, pipeline: bool) -> ScheduledLinear:
    try:
        found = with_plain_labels(schedule(linear.function, target, method=method, pipeline=pipeline), target)
    except NoSchedule as refusal:
        refusal.problems = tuple(replace(p, loc=p.loc or linear.program.loc) for p in refusal.problems)
        raise
    asm = emit_scheduled(
        found, target, source=PurePath(file).name, arguments=linear.arguments, apart=linear.program.apart
    )
    return ScheduledLinear(linear, found, asm, _remarks(linear, found))


def _remarks(linear: Linear, found: Scheduled) -> tuple[Remark, ...]:
    remarks = [Remark(note.loc, note.kind, note.message) for note in linear.notes]
    return (*remarks, *schedule_remarks(found))
