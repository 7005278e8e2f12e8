"""Which instructions compute an operation: read off the semantics of the ISA file's rows, nothing else.

An instruction can be selected for an operation when its whole effect is that one operation over its operands:
`d = mac.f32(a, b, c)`, `d = ld.i32(m)`, or the two halves of a pair load or store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from dspgen.target.isa.model import Instruction, Operand, SemExpr, SemStatement, Target
from dspgen.vecdsl.ir.program import ELEM_BYTES, NARROW, WORDS
from plant_core.support.memoize import by_identity

_KEPT = 32  # machines
COMMUTATIVE = frozenset({"add", "mul", "and", "or", "xor", "min", "max", "eq", "ne"})
_BIT_ELEM = {"f32": "i32", "f64": "i64", "u32": "i32"}


def bits_elem(elem: str) -> str:
    """The integer type that moves the same bits."""
    return _BIT_ELEM.get(elem, elem)


def word_keys(elem: str) -> tuple[str, ...]:
    """The types under which rows that move an element's bits unchanged are found."""
    if elem in NARROW:
        return (elem,)
    return ("i64", "f64") if elem in ("i64", "f64") else ("i32",)


def bit_keys(elem: str) -> tuple[str, ...]:
    """The types under which rows that compute on an element's bits are found, one bit as another."""
    return (elem, "i32") if elem in NARROW else tuple(dict.fromkeys((elem, bits_elem(elem))))


@dataclass(frozen=True, slots=True)
class Form:
    """One instruction as one operation: `args[i]` names the operand of the operation's i-th argument."""

    instruction: Instruction
    result: str
    args: tuple[str, ...]
    # Of vector memory operations: stride and first element, for each half of a pair; of groups of lanes, how many too.
    shape: tuple[int, ...] = ()

    def operand(self, index: int) -> Operand:
        return self.instruction.operand(self.args[index])

    def takes(self, count: int, imm: tuple[int, ...]) -> bool:
        """Whether it has `count` arguments, and then operands that may be these compile-time integers."""
        limits = [self.operand(k).imm for k in range(count, len(self.args))]
        return len(limits) == len(imm) and all(
            x is not None and x[0] <= value <= x[1] for x, value in zip(limits, imm, strict=True)
        )

    @property
    def result_operand(self) -> Operand:
        return self.instruction.operand(self.result)

    @property
    def preference(self) -> tuple[int, int, int, str]:
        ins = self.instruction
        return (ins.latency, ins.busy, -len(ins.units), ins.id)


class OperationTable:
    """All `Form`s of a target by operation and type, such as `("mac", "f32")` and `("vld", "i32")`.

    What a row's `equivalents` say counts as what its semantics say: joined loads of words in two halves may be loads
    of 64-bit elements.

    Pair memory operations are under `vld_pair`, `vst_pair`, `ld_pair` and `st_pair`, by their element type; lane-pair
    broadcasts under `bcast_pair`.
    """

    def __init__(self, target: Target) -> None:
        self._forms = _forms_of(target.instructions)

    def forms(self, op: str, elem: str) -> list[Form]:
        return self._forms.get((op, elem), [])

    def twos(self, elem: str, *, store: bool) -> set[int]:
        """The distances of twos of elements that are accessed along with those beside each, as only packed views of a
        machine have them."""
        forms = self.forms("vst_pair" if store else "vld_pair", bits_elem(elem))
        return {f.shape[0] for f in forms if len(f.shape) == 6 and f.shape[2] == 2}

    def lanes(self, op: str, elem: str, stride: int) -> list[Form]:
        """The rows that load (`op` \"vld\") or store (\"vst\") elements `stride` apart on the lanes.

        Words at any narrow element are accessed by contiguous rows, of which one must be able to begin there.
        """
        if elem in WORDS:
            found = [f for f in self.forms(op, "i32") if f.shape == (1, 0)] if stride == WORDS[elem] else []
            return found if any(_align(f.instruction) <= ELEM_BYTES[elem] for f in found) else []
        return [f for f in self.forms(op, bits_elem(elem)) if f.shape == (stride, 0)]


@partial(by_identity, kept=_KEPT)
def _forms_of(instructions: tuple[Instruction, ...]) -> Mapping[tuple[str, str], list[Form]]:
    made: dict[tuple[str, str], list[Form]] = {}
    for instruction in instructions:
        for statements in (instruction.semantics, *instruction.equivalents) if instruction.compile else ():
            if (found := _form(instruction, statements)) is not None:
                key, form = found
                made.setdefault(key, []).append(form)
    for forms in made.values():
        forms.sort(key=lambda f: f.preference)
    return made


def _align(instruction: Instruction) -> int:
    return instruction.memory.align if instruction.memory is not None else 1


def _form(instruction: Instruction, statements: tuple[SemStatement, ...]) -> tuple[tuple[str, str], Form] | None:
    match statements:
        case (single,):
            return _single(instruction, single)
        case (first, second):
            return _double(instruction, first, second)
        case _:
            return None


def _single(instruction: Instruction, statement: SemStatement) -> tuple[tuple[str, str], Form] | None:
    value, target = statement.value, statement.target
    if value.op in ("st", "vst"):
        *address, stored = value.args
        if value.op == "st" and len(address) > 1:
            return None
        if not _plain(stored) or not _plain(address[0]):
            return None
        shape = tuple(a.value for a in address[1:])
        return (value.op, value.type), Form(instruction, "", (address[0].name, stored.name), shape)
    if value.op == "scatter":
        if not all(map(_plain, value.args)):
            return None
        return (value.op, value.type), Form(instruction, "", tuple(a.name for a in value.args))
    if target is None or not _plain(target) or not _is_operand(instruction, target.name):
        return None
    if value.op == "ld" and len(value.args) > 1:
        return None
    if value.op in ("ld", "vld"):
        shape = tuple(a.value for a in value.args[1:])
        return (value.op, value.type), Form(instruction, target.name, (value.args[0].name,), shape)
    if value.op == "place":
        if value.part or not _is_operand(instruction, value.name):
            return None
        return ("mov", "i32"), Form(instruction, target.name, (value.name,))
    if value.op == "int" or not all(_plain(a) and _is_operand(instruction, a.name) for a in value.args):
        return None
    names = tuple(a.name for a in value.args)
    if len(set(names)) != len(names):
        return None
    return (value.op, value.type), Form(instruction, target.name, names)


def _double(instruction: Instruction, first: SemStatement, second: SemStatement) -> tuple[tuple[str, str], Form] | None:
    low, high = first.value, second.value
    if low.op != high.op or low.type != high.type:
        return None
    if low.op in ("ld", "st") and not _neighbours(low, high):
        return None
    if low.op in ("st", "vst"):
        stored_low, stored_high = low.args[-1], high.args[-1]
        if stored_low.name != stored_high.name or (stored_low.part, stored_high.part) != ("lo", "hi"):
            return None
        shape = () if low.op == "st" else tuple(a.value for s in (low, high) for a in s.args[1:-1])
        return (f"{low.op}_pair", low.type), Form(instruction, "", (low.args[0].name, stored_low.name), shape)
    if first.target is None or second.target is None or first.target.name != second.target.name:
        return None
    if (first.target.part, second.target.part) != ("lo", "hi"):
        return None
    if low.op in ("ld", "vld"):
        shape = () if low.op == "ld" else tuple(a.value for s in (low, high) for a in s.args[1:])
        return (f"{low.op}_pair", low.type), Form(instruction, first.target.name, (low.args[0].name,), shape)
    if low.op == "bcast" and low.args[0].name == high.args[0].name:
        if (low.args[0].part, high.args[0].part) == ("lo", "hi"):
            return ("bcast_pair", low.type), Form(instruction, first.target.name, (low.args[0].name,))
    return None


def _neighbours(low: SemExpr, high: SemExpr) -> bool:
    """Whether the second of two scalar accesses is to the element after the first's."""
    first, second = (e.args[1:] if e.op == "ld" else e.args[1:-1] for e in (low, high))
    return [a.value for a in first] in ([], [0]) and [a.value for a in second] == [1]


def _plain(expr: SemExpr) -> bool:
    return expr.op == "place" and not expr.part


def _is_operand(instruction: Instruction, name: str) -> bool:
    return any(o.name == name for o in instruction.operands)
