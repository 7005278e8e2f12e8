"""Single lanes of a vector through the machine's scalar view of one: extraction, and reductions as a scalar tree.

Used where the ISA file has neither an instruction nor a macro for the operation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dspgen.asmir.ir import OperandValue, Phys, Reg
from dspgen.target.model import RegisterClass
from dspgen.target.operations import Form
from dspgen.vecdsl.ir import Op, Term, Var, VType

if TYPE_CHECKING:
    from dspgen.asmir.emitter import Emitter

_TREE = {"reduce_add": "add", "reduce_min": "min", "reduce_max": "max"}


def lower_lanes(emitter: Emitter, term: Op, into: Reg | None) -> Reg | None:
    """`lane` and `reduce_*` by way of element registers; None for other operations or where there are none."""
    if term.name != "lane" and term.name not in _TREE:
        return None
    elements = next((c for c in emitter.target.registers if c.kind == "element"), None)
    if elements is None or elements.element_of is None:
        return None
    view = emitter.target.register_class(elements.element_of)
    vector = emitter.lower(term.args[0])
    write = _move(emitter, emitter.part_class(vector), view)
    read = _move(emitter, elements, emitter.classes.of_type(term.type))
    if write is None or read is None:
        return None
    emitter.emit(write, _operands(write, Phys(view.names[0]), vector))
    if term.name == "lane":
        return _element(emitter, read, elements, term.imm[0], into)
    leaves = [_element(emitter, read, elements, k, None) for k in range(emitter.target.lanes)]
    return _tree(emitter, leaves, _TREE[term.name], term.type, into)


def _element(emitter: Emitter, read: Form, elements: RegisterClass, lane: int, into: Reg | None) -> Reg:
    destination = into or Reg(emitter.fresh(emitter.classes.scalar.name))
    emitter.emit(read, _operands(read, destination, Phys(elements.names[lane])))
    return destination


def _tree(emitter: Emitter, leaves: list[Reg], op: str, type: VType, into: Reg | None) -> Reg:
    """Pairwise, so that the depth is logarithmic."""
    while len(leaves) > 1:
        paired: list[Reg] = []
        for index in range(0, len(leaves) - 1, 2):
            names = [f"leaf.{leaves[index + k].vreg.name}" for k in range(2)]
            for k, name in enumerate(names):
                emitter.names[name] = leaves[index + k]
            args: tuple[Term, ...] = tuple(Var(name, type) for name in names)
            last = len(leaves) == 2
            paired.append(emitter.lower(Op(op, args, type), into if last else None))
        leaves = paired + leaves[len(leaves) & ~1 :]
    return leaves[0]


def _move(emitter: Emitter, source: RegisterClass | str, destination: RegisterClass | str) -> Form | None:
    source_name = source if isinstance(source, str) else source.name
    destination_name = destination if isinstance(destination, str) else destination.name
    for form in emitter.table.forms("mov", "i32"):
        if source_name in form.operand(0).classes and destination_name in form.result_operand.classes:
            return form
    return None


def _operands(form: Form, result: OperandValue, source: OperandValue) -> dict[str, OperandValue]:
    return {form.result: result, form.args[0]: source}
