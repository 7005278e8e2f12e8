"""What must hold on every path through the packets, run or not: units, ports, results that land together, branches."""

from __future__ import annotations

from collections.abc import Iterator

from dspgen.errors import Problem
from dspgen.sim.cgen.static_states import Step, explore
from dspgen.sim.ir.program import Code
from dspgen.sim.machine.in_flight import InFlight


def on_all_paths(code: Code, entry: int, delay: int) -> list[Problem]:
    """The problems of all machine states that control may reach. Raises TooManyStates."""
    found: dict[tuple[str, str], Problem] = {}
    for step in explore(code, entry, delay).values():
        for problem in (*_taken_units(code, step), *_landings(code, step), *_branches(code, step)):
            found.setdefault((problem.code, str(problem.loc)), problem)
    return [found[key] for key in sorted(found)]


def _taken_units(code: Code, step: Step) -> Iterator[Problem]:
    if step.refused is not None:
        place, kind = step.refused
        op = code.slots[step.state.at].ops[place]
        what = f"{op.unit} is" if kind == "unit" else "a port of it is"
        yield Problem("DG453", f"{what} held by an earlier instruction when {op.text} issues", op.loc)


def _landings(code: Code, step: Step) -> Iterator[Problem]:
    """Two results that always land: those under predicates are left to real runs."""
    seen: dict[tuple[int, int | None], InFlight] = {}
    for landed in step.landing:
        op = code.ops[landed.uid]
        if landed.kind == "store" or not op.certain or op.masked:
            continue
        write = op.writes[landed.index]
        if (other := seen.get((write.cell, write.lane))) is not None:
            first = code.ops[other.uid]
            name = code.cells[write.cell].name
            text = f"results of lines {first.loc.line} and {op.loc.line} land on {name} in one cycle"
            yield Problem("DG451", text, op.loc)
        seen[write.cell, write.lane] = landed


def _branches(code: Code, step: Step) -> Iterator[Problem]:
    if step.state.branch is None or step.state.wait or step.state.at >= len(code.slots):
        return
    for op in code.slots[step.state.at].ops:
        if op.branch is not None and op.certain and op.again is None:
            yield Problem("DG452", f"{op.text} is taken in the delay slots of another branch", op.loc)
