"""The road from linear assembly to packets: text, functions, schedules, text."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import PurePath

from dspgen.asmir.ir.function import Instr
from dspgen.backend.stages import schedule_remarks
from dspgen.emit.asm import emit_scheduled
from dspgen.errors import NoSchedule, Problem
from dspgen.lasm.function import Linear, linear_functions
from dspgen.lasm.liveness import Liveness
from dspgen.options import SchedMode
from dspgen.rewrite.optimize import Remark
from dspgen.sched.ir.packets import Scheduled
from dspgen.sched.scheduler import schedule
from dspgen.sim.text.ambiguous_names import refuse_registers, with_plain_labels
from dspgen.target.isa.model import Target

_SHOWN = 12  # variables by name


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
        located = (replace(p, loc=p.loc or linear.program.loc) for p in refusal.problems)
        refusal.problems = tuple(_crowded(p, linear, target) if p.code == "DG303" else p for p in located)
        raise
    asm = emit_scheduled(
        found, target, source=PurePath(file).name, arguments=linear.arguments, apart=linear.program.apart
    )
    return ScheduledLinear(linear, found, asm, _remarks(linear, found))


def _crowded(problem: Problem, linear: Linear, target: Target) -> Problem:
    """The refusal with the place at which most variables too many of one class are live, if there is one."""
    code = linear.sequence.body
    live = Liveness(code, target)
    excess, place, names, held = 0, problem.loc, [""], target.registers[0]
    for k, item in enumerate(code):
        if not isinstance(item, Instr) or item.loc is None:
            continue
        for cls in target.registers:
            found = sorted({r.name for r, _ in live.before[k] if r.cls == cls.name}, key=_in_order)
            if len(found) - len(cls.names) > excess:
                excess, place, names, held = len(found) - len(cls.names), item.loc, found, cls
    if not excess:
        return problem
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    kind = f"class {held.name}, which has {len(held.names)} registers"
    what = f"{problem.message}; here {len(names)} variables are in use of {kind}: {shown}"
    remedy = "set variables only where they are used; reach places at known distances by offsets from one address"
    return replace(problem, message=what, loc=place, remedy=remedy)


def _in_order(name: str) -> list[tuple[int, str]]:
    """Numbers in names count."""
    return [(int(part or 0) if k % 2 else 0, part) for k, part in enumerate(re.split(r"(\d+)", name))]


def _remarks(linear: Linear, found: Scheduled) -> tuple[Remark, ...]:
    remarks = [Remark(note.loc, note.kind, note.message) for note in linear.notes]
    return (*remarks, *schedule_remarks(found))
