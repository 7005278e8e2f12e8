"""One loop's schedule for a reader: which iteration holds which unit in which cycle, and what keeps it from less."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from dspgen.emit.manifest import loop_object
from dspgen.emit.text import format_predicate
from dspgen.sched.ir.packets import LabelLine, LoopReport, Nop, Packet, Placed, Scheduled, Step
from dspgen.target.isa.model import Target

CRITICAL = "^"  # TI's mark of the loop carried dependency bound
_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "bright_red", "white")


@dataclass(frozen=True, slots=True)
class Slot:
    """An operation on its unit. `stage` and `iteration` (0: the one whose first stage is in the kernel's first `ii`
    cycles, -1: the one before) are None for the loop's own control, and where loops are not pipelined."""

    cycle: int
    unit: str
    mnemonic: str
    line: int | None
    comment: str
    predicate: str
    stage: int | None = None
    iteration: int | None = None
    critical: bool = False


@dataclass(frozen=True, slots=True)
class Explained:
    """`length` is the kernel's, in cycles, or one iteration's of a loop that is not pipelined."""

    report: LoopReport
    length: int
    slots: tuple[Slot, ...]


def explain_loop(scheduled: Scheduled, report: LoopReport, target: Target) -> Explained:
    """The kernel's rows as the text has them; of a kernel without a branch back, as it was scheduled."""
    kernel = _kernel(scheduled, report.label, target.pipeline.branch_delay)
    critical = {edge.source for edge in report.recurrence}
    steps = {(s.cycle % report.ii, s.unit): (s, k in critical) for k, s in enumerate(report.steps)}
    if not kernel:
        slots = [_slot(s.cycle % report.ii, s, report.ii, c) for s, c in steps.values()]
        return Explained(report, report.ii, tuple(sorted(slots, key=lambda s: s.cycle)))
    found: list[Slot] = []
    cycle = 0
    for line in kernel:
        for member in line.members if isinstance(line, Packet) else ():
            step = steps.get((cycle % report.ii, member.unit))
            if step is not None and step[0].instruction == member.instruction:
                found.append(_slot(cycle, step[0], report.ii, step[1], _condition(member, target)))
            else:
                where = member.loc.line if member.loc else None
                mnemonic = member.instruction.mnemonic
                found.append(Slot(cycle, member.unit, mnemonic, where, member.comment, _condition(member, target)))
        cycle += line.cycles if isinstance(line, Nop) else 1
    return Explained(report, cycle, tuple(found))


def _slot(cycle: int, step: Step, ii: int, critical: bool, predicate: str = "") -> Slot:
    stage = step.cycle // ii
    line = step.loc.line if step.loc else None
    mnemonic = step.instruction.mnemonic
    return Slot(cycle, step.unit, mnemonic, line, step.comment, predicate, stage, cycle // ii - stage, critical)


def binding(report: LoopReport, target: Target) -> list[dict[str, Any]]:
    """What keeps the interval from being less: units, the width of packets, a recurrence; else the search failed."""
    if not report.pipelined:
        return []
    if report.optimal and report.ii > report.least:
        return [{"kind": "proof", "cycles": report.ii, "units": []}]
    if report.ii > report.least:
        reason = report.tried[-1][1] if report.tried else "the least interval of the machine, or of what was tried"
        return [{"kind": "search", "cycles": report.ii, "units": [], "reason": reason}]
    found: list[dict[str, Any]] = []
    if report.res_mii == report.ii and report.binding_units:
        found.append({"kind": "units", "cycles": report.res_mii, "units": _grouped(report.binding_units, target)})
    elif report.res_mii == report.ii and not report.rec_mii == report.ii:
        found.append({"kind": "packets", "cycles": report.res_mii, "units": []})
    if report.rec_mii == report.ii and report.recurrence:
        found.append({"kind": "recurrence", "cycles": report.rec_mii, "units": []})
    return found


def _grouped(units: Sequence[str], target: Target) -> list[str]:
    """Units by the name of their group where the whole group is there."""
    names = list(units)
    for group in target.units:
        members = group.members
        if len(members) > 1 and set(members) <= set(names):
            names[names.index(members[0])] = f"{members[0]} to {members[-1]}"
            names = [n for n in names if n not in members]
    return names


def explain_object(found: Explained, target: Target) -> dict[str, Any]:
    """The loop of `--json`: the manifest's keys, what binds, the critical recurrence, and each operation's place."""
    report = found.report
    return loop_object(report) | {
        "length": found.length,
        "prolog": report.prolog,
        "epilog": report.epilog,
        "resource_bounds": dict(report.resource_bounds),
        "binding": binding(report, target),
        "recurrence": [
            {
                "mnemonic": report.steps[edge.source].instruction.mnemonic,
                "line": _line(report.steps[edge.source]),
                "cycle": report.steps[edge.source].cycle,
                "latency": edge.latency,
                "distance": edge.distance,
            }
            for edge in report.recurrence
        ],
        "tried": [{"ii": ii, "reason": reason} for ii, reason in report.tried],
        "slots": [{name: getattr(slot, name) for name in Slot.__dataclass_fields__} for slot in found.slots],
    }


def schedule_table(found: Explained, target: Target) -> Table:
    """A row for each cycle, a column for each unit that the loop uses; a colour for each iteration in flight."""
    report = found.report
    used = {slot.unit for slot in found.slots}
    units = [name for name in target.unit_members if name in used]
    where = f"line {report.loc.line}" if report.loc else report.label
    kind = "ii" if report.pipelined else "not pipelined: cycles an iteration"
    table = Table(title=f"{where}: {kind} = {report.ii}")
    table.add_column("cycle", justify="right")
    for name in units:
        table.add_column(name, overflow="fold")
    cells = {(slot.cycle, slot.unit): _cell(slot, report) for slot in found.slots}
    for cycle in range(found.length):
        row = (cells.get((cycle, name), Text()) for name in units)
        last = report.pipelined and (cycle + 1) % report.ii == 0 and cycle + 1 < found.length
        table.add_row(str(cycle), *row, end_section=last)
    return table


def notes(found: Explained, target: Target) -> Iterator[Text]:
    """The lines under the table: what the marks mean, what binds, and the critical recurrence step by step."""
    report = found.report
    if not report.pipelined:
        yield from (Text(f"ii = {ii} did not work: {reason}") for ii, reason in report.tried)
        return
    iterations = sorted({s.iteration for s in found.slots if s.iteration is not None}, reverse=True)
    legend = Text("iterations: ")
    for k, iteration in enumerate(iterations):
        legend.append(", " if k else "").append(_named(iteration), _colour(iteration))
    yield legend
    for what in binding(report, target):
        yield Text(_bound(what), "bold")
    if report.source_mii is not None:
        alone = f"arithmetic alone: {report.arithmetic_mii} cycles, {report.source_mii} as the statements were written"
        yield Text(alone)
    if report.recurrence:
        latency, distance = sum(e.latency for e in report.recurrence), sum(e.distance for e in report.recurrence)
        over = f"{distance} iterations" if distance > 1 else "each iteration"
        yield Text(f"critical recurrence ({CRITICAL}): {latency} cycles in {over}", "bold")
        for edge in report.recurrence:
            step, reader = report.steps[edge.source], report.steps[edge.target]
            later = f" of {_ahead(edge.distance)}" if edge.distance else ""
            to = f"{reader.instruction.mnemonic}{_at(reader)}{later}"
            yield Text(f"  cycle {step.cycle}: {step.instruction.mnemonic}{_at(step)}, {edge.latency} cycles to {to}")
    yield from (Text(f"ii = {ii} did not work: {reason}") for ii, reason in report.tried)


def _bound(what: dict[str, Any]) -> str:
    match what["kind"]:
        case "units":
            return f"bound by {', '.join(what['units'])}: work for {what['cycles']} cycles of each iteration"
        case "packets":
            return f"bound by the width of packets: {what['cycles']} cycles"
        case "recurrence":
            return f"bound by the critical recurrence: {what['cycles']} cycles"
        case "proof":
            return f"{what['cycles']} cycles, proven to be the least that there is"
    return f"over its bounds: {what['reason']}"


def _cell(slot: Slot, report: LoopReport) -> Text:
    text = f"{slot.predicate}{slot.mnemonic}{'' if slot.line is None else f' {slot.line}'}"
    if slot.iteration is None:
        return Text(text, "dim")
    several = report.stages > 1 or slot.iteration != 0
    text += f" {_named(slot.iteration)}" if several else ""
    return Text(text + (f" {CRITICAL}" if slot.critical else ""), _colour(slot.iteration))


def _named(iteration: int) -> str:
    return "i" if iteration == 0 else f"i{iteration:+d}"


def _colour(iteration: int) -> str:
    return _COLOURS[iteration % len(_COLOURS)]


def _ahead(distance: int) -> str:
    return "the next iteration" if distance == 1 else f"the iteration {distance} later"


def _line(step: Step) -> int | None:
    return step.loc.line if step.loc else None


def _at(step: Step) -> str:
    return f" of line {step.loc.line}" if step.loc else ""


def _condition(member: Placed, target: Target) -> str:
    return format_predicate(member.predicate, member.negated, target)


def _kernel(scheduled: Scheduled, label: str, delay: int) -> list[Packet | Nop]:
    """The lines from a loop's label through the delay slots of the branch back to it."""
    found: list[Packet | Nop] = []
    inside = False
    left: int | None = None
    for line in scheduled.lines:
        if isinstance(line, LabelLine):
            inside = inside or line.name == label
        if not inside or not isinstance(line, Packet | Nop):
            continue
        found.append(line)
        if left is not None:
            left -= line.cycles if isinstance(line, Nop) else 1
        elif isinstance(line, Packet) and any(_branches_to(m, label) for m in line.members):
            left = delay
        elif isinstance(line, Packet) and any(m.instruction.packet_end for m in line.members):
            left = 0  # a pipelined loop has no other within
        if left is not None and left <= 0:
            break
    return found


def _branches_to(member: Placed, label: str) -> bool:
    return member.instruction.branch and any(isinstance(o, str) and o.lstrip("@") == label for o in member.operands)
