"""Prints scheduled code as assembly text, in the syntax that the ISA file gives."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from dspgen.sched.ir.packets import Address, CommentLine, LabelLine, Nop, Packet, Placed
from dspgen.target.isa.model import Operand, Target

_MODES = {
    "plus": "*+{base}[{offset}]",
    "minus": "*-{base}[{offset}]",
    "post_inc": "*{base}++[{offset}]",
    "post_dec": "*{base}--[{offset}]",
    "pre_inc": "*++{base}[{offset}]",
    "pre_dec": "*--{base}[{offset}]",
}
_INDENT = 8


def print_lines(lines: Iterable[LabelLine | CommentLine | Packet | Nop], target: Target) -> str:
    """Assembly text of `lines`, one instruction a line, with a newline at its end."""
    out: list[str] = []
    for line in lines:
        match line:
            case LabelLine(name):
                out.append(target.text.label.replace("{name}", name))
            case CommentLine(text):
                out += [f"{target.text.comment} {part}".rstrip() for part in text.split("\n")]
            case Nop(cycles):
                out += _print_nop(cycles, target)
            case Packet(()):
                out += _print_nop(1, target)
            case Packet(members):
                out += _print_packet(members, target)
    return "".join(line + "\n" for line in out)


def nop_mnemonic(target: Target) -> str:
    """The no-operation's word, without its operand."""
    return target.text.nop.split()[0] if target.text.nop.split() else ""


def _print_nop(cycles: int, target: Target) -> list[str]:
    out: list[str] = []
    while nop_mnemonic(target) and cycles > 0:
        step = min(cycles, max(target.text.nop_max, 1))
        text = nop_mnemonic(target) + (f" {step}" if target.text.nop_max > 1 else "")
        out.append(" " * _INDENT + text)
        cycles -= step
    return out


def _print_packet(members: Sequence[Placed], target: Target) -> list[str]:
    inside = [m for m in members if not m.instruction.packet_end]
    lines = [_print_member(m, i > 0, target) for i, m in enumerate(inside)] or _print_nop(1, target)
    syntax = target.text
    if not syntax.packet_open:
        return lines
    margin = " " * (_INDENT // 2)
    ends = "".join(m.instruction.text for m in members if m.instruction.packet_end)
    return [margin + syntax.packet_open, *lines, margin + syntax.packet_close + ends]


def _print_member(placed: Placed, joined: bool, target: Target) -> str:
    bar = target.text.parallel if joined and not target.text.packet_open else ""
    if placed.instruction.text:
        return _commented(" " * _INDENT + bar + _filled(placed, target), placed, target)
    predicate = format_predicate(placed.predicate, placed.negated, target)
    head = (bar + " " * (_INDENT - len(bar)) if len(bar) < _INDENT else bar + " ") + predicate
    suffix = dict(placed.instruction.suffixes).get(placed.unit, "")
    if suffix and not suffix.startswith("."):
        suffix = "." + suffix
    operands = ", ".join(
        format_operand(v, o, target) for v, o in zip(placed.operands, placed.instruction.operands, strict=True)
    )
    return _commented(f"{head}{placed.instruction.mnemonic}{suffix} {operands}".rstrip(), placed, target)


def _commented(text: str, placed: Placed, target: Target) -> str:
    return f"{text}  {target.text.comment} {placed.comment}" if placed.comment else text


def _filled(placed: Placed, target: Target) -> str:
    """The instruction by its own template."""
    row = placed.instruction
    own = row.text_unless if placed.negated else row.text_if
    template, head = row.text, ""
    values = {o.name: _written(v, o, placed, target) for v, o in zip(placed.operands, row.operands, strict=True)}
    if placed.predicate is not None and own:
        template, values["predicate"] = own, placed.predicate
    else:
        head = format_predicate(placed.predicate, placed.negated, target)
    return head + re.sub(r"\{(\w+)\}", lambda found: values[found[1]], template)


def _written(value: str | int | Address, operand: Operand, placed: Placed, target: Target) -> str:
    """One operand in a template; a place in memory is signed, in the units of the text."""
    memory = placed.instruction.memory
    if not isinstance(value, Address) or memory is None or not target.text.address:
        return format_operand(value, operand, target)
    offset = value.offset
    if isinstance(offset, int):
        sign = -1 if value.mode in ("minus", "post_dec", "pre_dec") else 1
        offset = sign * offset * memory.scale // memory.text_unit
    template = target.text.address_update if value.mode in ("post_inc", "post_dec") else target.text.address
    return template.format(base=value.base, offset=offset)


def format_predicate(register: str | None, negated: bool, target: Target) -> str:
    """The predicate with a blank after it, or nothing."""
    if register is None:
        return ""
    template = target.predicates.negated if negated else target.predicates.text
    return template.replace("{r}", register) + " "


def format_operand(value: str | int | Address, operand: Operand, target: Target) -> str:
    """One operand as text; `operand` tells how its literals and pairs are written."""
    match value:
        case Address(base, mode, offset):
            return f"*{base}" if mode == "none" else _MODES[mode].format(base=base, offset=offset)
        case int():
            return f"0x{value & 0xFFFF:04X}" if operand.literal == "high_half" else str(value)
        case str() if value.startswith("@"):
            return value[1:]
        case _:
            return _low_name(value, operand, target) if operand.pair_text == "low" else value


def _low_name(name: str, operand: Operand, target: Target) -> str:
    for class_name in operand.classes:
        cls = target.register_class(class_name)
        if cls.pair_of is not None and name in cls.names:
            return target.register_class(cls.pair_of).names[2 * cls.names.index(name)]
    return name
