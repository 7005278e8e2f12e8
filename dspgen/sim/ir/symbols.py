"""What symbols and literals in operands stand for."""

from __future__ import annotations

from dspgen.target.isa.model import Operand


def signed(value: int, width: int) -> int:
    """The number that the low `width` bits stand for, the highest of them being the sign."""
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def split_symbol(text: str) -> tuple[str, int]:
    """'@name+4' -> ('name', 4)."""
    body = text[1:]
    for sign in "+-":
        head, found, tail = body.rpartition(sign)
        if found and head and tail.isdigit():
            return head, int(sign + tail)
    return body, 0


def literal_value(operand: Operand, value: int, *, hexadecimal: bool) -> int:
    """What the text's number means, by the operand's own rule for literals."""
    match operand.literal:
        case "low_half":
            return signed(value, 16) if operand.imm is None or operand.imm[0] < 0 else value & 0xFFFF
        case "high_half":
            return value if hexadecimal and 0 <= value <= 0xFFFF else (value >> 16) & 0xFFFF
        case _:
            return value


def symbol_value(operand: Operand, address: int) -> int:
    """The bits of a symbol's address that the operand takes."""
    if operand.symbol_bits is None:
        return address
    high, low = operand.symbol_bits
    return (address >> low) & ((1 << (high - low + 1)) - 1)
