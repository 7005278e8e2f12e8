"""A machine as code selection takes it: with words of 32 bits in its wider registers, and several of them in each lane.

Code selection knows registers of one 32-bit word, pairs of them for wider elements, and vectors of `lanes` elements. A
machine with wider registers keeps a 32-bit number in a register's low half, sign-extended where its upper bits count,
and computes on it by its wide rows: the low half of a sum, a product, a left shift or a bitwise result depends on the
low halves of the operands alone, and other results are right for operands that are extended. So each row on 64 bits
also stands for its reading on 32 bits, and is marked as `widened`; extending operands is the user's part.

Where lanes hold several words, there is a view for each number of them. In the one for a single word (or a whole lane)
all rows keep their lanes. In a packed view a vector has `packed` times as many lanes, and its rows are those that treat
all words of a lane alike: they are read as rows on lanes of the word's size. A predicate governs all words of a lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from dspgen.target.isa.model import Instruction, Operand, RegisterClass, SemExpr, SemStatement, Target
from plant_core.support.memoize import by_identity

_KEPT = 32  # machines
WORD = 32
# Operations whose low half depends on the low halves of all operands, or of the first (shifts by a number).
LOW_BITS = frozenset({"add", "sub", "mul", "mac", "msub", "nmac", "neg", "and", "or", "xor", "not", "mov", "shl"})
_EXTENDED = frozenset({"lt", "gt", "le", "ge", "eq", "ne", "ltu", "min", "max", "abs", "shr", "shru", "div", "mod"})
_COPIED = frozenset({"bcast", "lane", "dup_lane", "insert"})
_READ_AS_WORDS = LOW_BITS | _EXTENDED | _COPIED
# What is done on each word of a lane alone, whatever its type.
_WORDWISE = frozenset({"and", "or", "xor", "not", "mov"})


@partial(by_identity, kept=_KEPT)
def views(target: Target) -> tuple[Target, ...]:
    """The machine's views, the one with the fewest words in a lane first; of a machine of 32-bit words, itself."""
    scalar = target.register_class(target.abi.scalar_class)
    vector = _lane_class(target)
    if scalar.bits <= WORD and (vector is None or vector.bits <= WORD):
        return (target,)
    single = _viewed(target, 1, _words_of)
    packed = 1 if vector is None else vector.bits // WORD
    if packed < 2 or not any(_computes_on_words(row, target) for row in target.instructions):
        return (single,)
    return (single, _packed(target, packed))


def with_arguments(target: Target, wide: Sequence[bool]) -> Target:
    """The machine as it is to code that is a part of a function: where a call has registers for fewer arguments than
    these, which are of 64 bits or not, others take the rest."""
    abi = target.abi
    each = abi.wide_registers if any(wide) else 1
    lacking = each * len(wide) - len(abi.arguments)
    if lacking <= 0:
        return target
    paired = any(target.register_class(c).pair_of is not None for c in (abi.pointer_class, abi.wide_class))
    taken = {*abi.arguments, *abi.callee_saved, *abi.reserved, *abi.return_address.split(":"), abi.return_operand}
    names = target.register_class(abi.scalar_class).names
    step = 2 if paired else 1
    free = [names[k : k + each] for k in range(0, len(names), step) if not taken.intersection(names[k : k + step])]
    more = [name for found in reversed(free[-lacking // each :]) for name in found]
    return replace(target, abi=replace(abi, arguments=(*abi.arguments, *more)))


def _lane_class(target: Target) -> RegisterClass | None:
    return next((c for c in target.registers if c.kind == "vector" and c.pair_of is None), None)


def _computes_on_words(row: Instruction, target: Target) -> bool:
    """Whether a vector row computes on each float of wider lanes."""
    return any(
        s.value.type == "f32" and s.value.op not in ("bcast", "mov") and _is_vector(row, s, target)
        for s in row.semantics
    )


def _is_vector(row: Instruction, statement: SemStatement, target: Target) -> bool:
    """Whether the statement writes vectors, or stores them."""
    if statement.target is None:
        return statement.value.op in ("vst", "scatter")
    operand = next((o for o in row.operands if o.name == statement.target.name), None)
    if operand is None:
        return any(c.vector and statement.target.name in c.names for c in target.registers)
    classes = [target.register_class(c) for c in operand.classes]
    return any(c.kind == "vector" or c.vector for c in classes)


Reading = Callable[[Instruction, Target], Instruction]


def _viewed(target: Target, packed: int, read: Reading) -> Target:
    rows = tuple(read(row, target) for row in target.instructions)
    macros = tuple(m for m in target.macros if m.packed in (0, packed))
    rewrites = tuple(r for r in target.rewrites if r.packed in (0, packed))
    return replace(target, instructions=rows, macros=macros, rewrites=rewrites, packed=packed, machine=target)


# -- one word in a register


def _words_of(row: Instruction, target: Target) -> Instruction:
    """The row by its reading on words first, if it has one."""
    if not _wide_operands(row, target):
        return row
    read = tuple(_word_statement(s) for s in row.semantics)
    known = [s for s in read if s is not None]
    if len(known) < len(read) or tuple(known) == row.semantics:
        return row
    return replace(row, semantics=tuple(known), equivalents=(row.semantics, *row.equivalents), widened=True)


def _wide_operands(row: Instruction, target: Target) -> bool:
    """Whether the row computes on scalars or lanes of over 32 bits, and on nothing else."""
    if row.memory is not None:
        return False
    classes = [target.register_class(c) for o in row.operands for c in o.classes]
    if any(c.kind in ("address", "offset") for c in classes):
        return False
    return any(c.kind in ("scalar", "vector", "element") or c.vector for c in classes if c.bits > WORD)


def _word_statement(statement: SemStatement) -> SemStatement | None:
    value = _word_expression(statement.value)
    return None if value is None or statement.target is None else replace(statement, value=value)


def _word_expression(expr: SemExpr, *, outer: bool = True) -> SemExpr | None:
    """The expression on words; None where its low half depends on more, even for operands that are extended."""
    match expr.op:
        case "place" | "int":
            return expr
        case "sext" if expr.args[1].value == WORD:
            return _word_expression(expr.args[0], outer=outer)
        case "sext" | "zext":
            return expr if expr.args[0].op == "place" and expr.args[1].value < WORD else None
        case "set_high":
            return expr
        case op if expr.type == "i64" and op in _READ_AS_WORDS:
            args = [_word_expression(a, outer=False) for a in expr.args]
            known = tuple(a for a in args if a is not None)
            fits = op not in _EXTENDED or (outer and all(a.op in ("place", "int") for a in known))
            return replace(expr, type="i32", args=known) if len(known) == len(args) and fits else None
        case _:
            return None


# -- several words in a lane


def _packed(target: Target, packed: int) -> Target:
    """The view of `packed` words in each lane: `packed` times as many lanes of the word's size."""

    def read(row: Instruction, target: Target) -> Instruction:
        if not any(_touches_lanes(o, target) for o in row.operands) and not _writes_lanes(row, target):
            return _words_of(row, target)
        known = [s for s in (_packed_statement(s, packed) for s in row.semantics) if s is not None]
        if len(known) < len(row.semantics) or not all(_holds_lanes(o, target) for o in row.operands):
            return replace(row, compile=False)
        constant = tuple(_packed_immediate(o) if _is_constant(row) else o for o in row.operands)
        return replace(row, semantics=tuple(known), equivalents=(), operands=constant, widened=False)

    view = _viewed(target, packed, read)
    registers = tuple(_packed_class(c, target, packed) for c in target.registers)
    return replace(view, lanes=target.lanes * packed, registers=registers)


def _packed_class(cls: RegisterClass, target: Target, packed: int) -> RegisterClass:
    base = target.register_class(cls.pair_of) if cls.pair_of is not None else cls
    return replace(cls, bits=cls.bits // packed) if base.kind == "vector" or cls.vector else cls


def _holds_lanes(operand: Operand, target: Target) -> bool:
    """Whether the operand is whole vectors, or no register at all."""
    classes = [target.register_class(c) for c in operand.classes]
    return all(c.kind == "vector" or c.vector for c in classes)


def _touches_lanes(operand: Operand, target: Target) -> bool:
    for name in operand.classes:
        cls = target.register_class(name)
        base = target.register_class(cls.pair_of) if cls.pair_of is not None else cls
        if base.kind in ("vector", "element") or base.vector:
            return True
    return False


def _writes_lanes(row: Instruction, target: Target) -> bool:
    return any(_is_vector(row, s, target) for s in row.semantics)


def _is_constant(row: Instruction) -> bool:
    """Whether every lane gets the row's immediate."""
    return all(s.value.op in ("place", "sext", "zext") for s in row.semantics) and any(o.imm for o in row.operands)


def _packed_immediate(operand: Operand) -> Operand:
    """Only 0 and -1 are the same in each word of a lane as in the lane."""
    if operand.kind != "immediate" or operand.imm is None:
        return operand
    return replace(operand, imm=(max(operand.imm[0], -1), min(operand.imm[1], 0)), literal="")


def _packed_statement(statement: SemStatement, packed: int) -> SemStatement | None:
    value = _packed_expression(statement.value, packed)
    return None if value is None else replace(statement, value=value)


def _packed_expression(expr: SemExpr, packed: int) -> SemExpr | None:
    match expr.op:
        case "place":
            return expr
        case "sext":
            return expr if expr.args[0].op == "place" else None
        case "vld" | "vst" if expr.type == "i64" and expr.args[1].value == 1:
            memory, stride, first, *stored = expr.args
            return replace(expr, type="i32", args=(memory, stride, replace(first, value=first.value * packed), *stored))
        case "vld" | "vst" if expr.type == "i64":
            # Lanes apart: groups of `packed` words at a distance, of which the operation's last integer tells the size.
            memory, stride, first, *stored = expr.args
            apart = (replace(x, value=x.value * packed) for x in (stride, first))
            return replace(expr, type="i32", args=(memory, *apart, replace(stride, value=packed), *stored))
        case op if expr.type == "f32" or (expr.type == "i64" and op in _WORDWISE):
            args = [_packed_expression(a, packed) for a in expr.args]
            known = tuple(a for a in args if a is not None)
            kept = expr.type if expr.type == "f32" else "i32"
            across = op in ("bcast", "lane", "insert", "dup_lane", "align") or op.startswith(("reduce_", "all_"))
            return replace(expr, type=kept, args=known) if len(known) == len(args) and not across else None
        case _:
            return None
