"""Whether the simulator can run each row of an ISA file.

Codes: DG193 semantics that it can't run.
"""

from __future__ import annotations

from collections.abc import Iterator

from dspgen.errors import IsaError
from dspgen.sim.ir.program import Node, Op
from dspgen.sim.ir.registers import RegisterFile
from dspgen.sim.lowering.lower_instructions import CROSS_IMM, Lowering
from dspgen.sim.text.samples import LABEL, placed
from dspgen.target.isa.model import Target
from dspgen.target.schema.structure import Fault

# Operations whose first argument must be a vector; and those whose last one must be a scalar.
_OF_LANES = {*CROSS_IMM, "even", "odd", "zip_lo", "zip_hi", "reverse", "rotate", "slide", "view", "reduce_add"}
_OF_LANES |= {"reduce_min", "reduce_max", "reduce_mul", "reduce_and", "reduce_or", "reduce_xor"}
_BY_SCALARS = ("insert", "rotate", "slide", "splat")


def unrunnable(target: Target) -> list[Fault]:
    """The rows that it can't run, each with the reason."""
    try:
        registers = RegisterFile(target)
    except IsaError as error:
        return [Fault(p.code, ("registers",), p.message, p.remedy, at_key=True) for p in error.problems]
    mask = registers.cell_of(target.mask_register) if target.mask_register else None
    found: list[Fault] = []
    for row in target.instructions:
        path = ("instructions", row.id, "semantics")
        try:
            op = Lowering(placed(row, target, 0), target, registers, {LABEL: 0}, {LABEL: 0}, LABEL).op(0, mask)
        except IsaError as error:
            told = f"instruction {row.id}: "
            found += [Fault(p.code, path, p.message.removeprefix(told), p.remedy) for p in error.problems]
            continue
        if (why := next((why for node in _nodes(op) if (why := _misused(node))), "")) != "":
            found.append(Fault("DG193", path, why))
    return found


def _nodes(op: Op) -> Iterator[Node]:
    """All that it computes."""
    left = [*(w.value for w in op.writes), *(s.value for s in op.stores), *(s.index for s in op.stores if s.index)]
    left += [node for node in (op.condition, op.branch) if isinstance(node, Node)]
    while left:
        node = left.pop()
        yield node
        left += node.args


def _misused(node: Node) -> str:
    """What is wrong with the operation's arguments, if anything is."""
    if node.op in _OF_LANES and not node.args[0].lanes:
        return f"`{node.op}` is of a vector's lanes, but is given a scalar"
    if node.op in _BY_SCALARS and node.args[-1].lanes:
        return f"the last argument of `{node.op}` is a scalar, but is given a vector"
    if node.op in ("lo", "hi") and node.lanes != node.args[0].lanes:
        return "a pair of scalars is needed, but a vector is given"
    return ""
