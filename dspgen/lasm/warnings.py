"""What looks wrong in linear assembly, though code can be made of it: told as warnings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dspgen.asmir.ir.function import Instr, Jump, Mark, VReg
from dspgen.errors import Problem, SourceError
from dspgen.lasm.flat_code import Builder
from dspgen.lasm.ir import Program
from dspgen.lasm.liveness import Liveness, killed, read
from dspgen.lasm.loops import Note
from dspgen.lasm.row_inference import Classes
from dspgen.lasm.values import Atom, State
from dspgen.target.isa.model import Target
from plant_core.support.location import Loc

DOUBTS = {"unset": "DG347", "behind": "DG348"}


def unset(code: Sequence[Instr | Mark | Jump], builder: Builder, target: Target) -> Iterator[Note]:
    """Variables that may be read before they are written, lanes that a mask leaves out apart."""
    plain = [replace(c, masked=False) if isinstance(c, Instr) else c for c in code]
    given = {atom for register, _ in builder.inputs for atom in State(target).atoms(register)}
    halves: dict[tuple[VReg, str], str] = {half: name for name, half in builder.halves.items()}
    found = {halves.get((r, part), r.name): (r, part) for r, part in Liveness(plain, target).before[0] - given}
    for name in sorted(found):
        yield Note(_first_read(plain, found[name], State(target)), "unset", f"{name} may be read before it is written")


def _first_read(code: Sequence[Instr | Mark | Jump], atom: Atom, state: State) -> Loc | None:
    """The first place in the text that reads a register where nothing on the way to it has written that."""
    marks = {item.name: k for k, item in enumerate(code) if isinstance(item, Mark)}
    seen: set[int] = set()
    found: dict[int, Loc | None] = {}
    todo = [0]
    while todo:
        k = todo.pop()
        if k in seen or k >= len(code):
            continue
        seen.add(k)
        match code[k]:
            case Instr() as instr if atom in read(instr, state):
                found[k] = instr.loc
            case Jump(branch=branch) if atom in read(branch, state):
                found[k] = branch.loc
            case Jump() as jump:
                todo += [marks[jump.target], *([k + 1] if jump.conditional else [])]
            case Instr() as instr if atom in killed(instr, state):
                pass
            case _:
                todo.append(k + 1)
    return next((found[k] for k in sorted(found)), None)


def behind_branches(program: Program, classes: Classes) -> Iterator[Note]:
    """What stands in a loop's text behind its last branch back, and so outside the loop. Raises SourceError for a loop
    without one."""
    for loop in program.loops:
        inside = [(k, classes.uses[k]) for k in range(loop.start, loop.end) if k in classes.uses]
        back = [k for k, use in inside if use.row.branch and use.line.operands[0].text == loop.label]
        if not back:
            what = f"no branch goes back to {loop.label}: what stands here is no loop"
            raise SourceError(Problem("DG345", what, loop.loc, "put a branch to its label just before .endloop"))
        for use in [use for k, use in inside if k > back[-1]][:1]:
            what = f"{use.line.word} stands behind the branch back to {loop.label}, and so runs once, after the loop"
            yield Note(use.line.loc, "behind", what)
