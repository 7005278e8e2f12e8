"""Where values wait that find no register, as what one schedule taught the next one of the same code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from dspgen.asmir.ir.function import VReg
from dspgen.sched.graph.synthesized_instrs import Kit
from dspgen.sched.ir.packets import Elsewhere
from dspgen.sched.loops.attempt_state import Settings
from dspgen.sched.registers.spilling import Stack


def told(settings: Settings) -> Elsewhere:
    """What had to make room."""
    spilled = tuple((*register, isinstance(place, VReg)) for register, place in settings.spilled.items())
    return Elsewhere(tuple(settings.saved), tuple(settings.borrowed), spilled)


def begin_with(found: Elsewhere, settings: Settings, kit: Kit, stack: Stack) -> None:
    """Make the same room from the start."""
    for name in found.saved:
        settings.saved[name] = stack.place(kit.class_of(name))
    kit.saved |= settings.saved.keys()
    settings.borrowed += found.borrowed
    for name, cls, in_register in found.spilled:
        register = VReg(name, cls)
        settings.spilled[register] = stack.refuge(register) if in_register else stack.place(register.cls)


def waiting(settings: Settings) -> Iterator[str]:
    """What waits elsewhere for lack of registers, in words."""
    counts = Counter((r.cls, at.cls if isinstance(at, VReg) else "") for r, at in settings.spilled.items())
    for (cls, other), count in counts.items():
        where = f"in registers of class {other}" if other else "on the stack"
        moved = "copied there once made and back for each use" if other else "stored once made and loaded for each use"
        yield f"{count} {'value waits' if count == 1 else 'values wait'} {where} for a register of class {cls}, {moved}"
    if settings.saved:
        yield f"the caller's {', '.join(settings.saved)} are kept on the stack meanwhile"
